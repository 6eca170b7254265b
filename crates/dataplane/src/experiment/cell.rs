//! One cell: a bed is laid, the throughput searched, latency measured below it.

use std::collections::BTreeMap;

use nearwire_report::dataplane::record::{Cell, LatencyAt, Part};
use nearwire_sys::tsc::Clock;

use super::methods::{self, Found, PAUSES};
use super::{Experiment, Method, limits};
use crate::bed::{Bed, BedError, BedPlan};
use crate::device::DeviceId;
use crate::device::guest::{HostBridge, RunningGuest};
use crate::function::Drops;
use crate::search::SearchError;
use crate::tester::TesterError;
use crate::traffic::{Sizes, Traffic};
use crate::trial::{Testbed, TrialPlan};

/// Measures a cell. Also: whether the user asked the program to end.
pub(super) fn measure(
    experiment: &Experiment,
    name: &str,
    device: Option<DeviceId>,
    sizes: &Sizes,
    clock: Clock,
) -> (Cell, bool) {
    let mut cell =
        Cell { device: name.to_owned(), sizes: sizes.to_string(), mean_bytes: sizes.mean_bytes(), ..Cell::default() };
    let outcome = fill(&mut cell, experiment, device, sizes, clock);
    let is_interrupted = matches!(outcome, Err(SearchError::Testbed(BedError::Tester(TesterError::Interrupted))));
    cell.failure = outcome.err().map(|error| match error {
        SearchError::Testbed(error) => error.to_string(),
        other => other.to_string(),
    });
    (cell, is_interrupted)
}

fn fill(
    cell: &mut Cell,
    experiment: &Experiment,
    device: Option<DeviceId>,
    sizes: &Sizes,
    clock: Clock,
) -> Result<(), SearchError<BedError>> {
    let traffic = Traffic {
        family: experiment.family,
        sizes: sizes.clone(),
        flows: experiment.flows,
        vlan: experiment.vlan,
        token: experiment.token,
    };
    let plan = BedPlan {
        topology: experiment.topology,
        device,
        is_dual: experiment.is_dual,
        tester_is_xdp: experiment.tester_is_xdp,
        cpus: experiment.cpus,
        mtu_bytes: experiment.mtu_bytes,
    };
    let mut bed = Bed::lay(&plan, &traffic, clock).map_err(SearchError::Testbed)?;
    cell.parts = parts(&bed, name_of_device(device), &plan);
    let Found { throughput, carried_fps, frame_loss, back_to_back, trials } = match &experiment.method {
        Method::MlrSearch { goals, trials_most, time_most_ns } => {
            methods::mlr_search(&mut bed, goals, &limits(*trials_most, *time_most_ns))?
        }
        Method::Rfc2544(times) => methods::rfc2544(&mut bed, times)?,
    };
    cell.throughput = throughput;
    cell.frame_loss = frame_loss;
    cell.back_to_back = back_to_back;
    cell.trials = trials;
    if let Some(carried_fps) = carried_fps {
        cell.latency = latencies(&mut bed, experiment, carried_fps)?;
    }
    cell.drops = drops(&bed.end());
    Ok(())
}

fn latencies(
    bed: &mut Bed,
    experiment: &Experiment,
    carried_fps: f64,
) -> Result<Vec<LatencyAt>, SearchError<BedError>> {
    let at = |share: f64| {
        let rate_fps = (carried_fps * share).max(1.0);
        let plan = TrialPlan::steady(rate_fps, experiment.latency_trial_ns, PAUSES.residual_ns);
        let trial = bed.trial(plan).map_err(SearchError::Testbed)?;
        let of = |percent| trial.latency.percentile_ns(percent).map(|ns| ns as f64);
        let least_ns = trial.latency.least_ns().unwrap_or(0) as f64;
        Ok(LatencyAt {
            share,
            rate_fps,
            frames: trial.latency.count(),
            lost_frames: trial.lost_frames(),
            p50_ns: of(50.0),
            p99_ns: of(99.0),
            p999_ns: of(99.9),
            max_ns: trial.latency.greatest_ns().map(|ns| ns as f64),
            pdv_p999_ns: of(99.9).map(|ns| ns - least_ns),
            ipdv_p99_ns: trial.delay_variation.percentile_ns(99.0).map(|ns| ns as f64),
        })
    };
    experiment.latency_shares.iter().copied().map(at).collect()
}

fn name_of_device(device: Option<DeviceId>) -> String {
    device.map(|device| device.to_string()).unwrap_or_default()
}

fn parts(bed: &Bed, device: String, plan: &BedPlan) -> Vec<Part> {
    let part = |name: &str, place: &str, detail: String, interfaces: Vec<String>, cpu: u32| Part {
        name: name.to_owned(),
        detail,
        interfaces,
        cpus: vec![cpu],
        place: place.to_owned(),
    };
    let [sending, receiving] = bed.describe();
    let [entry, exit] = bed.interfaces();
    let mut parts = vec![part("generator", "tester", sending, vec![entry], plan.cpus.tester)];
    let places =
        if plan.is_dual { ["first device under test", "second device under test"] } else { ["device under test"; 2] };
    let cpus = [plan.cpus.device, plan.cpus.second_device];
    let devices = bed.devices().into_iter().zip(bed.running_devices()).zip(places).zip(cpus);
    for ((((detail, interfaces), running), place), cpu) in devices {
        // What the host of a guest does for it.
        let bridges = running.guest().map(RunningGuest::bridges);
        let bridge = |at: usize| {
            let bridge: &HostBridge = &bridges?[at];
            let detail = format!("bridge {} of the host's kernel", bridge.name);
            Some(part("host bridge", place, detail, bridge.joins.to_vec(), cpu))
        };
        parts.extend(bridge(0));
        parts.push(part(&device, place, detail, interfaces.to_vec(), cpu));
        parts.extend(bridge(1));
    }
    parts.push(part("sink", "tester", receiving, vec![exit], plan.cpus.sink.unwrap_or(plan.cpus.tester)));
    parts
}

fn drops(drops: &[Drops]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (cause, frames) in drops.iter().flat_map(Drops::iter) {
        *sums.entry(cause.name().to_owned()).or_default() += frames;
    }
    sums
}
