//! The agent's life: started by many at once, killed, left alone; what it takes while it waits.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs;
use std::os::fd::AsFd;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nearwire_agent::client::{Client, ClientError};
use nearwire_agent::connection::Connection;
use nearwire_agent::life::connect_or_start;
use nearwire_agent::message::{Cause, ProgramName, Request, VERSION};
use nearwire_lab::Namespace;

use common::NEARWIRE;

const BACKGROUND: [&str; 4] = ["agent", "--background", "--linger", "500ms"];
/// Of its own. How much of the command's file is mapped, some 14 MiB of a debug build, depends on the page cache; `make targets`
/// measures the whole of a release build.
const MOST_OWN_MEMORY_KIB: u64 = 4 * 1024;
/// Standard streams, the name, an epoll set, messages about closed sockets and about links, the news of threads that open ports, packet memory for the first
/// port, and one program.
const DESCRIPTORS: usize = 10;

fn namespace() -> Option<Namespace> {
    common::may_run().then(|| Namespace::new().unwrap())
}

fn inside<R>(namespace: &Namespace, work: impl FnOnce() -> R) -> R {
    namespace.enter(work).unwrap()
}

fn start_command() -> Command {
    common::command(&BACKGROUND)
}

fn connected(namespace: &Namespace) -> Client {
    inside(namespace, || connect_or_start("test", start_command).unwrap())
}

/// The agent's process.
fn agent(namespace: &Namespace) -> u32 {
    inside(namespace, || Connection::open().unwrap().peer().unwrap().pid)
}

fn has_none(namespace: &Namespace) -> bool {
    matches!(inside(namespace, || Client::connect("test")), Err(ClientError::NoAgent))
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// The number of a line of /proc/PID/status.
fn status_number(pid: u32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let number = text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    number.unwrap().parse().unwrap()
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[test]
fn twenty_that_start_at_once_get_one_agent() {
    let Some(namespace) = namespace() else { return };
    for _ in 0..5 {
        let starters: Vec<_> = (0..20)
            .map(|_| {
                let namespace = namespace.clone();
                std::thread::spawn(move || {
                    inside(&namespace, || {
                        let client = connect_or_start("test", start_command).unwrap();
                        (Connection::open().unwrap().peer().unwrap().pid, client)
                    })
                })
            })
            .collect();
        let found: Vec<_> = starters.into_iter().map(|starter| starter.join().unwrap()).collect();
        assert!(found.iter().all(|(pid, _)| *pid == found[0].0), "one agent");
        kill(found[0].0);
        wait_until("the name is free", || has_none(&namespace));
    }
}

#[test]
fn agent_killed_tells_its_programs_and_the_next_start_makes_another() {
    let Some(namespace) = namespace() else { return };
    let mut client = connected(&namespace);
    let first = agent(&namespace);
    kill(first);
    wait_until("the connection ends", || inside(&namespace, || Client::connect("x")).is_err());
    assert!(matches!(client.status(), Err(ClientError::Connection(_))));
    assert!(client.take_events().is_err());
    let next = connected(&namespace);
    assert_ne!(agent(&namespace), first);
    drop(next);
}

#[test]
fn agent_ends_after_its_last_program_and_not_before() {
    let Some(namespace) = namespace() else { return };
    let client = connected(&namespace);
    std::thread::sleep(Duration::from_millis(1200));
    assert!(!has_none(&namespace), "a program is there");
    let start = Instant::now();
    drop(client);
    // Each look is a program that comes and goes.
    std::thread::sleep(Duration::from_millis(800));
    wait_until("the agent ends", || {
        std::thread::sleep(Duration::from_millis(700));
        has_none(&namespace)
    });
    assert!(start.elapsed() >= Duration::from_millis(500));
}

#[test]
fn agent_is_nobodys_child_and_has_nothing_of_its_starter() {
    let Some(namespace) = namespace() else { return };
    let script = "exec 7</dev/zero; cd /tmp; SECRET=1 exec \"$0\" \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, NEARWIRE]).args(BACKGROUND);
    let Output { status, stdout, stderr } = inside(&namespace, || shell.output().unwrap());
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success() && stdout == b"ready\n", "{said}");
    let client = connected(&namespace);
    let pid = agent(&namespace);
    // One that the agent closes while they are listed has no link any more.
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = fds.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let links: Vec<String> = links.map(|link| link.display().to_string()).collect();
    assert!(!links.is_empty());
    assert!(!links.iter().any(|link| link == "/dev/zero" || link.starts_with("pipe:")), "{links:?}");
    assert_eq!(fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), std::path::Path::new("/"));
    assert_eq!(fs::read(format!("/proc/{pid}/environ")).unwrap(), b"");
    // Where a test runner is in a PID namespace of its own, its session may be one from outside: 0, which getsid(2) of rustix
    // takes for impossible.
    let parent_and_session = |process: &str| -> [u32; 2] {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        [fields[1].parse().unwrap(), fields[3].parse().unwrap()]
    };
    let [parent, session] = parent_and_session(&pid.to_string());
    assert_ne!(parent, std::process::id());
    assert_ne!(session, parent_and_session("self")[1]);
    drop(client);
}

#[test]
fn agent_that_waits_takes_no_cpu_and_little_memory_and_keeps_no_descriptor() {
    let Some(namespace) = namespace() else { return };
    let client = connected(&namespace);
    let pid = agent(&namespace);
    wait_until("the look at it is over", || descriptors(pid) == DESCRIPTORS);
    for _ in 0..50 {
        let wrong = inside(&namespace, || Connection::open().unwrap());
        let hello = Request::Hello { version: VERSION, name: ProgramName::cut("wrong") }.to_bytes(1);
        let (file, socket) =
            (fs::File::open("/dev/null").unwrap(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        wrong.send(&hello, &[file.as_fd(), socket.as_fd()]).unwrap();
    }
    wait_until("what wrong programs sent is closed", || descriptors(pid) == DESCRIPTORS);
    let switches = || ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].map(|name| status_number(pid, name));
    std::thread::sleep(Duration::from_millis(200));
    let before = switches();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(switches(), before, "it has not run");
    let own_kib = status_number(pid, "RssAnon:") + status_number(pid, "RssShmem:");
    assert!(own_kib <= MOST_OWN_MEMORY_KIB, "{own_kib} KiB");
    drop(client);
}

#[test]
fn share_that_the_agent_cannot_open_is_refused_in_words() {
    let Some(namespace) = namespace() else { return };
    let mut client = connected(&namespace);
    let refused = client.open_share("no-such", 0).unwrap_err();
    assert!(matches!(&refused, ClientError::Refused(Cause::Port { .. } | Cause::InterfaceGone { .. })), "{refused}");
}

#[test]
fn start_takes_no_longer_than_stated() {
    let Some(namespace) = namespace() else { return };
    let start = Instant::now();
    let first = connected(&namespace);
    let with_start = start.elapsed();
    let mut shortest = Duration::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        drop(connected(&namespace));
        shortest = shortest.min(start.elapsed());
    }
    println!("with its start {with_start:?}, running {shortest:?}");
    // Other tests have the CPUs at the same time: a generous bound of what is wrong, not of what is good.
    assert!(with_start < Duration::from_secs(2) && shortest < Duration::from_millis(5));
    drop(first);
}
