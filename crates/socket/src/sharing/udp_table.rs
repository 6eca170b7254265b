//! Where UDP sockets of the calling thread's network namespace are bound, and their inodes.
//!
//! Asked by `sock_diag(7)`, of one port or of all; where the kernel has no such thing for UDP (`CONFIG_INET_UDP_DIAG`), read from
//! `/proc`, which has all of them in text.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nearwire_sys::descriptor::place;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use crate::kernel_tables::message::{Messages, Request, u32_of};

/// `SOCK_DIAG_BY_FAMILY` of `include/uapi/linux/sock_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `struct inet_diag_req_v2`: family, protocol, two bytes, states, and an id that begins with the port.
const REQUEST_BYTES: usize = 56;
const STATES_AT: usize = 4;
const PORT_AT: usize = 8;
/// `struct inet_diag_msg`: four bytes, the id with the port and the address, and much else.
const FOUND_PORT_AT: usize = 4;
const FOUND_ADDRESS_AT: usize = 8;
const FOUND_INODE_AT: usize = 68;
const ANSWER_BYTES: usize = 32 * 1024;
const SEQUENCE: u32 = 1;

/// The kernel's tables (`udp4_format_sock`).
const TABLES: [&str; 2] = ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"];
/// Places of values in a line of them.
const LOCAL_ADDRESS: usize = 1;
const INODE: usize = 9;

/// The sockets bound to a port, or to any.
pub(super) fn bound_to(port: Option<u16>) -> Vec<(SocketAddr, u64)> {
    by_netlink(port).unwrap_or_else(|_| {
        let mut found = by_text();
        found.retain(|(local, _)| port.is_none_or(|port| local.port() == port));
        found
    })
}

fn by_netlink(port: Option<u16>) -> io::Result<Vec<(SocketAddr, u64)>> {
    let protocol = Some(rustix::net::netlink::SOCK_DIAG);
    let socket = place(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?);
    let mut found = Vec::new();
    let mut buffer = vec![0; ANSWER_BYTES];
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut header = [0; REQUEST_BYTES];
        (header[0], header[1]) = (family as u8, libc::IPPROTO_UDP as u8);
        header[STATES_AT..PORT_AT].fill(0xff);
        header[PORT_AT..PORT_AT + 2].copy_from_slice(&port.unwrap_or(0).to_be_bytes());
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
        let request = Request::new(SOCK_DIAG_BY_FAMILY, flags, SEQUENCE, &header).into_bytes();
        sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        while !take_answer(&socket, &mut buffer, &mut found)? {}
    }
    Ok(found)
}

/// One datagram of an answer; `true`: it was the last one.
fn take_answer(
    socket: &std::os::fd::OwnedFd,
    buffer: &mut [u8],
    found: &mut Vec<(SocketAddr, u64)>,
) -> io::Result<bool> {
    let (len_bytes, _) = match recv(socket, &mut *buffer, RecvFlags::empty()) {
        Err(Errno::INTR) => return Ok(false),
        received => received?,
    };
    for message in Messages::new(&buffer[..len_bytes]) {
        match i32::from(message.kind) {
            libc::NLMSG_DONE | libc::NLMSG_ERROR => {
                let code = u32_of(message.payload).map_or(0, |code| code.cast_signed().saturating_neg());
                return if code == 0 { Ok(true) } else { Err(io::Error::from_raw_os_error(code)) };
            }
            _ => found.extend(answered(message.payload)),
        }
    }
    Ok(false)
}

/// The local address and the inode of a `struct inet_diag_msg`.
fn answered(message: &[u8]) -> Option<(SocketAddr, u64)> {
    let address = message.get(FOUND_ADDRESS_AT..)?;
    let ip = if i32::from(*message.first()?) == libc::AF_INET {
        Ipv4Addr::from_octets(*address.first_chunk()?).into()
    } else {
        IpAddr::from(Ipv6Addr::from_octets(*address.first_chunk()?))
    };
    let port = u16::from_be_bytes(*message.get(FOUND_PORT_AT..)?.first_chunk()?);
    Some((SocketAddr::new(ip, port), message.get(FOUND_INODE_AT..).and_then(u32_of)?.into()))
}

fn by_text() -> Vec<(SocketAddr, u64)> {
    let texts = TABLES.iter().filter_map(|table| std::fs::read_to_string(table).ok());
    texts.flat_map(|text| text.lines().skip(1).filter_map(entry).collect::<Vec<_>>()).collect()
}

/// The local address and the inode of a line.
fn entry(line: &str) -> Option<(SocketAddr, u64)> {
    let mut values = line.split_ascii_whitespace();
    let (address, port) = values.nth(LOCAL_ADDRESS)?.split_once(':')?;
    let inode = values.nth(INODE - LOCAL_ADDRESS - 1)?.parse().ok()?;
    // Each word of an address is printed as the number that this machine takes it for.
    let word = |at: usize| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = if address.len() == 8 {
        IpAddr::from(Ipv4Addr::from(word(0)?))
    } else {
        let mut octets = [0; 16];
        for (at, part) in octets.chunks_exact_mut(4).enumerate() {
            part.copy_from_slice(&word(at * 8)?);
        }
        IpAddr::from(Ipv6Addr::from(octets))
    };
    Some((SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?), inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_tables_read_have_address_port_and_inode() {
        let v4 =
            "  102: 0201A8C0:14E9 00000000:0000 07 00000000:00000000 00:00000000 00000000  101        0 23517 2 0 0";
        let v6 = "  102: 000080FE00000000FF565CA3B4A1F2FE:0222 00000000000000000000000000000000:0000 07 \
                  00000000:00000000 00:00000000 00000000  0 0 77 2 0000000000000000 0";
        if cfg!(target_endian = "little") {
            assert_eq!(entry(v4), Some(("192.168.1.2:5353".parse().unwrap(), 23517)));
            assert_eq!(entry(v6), Some(("[fe80::a35c:56ff:fef2:a1b4]:546".parse().unwrap(), 77)));
        }
        assert_eq!(entry("  sl  local_address rem_address   st"), None);
    }

    #[test]
    fn answers_of_the_kernel_are_what_its_text_says() {
        let sockets = ["127.0.0.1:0", "[::1]:0"].map(|address| std::net::UdpSocket::bind(address).unwrap());
        for socket in sockets {
            let local = socket.local_addr().unwrap();
            let is_there =
                |found: Vec<(SocketAddr, u64)>| found.into_iter().filter(|(at, _)| *at == local).collect::<Vec<_>>();
            let inode = rustix::fs::fstat(&socket).unwrap().st_ino;
            assert_eq!(is_there(by_text()), [(local, inode)]);
            match by_netlink(Some(local.port())) {
                Ok(found) => assert_eq!(is_there(found), [(local, inode)]),
                Err(error) => println!("SKIP this kernel does not tell of UDP sockets by netlink: {error}"),
            }
            assert_eq!(is_there(bound_to(None)), [(local, inode)]);
        }
    }
}
