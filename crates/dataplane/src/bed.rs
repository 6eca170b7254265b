//! A test bed on one host: generator, device under test and sink, in namespaces of their own.

use nearwire_frames::PortError;
use nearwire_frames::ports::packet::PacketPort;
use nearwire_frames::ports::xdp::{Side, XdpPort};
use nearwire_lab::{CableEnd, LabError, VirtualCableOptions, VirtualChain};
use nearwire_sys::affinity::pin_current_thread;
use nearwire_sys::tsc::Clock;
use nearwire_wire::MacAddress;

use crate::device::{DeviceError, DeviceId, Place, RunningDevice};
use crate::function::Drops;
use crate::ports::{Taken, open_packet, open_xdp};
use crate::tester::{Tester, TesterError};
use crate::topology::{Topology, WrongDevice};
use crate::traffic::{Hops, Traffic};
use crate::trial::{Testbed, Trial, TrialPlan};

/// CPUs of the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpus {
    /// Generator and sink.
    pub tester: u32,
    /// The device under test.
    pub device: u32,
}

/// What is laid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BedPlan {
    /// What is in the middle.
    pub topology: Topology,
    /// What does it; none where nothing is in the middle.
    pub device: Option<DeviceId>,
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
    tester: AnyTester,
    device: Option<RunningDevice>,
    chain: VirtualChain,
}

#[derive(Debug)]
enum AnyTester {
    Xdp(Box<Tester<XdpPort, XdpPort>>),
    Packet(Box<Tester<PacketPort, PacketPort>>),
}

impl Bed {
    /// Lays it for a traffic, and pins the calling thread, which makes the trials.
    ///
    /// # Errors
    /// What a part said that could not be made.
    pub fn lay(plan: &BedPlan, traffic: &Traffic, clock: Clock) -> Result<Bed, BedError> {
        plan.device.map_or(Ok(()), |device| plan.topology.check(device))?;
        let options = VirtualCableOptions { mtu_bytes: plan.mtu_bytes, ..VirtualCableOptions::default() };
        let chain = VirtualChain::lay(plan.topology.links(), options)?;
        let device = match (plan.device, chain.links()) {
            (Some(id), [inner, outer]) => Some(RunningDevice::start(
                id,
                Place {
                    ports: [&inner.far, &outer.near],
                    neighbours: [&inner.near, &outer.far],
                    cpu: plan.cpus.device,
                    shares_cpu: plan.cpus.device == plan.cpus.tester,
                },
            )?),
            _ => None,
        };
        pin_current_thread(plan.cpus.tester)
            .map_err(|errno| BedError::Pin { cpu: plan.cpus.tester, source: errno.into() })?;
        let tester = open_tester(plan, &chain, traffic, clock)?;
        Ok(Bed { tester, device, chain })
    }

    /// What generator and sink use, a line each.
    #[must_use]
    pub fn describe(&self) -> [String; 2] {
        match &self.tester {
            AnyTester::Xdp(tester) => tester.describe(),
            AnyTester::Packet(tester) => tester.describe(),
        }
    }

    /// The generator's interface and the sink's.
    #[must_use]
    pub fn interfaces(&self) -> [String; 2] {
        let end = |end: Option<&CableEnd>| end.map(|end| end.interface.clone()).unwrap_or_default();
        let links = self.chain.links();
        [end(links.first().map(|link| &link.near)), end(links.last().map(|link| &link.far))]
    }

    /// What the device is made of, and its interfaces; `None` where nothing is in the middle.
    #[must_use]
    pub fn device(&self) -> Option<(String, [String; 2])> {
        let [inner, outer] = self.chain.links() else { return None };
        let interfaces = [&inner.far, &outer.near].map(|end| end.interface.clone());
        Some((self.device.as_ref()?.describe(), interfaces))
    }

    /// The device that runs.
    #[must_use]
    pub const fn running_device(&self) -> Option<&RunningDevice> {
        self.device.as_ref()
    }

    /// Ends the device: what it dropped, where it tells.
    #[must_use]
    pub fn end(self) -> Drops {
        self.device.map(RunningDevice::end).unwrap_or_default()
    }
}

fn open_tester(plan: &BedPlan, chain: &VirtualChain, traffic: &Traffic, clock: Clock) -> Result<AnyTester, BedError> {
    let (first, last) = match chain.links() {
        [only] => (only, only),
        [first, .., last] => (first, last),
        [] => unreachable!("a chain has at least one link"),
    };
    let (near, far) = (&first.near, &last.far);
    let sink = MacAddress(far.mac);
    let to_router = plan.device.is_some_and(DeviceId::is_router);
    let hops =
        Hops { source: MacAddress(near.mac), destination: if to_router { MacAddress(first.far.mac) } else { sink } };
    if plan.tester_is_xdp {
        let sending = near.namespace.enter(|| open_xdp(&near.interface, Side::Near, Taken::None))??;
        let receiving = far.namespace.enter(|| open_xdp(&far.interface, Side::Far, Taken::TestTraffic))??;
        Ok(AnyTester::Xdp(Box::new(Tester::new(sending, receiving, traffic, hops, sink, clock)?)))
    } else {
        let sending = near.namespace.enter(|| open_packet(&near.interface, Taken::None))??;
        let receiving = far.namespace.enter(|| open_packet(&far.interface, Taken::TestTraffic))??;
        Ok(AnyTester::Packet(Box::new(Tester::new(sending, receiving, traffic, hops, sink, clock)?)))
    }
}

impl Testbed for Bed {
    type Error = BedError;

    fn trial(&mut self, plan: TrialPlan) -> Result<Trial, BedError> {
        let trial = match &mut self.tester {
            AnyTester::Xdp(tester) => tester.trial(plan),
            AnyTester::Packet(tester) => tester.trial(plan),
        };
        // Why the device ended says more than what the tester met because of it.
        self.device.as_mut().map_or(Ok(()), RunningDevice::check)?;
        Ok(trial?)
    }

    fn pause(&mut self, duration_ns: u64) -> Result<(), BedError> {
        match &mut self.tester {
            AnyTester::Xdp(tester) => tester.pause(duration_ns)?,
            AnyTester::Packet(tester) => tester.pause(duration_ns)?,
        }
        Ok(())
    }
}
