//! Which way of making an AF_XDP port is the fastest on this cable: measured shortly, not assumed. On veth the generic
//! mode wins, on a real driver the native one.

use std::cmp::Ordering;

use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::Steer;
use nearwire_report::statistics::trend::median;
use nearwire_sys::tsc::Clock;

use crate::bed::TestBed;
use crate::outcome::CellOutcome;
use crate::paths::frame_xdp::ways;
use crate::paths::{PathError, PathId, Role, Setup, XdpChoice};
use crate::round::{self, RoundError, RoundResult};
use crate::workloads::{RoundPlan, SampleBuffer};

/// Interleaved trials of each way. The median of them counts: the least would be won by the way that happened to meet a
/// moment in which the two CPUs were near each other.
const TRIALS: usize = 5;
/// On a NIC a trial attaches a program and takes it off again, at each of which most drivers reset the link, for up to seconds. The
/// CPUs are no neighbours there that share a cache line.
const TRIALS_ON_DEVICE: usize = 1;
/// A way that loses more than one of so many messages is not chosen while another does not.
const LOST_ONE_OF: u64 = 1000;

/// Measures every way for the path of a setup and takes the one with the least median of medians among those that lose no messages. `None`
/// when none worked. With it, the figures in words.
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
        Ok((found, trials)) => (found.into_iter().map(|way| way.label.to_string()), trials),
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
    let mut ways: Vec<Tried> = labels.into_iter().map(Tried::new).collect();
    for _ in 0..trials_count {
        for way in &mut ways {
            let setup = Setup { xdp: Some(XdpChoice { label: way.label.clone() }), ..setup.clone() };
            match round::run(bed, clock, &setup, &plan, buffer) {
                Ok(RoundResult { outcome, .. }) => {
                    way.medians_ns.push(median_half_rtt_ns(clock, buffer));
                    (way.sent, way.lost) = (way.sent + outcome.sent, way.lost + outcome.lost);
                }
                Err(error) if error.ends_experiment() => return Err(error),
                Err(_) => {}
            }
        }
    }
    ways.retain(|way| way.median_ns().is_finite());
    ways.sort_by(Tried::compare);
    let Some(first) = ways.first() else {
        return Ok((None, format!("AF_XDP for {}: no way of making a port worked", setup.path)));
    };
    let figures: Vec<String> = ways.iter().map(Tried::words).collect();
    let note = format!("AF_XDP self-measurement, {}, half RTT: {}; took the first", setup.path, figures.join(", "));
    Ok((Some(XdpChoice { label: first.label.clone() }), note))
}

/// A way of making a port, and its trials.
#[derive(Debug, Clone)]
struct Tried {
    label: String,
    medians_ns: Vec<f64>,
    sent: u64,
    lost: u64,
}

impl Tried {
    fn new(label: String) -> Tried {
        Tried { label, medians_ns: Vec::new(), sent: 0, lost: 0 }
    }

    fn median_ns(&self) -> f64 {
        median(&self.medians_ns).unwrap_or(f64::INFINITY)
    }

    /// One message in a thousand may be lost by a machine that does something else; more are the way's.
    fn is_lossy(&self) -> bool {
        self.lost * LOST_ONE_OF > self.sent
    }

    /// Ways that lose messages come last, however fast the others are.
    fn compare(&self, other: &Tried) -> Ordering {
        self.is_lossy().cmp(&other.is_lossy()).then_with(|| self.median_ns().total_cmp(&other.median_ns()))
    }

    fn words(&self) -> String {
        let lost = if self.lost > 0 { format!(" ({} of {} lost)", self.lost, self.sent) } else { String::new() };
        format!("{} {:.0} ns{lost}", self.label, self.median_ns())
    }
}

fn trials_on(facts: &InterfaceFacts) -> usize {
    if facts.is_veth() { TRIALS } else { TRIALS_ON_DEVICE }
}

fn median_half_rtt_ns(clock: Clock, buffer: &SampleBuffer) -> f64 {
    let mut ticks = buffer.samples().iter().map(|trip| trip.received_after_ticks).collect::<Vec<_>>();
    ticks.sort_unstable();
    ticks.get(ticks.len() / 2).map_or(f64::INFINITY, |ticks| clock.ns(u64::from(*ticks)) as f64 / 2.0)
}

/// Puts the choice for a path into the record of every cell of it.
pub(crate) fn add_note(cells: &mut [CellOutcome], path: PathId, note: &str) {
    for cell in cells.iter_mut().filter(|cell| cell.spec.path == path) {
        cell.notes.push(note.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn way_that_loses_messages_is_taken_after_slower_ones() {
        let way = |label: &str, median_ns: f64, lost: u64| Tried {
            label: label.to_owned(),
            medians_ns: vec![median_ns],
            sent: 15_000,
            lost,
        };
        let mut ways = [way("fast and lossy", 600.0, 400), way("slow", 900.0, 0), way("one lost", 700.0, 1)];
        ways.sort_by(Tried::compare);
        assert_eq!(ways.each_ref().map(|way| way.label.as_str()), ["one lost", "slow", "fast and lossy"]);
        assert!(ways[2].words().contains("400 of 15000 lost"), "{}", ways[2].words());
    }

    #[test]
    fn way_on_a_nic_is_tried_once_and_on_veth_five_times() {
        let facts = |driver: &str| InterfaceFacts { driver: driver.into(), ..InterfaceFacts::read("lo").unwrap() };
        assert_eq!(["ice", "virtio_net", "veth"].map(|driver| trials_on(&facts(driver))), [1, 1, 5]);
    }
}
