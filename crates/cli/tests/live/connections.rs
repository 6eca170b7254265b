//! TCP connections of programs under `nearwire run` that are adopted from the kernel: what becomes of them when programs, the agent or the
//! link end.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nearwire_lab::{Cable, program_under_test};

use crate::by_agent::{kill, running_agent, start_agent_for_nobody, status_of, wait_until};
use crate::common::accelerated::{Bed, Running};

/// Accepts a connection, and gives everything back.
pub(crate) const ECHO: &str = "
made = socket.socket(); made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); made.bind((near, 7000)); made.listen()
print('step', flush=True)
one, _ = made.accept()
while True:
    data = one.recv(65536)
    if not data: break
    one.sendall(data)
print('ended', flush=True)
";
pub(crate) const EAGER: (&str, &str) = ("NEARWIRE_ADOPT", "eager");

pub(crate) struct Echo {
    pub(crate) program: Running,
    far: TcpStream,
}

/// A server at the near end, and its client at the far end, who have exchanged something.
pub(crate) fn echo(bed: &Bed, mut program: Running) -> Echo {
    program.step();
    let end = bed.cable.far();
    let address = (bed.cable.near().ipv4, 7000);
    echo_over(program, end.namespace.enter(|| TcpStream::connect(address)).unwrap().unwrap())
}

/// The same over a connection that there is.
pub(crate) fn echo_over(program: Running, far: TcpStream) -> Echo {
    far.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut echo = Echo { program, far };
    (0..5).for_each(|number| echo.exchanges(number));
    echo
}

impl Echo {
    #[track_caller]
    pub(crate) fn exchanges(&mut self, number: u8) {
        let mut answer = [0; 100];
        self.far.write_all(&[number; 100]).unwrap();
        self.far.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [number; 100]);
    }

    pub(crate) fn connections(&self) -> [u64; 2] {
        let shown = status_of(&self.program.pid());
        ["connections_adopted", "connections_released"]
            .map(|counter| shown["counters"][counter].as_u64().unwrap_or_else(|| panic!("{shown:#}")))
    }
}

pub(crate) fn by_agent(bed: &Bed) -> Running {
    bed.run_as_with(bed.cable.near(), 0, ECHO, &[EAGER])
}

fn set_link(bed: &Bed, state: &str) {
    let near = bed.cable.near();
    let set = || Command::new("ip").args(["link", "set", &near.interface, state]).status();
    assert!(near.namespace.enter(set).unwrap().unwrap().success());
}

#[test]
fn program_killed_with_an_adopted_connection_has_its_far_end_reset() {
    let Some(bed) = Bed::lay() else { return };
    let mut echo = echo(&bed, by_agent(&bed));
    assert_eq!(echo.connections(), [1, 0]);
    let pid = echo.program.pid().parse().unwrap();
    let begun = Instant::now();
    kill(pid);
    let ended = echo.far.read(&mut [0; 10]).unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::ConnectionReset, "{ended}");
    assert!(begun.elapsed() < Duration::from_secs(2), "after {:?}", begun.elapsed());
}

#[test]
fn program_that_ends_by_itself_closes_its_adopted_connection() {
    let Some(bed) = Bed::lay() else { return };
    let Echo { program, mut far } = echo(&bed, by_agent(&bed));
    far.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    assert_eq!(far.read_to_end(&mut rest).unwrap(), 0);
    let output = program.end();
    assert!(String::from_utf8_lossy(&output.stdout).contains("ended"), "{output:?}");
}

/// The near end's server, which sets an option of its listener, and the far end's client, both by Python.
fn exchange_with_option_of_listener(bed: &Bed, option: &str, of_client: &str) -> serde_json::Value {
    let near = bed.cable.near();
    let server = ECHO.replace("made.bind(", &format!("{option}; made.bind("));
    let mut server = bed.run_as_with(near, 0, &format!("import ctypes, struct\n{server}"), &[EAGER]);
    server.step();
    let client = format!(
        "
import struct
made = socket.socket(); made.settimeout(5); {of_client}
made.connect(('{}', 7000))
for number in range(30):
    made.sendall(bytes([number]) * 100)
    assert made.recv(100, socket.MSG_WAITALL) == bytes([number]) * 100
print('step', flush=True)
sys.stdin.readline()
",
        near.ipv4
    );
    let mut client = bed.start_plain_at(bed.cable.far(), &client);
    client.step();
    status_of(&server.pid())
}

/// TCP_MD5SIG for an address (RFC 2385, `struct tcp_md5sig`).
fn signed(of: &str, address: std::net::Ipv4Addr) -> String {
    format!(
        "{of}.setsockopt(6, 14, struct.pack('HH4s120xBBHi80s', 2, 0, socket.inet_aton('{address}'), 0, 0, 3, 0, b'key'))"
    )
}

#[test]
fn connection_whose_segments_are_signed_is_the_kernels() {
    let Some(bed) = Bed::lay() else { return };
    let (near, far) = (bed.cable.near().ipv4, bed.cable.far().ipv4);
    let shown = exchange_with_option_of_listener(&bed, &signed("made", far), &signed("made", near));
    assert!(shown["counters"]["connections_adopted"].as_u64().is_none_or(|count| count == 0), "{shown:#}");
}

#[test]
fn connection_with_a_packet_filter_is_the_kernels() {
    let Some(bed) = Bed::lay() else { return };
    // One instruction, which lets all pass.
    let filter = "filter = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 65535)); \
                  made.setsockopt(1, 26, struct.pack('HxxxxxxP', 1, ctypes.addressof(filter)))";
    let shown = exchange_with_option_of_listener(&bed, filter, "pass");
    assert!(shown["counters"]["connections_adopted"].as_u64().is_none_or(|count| count == 0), "{shown:#}");
    assert!(shown.to_string().contains("BPF filter"), "{shown:#}");
}

#[test]
fn connection_whose_program_clamps_its_window_is_the_kernels() {
    let Some(bed) = Bed::lay() else { return };
    let shown = exchange_with_option_of_listener(&bed, "made.setsockopt(6, 10, 8000)", "pass");
    assert!(shown["counters"]["connections_adopted"].as_u64().is_none_or(|count| count == 0), "{shown:#}");
}

/// Runs `nft` or `ip` at the near end.
pub(crate) fn at_near_end(bed: &Bed, program: &str, arguments: &[&str]) {
    let run = || Command::new(program).args(arguments).output();
    let output = bed.cable.near().namespace.enter(run).unwrap().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

/// Exchanges so much that connection tracking, had it seen the beginning alone, would call what follows invalid.
pub(crate) fn exchange_much(echo: &mut Echo) {
    let sent = vec![7; 60_000];
    let mut answer = vec![0; sent.len()];
    for _ in 0..50 {
        echo.far.write_all(&sent).unwrap();
        echo.far.read_exact(&mut answer).unwrap();
        assert!(answer == sent);
    }
}

#[test]
fn firewall_that_follows_connections_lets_the_end_of_an_adopted_one_pass() {
    let Some(bed) = Bed::lay() else { return };
    let rules = "table inet f { chain in { type filter hook input priority 0; policy drop; iif lo accept; \
                 meta l4proto ipv6-icmp accept; ct state established accept; ct state invalid counter drop; \
                 tcp dport 7000 tcp flags syn / fin,syn,rst,ack accept; counter drop; }; }";
    at_near_end(&bed, "nft", &[rules]);
    let mut echo = echo(&bed, by_agent(&bed));
    assert_eq!(echo.connections(), [1, 0]);
    exchange_much(&mut echo);
    let Echo { program, mut far } = echo;
    far.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(far.read(&mut [0; 10]).unwrap(), 0, "the near end hears of the far end's end, and ends too");
    assert!(String::from_utf8_lossy(&program.end().stdout).contains("ended"));
}

#[test]
fn connection_whose_addresses_are_translated_is_the_kernels() {
    let Some(bed) = Bed::lay() else { return };
    let rules = "table ip n { chain p { type nat hook prerouting priority -100; tcp dport 7001 redirect to :7000; }; }";
    at_near_end(&bed, "nft", &[rules]);
    let mut program = by_agent(&bed);
    program.step();
    let address = (bed.cable.near().ipv4, 7001);
    let far = bed.cable.far().namespace.enter(|| TcpStream::connect(address)).unwrap().unwrap();
    far.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut echo = Echo { program, far };
    exchange_much(&mut echo);
    let shown = status_of(&echo.program.pid());
    assert!(shown.to_string().contains("NAT"), "{shown:#}");
    assert_eq!(echo.connections(), [0, 0], "{shown:#}");
}

#[test]
fn connection_that_ipsec_is_for_is_the_kernels() {
    let Some(bed) = Bed::lay() else { return };
    let (near, far) = (bed.cable.near().ipv4.to_string(), bed.cable.far().ipv4.to_string());
    let add = |to: &str| {
        let mut policy = vec!["xfrm", "policy", "add", "dir", "out", "src", &near, "dst", to];
        // `use`: without an association what is sent passes as it is.
        policy.extend("tmpl src 0.0.0.0 dst 0.0.0.0 proto esp mode transport level use".split(' '));
        at_near_end(&bed, "ip", &policy);
    };
    add("192.0.2.7");
    let mut other = echo(&bed, by_agent(&bed));
    exchange_much(&mut other);
    assert_eq!(other.connections(), [1, 0], "the policy is for other addresses");
    drop(other);
    add(&far);
    let mut echo = echo(&bed, by_agent(&bed));
    exchange_much(&mut echo);
    let shown = status_of(&echo.program.pid());
    assert!(shown.to_string().contains("IPsec"), "{shown:#}");
    assert_eq!(echo.connections(), [0, 0], "{shown:#}");
}

#[test]
fn agent_killed_the_kernel_goes_on_with_adopted_connections() {
    let Some(bed) = Bed::lay() else { return };
    let mut echo = echo(&bed, by_agent(&bed));
    assert_eq!(echo.connections()[0], 1);
    kill(running_agent(&bed).unwrap());
    let mut number = 0;
    wait_until("the connection is the kernel's", || {
        echo.exchanges(number);
        number = number.wrapping_add(1);
        echo.connections()[1] == 1
    });
    (0..50).for_each(|number| echo.exchanges(number));
}

#[test]
fn link_down_and_up_adopted_connections_go_on() {
    let Some(bed) = Bed::lay() else { return };
    let mut echo = echo(&bed, by_agent(&bed));
    assert_eq!(echo.connections()[0], 1);
    set_link(&bed, "down");
    echo.far.write_all(&[7; 100]).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    set_link(&bed, "up");
    let mut answer = [0; 100];
    echo.far.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [7; 100]);
    (0..20).for_each(|number| echo.exchanges(number));
}

/// While the kernel sent a window probe of a connection that was given back to be ended, the connection was without `SO_REUSEADDR`: a server that was killed in
/// these microseconds left one that kept the next server from its port for a minute (8 of 100 killed while 50 clients left).
#[test]
fn connection_that_the_far_end_ends_is_given_back_without_a_probe() {
    const FAR: &str = "
import struct
watch = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)); watch.settimeout(0.3)
made = socket.create_connection((near, 7000)); made.settimeout(5)
for number in range(10):
    made.sendall(bytes([number]) * 100)
    assert made.recv(100, socket.MSG_WAITALL) == bytes([number]) * 100
made.shutdown(socket.SHUT_WR)
assert made.recv(10) == b''
numbers = []
try:
    while True:
        packet = watch.recv(2000)
        ports, number = struct.unpack('>II', packet[20:28])
        if packet[9] == 6 and packet[12:16] == socket.inet_aton(near): numbers.append(number)
except TimeoutError: pass
assert len(numbers) > 10 and numbers == sorted(numbers, key=lambda number: (number - numbers[0]) % 2**32), numbers
";
    let Some(bed) = Bed::lay() else { return };
    let server = format!("{ECHO}one.close(); sys.stdin.readline()\n");
    let mut server = bed.run_as_with(bed.cable.near(), 0, &server, &[EAGER]);
    server.step();
    let ended = bed.start_plain_at(bed.cable.far(), FAR).end();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let counters = status_of(&server.pid())["counters"].clone();
    assert_eq!((&counters["connections_adopted"], &counters["connections_released"]), (&1.into(), &1.into()));
}

#[test]
fn program_without_capabilities_has_its_connections_adopted_by_the_agents_help() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let program = bed.run_as_with(bed.cable.near(), 65_534, ECHO, &[EAGER]);
    let mut echo = echo(&bed, program);
    assert_eq!(echo.connections(), [1, 0]);
    (0..20).for_each(|number| echo.exchanges(number));
    let begun = Instant::now();
    echo.far.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(echo.far.read(&mut [0; 10]).unwrap(), 0);
    assert!(
        begun.elapsed() < Duration::from_millis(150),
        "the end came by the far end's second try: {:?}",
        begun.elapsed()
    );
}

#[test]
fn program_without_capabilities_whose_agent_is_killed_goes_on_by_the_next() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let mut echo = echo(&bed, bed.run_as_with(bed.cable.near(), 65_534, ECHO, &[EAGER]));
    assert_eq!(echo.connections(), [1, 0]);
    kill(running_agent(&bed).unwrap());
    echo.far.write_all(&[7; 100]).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    start_agent_for_nobody(&bed);
    let mut answer = [0; 100];
    echo.far.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [7; 100]);
    (0..50).for_each(|number| echo.exchanges(number));
}

/// The far end learns of it: it would wait for ever else.
#[test]
fn program_without_capabilities_whose_agent_is_killed_and_none_comes_ends_its_connections() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let mut echo = echo(&bed, bed.run_as_with(bed.cable.near(), 65_534, ECHO, &[EAGER]));
    assert_eq!(echo.connections(), [1, 0]);
    kill(running_agent(&bed).unwrap());
    let killed = Instant::now();
    while echo.far.write_all(&[7; 100]).is_ok() {
        assert!(killed.elapsed() < Duration::from_secs(9), "nobody told the far end");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(killed.elapsed() > Duration::from_secs(4), "{:?}", killed.elapsed());
}

#[test]
fn connection_without_an_agent_says_that_it_lacks_one() {
    let Some(bed) = Bed::lay() else { return };
    let mut echo = echo(&bed, bed.run_as_with(bed.cable.near(), 0, ECHO, &[EAGER, ("NEARWIRE_AGENT", "off")]));
    (0..5).for_each(|number| echo.exchanges(number));
    let shown = status_of(&echo.program.pid());
    let sockets = shown["sockets"].as_array().unwrap();
    let connection = sockets.iter().find(|socket| !socket["remote"].is_null()).unwrap_or_else(|| panic!("{shown:#}"));
    assert!(connection.to_string().contains("no agent has the interface"), "{shown:#}");
    assert_eq!(shown["engine"]["state"], "Running", "{shown:#}");
}

/// Its far end does not answer any more, and the program says how long it waits for that. All that follows is asked of both ways.
#[test]
fn connection_that_was_given_up_answers_like_the_kernels() {
    const GIVEN_UP: &str = "
import errno, select, signal
def call(what):
    try: return repr(what())
    except OSError as error: return errno.errorcode[error.errno]
made = socket.socket(); made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); made.bind((near, 7000)); made.listen()
print('step', flush=True)
ways = [
    ('received', lambda one: one.recv(10)),
    ('sent', lambda one: one.send(b'x')),
    ('error', lambda one: one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)),
    ('shut', lambda one: one.shutdown(socket.SHUT_WR)),
    ('urgent', lambda one: one.recv(1, socket.MSG_OOB)),
    ('peer', lambda one: one.getpeername()),
    ('reuses', lambda one: one.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)),
]
signals = []
signal.signal(signal.SIGPIPE, lambda number, frame: signals.append(number))
ones = []
for name, first in ways[:3]:
    one, _ = made.accept()
    one.setsockopt(socket.IPPROTO_TCP, 18, 400)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    for _ in range(5):
        data = b''
        while len(data) < 100: data += one.recv(100 - len(data))
        one.sendall(data)
    ones.append((name, first, one))
print('step', flush=True)
input()
for unread, (name, first, one) in enumerate(ones):
    one.send(b'is anybody there')
for unread, (name, first, one) in enumerate(ones):
    events = select.poll(); events.register(one, select.POLLERR)
    came = events.poll(20000)
    print(name, 'poll', [event for _, event in came])
    events.modify(one, select.POLLIN | select.POLLOUT | select.POLLRDHUP)
    print(name, 'poll', [event for _, event in events.poll(0)])
    print(name, 'first', call(lambda: first(one)))
    print(name, 'poll', [event for _, event in events.poll(0)])
    for other, way in ways + ways:
        print(name, other, call(lambda: way(one)), len(signals))
    print(name, 'poll', [event for _, event in events.poll(0)])
print('ended', flush=True)
";
    let Some(bed) = Bed::lay() else { return };
    let said = |is_accelerated: bool, unread: &[u8]| {
        let mut program = match is_accelerated {
            true => bed.run_as_with(bed.cable.near(), 0, GIVEN_UP, &[EAGER]),
            false => bed.start_plain(GIVEN_UP),
        };
        program.step();
        let (far, near) = (bed.cable.far(), bed.cable.near());
        let mut others = Vec::new();
        for _ in 0..3 {
            let mut other = far.namespace.enter(|| TcpStream::connect((near.ipv4, 7000))).unwrap().unwrap();
            for number in 0..5 {
                other.write_all(&[number; 100]).unwrap();
                other.read_exact(&mut [0; 100]).unwrap();
            }
            others.push(other);
        }
        program.step();
        if is_accelerated {
            let shown = status_of(&program.pid());
            let carried = shown["sockets"].as_array().unwrap().iter().filter(|socket| socket["accelerated"] == true);
            assert_eq!(carried.count(), 3, "{shown:#}");
        }
        others.iter_mut().for_each(|other| other.write_all(unread).unwrap());
        let address = |what: &str| {
            let all = format!("{}/24", far.ipv4);
            let change = || Command::new("ip").args(["address", what, &all, "dev", &far.interface]).status();
            assert!(far.namespace.enter(change).unwrap().unwrap().success());
        };
        address("del");
        program.say("");
        let output = program.end();
        address("add");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("ended"), "{output:?}");
        said
    };
    for unread in [&b""[..], b"what waits"] {
        assert_eq!(said(true, unread), said(false, unread));
    }
}

/// Its thread has the CPU with others, so what is best is tried out: the connection is the kernel's for a time and the stack's again.
#[test]
fn connection_whose_cpu_others_want_is_lent_to_the_kernel_and_taken_back_and_loses_nothing() {
    /// The least time after which the kernel at the far end sends a segment again.
    const SENT_AGAIN_AFTER: Duration = Duration::from_millis(195);
    const PINNED: &str = "import os; os.sched_setaffinity(0, {0})";
    let Some(bed) = Bed::lay() else { return };
    let neighbour = program_under_test("taskset").args(["-c", "0", "yes"]).stdout(Stdio::null()).spawn().unwrap();
    let _neighbour = Ends(neighbour);
    let program =
        bed.run_as_with(bed.cable.near(), 0, &format!("{PINNED}\n{ECHO}"), &[EAGER, ("NEARWIRE_SPIN", "auto")]);
    let mut echo = echo(&bed, program);
    let (mut number, mut slow) = (0, 0);
    let mut lent = 0;
    wait_until("it was lent and taken back", || {
        for _ in 0..200 {
            let begun = Instant::now();
            echo.exchanges(number);
            slow += u64::from(begun.elapsed() >= SENT_AGAIN_AFTER);
            number = number.wrapping_add(1);
        }
        let counters = status_of(&echo.program.pid())["counters"].clone();
        lent = counters["times_a_socket_was_lent_to_the_kernel"].as_u64().unwrap_or(0);
        lent >= 6 && counters["connections_adopted"].as_u64() > Some(1)
    });
    assert!(slow * 4 <= lent, "{slow} segments were lost and sent again, lent {lent} times");
}

/// A program that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
