//! The seam that everything above frames is generic over.
//!
//! The shape is libexanic's: send by copy, send a frame that is already resident with one descriptor and a kick,
//! receive in place or by copy. Statically dispatched, so that a capture or a fault port around a port costs
//! nothing when it is not there.

use crate::PortError;

/// A resident frame that [`Port::send_prepared`] sends again and again.
///
/// Valid for the port that made it, for as long as that port lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreparedFrame {
    /// Which of the port's resident frames; a port's own business.
    pub(crate) slot: u32,
    /// Length of the frame without FCS.
    pub(crate) len_bytes: u32,
}

impl PreparedFrame {
    /// Length of the frame without FCS, bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes as usize
    }
}

/// Counters of a port since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortStatistics {
    /// Frames lent or copied to the caller.
    pub received_frames: u64,
    /// Frames handed to the kernel (or the peer).
    pub sent_frames: u64,
    /// Frames the kernel had for this port and dropped: no buffer, ring full.
    pub receive_dropped_frames: u64,
    /// Send attempts the kernel or the ring refused.
    pub send_refused_frames: u64,
    /// System calls made to have frames sent.
    pub kicks: u64,
}

/// Something that sends and receives Ethernet frames (without FCS).
///
/// None of the calls blocks. `receive` returns `None` when there is no frame now.
pub trait Port {
    /// Lends the next frame in place to `read`; the buffer goes back to the port when `read` returns.
    ///
    /// # Errors
    /// The port failed for good (interface gone, socket error).
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError>;

    /// Copies the next frame into `into` and returns its whole length, which may exceed `into.len()`:
    /// then only the head was copied.
    ///
    /// # Errors
    /// As [`Port::receive`].
    fn receive_copy(&mut self, into: &mut [u8]) -> Result<Option<usize>, PortError> {
        self.receive(|frame| {
            let n = frame.len().min(into.len());
            into[..n].copy_from_slice(&frame[..n]);
            frame.len()
        })
    }

    /// Queues a copy of `frame` without a kick. `Ok(false)`: no room now; call [`Port::flush`] and try again.
    ///
    /// # Errors
    /// `frame` is longer than the port carries, or the port failed for good.
    fn queue(&mut self, frame: &[u8]) -> Result<bool, PortError>;

    /// As [`Port::queue`], but `write` makes the frame in the buffer from which it is sent: `len_bytes` long, its content
    /// unspecified. Saves the copy of a frame that has to be made anyway.
    ///
    /// # Errors
    /// As [`Port::queue`].
    fn queue_with(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError>;

    /// Has the kernel send what is queued, and takes back buffers that were sent.
    ///
    /// # Errors
    /// The port failed for good.
    fn flush(&mut self) -> Result<(), PortError>;

    /// Sends a copy of `frame` now: `queue` and one kick. `Ok(false)`: no room even after a flush.
    ///
    /// # Errors
    /// As [`Port::queue`].
    fn send(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        let mut queued = self.queue(frame)?;
        if !queued {
            self.flush()?;
            queued = self.queue(frame)?;
        }
        self.flush()?;
        Ok(queued)
    }

    /// Makes `frame` resident for [`Port::send_prepared`].
    ///
    /// # Errors
    /// `frame` is longer than the port carries, or no resident slot is left.
    fn prepare(&mut self, frame: &[u8]) -> Result<PreparedFrame, PortError>;

    /// Sends a resident frame again, after `patch` changed bytes of it in place (a sequence number, a checksum).
    /// `Ok(false)`: its previous send has not completed yet or there is no room, nothing was sent.
    ///
    /// # Errors
    /// The port failed for good.
    fn send_prepared(&mut self, frame: PreparedFrame, patch: impl FnOnce(&mut [u8])) -> Result<bool, PortError>;

    /// Counters since the port was opened.
    fn statistics(&self) -> PortStatistics;

    /// One line for people: kind, interface, mode, queues. As in `AF_XDP generic on nw0, rx queue 0, tx queue 1`.
    fn describe(&self) -> String;
}
