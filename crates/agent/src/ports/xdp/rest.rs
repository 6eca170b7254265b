//! A port without flows rests: its program is detached until a flow comes.
//!
//! In generic mode the kernel copies each frame for an attached program, whoever gets the frame. Sockets of the kernel received 4 to 7 % fewer
//! messages beside a program that took none (veth, Linux 6.18, `make targets ONLY="waiting kernel beside"`). Programs whose sockets are all
//! the kernel's, for the time that is better or for good, are not to pay for that.
//!
//! The loop adds flows to the table, and this thread attaches and detaches. Each first says what it did, then looks at what the other said:
//! one of them sees that a flow came to a port that rests.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use nearwire_frames::PortError;
use nearwire_frames::ports::xdp::XdpPort;

/// How long a port has no flow before it rests, at least and at most. To attach and detach its program takes the kernel 8 and 16 ms
/// ([`XdpPort::rest`]), and stops all CPUs for some microseconds each time, so a rest is to be several times as long as what was waited for it
/// ([`Rest::end`]): programs whose flows come and go are not to have one each time. In the first seconds of a contest for CPUs programs
/// try again and again what is better than the kernel's way, later once in 8.6 s.
const UNUSED_LEAST: Duration = Duration::from_millis(100);
const UNUSED_MOST: Duration = Duration::from_secs(2);
/// A rest that was not so many times as long as its waiting has the next one waited for twice as long.
const WORTH: u32 = 4;

/// Whether a port rests, or is to.
#[derive(Debug)]
pub(super) struct Rest {
    is_resting: Arc<AtomicBool>,
    /// [`Rest::begin`] is to be called then. No flow is left, as far as is known.
    due: Option<Instant>,
    /// How long is waited for the next rest.
    unused_for: Duration,
    /// When the present rest began.
    begun: Option<Instant>,
}

impl Default for Rest {
    fn default() -> Self {
        Rest { is_resting: Arc::default(), due: None, unused_for: UNUSED_LEAST, begun: None }
    }
}

impl Rest {
    /// For the loop, which reads it.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_resting)
    }

    /// There may be no flow any more.
    pub(super) fn flows_gone(&mut self) {
        self.due = Some(Instant::now() + self.unused_for);
    }

    /// A share was opened, which will have its first flow soon.
    pub(super) fn share_came(&mut self) {
        self.due = Some(Instant::now() + UNUSED_MOST);
    }

    /// When [`Rest::begin`] is to be called.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Lets the port rest, unless it has flows or its mode does not allow it.
    pub(super) fn begin(&mut self, port: &mut XdpPort) {
        self.due = None;
        // Before the table is looked at: a flow that comes later finds it.
        self.is_resting.store(true, SeqCst);
        let is_unused = port.steering_table().is_some_and(|table| table.is_empty().unwrap_or(false));
        if is_unused && port.rest() {
            self.begun = Some(Instant::now());
        } else {
            self.is_resting.store(false, SeqCst);
        }
    }

    /// Wakes it.
    ///
    /// # Errors
    /// As [`XdpPort::wake`].
    pub(super) fn end(&mut self, port: &mut XdpPort) -> Result<(), PortError> {
        port.wake()?;
        self.is_resting.store(false, SeqCst);
        if let Some(begun) = self.begun.take() {
            self.unused_for = next_unused_for(self.unused_for, begun.elapsed());
        }
        // The flow may be gone meanwhile.
        self.flows_gone();
        Ok(())
    }

    /// The port is closed.
    pub(super) fn forget(&mut self) {
        self.due = None;
        self.begun = None;
        self.is_resting.store(false, SeqCst);
    }
}

/// How long is waited for the next rest, after one that was waited for so long and lasted so long.
fn next_unused_for(unused_for: Duration, rested: Duration) -> Duration {
    let next = if rested < unused_for * WORTH { unused_for * 2 } else { unused_for / 2 };
    next.clamp(UNUSED_LEAST, UNUSED_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn rest_ended_soon_again_and_again_is_waited_for_longer_up_to_the_most() {
        let waits = std::iter::successors(Some(UNUSED_LEAST), |wait| Some(next_unused_for(*wait, SHORT)));
        let waits: Vec<u128> = waits.take(7).map(|wait| wait.as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 2000, 2000]);
    }

    #[test]
    fn rest_that_was_long_is_waited_for_less_next_time() {
        assert_eq!(next_unused_for(UNUSED_MOST, UNUSED_MOST * WORTH), UNUSED_MOST / 2);
        assert_eq!(next_unused_for(UNUSED_LEAST, UNUSED_MOST), UNUSED_LEAST);
    }
}
