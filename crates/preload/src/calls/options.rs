//! Options of sockets, fcntl(2) and ioctl(2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libc::{c_int, c_ulong, c_void, socklen_t};
use nearwire_socket::{Reason, SourceFilter, Why, kept};
use nearwire_sys::tsc::time_of_day_ns;

use crate::c_types::address::{self, Name};
use crate::c_types::is_plausible;
use crate::calls::table;
use crate::{marks, state};

/// Options of linux/in.h and in6.h that the libc crate does not name.
const MCAST_JOIN_GROUP: c_int = 42;
const MCAST_BLOCK_SOURCE: c_int = 43;
const MCAST_UNBLOCK_SOURCE: c_int = 44;
const MCAST_LEAVE_GROUP: c_int = 45;
const MCAST_JOIN_SOURCE_GROUP: c_int = 46;
const MCAST_LEAVE_SOURCE_GROUP: c_int = 47;
/// The same as SO_RCVTIMEO on 64-bit machines.
const SO_RCVTIMEO_NEW: c_int = 66;
/// Requests of linux/sockios.h and asm-generic/sockios.h: the time of the datagram read last, as `struct timeval` and
/// `struct timespec`, each in its older and its newer number.
const SIOCGSTAMP_OLD: c_ulong = 0x8906;
const SIOCGSTAMPNS_OLD: c_ulong = 0x8907;
const SIOCGSTAMP_NEW: c_ulong = 0x8010_8906;
const SIOCGSTAMPNS_NEW: c_ulong = 0x8010_8907;
const IPV6_MTU: c_int = 24;
const IP_BLOCK_SOURCE: c_int = 38;
const IP_UNBLOCK_SOURCE: c_int = 37;

/// What an option does to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupChange {
    Join,
    Leave,
    JoinSource(IpAddr),
    LeaveSource(IpAddr),
    Block(IpAddr),
    Unblock(IpAddr),
}

/// A group option: which group, on which interface (0: the kernel chose), and what happened.
struct GroupOption {
    group: IpAddr,
    ifindex: u32,
    /// IPv4 may name the interface by an address of it.
    interface_address: Option<Ipv4Addr>,
    change: GroupChange,
}

/// After setsockopt(2) succeeded.
///
/// # Safety
/// `value` points to `length` bytes.
pub unsafe fn changed(fd: c_int, level: c_int, option: c_int, value: *const c_void, length: socklen_t) {
    let bytes: &[u8] = if value.is_null() {
        &[]
    } else {
        // SAFETY: the caller's, and the kernel has just read them.
        unsafe { std::slice::from_raw_parts(value.cast(), length as usize) }
    };
    let group = group_option(level, option, bytes);
    if group.is_none() && !kept::is_known((level, option)) {
        let why =
            if table::is_filter(level, option) { Reason::AttachedFilter.into() } else { Why::option(level, option) };
        state::with_fd(fd, |sockets| sockets.only_kernel(fd, why));
        return;
    }
    if level == libc::SOL_SOCKET && matches!(option, libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW) {
        let seconds = bytes.first_chunk::<8>().map_or(0, |seconds| i64::from_ne_bytes(*seconds));
        state::with_fd(fd, |sockets| sockets.receive_timeout_set(fd, seconds < 0));
    }
    if (level, option) == (libc::IPPROTO_IPV6, libc::IPV6_MTU) {
        let bytes = u32_at(bytes, 0).unwrap_or(0);
        state::with_fd(fd, |sockets| sockets.longest_packet_set(fd, bytes));
    }
    match group {
        Some(change) => group_changed(fd, &change),
        None => {
            state::with_fd(fd, |sockets| sockets.option_changed(fd, Some((level, option))));
        }
    }
}

fn group_option(level: c_int, option: c_int, bytes: &[u8]) -> Option<GroupOption> {
    match (level, option) {
        (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP) => membership_v4(bytes, GroupChange::Join),
        (libc::IPPROTO_IP, libc::IP_DROP_MEMBERSHIP) => membership_v4(bytes, GroupChange::Leave),
        (libc::IPPROTO_IP, libc::IP_ADD_SOURCE_MEMBERSHIP) => source_v4(bytes, GroupChange::JoinSource),
        (libc::IPPROTO_IP, libc::IP_DROP_SOURCE_MEMBERSHIP) => source_v4(bytes, GroupChange::LeaveSource),
        (libc::IPPROTO_IP, IP_BLOCK_SOURCE) => source_v4(bytes, GroupChange::Block),
        (libc::IPPROTO_IP, IP_UNBLOCK_SOURCE) => source_v4(bytes, GroupChange::Unblock),
        (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP) => membership_v6(bytes, GroupChange::Join),
        (libc::IPPROTO_IPV6, libc::IPV6_DROP_MEMBERSHIP) => membership_v6(bytes, GroupChange::Leave),
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_JOIN_GROUP) => group_of_any_family(bytes, GroupChange::Join),
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_LEAVE_GROUP) => group_of_any_family(bytes, GroupChange::Leave),
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_JOIN_SOURCE_GROUP) => {
            source_of_any_family(bytes, GroupChange::JoinSource)
        }
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_LEAVE_SOURCE_GROUP) => {
            source_of_any_family(bytes, GroupChange::LeaveSource)
        }
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_BLOCK_SOURCE) => source_of_any_family(bytes, GroupChange::Block),
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_UNBLOCK_SOURCE) => {
            source_of_any_family(bytes, GroupChange::Unblock)
        }
        _ => None,
    }
}

fn v4_at(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    bytes.get(at..at + 4)?.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.first_chunk::<4>().map(|word| u32::from_ne_bytes(*word))
}

/// `struct ip_mreq` (group, address) or `ip_mreqn` (and an index).
fn membership_v4(bytes: &[u8], change: GroupChange) -> Option<GroupOption> {
    Some(GroupOption {
        group: v4_at(bytes, 0)?.into(),
        ifindex: u32_at(bytes, 8).unwrap_or(0),
        interface_address: v4_at(bytes, 4).filter(|address| !address.is_unspecified()),
        change,
    })
}

/// `struct ip_mreq_source`: group, interface, source.
fn source_v4(bytes: &[u8], change: impl FnOnce(IpAddr) -> GroupChange) -> Option<GroupOption> {
    Some(GroupOption {
        group: v4_at(bytes, 0)?.into(),
        ifindex: 0,
        interface_address: v4_at(bytes, 4).filter(|address| !address.is_unspecified()),
        change: change(v4_at(bytes, 8)?.into()),
    })
}

/// `struct ipv6_mreq`: group, index.
fn membership_v6(bytes: &[u8], change: GroupChange) -> Option<GroupOption> {
    let group = Ipv6Addr::from(*bytes.first_chunk::<16>()?);
    Some(GroupOption { group: group.into(), ifindex: u32_at(bytes, 16)?, interface_address: None, change })
}

/// Where `gr_group` and `gsr_source` begin: an index, padding, addresses of 128 bytes.
const GROUP_AT: usize = 8;
const STORAGE_BYTES: usize = size_of::<libc::sockaddr_storage>();

/// An address of `struct group_req`.
fn ip_at(bytes: &[u8], at: usize) -> Option<IpAddr> {
    let storage = bytes.get(at..at + STORAGE_BYTES)?;
    // SAFETY: the slice is as long as it says.
    match unsafe { address::read(storage.as_ptr().cast(), STORAGE_BYTES as socklen_t) } {
        Name::Ip(address) => Some(address.ip()),
        Name::None | Name::Kernel => None,
    }
}

fn group_of_any_family(bytes: &[u8], change: GroupChange) -> Option<GroupOption> {
    let group = ip_at(bytes, GROUP_AT)?;
    Some(GroupOption { group, ifindex: u32_at(bytes, 0)?, interface_address: None, change })
}

fn source_of_any_family(bytes: &[u8], change: impl FnOnce(IpAddr) -> GroupChange) -> Option<GroupOption> {
    let group = ip_at(bytes, GROUP_AT)?;
    let source = ip_at(bytes, GROUP_AT + STORAGE_BYTES)?;
    Some(GroupOption { group, ifindex: u32_at(bytes, 0)?, interface_address: None, change: change(source) })
}

/// The stack follows what the kernel has accepted.
fn group_changed(fd: c_int, option: &GroupOption) {
    state::with_fd(fd, |sockets| {
        let by_address = option.interface_address.and_then(|address| sockets.interface_with(address.into()));
        let ifindex = if option.ifindex == 0 { by_address.unwrap_or(0) } else { option.ifindex };
        let group = option.group;
        let known = sockets.membership(fd, ifindex, group).cloned();
        let wanted = match (option.change, known) {
            (GroupChange::Join, _) => Some(SourceFilter::default()),
            (GroupChange::Leave, _) => None,
            (GroupChange::JoinSource(source), Some(SourceFilter::Include(mut sources))) => {
                sources.push(source);
                Some(SourceFilter::Include(sources))
            }
            (GroupChange::JoinSource(source), _) => Some(SourceFilter::Include(vec![source])),
            (GroupChange::LeaveSource(source), Some(SourceFilter::Include(mut sources))) => {
                sources.retain(|known| *known != source);
                Some(SourceFilter::Include(sources)).filter(|filter| *filter != SourceFilter::Include(Vec::new()))
            }
            (GroupChange::Block(source), Some(SourceFilter::Exclude(mut sources))) => {
                sources.push(source);
                Some(SourceFilter::Exclude(sources))
            }
            (GroupChange::Unblock(source), Some(SourceFilter::Exclude(mut sources))) => {
                sources.retain(|known| *known != source);
                Some(SourceFilter::Exclude(sources))
            }
            (_, known) => known,
        };
        match wanted {
            Some(filter) => sockets.joined(fd, ifindex, group, filter),
            None => sockets.left(fd, ifindex, group),
        }
    });
}

/// getsockopt(2), where this library knows the answer: SO_ERROR, of an error that it keeps for a later call, and SO_REUSEADDR and SO_KEEPALIVE of a
/// connection that is carried. What the kernel answers by its own sends is brought up to date.
///
/// # Safety
/// `value` and `length` are those of a call that the program makes.
pub unsafe fn get(fd: c_int, level: c_int, option: c_int, value: *mut c_void, length: *mut socklen_t) -> Option<c_int> {
    if matches!((level, option), (libc::IPPROTO_IP, libc::IP_MTU) | (libc::IPPROTO_IPV6, IPV6_MTU)) {
        state::with_fd(fd, |sockets| sockets.about_to_ask_mtu(fd));
        return None;
    }
    let is_known =
        level == libc::SOL_SOCKET && matches!(option, libc::SO_ERROR | libc::SO_REUSEADDR | libc::SO_KEEPALIVE);
    if !is_known || !is_plausible(length, size_of::<socklen_t>()) || !is_plausible(value, size_of::<c_int>()) {
        return None;
    }
    // SAFETY: the caller's; both point somewhere.
    unsafe {
        if length.read_unaligned() < size_of::<c_int>() as socklen_t {
            return None;
        }
        let known = state::with_fd(fd, |sockets| match option {
            libc::SO_ERROR => sockets.take_pending_error(fd),
            libc::SO_KEEPALIVE => sockets.set_of_stream(fd).map(|set| set.keepalive.into()),
            _ => sockets.set_of_stream(fd).map(|set| set.reuse_address.into()),
        })??;
        value.cast::<c_int>().write_unaligned(known);
        length.write_unaligned(size_of::<c_int>() as socklen_t);
    }
    Some(0)
}

/// After fcntl(2) succeeded.
pub fn fcntl_done(fd: c_int, command: c_int, argument: c_ulong, result: c_int) {
    match command {
        libc::F_SETFL if marks::is_socket(fd) => {
            let flags = argument as c_int;
            state::with_fd(fd, |sockets| {
                sockets.set_nonblocking(fd, flags & libc::O_NONBLOCK != 0);
                if flags & libc::O_ASYNC != 0 {
                    // Only the kernel sends SIGIO.
                    sockets.only_kernel(fd, Reason::UnsupportedOption);
                }
            });
        }
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => super::names::copied(fd, result),
        _ => {}
    }
}

/// ioctl(2) on a socket, where this library knows the answer.
///
/// # Safety
/// `argument` is what the request wants.
pub unsafe fn ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> Option<c_int> {
    if matches!(request, SIOCGSTAMP_OLD | SIOCGSTAMPNS_OLD | SIOCGSTAMP_NEW | SIOCGSTAMPNS_NEW) {
        // SAFETY: the caller's.
        return unsafe { last_stamp(fd, request, argument as *mut [i64; 2]) };
    }
    if request != libc::FIONREAD {
        return None;
    }
    let at = argument as *mut c_int;
    if !is_plausible(at, size_of::<c_int>()) {
        return None;
    }
    let length = state::with_fd(fd, |sockets| sockets.next_datagram_bytes(fd))??;
    // SAFETY: FIONREAD wants a pointer to an int.
    unsafe { *at = c_int::try_from(length).unwrap_or(c_int::MAX) };
    Some(0)
}

/// When the datagram that was read last arrived (`sock_gettstamp`).
unsafe fn last_stamp(fd: c_int, request: c_ulong, at: *mut [i64; 2]) -> Option<c_int> {
    let stamp_ns = state::with_fd(fd, |sockets| sockets.last_stamp_ns(fd, time_of_day_ns()))??;
    if !crate::probe::is_readable(at, size_of::<[i64; 2]>()) {
        return None;
    }
    let (seconds, nanoseconds) = ((stamp_ns / 1_000_000_000) as i64, (stamp_ns % 1_000_000_000) as i64);
    let in_microseconds = matches!(request, SIOCGSTAMP_OLD | SIOCGSTAMP_NEW);
    // SAFETY: the request wants a pointer to a `struct timeval` or `timespec`, which are two 64-bit numbers.
    unsafe { at.write_unaligned([seconds, if in_microseconds { nanoseconds / 1000 } else { nanoseconds }]) };
    Some(0)
}

/// After ioctl(2) succeeded.
///
/// # Safety
/// `argument` is what the request wants.
pub unsafe fn ioctl_done(fd: c_int, request: c_ulong, argument: c_ulong) {
    if request == libc::FIOASYNC {
        state::with_fd(fd, |sockets| sockets.only_kernel(fd, Reason::UnsupportedOption));
    }
    if request == libc::FIONBIO {
        // SAFETY: FIONBIO wants a pointer to an int, which the kernel has just read.
        let is_nonblocking = unsafe { *(argument as *const c_int) } != 0;
        state::with_fd(fd, |sockets| sockets.set_nonblocking(fd, is_nonblocking));
    }
}
