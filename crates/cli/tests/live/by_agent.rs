//! Programs under `nearwire run` that have shares of the agent's ports: several on one interface, of an ordinary user, killed, and with
//! an agent that is killed.

use std::collections::BTreeSet;
use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use nearwire_agent::client::{Client, ClientError};
use nearwire_frames::interface::InterfaceFacts;
use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions};
use serde_json::Value;

use crate::common::accelerated::{Bed, Running};
use crate::common::{code, command, errors, may_run, nearwire, text};
use crate::dry_run::dry_run;

const NOBODY: u32 = 65_534;
/// All that a port needs, without CAP_IPC_LOCK.
const LITTLE: &str = "--bounding-set=-all,+net_admin,+net_raw,+bpf,+perfmon";
/// Gives everything back.
const ECHO: &str = "
one = bound(near, PORT)
step()
while True:
    data, source = one.recvfrom(2000)
    one.sendto(data, source)
";

fn echo(port: u16) -> String {
    ECHO.replace("PORT", &port.to_string())
}

fn status(program: &Running) -> Value {
    status_of(&program.pid())
}

pub(crate) fn status_of(pid: &str) -> Value {
    status_while_there(pid).unwrap_or_else(|why| panic!("{why}"))
}

/// `Err`: the process is gone, or what else is wrong.
pub(crate) fn status_while_there(pid: &str) -> Result<Value, String> {
    let output = nearwire(&["status", pid, "--json"]);
    if code(&output) != Some(0) {
        return Err(errors(&output));
    }
    Ok(serde_json::from_str(&text(&output)).unwrap())
}

/// Its first socket is accelerated by a share of the agent's.
#[track_caller]
fn assert_by_agent(program: &Running) {
    assert_shown_by_agent(&status(program));
}

#[track_caller]
fn assert_shown_by_agent(shown: &Value) {
    assert_eq!(shown["sockets"][0]["accelerated"], true, "{shown:#}");
    assert!(shown["interfaces"][0]["words"].as_str().unwrap().ends_with(", by the agent"), "{shown:#}");
}

struct Far<'a> {
    bed: &'a Bed,
    socket: UdpSocket,
}

impl<'a> Far<'a> {
    fn new(bed: &'a Bed) -> Far<'a> {
        let socket = bed.far();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        Far { bed, socket }
    }

    fn send(&self, port: u16, number: u32) {
        self.socket.send_to(&number.to_be_bytes(), (self.bed.cable.near().ipv4, port)).unwrap();
    }

    /// Whether what is sent comes back from there, and nothing else comes.
    fn echoes(&self, port: u16, number: u32) -> bool {
        self.send(port, number);
        let mut answer = [0; 64];
        match self.socket.recv_from(&mut answer) {
            Ok((len, from)) => (&answer[..len], from.port()) == (&number.to_be_bytes()[..], port),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                false
            }
        }
    }

    /// Lets no more than so many be under way as the kernel keeps for a program that has no CPU for a while.
    fn wait_for_answers(&self, numbers: &mut BTreeSet<u32>, sent: usize) {
        const UNDER_WAY_MOST: usize = 200;
        let until = Instant::now() + Duration::from_secs(10);
        self.take_answers(numbers, false);
        while sent - numbers.len() > UNDER_WAY_MOST && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(200));
            self.take_answers(numbers, false);
        }
    }

    /// Takes the numbers that have come back, so that the receive buffer has room; `until_quiet`: waits for the last ones too.
    fn take_answers(&self, numbers: &mut BTreeSet<u32>, until_quiet: bool) {
        self.socket.set_nonblocking(!until_quiet).unwrap();
        self.socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut answer = [0; 64];
        while let Ok(4) = self.socket.recv(&mut answer) {
            assert!(numbers.insert(u32::from_be_bytes(answer[..4].try_into().unwrap())), "nothing comes twice");
        }
        self.socket.set_nonblocking(false).unwrap();
        self.socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    }
}

/// An agent of root that serves user `nobody` too.
pub(crate) fn start_agent_for_nobody(bed: &Bed) {
    let rights = bed.directory.path().join("agent.toml");
    std::fs::write(&rights, format!("[[allow]]\nusers = [{NOBODY}]\n")).unwrap();
    let start = || command(&["agent", "--background", "--rights"]).arg(&rights).output().unwrap();
    let started = bed.cable.near().namespace.enter(start).unwrap();
    assert!(started.status.success(), "{}", errors(&started));
}

fn connected(bed: &Bed) -> Result<Client, ClientError> {
    bed.cable.near().namespace.enter(|| Client::connect("test")).unwrap()
}

fn agent(bed: &Bed) -> u32 {
    running_agent(bed).unwrap()
}

/// The agent's process, where one runs.
pub(crate) fn running_agent(bed: &Bed) -> Option<u32> {
    connected(bed).ok().map(|client| client.agent().pid)
}

pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn programs_on_one_interface_are_all_accelerated_and_each_gets_its_own_datagrams() {
    let Some(bed) = Bed::lay() else { return };
    let far = Far::new(&bed);
    let mut programs: Vec<_> = (0..3).map(|at| bed.run_as(bed.cable.near(), 0, &echo(7000 + at))).collect();
    programs.iter_mut().for_each(Running::step);
    programs.iter_mut().for_each(|program| program.say(""));
    for number in 0..300 {
        for port in 7000..7003 {
            assert!(far.echoes(port, number), "datagram {number} to {port}");
        }
    }
    programs.iter().for_each(assert_by_agent);
    for program in &programs {
        let shown = status(program);
        let counters = &shown["sockets"][0]["counters"];
        assert_eq!(
            (&counters["received_datagrams"], &counters["received_by_shadow"]),
            (&300.into(), &0.into()),
            "{shown:#}"
        );
    }
    let list = bed.cable.near().namespace.enter(|| command(&["status", "--json"]).output().unwrap()).unwrap();
    let list: Value = serde_json::from_str(&text(&list)).unwrap();
    let mut served: Vec<_> =
        list["agent"]["programs"].as_array().unwrap().iter().map(|program| program["pid"].to_string()).collect();
    let mut started: Vec<_> = programs.iter().map(Running::pid).collect();
    served.sort();
    started.sort();
    assert_eq!(served, started, "{list:#}");
}

#[test]
fn containers_that_share_a_network_namespace_have_one_agent_and_outlive_the_one_that_started_it() {
    let Some(bed) = Bed::lay() else { return };
    let far = Far::new(&bed);
    let mut programs = Vec::new();
    for port in 7000..7002 {
        let mut program = bed.run_in_pid_namespace(bed.cable.near(), &echo(port));
        program.step();
        program.say("");
        assert!((0..100).all(|number| far.echoes(port, number)), "port {port}");
        assert_shown_by_agent(&status_of(&program.child_pid()));
        programs.push(program);
    }
    // The agent is in the PID namespace of the first, and ends with it.
    drop(programs.remove(0));
    wait_until("the agent ends", || matches!(connected(&bed), Err(ClientError::NoAgent)));
    assert!((0..100).all(|number| far.echoes(7001, number)), "the kernel serves the other");
    let said = programs.remove(0).kill_and_tell();
    assert!(!said.contains("no agent serves"), "{said}");
}

#[test]
fn sixty_four_programs_on_one_interface_of_one_queue_are_all_accelerated_and_answer() {
    const PROGRAMS: u16 = 64;
    let Some(bed) = Bed::lay_with(VirtualCableOptions { queues: 1, ..VirtualCableOptions::default() }) else { return };
    let far = Far::new(&bed);
    let mut programs: Vec<_> = (0..PROGRAMS).map(|at| bed.run_as(bed.cable.near(), 0, &echo(8000 + at))).collect();
    programs.iter_mut().for_each(Running::step);
    programs.iter_mut().for_each(|program| program.say(""));
    for number in 0..20 {
        assert!((8000..8000 + PROGRAMS).all(|port| far.echoes(port, number)), "datagram {number}");
    }
    programs.iter().for_each(assert_by_agent);
}

#[test]
fn users_at_the_same_time_have_the_interface_as_the_rights_say_or_the_kernel_with_the_reason() {
    const OTHER: u32 = 65_533;
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let far = Far::new(&bed);
    // The first of those who may has the interface, and the next one of the same user.
    let users = [NOBODY, 0, OTHER, NOBODY];
    let mut programs = Vec::new();
    for (port, user) in (7000..).zip(users) {
        let mut program = bed.run_as(bed.cable.near(), user, &echo(port));
        program.step();
        program.say("");
        programs.push(program);
    }
    for number in 0..100 {
        assert!((7000..7004).all(|port| far.echoes(port, number)), "datagram {number}");
    }
    for (at, word) in [(1, "is used by programs of user 65534"), (2, "user 65533 may not use the agent")] {
        let shown = status(&programs[at]);
        assert_eq!(shown["sockets"][0]["accelerated"], false, "{shown:#}");
        let why = shown["interfaces"][0]["words"].as_str().unwrap_or_default();
        assert!(why.contains(word) || at == 2, "{shown:#}");
    }
    [0, 3].into_iter().for_each(|at| assert_by_agent(&programs[at]));
}

#[test]
fn program_of_an_ordinary_user_without_capabilities_is_accelerated_by_the_agent_of_root() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let far = Far::new(&bed);
    let mut program = bed.run_as(bed.cable.near(), NOBODY, &echo(7000));
    program.step();
    program.say("");
    let all = std::fs::read_to_string(format!("/proc/{}/status", program.pid())).unwrap();
    assert!(all.contains("CapEff:\t0000000000000000") && all.contains(&format!("Uid:\t{NOBODY}\t")), "{all}");
    assert!((0..300).all(|number| far.echoes(7000, number)));
    assert_by_agent(&program);
}

#[test]
fn agent_stays_as_long_as_a_program_that_has_no_socket_yet_and_ends_after_it() {
    let Some(bed) = Bed::lay() else { return };
    let mut program = bed.run_as(bed.cable.near(), 0, "step()\none = bound(near, 7000)\nstep()");
    program.step();
    std::thread::sleep(Duration::from_secs(6));
    program.say("");
    program.step();
    assert_by_agent(&program);
    program.end();
    wait_until("the agent ends", || {
        // Each look is a program that comes and goes.
        std::thread::sleep(Duration::from_millis(5500));
        matches!(connected(&bed), Err(ClientError::NoAgent))
    });
}

#[test]
fn agent_killed_under_load_loses_no_socket_and_the_next_run_accelerates_all_again() {
    let Some(bed) = Bed::lay() else { return };
    let far = Far::new(&bed);
    let mut first = bed.run_as(bed.cable.near(), 0, &echo(7000));
    // It waits for its first datagram, and must not keep the queues from the next agent.
    let mut idle = bed.run_as(bed.cable.near(), 0, &echo(7002));
    for program in [&mut first, &mut idle] {
        program.step();
        program.say("");
    }
    assert!((0..50).all(|number| far.echoes(7000, number)));
    assert_by_agent(&first);
    let mut answered = BTreeSet::new();
    for number in 0..2000 {
        far.send(7000, number);
        far.wait_for_answers(&mut answered, number as usize + 1);
        if number == 1000 {
            kill(agent(&bed));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    far.take_answers(&mut answered, true);
    // What was in the rings is read, and all behind it comes by the kernel.
    assert_eq!(answered.len(), 2000, "nothing is lost");
    assert!((5000..5100).all(|number| far.echoes(7000, number)), "its socket is the kernel's, and works");
    let mut second = bed.run_as(bed.cable.near(), 0, &echo(7001));
    second.step();
    second.say("");
    assert!((0..50).all(|number| far.echoes(7001, number)));
    assert_by_agent(&second);
    let mut number = 10_000;
    wait_until("the first program is accelerated again", || {
        number += 1;
        assert!(far.echoes(7000, number) && far.echoes(7001, number), "datagram {number}");
        std::thread::sleep(Duration::from_millis(100));
        let shown = status(&first);
        shown["interfaces"][0]["words"].as_str().is_some_and(|words| words.ends_with(", by the agent"))
    });
    for number in 20_000..20_050 {
        assert!([7000, 7001, 7002].iter().all(|port| far.echoes(*port, number)), "datagram {number}");
    }
}

/// The kernel ends the agent's connections first, and its XDP program some milliseconds later.
#[test]
fn agent_killed_under_load_of_several_programs_loses_no_datagram_of_any() {
    const PROGRAMS: u16 = 4;
    let Some(bed) = Bed::lay() else { return };
    let far = Far::new(&bed);
    let mut programs: Vec<_> = (0..PROGRAMS).map(|at| bed.run_as(bed.cable.near(), 0, &echo(7000 + at))).collect();
    for program in &mut programs {
        program.step();
        program.say("");
    }
    assert!((7000..7000 + PROGRAMS).all(|port| (0..20).all(|number| far.echoes(port, number))));
    programs.iter().for_each(assert_by_agent);
    let mut answered = BTreeSet::new();
    for number in 0..1000 {
        for at in 0..PROGRAMS {
            far.send(7000 + at, number * u32::from(PROGRAMS) + u32::from(at));
        }
        far.wait_for_answers(&mut answered, (number as usize + 1) * usize::from(PROGRAMS));
        if number == 500 {
            kill(agent(&bed));
        }
        std::thread::sleep(Duration::from_micros(400));
    }
    far.take_answers(&mut answered, true);
    assert_eq!(answered.len(), 1000 * usize::from(PROGRAMS), "nothing is lost");
}

#[test]
fn program_killed_under_load_leaves_its_flow_to_the_next_and_others_lose_nothing() {
    let Some(bed) = Bed::lay() else { return };
    let far = Far::new(&bed);
    let mut beside = bed.run_as(bed.cable.near(), 0, &echo(7001));
    beside.step();
    beside.say("");
    for round in 0..5 {
        let mut program = bed.run_as(bed.cable.near(), 0, &echo(7000));
        program.step();
        program.say("");
        assert!((0..20).all(|number| far.echoes(7000, number)), "round {round}");
        assert_by_agent(&program);
        let mut answered = BTreeSet::new();
        for number in 0..500 {
            far.send(7000, 1_000_000 + number);
            far.send(7001, number);
            far.take_answers(&mut answered, false);
            if number == 250 {
                program.child.kill().unwrap();
                program.child.wait().unwrap();
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        far.take_answers(&mut answered, true);
        assert_eq!(answered.range(..1_000_000).count(), 500, "the one beside loses nothing, round {round}");
    }
    // The kernel has the port: it says that nobody is there, as often as its limit of such messages allows.
    let refused = bed.cable.far().namespace.enter(|| UdpSocket::bind((bed.cable.far().ipv4, 0)).unwrap()).unwrap();
    refused.connect((bed.cable.near().ipv4, 7000)).unwrap();
    refused.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    wait_until("the kernel answers for the port", || {
        let sent = refused.send(b"x").and_then(|_| refused.recv(&mut [0; 8]));
        sent.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    });
}

#[test]
fn dry_run_where_no_agent_runs_tries_a_share_of_a_port_of_the_agents_kind() {
    if !may_run() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let near = cable.near();
    let said = text(&dry_run(near, &[]));
    assert!(said.contains("none runs; one would be started"), "{said}");
    assert!(said.contains("tried: share 1 of AF_XDP generic") && said.contains(", by the agent"), "{said}");
    let facts = near.namespace.enter(|| InterfaceFacts::read(&near.interface)).unwrap().unwrap();
    assert_eq!(facts.program, None, "the program is gone");
    // Memory for a port of the program's own, which an agent's port does not fit into.
    let little = ["prlimit", "--memlock=8000000:8000000", "setpriv", LITTLE, "--inh-caps=-all"];
    let said = text(&dry_run(near, &little));
    assert!(
        said.contains("tried: AF_XDP generic") && !said.contains(", by the agent"),
        "a run opens it itself then: {said}"
    );
}
