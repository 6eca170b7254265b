//! Programs with the library preloaded, and what goes wrong around them: killed sides, interfaces, neighbours, limits, other
//! users of the interface. A program must see what the kernel would have shown it. Needs root, veth and a C compiler (or
//! says SKIP).

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nearwire_lab::{Cable, Namespace, VirtualCable};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::common::{WAITS, cable_with_peer_or_skip, compiled, library, times, tried};

const SOON: Duration = Duration::from_secs(3);

/// A cable with a peer at its far end, and how calls of programs with the library wait.
struct Bed {
    cable: VirtualCable,
    peer: UdpSocket,
    waits: (&'static str, &'static str),
}

/// A bed for each way to wait that is tried; none where the test is to be skipped.
fn beds() -> impl Iterator<Item = Bed> {
    tried(&WAITS).into_iter().map_while(|&waits| {
        let (cable, peer) = cable_with_peer_or_skip(SOON)?;
        println!("spin {}, {}", waits.0, waits.1);
        Some(Bed { cable, peer, waits })
    })
}

impl Bed {
    fn near(&self) -> &Namespace {
        &self.cable.near().namespace
    }

    /// Starts the program with the library, in a process group of its own, behind another command if there is one.
    fn start(&self, behind: &[&str]) -> Puppet {
        self.start_of(behind, [&library(), program()])
    }

    /// The same of a library and a program elsewhere.
    fn start_of(&self, behind: &[&str], [library, program]: [&Path; 2]) -> Puppet {
        let library = format!("LD_PRELOAD={}", library.display());
        let words = [behind, &["env", &library]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(program).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").envs([
            ("NEARWIRE_KERNEL_FIRST", "0"),
            ("NEARWIRE_SPIN", self.waits.0),
            ("NEARWIRE_MODE", self.waits.1),
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = self.near().enter(|| command.spawn()).unwrap().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut puppet = Puppet { child, input, output };
        assert_eq!(puppet.ask("hello"), "what? hello");
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", puppet.child.id())).unwrap();
        assert!(maps.contains("libnearwire_preload.so"), "{maps}");
        puppet
    }

    #[track_caller]
    fn ip(&self, arguments: &str) -> String {
        ip(self.near(), arguments)
    }

    /// Takes the near end up. The kernel lets the far end send a moment later, and drops what is sent before.
    fn up(&self) {
        self.ip("link set nw0 up");
        let deadline = Instant::now() + SOON;
        while !ip(&self.cable.far().namespace, "link show nw1").contains("state UP") {
            assert!(Instant::now() < deadline, "the far end stays down");
        }
        std::thread::sleep(Duration::from_millis(5));
    }

    /// The XDP program that is on the near end.
    fn program_id(&self) -> Option<u32> {
        let shown = self.ip("link show nw0");
        let mut words = shown.split_ascii_whitespace().skip_while(|word| !word.starts_with("prog/xdp"));
        words.nth(2)?.parse().ok()
    }

    #[track_caller]
    fn loses_its_program_soon(&self) {
        let deadline = Instant::now() + SOON;
        while let Some(id) = self.program_id() {
            assert!(Instant::now() < deadline, "program {id} is on the interface still");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Datagrams that programs of the near end had from the kernel (`/proc/net/snmp`).
    fn by_kernel(&self) -> u64 {
        let text = self.near().enter(|| std::fs::read_to_string("/proc/thread-self/net/snmp")).unwrap().unwrap();
        let line = text.lines().filter(|line| line.starts_with("Udp:")).nth(1).unwrap();
        line.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// A datagram to a port, and whether it came past the kernel; poll and receive take turns.
    #[track_caller]
    fn delivered(&self, puppet: &mut Puppet, socket: i64, port: u16) -> bool {
        let before = self.by_kernel();
        self.peer.send_to(b"hello", (self.cable.near().ipv4, port)).unwrap();
        assert_eq!(puppet.ask(&format!("receive {socket} {}", 3000 + port % 2)), "hello");
        self.by_kernel() == before
    }

    #[track_caller]
    fn sent(&self, puppet: &mut Puppet, socket: i64) {
        let to = self.peer.local_addr().unwrap();
        assert_eq!(puppet.number(&format!("send {socket} {} {} word", to.ip(), to.port())), 4);
        let mut buffer = [0; 16];
        assert_eq!(self.peer.recv(&mut buffer).unwrap(), 4);
    }

    #[track_caller]
    fn is_past_the_kernel_soon(&self, puppet: &mut Puppet, socket: i64, port: u16) {
        let deadline = Instant::now() + SOON;
        while !self.delivered(puppet, socket, port) {
            assert!(Instant::now() < deadline, "datagrams come by the kernel");
        }
        self.sent(puppet, socket);
    }
}

/// The program.
struct Puppet {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Puppet {
    #[track_caller]
    fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.answer()
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.input, "{command}").unwrap();
    }

    #[track_caller]
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    #[track_caller]
    fn number(&mut self, command: &str) -> i64 {
        let answer = self.ask(command);
        answer.parse().unwrap_or_else(|_| panic!("{command}: {answer}"))
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        // It may have been killed, and waited for, already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("puppet"))
}

#[track_caller]
fn ip(namespace: &Namespace, arguments: &str) -> String {
    let run = || Command::new("ip").args(arguments.split_ascii_whitespace()).output().unwrap();
    let output = namespace.enter(run).unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A program that serves port 5000 past the kernel, in each bed.
fn serving() -> impl Iterator<Item = (Bed, Puppet, i64)> {
    beds().map(|bed| {
        let mut puppet = bed.start(&[]);
        let socket = puppet.number("open 0.0.0.0 5000");
        assert!(socket >= 0, "{socket}");
        bed.is_past_the_kernel_soon(&mut puppet, socket, 5000);
        (bed, puppet, socket)
    })
}

#[test]
fn program_killed_nothing_is_left_and_the_next_has_its_port() {
    for (bed, puppet, _) in serving() {
        assert!(bed.program_id().is_some());
        kill_process(Pid::from_child(&puppet.child), Signal::KILL).unwrap();
        bed.loses_its_program_soon();
        drop(puppet);
        let mut next = bed.start(&[]);
        let socket = next.number("open 0.0.0.0 5000");
        bed.is_past_the_kernel_soon(&mut next, socket, 5000);
    }
}

#[test]
fn process_group_killed_while_it_receives_nothing_is_left() {
    for (bed, mut puppet, socket) in serving() {
        assert!(puppet.number("fork") > 0);
        puppet.tell(&format!("receive {socket} 2000"));
        for _ in 0..200 {
            bed.peer.send_to(b"hello", (bed.cable.near().ipv4, 5000)).unwrap();
        }
        kill_process_group(Pid::from_child(&puppet.child), Signal::KILL).unwrap();
        bed.loses_its_program_soon();
    }
}

#[test]
fn peer_killed_its_closed_port_is_told_as_by_the_kernel() {
    for (bed, mut puppet, socket) in serving() {
        let far = bed.cable.far();
        let mut peer =
            far.namespace.enter(|| Command::new(program()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn());
        let peer = peer.as_mut().unwrap().as_mut().unwrap();
        writeln!(peer.stdin.as_mut().unwrap(), "open {} 7000", far.ipv4).unwrap();
        BufReader::new(peer.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        let send = format!("send {socket} {} 7000 word", far.ipv4);
        assert_eq!(puppet.number(&send), 4);
        peer.kill().unwrap();
        peer.wait().unwrap();
        // Not connected, a socket is told of no ICMP message, however many come.
        for _ in 0..10 {
            assert_eq!(puppet.number(&send), 4);
            std::thread::sleep(Duration::from_millis(2));
        }
        bed.is_past_the_kernel_soon(&mut puppet, socket, 5000);
    }
}

#[test]
fn interface_down_and_up_under_a_sleeping_reader_it_gets_the_next_datagram() {
    for (bed, mut puppet, socket) in serving() {
        for timeout_ms in [3000, 3001] {
            puppet.tell(&format!("receive {socket} {timeout_ms}"));
            std::thread::sleep(Duration::from_millis(20));
            bed.ip("link set nw0 down");
            // A sleeping program notices.
            bed.loses_its_program_soon();
            bed.up();
            bed.peer.send_to(b"again", (bed.cable.near().ipv4, 5000)).unwrap();
            assert_eq!(puppet.answer(), "again");
            bed.is_past_the_kernel_soon(&mut puppet, socket, 5000);
        }
        bed.ip("link set nw0 down");
        let to = bed.peer.local_addr().unwrap();
        let send = format!("send {socket} {} {} word", to.ip(), to.port());
        assert_eq!(puppet.number(&send), -i64::from(libc::ENETUNREACH));
    }
}

/// A kick that a thread makes while another one closes the port is the last to have the descriptor of the AF_XDP socket.
#[test]
fn link_that_flaps_while_threads_send_leaves_no_descriptor_and_no_busy_queue() {
    for (bed, mut puppet, socket) in serving() {
        let descriptors = |puppet: &Puppet| {
            let names = std::fs::read_dir(format!("/proc/{}/fd", puppet.child.id())).unwrap().flatten();
            let targets = names.filter_map(|name| Some((name.file_name(), std::fs::read_link(name.path()).ok()?)));
            let sockets = targets.filter(|(_, target)| target.to_string_lossy().starts_with("socket:"));
            sockets.map(|(name, _)| name.to_string_lossy().parse().unwrap()).collect::<Vec<u32>>()
        };
        let to = bed.peer.local_addr().unwrap();
        assert_eq!(puppet.number(&format!("spray {socket} {} {} 3", to.ip(), to.port())), 3);
        let mut most = 0;
        for flap in 0..times(8, 4) {
            bed.ip("link set nw0 down");
            let deadline = Instant::now() + SOON;
            while bed.program_id().is_some() {
                assert!(Instant::now() < deadline, "flap {flap}: the program is on the interface still");
            }
            bed.up();
            let deadline = Instant::now() + SOON;
            while bed.program_id().is_none() {
                assert!(
                    Instant::now() < deadline,
                    "flap {flap}: the port is not opened again, with {:?}",
                    descriptors(&puppet)
                );
            }
            std::thread::sleep(Duration::from_millis(5));
            most = if flap == 0 { descriptors(&puppet).len().max(4) } else { most };
            // The library asks the kernel on sockets that it has for a moment, and a stopped thread ends its kick later.
            let deadline = Instant::now() + SOON;
            while descriptors(&puppet).len() > most {
                assert!(Instant::now() < deadline, "flap {flap}: {:?}, at most {most} before", descriptors(&puppet));
            }
        }
    }
}

/// The link tells of nothing when the other program has gone.
#[test]
fn interface_that_another_program_had_after_a_flap_comes_back_when_it_is_released() {
    for (bed, mut puppet, socket) in serving() {
        let to = bed.peer.local_addr().unwrap();
        let send = format!("send {socket} {} {} word", to.ip(), to.port());
        bed.ip("link set nw0 down");
        let deadline = Instant::now() + SOON;
        while bed.program_id().is_some() {
            puppet.number(&send);
            assert!(Instant::now() < deadline, "the program is on the interface still");
        }
        bed.up();
        let mut other = bed.start(&[]);
        let late = other.number("open 0.0.0.0 6000");
        bed.is_past_the_kernel_soon(&mut other, late, 6000);
        assert!(!bed.delivered(&mut puppet, socket, 5000));
        drop(other);
        bed.loses_its_program_soon();
        bed.is_past_the_kernel_soon(&mut puppet, socket, 5000);
    }
}

#[test]
fn program_detached_under_a_sleeping_reader_it_gets_the_next_datagram() {
    for (bed, mut puppet, socket) in serving() {
        puppet.tell(&format!("receive {socket} 3000"));
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(nearwire_sys::bpf::detach_links_of(bed.program_id().unwrap()).unwrap(), 1);
        bed.peer.send_to(b"shadow", (bed.cable.near().ipv4, 5000)).unwrap();
        assert_eq!(puppet.answer(), "shadow");
        for _ in 0..20 {
            assert!(!bed.delivered(&mut puppet, socket, 5000));
            bed.sent(&mut puppet, socket);
        }
    }
}

#[test]
fn interface_held_by_another_program_the_kernel_serves_until_it_is_released() {
    for (bed, holder, _) in serving() {
        let mut second = bed.start(&[]);
        let early = second.number("open 0.0.0.0 6000");
        assert!(!bed.delivered(&mut second, early, 6000));
        drop(holder);
        bed.loses_its_program_soon();
        std::thread::sleep(Duration::from_millis(1100));
        let late = second.number("open 0.0.0.0 6001");
        bed.is_past_the_kernel_soon(&mut second, late, 6001);
        assert!(!bed.delivered(&mut second, early, 6000));
    }
}

#[test]
fn program_that_changes_its_root_before_its_first_socket_is_past_the_kernel() {
    for bed in beds() {
        let empty = tempfile::tempdir().unwrap();
        let mut puppet = bed.start(&[]);
        assert_eq!(puppet.number(&format!("root {}", empty.path().display())), 0);
        let socket = puppet.number("open 0.0.0.0 5000");
        bed.is_past_the_kernel_soon(&mut puppet, socket, 5000);
    }
}

/// Nobody may mount /proc for it then, and what could not be opened is told.
#[test]
fn program_with_another_root_that_cannot_be_accelerated_tells_which_step_failed() {
    for bed in beds() {
        let empty = tempfile::tempdir().unwrap();
        let errors = empty.path().join("errors");
        let without = "exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin -- \"$@\" 2>";
        let shell = format!("export NEARWIRE_STATS=true; {without}{}", errors.display());
        let mut puppet = bed.start(&["sh", "-c", &shell, "sh"]);
        assert_eq!(puppet.number(&format!("root {}", empty.path().display())), 0);
        let socket = puppet.number("open 0.0.0.0 5000");
        assert!(!bed.delivered(&mut puppet, socket, 5000));
        drop(std::mem::replace(
            &mut puppet.input,
            Command::new("true").stdin(Stdio::piped()).spawn().unwrap().stdin.unwrap(),
        ));
        puppet.child.wait().unwrap();
        let told = std::fs::read_to_string(errors).unwrap();
        assert!(told.contains("not running") && told.contains("/proc/thread-self/net/igmp"), "{told}");
    }
}

#[test]
fn user_nobody_is_served_by_the_kernel() {
    for bed in beds() {
        // What is built may lie where only root can read, as below /root.
        let readable = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap();
        let [library, program] = [&library(), program()].map(|file| {
            let copy = readable.path().join(file.file_name().unwrap());
            std::fs::copy(file, &copy).unwrap();
            copy
        });
        let mut puppet = bed.start_of(&["setpriv", "--reuid", "65534", "--clear-groups"], [&library, &program]);
        let socket = puppet.number("open 0.0.0.0 5000");
        assert!(!bed.delivered(&mut puppet, socket, 5000));
        bed.sent(&mut puppet, socket);
        assert_eq!(bed.program_id(), None);
    }
}

#[test]
fn locked_memory_limited_the_kernel_serves() {
    for bed in beds() {
        let mut puppet = bed.start(&["prlimit", "--memlock=65536", "setpriv", "--bounding-set", "-ipc_lock", "--"]);
        let socket = puppet.number("open 0.0.0.0 5000");
        assert!(!bed.delivered(&mut puppet, socket, 5000));
        bed.sent(&mut puppet, socket);
        assert_eq!(bed.program_id(), None);
    }
}

#[test]
fn descriptors_limited_the_program_has_all_of_them() {
    for bed in beds() {
        for limit in [6, 8, 12, 20, 40] {
            let mut puppet = bed.start(&[]);
            assert_eq!(puppet.number(&format!("descriptors {limit}")), 0);
            let opened = puppet.number("many 0.0.0.0 5000 100");
            println!("{opened} sockets of {limit} descriptors");
            assert!((1..=limit - 3).contains(&opened), "{opened} of {limit}");
            assert_eq!(puppet.number("open 0.0.0.0 6000"), -i64::from(libc::EMFILE));
            bed.delivered(&mut puppet, 0, 5000);
            bed.delivered(&mut puppet, opened - 1, 5000 + opened as u16 - 1);
            bed.sent(&mut puppet, 0);
        }
    }
}

#[test]
fn ten_thousand_sockets_all_are_past_the_kernel() {
    const SOCKETS: u16 = 10_000;
    for bed in beds() {
        let mut puppet = bed.start(&[]);
        puppet.number("descriptors 20000");
        let started = Instant::now();
        assert_eq!(puppet.number(&format!("many 0.0.0.0 10000 {SOCKETS}")), i64::from(SOCKETS));
        println!("{} us a socket", started.elapsed().as_micros() / u128::from(SOCKETS));
        for number in [0, 1, 4095, 4096, SOCKETS - 1] {
            bed.is_past_the_kernel_soon(&mut puppet, number.into(), 10_000 + number);
        }
        let started = Instant::now();
        for _ in 0..3 {
            bed.ip("link set nw0 down");
            bed.up();
            bed.is_past_the_kernel_soon(&mut puppet, i64::from(SOCKETS) - 1, 10_000 + SOCKETS - 1);
        }
        println!("{} ms until an interface is served again", started.elapsed().as_millis() / 3);
    }
}

#[test]
fn parent_killed_and_child_alive_the_port_is_the_kernels_again() {
    for (bed, mut puppet, _) in serving() {
        let child = puppet.number("fork");
        assert!(child > 0, "{child}");
        kill_process(Pid::from_child(&puppet.child), Signal::KILL).unwrap();
        puppet.child.wait().unwrap();
        let plain = bed.near().enter(|| UdpSocket::bind("0.0.0.0:5001")).unwrap().unwrap();
        plain.set_read_timeout(Some(SOON)).unwrap();
        bed.peer.send_to(b"hello", (bed.cable.near().ipv4, 5001)).unwrap();
        assert_eq!(plain.recv(&mut [0; 16]).unwrap(), 5);
        kill_process(Pid::from_raw(child as i32).unwrap(), Signal::KILL).unwrap();
        bed.loses_its_program_soon();
    }
}
