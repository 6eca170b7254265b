//! `nearwire capture --pid` of programs under the library, over a virtual cable of the test's own.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::accelerated::{Bed, Running};
use crate::common::pcapng::{Capture, by_tcpdump, read};
use crate::common::{assert_says, code, command, errors, kill, nearwire, text};
use nearwire_lab::{Cable, CableEnd};
use rustix::process::Signal;

const ROUNDS: usize = 300;
const PING: &str = "
one = bound(near, 7000)
step()
for number in range(300):
    one.sendto(b'ping %3d' % number, (far, 7100))
    assert one.recv(2000) == b'pong %3d' % number
step()
";
const PONG: &str = "
one = bound(far, 7100)
step()
for number in range(300):
    said, where = one.recvfrom(2000)
    one.sendto(b'pong' + said[4:], where)
step()
";
/// Receives as many as each line of its input says.
const RECEIVER: &str = "
one = bound(near, 7000)
step()
for line in sys.stdin:
    for _ in range(int(line)): one.recv(2000)
    print('step', flush=True)
";

struct Capturing {
    child: Child,
    said: BufReader<ChildStderr>,
    file: PathBuf,
}

fn send(bed: &Bed, from: &UdpSocket, count: u8) {
    let to = (bed.cable.near().ipv4, 7000);
    (0..count).for_each(|number| assert_eq!(from.send_to(&[number; 20], to).unwrap(), 20));
}

/// A script at the near end, at its first step.
fn started(bed: &Bed, script: &str) -> Running {
    started_at(bed, bed.cable.near(), script)
}

fn started_at(bed: &Bed, end: &CableEnd, script: &str) -> Running {
    let mut program = bed.start(end, script, &[]);
    program.step();
    program
}

/// Has a script go on, and waits for its next step.
fn go_on(program: &mut Running) {
    program.say("");
    program.step();
}

/// Has a script go on to its end, which the capture has not changed.
fn end_unharmed(program: Running) {
    let output = program.end();
    assert_eq!((code(&output), errors(&output).as_str()), (Some(0), ""), "the program came to no harm");
}

/// Starts a capture, and waits until it has said `first`.
fn begin(bed: &Bed, program: &Running, name: &str, arguments: &[&str], first: &str) -> Capturing {
    let file = bed.directory.path().join(name);
    let mut capture = command(&["capture", "--pid", &program.pid(), "-o"]);
    capture.arg(&file).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = capture.spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap());
    let mut capturing = Capturing { child, said, file };
    capturing.hear(first);
    capturing
}

/// Mappings and descriptors of rings that a program has.
fn rings(program: &Running) -> (usize, usize) {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", program.pid())).unwrap();
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", program.pid())).unwrap().flatten();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let is_ring = |link: &PathBuf| link.to_string_lossy().contains("nearwire-capture");
    (maps.matches("/memfd:nearwire-capture").count(), links.filter(is_ring).count())
}

impl Capturing {
    fn hear(&mut self, words: &str) {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert!(line.starts_with(words), "{line:?} instead of {words}");
    }

    fn interrupt(self) -> (Capture, String) {
        kill(self.child.id(), Signal::INT);
        self.ended()
    }

    /// What is in the file, and all that was said since.
    fn ended(mut self) -> (Capture, String) {
        let output = self.child.wait_with_output().unwrap();
        let mut said = text(&output);
        self.said.read_to_string(&mut said).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        (read(&self.file), said)
    }
}

fn payloads(capture: &Capture, direction: u32) -> Vec<String> {
    let of = capture.packets.iter().filter(|packet| packet.direction == direction);
    of.map(|packet| String::from_utf8_lossy(&packet.bytes[42..]).into_owned()).collect()
}

#[test]
fn ping_pong_of_two_accelerated_processes_is_captured_at_both_in_both_directions() {
    let Some(bed) = Bed::lay() else { return };
    let mut pong = started_at(&bed, bed.cable.far(), PONG);
    let mut ping = started(&bed, PING);
    // Asleep, it begins with the frame that wakes it.
    pong.say("");
    let of_pong = begin(&bed, &pong, "pong.pcapng", &["--count", "600"], "waiting for process");
    let of_ping = begin(&bed, &ping, "ping.pcapng", &[], "waiting for process");
    go_on(&mut ping);
    pong.step();
    let files = [of_ping.file.clone(), of_pong.file.clone()];
    let (of_ping, ping_said) = of_ping.interrupt();
    let (of_pong, _) = of_pong.ended();
    assert!(ping_said.contains("600 frames in ") && ping_said.contains(", 0 dropped\n"), "{ping_said}");
    for (capture, interface, [came, went]) in [(&of_ping, "nw0", ["pong", "ping"]), (&of_pong, "nw1", ["ping", "pong"])]
    {
        assert_eq!(capture.interfaces, [interface]);
        assert_eq!((capture.packets.len(), capture.received, capture.dropped), (2 * ROUNDS, 2 * ROUNDS as u64, 0));
        for (direction, words) in [(1, came), (2, went)] {
            let wanted: Vec<_> = (0..ROUNDS).map(|number| format!("{words} {number:3}")).collect();
            assert_eq!(payloads(capture, direction), wanted);
        }
        assert!(capture.packets.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns), "times go up");
        assert!(capture.packets.iter().all(|packet| packet.frame_bytes == 50 && packet.bytes.len() == 50));
    }
    // What one sent the other received, later.
    assert!(of_ping.packets[0].time_ns < of_pong.packets[0].time_ns);
    for file in files {
        if let Some(lines) = by_tcpdump(&file) {
            assert_eq!(lines.len(), 2 * ROUNDS);
            // It takes the port for that of a file system, and says nothing of UDP.
            assert!(lines.iter().all(|line| line.contains(" IP 10.77.0.")), "{}", lines[0]);
        }
    }
    end_unharmed(ping);
    end_unharmed(pong);
}

#[test]
fn capture_with_limits_keeps_what_was_asked_for() {
    let Some(bed) = Bed::lay() else { return };
    let mut ping = started(&bed, PING);
    let mut pong = started_at(&bed, bed.cable.far(), PONG);
    let arguments = ["--count", "5", "--inbound", "--snaplen", "20", "--udp", "7000"];
    let capture = begin(&bed, &ping, "limits.pcapng", &arguments, "waiting for process");
    pong.say("");
    go_on(&mut ping);
    let (found, said) = capture.ended();
    assert!(said.contains("5 frames in "), "{said}");
    assert_eq!(found.packets.len(), 5);
    for packet in &found.packets {
        assert_eq!((packet.direction, packet.bytes.len(), packet.frame_bytes), (1, 20, 50));
    }
    let none = begin(&bed, &ping, "none.pcapng", &["--time", "500ms"], "waiting for process");
    let (found, said) = none.ended();
    assert_eq!((found.packets.len(), found.interfaces.len()), (0, 0), "{said}");
    end_unharmed(ping);
    pong.step();
    end_unharmed(pong);
}

#[test]
fn capturer_killed_harms_nobody_and_another_one_begins() {
    let Some(bed) = Bed::lay() else { return };
    let far = bed.far();
    let mut program = started(&bed, RECEIVER);
    program.say("");
    program.say("2");
    let mut first = begin(&bed, &program, "first.pcapng", &["--ring", "2"], "waiting for process");
    send(&bed, &far, 1);
    first.hear("capturing process");
    let file = bed.directory.path().join("second.pcapng").display().to_string();
    let second = nearwire(&["capture", "--pid", &program.pid(), "-o", &file]);
    let captured = format!("process {} is captured already, by process {}", program.pid(), first.child.id());
    assert_says(&second, 2, &[&captured]);
    assert!(!PathBuf::from(&file).exists(), "refused, it leaves files alone");
    kill(first.child.id(), Signal::KILL);
    first.child.wait().unwrap();
    send(&bed, &far, 1);
    program.step();
    // The ring is full soon, and nobody reads it.
    for _ in 0..4 {
        program.say("50");
        send(&bed, &far, 50);
        program.step();
    }
    // The program lets it go, when it looks.
    let give_up = Instant::now() + Duration::from_secs(10);
    while rings(&program) != (0, 0) {
        assert!(Instant::now() < give_up, "the ring of a killed capture stays");
        program.say("1");
        send(&bed, &far, 1);
        program.step();
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut again = begin(&bed, &program, "again.pcapng", &[], "waiting for process");
    program.say("3");
    send(&bed, &far, 3);
    program.step();
    again.hear("capturing process");
    let (found, said) = again.interrupt();
    assert_eq!((found.packets.len(), found.dropped), (3, 0), "{said}");
    end_unharmed(program);
}

#[test]
fn capture_that_is_over_leaves_no_memory_in_the_process() {
    let Some(bed) = Bed::lay() else { return };
    let far = bed.far();
    let mut program = started(&bed, RECEIVER);
    program.say("");
    program.say("2");
    let mut capture = begin(&bed, &program, "one.pcapng", &[], "waiting for process");
    send(&bed, &far, 1);
    capture.hear("capturing process");
    assert_eq!(rings(&program), (1, 1));
    let (found, _) = capture.interrupt();
    assert_eq!(found.packets.len(), 1);
    send(&bed, &far, 1);
    program.step();
    assert_eq!(rings(&program), (0, 0));
    end_unharmed(program);
}

#[test]
fn frames_beyond_the_ring_are_counted_and_reach_the_program() {
    let Some(bed) = Bed::lay() else { return };
    let far = bed.far();
    let mut program = started(&bed, RECEIVER);
    program.say("");
    program.say("1");
    let mut capture = begin(&bed, &program, "full.pcapng", &["--ring", "2"], "waiting for process");
    send(&bed, &far, 1);
    capture.hear("capturing process");
    program.step();
    // Stopped, it cannot read: 4 KiB hold 51 frames of 62 bytes, ten words each.
    std::thread::sleep(Duration::from_millis(50));
    kill(capture.child.id(), Signal::STOP);
    program.say("100");
    send(&bed, &far, 100);
    program.step();
    kill(capture.child.id(), Signal::CONT);
    let (found, said) = capture.interrupt();
    assert_eq!((found.packets.len(), found.dropped, found.received), (1 + 51, 49, 101), "{said}");
    assert!(said.contains("52 frames in ") && said.contains(", 49 dropped\n"), "{said}");
    end_unharmed(program);
}

#[test]
fn process_that_forks_and_ends_leaves_a_whole_file_of_its_own_frames() {
    let Some(bed) = Bed::lay() else { return };
    let _far = bed.far();
    let script = "
early = udp()
step()
one = bound(near, 7000)
one.sendto(b'before', (far, 7100))
def rings():
    links = []
    for number in os.listdir('/proc/self/fd'):
        try: links.append(os.readlink('/proc/self/fd/' + number))
        except OSError: pass
    return [open('/proc/self/maps').read().count('nearwire-capture'), str(links).count('nearwire-capture')]
assert rings() == [1, 1]
child = os.fork()
if child == 0:
    if rings() != [0, 0]: os._exit(1)
    other = bound(near, 7001)
    for _ in range(3): one.sendto(b'of the child', (far, 7100)); other.sendto(b'of the child', (far, 7100))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
one.sendto(b'after', (far, 7100))
";
    let mut program = started(&bed, script);
    let capture = begin(&bed, &program, "fork.pcapng", &[], "waiting for process");
    program.say("");
    end_unharmed(program);
    let (found, said) = capture.ended();
    assert_eq!(payloads(&found, 2), ["before", "after"], "{said}");
    assert!(said.contains("ended, or executed another program"), "{said}");
}

#[test]
fn interface_used_later_has_its_frames_in_the_file_too() {
    let Some(bed) = Bed::lay() else { return };
    let _far = bed.far();
    let ip = |arguments: &str| {
        let arguments: Vec<_> = arguments.split(' ').collect();
        let run = bed.cable.near().namespace.enter(|| Command::new("ip").args(&arguments).status().unwrap());
        assert!(run.unwrap().success(), "ip {arguments:?}");
    };
    ip("link add nw2 type veth peer name nw3");
    ip("address add 10.78.0.1/24 dev nw2");
    ip("link set nw2 up");
    ip("link set nw3 up");
    ip("neighbour add 10.78.0.9 lladdr 02:00:00:00:00:09 dev nw2");
    let script = "
one = bound(near, 7000)
step()
one.sendto(b'first', (far, 7100))
two = bound('10.78.0.1', 7005)
two.sendto(b'second', ('10.78.0.9', 7100))
one.sendto(b'third', (far, 7100))
step()
";
    let mut program = started(&bed, script);
    let capture = begin(&bed, &program, "two.pcapng", &[], "waiting for process");
    go_on(&mut program);
    let (found, said) = capture.interrupt();
    assert_eq!(found.interfaces, ["nw0", "nw2"], "{said}");
    let of: Vec<_> = found.packets.iter().map(|packet| packet.interface).collect();
    assert_eq!((of, payloads(&found, 2)), (vec![0, 1, 0], vec!["first".into(), "second".into(), "third".into()]));
    end_unharmed(program);
}

#[test]
fn process_that_spins_is_captured_at_once() {
    let Some(bed) = Bed::lay() else { return };
    let far = bed.far();
    let script = "
one = bound(near, 7000)
one.setblocking(False)
step()
got = 0
while got < 3:
    try: one.recv(2000); got += 1
    except BlockingIOError: pass
step()
";
    let mut program = started(&bed, script);
    program.say("");
    let capture = begin(&bed, &program, "spins.pcapng", &["--count", "3"], "capturing process");
    send(&bed, &far, 3);
    program.step();
    let (found, said) = capture.ended();
    assert_eq!(payloads(&found, 1).len(), 3, "{said}");
    end_unharmed(program);
}

#[test]
fn process_with_a_seccomp_filter_of_its_own_is_captured_only_when_that_is_asked_for() {
    let Some(bed) = Bed::lay() else { return };
    let _far = bed.far();
    // A filter of one instruction, which allows everything.
    let script = "
import ctypes
libc = ctypes.CDLL(None)
class Instruction(ctypes.Structure): _fields_ = [('code', ctypes.c_uint16), ('t', ctypes.c_uint8), ('f', ctypes.c_uint8), ('k', ctypes.c_uint32)]
class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_uint16), ('first', ctypes.POINTER(Instruction))]
allow = Instruction(6, 0, 0, 0x7fff0000)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(Program(1, ctypes.pointer(allow)))) == 0
one = bound(near, 7000)
step()
one.sendto(b'one', (far, 7100))
step()
";
    let mut program = started(&bed, script);
    let refused = nearwire(&["capture", "--pid", &program.pid(), "-o", "/nowhere/frames.pcapng"]);
    assert_says(&refused, 3, &["has a seccomp filter of its own", "--despite-seccomp"]);
    let capture = begin(&bed, &program, "filter.pcapng", &["--despite-seccomp"], "waiting for process");
    go_on(&mut program);
    let (found, said) = capture.interrupt();
    assert_eq!(payloads(&found, 2), ["one"], "{said}");
    end_unharmed(program);
}

#[test]
fn processes_that_cannot_be_captured_say_why() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("frames.pcapng").display().to_string();
    let capture = |pid: &str, more: &[&str]| nearwire(&[&["capture", "--pid", pid, "-o", &file][..], more].concat());
    let own = std::process::id().to_string();
    let plain = capture(&own, &[]);
    assert_says(&plain, 2, &["has no accelerated sockets to capture: it was not started by nearwire run"]);
    assert_says(&capture("2147483647", &[]), 2, &["no process 2147483647"]);
    assert_says(&capture(&own, &["--ring", "5"]), 2, &["--ring 5", "power of two"]);
    assert_says(&nearwire(&["capture", "eth4", "--pid", "1", "-o", &file]), 2, &["cannot be used with"]);
    let other = rustix::process::geteuid().is_root().then(|| {
        let mut command = Command::new("setpriv");
        let arguments = ["--reuid", "65534", "--clear-groups", "--inh-caps=-all", crate::common::NEARWIRE];
        command.args(arguments).args(["capture", "--pid", &own, "-o", "/dev/null"]).output()
    });
    if let Some(Ok(output)) = other
        && !errors(&output).contains("setpriv")
    {
        assert_says(&output, 3, &[&format!("look into process {own}"), "CAP_SYS_PTRACE"]);
    }
    assert_eq!(code(&plain), Some(2));
    assert!(!PathBuf::from(&file).exists());
}

#[test]
fn threads_with_an_engine_each_are_captured_all() {
    const SENDERS: &str = "
import threading
over = False
def send():
    mine = udp(); mine.connect((far, 7100))
    while not over: mine.send(b'x' * 20)
threads = [threading.Thread(target=send) for _ in range(2)]
for thread in threads: thread.start()
step()
over = True
for thread in threads: thread.join()
";
    let Some(bed) = Bed::lay() else { return };
    let _far = bed.far();
    let program = started(&bed, SENDERS);
    let engines = || {
        let status = text(&nearwire(&["status", &program.pid(), "--json"]));
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let of = |socket: &serde_json::Value| socket["engine"].as_u64();
        status["sockets"].as_array().unwrap().iter().filter_map(of).collect::<std::collections::BTreeSet<_>>()
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while engines().len() < 2 {
        assert!(Instant::now() < deadline, "the threads stay in one engine");
        std::thread::sleep(Duration::from_millis(50));
    }
    let capture = begin(&bed, &program, "threads.pcapng", &["--count", "5000"], "");
    let (found, said) = capture.ended();
    assert!(said.contains("5000 frames in "), "{said}");
    let ports: std::collections::BTreeSet<_> =
        found.packets.iter().map(|packet| packet.bytes[34..36].to_vec()).collect();
    assert_eq!(ports.len(), 2, "both sockets' frames are there");
    end_unharmed(program);
}
