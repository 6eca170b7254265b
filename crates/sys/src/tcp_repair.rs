//! What the kernel knows of a TCP connection, read and written while the connection is frozen (`TCP_REPAIR`).
//!
//! Sources: `include/uapi/linux/tcp.h`, `net/ipv4/tcp.c` (`do_tcp_setsockopt`, `tcp_repair_set_window`, `tcp_repair_options_est`). Freezing
//! needs CAP_NET_ADMIN in the user namespace of the socket's network namespace; what can be read or written then is said with each function.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use crate::socket::{int_option, option_bytes};

/// `TCP_REPAIR`: what a connection is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// Freezes it: it sends nothing by itself, and its state can be read and written.
    Freeze,
    /// Thaws it, and sends a window probe, which the far end answers with what it knows.
    Thaw,
    /// Thaws it, and sends nothing (`TCP_REPAIR_OFF_NO_WP`).
    ThawSilently,
}

/// The queue that `TCP_QUEUE_SEQ`, send(2) and recv(2) with `MSG_PEEK` are about while a connection is frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// None.
    No,
    /// What was received and not read.
    Receive,
    /// What was written and not acknowledged.
    Send,
}

/// What both ends agreed on in their SYN segments, as `TCP_REPAIR_OPTIONS` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Negotiated {
    /// The largest segment that the far end takes, bytes (RFC 9293 section 3.7.1).
    MaximumSegment {
        /// Bytes.
        bytes: u16,
    },
    /// Windows are scaled (RFC 7323 section 2).
    WindowScale {
        /// Shift of windows that come.
        send: u8,
        /// Shift of windows that leave.
        receive: u8,
    },
    /// Selective acknowledgements (RFC 2018).
    SelectiveAcknowledgement,
    /// Timestamps (RFC 7323 section 3).
    Timestamps,
}

/// `struct tcp_repair_window`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// Sequence number of the segment that last changed the send window (SND.WL1).
    pub snd_wl1: u32,
    /// Bytes that the far end takes beyond what it acknowledged (SND.WND).
    pub snd_wnd: u32,
    /// The most that it ever took.
    pub max_window: u32,
    /// Bytes that this end takes beyond [`rcv_wup`](Self::rcv_wup) (RCV.WND).
    pub rcv_wnd: u32,
    /// What was next to be received when the window was last told.
    pub rcv_wup: u32,
}

/// Of `struct tcp_info`, what of a connection cannot be asked for elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// A number of `include/net/tcp_states.h`; 1 is ESTABLISHED.
    pub state: u8,
    /// Both ends have timestamps.
    pub has_timestamps: bool,
    /// They count microseconds (Linux 6.7), else milliseconds.
    pub has_microseconds: bool,
    /// Both ends take selective acknowledgements.
    pub has_selective_acknowledgement: bool,
    /// Both ends take part in explicit congestion notification (RFC 3168).
    pub has_congestion_notification: bool,
    /// Shifts of windows that come and that leave, where both ends scale them.
    pub window_scale: Option<(u8, u8)>,
    /// Round trips as measured; `None`: not yet.
    pub round_trip: Option<RoundTrip>,
    /// Segments that came, wrapping.
    pub received_segments: u32,
}

/// Measured round trips (RFC 6298).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// SRTT.
    pub smoothed: Duration,
    /// RTTVAR.
    pub variation: Duration,
}

/// `TCP_ESTABLISHED` of `include/net/tcp_states.h`.
pub const ESTABLISHED: u8 = 1;
/// `TCP_SYN_SENT`.
pub const SYN_SENT: u8 = 2;

/// `struct tcp_repair_opt`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct RepairOption {
    code: u32,
    value: u32,
}

// The kinds of options of a SYN, `include/net/tcp.h`.
const TCPOPT_MSS: u32 = 2;
const TCPOPT_WINDOW: u32 = 3;
const TCPOPT_SACK_PERM: u32 = 4;
const TCPOPT_TIMESTAMP: u32 = 8;

// Of `tcpi_options`.
const TCPI_OPT_TIMESTAMPS: u8 = 1;
const TCPI_OPT_SACK: u8 = 2;
const TCPI_OPT_WSCALE: u8 = 4;
const TCPI_OPT_ECN: u8 = 8;
const TCPI_OPT_USEC_TS: u8 = 64;

/// `TCP_REPAIR`.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN, or for a socket that listens.
pub fn set_repair(socket: impl AsFd, repair: Repair) -> io::Result<()> {
    let value = match repair {
        Repair::Freeze => 1,
        Repair::Thaw => 0,
        Repair::ThawSilently => -1,
    };
    set_option(socket, libc::TCP_REPAIR, &[value])
}

/// `TCP_REPAIR_QUEUE`.
///
/// # Errors
/// `EPERM` for a connection that is not frozen.
pub fn set_repair_queue(socket: impl AsFd, queue: Queue) -> io::Result<()> {
    let value = match queue {
        Queue::No => 0,
        Queue::Receive => 1,
        Queue::Send => 2,
    };
    set_option(socket, libc::TCP_REPAIR_QUEUE, &[value])
}

/// `TCP_QUEUE_SEQ` of the chosen queue: the number of the byte that will come next to its end.
///
/// # Errors
/// `EINVAL` where none is chosen.
pub fn queue_sequence(socket: impl AsFd) -> io::Result<u32> {
    int_option(socket, libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ).map(libc::c_int::cast_unsigned)
}

/// Sets it, of a socket that is frozen and not connected.
///
/// # Errors
/// `EPERM` for one that is connected, or has unread bytes.
pub fn set_queue_sequence(socket: impl AsFd, sequence: u32) -> io::Result<()> {
    set_option(socket, libc::TCP_QUEUE_SEQ, &[sequence.cast_signed()])
}

/// `TCP_TIMESTAMP`: the clock of the connection's timestamps. On some kernels its lowest bit says that it counts microseconds.
///
/// # Errors
/// getsockopt(2) failed.
pub fn timestamp(socket: impl AsFd) -> io::Result<u32> {
    int_option(socket, libc::IPPROTO_TCP, libc::TCP_TIMESTAMP).map(libc::c_int::cast_unsigned)
}

/// Sets it, of a frozen connection.
///
/// # Errors
/// `EPERM` for one that is not frozen.
pub fn set_timestamp(socket: impl AsFd, timestamp: u32) -> io::Result<()> {
    set_option(socket, libc::TCP_TIMESTAMP, &[timestamp.cast_signed()])
}

/// `TCP_MAXSEG` of a frozen connection: the largest segment that the far end takes, bytes.
///
/// # Errors
/// getsockopt(2) failed.
pub fn maximum_segment_bytes(socket: impl AsFd) -> io::Result<u16> {
    let bytes = int_option(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG)?;
    u16::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Says what the largest segment of the next connection is, bytes; 0: nothing, as after a disconnect.
///
/// # Errors
/// `EINVAL` for what no segment is (`TCP_MIN_MSS`, `MAX_TCP_WINDOW`).
pub fn limit_segment(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    set_option(socket, libc::TCP_MAXSEG, &[libc::c_int::from(bytes)])
}

/// `TCP_REPAIR_WINDOW` of a frozen connection.
///
/// # Errors
/// `EPERM` for one that is not frozen.
pub fn window(socket: impl AsFd) -> io::Result<Window> {
    let mut bytes = [0; size_of::<Window>()];
    let found = option_bytes(socket, libc::IPPROTO_TCP, libc::TCP_REPAIR_WINDOW, &mut bytes)?;
    if found != bytes.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Ok(Window { snd_wl1: word(0), snd_wnd: word(4), max_window: word(8), rcv_wnd: word(12), rcv_wup: word(16) })
}

/// Sets it.
///
/// # Errors
/// `EPERM` for a connection that is not frozen, `EINVAL` for a window that cannot be.
pub fn set_window(socket: impl AsFd, window: &Window) -> io::Result<()> {
    set_option(socket, libc::TCP_REPAIR_WINDOW, std::slice::from_ref(window))
}

/// `TCP_REPAIR_OPTIONS`, of a connection that is frozen and established.
///
/// # Errors
/// `EPERM` for another one, `EFBIG` for a shift above 14.
pub fn set_negotiated(socket: impl AsFd, negotiated: &[Negotiated]) -> io::Result<()> {
    let option = |negotiated: &Negotiated| match *negotiated {
        Negotiated::MaximumSegment { bytes } => RepairOption { code: TCPOPT_MSS, value: bytes.into() },
        Negotiated::WindowScale { send, receive } => {
            RepairOption { code: TCPOPT_WINDOW, value: u32::from(receive) << 16 | u32::from(send) }
        }
        Negotiated::SelectiveAcknowledgement => RepairOption { code: TCPOPT_SACK_PERM, value: 0 },
        Negotiated::Timestamps => RepairOption { code: TCPOPT_TIMESTAMP, value: 0 },
    };
    let options: Vec<RepairOption> = negotiated.iter().map(option).collect();
    set_option(socket, libc::TCP_REPAIR_OPTIONS, &options)
}

/// `TCP_INFO`, as far as [`Facts`] go.
///
/// # Errors
/// getsockopt(2) failed.
pub fn facts(socket: impl AsFd) -> io::Result<Facts> {
    // `struct tcp_info` begins with single bytes: state, ca_state, retransmits, probes, backoff, options, and both shifts. Words follow.
    const RTT: usize = 68;
    const RTTVAR: usize = 72;
    const SEGS_IN: usize = 140;
    let mut bytes = [0; SEGS_IN + 4];
    if option_bytes(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)? < bytes.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let [state, _, _, _, _, options, scales, ..] = bytes;
    let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
    let time = |at| Duration::from_micros(word(at).into());
    // Bit fields of four bits each: the first is the lower half on little-endian machines.
    let (low, high) = (scales & 0xf, scales >> 4);
    let shifts = if cfg!(target_endian = "little") { (low, high) } else { (high, low) };
    let has = |flag: u8| options & flag != 0;
    Ok(Facts {
        state,
        has_timestamps: has(TCPI_OPT_TIMESTAMPS),
        has_microseconds: has(TCPI_OPT_USEC_TS),
        has_selective_acknowledgement: has(TCPI_OPT_SACK),
        has_congestion_notification: has(TCPI_OPT_ECN),
        window_scale: has(TCPI_OPT_WSCALE).then_some(shifts),
        round_trip: Some(RoundTrip { smoothed: time(RTT), variation: time(RTTVAR) })
            .filter(|round_trip| !round_trip.smoothed.is_zero()),
        received_segments: word(SEGS_IN),
    })
}

/// `SIOCOUTQ`: bytes that were written and not acknowledged.
///
/// # Errors
/// ioctl(2) failed.
pub fn unacknowledged_bytes(socket: impl AsFd) -> io::Result<u32> {
    count(socket, SIOCOUTQ)
}

/// `SIOCOUTQNSD`: bytes of these that were not sent.
///
/// # Errors
/// ioctl(2) failed.
pub fn unsent_bytes(socket: impl AsFd) -> io::Result<u32> {
    count(socket, SIOCOUTQNSD)
}

// include/uapi/linux/sockios.h; the first is TIOCOUTQ.
const SIOCOUTQ: libc::Ioctl = 0x5411;
const SIOCOUTQNSD: libc::Ioctl = 0x894B;

fn count(socket: impl AsFd, request: libc::Ioctl) -> io::Result<u32> {
    let mut count: libc::c_int = 0;
    // SAFETY: both requests write one `int` to the pointer, which is to a live local.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), request, &raw mut count) };
    if result == 0 { Ok(count.unsigned_abs()) } else { Err(io::Error::last_os_error()) }
}

/// Sets an option of TCP to values of plain data, one after the other.
fn set_option<T: Copy>(socket: impl AsFd, option: libc::c_int, values: &[T]) -> io::Result<()> {
    let len = libc::socklen_t::try_from(size_of_val(values)).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: `values` is a live slice of `len` bytes, which the kernel reads.
    let result =
        unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), libc::IPPROTO_TCP, option, values.as_ptr().cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn structures_have_the_kernels_layout() {
        assert_eq!(size_of::<Window>(), 20);
        assert_eq!(offset_of!(Window, snd_wl1), 0);
        assert_eq!(offset_of!(Window, snd_wnd), 4);
        assert_eq!(offset_of!(Window, max_window), 8);
        assert_eq!(offset_of!(Window, rcv_wnd), 12);
        assert_eq!(offset_of!(Window, rcv_wup), 16);
        assert_eq!((size_of::<RepairOption>(), offset_of!(RepairOption, value)), (8, 4));
    }

    #[test]
    fn connection_that_is_not_frozen_tells_its_facts_and_refuses_the_rest() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        let (facts, far_facts) = (facts(&near).unwrap(), facts(&far).unwrap());
        assert_eq!(facts.state, ESTABLISHED);
        let turned = facts.window_scale.map(|(send, receive)| (receive, send));
        assert_eq!(far_facts.window_scale, turned, "what one sends by, the other receives by");
        assert_eq!(set_repair_queue(&near, Queue::Send).unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert_eq!(window(&near).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }
}
