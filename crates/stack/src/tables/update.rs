//! Changes of links, addresses, routes, neighbours and groups, in the shape of rtnetlink's messages.

use std::net::{IpAddr, Ipv4Addr};

use nearwire_wire::MacAddress;
use nearwire_wire::ethernet::TagKind;

use super::paths::Path;

/// One event. A listener turns each rtnetlink message into one of these; a wholesale resync is a list of `New...`
/// (see [`Stack::resync`](crate::Stack::resync)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// RTM_NEWLINK: a link came or changed.
    NewLink(Link),
    /// RTM_DELLINK: a link was removed, with its addresses, routes and neighbours.
    DelLink {
        /// Interface index.
        ifindex: u32,
    },
    /// RTM_NEWADDR: an address came or changed.
    NewAddress(InterfaceAddress),
    /// RTM_DELADDR: an address went.
    DelAddress {
        /// Interface index.
        ifindex: u32,
        /// The address.
        address: IpAddr,
    },
    /// RTM_NEWROUTE.
    NewRoute {
        /// The route.
        route: Route,
        /// NLM_F_REPLACE: it takes the place of one of the same prefix, table and metric.
        replaces: bool,
    },
    /// RTM_DELROUTE: the first route that equals this one in prefix, table, kind, metric, interface and gateway.
    DelRoute(Route),
    /// RTM_NEWNEIGH: a neighbour came or changed its state.
    NewNeighbour(Neighbour),
    /// RTM_DELNEIGH.
    DelNeighbour {
        /// Interface index.
        ifindex: u32,
        /// The neighbour's IP address.
        address: IpAddr,
    },
    /// A group was joined on an interface by the kernel or another program (RTM_NEWMULTICAST, `/proc/net/igmp`,
    /// `/proc/net/igmp6`).
    NewGroup {
        /// Interface index.
        ifindex: u32,
        /// The group.
        group: IpAddr,
    },
    /// The last member of a group left.
    DelGroup {
        /// Interface index.
        ifindex: u32,
        /// The group.
        group: IpAddr,
    },
    /// What the kernel knows of the path to a destination ([`Stack::take_path_question`](crate::Stack::take_path_question)).
    Path {
        /// Interface index.
        ifindex: u32,
        /// The far end.
        destination: IpAddr,
        /// The answer; `None`: it is out of date and must be asked for again.
        path: Option<Path>,
    },
    /// Whether there are routing rules other than the kernel's own three (`ip rule`).
    PolicyRules {
        /// There are.
        present: bool,
    },
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub ifindex: u32,
    /// Hardware address.
    pub mac: MacAddress,
    /// Longest IP packet.
    pub mtu_bytes: u32,
    /// IFF_UP; carrier does not matter, as it does not to the kernel's routes by default.
    pub is_up: bool,
    /// What kind of link.
    pub kind: LinkKind,
}

/// What kind of link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Ethernet: may have a port of ours.
    Ethernet,
    /// A VLAN of another link.
    Vlan {
        /// Interface index of the link below.
        parent: u32,
        /// 802.1Q or 802.1ad.
        tag: TagKind,
        /// VLAN identifier, 0 to 4095.
        vlan_id: u16,
    },
    /// The loopback device.
    Loopback,
    /// Tunnels, bonds, bridges and the rest: the kernel serves them.
    Other,
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Interface index.
    pub ifindex: u32,
    /// The address (IFA_LOCAL, else IFA_ADDRESS).
    pub address: IpAddr,
    /// Length of the subnet's prefix, bits.
    pub prefix_len: u8,
    /// IFA_BROADCAST.
    pub broadcast: Option<Ipv4Addr>,
    /// IFA_F_SECONDARY of IPv4: not chosen as a source.
    pub is_secondary: bool,
    /// IFA_F_DEPRECATED: chosen as a source only for want of another.
    pub is_deprecated: bool,
    /// IFA_F_TEMPORARY: a privacy address, chosen only for want of another.
    pub is_temporary: bool,
    /// IFA_F_TENTATIVE or IFA_F_DADFAILED: not ours yet.
    pub is_tentative: bool,
}

/// Which of the kernel's routing tables; others need policy rules, which are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteTable {
    /// RT_TABLE_LOCAL, asked first.
    Local,
    /// RT_TABLE_MAIN.
    Main,
    /// RT_TABLE_DEFAULT, asked last.
    Default,
}

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// RTN_UNICAST.
    Unicast,
    /// RTN_LOCAL, RTN_ANYCAST: to this host.
    Local,
    /// RTN_BROADCAST.
    Broadcast,
    /// RTN_MULTICAST.
    Multicast,
    /// RTN_BLACKHOLE, RTN_UNREACHABLE, RTN_PROHIBIT.
    Unreachable,
    /// RTN_THROW: go on with the next table.
    Throw,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its table.
    pub table: RouteTable,
    /// What it does.
    pub kind: RouteKind,
    /// Destination prefix; the default route is `0.0.0.0` or `::` with length 0.
    pub destination: IpAddr,
    /// Length of the prefix, bits.
    pub prefix_len: u8,
    /// RTA_OIF.
    pub ifindex: u32,
    /// RTA_GATEWAY or RTA_VIA; `None`: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// RTA_PREFSRC.
    pub preferred_source: Option<IpAddr>,
    /// RTA_PRIORITY: the lowest wins.
    pub metric: u32,
    /// RTAX_MTU.
    pub mtu_bytes: Option<u32>,
    /// RTAX_LOCK of the MTU: path MTU discovery is off.
    pub is_mtu_locked: bool,
    /// RTAX_HOPLIMIT.
    pub hop_limit: Option<u8>,
    /// RTA_MULTIPATH or a nexthop group: the kernel chooses.
    pub is_multipath: bool,
    /// RTA_ENCAP, a type of service, or anything else that only the kernel does.
    pub is_unsupported: bool,
}

impl Route {
    /// A route of the main table with nothing but its destination and interface.
    #[must_use]
    pub const fn on_link(destination: IpAddr, prefix_len: u8, ifindex: u32) -> Route {
        Route {
            table: RouteTable::Main,
            kind: RouteKind::Unicast,
            destination,
            prefix_len,
            ifindex,
            gateway: None,
            preferred_source: None,
            metric: 0,
            mtu_bytes: None,
            is_mtu_locked: false,
            hop_limit: None,
            is_multipath: false,
            is_unsupported: false,
        }
    }

    /// The same through a gateway.
    #[must_use]
    pub const fn via(self, gateway: IpAddr) -> Route {
        Route { gateway: Some(gateway), ..self }
    }
}

/// The kernel's states of a neighbour (`NUD_*`, `include/uapi/linux/neighbour.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Asked for, no answer yet.
    Incomplete,
    /// Confirmed lately.
    Reachable,
    /// Was right once; the kernel confirms it when it is used.
    Stale,
    /// Used when stale; the kernel waits for a confirmation.
    Delay,
    /// The kernel asks again.
    Probe,
    /// Did not answer.
    Failed,
    /// Needs no resolution.
    Noarp,
    /// Set by hand.
    Permanent,
}

impl NeighbourState {
    /// Whether the hardware address may be used: the kernel's `NUD_VALID`.
    #[must_use]
    pub const fn is_usable(self) -> bool {
        !matches!(self, NeighbourState::Incomplete | NeighbourState::Failed)
    }
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Interface index.
    pub ifindex: u32,
    /// Its IP address.
    pub address: IpAddr,
    /// Its hardware address; meaningless where the state is not usable.
    pub mac: MacAddress,
    /// What the kernel thinks of it.
    pub state: NeighbourState,
}
