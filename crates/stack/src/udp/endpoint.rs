//! One endpoint: what a UDP socket is to the stack.

use crate::address::{Address, Family};
use crate::flow::Flow;

use super::membership::Membership;
use super::queue::Queue;

/// Names an endpoint. The name of a closed endpoint never names another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointId {
    pub(crate) index: u32,
    pub(crate) version: u32,
}

impl EndpointId {
    /// Where its owner may keep things of it in a table: small numbers, used again after a close.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// What to do about datagrams longer than the path carries: `IP_MTU_DISCOVER`, `IPV6_MTU_DISCOVER`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathMtuDiscovery {
    /// `IP_PMTUDISC_DONT`: routers may fragment.
    Dont,
    /// `IP_PMTUDISC_WANT`, the default: this host fragments, routers do not.
    #[default]
    Want,
    /// `IP_PMTUDISC_DO`: neither this host nor a router fragments.
    Do,
    /// `IP_PMTUDISC_PROBE`: as `Do`, and the path's MTU is ignored.
    Probe,
    /// `IP_PMTUDISC_INTERFACE`: the interface's MTU counts, routers may fragment.
    Interface,
    /// `IP_PMTUDISC_OMIT`: as `Interface`, and this host fragments.
    Omit,
}

/// The interface and source of group datagrams: `IP_MULTICAST_IF`, `IPV6_MULTICAST_IF`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MulticastInterface {
    /// Interface index.
    pub ifindex: u32,
    /// Source address; `None`: chosen.
    pub source: Option<std::net::IpAddr>,
}

/// Socket options, named for people; the kernel's names are in their docs. The defaults are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// `SO_REUSEADDR`.
    pub reuse_address: bool,
    /// `SO_REUSEPORT`: endpoints bound alike share unicast datagrams, by a hash of the flow.
    pub reuse_port: bool,
    /// `IPV6_V6ONLY`.
    pub v6_only: bool,
    /// `SO_BINDTODEVICE`, interface index.
    pub device: Option<u32>,
    /// `SO_BROADCAST`.
    pub broadcast: bool,
    /// `SO_RCVBUF` as the kernel keeps it, which is twice what was asked for.
    pub receive_buffer_bytes: u32,
    /// `SO_NO_CHECK`: IPv4 datagrams go without checksum.
    pub no_checksum: bool,
    /// Of level `IPPROTO_IP`.
    pub v4: FamilyOptions,
    /// Of level `IPPROTO_IPV6`.
    pub v6: FamilyOptions,
}

impl UdpOptions {
    /// Those that a datagram to or from an address of this family goes by.
    #[inline]
    #[must_use]
    pub const fn of(&self, family: Family) -> &FamilyOptions {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    /// Those of both families, to be changed alike.
    pub const fn of_each_family(&mut self) -> [&mut FamilyOptions; 2] {
        [&mut self.v4, &mut self.v6]
    }
}

/// Options that an IPv6 socket has twice: its datagrams to mapped addresses go by those of IPv4 (`udpv6_sendmsg`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyOptions {
    /// `IP_TTL`, `IPV6_UNICAST_HOPS`; `None`: the route's or the host's.
    pub ttl: Option<u8>,
    /// `IP_TOS`, `IPV6_TCLASS`.
    pub tos: u8,
    /// `IP_MULTICAST_TTL`, `IPV6_MULTICAST_HOPS`.
    pub multicast_ttl: u8,
    /// `IP_MULTICAST_LOOP`, `IPV6_MULTICAST_LOOP`.
    pub multicast_loop: bool,
    /// `IP_MULTICAST_ALL`, `IPV6_MULTICAST_ALL`: also groups that only others joined.
    pub multicast_all: bool,
    /// `IP_MULTICAST_IF`, `IPV6_MULTICAST_IF`.
    pub multicast_interface: Option<MulticastInterface>,
    /// `IP_MTU_DISCOVER`, `IPV6_MTU_DISCOVER`.
    pub path_mtu_discovery: PathMtuDiscovery,
    /// `IPV6_MTU`: longer packets are the kernel's, which fragments them.
    pub longest_packet_bytes: u32,
}

/// `net.core.rmem_default` on 64-bit machines.
pub const RECEIVE_BUFFER_DEFAULT_BYTES: u32 = 212_992;

impl Default for UdpOptions {
    fn default() -> UdpOptions {
        UdpOptions {
            reuse_address: false,
            reuse_port: false,
            v6_only: false,
            device: None,
            broadcast: false,
            receive_buffer_bytes: RECEIVE_BUFFER_DEFAULT_BYTES,
            no_checksum: false,
            v4: FamilyOptions::default(),
            v6: FamilyOptions::default(),
        }
    }
}

impl Default for FamilyOptions {
    fn default() -> FamilyOptions {
        FamilyOptions {
            ttl: None,
            tos: 0,
            multicast_ttl: 1,
            multicast_loop: true,
            multicast_all: true,
            multicast_interface: None,
            path_mtu_discovery: PathMtuDiscovery::Want,
            longest_packet_bytes: u32::MAX,
        }
    }
}

/// What decides whether a datagram is for an endpoint; together, because every lookup reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// `Address::ANY_V4` or `ANY_V6` when not bound to an address.
    pub(crate) local: Address,
    /// The same when not connected.
    pub(crate) remote: Address,
    /// 0: not bound.
    pub(crate) local_port: u16,
    /// 0: not connected, or connected to a host and no port.
    pub(crate) remote_port: u16,
    /// 0: any interface.
    pub(crate) device: u32,
    pub(crate) family: Family,
    pub(crate) v6_only: bool,
}

impl Key {
    #[inline]
    pub(crate) const fn is_connected(&self) -> bool {
        !self.remote.is_any()
    }

    /// Whether the endpoint takes datagrams of this family.
    #[inline]
    pub(crate) const fn takes(&self, family: Family) -> bool {
        match (self.family, family) {
            (Family::V4, Family::V4) => true,
            (Family::V4, Family::V6) => false,
            (Family::V6, Family::V4) => !self.v6_only && (self.local.is_v4() || self.is_any_v6()),
            (Family::V6, Family::V6) => !self.local.is_v4(),
        }
    }

    #[inline]
    const fn is_any_v6(&self) -> bool {
        self.local.0 == Address::ANY_V6.0
    }
}

/// An endpoint. In the order in which a datagram needs it, by lines of the cache: whom it is for; the queue, and whether the way
/// back is known; that way; options.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Endpoint {
    pub(crate) key: Key,
    pub(crate) version: u32,
    /// Is in the list of those that became readable.
    pub(crate) is_announced: bool,
    /// The local address was given to bind() and outlives the connection.
    pub(crate) is_address_locked: bool,
    /// The kernel has datagrams for it that come before those that arrive, and there is no room for them.
    pub(crate) is_behind_kernel: bool,
    /// IPv4 identification of the next datagram that may be fragmented, or is of a connection.
    pub(crate) identification: u16,
    /// Datagrams dropped for want of room (`sk_drops`).
    pub(crate) dropped: u32,
    /// Number of the reuseport group plus 1; 0: none.
    pub(crate) group: u32,
    pub(crate) queue: Queue,
    pub(crate) flow: Flow,
    pub(crate) options: UdpOptions,
    pub(crate) memberships: Vec<Membership>,
}

impl Endpoint {
    pub(crate) fn new(family: Family, version: u32, options: UdpOptions, identification: u16) -> Endpoint {
        let any = if family == Family::V4 { Address::ANY_V4 } else { Address::ANY_V6 };
        let key = Key {
            local: any,
            remote: any,
            local_port: 0,
            remote_port: 0,
            device: options.device.unwrap_or(0),
            family,
            v6_only: options.v6_only,
        };
        Endpoint {
            key,
            version,
            is_announced: false,
            is_address_locked: false,
            is_behind_kernel: false,
            group: 0,
            identification,
            queue: Queue::default(),
            dropped: 0,
            options,
            flow: Flow::default(),
            memberships: Vec::new(),
        }
    }

    pub(crate) const fn any(&self) -> Address {
        if matches!(self.key.family, Family::V4) { Address::ANY_V4 } else { Address::ANY_V6 }
    }
}
