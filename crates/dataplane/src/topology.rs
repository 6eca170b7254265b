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
}

/// Every topology.
pub const TOPOLOGIES: [Topology; 2] = [Topology::PortPort, Topology::PortHostPort];

impl Topology {
    /// As on the command line and in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Topology::PortPort => "port-port",
            Topology::PortHostPort => "port-host-port",
        }
    }

    /// Links of the chain that it is laid with.
    #[must_use]
    pub const fn links(self) -> u32 {
        match self {
            Topology::PortPort => 1,
            Topology::PortHostPort => 2,
        }
    }

    /// Whether something stands in the middle.
    #[must_use]
    pub const fn has_device(self) -> bool {
        self.links() > 1
    }
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
