//! Paths of `nearwire bench`: a run is one short round of its engine with fresh sockets at both ends.

use std::cell::RefCell;
use std::rc::Rc;

use nearwire_bench::bed::TestBed;
use nearwire_bench::cells::{CellError, Rates, Wish, cells};
use nearwire_bench::experiment::{CellSpec, Experiment, ROUND_SAMPLES_MAX};
use nearwire_bench::paths::{PathId, RxMode, TxMode, XdpChoice};
use nearwire_bench::round::{self, RoundResult};
use nearwire_bench::workloads::{RoundPlan, SampleBuffer};
use nearwire_bench::xdp_choice;
use nearwire_report::statistics::rank::{LEAST_SUPPORT, quantile_rank, support};
use nearwire_sys::affinity::{lock_memory, pin_current_thread};
use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::interrupted;

use super::{Figure, Figures, Subject, SubjectError};

/// So many messages support p99.9 (ten beyond it), with a few that may be lost.
const MESSAGES_MIN: u64 = 10_100;
/// With fewer not even the median is worth anything.
const MESSAGES_FEW: u64 = 100;
/// A setting that makes a path slow must not hold up the others: a run ends after this many times the time it should take.
const TIME_LIMIT: u64 = 10;
/// On a host that stalls, an answer may come after its socket was closed, and what the kernel says to that ends the far end's
/// round: no fault of the path or of a setting.
const ATTEMPTS: u32 = 3;
/// Of a run that shows how long a message takes.
const TRIAL_NS: u64 = 40_000_000;

/// A test bed that several paths share.
pub struct SharedBench {
    bed: TestBed,
    clock: Clock,
    buffer: SampleBuffer,
    experiment: Experiment,
    token: u32,
    runs: u32,
    xdp: Option<XdpChoice>,
}

/// What paths are measured with.
#[derive(Clone, Debug)]
pub struct PathOptions {
    /// The paths.
    pub paths: Vec<PathId>,
    /// Payload of socket paths, whole frame of frame paths.
    pub size_bytes: u32,
    /// Measuring time of one run of all paths together.
    pub run_ns: u64,
    /// CPU of the initiator.
    pub cpu_initiator: Option<u32>,
}

/// Paths as subjects, with a test bed that they share.
pub struct Paths {
    shared: Rc<RefCell<SharedBench>>,
    /// One for each path.
    pub subjects: Vec<Box<dyn Subject>>,
}

/// Why paths cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// One cannot run here.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// One failed in its first run.
    #[error(transparent)]
    Subject(#[from] SubjectError),
}

impl Paths {
    /// Tries the paths on this test bed and finds out how many messages make a run. Pins the calling thread.
    ///
    /// # Errors
    /// See [`PathsError`].
    pub fn new(mut bed: TestBed, clock: Clock, options: &PathOptions) -> Result<Self, PathsError> {
        let wish = Wish {
            paths: options.paths.clone(),
            through_sockets: false,
            sizes_bytes: vec![options.size_bytes],
            tx: vec![TxMode::Prepared],
            rx: vec![RxMode::InPlace],
            ip_versions: vec![4],
            rates: Rates::None,
        };
        let experiment = Experiment { cpu_initiator: options.cpu_initiator, ..Experiment::default() };
        let (cells, _) = cells(&wish, &experiment, &mut bed, clock)?;
        // Without it figures are a little noisier, which the intervals show.
        let _ = options.cpu_initiator.map(pin_current_thread);
        let _ = lock_memory();
        let token = std::process::id() ^ clock.now_ticks() as u32;
        let buffer = SampleBuffer::new(ROUND_SAMPLES_MAX as usize);
        let mut shared = SharedBench { bed, clock, buffer, experiment, token, runs: 0, xdp: None };
        shared.choose_xdp(&cells)?;
        let message_ns = cells.iter().map(|cell| shared.message_ns(cell)).collect::<Result<Vec<_>, _>>()?;
        let messages = messages(&message_ns, options.run_ns);
        let shared = Rc::new(RefCell::new(shared));
        let subject = |((cell, message_ns), messages): ((CellSpec, f64), u64)| {
            let limit_ns = (message_ns * messages as f64) as u64 * TIME_LIMIT;
            Box::new(PathSubject { shared: Rc::clone(&shared), cell, messages, limit_ns }) as Box<dyn Subject>
        };
        let subjects = cells.into_iter().zip(message_ns).zip(messages).map(subject).collect();
        Ok(Self { shared, subjects })
    }

    /// The test bed again; `None` while a subject is left somewhere.
    #[must_use]
    pub fn into_bed(self) -> Option<TestBed> {
        drop(self.subjects);
        Rc::into_inner(self.shared).map(|shared| shared.into_inner().bed)
    }
}

/// How many messages of each path make a run, by how long one takes. All paths get the same time; what a quick one needs not for all of its
/// quantiles the slower ones get.
fn messages(message_ns: &[f64], run_ns: u64) -> Vec<u64> {
    let mut quickest_first: Vec<usize> = (0..message_ns.len()).collect();
    quickest_first.sort_by(|one, other| message_ns[*one].total_cmp(&message_ns[*other]));
    let mut messages = vec![0; message_ns.len()];
    let mut left_ns = run_ns as f64;
    for (done, at) in quickest_first.into_iter().enumerate() {
        let paths_left = message_ns.len() - done;
        let share = (left_ns / paths_left as f64 / message_ns[at].max(1.0)) as u64;
        let most = if paths_left == 1 { ROUND_SAMPLES_MAX } else { MESSAGES_MIN };
        messages[at] = share.clamp(MESSAGES_FEW, most);
        left_ns -= messages[at] as f64 * message_ns[at];
    }
    messages
}

impl SharedBench {
    fn choose_xdp(&mut self, cells: &[CellSpec]) -> Result<(), SubjectError> {
        let Some(cell) = cells.iter().find(|cell| cell.path.is_xdp()) else { return Ok(()) };
        let setup = self.experiment.setup(cell, &self.bed, self.token, 0, None);
        let failed = |error: round::RoundError| failed(cell, &error);
        let chosen = xdp_choice::choose(&mut self.bed, self.clock, &setup, &mut self.buffer).map_err(failed)?;
        self.xdp = chosen.0;
        Ok(())
    }

    /// How long a message and its answer take.
    fn message_ns(&mut self, cell: &CellSpec) -> Result<f64, SubjectError> {
        let result = self.run(cell, u64::MAX, TRIAL_NS)?;
        let answered = self.buffer.samples().len().max(1);
        Ok(result.outcome.duration_ns as f64 / answered as f64)
    }

    fn run(&mut self, cell: &CellSpec, messages: u64, limit_ns: u64) -> Result<RoundResult, SubjectError> {
        self.runs = self.runs.wrapping_add(1);
        let setup = self.experiment.setup(cell, &self.bed, self.token, self.runs, self.xdp.clone());
        let plan = RoundPlan {
            warm_up_messages: self.experiment.warm_up_messages,
            warm_up_ns: self.experiment.warm_up_ns,
            messages: Some(messages),
            time_ns: Some(limit_ns),
            timeout_ns: self.experiment.timeout_ns,
            cpu: self.experiment.cpu_initiator,
        };
        let mut result = round::run(&mut self.bed, self.clock, &setup, &plan, &mut self.buffer);
        for _ in 1..ATTEMPTS {
            let is_worth_another = match &result {
                Ok(_) => self.buffer.samples().is_empty() && !interrupted(),
                Err(error) => !error.ends_experiment(),
            };
            if !is_worth_another {
                break;
            }
            result = round::run(&mut self.bed, self.clock, &setup, &plan, &mut self.buffer);
        }
        result.map_err(|error| failed(cell, &error))
    }
}

fn failed(cell: &CellSpec, error: &round::RoundError) -> SubjectError {
    SubjectError::Failed { what: cell.path.name().to_owned(), why: error.to_string() }
}

/// A path.
struct PathSubject {
    shared: Rc<RefCell<SharedBench>>,
    cell: CellSpec,
    messages: u64,
    limit_ns: u64,
}

impl Subject for PathSubject {
    fn name(&self) -> String {
        self.cell.path.name().to_owned()
    }

    fn run(&mut self) -> Result<Figures, SubjectError> {
        let mut shared = self.shared.borrow_mut();
        let result = shared.run(&self.cell, self.messages, self.limit_ns)?;
        let clock = shared.clock;
        let rtt_ns = shared.buffer.samples().iter().map(|trip| clock.ns(u64::from(trip.received_after_ticks)));
        let mut rtt_ns: Vec<u64> = rtt_ns.collect();
        if rtt_ns.is_empty() {
            let why = "no message came back".to_owned();
            return Err(SubjectError::Failed { what: self.name(), why });
        }
        rtt_ns.sort_unstable();
        Ok(figures(&rtt_ns, cpu_per_message_ns(&result)))
    }
}

/// The figures of sorted round trips; quantiles that they do not support are left out.
fn figures(rtt_ns: &[u64], cpu_per_message_ns: Option<f64>) -> Figures {
    let samples = rtt_ns.len() as u64;
    let quantiles = [(Figure::P50Ns, 50.0), (Figure::P99Ns, 99.0), (Figure::P999Ns, 99.9)];
    let supported = quantiles.into_iter().filter(|(_, percent)| support(samples, *percent) >= LEAST_SUPPORT);
    let half = |percent| rtt_ns[quantile_rank(samples, percent) as usize - 1] as f64 / 2.0;
    let mut figures: Figures = supported.map(|(figure, percent)| (figure, half(percent))).collect();
    figures.extend(cpu_per_message_ns.map(|ns| (Figure::CpuPerMessageNs, ns)));
    figures
}

/// CPU time of both ends over the messages that they sent.
fn cpu_per_message_ns(result: &RoundResult) -> Option<f64> {
    let (near, far) = (&result.outcome, &result.responder);
    // The responder counts the warm-up too, so each end has its own count.
    let of = |cpu_ns: u64, messages: u64| (messages > 0).then(|| cpu_ns as f64 / messages as f64);
    Some(of(near.usage.cpu_ns, near.sent)?.midpoint(of(far.outcome.cpu_ns, far.outcome.messages)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_a_quick_path_does_not_need_goes_to_the_slow_one() {
        assert_eq!(messages(&[70_000.0, 4_000.0], 300_000_000), [3_708, MESSAGES_MIN]);
        assert_eq!(messages(&[4_000.0], 300_000_000), [75_000]);
        assert_eq!(messages(&[50_000_000.0, 1.0], 1_000_000), [MESSAGES_FEW, MESSAGES_MIN]);
        assert!(messages(&[], 5).is_empty());
    }

    #[test]
    fn quantile_without_ten_samples_beyond_is_left_out() {
        let rtt_ns: Vec<u64> = (1..=1000).map(|n| n * 2).collect();
        let figures = figures(&rtt_ns, Some(7.0));
        assert_eq!(figures.get(&Figure::P50Ns), Some(&500.0));
        assert_eq!(figures.get(&Figure::P99Ns), Some(&990.0));
        assert_eq!(figures.get(&Figure::P999Ns), None);
        assert_eq!(figures.get(&Figure::CpuPerMessageNs), Some(&7.0));
        let many: Vec<u64> = (1..=MESSAGES_MIN).collect();
        assert!(self::figures(&many, None).contains_key(&Figure::P999Ns));
    }
}
