//! Sends the frames of a trial as they are due.

use nearwire_bench::workloads::Load;
use nearwire_bench::workloads::load::{Arrivals, RATE_PER_SECOND_MAX, Schedule};
use nearwire_frames::PortError;
use nearwire_sys::tsc::Clock;
use nearwire_wire::MacAddress;

use super::Sends;
use crate::traffic::FrameMaker;
use crate::trial::{Trial, TrialPlan};

/// Frames that leave with one kick at most: what a send ring of the ports here takes.
const BURST: u32 = 64;
/// Length of the frame by which bridges learn, bytes without FCS.
const LEARNING_BYTES: usize = 60;
/// EtherType of it: the loopback protocol (Ethernet V2 configuration test), which hosts and bridges pass by.
const LEARNING_ETHER_TYPE: [u8; 2] = [0x90, 0x00];

/// A frame from the sink to the generator, by which bridges on the way learn where the sink is.
#[must_use]
pub(super) fn learning_frame(sink: MacAddress, generator: MacAddress) -> Vec<u8> {
    let mut frame = [generator.0, sink.0].concat();
    frame.extend(LEARNING_ETHER_TYPE);
    frame.resize(LEARNING_BYTES, 0);
    frame
}

/// A trial's sending half.
#[derive(Debug)]
pub(super) struct Generator {
    /// `None`: as fast as it goes.
    schedule: Option<Schedule>,
    began_ticks: u64,
    ends_ticks: u64,
    first_number: u64,
    sent_frames: u64,
    /// Of a burst: what is still to be sent of it.
    left_frames: Option<u64>,
}

impl Generator {
    pub(super) fn new(plan: TrialPlan, first_number: u64, clock: Clock) -> Generator {
        let began_ticks = clock.now_ticks();
        let schedule = plan.rate_fps.is_finite().then(|| {
            let rate_per_second = plan.rate_fps.round().clamp(1.0, RATE_PER_SECOND_MAX as f64) as u64;
            let load = Load { rate_per_second, arrivals: Arrivals::Fixed, seed: 0 };
            Schedule::new(&load, began_ticks, clock.hz())
        });
        Generator {
            schedule,
            began_ticks,
            ends_ticks: began_ticks + clock.ticks(plan.duration_ns),
            first_number,
            sent_frames: 0,
            left_frames: plan.frames,
        }
    }

    pub(super) const fn sent_frames(&self) -> u64 {
        self.sent_frames
    }

    /// Sends what is due and there is room for. `false`: the trial is over.
    #[inline]
    pub(super) fn turn(&mut self, port: &mut impl Sends, maker: &FrameMaker, clock: Clock) -> Result<bool, PortError> {
        let now_ticks = clock.now_ticks();
        if self.left_frames == Some(0) {
            self.ends_ticks = now_ticks;
        }
        if now_ticks >= self.ends_ticks {
            return Ok(false);
        }
        let most = self.left_frames.map_or(BURST, |left| left.min(u64::from(BURST)) as u32);
        let mut queued = 0;
        while queued < most {
            let due_ticks = self.schedule.as_ref().map_or(now_ticks, Schedule::next_ticks);
            if due_ticks > now_ticks {
                break;
            }
            let number = self.first_number + self.sent_frames;
            if !port.put(maker.len_bytes(number), |frame| maker.write(number, due_ticks, frame))? {
                break;
            }
            if let Some(schedule) = &mut self.schedule {
                schedule.advance();
            }
            self.sent_frames += 1;
            queued += 1;
        }
        self.left_frames = self.left_frames.map(|left| left - u64::from(queued));
        // Also without a frame: buffers that were sent come back by it.
        port.leave()?;
        Ok(true)
    }

    /// What was sent, and what was due and was not.
    pub(super) fn finish(mut self, clock: Clock) -> Trial {
        let unsent_frames = match (self.left_frames, &mut self.schedule) {
            (Some(left), _) => left,
            (None, Some(schedule)) => {
                let due = std::iter::from_fn(|| {
                    let is_due = schedule.next_ticks() < self.ends_ticks;
                    schedule.advance();
                    is_due.then_some(())
                });
                due.count() as u64
            }
            (None, None) => 0,
        };
        let duration_ns = clock.ns(self.ends_ticks - self.began_ticks);
        Trial { duration_ns, sent_frames: self.sent_frames, unsent_frames, ..Trial::default() }
    }
}
