//! What a program asks of a connection.

use super::congestion::CongestionControl;

const SECOND_NS: u64 = 1_000_000_000;

/// What a program asks of a connection, by setsockopt(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// TCP_NODELAY: a piece of a segment does not wait for acknowledgements.
    pub no_delay: bool,
    /// TCP_CORK: a piece of a segment is not sent, for a while.
    pub cork: bool,
    /// SO_KEEPALIVE; `None`: an idle far end is not probed.
    pub keepalive: Option<Keepalive>,
    /// TCP_USER_TIMEOUT, ns; `None`: the connection is given up when the far end has not answered for 924.6 s, as after the 15
    /// retransmissions of `net.ipv4.tcp_retries2`.
    pub user_timeout_ns: Option<u64>,
    /// Bytes that may wait to be read. A window that an earlier owner told is kept.
    pub receive_buffer_bytes: u32,
    /// Bytes that may wait to be sent and acknowledged.
    pub send_buffer_bytes: u32,
    /// TCP_NOTSENT_LOWAT: of those, so many may wait to be sent, and a segment more; `u32::MAX`: all.
    pub unsent_most_bytes: u32,
    /// SO_RCVLOWAT.
    pub receive_low_water_bytes: u32,
    /// What is added at least to the smoothed round trip for a retransmission timeout, ns (`TCP_RTO_MIN`).
    pub retransmit_floor_ns: u64,
    /// How the connection answers to congestion.
    pub congestion_control: CongestionControl,
    /// The kernel ends the connection: a segment that ends it (FIN, RST), or has urgent data, is not taken in, and the caller gives connection and
    /// frame to the kernel ([`Verdict::Ending`](crate::Verdict::Ending)).
    pub leaves_ending: bool,
    /// It is told when much is sent or received at once ([`TcpReadiness::is_bulk`](super::TcpReadiness::is_bulk)), where the kernel would have fewer frames
    /// than this stack.
    pub tells_bulk: bool,
    /// The kernel would send long segments, which the device cuts (TSO, GSO).
    pub device_cuts: bool,
    /// It would receive long segments, which were joined (GRO). Where such come, that is known without.
    pub device_joins: bool,
    /// IP_TOS or IPV6_TCLASS; the lower two bits are the stack's (RFC 3168).
    pub tos: u8,
    /// IP_TTL or IPV6_UNICAST_HOPS; `None`: that of the route or the host.
    pub ttl: Option<u8>,
}

impl Default for TcpOptions {
    fn default() -> TcpOptions {
        TcpOptions {
            no_delay: false,
            cork: false,
            keepalive: None,
            user_timeout_ns: None,
            receive_buffer_bytes: 3 << 20,
            send_buffer_bytes: 1 << 20,
            unsent_most_bytes: u32::MAX,
            receive_low_water_bytes: 1,
            retransmit_floor_ns: SECOND_NS / 5,
            congestion_control: CongestionControl::default(),
            leaves_ending: false,
            tells_bulk: false,
            device_cuts: false,
            device_joins: false,
            tos: 0,
            ttl: None,
        }
    }
}

/// SO_KEEPALIVE with the options of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// TCP_KEEPIDLE, ns.
    pub idle_ns: u64,
    /// TCP_KEEPINTVL, ns.
    pub interval_ns: u64,
    /// TCP_KEEPCNT.
    pub probes: u32,
}

impl Default for Keepalive {
    /// Linux's: two hours, 75 s, nine.
    //= RFC 9293 3.8.4 MUST: an idle far end is not probed within two hours, unless the program says so
    fn default() -> Keepalive {
        Keepalive { idle_ns: 7200 * SECOND_NS, interval_ns: 75 * SECOND_NS, probes: 9 }
    }
}
