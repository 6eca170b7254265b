//! Devices under test: what a function is done by.

pub mod ovs;

use std::fmt;
use std::str::FromStr;

/// What a device does with frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// What comes in at one port leaves at the other.
    Io,
    /// The same, with the Ethernet addresses swapped.
    MacSwap,
    /// A learning bridge.
    L2,
    /// Routing of IPv4 and IPv6.
    L3,
}

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
}

/// A device by its name `function/engine`, as in `l2/xdp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceId {
    /// What it does.
    pub function: Function,
    /// What does it.
    pub engine: Engine,
}

/// Names of functions.
const FUNCTIONS: [(Function, &str); 4] =
    [(Function::Io, "io"), (Function::MacSwap, "mac-swap"), (Function::L2, "l2"), (Function::L3, "l3")];
/// Names of engines.
const ENGINES: [(Engine, &str); 5] = [
    (Engine::Xdp, "xdp"),
    (Engine::Packet, "packet"),
    (Engine::Kernel, "kernel"),
    (Engine::Ovs, "ovs"),
    (Engine::OvsAfxdp, "ovs-afxdp"),
];

impl DeviceId {
    /// Every device there is.
    #[must_use]
    pub fn all() -> Vec<DeviceId> {
        let ids = FUNCTIONS.iter().flat_map(|(function, _)| {
            ENGINES.iter().map(|(engine, _)| DeviceId { function: *function, engine: *engine })
        });
        ids.filter(|id| id.exists()).collect()
    }

    /// The kernel has no function that only passes frames on. Open vSwitch has a flow for that, and switches.
    const fn exists(self) -> bool {
        match self.engine {
            Engine::Xdp | Engine::Packet => true,
            Engine::Kernel => matches!(self.function, Function::L2 | Function::L3),
            Engine::Ovs | Engine::OvsAfxdp => matches!(self.function, Function::Io | Function::L2),
        }
    }

    /// Whether frames are sent to its address, and not to that of the sink.
    #[must_use]
    pub const fn is_router(self) -> bool {
        matches!(self.function, Function::L3)
    }
}

fn name_of<T: PartialEq>(names: &[(T, &'static str)], value: &T) -> &'static str {
    names.iter().find(|known| known.0 == *value).map_or("", |known| known.1)
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", name_of(&FUNCTIONS, &self.function), name_of(&ENGINES, &self.engine))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_read_back() {
        for id in DeviceId::all() {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert_eq!(DeviceId::all().len(), 14);
    }

    #[test]
    fn device_that_is_not_there_is_refused_with_those_that_are() {
        let error = "io/kernel".parse::<DeviceId>().unwrap_err().to_string();
        assert!(error.contains("io/kernel") && error.contains("l3/kernel"), "{error}");
    }
}
