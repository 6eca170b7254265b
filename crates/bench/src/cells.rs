//! From what was asked for to the cells that this bed can run.

use std::net::IpAddr;

use nearwire_sys::affinity::pin_current_thread;
use nearwire_sys::tsc::Clock;

use crate::bed::TestBed;
use crate::experiment::{CellSpec, Experiment, SizeError, check_size};
use crate::paths::{ALL, AskedMode, How, PathId, RxMode, TxMode, What};
use crate::round;
use crate::sweep;
use crate::workloads::{RoundPlan, SampleBuffer};

/// What was asked for. Every combination that makes sense becomes a cell.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Paths; none means every path that can run.
    pub paths: Vec<PathId>,
    /// Also `udp/sockets` wherever there are UDP paths.
    pub through_sockets: bool,
    /// Sizes, bytes.
    pub sizes_bytes: Vec<u32>,
    /// Ways of `frame/xdp` to send.
    pub tx: Vec<TxMode>,
    /// Ways of `frame/xdp` to receive.
    pub rx: Vec<RxMode>,
    /// 4 and 6, for socket paths.
    pub ip_versions: Vec<u8>,
    /// For workloads with a rate.
    pub rates: Rates,
}

/// The rates that each combination is measured at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rates {
    /// None: the workload has no rate.
    None,
    /// These, messages a second.
    Given(Vec<u64>),
    /// Some up to what each combination carries.
    Sweep,
}

/// A path that was not asked for by name and cannot run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Which path.
    pub path: PathId,
    /// Why, and what to do.
    pub why: String,
}

/// Why a wish cannot be met.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// A size that a path does not carry.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// A path without the frames that what was asked for is done to.
    #[error("{path}: {wish} needs a path of frames; give frame/xdp or frame/packet, or leave {wish} out")]
    NeedsFrames {
        /// The path asked for.
        path: PathId,
        /// What was asked for.
        wish: &'static str,
    },
    /// A path asked for by name.
    #[error("{path} cannot run on this host: {why}")]
    CannotRun {
        /// The path asked for.
        path: PathId,
        /// Why, and what to do.
        why: String,
    },
}

/// Tries the paths of a wish and makes its cells.
///
/// # Errors
/// What was asked for by name cannot be done, or a size fits no path.
pub fn cells(
    wish: &Wish,
    experiment: &Experiment,
    bed: &mut TestBed,
    clock: Clock,
) -> Result<(Vec<CellSpec>, Vec<LeftOut>), CellError> {
    let named = !wish.paths.is_empty();
    let mut found = (Vec::new(), Vec::new());
    for path in paths(wish, experiment)? {
        match try_path(bed, clock, path, experiment.xdp_mode) {
            Ok(()) => add_cells(wish, experiment, path, bed.mtu_bytes(), &mut found.0)?,
            Err(why) if named => return Err(CellError::CannotRun { path, why }),
            Err(why) => found.1.push(LeftOut { path, why }),
        }
    }
    found.0 = each_once(&found.0);
    found.0 = at_rates(&wish.rates, &found.0, experiment, bed, clock)?;
    Ok(found)
}

/// These cells at each rate. A sweep tries each of them shortly.
fn at_rates(
    rates: &Rates,
    cells: &[CellSpec],
    experiment: &Experiment,
    bed: &mut TestBed,
    clock: Clock,
) -> Result<Vec<CellSpec>, CellError> {
    let mut found = Vec::new();
    for cell in cells {
        let of_cell = match rates {
            Rates::None => {
                found.push(*cell);
                continue;
            }
            Rates::Given(rates) => each_once(rates),
            Rates::Sweep => {
                // Without it the figures of the trials are a little noisier.
                let _ = experiment.cpu_initiator.map(pin_current_thread);
                sweep::rates(bed, clock, experiment, cell)
                    .map_err(|error| CellError::CannotRun { path: cell.path, why: error.to_string() })?
            }
        };
        found.extend(of_cell.into_iter().map(|rate| CellSpec { rate_per_second: Some(rate), ..*cell }));
    }
    Ok(found)
}

/// The paths asked for, or those that suit the experiment; each once.
fn paths(wish: &Wish, experiment: &Experiment) -> Result<Vec<PathId>, CellError> {
    if wish.paths.is_empty() {
        let all = ALL.iter().map(|(_, path, _)| *path);
        let all = all.filter(|path| wish.through_sockets || !path.is_on_request());
        return Ok(all.filter(|path| cannot(*path, experiment).is_none()).collect());
    }
    match wish.paths.iter().find_map(|path| cannot(*path, experiment).map(|wish| (*path, wish))) {
        Some((path, wish)) => Err(CellError::NeedsFrames { path, wish }),
        None => Ok(each_once(&with_twin(wish))),
    }
}

/// The paths named, and behind the last one of UDP what runs through the library.
fn with_twin(wish: &Wish) -> Vec<PathId> {
    let mut paths = wish.paths.clone();
    if let Some(last) = paths.iter().rposition(|path| path.what == What::Udp).filter(|_| wish.through_sockets) {
        paths.insert(last + 1, PathId { what: What::Udp, how: How::Sockets });
    }
    paths
}

/// What in an experiment a path cannot do: IP has no forwarder and no tags here, and the kernel's sockets have no port that
/// faults could be put around.
fn cannot(path: PathId, experiment: &Experiment) -> Option<&'static str> {
    let wishes = [
        (experiment.workload.uses_two_cables() && path.is_ip(), "--workload forward"),
        (experiment.fault.is_some() && !path.has_port(), "--fault"),
        (experiment.vlan.is_some() && path.is_ip(), "--vlan"),
    ];
    wishes.into_iter().find(|(cannot, _)| *cannot).map(|(_, wish)| wish)
}

fn each_once<T: Copy + PartialEq>(values: &[T]) -> Vec<T> {
    let mut once = Vec::new();
    for value in values {
        if !once.contains(value) {
            once.push(*value);
        }
    }
    once
}

fn add_cells(
    wish: &Wish,
    experiment: &Experiment,
    path: PathId,
    mtu_bytes: u32,
    cells: &mut Vec<CellSpec>,
) -> Result<(), SizeError> {
    let named = !wish.paths.is_empty();
    for &size_bytes in &wish.sizes_bytes {
        let versions = if path.is_ip() { wish.ip_versions.iter().copied().map(Some).collect() } else { vec![None] };
        for ip_version in versions {
            match check_size(path, size_bytes, ip_version.unwrap_or(4), mtu_bytes, &experiment.workload) {
                Ok(()) => {}
                Err(error) if named || path.is_ip() => return Err(error),
                // Small messages are common wishes, and the shortest frame is longer.
                Err(_) => continue,
            }
            let cell = |(tx, rx)| CellSpec { path, tx, rx, size_bytes, ip_version, rate_per_second: None };
            cells.extend(modes(wish, path).into_iter().map(cell));
        }
    }
    Ok(())
}

fn modes(wish: &Wish, path: PathId) -> Vec<(Option<TxMode>, Option<RxMode>)> {
    match path.how {
        How::Xdp => wish.tx.iter().flat_map(|tx| wish.rx.iter().map(|rx| (Some(*tx), Some(*rx)))).collect(),
        How::Packet => vec![(Some(TxMode::Frame), Some(RxMode::InPlace))],
        _ => vec![(None, None)],
    }
}

/// Tries a path with a few messages.
///
/// # Errors
/// Why it cannot run here, in words.
pub fn try_path(bed: &mut TestBed, clock: Clock, path: PathId, xdp_mode: Option<AskedMode>) -> Result<(), String> {
    // A switch on the way may learn an address only with the second.
    const MESSAGES: u64 = 10;
    let experiment = Experiment { timeout_ns: 200_000_000, xdp_mode, ..Experiment::default() };
    let ip_version = if bed.local.addresses.iter().any(IpAddr::is_ipv4) { 4 } else { 6 };
    let cell =
        CellSpec { path, tx: None, rx: None, size_bytes: 64, ip_version: Some(ip_version), rate_per_second: None };
    let setup = experiment.setup(&cell, bed, std::process::id(), 0, None);
    let plan = RoundPlan {
        warm_up_messages: 0,
        warm_up_ns: 0,
        messages: Some(MESSAGES),
        time_ns: None,
        timeout_ns: setup.timeout_ns,
        cpu: None,
    };
    let mut buffer = SampleBuffer::new(MESSAGES as usize);
    let result = round::run(bed, clock, &setup, &plan, &mut buffer).map_err(|error| error.to_string())?;
    if result.outcome.lost < MESSAGES { Ok(()) } else { Err("messages were sent and none came back".to_owned()) }
}
