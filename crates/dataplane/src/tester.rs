//! The generator and the sink around a device under test.
//!
//! One loop serves both where there is one CPU for them: it sends what is due, takes what came, and looks at the clock again. What is due
//! together leaves with one kick, so the generator waits for nothing at rates that it can keep, and sends in bursts above them.

mod generator;
mod sink;

use std::time::Duration;

use nearwire_frames::PortError;
use nearwire_frames::port::Port;
use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::interrupted;
use nearwire_wire::MacAddress;

use crate::traffic::{FrameMaker, Hops, Traffic, TrafficError};
use crate::trial::{Testbed, Trial, TrialPlan};
use generator::Generator;
pub use generator::learning_frame;
use sink::Sink;

/// Frames that come again for each that came once, by which a loop is known.
const LOOP_FACTOR: u64 = 4;
/// Fewer frames than this that came again are no loop.
const LOOP_FRAMES_LEAST: u64 = 1000;

/// Why a trial could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TesterError {
    /// A port failed for good.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The traffic cannot be made.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The device sends frames again and again.
    #[error(
        "{duplicated_frames} frames came again where {received_frames} came: there is a loop behind the device; the test was stopped"
    )]
    Loop {
        /// Frames that came once.
        received_frames: u64,
        /// Frames that came again.
        duplicated_frames: u64,
    },
    /// The device under test is a program, which has ended.
    #[error("the device under test {device} has ended; the last lines of its log:\n{log}")]
    DeviceDied {
        /// Its name, as in `l2/ovs`.
        device: String,
        /// The last lines of its log.
        log: String,
    },
    /// The user asked the program to end.
    #[error("interrupted")]
    Interrupted,
}

/// How a tester waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// After the last frame: silence for so long ends a trial.
    pub residual: Duration,
    /// Longest wait for that silence.
    pub residual_most: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { residual: Duration::from_millis(5), residual_most: Duration::from_millis(500) }
    }
}

/// A generator and a sink on two ports.
#[derive(Debug)]
pub struct Tester<S, R> {
    sending: S,
    receiving: R,
    maker: FrameMaker,
    learning_frame: Vec<u8>,
    clock: Clock,
    patience: Patience,
    /// Of the next frame; numbers go on from trial to trial, so what comes late is not taken for another one.
    next_number: u64,
}

impl<S: Port, R: Port> Tester<S, R> {
    /// For traffic from one port to the other. `sink` is the address of the receiving port's interface.
    ///
    /// # Errors
    /// The traffic cannot be made, as IPv6 in 60 bytes.
    pub fn new(
        sending: S,
        receiving: R,
        traffic: &Traffic,
        hops: Hops,
        sink: MacAddress,
        clock: Clock,
    ) -> Result<Tester<S, R>, TesterError> {
        Ok(Tester {
            sending,
            receiving,
            maker: FrameMaker::new(traffic, hops)?,
            learning_frame: learning_frame(sink, hops.source),
            clock,
            patience: Patience::default(),
            next_number: 1,
        })
    }

    /// The same, waiting so.
    #[must_use]
    pub fn with_patience(self, patience: Patience) -> Tester<S, R> {
        Tester { patience, ..self }
    }

    /// Both ports, to be used with another traffic.
    pub fn into_ports(self) -> (S, R) {
        (self.sending, self.receiving)
    }

    /// One line for each port.
    pub fn describe(&self) -> [String; 2] {
        [self.sending.describe(), self.receiving.describe()]
    }

    /// Takes what is still on its way, until nothing came for a while.
    fn drain(&mut self, sink: &mut Sink) -> Result<(), TesterError> {
        let ticks = |duration: Duration| self.clock.ticks(duration.as_nanos() as u64);
        let (residual, most) = (ticks(self.patience.residual), ticks(self.patience.residual_most));
        let began = self.clock.now_ticks();
        let mut last = began;
        loop {
            let found = sink.turn(&mut self.receiving, &self.maker, self.clock)?;
            let now = self.clock.now_ticks();
            if found > 0 {
                last = now;
            }
            if now - last > residual || now - began > most {
                return Ok(());
            }
            if interrupted() {
                return Err(TesterError::Interrupted);
            }
        }
    }
}

impl<S: Port, R: Port> Testbed for Tester<S, R> {
    type Error = TesterError;

    fn trial(&mut self, plan: TrialPlan) -> Result<Trial, TesterError> {
        // Bridges learn by it where the sink is (RFC 2544 section 23).
        self.receiving.send(&self.learning_frame)?;
        self.drain(&mut Sink::new(self.next_number))?;
        let mut sink = Sink::new(self.next_number);
        let mut generator = Generator::new(plan, self.next_number, self.clock);
        while generator.turn(&mut self.sending, &self.maker, self.clock)? {
            sink.turn(&mut self.receiving, &self.maker, self.clock)?;
            if interrupted() {
                return Err(TesterError::Interrupted);
            }
        }
        self.next_number = generator.next_number();
        self.drain(&mut sink)?;
        let trial = sink.finish(generator.finish(self.clock));
        let (received_frames, duplicated_frames) = (trial.received_frames, trial.duplicated_frames);
        if duplicated_frames > LOOP_FRAMES_LEAST.max(LOOP_FACTOR * received_frames) {
            return Err(TesterError::Loop { received_frames, duplicated_frames });
        }
        Ok(trial)
    }
}

#[cfg(test)]
mod tests;
