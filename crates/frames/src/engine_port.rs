//! What an engine of sockets needs of a port, beyond a [`Port`]: filters, several TX queues with kicks that are made outside the
//! engine's lock, times of frames, frames that the kernel got for want of room, shares.
//!
//! An engine is generic over it and statically dispatched. [`XdpPort`](crate::ports::xdp::XdpPort) is one over AF_XDP;
//! [`SteeredPort`](crate::steered::SteeredPort) makes one of any port, for simulations.

mod xdp;

use std::convert::Infallible;
use std::os::fd::{AsFd, BorrowedFd};

use nearwire_sys::descriptor::Descriptor;

use crate::PortError;
use crate::port::Port;
use crate::ports::xdp::{FrameTimes, TimesWanted};
use crate::raw::TimeSource;
use crate::steering::{ExactFlow, FlowFilter};

pub use xdp::locks_generic_rings;

/// A port for an engine that serves sockets.
///
/// The provided methods are those of a port in memory: one TX queue, no times, no fd to wait by, and room for every frame. A port of a
/// device has its own of all of them.
pub trait EnginePort: Port + Sized + 'static {
    /// The system call that has the kernel take what a TX queue shows it.
    type Kick: PortKick;

    /// As [`Port::receive`], with the frame's times, as far as it has some.
    ///
    /// # Errors
    /// As [`Port::receive`].
    fn receive_timed<R>(&mut self, read: impl FnOnce(&[u8], FrameTimes) -> R) -> Result<Option<R>, PortError> {
        self.receive(|frame| read(frame, FrameTimes::default()))
    }

    /// Has frames that come from now on carry times, as well as they can be had.
    fn want_times(&mut self, _wanted: TimesWanted) {}

    /// The best time that frames can have.
    fn time_source(&self) -> TimeSource {
        TimeSource::Program
    }

    /// How many TX queues there are, at least one.
    fn tx_queues(&self) -> usize {
        1
    }

    /// As [`Port::queue_with`], on a TX queue; the first for one that there is not.
    ///
    /// # Errors
    /// As there.
    fn queue_on(
        &mut self,
        _tx_queue: usize,
        len_bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, PortError> {
        self.queue_with(len_bytes, write)
    }

    /// As [`Port::flush`], of a TX queue.
    ///
    /// # Errors
    /// As there.
    fn flush_on(&mut self, _tx_queue: usize) -> Result<(), PortError> {
        self.flush()
    }

    /// Shows the kernel what is queued on a TX queue, and gives the kick that has it sent. `None`: none is needed.
    fn submit_on(&mut self, tx_queue: usize) -> Option<Self::Kick>;

    /// Takes note of what came of a kick, if it was one of this port.
    ///
    /// # Errors
    /// The kick failed: the interface is gone, or down.
    fn kicked(&mut self, kicked: <Self::Kick as PortKick>::Kicked) -> Result<(), PortError>;

    /// Descriptors that are readable when there are frames.
    fn receive_sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::empty()
    }

    /// Takes frames of a flow from now on, for a socket that is bound to it. Asked for every socket that wants it; `is_first`: no other
    /// socket had it of this port.
    ///
    /// # Errors
    /// [`PortError::Filter`] with its cause; or the kernel, or the agent that holds the port, refused.
    fn add_flow(&mut self, flow: FlowFilter, socket: FlowSocket, is_first: bool) -> Result<(), PortError>;

    /// Takes them no more, unless another filter matches; `is_last`: no other socket has it of this port.
    ///
    /// # Errors
    /// As [`EnginePort::add_flow`].
    fn remove_flow(&mut self, flow: FlowFilter, socket: FlowSocket, is_last: bool) -> Result<(), PortError>;

    /// Gives a flow of a socket to a port that shares the queues of this one. `is_last`: no other socket has it here; `is_first`: none had
    /// it there. Where both are so, each frame comes to the one or the other.
    ///
    /// # Errors
    /// As [`EnginePort::add_flow`]; some frames may be the kernel's then.
    fn hand_flow(
        &mut self,
        other: &mut Self,
        flow: FlowFilter,
        socket: FlowSocket,
        is_last_and_first: (bool, bool),
    ) -> Result<(), PortError>;

    /// Whether a frame of a connection, which the kernel gets, came by this port since this was first asked, or soon after (`None`: nobody listens yet). Having
    /// its socket is the right to ask. It is remembered until [`EnginePort::open_connection`] or [`EnginePort::close_connection`].
    ///
    /// # Errors
    /// As [`EnginePort::open_connection`].
    fn hears_connection(&mut self, _flow: ExactFlow, _socket: FlowSocket) -> Result<Option<bool>, PortError> {
        Err(PortError::NoConnections { interface: self.about().interface.to_owned() })
    }

    /// Takes the frames of a connection from now on. Having its socket is the right to them.
    ///
    /// # Errors
    /// The agent refused, or there is none: only one that outlives the program can tell the far end that the program has died.
    fn open_connection(&mut self, _flow: ExactFlow, _socket: FlowSocket) -> Result<(), PortError> {
        Err(PortError::NoConnections { interface: self.about().interface.to_owned() })
    }

    /// Takes them no more.
    fn close_connection(&mut self, _flow: ExactFlow) {}

    /// Whether [`EnginePort::take_revoked`] or [`EnginePort::take_alone`] has some.
    fn has_revoked(&self) -> bool {
        false
    }

    /// Sockets whose flows somebody else took from this port since the last question: their frames are the kernel's.
    fn take_revoked(&mut self) -> Vec<RevokedFlow> {
        Vec::new()
    }

    /// Sockets (`SO_COOKIE`) that were refused a flow as other processes used them, which have ended since the last question.
    fn take_alone(&mut self) -> Vec<u64> {
        Vec::new()
    }

    /// Tells the agent that holds the port that a socket without flows was connected, or is not any more: the flows of others leave what
    /// its peer sends to the kernel.
    fn show_connection(&mut self, _socket: FlowSocket) {}

    /// The filters, where the port has some.
    fn filters(&mut self) -> Option<&mut dyn PortFilters>;

    /// For the child of a fork: closes its copies of the port's descriptors and gives the filters, which the parent still uses.
    fn into_filters_of_parent(self) -> Option<Box<dyn PortFilters>>;

    /// The MTU of the interface changed, bytes.
    fn follow_mtu(&self, _mtu_bytes: u32) {}

    /// Whether frames still come.
    ///
    /// # Errors
    /// The port's program was detached from the interface, or the agent that holds the port is gone.
    fn check(&mut self) -> Result<(), PortError>;

    /// Whether the agent that holds the port has said something of it that a port of another engine has read: [`EnginePort::check`] then.
    fn is_told(&self) -> bool {
        false
    }

    /// Readable when the agent that holds the port, if one does, has reported something or is gone: [`EnginePort::check`] then.
    fn holder(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Readable when the agent that sees to the port's connections is gone, whoever holds the port: [`EnginePort::check`] then.
    fn guard(&self) -> Option<BorrowedFd<'_>> {
        self.holder()
    }

    /// The kernel has all frames from now on; those that the port has already can still be read.
    fn detach(&mut self);

    /// Its interface and mode, for people.
    fn about(&self) -> PortAbout<'_>;

    /// Whether the kernel gets frames that are the port's, for want of room.
    fn is_overflowing(&self) -> bool {
        false
    }

    /// Whether a frame waits.
    fn has_frames(&self) -> bool {
        false
    }

    /// Begins to settle; how many frames the kernel got since it was last settled.
    fn begin_settling(&mut self) -> u64 {
        0
    }

    /// How many more it got since then.
    fn overflowed_since(&self) -> u64 {
        0
    }

    /// All that the kernel got was taken over: frames come here again.
    fn settle_overflow(&mut self) {}

    /// Frames come here again before it is settled. They are not to be read before [`EnginePort::end_force`].
    fn force_room(&mut self) {}

    /// Whether there is no room again since [`EnginePort::force_room`].
    fn is_full_again(&self) -> bool {
        false
    }

    /// Ends [`EnginePort::force_room`]. How many frames the next [`EnginePort::begin_settling`] reports once more.
    fn end_force(&mut self) -> u64 {
        0
    }

    /// Segments of TCP that were dropped for want of room: their senders send them again.
    fn dropped_segments(&self) -> u64 {
        0
    }

    /// Segments of TCP that were dropped as the port can hold none as long: their connections are to be given to the kernel.
    fn too_long_segments(&self) -> u64 {
        0
    }

    /// Looks for room that was lost by them, if there were some of late.
    fn find_lost(&mut self) {}

    /// Error messages of ICMP that the kernel got, wrapping. One is counted before the kernel has it.
    fn errors_passed(&self) -> u64 {
        0
    }

    /// A port for another engine that receives from the same queues what its own filters match, and that takes one TX queue along.
    ///
    /// # Errors
    /// No TX queue or share is left, or the kernel refused.
    fn share(&mut self) -> Result<Self, PortError>;

    /// Takes a share back, with its TX queue.
    ///
    /// # Errors
    /// It is no share of this port, and is dropped; or the kernel refused to take its filters out.
    fn unshare(&mut self, share: Self) -> Result<(), PortError>;
}

/// A socket of the kernel's that is bound to a flow: having it is the right to the flow where another process has the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowSocket {
    /// Its descriptor, which is closed when the flow is removed.
    pub descriptor: Descriptor,
    /// Its inode, which no other socket has as long as it is open.
    pub inode: u64,
}

impl AsFd for FlowSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// What a port is, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortAbout<'a> {
    /// The interface that it receives by.
    pub interface: &'a str,
    /// How it is attached, in a word.
    pub mode: &'static str,
    /// RX queues.
    pub rx_queues: u32,
    /// The kernel's id of the XDP program by which it gets its frames, where there is one.
    pub program_id: Option<u32>,
}

/// A system call that is made when the port is no longer at hand.
pub trait PortKick {
    /// What came of it.
    type Kicked;

    /// Makes it. `None`: all is sent; else it is to be passed to [`EnginePort::kicked`].
    fn make(self) -> Option<Self::Kicked>;
}

/// Of a port that needs none.
impl PortKick for Infallible {
    type Kicked = Infallible;

    fn make(self) -> Option<Infallible> {
        match self {}
    }
}

/// A flow that was taken from a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RevokedFlow {
    /// The socket that had it.
    pub socket: FlowSocket,
    /// Another process uses this very socket; else others that are bound to its address.
    pub is_socket_shared: bool,
}

/// The filters of a port, or what a child of fork(2) has of its parent's.
pub trait PortFilters: std::fmt::Debug + Send + Sync {
    /// Has the port take nothing until [`PortFilters::resume`].
    ///
    /// # Errors
    /// The kernel refused.
    fn pause(&self) -> Result<(), PortError>;

    /// Ends [`PortFilters::pause`].
    ///
    /// # Errors
    /// The kernel refused.
    fn resume(&self) -> Result<(), PortError>;

    /// Takes a flow of a socket out of the kernel's maps and nothing else.
    fn withdraw(&self, flow: FlowFilter, socket: Descriptor);

    /// Puts a flow that was withdrawn into the kernel's maps again.
    fn restore(&self, flow: FlowFilter);
}
