//! How generator and sink share CPUs: one loop for both, or a thread for each.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nearwire_sys::affinity::pin_current_thread;
use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::interrupted;

use super::generator::Generator;
use super::sink::Sink;
use super::{Receives, Sends, TesterError};
use crate::traffic::FrameMaker;
use crate::trial::{Trial, TrialPlan};

/// Not known yet.
const UNKNOWN: u64 = u64::MAX;

/// What both loops work with.
pub(super) struct Loops<'a> {
    pub(super) maker: &'a FrameMaker,
    pub(super) clock: Clock,
    pub(super) plan: TrialPlan,
    pub(super) first_number: u64,
}

impl Loops<'_> {
    /// Generator and sink take turns on this thread: what was sent.
    pub(super) fn together(
        &self,
        sending: &mut impl Sends,
        receiving: &mut impl Receives,
        sink: &mut Sink,
    ) -> Result<Trial, TesterError> {
        let mut generator = self.generator();
        while generator.turn(sending, self.maker, self.clock)? {
            sink.turn(receiving, self.maker, self.clock, |_| false)?;
            not_interrupted()?;
        }
        let sent = generator.finish(self.clock);
        self.take_all(receiving, sink, || Some(sent.sent_frames))?;
        Ok(sent)
    }

    /// The generator on this thread, the sink on another one on this CPU: what was sent.
    pub(super) fn apart(
        &self,
        sending: &mut impl Sends,
        receiving: &mut (impl Receives + Send),
        sink: &mut Sink,
        sink_cpu: u32,
    ) -> Result<Trial, TesterError> {
        let (sent_frames, takes) = (AtomicU64::new(UNKNOWN), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| {
                let failed = |errno: rustix::io::Errno| TesterError::Pin { cpu: sink_cpu, source: errno.into() };
                let pinned = pin_current_thread(sink_cpu).map_err(failed);
                takes.store(true, Ordering::Release);
                pinned?;
                let sent = || Some(sent_frames.load(Ordering::Acquire)).filter(|sent| *sent != UNKNOWN);
                self.take_all(receiving, sink, sent)
            });
            while !takes.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            let mut generator = self.generator();
            let outcome = self.send_all(sending, &mut generator);
            let sent = generator.finish(self.clock);
            sent_frames.store(sent.sent_frames, Ordering::Release);
            let taken = taking.join().map_err(|_| TesterError::SinkFailed)?;
            outcome.and(taken).map(|()| sent)
        })
    }

    /// Its schedule begins now.
    fn generator(&self) -> Generator {
        Generator::new(self.plan, self.first_number, self.clock)
    }

    fn send_all(&self, sending: &mut impl Sends, generator: &mut Generator) -> Result<(), TesterError> {
        while generator.turn(sending, self.maker, self.clock)? {
            not_interrupted()?;
        }
        Ok(())
    }

    /// Takes what comes until it is known how many frames were sent, and then for the residual time or until all came.
    fn take_all(
        &self,
        receiving: &mut impl Receives,
        sink: &mut Sink,
        sent_frames: impl Fn() -> Option<u64>,
    ) -> Result<(), TesterError> {
        let mut ends_ticks = None;
        loop {
            sink.turn(receiving, self.maker, self.clock, |_| false)?;
            not_interrupted()?;
            let Some(sent) = sent_frames() else { continue };
            let now_ticks = self.clock.now_ticks();
            let ends_ticks = *ends_ticks.get_or_insert(now_ticks + self.clock.ticks(self.plan.residual_ns));
            if sink.trial().received_frames >= sent || now_ticks >= ends_ticks {
                return Ok(());
            }
        }
    }
}

fn not_interrupted() -> Result<(), TesterError> {
    if interrupted() { Err(TesterError::Interrupted) } else { Ok(()) }
}
