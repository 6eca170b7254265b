//! What the kernel keeps of a socket, read from its shadow. Every option is set on the shadow first, by the kernel's own
//! checks; what matters here is read back, so there is one place that knows an option's value.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use nearwire_frames::ports::xdp::TimesWanted;
use nearwire_stack::{Family, MulticastInterface, PathMtuDiscovery, UdpOptions};
use nearwire_sys::descriptor::Descriptor;
use nearwire_sys::socket::int_option;
use rustix::net::sockopt::{self, Timeout};

/// Options of linux/in.h, in6.h and socket.h that neither rustix nor the libc crate names.
const SO_BINDTOIFINDEX: i32 = 62;
const IP_MULTICAST_ALL: i32 = 49;
const IPV6_MULTICAST_ALL: i32 = 29;
/// Of linux/net_tstamp.h, Linux 6.12.
const SOF_TIMESTAMPING_OPT_RX_FILTER: u32 = 1 << 17;
/// The same: the device's time is converted to that of a clock that another interface of the kernel made.
const SOF_TIMESTAMPING_BIND_PHC: u32 = 1 << 15;

/// What recvmsg(2) tells beside the datagram, as options ask for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ancillary {
    /// `IP_PKTINFO`.
    pub packet_info: bool,
    /// `IP_RECVTTL`.
    pub ttl: bool,
    /// `IP_RECVTOS`.
    pub tos: bool,
    /// `IP_RECVORIGDSTADDR`.
    pub original_destination: bool,
    /// `IPV6_RECVPKTINFO`.
    pub packet_info_v6: bool,
    /// `IPV6_RECVHOPLIMIT`.
    pub hop_limit: bool,
    /// `IPV6_RECVTCLASS`.
    pub traffic_class: bool,
    /// `SO_TIMESTAMP`.
    pub timestamp_us: bool,
    /// `SO_TIMESTAMPNS`.
    pub timestamp_ns: bool,
    /// `SO_TIMESTAMPING`, its flags.
    pub timestamping: u32,
    /// `SO_RXQ_OVFL`.
    pub drops: bool,
}

impl Ancillary {
    /// Nothing is told.
    pub const NONE: Ancillary = Ancillary {
        packet_info: false,
        ttl: false,
        tos: false,
        original_destination: false,
        packet_info_v6: false,
        hop_limit: false,
        traffic_class: false,
        timestamp_us: false,
        timestamp_ns: false,
        timestamping: 0,
        drops: false,
    };

    /// Which times a datagram needs.
    #[must_use]
    pub const fn wants_times(&self) -> Option<TimesWanted> {
        if self.tells_device_time() {
            Some(TimesWanted::Device)
        } else if self.timestamp_us || self.timestamp_ns || self.timestamping != 0 {
            Some(TimesWanted::Kernel)
        } else {
            None
        }
    }

    /// SO_TIMESTAMP and SO_TIMESTAMPNS tell a time of every datagram; SO_TIMESTAMPING leaves out what nobody took.
    #[inline]
    #[must_use]
    pub const fn must_tell_time(&self) -> bool {
        self.timestamp_us || self.timestamp_ns
    }

    /// SO_TIMESTAMPING tells when the host had a datagram (`__sock_recv_timestamp`).
    #[must_use]
    pub const fn tells_host_time(&self) -> bool {
        self.tells(libc::SOF_TIMESTAMPING_SOFTWARE, libc::SOF_TIMESTAMPING_RX_SOFTWARE)
    }

    /// And when the device had it, where it says.
    #[must_use]
    pub const fn tells_device_time(&self) -> bool {
        self.tells(libc::SOF_TIMESTAMPING_RAW_HARDWARE, libc::SOF_TIMESTAMPING_RX_HARDWARE)
    }

    /// To be told a time is enough; that it be taken has to be asked for only by who filters.
    const fn tells(&self, report: u32, take: u32) -> bool {
        let filters = self.timestamping & SOF_TIMESTAMPING_OPT_RX_FILTER != 0;
        self.timestamping & report != 0 && (!filters || self.timestamping & take != 0)
    }
}

/// What the kernel keeps.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// What the stack goes by.
    pub options: UdpOptions,
    /// What recvmsg tells.
    pub ancillary: Ancillary,
    /// `SO_RCVTIMEO`.
    pub receive_timeout: Option<Duration>,
    /// `IP_RECVERR` or `IPV6_RECVERR`.
    pub asks_for_errors: bool,
    /// An option is set that only the kernel knows: its level and name.
    pub only_kernel: Option<(i32, i32)>,
}

impl Kept {
    /// Reads everything. An option that cannot be read has its default: kernels know different ones.
    #[must_use]
    pub fn read(shadow: Descriptor, family: Family) -> Kept {
        Kept {
            options: options(shadow, family),
            ancillary: ancillary(shadow, family),
            receive_timeout: receive_timeout(shadow),
            asks_for_errors: flag(shadow, libc::IPPROTO_IP, libc::IP_RECVERR)
                || family == Family::V6 && flag(shadow, libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
            only_kernel: only_kernel(shadow, family),
        }
    }
}

/// SO_RCVTIMEO; `None`: it waits as long as it takes.
#[must_use]
pub fn receive_timeout(shadow: Descriptor) -> Option<Duration> {
    sockopt::socket_timeout(shadow, Timeout::Recv).ok().flatten()
}

/// Whether the kernel lets others have the port of a socket too.
pub(crate) fn may_share_port(shadow: Descriptor) -> bool {
    let options = [libc::SO_REUSEADDR, libc::SO_REUSEPORT, SO_BINDTOIFINDEX];
    options.iter().any(|option| flag(shadow, libc::SOL_SOCKET, *option))
}

fn flag(shadow: Descriptor, level: i32, option: i32) -> bool {
    number(shadow, level, option) != 0
}

fn number(shadow: Descriptor, level: i32, option: i32) -> i32 {
    int_option(shadow, level, option).unwrap_or(0)
}

fn options(shadow: Descriptor, family: Family) -> UdpOptions {
    let socket = |option| flag(shadow, libc::SOL_SOCKET, option);
    let common = UdpOptions {
        reuse_address: socket(libc::SO_REUSEADDR),
        reuse_port: socket(libc::SO_REUSEPORT),
        device: Some(number(shadow, libc::SOL_SOCKET, SO_BINDTOIFINDEX) as u32).filter(|ifindex| *ifindex != 0),
        broadcast: socket(libc::SO_BROADCAST),
        receive_buffer_bytes: number(shadow, libc::SOL_SOCKET, libc::SO_RCVBUF) as u32,
        no_checksum: socket(libc::SO_NO_CHECK),
        ..UdpOptions::default()
    };
    match family {
        Family::V4 => UdpOptions { ..v4_options(shadow, common) },
        Family::V6 => {
            UdpOptions { v6_only: flag(shadow, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY), ..v6_options(shadow, common) }
        }
    }
}

fn v4_options(shadow: Descriptor, common: UdpOptions) -> UdpOptions {
    let ip = |option| int_option(shadow, libc::IPPROTO_IP, option).unwrap_or(0);
    let source = sockopt::ip_multicast_if(shadow).ok().filter(|source| !source.is_unspecified());
    UdpOptions {
        // What setsockopt(IP_TTL) was given, or the host's default, which is what a datagram would have.
        ttl: u8::try_from(ip(libc::IP_TTL)).ok(),
        tos: ip(libc::IP_TOS) as u8,
        multicast_ttl: ip(libc::IP_MULTICAST_TTL) as u8,
        multicast_loop: ip(libc::IP_MULTICAST_LOOP) != 0,
        multicast_all: ip(IP_MULTICAST_ALL) != 0,
        multicast_interface: source.map(|source| MulticastInterface { ifindex: 0, source: Some(source.into()) }),
        path_mtu_discovery: discovery(ip(libc::IP_MTU_DISCOVER)),
        ..common
    }
}

fn v6_options(shadow: Descriptor, common: UdpOptions) -> UdpOptions {
    let ip = |option| int_option(shadow, libc::IPPROTO_IPV6, option).unwrap_or(0);
    let ifindex = ip(libc::IPV6_MULTICAST_IF) as u32;
    UdpOptions {
        ttl: u8::try_from(ip(libc::IPV6_UNICAST_HOPS)).ok(),
        tos: ip(libc::IPV6_TCLASS) as u8,
        multicast_ttl: ip(libc::IPV6_MULTICAST_HOPS) as u8,
        multicast_loop: ip(libc::IPV6_MULTICAST_LOOP) != 0,
        multicast_all: ip(IPV6_MULTICAST_ALL) != 0,
        multicast_interface: Some(MulticastInterface { ifindex, source: None }).filter(|_| ifindex != 0),
        path_mtu_discovery: discovery(ip(libc::IPV6_MTU_DISCOVER)),
        ..common
    }
}

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

fn ancillary(shadow: Descriptor, family: Family) -> Ancillary {
    let socket = |option| flag(shadow, libc::SOL_SOCKET, option);
    let v4 = |option| flag(shadow, libc::IPPROTO_IP, option);
    let v6 = |option| family == Family::V6 && flag(shadow, libc::IPPROTO_IPV6, option);
    Ancillary {
        packet_info: v4(libc::IP_PKTINFO),
        ttl: v4(libc::IP_RECVTTL),
        tos: v4(libc::IP_RECVTOS),
        original_destination: v4(libc::IP_RECVORIGDSTADDR),
        packet_info_v6: v6(libc::IPV6_RECVPKTINFO),
        hop_limit: v6(libc::IPV6_RECVHOPLIMIT),
        traffic_class: v6(libc::IPV6_RECVTCLASS),
        timestamp_us: socket(libc::SO_TIMESTAMP),
        timestamp_ns: socket(libc::SO_TIMESTAMPNS),
        timestamping: number(shadow, libc::SOL_SOCKET, libc::SO_TIMESTAMPING) as u32,
        drops: socket(libc::SO_RXQ_OVFL),
    }
}

/// Which family's sockets have an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Both,
    V4,
    V6,
}

macro_rules! only_kernel_options {
    ($($of:ident $level:path, $($name:ident = $value:expr),+;)*) => {
        /// Options with an effect on datagrams that neither the stack nor the receive path has: a socket that has one set is
        /// the kernel's. Level, name, which sockets have it, and its C name.
        const ONLY_KERNEL: &[(i32, i32, Of, &str)] = &[$($(($level, $value, Of::$of, stringify!($name))),+),*];
    };
}

only_kernel_options! {
    Both libc::SOL_SOCKET,
        SO_MARK = libc::SO_MARK, SO_TXTIME = 61, SO_LOCK_FILTER = libc::SO_LOCK_FILTER, SO_ZEROCOPY = libc::SO_ZEROCOPY;
    V4 libc::IPPROTO_IP,
        IP_RECVOPTS = libc::IP_RECVOPTS, IP_RETOPTS = libc::IP_RETOPTS, IP_TRANSPARENT = libc::IP_TRANSPARENT,
        IP_HDRINCL = libc::IP_HDRINCL;
    V6 libc::IPPROTO_IPV6,
        IPV6_RECVRTHDR = libc::IPV6_RECVRTHDR, IPV6_RECVHOPOPTS = libc::IPV6_RECVHOPOPTS,
        IPV6_RECVDSTOPTS = libc::IPV6_RECVDSTOPTS, IPV6_FLOWINFO = libc::IPV6_FLOWINFO,
        IPV6_RECVORIGDSTADDR = libc::IPV6_RECVORIGDSTADDR;
    Both libc::IPPROTO_UDP,
        UDP_CORK = 1, UDP_ENCAP = 100, UDP_NO_CHECK6_TX = 101, UDP_SEGMENT = 103, UDP_GRO = 104;
}

/// Level and name.
pub(crate) const TIMESTAMPING: (i32, i32) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
const PEEK_OFFSET: (i32, i32) = (libc::SOL_SOCKET, libc::SO_PEEK_OFF);

/// Reports of datagrams sent: only the kernel's own can be reported.
const TIMESTAMPS_OF_SENDS: u32 =
    libc::SOF_TIMESTAMPING_TX_HARDWARE | libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_TX_SCHED;
/// What is told of the device's time and not known here.
const ABOUT_DEVICE_TIMES: u32 = libc::SOF_TIMESTAMPING_OPT_PKTINFO | SOF_TIMESTAMPING_BIND_PHC;

/// The first option that is set and is the kernel's alone.
fn only_kernel(shadow: Descriptor, family: Family) -> Option<(i32, i32)> {
    let has = |of| of == Of::Both || (of == Of::V4) == (family == Family::V4);
    let set = ONLY_KERNEL.iter().find(|(level, name, of, _)| has(*of) && flag(shadow, *level, *name));
    let reports = || {
        let asked = number(shadow, TIMESTAMPING.0, TIMESTAMPING.1) as u32;
        let device = libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        asked & TIMESTAMPS_OF_SENDS != 0 || (asked & device != 0 && asked & ABOUT_DEVICE_TIMES != 0)
    };
    // Where the next MSG_PEEK begins; -1 without that option.
    let peeks = || int_option(shadow, PEEK_OFFSET.0, PEEK_OFFSET.1).is_ok_and(|offset| offset >= 0);
    set.map(|(level, name, ..)| (*level, *name))
        .or_else(|| reports().then_some(TIMESTAMPING))
        .or_else(|| peeks().then_some(PEEK_OFFSET))
}

/// The C names of the options that make a socket the kernel's.
pub fn only_kernel_names() -> impl Iterator<Item = &'static str> {
    ONLY_KERNEL.iter().map(|(.., name)| *name)
}

/// getsockname(2).
///
/// # Errors
/// It failed, or the address is of another kind than IPv4 and IPv6.
pub fn local_address(shadow: Descriptor) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(rustix::net::getsockname(shadow)?)?)
}

/// connect(2) to where it is connected already: the kernel looks the route up anew, which it does for its own sends alone.
pub(crate) fn look_route_up(shadow: Descriptor) {
    if let Ok(Some(peer)) = rustix::net::getpeername(shadow) {
        // Where there is no route any more the kernel says so when it is asked for the MTU.
        let _ = rustix::net::connect(shadow, &peer);
    }
}

/// getpeername(2); `None`: not connected.
#[must_use]
pub fn peer_address(shadow: Descriptor) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getpeername(shadow).ok()??).ok()
}

/// What the kernel does at the first send of an unbound socket: any address, a free port.
///
/// # Errors
/// bind(2) failed, most often because no port is free.
pub fn bind_to_any(shadow: Descriptor, family: Family) -> io::Result<()> {
    use std::net::{Ipv4Addr, Ipv6Addr};
    let any = match family {
        Family::V4 => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        Family::V6 => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    Ok(rustix::net::bind(shadow, &any)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `__sock_recv_timestamp` decides (Linux 6.12).
    #[test]
    fn timestamping_flags_asked_decide_which_times_are_taken_and_told() {
        use libc::{
            SOF_TIMESTAMPING_RAW_HARDWARE as RAW, SOF_TIMESTAMPING_RX_HARDWARE as RX_HARDWARE,
            SOF_TIMESTAMPING_RX_SOFTWARE as RX_SOFTWARE, SOF_TIMESTAMPING_SOFTWARE as SOFTWARE,
        };
        const FILTER: u32 = SOF_TIMESTAMPING_OPT_RX_FILTER;
        let (kernel, device) = (Some(TimesWanted::Kernel), Some(TimesWanted::Device));
        let cases = [
            (0, None, false, false),
            (RX_SOFTWARE | SOFTWARE, kernel, true, false),
            (SOFTWARE, kernel, true, false),
            (RX_SOFTWARE, kernel, false, false),
            (RX_HARDWARE | RAW, device, false, true),
            (RAW, device, false, true),
            (RX_HARDWARE, kernel, false, false),
            (RX_HARDWARE | RAW | SOFTWARE, device, true, true),
            (RX_HARDWARE | RAW | SOFTWARE | FILTER, device, false, true),
            (RAW | SOFTWARE | FILTER, kernel, false, false),
            (RX_HARDWARE | RX_SOFTWARE | RAW | SOFTWARE | FILTER, device, true, true),
        ];
        for (timestamping, wanted, tells_host, tells_device) in cases {
            let asked = Ancillary { timestamping, ..Ancillary::NONE };
            let found = (asked.wants_times(), asked.tells_host_time(), asked.tells_device_time());
            assert_eq!(found, (wanted, tells_host, tells_device), "{timestamping:#x}");
        }
        assert_eq!(Ancillary { timestamp_us: true, ..Ancillary::NONE }.wants_times(), kernel);
    }
}
