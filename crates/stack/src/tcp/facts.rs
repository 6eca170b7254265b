//! What one owner of a connection gives to the next: the facts that the kernel reports about a frozen connection, and takes.

use std::net::SocketAddr;

use thiserror::Error;

/// An established connection, between two owners. Sequence numbers are those of RFC 9293 section 3.3.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpFacts {
    /// This end.
    pub local: SocketAddr,
    /// The far end; a link-local IPv6 address has its interface as scope.
    pub peer: SocketAddr,
    /// SND.UNA: the number of the first byte of `sent`.
    pub unacknowledged_sequence: u32,
    /// Sent and not acknowledged.
    pub sent: Vec<u8>,
    /// Written and not sent.
    pub unsent: Vec<u8>,
    /// The program writes no more: a FIN follows `unsent`. The kernel is told so by shutdown(2), once the connection is its own again.
    pub is_write_shut: bool,
    /// RCV.NXT.
    pub next_sequence: u32,
    /// Received and not read; the last byte is the one before `next_sequence`.
    pub unread: Vec<u8>,
    /// Both windows.
    pub window: TcpWindow,
    /// The largest segment that the far end takes, bytes, as it said in its SYN.
    pub maximum_segment_bytes: u16,
    /// Shifts of windows that come and that leave (RFC 7323 section 2); `None`: none is scaled.
    pub window_scale: Option<(u8, u8)>,
    /// Both ends take selective acknowledgements (RFC 2018).
    pub has_selective_acknowledgement: bool,
    /// This end's clock, where both ends have timestamps (RFC 7323 section 3).
    pub timestamp: Option<TcpTimestamp>,
    /// Both ends take part in explicit congestion notification (RFC 3168).
    pub has_congestion_notification: bool,
    /// Round trips as measured so far; `None`: they are measured anew.
    pub round_trip: Option<TcpRoundTrip>,
}

/// Both windows, as `struct tcp_repair_window` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpWindow {
    /// Sequence number of the segment that last changed the send window (SND.WL1).
    pub send_sequence: u32,
    /// Bytes that the far end takes beyond what it acknowledged (SND.WND).
    pub send_bytes: u32,
    /// The most that it ever took.
    pub send_most_bytes: u32,
    /// Bytes that this end takes beyond `receive_sequence` (RCV.WND).
    pub receive_bytes: u32,
    /// What was next to be received when the window was last told.
    pub receive_sequence: u32,
}

/// The clock of a connection's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpTimestamp {
    /// What it shows, when the facts are told.
    pub value: u32,
    /// It counts microseconds, else milliseconds.
    pub is_in_microseconds: bool,
    /// The far end's last one (TS.Recent). The kernel does not report it: `None`, and the next that comes is believed.
    pub recent: Option<u32>,
}

/// Measured round trips (RFC 6298).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpRoundTrip {
    /// SRTT.
    pub smoothed_ns: u64,
    /// RTTVAR.
    pub variation_ns: u64,
}

/// Why a connection could not be adopted.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum AdoptError {
    /// One end is IPv4, the other IPv6, or an end is no address of a host.
    #[error("adopt a connection of {local} with {peer}: these are no two ends of one connection")]
    Addresses {
        /// This end.
        local: SocketAddr,
        /// The far end.
        peer: SocketAddr,
    },
    /// It is here already.
    #[error("adopt a connection of {local} with {peer}: it was adopted before; release it first")]
    AlreadyHere {
        /// This end.
        local: SocketAddr,
        /// The far end.
        peer: SocketAddr,
    },
    /// Numbers that no connection has.
    #[error("adopt a connection of {local} with {peer}: {what} is impossible")]
    Impossible {
        /// This end.
        local: SocketAddr,
        /// The far end.
        peer: SocketAddr,
        /// Which of the facts.
        what: &'static str,
    },
}

/// Why a connection cannot be given to another owner.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ExportError {
    /// There is none of this number.
    #[error("the connection is not here")]
    NoConnection,
    /// The FIN of this end was sent.
    #[error("this end of the connection has sent its FIN, and the kernel takes over established connections only")]
    FinSent,
    /// The far end's FIN came.
    #[error("the far end of the connection has sent its FIN, and the kernel takes over established connections only")]
    PeerFin,
    /// It was reset, or given up.
    #[error("the connection has ended")]
    Ended,
}
