//! A test bed on one host: generator, device under test and sink, in namespaces of their own.

use std::net::IpAddr;

use nearwire_frames::PortError;
use nearwire_frames::ports::packet::PacketPort;
use nearwire_frames::ports::xdp::{Side, XdpPort};
use nearwire_lab::{
    CableEnd, KernelRoute, LabError, VirtualCableOptions, VirtualChain, bridge_in_kernel, receive_on_cpus,
    route_in_kernel,
};
use nearwire_sys::affinity::pin_current_thread;
use nearwire_sys::tsc::Clock;
use nearwire_wire::MacAddress;

use crate::device::ovs::{OpenVswitch, OvsError, OvsFlows, OvsPorts};
use crate::device::{DeviceId, Engine, Function};
use crate::ports::{open_packet, open_xdp};
use crate::tester::{Tester, TesterError};
use crate::topology::Topology;
use crate::traffic::{Family, Hops, Traffic};
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
    /// What does it; not asked where there is nothing in the middle.
    pub device: DeviceId,
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
    /// The traffic.
    #[error(transparent)]
    Tester(#[from] TesterError),
    /// Open vSwitch.
    #[error(transparent)]
    Ovs(#[from] OvsError),
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
    device: DeviceId,
    open_vswitch: Option<OpenVswitch>,
    _chain: VirtualChain,
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
        let options = VirtualCableOptions { mtu_bytes: plan.mtu_bytes, ..VirtualCableOptions::default() };
        let chain = VirtualChain::lay(plan.topology.links(), options)?;
        let mut open_vswitch = None;
        if let [inner, outer] = chain.links() {
            let ports = [&inner.far, &outer.near];
            start_in_kernel(plan, ports, [&inner.near, &outer.far])?;
            open_vswitch = start_open_vswitch(plan, ports)?;
        }
        pin_current_thread(plan.cpus.tester)
            .map_err(|errno| BedError::Pin { cpu: plan.cpus.tester, source: errno.into() })?;
        let tester = open_tester(plan, &chain, traffic, clock)?;
        Ok(Bed { tester, device: plan.device, open_vswitch, _chain: chain })
    }

    /// The switch, where it is the device under test.
    #[must_use]
    pub fn open_vswitch(&self) -> Option<&OpenVswitch> {
        self.open_vswitch.as_ref()
    }

    /// A trial with a device that has ended would tell of loss.
    fn check_device(&self) -> Result<(), TesterError> {
        match &self.open_vswitch {
            Some(switch) if !switch.is_alive() => {
                Err(TesterError::DeviceDied { device: self.device.to_string(), log: switch.last_log_lines() })
            }
            _ => Ok(()),
        }
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
    let to_router = plan.topology.has_device() && plan.device.is_router();
    let hops =
        Hops { source: MacAddress(near.mac), destination: if to_router { MacAddress(first.far.mac) } else { sink } };
    if plan.tester_is_xdp {
        let sending = near.namespace.enter(|| open_xdp(&near.interface, Side::Near))??;
        let receiving = far.namespace.enter(|| open_xdp(&far.interface, Side::Far))??;
        Ok(AnyTester::Xdp(Box::new(Tester::new(sending, receiving, traffic, hops, sink, clock)?)))
    } else {
        let sending = near.namespace.enter(|| open_packet(&near.interface))??;
        let receiving = far.namespace.enter(|| open_packet(&far.interface))??;
        Ok(AnyTester::Packet(Box::new(Tester::new(sending, receiving, traffic, hops, sink, clock)?)))
    }
}

/// Has the kernel of the device's namespace forward, on the device's CPU.
fn start_in_kernel(plan: &BedPlan, ports: [&CableEnd; 2], neighbours: [&CableEnd; 2]) -> Result<(), LabError> {
    if plan.device.engine != Engine::Kernel {
        return Ok(());
    }
    match plan.device.function {
        Function::L3 => route_in_kernel(&ports[0].namespace, &routes(ports, neighbours))?,
        Function::Io | Function::MacSwap | Function::L2 => bridge_in_kernel(&ports)?,
    }
    ports.into_iter().try_for_each(|port| receive_on_cpus(port, &[plan.cpus.device]))
}

/// Starts Open vSwitch on the device's CPU, if it is the device. What the kernel does to receive for it is done there, too.
fn start_open_vswitch(plan: &BedPlan, ports: [&CableEnd; 2]) -> Result<Option<OpenVswitch>, BedError> {
    let as_ports = match plan.device.engine {
        Engine::Ovs => OvsPorts::Netdev,
        Engine::OvsAfxdp => OvsPorts::Afxdp,
        Engine::Xdp | Engine::Packet | Engine::Kernel => return Ok(None),
    };
    let flows = if plan.device.function == Function::L2 { OvsFlows::Normal } else { OvsFlows::Wired };
    ports.into_iter().try_for_each(|port| receive_on_cpus(port, &[plan.cpus.device]))?;
    Ok(Some(OpenVswitch::start(ports, as_ports, flows, plan.cpus.device)?))
}

/// To the senders by the first port, to the receivers by the second.
fn routes(ports: [&CableEnd; 2], neighbours: [&CableEnd; 2]) -> Vec<KernelRoute> {
    let route = |family: Family, prefix: IpAddr, at: usize| KernelRoute {
        prefix: network(prefix, family.prefix_bits()),
        prefix_bits: family.prefix_bits(),
        gateway: match family {
            Family::V4 => neighbours[at].ipv4.into(),
            Family::V6 => neighbours[at].ipv6.into(),
        },
        ifindex: ports[at].ifindex,
    };
    let families = if ports[0].ipv6_usable { &[Family::V4, Family::V6][..] } else { &[Family::V4] };
    let both = |family: &Family| [route(*family, family.sources(), 0), route(*family, family.destinations(), 1)];
    families.iter().flat_map(both).collect()
}

/// The address with the bits behind the prefix cleared.
fn network(address: IpAddr, prefix_bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(u32::from(32 - prefix_bits)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(u32::from(128 - prefix_bits)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

impl Testbed for Bed {
    type Error = TesterError;

    fn trial(&mut self, plan: TrialPlan) -> Result<Trial, TesterError> {
        self.check_device()?;
        let trial = match &mut self.tester {
            AnyTester::Xdp(tester) => tester.trial(plan),
            AnyTester::Packet(tester) => tester.trial(plan),
        };
        self.check_device()?;
        trial
    }
}
