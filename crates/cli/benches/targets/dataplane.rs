//! What generator, sink and forwarder reach: `make targets ONLY=dataplane`.
//!
//! Each round has every bed once, at full rate. A comparison is of figures of the same round.

use nearwire_dataplane::bed::{Bed, BedPlan, Cpus};
use nearwire_dataplane::function::Drops;
use nearwire_dataplane::topology::Topology;
use nearwire_dataplane::traffic::{Family, Flows, Sizes, Traffic};
use nearwire_dataplane::trial::{Testbed, TrialPlan};
use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions};
use nearwire_sys::tsc::Clock;

use crate::one_way::{self, Kind};
use crate::verdicts::{spread, verdict};
use crate::{AnyError, INITIATOR_CPU, RESPONDER_CPU, SIZE_BYTES};

/// The word that chooses this part.
pub const NAME: &str = "dataplane";

const ROUNDS: usize = 7;
const TRIAL_NS: u64 = 250_000_000;
const RESIDUAL_NS: u64 = 20_000_000;
const MANY_FLOWS: u32 = 50_000;

/// Prints the targets; true when all are met.
pub fn judge() -> Result<bool, AnyError> {
    let clock = Clock::calibrate();
    let mut figures: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        let round = apart(|| round(clock))?;
        for (kept, figure) in figures.iter_mut().zip(round) {
            kept.push(figure);
        }
    }
    println!("\n{:<54} {:>9} {:>22}  verdict", "target of dataplane", "wanted", "median (least..most)");
    let [received, of_loop, of_leg, of_bridge, of_one_flow] = figures;
    let mut all_met = true;
    all_met &= verdict("generator and sink 64 B, received Mpps", spread(&received)?, 1.9, f64::INFINITY);
    all_met &= verdict("the same / one way in a loop of its own", spread(&of_loop)?, 1.0, f64::INFINITY);
    all_met &= verdict("forwarder io/xdp / a leg alone", spread(&of_leg)?, 0.9, f64::INFINITY);
    all_met &= verdict("forwarder l2/xdp / the kernel's bridge", spread(&of_bridge)?, 2.0, f64::INFINITY);
    all_met &= verdict("50 000 flows / one flow", spread(&of_one_flow)?, 0.95, f64::INFINITY);
    Ok(all_met)
}

/// A round pins its thread; what runs next must not inherit that.
fn apart(measure: impl FnOnce() -> Result<[f64; 5], AnyError> + Send) -> Result<[f64; 5], AnyError> {
    let measured = std::thread::scope(|scope| scope.spawn(|| measure().map_err(|error| error.to_string())).join());
    Ok(measured.map_err(|_| "a measuring thread failed")??)
}

fn round(clock: Clock) -> Result<[f64; 5], AnyError> {
    let wire = received_mpps(None, Flows::ONE, Some(RESPONDER_CPU), clock)?;
    let of_a_loop = {
        let cable = VirtualCable::lay(VirtualCableOptions::default())?;
        one_way::rate(Kind::Xdp(SIZE_BYTES), cable.near(), cable.far(), clock)?.received_mpps
    };
    // As with a device: generator and sink take turns.
    let leg = received_mpps(None, Flows::ONE, None, clock)?;
    let io = received_mpps(Some("io/xdp"), Flows::ONE, None, clock)?;
    let ours = received_mpps(Some("l2/xdp"), Flows::ONE, None, clock)?;
    let bridge = received_mpps(Some("l2/kernel"), Flows::ONE, None, clock)?;
    let many = Flows::new(MANY_FLOWS).ok_or("so many flows are not possible")?;
    let many = received_mpps(None, many, Some(RESPONDER_CPU), clock)?;
    Ok([wire, wire / of_a_loop, io / leg, ours / bridge, many / wire])
}

fn received_mpps(device: Option<&str>, flows: Flows, sink: Option<u32>, clock: Clock) -> Result<f64, AnyError> {
    let plan = BedPlan {
        topology: if device.is_some() { Topology::PortHostPort } else { Topology::PortPort },
        device: device.map(str::parse).transpose()?,
        is_dual: false,
        tester_is_xdp: true,
        cpus: Cpus { tester: INITIATOR_CPU, sink, device: RESPONDER_CPU, second_device: RESPONDER_CPU },
        mtu_bytes: 1500,
    };
    let sizes = Sizes::new(vec![SIZE_BYTES])?;
    let traffic = Traffic { family: Family::V4, sizes, flows, vlan: None, token: 1 };
    let mut bed = Bed::lay(&plan, &traffic, clock)?;
    let trial = bed.trial(TrialPlan::steady(f64::INFINITY, TRIAL_NS, RESIDUAL_NS))?;
    let drops: u64 = bed.end().iter().map(Drops::total).sum();
    eprintln!(
        "{:<10} {:>6} flows: sent {:.3}, received {:.3} Mpps, {drops} dropped by the device",
        device.unwrap_or("wire"),
        flows.count(),
        trial.sent_fps() / 1e6,
        trial.received_fps() / 1e6
    );
    Ok(trial.received_fps() / 1e6)
}
