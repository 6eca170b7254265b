//! A stack over one port of the caller's, for a program that moves its connections itself: without sockets, threads and sleep.
//!
//! ```text
//!  frame  -> take_in   of a connection here? its bytes wait in the stack      (look: with the port's next frame)
//!  write  -> transmit  what may be sent now, into buffers of the port, one kick
//!  time   -> transmit  what is due; `Stack::next_deadline` says when that is
//! ```

use std::time::Duration;

use nearwire_frames::{Port, PortError};
use nearwire_stack::{Arrival, ConnectionId, PortId, ReceiveChecksum, Stack, Take, Verdict};
use nearwire_sys::tsc::PacedClock;

/// How long an end that closes last waits for the far end to hear of it.
const CLOSING_MOST_NS: u64 = Duration::from_millis(100).as_nanos() as u64;

/// See the [module](self).
#[derive(Debug)]
pub struct Carrier {
    /// What it knows of the network, and its connections.
    pub stack: Stack,
    port_id: PortId,
    checksum: ReceiveChecksum,
    clock: PacedClock,
}

impl Carrier {
    /// `port_id`: the port, as it was attached to the stack. `is_virtual`: frames may come with checksums that were left to a card which there is none
    /// of, as over a virtual Ethernet pair.
    #[must_use]
    pub fn new(stack: Stack, port_id: PortId, is_virtual: bool) -> Carrier {
        let checksum = if is_virtual { ReceiveChecksum::VerifyOrPartial } else { ReceiveChecksum::Verify };
        Carrier { stack, port_id, checksum, clock: PacedClock::default() }
    }

    /// The time of the stack's TCP clock, ns.
    #[inline]
    pub fn now_ns(&mut self) -> u64 {
        self.clock.now_ns()
    }

    /// Takes a frame in, where it is of a connection that the stack carries.
    #[inline]
    pub fn take_in(&mut self, frame: &[u8]) -> Verdict {
        let Carrier { stack, port_id, checksum, clock } = self;
        stack.tcp_time(clock.now_ns());
        let arrival = Arrival { port: *port_id, frame, received_ns: 0, device_ns: 0, checksum: *checksum };
        stack.receive(&arrival, |_, _| Take::Consumed)
    }

    /// Takes the port's next frame in, if there is one; whether it was of a connection.
    ///
    /// # Errors
    /// The port failed.
    #[inline]
    pub fn look(&mut self, port: &mut impl Port) -> Result<bool, PortError> {
        let verdict = port.receive(|frame| self.take_in(frame))?;
        Ok(matches!(verdict, Some(Verdict::Segment { .. })))
    }

    /// Sends what is due at `now_ns`, as far as the port has room.
    ///
    /// # Errors
    /// The port failed.
    #[inline]
    pub fn transmit(&mut self, port: &mut impl Port, now_ns: u64) -> Result<(), PortError> {
        let mut has_queued = false;
        while let Some(segment) = self.stack.poll_transmit(now_ns) {
            let queued = port.queue_with(segment.len_bytes(), |frame| {
                segment.write(frame);
            })?;
            if !queued {
                break;
            }
            has_queued = true;
        }
        if has_queued { port.flush() } else { Ok(()) }
    }

    /// Ends a connection that the far end has closed, so that no kernel takes it back: says so to the far end, and waits a moment until it has heard.
    pub fn close(&mut self, port: &mut impl Port, id: ConnectionId) {
        let begun_ns = self.now_ns();
        // What cannot be told the far end finds out by itself.
        let _ = self.stack.tcp_shutdown(id, begun_ns);
        loop {
            let now_ns = self.now_ns();
            let is_over = self.stack.tcp_is_finished(id) || now_ns.saturating_sub(begun_ns) > CLOSING_MOST_NS;
            if is_over || self.transmit(port, now_ns).and_then(|()| self.look(port)).is_err() {
                return;
            }
        }
    }
}
