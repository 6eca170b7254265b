//! Guests as devices under test: what is offered slowly arrives, what fails is told, and nothing stays behind.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{TRIALS_MOST, alone, cpus};
use nearwire_dataplane::bed::{Bed, BedError, BedPlan};
use nearwire_dataplane::device::guest::KERNEL_VARIABLE;
use nearwire_dataplane::device::{DeviceError, RunningDevice};
use nearwire_dataplane::function::Drops;
use nearwire_dataplane::topology::Topology;
use nearwire_dataplane::traffic::{Family, Flows, Sizes, Traffic};
use nearwire_dataplane::trial::{Testbed, Trial, TrialPlan};
use nearwire_lab::emulated_host::HostSystem;
use nearwire_lab::made_or_skip;
use nearwire_sys::tsc::Clock;
use rustix::process::{Pid, Signal, kill_process};

/// What software emulation carries on a machine that does other work too: 200 frames.
const SLOWLY: TrialPlan = TrialPlan::steady(500.0, 400_000_000, 2_000_000_000);
/// A bed with a guest, or none where this machine lacks what it needs.
fn laid(device: &str, family: Family, bytes: &[u32]) -> Option<Bed> {
    match lay(device, family, bytes) {
        Err(BedError::Device(DeviceError::Guest(error))) if !error.is_missing_requirement() => panic!("{error}"),
        laid => made_or_skip(laid),
    }
}

fn lay(device: &str, family: Family, bytes: &[u32]) -> Result<Bed, BedError> {
    let device = Some(device.parse().unwrap());
    let plan = BedPlan {
        topology: Topology::PortVmPort,
        device,
        is_dual: false,
        tester_is_xdp: true,
        cpus: cpus(),
        mtu_bytes: 1500,
    };
    let traffic = Traffic {
        family,
        sizes: Sizes::new(bytes.to_vec()).unwrap(),
        flows: Flows::new(1000).unwrap(),
        vlan: None,
        token: 0x4e57,
    };
    Bed::lay(&plan, &traffic, Clock::calibrate())
}

/// A trial that lost nothing.
fn lossless(bed: &mut Bed, name: &str) -> Trial {
    let mut lost = Vec::new();
    loop {
        let trial = bed.trial(SLOWLY).unwrap();
        assert_eq!((trial.corrupted_frames, trial.duplicated_frames), (0, 0), "{name} {trial:?}");
        assert!(trial.sent_frames > 100, "{name} {trial:?}");
        if trial.lost_frames() == 0 {
            return trial;
        }
        lost.push(trial.lost_frames());
        assert!(lost.len() < TRIALS_MOST, "{name} {lost:?} {trial:?}");
    }
}

fn arrives(device: &str, family: Family) {
    let began = Instant::now();
    let Some(mut bed) = laid(device, family, &[80, 590, 1514]) else { return };
    let ready = began.elapsed();
    let trial = lossless(&mut bed, device);
    let (detail, interfaces) = bed.devices().remove(0);
    println!("{device} {family:?}: {detail}; laid in {ready:?}, p50 {:?} ns", trial.latency.percentile_ns(50.0));
    assert!(detail.contains("emulated in software") || detail.contains("KVM"), "{detail}");
    assert_eq!(interfaces, ["nw1", "nw2"]);
    let bridges = bed.running_devices().first().and_then(RunningDevice::guest).unwrap().bridges();
    assert_eq!(bridges[1].joins, ["nw2", "nwtap1"]);
    for (cause, frames) in bed.end().iter().flat_map(Drops::iter) {
        println!("{device} {family:?}: {frames} {cause}");
    }
    assert!(qemus().is_empty(), "{device}");
}

#[test]
fn bridge_of_a_guests_kernel_carries_what_is_offered() {
    let _alone = alone();
    arrives("l2/guest-kernel", Family::V4);
}

#[test]
fn routing_of_a_guests_kernel_carries_what_is_offered() {
    let _alone = alone();
    [Family::V4, Family::V6].into_iter().for_each(|family| arrives("l3/guest-kernel", family));
}

#[test]
fn forwarder_in_a_guest_carries_what_is_offered() {
    let _alone = alone();
    for device in ["io/guest-xdp", "l2/guest-xdp", "l3/guest-xdp", "l2/guest-packet"] {
        arrives(device, Family::V4);
    }
}

#[test]
fn guest_that_is_killed_in_a_trial_is_told() {
    let _alone = alone();
    let Some(mut bed) = laid("l2/guest-kernel", Family::V4, &[80]) else { return };
    lossless(&mut bed, "before");
    let [qemu] = qemus()[..] else { panic!("{:?}", qemus()) };
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        kill_process(Pid::from_raw(qemu).unwrap(), Signal::KILL).unwrap();
    });
    let error = bed.trial(SLOWLY).unwrap_err();
    killer.join().unwrap();
    assert!(matches!(error, BedError::Device(DeviceError::Ended { .. })), "{error}");
    assert!(error.to_string().contains("the emulation ended (signal: 9 (SIGKILL))"), "{error}");
    assert!(matches!(bed.trial(SLOWLY), Err(BedError::Device(DeviceError::Ended { .. }))));
}

#[test]
fn guest_dies_with_a_process_that_is_killed() {
    let _alone = alone();
    let mut holder = again("guest_is_held").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines().map(Result::unwrap);
    // None where the test is skipped.
    let qemu: Option<i32> = lines.by_ref().find_map(|line| line.strip_prefix("held ")?.parse().ok());
    let ran = qemu.is_none_or(is_qemu);
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(ran && (qemu.is_some() || std::env::var_os("NEARWIRE_REQUIRE").is_none()), "{qemu:?}");
    let began = Instant::now();
    while qemu.is_some_and(is_qemu) {
        assert!(began.elapsed() < Duration::from_secs(2), "{qemu:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "another test starts it, and kills it"]
fn guest_is_held() {
    let Some(_bed) = laid("l2/guest-kernel", Family::V4, &[80]) else { return };
    for qemu in qemus() {
        println!("\nheld {qemu}");
    }
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn guest_that_does_not_boot_is_told_with_its_last_words() {
    let _alone = alone();
    // The kernel of the other tests, without the modules of its disk.
    let Some(bed) = laid("l2/guest-kernel", Family::V4, &[80]) else { return };
    drop(bed);
    let here = std::env::current_exe().unwrap();
    let named = std::env::var_os(KERNEL_VARIABLE).map(PathBuf::from);
    let mut directories = named.into_iter().chain(here.ancestors().map(|above| above.join("emulated-host/6.12")));
    let kernel = directories.find_map(|directory| HostSystem::kernel_in(&directory)).unwrap();
    let without = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&kernel, without.path().join(kernel.file_name().unwrap())).unwrap();
    let output = again("guest_without_modules").env(KERNEL_VARIABLE, without.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    for words in ["the emulation ended", "last lines of the console", "the disk cannot be mounted"] {
        assert!(output.status.success() && said.contains(words), "{words}: {said}");
    }
}

#[test]
#[ignore = "another test starts it, with a kernel that lacks modules"]
fn guest_without_modules() {
    println!("{}", lay("l2/guest-kernel", Family::V4, &[80]).unwrap_err());
}

/// This program again, with one of its tests.
fn again(test: &str) -> Command {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--ignored", "--exact", test, "--nocapture"]);
    again
}

/// Processes of QEMU that this one started: its children, whichever thread did.
fn qemus() -> Vec<i32> {
    let children = std::fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| task.path().join("children"));
    let children: Vec<String> = children.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    let pids = children.iter().flat_map(|pids| pids.split_whitespace()).flat_map(str::parse);
    pids.filter(|pid| is_qemu(*pid)).collect()
}

/// Whether QEMU runs in this process, and not only its end is left to be told.
fn is_qemu(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.starts_with("Name:\tqemu") && !status.contains("State:\tZ")
}

#[test]
#[ignore = "a measurement: prints what guests carry"]
fn guests_at_several_rates() {
    let _alone = alone();
    for device in Topology::PortVmPort.devices() {
        let Some(mut bed) = laid(&device.to_string(), Family::V4, &[64]) else { return };
        println!("{}", bed.devices().remove(0).0);
        for rate_fps in [500.0, 2000.0, 8000.0, 32_000.0, 128_000.0, f64::INFINITY] {
            let trial = bed.trial(TrialPlan::steady(rate_fps, 1_000_000_000, 500_000_000)).unwrap();
            let of = |percent| trial.latency.percentile_ns(percent).map(|ns| ns / 1000);
            println!(
                "{device}: {:.0}/s sent, {:.0}/s received, {:.2} % lost, p50 {:?} us, p99 {:?} us",
                trial.sent_fps(),
                trial.received_fps(),
                trial.loss_ratio() * 100.0,
                of(50.0),
                of(99.0)
            );
        }
    }
}
