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

/// To attach and detach it takes the kernel 8 and 16 ms ([`XdpPort::rest`]), and stops all CPUs for some microseconds each time. In the first
/// seconds of a contest for CPUs programs try again and again what is better than the kernel's way, later once in 8.6 s.
const UNUSED_FOR: Duration = Duration::from_secs(2);

/// Whether a port rests, or is to.
#[derive(Debug, Default)]
pub(super) struct Rest {
    is_resting: Arc<AtomicBool>,
    /// No flow is left since then, as far as is known.
    unused_since: Option<Instant>,
}

impl Rest {
    /// For the loop, which reads it.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_resting)
    }

    /// There may be no flow any more.
    pub(super) fn flows_gone(&mut self) {
        self.unused_since = Some(Instant::now());
    }

    /// When [`Rest::begin`] is to be called.
    pub(super) fn due(&self) -> Option<Instant> {
        self.unused_since.map(|since| since + UNUSED_FOR)
    }

    /// Lets the port rest, unless it has flows or its mode does not allow it.
    pub(super) fn begin(&mut self, port: &mut XdpPort) {
        self.unused_since = None;
        // Before the table is looked at: a flow that comes later finds it.
        self.is_resting.store(true, SeqCst);
        let is_unused = port.steering_table().is_some_and(|table| table.is_empty().unwrap_or(false));
        if !(is_unused && port.rest()) {
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
        // The flow may be gone meanwhile.
        self.flows_gone();
        Ok(())
    }

    /// The port is closed.
    pub(super) fn forget(&mut self) {
        self.unused_since = None;
        self.is_resting.store(false, SeqCst);
    }
}
