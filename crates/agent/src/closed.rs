//! Which sockets were closed: the kernel tells of each UDP socket of the network namespace that is destroyed, by its cookie.
//!
//! A flow must not outlive the socket that was the right to it. Programs say so when they close one; this holds for those that do
//! not. A copy of the socket would do too, but would hold the port after its program has died, until the agent has seen that.
//!
//! Source: `net/core/sock_diag.c` (`sock_diag_broadcast_destroy`), `include/uapi/linux/inet_diag.h` (`struct inet_diag_msg`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nearwire_sys::netlink::add_membership;
use nearwire_sys::netlink::message::Messages;
use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use crate::bound::cookie;

/// `SKNLGRP_INET_UDP_DESTROY` and `SKNLGRP_INET6_UDP_DESTROY`.
const GROUPS: [u32; 2] = [2, 4];
/// A message for each socket of a program with many, all closed at its end.
const BUFFER_BYTES: usize = 16 << 20;
/// So many are read before others have their turn.
const ROUND_MOST: usize = 256;

/// The kernel's news.
#[derive(Debug)]
pub struct ClosedSockets(OwnedFd);

impl ClosedSockets {
    /// Listens in the calling thread's network namespace. CAP_NET_ADMIN.
    ///
    /// # Errors
    /// The kernel refused: without the capability, or without CONFIG_INET_UDP_DIAG.
    pub fn listen() -> io::Result<ClosedSockets> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(SOCK_DIAG))?;
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        if set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
            set_socket_recv_buffer_size(&socket, BUFFER_BYTES)?;
        }
        for group in GROUPS {
            add_membership(&socket, group)?;
        }
        Ok(ClosedSockets(socket))
    }

    /// Cookies of some that were closed since; `None`: some were lost for want of room.
    ///
    /// # Errors
    /// recv(2) failed.
    pub fn take(&self) -> io::Result<Option<Vec<u64>>> {
        let mut cookies = Vec::new();
        let mut bytes = [0; 1024];
        for _ in 0..ROUND_MOST {
            match recv(&self.0, &mut bytes[..], RecvFlags::empty()) {
                Ok((_, len_bytes)) => {
                    let messages = Messages::new(&bytes[..len_bytes.min(bytes.len())]);
                    cookies.extend(messages.filter_map(|message| cookie(message.payload)));
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Some(cookies))
    }
}

impl AsFd for ClosedSockets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use nearwire_lab::Namespace;
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::net::sockopt::socket_cookie;

    use super::*;

    #[test]
    fn socket_closed_is_told_by_its_cookie() {
        let inside = match Namespace::new() {
            Ok(inside) => inside,
            Err(error) => {
                assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "{error}");
                return println!("SKIP {error}");
            }
        };
        inside
            .enter(|| {
                let closed = ClosedSockets::listen().unwrap();
                for address in ["0.0.0.0:0", "[::]:0"] {
                    let socket = UdpSocket::bind(address).unwrap();
                    let copy = socket.try_clone().unwrap();
                    let cookie = socket_cookie(&socket).unwrap();
                    drop(socket);
                    assert_eq!(closed.take().unwrap(), Some(vec![]), "a copy is open");
                    drop(copy);
                    let wait = Duration::from_secs(10).try_into().unwrap();
                    poll(&mut [PollFd::new(&closed, PollFlags::IN)], Some(&wait)).unwrap();
                    assert_eq!(closed.take().unwrap(), Some(vec![cookie]));
                }
            })
            .unwrap();
    }
}
