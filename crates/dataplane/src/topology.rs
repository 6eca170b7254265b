//! What is between the generator and the sink, by the names of the OpenNFP deck.

use std::fmt;
use std::str::FromStr;

use crate::device::DeviceId;

/// A topology with one device under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topology {
    /// Frames go from port to port over a cable alone: what generator and sink do by themselves.
    PortPort,
    /// Frames pass a function in the host.
    PortHostPort,
    /// Frames pass a guest with two NICs, each joined to its cable by a bridge of the host.
    PortVmPort,
}

/// Every topology.
pub const TOPOLOGIES: [Topology; 3] = [Topology::PortPort, Topology::PortHostPort, Topology::PortVmPort];

impl Topology {
    /// As on the command line and in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Topology::PortPort => "port-port",
            Topology::PortHostPort => "port-host-port",
            Topology::PortVmPort => "port-vm-port",
        }
    }

    /// Links of the chain that it is laid with.
    #[must_use]
    pub const fn links(self) -> u32 {
        match self {
            Topology::PortPort => 1,
            Topology::PortHostPort | Topology::PortVmPort => 2,
        }
    }

    /// Whether something stands in the middle.
    #[must_use]
    pub const fn has_device(self) -> bool {
        self.links() > 1
    }

    /// Whether a device can be in the middle of it.
    ///
    /// # Errors
    /// [`WrongDevice`]: a guest where none belongs, or none where one belongs.
    pub fn check(self, device: DeviceId) -> Result<(), WrongDevice> {
        let is_right = match self {
            Topology::PortPort => true,
            Topology::PortHostPort => !device.engine.is_guest(),
            Topology::PortVmPort => device.engine.is_guest(),
        };
        if is_right { Ok(()) } else { Err(WrongDevice { topology: self, device }) }
    }

    /// Devices that can be in the middle of it.
    #[must_use]
    pub fn devices(self) -> Vec<DeviceId> {
        DeviceId::all().into_iter().filter(|device| self.has_device() && self.check(*device).is_ok()).collect()
    }
}

/// A device that a topology has no place for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{device} does not belong in {topology}, which is measured with one of {}", names(.topology.devices()))]
pub struct WrongDevice {
    /// The topology.
    pub topology: Topology,
    /// The device.
    pub device: DeviceId,
}

fn names(devices: Vec<DeviceId>) -> String {
    devices.iter().map(DeviceId::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Not a topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{found}' is no topology; there are {}", TOPOLOGIES.map(Topology::name).join(", "))]
pub struct UnknownTopology {
    /// What was found.
    found: String,
}

impl FromStr for Topology {
    type Err = UnknownTopology;

    fn from_str(text: &str) -> Result<Topology, UnknownTopology> {
        let topology = TOPOLOGIES.into_iter().find(|topology| topology.name() == text);
        topology.ok_or_else(|| UnknownTopology { found: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_belong_in_the_topology_with_a_guest_alone() {
        let [host, guest] = ["l2/kernel", "l2/guest-kernel"].map(|name| name.parse::<DeviceId>().unwrap());
        assert_eq!((Topology::PortHostPort.check(host), Topology::PortVmPort.check(guest)), (Ok(()), Ok(())));
        let error = Topology::PortHostPort.check(guest).unwrap_err().to_string();
        assert!(
            error.contains("l2/guest-kernel does not belong in port-host-port") && error.contains("l2/ovs"),
            "{error}"
        );
        let error = Topology::PortVmPort.check(host).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "io/guest-xdp, io/guest-packet, l2/guest-kernel, l2/guest-xdp, l2/guest-packet, \
            l3/guest-kernel, l3/guest-xdp, l3/guest-packet"
            ),
            "{error}"
        );
    }
}
