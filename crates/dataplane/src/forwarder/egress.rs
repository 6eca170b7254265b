//! Sending by one port or by all others.

use nearwire_frames::{Port, PortError};

use super::PortCounts;
use crate::function::{DropCause, Drops, Rewrite};

/// A port with what went through it.
#[derive(Debug)]
pub(super) struct Egress<P> {
    pub(super) port: P,
    pub(super) counts: PortCounts,
    /// It had no room in this turn, also after a flush: further frames do not flush again.
    is_full: bool,
}

impl<P: Port> Egress<P> {
    pub(super) fn new(port: P) -> Egress<P> {
        Egress { port, counts: PortCounts::default(), is_full: false }
    }

    /// Copies a frame into a buffer of the port and rewrites it there. Where there is no room it flushes and tries once more.
    #[inline]
    pub(super) fn send(&mut self, frame: &[u8], rewrite: Rewrite, drops: &mut Drops) -> Result<(), PortError> {
        match self.queue(frame, rewrite) {
            Ok(true) => {
                self.counts.sent_frames += 1;
                self.counts.sent_bytes += frame.len() as u64;
                Ok(())
            }
            Ok(false) => {
                self.counts.refused_frames += 1;
                drops.count(DropCause::EgressFull);
                Ok(())
            }
            // Whoever sent the frame chose its length: that ends no forwarder.
            Err(PortError::FrameLength { .. }) => {
                drops.count(DropCause::EgressTooLong);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    #[inline]
    fn queue(&mut self, frame: &[u8], rewrite: Rewrite) -> Result<bool, PortError> {
        let write = |buffer: &mut [u8]| {
            buffer.copy_from_slice(frame);
            rewrite.apply(buffer);
        };
        if self.port.queue_with(frame.len(), write)? {
            return Ok(true);
        }
        if self.is_full {
            return Ok(false);
        }
        self.port.flush()?;
        let is_queued = self.port.queue_with(frame.len(), write)?;
        self.is_full = !is_queued;
        Ok(is_queued)
    }

    /// Has sent what is queued.
    #[inline]
    pub(super) fn end_turn(&mut self) -> Result<(), PortError> {
        self.is_full = false;
        self.port.flush()
    }
}

/// All ports but one.
pub(super) struct Others<'a, P> {
    before: &'a mut [Egress<P>],
    after: &'a mut [Egress<P>],
}

impl<'a, P: Port> Others<'a, P> {
    /// Takes one port out of `ports`.
    #[inline]
    pub(super) fn around(ports: &'a mut [Egress<P>], ingress: usize) -> Option<(&'a mut Egress<P>, Others<'a, P>)> {
        let (before, rest) = ports.split_at_mut_checked(ingress)?;
        let (port, after) = rest.split_first_mut()?;
        Some((port, Others { before, after }))
    }

    /// Sends by the port with this number among all.
    #[inline]
    pub(super) fn send_by(
        &mut self,
        egress: usize,
        frame: &[u8],
        rewrite: Rewrite,
        drops: &mut Drops,
    ) -> Result<(), PortError> {
        let ingress = self.before.len();
        let port = match egress.checked_sub(ingress + 1) {
            Some(behind) => self.after.get_mut(behind),
            None => self.before.get_mut(egress),
        };
        let Some(port) = port else {
            drops.count(DropCause::NoSuchPort);
            return Ok(());
        };
        port.send(frame, rewrite, drops)
    }

    /// Sends by each, unchanged.
    pub(super) fn flood(&mut self, frame: &[u8], drops: &mut Drops) -> Result<(), PortError> {
        if self.before.is_empty() && self.after.is_empty() {
            drops.count(DropCause::NoSuchPort);
        }
        for port in self.before.iter_mut().chain(self.after.iter_mut()) {
            port.send(frame, Rewrite::None, drops)?;
        }
        Ok(())
    }
}
