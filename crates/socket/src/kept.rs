//! What the kernel keeps of a socket, read from its shadow. Every option is set on the shadow first, by the kernel's own
//! checks; what matters here is read back, so there is one place that knows an option's value.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use nearwire_frames::ports::xdp::TimesWanted;
use nearwire_stack::{Family, UdpOptions};
use nearwire_sys::descriptor::Descriptor;
use nearwire_sys::socket::int_option;
use rustix::net::sockopt::{self, Timeout};

mod options;

pub use options::is_known;
use options::{KNOWN, Known, ONLY_KERNEL, changed_by};

/// Of asm-generic/socket.h; the libc crate does not name it.
const SO_BINDTOIFINDEX: i32 = 62;
/// Of linux/net_tstamp.h, Linux 6.12.
const SOF_TIMESTAMPING_OPT_RX_FILTER: u32 = 1 << 17;
/// The same: the device's time is converted to that of a clock that another interface of the kernel made.
const SOF_TIMESTAMPING_BIND_PHC: u32 = 1 << 15;

/// What recvmsg(2) reports beside the datagram, as options ask for it.
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

    /// A socket that asks for the report is enough; only one that filters reports has to ask that times be taken, too.
    const fn tells(&self, report: u32, take: u32) -> bool {
        let filters = self.timestamping & SOF_TIMESTAMPING_OPT_RX_FILTER != 0;
        self.timestamping & report != 0 && (!filters || self.timestamping & take != 0)
    }
}

/// What the kernel keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// What the stack goes by.
    pub options: UdpOptions,
    /// What recvmsg reports.
    pub ancillary: Ancillary,
    /// `SO_RCVTIMEO`.
    pub receive_timeout: Option<Duration>,
    /// `IP_RECVERR`.
    pub asks_for_errors_v4: bool,
    /// `IPV6_RECVERR`.
    pub asks_for_errors_v6: bool,
    /// An option is set that only the kernel knows: its level and name.
    pub only_kernel: Option<(i32, i32)>,
}

impl Kept {
    /// Reads everything, by up to 40 system calls.
    #[must_use]
    pub fn read(shadow: Descriptor, family: Family) -> Kept {
        let mut kept = Kept {
            receive_timeout: receive_timeout(shadow),
            only_kernel: only_kernel(shadow, family),
            ..Kept::default()
        };
        KNOWN.iter().for_each(|known| kept.take(known, shadow, family));
        kept
    }

    /// After setsockopt(2) of one option, where this is what the kernel kept before: reads what that may have changed.
    #[must_use]
    pub fn read_again(mut self, shadow: Descriptor, family: Family, changed: (i32, i32)) -> Kept {
        if changed == (libc::SOL_SOCKET, libc::SO_RCVTIMEO) {
            return Kept { receive_timeout: receive_timeout(shadow), ..self };
        }
        let Some(read) = changed_by(changed) else { return Kept::read(shadow, family) };
        KNOWN.iter().filter(|known| read.contains(&known.name)).for_each(|known| self.take(known, shadow, family));
        if read.contains(&TIMESTAMPING) {
            self.only_kernel = only_kernel(shadow, family);
        }
        self
    }

    /// Whether ICMP errors are to be reported.
    #[must_use]
    pub const fn asks_for_errors(&self) -> bool {
        self.asks_for_errors_v4 || self.asks_for_errors_v6
    }

    /// Reads one option. One that cannot be read is as if it were 0: kernels know different ones.
    fn take(&mut self, known: &Known, shadow: Descriptor, family: Family) {
        if known.of.has(family) {
            (known.take)(self, number(shadow, known.name.0, known.name.1));
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

/// Level and name.
pub(crate) const TIMESTAMPING: (i32, i32) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
const PEEK_OFFSET: (i32, i32) = (libc::SOL_SOCKET, libc::SO_PEEK_OFF);

/// Reports of datagrams sent: only the kernel's own can be reported.
const TIMESTAMPS_OF_SENDS: u32 =
    libc::SOF_TIMESTAMPING_TX_HARDWARE | libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_TX_SCHED;
/// What is reported of the device's time and not known here.
const ABOUT_DEVICE_TIMES: u32 = libc::SOF_TIMESTAMPING_OPT_PKTINFO | SOF_TIMESTAMPING_BIND_PHC;

/// The first option that is set and is the kernel's alone.
fn only_kernel(shadow: Descriptor, family: Family) -> Option<(i32, i32)> {
    let set = ONLY_KERNEL.iter().find(|(level, name, of, _)| of.has(family) && flag(shadow, *level, *name));
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
    use std::os::fd::AsRawFd;

    use nearwire_sys::socket::set_int_option;

    use super::*;

    /// Values that options take, and some that the kernel refuses.
    const VALUES: [i32; 8] = [0, 1, 2, 3, 64, 255, 5000, libc::SOF_TIMESTAMPING_SOFTWARE as i32];

    /// Whatever program sets what, in any order: to read one option again finds what to read all finds.
    #[test]
    fn option_set_read_again_alone_is_as_if_all_were_read() {
        let mut number = 0x9e37_79b9_u32;
        let mut any = |below: usize| {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (number >> 8) as usize % below
        };
        for family in [Family::V4, Family::V6] {
            let address = if family == Family::V4 { "127.0.0.1:0" } else { "[::1]:0" };
            let socket = std::net::UdpSocket::bind(address).unwrap();
            let shadow = Descriptor::new(socket.as_raw_fd()).unwrap();
            let mut kept = Kept::read(shadow, family);
            let names: Vec<_> = super::options::tests::names().collect();
            let mut accepted = 0;
            for _ in 0..2000 {
                let ((level, name), value) = (names[any(names.len())], VALUES[any(VALUES.len())]);
                if set_int_option(shadow, level, name, value).is_err() {
                    continue;
                }
                accepted += 1;
                kept = kept.read_again(shadow, family, (level, name));
                assert_eq!(kept, Kept::read(shadow, family), "{family:?}: {name} of level {level} set to {value}");
            }
            assert!(accepted > 500, "{accepted}");
        }
    }

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
