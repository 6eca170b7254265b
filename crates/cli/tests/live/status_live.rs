//! What programs under the library tell: `nearwire status`, `strict` and `stats`, over a virtual cable.

use std::io::BufRead;
use std::net::UdpSocket;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::common::accelerated::{Bed, Running};
use crate::common::{code, errors, nearwire, text};
use nearwire_lab::Cable;
use serde_json::Value;

/// SO_MARK is one of the options that only the kernel has.
const FOUR_SOCKETS: &str = "
one = bound(near, 7000)
loopback = bound('127.0.0.1', 7001)
ruled = bound(near, 7002)
marked = udp()
marked.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 5)
marked.bind((near, 7003))
unbound = udp()
step()
for _ in range(3): one.recv(2000)
for _ in range(5): one.sendto(b'12345678', (far, 7100))
one.setblocking(False)
time.sleep(0.01)
error(one.recv, 10)
step()
";

/// A bed whose port 7002 a rule keeps with the kernel.
struct Ruled {
    bed: Bed,
    rules: String,
}

impl std::ops::Deref for Ruled {
    type Target = Bed;

    fn deref(&self) -> &Bed {
        &self.bed
    }
}

impl Ruled {
    fn lay() -> Option<Ruled> {
        let bed = Bed::lay()?;
        let rules = bed.directory.path().join("rules.toml");
        std::fs::write(&rules, "[[rule]]\nuse = \"kernel\"\nport = \"7002\"\n").unwrap();
        Some(Ruled { rules: rules.to_str().unwrap().to_owned(), bed })
    }

    fn start(&self, script: &str, variables: &[(&str, &str)]) -> Running {
        let variables = [&[("NEARWIRE_CONFIG", self.rules.as_str())], variables].concat();
        self.bed.start(self.bed.cable.near(), script, &variables)
    }

    /// Runs a script to its end.
    fn run(&self, script: &str, variables: &[(&str, &str)]) -> Output {
        self.start(script, variables).end()
    }
}

fn status(program: &Running) -> Value {
    let output = nearwire(&["status", &program.pid(), "--json"]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    serde_json::from_str(&text(&output)).unwrap()
}

fn counter(of: &Value, name: &str) -> u64 {
    of["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name} in {of:#}"))
}

#[test]
fn socket_that_no_call_has_used_is_the_kernels_until_its_first_use() {
    let Some(bed) = Ruled::lay() else { return };
    let far = bed.far();
    let script = "
one = udp()
one.bind((near, 7000))
step()
for _ in range(3): print(one.recv(10).decode(), flush=True)
step()
";
    let mut program = bed.start(script, &[]);
    program.step();
    let shown = status(&program);
    assert_eq!(shown["sockets"][0]["reason"], "NotUsed", "{shown:#}");
    let send = |text: &[u8]| assert_eq!(far.send_to(text, (bed.cable.near().ipv4, 7000)).unwrap(), text.len());
    send(b"before");
    program.say("");
    let mut line = String::new();
    for text in ["before", "second", "third"] {
        line.clear();
        program.lines.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), text);
        send(if text == "before" { b"second" } else { b"third" });
    }
    program.step();
    let shown = status(&program);
    let one = &shown["sockets"][0];
    assert_eq!(one["accelerated"], true, "{shown:#}");
    assert_eq!((counter(one, "received_by_shadow"), counter(one, "received_datagrams")), (1, 2), "{one:#}");
}

#[test]
fn program_running_is_shown_with_its_sockets_counters_and_reasons() {
    let Some(bed) = Ruled::lay() else { return };
    let far = bed.far();
    let mut program = bed.start(FOUR_SOCKETS, &[]);
    program.step();
    program.say("");
    for _ in 0..3 {
        far.send_to(b"0123456789", (bed.cable.near().ipv4, 7000)).unwrap();
    }
    program.step();
    let shown = status(&program);
    let sockets = shown["sockets"].as_array().unwrap();
    let why: Vec<_> = sockets.iter().map(|socket| socket["reason"].as_str().unwrap_or("accelerated")).collect();
    assert_eq!(why, ["accelerated", "Loopback", "RuleSaysKernel", "UnsupportedOption", "NotBound"], "{shown:#}");
    assert_eq!(sockets[2]["why"], "rule 1 keeps it with the kernel");
    assert!(sockets[3]["why"].as_str().unwrap().ends_with("(level 1, option 36)"), "{}", sockets[3]);
    let one = &sockets[0];
    assert_eq!(one["local"], format!("{}:7000", bed.cable.near().ipv4));
    assert_eq!((counter(one, "received_datagrams"), counter(one, "received_bytes")), (3, 30), "{one:#}");
    assert_eq!((counter(one, "sent_datagrams"), counter(one, "sent_bytes")), (5, 40), "{one:#}");
    assert_eq!((counter(one, "received_by_shadow"), counter(one, "sent_by_shadow")), (0, 0), "{one:#}");
    assert_eq!(counter(one, "would_block"), 1, "{one:#}");
    assert!(counter(&shown, "frames_received") >= 3, "{shown:#}");
    assert_eq!((counter(&shown, "frames_sent"), counter(&shown, "kicks")), (5, 5), "{shown:#}");
    assert!(counter(&shown, "calls_served") >= 8, "{shown:#}");
    assert_eq!(shown["engine"]["state"], "Running");
    let interface = &shown["interfaces"][0];
    assert_eq!((&interface["name"], &interface["used"]), (&bed.cable.near().interface.clone().into(), &true.into()));
    assert!(interface["words"].as_str().unwrap().contains("AF_XDP generic"), "{interface}");
    assert_eq!(one["ifindex"], interface["ifindex"]);
    let mut buffer = [0; 64];
    assert_eq!(far.recv(&mut buffer).unwrap(), 8);
    let ended = program.end();
    assert_eq!((code(&ended), errors(&ended).as_str()), (Some(0), ""), "nothing is printed unless asked for");
}

/// A burst of so many datagrams.
const BURST: u64 = 20_000;
/// So many are tried: beside other tests a program has a CPU for a part of the time, and sends few datagrams within the time of a batch.
const BURSTS: u64 = 15;

#[test]
fn burst_with_send_coalescing_is_kicked_by_the_batch() {
    let Some(bed) = Ruled::lay() else { return };
    let _far = bed.far();
    let script = format!(
        "
one = bound(near, 7000)
for _ in range({BURSTS}):
    for _ in range({BURST}): one.sendto(b'12345678', (far, 7100))
    step()
"
    );
    let mut program = bed.start(&script, &[("NEARWIRE_SEND_COALESCING", "50us")]);
    let mut kicks_before = 0;
    let kicks: Vec<u64> = (1..=BURSTS)
        .map(|burst| {
            program.step();
            let shown = status(&program);
            assert_eq!(counter(&shown, "frames_sent"), burst * BURST);
            let kicks = counter(&shown, "kicks");
            if burst < BURSTS {
                program.say("");
            }
            kicks - std::mem::replace(&mut kicks_before, kicks)
        })
        .collect();
    assert!(kicks.iter().any(|kicks| *kicks < BURST / 4), "{kicks:?} kicks of {BURST} frames each");
    program.end();
}

#[test]
fn interface_of_another_process_is_told_and_strict_fails_the_calls() {
    let Some(bed) = Ruled::lay() else { return };
    let mut first = bed.start("one = bound(near, 7000)\nstep()", &[]);
    first.step();
    let mut second = bed.start("other = bound(near, 7010)\nstep()", &[]);
    second.step();
    let shown = status(&second);
    assert_eq!(
        (&shown["sockets"][0]["reason"], &shown["sockets"][0]["accelerated"]),
        (&"InterfaceBusy".into(), &false.into())
    );
    let interface = &shown["interfaces"][0];
    assert_eq!((&interface["reason"], &interface["used"]), (&"InterfaceBusy".into(), &false.into()), "{shown:#}");
    second.end();
    let strict = "
refused = udp()
print(error(refused.bind, (near, 7011)), error(refused.sendto, b'x', (far, 7100)), error(refused.recv, 10))
print(error(udp().connect, (far, 7100)), error(udp().sendto, b'x', (far, 7100)))
print(error(udp().bind, ('127.0.0.1', 7012)), error(udp().bind, (near, 7002)), error(udp().connect, (near, 7013)))
";
    let output = bed.run(strict, &[("NEARWIRE_STRICT", "1")]);
    let refused = "ENOTSUP ENOTSUP ENOTSUP\nENOTSUP ENOTSUP\nnone none none\n";
    assert_eq!((text(&output).as_str(), errors(&output).as_str()), (refused, ""));
    first.end();
}

/// SO_TIMESTAMPING: RX_HARDWARE, RAW_HARDWARE, RX_SOFTWARE, SOFTWARE. What is printed: the datagram lay there before it was
/// read, its first time says so, and the device has none.
const TIMED: &str = "
import struct
one = bound(near, 7000)
step()
one.setsockopt(socket.SOL_SOCKET, 37, 1 << 2 | 1 << 6 | 1 << 3 | 1 << 4)
step()
time.sleep(0.2)
_, told, _, _ = one.recvmsg(100, 200)
times = struct.unpack('qqqqqq', told[0][2])
lay_s = time.time() - times[0] - times[1] / 1e9
print(told[0][1], lay_s > 0.1 and lay_s < 10, times[4:])
step()
";

#[test]
fn times_asked_for_are_of_arrival_and_status_says_whose() {
    let Some(bed) = Ruled::lay() else { return };
    let far = bed.far();
    let device = "times by the device";
    let modes = [("generic", "times by the kernel (by the device: generic mode has none"), ("native", device)];
    for (mode, wanted) in modes {
        let mut program = bed.start(TIMED, &[("NEARWIRE_MODE", mode)]);
        program.step();
        let words = |program: &Running| status(program)["interfaces"][0]["words"].as_str().unwrap().to_owned();
        assert!(!words(&program).contains("times"), "nobody asked: {}", words(&program));
        program.say("");
        program.step();
        let shown = status(&program);
        assert_eq!(shown["sockets"][0]["accelerated"], true, "{shown:#}");
        let said = words(&program);
        // A kernel before 6.6 has no device to ask.
        let older = wanted == device && said.contains("this kernel has no way");
        assert!(said.contains(wanted) || older, "{mode}: {said}");
        far.send_to(b"timed", (bed.cable.near().ipv4, 7000)).unwrap();
        program.say("");
        let mut line = String::new();
        program.lines.read_line(&mut line).unwrap();
        assert_eq!(line, "37 True (0, 0)\n", "{mode}");
        program.step();
        assert_eq!(counter(&status(&program)["sockets"][0], "received_by_shadow"), 0);
        program.end();
    }
}

#[test]
fn stats_asked_for_are_printed_at_the_end_as_status_prints_them() {
    let Some(bed) = Ruled::lay() else { return };
    let far = bed.far();
    let script = "
one = bound(near, 7000)
for _ in range(2): one.sendto(b'1234', (far, 7100))
one.detach()
import os
if os.fork() == 0: sys.exit(0)
os.wait()
";
    let output = bed.run(script, &[("NEARWIRE_STATS", "1")]);
    let said = errors(&output);
    let row = said.lines().find(|line| line.contains(":7000")).unwrap_or_else(|| panic!("no socket in: {said}"));
    let words: Vec<_> = row.split_whitespace().collect();
    assert_eq!((words[1], words[4], words[5]), ("nearwire", "0", "2"), "{said}");
    assert!(said.starts_with("python3") && said.contains("2 frames sent") && said.contains("CPU time"), "{said}");
    assert_eq!(said.matches("served by").count(), 1, "a child has nothing to say: {said}");
    drop(far);
}

#[test]
fn capture_beside_an_accelerated_program_names_what_it_does_not_see() {
    let Some(bed) = Ruled::lay() else { return };
    let far = bed.far();
    let mut program = bed.start(FOUR_SOCKETS, &[]);
    program.step();
    let near = bed.cable.near();
    let file = bed.directory.path().join("c.pcapng");
    let mut command = nearwire_lab::program_under_test(crate::common::NEARWIRE);
    command.args(["capture", &near.interface, "--udp", "7000", "--udp", "7100", "--time", "1s", "-o"]).arg(&file);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let capture = near.namespace.enter(|| command.spawn()).unwrap().unwrap();
    program.say("");
    (0..3).for_each(|_| assert_eq!(far.send_to(b"0123456789", (near.ipv4, 7000)).unwrap(), 10));
    program.step();
    let output = capture.wait_with_output().unwrap();
    let words = format!("accelerated traffic of python3 (process {}) is not captured here", program.child.id());
    assert!(errors(&output).contains(&words), "{}", errors(&output));
    assert_eq!(text(&output), format!("0 frames in {}, 0 dropped\n", file.display()));
    program.end();
}

const ONE_SOCKET: &str = "
one = udp()
print(error(one.bind, (near, 7000)), flush=True)
step()
";

#[test]
fn variable_that_means_nothing_leaves_a_program_to_the_kernel_and_is_named() {
    let Some(bed) = Bed::lay() else { return };
    let mut program = bed.start(bed.cable.near(), ONE_SOCKET, &[("NEARWIRE_NONSENSE", "1")]);
    let mut line = String::new();
    program.lines.read_line(&mut line).unwrap();
    program.step();
    let shown = status(&program);
    assert_eq!((line.as_str(), &shown["sockets"][0]["reason"]), ("none\n", &"ConfigurationWrong".into()), "{shown:#}");
    assert_eq!(
        (&shown["engine"]["state"], &shown["engine"]["reason"]),
        (&"Failed".into(), &"ConfigurationWrong".into())
    );
    assert!(shown["engine"]["words"].as_str().unwrap().contains("NEARWIRE_NONSENSE: no key"), "{shown:#}");
}

#[test]
fn strict_program_whose_variables_have_a_mistake_is_refused() {
    let Some(bed) = Bed::lay() else { return };
    let variables = [("NEARWIRE_NONSENSE", "1"), ("NEARWIRE_STRICT", "1")];
    let mut program = bed.start(bed.cable.near(), ONE_SOCKET, &variables);
    let mut line = String::new();
    program.lines.read_line(&mut line).unwrap();
    assert_eq!(line, "ENOTSUP\n");
}

/// Other tests want the CPUs too, and there is to be a moment without.
const SAID_WITHIN: Duration = Duration::from_secs(90);
/// Each look takes CPU time from the program.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Sends back what comes, after a while, until `is_over`.
fn answer(far: &UdpSocket, after: Duration, is_over: &AtomicBool) {
    let mut datagram = [0; 64];
    far.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    while !is_over.load(Relaxed) {
        if let Ok((length, from)) = far.recv_from(&mut datagram) {
            std::thread::sleep(after);
            // Refused once the program has ended.
            let _ = far.send_to(&datagram[..length], from);
        }
    }
}

/// Waits until the line of `status` on how calls of a program wait has one of these words.
#[track_caller]
fn waits_soon(program: &Running, words: &[&str]) {
    let give_up = Instant::now() + SAID_WITHIN;
    loop {
        let said = text(&nearwire(&["status", &program.pid()]));
        let line = said
            .lines()
            .find(|line| line.trim_start().starts_with("waiting"))
            .unwrap_or_else(|| panic!("no line in: {said}"));
        if words.iter().any(|words| line.contains(&format!("spin auto: {words}"))) {
            println!("{line}");
            return;
        }
        assert!(Instant::now() < give_up, "not {words:?}: {said}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// A ping-pong by `spin = "auto"`: its answers come soon, then late, then soon beside threads that compute.
#[test]
fn program_that_decides_by_itself_tells_whether_it_spins_and_why() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    if cpus == 1 {
        println!("SKIP one CPU, on which nothing spins");
        return;
    }
    let Some(bed) = Bed::lay() else { return };
    let script = "
one = bound(near, 7000)
one.settimeout(1)
step()
while True:
    one.sendto(b'ping', (far, 7100))
    error(one.recv, 10)
";
    let far = bed.far();
    let while_answered = |after: Duration, threads: usize, words: &[&str]| {
        let mut program = bed.start(bed.cable.near(), script, &[("NEARWIRE_SPIN", "auto")]);
        program.step();
        program.say("");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| answer(&far, after, &is_over));
            let compute = || {
                while !is_over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            };
            (0..threads).for_each(|_| drop(scope.spawn(compute)));
            let said = std::panic::catch_unwind(|| waits_soon(&program, words));
            is_over.store(true, Relaxed);
            said.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    };
    while_answered(Duration::ZERO, 0, &["it spins: messages come soon, and nobody else wants the CPU"]);
    while_answered(Duration::from_millis(1), 0, &["it sleeps: messages come later than 200 us"]);
    // Which of these passes more messages is measured, and differs from host to host.
    let ways = ["it sleeps", "it leaves its sockets to the kernel"];
    let reasons = ["others run on its CPU, and", "more threads spin than there are CPUs, and"];
    let words = ways.map(|way| reasons.map(|reason| format!("{way}: {reason}"))).concat();
    while_answered(Duration::ZERO, 2 * cpus, &words.iter().map(String::as_str).collect::<Vec<_>>());
}
