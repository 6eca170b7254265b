//! `struct sockaddr` of IPv4 and IPv6 <-> `SocketAddr`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

use libc::{AF_INET, AF_INET6, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use rustix::io::Errno;

use super::is_plausible;

/// Shortest address of IPv6 that the kernel takes (`SIN6_LEN_RFC2133`): the one without a scope.
const IPV6_SHORTEST: usize = 24;

/// What a call gives as address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// A null pointer, or length 0.
    None,
    /// IPv4 or IPv6. Mapped addresses stay as they are; see [`unmapped`].
    Ip(SocketAddr),
    /// Another family, too short, too long, or a pointer that points nowhere: the kernel knows the error.
    Kernel,
}

/// Reads an address that a program gives. Alignment does not matter. The flow information is in network byte order, as
/// in C.
///
/// # Safety
/// A [plausible](is_plausible) pointer points to `length` readable bytes.
#[must_use]
pub unsafe fn read(address: *const sockaddr, length: socklen_t) -> Name {
    let length = length as usize;
    if address.is_null() || length == 0 {
        return Name::None;
    }
    if length < size_of::<sockaddr_in>() || length > size_of::<sockaddr_storage>() || !is_plausible(address, length) {
        return Name::Kernel;
    }
    // SAFETY: the caller's: that many bytes are readable; an all-zero `sockaddr_in6` is a value of the type, and all
    // bytes may have any value.
    unsafe {
        let family = (&raw const (*address).sa_family).read_unaligned();
        match libc::c_int::from(family) {
            AF_INET => {
                let inet = address.cast::<sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(u32::from_be(inet.sin_addr.s_addr));
                Name::Ip(SocketAddrV4::new(ip, u16::from_be(inet.sin_port)).into())
            }
            AF_INET6 if length >= IPV6_SHORTEST => {
                let mut inet6 = std::mem::zeroed::<sockaddr_in6>();
                let read = length.min(size_of::<sockaddr_in6>());
                ptr::copy_nonoverlapping(address.cast::<u8>(), (&raw mut inet6).cast(), read);
                let scope = if read == size_of::<sockaddr_in6>() { inet6.sin6_scope_id } else { 0 };
                let ip = Ipv6Addr::from(inet6.sin6_addr.s6_addr);
                Name::Ip(SocketAddrV6::new(ip, u16::from_be(inet6.sin6_port), inet6.sin6_flowinfo, scope).into())
            }
            _ => Name::Kernel,
        }
    }
}

/// An IPv4 address for a mapped one of IPv6 (`::ffff:10.0.0.1`), else the same.
#[must_use]
pub fn unmapped(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddrV4::new(ip, address.port()).into(),
        IpAddr::V6(_) => address,
    }
}

/// The mapped address of an IPv4 one, as a socket of IPv6 shows it; else the same.
#[must_use]
pub fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// An address as C has it.
#[derive(Clone, Copy)]
pub struct Encoded {
    bytes: [u8; size_of::<sockaddr_in6>()],
    length: usize,
}

impl Encoded {
    /// The structure's bytes: 16 for IPv4, 28 for IPv6.
    #[must_use]
    pub fn new(address: &SocketAddr) -> Encoded {
        let mut bytes = [0; size_of::<sockaddr_in6>()];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, length) = match address {
            SocketAddr::V4(v4) => {
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                (AF_INET, size_of::<sockaddr_in>())
            }
            SocketAddr::V6(v6) => {
                bytes[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                (AF_INET6, size_of::<sockaddr_in6>())
            }
        };
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        Encoded { bytes, length }
    }

    /// The structure's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Writes an address back as the kernel does (`move_addr_to_user`, net/socket.c): as many bytes as there is room for,
/// and the full size into `*length`. A null `out` takes no address and leaves `*length`.
///
/// # Errors
/// EINVAL: `*length` is negative as an `int`. EFAULT: a pointer points nowhere.
///
/// # Safety
/// `length` points to a `socklen_t` and `out` to that many writable bytes, where they are [plausible](is_plausible).
pub unsafe fn write(address: &SocketAddr, out: *mut sockaddr, length: *mut socklen_t) -> Result<(), Errno> {
    if out.is_null() {
        return Ok(());
    }
    if !is_plausible(length, size_of::<socklen_t>()) {
        return Err(Errno::FAULT);
    }
    let encoded = Encoded::new(address);
    // SAFETY: the caller's.
    unsafe {
        let room = length.read_unaligned().cast_signed();
        let copied = usize::try_from(room).map_err(|_| Errno::INVAL)?.min(encoded.length);
        if !is_plausible(out, copied) {
            return Err(Errno::FAULT);
        }
        ptr::copy_nonoverlapping(encoded.bytes.as_ptr(), out.cast(), copied);
        length.write_unaligned(encoded.length as socklen_t);
    }
    Ok(())
}
