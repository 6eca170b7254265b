//! Filters, and the keys they have in the maps of the XDP program.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::xdp::programs::TAG_ETHER_TYPES;

/// Largest VLAN number (IEEE 802.1Q: 0xfff is reserved).
const VLAN_MOST: u16 = 0xffe;

/// A transport protocol that flows are distinguished by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// UDP (RFC 768).
    Udp,
    /// TCP (RFC 9293).
    Tcp,
}

impl Transport {
    /// Number in the IP header.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Transport::Udp => 17,
            Transport::Tcp => 6,
        }
    }

    /// Length of the shortest header, bytes.
    #[must_use]
    pub const fn header_least_bytes(self) -> usize {
        match self {
            Transport::Udp => 8,
            Transport::Tcp => 20,
        }
    }

    /// The protocol with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Transport> {
        match number {
            17 => Some(Transport::Udp),
            6 => Some(Transport::Tcp),
            _ => None,
        }
    }
}

/// Packets to a local address and port, as bind(2) names them. A multicast group is an address like another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowFilter {
    /// The protocol.
    pub transport: Transport,
    /// Destination address; `0.0.0.0` is every IPv4 address, `::` every IPv6 address.
    pub address: IpAddr,
    /// Destination port; 0 is every port.
    pub port: u16,
}

/// Packets of one connection, or between two bound sockets: both addresses and ports, none of them a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExactFlow {
    /// The protocol.
    pub transport: Transport,
    /// Destination address.
    pub local: IpAddr,
    /// Destination port.
    pub local_port: u16,
    /// Source address, of the same family.
    pub remote: IpAddr,
    /// Source port.
    pub remote_port: u16,
}

impl ExactFlow {
    /// What comes from `remote` to `local`. An IPv4 address that IPv6 has mapped is the IPv4 address that its frames have.
    #[must_use]
    pub const fn between(transport: Transport, local: SocketAddr, remote: SocketAddr) -> ExactFlow {
        ExactFlow {
            transport,
            local: local.ip().to_canonical(),
            local_port: local.port(),
            remote: remote.ip().to_canonical(),
            remote_port: remote.port(),
        }
    }

    /// Destination address and port.
    #[must_use]
    pub const fn local_end(&self) -> SocketAddr {
        SocketAddr::new(self.local, self.local_port)
    }

    /// Source address and port.
    #[must_use]
    pub const fn remote_end(&self) -> SocketAddr {
        SocketAddr::new(self.remote, self.remote_port)
    }
}

/// What a frame filter wants of VLAN tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VlanMatch {
    /// No tag.
    Untagged,
    /// The number in the outermost tag.
    Id(u16),
}

/// Frames by their Ethernet header. Parts that are `None` match everything; with all of them `None`, so does the filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameFilter {
    /// Destination MAC address.
    pub mac: Option<[u8; 6]>,
    /// EtherType behind up to two tags.
    pub ether_type: Option<u16>,
    /// VLAN.
    pub vlan: Option<VlanMatch>,
}

/// A filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Filter {
    /// Packets to a local address and port.
    Flow(FlowFilter),
    /// Packets of one source to a local address and port; asked before flow filters.
    Exact(ExactFlow),
    /// Frames by their Ethernet header; asked before all others.
    Frame(FrameFilter),
}

/// Why filters cannot be what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The port was opened to take frames by another rule.
    #[error("the port was opened to take frames by a fixed rule; open it with Steer::Filters")]
    FixedRule,
    /// The filter is there already.
    #[error("the filter {filter} is there already; remove it first, or keep count of its users")]
    Present {
        /// The filter.
        filter: Filter,
    },
    /// The filter is not there.
    #[error("the filter {filter} is not there; it was removed already or never added")]
    Missing {
        /// The filter.
        filter: Filter,
    },
    /// The filter was to be given to a share that cannot be.
    #[error(
        "give the filter {filter} to share {share}: shares are numbered 0 to {last}; take a number of `share_number`"
    )]
    NoSuchShare {
        /// The filter.
        filter: Filter,
        /// The number given.
        share: u32,
        /// The highest number.
        last: u32,
    },
    /// There are as many as fit.
    #[error("add the filter {filter}: the table holds {most} of its kind and is full; remove one, or use a wildcard")]
    Full {
        /// The filter.
        filter: Filter,
        /// How many fit.
        most: u32,
    },
    /// Several owners were to have the filter, and as many filters have several as can.
    #[error(
        "give the filter {filter} to one owner more: {most} filters have several already, which is all there can be"
    )]
    GroupsFull {
        /// The filter.
        filter: Filter,
        /// How many filters can have several owners.
        most: u32,
    },
    /// No frame can match.
    #[error("the filter {filter} matches no frame: {why}")]
    Impossible {
        /// The filter.
        filter: Filter,
        /// The reason.
        why: &'static str,
    },
}

/// Length of a flow's key: address (IPv4 in the first four bytes), port as in the packet, protocol, family and class.
pub(super) const FLOW_KEY_BYTES: usize = 20;
/// Length of an exact flow's key: local address, remote address, remote port and local port as in the packet, protocol in the CPU's
/// order.
pub(super) const EXACT_V4_KEY_BYTES: usize = 16;
pub(super) const EXACT_V6_KEY_BYTES: usize = 40;
/// Length of a frame's key: MAC, EtherType as in the frame, VLAN in the CPU's order, class in the CPU's order.
pub(super) const FRAME_KEY_BYTES: usize = 12;
/// Parts of a flow's class.
pub(super) const FLOW_ADDRESS: u8 = 1;
pub(super) const FLOW_PORT: u8 = 2;
/// Parts of a frame's class.
pub(super) const FRAME_MAC: u8 = 1;
pub(super) const FRAME_ETHER_TYPE: u8 = 2;
pub(super) const FRAME_VLAN: u8 = 4;
/// What stands for no tag where a VLAN number would be.
pub(super) const UNTAGGED: u16 = 0xffff;
/// Bits of the word of classes in use: flows from 0, frames from 4, and exact flows.
pub(super) const FRAME_CLASSES_FROM: u32 = 4;
pub(super) const EXACT_CLASS: u32 = 12;

/// Where a filter is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Flow([u8; FLOW_KEY_BYTES]),
    ExactV4([u8; EXACT_V4_KEY_BYTES]),
    ExactV6([u8; EXACT_V6_KEY_BYTES]),
    Frame([u8; FRAME_KEY_BYTES]),
    /// The class says all.
    Everything,
}

impl FlowFilter {
    pub(super) fn class(&self) -> u8 {
        let address = if self.address.is_unspecified() { 0 } else { FLOW_ADDRESS };
        let port = if self.port == 0 { 0 } else { FLOW_PORT };
        address | port
    }

    fn key(&self) -> [u8; FLOW_KEY_BYTES] {
        let mut key = [0; FLOW_KEY_BYTES];
        let family = match self.address {
            IpAddr::V4(address) => {
                key[..4].copy_from_slice(&address.octets());
                4
            }
            IpAddr::V6(address) => {
                key[..16].copy_from_slice(&address.octets());
                6
            }
        };
        key[16..18].copy_from_slice(&self.port.to_be_bytes());
        key[18] = self.transport.number();
        key[19] = family | self.class() << 4;
        key
    }

    /// The same with only the parts of `class`.
    pub(super) fn only(self, class: u8) -> FlowFilter {
        let any = match self.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        FlowFilter {
            transport: self.transport,
            address: if class & FLOW_ADDRESS == 0 { any } else { self.address },
            port: if class & FLOW_PORT == 0 { 0 } else { self.port },
        }
    }
}

impl ExactFlow {
    fn key(&self) -> Key {
        let [remote_port, local_port] = [self.remote_port, self.local_port].map(u16::to_be_bytes);
        let protocol = u32::from(self.transport.number()).to_ne_bytes();
        let end = [[remote_port, local_port].concat(), protocol.to_vec()].concat();
        let addresses = match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let mut key = [0; EXACT_V4_KEY_BYTES];
                key[..4].copy_from_slice(&local.octets());
                key[4..8].copy_from_slice(&remote.octets());
                key[8..].copy_from_slice(&end);
                return Key::ExactV4(key);
            }
            (local, remote) => [local, remote].map(|address| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            }),
        };
        let mut key = [0; EXACT_V6_KEY_BYTES];
        key[..32].copy_from_slice(addresses.as_flattened());
        key[32..].copy_from_slice(&end);
        Key::ExactV6(key)
    }
}

impl FrameFilter {
    pub(super) fn class(&self) -> u8 {
        let bit = |given: bool, bit: u8| if given { bit } else { 0 };
        bit(self.mac.is_some(), FRAME_MAC)
            | bit(self.ether_type.is_some(), FRAME_ETHER_TYPE)
            | bit(self.vlan.is_some(), FRAME_VLAN)
    }

    fn key(&self) -> [u8; FRAME_KEY_BYTES] {
        let mut key = [0; FRAME_KEY_BYTES];
        let vlan = self.vlan.map_or(0, |vlan| match vlan {
            VlanMatch::Untagged => UNTAGGED,
            VlanMatch::Id(id) => id,
        });
        key[..6].copy_from_slice(&self.mac.unwrap_or_default());
        key[6..8].copy_from_slice(&self.ether_type.unwrap_or_default().to_be_bytes());
        key[8..10].copy_from_slice(&vlan.to_ne_bytes());
        key[10..].copy_from_slice(&u16::from(self.class()).to_ne_bytes());
        key
    }

    /// The same with only the parts of `class`.
    pub(super) fn only(self, class: u8) -> FrameFilter {
        FrameFilter {
            mac: self.mac.filter(|_| class & FRAME_MAC != 0),
            ether_type: self.ether_type.filter(|_| class & FRAME_ETHER_TYPE != 0),
            vlan: self.vlan.filter(|_| class & FRAME_VLAN != 0),
        }
    }
}

impl Filter {
    /// The bit of its class in the word of classes in use.
    pub(super) fn class_bit(&self) -> u32 {
        match self {
            Filter::Flow(flow) => 1 << flow.class(),
            Filter::Exact(_) => 1 << EXACT_CLASS,
            Filter::Frame(frame) => 1 << (FRAME_CLASSES_FROM + u32::from(frame.class())),
        }
    }

    pub(super) fn key(&self) -> Key {
        match self {
            Filter::Flow(flow) => Key::Flow(flow.key()),
            Filter::Exact(flow) => flow.key(),
            Filter::Frame(frame) if frame.class() == 0 => Key::Everything,
            Filter::Frame(frame) => Key::Frame(frame.key()),
        }
    }

    /// Fails for a filter that matches no frame.
    pub(super) fn check(&self) -> Result<(), FilterError> {
        let impossible = |why| Err(FilterError::Impossible { filter: *self, why });
        let frame = match self {
            Filter::Frame(frame) => frame,
            Filter::Exact(flow) if flow.local.is_ipv4() != flow.remote.is_ipv4() => {
                return impossible("its addresses are of two families");
            }
            Filter::Flow(_) | Filter::Exact(_) => return Ok(()),
        };
        if frame.ether_type.is_some_and(|ether_type| TAG_ETHER_TYPES.contains(&ether_type)) {
            return impossible("its EtherType is that of a VLAN tag, which is looked behind");
        }
        if matches!(frame.vlan, Some(VlanMatch::Id(id)) if id > VLAN_MOST) {
            return impossible("VLAN numbers end at 4094");
        }
        Ok(())
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        })
    }
}

impl fmt::Display for Filter {
    /// `udp 10.0.0.1 port 7000`, the same with `from 10.0.0.2 port 9000`, `mac 01:00:5e:00:00:01 type 0x0800 vlan 5`, `every frame`; a wildcard is `*`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frame = match self {
            Filter::Flow(FlowFilter { transport, address, port: 0 }) => {
                return write!(f, "{transport} {address} port *");
            }
            Filter::Flow(FlowFilter { transport, address, port }) => {
                return write!(f, "{transport} {address} port {port}");
            }
            Filter::Exact(flow) => {
                let ExactFlow { transport, local, local_port, remote, remote_port } = flow;
                return write!(f, "{transport} {local} port {local_port} from {remote} port {remote_port}");
            }
            Filter::Frame(frame) => frame,
        };
        if *frame == FrameFilter::default() {
            return f.write_str("every frame");
        }
        let mut words = Vec::new();
        if let Some(mac) = frame.mac {
            words.push(format!("mac {}", mac.map(|byte| format!("{byte:02x}")).join(":")));
        }
        words.extend(frame.ether_type.map(|ether_type| format!("type {ether_type:#06x}")));
        words.extend(frame.vlan.map(|vlan| match vlan {
            VlanMatch::Untagged => "untagged".to_owned(),
            VlanMatch::Id(id) => format!("vlan {id}"),
        }));
        f.write_str(&words.join(" "))
    }
}
