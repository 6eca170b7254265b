//! What the agent reads from a socket that a program passes: having it is the right to its flow.
//!
//! Everything is asked of the kernel; nothing the program says of the socket counts. The descriptor is closed right after: a copy
//! that the agent kept would hold the port when the program has closed it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use nearwire_sys::socket::{int_option, netns_cookie};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_cookie, socket_reuseport};
use rustix::net::{getpeername, getsockname, sockopt};

use crate::message::{Addresses, Cause};

// include/uapi/asm-generic/socket.h, include/uapi/linux/in6.h.
const SOL_SOCKET: i32 = 1;
const SO_REUSEADDR: i32 = 2;
const SO_TYPE: i32 = 3;
const SO_PROTOCOL: i32 = 38;
const SO_DOMAIN: i32 = 39;
const SO_BINDTOIFINDEX: i32 = 62;
const SOL_IPV6: i32 = 41;
const IPV6_V6ONLY: i32 = 26;
const AF_INET: i32 = 2;
const AF_INET6: i32 = 10;
const SOCK_DGRAM: i32 = 2;
const IPPROTO_UDP: i32 = 17;

/// What the kernel said of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shadow {
    /// Its number, which no other socket of this boot has (`SO_COOKIE`).
    pub cookie: u64,
    /// Its ends.
    pub addresses: Addresses,
    /// Whether it is one of a group that shares a port (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// Whether it is bound although others may be (`SO_REUSEADDR`).
    pub reuse_address: bool,
    /// The interface that it is bound to (`SO_BINDTODEVICE`); 0 for none.
    pub ifindex: u32,
}

impl Shadow {
    /// Asks the kernel of a socket. `namespace` is the cookie of the agent's network namespace.
    ///
    /// # Errors
    /// It is no bound UDP socket of that namespace.
    pub fn read(socket: BorrowedFd<'_>, namespace: u64) -> Result<Shadow, Cause> {
        let option =
            |level, option| int_option(socket, level, option).map_err(|error| unreadable(Errno::from_io_error(&error)));
        // First, as the kernel answers for what is no socket without calling into the file.
        let kind = option(SOL_SOCKET, SO_TYPE)?;
        let (domain, protocol) = (option(SOL_SOCKET, SO_DOMAIN)?, option(SOL_SOCKET, SO_PROTOCOL)?);
        if !matches!(domain, AF_INET | AF_INET6) || kind != SOCK_DGRAM || protocol != IPPROTO_UDP {
            let [domain, kind, protocol] = [domain, kind, protocol].map(i32::cast_unsigned);
            return Err(Cause::WrongSocket { domain, kind, protocol });
        }
        // A kernel that does not tell (before Linux 5.14) is older than any that is supported.
        if netns_cookie(socket).ok() != Some(namespace) {
            return Err(Cause::OtherNamespace {});
        }
        let local = own_end(socket)?;
        let is_every_one = domain == AF_INET6 && local.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let both_families = is_every_one && option(SOL_IPV6, IPV6_V6ONLY)? == 0;
        Ok(Shadow {
            cookie: socket_cookie(socket).map_err(|errno| unreadable(Some(errno)))?,
            addresses: Addresses { local, remote: far_end(socket), both_families },
            reuse_port: socket_reuseport(socket).unwrap_or(false),
            reuse_address: option(SOL_SOCKET, SO_REUSEADDR)? != 0,
            ifindex: option(SOL_SOCKET, SO_BINDTOIFINDEX)?.cast_unsigned(),
        })
    }
}

fn unreadable(errno: Option<Errno>) -> Cause {
    match errno {
        // EBADF: a descriptor that only names a file (O_PATH).
        Some(Errno::NOTSOCK | Errno::BADF) => Cause::NotASocket {},
        errno => Cause::SocketUnreadable { errno: errno.map_or(0, |errno| errno.raw_os_error().cast_unsigned()) },
    }
}

fn own_end(socket: BorrowedFd<'_>) -> Result<SocketAddr, Cause> {
    let name = getsockname(socket).map_err(|errno| unreadable(Some(errno)))?;
    let local = SocketAddr::try_from(name).map_err(|_| Cause::NotBound {})?;
    if local.port() == 0 { Err(Cause::NotBound {}) } else { Ok(plain(local)) }
}

fn far_end(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    let name = getpeername(socket).ok().flatten()?;
    SocketAddr::try_from(name).ok().filter(|remote| remote.port() != 0).map(plain)
}

/// Without flow label and scope, and IPv4 as such where IPv6 has it mapped.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether a descriptor is of a socket: the kernel says so without a call into the file.
#[must_use]
pub fn is_socket(descriptor: impl AsFd) -> bool {
    sockopt::socket_type(&descriptor).is_ok()
}

/// Whether closing a descriptor waits for nobody. It may wait for whoever serves its file: anything but a socket does what its file system says. A
/// socket waits where it lingers, which is taken out of it.
#[must_use]
pub fn may_close_at_once(descriptor: impl AsFd) -> bool {
    is_socket(&descriptor) && sockopt::set_socket_linger(&descriptor, None).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use nearwire_lab::Namespace;
    use rustix::net::{AddressFamily, SocketType};

    use super::*;

    fn own() -> u64 {
        netns_cookie(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap()
    }

    fn read(socket: impl AsFd) -> Result<Shadow, Cause> {
        Shadow::read(socket.as_fd(), own())
    }

    #[test]
    fn bound_socket_tells_its_address() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let shadow = read(&socket).unwrap();
        assert_eq!(shadow.addresses.local, socket.local_addr().unwrap());
        assert_eq!((shadow.addresses.remote, shadow.ifindex, shadow.reuse_port), (None, 0, false));
        let copy = socket.try_clone().unwrap();
        assert_eq!(read(&copy).unwrap().cookie, shadow.cookie, "a copy is the same socket");
        assert_ne!(read(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap().cookie, shadow.cookie);
    }

    #[test]
    fn connected_socket_tells_both_ends() {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(peer.local_addr().unwrap()).unwrap();
        let addresses = read(&socket).unwrap().addresses;
        assert_eq!((addresses.local, addresses.remote), (socket.local_addr().unwrap(), peer.local_addr().ok()));
    }

    #[test]
    fn unspecified_address_of_ipv6_means_ipv4_too_unless_the_socket_says_no() {
        let socket = UdpSocket::bind("[::]:0").unwrap();
        assert!(read(&socket).unwrap().addresses.both_families);
        assert!(!read(UdpSocket::bind("[::1]:0").unwrap()).unwrap().addresses.both_families);
    }

    #[test]
    fn what_is_no_bound_udp_socket_is_refused() {
        let unbound = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
        assert_eq!(read(&unbound), Err(Cause::NotBound {}));
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(read(&tcp), Err(Cause::WrongSocket { domain: 2, kind: 1, protocol: 6 }));
        let (unix, _) = std::os::unix::net::UnixDatagram::pair().unwrap();
        assert!(matches!(read(&unix), Err(Cause::WrongSocket { domain: 1, .. })));
        let file = std::fs::File::open("/proc/self/status").unwrap();
        assert_eq!(read(&file), Err(Cause::NotASocket {}));
        assert!(!may_close_at_once(&file) && may_close_at_once(&tcp));
    }

    #[test]
    fn socket_of_another_network_namespace_is_refused() {
        let other = match Namespace::new() {
            Ok(other) => other,
            Err(error) => {
                assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "{error}");
                return println!("SKIP {error}");
            }
        };
        let socket = other.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        assert_eq!(read(&socket), Err(Cause::OtherNamespace {}));
    }
}
