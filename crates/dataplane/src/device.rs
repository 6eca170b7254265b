//! Devices under test: what a function is done by.

mod forwarding;
pub mod guest;
mod kernel;
pub mod ovs;

use std::fmt;
use std::str::FromStr;

use nearwire_frames::PortError;
use nearwire_lab::{CableEnd, LabError, receive_on_cpus};

use crate::forwarder::FunctionError;
use crate::function::{Drops, FunctionKind};
pub use forwarding::RunningForwarder;
use guest::{GuestError, Inside, RunningGuest};
use ovs::{OpenVswitch, OvsError, OvsFlows, OvsPorts};

/// What does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Our forwarder over AF_XDP.
    Xdp,
    /// Our forwarder over AF_PACKET.
    Packet,
    /// The kernel: its bridge or its routing.
    Kernel,
    /// Open vSwitch, with ports by AF_PACKET.
    Ovs,
    /// Open vSwitch, with ports by AF_XDP.
    OvsAfxdp,
    /// The kernel of a guest.
    GuestKernel,
    /// Our forwarder over AF_XDP in a guest.
    GuestXdp,
    /// Our forwarder over AF_PACKET in a guest.
    GuestPacket,
}

impl Engine {
    /// What does it inside a guest; `None` of an engine of the host.
    const fn inside_guest(self) -> Option<Inside> {
        match self {
            Engine::GuestKernel => Some(Inside::Kernel),
            Engine::GuestXdp => Some(Inside::Xdp),
            Engine::GuestPacket => Some(Inside::Packet),
            Engine::Xdp | Engine::Packet | Engine::Kernel | Engine::Ovs | Engine::OvsAfxdp => None,
        }
    }

    /// Whether it runs in a guest.
    #[must_use]
    pub const fn is_guest(self) -> bool {
        self.inside_guest().is_some()
    }
}

/// A device by its name `function/engine`, as in `l2/xdp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceId {
    /// What it does.
    pub function: FunctionKind,
    /// What does it.
    pub engine: Engine,
}

/// Names of engines.
const ENGINES: [(Engine, &str); 8] = [
    (Engine::Xdp, "xdp"),
    (Engine::Packet, "packet"),
    (Engine::Kernel, "kernel"),
    (Engine::Ovs, "ovs"),
    (Engine::OvsAfxdp, "ovs-afxdp"),
    (Engine::GuestKernel, "guest-kernel"),
    (Engine::GuestXdp, "guest-xdp"),
    (Engine::GuestPacket, "guest-packet"),
];

impl DeviceId {
    /// Every device there is.
    #[must_use]
    pub fn all() -> Vec<DeviceId> {
        let ids = FunctionKind::ALL
            .into_iter()
            .flat_map(|function| ENGINES.iter().map(move |(engine, _)| DeviceId { function, engine: *engine }));
        ids.filter(|id| id.exists()).collect()
    }

    /// The kernel has no function that only passes frames on. Open vSwitch has a flow for that, and switches. The bridges of a guest's host
    /// would have swapped addresses on the wrong sides.
    const fn exists(self) -> bool {
        match self.engine {
            Engine::Xdp | Engine::Packet => true,
            Engine::GuestXdp | Engine::GuestPacket => !matches!(self.function, FunctionKind::MacSwap),
            Engine::Kernel | Engine::GuestKernel => matches!(self.function, FunctionKind::L2 | FunctionKind::L3),
            Engine::Ovs | Engine::OvsAfxdp => matches!(self.function, FunctionKind::Io | FunctionKind::L2),
        }
    }

    /// Whether frames are sent to its address, and not to that of the sink.
    #[must_use]
    pub const fn is_router(self) -> bool {
        matches!(self.function, FunctionKind::L3)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = ENGINES.iter().find(|known| known.0 == self.engine).map_or("", |known| known.1);
        write!(f, "{}/{engine}", self.function)
    }
}

/// Not a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{found}' is no device under test; there are {known}")]
pub struct UnknownDevice {
    /// What was found.
    found: String,
    /// What there is.
    known: String,
}

impl FromStr for DeviceId {
    type Err = UnknownDevice;

    fn from_str(text: &str) -> Result<DeviceId, UnknownDevice> {
        let all = DeviceId::all();
        all.iter().copied().find(|id| id.to_string() == text).ok_or_else(|| {
            let known: Vec<String> = all.iter().map(DeviceId::to_string).collect();
            UnknownDevice { found: text.to_owned(), known: known.join(", ") }
        })
    }
}

/// Why a device could not be made, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The kernel's forwarding.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A port.
    #[error(transparent)]
    Port(#[from] PortError),
    /// Open vSwitch.
    #[error(transparent)]
    Ovs(#[from] OvsError),
    /// A guest.
    #[error(transparent)]
    Guest(#[from] Box<GuestError>),
    /// What a forwarder of ours does.
    #[error(transparent)]
    Function(#[from] FunctionError),
    /// The forwarder's thread.
    #[error("start a thread for the forwarder on CPU {cpu}: {source}")]
    Thread {
        /// The CPU.
        cpu: u32,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// It ended in mid-test.
    #[error("the device under test ended: {why}")]
    Ended {
        /// In its own words, or the last lines of its log.
        why: String,
    },
}

/// A device under test that runs. Dropping it ends it.
#[derive(Debug)]
pub enum RunningDevice {
    /// It ends with its namespace.
    Kernel,
    /// Our forwarder.
    Forwarder(RunningForwarder),
    /// Open vSwitch.
    OpenVswitch(Box<OpenVswitch>),
    /// A guest with two NICs.
    Guest(Box<RunningGuest>),
}

/// Where a device is to be.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Its interfaces, which are in one namespace: towards the generator, towards the sink.
    pub ports: [&'a CableEnd; 2],
    /// What faces them.
    pub neighbours: [&'a CableEnd; 2],
    /// The CPU that does its work.
    pub cpu: u32,
    /// The generator spins on the same CPU: the device must let it run.
    pub shares_cpu: bool,
}

impl RunningDevice {
    /// Makes a device.
    ///
    /// # Errors
    /// What could not be had.
    pub fn start(id: DeviceId, place: Place) -> Result<RunningDevice, DeviceError> {
        if let Some(inside) = id.engine.inside_guest() {
            let guest = RunningGuest::start(id.function, inside, place).map_err(Box::new)?;
            return Ok(RunningDevice::Guest(Box::new(guest)));
        }
        if id.is_router() {
            kernel::add_test_routes(place)?;
        }
        match id.engine {
            Engine::Kernel => {
                kernel::start(id.function, place)?;
                Ok(RunningDevice::Kernel)
            }
            Engine::Xdp => Ok(RunningDevice::Forwarder(forwarding::start_xdp(id.function, place)?)),
            Engine::Packet => Ok(RunningDevice::Forwarder(forwarding::start_packet(id.function, place)?)),
            Engine::Ovs => Ok(RunningDevice::OpenVswitch(start_open_vswitch(id.function, OvsPorts::Netdev, place)?)),
            Engine::OvsAfxdp => {
                Ok(RunningDevice::OpenVswitch(start_open_vswitch(id.function, OvsPorts::Afxdp, place)?))
            }
            Engine::GuestKernel | Engine::GuestXdp | Engine::GuestPacket => unreachable!("guests were started above"),
        }
    }

    /// The switch, where it is the device.
    #[must_use]
    pub fn open_vswitch(&self) -> Option<&OpenVswitch> {
        match self {
            RunningDevice::OpenVswitch(switch) => Some(switch),
            RunningDevice::Kernel | RunningDevice::Forwarder(_) | RunningDevice::Guest(_) => None,
        }
    }

    /// The guest, where it is the device.
    #[must_use]
    pub fn guest(&self) -> Option<&RunningGuest> {
        match self {
            RunningDevice::Guest(guest) => Some(guest),
            RunningDevice::Kernel | RunningDevice::Forwarder(_) | RunningDevice::OpenVswitch(_) => None,
        }
    }

    /// Whether it runs still.
    ///
    /// # Errors
    /// [`DeviceError::Ended`], with why.
    pub fn check(&mut self) -> Result<(), DeviceError> {
        match self {
            RunningDevice::Kernel => Ok(()),
            RunningDevice::Forwarder(forwarder) => forwarder.check(),
            RunningDevice::OpenVswitch(switch) if switch.is_alive() => Ok(()),
            RunningDevice::OpenVswitch(switch) => Err(DeviceError::Ended { why: switch.last_log_lines() }),
            RunningDevice::Guest(guest) => guest.check(),
        }
    }

    /// What it is made of, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            RunningDevice::Kernel => "the kernel, what it receives handled by this CPU (RPS)".to_owned(),
            RunningDevice::Forwarder(forwarder) => forwarder.describe().to_owned(),
            RunningDevice::OpenVswitch(switch) => switch.describe(),
            RunningDevice::Guest(guest) => guest.describe(),
        }
    }

    /// Ends it: what it dropped, where it tells.
    #[must_use]
    pub fn end(self) -> Drops {
        match self {
            RunningDevice::Kernel | RunningDevice::OpenVswitch(_) => Drops::default(),
            RunningDevice::Forwarder(forwarder) => forwarder.end(),
            RunningDevice::Guest(guest) => guest.end(),
        }
    }
}

/// On the device's CPU, with what the kernel does to receive for it.
fn start_open_vswitch(
    function: FunctionKind,
    as_ports: OvsPorts,
    place: Place,
) -> Result<Box<OpenVswitch>, DeviceError> {
    let flows = if function == FunctionKind::L2 { OvsFlows::Normal } else { OvsFlows::Wired };
    place.ports.into_iter().try_for_each(|port| receive_on_cpus(port, &[place.cpu]))?;
    Ok(Box::new(OpenVswitch::start(place.ports, as_ports, flows, place.cpu)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_read_back() {
        for id in DeviceId::all() {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert_eq!(DeviceId::all().len(), 22);
    }

    #[test]
    fn device_that_is_not_there_is_refused_with_those_that_are() {
        let error = "io/kernel".parse::<DeviceId>().unwrap_err().to_string();
        assert!(error.contains("io/kernel") && error.contains("l3/kernel"), "{error}");
    }
}
