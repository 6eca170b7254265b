//! A generator and a sink that know of each other only by what is sent, as on two hosts or in two programs.

use std::time::Duration;

use nearwire_frames::port::Port;
use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::interrupted;
use nearwire_wire::MacAddress;

use super::TesterError;
use super::generator::Generator;
use super::sink::Sink;
use crate::traffic::{Announcement, FrameMaker, Hops, Traffic};
use crate::trial::{Trial, TrialPlan};

/// Announcements at the beginning and at the end: one alone may be lost.
const ANNOUNCEMENTS: u32 = 3;
/// Time between two announcements, and between the last frame and the first announcement that says so.
const ANNOUNCEMENT_GAP: Duration = Duration::from_millis(100);
/// After the generator's end a sink waits for frames that are still on their way, until nothing came for so long.
const RESIDUAL: Duration = Duration::from_millis(5);
/// A sink that heard nothing for so long takes the generator to have ended.
const SILENCE: Duration = Duration::from_secs(3);
/// Time between two calls of an observer.
const PROGRESS_GAP: Duration = Duration::from_secs(1);

/// How far it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Since it began.
    pub elapsed_ns: u64,
    /// Frames that were sent; of a sink, as far as can be told from those that came.
    pub sent_frames: u64,
    /// Frames that came; 0 of a generator.
    pub received_frames: u64,
}

/// Something that is due again and again.
struct Every {
    gap_ticks: u64,
    next_ticks: u64,
}

impl Every {
    fn new(gap: Duration, clock: Clock) -> Every {
        let gap_ticks = clock.ticks(gap.as_nanos() as u64);
        Every { gap_ticks, next_ticks: clock.now_ticks() + gap_ticks }
    }

    #[inline]
    fn is_due(&mut self, now_ticks: u64) -> bool {
        if now_ticks < self.next_ticks {
            return false;
        }
        self.next_ticks = now_ticks + self.gap_ticks;
        true
    }
}

/// Sends traffic by one port until the plan ends or the user asks the program to end: what was sent.
///
/// # Errors
/// The port failed for good, or the traffic cannot be made.
pub fn generate(
    port: &mut impl Port,
    traffic: &Traffic,
    hops: Hops,
    plan: TrialPlan,
    clock: Clock,
    mut observe: impl FnMut(Progress),
) -> Result<Trial, TesterError> {
    const FIRST_NUMBER: u64 = 1;
    let maker = FrameMaker::new(traffic, hops)?;
    let announcement = Announcement { traffic: traffic.clone(), first_number: FIRST_NUMBER, sent_frames: None };
    let begins = announcement.frame(hops)?;
    announce(port, &begins)?;
    let began_ticks = clock.now_ticks();
    let mut generator = Generator::new(plan, FIRST_NUMBER, clock);
    let (mut announced, mut observed) = (Every::new(ANNOUNCEMENT_GAP, clock), Every::new(PROGRESS_GAP, clock));
    while generator.turn(port, &maker, clock)? && !interrupted() {
        let now_ticks = clock.now_ticks();
        if announced.is_due(now_ticks) {
            port.send(&begins)?;
        }
        if observed.is_due(now_ticks) {
            let (elapsed_ns, sent_frames) = (clock.ns(now_ticks - began_ticks), generator.sent_frames());
            observe(Progress { elapsed_ns, sent_frames, received_frames: 0 });
        }
    }
    let trial = generator.finish(clock);
    std::thread::sleep(ANNOUNCEMENT_GAP);
    let ends = Announcement { sent_frames: Some(trial.sent_frames), ..announcement };
    announce(port, &ends.frame(hops)?)?;
    Ok(trial)
}

fn announce(port: &mut impl Port, frame: &[u8]) -> Result<(), TesterError> {
    for _ in 0..ANNOUNCEMENTS {
        port.send(frame)?;
    }
    Ok(())
}

/// What a sink heard.
#[derive(Debug, Clone)]
pub struct Heard {
    /// Of which traffic.
    pub traffic: Traffic,
    /// What came of it, from the first frame to the last.
    pub trial: Trial,
    /// The generator said how many frames it sent; else the number is that of the last frame that came.
    pub is_sent_known: bool,
}

/// Takes what a generator sends to this port, until the generator ended, nothing came for three seconds, `most` is over or the user asks
/// the program to end. `is_same_host`: the generator is on this host, so that latencies can be told. `None`: no generator was heard.
///
/// # Errors
/// The port failed for good.
pub fn listen(
    port: &mut impl Port,
    clock: Clock,
    is_same_host: bool,
    most: Option<Duration>,
    mut observe: impl FnMut(Progress),
) -> Result<Option<Heard>, TesterError> {
    let ticks = |duration: Duration| clock.ticks(duration.as_nanos() as u64);
    let ends_ticks = most.map_or(u64::MAX, |most| clock.now_ticks() + ticks(most));
    let mut station: Option<Station> = None;
    let mut observed = Every::new(PROGRESS_GAP, clock);
    let (residual_ticks, silence_ticks) = (ticks(RESIDUAL), ticks(SILENCE));
    while clock.now_ticks() < ends_ticks && !interrupted() {
        let Some(station) = &mut station else {
            let heard = port.receive(Announcement::read)?.flatten();
            station = heard.map(|heard| Station::new(&heard, is_same_host, clock)).transpose()?;
            continue;
        };
        let found = station.turn(port, clock)?;
        let now_ticks = clock.now_ticks();
        if found > 0 {
            station.last_ticks = now_ticks;
        }
        let silent_ticks = now_ticks - station.last_ticks;
        if station.sent_frames.is_some() && silent_ticks > residual_ticks || silent_ticks > silence_ticks {
            break;
        }
        if observed.is_due(now_ticks) {
            observe(station.progress(clock));
        }
    }
    Ok(station.map(|station| station.finish(clock)))
}

/// A sink that knows its traffic.
struct Station {
    traffic: Traffic,
    maker: FrameMaker,
    sink: Sink,
    began_ticks: u64,
    last_ticks: u64,
    sent_frames: Option<u64>,
}

impl Station {
    fn new(heard: &Announcement, is_same_host: bool, clock: Clock) -> Result<Station, TesterError> {
        // The sink does not look at the addresses of Ethernet, which devices change.
        let hops = Hops { source: MacAddress([0; 6]), destination: MacAddress([0; 6]) };
        let sink = Sink::new(heard.first_number);
        let now_ticks = clock.now_ticks();
        Ok(Station {
            maker: FrameMaker::new(&heard.traffic, hops)?,
            traffic: heard.traffic.clone(),
            sink: if is_same_host { sink } else { sink.without_latency() },
            began_ticks: now_ticks,
            last_ticks: now_ticks,
            sent_frames: heard.sent_frames,
        })
    }

    #[inline]
    fn turn(&mut self, port: &mut impl Port, clock: Clock) -> Result<u32, TesterError> {
        let (traffic, sent_frames) = (&self.traffic, &mut self.sent_frames);
        let knows = |frame: &[u8]| {
            let heard = Announcement::read(frame).filter(|heard| heard.traffic == *traffic);
            *sent_frames = sent_frames.or(heard.as_ref().and_then(|heard| heard.sent_frames));
            heard.is_some()
        };
        Ok(self.sink.turn(port, &self.maker, clock, knows)?)
    }

    fn progress(&self, clock: Clock) -> Progress {
        Progress {
            elapsed_ns: clock.ns(self.last_ticks - self.began_ticks),
            sent_frames: self.sink.sent_at_least_frames(),
            received_frames: self.sink.trial().received_frames,
        }
    }

    fn finish(self, clock: Clock) -> Heard {
        let sent = Trial {
            duration_ns: clock.ns(self.last_ticks - self.began_ticks),
            sent_frames: self.sent_frames.unwrap_or_else(|| self.sink.sent_at_least_frames()),
            ..Trial::default()
        };
        let is_sent_known = self.sent_frames.is_some();
        Heard { traffic: self.traffic, trial: self.sink.finish(sent), is_sent_known }
    }
}

#[cfg(test)]
mod tests {
    use nearwire_frames::ports::memory::memory_pair;

    use super::*;
    use crate::traffic::{Family, Flows};

    const HOPS: Hops = Hops { source: MacAddress([2, 0, 0, 0, 0, 1]), destination: MacAddress([2, 0, 0, 0, 0, 2]) };

    fn traffic() -> Traffic {
        Traffic { family: Family::V6, sizes: "80+1514".parse().unwrap(), flows: Flows::ONE, vlan: None, token: 9 }
    }

    #[test]
    fn sink_without_settings_counts_what_a_generator_sends() {
        let (mut sending, mut receiving) = memory_pair(1 << 14);
        let clock = Clock::calibrate();
        let plan = TrialPlan::steady(5000.0, 50_000_000, 0);
        let sent = generate(&mut sending, &traffic(), HOPS, plan, clock, |_| ()).unwrap();
        let heard = listen(&mut receiving, clock, true, None, |_| ()).unwrap().unwrap();
        assert_eq!((heard.trial.received_frames, heard.trial.lost_frames()), (sent.sent_frames, 0));
        assert_eq!((heard.traffic, heard.is_sent_known), (traffic(), true));
        assert_eq!(heard.trial.latency.count(), sent.sent_frames);
    }

    #[test]
    fn sink_on_another_host_tells_no_latency() {
        let (mut sending, mut receiving) = memory_pair(1 << 14);
        let clock = Clock::calibrate();
        let plan = TrialPlan::steady(5000.0, 20_000_000, 0);
        generate(&mut sending, &traffic(), HOPS, plan, clock, |_| ()).unwrap();
        let heard = listen(&mut receiving, clock, false, None, |_| ()).unwrap().unwrap();
        assert_eq!(heard.trial.latency.count(), 0);
    }

    #[test]
    fn sink_that_hears_nothing_ends_in_time() {
        let (_sending, mut receiving) = memory_pair(64);
        let heard = listen(&mut receiving, Clock::calibrate(), true, Some(Duration::from_millis(20)), |_| ()).unwrap();
        assert!(heard.is_none());
    }
}
