//! What the agent reads from a socket that a program passes: having it is the right to its flow.
//!
//! Everything is asked of the kernel; nothing the program says of the socket counts. The descriptor is closed right after: a copy
//! that the agent kept would hold the port when the program has closed it.

use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use nearwire_frames::steering::{ExactFlow, Transport};
use nearwire_sys::socket::{int_option, netns_cookie};
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::net::sockopt::{socket_cookie, socket_reuseport};
use rustix::net::{getpeername, getsockname};
use rustix::thread::{CapabilitySet, capabilities};

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
const SOCK_STREAM: i32 = 1;
const SOCK_DGRAM: i32 = 2;
const IPPROTO_TCP: i32 = 6;
const IPPROTO_UDP: i32 = 17;

const UNPRIVILEGED_PORT_START: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// What the kernel said of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shadow {
    /// Its number, which no other socket of this boot has (`SO_COOKIE`).
    pub cookie: u64,
    /// The same as descriptors in `/proc` have it.
    pub inode: u64,
    /// Its ends.
    pub addresses: Addresses,
    /// Whether it was made for IPv6, also where its addresses are of IPv4.
    pub is_ipv6: bool,
    /// Whether it is one of a group that shares a port (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// Whether it is bound although others may be (`SO_REUSEADDR`).
    pub reuse_address: bool,
    /// The interface that it is bound to (`SO_BINDTODEVICE`); 0 for none.
    pub ifindex: u32,
}

impl Shadow {
    /// Whether other sockets may be bound to its address.
    #[must_use]
    pub const fn may_share(&self) -> bool {
        self.reuse_port || self.reuse_address
    }

    /// Whether the kernel has it in one group with another socket, among which it divides datagrams (`udp_reuseport_add_sock`). Their
    /// users are to be the same too.
    #[must_use]
    pub fn is_alike(&self, other: &Shadow) -> bool {
        let bound = |shadow: &Shadow| {
            (shadow.addresses.local, shadow.addresses.both_families, shadow.is_ipv6, shadow.ifindex, shadow.reuse_port)
        };
        self.reuse_port && bound(self) == bound(other)
    }

    /// Asks the kernel of a socket. `namespace` is the cookie of the agent's network namespace.
    ///
    /// # Errors
    /// It is no bound UDP socket of that namespace.
    pub fn read(socket: BorrowedFd<'_>, namespace: u64) -> Result<Shadow, Cause> {
        is_udp(socket)?;
        is_of_namespace(socket, namespace)?;
        let option = |level, option| option_of(socket, level, option);
        let (local, domain) = (own_end(socket)?, option(SOL_SOCKET, SO_DOMAIN)?);
        let is_every_one = domain == AF_INET6 && local.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let both_families = is_every_one && option(SOL_IPV6, IPV6_V6ONLY)? == 0;
        Ok(Shadow {
            cookie: socket_cookie(socket).map_err(|errno| unreadable(Some(errno)))?,
            inode: fstat(socket).map_err(|errno| unreadable(Some(errno)))?.st_ino,
            addresses: Addresses { local, remote: far_end(socket), both_families },
            is_ipv6: domain == AF_INET6,
            reuse_port: socket_reuseport(socket).unwrap_or(false),
            reuse_address: option(SOL_SOCKET, SO_REUSEADDR)? != 0,
            ifindex: option(SOL_SOCKET, SO_BINDTOIFINDEX)?.cast_unsigned(),
        })
    }

    /// The ends of its flow; `address`: of what is sent to this one alone. A socket that is bound to every address has a right to each
    /// that this host has, and to groups, which the kernel would give it too. `ifindex`: of the interface that a link-local one is of.
    ///
    /// One of several at its port (SO_REUSEPORT) that is connected gets what its peer sends and nothing else.
    ///
    /// # Errors
    /// The socket has no right to the address.
    pub fn addresses_of(&self, address: Option<IpAddr>, ifindex: u32) -> Result<Addresses, Cause> {
        let Some(address) = address else { return Ok(self.addresses) };
        let Addresses { local, remote, both_families } = self.addresses;
        let fits = if local.ip().is_unspecified() {
            let is_of_family = local.is_ipv4() == address.is_ipv4() || (both_families && address.is_ipv4());
            is_of_family && !address.is_unspecified() && (address.is_multicast() || is_own(address, ifindex))
        } else {
            address == local.ip()
        };
        if !fits {
            return Err(Cause::OtherAddress { address });
        }
        let remote = remote.filter(|_| self.reuse_port && address == local.ip());
        Ok(Addresses { local: SocketAddr::new(address, local.port()), remote, both_families: false })
    }
}

/// What the kernel said of a connected TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectedShadow {
    /// Its number, which no other socket of this boot has (`SO_COOKIE`).
    pub cookie: u64,
    /// Its frames.
    pub flow: ExactFlow,
    /// The interface that it is bound to (`SO_BINDTODEVICE`); 0 for none.
    pub ifindex: u32,
}

impl ConnectedShadow {
    /// Asks the kernel of a socket. `namespace` is the cookie of the agent's network namespace.
    ///
    /// # Errors
    /// It is no connected TCP socket of that namespace.
    pub fn read(socket: BorrowedFd<'_>, namespace: u64) -> Result<ConnectedShadow, Cause> {
        is_tcp_of_namespace(socket, namespace)?;
        let (local, remote) = (own_end(socket)?, far_end(socket).ok_or(Cause::NotBound {})?);
        Ok(ConnectedShadow {
            cookie: socket_cookie(socket).map_err(|errno| unreadable(Some(errno)))?,
            flow: ExactFlow::between(Transport::Tcp, local, remote),
            ifindex: option_of(socket, SOL_SOCKET, SO_BINDTOIFINDEX)?.cast_unsigned(),
        })
    }
}

/// Whether a descriptor is of a TCP socket of a network namespace, connected or not.
pub(crate) fn is_tcp_of_namespace(socket: BorrowedFd<'_>, namespace: u64) -> Result<(), Cause> {
    is_tcp(socket)?;
    is_of_namespace(socket, namespace)
}

/// Whether this process may bind sockets to a port (`inet_port_requires_bind_service` of include/net/ip.h).
pub(crate) fn may_bind_to(port: u16) -> Result<(), Cause> {
    let may_all = || capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_BIND_SERVICE));
    let first_free = || fs::read_to_string(UNPRIVILEGED_PORT_START).ok()?.trim().parse::<u16>().ok();
    let may = may_all() || first_free().is_some_and(|first| port >= first);
    may.then_some(()).ok_or(Cause::PortReserved { port })
}

/// A kernel that does not tell (before Linux 5.14) is older than any that is supported.
fn is_of_namespace(socket: BorrowedFd<'_>, namespace: u64) -> Result<(), Cause> {
    if netns_cookie(socket).ok() == Some(namespace) { Ok(()) } else { Err(Cause::OtherNamespace {}) }
}

/// Whether a socket can be bound to an address here, which the kernel allows for addresses of the host.
pub(crate) fn is_own(address: IpAddr, ifindex: u32) -> bool {
    let any_port = match address {
        IpAddr::V6(address) if address.is_unicast_link_local() => SocketAddrV6::new(address, 0, 0, ifindex).into(),
        address => SocketAddr::new(address, 0),
    };
    UdpSocket::bind(any_port).is_ok()
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

fn option_of(socket: BorrowedFd<'_>, level: i32, option: i32) -> Result<i32, Cause> {
    int_option(socket, level, option).map_err(|error| unreadable(Errno::from_io_error(&error)))
}

/// Whether a descriptor is of a UDP socket: the kernel says so without a call into the file. No other may be closed where that must not wait:
/// one of UDP has nothing in its queues that is closed with it, and does not linger.
///
/// # Errors
/// What else it is.
pub fn is_udp(descriptor: impl AsFd) -> Result<(), Cause> {
    is_of_kind(descriptor.as_fd(), SOCK_DGRAM, IPPROTO_UDP)
}

/// Whether a descriptor is of a TCP socket.
///
/// # Errors
/// What else it is.
pub fn is_tcp(descriptor: impl AsFd) -> Result<(), Cause> {
    is_of_kind(descriptor.as_fd(), SOCK_STREAM, IPPROTO_TCP)
}

fn is_of_kind(descriptor: BorrowedFd<'_>, wanted_kind: i32, wanted_protocol: i32) -> Result<(), Cause> {
    let option = |option| option_of(descriptor, SOL_SOCKET, option);
    let kind = option(SO_TYPE)?;
    let (domain, protocol) = (option(SO_DOMAIN)?, option(SO_PROTOCOL)?);
    if !matches!(domain, AF_INET | AF_INET6) || kind != wanted_kind || protocol != wanted_protocol {
        let [domain, kind, protocol] = [domain, kind, protocol].map(i32::cast_unsigned);
        return Err(Cause::WrongSocket { domain, kind, protocol });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use nearwire_lab::{Namespace, made_or_skip};
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
    fn socket_has_a_right_to_the_address_that_it_is_bound_to_and_of_every_address_to_those_of_the_host() {
        let at = |address: &str| Some(address.parse::<IpAddr>().unwrap());
        let one = read(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let local = one.addresses.local;
        assert_eq!(one.addresses_of(at("127.0.0.1"), 1), Ok(Addresses { local, remote: None, both_families: false }));
        for other in ["127.0.0.2", "0.0.0.0", "224.0.0.9", "::1"] {
            let address = other.parse().unwrap();
            assert_eq!(one.addresses_of(Some(address), 1), Err(Cause::OtherAddress { address }));
        }
        let every = read(UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        assert_eq!(every.addresses_of(None, 1), Ok(every.addresses));
        assert!(["127.0.0.2", "224.0.0.9"].iter().all(|own| every.addresses_of(at(own), 1).is_ok()));
        assert!(["0.0.0.0", "192.0.2.1", "::1"].iter().all(|other| every.addresses_of(at(other), 1).is_err()));
        let both = read(UdpSocket::bind("[::]:0").unwrap()).unwrap();
        assert!(both.addresses_of(at("127.0.0.1"), 1).is_ok());
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
        assert_eq!(is_udp(&file), Err(Cause::NotASocket {}));
    }

    #[test]
    fn socket_of_another_network_namespace_is_refused() {
        let Some(other) = made_or_skip(Namespace::new()) else { return };
        let socket = other.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        assert_eq!(read(&socket), Err(Cause::OtherNamespace {}));
    }
}
