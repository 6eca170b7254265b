//! A port around a port that writes what passes to a pcapng file, with direction, nanoseconds and drop counts; and the
//! writer of such files, for captures that have frames and times of their own.
//!
//! Invariant: the frames' way is that of the port inside. A write that fails ends the capture, not the traffic; the
//! error is kept and [`CapturePort::finish`] returns it.

mod pcapng;

use std::io::{self, Write};

use crate::PortError;
use crate::port::{Port, PortStatistics, PreparedFrame};

pub use pcapng::{CaptureInterface, CapturePacket, Direction, PcapngWriter};

/// Captures around `P`. `now_ns` gives nanoseconds since 1970 for the time stamps.
#[derive(Debug)]
pub struct CapturePort<P, W: Write, N> {
    inner: P,
    writer: PcapngWriter<W>,
    now_ns: N,
    /// A frame between its patch and the news that it was sent.
    scratch: Vec<u8>,
}

impl<P: Port, W: Write, N: FnMut() -> u64> CapturePort<P, W, N> {
    /// Starts a capture. `output` gets one `write_all` a frame: give it a buffer.
    ///
    /// # Errors
    /// The file's first blocks could not be written.
    pub fn new(inner: P, output: W, now_ns: N) -> io::Result<CapturePort<P, W, N>> {
        let writer = PcapngWriter::start(output, None, &inner.describe())?;
        Ok(CapturePort { inner, writer, now_ns, scratch: Vec::with_capacity(2048) })
    }

    /// Ends the capture: writes the counters and gives the port and the output back.
    ///
    /// # Errors
    /// The first write that failed since the start.
    pub fn finish(mut self) -> io::Result<(P, W)> {
        let statistics = self.inner.statistics();
        let dropped_frames = statistics.receive_dropped_frames;
        let output =
            self.writer.finish((self.now_ns)(), statistics.received_frames + dropped_frames, dropped_frames)?;
        Ok((self.inner, output))
    }

    /// The port inside.
    pub fn inner(&self) -> &P {
        &self.inner
    }
}

impl<P: Port, W: Write, N: FnMut() -> u64> Port for CapturePort<P, W, N> {
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError> {
        let (writer, now_ns) = (&mut self.writer, &mut self.now_ns);
        self.inner.receive(|frame| {
            writer.frame(now_ns(), Direction::Inbound, frame);
            read(frame)
        })
    }

    fn queue(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        let queued = self.inner.queue(frame)?;
        if queued {
            self.writer.frame((self.now_ns)(), Direction::Outbound, frame);
        }
        Ok(queued)
    }

    fn queue_with(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        let (writer, now_ns) = (&mut self.writer, &mut self.now_ns);
        self.inner.queue_with(len_bytes, |frame| {
            write(frame);
            writer.frame(now_ns(), Direction::Outbound, frame);
        })
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.inner.flush()
    }

    fn send(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        let sent_ns = (self.now_ns)();
        let sent = self.inner.send(frame)?;
        if sent {
            self.writer.frame(sent_ns, Direction::Outbound, frame);
        }
        Ok(sent)
    }

    fn prepare(&mut self, frame: &[u8]) -> Result<PreparedFrame, PortError> {
        self.inner.prepare(frame)
    }

    fn send_prepared(&mut self, frame: PreparedFrame, patch: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        let sent_ns = (self.now_ns)();
        let scratch = &mut self.scratch;
        let sent = self.inner.send_prepared(frame, |bytes| {
            patch(bytes);
            scratch.clear();
            scratch.extend_from_slice(bytes);
        })?;
        if sent {
            self.writer.frame(sent_ns, Direction::Outbound, &self.scratch);
        }
        Ok(sent)
    }

    fn statistics(&self) -> PortStatistics {
        self.inner.statistics()
    }

    fn describe(&self) -> String {
        format!("{}, captured", self.inner.describe())
    }
}

#[cfg(test)]
mod tests;
