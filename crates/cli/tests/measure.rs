//! `nearwire tune measure` on the virtual cable and on this host: what is planted is found, and whatever ends it, everything is back. Values of this
//! host that are switched are those of virtual memory, which nothing here depends on.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;
#[path = "common/placebos.rs"]
mod placebos;

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::measuring::Place;
use common::{assert_says, code, command, errors, kill, may_run, nearwire, text};
use placebos::PLACEBOS;
use rustix::process::Signal;
use serde_json::Value;

/// A value of this host.
struct HostValue {
    path: &'static str,
    found: String,
}

impl HostValue {
    fn of(path: &'static str) -> Self {
        Self { path, found: Self::now(path) }
    }

    fn now(path: &str) -> String {
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    /// A value that it does not have.
    fn other(&self) -> String {
        format!("equal = {}", self.found.parse::<u64>().unwrap() + 7)
    }

    fn is_as_found(&self) -> bool {
        Self::now(self.path) == self.found
    }

    #[track_caller]
    fn await_switched(&self, child: &mut Child) {
        let give_up = Instant::now() + Duration::from_secs(30);
        while self.is_as_found() {
            assert!(Instant::now() < give_up && child.try_wait().unwrap().is_none(), "it was never written");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Whatever fails, this host is as it was.
impl Drop for HostValue {
    fn drop(&mut self) {
        if !self.is_as_found() {
            fs::write(self.path, &self.found).unwrap();
        }
    }
}

fn start(place: &Place, words: &[&str]) -> Child {
    place.measure(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn page(file: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

fn effect<'a>(page: &'a Value, id: &str, path: &str, figure: &str) -> &'a Value {
    let by = |list: &'a Value, key: &str, wanted: &str| {
        list.as_array()
            .unwrap()
            .iter()
            .find(|one| one[key] == wanted)
            .unwrap_or_else(|| panic!("no {wanted} in {page}"))
    };
    by(&by(&by(&page["settings"], "id", id)["on"], "subject", path)["effects"], "figure", figure)
}

#[test]
fn planted_setting_is_found_with_its_sign_and_placebo_is_not() {
    if !may_run() {
        return;
    }
    // A packet is handed to another CPU by an interrupt there, which takes longer than what it saves.
    let placebo = HostValue::of("/proc/sys/vm/stat_interval");
    let place = Place::new(&[("nic.rps-cpus", "cpus-equal = '1'".to_owned()), ("vm.stat_interval", placebo.other())]);
    let (json, html) = (place.path("r.json"), place.path("r.html"));
    let words = ["udp/spin", "--yes", "--quiet", "--time", "4s", "--seed", "5"];
    let mut measure = place.measure(&words);
    let output = measure.arg("--json").arg(&json).arg("--html").arg(&html).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}{}", text(&output), errors(&output));
    let page = page(&json);
    let planted = effect(&page, "nic.rps-cpus[nw0]", "udp/spin", "p50_ns");
    assert_eq!(planted["verdict"], "worse", "{planted}");
    assert!(planted["percent"].as_f64().unwrap() > 20.0, "{planted}");
    let none = effect(&page, "vm.stat_interval", "udp/spin", "p50_ns");
    // One in twenty effects that are told may be none, and other tests run beside this one: such an effect is small.
    let is_none = none["verdict"] == "no-effect" || none["verdict"] == "noise";
    assert!(is_none || none["percent"].as_f64().unwrap().abs() < 5.0, "{none}");
    assert!(placebo.is_as_found() && !place.has_journal());

    let said = text(&output);
    for words in ["2 settings to measure", "nic.rps-cpus[nw0]", "none -> 1", "WORSE", "All values are as found."] {
        assert!(said.contains(words), "no '{words}' in {said}");
    }
    let html = fs::read_to_string(html).unwrap();
    assert!(html.contains("nic.rps-cpus[nw0]") && html.contains("<svg") && html.ends_with("</html>\n"));

    // What was measured is what check tells.
    let mut check = command(&["check", "--results"]);
    check.arg(place.path("results")).arg("--profile").arg(place.path("profile.toml"));
    let checked = text(&check.output().unwrap());
    assert!(checked.contains("worth") && checked.contains("udp/spin"), "{checked}");
}

#[test]
fn of_twenty_settings_that_do_nothing_at_most_one_is_told_to_do_something() {
    if !may_run() {
        return;
    }
    let wishes: Vec<_> = PLACEBOS.iter().map(|(id, value)| (*id, format!("equal = {value}"))).collect();
    let place = Place::new(&wishes);
    let json = place.path("r.json");
    let words = ["udp/spin", "--yes", "--quiet", "--time", "1500ms", "--no-pairs", "--seed", "11"];
    let output = place.measure(&words).arg("--json").arg(&json).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}{}", text(&output), errors(&output));
    let page = page(&json);
    let settings = page["settings"].as_array().unwrap();
    let all_effects = |setting: &Value| setting["on"][0]["effects"].as_array().cloned().unwrap_or_default();
    for setting in settings {
        assert!(all_effects(setting).len() > 1, "it was not measured: {setting}");
    }
    assert_eq!(settings.len(), PLACEBOS.len(), "{}", text(&output));
    let is_told = |setting: &&Value| {
        all_effects(setting).iter().any(|effect| effect["verdict"] == "better" || effect["verdict"] == "worse")
    };
    let told: Vec<_> = settings.iter().filter(is_told).collect();
    assert!(told.len() <= PLACEBOS.len() / 20, "{told:#?}");
}

/// Two interfaces of this host that a cable joins, whose driver polls for what it joins to larger packets, of senders that make none:
/// without that a socket could poll for nothing (`veth_skb_is_eligible_for_gro` in `drivers/net/veth.c`).
struct PollingCable;

impl PollingCable {
    const ENDS: [&str; 2] = ["nwbusya", "nwbusyb"];

    fn new() -> Self {
        let [near, far] = Self::ENDS;
        let script = format!(
            "ip link add {near} type veth peer name {far} && for end in {near} {far}; do ip link set $end up && \
             ethtool -K $end gro on tso off || exit; done"
        );
        let output = std::process::Command::new("sh").args(["-ec", &script]).output().unwrap();
        assert!(output.status.success(), "{}", errors(&output));
        Self
    }
}

impl Drop for PollingCable {
    fn drop(&mut self) {
        let _ = std::process::Command::new("ip").args(["link", "del", Self::ENDS[0]]).status();
    }
}

/// A receiver that polls is awake when the answer comes; one that sleeps has to be woken, which takes several times as long.
#[test]
fn sockets_that_poll_before_they_sleep_are_found_to_be_quicker() {
    if !may_run() {
        return;
    }
    let busy_read = HostValue::of("/proc/sys/net/core/busy_read");
    assert_eq!(busy_read.found, "0", "sockets of this host poll already");
    let cable = PollingCable::new();
    let place = Place::new(&[("net.core.busy_read", "equal = 200".to_owned())]);
    let json = place.path("r.json");
    let ends = PollingCable::ENDS.join(":");
    let words = ["udp/block", "--yes", "--quiet", "--time", "4s", "--seed", "5", "--cable", &ends];
    let output = place.measure(&words).arg("--json").arg(&json).output().unwrap();
    drop(cable);
    assert_eq!(code(&output), Some(0), "{}{}", text(&output), errors(&output));
    let page = page(&json);
    let p50 = effect(&page, "net.core.busy_read", "udp/block", "p50_ns");
    assert_eq!(p50["verdict"], "better", "{p50}");
    assert!(p50["percent"].as_f64().unwrap() < -40.0, "{p50}");
    assert!(busy_read.is_as_found() && !place.has_journal());
}

#[test]
fn killed_at_any_moment_everything_is_back_after_a_revert() {
    if !may_run() {
        return;
    }
    let value = HostValue::of("/proc/sys/vm/swappiness");
    for moment in 0..6 {
        let place = Place::new(&[("vm.swappiness", value.other())]);
        let mut child = start(&place, &["udp/spin", "--yes", "--quiet", "--time", "20s", "--rounds", "100"]);
        if moment < 2 {
            std::thread::sleep(Duration::from_millis(100 * moment + 20));
        } else {
            value.await_switched(&mut child);
            std::thread::sleep(Duration::from_millis(3 * moment));
        }
        kill(child.id(), Signal::KILL);
        child.wait().unwrap();
        let reverted = place.revert();
        assert_eq!(code(&reverted), Some(0), "{}{}", text(&reverted), errors(&reverted));
        assert!(value.is_as_found(), "moment {moment}");
        assert!(!place.has_journal(), "moment {moment}");
    }
}

#[test]
fn next_measurement_puts_back_what_a_killed_one_left() {
    if !may_run() {
        return;
    }
    let value = HostValue::of("/proc/sys/vm/compaction_proactiveness");
    let place = Place::new(&[("vm.compaction_proactiveness", value.other())]);
    let mut child = start(&place, &["udp/spin", "--yes", "--quiet", "--time", "20s"]);
    value.await_switched(&mut child);
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    let next = place.measure(&["udp/spin", "--quiet"]).stdin(Stdio::null()).output().unwrap();
    assert_says(&next, 2, &["--yes", "What an earlier measurement had left was put back."]);
    assert!(value.is_as_found() && !place.has_journal());
}

#[test]
fn interrupted_measurement_puts_everything_back_and_tells_what_it_has() {
    if !may_run() {
        return;
    }
    let value = HostValue::of("/proc/sys/vm/dirty_background_ratio");
    let place = Place::new(&[("vm.dirty_background_ratio", value.other())]);
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = start(&place, &["udp/spin", "--yes", "--quiet", "--time", "20s", "--rounds", "20"]);
        value.await_switched(&mut child);
        let asked = Instant::now();
        kill(child.id(), signal);
        let output = child.wait_with_output().unwrap();
        assert!(asked.elapsed() < Duration::from_secs(3), "it took {:?}", asked.elapsed());
        assert_says(&output, 130, &[]);
        assert!(text(&output).contains("interrupted"), "{}", text(&output));
        assert!(value.is_as_found() && !place.has_journal());
        assert!(!place.path("results").exists(), "half a measurement is not kept");
    }
}

#[test]
fn nothing_is_written_without_an_answer_and_a_copy_is_refused() {
    if !may_run() {
        return;
    }
    let value = HostValue::of("/proc/sys/vm/dirty_ratio");
    let place = Place::new(&[("vm.dirty_ratio", value.other())]);
    let asked = place.measure(&["udp/spin", "--quiet"]).stdin(Stdio::null()).output().unwrap();
    assert_says(&asked, 2, &["no terminal", "--yes"]);
    assert!(text(&asked).contains("vm.dirty_ratio"), "{}", text(&asked));
    assert_says(&nearwire(&["tune", "measure", "--sysroot", "/tmp"]), 2, &["on the host itself"]);
    assert_says(&place.measure(&["--only", "vm.dirty_ratios", "--yes"]).output().unwrap(), 2, &["vm.dirty_ratio"]);
}

/// A namespace shows some parameters of the host and lets nobody write them there: nothing at all was measured.
#[test]
fn parameter_that_the_ends_only_show_is_measured_as_the_hosts() {
    if !may_run() {
        return;
    }
    let of_host = HostValue::of("/proc/sys/net/core/rmem_max");
    let of_ends = HostValue::of("/proc/sys/net/ipv4/tcp_notsent_lowat");
    let smaller = "equal = 131072".to_owned();
    let place = Place::new(&[("net.core.rmem_max", of_host.other()), ("net.ipv4.tcp_notsent_lowat", smaller)]);
    let json = place.path("r.json");
    let words = ["udp/spin", "--yes", "--quiet", "--rounds", "2", "--time", "400ms"];
    let output = place.measure(&words).arg("--json").arg(&json).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}{}", text(&output), errors(&output));
    let page = page(&json);
    for id in ["net.core.rmem_max", "net.ipv4.tcp_notsent_lowat"] {
        assert_eq!(effect(&page, id, "udp/spin", "p50_ns")["pairs"], 4, "{page}");
    }
    assert!(of_host.is_as_found() && of_ends.is_as_found() && !place.has_journal());
}

#[test]
fn difference_that_is_waived_is_not_switched() {
    if !may_run() {
        return;
    }
    let value = HostValue::of("/proc/sys/vm/min_free_kbytes");
    let place = Place::new(&[("vm.min_free_kbytes", value.other())]);
    let waiver = format!(
        "[[waiver]]\nsetting = 'vm.min_free_kbytes'\nvalue = '{}'\nreason = 'r'\nowner = 'o'\nuntil = 2999-01-01\n",
        value.found
    );
    fs::write(place.path("waivers.toml"), waiver).unwrap();
    let output = place.measure(&["--quiet"]).arg("--waivers").arg(place.path("waivers.toml")).output().unwrap();
    assert_says(&output, 0, &[]);
    assert!(text(&output).contains("Nothing to measure"), "{}", text(&output));
}

/// A command that prints the value which is switched.
#[test]
fn setting_is_measured_by_a_command_of_the_users_and_a_command_without_a_figure_changes_nothing() {
    if !may_run() {
        return;
    }
    let value = HostValue::of("/proc/sys/kernel/hung_task_timeout_secs");
    let place = Place::new(&[("kernel.hung_task_timeout_secs", value.other())]);
    let page_file = place.path("page.json");
    let words = ["--yes", "--quiet", "--rounds", "6", "--figure", "timeout = ([0-9]+)"];
    let mut command = place.measure(&words);
    let output = command.arg("--json").arg(&page_file).args([
        "--",
        "sh",
        "-c",
        "echo timeout = $(cat /proc/sys/kernel/hung_task_timeout_secs)00",
    ]);
    let output = output.output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    let effect = &page(&page_file)["settings"][0]["on"][0]["effects"][0];
    assert!(effect["verdict"] == "better" || effect["verdict"] == "worse", "{effect}");
    assert!(value.is_as_found());
    for words in ["on this host", "What the command prints", "What interrupts these CPUs"] {
        assert!(text(&output).contains(words), "no '{words}' in {}", text(&output));
    }

    let output = place.measure(&["--yes", "--quiet", "--", "true"]).output().unwrap();
    assert_says(&output, 2, &["--figure"]);
    assert!(value.is_as_found());
}

/// A command that prints the limit in effect: it is there in the runs with it alone. It is longer than any idle state takes to leave, so
/// that this machine sleeps as before.
#[test]
fn wake_up_limit_is_held_while_it_is_measured() {
    const LIMIT: &str = "od -An -td4 /dev/cpu_dma_latency";
    if !may_run() || !Path::new("/dev/cpu_dma_latency").exists() {
        return;
    }
    let now = || text(&std::process::Command::new("sh").args(["-c", LIMIT]).output().unwrap());
    let found = now();
    let place = Place::new(&[("cpu.dma-latency-us", "at-most = 1000000".to_owned())]);
    let page_file = place.path("page.json");
    let mut command = place.measure(&["--yes", "--quiet", "--rounds", "2", "--figure", "limit = ([0-9]+)"]);
    let print = format!("echo limit = $({LIMIT})");
    let output = command.arg("--json").arg(&page_file).args(["--", "sh", "-c", &print]).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}{}", text(&output), errors(&output));
    assert!(text(&output).contains("cpu.dma-latency-us  no limit -> 1000000"), "{}", text(&output));
    let effect = &page(&page_file)["settings"][0]["on"][0]["effects"][0];
    assert_eq!(effect["found"], 2e9, "{effect}");
    assert!((effect["change"].as_f64().unwrap() - (1e6 - 2e9)).abs() < 1.0, "{effect}");
    assert_eq!(now(), found);
}

#[test]
fn host_with_nothing_to_change_says_so() {
    if !may_run() {
        return;
    }
    let now = HostValue::of("/proc/sys/vm/overcommit_memory");
    let place = Place::new(&[
        ("vm.overcommit_memory", format!("equal = {}", now.found)),
        ("cpu.smt", "equal = 'off'".to_owned()),
    ]);
    let output = place.measure(&["--quiet"]).output().unwrap();
    assert_says(&output, 0, &[]);
    assert!(text(&output).contains("Nothing to measure"), "{}", text(&output));
}

/// A host of its own with two interfaces that a cable joins, on which a measurement is killed while they have the wanted values.
const KILLED_ON_A_LOOPBACK_CABLE: &str = "\
set -e
ip link set lo up
ip link add wa numrxqueues 2 numtxqueues 2 type veth peer name wb numrxqueues 2 numtxqueues 2
ip link set wa up; ip link set wb up
mount -t sysfs none /sys
sleep 0.5
masks() { cat /sys/class/net/w[ab]/queues/rx-*/rps_cpus | tr '\\n' ' '; }
before=$(masks)
$NEARWIRE tune measure --profile profile.toml --cable wa:wb --yes --quiet --time 60s --journal journal --results results udp/spin >/dev/null 2>&1 &
for i in $(seq 1 400); do grep -q complete journal/journal 2>/dev/null && break; sleep 0.02; done
kill -9 $!
for i in $(seq 1 200); do [ -e /sys/class/net/wa ] && [ -e /sys/class/net/wb ] && break; sleep 0.05; done
[ \"$(masks)\" != \"$before\" ] || echo 'the masks were not written when it was killed'
$NEARWIRE tune revert --yes --journal journal
[ \"$(masks)\" = \"$before\" ] && echo 'as before'";

#[test]
fn interfaces_of_a_loopback_cable_have_their_values_back_after_a_kill_and_a_revert() {
    if !may_run() {
        return;
    }
    let place = Place::new(&[("nic.rps-cpus", "cpus-equal = '1'".to_owned())]);
    let mut host = std::process::Command::new("unshare");
    host.args(["-n", "-m", "sh", "-c", KILLED_ON_A_LOOPBACK_CABLE]).env("NEARWIRE", common::NEARWIRE);
    let output = host.current_dir(place.directory()).output().unwrap();
    let said = text(&output);
    assert!(said.ends_with("as before\n") && !said.contains("not written"), "{said}{}", errors(&output));
    assert!(!place.has_journal());
}
