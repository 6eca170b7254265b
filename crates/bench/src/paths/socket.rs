//! UDP and TCP over the kernel's sockets; how a receive waits is the [`Waiting`] policy of each path's own file.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nearwire_frames::xdp::{AttachMode, XdpAttachment, attach_pass};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use super::{EndAddress, LocalEnd, Path, PathError, Role, Setup, What};
use crate::endpoint::{Arrival, Deadline, Endpoint, EndpointError, Remark};

/// Longest sleep of a blocking receive before it looks at its deadline. The kernel rounds it up to its tick.
pub(super) const SLEEP_NS: u64 = 4_000_000;

/// Empty non-blocking receives (about 150 ns each) between two looks at the deadline.
pub(super) const POLLS_PER_CLOCK_READ: u32 = 16;

/// How long the responder waits for a TCP connection that the initiator says it has made.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(5);

/// How a receive waits for a message.
pub trait Waiting: Sized {
    /// Sets socket options and makes what else is needed.
    ///
    /// # Errors
    /// The kernel lacks the option or refuses it.
    fn prepare(socket: BorrowedFd<'_>, setup: &Setup) -> Result<Self, PathError>;

    /// Receives what is there, waiting until `deadline`; `None` when it passed.
    ///
    /// # Errors
    /// The kernel's, other than "nothing there".
    fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        flags: RecvFlags,
        deadline: &Deadline,
    ) -> Result<Option<usize>, Errno>;

    /// What is worth saying after a round.
    fn remarks(&self, _socket: BorrowedFd<'_>) -> Vec<Remark> {
        Vec::new()
    }
}

/// A socket that is open but not yet joined to its peer.
pub struct SocketPath<W> {
    socket: OwnedFd,
    setup: Setup,
    role: Role,
    peer: IpAddr,
    port: Option<u16>,
    pass_program: Option<XdpAttachment>,
    waiting: std::marker::PhantomData<W>,
}

impl<W: Waiting> Path for SocketPath<W> {
    type Endpoint = SocketEndpoint<W>;

    fn open(setup: &Setup, local: &LocalEnd) -> Result<Self, PathError> {
        let (own, peer) = local.addresses(setup.ip_version)?;
        let pass_program = match &local.interface {
            Some(interface) if setup.path.is_busy_poll() && setup.pass_program => {
                Some(attach_pass(&interface.name, AttachMode::Native)?)
            }
            _ => None,
        };
        let (socket, address) = open_socket(setup, local.role, own)?;
        Ok(SocketPath {
            socket,
            setup: setup.clone(),
            role: local.role,
            peer,
            port: Some(address.port()),
            pass_program,
            waiting: std::marker::PhantomData,
        })
    }

    fn address(&self) -> EndAddress {
        EndAddress { port: self.port, mac: None }
    }

    fn connect(self, peer: &EndAddress) -> Result<SocketEndpoint<W>, PathError> {
        let port = peer.port.ok_or(PathError::NoPeerAddress { missing: "port" })?;
        let stream = self.setup.path.what == What::Tcp;
        let socket = join(self.socket, &self.setup, self.role, SocketAddr::new(self.peer, port))?;
        let waiting = W::prepare(socket.as_fd(), &self.setup)?;
        let size_bytes = self.setup.size_bytes as usize;
        Ok(SocketEndpoint {
            waiting,
            stream,
            message: vec![0x5a; size_bytes],
            sent_bytes: 0,
            // One byte more than a message, so that a longer datagram is seen to be longer.
            buffer: vec![0; size_bytes + usize::from(!stream)],
            filled_bytes: 0,
            socket,
            _pass_program: self.pass_program,
        })
    }
}

/// A socket of the path's kind with an address of its own; the responder's for TCP listens.
pub(super) fn open_socket(setup: &Setup, role: Role, own: IpAddr) -> Result<(OwnedFd, SocketAddr), PathError> {
    let kind = if setup.path.what == What::Udp { SocketType::DGRAM } else { SocketType::STREAM };
    let family = if own.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, None)
        .map_err(PathError::io(format!("make a socket for {}", setup.path)))?;
    let bound = SocketAddr::new(own, 0);
    net::bind(&socket, &bound).map_err(PathError::io(format!("bind {} to {bound}", setup.path)))?;
    if kind == SocketType::STREAM {
        sockopt::set_tcp_nodelay(&socket, true).map_err(PathError::io("set TCP_NODELAY"))?;
        if role == Role::Responder {
            net::listen(&socket, 1).map_err(PathError::io(format!("listen on {bound}")))?;
        }
    }
    let address = net::getsockname(&socket).and_then(SocketAddr::try_from);
    Ok((socket, address.map_err(PathError::io("read the socket's own address"))?))
}

/// Connects to the peer, or accepts its connection in place of the socket that listens.
pub(super) fn join(socket: OwnedFd, setup: &Setup, role: Role, peer: SocketAddr) -> Result<OwnedFd, PathError> {
    if setup.path.what == What::Tcp && role == Role::Responder {
        let accepted = accept_from(&socket, peer)?;
        sockopt::set_tcp_nodelay(&accepted, true).map_err(PathError::io("set TCP_NODELAY"))?;
        return Ok(accepted);
    }
    net::connect(&socket, &peer).map_err(PathError::io(format!("connect {} to {peer}", setup.path)))?;
    Ok(socket)
}

/// Accepts the connection from `peer` and no other: a stranger's is closed at once.
fn accept_from(listener: &OwnedFd, peer: SocketAddr) -> Result<OwnedFd, PathError> {
    sockopt::set_socket_timeout(listener, sockopt::Timeout::Recv, Some(ACCEPT_TIMEOUT))
        .map_err(PathError::io("set the listener's timeout"))?;
    let give_up = Instant::now() + ACCEPT_TIMEOUT;
    while Instant::now() < give_up {
        let (socket, from) = net::acceptfrom_with(listener, SocketFlags::CLOEXEC)
            .map_err(PathError::io(format!("accept the connection from {peer}")))?;
        if from.and_then(|from| SocketAddr::try_from(from).ok()) == Some(peer) {
            return Ok(socket);
        }
    }
    Err(PathError::io(format!("accept the connection from {peer}"))(io::Error::from(io::ErrorKind::TimedOut)))
}

/// What became of a message that was given to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handed {
    /// The kernel has it.
    Whole,
    /// A queue of this host was full, and the kernel dropped it.
    Dropped,
    /// There is no room for the rest of it, and `flags` said not to wait.
    NoRoom,
}

/// A connected socket.
pub struct SocketEndpoint<W> {
    waiting: W,
    stream: bool,
    message: Vec<u8>,
    /// Of a message that [`Endpoint::try_send`] has sent in part.
    sent_bytes: usize,
    buffer: Vec<u8>,
    filled_bytes: usize,
    socket: OwnedFd,
    /// Kept attached for as long as the socket is in use.
    _pass_program: Option<XdpAttachment>,
}

impl<W: Waiting> SocketEndpoint<W> {
    /// Bytes of a message that carry its number: the first eight, fewer in shorter messages.
    fn number_bytes(&self) -> usize {
        self.message.len().min(8)
    }

    fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        let n = self.number_bytes();
        bytes[..n].copy_from_slice(&self.buffer[..n]);
        u64::from_le_bytes(bytes)
    }

    fn number_message(&mut self, sequence: u64) {
        let n = self.number_bytes();
        self.message[..n].copy_from_slice(&sequence.to_le_bytes()[..n]);
    }

    /// Hands over what is left of the message.
    #[inline]
    fn send_rest(&mut self, flags: SendFlags) -> Result<Handed, EndpointError> {
        while self.sent_bytes < self.message.len() {
            match net::send(&self.socket, &self.message[self.sent_bytes..], flags | SendFlags::NOSIGNAL) {
                Ok(bytes) => self.sent_bytes += bytes,
                Err(Errno::AGAIN) if flags.contains(SendFlags::DONTWAIT) => return Ok(Handed::NoRoom),
                Err(Errno::INTR | Errno::AGAIN) => {}
                // Of an earlier one; this one was not sent.
                Err(Errno::CONNREFUSED) if !self.stream => {}
                Err(Errno::NOBUFS) if !self.stream => return Ok(Handed::Dropped),
                Err(Errno::CONNRESET | Errno::PIPE) => return Err(EndpointError::Closed),
                Err(errno) => return Err(EndpointError::io("send on the socket")(errno)),
            }
        }
        self.sent_bytes = 0;
        Ok(Handed::Whole)
    }

    /// Receives by `receive` until a message is whole; `None`: it gave nothing.
    #[inline]
    fn receive_by(
        &mut self,
        mut receive: impl FnMut(&mut W, BorrowedFd<'_>, &mut [u8], RecvFlags) -> Result<Option<usize>, Errno>,
    ) -> Result<Option<Arrival>, EndpointError> {
        let flags = if self.stream { RecvFlags::empty() } else { RecvFlags::TRUNC };
        loop {
            let room = &mut self.buffer[self.filled_bytes..];
            let bytes = match receive(&mut self.waiting, self.socket.as_fd(), room, flags) {
                Ok(Some(0)) if self.stream => return Err(EndpointError::Closed),
                Ok(Some(bytes)) => bytes,
                Ok(None) => return Ok(None),
                // Of a datagram that came when the other end had closed its socket: it was of no more use.
                Err(Errno::CONNREFUSED) if !self.stream => continue,
                Err(Errno::CONNRESET | Errno::PIPE) => return Err(EndpointError::Closed),
                Err(errno) => return Err(EndpointError::io("receive from the socket")(errno)),
            };
            self.filled_bytes += bytes;
            if self.stream && self.filled_bytes < self.message.len() {
                continue;
            }
            let whole = self.filled_bytes == self.message.len();
            self.filled_bytes = 0;
            return Ok(Some(if whole { Arrival::Message(self.number()) } else { Arrival::Corrupt }));
        }
    }
}

impl<W: Waiting> Endpoint for SocketEndpoint<W> {
    #[inline]
    fn send(&mut self, sequence: u64) -> Result<bool, EndpointError> {
        self.number_message(sequence);
        Ok(self.send_rest(SendFlags::empty())? == Handed::Whole)
    }

    #[inline]
    fn receive(&mut self, deadline: &Deadline) -> Result<Option<Arrival>, EndpointError> {
        self.receive_by(|waiting, socket, room, flags| waiting.receive(socket, room, flags, deadline))
    }

    #[inline]
    fn try_send(&mut self, sequence: u64) -> Result<bool, EndpointError> {
        if self.sent_bytes == 0 {
            self.number_message(sequence);
        }
        // What a queue of this end dropped would be dropped again: it is over with, and its answer will be missing.
        Ok(self.send_rest(SendFlags::DONTWAIT)? != Handed::NoRoom)
    }

    #[inline]
    fn try_receive(&mut self) -> Result<Option<Arrival>, EndpointError> {
        self.receive_by(|_, socket, room, flags| match net::recv(socket, room, flags | RecvFlags::DONTWAIT) {
            Ok((_, bytes)) => Ok(Some(bytes)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno),
        })
    }

    fn is_reliable(&self) -> bool {
        self.stream
    }

    fn is_last_as_sent(&self) -> bool {
        let n = self.number_bytes();
        self.buffer[n..self.message.len()] == self.message[n..]
    }

    fn sequence_bits(&self) -> u32 {
        self.number_bytes() as u32 * 8
    }

    fn remarks(&self) -> Vec<Remark> {
        self.waiting.remarks(self.socket.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use nearwire_sys::tsc::Clock;

    use super::super::spin::Spin;
    use super::*;

    /// One end of a connected pair of datagram sockets, and the other as it is.
    fn pair(size_bytes: usize) -> (SocketEndpoint<Spin>, OwnedFd) {
        let (near, far) = net::socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
        let endpoint = SocketEndpoint {
            waiting: Spin,
            stream: false,
            message: vec![0x5a; size_bytes],
            sent_bytes: 0,
            buffer: vec![0; size_bytes + 1],
            filled_bytes: 0,
            socket: near,
            _pass_program: None,
        };
        (endpoint, far)
    }

    fn message(number: u64, fill: u8) -> Vec<u8> {
        [&number.to_le_bytes()[..], &[fill; 24]].concat()
    }

    #[test]
    fn message_of_another_content_is_not_as_sent() {
        let (mut near, far) = pair(32);
        for (fill, is_as_sent) in [(0x5a, true), (0x5b, false), (0x5a, true)] {
            net::send(&far, &message(7, fill), SendFlags::empty()).unwrap();
            assert_eq!(near.try_receive().unwrap(), Some(Arrival::Message(7)));
            assert_eq!(near.is_last_as_sent(), is_as_sent);
        }
    }

    #[test]
    fn full_queue_refuses_a_message_and_takes_it_later() {
        let (mut near, far) = pair(32);
        let sent = (1..).find(|number| !near.try_send(*number).unwrap()).unwrap();
        assert!(sent > 1, "the queue takes some");
        let mut taken = [0; 33];
        net::recv(&far, &mut taken[..], RecvFlags::empty()).unwrap();
        assert!(near.try_send(sent).unwrap());
    }

    /// The far end of a load closes its socket while answers are on their way.
    #[test]
    fn peer_that_has_closed_its_socket_is_no_failure() {
        let (near, far) =
            (std::net::UdpSocket::bind("127.0.0.1:0").unwrap(), std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        drop(far);
        let mut near = SocketEndpoint { socket: near.into(), ..pair(32).0 };
        for number in 0..3 {
            assert!(near.send(number).unwrap());
            assert_eq!(near.try_receive().unwrap(), None);
        }
        near.send(3).unwrap();
        let clock = Clock::calibrate();
        assert_eq!(near.receive(&Deadline::after(clock, clock.now_ticks(), clock.ticks(100_000))).unwrap(), None);
    }

    #[test]
    fn nothing_there_is_said_at_once() {
        let (mut near, _far) = pair(32);
        assert_eq!(near.try_receive().unwrap(), None);
        let clock = Clock::calibrate();
        assert_eq!(near.receive(&Deadline::after(clock, clock.now_ticks(), clock.ticks(100_000))).unwrap(), None);
    }
}
