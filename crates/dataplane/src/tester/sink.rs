//! Counts what came out of the device.

use nearwire_bench::workloads::{Numbers, Seen};
use nearwire_frames::PortError;
use nearwire_sys::tsc::Clock;

use super::Receives;
use crate::traffic::{FrameMaker, NUMBER_BITS, Reading};
use crate::trial::Trial;

/// Frames taken before the generator has its turn.
const BURST: u32 = 64;

/// A trial's receiving half.
#[derive(Debug)]
pub(super) struct Sink {
    /// Earlier ones are of another trial.
    first_number: u64,
    numbers: Numbers,
    /// Highest number that came.
    last_number: u64,
    /// Stamps are of this host's clock.
    has_latency: bool,
    trial: Trial,
    last_latency_ns: Option<u64>,
}

impl Sink {
    pub(super) fn new(first_number: u64) -> Sink {
        Sink {
            first_number,
            numbers: Numbers::new(NUMBER_BITS),
            last_number: 0,
            has_latency: true,
            trial: Trial::default(),
            last_latency_ns: None,
        }
    }

    /// For frames whose generator is on another host.
    pub(super) fn without_latency(self) -> Sink {
        Sink { has_latency: false, ..self }
    }

    /// What was counted until now.
    pub(super) const fn trial(&self) -> &Trial {
        &self.trial
    }

    /// Frames that the generator sent, as far as can be told from those that came.
    pub(super) fn sent_at_least_frames(&self) -> u64 {
        (self.last_number + 1).saturating_sub(self.first_number)
    }

    /// Takes some frames: how many there were. `knows` is asked about those that are not of this traffic: what it
    /// does not know is counted.
    #[inline]
    pub(super) fn turn(
        &mut self,
        port: &mut impl Receives,
        maker: &FrameMaker,
        clock: Clock,
        mut knows: impl FnMut(&[u8]) -> bool,
    ) -> Result<u32, PortError> {
        let mut taken = 0;
        while taken < BURST {
            let read = |frame: &[u8]| {
                let reading = maker.read(frame);
                let is_known = reading == Reading::Foreign && knows(frame);
                (!is_known).then_some(reading)
            };
            let Some(reading) = port.take(read)? else {
                break;
            };
            taken += 1;
            match reading {
                Some(Reading::Frame { number, due_ticks }) => self.count(number, due_ticks, clock),
                Some(Reading::Corrupt) => self.trial.corrupted_frames += 1,
                Some(Reading::Foreign) => self.trial.foreign_frames += 1,
                None => {}
            }
        }
        Ok(taken)
    }

    #[inline]
    fn count(&mut self, number: u64, due_ticks: u64, clock: Clock) {
        if number < self.first_number {
            self.trial.stale_frames += 1;
            return;
        }
        match self.numbers.seen(number - self.first_number + 1) {
            Seen::InOrder => {}
            Seen::Behind => self.trial.reordered_frames += 1,
            Seen::Again => {
                self.trial.duplicated_frames += 1;
                return;
            }
        }
        self.trial.received_frames += 1;
        self.last_number = self.last_number.max(number);
        if !self.has_latency {
            return;
        }
        let latency_ns = clock.ns(clock.now_ticks().saturating_sub(due_ticks));
        self.trial.latency.record(latency_ns);
        if let Some(before_ns) = self.last_latency_ns.replace(latency_ns) {
            self.trial.delay_variation.record(latency_ns.abs_diff(before_ns));
        }
    }

    /// With what was sent.
    pub(super) fn finish(self, sent: Trial) -> Trial {
        let Trial { duration_ns, sent_frames, unsent_frames, .. } = sent;
        Trial { duration_ns, sent_frames, unsent_frames, ..self.trial }
    }
}
