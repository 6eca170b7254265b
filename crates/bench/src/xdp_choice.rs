//! Which way of making an AF_XDP port is the fastest on this cable: measured shortly, not assumed. On veth the generic
//! mode wins, on a real driver the native one.

use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::Steer;
use nearwire_report::statistics::trend::median;
use nearwire_sys::tsc::Clock;

use crate::bed::TestBed;
use crate::outcome::CellOutcome;
use crate::paths::frame_xdp::ways;
use crate::paths::{PathError, Role, Setup, XdpChoice};
use crate::round::{self, RoundError};
use crate::workloads::ping_pong::{RoundPlan, SampleBuffer};

/// Interleaved trials of each way. The median of them counts: the least would be won by the way that happened to meet a
/// moment in which the two CPUs were near each other.
const TRIALS: usize = 5;
/// On a NIC a trial attaches a program and takes it off again, at each of which most drivers reset the link, for up to seconds. The
/// CPUs are no neighbours there that share a cache line.
const TRIALS_ON_DEVICE: usize = 1;

/// Measures every way and takes the one with the least median of medians. `None` when none worked. With it, the figures in words.
///
/// # Errors
/// The responder is gone.
pub fn choose(
    bed: &mut TestBed,
    clock: Clock,
    setup: &Setup,
    buffer: &mut SampleBuffer,
) -> Result<(Option<XdpChoice>, String), RoundError> {
    let name = bed.local.interface.as_ref().map(|interface| interface.name.clone()).unwrap_or_default();
    // The ways are the same whatever frames are taken.
    let found = bed.enter(|| {
        let found = ways(&name, Role::Initiator, Steer::All, setup.xdp_mode)?;
        Ok::<_, PathError>((found, trials_on(&InterfaceFacts::read(&name)?)))
    })?;
    let (labels, trials_count) = match found {
        Ok((found, trials)) => (found.into_iter().map(|way| way.label.to_string()).collect::<Vec<_>>(), trials),
        Err(error) => return Ok((None, format!("AF_XDP: {error}"))),
    };
    let plan = RoundPlan {
        warm_up_messages: 500,
        warm_up_ns: 1_000_000,
        messages: Some(3000),
        time_ns: Some(30_000_000),
        timeout_ns: setup.timeout_ns,
        cpu: None,
    };
    let mut trials_ns = vec![Vec::with_capacity(trials_count); labels.len()];
    for _ in 0..trials_count {
        for (label, trials) in labels.iter().zip(&mut trials_ns) {
            let setup = Setup { xdp: Some(XdpChoice { label: label.clone() }), ..setup.clone() };
            match round::run(bed, clock, &setup, &plan, buffer) {
                Ok(_) => trials.push(median_half_rtt_ns(clock, buffer)),
                Err(error) if error.ends_experiment() => return Err(error),
                Err(_) => {}
            }
        }
    }
    let medians_ns = trials_ns.iter().map(|trials| median(trials).unwrap_or(f64::INFINITY)).collect::<Vec<_>>();
    let mut order = (0..labels.len()).filter(|i| medians_ns[*i].is_finite()).collect::<Vec<_>>();
    order.sort_by(|a, b| medians_ns[*a].total_cmp(&medians_ns[*b]));
    let Some(&first) = order.first() else {
        return Ok((None, "AF_XDP: no way of making a port worked".to_owned()));
    };
    let figures = order.iter().map(|i| format!("{} {:.0} ns", labels[*i], medians_ns[*i])).collect::<Vec<_>>();
    let note = format!("AF_XDP self-measurement, half RTT: {}; took the first", figures.join(", "));
    Ok((Some(XdpChoice { label: labels[first].clone() }), note))
}

fn trials_on(facts: &InterfaceFacts) -> usize {
    if facts.is_veth() { TRIALS } else { TRIALS_ON_DEVICE }
}

fn median_half_rtt_ns(clock: Clock, buffer: &SampleBuffer) -> f64 {
    let mut ticks = buffer.round_trips().iter().map(|trip| trip.rtt_ticks).collect::<Vec<_>>();
    ticks.sort_unstable();
    ticks.get(ticks.len() / 2).map_or(f64::INFINITY, |ticks| clock.ns(u64::from(*ticks)) as f64 / 2.0)
}

/// Puts the choice into the record of every cell it is used in.
pub(crate) fn add_notes(cells: &mut [CellOutcome], notes: &[String]) {
    for cell in cells.iter_mut().filter(|cell| cell.spec.path.is_xdp()) {
        cell.notes.extend_from_slice(notes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn way_on_a_nic_is_tried_once_and_on_veth_five_times() {
        let facts = |driver: &str| InterfaceFacts { driver: driver.into(), ..InterfaceFacts::read("lo").unwrap() };
        assert_eq!(["ice", "virtio_net", "veth"].map(|driver| trials_on(&facts(driver))), [1, 1, 5]);
    }
}
