//! What raw-frame programs need beyond a [`Port`]: sending from a buffer of the port, frames that stay lent between two
//! calls, resident frames that are loaded anew, waiting, filters.
//!
//! The shape is libexanic's: begin, end and abort a send; receive in place; warm the way of a send without sending.

use std::io;
use std::time::Duration;

use crate::PortError;
use crate::port::{Port, PreparedFrame};
use crate::steering::Filter;

/// Who took a frame's time, from the best to the least exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeSource {
    /// The network device, by its own clock.
    Hardware,
    /// The kernel, when the frame entered its stack; of AF_XDP, when the driver had it.
    Kernel,
    /// The program that reads: the port has no time of its own.
    Program,
}

/// When a frame came, nanoseconds since 1970, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Whose clock.
    pub source: TimeSource,
}

/// A received frame that the port lends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LentFrame<'a> {
    /// The frame without FCS.
    pub bytes: &'a [u8],
    /// The receive queue it came on; 0 where the port does not know.
    pub queue: u32,
    /// When it came, where the port knows.
    pub stamp: Option<Stamp>,
    /// The host sent it: only ports that were asked for such frames have them.
    pub outgoing: bool,
}

/// A port for programs that handle frames themselves.
///
/// One send may be begun and one frame lent at a time; [`Port`]'s calls are allowed meanwhile. Nobody else touches the
/// bytes of a begun send until [`RawPort::end_send`] or [`RawPort::abort_send`], nor those of a lent frame until
/// [`RawPort::give_back`], and they stay where they are.
pub trait RawPort: Port {
    /// Lends a buffer for a frame of up to `len_bytes`. `None`: no buffer is free now.
    ///
    /// # Errors
    /// A send has begun, or the port carries no frame of this length.
    fn begin_send(&mut self, len_bytes: usize) -> Result<Option<&mut [u8]>, PortError>;

    /// Sends the first `len_bytes` of the begun buffer, with one kick. `false`: no room, the send stays begun.
    ///
    /// # Errors
    /// No send has begun, the frame is longer than begun or than the port carries (the send stays begun), or the port
    /// failed for good.
    fn end_send(&mut self, len_bytes: usize) -> Result<bool, PortError>;

    /// Gives the begun buffer back unsent.
    ///
    /// # Errors
    /// No send has begun.
    fn abort_send(&mut self) -> Result<(), PortError>;

    /// Walks the way of a send up to and including the kick, with nothing sent: code, translations and cache lines are
    /// then where the next send wants them.
    ///
    /// # Errors
    /// As [`Port::send`].
    fn warm_send(&mut self, frame: &[u8]) -> Result<(), PortError>;

    /// Puts another frame into the slot of a resident one. `None`: its last send has not completed.
    ///
    /// # Errors
    /// As [`Port::prepare`].
    fn replace_prepared(&mut self, old: PreparedFrame, frame: &[u8]) -> Result<Option<PreparedFrame>, PortError>;

    /// Resident frames that may be made.
    fn prepared_most(&self) -> u32;

    /// Lends the next frame in place until [`RawPort::give_back`]. `None`: there is none now.
    ///
    /// # Errors
    /// A frame is lent, or the port failed for good.
    fn lend(&mut self) -> Result<Option<LentFrame<'_>>, PortError>;

    /// The lent frame.
    fn lent(&self) -> Option<LentFrame<'_>>;

    /// Gives the lent frame's buffer back.
    ///
    /// # Errors
    /// No frame is lent.
    fn give_back(&mut self) -> Result<(), PortError>;

    /// Sleeps until there may be a frame, or `timeout` is over. `false`: it is over.
    ///
    /// # Errors
    /// `EINTR` for a signal; what poll(2) says.
    fn wait(&self, timeout: Option<Duration>) -> io::Result<bool>;

    /// Longest frame without FCS that the port sends, bytes.
    fn frame_most_bytes(&self) -> usize;

    /// The best time that lent frames can have; a frame says itself which it has.
    fn time_source(&self) -> TimeSource;

    /// Takes frames that match `filter` from now on; for ports opened with [`crate::ports::xdp::Steer::Filters`].
    ///
    /// # Errors
    /// [`PortError::Filter`] with its cause, or the kernel refused.
    fn add_filter(&mut self, filter: Filter) -> Result<(), PortError>;

    /// Takes them no more, unless another filter matches.
    ///
    /// # Errors
    /// As [`RawPort::add_filter`].
    fn remove_filter(&mut self, filter: Filter) -> Result<(), PortError>;
}

/// Sleeps until one of `sockets` may be read.
pub(crate) fn wait_readable<'fd>(
    sockets: impl Iterator<Item = std::os::fd::BorrowedFd<'fd>>,
    timeout: Option<Duration>,
) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut polled: Vec<_> = sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
    let timeout = timeout.map(|timeout| rustix::event::Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    });
    Ok(poll(&mut polled, timeout.as_ref())? > 0)
}
