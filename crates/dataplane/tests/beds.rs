//! Beds with real kernels and ports: what is offered slowly arrives.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::OnceLock;

use nearwire_dataplane::bed::{Bed, BedPlan, Cpus};
use nearwire_dataplane::device::{DeviceId, Engine};
use nearwire_dataplane::topology::Topology;
use nearwire_dataplane::traffic::{Family, Flows, Sizes, Traffic};
use nearwire_dataplane::trial::{Testbed, Trial, TrialPlan};
use nearwire_lab::made_or_skip;
use nearwire_sys::affinity::allowed_cpus;
use nearwire_sys::tsc::Clock;

fn plan(topology: Topology, device: Option<&str>, tester_is_xdp: bool) -> BedPlan {
    // Asked once: the thread that makes trials is pinned.
    static CPUS: OnceLock<Vec<u32>> = OnceLock::new();
    let cpus = CPUS.get_or_init(allowed_cpus);
    let cpus = Cpus { tester: cpus[0], device: cpus[cpus.len() - 1] };
    BedPlan { topology, device: device.map(|name| name.parse().unwrap()), tester_is_xdp, cpus, mtu_bytes: 1500 }
}

fn traffic(family: Family) -> Traffic {
    Traffic {
        family,
        sizes: Sizes::new(vec![80, 590, 1514]).unwrap(),
        flows: Flows::new(1000).unwrap(),
        vlan: None,
        token: 0x4e57,
    }
}

fn trial(plan: &BedPlan, family: Family, rate_fps: f64) -> Option<Trial> {
    let mut bed = made_or_skip(Bed::lay(plan, &traffic(family), Clock::calibrate()))?;
    let trial = bed.trial(TrialPlan::steady(rate_fps, 200_000_000, 100_000_000)).unwrap();
    for (cause, frames) in bed.end().iter() {
        println!("{plan:?}: {frames} {cause:?}");
    }
    Some(trial)
}

fn arrives(plan: &BedPlan) {
    for family in [Family::V4, Family::V6] {
        let Some(trial) = trial(plan, family, 5000.0) else { return };
        println!("{plan:?} {family:?}: {} sent, p50 {:?} ns", trial.sent_frames, trial.latency.percentile_ns(50.0));
        assert_eq!(trial.sent_frames + trial.unsent_frames, 1000, "{trial:?}");
        assert_eq!(
            (trial.lost_frames(), trial.corrupted_frames, trial.duplicated_frames),
            (0, 0, 0),
            "{plan:?} {trial:?}"
        );
    }
}

#[test]
fn wire_alone_carries_what_is_offered() {
    for is_xdp in [true, false] {
        arrives(&plan(Topology::PortPort, None, is_xdp));
    }
}

#[test]
fn kernels_bridge_and_routing_carry_what_is_offered() {
    for device in ["l2/kernel", "l3/kernel"] {
        for is_xdp in [true, false] {
            arrives(&plan(Topology::PortHostPort, Some(device), is_xdp));
        }
    }
}

#[test]
fn forwarders_of_every_function_carry_what_is_offered() {
    let ours = |id: &DeviceId| matches!(id.engine, Engine::Xdp | Engine::Packet);
    for id in DeviceId::all().into_iter().filter(ours) {
        arrives(&plan(Topology::PortHostPort, Some(&id.to_string()), true));
    }
}

#[test]
#[ignore = "a measurement: prints what beds carry"]
fn beds_at_full_rate() {
    let ids = DeviceId::all();
    let wire = plan(Topology::PortPort, None, true);
    let kernels = ids.iter().map(|id| plan(Topology::PortHostPort, Some(&id.to_string()), true));
    for plan in std::iter::once(wire).chain(kernels) {
        let Some(trial) = trial(&plan, Family::V4, f64::INFINITY) else { return };
        println!("{:?}: sent {:.0}/s, received {:.0}/s", plan.device, trial.sent_fps(), trial.received_fps());
    }
}
