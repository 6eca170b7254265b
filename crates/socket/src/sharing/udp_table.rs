//! Where UDP sockets of the calling thread's network namespace are bound, and their inodes.
//!
//! Asked by `sock_diag(7)`, of one port or of all; where the kernel has no such thing for UDP (`CONFIG_INET_UDP_DIAG`), read from
//! `/proc`, which has all of them in text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nearwire_agent::bound;

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

fn by_netlink(port: Option<u16>) -> std::io::Result<Vec<(SocketAddr, u64)>> {
    Ok(bound::bound_to(port)?.into_iter().map(|socket| (socket.local, socket.inode)).collect())
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
