//! A port around a port that loses, duplicates, reorders, corrupts and delays frames, the same way for the same seed.
//!
//! ```text
//!   frame --> lost? --> corrupted? --> duplicated? --> overtaken by the next? --> delayed --> on
//! ```
//!
//! Invariant: the fates of frames depend on the seed and on the order of frames only, one generator a direction; which
//! faults are switched on does not change the fates of the others. Time comes from the caller.

mod config;
mod lane;
mod random;

pub use config::{FaultConfig, FaultConfigError, FaultDirection, Probability};

use crate::PortError;
use crate::port::{Port, PortStatistics, PreparedFrame};

use lane::Lane;

/// What was done to the frames of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Frames that came to the port.
    pub frames: u64,
    /// Frames lost.
    pub lost_frames: u64,
    /// Frames with a flipped bit.
    pub corrupted_frames: u64,
    /// Frames delivered twice.
    pub duplicated_frames: u64,
    /// Frames held back for the next one to overtake.
    pub reordered_frames: u64,
}

/// Faults around `P`. `now_ns` gives nanoseconds of a clock that does not go back.
#[derive(Debug)]
pub struct FaultPort<P, N> {
    inner: P,
    config: FaultConfig,
    now_ns: N,
    receiving: Option<Lane>,
    sending: Option<Lane>,
    /// Resident frames, when sending has faults: the port inside sees copies then.
    prepared: Vec<Vec<u8>>,
}

impl<P: Port, N: FnMut() -> u64> FaultPort<P, N> {
    /// Puts the faults of `config` around `inner`.
    pub fn new(inner: P, config: FaultConfig, seed: u64, now_ns: N) -> FaultPort<P, N> {
        let some = config != FaultConfig { direction: config.direction, ..FaultConfig::default() };
        let lane = |on: bool, salt: u64| (some && on).then(|| Lane::new(config, seed ^ salt));
        FaultPort {
            inner,
            config,
            now_ns,
            receiving: lane(config.direction.receives(), 0),
            sending: lane(config.direction.sends(), 0x5e4d_5e4d_5e4d_5e4d),
            prepared: Vec::new(),
        }
    }

    /// What was done to frames received.
    #[must_use]
    pub fn receive_counts(&self) -> FaultCounts {
        self.receiving.as_ref().map(|lane| lane.counts).unwrap_or_default()
    }

    /// What was done to frames sent.
    #[must_use]
    pub fn send_counts(&self) -> FaultCounts {
        self.sending.as_ref().map(|lane| lane.counts).unwrap_or_default()
    }

    /// The port inside.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// The port inside, for what is no frame: filters.
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    /// Queues held frames whose time has come. `true`: there were some.
    fn send_due(&mut self) -> Result<bool, PortError> {
        let Some(lane) = &mut self.sending else { return Ok(false) };
        let mut some = false;
        while let Some(frame) = lane.due((self.now_ns)()) {
            if !self.inner.queue(&frame)? {
                lane.put_back(frame);
                break;
            }
            lane.recycle(frame);
            some = true;
        }
        Ok(some)
    }
}

impl<P: Port, N: FnMut() -> u64> Port for FaultPort<P, N> {
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError> {
        if self.send_due()? {
            self.inner.flush()?;
        }
        let Some(lane) = &mut self.receiving else { return self.inner.receive(read) };
        let mut read = Some(read);
        loop {
            let now_ns = (self.now_ns)();
            if let Some(frame) = lane.due(now_ns) {
                let result = read.take().map(|read| read(&frame));
                lane.recycle(frame);
                return Ok(result);
            }
            let arrived = self.inner.receive(|frame| {
                // Held frames go first, so a frame is lent in place only when none is due.
                if lane.pass_or_hold(frame, now_ns) { read.take().map(|read| read(frame)) } else { None }
            })?;
            match arrived {
                Some(Some(result)) => return Ok(Some(result)),
                Some(None) => {}
                None => return Ok(None),
            }
        }
    }

    fn queue(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        self.send_due()?;
        let Some(lane) = &mut self.sending else { return self.inner.queue(frame) };
        if lane.is_full() {
            return Ok(false);
        }
        let now_ns = (self.now_ns)();
        if lane.pass_or_hold(frame, now_ns) && (lane.has_refused() || !self.inner.queue(frame)?) {
            // No room inside: its fate is decided, so it waits here, behind those that wait already.
            lane.wait(frame);
        }
        self.send_due()?;
        Ok(true)
    }

    fn queue_with(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        if self.sending.is_none() {
            return self.inner.queue_with(len_bytes, write);
        }
        let mut frame = vec![0; len_bytes];
        write(&mut frame);
        self.queue(&frame)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.send_due()?;
        self.inner.flush()
    }

    fn prepare(&mut self, frame: &[u8]) -> Result<PreparedFrame, PortError> {
        if self.sending.is_none() {
            return self.inner.prepare(frame);
        }
        let slot = self.prepared.len() as u32;
        self.prepared.push(frame.to_vec());
        Ok(PreparedFrame { slot, len_bytes: frame.len() as u32 })
    }

    fn send_prepared(&mut self, frame: PreparedFrame, patch: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        if self.sending.is_none() {
            return self.inner.send_prepared(frame, patch);
        }
        let slots = self.prepared.len() as u32;
        let Some(resident) = self.prepared.get_mut(frame.slot as usize) else {
            let interface = self.inner.describe();
            return Err(PortError::UnknownPreparedFrame { interface, slot: frame.slot, slots });
        };
        patch(resident);
        let resident = std::mem::take(resident);
        let sent = self.send(&resident);
        self.prepared[frame.slot as usize] = resident;
        sent
    }

    fn statistics(&self) -> PortStatistics {
        self.inner.statistics()
    }

    fn describe(&self) -> String {
        if self.receiving.is_none() && self.sending.is_none() {
            return self.inner.describe();
        }
        format!("{}, with faults {}", self.inner.describe(), self.config)
    }
}

#[cfg(test)]
mod tests;
