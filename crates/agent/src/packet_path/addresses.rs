//! Whether the packets of a connection have the addresses that its socket tells. BPF programs of control groups can have connect(2) go to one address, as to one of
//! several servers behind an address of a cluster, and getpeername(2) tell another (`BPF_CGROUP_INET4_CONNECT`, `BPF_CGROUP_INET4_GETPEERNAME`).
//!
//! Source: `include/uapi/linux/inet_diag.h` (`struct inet_diag_req_v2`), `net/ipv4/inet_diag.c` (`inet_diag_find_one_icsk`).

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use nearwire_sys::netlink::{Answers, ask};
use rustix::io::Errno;

use crate::bound::{AF_INET, AF_INET6, SOCK_DIAG_BY_FAMILY};
use crate::shadow::ConnectedShadow;

/// `IPPROTO_TCP`.
const TCP: u8 = 6;
const ADDRESS_BYTES: usize = 16;

/// Asks the kernel for the connection by these addresses, on a netlink socket of `sock_diag(7)`: it is to be that of the socket.
///
/// # Errors
/// The kernel does not answer.
pub(super) fn are_on_the_wire(diag: impl AsFd, shadow: &ConnectedShadow) -> io::Result<bool> {
    match ask(diag, SOCK_DIAG_BY_FAMILY, Answers::One, &request(shadow), 0) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => Ok(false),
        found => found.map(|_| true),
    }
}

fn request(shadow: &ConnectedShadow) -> Vec<u8> {
    let flow = &shadow.flow;
    let family = if flow.local.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut request = vec![family, TCP, 0, 0];
    // Of any state.
    request.extend([0xff; 4]);
    request.extend(flow.local_port.to_be_bytes());
    request.extend(flow.remote_port.to_be_bytes());
    for address in [flow.local, flow.remote] {
        let from = request.len();
        match address {
            IpAddr::V4(address) => request.extend(address.octets()),
            IpAddr::V6(address) => request.extend(address.octets()),
        }
        request.resize(from + ADDRESS_BYTES, 0);
    }
    request.extend(shadow.ifindex.to_ne_bytes());
    // The lower word first.
    request.extend((shadow.cookie as u32).to_ne_bytes());
    request.extend(((shadow.cookie >> 32) as u32).to_ne_bytes());
    request
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use nearwire_sys::netlink;
    use nearwire_sys::socket::netns_cookie;
    use rustix::net::netlink::SOCK_DIAG;

    use super::*;

    #[test]
    fn addresses_that_a_socket_has_are_on_the_wire_and_others_are_not() {
        let diag = netlink::open(Some(SOCK_DIAG)).unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let namespace = netns_cookie(&stream).unwrap();
            let shadow = ConnectedShadow::read(stream.as_fd(), namespace).unwrap();
            assert!(are_on_the_wire(&diag, &shadow).unwrap(), "{shadow:?}");
            let mut other = shadow;
            other.flow.remote_port = other.flow.remote_port.wrapping_add(1);
            assert!(!are_on_the_wire(&diag, &other).unwrap(), "{other:?}");
            let (accepted, _) = listener.accept().unwrap();
            let accepted = ConnectedShadow::read(accepted.as_fd(), namespace).unwrap();
            let of_another = ConnectedShadow { flow: accepted.flow, ..shadow };
            assert!(!are_on_the_wire(&diag, &of_another).unwrap(), "the connection is another socket's");
        }
    }

    #[test]
    fn addresses_of_ipv4_in_a_socket_of_ipv6_are_on_the_wire() {
        let diag = netlink::open(Some(SOCK_DIAG)).unwrap();
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let _stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let shadow = ConnectedShadow::read(accepted.as_fd(), netns_cookie(&accepted).unwrap()).unwrap();
        assert!(shadow.flow.local.is_ipv4() && are_on_the_wire(&diag, &shadow).unwrap(), "{shadow:?}");
    }
}
