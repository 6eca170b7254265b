//! Open vSwitch as a device under test: what is offered slowly arrives, what fails is told, and nothing stays behind.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{TRIALS_MOST, alone, cpus};
use nearwire_dataplane::bed::{Bed, BedError, BedPlan};
use nearwire_dataplane::device::ovs::{OpenVswitch, OvsError, OvsFlows, OvsPorts};
use nearwire_dataplane::device::{DeviceError, RunningDevice};
use nearwire_dataplane::topology::Topology;
use nearwire_dataplane::traffic::{Family, Flows, Sizes, Traffic};
use nearwire_dataplane::trial::{Testbed, TrialPlan};
use nearwire_lab::{CableEnd, VirtualCableOptions, VirtualChain, made_or_skip};
use nearwire_sys::tsc::Clock;
use rustix::process::{Pid, Signal, kill_process};

const DEVICES: [&str; 4] = ["io/ovs", "l2/ovs", "io/ovs-afxdp", "l2/ovs-afxdp"];
const SLOWLY: TrialPlan = TrialPlan::steady(5000.0, 200_000_000, 100_000_000);

fn lay(device: &str, tester_is_xdp: bool, family: Family) -> Result<Bed, BedError> {
    let device = Some(device.parse().unwrap());
    let plan = BedPlan {
        topology: Topology::PortHostPort,
        device,
        is_dual: false,
        tester_is_xdp,
        cpus: cpus(),
        mtu_bytes: 1500,
    };
    let traffic = Traffic {
        family,
        sizes: Sizes::new(vec![80, 590, 1514]).unwrap(),
        flows: Flows::new(1000).unwrap(),
        vlan: None,
        token: 0x4e57,
    };
    Bed::lay(&plan, &traffic, Clock::calibrate())
}

fn switch_of(bed: &Bed) -> &OpenVswitch {
    bed.running_devices().first().and_then(RunningDevice::open_vswitch).unwrap()
}

/// The two ends that a device has in a chain.
fn device_ends(chain: &VirtualChain) -> [CableEnd; 2] {
    let [inner, outer] = chain.links() else { panic!("{:?}", chain.links()) };
    [inner.far.clone(), outer.near.clone()]
}

fn chain() -> Option<VirtualChain> {
    made_or_skip(VirtualChain::lay(2, VirtualCableOptions::default()))
}

#[test]
fn switch_carries_what_is_offered() {
    let _alone = alone();
    for (device, is_xdp) in DEVICES.into_iter().flat_map(|device| [(device, true), (device, false)]) {
        for family in [Family::V4, Family::V6] {
            let Some(mut bed) = made_or_skip(lay(device, is_xdp, family)) else { return };
            let mut lost = Vec::new();
            while lost.last() != Some(&0) {
                let trial = bed.trial(SLOWLY).unwrap();
                println!("{device} {is_xdp} {family:?}: p50 {:?} ns", trial.latency.percentile_ns(50.0));
                assert_eq!(trial.sent_frames + trial.unsent_frames, 1000, "{trial:?}");
                assert_eq!((trial.corrupted_frames, trial.duplicated_frames), (0, 0), "{device} {family:?} {trial:?}");
                lost.push(trial.lost_frames());
                let [from, to] = switch_of(&bed).counters().unwrap();
                assert!(lost.len() < TRIALS_MOST, "{device} {is_xdp} {family:?} {lost:?} {trial:?} {from:?} {to:?}");
                assert!(
                    from.rx_packets >= trial.received_frames && to.tx_packets >= trial.received_frames,
                    "{from:?} {to:?}"
                );
            }
        }
    }
}

#[test]
fn switch_that_is_killed_in_a_trial_is_told() {
    let _alone = alone();
    let Some(mut bed) = made_or_skip(lay("l2/ovs", true, Family::V4)) else { return };
    let process = process(switch_of(&bed).switch_process_id());
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        kill_process(process, Signal::KILL).unwrap();
    });
    let error = bed.trial(SLOWLY).unwrap_err();
    killer.join().unwrap();
    let BedError::Device(DeviceError::Ended { why }) = &error else { panic!("{error}") };
    assert!(why.contains("bridge br0"), "{error}");
    assert!(matches!(bed.trial(SLOWLY), Err(BedError::Device(DeviceError::Ended { .. }))));
}

#[test]
fn dropped_switch_leaves_nothing_behind() {
    let _alone = alone();
    let Some(chain) = chain() else { return };
    let [one, two] = &device_ends(&chain);
    for as_ports in [OvsPorts::Netdev, OvsPorts::Afxdp] {
        let started = OpenVswitch::start([one, two], as_ports, OvsFlows::Wired, cpus().device);
        let Some(switch) = made_or_skip(started) else { return };
        assert!(switch.is_alive() && switch.version().contains('.'), "{switch:?}");
        assert_eq!(switch.xdp_mode().is_some(), as_ports == OvsPorts::Afxdp, "{switch:?}");
        let (processes, directory) = (processes(&switch), directory_of(&switch));
        assert!(directory.join("conf.db").is_file() && processes.iter().all(|process| runs(*process)));
        drop(switch);
        assert!(!directory.exists() && !processes.iter().any(|process| runs(*process)));
    }
    // An XDP program that was left would keep the next switch from its port.
    let again = OpenVswitch::start([one, two], OvsPorts::Afxdp, OvsFlows::Normal, cpus().device);
    assert!(again.unwrap().is_alive());
}

#[test]
fn switch_dies_with_a_process_that_is_killed() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--ignored", "--exact", "switch_is_held", "--nocapture"]).env("TMPDIR", directory.path());
    let mut holder = again.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines().map(Result::unwrap);
    // Both, or none where the test is skipped.
    let processes: Vec<u32> =
        lines.by_ref().filter_map(|line| line.strip_prefix("held ")?.parse().ok()).take(2).collect();
    let ran = processes.iter().all(|process| runs(*process));
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(ran && (processes.len() == 2 || std::env::var_os("NEARWIRE_REQUIRE").is_none()), "{processes:?}");
    let began = Instant::now();
    while processes.iter().any(|process| runs(*process)) {
        assert!(began.elapsed() < Duration::from_secs(2), "{processes:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "another test starts it, and kills it"]
fn switch_is_held() {
    let Some(chain) = chain() else { return };
    let [one, two] = &device_ends(&chain);
    let started = OpenVswitch::start([one, two], OvsPorts::Afxdp, OvsFlows::Wired, cpus().device);
    let Some(switch) = made_or_skip(started) else { return };
    for process in processes(&switch) {
        println!("\nheld {process}");
    }
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn port_that_is_refused_is_told_in_words_of_the_switch() {
    let _alone = alone();
    let Some(chain) = chain() else { return };
    let [one, two] = device_ends(&chain);
    let absent = CableEnd { interface: "absent0".to_owned(), ..two.clone() };
    let more_queues = CableEnd { queues: two.queues + 3, ..two };
    for (port, as_ports, words) in [
        (absent, OvsPorts::Netdev, "No such device"),
        (more_queues, OvsPorts::Afxdp, "Failed to create AF_XDP socket on queue"),
    ] {
        let started = OpenVswitch::start([&one, &port], as_ports, OvsFlows::Wired, cpus().device);
        let error = started.unwrap_err();
        if made_or_skip(is_installed(&error)).is_none() {
            return;
        }
        println!("{error}");
        let OvsError::PortRefused { interface, said, log, .. } = &error else { panic!("{error}") };
        assert_eq!(interface, &port.interface);
        assert!(said.contains(words) || log.contains(words), "{error}");
    }
}

#[test]
fn packet_memory_that_may_not_be_locked_is_told() {
    let _alone = alone();
    let Some(_chain) = chain() else { return };
    let mut less = Command::new("setpriv");
    less.args(["--bounding-set", "-ipc_lock,-sys_resource", "prlimit", "--memlock=1048576:1048576"]);
    less.arg(std::env::current_exe().unwrap());
    less.args(["--ignored", "--exact", "switch_has_little_locked_memory", "--nocapture"]);
    let output = less.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "another test starts it, with less"]
fn switch_has_little_locked_memory() {
    let Some(chain) = chain() else { return };
    let [one, two] = &device_ends(&chain);
    let error = OpenVswitch::start([one, two], OvsPorts::Afxdp, OvsFlows::Wired, cpus().device).unwrap_err();
    if made_or_skip(is_installed(&error)).is_some() {
        println!("{error}");
        assert!(matches!(error, OvsError::LockedMemory { limit_bytes: Some(1_048_576), .. }), "{error}");
    }
}

#[test]
#[ignore = "a measurement: prints what the switch carries, and which of its threads work"]
fn switch_at_full_rate() {
    let _alone = alone();
    for (device, is_xdp) in DEVICES.into_iter().flat_map(|device| [(device, true), (device, false)]) {
        let Some(mut bed) = made_or_skip(lay(device, is_xdp, Family::V4)) else { return };
        let process = switch_of(&bed).switch_process_id();
        let before = thread_ticks(process);
        let trial = bed.trial(TrialPlan::steady(f64::INFINITY, 500_000_000, 100_000_000)).unwrap();
        let worked = thread_ticks(process).into_iter().filter_map(|(name, ticks)| {
            let ticks = ticks - before.iter().find(|known| known.0 == name).map_or(0, |known| known.1);
            (ticks > 0).then(|| format!("{name} {ticks}0 ms"))
        });
        let worked: Vec<String> = worked.collect();
        println!("{device} {:?}, tester xdp {is_xdp}:", switch_of(&bed).xdp_mode());
        println!("  sent {:.0}/s, received {:.0}/s, {worked:?}", trial.sent_fps(), trial.received_fps());
        let slow = bed.trial(SLOWLY).unwrap();
        println!("  at 5000/s p50 {:?} ns, lost {}", slow.latency.percentile_ns(50.0), slow.lost_frames());
        println!("  {:?}", switch_of(&bed).counters().unwrap());
    }
}

/// Names of a process's threads, and the CPU time of each in ticks of 10 ms.
fn thread_ticks(process: u32) -> Vec<(String, u64)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of_task = |path: PathBuf| {
        let stat = std::fs::read_to_string(path.join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(')')?;
        // User and system time are fields 14 and 15; the state is field 3.
        let ticks = rest.split_ascii_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
        // With the number of the thread: two may have one name.
        Some((name.replace(" (", " "), ticks))
    };
    tasks.filter_map(|task| of_task(task.unwrap().path())).collect()
}

/// What is refused where the switch is installed is for the test to judge.
fn is_installed(error: &OvsError) -> Result<(), String> {
    if matches!(error, OvsError::MissingProgram { .. }) { Err(error.to_string()) } else { Ok(()) }
}

fn process(id: u32) -> Pid {
    Pid::from_raw(id as i32).unwrap()
}

fn processes(switch: &OpenVswitch) -> [u32; 2] {
    [switch.switch_process_id(), switch.database_process_id()]
}

/// Whether it runs: it is there, and not only its end is left to be told.
fn runs(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.contains("State:") && !status.contains("State:\tZ")
}

/// As its command line says.
fn directory_of(switch: &OpenVswitch) -> PathBuf {
    let line = std::fs::read(format!("/proc/{}/cmdline", switch.switch_process_id())).unwrap();
    let line = String::from_utf8(line).unwrap();
    let log = line.split('\0').find_map(|argument| argument.strip_prefix("--log-file=")).unwrap();
    Path::new(log).parent().unwrap().to_owned()
}
