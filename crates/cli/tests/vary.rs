//! `nearwire bench --vary`: cells under several values of a setting, which are back afterwards whatever happened.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::{assert_says, bench, code, command, errors, kill, may_run, nearwire, record, text};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// A value of the host that changes nothing anybody notices: how often counters of pages are folded, seconds.
const FILE: &str = "/proc/sys/vm/stat_interval";

/// One test at a time changes it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> u32 {
    fs::read_to_string(FILE).unwrap().trim().parse().unwrap()
}

/// Two values that are not the one found.
fn others(found: u32) -> [u32; 2] {
    [found + 1, found + 2]
}

/// A measurement of ten seconds that varies the value.
fn under_way(journal: &Path, [one, other]: [u32; 2]) -> Child {
    let vary = format!("vm.stat_interval={one},{other}");
    let mut measurement =
        command(&["bench", "udp/block", "--size", "64", "--time", "10s", "--rounds", "200", "--quiet"]);
    measurement.args(["--yes", "--vary", &vary, "--journal"]).arg(journal);
    measurement.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the value was each of these.
fn seen(values: [u32; 2]) {
    let give_up = Instant::now() + Duration::from_secs(20);
    let mut seen = BTreeSet::new();
    while !values.iter().all(|value| seen.contains(value)) {
        assert!(Instant::now() < give_up, "only {seen:?} of {values:?} were seen");
        seen.insert(now());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The value while it is varied, and what the journal is in.
struct Varied {
    found: u32,
    directory: TempDir,
    child: Child,
    _alone: MutexGuard<'static, ()>,
}

impl Varied {
    /// Both values were there.
    fn seen() -> Varied {
        let alone = alone();
        let found = now();
        let directory = tempfile::tempdir().unwrap();
        let child = under_way(&directory.path().join("journal"), others(found));
        seen(others(found));
        Varied { found, directory, child, _alone: alone }
    }

    fn journal(&self) -> PathBuf {
        self.directory.path().join("journal")
    }
}

/// The record of a measurement.
fn measured(words: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.json");
    let output = bench(&[&["udp/block", "--json", file.to_str().unwrap()], words].concat());
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    record(&file)
}

fn runs(record: &Value) -> &[Value] {
    record["runs"].as_array().unwrap()
}

#[test]
fn offload_varied_is_measured_under_both_values_in_turns() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.json");
    let samples = directory.path().join("s.csv");
    let output = command(&["bench", "udp/block", "tcp/block", "--vary", "nic.offload.gro=on,off", "--size", "64"])
        .args(["--rounds", "12", "--count", "600", "--quiet", "--seed", "5", "--json"])
        .arg(&file)
        .arg("--samples")
        .arg(&samples)
        .output()
        .unwrap();
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    let record = record(&file);
    let mut cells = BTreeSet::new();
    for run in runs(&record) {
        let value = run["variation"]["nic.offload.gro"].as_str().unwrap();
        cells.insert((run["path"].as_str().unwrap(), value));
        assert_eq!(run["rounds"].as_array().unwrap().len(), 12);
        // Read back at both ends, in the words of the kernel.
        for end in ["nic.offload.gro[nw0]", "nic.offload.gro[nw1]"] {
            let notes = run["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap());
            let of_end: Vec<_> = notes.filter(|note| note.starts_with(&format!("{end} = "))).collect();
            assert_eq!(of_end.len(), 1, "{run}");
            assert!(of_end[0].starts_with(&format!("{end} = {value}, ")), "{of_end:?} under {value}");
        }
    }
    assert_eq!(
        cells,
        BTreeSet::from([("tcp/block", "off"), ("tcp/block", "on"), ("udp/block", "off"), ("udp/block", "on")])
    );
    // In each round either value comes first, and both paths are measured under it before the other one.
    let firsts: Vec<bool> = (0..12)
        .map(|round| {
            let positions = |value: &str| -> BTreeSet<u64> {
                let of = runs(&record).iter().filter(|run| run["variation"]["nic.offload.gro"] == value);
                of.map(|run| run["rounds"][round]["position"].as_u64().unwrap()).collect()
            };
            let (on, off) = (positions("on"), positions("off"));
            assert!(on == BTreeSet::from([0, 1]) && off == BTreeSet::from([2, 3]) || off == BTreeSet::from([0, 1]));
            on.contains(&0)
        })
        .collect();
    assert!(firsts.contains(&true) && firsts.contains(&false), "{firsts:?}");
    assert!(text(&output).contains("nic.offload.gro=on"), "{}", text(&output));
    let lines = fs::read_to_string(&samples).unwrap();
    assert!(lines.lines().next().unwrap().ends_with(",variation"));
    assert!(lines.lines().any(|line| line.ends_with(",nic.offload.gro=off")));
    reports_show_the_variation(&file);
}

fn reports_show_the_variation(record: &Path) {
    let page = record.with_extension("html");
    let record = record.to_str().unwrap();
    let compared = nearwire(&["compare", record, record]);
    assert_eq!(code(&compared), Some(0), "{}", errors(&compared));
    for value in ["udp/block nic.offload.gro=on", "udp/block nic.offload.gro=off"] {
        assert!(text(&compared).contains(value), "{}", text(&compared));
    }
    let reported = nearwire(&["report", record, "-o", page.to_str().unwrap()]);
    assert_eq!(code(&reported), Some(0), "{}", errors(&reported));
    assert!(fs::read_to_string(page).unwrap().contains("nic.offload.gro=off"));
}

#[test]
fn file_of_an_interface_is_varied_in_the_namespace_of_the_cable() {
    if !may_run() {
        return;
    }
    let record = measured(&["--vary", "nic.rps-cpus=0,none"]);
    for run in runs(&record) {
        let value = run["variation"]["nic.rps-cpus"].as_str().unwrap();
        let notes: Vec<_> = run["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
        for queue in ["nw0/rx-0", "nw0/rx-1", "nw1/rx-0", "nw1/rx-1"] {
            let wanted = format!("nic.rps-cpus[{queue}] = {value}, ");
            assert!(notes.iter().any(|note| note.starts_with(&wanted)), "no '{wanted}' in {notes:?}");
        }
    }
}

/// Both limits are longer than any idle state takes to leave: this machine sleeps as before.
#[test]
fn wake_up_limit_is_held_under_each_value_and_goes_with_the_process() {
    if !may_run() || !Path::new("/dev/cpu_dma_latency").exists() {
        return;
    }
    let in_effect = || fs::File::open("/dev/cpu_dma_latency").and_then(|mut device| read_u32(&mut device)).unwrap();
    let found = in_effect();
    let record = measured(&["--vary", "cpu.dma-latency-us=1000000,1500000"]);
    assert_eq!(runs(&record).len(), 2);
    for run in runs(&record) {
        let note = format!("cpu.dma-latency-us = {}, held", run["variation"]["cpu.dma-latency-us"].as_str().unwrap());
        assert!(run["notes"].as_array().unwrap().iter().any(|told| *told == note), "no '{note}' in {run}");
    }
    assert_eq!(in_effect(), found);
    for (values, words) in [("5,5", "same value"), ("n/a,5", "'n/a'")] {
        let vary = format!("cpu.dma-latency-us={values}");
        assert_says(&bench(&["udp/block", "--vary", &vary]), 2, &[words, "cpu.dma-latency-us"]);
    }
}

fn read_u32(device: &mut fs::File) -> std::io::Result<u32> {
    let mut bytes = [0; 4];
    device.read_exact(&mut bytes).map(|()| u32::from_ne_bytes(bytes))
}

#[test]
fn two_settings_have_a_cell_for_each_combination() {
    if !may_run() {
        return;
    }
    let record = measured(&["--vary", "nic.offload.gro=on,off", "--vary", "nic.offload.tso=off,on"]);
    let values: BTreeSet<String> = runs(&record).iter().map(|run| run["variation"].to_string()).collect();
    assert_eq!(values.len(), 4, "{values:?}");
}

#[test]
fn value_of_the_host_changes_while_it_measures_and_is_back_after_an_interrupt() {
    if !may_run() {
        return;
    }
    let varied = Varied::seen();
    let (found, journal) = (varied.found, varied.journal());
    kill(varied.child.id(), Signal::INT);
    kill(varied.child.id(), Signal::INT);
    let output = varied.child.wait_with_output().unwrap();
    assert_says(&output, 130, &[]);
    assert!(text(&output).contains(&format!("vm.stat_interval={}", others(found)[0])), "{}", text(&output));
    assert_eq!(now(), found);
    assert!(!journal.join("journal").exists());
}

#[test]
fn value_of_the_host_is_back_by_revert_after_kill() {
    if !may_run() {
        return;
    }
    let mut varied = Varied::seen();
    let (found, journal, child) = (varied.found, varied.journal(), &mut varied.child);
    // Between two values the one found is there for a moment.
    while {
        kill(child.id(), Signal::STOP);
        now() == found
    } {
        kill(child.id(), Signal::CONT);
        std::thread::sleep(Duration::from_millis(3));
    }
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    assert_ne!(now(), found);
    let reverted = nearwire(&["tune", "revert", "--yes", "--journal", journal.to_str().unwrap()]);
    assert_eq!(code(&reverted), Some(0), "{}", errors(&reverted));
    assert_eq!(now(), found);
}

#[test]
fn value_of_the_host_is_not_written_unasked() {
    if !may_run() {
        return;
    }
    let _alone = alone();
    let found = now();
    let [one, other] = others(found);
    let output = bench(&["udp/block", "--vary", &format!("vm.stat_interval={one},{other}")]);
    assert_says(&output, 2, &["vm.stat_interval", "--yes"]);
    assert_eq!(now(), found);
}

#[test]
fn what_cannot_be_varied_is_refused_before_anything_is_measured() {
    if !may_run() {
        return;
    }
    for (vary, exit_code, words) in [
        ("nic.offload.gor=on,off", 2, &["nic.offload.gor", "nic.offload.gro"][..]),
        ("nic.offload.gro", 2, &["nic.offload.gro=on,off"]),
        ("nic.offload.gro=on", 2, &["two values"]),
        ("nic.offload.gro=on,1", 2, &["'on' and '1' are the same value"]),
        ("nic.offload.gro=on,perhaps", 2, &["nic.offload.gro", "'perhaps'"]),
        ("nic.mtu=1500,9000", 2, &["nic.mtu", "interrupt the cable"]),
        ("kernel.randomize_va_space=0,2", 2, &["security"]),
        ("boot.isolcpus=1,2", 3, &["boot.isolcpus", "while the host runs"]),
        ("nic.coalesce.rx-usecs=0,50", 2, &["nic.coalesce.rx-usecs[nw0]"]),
    ] {
        assert_says(&bench(&["udp/block", "--vary", vary]), exit_code, words);
    }
    assert_says(&nearwire(&["bench", "udp/block", "--yes"]), 2, &["--vary"]);
}

/// A host of its own with two interfaces that a cable joins. `$measure` varies their settings; `state` is what must be as before.
const HOST_WITH_A_LOOPBACK_CABLE: &str = "\
set -e
ip link set lo up
ip link add wa numrxqueues 2 numtxqueues 2 type veth peer name wb numrxqueues 2 numtxqueues 2
ip link set wa up; ip link set wb up
mount -t sysfs none /sys
sleep 0.5
state() { cat /sys/class/net/w[ab]/queues/rx-*/rps_cpus /proc/sys/net/ipv4/tcp_notsent_lowat; ethtool -k wa; ethtool -k wb; }
is_there() { [ -e /sys/class/net/wa ] && [ -e /sys/class/net/wb ]; }
await_interfaces() { for i in $(seq 1 200); do is_there && break; sleep 0.05; done; }
measure=\"$NEARWIRE bench udp/block --cable wa:wb --size 64 --quiet --yes --journal journal --vary nic.offload.gro=on,off \
  --vary nic.rps-cpus=1,none --vary net.ipv4.tcp_notsent_lowat=65536,131072 --json r.json\"
state > before
";

/// What a script prints on such a host, in a directory of its own.
fn on_a_loopback_cable(script: &str) -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let mut host = std::process::Command::new("unshare");
    host.args(["-n", "-m", "sh", "-c"]).arg(format!("{HOST_WITH_A_LOOPBACK_CABLE}{script}"));
    let output = host.env("NEARWIRE", common::NEARWIRE).current_dir(directory.path()).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}{}", text(&output), errors(&output));
    (directory, text(&output))
}

#[test]
fn settings_of_lent_interfaces_are_varied_at_both_and_are_back() {
    if !may_run() {
        return;
    }
    let (directory, _) = on_a_loopback_cable(
        "$measure --count 100 --rounds 2\nawait_interfaces\nstate | diff before -\n[ ! -e journal/journal ]",
    );
    let record = record(&directory.path().join("r.json"));
    assert_eq!(record["experiment"]["cable"], "loopback");
    assert_eq!(runs(&record).len(), 8);
    for run in runs(&record) {
        let notes: Vec<_> = run["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
        for (id, places) in [
            ("nic.offload.gro", &["[wa]", "[wb]"][..]),
            ("nic.rps-cpus", &["[wa/rx-0]", "[wa/rx-1]", "[wb/rx-0]", "[wb/rx-1]"]),
            ("net.ipv4.tcp_notsent_lowat", &[""]),
        ] {
            let value = run["variation"][id].as_str().unwrap();
            for wanted in places.iter().map(|place| format!("{id}{place} = {value}, ")) {
                assert!(notes.iter().any(|note| note.starts_with(&wanted)), "no '{wanted}' in {notes:?}");
            }
        }
    }
}

#[test]
fn settings_of_lent_interfaces_are_back_by_revert_after_a_kill() {
    if !may_run() {
        return;
    }
    let script = "\
$measure --time 60s >/dev/null 2>&1 &
for i in $(seq 1 400); do grep -q complete journal/journal 2>/dev/null && break; sleep 0.02; done
kill -9 $!
await_interfaces
$NEARWIRE tune revert --yes --journal journal
state | diff before -
[ ! -e journal/journal ]";
    let (_, said) = on_a_loopback_cable(script);
    assert!(said.contains("wa"), "{said}");
}
