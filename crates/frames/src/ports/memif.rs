//! memif: frames through shared memory, with another process that speaks the protocol, such as VPP, DPDK (`net_memif`) or this port.
//!
//! The *client* makes the memory, in which both rings and all buffers lie, and connects to the socket of the *server*, which maps it. Each
//! direction is a ring with one sender and one receiver ([`ring`]). Both ends poll: frames cost no system call. A peer that wants interrupts
//! gets one for each flush.
//!
//! ```text
//! config     how a port is opened              message, control   what is said over the socket
//! handshake  how a connection is made
//! region     memory that is mapped             layout             a client's region
//! ring       indices and descriptors           sending, receiving the two halves of a port
//! ```
//!
//! A peer is not trusted: what it says and writes is copied, then judged, then used. Lies are errors ([`MemifError`]). Three things a
//! peer can do all the same: change a frame while it is lent, which [`MemifConfig::copies_frames`] avoids; send too fast or not at
//! all; and, if it asked for interrupts, make the eventfd wait that it passed, so that a flush waits.
//!
//! Source: DPDK `drivers/net/memif` and its guide `doc/guides/nics/memif.rst`, VPP `src/plugins/memif`, `extras/libmemif`; version 2.0 of the
//! protocol.

mod config;
mod control;
mod error;
mod handshake;
mod layout;
mod message;
mod receiving;
mod region;
mod ring;
mod sending;

use std::ptr::NonNull;
use std::time::Duration;

pub use config::{MemifConfig, MemifRole};
pub use control::MemifSocket;
pub use error::MemifError;

use super::resident::ResidentFrames;
use crate::PortError;
use crate::port::{Port, PortStatistics, PreparedFrame};
use control::{Control, Deadline, Listening, Liveness};
use handshake::{Joined, join};
use receiving::Receiving;
use sending::{Room, Sending};

/// Longest frame that is sent and received, in as many buffers as it takes.
pub const FRAME_MOST_BYTES: usize = 65_535;

const HEADER_BYTES: usize = 14;
/// Looks at an empty or full ring after which the control socket is asked whether the peer is still there: a system call.
const IDLE_LOOKS_PER_CHECK: u32 = 1 << 14;

/// A client that was refused asks again so long after.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

fn name(socket: &MemifSocket) -> String {
    format!("memif {socket}")
}

/// A server's socket, at which clients connect one after the other.
#[derive(Debug)]
pub struct MemifListener {
    listening: Listening,
    config: MemifConfig,
}

impl MemifListener {
    /// Takes the socket's name; a file that a server left behind which is no more is replaced. The role in `config` is not looked at.
    ///
    /// # Errors
    /// The configuration is impossible, another server has the name, or the kernel refuses.
    pub fn bind(config: &MemifConfig) -> Result<MemifListener, PortError> {
        let config = MemifConfig { role: MemifRole::Server, ..config.clone() };
        config.check()?;
        let listening = Listening::bind(&config.socket).map_err(|error| config.failed(error))?;
        Ok(MemifListener { listening, config })
    }

    /// Waits for the next client and makes the connection.
    ///
    /// # Errors
    /// There is none in time, or it breaks the protocol, which it is told; the next one can be accepted then.
    pub fn accept(&self) -> Result<MemifPort, PortError> {
        let deadline = Deadline::after(self.config.connect_within);
        loop {
            let control = self.listening.accept(deadline).map_err(|error| self.config.failed(error))?;
            match join(control, &self.config, deadline) {
                // It ended, or looked only whether there is a server.
                Err(MemifError::Closed { .. }) => {}
                joined => return MemifPort::of(joined, &self.config),
            }
        }
    }
}

/// Connects as a client. A server that refuses is asked again while there is time: DPDK listens before its interfaces are started.
fn connect(config: &MemifConfig, deadline: Deadline) -> Result<Joined, MemifError> {
    let mut refused = None;
    loop {
        match Control::connect(&config.socket, deadline).and_then(|control| join(control, config, deadline)) {
            Err(error @ MemifError::Refused { .. }) if !deadline.is_over() => refused = Some(error),
            // Why it refused says more than that it is gone now.
            Err(error) => return Err(refused.unwrap_or(error)),
            joined => return joined,
        }
        std::thread::sleep(ASK_AGAIN_AFTER);
    }
}

/// One end of a memif connection.
pub struct MemifPort {
    sending: Sending,
    receiving: Receiving,
    control: Control,
    prepared: ResidentFrames,
    /// Where a frame is made that lies in no single buffer.
    staging: Box<[u8]>,
    copies: bool,
    idle_looks: u32,
    is_peer_gone: bool,
    statistics: PortStatistics,
    config: MemifConfig,
}

impl MemifPort {
    /// Opens either end: waits for the server, or for one client.
    ///
    /// # Errors
    /// The configuration is impossible, there is no peer in time, it refuses until then or breaks the protocol, or the kernel refuses.
    pub fn open(config: &MemifConfig) -> Result<MemifPort, PortError> {
        config.check()?;
        if config.role == MemifRole::Server {
            return MemifListener::bind(config)?.accept();
        }
        MemifPort::of(connect(config, Deadline::after(config.connect_within)), config)
    }

    fn of(joined: Result<Joined, MemifError>, config: &MemifConfig) -> Result<MemifPort, PortError> {
        let halves = joined.and_then(|Joined { control, sending, receiving, kick, buffers }| {
            let [to_send, to_receive] = buffers.map_or([None; 2], |buffers| buffers.map(Some));
            let sending = Sending::new(sending, to_send, kick)?;
            let receiving = Receiving::new(receiving, to_receive, FRAME_MOST_BYTES, config.copies_frames)?;
            Ok((sending, receiving, control))
        });
        let (sending, receiving, control) = halves.map_err(|error| config.failed(error))?;
        Ok(MemifPort {
            sending,
            receiving,
            control,
            prepared: ResidentFrames::default(),
            staging: vec![0; FRAME_MOST_BYTES].into(),
            copies: config.copies_frames,
            idle_looks: 0,
            is_peer_gone: false,
            statistics: PortStatistics::default(),
            config: config.clone(),
        })
    }

    /// Now and then, when nothing moves, finds out whether the peer is still there.
    #[inline]
    fn idle(&mut self) {
        self.idle_looks = self.idle_looks.wrapping_add(1);
        if self.idle_looks.is_multiple_of(IDLE_LOOKS_PER_CHECK) && self.control.liveness() == Liveness::Gone {
            self.is_peer_gone = true;
        }
    }

    #[cold]
    fn length_error(&self, found_bytes: usize) -> PortError {
        let interface = name(&self.config.socket);
        PortError::FrameLength { interface, found_bytes, least_bytes: HEADER_BYTES, most_bytes: FRAME_MOST_BYTES }
    }

    #[cold]
    fn failed(&self, source: MemifError) -> PortError {
        self.config.failed(source)
    }

    /// The buffer that a frame of so many bytes is sent from, or where it has to be made.
    #[inline]
    fn begin(&mut self, len_bytes: usize) -> Result<Room, PortError> {
        if !(HEADER_BYTES..=FRAME_MOST_BYTES).contains(&len_bytes) {
            return Err(self.length_error(len_bytes));
        }
        if self.is_peer_gone {
            return Err(PortError::PeerGone);
        }
        match self.sending.begin(len_bytes) {
            Ok(Room::None) => {
                self.refused();
                Ok(Room::None)
            }
            Ok(room) => Ok(room),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn refused(&mut self) {
        self.statistics.send_refused_frames += 1;
        self.idle();
    }

    #[cold]
    fn queue_chain(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        match self.sending.queue_chain(frame) {
            Ok(Some(true)) => {
                self.statistics.sent_frames += 1;
                Ok(true)
            }
            Ok(Some(false)) => {
                self.refused();
                Ok(false)
            }
            Ok(None) => Err(self.length_error(frame.len())),
            Err(error) => Err(self.failed(error)),
        }
    }

    #[inline]
    fn sent(&mut self) -> bool {
        self.sending.end();
        self.statistics.sent_frames += 1;
        true
    }
}

impl Drop for MemifPort {
    fn drop(&mut self) {
        if !self.is_peer_gone {
            self.control.disconnect("the port was closed");
        }
    }
}

impl std::fmt::Debug for MemifPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Port for MemifPort {
    #[inline]
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError> {
        match self.receiving.receive(read) {
            Ok(Some(result)) => {
                self.statistics.received_frames += 1;
                Ok(Some(result))
            }
            // What was sent before the peer went is received first.
            Ok(None) if self.is_peer_gone => Err(PortError::PeerGone),
            Ok(None) => {
                self.idle();
                Ok(None)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    #[inline]
    fn queue(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        match self.begin(frame.len())? {
            Room::Buffer(start) => {
                // SAFETY: `Sending::begin` checked that so many bytes from `start` on are within a region, which is mapped; the slot is
                // this side's until it is published, and no reference to shared memory is live.
                unsafe { start.copy_from_nonoverlapping(NonNull::from(frame).cast(), frame.len()) };
                Ok(self.sent())
            }
            Room::Several => self.queue_chain(frame),
            Room::None => Ok(false),
        }
    }

    /// If the frame takes several buffers, `write` may be called although there is no room then.
    #[inline]
    fn queue_with(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        match self.begin(len_bytes)? {
            Room::Buffer(start) if !self.copies => {
                // SAFETY: as in `queue`; the bytes are initialized, as all memory of a file is, and this is the only reference to shared
                // memory of this port. A peer that breaks the protocol can write there still: see `Receiving::receive`.
                write(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len_bytes) });
                Ok(self.sent())
            }
            Room::Buffer(_) | Room::Several => {
                let mut staging = std::mem::take(&mut self.staging);
                write(&mut staging[..len_bytes]);
                let queued = self.queue(&staging[..len_bytes]);
                self.staging = staging;
                queued
            }
            Room::None => Ok(false),
        }
    }

    #[inline]
    fn flush(&mut self) -> Result<(), PortError> {
        if self.sending.publish() {
            self.statistics.kicks += 1;
        }
        Ok(())
    }

    fn prepare(&mut self, frame: &[u8]) -> Result<PreparedFrame, PortError> {
        if !(HEADER_BYTES..=FRAME_MOST_BYTES).contains(&frame.len()) {
            return Err(self.length_error(frame.len()));
        }
        self.prepared.add(frame, || name(&self.config.socket))
    }

    #[inline]
    fn send_prepared(&mut self, frame: PreparedFrame, patch: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        let resident = self.prepared.take(frame, patch, || name(&self.config.socket))?;
        let queued = self.queue(&resident);
        self.prepared.put_back(frame, resident);
        self.flush()?;
        queued
    }

    fn statistics(&self) -> PortStatistics {
        self.statistics
    }

    fn describe(&self) -> String {
        let role = if self.config.role == MemifRole::Server { "server" } else { "client" };
        let (socket, id, slots) = (&self.config.socket, self.config.id, self.sending.size_slots());
        format!("memif {role} at {socket}, interface {id}, rings of {slots} slots")
    }
}

#[cfg(test)]
mod tests;
