//! Running the command, and looking at what it leaves.

#![allow(dead_code, reason = "each test program uses its part")]

pub mod accelerated;
pub mod emulated;
pub mod measuring;
pub mod pcapng;
pub mod tuning;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nearwire_lab::CableEnd;
use nearwire_lab::host_tree::{HostTree, scratch_directory};
use nearwire_wire::MacAddress;
use serde_json::Value;
use tempfile::TempDir;

pub const NEARWIRE: &str = env!("CARGO_BIN_EXE_nearwire");

/// Arguments of a measurement that takes a tenth of a second.
pub const SHORT: [&str; 7] = ["--size", "64", "--rounds", "2", "--count", "200", "--quiet"];

/// True where namespaces, veth and XDP can be had; elsewhere the test says SKIP, or fails where nothing may be skipped.
pub fn may_run() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "this test needs root");
        println!("SKIP not root");
    }
    root
}

/// A described host, written out.
pub fn described(tree: &HostTree) -> TempDir {
    let directory = tempfile::tempdir_in(scratch_directory()).expect("a directory for the host");
    tree.write(directory.path()).expect("write the host");
    directory
}

/// What the OpenNFP deck asks of a plan for its host, in the order of its CPU numbers.
pub const DECK: [&str; 14] = [
    "--nic",
    "enp5s0np0",
    "--os-cpus",
    "4",
    "--poller-cpus",
    "4",
    "--guest",
    "VM00:4:4G",
    "--guest",
    "VM02:4:4G",
    "--guest",
    "VM01:4:4G",
    "--guest",
    "VM03:4:4G",
];

pub fn command(args: &[&str]) -> Command {
    let mut command = nearwire_lab::program_under_test(NEARWIRE);
    command.args(args);
    command
}

/// Puts the program at another path. Another process writes it: a test that starts something at this very moment would
/// inherit an open file, and nobody could run the program until that is closed ("Text file busy").
pub fn copy_program(to: &Path) {
    assert!(Command::new("cp").arg(NEARWIRE).arg(to).status().unwrap().success());
}

pub fn nearwire(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

/// `nearwire bench`, short unless the arguments say how long.
pub fn bench(args: &[&str]) -> Output {
    let short = if args.contains(&"--count") { &["--size", "64", "--quiet"][..] } else { &SHORT };
    command(&["bench"]).args(args).args(short).output().unwrap()
}

pub fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Starts the command at an end of a cable, with its output kept.
pub fn start_at(end: &CableEnd, words: &[&str]) -> Child {
    let mut command = command(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    end.namespace.enter(|| command.spawn()).unwrap().unwrap()
}

/// The link address of an end, as `--to` takes it.
pub fn mac_of(end: &CableEnd) -> String {
    MacAddress(end.mac).to_string()
}

/// The message has these words, and is no panic.
#[track_caller]
pub fn assert_says(output: &Output, exit_code: i32, words: &[&str]) {
    let said = errors(output);
    assert_eq!(code(output), Some(exit_code), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    for word in words {
        assert!(said.contains(word), "no '{word}' in: {said}");
    }
}

pub fn record(file: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// Starts a program and gives the first line it prints.
pub fn start_and_hear(command: &mut Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line)
}

/// What a killed measurement could leave behind.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces {
    namespaces: BTreeSet<String>,
    interfaces: BTreeSet<String>,
    programs: BTreeSet<u32>,
    responders: BTreeSet<u32>,
}

impl Traces {
    pub fn now() -> Traces {
        let interfaces = fs::read_dir("/sys/class/net").unwrap().flatten();
        Traces {
            namespaces: processes().filter_map(namespace).collect(),
            interfaces: interfaces.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect(),
            programs: nearwire_sys::bpf::program_ids().unwrap().into_iter().collect(),
            responders: processes().filter(|pid| is_responder(*pid)).collect(),
        }
    }

    /// What is there now and was not before.
    fn beyond(&self, before: &Traces) -> Option<String> {
        fn more<T: Ord + std::fmt::Debug>(what: &str, now: &BTreeSet<T>, before: &BTreeSet<T>) -> Option<String> {
            let more = now.difference(before).collect::<Vec<_>>();
            (!more.is_empty()).then(|| format!("{what} {more:?}"))
        }
        more("namespaces", &self.namespaces, &before.namespaces)
            .or(more("interfaces", &self.interfaces, &before.interfaces))
            .or(more("BPF programs", &self.programs, &before.programs))
            .or(more("responders", &self.responders, &before.responders))
    }
}

/// The kernel takes namespaces and programs apart after the process is gone: that may take a while.
#[track_caller]
pub fn assert_nothing_left(before: &Traces, after_what: &str) {
    let give_up = Instant::now() + Duration::from_secs(10);
    while let Some(left) = Traces::now().beyond(before) {
        assert!(Instant::now() < give_up, "{after_what} left {left}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn namespace(pid: u32) -> Option<String> {
    Some(fs::read_link(format!("/proc/{pid}/ns/net")).ok()?.to_string_lossy().into_owned())
}

fn is_responder(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.starts_with(NEARWIRE.as_bytes()) && line.windows(9).any(|word| word == b"responder")
}

/// Those that a process has now, of its first thread.
pub fn children_of(pid: u32) -> std::io::Result<Vec<u32>> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    Ok(children.split_ascii_whitespace().map(|child| child.parse().expect("the kernel writes numbers")).collect())
}

/// The responder that a measurement started.
pub fn responder_of(pid: u32) -> Option<u32> {
    let give_up = Instant::now() + Duration::from_secs(10);
    while Instant::now() < give_up {
        if let Some(child) = children_of(pid).ok()?.first() {
            return Some(*child);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

pub fn kill(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
