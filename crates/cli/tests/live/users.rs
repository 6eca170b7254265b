//! Servers that start as root and serve as another user: a master and its workers, or one process that changes its user.

use std::net::UdpSocket;
use std::time::Duration;

use nearwire_agent::client::Client;
use nearwire_lab::Cable;
use serde_json::Value;

use crate::by_agent::{start_agent_for_nobody, status_of, wait_until};
use crate::common::accelerated::{Bed, Running};
use crate::shared_port::has_program;

/// `nobody` of Debian.
const NOBODY: u32 = 65_534;
/// A user whom the agent's file does not name.
const UNKNOWN: u32 = 65_533;
/// Functions of the scripts. `serve` answers each datagram with the process's number behind it.
const FUNCTIONS: &str = "
import ctypes, signal
def alone(port):
    made = udp(); made.bind((near, port)); return made
def end_with_parent(): ctypes.CDLL(None).prctl(1, signal.SIGKILL)
def change(user):
    os.setgroups([]); os.setresgid(user, user, user); os.setresuid(user, user, user)
    # A change of user ends the wish for this.
    end_with_parent()
def answer(one):
    data, source = one.recvfrom(2000)
    one.sendto(b'%s %d' % (data, os.getpid()), source)
def serve(one):
    while True: answer(one)
def worker(one, user):
    if os.fork() == 0:
        change(user)
        serve(one)
";

/// Begins anew as a program that `nearwire run` did not start for root.
const WITHOUT_PASS: &str = "
if os.environ.pop('NEARWIRE_AGENT_IN', None): os.execv(sys.executable, sys.orig_argv)
";

fn start(bed: &Bed, script: &str) -> Running {
    let mut program = bed.run_as(bed.cable.near(), 0, &format!("{FUNCTIONS}{script}"));
    program.step();
    program
}

struct Asker<'a> {
    bed: &'a Bed,
    socket: UdpSocket,
}

impl Asker<'_> {
    fn new(bed: &Bed) -> Asker<'_> {
        let socket = bed.far();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Asker { bed, socket }
    }

    /// Asks once, and gives the number of the process that answered.
    #[track_caller]
    fn ask(&self, port: u16, number: u32) -> u32 {
        self.socket.send_to(number.to_string().as_bytes(), (self.bed.cable.near().ipv4, port)).unwrap();
        let mut answer = [0; 64];
        let (len, from) = self.socket.recv_from(&mut answer).unwrap();
        let text = std::str::from_utf8(&answer[..len]).unwrap();
        let (asked, process) = text.split_once(' ').unwrap();
        assert_eq!((asked.parse(), from.port()), (Ok(number), port), "{text}");
        process.parse().unwrap()
    }

    /// Asks so often; who answered, which is one process.
    #[track_caller]
    fn ask_often(&self, port: u16) -> u32 {
        let first = self.ask(port, 0);
        (1..100).for_each(|number| assert_eq!(self.ask(port, number), first));
        first
    }
}

#[track_caller]
fn assert_accelerated(process: u32) {
    let shown = status_of(&process.to_string());
    let socket = used(&shown);
    assert_eq!(socket["accelerated"], true, "{shown:#}");
    let by_kernel = socket["counters"]["received_by_shadow"].as_u64().unwrap();
    assert!(by_kernel <= 8, "what came before its first use: {shown:#}");
}

#[track_caller]
fn assert_kernels(process: u32, words: &str) {
    let shown = status_of(&process.to_string());
    assert_eq!((&used(&shown)["accelerated"], &used(&shown)["reason"]), (&false.into(), &"AgentRefused".into()));
    assert!(shown["interfaces"][0]["words"].as_str().unwrap().contains(words), "{shown:#}");
}

/// The socket that the process uses.
fn used(shown: &Value) -> &Value {
    let is_used = |socket: &&Value| socket["reason"] != "NotUsed" && socket["reason"] != "AfterFork";
    shown["sockets"].as_array().unwrap().iter().find(is_used).unwrap()
}

/// Users by whom the agent serves a process, one for each connection that has shares.
fn users_of(bed: &Bed, process: u32) -> Vec<u32> {
    let mut client = bed.cable.near().namespace.enter(|| Client::connect("test")).unwrap().unwrap();
    let of_process = |program: &&nearwire_agent::message::ProgramStatus| program.pid == process;
    let status = client.status().unwrap();
    status.iter().filter(of_process).filter(|program| !program.shares.is_empty()).map(|program| program.uid).collect()
}

#[test]
fn workers_of_another_user_than_their_master_are_accelerated_as_that_user() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let program = start(&bed, "sockets = [alone(7000), alone(7001)]\nfor one in sockets: worker(one, 65534)\nstep()");
    let asker = Asker::new(&bed);
    let workers = [7000, 7001].map(|port| asker.ask_often(port));
    for worker in workers {
        assert_accelerated(worker);
        assert_eq!(users_of(&bed, worker), [NOBODY]);
    }
    let master = status_of(&program.pid());
    let is_unused = |socket: &Value| socket["reason"] == "NotUsed";
    assert!(master["sockets"].as_array().unwrap().iter().all(is_unused), "{master:#}");
    assert_eq!(master["interfaces"], Value::Array(Vec::new()), "it has no share, and so no packet memory");
    assert!(users_of(&bed, program.child.id()).is_empty());
}

#[test]
fn process_that_changes_its_user_before_the_first_use_has_its_share_as_the_new_user() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let mut program = start(&bed, "one = alone(7000)\nchange(65534)\nstep()\nserve(one)");
    program.say("");
    let asker = Asker::new(&bed);
    let server = asker.ask_often(7000);
    assert_accelerated(server);
    assert_eq!(users_of(&bed, server), [NOBODY]);
}

#[test]
fn process_that_changes_its_user_after_the_first_use_keeps_what_it_has() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let script = "one, other = alone(7000), alone(7001)\nstep()\nanswer(one)\nchange(65534)\nanswer(one)\nserve(other)";
    let mut program = start(&bed, script);
    program.say("");
    let asker = Asker::new(&bed);
    (0..2).for_each(|number| assert_eq!(asker.ask(7000, number), program.child.id()));
    let server = asker.ask_often(7001);
    assert_accelerated(server);
    assert_eq!(users_of(&bed, server), [0]);
}

#[test]
fn servers_that_root_started_are_accelerated_as_users_whom_the_file_does_not_name() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let _forks = start(&bed, &format!("one = alone(7000)\nworker(one, {UNKNOWN})\nstep()"));
    let mut changes = start(&bed, &format!("one = alone(7001)\nchange({UNKNOWN})\nstep()\nserve(one)"));
    changes.say("");
    let daemon = format!(
        "parent = os.getpid()\nif os.fork(): os._exit(0)\nwhile os.getppid() == parent: pass\nchange({UNKNOWN})\none = alone(7002)\nstep()\n\
         # It ends with the test, which has the other end of its standard input: its parent has ended.\n\
         waits = select.poll(); waits.register(one, select.POLLIN); waits.register(0, 0)\n\
         while all(fd != 0 for fd, _ in waits.poll()): answer(one)"
    );
    let mut daemon = start(&bed, &daemon);
    daemon.say("");
    let asker = Asker::new(&bed);
    for server in [7000, 7001, 7002].map(|port| asker.ask_often(port)) {
        assert_accelerated(server);
        assert_eq!(users_of(&bed, server), [UNKNOWN]);
    }
}

#[test]
fn child_takes_a_used_socket_from_its_parent_as_a_user_whom_the_file_does_not_name() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let script = format!(
        "one = alone(7000)\nchange({UNKNOWN})\nstep()\nanswer(one)\nif os.fork() == 0: end_with_parent(); serve(one)\nstep()"
    );
    let mut program = start(&bed, &script);
    program.say("");
    let asker = Asker::new(&bed);
    assert_eq!(asker.ask(7000, 0), program.child.id());
    program.step();
    assert_ne!(asker.ask_often(7000), program.child.id());
}

#[test]
fn user_whom_the_file_does_not_name_is_served_by_the_kernel_with_that_reason() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let start = |script: &str| start(&bed, &format!("{WITHOUT_PASS}{script}"));
    let forks = start(&format!("one = alone(7000)\nworker(one, {UNKNOWN})\nstep()"));
    let mut changes = start(&format!("one = alone(7001)\nchange({UNKNOWN})\nstep()\nserve(one)"));
    changes.say("");
    let asker = Asker::new(&bed);
    for server in [7000, 7001].map(|port| asker.ask_often(port)) {
        assert_kernels(server, "user 65533 may not use the agent");
    }
    assert_eq!(status_of(&forks.pid())["sockets"][0]["reason"], "NotUsed");
    let changed = changes.child.id();
    wait_until("its connection of before is closed", || !has_program(&bed, changed));
}

#[test]
fn strict_server_whose_user_may_not_use_the_agent_is_told_by_its_first_call() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let script = "
one, other = alone(7000), alone(7001)
change(USER)
step()
receives = lambda: one.recvfrom(2000, socket.MSG_DONTWAIT)
sends = lambda: other.sendto(b'x', (far, 7000))
# As Python calls EOPNOTSUPP.
step() if [error(receives), error(sends)] == WANTED else print([error(receives), error(sends)])
";
    for (user, wanted) in [(UNKNOWN, "['ENOTSUP', 'ENOTSUP']"), (NOBODY, "['EAGAIN', 'none']")] {
        let script = script.replace("USER", &user.to_string()).replace("WANTED", wanted);
        let end = bed.cable.near();
        let mut program =
            bed.start(end, &format!("{FUNCTIONS}{script}"), &[("NEARWIRE_STRICT", "1"), ("NEARWIRE_MODE", "auto")]);
        program.step();
        program.say("");
        program.step();
    }
}

#[test]
fn interface_is_of_the_first_user_that_uses_a_socket_and_not_of_masters_that_bind() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    // Root's are bound first, and used last.
    let mut first = start(&bed, "one = alone(7000)\nstep()\nserve(one)");
    let _workers = start(&bed, "one = alone(7001)\nworker(one, 65534)\nstep()");
    let asker = Asker::new(&bed);
    let worker = asker.ask_often(7001);
    assert_accelerated(worker);
    first.say("");
    let own = asker.ask_often(7000);
    assert_kernels(own, "is used by programs of user 65534");
    assert_accelerated(worker);
}

#[test]
fn worker_of_another_user_has_neither_packet_memory_nor_rings_of_a_master_that_uses_its_share() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let script = "own, other = alone(7000), alone(7001)\nstep()\nanswer(own)\nworker(other, 65534)\nserve(own)";
    let mut program = start(&bed, script);
    program.say("");
    let asker = Asker::new(&bed);
    assert_eq!(asker.ask(7000, 0), program.child.id());
    let worker = asker.ask_often(7001);
    assert_kernels(worker, "is used by programs of user 0");
    assert_ne!(held(program.child.id()), [] as [String; 0]);
    assert_eq!(held(worker), [] as [String; 0]);
    assert_eq!(asker.ask_often(7000), program.child.id());
    assert_accelerated(program.child.id());
}

/// Datagrams that a server without capabilities has not read, when another process begins to serve its socket.
#[test]
fn datagrams_that_wait_in_a_ring_are_the_childs_and_the_next_programs_as_the_agent_gives_them_to_the_kernel() {
    const COUNT: u32 = 20;
    let fork = "if os.fork() == 0: end_with_parent(); serve(one)";
    let exec = "
os.set_inheritable(one.fileno(), True)
os.execv('/usr/bin/python3', ['python3', '-c', '''
import socket, os
one = socket.socket(fileno=FD)
while True:
    data, source = one.recvfrom(2000)
    one.sendto(b'%s %d' % (data, os.getpid()), source)
'''.replace('FD', str(one.fileno()))])
";
    for then in [fork, exec] {
        let Some(bed) = Bed::lay() else { return };
        start_agent_for_nobody(&bed);
        let script = format!("one = alone(7000)\nchange(65534)\nstep()\nanswer(one)\nstep()\n{then}\nstep()");
        let mut program = start(&bed, &script);
        program.say("");
        let asker = Asker::new(&bed);
        assert_eq!(asker.ask(7000, 0), program.child.id());
        program.step();
        for number in 1..=COUNT {
            asker.socket.send_to(number.to_string().as_bytes(), (bed.cable.near().ipv4, 7000)).unwrap();
        }
        program.say("");
        for number in 1..=COUNT {
            let mut answer = [0; 64];
            let len = asker.socket.recv(&mut answer).unwrap_or_else(|error| panic!("{number}, {then}: {error}"));
            let text = std::str::from_utf8(&answer[..len]).unwrap();
            assert_eq!(text.split_once(' ').unwrap().0, number.to_string());
        }
    }
}

/// Descriptors of packet memory, and maps of it and of the rings of sockets, that a process has.
fn held(process: u32) -> Vec<String> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let is_ours = |line: &&str| line.contains("socket:[") || line.contains("memfd:nearwire-packets");
    let mut held: Vec<String> = maps.lines().filter(is_ours).map(str::to_owned).collect();
    for entry in std::fs::read_dir(format!("/proc/{process}/fd")).unwrap() {
        let target = std::fs::read_link(entry.unwrap().path()).unwrap_or_default();
        let target = target.to_string_lossy().into_owned();
        held.extend(target.contains("memfd:nearwire-packets").then_some(target));
    }
    held
}

#[test]
fn process_in_another_root_directory_without_privileges_is_accelerated() {
    let Some(bed) = Bed::lay() else { return };
    start_agent_for_nobody(&bed);
    let empty = bed.directory.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let script = "
one = alone(7000)
prctl = ctypes.CDLL(None).prctl
os.chroot('EMPTY'); os.chdir('/')
change(65534)
prctl(38, 1, 0, 0, 0)
step()
serve(one)
";
    let mut program = start(&bed, &script.replace("EMPTY", empty.to_str().unwrap()));
    program.say("");
    let asker = Asker::new(&bed);
    let server = asker.ask_often(7000);
    assert_accelerated(server);
    assert_eq!(users_of(&bed, server), [NOBODY]);
    wait_until("the agent knows its name", || {
        let mut client = bed.cable.near().namespace.enter(|| Client::connect("test")).unwrap().unwrap();
        let status = client.status().unwrap();
        status.iter().any(|program| program.pid == server && program.name.as_str().starts_with("python"))
    });
}
