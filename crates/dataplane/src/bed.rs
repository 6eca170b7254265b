//! A test bed on one host: generator, device under test and sink, in namespaces of their own.

mod ends;

use nearwire_frames::PortError;
use nearwire_lab::{CableEnd, CablePair, LabError, VirtualCableOptions, VirtualChain};
use nearwire_sys::affinity::pin_current_thread;
use nearwire_sys::tsc::Clock;

use crate::device::{DeviceError, DeviceId, Place, RunningDevice};
use crate::function::Drops;
use crate::tester::{AnyTester, TesterError};
use crate::topology::{Topology, WrongDevice};
use crate::traffic::Traffic;
use crate::trial::{Testbed, Trial, TrialPlan};

/// CPUs of the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpus {
    /// The generator, and the sink where it has no CPU of its own.
    pub tester: u32,
    /// The sink, where there is a CPU for it.
    pub sink: Option<u32>,
    /// The device under test.
    pub device: u32,
    /// The second one, where there are two.
    pub second_device: u32,
}

/// What is laid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BedPlan {
    /// What is in the middle.
    pub topology: Topology,
    /// What does it; none where nothing is in the middle.
    pub device: Option<DeviceId>,
    /// Frames pass two devices, one after the other (the deck's dual DUT).
    pub is_dual: bool,
    /// Whether generator and sink use AF_XDP, else AF_PACKET.
    pub tester_is_xdp: bool,
    /// CPUs of the parts.
    pub cpus: Cpus,
    /// Largest payload of a frame.
    pub mtu_bytes: u32,
}

/// Why a bed could not be laid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BedError {
    /// Namespaces, cables, the kernel's forwarding.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A port of generator, sink or forwarder.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The topology has no place for the device.
    #[error(transparent)]
    WrongDevice(#[from] WrongDevice),
    /// The traffic.
    #[error(transparent)]
    Tester(#[from] TesterError),
    /// A host's socket could not be made.
    #[error("open the socket of a host at {address}: {source}")]
    HostSocket {
        /// Where it is bound.
        address: std::net::SocketAddr,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A thread could not be pinned.
    #[error("pin a thread to CPU {cpu}: {source}")]
    Pin {
        /// The CPU.
        cpu: u32,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// A laid bed. Dropping it takes everything away.
#[derive(Debug)]
pub struct Bed {
    tester: Box<dyn AnyTester>,
    devices: Vec<RunningDevice>,
    chain: VirtualChain,
}

impl Bed {
    /// Lays it for a traffic, and pins the calling thread, which makes the trials.
    ///
    /// # Errors
    /// What a part said that could not be made.
    pub fn lay(plan: &BedPlan, traffic: &Traffic, clock: Clock) -> Result<Bed, BedError> {
        plan.device.map_or(Ok(()), |device| plan.topology.check(device))?;
        let options = VirtualCableOptions { mtu_bytes: plan.mtu_bytes, ..VirtualCableOptions::default() };
        let links = plan.topology.links() + u32::from(plan.is_dual && plan.device.is_some());
        let chain = VirtualChain::lay(links, options)?;
        let devices = start_devices(plan, chain.links())?;
        pin_current_thread(plan.cpus.tester)
            .map_err(|errno| BedError::Pin { cpu: plan.cpus.tester, source: errno.into() })?;
        let tester = ends::open(plan, chain.links(), traffic, clock)?;
        Ok(Bed { tester, devices, chain })
    }

    /// What generator and sink use, a line each.
    #[must_use]
    pub fn describe(&self) -> [String; 2] {
        self.tester.describe()
    }

    /// The generator's interface and the sink's.
    #[must_use]
    pub fn interfaces(&self) -> [String; 2] {
        let end = |end: Option<&CableEnd>| end.map(|end| end.interface.clone()).unwrap_or_default();
        let links = self.chain.links();
        [end(links.first().map(|link| &link.near)), end(links.last().map(|link| &link.far))]
    }

    /// What each device is made of, and its interfaces, in the order in which frames pass them.
    #[must_use]
    pub fn devices(&self) -> Vec<(String, [String; 2])> {
        let joints = self.chain.links().windows(2);
        let interfaces = joints.map(|pair| [&pair[0].far, &pair[1].near].map(|end| end.interface.clone()));
        self.devices.iter().map(RunningDevice::describe).zip(interfaces).collect()
    }

    /// The devices that run.
    #[must_use]
    pub fn running_devices(&self) -> &[RunningDevice] {
        &self.devices
    }

    /// Ends the devices: what each dropped, where it tells.
    #[must_use]
    pub fn end(self) -> Vec<Drops> {
        self.devices.into_iter().map(RunningDevice::end).collect()
    }
}

/// Makes a device of each namespace between two links.
fn start_devices(plan: &BedPlan, links: &[CablePair]) -> Result<Vec<RunningDevice>, BedError> {
    let Some(id) = plan.device else { return Ok(Vec::new()) };
    let Cpus { tester, device, second_device, .. } = plan.cpus;
    let is_shared = tester == device || plan.is_dual && [tester, device].contains(&second_device);
    let cpus = [device, second_device];
    let start = |(pair, cpu): (&[CablePair], u32)| {
        let place = Place {
            ports: [&pair[0].far, &pair[1].near],
            neighbours: [&pair[0].near, &pair[1].far],
            cpu,
            shares_cpu: is_shared,
        };
        Ok(RunningDevice::start(id, place)?)
    };
    links.windows(2).zip(cpus).map(start).collect()
}

impl Testbed for Bed {
    type Error = BedError;

    fn trial(&mut self, plan: TrialPlan) -> Result<Trial, BedError> {
        let trial = self.tester.trial(plan);
        // Why the device ended says more than what the tester met because of it.
        self.devices.iter_mut().try_for_each(RunningDevice::check)?;
        Ok(trial?)
    }

    fn pause(&mut self, duration_ns: u64) -> Result<(), BedError> {
        Ok(self.tester.pause(duration_ns)?)
    }
}
