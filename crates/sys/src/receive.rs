//! recvmsg(2) of a datagram with what the kernel says beside it, without waiting. Made as a system call: in a program into which a
//! library with symbols of these names was loaded, libc's own would be that library's.
//!
//! Sources: recvmsg(2), cmsg(3), `include/linux/socket.h` (`struct cmsghdr`).

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();

/// A datagram that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the payload, as many as there was room for.
    pub len_bytes: usize,
    /// Bytes of the control messages.
    pub control_bytes: usize,
    /// Who sent it; `None`: an address of another kind than IPv4 and IPv6.
    pub source: Option<SocketAddr>,
}

/// Receives a datagram, if there is one.
///
/// # Errors
/// As recvmsg(2): `EAGAIN` when there is none, or an error that the socket had to tell.
pub fn receive_with_control(socket: impl AsFd, payload: &mut [u8], control: &mut [u8]) -> io::Result<Received> {
    let mut name = [0_u8; size_of::<libc::sockaddr_in6>()];
    let mut part = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
    // SAFETY: the structure is of numbers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = name.as_mut_ptr().cast();
    message.msg_namelen = name.len() as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = control.len() as _;
    let number = socket.as_fd().as_raw_fd();
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the message points to buffers that live until the call is over, with their lengths beside them.
    let result = unsafe { libc::syscall(libc::SYS_recvmsg, number, &raw mut message, flags) };
    let Ok(len_bytes) = usize::try_from(result) else { return Err(io::Error::last_os_error()) };
    let source = address(&name[..(message.msg_namelen as usize).min(name.len())]);
    Ok(Received { len_bytes, control_bytes: message.msg_controllen as usize, source })
}

fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let port = || Some(u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?));
    match i32::from(u16::from_ne_bytes(*bytes.first_chunk()?)) {
        libc::AF_INET => Some(SocketAddr::new(IpAddr::from(*bytes.get(4..)?.first_chunk::<4>()?), port()?)),
        libc::AF_INET6 => {
            let flow = u32::from_be_bytes(*bytes.get(4..)?.first_chunk()?);
            let ip = *bytes.get(8..)?.first_chunk::<16>()?;
            let scope = u32::from_ne_bytes(*bytes.get(24..)?.first_chunk()?);
            Some(SocketAddrV6::new(ip.into(), port()?, flow, scope).into())
        }
        _ => None,
    }
}

/// The control messages of a buffer: level, type and data of each.
pub fn control_messages(control: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    let mut rest = control;
    std::iter::from_fn(move || {
        let number = |at: usize| Some(i32::from_ne_bytes(*rest.get(at..)?.first_chunk()?));
        let length = usize::from_ne_bytes(*rest.first_chunk()?);
        let (level, kind) = (number(size_of::<usize>())?, number(size_of::<usize>() + 4)?);
        let data = rest.get(HEADER_BYTES..length)?;
        rest = rest.get(length.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
        Some((level, kind, data))
    })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn datagram_received_has_its_source_and_what_was_asked_beside_it() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (from, to) = (UdpSocket::bind(address).unwrap(), UdpSocket::bind(address).unwrap());
            let (mut payload, mut control) = ([0; 100], [0; 256]);
            let nothing = receive_with_control(&to, &mut payload, &mut control).unwrap_err();
            assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
            crate::socket::set_int_option(&to, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1).unwrap();
            from.send_to(b"hello", to.local_addr().unwrap()).unwrap();
            let received = receive_with_control(&to, &mut payload, &mut control).unwrap();
            assert_eq!(&payload[..received.len_bytes], b"hello");
            assert_eq!(received.source, from.local_addr().ok());
            let kinds: Vec<_> = control_messages(&control[..received.control_bytes])
                .map(|(level, kind, data)| (level, kind, data.len()))
                .collect();
            assert_eq!(kinds, [(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 16)]);
        }
    }

    #[test]
    fn control_messages_cut_or_of_impossible_length_end_there() {
        let mut bytes = Vec::new();
        for (length, kind) in [(20_usize, 7_i32), (3, 8)] {
            bytes.extend(length.to_ne_bytes());
            bytes.extend([1_i32.to_ne_bytes(), kind.to_ne_bytes(), 9_i32.to_ne_bytes(), [0; 4]].as_flattened());
        }
        let found: Vec<_> = control_messages(&bytes).collect();
        assert_eq!(found, [(1, 7, &9_i32.to_ne_bytes()[..])]);
        assert_eq!(control_messages(&bytes[..19]).count(), 0);
        assert_eq!(control_messages(&[]).count(), 0);
    }
}
