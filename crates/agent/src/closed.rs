//! Which sockets were closed: the kernel tells of each UDP and TCP socket of the network namespace that is destroyed, by its cookie.
//!
//! A flow must not outlive the socket that was the right to it. Programs say so when they close one; this holds for those that do
//! not. A copy of the socket would do too, but would hold the port after its program has died, until the agent has seen that.
//!
//! Source: `net/core/sock_diag.c` (`sock_diag_broadcast_destroy`), `include/uapi/linux/inet_diag.h` (`struct inet_diag_msg`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nearwire_sys::netlink::add_membership;
use nearwire_sys::netlink::message::Messages;
use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use crate::bound::cookie;

/// `SKNLGRP_INET_TCP_DESTROY`, `SKNLGRP_INET_UDP_DESTROY`, `SKNLGRP_INET6_TCP_DESTROY` and `SKNLGRP_INET6_UDP_DESTROY`.
const GROUPS: [u32; 4] = [1, 2, 3, 4];
/// A message for each socket of a program with many, all closed at its end.
const BUFFER_BYTES: usize = 16 << 20;
/// So many are read before others have their turn.
const ROUND_MOST: usize = 256;
/// Somebody who closes sockets without a pause does not put off for longer what is to be done about lost messages.
const LOST_FOR_MOST: Duration = Duration::from_secs(1);

/// The kernel's news.
#[derive(Debug)]
pub struct ClosedSockets {
    socket: OwnedFd,
    /// Messages were lost since then, and nobody knows which.
    lost_since: Option<Instant>,
}

/// What the kernel told.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Cookies of some that were closed since.
    pub cookies: Vec<u64>,
    /// Others were closed that the kernel had no room to tell of. It does from now on.
    pub are_others_lost: bool,
}

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
        Ok(ClosedSockets { socket, lost_since: None })
    }

    /// What the kernel told since.
    ///
    /// After a message for which there was no room, the kernel drops all others until what there is has been read (`netlink_overrun`, net/netlink/af_netlink.c). So
    /// lost ones are reported when there is nothing left to read.
    ///
    /// # Errors
    /// recv(2) failed.
    pub fn take(&mut self) -> io::Result<Closed> {
        let mut closed = Closed::default();
        let mut bytes = [0; 1024];
        for _ in 0..ROUND_MOST {
            match recv(&self.socket, &mut bytes[..], RecvFlags::empty()) {
                Ok((_, len_bytes)) => {
                    let messages = Messages::new(&bytes[..len_bytes.min(bytes.len())]);
                    closed.cookies.extend(messages.filter_map(|message| cookie(message.payload)));
                }
                Err(Errno::AGAIN) => {
                    closed.are_others_lost = self.lost_since.take().is_some();
                    return Ok(closed);
                }
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => self.lost_since = self.lost_since.or(Some(Instant::now())),
                Err(errno) => return Err(errno.into()),
            }
        }
        if self.lost_since.is_some_and(|since| since.elapsed() > LOST_FOR_MOST) {
            closed.are_others_lost = true;
            self.lost_since = Some(Instant::now());
        }
        Ok(closed)
    }
}

impl AsFd for ClosedSockets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use nearwire_lab::{Namespace, made_or_skip};
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::net::sockopt::socket_cookie;

    use super::*;

    fn namespace_or_skip() -> Option<Namespace> {
        made_or_skip(Namespace::new())
    }

    #[test]
    fn socket_closed_is_told_by_its_cookie() {
        let Some(inside) = namespace_or_skip() else { return };
        inside
            .enter(|| {
                let mut closed = ClosedSockets::listen().unwrap();
                for address in ["0.0.0.0:0", "[::]:0"] {
                    let socket = UdpSocket::bind(address).unwrap();
                    let copy = socket.try_clone().unwrap();
                    let cookie = socket_cookie(&socket).unwrap();
                    drop(socket);
                    assert_eq!(closed.take().unwrap(), Closed::default(), "a copy is open");
                    drop(copy);
                    let wait = Duration::from_secs(10).try_into().unwrap();
                    poll(&mut [PollFd::new(&closed, PollFlags::IN)], Some(&wait)).unwrap();
                    assert_eq!(closed.take().unwrap().cookies, vec![cookie]);
                }
            })
            .unwrap();
    }

    #[test]
    fn sockets_closed_without_room_to_tell_of_are_reported_once_as_lost() {
        let Some(inside) = namespace_or_skip() else { return };
        inside
            .enter(|| {
                let mut closed = ClosedSockets::listen().unwrap();
                let mut with_room = ClosedSockets::listen().unwrap();
                // Smaller than the least that the kernel gives.
                set_socket_recv_buffer_size(&closed.socket, 1).unwrap();
                for _ in 0..200 {
                    drop(UdpSocket::bind("0.0.0.0:0").unwrap());
                }
                // The kernel tells later, from a work queue: what it tells after all else was read could be lost once more.
                let mut told = 0;
                while told < 200 {
                    let wait = Duration::from_secs(10).try_into().unwrap();
                    assert_eq!(poll(&mut [PollFd::new(&with_room, PollFlags::IN)], Some(&wait)), Ok(1));
                    told += with_room.take().unwrap().cookies.len();
                }
                let told = || closed.take().unwrap();
                let told: Vec<Closed> = std::iter::repeat_with(told)
                    .inspect(|_| std::thread::sleep(Duration::from_millis(10)))
                    .take(200)
                    .collect();
                assert_eq!(told.iter().filter(|told| told.are_others_lost).count(), 1);
                let cookies: usize = told.iter().map(|told| told.cookies.len()).sum();
                assert!(cookies < 200, "{cookies}");
            })
            .unwrap();
    }
}
