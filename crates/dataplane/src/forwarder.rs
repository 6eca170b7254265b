//! Ports and a function in between: a device under test.
//!
//! A frame is copied once, from the buffer in which it lies at the port it came in by to a buffer of the port it leaves by, and rewritten there.
//! Only a frame that leaves by the port it came in by is copied twice. Nothing is allocated for a frame, and no clock is read.

mod egress;
mod run;

use nearwire_frames::{Port, PortError};

use crate::function::{Drops, Function, Rewrite, Verdict};
use egress::{Egress, Others};
pub use run::{Forwarded, FunctionError, forward, function_between};

/// Most frames that a turn takes from one port.
pub const BURST: u32 = 64;
/// Room for a frame that goes back where it came from: the longest of an interface with an MTU of 9000. Longer ones allocate once.
const RETURNED_BYTES: usize = 9022;

/// What went through one port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Frames that came in.
    pub received_frames: u64,
    /// Their bytes, without FCS.
    pub received_bytes: u64,
    /// Frames that were given to the port to send.
    pub sent_frames: u64,
    /// Their bytes, without FCS.
    pub sent_bytes: u64,
    /// Frames for which the port had no room; also counted as [`EgressFull`](crate::function::DropCause::EgressFull).
    pub refused_frames: u64,
}

/// Forwards frames between ports as a function says.
#[derive(Debug)]
pub struct Forwarder<P, F> {
    ports: Vec<Egress<P>>,
    function: F,
    drops: Drops,
    returned: Vec<u8>,
}

/// What is still to be done when the frame was given back to the port it came in by.
enum Rest {
    Nothing,
    /// It is in `returned`, to be sent by that port.
    Return,
}

impl<P: Port, F: Function> Forwarder<P, F> {
    /// A forwarder between `ports`; their numbers are their places.
    #[must_use]
    pub fn new(ports: Vec<P>, function: F) -> Forwarder<P, F> {
        let ports = ports.into_iter().map(Egress::new).collect();
        Forwarder { ports, function, drops: Drops::default(), returned: Vec::with_capacity(RETURNED_BYTES) }
    }

    /// Takes what waits at each port, at most [`BURST`] frames of each, and forwards it. Each port is flushed once at the end, and besides
    /// where it was full. Returns how many frames came in: 0 when nothing waited.
    ///
    /// # Errors
    /// A port failed for good. A frame that a port cannot carry is dropped with a cause and no error.
    pub fn turn(&mut self, now_ns: u64) -> Result<u32, PortError> {
        let mut taken_frames = 0;
        for ingress in 0..self.ports.len() {
            for _ in 0..BURST {
                if !self.take(now_ns, ingress)? {
                    break;
                }
                taken_frames += 1;
            }
        }
        for port in &mut self.ports {
            port.end_turn()?;
        }
        Ok(taken_frames)
    }

    /// Takes one frame from a port. `false`: none waits.
    #[inline]
    fn take(&mut self, now_ns: u64, ingress: usize) -> Result<bool, PortError> {
        let Forwarder { ports, function, drops, returned } = self;
        let Some((entry, mut others)) = Others::around(ports, ingress) else { return Ok(false) };
        let counts = &mut entry.counts;
        let outcome = entry.port.receive(|frame| {
            counts.received_frames += 1;
            counts.received_bytes += frame.len() as u64;
            match function.judge(now_ns, ingress, frame) {
                Verdict::Forward { egress, rewrite } if egress == ingress => {
                    returned.clear();
                    returned.extend_from_slice(frame);
                    rewrite.apply(returned);
                    Ok(Rest::Return)
                }
                Verdict::Forward { egress, rewrite } => {
                    others.send_by(egress, frame, rewrite, drops)?;
                    Ok(Rest::Nothing)
                }
                Verdict::Flood => others.flood(frame, drops).map(|()| Rest::Nothing),
                Verdict::Drop(cause) => {
                    drops.count(cause);
                    Ok(Rest::Nothing)
                }
            }
        })?;
        match outcome {
            None => Ok(false),
            Some(rest) => {
                if let Rest::Return = rest? {
                    entry.send(returned, Rewrite::None, drops)?;
                }
                Ok(true)
            }
        }
    }

    /// What went through a port, or `None` where there is no such port.
    #[must_use]
    pub fn counts(&self, port: usize) -> Option<PortCounts> {
        self.ports.get(port).map(|port| port.counts)
    }

    /// Frames that were dropped, by cause. A flooded frame may be dropped at several ports.
    #[must_use]
    pub const fn drops(&self) -> &Drops {
        &self.drops
    }

    /// The function.
    #[must_use]
    pub const fn function(&self) -> &F {
        &self.function
    }

    /// The function, to be changed between turns.
    pub const fn function_mut(&mut self) -> &mut F {
        &mut self.function
    }

    /// The ports, in order of their numbers.
    pub fn ports(&self) -> impl Iterator<Item = &P> {
        self.ports.iter().map(|port| &port.port)
    }
}

#[cfg(test)]
mod tests;
