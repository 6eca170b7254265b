//! Room in a shadow's buffers for what it is given back with.
//!
//! The kernel takes bytes as long as what it has is less than a buffer's size (`sk_stream_memory_free`, `tcp_try_rmem_schedule`). What a connection was
//! carried with may be more: the kernel accounts for its own buffers, which are cut otherwise; it makes those of a busy connection larger as it goes, those
//! of a parked shadow stay as they were; and a host may let little be unsent (`net.ipv4.tcp_notsent_lowat`). The buffers are larger while bytes are written,
//! and as they were after that.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use nearwire_sys::socket::{Memory, buffer_locks, set_buffer_locks, set_unsent_most_bytes, unsent_most_bytes};
use nearwire_sys::tcp_repair::{Repair, set_repair};
use rustix::io::Errno;
use rustix::net::{SendFlags, bind, connect, send, sockopt};

use super::{AdoptionError, Asked, Privileges};

/// As much of a queue is given to the kernel at once: it makes one buffer of it.
const GIVEN_AT_ONCE_BYTES: usize = 32 << 10;
/// The kernel accounts for a byte of full segments less than two, for one of short segments more.
const MEMORY_PER_BYTE: usize = 2;
/// More than it accounts for one segment beside its bytes.
const SEGMENT_MEMORY_BYTES: usize = 64 << 10;
/// Of `SO_BUF_LOCK` (`SOCK_RCVBUF_LOCK`): the program chose the size.
const RECEIVING_LOCKED: i32 = 2;

/// One of the two buffers of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// `SO_SNDBUF`.
    Send,
    /// `SO_RCVBUF`.
    Receive,
}

impl Buffer {
    const fn option(self) -> &'static str {
        match self {
            Buffer::Send => "SO_SNDBUF",
            Buffer::Receive => "SO_RCVBUF",
        }
    }

    /// Its size, as the kernel keeps it: twice what was asked for.
    fn bytes(self, shadow: BorrowedFd<'_>) -> Result<usize, AdoptionError> {
        let bytes = match self {
            Buffer::Send => sockopt::socket_send_buffer_size(shadow),
            Buffer::Receive => sockopt::socket_recv_buffer_size(shadow),
        };
        bytes.asked(self.option())
    }

    /// What the kernel accounts for what is in it.
    fn used_bytes(self, shadow: BorrowedFd<'_>) -> usize {
        let memory = match self {
            Buffer::Send => Memory::WrittenBytes,
            Buffer::Receive => Memory::ReceivedBytes,
        };
        memory.of(shadow) as usize
    }

    /// Asks for a size, which the host's limits cut (`net.core.wmem_max`, `net.core.rmem_max`).
    fn ask(self, shadow: BorrowedFd<'_>, bytes: usize) -> Result<(), AdoptionError> {
        let asked = match self {
            Buffer::Send => sockopt::set_socket_send_buffer_size(shadow, bytes),
            Buffer::Receive => sockopt::set_socket_recv_buffer_size(shadow, bytes),
        };
        asked.asked(self.option())
    }
}

/// What of a change of owners needs a capability: CAP_NET_ADMIN where nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privileged {
    /// Freezes or thaws the shadow.
    Repair(Repair),
    /// Gives it a buffer beyond the host's limits (`SO_SNDBUFFORCE`, `SO_RCVBUFFORCE`).
    Buffer {
        /// Which.
        buffer: Buffer,
        /// Half of its size, as with `SO_SNDBUF`.
        bytes: u32,
    },
    /// Binds the shadow, which is disconnected, to the address that its connection has: CAP_NET_BIND_SERVICE for ports below
    /// `net.ipv4.ip_unprivileged_port_start`, and nothing may forbid it (Landlock). Servers have both when they begin to listen, and then give
    /// their rights up.
    Bind {
        /// This end.
        local: SocketAddr,
    },
    /// Connects the shadow, which is frozen, to the far end of its connection: nothing is sent. No capability, but programs may be forbidden it
    /// (Landlock, a control group's BPF programs).
    Connect {
        /// The far end.
        peer: SocketAddr,
    },
}

impl Privileged {
    /// Does so.
    ///
    /// # Errors
    /// `EPERM`: this thread has no CAP_NET_ADMIN in the user namespace of the socket's network namespace. `EACCES`: it may not bind or connect.
    pub fn set(self, shadow: impl AsFd) -> io::Result<()> {
        match self {
            Privileged::Repair(repair) => set_repair(shadow, repair),
            Privileged::Buffer { buffer: Buffer::Send, bytes } => {
                Ok(sockopt::set_socket_send_buffer_size_force(shadow, bytes as usize)?)
            }
            Privileged::Buffer { buffer: Buffer::Receive, bytes } => {
                Ok(sockopt::set_socket_recv_buffer_size_force(shadow, bytes as usize)?)
            }
            // One that the program bound, or that was bound before, is bound still.
            Privileged::Bind { local } => match bind(shadow, &local) {
                Ok(()) | Err(Errno::INVAL) => Ok(()),
                Err(errno) => Err(errno.into()),
            },
            Privileged::Connect { peer } => Ok(connect(shadow, &peer)?),
        }
    }
}

/// The buffers of a shadow that is written to.
pub(super) struct Room<'a> {
    shadow: BorrowedFd<'a>,
    privileges: &'a Privileges<'a>,
    /// How they were, once they were made larger.
    before: Option<Before>,
}

/// Both buffers, and what they were told.
struct Before {
    send_bytes: usize,
    receive_bytes: usize,
    locks: i32,
    unsent_most_bytes: u32,
}

impl Before {
    fn of(shadow: BorrowedFd<'_>) -> Result<Before, AdoptionError> {
        Ok(Before {
            send_bytes: Buffer::Send.bytes(shadow)?,
            receive_bytes: Buffer::Receive.bytes(shadow)?,
            locks: buffer_locks(shadow).asked("SO_BUF_LOCK")?,
            unsent_most_bytes: unsent_most_bytes(shadow).asked("TCP_NOTSENT_LOWAT")?,
        })
    }
}

impl<'a> Room<'a> {
    pub(super) fn of(shadow: BorrowedFd<'a>, privileges: &'a Privileges<'a>) -> Room<'a> {
        Room { shadow, privileges, before: None }
    }

    /// Writes all of something to the chosen queue of a frozen shadow, or to one that is thawed.
    pub(super) fn write(&mut self, buffer: Buffer, mut bytes: &[u8]) -> Result<(), AdoptionError> {
        let mut has_room = false;
        while !bytes.is_empty() {
            let part = &bytes[..bytes.len().min(GIVEN_AT_ONCE_BYTES)];
            match send(self.shadow, part, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(taken) => {
                    bytes = &bytes[taken..];
                    has_room = false;
                }
                // The queue of what was received has no room by ENOMEM.
                Err(Errno::AGAIN | Errno::NOMEM) if !has_room => {
                    self.make(buffer, bytes.len())?;
                    has_room = true;
                }
                Err(errno) => return Err(errno).asked("send"),
            }
        }
        Ok(())
    }

    /// Makes room for so many bytes more.
    #[cold]
    fn make(&mut self, buffer: Buffer, more_bytes: usize) -> Result<(), AdoptionError> {
        if self.before.is_none() {
            self.before = Some(Before::of(self.shadow)?);
            self.let_be_unsent(u32::MAX)?;
        }
        let used_bytes = buffer.used_bytes(self.shadow).max(buffer.bytes(self.shadow)?);
        self.set(buffer, used_bytes + more_bytes * MEMORY_PER_BYTE + SEGMENT_MEMORY_BYTES)
    }

    /// So large at least, as the kernel counts, if somebody may do that.
    fn set(&self, buffer: Buffer, wanted_bytes: usize) -> Result<(), AdoptionError> {
        // The kernel doubles what is asked for.
        let asked_bytes = wanted_bytes.div_ceil(2);
        buffer.ask(self.shadow, asked_bytes)?;
        if buffer.bytes(self.shadow)? < wanted_bytes {
            let bytes = u32::try_from(asked_bytes).unwrap_or(u32::MAX);
            // Refused, what the host's limits let be has to do.
            let _ = (self.privileges)(Privileged::Buffer { buffer, bytes });
        }
        Ok(())
    }

    fn let_be_unsent(&self, bytes: u32) -> Result<(), AdoptionError> {
        set_unsent_most_bytes(self.shadow, bytes).asked("TCP_NOTSENT_LOWAT")
    }

    /// From now on they are as large as before, and grow by themselves if they did. The one of what was received stays, as what is in it was told to the
    /// far end as its window, except where the program chose its size.
    pub(super) fn give_up(self) -> Result<(), AdoptionError> {
        let Some(before) = &self.before else { return Ok(()) };
        self.set(Buffer::Send, before.send_bytes)?;
        if before.locks & RECEIVING_LOCKED != 0 {
            self.set(Buffer::Receive, before.receive_bytes)?;
        }
        set_buffer_locks(self.shadow, before.locks).asked("SO_BUF_LOCK")?;
        self.let_be_unsent(before.unsent_most_bytes)
    }
}
