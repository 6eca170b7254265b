//! What is between the generator and the sink, by the names of the OpenNFP deck.

use std::fmt;
use std::str::FromStr;

/// A topology with one device under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topology {
    /// Frames go from port to port over a cable alone: what generator and sink do by themselves.
    PortPort,
    /// Frames pass a function in the host.
    PortHostPort,
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

/// Every topology: its name, what generates and what takes frames, links.
const TABLE: [(Topology, &str, [End; 2], u32); 5] = [
    (Topology::PortPort, "port-port", [End::Port, End::Port], 1),
    (Topology::PortHostPort, "port-host-port", [End::Port, End::Port], 2),
    (Topology::PortHost, "port-host", [End::Port, End::Host], 1),
    (Topology::HostPort, "host-port", [End::Host, End::Port], 1),
    (Topology::HostHost, "host-host", [End::Host, End::Host], 2),
];

impl Topology {
    /// Every topology.
    pub fn all() -> impl Iterator<Item = Topology> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> &'static (Topology, &'static str, [End; 2], u32) {
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
        self.row().3
    }

    /// Whether something stands in the middle.
    #[must_use]
    pub fn has_device(self) -> bool {
        self.links() > 1
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn names() -> String {
    TABLE.map(|row| row.1).join(", ")
}

/// Not a topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{found}' is no topology; there are {}", names())]
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
        let all =
            [Topology::PortPort, Topology::PortHostPort, Topology::PortHost, Topology::HostPort, Topology::HostHost];
        assert!(Topology::all().eq(all));
        for topology in all {
            assert_eq!(topology.to_string().parse(), Ok(topology));
        }
        assert!("host".parse::<Topology>().unwrap_err().to_string().contains("port-host-port"));
    }
}
