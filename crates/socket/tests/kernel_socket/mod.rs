//! UDP sockets of the running kernel whose readiness is known exactly.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use nearwire_socket::SocketId;
use nearwire_socket::epoll::Events;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::Shutdown;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

/// Keeps the calling thread on one CPU, so that datagrams on the loopback interface arrive in the order
/// in which they were sent ([`Fence`]).
pub fn stay_on_one_cpu() {
    let mut one = CpuSet::new();
    one.set(sched_getcpu());
    sched_setaffinity(None, &one).unwrap();
}

/// Mostly a datagram over loopback has arrived when `send` returns, but the kernel may put arrival off.
/// Datagrams of one CPU arrive in order, so when the fence's own has arrived, all before have.
pub struct Fence {
    from: UdpSocket,
    to: UdpSocket,
}

impl Fence {
    pub fn new() -> Self {
        let (from, to) = connected_pair();
        to.set_nonblocking(false).unwrap();
        to.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Self { from, to }
    }

    /// A port that is taken and closed to everybody else: its socket is connected.
    fn address(&self) -> SocketAddr {
        self.to.local_addr().unwrap()
    }

    /// Returns when everything sent before has arrived.
    pub fn pass(&self) {
        self.from.send(b"fence").unwrap();
        self.to.recv(&mut [0; 8]).unwrap();
    }
}

/// A socket under test, with a peer that sends to it and that it sends to.
pub struct KernelSocket {
    pub id: SocketId,
    /// Descriptors of the one socket; at least one.
    pub fds: Vec<OwnedFd>,
    peer: UdpSocket,
    /// Datagrams that arrived and datagrams that readers have taken over. The kernel has two queues: a
    /// reader takes over all that arrived when its own queue is empty.
    arrived: usize,
    taken_over: usize,
    error: bool,
    shut: bool,
}

impl KernelSocket {
    pub fn new(id: SocketId) -> Self {
        let (socket, peer) = connected_pair();
        let fds = vec![OwnedFd::from(socket)];
        Self { id, fds, peer, arrived: 0, taken_over: 0, error: false, shut: false }
    }

    /// What `poll` of the kernel says of a UDP socket (`udp_poll`, `datagram_poll`).
    pub fn state(&self) -> Events {
        let mut state = Events::SENDABLE;
        state.set(Events::IN | Events::RDNORM, self.arrived + self.taken_over > 0 || self.shut);
        state.set(Events::RDHUP | Events::HUP, self.shut);
        state.set(Events::ERR, self.error);
        state
    }

    /// A datagram arrives. `every_arrival`: the kernel wakes for each one, not only for the first in the queue.
    pub fn arrive(&mut self, fence: &Fence, every_arrival: bool) -> Option<Events> {
        self.peer.send(b"near").unwrap();
        fence.pass();
        self.arrived += 1;
        (every_arrival || self.arrived == 1).then_some(Events::ARRIVED)
    }

    /// Reads one datagram, or the error that waits.
    pub fn read(&mut self) {
        if !self.error && self.arrived + self.taken_over == 0 {
            return;
        }
        let result = rustix::net::recv(&self.fds[0], &mut [0_u8; 8], rustix::net::RecvFlags::DONTWAIT);
        if self.error {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::ConnectionRefused);
            self.error = false;
            return;
        }
        assert_eq!(result.unwrap().1, 4);
        if self.taken_over == 0 {
            self.taken_over = std::mem::take(&mut self.arrived);
        }
        self.taken_over -= 1;
    }

    /// Sends to the peer. The kernel wakes writers as soon as the datagram has left the socket.
    pub fn send(&mut self, fence: &Fence) -> Option<Events> {
        if self.shut {
            return None;
        }
        let result = rustix::net::send(&self.fds[0], b"far", rustix::net::SendFlags::DONTWAIT);
        if std::mem::take(&mut self.error) {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::ConnectionRefused);
            return None;
        }
        result.unwrap();
        fence.pass();
        while self.peer.recv(&mut [0; 8]).is_ok() {}
        Some(Events::SENDABLE)
    }

    /// Sends to a port that takes nothing from this socket: an error comes back.
    pub fn fail(&mut self, fence: &Fence) -> Vec<Events> {
        if self.shut || self.error {
            return Vec::new();
        }
        let peer_address = self.peer.local_addr().unwrap();
        rustix::net::connect(&self.fds[0], &fence.address()).unwrap();
        let raised = self.send(fence);
        // The answer is sent when the datagram arrives: it takes a second passage.
        fence.pass();
        self.error = true;
        rustix::net::connect(&self.fds[0], &peer_address).unwrap();
        raised.into_iter().chain([Events::ERR]).collect()
    }

    /// Shuts both directions down, which wakes without saying for what.
    pub fn shut_down(&mut self) -> Option<Events> {
        rustix::net::shutdown(&self.fds[0], Shutdown::Both).unwrap();
        self.shut = true;
        Some(Events::empty())
    }
}

fn connected_pair() -> (UdpSocket, UdpSocket) {
    let [one, other] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    one.connect(other.local_addr().unwrap()).unwrap();
    other.connect(one.local_addr().unwrap()).unwrap();
    one.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    (one, other)
}

/// What poll(2) says of a descriptor now.
pub fn poll_now(fd: &OwnedFd) -> PollFlags {
    let mut entry = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut entry, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
    entry[0].revents()
}
