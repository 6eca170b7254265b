//! `nearwire tune` from typing to exit code, on described hosts and in network namespaces of its own. Nothing here
//! writes to the host that the tests run on.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{NEARWIRE, assert_says, code, command, copy_program, errors, kill, may_run, nearwire, text};
use nearwire_lab::host_tree::{HOSTS, HostTree, scratch_directory};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const PROFILES: [&str; 7] = ["latency", "raw-frame", "socket-bypass", "busy-poll", "mpi", "nfv", "bulk"];
const SWAPPINESS: &str = "proc/sys/vm/swappiness";

/// A described host and a journal beside it.
struct Copy {
    directory: TempDir,
}

impl Copy {
    fn of(name: &str) -> Copy {
        let copy = Copy { directory: tempfile::tempdir_in(scratch_directory()).unwrap() };
        fs::create_dir(copy.root()).unwrap();
        copy.stand_in_for_systemd_run("echo 'System has not been booted with systemd' >&2; exit 1");
        HostTree::named(name).unwrap().write(&copy.root()).unwrap();
        copy
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    fn journal(&self) -> PathBuf {
        self.directory.path().join("journal")
    }

    fn file(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    fn value(&self, path: &str) -> String {
        fs::read_to_string(self.file(path)).unwrap().trim().to_owned()
    }

    fn programs(&self) -> PathBuf {
        self.directory.path().join("bin")
    }

    /// Puts a `systemd-run` on the path: no test starts units of the host that it runs on.
    fn stand_in_for_systemd_run(&self, script: &str) {
        let path = self.programs().join("systemd-run");
        fs::create_dir_all(self.programs()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// As systemd would: notes how it was called, and starts the command as no child of the caller.
    fn with_systemd(self) -> Self {
        self.with_systemd_whose_units_have("")
    }

    /// `redirection` as for a shell.
    fn with_systemd_whose_units_have(self, redirection: &str) -> Self {
        let called = self.directory.path().join("called");
        self.stand_in_for_systemd_run(&format!(
            "printf '%s\\n' \"$@\" > {}\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nsetsid -f \"$@\" {redirection}\nexec sleep 60",
            called.display()
        ));
        self
    }

    /// `nearwire tune WORDS` on it.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = command(&["tune"]);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.programs().display()));
        command.args(words).arg("--sysroot").arg(self.root()).arg("--journal").arg(self.journal());
        command
    }

    fn tune(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Every file with its bytes.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut files, mut directories) = (BTreeMap::new(), vec![self.root()]);
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    directories.push(entry.path());
                } else if kind.is_file() {
                    files.insert(entry.path(), fs::read(entry.path()).unwrap());
                }
            }
        }
        files
    }

    /// Starts an apply that waits for its confirmation, and gives it when the values are written.
    fn guarded(&self) -> std::process::Child {
        let mut apply = self.command(&["apply", "--yes", "--only", "vm.swappiness", "--confirm", "60s"]);
        let child = apply.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let give_up = Instant::now() + Duration::from_secs(20);
        while !self.is_applied() {
            assert!(Instant::now() < give_up, "nothing was applied");
            std::thread::sleep(Duration::from_millis(10));
        }
        child
    }

    fn is_applied(&self) -> bool {
        fs::read_to_string(self.journal().join("journal")).is_ok_and(|text| text.contains("\"complete\""))
    }

    /// The process that holds the journal.
    fn holder(&self) -> u32 {
        fs::read_to_string(self.journal().join("lock")).unwrap().trim().parse().unwrap()
    }

    /// Waits until nothing is in effect any more.
    fn wait_until_back(&self) {
        let give_up = Instant::now() + Duration::from_secs(40);
        while self.journal().join("journal").exists() {
            assert!(Instant::now() < give_up, "nothing was put back");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Names the files that differ, not their bytes.
#[track_caller]
fn assert_same(before: &BTreeMap<PathBuf, Vec<u8>>, copy: &Copy, when: &str) {
    let after = copy.files();
    let differing = before.iter().filter(|(path, bytes)| after.get(*path) != Some(bytes)).map(|(path, _)| path);
    assert_eq!(differing.collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "{when}");
    assert_eq!(before.len(), after.len(), "{when}");
}

#[test]
fn host_applied_twice_and_reverted_is_byte_identical() {
    for (name, _) in HOSTS {
        let copy = Copy::of(name);
        let before = copy.files();
        for profile in PROFILES {
            let when = format!("{name} {profile}");
            let applied = copy.tune(&["apply", "--yes", "--profile", profile]);
            assert_eq!(code(&applied), Some(0), "{when}: {}", errors(&applied));
            assert!(text(&applied).contains("written and read back"), "{when}: {}", text(&applied));
            let after = copy.files();
            let again = copy.tune(&["apply", "--yes", "--profile", profile]);
            assert!(text(&again).contains("Nothing to write now."), "{when}: {}", text(&again));
            assert_same(&after, &copy, &when);
            let status = copy.tune(&["status"]);
            assert_eq!(code(&status), Some(0), "{when}: {}", text(&status));
            let reverted = copy.tune(&["revert", "--yes"]);
            assert_eq!(code(&reverted), Some(0), "{when}: {}{}", text(&reverted), errors(&reverted));
            assert_same(&before, &copy, &when);
        }
    }
}

#[test]
fn better_values_than_wanted_are_left_alone() {
    let copy = Copy::of("vma");
    fs::write(copy.file(SWAPPINESS), "0\n").unwrap();
    let buffers = "4096\t131072\t99999999\n";
    fs::write(copy.file("proc/sys/net/ipv4/tcp_rmem"), buffers).unwrap();
    for profile in PROFILES {
        assert_eq!(code(&copy.tune(&["apply", "--yes", "--profile", profile])), Some(0));
        assert_eq!(copy.value(SWAPPINESS), "0", "{profile}");
        assert_eq!(fs::read_to_string(copy.file("proc/sys/net/ipv4/tcp_rmem")).unwrap(), buffers, "{profile}");
    }
}

/// A file of choices lost all but the one that was written, and could not be read any more.
#[test]
fn choice_of_a_copy_applied_keeps_the_other_choices() {
    let copy = Copy::of("vma");
    let file = "sys/kernel/mm/transparent_hugepage/enabled";
    assert_eq!(copy.value(file), "[always] madvise never");
    let applied = copy.tune(&["apply", "--yes", "--profile", "latency", "--only", "memory.thp"]);
    assert_eq!(code(&applied), Some(0), "{}", errors(&applied));
    assert_eq!(copy.value(file), "always [madvise] never");
}

/// A journal of a copy was taken for that of the live host: a revert would have written there what
/// was found in the copy.
#[test]
fn journal_of_a_copy_is_refused_on_this_host_and_for_other_copies() {
    let (copy, other) = (Copy::of("vma"), Copy::of("vma"));
    assert_eq!(code(&copy.tune(&["apply", "--yes", "--only", "vm.swappiness"])), Some(0));
    let journal = copy.journal();
    let journal = journal.to_str().unwrap();
    for verb in ["status", "confirm"] {
        assert_says(&nearwire(&["tune", verb, "--journal", journal]), 3, &["another host"]);
    }
    let root = other.root();
    let words = ["tune", "revert", "--yes", "--journal", journal, "--sysroot", root.to_str().unwrap()];
    assert_says(&nearwire(&words), 3, &["another host"]);
    assert_eq!(copy.value(SWAPPINESS), "10");
}

#[test]
fn copy_without_a_journal_of_its_own_and_snapshot_are_not_changed() {
    let copy = Copy::of("vma");
    let root = copy.root();
    let root = root.to_str().unwrap();
    for verb in ["apply", "status", "revert", "confirm"] {
        assert_says(&nearwire(&["tune", verb, "--sysroot", root]), 2, &["--journal"]);
    }
    let file = copy.directory.path().join("host.tar.zst");
    let file = file.to_str().unwrap();
    assert_eq!(code(&nearwire(&["snapshot", "--sysroot", root, "-o", file])), Some(0));
    for verb in ["apply", "status", "revert"] {
        assert_says(&nearwire(&["tune", verb, "--snapshot", file, "--journal", "/nonexistent"]), 2, &["unpack it"]);
    }
    // A plan and files for it can be made all the same.
    assert_eq!(code(&nearwire(&["tune", "plan", "--snapshot", file])), Some(0));
    assert_eq!(code(&nearwire(&["tune", "export", "--sysctl", "--snapshot", file])), Some(0));
}

#[test]
fn ids_that_mean_nothing_here_are_refused_with_what_to_do() {
    let copy = Copy::of("vma");
    let before = copy.files();
    for (words, said) in [
        (&["--only", "vm.swapiness"][..], &["similar names:", "vm.swappiness"][..]),
        (&["--only", "cpu.governor[cpu0]"], &["a part of the setting cpu.governor"]),
        (&["--only", "vm.swappiness,"], &["--only <ID>"]),
        (&["--only", "nic.mtu"], &["socket-bypass has no wish for nic.mtu", "--all"]),
        (&["--i-accept-risk", "vm.swappiness"], &["does not lower security"]),
        (&["--profile", "latenci"], &["no profile 'latenci'", "latency"]),
        (&["--nic", "eth99"], &["no interface 'eth99'", "enp5s0"]),
        (&["--confirm", "0s"], &["the time is zero"]),
        (&["--confirm", "soon"], &["give 1s"]),
    ] {
        assert_says(&copy.tune(&[&["apply", "--yes"], words].concat()), 2, said);
    }
    assert_says(&nearwire(&["tune", "watch", "--interval", "0s"]), 2, &["the time is zero"]);
    assert_says(&copy.tune(&["plan", "--script", "--json"]), 2, &["--script"]);
    assert_says(&copy.tune(&["export"]), 2, &["--grub"]);
    assert_same(&before, &copy, "after nothing but refusals");
    assert!(!copy.journal().exists());
}

#[test]
fn apply_without_a_terminal_and_without_yes_writes_nothing() {
    let copy = Copy::of("vma");
    let output = copy.command(&["apply"]).stdin(Stdio::null()).output().unwrap();
    assert_says(&output, 2, &["no terminal", "--yes"]);
    assert!(!copy.journal().exists());
    assert_eq!(copy.value(SWAPPINESS), "60");
}

#[test]
fn advice_of_a_plan_says_something_for_every_setting() {
    for (name, _) in HOSTS {
        let copy = Copy::of(name);
        for profile in PROFILES {
            let page: Value = serde_json::from_slice(&copy_plan(&copy, profile).stdout).unwrap();
            for list in ["by_hand", "failed"] {
                let silent = |one: &&Value| one["why"].as_str().is_none_or(str::is_empty);
                assert_eq!(page[list].as_array().unwrap().iter().find(silent), None, "{name} {profile} {list}");
            }
            for key in ["id", "target", "found", "wanted", "disruption", "risk", "shell", "inverse_shell"] {
                assert!(page["changes"].as_array().unwrap().iter().all(|one| !one[key].is_null()), "{key}");
            }
        }
    }
}

fn copy_plan(copy: &Copy, profile: &str) -> Output {
    nearwire(&["tune", "plan", "--json", "--profile", profile, "--sysroot", copy.root().to_str().unwrap()])
}

#[test]
fn applied_values_are_told_as_json_with_their_state() {
    let copy = Copy::of("vma");
    copy.tune(&["apply", "--yes", "--only", "vm.swappiness,vm.stat_interval"]);
    fs::write(copy.file(SWAPPINESS), "33\n").unwrap();
    let output = copy.tune(&["status", "--json"]);
    assert_eq!(code(&output), Some(1));
    let page: Value = serde_json::from_slice(&output.stdout).unwrap();
    let state = |id: &str| {
        let values = page["values"].as_array().unwrap();
        values.iter().find(|value| value["id"] == id).map(|value| value["state"].clone())
    };
    assert_eq!(state("vm.swappiness"), Some("changed".into()));
    assert_eq!(state("vm.stat_interval"), Some("in-effect".into()));
    assert_eq!((page["interrupted"].as_bool(), page["guarded"].as_bool()), (Some(false), Some(false)));
    // What somebody else changed stays, and is named.
    let reverted = copy.tune(&["revert", "--yes"]);
    assert!(text(&reverted).contains("somebody changed it to 33"), "{}", text(&reverted));
    assert_eq!(copy.value(SWAPPINESS), "33");
}

#[test]
fn second_apply_meanwhile_is_refused_with_the_process() {
    let copy = Copy::of("vma");
    let mut first = copy.guarded();
    let pid = format!("(pid {})", copy.holder());
    for words in [&["apply", "--yes", "--only", "vm.stat_interval"][..], &["revert", "--yes"]] {
        assert_says(&copy.tune(words), 3, &["in use by another nearwire", &pid]);
    }
    assert!(text(&copy.tune(&["status"])).contains("nearwire tune confirm --sysroot"));
    assert_eq!(code(&copy.tune(&["confirm"])), Some(0));
    assert!(first.wait().unwrap().success());
    assert_eq!(copy.value(SWAPPINESS), "10");
}

#[test]
fn guardian_ended_by_a_signal_puts_everything_back() {
    for signal in [Signal::TERM, Signal::INT] {
        let copy = Copy::of("exanic");
        let before = copy.files();
        let child = copy.guarded();
        kill(child.id(), signal);
        assert_says(&child.wait_with_output().unwrap(), 130, &[]);
        assert_same(&before, &copy, &format!("{signal:?}"));

        let child = copy.guarded();
        kill(copy.holder(), signal);
        assert_says(&child.wait_with_output().unwrap(), 130, &[]);
        assert_same(&before, &copy, &format!("{signal:?} to the guardian"));
    }
}

/// A terminal that closes sends the signal twice, and the second one ended the guardian.
#[test]
fn guardian_hung_up_on_twice_waits_on_for_the_confirmation() {
    let copy = Copy::of("vma");
    let mut child = copy.guarded();
    for _ in 0..2 {
        for process in [child.id(), copy.holder()] {
            kill(process, Signal::HUP);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(copy.value(SWAPPINESS), "10");
    assert_says(&copy.tune(&["confirm"]), 0, &[]);
    assert!(child.wait().unwrap().success());
    assert_eq!(copy.value(SWAPPINESS), "10");
}

/// Starts a guarded apply on a terminal that goes away with script(1), as with a connection that dies.
fn on_a_terminal_that_closes(copy: &Copy, within: &str) -> bool {
    let words = format!(
        "{NEARWIRE} tune apply --yes --only vm.swappiness --confirm {within} --sysroot {} --journal {}",
        copy.root().display(),
        copy.journal().display()
    );
    let mut script = Command::new("script");
    script.args(["-qfc", &words, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::null());
    let Ok(mut terminal) = script.spawn() else {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "this test needs script(1)");
        println!("SKIP script(1) is not installed");
        return false;
    };
    let give_up = Instant::now() + Duration::from_secs(20);
    while !copy.is_applied() {
        assert!(Instant::now() < give_up, "nothing was applied");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(terminal.id(), Signal::KILL);
    terminal.wait().unwrap();
    // Longer than a guardian takes to notice and to put the values back.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(copy.value(SWAPPINESS), "10", "the guardian went with its terminal");
    true
}

#[test]
fn guardian_whose_terminal_is_gone_puts_everything_back_in_time() {
    let copy = Copy::of("exanic");
    let before = copy.files();
    if !on_a_terminal_that_closes(&copy, "4s") {
        return;
    }
    copy.wait_until_back();
    assert_same(&before, &copy, "after the time");
}

#[test]
fn guardian_whose_terminal_is_gone_can_be_confirmed() {
    let copy = Copy::of("vma");
    if !on_a_terminal_that_closes(&copy, "60s") {
        return;
    }
    assert_says(&copy.tune(&["confirm"]), 0, &[]);
    assert_eq!(copy.value(SWAPPINESS), "10");
    assert_eq!(code(&copy.tune(&["status"])), Some(0));
}

/// The process that was typed can be killed; the guardian is another one.
#[test]
fn guardian_outlives_the_command_that_started_it() {
    let copy = Copy::of("exanic");
    let before = copy.files();
    let mut apply = copy.command(&["apply", "--yes", "--only", "vm.swappiness", "--confirm", "2s"]);
    let mut child = apply.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let give_up = Instant::now() + Duration::from_secs(20);
    while !copy.is_applied() {
        assert!(Instant::now() < give_up, "nothing was applied");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    copy.wait_until_back();
    assert_same(&before, &copy, "after the time");
}

/// Starts a guarded apply in a process group of its own, which stands for the session that it was typed in.
fn in_a_session(copy: &Copy, within: &str) -> std::process::Child {
    let mut apply = copy.command(&["apply", "--yes", "--only", "vm.swappiness", "--confirm", within]);
    let child = apply.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let give_up = Instant::now() + Duration::from_secs(20);
    while !copy.is_applied() {
        assert!(Instant::now() < give_up, "nothing was applied");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// Ends what was typed and all that it started as logind does: all are asked, then killed.
fn log_out(session: &mut std::process::Child) {
    let group = rustix::process::Pid::from_raw(i32::try_from(session.id()).unwrap()).unwrap();
    for signal in [Signal::HUP, Signal::TERM, Signal::KILL] {
        let _ = rustix::process::kill_process_group(group, signal);
        std::thread::sleep(Duration::from_millis(300));
    }
    session.wait().unwrap();
}

// Only root can start units, so these are for root.
#[test]
fn guardian_that_systemd_started_outlives_the_session_and_can_be_confirmed() {
    if !may_run() {
        return;
    }
    let copy = Copy::of("vma").with_systemd();
    let mut session = in_a_session(&copy, "60s");
    let unit = format!("nearwire-guard-{}.service", session.id());
    log_out(&mut session);
    assert_eq!(copy.value(SWAPPINESS), "10", "the guardian went with the session");
    assert_says(&copy.tune(&["confirm"]), 0, &[]);
    assert_eq!(copy.value(SWAPPINESS), "10");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut session.stdout.take().unwrap(), &mut said).unwrap();
    assert!(said.contains(&format!("They are guarded by the systemd unit {unit}, which no log-out ends.")), "{said}");
    let called = fs::read_to_string(copy.directory.path().join("called")).unwrap();
    for word in ["--collect", "--pipe", &format!("--unit={unit}"), "--", "tune", "guard"] {
        assert!(called.lines().any(|line| line == word), "{word}: {called}");
    }
}

#[test]
fn guardian_that_systemd_started_puts_everything_back_in_time_after_a_log_out() {
    if !may_run() {
        return;
    }
    let copy = Copy::of("exanic").with_systemd();
    let before = copy.files();
    log_out(&mut in_a_session(&copy, "3s"));
    copy.wait_until_back();
    assert_same(&before, &copy, "after the time");
}

#[test]
fn guardian_that_systemd_started_tells_how_it_ended() {
    if !may_run() {
        return;
    }
    let copy = Copy::of("vma").with_systemd();
    let before = copy.files();
    let timed_out = copy.tune(&["apply", "--yes", "--only", "vm.swappiness", "--confirm", "1s"]);
    assert_says(&timed_out, 4, &["nobody confirmed within 1s", "these values were put back"]);
    let session = in_a_session(&copy, "60s");
    kill(session.id(), Signal::INT);
    assert_says(&session.wait_with_output().unwrap(), 130, &[]);
    assert_same(&before, &copy, "after Ctrl-C");
    let session = in_a_session(&copy, "60s");
    kill(copy.holder(), Signal::KILL);
    assert_eq!(code(&session.wait_with_output().unwrap()), Some(137));
    assert_eq!(code(&copy.tune(&["revert", "--yes"])), Some(0));
    let session = in_a_session(&copy, "60s");
    assert_eq!(code(&copy.tune(&["confirm"])), Some(0));
    let output = session.wait_with_output().unwrap();
    assert_eq!(code(&output), Some(0));
    assert!(text(&output).contains("Confirmed: the values stay."), "{}", text(&output));
}

#[test]
fn guardian_whose_output_fails_waits_for_the_confirmation_and_puts_everything_back_without_one() {
    if !may_run() {
        return;
    }
    let copy = Copy::of("vma").with_systemd_whose_units_have(">/dev/full");
    let before = copy.files();
    let timed_out = copy.tune(&["apply", "--yes", "--only", "vm.swappiness", "--confirm", "1s"]);
    assert_says(&timed_out, 4, &["nobody confirmed within 1s", "these values were put back"]);
    assert_same(&before, &copy, "after the time");
    let session = in_a_session(&copy, "60s");
    assert!(text(&copy.tune(&["status"])).contains("nearwire tune confirm"), "the guardian ended");
    assert_says(&copy.tune(&["confirm"]), 0, &[]);
    assert_eq!(code(&session.wait_with_output().unwrap()), Some(0));
    assert_eq!(copy.value(SWAPPINESS), "10");
}

#[test]
fn guardian_without_systemd_is_a_process_of_its_own_and_the_reason_is_told() {
    let copy = Copy::of("vma");
    let said = |copy: &Copy| {
        let session = copy.guarded();
        assert_eq!(code(&copy.tune(&["confirm"])), Some(0));
        text(&session.wait_with_output().unwrap()).to_owned()
    };
    let text = said(&copy);
    let by = "They are guarded by a process of a session of its own, not by a systemd unit (";
    assert!(text.contains(by), "{text}");
    if rustix::process::geteuid().is_root() {
        assert!(text.contains("(systemd-run: System has not been booted with systemd)"), "{text}");
    }
    let outside = Copy::of("vma");
    fs::remove_file(outside.programs().join("systemd-run")).unwrap();
    let mut apply = outside.command(&["apply", "--yes", "--only", "vm.swappiness", "--confirm", "1s"]);
    let output = apply.env("PATH", outside.programs()).output().unwrap();
    assert_says(&output, 4, &["nobody confirmed within 1s"]);
    assert!(crate::text(&output).contains(by), "{}", crate::text(&output));
}

/// A unit of systemd has the namespaces of the first process: what was found in others is not there.
#[test]
fn guardian_in_another_network_namespace_than_systemd_is_a_process_of_its_own() {
    if !may_run() {
        return;
    }
    let copy = Copy::of("vma");
    copy.stand_in_for_systemd_run(
        "while [ \"$1\" != -- ]; do shift; done\nshift\nsetsid -f unshare --net -- \"$@\"\nexec sleep 60",
    );
    let session = copy.guarded();
    assert_eq!(code(&copy.tune(&["confirm"])), Some(0));
    let output = session.wait_with_output().unwrap();
    let said = text(&output);
    assert!(said.contains("not by a systemd unit (systemd-run: ") && said.contains("another namespace"), "{said}");
}

#[test]
fn guardian_timed_out_leaves_the_plan_of_before_in_effect() {
    let copy = Copy::of("vma");
    assert_eq!(code(&copy.tune(&["apply", "--yes", "--only", "vm.stat_interval"])), Some(0));
    let between = copy.files();
    let timed_out = copy.tune(&["apply", "--yes", "--only", "vm.swappiness", "--confirm", "1s"]);
    assert_says(&timed_out, 4, &["nobody confirmed within 1s", "these values were put back"]);
    assert_same(&between, &copy, "after the time");
    assert_eq!(code(&copy.tune(&["status"])), Some(0));
}

/// The signals that a process ignores, as the mask of proc(5).
fn ignored(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap()
}

/// A terminal that closed left a mixture of old and new values.
#[test]
fn revert_ignores_hang_up_and_termination_until_it_has_finished() {
    let copy = Copy::of("vma");
    let mut guarded = copy.guarded();
    // It waits for a moment for whoever holds the journal.
    let mut revert = copy.command(&["revert", "--yes"]);
    let mut revert = revert.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let all = [Signal::INT, Signal::TERM, Signal::HUP].iter().fold(0, |mask, signal| mask | 1 << (signal.as_raw() - 1));
    // It ignores one after the other.
    while ignored(revert.id()) & all != all {
        assert!(revert.try_wait().unwrap().is_none(), "it ended, and had not ignored them all");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(revert.wait().unwrap().code(), Some(3));
    kill(guarded.id(), Signal::TERM);
    guarded.wait().unwrap();
}

/// The status promised that the values go back by themselves, and nobody was there to do it.
#[test]
fn guardian_killed_is_told_and_revert_puts_everything_back() {
    let copy = Copy::of("exanic");
    let before = copy.files();
    let mut child = copy.guarded();
    kill(copy.holder(), Signal::KILL);
    assert_eq!(child.wait().unwrap().code(), Some(137));
    let status = copy.tune(&["status"]);
    assert_eq!(code(&status), Some(1));
    assert!(text(&status).contains("is gone; run: nearwire tune revert --sysroot"), "{}", text(&status));
    assert_says(&copy.tune(&["confirm"]), 3, &["no change waits"]);
    assert_eq!(code(&copy.tune(&["revert", "--yes"])), Some(0));
    assert_same(&before, &copy, "after the revert");
}

#[test]
fn journal_with_a_damaged_line_is_reverted_and_the_line_named() {
    let copy = Copy::of("exanic");
    let before = copy.files();
    assert_eq!(code(&copy.tune(&["apply", "--yes", "--only", "vm.swappiness"])), Some(0));
    let file = copy.journal().join("journal");
    let lines: Vec<String> = fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
    let at = lines.iter().position(|line| line.contains("\"intent\"")).unwrap();
    let damaged: String =
        lines.iter().enumerate().map(|(n, line)| if n == at { "x\n".into() } else { format!("{line}\n") }).collect();
    fs::write(&file, damaged).unwrap();
    let said = format!("line {} of the journal is damaged", at + 1);
    let status = copy.tune(&["status"]);
    assert_eq!(code(&status), Some(1));
    assert!(text(&status).contains(&said), "{}", text(&status));
    assert_says(&copy.tune(&["apply", "--yes"]), 3, &["damaged"]);
    let reverted = copy.tune(&["revert", "--yes"]);
    assert!(text(&reverted).contains(&said), "{}", text(&reverted));
    assert_says(&reverted, 4, &["the journal was damaged", "history"]);
    assert_same(&before, &copy, "after the revert");
}

#[test]
fn journal_that_cannot_be_used_leaves_the_host_untouched() {
    let copy = Copy::of("vma");
    let before = copy.files();
    let file = copy.journal().join("journal");
    fs::create_dir(copy.journal()).unwrap();
    // With the check sums that zlib's crc32 gives.
    let newer = "{\"crc32\":\"SUM\",\"record\":{\"record\":\"header\",\"format\":7,\"program\":\"nearwire 9\"}}\n";
    let body = &newer[newer.find("\"record\":").unwrap() + 9..newer.len() - 2];
    let newer = newer.replace("SUM", &format!("{:08x}", crc32(body.as_bytes())));
    for (content, said) in [
        (newer.as_str(), "format 7"),
        ("my notes\nof today\n", "damaged at line 1"),
        // One line of somebody else's was cut off as if a crash had torn it.
        ("my notes", "damaged at line 1"),
    ] {
        fs::write(&file, content).unwrap();
        for words in [&["apply", "--yes"][..], &["status"], &["revert", "--yes"]] {
            assert_says(&copy.tune(words), 3, &[said]);
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
    }
    assert_same(&before, &copy, "with journals that are none");
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 })
    })
}

/// The plan was added without a header, and nothing could read the journal after that.
#[test]
fn journal_torn_in_its_first_line_and_used_again_can_be_reverted() {
    for torn in ["", "{\"crc32\":\"ab00", "{\"cr"] {
        let copy = Copy::of("exanic");
        let before = copy.files();
        fs::create_dir(copy.journal()).unwrap();
        fs::write(copy.journal().join("journal"), torn).unwrap();
        assert_eq!(code(&copy.tune(&["apply", "--yes", "--only", "vm.swappiness"])), Some(0));
        let reverted = copy.tune(&["revert", "--yes"]);
        assert_eq!(code(&reverted), Some(0), "{torn}: {}", errors(&reverted));
        assert_same(&before, &copy, torn);
    }
}

#[test]
fn apply_broken_off_is_refused_until_it_is_reverted() {
    let copy = Copy::of("exanic");
    let before = copy.files();
    copy.tune(&["apply", "--yes", "--only", "vm.swappiness"]);
    let file = copy.journal().join("journal");
    let whole = fs::read_to_string(&file).unwrap();
    let cut: String = whole.lines().take(3).flat_map(|line| [line, "\n"]).collect();
    fs::write(&file, cut).unwrap();
    assert_eq!(code(&copy.tune(&["status"])), Some(1));
    assert_says(&copy.tune(&["apply", "--yes"]), 3, &["broken off", "revert it first"]);
    assert_eq!(code(&copy.tune(&["revert", "--yes"])), Some(0));
    assert_same(&before, &copy, "after the revert");
}

#[test]
fn reader_that_leaves_early_is_no_failure() {
    let copy = Copy::of("vma");
    let root = copy.root();
    let script = format!("{NEARWIRE} tune plan --sysroot {} | head -1", root.display());
    let output = Command::new("bash").args(["-o", "pipefail", "-c", &script]).output().unwrap();
    assert_eq!((code(&output), errors(&output)), (Some(0), String::new()));
}

/// Names from a stranger's files went to the terminal as they were.
#[test]
fn control_characters_of_a_copy_do_not_reach_the_terminal() {
    let copy = Copy::of("vma");
    fs::write(copy.file("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"), "x\u{1b}[31my\ntouch HERE\n").unwrap();
    fs::write(copy.file("proc/cmdline"), "quiet \u{1b}[2J\u{7}\n").unwrap();
    let root = copy.root();
    let root = root.to_str().unwrap();
    for words in [&["check", "--all"][..], &["settings"], &["tune", "plan"], &["tune", "plan", "--script"]] {
        let output = nearwire(&[words, &["--sysroot", root]].concat());
        let harmful = |c: &char| c.is_control() && *c != '\n';
        assert_eq!(text(&output).chars().find(harmful), None, "{words:?}");
        assert!(!text(&output).contains("\ntouch"), "{words:?}");
    }
}

#[test]
fn script_of_every_host_and_profile_is_taken_by_sh() {
    for (name, _) in HOSTS {
        let copy = Copy::of(name);
        let file = copy.directory.path().join("tune.sh");
        for profile in PROFILES {
            let root = copy.root();
            let words = ["tune", "plan", "--script", "--profile", profile, "--sysroot", root.to_str().unwrap()];
            fs::write(&file, nearwire(&words).stdout).unwrap();
            assert!(Command::new("sh").arg("-n").arg(&file).status().unwrap().success(), "{name} {profile}");
        }
    }
}

#[test]
fn every_form_is_exported_of_every_host_and_profile() {
    const FORMS: [&str; 6] = ["--grub", "--sysctl", "--systemd", "--udev", "--tuned-profile", "--ansible"];
    for (name, _) in HOSTS {
        let copy = Copy::of(name);
        let root = copy.root();
        for profile in PROFILES {
            let words = ["tune", "export", "--all", "--profile", profile, "--sysroot", root.to_str().unwrap()];
            let output = nearwire(&[&words[..], &FORMS].concat());
            assert_eq!(code(&output), Some(0), "{name} {profile}: {}", errors(&output));
            assert!(text(&output).contains("# ---- /etc/sysctl.d/90-nearwire.conf"), "{name} {profile}");
        }
    }
    let copy = Copy::of("vma");
    let root = copy.root();
    let words = ["tune", "export", "--all", "--validate", "--sysroot", root.to_str().unwrap()];
    let output = nearwire(&[&words[..], &FORMS].concat());
    assert_eq!(code(&output), Some(0), "{}{}", text(&output), errors(&output));
}

const PER_NAMESPACE: &str = r#"
purpose = "Settings that each network namespace has for itself"

[[wish]]
setting = "net.ipv4.tcp_slow_start_after_idle"
equal = false
reason = "A test."
source = "a test"

[[wish]]
setting = "net.ipv4.tcp_autocorking"
equal = false
reason = "A test."
source = "a test"
"#;

/// Runs a script of sh in namespaces of its own, where `/proc/sys` is read-only but for `net/ipv4` and all of `/sys`
/// is; `$1` is the program and `$2` a directory.
fn in_own_namespaces(directory: &Path, script: &str) -> Output {
    let safe = "set -e; for part in sys sys/net/ipv4; do mount --bind /proc/$part /proc/$part; done
        mount -o remount,ro,bind /proc/sys; mount -t sysfs -o ro none /sys; set +e\n";
    let mut unshare = Command::new("unshare");
    unshare.args(["-n", "-m", "sh", "-c", &format!("{safe}{script}"), "sh", NEARWIRE]).arg(directory);
    unshare.output().unwrap()
}

#[test]
fn script_run_in_a_namespace_has_the_effect_of_apply() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("p.toml"), PER_NAMESPACE).unwrap();
    let show = "cd /proc/sys/net/ipv4; cat tcp_slow_start_after_idle tcp_autocorking\n";
    let script = "$1 tune plan --profile $2/p.toml --script > $2/s.sh && sh -e $2/s.sh >/dev/null || exit 9\n";
    let apply = "$1 tune apply --yes --profile $2/p.toml --journal $2/j >/dev/null || exit 9\n";
    let revert = "$1 tune revert --yes --journal $2/j >/dev/null || exit 9\n";
    let by_script = in_own_namespaces(directory.path(), &format!("{script}{show}"));
    let by_apply = in_own_namespaces(directory.path(), &format!("{apply}{show}{revert}{show}"));
    assert_eq!(text(&by_script), "0\n0\n", "{}", errors(&by_script));
    assert_eq!(text(&by_apply), "0\n0\n1\n1\n", "{}", errors(&by_apply));
}

/// The interface that carries the default route was tuned like any other, and took the caller's connection along.
#[test]
fn apply_without_nic_leaves_the_interface_of_the_default_route_alone() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let wish = "[[wish]]\nsetting = \"nic.tx-queue-length\"\nequal = 77\nreason = \"A test.\"\nsource = \"a test\"\n";
    fs::write(directory.path().join("p.toml"), format!("purpose = \"p\"\n{wish}")).unwrap();
    // A veth has no device, which the interfaces that are chosen without a name have.
    let script = r#"
        ip link add near type veth peer name far && ip addr add 192.0.2.2/24 dev near || exit 8
        ip link set near up; ip link set far up
        index=$(cat /sys/class/net/near/ifindex)
        mount -t tmpfs none /sys/devices/virtual/net/near || exit 9
        mkdir /sys/devices/virtual/net/near/device; echo $index >/sys/devices/virtual/net/near/ifindex
        plan() { $1 tune plan --profile $2/p.toml $3 | grep 'tx-queue-length\[near\]'; }
        plan $1 $2
        SSH_CONNECTION="192.0.2.9 50022 192.0.2.2 22" plan $1 $2
        ip route add default via 192.0.2.9
        plan $1 $2
        plan $1 $2 "--nic near"
    "#;
    let output = in_own_namespaces(directory.path(), script);
    let said: Vec<_> = text(&output).lines().map(|line| line.trim().to_owned()).collect();
    assert_eq!(said.len(), 4, "{said:?}{}", errors(&output));
    assert!(said[0].contains("-> 77") && said[3].contains("-> 77"), "{said:?}");
    assert!(said[1].contains("your connection comes in by it, so it is left alone; --nic near"), "{said:?}");
    assert!(said[2].contains("it carries the default route, so it is left alone"), "{said:?}");
}

/// It looked every 200 ms and took the journal, which writes to the disk, every ten seconds.
#[test]
fn watch_waits_without_polling_and_writes_nothing_to_disk_unless_something_changed() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("p.toml"), PER_NAMESPACE).unwrap();
    let script = r#"
        files() { find $2/j -printf '%p %T@ %C@ %s\n' | sort; }
        $1 tune apply --yes --profile $2/p.toml --journal $2/j >/dev/null || exit 9
        files $1 $2 >$2/before
        $1 tune watch --interval 1h --journal $2/j >$2/log & watch=$!
        until grep -q Watching $2/log; do sleep 0.05; done; sleep 0.5
        switches() { awk '/^voluntary/ { print $2 }' /proc/$watch/status; }
        first=$(switches); sleep 3; second=$(switches)
        files $1 $2 | cmp -s - $2/before && echo unwritten
        [ $((second - first)) -le 5 ] && echo unpolled
        echo 1 >/proc/sys/net/ipv4/tcp_autocorking
        ip link set lo up
        for n in $(seq 100); do grep -q 'written again' $2/log && break; sleep 0.05; done
        cat /proc/sys/net/ipv4/tcp_autocorking
        kill $watch; wait $watch; echo $?
    "#;
    let output = in_own_namespaces(directory.path(), script);
    assert_eq!(text(&output), "unwritten\nunpolled\n0\n0\n", "{}", errors(&output));
}

#[test]
fn read_only_host_is_refused_before_anything_is_written() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let apply = "$1 tune apply --yes --profile latency --only vm.stat_interval --journal $2/j; echo $?";
    let output = in_own_namespaces(directory.path(), apply);
    // A host that somebody tuned already has nothing to write.
    if text(&output).contains("Nothing to write") {
        return;
    }
    assert!(text(&output).ends_with("\n3\n"), "{}", text(&output));
    assert!(errors(&output).contains("mounted read-only"), "{}", errors(&output));
    assert!(!directory.path().join("j/journal").exists());
}

#[test]
fn full_disk_of_the_journal_leaves_the_host_as_it_was() {
    if !may_run() {
        return;
    }
    let copy = Copy::of("vma");
    let before = copy.files();
    fs::create_dir(copy.journal()).unwrap();
    for size in ["4k", "8k", "16k"] {
        let mut unshare = Command::new("unshare");
        let script =
            format!("mount -t tmpfs -o size={size} none $3 && exec $1 tune apply --yes --sysroot $2 --journal $3");
        let output = unshare.args(["-m", "sh", "-c", &script, "sh", NEARWIRE]).arg(copy.root()).arg(copy.journal());
        let output = output.output().unwrap();
        assert!(matches!(code(&output), Some(3 | 4)), "{size}: {}", errors(&output));
        assert!(errors(&output).contains("No space left"), "{size}: {}", errors(&output));
        assert_same(&before, &copy, size);
    }
}

#[test]
fn normal_user_is_refused_before_anything_is_written() {
    if !may_run() {
        return;
    }
    const NOBODY: u32 = 65534;
    let copy = Copy::of("vma");
    let before = copy.files();
    let program = copy.directory.path().join("nearwire");
    copy_program(&program);
    for directory in [copy.directory.path().to_owned(), copy.root()] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let journal = tempfile::tempdir().unwrap();
    fs::set_permissions(journal.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let apply = |journal: &Path| {
        let mut command = Command::new(&program);
        command.args(["tune", "apply", "--yes", "--sysroot"]).arg(copy.root()).arg("--journal").arg(journal);
        command.uid(NOBODY).gid(NOBODY).output().unwrap()
    };
    let refused = apply(journal.path());
    assert_says(&refused, 3, &["cannot be written, so nothing was", "run as root", "more"]);
    assert!(errors(&refused).lines().count() < 15, "{}", errors(&refused));
    assert_says(&apply(&copy.journal()), 3, &["Permission denied"]);
    assert_same(&before, &copy, "after a normal user tried");
}
