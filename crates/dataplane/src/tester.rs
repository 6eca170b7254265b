//! The generator and the sink around a device under test.
//!
//! One loop serves both where there is one CPU for them: it sends what is due, takes what came, and looks at the clock again. What is due
//! together leaves with one kick, so the generator waits for nothing at rates that it can keep, and sends in bursts above them.

mod ends;
mod generator;
mod loops;
mod sink;
mod stations;

use std::time::Duration;

use nearwire_frames::PortError;
use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::interrupted;
use nearwire_wire::MacAddress;

use crate::traffic::{FrameMaker, Hops, Traffic, TrafficError};
use crate::trial::{Testbed, Trial, TrialPlan};
pub use ends::{HostSocket, Receives, Sends};
use generator::learning_frame;
use loops::Loops;
use sink::Sink;
pub use stations::{Heard, Progress, generate, listen};

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
    /// The sink's thread could not be pinned.
    #[error("pin the sink to CPU {cpu}: {source}")]
    Pin {
        /// The CPU.
        cpu: u32,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A defect.
    #[error("the sink's thread failed; this is a defect, please report it")]
    SinkFailed,
    /// The user asked the program to end.
    #[error("interrupted")]
    Interrupted,
}

/// A generator and a sink on two ports.
#[derive(Debug)]
pub struct Tester<S, R> {
    sending: S,
    receiving: R,
    maker: FrameMaker,
    /// None where frames are sent to a router, which learns nothing.
    learning_frame: Option<Vec<u8>>,
    clock: Clock,
    /// Of the next frame; numbers go on from trial to trial, so what comes late is not taken for another one.
    next_number: u64,
    sink_cpu: Option<u32>,
}

impl<S: Sends, R: Receives> Tester<S, R> {
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
        let maker = FrameMaker::new(traffic, hops)?;
        Ok(Tester {
            maker: if receiving.has_content_only() { maker.reading_content() } else { maker },
            sending,
            receiving,
            learning_frame: (hops.destination == sink).then(|| learning_frame(sink, hops.source)),
            clock,
            next_number: 1,
            sink_cpu: None,
        })
    }

    /// With the sink on a thread of its own on this CPU, where there is one for it.
    #[must_use]
    pub fn with_sink_on(self, sink_cpu: Option<u32>) -> Tester<S, R> {
        Tester { sink_cpu, ..self }
    }

    /// Empties the sink's port of what came since the last trial.
    fn discard(&mut self) -> Result<(), TesterError> {
        while self.receiving.take(|_| ())?.is_some() {}
        Ok(())
    }
}

impl<S: Sends, R: Receives + Send> Testbed for Tester<S, R> {
    type Error = TesterError;

    fn trial(&mut self, plan: TrialPlan) -> Result<Trial, TesterError> {
        // Bridges learn by it where the sink is (RFC 2544 section 23).
        if let Some(frame) = &self.learning_frame {
            self.receiving.show_itself(frame)?;
        }
        self.discard()?;
        let loops = Loops { maker: &self.maker, clock: self.clock, plan, first_number: self.next_number };
        let mut sink = Sink::new(self.next_number);
        let sent = match self.sink_cpu {
            None => loops.together(&mut self.sending, &mut self.receiving, &mut sink)?,
            Some(cpu) => loops.apart(&mut self.sending, &mut self.receiving, &mut sink, cpu)?,
        };
        self.next_number += sent.sent_frames;
        let trial = sink.finish(sent);
        let (received_frames, duplicated_frames) = (trial.received_frames, trial.duplicated_frames);
        if duplicated_frames > LOOP_FRAMES_LEAST.max(LOOP_FACTOR * received_frames) {
            return Err(TesterError::Loop { received_frames, duplicated_frames });
        }
        Ok(trial)
    }

    fn pause(&mut self, duration_ns: u64) -> Result<(), TesterError> {
        std::thread::sleep(Duration::from_nanos(duration_ns));
        if interrupted() { Err(TesterError::Interrupted) } else { Ok(()) }
    }
}

/// A tester over any ends.
pub trait AnyTester: Testbed<Error = TesterError> + std::fmt::Debug {
    /// One line for each end.
    fn describe(&self) -> [String; 2];
}

impl<S: Sends + std::fmt::Debug, R: Receives + Send + std::fmt::Debug> AnyTester for Tester<S, R> {
    fn describe(&self) -> [String; 2] {
        [self.sending.in_words(), self.receiving.in_words()]
    }
}

#[cfg(test)]
mod tests;
