//! The control socket: packets of 128 bytes, with a descriptor beside some of them.
//!
//! Source: DPDK `drivers/net/memif/memif_socket.c` (`memif_msg_send`, `memif_msg_receive`, `memif_socket_create`), unix(7).

use std::ffi::OsString;
use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, sendmsg,
    socket_with,
};

use super::error::MemifError;
use super::message::{MESSAGE_BYTES, Message};

/// A client looks again so long after there was no server.
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(5);
/// Descriptors beside a message that are taken from the kernel; only the first has a meaning, and all others are closed.
const DESCRIPTORS_MOST: usize = 4;

/// Where server and client meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemifSocket {
    /// A socket in the file system.
    Path(PathBuf),
    /// A name in the abstract namespace, without the zero byte in front: DPDK's `socket-abstract=yes`, its default, makes such a name of the
    /// path.
    Abstract(OsString),
}

impl From<&Path> for MemifSocket {
    fn from(path: &Path) -> MemifSocket {
        MemifSocket::Path(path.to_owned())
    }
}

impl fmt::Display for MemifSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemifSocket::Path(path) => write!(f, "{}", path.display()),
            MemifSocket::Abstract(name) => write!(f, "@{}", name.display()),
        }
    }
}

impl MemifSocket {
    fn address(&self) -> Result<SocketAddrUnix, MemifError> {
        match self {
            MemifSocket::Path(path) => SocketAddrUnix::new(path.as_path()),
            MemifSocket::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
        }
        .map_err(|errno| MemifError::kernel("name the socket", errno))
    }
}

/// Until when something may take, and how long that was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    at: Option<Instant>,
    pub within: Duration,
}

impl Deadline {
    pub(super) fn after(within: Duration) -> Deadline {
        Deadline { at: Instant::now().checked_add(within), within }
    }

    fn left(self) -> Duration {
        self.at.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()))
    }

    pub(super) fn is_over(self) -> bool {
        self.left().is_zero()
    }

    pub(super) fn waited_ms(self) -> u64 {
        u64::try_from(self.within.as_millis()).unwrap_or(u64::MAX)
    }
}

fn unix_socket() -> Result<OwnedFd, MemifError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(|errno| MemifError::kernel("make a socket", errno))
}

/// Waits until there is something to read. `false`: there was nothing in time.
fn wait_readable(fd: BorrowedFd<'_>, deadline: Deadline) -> Result<bool, MemifError> {
    loop {
        let left = deadline.left();
        let timeout = Timespec::try_from(left.min(Duration::from_secs(3600))).ok();
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(MemifError::kernel("wait for the peer", errno)),
        }
    }
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|facts| facts.file_type().is_socket())
}

/// What was found on the control socket of a connection in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Liveness {
    Alive,
    Gone,
}

/// One end of a control connection.
#[derive(Debug)]
pub(super) struct Control(OwnedFd);

impl Control {
    /// Connects to the server, as soon as there is one.
    ///
    /// # Errors
    /// There is none in time, or the kernel refuses.
    pub(super) fn connect(to: &MemifSocket, deadline: Deadline) -> Result<Control, MemifError> {
        let address = to.address()?;
        loop {
            let socket = unix_socket()?;
            match connect(&socket, &address) {
                Ok(()) => return Ok(Control(socket)),
                // None yet, one that ended without removing its file, or one with a full queue.
                Err(Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(MemifError::kernel("connect to the server", errno)),
            }
            if deadline.left().is_zero() {
                return Err(MemifError::NoPeer { peer: "server", waited_ms: deadline.waited_ms() });
            }
            std::thread::sleep(CONNECT_AGAIN_AFTER.min(deadline.left()));
        }
    }

    /// Sends a message, with a copy of a descriptor beside it.
    ///
    /// # Errors
    /// The peer is gone, or does not read.
    pub(super) fn send(&self, message: &Message, descriptor: Option<BorrowedFd<'_>>) -> Result<(), MemifError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.map(|fd| [fd]);
        if let Some(descriptors) = &descriptors {
            // There is space for one.
            beside.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let bytes = message.encode();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut beside, flags) {
            Ok(_) => Ok(()),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(MemifError::Closed { wanted: "its next message" }),
            Err(errno) => Err(MemifError::kernel("send a control message", errno)),
        }
    }

    /// The next message, and the descriptor that came beside it. `wanted` says in errors what was to come.
    ///
    /// # Errors
    /// There is none in time, it is no message, or the peer is gone.
    pub(super) fn receive(
        &self,
        deadline: Deadline,
        wanted: &'static str,
    ) -> Result<(Message, Option<OwnedFd>), MemifError> {
        loop {
            if !wait_readable(self.0.as_fd(), deadline)? {
                return Err(MemifError::Silent { wanted });
            }
            match self.receive_now(wanted) {
                Err(MemifError::Kernel { source, .. }) if source.kind() == std::io::ErrorKind::WouldBlock => {}
                received => return received,
            }
        }
    }

    fn receive_now(&self, wanted: &'static str) -> Result<(Message, Option<OwnedFd>), MemifError> {
        // One byte more, so that a longer one is known for what it is.
        let mut bytes = [0; MESSAGE_BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MOST), ScmCredentials(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut beside, flags) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(MemifError::Closed { wanted }),
                received => break received.map_err(|errno| MemifError::kernel("receive a control message", errno))?,
            }
        };
        let mut rights = beside.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let descriptor = rights.by_ref().flatten().next();
        rights.for_each(drop);
        match (received.bytes, bytes.first_chunk::<MESSAGE_BYTES>()) {
            (0, _) => Err(MemifError::Closed { wanted }),
            (MESSAGE_BYTES, Some(bytes)) => Ok((Message::decode(bytes, wanted)?, descriptor)),
            (found_bytes, _) => Err(MemifError::MessageLength { found_bytes }),
        }
    }

    /// Whether the peer is still there. A client or a server that is connected has nothing more to say but that it goes.
    pub(super) fn liveness(&self) -> Liveness {
        match self.receive_now("nothing") {
            Err(MemifError::Kernel { source, .. }) if source.kind() == std::io::ErrorKind::WouldBlock => {
                Liveness::Alive
            }
            // An answer that came late. All else ends the connection.
            Ok((Message::Ack, _)) => Liveness::Alive,
            Ok(_) | Err(_) => Liveness::Gone,
        }
    }

    /// Tells the peer why the connection ends, if it can still be told.
    pub(super) fn disconnect(&self, reason: &str) {
        let _ = self.send(&Message::Disconnect { code: 0, reason: reason.to_owned() }, None);
    }
}

/// A server's end of connections to come. Its file is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Listening {
    socket: OwnedFd,
    /// To be removed.
    file: Option<PathBuf>,
}

impl Listening {
    /// Takes the name. A file that a server left behind which is no more is replaced.
    ///
    /// # Errors
    /// Another server has the name, or the kernel refuses.
    pub(super) fn bind(at: &MemifSocket) -> Result<Listening, MemifError> {
        let (socket, address) = (unix_socket()?, at.address()?);
        let refused = |errno| MemifError::kernel("bind the socket", errno);
        let file = if let MemifSocket::Path(path) = at { Some(path) } else { None };
        match (bind(&socket, &address), file) {
            (Err(Errno::ADDRINUSE), Some(path))
                if is_socket(path) && connect(unix_socket()?, &address) == Err(Errno::CONNREFUSED) =>
            {
                rustix::fs::unlink(path).map_err(refused)?;
                bind(&socket, &address).map_err(refused)?;
            }
            (bound, _) => bound.map_err(refused)?,
        }
        let listening = Listening { socket, file: file.cloned() };
        listen(&listening.socket, 8).map_err(|errno| MemifError::kernel("listen", errno))?;
        Ok(listening)
    }

    /// The next client.
    ///
    /// # Errors
    /// There is none in time, or the kernel refuses.
    pub(super) fn accept(&self, deadline: Deadline) -> Result<Control, MemifError> {
        loop {
            if !wait_readable(self.socket.as_fd(), deadline)? {
                return Err(MemifError::NoPeer { peer: "client", waited_ms: deadline.waited_ms() });
            }
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => return Ok(Control(socket)),
                Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => {}
                Err(errno) => return Err(MemifError::kernel("accept a client", errno)),
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Somebody else may have removed it.
            let _ = rustix::fs::unlink(file);
        }
    }
}

#[cfg(test)]
impl From<OwnedFd> for Control {
    fn from(socket: OwnedFd) -> Control {
        Control(socket)
    }
}
