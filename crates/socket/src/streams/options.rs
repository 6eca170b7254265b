//! What the kernel keeps of a TCP socket that the stack has to go by.

use std::time::Duration;

use nearwire_stack::{Keepalive, TcpOptions};
use nearwire_sys::descriptor::Descriptor;
use nearwire_sys::socket::int_option;
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::net::sockopt::{self, Timeout, ip_tos, tcp_nodelay};

use crate::reason::{Reason, Why};

/// Options that the stack has not: level and name. Set to anything but 0, the kernel serves the socket.
const ONLY_KERNEL: [(i32, i32); 9] = [
    (libc::IPPROTO_TCP, libc::TCP_CORK),
    (libc::IPPROTO_TCP, libc::TCP_INQ),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
    (libc::SOL_SOCKET, libc::SO_MARK),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING),
];

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamOptions {
    pub(super) tcp: TcpOptions,
    pub(super) is_nonblocking: bool,
    pub(super) receive_timeout: Option<Duration>,
    pub(super) send_timeout: Option<Duration>,
}

impl StreamOptions {
    /// Asks the kernel.
    ///
    /// # Errors
    /// An option is set that the stack has not, or the kernel does not answer.
    pub(super) fn read(shadow: Descriptor, is_v4: bool) -> Result<StreamOptions, Why> {
        let int = |level, name| int_option(shadow, level, name).map_err(|_| Why::from(Reason::EngineFailed));
        let tcp_int = |name| int(libc::IPPROTO_TCP, name);
        for (level, name) in ONLY_KERNEL {
            if int(level, name)? != 0 {
                return Err(Why::option(level, name));
            }
        }
        let seconds_ns = |seconds: i32| u64::try_from(seconds).unwrap_or(0) * 1_000_000_000;
        let keepalive = match int(libc::SOL_SOCKET, libc::SO_KEEPALIVE)? {
            0 => None,
            _ => Some(Keepalive {
                idle_ns: seconds_ns(tcp_int(libc::TCP_KEEPIDLE)?),
                interval_ns: seconds_ns(tcp_int(libc::TCP_KEEPINTVL)?),
                probes: tcp_int(libc::TCP_KEEPCNT)?.cast_unsigned(),
            }),
        };
        let user_timeout_ms = u64::try_from(tcp_int(libc::TCP_USER_TIMEOUT)?).unwrap_or(0);
        let defaults = TcpOptions::default();
        let tcp = TcpOptions {
            no_delay: tcp_nodelay(shadow).unwrap_or(false),
            keepalive,
            user_timeout_ns: Some(user_timeout_ms * 1_000_000).filter(|ns| *ns != 0),
            receive_low_water_bytes: int(libc::SOL_SOCKET, libc::SO_RCVLOWAT)?.max(1).cast_unsigned(),
            leaves_ending: true,
            tos: if is_v4 { ip_tos(shadow).unwrap_or(0) } else { int(libc::IPPROTO_IPV6, libc::IPV6_TCLASS)? as u8 },
            ..defaults
        };
        let timeout = |which| sockopt::socket_timeout(shadow, which).ok().flatten();
        let flags = fcntl_getfl(shadow).map_err(|_| Reason::EngineFailed)?;
        Ok(StreamOptions {
            tcp,
            is_nonblocking: flags.contains(OFlags::NONBLOCK),
            receive_timeout: timeout(Timeout::Recv),
            send_timeout: timeout(Timeout::Send),
        })
    }
}
