//! Clients by the agent: sockets that live for one request, and sockets that stay.

use std::net::UdpSocket;
use std::time::Duration;

use nearwire_lab::Cable;
use serde_json::Value;

use crate::by_agent::{start_agent_for_nobody, status_of};
use crate::common::accelerated::{Bed, Running};

/// What the key has where nobody sets it.
const BY_KERNEL_FIRST: [(&str, &str); 1] = [("NEARWIRE_KERNEL_FIRST", "8")];

/// A socket that is accelerated at once, as it has the port opened.
const FIRST: &str = "first = udp(); first.connect((far, 7100)); select.select([first], [], [], 0); first.close()\n";

/// Answers each datagram with the number in it: so many datagrams, numbered from 0.
fn answer(socket: &UdpSocket) {
    let socket = socket.try_clone().unwrap();
    // Ends with the test's process.
    std::thread::spawn(move || {
        let mut asked = [0; 64];
        while let Ok((len, from)) = socket.recv_from(&mut asked) {
            let wanted: u32 = std::str::from_utf8(&asked[..len]).unwrap().parse().unwrap();
            for number in 0..wanted {
                socket.send_to(number.to_string().as_bytes(), from).unwrap();
                if number % 16 == 15 {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        }
    });
}

/// A bed with an agent, a far end that answers, and a script that runs there.
fn start(script: &str) -> Option<(Bed, Running)> {
    let bed = Bed::lay()?;
    start_agent_for_nobody(&bed);
    answer(&bed.far());
    let program = bed.start(bed.cable.near(), script, &BY_KERNEL_FIRST);
    Some((bed, program))
}

fn socket_of(program: &Running) -> Value {
    status_of(&program.pid())["sockets"][0].clone()
}

#[test]
fn sockets_that_live_for_one_request_do_not_ask_the_agent_for_flows() {
    let script = "
def connected():
    one = udp(); one.connect((far, 7100)); one.send(b'1'); return one
def sent():
    one = udp(); one.sendto(b'1', (far, 7100)); return one
def awaited():
    one = connected(); select.select([one], [], [], 10); return one
def watched():
    one = connected(); waits = select.epoll(); waits.register(one, select.EPOLLIN); waits.poll(10); return one
ports = iter(range(20000, 30000))
def own_port():
    one = udp(); one.bind(('0.0.0.0', next(ports))); return one
def bound_and_sent():
    one = own_port(); one.sendto(b'1', (far, 7100)); return one
def bound_and_connected():
    one = own_port(); one.connect((far, 7100)); one.send(b'1'); return one
waits = select.epoll()
def bound_and_watched():
    one = own_port(); waits.register(one, select.EPOLLIN); one.sendto(b'1', (far, 7100)); waits.poll(10); return one
# The first one has the port opened.
connected().close()
for ask in [connected, sent, awaited, watched, bound_and_sent, bound_and_connected, bound_and_watched] * 50:
    one = ask()
    assert one.recv(10) == b'0'
    one.close()
step()
";
    let Some((_bed, mut program)) = start(script) else { return };
    program.step();
    let shown = status_of(&program.pid());
    assert_eq!(shown["counters"]["sockets_accelerated"], 1, "{shown:#}");
}

/// The script has made `one`, which asks for and gets all that it wants.
fn stays(made: &str) {
    let script = "
FIRST
MADE
def ask(wanted):
    send(b'%d' % wanted)
    for number in range(wanted):
        got = one.recv(10)
        assert got == b'%d' % number, (got, number)
one.settimeout(10)
for _ in range(3): ask(1)
step()
# No more at once than the kernel's buffer holds for a program that has no CPU.
for _ in range(10): ask(64)
for _ in range(50): ask(1)
step()
";
    let Some((_bed, mut program)) = start(&script.replace("FIRST", FIRST).replace("MADE", made)) else { return };
    program.step();
    assert_eq!(socket_of(&program)["reason"], "FewDatagrams", "{:#}", socket_of(&program));
    program.say("");
    program.step();
    let shown = socket_of(&program);
    assert_eq!(shown["accelerated"], true, "{shown:#}");
    assert!(shown["counters"]["received_datagrams"].as_u64().unwrap() >= 300, "{shown:#}");
    assert!(shown["counters"]["sent_datagrams"].as_u64().unwrap() >= 50, "{shown:#}");
}

#[test]
fn connected_socket_that_stays_is_accelerated_and_keeps_the_order_of_what_comes() {
    stays("one = udp(); one.connect((far, 7100)); send = one.send");
}

#[test]
fn unconnected_socket_that_stays_is_accelerated_and_keeps_the_order_of_what_comes() {
    stays("one = udp()\ndef send(data): one.sendto(data, (far, 7100))");
}

#[test]
fn connected_socket_with_a_port_of_its_own_that_stays_is_accelerated_and_keeps_the_order_of_what_comes() {
    stays("one = udp(); one.bind(('0.0.0.0', 7300)); one.connect((far, 7100)); send = one.send");
}

#[test]
fn unconnected_socket_with_a_port_of_its_own_that_sends_first_is_accelerated_once_it_has_sent_and_received_enough() {
    stays("one = udp(); one.bind((near, 7300))\ndef send(data): one.sendto(data, (far, 7100))");
}

/// A script that has bound `one` and done something that is no use of it, and is about to use it.
fn start_bound(prepared: &str, used: &str) -> Option<(Bed, Running)> {
    let script = format!("{FIRST}one = udp(); one.bind((near, 7300))\n{prepared}\nstep()\n{used}\nstep()\n");
    let (bed, mut program) = start(&script)?;
    program.step();
    let shown = socket_of(&program);
    assert_eq!(shown["reason"], "NotUsed", "{shown:#}");
    assert_eq!(shown["local"], format!("{}:7300", bed.cable.near().ipv4), "{shown:#}");
    Some((bed, program))
}

fn is_a_servers(prepared: &str, used: &str) {
    let Some((bed, mut program)) = start_bound(prepared, used) else { return };
    // Waits at the shadow.
    bed.far_at(0).send_to(b"early", (bed.cable.near().ipv4, 7300)).unwrap();
    program.say("");
    program.step();
    assert_eq!(socket_of(&program)["accelerated"], true, "{:#}", socket_of(&program));
}

#[test]
fn socket_that_receives_first_is_a_servers_and_is_accelerated_at_once() {
    is_a_servers("one.settimeout(10)", "assert one.recv(10) == b'early'");
}

#[test]
fn socket_that_is_polled_first_is_a_servers_and_is_accelerated_at_once() {
    is_a_servers("", "select.select([one], [], [], 10); assert one.recv(10) == b'early'");
}

#[test]
fn socket_that_is_registered_and_then_waited_for_is_a_servers_and_is_accelerated_at_once() {
    let registered = "waits = select.epoll(); waits.register(one, select.EPOLLIN)";
    is_a_servers(
        registered,
        "assert waits.poll(10) == [(one.fileno(), select.EPOLLIN)]; assert one.recv(10) == b'early'",
    );
}

#[test]
fn socket_that_is_registered_in_a_set_that_was_waited_for_is_a_servers_with_the_next_wait() {
    let registered = "waits = select.epoll(); waits.poll(0); waits.register(one, select.EPOLLIN)";
    is_a_servers(
        registered,
        "assert waits.poll(10) == [(one.fileno(), select.EPOLLIN)]; assert one.recv(10) == b'early'",
    );
}

#[test]
fn socket_that_is_bound_and_left_to_a_child_is_a_servers() {
    let used = "
if os.fork() == 0:
    assert one.recv(10) == b'early'; one.sendto(b'late', (near, 7300)); os._exit(0)
assert os.wait()[1] == 0
select.select([one], [], [], 10); assert one.recv(10) == b'late'";
    let Some((bed, mut program)) = start_bound("", used) else { return };
    bed.far_at(0).send_to(b"early", (bed.cable.near().ipv4, 7300)).unwrap();
    program.say("");
    program.step();
}

#[test]
fn socket_that_may_share_its_port_is_known_at_once() {
    let script = format!(
        "{FIRST}one = shared(near, 7300)\nother = udp(); other.bind((near, 7301))
other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\nstep()\n"
    );
    let Some((_bed, mut program)) = start(&script) else { return };
    program.step();
    let shown = status_of(&program.pid());
    assert_eq!(shown["counters"]["sockets_accelerated"], 3, "{shown:#}");
}

#[test]
fn socket_that_is_disconnected_receives_at_all_addresses_it_was_bound_to() {
    let script = format!(
        "{FIRST}one = udp(); one.bind(('0.0.0.0', 7300)); one.connect((far, 7100)); one.settimeout(10)
for _ in range(6):
    one.send(b'1'); assert one.recv(10) == b'0'
import ctypes
assert ctypes.CDLL(None).connect(one.fileno(), (ctypes.c_char * 16)(), 16) == 0
assert one.getsockname() == ('0.0.0.0', 7300)
step()
assert one.recv(10) == b'other'
step()
"
    );
    let Some((bed, mut program)) = start(&script) else { return };
    program.step();
    assert_eq!(socket_of(&program)["accelerated"], true, "{:#}", socket_of(&program));
    assert_eq!(socket_of(&program)["local"], "0.0.0.0:7300", "{:#}", socket_of(&program));
    bed.far_at(0).send_to(b"other", (bed.cable.near().ipv4, 7300)).unwrap();
    program.say("");
    program.step();
    let shown = socket_of(&program);
    assert!(shown["counters"]["received_datagrams"].as_u64().unwrap() >= 1, "{shown:#}");
}

#[test]
fn socket_that_only_sends_is_accelerated_and_keeps_the_order_of_what_it_sends() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let far = bed.far();
    far.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let script = "
FIRST
one = udp(); one.connect((far, 7100))
step()
for number in range(100): one.send(b'%d' % number)
step()
";
    let mut program = bed.start(bed.cable.near(), &script.replace("FIRST", FIRST), &BY_KERNEL_FIRST);
    program.step();
    program.say("");
    let mut got = [0; 64];
    for number in 0..100 {
        let len = far.recv(&mut got).unwrap();
        assert_eq!(std::str::from_utf8(&got[..len]).unwrap(), number.to_string());
    }
    program.step();
    let shown = socket_of(&program);
    assert!(shown["accelerated"] == true && shown["counters"]["sent_datagrams"].as_u64().unwrap() >= 80, "{shown:#}");
}

#[test]
fn connected_socket_that_has_sent_nothing_says_what_it_waits_for() {
    let script = format!("{FIRST}one = udp(); one.connect((far, 7100))\nstep()\n");
    let Some((_bed, mut program)) = start(&script) else { return };
    program.step();
    assert_eq!(socket_of(&program)["reason"], "FewDatagrams", "{:#}", socket_of(&program));
}

#[test]
fn sockets_of_a_rule_are_the_kernels_by_the_rule_once_they_are_told_of() {
    let Some(bed) = Bed::lay() else { return };
    let rules = bed.directory.path().join("rules.toml");
    std::fs::write(&rules, "[[rule]]\nuse = \"kernel\"\nport = \"7100\"\n").unwrap();
    let rules = rules.to_str().unwrap();
    let _far = bed.far();
    let first = FIRST.replace("7100", "7200");
    let script = format!("{first}one = udp(); one.connect((far, 7100))\nfor _ in range(4): one.send(b'0')\nstep()\n");
    let variables = [BY_KERNEL_FIRST[0], ("NEARWIRE_CONFIG", rules)];
    let mut program = bed.start(bed.cable.near(), &script, &variables);
    program.step();
    assert_eq!(socket_of(&program)["reason"], "RuleSaysKernel", "{:#}", socket_of(&program));
}
