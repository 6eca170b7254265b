//! What the tests of changes share: small trees, and tests that run again in another process.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use nearwire_host::change::{Change, Host, HostError, RootHost, Scope, Target, targets};
use nearwire_host::journal::HostIdentity;
use nearwire_host::{Root, catalogue};
use rustix::process::{Signal, getpid, kill_process};

/// A host of four CPUs with some sysctls.
pub fn make_tree(root: &Path) {
    let mut files: Vec<(String, &str)> = [
        ("etc/machine-id", "0123456789abcdef0123456789abcdef"),
        ("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555"),
        ("proc/sys/vm/swappiness", "60"),
        ("proc/sys/net/core/busy_read", "0"),
        ("proc/sys/kernel/numa_balancing", "1"),
        ("sys/devices/system/cpu/online", "0-3"),
        ("sys/devices/virtual/workqueue/cpumask", "f"),
        ("proc/irq/default_smp_affinity", "f"),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io"),
        ("sys/fs/cgroup/cgroup.subtree_control", "cpu io"),
    ]
    .map(|(path, text)| (path.to_owned(), text))
    .into();
    for cpu in 0..4 {
        let cpu = format!("sys/devices/system/cpu/cpu{cpu}");
        files.push((format!("{cpu}/topology/thread_siblings_list"), "0"));
        files.push((format!("{cpu}/cpufreq/scaling_governor"), "schedutil"));
    }
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
}

/// A plan that changes all of them.
pub fn plan(host: &mut RootHost) -> Vec<Change> {
    let wishes = [
        ("vm.swappiness", "0"),
        ("net.core.busy_read", "50"),
        ("kernel.numa_balancing", "off"),
        ("cpu.governor", "performance"),
        ("cpu.workqueue-affinity", "0"),
        ("irq.default-affinity", "0-1"),
        ("cpu.isolated", "2-3"),
    ];
    plan_of(host, &[], &wishes)
}

/// The changes that make each instance of these settings so.
pub fn plan_of(host: &mut RootHost, interfaces: &[String], wishes: &[(&str, &str)]) -> Vec<Change> {
    let scope = Scope { interfaces, cpus: None };
    let mut changes = Vec::new();
    for (id, wanted) in wishes {
        let setting = catalogue::setting(id).unwrap();
        for located in targets(host.root(), setting, &scope).unwrap_or_else(|error| panic!("{error}")) {
            changes
                .push(Change::plan(&located, located.wanted(wanted), host).unwrap_or_else(|error| panic!("{error}")));
        }
    }
    changes
}

pub fn host(tree: &Path) -> RootHost {
    RootHost::new(Root::directory(tree).unwrap())
}

pub fn identity(host: &RootHost) -> HostIdentity {
    HostIdentity::of(host.root())
}

/// Every file with its text; masks as a copy may print them again.
pub fn snapshot(tree: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(tree).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            files.extend(snapshot(&entry.path()));
        } else {
            let text = fs::read_to_string(entry.path()).unwrap();
            let text = text.trim().trim_start_matches('0').to_owned();
            files.insert(entry.path().to_string_lossy().into_owned(), text);
        }
    }
    files
}

/// Says that a test did not run, and fails where nothing may be skipped.
pub fn skip(why: &str) {
    assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but: {why}");
    println!("SKIP {why}");
}

/// The command that runs one test of this file alone, as a process of its own.
pub fn test_alone(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]);
    command
}

/// As [`test_alone`], by the shell after these lines, in mount and network namespaces of its own;
/// `None`, having said so, where that is not allowed.
pub fn test_alone_in_namespaces(name: &str, before: &str) -> Option<Command> {
    let probe = Command::new("unshare").args(["--mount", "--net", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        skip("mount and network namespaces need root and unshare(1)");
        return None;
    }
    let mut command = Command::new("unshare");
    let script = format!("set -e\n{before}\nexec \"$0\" \"$@\"");
    command.args(["--mount", "--net", "sh", "-c", &script]);
    command.arg(std::env::current_exe().unwrap()).args([name, "--exact", "--nocapture"]);
    Some(command)
}

/// Runs a test in a process of its own; its output is shown when it fails.
pub fn run(mut command: Command) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

/// Kills its own process instead of doing the call of this number.
pub struct Dying {
    pub inner: RootHost,
    pub left: usize,
}

impl Dying {
    fn count(&mut self) {
        if self.left == 0 {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        self.left -= 1;
    }
}

impl Host for Dying {
    fn read(&mut self, target: &Target) -> Result<String, HostError> {
        self.count();
        self.inner.read(target)
    }

    fn write(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.count();
        self.inner.write(target, word)
    }

    fn probe(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.count();
        self.inner.probe(target, word)
    }

    fn witnesses(&mut self, changes: &[Change]) -> Vec<Change> {
        self.inner.witnesses(changes)
    }
}

/// Whether a process was killed, as opposed to having finished.
pub fn is_killed(mut command: Command) -> bool {
    let output = command.output().unwrap();
    let is_killed = output.status.signal() == Some(9);
    assert!(is_killed || output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    is_killed
}
