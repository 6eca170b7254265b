//! `nearwire snapshot`, and looking at another host than this one.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use common::{NEARWIRE, assert_says, code, copy_program, errors, may_run, nearwire, text};
use serde_json::Value;
use tempfile::TempDir;

/// Readings that change by themselves from one second to the next.
const CHANGING: [&str; 16] = [
    "cpu.frequency.now-khz",
    "cpu.throttle-count",
    "memory.available",
    "memory.free-blocks",
    "memory.huge-pages",
    "memory.node-free",
    "nic.byte-queue-limit",
    "nic.drops",
    "nic.errors",
    "noise.cpu-interrupts",
    "noise.kernel-threads",
    "noise.steal",
    "noise.timer-interrupts",
    "placement.threads-on-isolated",
    "stack.softnet",
    "stack.taps",
];

fn taken(directory: &TempDir) -> String {
    let file = directory.path().join("host.tar.zst").to_str().unwrap().to_owned();
    let output = nearwire(&["snapshot", "-o", &file]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    assert!(text(&output).starts_with(&file), "{}", text(&output));
    file
}

/// Id to reading, those that change by themselves left out.
fn readings(output: &Output) -> BTreeMap<String, String> {
    assert_eq!(code(output), Some(0), "{}", errors(output));
    let settings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let now = settings.iter().flat_map(|setting| setting["now"].as_array().unwrap());
    let steady = now.filter(|reading| !CHANGING.iter().any(|id| reading["id"].as_str().unwrap().starts_with(id)));
    steady.map(|reading| (reading["id"].as_str().unwrap().to_owned(), reading.to_string())).collect()
}

fn differences(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> Vec<String> {
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    one.iter()
        .filter(|(id, reading)| other[*id] != **reading)
        .map(|(id, reading)| format!("{reading} {}", other[id]))
        .collect()
}

#[test]
fn snapshot_of_this_host_reads_as_this_host_does() {
    let directory = tempfile::tempdir().unwrap();
    let file = taken(&directory);
    let live = readings(&nearwire(&["settings", "--now", "--json"]));
    let copy = readings(&nearwire(&["settings", "--json", "--snapshot", &file]));
    assert!(live.len() > 300, "{}", live.len());
    assert_eq!(differences(&live, &copy), [""; 0]);
    // One setting of one interface, as of this host.
    let one = nearwire(&["settings", "nic.mtu[lo]", "--snapshot", &file]);
    assert!(text(&one).contains("lo: 65536"), "{}{}", text(&one), errors(&one));
}

#[test]
fn snapshot_of_this_host_is_read_soon() {
    let directory = tempfile::tempdir().unwrap();
    let file = taken(&directory);
    // Processor time, which does not depend on what else the test host does: the shell prints its
    // own in one line, that of its children in the next, as 0m0.040s for the user and the system.
    let script = format!("{NEARWIRE} settings --json --snapshot {file} >/dev/null; times");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let times = text(&output);
    let children = times.lines().nth(1).unwrap().split(' ');
    let taken_s: f64 = children
        .map(|time| {
            let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
            minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
        })
        .sum();
    assert!(taken_s < 0.3, "{times}");
}

#[test]
fn snapshot_of_this_host_unpacked_by_tar_is_a_sysroot() {
    let directory = tempfile::tempdir().unwrap();
    let file = taken(&directory);
    let unpacked = directory.path().join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    let tar = Command::new("tar").args(["-I", "zstd", "-xf", &file, "-C"]).arg(&unpacked).output();
    if !tar.as_ref().is_ok_and(|tar| tar.status.success()) {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "tar and zstd are needed: {tar:?}");
        println!("SKIP tar or zstd is not installed");
        return;
    }
    let archive = readings(&nearwire(&["settings", "--json", "--snapshot", &file]));
    let plain = readings(&nearwire(&["settings", "--json", "--sysroot", unpacked.to_str().unwrap()]));
    let named = |of: &str| of.replace(&file, "").replace(unpacked.to_str().unwrap(), "");
    let differing = differences(&archive, &plain).into_iter().filter(|pair| {
        let (one, other) = pair.split_once("} {").unwrap();
        named(one).trim_matches(['{', '}']) != named(other).trim_matches(['{', '}'])
    });
    assert_eq!(differing.collect::<Vec<_>>(), [""; 0]);
    // The kernel's answers are there to be read by a person, too.
    let answers = fs::read_to_string(unpacked.join("nearwire/interfaces/lo.json")).unwrap();
    assert!(answers.contains("\"rx-gro\": \"on"), "{answers}");
}

/// What identifies this host, as far as a test can know.
fn identifiers() -> Vec<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_lowercase();
    let mut found = vec![read("/etc/machine-id"), read("/proc/sys/kernel/random/boot_id")];
    for file in ["product_uuid", "product_serial", "board_serial", "chassis_serial"] {
        found.push(read(&format!("/sys/class/dmi/id/{file}")));
    }
    for entry in fs::read_dir("/sys/class/net").unwrap().flatten() {
        let address = read(&entry.path().join("address").display().to_string());
        found.extend(
            [address.replace(':', ""), address]
                .into_iter()
                .filter(|address| !address.starts_with("00000") && !address.starts_with("00:00:00:00")),
        );
    }
    let routes = read("/proc/net/fib_trie");
    let lines: Vec<_> = routes.lines().collect();
    let local = lines.windows(2).filter(|pair| pair[1].contains("host local"));
    found.extend(local.map(|pair| pair[0].rsplit(' ').next().unwrap().to_owned()).filter(|ip| !ip.starts_with("127.")));
    for line in read("/proc/net/if_inet6").lines().filter(|line| !line.starts_with("000000")) {
        found.push(line.split(' ').next().unwrap().to_owned());
    }
    for entry in fs::read_dir("/dev/disk/by-uuid").into_iter().flatten().flatten() {
        found.push(entry.file_name().to_string_lossy().to_lowercase());
    }
    let host = read("/proc/sys/kernel/hostname");
    if host.len() >= 6 && host != "localhost" {
        found.push(host);
    }
    found.retain(|identifier| identifier.len() >= 6 && !["none", "not specified"].contains(&identifier.as_str()));
    found
}

#[test]
fn snapshot_of_this_host_has_none_of_its_identifiers() {
    let directory = tempfile::tempdir().unwrap();
    let file = taken(&directory);
    let Ok(unpacked) = Command::new("zstd").args(["-dc", &file]).output() else {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "zstd is needed");
        println!("SKIP zstd is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&unpacked.stdout).to_lowercase();
    assert!(text.contains("proc/cmdline"));
    for identifier in identifiers() {
        let at = text.find(&identifier);
        assert!(at.is_none(), "{identifier}: {:?}", at.map(|at| text[..at].rsplit('\n').next().map(str::to_owned)));
    }
}

#[test]
fn normal_user_takes_a_snapshot_of_what_he_sees() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let program = directory.path().join("nearwire");
    copy_program(&program);
    let file = directory.path().join("user.tar.zst").to_str().unwrap().to_owned();
    let as_user = |args: &[&str]| {
        let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"];
        Command::new("setpriv").args(user).arg(&program).args(args).output().unwrap()
    };
    let output = as_user(&["snapshot", "-o", &file]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    assert!(text(&output).contains("because they need root"), "{}", text(&output));
    let live = readings(&as_user(&["settings", "--now", "--json"]));
    // Whoever reads it sees what the user saw.
    let copy = readings(&nearwire(&["settings", "--json", "--snapshot", &file]));
    assert_eq!(differences(&live, &copy), [""; 0]);
    assert!(live["boot.rejected"].contains("needs_root"), "{}", live["boot.rejected"]);
}

#[test]
fn file_that_cannot_be_written_is_one_message_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    assert_says(&nearwire(&["snapshot", "-o", &at("no/such.tar.zst")]), 4, &["no/such.tar.zst", "No such file"]);
    assert_says(&nearwire(&["snapshot", "-o", directory.path().to_str().unwrap()]), 4, &["no regular file"]);
    assert_says(&nearwire(&["snapshot", "-o", "/dev/full"]), 4, &["/dev/full", "no regular file"]);

    fs::write(at("old.tar.zst"), "old").unwrap();
    let limited = format!("trap '' XFSZ; ulimit -f 4; exec {NEARWIRE} snapshot -o {}", at("old.tar.zst"));
    let output = Command::new("sh").args(["-c", &limited]).output().unwrap();
    assert_says(&output, 4, &["old.tar.zst", "File too large", "nothing is left"]);
    assert_eq!(errors(&output).lines().count(), 1, "{}", errors(&output));
    assert_eq!(fs::read_to_string(at("old.tar.zst")).unwrap(), "old");
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["old.tar.zst"]);
}

#[test]
fn disk_full_is_one_message_and_leaves_nothing() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().display();
    let script = format!(
        "mount -t tmpfs -o size=16k none {at} && {NEARWIRE} snapshot -o {at}/host.tar.zst; code=$?; ls -A {at}; exit $code"
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
    assert_says(&output, 4, &["host.tar.zst", "No space left"]);
    assert_eq!(text(&output), "");
}

#[test]
fn unusable_source_is_a_usage_error() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("text"), "hello\n").unwrap();
    assert_says(&nearwire(&["settings", "--snapshot", &at("text")]), 2, &["text", "no tar archive"]);
    assert_says(&nearwire(&["settings", "--snapshot", &at("none")]), 2, &["none", "No such file"]);
    assert_says(&nearwire(&["settings", "--sysroot", &at("none")]), 2, &["none", "No such file"]);
    assert_says(&nearwire(&["snapshot", "-o", &at("x"), "--sysroot", &at("none")]), 2, &["none", "No such file"]);
    assert_says(&nearwire(&["snapshot", "-o", &at("x"), "--nic", "nw-none"]), 2, &["nw-none", "lo"]);
    let both = nearwire(&["settings", "--snapshot", &at("text"), "--sysroot", "/"]);
    assert_says(&both, 2, &["--snapshot", "--sysroot", "cannot be used"]);
}

#[test]
fn cause_of_an_error_is_said_once() {
    let output = nearwire(&["settings", "--snapshot", "/nonexistent/host.tar.zst"]);
    assert_says(&output, 2, &["No such file"]);
    assert_eq!(errors(&output).matches("No such file").count(), 1, "{}", errors(&output));
}

/// A zstd frame of tar headers and of zeros, which take four bytes for each 128 KiB.
struct Bomb(Vec<u8>);

impl Bomb {
    const BLOCK_BYTES: u32 = 128 << 10;

    fn new() -> Self {
        Self(vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38])
    }

    fn block(&mut self, kind: u32, size: u32, content: &[u8]) {
        self.0.extend_from_slice(&(kind << 1 | size << 3).to_le_bytes()[..3]);
        self.0.extend_from_slice(content);
    }

    fn file(&mut self, name: &str, size_bytes: u64) {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{size_bytes:011o}").as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        self.block(0, 512, &header);
        for _ in 0..size_bytes / u64::from(Self::BLOCK_BYTES) {
            self.block(1, Self::BLOCK_BYTES, &[0]);
        }
    }

    /// Opened by a program that may take little memory.
    fn opened(&self, directory: &Path) -> (Output, Duration) {
        let file = directory.join("bomb.tar.zst");
        fs::write(&file, &self.0).unwrap();
        let start = Instant::now();
        // RLIMIT_DATA counts what is written to alone: not the program's text, whose size depends on its build.
        let limited = format!("ulimit -d 65536; exec {NEARWIRE} settings --snapshot {}", file.display());
        let output = Command::new("sh").args(["-c", &limited]).output().unwrap();
        (output, start.elapsed())
    }
}

#[test]
fn archive_that_unpacks_to_gigabytes_stops_early_with_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let mut large = Bomb::new();
    large.file("proc/kcore", (8 << 30) - 1);
    let mut many = Bomb::new();
    for at in 0..2000 {
        many.file(&format!("sys/{at}"), 4 << 20);
    }
    let mut zeros = Bomb::new();
    zeros.file("proc/cmdline", 0);
    for _ in 0..80_000 {
        zeros.block(1, Bomb::BLOCK_BYTES, &[0]);
    }
    for (bomb, words) in [
        (large, ["1073741824", "bytes when unpacked"]),
        (many, ["50331648", "bytes of system files"]),
        (zeros, ["1048576", "bytes behind its end"]),
    ] {
        let (output, taken) = bomb.opened(directory.path());
        assert_says(&output, 2, &words);
        // Without optimisation, on a loaded test host.
        assert!(taken < Duration::from_secs(30), "{taken:?}");
    }
}

#[test]
fn playbook_for_a_fleet_fetches_snapshots_that_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let fetched = directory.path().join("snapshots");
    let output = Command::new("ansible-playbook")
        .args(["--inventory", "one,two", "--connection", "local"])
        .args(["-e", &format!("nearwire={NEARWIRE}"), "-e", &format!("directory={}", fetched.display())])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/snapshots.yml"))
        .env("ANSIBLE_LOCALHOST_WARNING", "False")
        .env("ANSIBLE_LOCAL_TEMP", directory.path())
        .output();
    let Ok(output) = output else {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "ansible-playbook does not start: {output:?}");
        return println!("SKIP no ansible-playbook");
    };
    assert!(output.status.success(), "{}{}", text(&output), errors(&output));
    assert_are_two_hosts(&fetched, ["one", "two"]);
}

/// Two snapshots of this host are checked as two hosts that are alike.
#[track_caller]
fn assert_are_two_hosts(snapshots: &Path, names: [&str; 2]) {
    let files = names.map(|name| snapshots.join(format!("{name}.tar.zst")).display().to_string());
    let checked = nearwire(&["check", &files[0], &files[1]]);
    assert!(matches!(code(&checked), Some(0 | 1)), "{}", errors(&checked));
    let said = text(&checked);
    assert!(said.starts_with("2 hosts, profile socket-bypass: "), "{said}");
    assert!(names.iter().all(|name| said.contains(&format!("\n  {name}: "))), "{said}");
}

/// As docs/tuning.md has it, but for two processes of one host, whose files the names of hosts would not tell apart.
#[test]
fn process_of_mpirun_on_each_host_takes_a_snapshot_that_is_checked() {
    let directory = tempfile::tempdir().unwrap();
    let snapshots = directory.path().display();
    let take = format!("'{NEARWIRE}' snapshot -o {snapshots}/rank$OMPI_COMM_WORLD_RANK.tar.zst");
    let mut mpirun = Command::new("mpirun");
    // The processes are of this host alone: neither another interface nor a remote shell is looked for.
    mpirun.args([
        "--oversubscribe",
        "-n",
        "2",
        "--allow-run-as-root",
        "--mca",
        "oob",
        "tcp",
        "--mca",
        "oob_tcp_if_include",
        "lo",
    ]);
    let output = mpirun.args(["sh", "-c", &take]).env("TMPDIR", directory.path()).output();
    let Ok(output) = output else {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "mpirun does not start: {output:?}");
        return println!("SKIP no mpirun");
    };
    assert!(output.status.success(), "{}{}", text(&output), errors(&output));
    assert_are_two_hosts(directory.path(), ["rank0", "rank1"]);
}
