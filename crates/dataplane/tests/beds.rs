//! Beds with real kernels and ports: what is offered slowly arrives.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use common::{TRIALS_MOST, alone, cpus};
use nearwire_dataplane::bed::{Bed, BedPlan, Cpus};
use nearwire_dataplane::device::{DeviceId, Engine};
use nearwire_dataplane::function::Drops;
use nearwire_dataplane::topology::{End, Topology};
use nearwire_dataplane::traffic::{Family, Flows, Sizes, Traffic};
use nearwire_dataplane::trial::{Testbed, TrialPlan};
use nearwire_lab::made_or_skip;
use nearwire_sys::tsc::Clock;

fn plan(topology: Topology, device: Option<&str>, tester_is_xdp: bool) -> BedPlan {
    BedPlan {
        topology,
        device: device.map(|name| name.parse().unwrap()),
        is_dual: false,
        tester_is_xdp,
        cpus: cpus(),
        mtu_bytes: 1500,
    }
}

fn traffic(plan: &BedPlan, family: Family) -> Traffic {
    let is_host = plan.topology.ends().contains(&End::Host);
    Traffic {
        family,
        sizes: Sizes::new(vec![80, 590, 1514]).unwrap(),
        flows: if is_host { Flows::ONE } else { Flows::new(1000).unwrap() },
        vlan: None,
        token: 0x4e57,
    }
}

fn arrives(plan: &BedPlan) {
    for family in [Family::V4, Family::V6] {
        let Some(mut bed) = made_or_skip(Bed::lay(plan, &traffic(plan, family), Clock::calibrate())) else { return };
        arrives_in(&mut bed, plan);
    }
}

fn arrives_in(bed: &mut Bed, plan: &BedPlan) {
    let mut lost = Vec::new();
    while lost.last() != Some(&0) {
        let trial = bed.trial(TrialPlan::steady(5000.0, 200_000_000, 100_000_000)).unwrap();
        assert_eq!(trial.sent_frames + trial.unsent_frames, 1000, "{plan:?} {trial:?}");
        assert_eq!((trial.corrupted_frames, trial.duplicated_frames), (0, 0), "{plan:?} {trial:?}");
        lost.push(trial.lost_frames());
        assert!(lost.len() < TRIALS_MOST, "{plan:?} {lost:?} {trial:?}");
    }
}

#[test]
fn wire_alone_carries_what_is_offered() {
    let _alone = alone();
    for is_xdp in [true, false] {
        arrives(&plan(Topology::PortPort, None, is_xdp));
    }
}

#[test]
fn sink_on_a_cpu_of_its_own_takes_what_is_offered() {
    let _alone = alone();
    let plan = plan(Topology::PortPort, None, true);
    arrives(&BedPlan { cpus: Cpus { sink: Some(plan.cpus.device), ..plan.cpus }, ..plan });
}

#[test]
fn kernels_bridge_and_routing_carry_what_is_offered() {
    let _alone = alone();
    for device in ["l2/kernel", "l3/kernel"] {
        for is_xdp in [true, false] {
            arrives(&plan(Topology::PortHostPort, Some(device), is_xdp));
        }
    }
}

#[test]
fn forwarders_of_every_function_carry_what_is_offered() {
    let _alone = alone();
    let ours = |id: &DeviceId| matches!(id.engine, Engine::Xdp | Engine::Packet);
    for id in DeviceId::all().into_iter().filter(ours) {
        arrives(&plan(Topology::PortHostPort, Some(&id.to_string()), true));
    }
}

#[test]
fn hosts_send_and_take_what_is_offered() {
    let _alone = alone();
    for is_xdp in [true, false] {
        arrives(&plan(Topology::PortHost, None, is_xdp));
        arrives(&plan(Topology::HostPort, None, is_xdp));
    }
    for device in ["l2/xdp", "l3/xdp", "l2/kernel", "l3/kernel"] {
        arrives(&plan(Topology::HostHost, Some(device), true));
    }
}

/// A sink in the driver heard one queue, and the kernel sent on the other.
#[test]
fn jumbo_frames_of_the_kernel_arrive_at_a_sink_in_the_driver() {
    let _alone = alone();
    for device in ["l2/kernel", "l3/kernel", "l2/xdp"] {
        let plan = BedPlan { mtu_bytes: 9000, ..plan(Topology::PortHostPort, Some(device), true) };
        let traffic = Traffic { sizes: Sizes::new(vec![80, 9014]).unwrap(), ..traffic(&plan, Family::V4) };
        let Some(mut bed) = made_or_skip(Bed::lay(&plan, &traffic, Clock::calibrate())) else { return };
        arrives_in(&mut bed, &plan);
    }
}

#[test]
fn two_devices_one_after_the_other_carry_what_is_offered() {
    let _alone = alone();
    for device in ["l2/xdp", "l3/xdp", "l3/kernel"] {
        arrives(&BedPlan { is_dual: true, ..plan(Topology::PortHostPort, Some(device), true) });
    }
    arrives(&BedPlan { is_dual: true, ..plan(Topology::HostHost, Some("l2/kernel"), true) });
}

#[test]
#[ignore = "a measurement: prints what beds carry"]
fn beds_at_full_rate() {
    let _alone = alone();
    let ids = DeviceId::all();
    let wire = plan(Topology::PortPort, None, true);
    let apart = BedPlan { cpus: Cpus { sink: Some(wire.cpus.device), ..wire.cpus }, ..wire };
    let kernels = ids.iter().map(|id| plan(Topology::PortHostPort, Some(&id.to_string()), true));
    for plan in [wire, apart].into_iter().chain(kernels) {
        let traffic = traffic(&plan, Family::V4);
        let Some(mut bed) = made_or_skip(Bed::lay(&plan, &traffic, Clock::calibrate())) else { return };
        let trial = bed.trial(TrialPlan::steady(f64::INFINITY, 500_000_000, 100_000_000)).unwrap();
        println!("{:?}: sent {:.0}/s, received {:.0}/s", plan.device, trial.sent_fps(), trial.received_fps());
        for (cause, frames) in bed.end().iter().flat_map(Drops::iter) {
            println!("  {frames} {cause:?}");
        }
    }
}
