//! An experiment: devices under test in one topology, each with frames of each size.
//!
//! Cells are measured one after the other, each in a test bed of its own. A search compares a device with a goal, and makes trials until it
//! knows; it does not compare devices round by round.

mod cell;
mod methods;

use nearwire_report::dataplane::record::{self, Cell};
use nearwire_sys::tsc::Clock;
use nearwire_wire::ethernet::{TAG_BYTES, UNTAGGED_HEADER_BYTES};

use crate::bed::Cpus;
use crate::device::DeviceId;
use crate::search::mlr;
use crate::topology::{End, Topology};
use crate::traffic::{Family, Flows, Sizes, least_frame_bytes};
pub use methods::{Goal, Rfc2544Times};

/// In front of what an MTU counts.
const HEADER_BYTES: u32 = UNTAGGED_HEADER_BYTES as u32;

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// What is in the middle.
    pub topology: Topology,
    /// Devices, in order; not looked at where there is nothing in the middle.
    pub devices: Vec<DeviceId>,
    /// Two of a device, one after the other.
    pub is_dual: bool,
    /// Sizes of frames, a cell each.
    pub sizes: Vec<Sizes>,
    /// Version of IP.
    pub family: Family,
    /// How many flows.
    pub flows: Flows,
    /// A VLAN, or none.
    pub vlan: Option<u16>,
    /// How throughput is searched.
    pub method: Method,
    /// Parts of the throughput at which latency is measured, least first.
    pub latency_shares: Vec<f64>,
    /// Length of a trial for latency.
    pub latency_trial_ns: u64,
    /// CPUs of the parts.
    pub cpus: Cpus,
    /// Whether generator and sink use AF_XDP, else AF_PACKET.
    pub tester_is_xdp: bool,
    /// Largest payload of a frame.
    pub mtu_bytes: u32,
    /// Distinguishes this experiment's frames.
    pub token: u16,
}

/// How throughput is searched.
#[derive(Debug, Clone, PartialEq)]
pub enum Method {
    /// MLRsearch with several goals.
    MlrSearch {
        /// What a device has to keep to.
        goals: Vec<Goal>,
        /// Trials that a cell may take.
        trials_most: usize,
        /// Time that a cell may take.
        time_most_ns: u64,
    },
    /// RFC 2544 with these times.
    Rfc2544(Rfc2544Times),
}

/// Why an experiment cannot be made, whatever the host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// A host's end sends one untagged flow.
    #[error(
        "{topology} has a program on a host, which sends or takes one flow without a VLAN tag; leave out --flows and --vlan"
    )]
    HostTraffic {
        /// The topology.
        topology: Topology,
    },
    /// Frames that have no room for their number.
    #[error(
        "frames of {found_bytes} bytes are too short for this traffic, which needs {least_bytes} bytes without FCS"
    )]
    TooShort {
        /// The shortest that was asked for.
        found_bytes: u32,
        /// What headers, number and time take.
        least_bytes: u32,
    },
    /// Frames that the cables do not carry.
    #[error("frames of {found_bytes} bytes do not fit an MTU of {mtu_bytes}; give a larger --mtu (up to 9000)")]
    TooLong {
        /// The longest that was asked for.
        found_bytes: u32,
        /// The MTU.
        mtu_bytes: u32,
    },
}

/// Hears how far an experiment is.
pub trait Observer {
    /// A cell begins: `nth` of `of`, from 1.
    fn begins(&mut self, device: &str, sizes: &str, nth: usize, of: usize);
}

/// What came of an experiment.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// The cells that were measured, or failed.
    pub cells: Vec<Cell>,
    /// The user ended it.
    pub is_interrupted: bool,
}

impl Experiment {
    /// Whether it can be made.
    ///
    /// # Errors
    /// What contradicts what.
    pub fn check(&self) -> Result<(), CheckError> {
        let is_plain = self.flows == Flows::ONE && self.vlan.is_none();
        if self.topology.ends().contains(&End::Host) && !is_plain {
            return Err(CheckError::HostTraffic { topology: self.topology });
        }
        let least_bytes = least_frame_bytes(self.family, self.vlan.is_some());
        let most_bytes = self.mtu_bytes + HEADER_BYTES + if self.vlan.is_some() { TAG_BYTES as u32 } else { 0 };
        self.sizes.iter().try_for_each(|sizes| match (sizes.least_bytes(), sizes.most_bytes()) {
            (found_bytes, _) if found_bytes < least_bytes => Err(CheckError::TooShort { found_bytes, least_bytes }),
            (_, found_bytes) if found_bytes > most_bytes => {
                Err(CheckError::TooLong { found_bytes, mtu_bytes: self.mtu_bytes })
            }
            _ => Ok(()),
        })
    }

    /// Measures every cell. A cell that fails says why and does not stop the others.
    pub fn run(&self, clock: Clock, observer: &mut impl Observer) -> Results {
        let devices: Vec<Option<DeviceId>> = match self.topology.has_device() {
            true => self.devices.iter().copied().map(Some).collect(),
            false => vec![None],
        };
        let of = devices.len() * self.sizes.len();
        let mut results = Results::default();
        for sizes in &self.sizes {
            for device in &devices {
                let name = device.map_or_else(|| "wire".to_owned(), |device| device.to_string());
                observer.begins(&name, &sizes.to_string(), results.cells.len() + 1, of);
                let (cell, is_interrupted) = cell::measure(self, &name, *device, sizes, clock);
                if is_interrupted {
                    return Results { is_interrupted, ..results };
                }
                results.cells.push(cell);
            }
        }
        results
    }

    /// What a device has to keep to, as records have it.
    #[must_use]
    pub fn goals(&self) -> Vec<record::Goal> {
        match &self.method {
            Method::MlrSearch { goals, .. } => goals.iter().map(Goal::record).collect(),
            Method::Rfc2544(times) => vec![times.goal().record()],
        }
    }

    /// How throughput is searched, as records have it.
    #[must_use]
    pub const fn method(&self) -> record::Method {
        match self.method {
            Method::MlrSearch { .. } => record::Method::MlrSearch,
            Method::Rfc2544(_) => record::Method::Rfc2544,
        }
    }

    /// What is sent, as records have it.
    #[must_use]
    pub const fn traffic(&self) -> record::Traffic {
        let ip_version = match self.family {
            Family::V4 => 4,
            Family::V6 => 6,
        };
        record::Traffic { ip_version, flows: self.flows.count(), vlan: self.vlan }
    }
}

/// The limits of a search that begins with what the generator can.
const fn limits(trials_most: usize, time_most_ns: u64) -> mlr::Limits {
    mlr::Limits {
        least_fps: methods::LEAST_FPS,
        most_fps: None,
        most_trials: trials_most,
        most_time_ns: time_most_ns,
        pauses: methods::PAUSES,
    }
}
