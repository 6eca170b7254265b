//! What the kernel keeps of a TCP socket that the stack has to go by.

use std::net::SocketAddr;
use std::time::Duration;

use nearwire_stack::{Keepalive, TcpOptions};
use nearwire_sys::descriptor::Descriptor;
use nearwire_sys::socket::{buffer_locks, int_option, option_bytes};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::net::sockopt::{self, Timeout, ip_tos, tcp_nodelay};

use crate::kept::peer_address;
use crate::reason::{Reason, Why};

/// Options that the stack has not: level, name, and the value that asks for nothing. With any other the kernel serves the socket.
const ONLY_KERNEL: [(i32, i32, i32); 8] = [
    (libc::IPPROTO_TCP, libc::TCP_INQ, 0),
    (libc::SOL_SOCKET, libc::SO_MARK, 0),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE, 0),
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY, 0),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP, 0),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 0),
    // Bytes leave as fast as they can.
    (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, -1),
];
/// Of those, which each family has: packets that come from further away are dropped (RFC 5082), an address is not the host's, and each router may divide
/// packets or none may, whatever the way takes.
const ONLY_KERNEL_V4: [(i32, i32, i32); 3] = [
    (libc::IPPROTO_IP, libc::IP_MINTTL, 0),
    (libc::IPPROTO_IP, libc::IP_TRANSPARENT, 0),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_WANT),
];
const ONLY_KERNEL_V6: [(i32, i32, i32); 3] = [
    (libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT, 0),
    (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 0),
    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_WANT),
];
/// Those that have no bytes where they ask for nothing: what is between the program and TCP (as TLS by the kernel), and what each packet has beside its
/// header.
const EMPTY: (i32, i32) = (libc::IPPROTO_TCP, libc::TCP_ULP);
const EMPTY_V4: [(i32, i32); 1] = [(libc::IPPROTO_IP, libc::IP_OPTIONS)];
const EMPTY_V6: [(i32, i32); 4] = [
    (libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS),
    (libc::IPPROTO_IPV6, libc::IPV6_RTHDRDSTOPTS),
    (libc::IPPROTO_IPV6, libc::IPV6_RTHDR),
    (libc::IPPROTO_IPV6, libc::IPV6_DSTOPTS),
];
/// `SO_GET_FILTER` of include/uapi/asm-generic/socket.h.
const SO_GET_FILTER: i32 = libc::SO_ATTACH_FILTER;
/// Of `SO_BUF_LOCK` (`SOCK_SNDBUF_LOCK`, `SOCK_RCVBUF_LOCK`).
const SENDING_LOCKED: i32 = 1;
const RECEIVING_LOCKED: i32 = 2;
/// What IP_TTL is where neither the program nor `net.ipv4.ip_default_ttl` says anything else.
const DEFAULT_TTL: i32 = 64;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamOptions {
    pub(super) tcp: TcpOptions,
    pub(super) is_nonblocking: bool,
    pub(super) receive_timeout: Option<Duration>,
    pub(super) send_timeout: Option<Duration>,
    /// The family of the socket, which may carry IPv4 as one of IPv6.
    pub(super) is_v4: bool,
}

impl StreamOptions {
    /// Asks the kernel. `has_keepalive`: `SO_KEEPALIVE`, which a parked shadow does not tell.
    ///
    /// # Errors
    /// An option is set that the stack has not, or the kernel does not answer.
    pub(super) fn read(shadow: Descriptor, is_v4: bool, has_keepalive: bool) -> Result<StreamOptions, Why> {
        let int = |level, name| int_option(shadow, level, name).map_err(|_| Why::from(Reason::EngineFailed));
        let tcp_int = |name| int(libc::IPPROTO_TCP, name);
        has_only_known(shadow, is_v4)?;
        let seconds_ns = |seconds: i32| u64::try_from(seconds).unwrap_or(0) * 1_000_000_000;
        let keepalive = match has_keepalive {
            false => None,
            true => Some(Keepalive {
                idle_ns: seconds_ns(tcp_int(libc::TCP_KEEPIDLE)?),
                interval_ns: seconds_ns(tcp_int(libc::TCP_KEEPINTVL)?),
                probes: tcp_int(libc::TCP_KEEPCNT)?.cast_unsigned(),
            }),
        };
        let user_timeout_ms = u64::try_from(tcp_int(libc::TCP_USER_TIMEOUT)?).unwrap_or(0);
        let defaults = TcpOptions::default();
        let locks = buffer_locks(shadow).map_err(|_| Reason::EngineFailed)?;
        // What the program asked for: the kernel keeps twice as much, for what it needs beside the bytes.
        let buffer = |lock, name, default| match locks & lock {
            0 => Ok(default),
            _ => int(libc::SOL_SOCKET, name).map(|bytes| bytes.cast_unsigned() / 2),
        };
        let tcp = TcpOptions {
            no_delay: tcp_nodelay(shadow).unwrap_or(false),
            cork: tcp_int(libc::TCP_CORK)? != 0,
            keepalive,
            user_timeout_ns: Some(user_timeout_ms * 1_000_000).filter(|ns| *ns != 0),
            receive_low_water_bytes: int(libc::SOL_SOCKET, libc::SO_RCVLOWAT)?.max(1).cast_unsigned(),
            leaves_ending: true,
            send_buffer_bytes: buffer(SENDING_LOCKED, libc::SO_SNDBUF, defaults.send_buffer_bytes)?,
            unsent_most_bytes: unsent_most_bytes(tcp_int(libc::TCP_NOTSENT_LOWAT)?.cast_unsigned()),
            receive_buffer_bytes: buffer(RECEIVING_LOCKED, libc::SO_RCVBUF, defaults.receive_buffer_bytes)?,
            ttl: hops(&int, is_v4)?,
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
            is_v4,
        })
    }
}

/// What a program has set of a connection that the kernel has.
///
/// # Errors
/// An option is set that the stack has not, or the kernel does not answer.
pub fn options_of_connection(shadow: Descriptor) -> Result<TcpOptions, Why> {
    let failed = |_| Why::from(Reason::EngineFailed);
    let domain = int_option(shadow, libc::SOL_SOCKET, libc::SO_DOMAIN).map_err(failed)?;
    let has_keepalive = int_option(shadow, libc::SOL_SOCKET, libc::SO_KEEPALIVE).map_err(failed)? != 0;
    StreamOptions::read(shadow, domain == libc::AF_INET, has_keepalive).map(|options| options.tcp)
}

/// Whether the socket has no option that the stack has not.
fn has_only_known(shadow: Descriptor, is_v4: bool) -> Result<(), Why> {
    let failed = |_| Why::from(Reason::EngineFailed);
    for (level, name, nothing) in ONLY_KERNEL.into_iter().chain(if is_v4 { ONLY_KERNEL_V4 } else { ONLY_KERNEL_V6 }) {
        if int_option(shadow, level, name).map_err(failed)? != nothing {
            return Err(Why::option(level, name));
        }
    }
    // The kernel itself binds one with a link-local far end. The way of another one is not the route's.
    let bound_to = int_option(shadow, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX).map_err(failed)?.cast_unsigned();
    let scope = match peer_address(shadow) {
        Some(SocketAddr::V6(peer)) => peer.scope_id(),
        _ => 0,
    };
    if bound_to != 0 && bound_to != scope {
        return Err(Why::option(libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX));
    }
    let of_family: &[(i32, i32)] = if is_v4 { &EMPTY_V4 } else { &EMPTY_V6 };
    for (level, name) in of_family.iter().copied().chain([EMPTY]) {
        if option_bytes(shadow, level, name, &mut [0; 64]).map_err(failed)? != 0 {
            return Err(Why::option(level, name));
        }
    }
    // How many instructions, asked for without room for any. Of a program by bpf(2) the kernel tells nothing.
    match option_bytes(shadow, libc::SOL_SOCKET, SO_GET_FILTER, &mut []) {
        Ok(0) => Ok(()),
        _ => Err(Reason::AttachedFilter.into()),
    }
}

/// By TCP_NOTSENT_LOWAT, where that says something, else by the host. Its setting may have changed since it was last asked for.
fn unsent_most_bytes(of_socket: u32) -> u32 {
    const OF_HOST: &str = "/proc/sys/net/ipv4/tcp_notsent_lowat";
    if of_socket != 0 {
        return of_socket;
    }
    let of_host = std::fs::read_to_string(OF_HOST).ok().and_then(|text| text.trim().parse().ok());
    of_host.filter(|bytes| *bytes != 0).unwrap_or(u32::MAX)
}

/// How far packets go, where that is not the route's to say: the kernel does not tell whether the program has set IP_TTL, and knows the route
/// only for IPv6.
fn hops(int: &impl Fn(i32, i32) -> Result<i32, Why>, is_v4: bool) -> Result<Option<u8>, Why> {
    let hops = match is_v4 {
        true => Some(int(libc::IPPROTO_IP, libc::IP_TTL)?).filter(|hops| *hops != DEFAULT_TTL),
        false => Some(int(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS)?),
    };
    Ok(hops.and_then(|hops| u8::try_from(hops).ok()))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;
    use nearwire_sys::socket::set_int_option;

    #[test]
    fn connection_whose_program_set_how_far_packets_go_keeps_that() {
        for (address, is_v4) in [("127.0.0.1:0", true), ("[::1]:0", false)] {
            let listener = TcpListener::bind(address).unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let read =
                || StreamOptions::read(Descriptor::new(stream.as_raw_fd()).unwrap(), is_v4, false).unwrap().tcp.ttl;
            let before = read();
            assert!(before.is_none() || !is_v4, "{before:?}");
            let set = match is_v4 {
                true => sockopt::set_ip_ttl(&stream, 5),
                false => sockopt::set_ipv6_unicast_hops(&stream, Some(5)),
            };
            set.unwrap();
            assert_eq!(read(), Some(5), "{address}");
        }
    }

    type Set<'a> = (&'a str, &'a dyn Fn(&TcpStream));

    fn connected(address: &str) -> (TcpListener, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener, stream)
    }

    #[track_caller]
    fn is_the_kernels(address: &str, options: &[Set]) {
        for (name, set) in options {
            let (_listener, stream) = connected(address);
            let read = || {
                let is_v4 = stream.local_addr().unwrap().is_ipv4();
                StreamOptions::read(Descriptor::new(stream.as_raw_fd()).unwrap(), is_v4, false)
            };
            assert!(read().is_ok(), "{address}: {name} before it is set");
            set(&stream);
            assert!(read().is_err(), "{address}: {name}");
        }
    }

    #[test]
    fn connection_with_an_option_that_only_the_kernel_has_is_not_adopted() {
        if !rustix::process::geteuid().is_root() {
            return println!("SKIP: options that need root");
        }
        let set = |stream: &TcpStream, level, option, value| set_int_option(stream, level, option, value).unwrap();
        let interface = &|stream: &TcpStream| set(stream, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, 1);
        let urgent = &|stream: &TcpStream| set(stream, libc::SOL_SOCKET, libc::SO_OOBINLINE, 1);
        let both: [Set; 2] = [("SO_BINDTODEVICE", interface), ("SO_OOBINLINE", urgent)];
        is_the_kernels("127.0.0.1:0", &both);
        is_the_kernels("[::1]:0", &both);
        is_the_kernels(
            "127.0.0.1:0",
            &[
                ("IP_TRANSPARENT", &|stream| set(stream, libc::IPPROTO_IP, libc::IP_TRANSPARENT, 1)),
                ("IP_MINTTL", &|stream| set(stream, libc::IPPROTO_IP, libc::IP_MINTTL, 200)),
                ("IP_MTU_DISCOVER", &|stream| set(stream, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, 0)),
                // Four times IPOPT_NOOP.
                ("IP_OPTIONS", &|stream| set(stream, libc::IPPROTO_IP, libc::IP_OPTIONS, 0x0101_0101)),
            ],
        );
        is_the_kernels(
            "[::1]:0",
            &[
                ("IPV6_TRANSPARENT", &|stream| set(stream, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 1)),
                ("IPV6_MINHOPCOUNT", &|stream| set(stream, libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT, 200)),
                ("IPV6_MTU_DISCOVER", &|stream| set(stream, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, 0)),
            ],
        );
    }
}
