//! Which UDP sockets are bound in the network namespace of the calling thread, whoever has them.
//!
//! Asked by `sock_diag(7)`, of one port or of all. An answer about one port takes the kernel 25 us, and 650 us with ten thousand sockets on the host; one
//! about all of those takes 5 ms.
//!
//! Source: `include/uapi/linux/inet_diag.h`, `net/ipv4/udp_diag.c`, `net/ipv4/inet_diag.c` (`inet_diag_msg_attrs_fill`).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nearwire_sys::netlink::dump;
use nearwire_sys::netlink::message::{Attributes, u32_of};
use rustix::net::netlink::SOCK_DIAG;

pub(crate) const SOCK_DIAG_BY_FAMILY: u16 = 20;
pub(crate) const AF_INET: u8 = 2;
pub(crate) const AF_INET6: u8 = 10;
const IPPROTO_UDP: u8 = 17;
/// `struct inet_diag_req_v2`: family, protocol, two bytes, states, and an id that begins with the port.
const REQUEST_BYTES: usize = 56;
const STATES_AT: usize = 4;
const PORT_AT: usize = 8;
/// `struct inet_diag_msg`: four bytes, the id, and five words. Attributes follow.
const FOUND_BYTES: usize = 72;
const LOCAL_PORT_AT: usize = 4;
const REMOTE_PORT_AT: usize = 6;
const LOCAL_AT: usize = 8;
const REMOTE_AT: usize = 24;
const IFINDEX_AT: usize = 40;
const COOKIE_AT: usize = 44;
const UID_AT: usize = 64;
const INODE_AT: usize = 68;
/// `INET_DIAG_SKV6ONLY`, which the kernel reports of sockets that are not connected.
const V6_ONLY: u16 = 11;

/// A socket that is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundSocket {
    /// Its cookie, which no other socket of this boot has (`SO_COOKIE`).
    pub cookie: u64,
    /// Its inode, which no other socket has as long as it is open.
    pub inode: u64,
    /// The user who made it, as the agent's user namespace numbers him.
    pub uid: u32,
    /// Where it is bound.
    pub local: SocketAddr,
    /// Its peer, where it is connected.
    pub remote: Option<SocketAddr>,
    /// The interface that it is bound to (`SO_BINDTODEVICE`); 0 for none.
    pub ifindex: u32,
    /// Bound to `::`, it does not get what is sent to IPv4 addresses (`IPV6_V6ONLY`).
    pub v6_only: bool,
}

/// The sockets bound to a port, or to any.
///
/// # Errors
/// The kernel does not answer: without CONFIG_INET_UDP_DIAG, or without memory or fds.
pub fn bound_to(port: Option<u16>) -> io::Result<Vec<BoundSocket>> {
    let mut found = Vec::new();
    for family in [AF_INET, AF_INET6] {
        let request = request(family, port);
        dump(Some(SOCK_DIAG), SOCK_DIAG_BY_FAMILY, &request, |message| found.extend(read(message.payload)))?;
    }
    Ok(found)
}

fn request(family: u8, port: Option<u16>) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    (request[0], request[1]) = (family, IPPROTO_UDP);
    request[STATES_AT..PORT_AT].fill(0xff);
    request[PORT_AT..PORT_AT + 2].copy_from_slice(&port.unwrap_or(0).to_be_bytes());
    request
}

/// A `struct inet_diag_msg` and its attributes.
fn read(message: &[u8]) -> Option<BoundSocket> {
    let local = address(message, LOCAL_AT, LOCAL_PORT_AT)?;
    let remote = address(message, REMOTE_AT, REMOTE_PORT_AT)?;
    Some(BoundSocket {
        cookie: cookie(message)?,
        inode: word(message, INODE_AT)?.into(),
        uid: word(message, UID_AT)?,
        local,
        // Connected to a host and no port (connect(2) with port 0) is connected.
        remote: Some(remote).filter(|remote| remote.port() != 0 || !remote.ip().is_unspecified()),
        ifindex: word(message, IFINDEX_AT)?,
        v6_only: Attributes(message.get(FOUND_BYTES..)?).value(V6_ONLY).is_some_and(|value| value.first() == Some(&1)),
    })
}

fn address(message: &[u8], at: usize, port_at: usize) -> Option<SocketAddr> {
    let octets = message.get(at..)?;
    let ip = if *message.first()? == AF_INET {
        IpAddr::from(Ipv4Addr::from_octets(*octets.first_chunk()?))
    } else {
        IpAddr::from(Ipv6Addr::from_octets(*octets.first_chunk()?))
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*message.get(port_at..)?.first_chunk()?)))
}

/// The cookie in a `struct inet_diag_msg`: two words, the lower one first.
pub(crate) fn cookie(message: &[u8]) -> Option<u64> {
    Some(u64::from(word(message, COOKIE_AT)?) | u64::from(word(message, COOKIE_AT + 4)?) << 32)
}

fn word(message: &[u8], at: usize) -> Option<u32> {
    u32_of(message.get(at..)?)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use rustix::net::sockopt::{set_ipv6_v6only, socket_cookie};
    use rustix::net::{AddressFamily, SocketType, bind, socket};

    use super::*;

    fn only(socket: &UdpSocket) -> BoundSocket {
        let local = socket.local_addr().unwrap();
        let inode = rustix::fs::fstat(socket).unwrap().st_ino;
        let is_it = |found: &BoundSocket| found.inode == inode;
        let all: Vec<_> = bound_to(None).unwrap().into_iter().filter(is_it).collect();
        let of_port: Vec<_> = bound_to(Some(local.port())).unwrap().into_iter().filter(is_it).collect();
        assert_eq!((all.len(), &all), (1, &of_port));
        all[0]
    }

    #[test]
    fn bound_socket_is_found_with_its_cookie_and_its_ends() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let [one, other] = [address; 2].map(|address| UdpSocket::bind(address).unwrap());
            let found = only(&one);
            assert_eq!((found.local, found.remote), (one.local_addr().unwrap(), None));
            let uid = rustix::process::geteuid().as_raw();
            assert_eq!((found.cookie, found.ifindex, found.uid), (socket_cookie(&one).unwrap(), 0, uid));
            one.connect(other.local_addr().unwrap()).unwrap();
            assert_eq!(only(&one).remote, other.local_addr().ok());
        }
    }

    #[test]
    fn socket_of_ipv6_alone_is_told_from_one_of_both_families() {
        assert!(!only(&UdpSocket::bind("[::]:0").unwrap()).v6_only);
        let alone = socket(AddressFamily::INET6, SocketType::DGRAM, None).unwrap();
        set_ipv6_v6only(&alone, true).unwrap();
        bind(&alone, &"[::]:0".parse::<SocketAddr>().unwrap()).unwrap();
        assert!(only(&UdpSocket::from(alone)).v6_only);
    }

    #[test]
    fn message_cut_anywhere_is_no_socket_and_no_panic() {
        let whole = [7; FOUND_BYTES + 8];
        for len in 0..whole.len() {
            assert!(len >= FOUND_BYTES || read(&whole[..len]).is_none());
        }
    }
}
