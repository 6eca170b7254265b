//! Options and figures of TCP connections, where a connection that is carried stays so: the rest is the kernel's to do, and has it released first.
//!
//! Source of the figures: `struct tcp_info` of include/uapi/linux/tcp.h, which grows at its end.

use libc::{c_int, c_ulong, c_void, socklen_t};
use nearwire_socket::TcpInfo;

use super::adoption;
use super::stream_options_known::{CONGESTION_CONTROLS, KNOWN};
use crate::probe::is_readable;
use crate::signals::deferral;
use crate::{marks, own_process, state};

/// Set on the shadow, and the stack follows.
const SET: [(c_int, &[c_int]); 4] = [
    (
        libc::SOL_SOCKET,
        &[
            libc::SO_RCVTIMEO,
            libc::SO_SNDTIMEO,
            libc::SO_RCVLOWAT,
            libc::SO_LINGER,
            libc::SO_PRIORITY,
            libc::SO_SNDBUF,
            libc::SO_RCVBUF,
            libc::SO_SNDBUFFORCE,
            libc::SO_RCVBUFFORCE,
        ],
    ),
    (
        libc::IPPROTO_TCP,
        &[
            libc::TCP_NODELAY,
            libc::TCP_CORK,
            libc::TCP_QUICKACK,
            libc::TCP_KEEPIDLE,
            libc::TCP_KEEPINTVL,
            libc::TCP_KEEPCNT,
            libc::TCP_USER_TIMEOUT,
            libc::TCP_LINGER2,
            libc::TCP_NOTSENT_LOWAT,
        ],
    ),
    (libc::IPPROTO_IP, &[libc::IP_TOS, libc::IP_TTL]),
    (libc::IPPROTO_IPV6, &[libc::IPV6_TCLASS, libc::IPV6_UNICAST_HOPS]),
];

/// Of level IPPROTO_TCP, what the shadow tells as the kernel would of its connection, and what is told for it here.
const TOLD: [c_int; 14] = [
    libc::TCP_NODELAY,
    libc::TCP_NOTSENT_LOWAT,
    libc::TCP_QUICKACK,
    libc::TCP_CORK,
    libc::TCP_KEEPIDLE,
    libc::TCP_KEEPINTVL,
    libc::TCP_KEEPCNT,
    libc::TCP_SYNCNT,
    libc::TCP_LINGER2,
    libc::TCP_DEFER_ACCEPT,
    libc::TCP_USER_TIMEOUT,
    libc::TCP_CONGESTION,
    libc::TCP_INFO,
    libc::TCP_MAXSEG,
];

/// setsockopt(2) on a connection; `original` makes the call.
///
/// # Safety
/// `value` points to `length` bytes.
pub unsafe fn set(
    fd: c_int,
    (level, option): (c_int, c_int),
    (value, length): (*const c_void, socklen_t),
    original: impl FnOnce() -> c_int,
) -> c_int {
    let is_in =
        |table: &[(c_int, &[c_int])]| table.iter().any(|(of, options)| *of == level && options.contains(&option));
    if own_process::is_borrowed() || !marks::is_stream(fd) || !is_in(&SET) {
        adoption::release(fd);
        let result = original();
        if result != 0 {
            return result;
        }
        let is_known = match (level, option) {
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                // SAFETY: the caller's; the kernel has read so many bytes there.
                is_of_stack(unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length as usize) })
            }
            _ => is_in(&SET) || is_in(&KNOWN),
        };
        if !is_known {
            adoption::leave_for_option(fd);
        }
        return result;
    }
    deferral::inside_deep(|| {
        state::with(|sockets| sockets.claim_stream(fd));
        let result = original();
        if result == 0 {
            state::with(|sockets| match (level, option) {
                (libc::IPPROTO_TCP, libc::TCP_QUICKACK) => {
                    // SAFETY: the caller's; the kernel has read an int there.
                    let is_quick = length >= 4 && unsafe { value.cast::<c_int>().read_unaligned() } != 0;
                    sockets.stream_acknowledges_quickly(fd, is_quick);
                }
                _ => sockets.stream_option_set(fd),
            });
        }
        result
    })
}

/// Whether a congestion control is one that the stack has, by a name as the kernel takes it: with or without a byte of 0 behind it.
fn is_of_stack(name: &[u8]) -> bool {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    CONGESTION_CONTROLS.contains(&name)
}

/// getsockopt(2) of level IPPROTO_TCP on a connection; `original` makes the call.
///
/// # Safety
/// `value` and `length` are those of a call that the program makes.
pub unsafe fn get(
    fd: c_int,
    option: c_int,
    (value, length): (*mut c_void, *mut socklen_t),
    original: impl FnOnce() -> c_int,
) -> c_int {
    if own_process::is_borrowed() || !TOLD.contains(&option) {
        adoption::release(fd);
        return original();
    }
    let result = original();
    if result == 0 && matches!(option, libc::TCP_INFO | libc::TCP_MAXSEG) {
        let info = deferral::inside_deep(|| state::with(|sockets| sockets.stream_info(fd))).flatten();
        // SAFETY: the kernel has written so many bytes there.
        let told = unsafe { std::slice::from_raw_parts_mut(value.cast::<u8>(), length.read_unaligned() as usize) };
        match info {
            Some(info) if option == libc::TCP_INFO => amend(told, &info),
            Some(info) => put(told, 0, info.segment_bytes.into()),
            None => {}
        }
    }
    result
}

/// Writes a number of 32 bits, or the largest one, where there is room for it.
fn put(told: &mut [u8], at: usize, value: u64) {
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    if let Some(field) = told.get_mut(at..at + 4) {
        field.copy_from_slice(&value.to_ne_bytes());
    }
}

/// What the stack knows of a connection in place of what the shadow does.
fn amend(told: &mut [u8], info: &TcpInfo) {
    const TCP_CA_RECOVERY: u8 = 3;
    const TCPI_OPT_SACK: u8 = 2;
    let segments = |bytes: u32| u64::from(bytes.div_ceil(info.segment_bytes.max(1)));
    let us = |ns: u64| ns / 1000;
    // `TCP_INFINITE_SSTHRESH`.
    let threshold = match info.slow_start_threshold_bytes {
        u32::MAX => 0x7fff_ffff,
        bytes => segments(bytes),
    };
    for (at, byte) in
        [(1, if info.is_recovering { TCP_CA_RECOVERY } else { 0 }), (2, info.timeouts.try_into().unwrap_or(u8::MAX))]
    {
        told.get_mut(at).into_iter().for_each(|field| *field = byte);
    }
    // A parked shadow has none.
    let sack = if info.has_selective_acknowledgement { TCPI_OPT_SACK } else { 0 };
    told.get_mut(5).into_iter().for_each(|options| *options |= sack);
    for (at, value) in [
        (8, us(info.retransmit_timeout_ns)),
        (16, info.segment_bytes.into()),
        (24, info.unacknowledged_segments.into()),
        (28, segments(info.selective_bytes)),
        (32, segments(info.lost_bytes)),
        (68, us(info.smoothed_round_trip_ns)),
        (72, us(info.round_trip_variation_ns)),
        (76, threshold),
        (80, segments(info.congestion_window_bytes)),
        (100, info.retransmitted_segments),
        (144, info.unsent_bytes.into()),
        (148, us(info.least_round_trip_ns)),
        (216, info.duplicate_reports),
        (228, info.send_window_bytes.into()),
        (232, info.receive_window_bytes.into()),
    ] {
        put(told, at, value);
    }
}

/// ioctl(2) on a connection; `original` makes the call.
///
/// # Safety
/// `argument` is what the request wants.
pub unsafe fn ioctl(fd: c_int, request: c_ulong, argument: c_ulong, original: impl FnOnce() -> c_int) -> c_int {
    /// `SIOCOUTQNSD` of include/uapi/linux/sockios.h.
    const SIOCOUTQNSD: c_ulong = 0x894b;
    let at = argument as *mut c_int;
    match request {
        libc::FIOCLEX | libc::FIONCLEX => original(),
        libc::FIONBIO => {
            let result = original();
            if result == 0 {
                // SAFETY: the caller's; the kernel has read an int there.
                adoption::set_nonblocking(fd, unsafe { at.read_unaligned() } != 0);
            }
            result
        }
        libc::FIONREAD | libc::TIOCOUTQ | SIOCOUTQNSD if !own_process::is_borrowed() => {
            let info = deferral::inside_deep(|| state::with(|sockets| sockets.stream_info(fd))).flatten();
            let Some(info) = info.filter(|_| is_readable(at, size_of::<c_int>())) else { return original() };
            let bytes = match request {
                libc::FIONREAD => info.unread_bytes,
                libc::TIOCOUTQ => info.unacknowledged_bytes + info.unsent_bytes,
                _ => info.unsent_bytes,
            };
            // SAFETY: each wants a pointer to an int.
            unsafe { at.write_unaligned(c_int::try_from(bytes).unwrap_or(c_int::MAX)) };
            0
        }
        _ => {
            adoption::leave(fd);
            original()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn figures_are_where_the_kernel_has_them() {
        let info = TcpInfo {
            smoothed_round_trip_ns: 5000,
            segment_bytes: 1448,
            congestion_window_bytes: 14480,
            ..TcpInfo::default()
        };
        let mut told = [0; size_of::<libc::tcp_info>()];
        amend(&mut told, &info);
        let field = |at: usize| u32::from_ne_bytes(told[at..at + 4].try_into().unwrap());
        assert_eq!(field(offset_of!(libc::tcp_info, tcpi_rtt)), 5);
        assert_eq!(field(offset_of!(libc::tcp_info, tcpi_snd_mss)), 1448);
        assert_eq!(field(offset_of!(libc::tcp_info, tcpi_snd_cwnd)), 10);
        assert_eq!(
            [
                offset_of!(libc::tcp_info, tcpi_retransmits),
                offset_of!(libc::tcp_info, tcpi_rto),
                offset_of!(libc::tcp_info, tcpi_unacked),
                offset_of!(libc::tcp_info, tcpi_lost),
                offset_of!(libc::tcp_info, tcpi_rttvar),
                offset_of!(libc::tcp_info, tcpi_snd_ssthresh),
                offset_of!(libc::tcp_info, tcpi_total_retrans),
            ],
            [2, 8, 24, 32, 72, 76, 100]
        );
    }

    #[test]
    fn short_buffer_has_what_fits() {
        let mut told = [0; 70];
        amend(&mut told, &TcpInfo { smoothed_round_trip_ns: 5000, ..TcpInfo::default() });
        assert_eq!(told, [0; 70].map(|_: u8| 0), "a half of the round trip is not told");
    }

    #[test]
    fn congestion_controls_of_the_stack_are_known_by_their_names() {
        for (name, is_known) in
            [("cubic", true), ("cubic\0", true), ("reno\0x", true), ("bbr", false), ("cub", false), ("", false)]
        {
            assert_eq!(is_of_stack(name.as_bytes()), is_known, "{name:?}");
        }
    }
}
