//! What routers report about packets that were too long, as copies of the ICMP messages that the kernel gets too.
//!
//! The kernel judges them and keeps the MTU; a message says no more than that it is to be asked again.
//!
//! The sockets serve to send by too: what the kernel sends to a neighbour has it confirmed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nearwire_sys::descriptor::place;
use nearwire_sys::icmp;
use rustix::net::{RecvFlags, recv};

/// Headers, and those of the packet that was too long.
const MESSAGE_BYTES_MOST: usize = 256;
const ICMP_HEADER_BYTES: usize = 8;
const IPV6_HEADER_BYTES: usize = 40;

/// Sockets for both families; without CAP_NET_RAW there are none.
#[derive(Debug)]
pub struct PathErrors {
    v4: Option<OwnedFd>,
    v6: Option<OwnedFd>,
}

/// A packet was too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathError {
    /// Where it was to go.
    pub destination: IpAddr,
    /// What the next link carries, bytes, if the router says it.
    pub mtu_bytes: u32,
}

impl PathErrors {
    /// Opens them in the calling thread's network namespace.
    #[must_use]
    pub fn open() -> PathErrors {
        let placed = |opened: io::Result<OwnedFd>| opened.ok().map(place);
        PathErrors { v4: placed(icmp::fragmentation_needed()), v6: placed(icmp::packet_too_big()) }
    }

    /// Hears nothing, as without CAP_NET_RAW.
    #[must_use]
    pub const fn none() -> PathErrors {
        PathErrors { v4: None, v6: None }
    }

    /// Whether all that a router reports about paths to such a destination is heard.
    #[must_use]
    pub const fn hears_of(&self, destination: IpAddr) -> bool {
        match destination {
            IpAddr::V4(_) => self.v4.is_some(),
            IpAddr::V6(_) => self.v6.is_some(),
        }
    }

    /// Become readable when there is something.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.v4.iter().chain(&self.v6).map(|socket| socket.as_fd())
    }

    /// Has the kernel send a neighbour something, which then makes sure that it is there. `false`: it cannot.
    #[must_use]
    pub fn use_neighbour(&self, ifindex: u32, address: IpAddr) -> bool {
        let socket = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        socket.as_ref().is_some_and(|socket| icmp::greet(socket, ifindex, address).is_ok())
    }

    /// The next message, without waiting.
    #[must_use]
    pub fn next(&self) -> Option<PathError> {
        loop {
            let mut bytes = [0; MESSAGE_BYTES_MOST];
            let read = |socket: &OwnedFd, bytes: &mut [u8]| recv(socket, bytes, RecvFlags::DONTWAIT).ok();
            let parsed = if let Some((_, len_bytes)) = self.v4.as_ref().and_then(|socket| read(socket, &mut bytes)) {
                error_v4(&bytes[..len_bytes.min(MESSAGE_BYTES_MOST)])
            } else {
                let (_, len_bytes) = self.v6.as_ref().and_then(|socket| read(socket, &mut bytes))?;
                error_v6(&bytes[..len_bytes.min(MESSAGE_BYTES_MOST)])
            };
            if parsed.is_some() {
                return parsed;
            }
        }
    }
}

/// IPv4 header, ICMP header (RFC 1191 section 4), and the IPv4 header of the packet.
fn error_v4(message: &[u8]) -> Option<PathError> {
    let icmp = message.get(usize::from(message.first()? & 0xf) * 4..)?;
    let mtu_bytes = icmp.get(6..8)?.first_chunk::<2>().map(|bytes| u16::from_be_bytes(*bytes))?;
    let octets = icmp.get(ICMP_HEADER_BYTES + 16..)?.first_chunk::<4>()?;
    Some(PathError { destination: Ipv4Addr::from(*octets).into(), mtu_bytes: mtu_bytes.into() })
}

/// ICMPv6 header (RFC 4443 section 3.2), and the IPv6 header of the packet.
fn error_v6(icmp: &[u8]) -> Option<PathError> {
    let mtu_bytes = icmp.get(4..8)?.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))?;
    let octets = icmp.get(ICMP_HEADER_BYTES + 24..ICMP_HEADER_BYTES + IPV6_HEADER_BYTES)?.first_chunk::<16>()?;
    Some(PathError { destination: Ipv6Addr::from(*octets).into(), mtu_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_each_family_says_where_the_packet_was_to_go_and_what_the_link_carries() {
        let mut v4 = vec![0_u8; 24 + 8 + 20];
        v4[0] = 0x46;
        v4[24] = 3;
        v4[25] = 4;
        v4[30..32].copy_from_slice(&1400_u16.to_be_bytes());
        v4[24 + 8 + 16..].copy_from_slice(&[10, 78, 0, 2]);
        assert_eq!(error_v4(&v4), Some(PathError { destination: [10, 78, 0, 2].into(), mtu_bytes: 1400 }));
        let mut v6 = vec![0_u8; 48];
        v6[0] = 2;
        v6[4..8].copy_from_slice(&1300_u32.to_be_bytes());
        v6[32..48].copy_from_slice(&[0xfd; 16]);
        assert_eq!(error_v6(&v6), Some(PathError { destination: [0xfd; 16].into(), mtu_bytes: 1300 }));
    }

    #[test]
    fn message_cut_short_says_nothing() {
        for length in 0..28 {
            assert_eq!((error_v4(&vec![0x45; length]), error_v6(&vec![2; length])), (None, None));
        }
    }
}
