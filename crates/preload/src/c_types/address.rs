//! `struct sockaddr`.
use libc::{sockaddr, socklen_t};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

pub unsafe fn read(name: *const sockaddr, length: socklen_t) -> Option<SocketAddr> {
    if name.is_null() {
        return None;
    }
    from_bytes(unsafe { std::slice::from_raw_parts(name.cast(), length as usize) })
}
pub fn from_bytes(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk::<2>()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk::<2>()?);
    match i32::from(family) {
        libc::AF_INET if bytes.len() >= 16 => {
            let octets = *bytes.get(4..)?.first_chunk::<4>()?;
            Some(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(octets), port)))
        }
        libc::AF_INET6 if bytes.len() >= 24 => {
            let flow = u32::from_be_bytes(*bytes.get(4..)?.first_chunk::<4>()?);
            let octets = *bytes.get(8..)?.first_chunk::<16>()?;
            let scope = bytes.get(24..28).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
            Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(octets), port, flow, scope)))
        }
        _ => None,
    }
}
pub fn as_family(address: SocketAddr, is_v6: bool) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if is_v6 => SocketAddr::new(IpAddr::V6(v4.ip().to_ipv6_mapped()), v4.port()),
        other => other,
    }
}
pub unsafe fn write(address: SocketAddr, name: *mut sockaddr, length: *mut socklen_t) {
    let mut bytes = [0_u8; 28];
    let full = match address {
        SocketAddr::V4(v4) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[2..4].copy_from_slice(&v4.port().to_be_bytes());
            bytes[4..8].copy_from_slice(&v4.ip().octets());
            16
        }
        SocketAddr::V6(v6) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            bytes[2..4].copy_from_slice(&v6.port().to_be_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            28
        }
    };
    unsafe {
        let room = *length as usize;
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), name.cast::<u8>(), room.min(full));
        *length = full as socklen_t;
    }
}
