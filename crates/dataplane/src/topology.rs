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
    /// Frames go from a port to a program on a host.
    PortHost,
    /// A program on a host sends to a port.
    HostPort,
    /// A program on one host sends through a function in the middle to a program on another.
    HostHost,
}

/// What generates frames, or takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// A port of frames.
    Port,
    /// A program with a UDP socket.
    Host,
}

/// What stands in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Middle {
    /// A cable.
    Nothing,
    /// A function in a host.
    Host,
    /// A function in a guest.
    Guest,
}

/// Every topology: its name, what generates and what takes frames, what stands in the middle.
const TABLE: [(Topology, &str, [End; 2], Middle); 6] = [
    (Topology::PortPort, "port-port", [End::Port, End::Port], Middle::Nothing),
    (Topology::PortHostPort, "port-host-port", [End::Port, End::Port], Middle::Host),
    (Topology::PortVmPort, "port-vm-port", [End::Port, End::Port], Middle::Guest),
    (Topology::PortHost, "port-host", [End::Port, End::Host], Middle::Nothing),
    (Topology::HostPort, "host-port", [End::Host, End::Port], Middle::Nothing),
    (Topology::HostHost, "host-host", [End::Host, End::Host], Middle::Host),
];

impl Topology {
    /// Every topology.
    pub fn all() -> impl Iterator<Item = Topology> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> &'static (Topology, &'static str, [End; 2], Middle) {
        // The table has every topology, as a test says.
        TABLE.iter().find(|row| row.0 == self).unwrap_or(&TABLE[0])
    }

    /// As on the command line and in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// What generates frames, and what takes them.
    #[must_use]
    pub fn ends(self) -> [End; 2] {
        self.row().2
    }

    /// Links of the chain that it is laid with.
    #[must_use]
    pub fn links(self) -> u32 {
        if self.has_device() { 2 } else { 1 }
    }

    /// Whether something stands in the middle.
    #[must_use]
    pub fn has_device(self) -> bool {
        self.row().3 != Middle::Nothing
    }

    /// Whether a device can be in the middle of it.
    ///
    /// # Errors
    /// [`WrongDevice`]: a guest where none belongs, or none where one belongs.
    pub fn check(self, device: DeviceId) -> Result<(), WrongDevice> {
        let is_right = match self.row().3 {
            Middle::Nothing => true,
            Middle::Host => !device.engine.is_guest(),
            Middle::Guest => device.engine.is_guest(),
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

fn all_names() -> String {
    TABLE.map(|row| row.1).join(", ")
}

/// Not a topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{found}' is no topology; there are {}", all_names())]
pub struct UnknownTopology {
    /// What was found.
    found: String,
}

impl FromStr for Topology {
    type Err = UnknownTopology;

    fn from_str(text: &str) -> Result<Topology, UnknownTopology> {
        let topology = Topology::all().find(|topology| topology.name() == text);
        topology.ok_or_else(|| UnknownTopology { found: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topology_is_in_the_table_and_read_back() {
        let all = [
            Topology::PortPort,
            Topology::PortHostPort,
            Topology::PortVmPort,
            Topology::PortHost,
            Topology::HostPort,
            Topology::HostHost,
        ];
        assert!(Topology::all().eq(all));
        for topology in all {
            assert_eq!(topology.to_string().parse(), Ok(topology));
        }
        assert!("host".parse::<Topology>().unwrap_err().to_string().contains("port-host-port"));
    }

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
