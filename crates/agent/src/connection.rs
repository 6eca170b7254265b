//! The socket between a program and the agent: packets in order, descriptors beside them, and the kernel's word who is at the
//! other end.
//!
//! Its name is abstract. Such names belong to the network namespace: whoever can connect is in the agent's, whatever file systems he
//! sees, and an agent cannot be reached from another. The kernel gives the name to one process at a time. Anybody may be that
//! process, so that programs ask whose it is.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nearwire_sys::descriptor::place;
use nearwire_sys::socket::{option_bytes, peer_process};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, sendmsg,
    socket_with, sockopt,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::message::{DESCRIPTORS_MOST, MESSAGE_MOST_BYTES};
use crate::service::Caller;

/// The agent's name, behind the zero byte that makes it abstract.
pub const NAME: &[u8] = b"nearwire/agent";
/// Programs that connect at the same time wait here.
const BACKLOG: i32 = 256;
/// As long a program waits for an agent that does not read.
const SEND_WITHIN: Duration = Duration::from_secs(2);
/// `SO_PEERGROUPS` of include/uapi/asm-generic/socket.h.
const SO_PEERGROUPS: i32 = 59;
const SOL_SOCKET: i32 = 1;
/// As many as a process can have (`NGROUPS_MAX`).
const GROUPS_MOST: usize = 65_536;

/// A packet that came.
#[derive(Debug)]
pub struct Packet {
    /// Its bytes; none at the end of the connection.
    pub bytes: Vec<u8>,
    /// What came beside it.
    pub descriptors: Vec<OwnedFd>,
}

/// One end.
#[derive(Debug)]
pub struct Connection(OwnedFd);

/// The agent's end of connections to come.
#[derive(Debug)]
pub struct Listener(OwnedFd);

fn unix(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags | SocketFlags::CLOEXEC, None)
}

impl Listener {
    /// Takes the agent's name in the calling thread's network namespace.
    ///
    /// # Errors
    /// `EADDRINUSE`: there is an agent, or somebody else has the name.
    pub fn bind() -> io::Result<Listener> {
        let socket = unix(SocketFlags::NONBLOCK)?;
        bind(&socket, &SocketAddrUnix::new_abstract_name(NAME)?)?;
        listen(&socket, BACKLOG)?;
        Ok(Listener(socket))
    }

    /// The next program that connected, if there is one.
    ///
    /// # Errors
    /// accept(2) failed, as for want of descriptors.
    pub fn accept(&self) -> io::Result<Option<Connection>> {
        match accept_with(&self.0, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Ok(Some(Connection(socket))),
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Connection {
    /// Connects to the agent of the calling thread's network namespace. The connection is blocking; to connect and to send wait 2 s
    /// at most for an agent that does not read.
    ///
    /// # Errors
    /// `ECONNREFUSED`: there is none. `EAGAIN`: it takes no connections.
    pub fn open() -> io::Result<Connection> {
        let socket = place(unix(SocketFlags::empty())?);
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(SEND_WITHIN))?;
        connect(&socket, &SocketAddrUnix::new_abstract_name(NAME)?)?;
        Ok(Connection(socket))
    }

    /// Who is at the other end: process, user and groups when it connected; of an agent, when it took its name.
    ///
    /// # Errors
    /// getsockopt(2) failed.
    pub fn peer(&self) -> io::Result<Caller> {
        // An own reading of the three numbers: a process that the reader does not see has number 0, which is no `Pid`.
        const SO_PEERCRED: i32 = 17;
        let mut credentials = [0; 12];
        option_bytes(&self.0, SOL_SOCKET, SO_PEERCRED, &mut credentials)?;
        let word = |bytes: &[u8]| bytes.try_into().map_or(u32::MAX, u32::from_ne_bytes);
        let [pid, uid, gid] = [0, 4, 8].map(|at| word(&credentials[at..at + 4]));
        let mut groups = vec![gid];
        let mut bytes = vec![0; 64 * 4];
        let len_bytes = option_bytes(&self.0, SOL_SOCKET, SO_PEERGROUPS, &mut bytes).or_else(|_| {
            bytes.resize(GROUPS_MOST * 4, 0);
            option_bytes(&self.0, SOL_SOCKET, SO_PEERGROUPS, &mut bytes)
        })?;
        groups.extend(bytes[..len_bytes].chunks_exact(4).map(word));
        Ok(Caller { pid, uid, groups, has_pass: false })
    }

    /// The process at the other end, as a pidfd. Before Linux 6.5 only one that this process sees.
    ///
    /// # Errors
    /// `ESRCH`: it is gone, or not seen.
    pub fn peer_process(&self) -> io::Result<OwnedFd> {
        match peer_process(&self.0) {
            Err(error) if error.raw_os_error() == Some(Errno::NOPROTOOPT.raw_os_error()) => {
                let pid = Pid::from_raw(self.peer()?.pid.cast_signed()).ok_or(Errno::SRCH)?;
                Ok(pidfd_open(pid, PidfdFlags::empty())?)
            }
            process => process,
        }
    }

    /// Sends a packet, with copies of descriptors beside it.
    ///
    /// # Errors
    /// `EAGAIN`: the other end does not read; `EPIPE`, `ECONNRESET`: it is gone.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MOST))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Errno::TOOMANYREFS);
        }
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL).map(|_| ())
    }

    /// The next packet. One that is longer than any message is cut there, and has one byte more than any message.
    ///
    /// # Errors
    /// `EAGAIN`: there is none.
    pub fn receive(&self) -> Result<Packet, Errno> {
        self.receive_with(RecvFlags::empty())
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// `EAGAIN`: there is none.
    pub fn receive_now(&self) -> Result<Packet, Errno> {
        self.receive_with(RecvFlags::DONTWAIT)
    }

    fn receive_with(&self, flags: RecvFlags) -> Result<Packet, Errno> {
        let mut bytes = vec![0; MESSAGE_MOST_BYTES + 1];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MOST))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let received =
            recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut beside, flags | RecvFlags::CMSG_CLOEXEC)?;
        bytes.truncate(received.bytes);
        let rights = beside.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        Ok(Packet { bytes, descriptors: rights.flatten().map(place).collect() })
    }

    /// Ends it for both ends: nothing more can come.
    pub fn shut(&self) {
        // Refused where the other end is gone.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }

    /// Has [`Connection::receive`] return `EAGAIN` after this long; `None` waits.
    ///
    /// # Errors
    /// setsockopt(2) failed.
    pub fn set_receive_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Recv, time)?)
    }
}

impl From<Connection> for OwnedFd {
    fn from(connection: Connection) -> OwnedFd {
        connection.0
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
