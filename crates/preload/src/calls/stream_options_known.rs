//! Options of TCP sockets that do not keep a connection from being adopted. Whatever is not here changes packets, or what becomes of them, in a way
//! that nobody has looked at, and a connection with it is the kernel's.
//!
//! Source: ip(7), ipv6(7), socket(7), tcp(7), and the headers of include/uapi/linux.

use libc::c_int;

/// Of include/uapi/asm-generic/socket.h.
const SO_BUF_LOCK: c_int = 72;
const SO_RESERVE_MEM: c_int = 73;
const SO_TXREHASH: c_int = 74;
/// Of include/uapi/linux/in.h.
const IP_LOCAL_PORT_RANGE: c_int = 51;
/// Of include/uapi/linux/in6.h.
const IPV6_ADDR_PREFERENCES: c_int = 72;
/// Of include/uapi/linux/tcp.h.
const TCP_SAVE_SYN: c_int = 27;
const TCP_FASTOPEN_CONNECT: c_int = 30;
const TCP_FASTOPEN_KEY: c_int = 33;
const TCP_FASTOPEN_NO_COOKIE: c_int = 34;

/// Congestion controls of the stack.
pub const CONGESTION_CONTROLS: [&[u8]; 2] = [b"cubic", b"reno"];

/// By level: those that end with the handshake, concern nothing but listeners, other protocols or the kernel's own work, and those that are read when a
/// connection is adopted (`StreamOptions::read`).
pub const KNOWN: [(c_int, &[c_int]); 4] = [
    (
        libc::SOL_SOCKET,
        &[
            libc::SO_DEBUG,
            libc::SO_REUSEADDR,
            libc::SO_REUSEPORT,
            libc::SO_BROADCAST,
            libc::SO_KEEPALIVE,
            libc::SO_OOBINLINE,
            libc::SO_NO_CHECK,
            libc::SO_PASSCRED,
            libc::SO_TIMESTAMP,
            libc::SO_TIMESTAMPNS,
            libc::SO_TIMESTAMPING,
            libc::SO_MARK,
            libc::SO_RXQ_OVFL,
            libc::SO_BUSY_POLL,
            libc::SO_PREFER_BUSY_POLL,
            libc::SO_BUSY_POLL_BUDGET,
            libc::SO_MAX_PACING_RATE,
            libc::SO_INCOMING_CPU,
            libc::SO_ATTACH_FILTER,
            libc::SO_ATTACH_BPF,
            libc::SO_DETACH_FILTER,
            libc::SO_LOCK_FILTER,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            libc::SO_ATTACH_REUSEPORT_EBPF,
            libc::SO_ZEROCOPY,
            libc::SO_BINDTODEVICE,
            libc::SO_BINDTOIFINDEX,
            SO_BUF_LOCK,
            SO_RESERVE_MEM,
            SO_TXREHASH,
        ],
    ),
    (
        libc::IPPROTO_TCP,
        &[
            libc::TCP_MAXSEG,
            libc::TCP_SYNCNT,
            libc::TCP_DEFER_ACCEPT,
            libc::TCP_THIN_LINEAR_TIMEOUTS,
            libc::TCP_THIN_DUPACK,
            libc::TCP_FASTOPEN,
            TCP_SAVE_SYN,
            TCP_FASTOPEN_CONNECT,
            TCP_FASTOPEN_KEY,
            TCP_FASTOPEN_NO_COOKIE,
            libc::TCP_ULP,
            libc::TCP_INQ,
        ],
    ),
    (
        libc::IPPROTO_IP,
        &[
            libc::IP_OPTIONS,
            libc::IP_RECVERR,
            libc::IP_RECVTOS,
            libc::IP_RECVTTL,
            libc::IP_PKTINFO,
            libc::IP_FREEBIND,
            libc::IP_TRANSPARENT,
            libc::IP_MINTTL,
            libc::IP_BIND_ADDRESS_NO_PORT,
            IP_LOCAL_PORT_RANGE,
            libc::IP_MTU_DISCOVER,
            libc::IP_MULTICAST_IF,
            libc::IP_MULTICAST_TTL,
            libc::IP_MULTICAST_LOOP,
        ],
    ),
    (
        libc::IPPROTO_IPV6,
        &[
            libc::IPV6_V6ONLY,
            libc::IPV6_RECVERR,
            libc::IPV6_RECVPKTINFO,
            libc::IPV6_RECVTCLASS,
            libc::IPV6_RECVHOPLIMIT,
            libc::IPV6_TRANSPARENT,
            libc::IPV6_FREEBIND,
            libc::IPV6_MINHOPCOUNT,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_HOPOPTS,
            libc::IPV6_RTHDRDSTOPTS,
            libc::IPV6_RTHDR,
            libc::IPV6_DSTOPTS,
            libc::IPV6_MULTICAST_IF,
            libc::IPV6_MULTICAST_HOPS,
            libc::IPV6_MULTICAST_LOOP,
            IPV6_ADDR_PREFERENCES,
        ],
    ),
];
