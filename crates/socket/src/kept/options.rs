//! The options of a UDP socket: which are known here, and which only the kernel knows.

use std::net::Ipv4Addr;

use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_SOCKET};
use nearwire_stack::{Family, MulticastInterface, PathMtuDiscovery};

use super::{Kept, PEEK_OFFSET, SO_BINDTOIFINDEX, TIMESTAMPING};

/// Options of asm-generic/socket.h, linux/in.h and in6.h that the libc crate does not name.
const SO_BSDCOMPAT: i32 = 14;
const SO_CNX_ADVICE: i32 = 53;
const SO_RCVTIMEO_NEW: i32 = 66;
const SO_SNDTIMEO_NEW: i32 = 67;
const SO_DETACH_REUSEPORT_BPF: i32 = 68;
const SO_BUF_LOCK: i32 = 72;
const SO_RESERVE_MEM: i32 = 73;
const SO_TXREHASH: i32 = 74;
const IP_MULTICAST_ALL: i32 = 49;
const IP_LOCAL_PORT_RANGE: i32 = 51;
const IPV6_MULTICAST_ALL: i32 = 29;
const IPV6_DONTFRAG: i32 = 62;
const IPV6_MINHOPCOUNT: i32 = 73;
const IPV6_FREEBIND: i32 = 78;

/// Which family's sockets have an option. IPv6 ones have those of IPv4 too, for mapped addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Both,
    V6,
}

impl Of {
    pub(super) fn has(self, family: Family) -> bool {
        self == Of::Both || family == Family::V6
    }
}

/// An option that getsockopt(2) reads as a number, and what of [`Kept`] it is.
pub(super) struct Known {
    /// Level and name.
    pub name: (i32, i32),
    pub of: Of,
    pub take: fn(&mut Kept, i32),
}

const fn known(of: Of, level: i32, name: i32, take: fn(&mut Kept, i32)) -> Known {
    Known { name: (level, name), of, take }
}

/// All that are known.
pub(super) const KNOWN: &[Known] = &[
    known(Of::Both, SOL_SOCKET, libc::SO_REUSEADDR, |kept, value| kept.options.reuse_address = value != 0),
    known(Of::Both, SOL_SOCKET, libc::SO_REUSEPORT, |kept, value| kept.options.reuse_port = value != 0),
    known(Of::Both, SOL_SOCKET, SO_BINDTOIFINDEX, |kept, value| {
        kept.options.device = Some(value as u32).filter(|ifindex| *ifindex != 0);
    }),
    known(Of::Both, SOL_SOCKET, libc::SO_BROADCAST, |kept, value| kept.options.broadcast = value != 0),
    known(Of::Both, SOL_SOCKET, libc::SO_RCVBUF, |kept, value| kept.options.receive_buffer_bytes = value as u32),
    known(Of::Both, SOL_SOCKET, libc::SO_NO_CHECK, |kept, value| kept.options.no_checksum = value != 0),
    // What setsockopt(IP_TTL) was given, or the host's default, which is what a datagram would have.
    known(Of::Both, IPPROTO_IP, libc::IP_TTL, |kept, value| kept.options.v4.ttl = u8::try_from(value).ok()),
    known(Of::Both, IPPROTO_IP, libc::IP_TOS, |kept, value| kept.options.v4.tos = value as u8),
    known(Of::Both, IPPROTO_IP, libc::IP_MULTICAST_TTL, |kept, value| kept.options.v4.multicast_ttl = value as u8),
    known(Of::Both, IPPROTO_IP, libc::IP_MULTICAST_LOOP, |kept, value| kept.options.v4.multicast_loop = value != 0),
    known(Of::Both, IPPROTO_IP, IP_MULTICAST_ALL, |kept, value| kept.options.v4.multicast_all = value != 0),
    // An address of the interface.
    known(Of::Both, IPPROTO_IP, libc::IP_MULTICAST_IF, |kept, value| {
        let source = Some(Ipv4Addr::from(value.to_ne_bytes())).filter(|source| !source.is_unspecified());
        kept.options.v4.multicast_interface =
            source.map(|source| MulticastInterface { ifindex: 0, source: Some(source.into()) });
    }),
    known(Of::Both, IPPROTO_IP, libc::IP_MTU_DISCOVER, |kept, value| {
        kept.options.v4.path_mtu_discovery = discovery(value)
    }),
    known(Of::V6, IPPROTO_IPV6, libc::IPV6_V6ONLY, |kept, value| kept.options.v6_only = value != 0),
    known(Of::V6, IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, |kept, value| kept.options.v6.ttl = u8::try_from(value).ok()),
    known(Of::V6, IPPROTO_IPV6, libc::IPV6_TCLASS, |kept, value| kept.options.v6.tos = value as u8),
    known(Of::V6, IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, |kept, value| kept.options.v6.multicast_ttl = value as u8),
    known(Of::V6, IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, |kept, value| kept.options.v6.multicast_loop = value != 0),
    known(Of::V6, IPPROTO_IPV6, IPV6_MULTICAST_ALL, |kept, value| kept.options.v6.multicast_all = value != 0),
    known(Of::V6, IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, |kept, value| {
        let ifindex = value as u32;
        kept.options.v6.multicast_interface =
            Some(MulticastInterface { ifindex, source: None }).filter(|_| ifindex != 0);
    }),
    known(Of::V6, IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, |kept, value| {
        kept.options.v6.path_mtu_discovery = discovery(value);
    }),
    known(Of::Both, IPPROTO_IP, libc::IP_PKTINFO, |kept, value| kept.ancillary.packet_info = value != 0),
    known(Of::Both, IPPROTO_IP, libc::IP_RECVTTL, |kept, value| kept.ancillary.ttl = value != 0),
    known(Of::Both, IPPROTO_IP, libc::IP_RECVTOS, |kept, value| kept.ancillary.tos = value != 0),
    known(Of::Both, IPPROTO_IP, libc::IP_RECVORIGDSTADDR, |kept, value| {
        kept.ancillary.original_destination = value != 0;
    }),
    known(Of::V6, IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, |kept, value| kept.ancillary.packet_info_v6 = value != 0),
    known(Of::V6, IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, |kept, value| kept.ancillary.hop_limit = value != 0),
    known(Of::V6, IPPROTO_IPV6, libc::IPV6_RECVTCLASS, |kept, value| kept.ancillary.traffic_class = value != 0),
    known(Of::Both, SOL_SOCKET, libc::SO_TIMESTAMP, |kept, value| kept.ancillary.timestamp_us = value != 0),
    known(Of::Both, SOL_SOCKET, libc::SO_TIMESTAMPNS, |kept, value| kept.ancillary.timestamp_ns = value != 0),
    known(Of::Both, TIMESTAMPING.0, TIMESTAMPING.1, |kept, value| kept.ancillary.timestamping = value as u32),
    known(Of::Both, SOL_SOCKET, libc::SO_RXQ_OVFL, |kept, value| kept.ancillary.drops = value != 0),
    known(Of::Both, IPPROTO_IP, libc::IP_RECVERR, |kept, value| kept.asks_for_errors_v4 = value != 0),
    known(Of::V6, IPPROTO_IPV6, libc::IPV6_RECVERR, |kept, value| kept.asks_for_errors_v6 = value != 0),
];

/// `IP_PMTUDISC_*` and `IPV6_PMTUDISC_*` have the same numbers.
const fn discovery(value: i32) -> PathMtuDiscovery {
    match value {
        libc::IP_PMTUDISC_DONT => PathMtuDiscovery::Dont,
        libc::IP_PMTUDISC_DO => PathMtuDiscovery::Do,
        libc::IP_PMTUDISC_PROBE => PathMtuDiscovery::Probe,
        libc::IP_PMTUDISC_INTERFACE => PathMtuDiscovery::Interface,
        libc::IP_PMTUDISC_OMIT => PathMtuDiscovery::Omit,
        _ => PathMtuDiscovery::Want,
    }
}

/// Level and name.
type Name = (i32, i32);

/// The second of the first two sets the other, and both say which times only the kernel knows.
const TIMES: &[Name] = &[(SOL_SOCKET, libc::SO_TIMESTAMP), (SOL_SOCKET, libc::SO_TIMESTAMPNS), TIMESTAMPING];

/// Options that are read by another name, or with others.
const READ_AS: &[(Name, &[Name])] = &[
    ((SOL_SOCKET, libc::SO_RCVBUFFORCE), &[(SOL_SOCKET, libc::SO_RCVBUF)]),
    ((SOL_SOCKET, libc::SO_BINDTODEVICE), &[(SOL_SOCKET, SO_BINDTOIFINDEX)]),
    (TIMES[0], TIMES),
    (TIMES[1], TIMES),
    (TIMES[2], TIMES),
];

/// Options that nothing here depends on: they concern other kinds of sockets, or what the kernel does with the socket itself.
const WITHOUT_EFFECT: &[Name] = &[
    (SOL_SOCKET, libc::SO_DEBUG),
    (SOL_SOCKET, libc::SO_SNDBUF),
    (SOL_SOCKET, libc::SO_SNDBUFFORCE),
    (SOL_SOCKET, libc::SO_SNDTIMEO),
    (SOL_SOCKET, SO_SNDTIMEO_NEW),
    (SOL_SOCKET, libc::SO_PRIORITY),
    (SOL_SOCKET, libc::SO_KEEPALIVE),
    (SOL_SOCKET, libc::SO_LINGER),
    (SOL_SOCKET, libc::SO_OOBINLINE),
    (SOL_SOCKET, SO_BSDCOMPAT),
    (SOL_SOCKET, libc::SO_PASSCRED),
    (SOL_SOCKET, libc::SO_RCVLOWAT),
    (SOL_SOCKET, libc::SO_DETACH_FILTER),
    // The shadow's error queue is polled for POLLPRI either way.
    (SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE),
    (SOL_SOCKET, SO_CNX_ADVICE),
    (SOL_SOCKET, SO_DETACH_REUSEPORT_BPF),
    (SOL_SOCKET, SO_BUF_LOCK),
    (SOL_SOCKET, SO_RESERVE_MEM),
    (SOL_SOCKET, SO_TXREHASH),
    (SOL_SOCKET, libc::SO_BUSY_POLL),
    (SOL_SOCKET, libc::SO_PREFER_BUSY_POLL),
    (SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET),
    (SOL_SOCKET, libc::SO_INCOMING_CPU),
    (IPPROTO_IP, libc::IP_FREEBIND),
    (IPPROTO_IP, libc::IP_MINTTL),
    (IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT),
    (IPPROTO_IP, IP_LOCAL_PORT_RANGE),
    // A datagram that does not fit is the kernel's, which fragments or refuses it.
    (IPPROTO_IPV6, libc::IPV6_MTU),
    (IPPROTO_IPV6, IPV6_DONTFRAG),
    (IPPROTO_IPV6, IPV6_MINHOPCOUNT),
    (IPPROTO_IPV6, IPV6_FREEBIND),
];

/// Whether it is known what an option does, be it that only the kernel can do it. What new kernels have may change anything.
pub fn is_known(set: Name) -> bool {
    let is_kernels = || ONLY_KERNEL.iter().any(|(level, name, ..)| (*level, *name) == set);
    OTHERS.contains(&set) || changed_by(set).is_some() || is_kernels()
}

/// Known, and read in ways of their own.
const OTHERS: &[Name] = &[(SOL_SOCKET, libc::SO_RCVTIMEO), (SOL_SOCKET, SO_RCVTIMEO_NEW), PEEK_OFFSET];

/// Which of [`KNOWN`] an option may change that was set; `None`: any, and any of [`ONLY_KERNEL`].
pub(super) fn changed_by(set: Name) -> Option<&'static [Name]> {
    if WITHOUT_EFFECT.contains(&set) {
        return Some(&[]);
    }
    let other = READ_AS.iter().find(|(name, _)| *name == set).map(|(_, read)| *read);
    other.or_else(|| KNOWN.iter().find(|known| known.name == set).map(|known| std::slice::from_ref(&known.name)))
}

macro_rules! only_kernel_options {
    ($($of:ident $level:path, $($name:ident = $value:expr),+;)*) => {
        /// Options with an effect on datagrams that neither the stack nor the receive path has: a socket that has one set is
        /// the kernel's. Level, name, which sockets have it, and its C name.
        pub(super) const ONLY_KERNEL: &[(i32, i32, Of, &str)] = &[$($(($level, $value, Of::$of, stringify!($name))),+),*];
    };
}

only_kernel_options! {
    Both libc::SOL_SOCKET,
        SO_DONTROUTE = libc::SO_DONTROUTE, SO_MARK = libc::SO_MARK, SO_LOCK_FILTER = libc::SO_LOCK_FILTER,
        SO_ZEROCOPY = libc::SO_ZEROCOPY, SO_TXTIME = 61, SO_RCVMARK = 75,
        SO_RCVPRIORITY = 82;
    Both libc::IPPROTO_IP,
        IP_HDRINCL = libc::IP_HDRINCL, IP_RECVOPTS = libc::IP_RECVOPTS, IP_RETOPTS = libc::IP_RETOPTS,
        IP_PASSSEC = libc::IP_PASSSEC, IP_TRANSPARENT = libc::IP_TRANSPARENT, IP_CHECKSUM = 23, IP_RECVFRAGSIZE = 25,
        IP_RECVERR_RFC4884 = 26, IP_UNICAST_IF = 50;
    V6 libc::IPPROTO_IPV6,
        IPV6_2292PKTINFO = 2, IPV6_2292HOPOPTS = 3, IPV6_2292DSTOPTS = 4, IPV6_2292RTHDR = 5, IPV6_2292HOPLIMIT = 8,
        IPV6_FLOWINFO = libc::IPV6_FLOWINFO, IPV6_FLOWINFO_SEND = 33, IPV6_RECVERR_RFC4884 = 31,
        IPV6_RECVHOPOPTS = libc::IPV6_RECVHOPOPTS, IPV6_RECVRTHDR = libc::IPV6_RECVRTHDR,
        IPV6_RECVDSTOPTS = libc::IPV6_RECVDSTOPTS, IPV6_RECVPATHMTU = 60,
        IPV6_RECVORIGDSTADDR = libc::IPV6_RECVORIGDSTADDR, IPV6_TRANSPARENT = 75, IPV6_UNICAST_IF = 76,
        IPV6_RECVFRAGSIZE = 77;
    Both libc::IPPROTO_UDP,
        UDP_CORK = 1, UDP_ENCAP = 100, UDP_NO_CHECK6_TX = 101, UDP_NO_CHECK6_RX = 102, UDP_SEGMENT = 103, UDP_GRO = 104;
}

#[cfg(test)]
pub(super) mod tests {
    use super::{KNOWN, Name, ONLY_KERNEL, READ_AS, WITHOUT_EFFECT};

    /// All that are named here.
    pub fn names() -> impl Iterator<Item = Name> {
        let kernels = ONLY_KERNEL.iter().map(|(level, name, ..)| (*level, *name));
        KNOWN
            .iter()
            .map(|known| known.name)
            .chain(READ_AS.iter().map(|(set, _)| *set))
            .chain(WITHOUT_EFFECT.iter().copied())
            .chain(kernels)
    }
}
