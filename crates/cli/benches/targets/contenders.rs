//! Everything that takes turns in a round, and the cables that it runs on.

use std::time::{Duration, Instant};

use nearwire_bench::bed::TestBed;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_lab::{Cable, CableEnd, VirtualCable, VirtualCableOptions};
use nearwire_sys::tsc::Clock;

use crate::accelerated::{USES, Use};
use crate::neighbours;
use crate::one_way::{self, KINDS, Kind};
use crate::pairs;
use crate::paths::Cells;
use crate::process::{Sockets, base};
use crate::redis::{LOADS, Load};
use crate::sockperf::{CONTESTS, Contest};
use crate::start_up::StartUps;
use crate::{AnyError, Figures, INITIATOR_CPU, NEARWIRE, RESPONDER_CPU};

/// How long the ports of a contender that has ended may stay: an agent hears of the end of its programs, and then waits for the driver.
const PORTS_CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// One of them.
#[derive(Clone, Copy)]
pub enum Contender {
    /// A path, by its place among the cells.
    Path(usize),
    Sockperf(&'static Contest),
    Redis(&'static Load),
    OneWay(Kind),
    Program(&'static Use),
    TwoPairs,
    Neighbours,
    StartUp,
}

/// Both ends of a cable.
struct Ends {
    near: CableEnd,
    far: CableEnd,
}

impl Ends {
    /// Waits until no port is open on them.
    fn await_free(&self) -> Result<(), AnyError> {
        let until = Instant::now() + PORTS_CLOSE_WITHIN;
        for end in [&self.near, &self.far] {
            while end.namespace.enter(|| InterfaceFacts::read(&end.interface))??.program.is_some() {
                if Instant::now() > until {
                    return Err(format!("a port on {} is open after its programs ended", end.interface).into());
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }
}

pub struct Bed<'a> {
    cells: Cells<'a>,
    two_queues: Ends,
    one_queue: Ends,
    start_ups: StartUps,
    pub clock: Clock,
}

impl Bed<'_> {
    /// Lays the cables, pins the calling thread, and runs `work`.
    pub fn with<R>(work: impl FnOnce(&mut Bed<'_>) -> Result<R, AnyError>) -> Result<R, AnyError> {
        let cable = VirtualCable::lay(VirtualCableOptions::default())?;
        let thin = VirtualCable::lay(VirtualCableOptions { queues: 1, ..VirtualCableOptions::default() })?;
        let ends = |cable: &VirtualCable| Ends { near: cable.near().clone(), far: cable.far().clone() };
        let (two_queues, one_queue) = (ends(&cable), ends(&thin));
        let mut bed = TestBed::on_cable(Box::new(cable), NEARWIRE.as_ref(), Some(RESPONDER_CPU))?;
        nearwire_sys::affinity::pin_current_thread(INITIATOR_CPU)?;
        let clock = Clock::calibrate();
        let cells = Cells::new(&mut bed, clock)?;
        work(&mut Bed { cells, two_queues, one_queue, start_ups: StartUps::default(), clock })
    }

    pub fn contenders(&self) -> Vec<Contender> {
        let paths = (0..self.cells.len()).map(Contender::Path);
        let alone = [Contender::TwoPairs, Contender::Neighbours, Contender::StartUp];
        let can_run = |sockets: Sockets| sockets != Sockets::Base || base().is_some();
        paths
            .chain(CONTESTS.iter().filter(|contest| can_run(contest.sockets)).map(Contender::Sockperf))
            .chain(LOADS.iter().map(Contender::Redis))
            .chain(KINDS.into_iter().map(Contender::OneWay))
            .chain(USES.iter().filter(|used| can_run(used.sockets)).map(Contender::Program))
            .chain(alone)
            .collect()
    }

    pub fn name(&self, contender: Contender) -> String {
        match contender {
            Contender::Path(which) => self.cells.name(which),
            Contender::Sockperf(contest) => contest.name.to_owned(),
            Contender::Redis(load) => load.name.to_owned(),
            Contender::OneWay(kind) => format!("send {}", kind.name()),
            Contender::Program(used) => used.name.to_owned(),
            Contender::TwoPairs => pairs::NAME.to_owned(),
            Contender::Neighbours => neighbours::NAME.to_owned(),
            Contender::StartUp => crate::start_up::NAME.to_owned(),
        }
    }

    /// Measures it once: figures by name.
    pub fn figures(&mut self, contender: Contender) -> Result<Vec<(String, f64)>, AnyError> {
        for ends in [&self.two_queues, &self.one_queue] {
            ends.await_free()?;
        }
        let Ends { near, far } = &self.two_queues;
        Ok(match contender {
            Contender::Path(which) => {
                let name = self.cells.name(which);
                let [p50, p99] = self.cells.half_rtt_ns(which)?;
                vec![(name.clone(), p50), (format!("{name} p99"), p99)]
            }
            Contender::Sockperf(contest) => {
                let Ends { near, far } = if contest.on_one_queue { &self.one_queue } else { &self.two_queues };
                vec![(contest.name.to_owned(), contest.half_rtt_p50_ns(near, far)?)]
            }
            Contender::Redis(load) => load.figures(near, far)?,
            Contender::OneWay(kind) => {
                let rate = one_way::rate(kind, near, far, self.clock)?;
                let name = kind.name();
                vec![
                    (format!("{name} sent Mpps"), rate.sent_mpps),
                    (format!("{name} received Mpps"), rate.received_mpps),
                ]
            }
            Contender::Program(used) => used.figures(near, far)?,
            Contender::TwoPairs => vec![(pairs::NAME.to_owned(), pairs::half_rtt_p50_ns(near, far)?)],
            Contender::Neighbours => neighbours::figures(near, far)?,
            Contender::StartUp => self.start_ups.figures()?,
        })
    }

    /// The fastest of the frame paths in the last round, by p50, and its p99.
    pub fn best_frame_path(&self, figures: &Figures) -> Vec<(&'static str, f64)> {
        let last = |name: &str| figures.get(name)?.last().copied();
        let frames = self.cells.frame_names().filter_map(|name| Some([last(&name)?, last(&format!("{name} p99"))?]));
        let best = frames.min_by(|a, b| a[0].total_cmp(&b[0]));
        best.map_or_else(Vec::new, |[p50, p99]| vec![("best frame path", p50), ("best frame path p99", p99)])
    }
}
