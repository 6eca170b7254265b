//! Cables of whole processes: of one that is killed, and of one that belongs to nobody special.
//!
//! The other process is the example `virtual_cable`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nearwire_lab::interfaces;

use common::{eventually, held_namespaces, namespace_or_skip};

/// `nobody` on every Linux: a user without any privilege.
const NOBODY: u32 = 65534;

/// The example, which cargo builds next to the tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/virtual_cable");
    assert!(path.exists(), "{} is missing: run cargo build --examples -p nearwire-lab", path.display());
    path
}

/// A process that has laid a cable and holds it.
struct Holder {
    child: Child,
    /// What it said of its cable, a line each.
    said: Vec<String>,
}

impl Holder {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let said: Vec<String> = output.lines().map(|line| line.unwrap()).take_while(|line| line != "ready").collect();
        Self { child, said }
    }

    fn namespaces(&self) -> BTreeSet<u64> {
        let inodes = self.said.iter().filter_map(|line| {
            let (_, inode) = line.split_once("net:[")?;
            inode.strip_suffix(']')?.parse().ok()
        });
        inodes.collect()
    }
}

/// Network namespaces by lsns(8), which finds also those that only an interface or a socket holds.
fn namespaces_by_lsns() -> Option<BTreeSet<u64>> {
    let output = Command::new("lsns").args(["-t", "net", "-n", "-o", "NS"]).output();
    let output = output.ok()?.stdout;
    let text = String::from_utf8(output).unwrap();
    Some(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

#[test]
fn holder_killed_namespaces_and_process_are_gone() {
    if namespace_or_skip().is_none() {
        return;
    }
    let mut holder = Holder::start(&mut Command::new(example()));
    let namespaces = holder.namespaces();
    assert_eq!(namespaces.len(), 2, "{:?}", holder.said);
    assert!(held_namespaces().is_superset(&namespaces));

    holder.child.kill().unwrap(); // SIGKILL
    holder.child.wait().unwrap();
    // Numbers are reused: each has to be seen free once.
    let left = std::cell::RefCell::new(namespaces);
    eventually("namespaces of the killed process are released", || {
        let mut held = held_namespaces();
        held.extend(namespaces_by_lsns().into_iter().flatten());
        left.borrow_mut().retain(|inode| held.contains(inode));
        left.borrow().is_empty()
    });
}

/// Lines of mountinfo that hold a namespace: those of `ip netns add`, which are none of ours.
fn mounted_namespaces() -> BTreeSet<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().filter(|line| line.contains("net:[")).map(str::to_owned).collect()
}

#[test]
fn holder_killed_while_laying_nothing_is_left() {
    if namespace_or_skip().is_none() {
        return;
    }
    // A copy, to tell its processes from those of other tests.
    let folder = tempfile::tempdir().unwrap();
    let program = copied_to(&folder);
    let interfaces_before = interfaces().unwrap();
    let mounted_before = mounted_namespaces();
    for delay_us in (0..4000).step_by(200) {
        let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(delay_us));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // A namespace outlives its process only in another process or as a mount.
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let survivors = processes.filter_map(|process| fs::read_link(process.path().join("exe")).ok());
    assert_eq!(survivors.filter(|executable| *executable == program).count(), 0);
    let more = mounted_namespaces().difference(&mounted_before).cloned().collect::<Vec<_>>();
    assert!(more.is_empty(), "{more:?}");
    assert_eq!(interfaces().unwrap(), interfaces_before);
}

#[test]
fn unprivileged_user_with_user_namespace_cable_is_laid() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut command) = unprivileged(&folder) else {
        return;
    };
    command.arg("--user-namespace").stderr(Stdio::piped());
    let mut holder = Holder::start(&mut command);
    if holder.namespaces().len() != 2 {
        let output = holder.child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but: {error}");
        println!("SKIP {error}");
        return;
    }
    assert!(!holder.said.iter().any(|line| line.starts_with("warning")), "{:?}", holder.said);
    holder.child.stdin.take().unwrap().flush().unwrap(); // and closes it: the holder ends
    assert!(holder.child.wait().unwrap().success());
}

#[test]
fn unprivileged_user_without_user_namespace_is_told_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut command) = unprivileged(&folder) else {
        return;
    };
    let output = command.stdin(Stdio::null()).output().unwrap();
    if output.status.success() {
        println!("SKIP this user may make network namespaces without root");
        return;
    }
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("create a network namespace"), "{error}");
    assert!(error.contains("run as root"), "{error}");
}

/// The example, to be run by a user without privilege, from `folder`: that user may not be able to
/// read the target directory. `None` in a user namespace that has no such user.
fn unprivileged(folder: &tempfile::TempDir) -> Option<Command> {
    let program = copied_to(folder);
    let mut command = Command::new(program);
    if is_root() {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap();
        if map.split_whitespace().last() == Some("1") {
            println!("SKIP this user namespace has a single user");
            return None;
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    Some(command)
}

/// A copy of the example that anyone can run. Written by another process: a test that forks
/// meanwhile would keep a file open that this process writes, and it could not be executed.
fn copied_to(folder: &tempfile::TempDir) -> PathBuf {
    let program = folder.path().join("virtual_cable");
    let copied = Command::new("cp").arg(example()).arg(&program).status();
    assert!(copied.unwrap().success());
    for path in [folder.path(), &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    program
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    line.split_whitespace().nth(2) == Some("0")
}
