//! Generated sequences of calls. Each runs on the kernel once and in each way of the library; one that does not trace the
//! same is made shorter for as long as it differs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nearwire_lab::emulated_host::is_inside;

use crate::bed::Bed;
use crate::compare::{Comparison, Truth, difference};
use crate::programs::Programs;
use crate::shorten::{Shortened, shorten};
use crate::trace;
use crate::vocabulary;
use crate::ways::Run;
use crate::{OF_CONNECTIONS, SIMPLE};

pub const RUNS_VARIABLE: &str = "NEARWIRE_SEQUENCES";
pub const BEDS_VARIABLE: &str = "NEARWIRE_SEQUENCE_BEDS";
/// Runs of the library without `NEARWIRE_SEQUENCES`, with ports of its own and with shares of an agent's.
const RUNS: u32 = 240;
const RUNS_BY_AGENT: u32 = 90;
/// Cables at once without `NEARWIRE_SEQUENCE_BEDS`. They mostly wait, so more than there are CPUs.
const BEDS: u32 = 4;
/// Nothing new is begun when so many sequences differ: there is enough to look at.
const DIFFERING_MAX: usize = 6;
/// Runs of the library where connections are generated.
const RUNS_OF_CONNECTIONS: u32 = 160;
/// What a program writes that ended as it should.
const ENDED_WELL: &str = "[end] with 0\n";

/// What sequences are about.
#[derive(Clone, Copy)]
enum About {
    Datagrams,
    DatagramsByAgent,
    Connections,
}

impl About {
    /// The program that runs a sequence.
    const fn interpreter(self) -> &'static str {
        match self {
            About::Datagrams | About::DatagramsByAgent => "interpret.sequence",
            About::Connections => "interpret_streams.sequence",
        }
    }

    /// The library serves connections with an agent only.
    fn comparison(self) -> Comparison {
        match (self, Comparison::chosen()) {
            (About::Connections | About::DatagramsByAgent, Comparison::Library) => Comparison::ByAgent,
            (_, chosen) => chosen,
        }
    }

    fn runs(self) -> &'static [Run] {
        match self {
            About::Datagrams | About::DatagramsByAgent => self.comparison().runs_of_sequences(),
            About::Connections => self.comparison().runs_of_connections(),
        }
    }

    const fn runs_wanted(self) -> u32 {
        match self {
            About::Datagrams => RUNS,
            About::DatagramsByAgent => RUNS_BY_AGENT,
            About::Connections => RUNS_OF_CONNECTIONS,
        }
    }

    fn sequence(self, seed: u32, has_vlan: bool) -> String {
        match self {
            About::Datagrams | About::DatagramsByAgent => vocabulary::sequence(seed, has_vlan),
            About::Connections => vocabulary::sequence_of_connections(seed),
        }
    }
}

/// Where a cable is, or is to be laid.
struct Place<'a> {
    programs: &'a Programs,
    about: About,
    number: usize,
    has_vlan: bool,
    bed: Option<Bed<'a>>,
    /// Of the sequence that runs.
    seed: u32,
}

impl<'a> Place<'a> {
    fn bed(&mut self) -> &mut Bed<'a> {
        let lay = || match self.has_vlan {
            true => Bed::with_vlan(self.programs, self.number),
            false => Bed::lay(self.programs, self.number),
        };
        let by_agent = self.about.comparison() == Comparison::ByAgent;
        self.bed.get_or_insert_with(|| if by_agent { lay().with_agent() } else { lay() })
    }
}

/// What all cables found.
#[derive(Default)]
struct Found {
    /// Of each way, runs, those that differed, and how long all took.
    runs: BTreeMap<&'static str, (u32, u32, Duration)>,
    differing: Vec<String>,
}

impl Found {
    fn count(&mut self, way: Run, differs: bool, took: Duration) {
        let (times, differing, time) = self.runs.entry(way.name()).or_default();
        (*times, *differing, *time) = (*times + 1, *differing + u32::from(differs), *time + took);
    }
}

/// Runs as many sequences of calls on datagram sockets as wanted, on all cables at once, and fails with those that differ.
pub fn compare(programs: &Programs) {
    compare_all(programs, About::Datagrams);
}

/// The same by shares of an agent's ports.
pub fn compare_by_agent(programs: &Programs) {
    compare_all(programs, About::DatagramsByAgent);
}

/// The same on connections.
pub fn compare_connections(programs: &Programs) {
    compare_all(programs, About::Connections);
}

fn compare_all(programs: &Programs, about: About) {
    let (wanted, seed) = (number(RUNS_VARIABLE, about.runs_wanted()), number("NEARWIRE_SEED", 1));
    let runs = about.runs();
    let time = minutes().map(|minutes| Duration::from_secs_f64(60.0 * minutes));
    let sequences = if time.is_some() { u32::MAX } else { wanted.div_ceil(u32::try_from(runs.len()).unwrap()) };
    let given = std::env::var("NEARWIRE_SEQUENCE").ok().map(|file| std::fs::read_to_string(file).unwrap());
    let beds = number(BEDS_VARIABLE, BEDS);
    let (started, next, found) = (Instant::now(), AtomicU32::new(0), Mutex::new(Found::default()));
    std::thread::scope(|scope| {
        for number in 0..beds {
            let (next, found, given) = (&next, &found, &given);
            scope.spawn(move || {
                // Of an emulated host the last cable has VLANs.
                // Not for connections: segments cannot be cut by order on a VLAN's interface.
                let has_vlan = is_inside() && number + 1 == beds && matches!(about, About::Datagrams);
                let mut place = Place { programs, about, number: number as usize, has_vlan, bed: None, seed };
                if let Some(run) = runs.iter().find(|run| run.is_of_library()) {
                    place.bed().assert_accelerated(SIMPLE, *run);
                    if matches!(about, About::Connections) {
                        place.bed().assert_adopted(OF_CONNECTIONS[0], *run);
                    }
                }
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let is_over = index >= sequences || time.is_some_and(|time| started.elapsed() >= time);
                    if is_over || found.lock().unwrap().differing.len() >= DIFFERING_MAX {
                        break;
                    }
                    let seed = seed.wrapping_add(index);
                    let text = given.clone().unwrap_or_else(|| about.sequence(seed, place.bed().has_vlan()));
                    compare_one(&mut place, runs, seed, &text, given.is_some(), found);
                }
            });
        }
    });
    report(about, &found.into_inner().unwrap(), seed, started);
}

fn report(about: About, found: &Found, seed: u32, started: Instant) {
    let (how, seconds) = (about.comparison().name(), started.elapsed().as_secs_f64());
    let ways = found.runs.iter().fold(String::new(), |mut text, (way, (runs, differing, time))| {
        let each_ms = (time.as_millis() / u128::from(*runs)).to_string();
        write!(text, " {way} {runs} runs of {each_ms} ms, {differing} differ;").unwrap();
        text
    });
    println!("sequences from seed {seed}, {how}, {seconds:.1} s:{ways}");
    assert!(found.differing.is_empty(), "{}", found.differing.join("\n"));
}

fn number(variable: &str, default: u32) -> u32 {
    let value = std::env::var(variable).ok();
    value.map_or(default, |text| text.parse().unwrap_or_else(|error| panic!("{variable} is '{text}': {error}")))
}

fn minutes() -> Option<f64> {
    let text = std::env::var("NEARWIRE_SEQUENCE_MINUTES").ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("NEARWIRE_SEQUENCE_MINUTES is '{text}': {error}")))
}

/// Runs one sequence in all ways. One that was given is not made shorter.
fn compare_one(place: &mut Place<'_>, runs: &[Run], seed: u32, text: &str, is_given: bool, found: &Mutex<Found>) {
    place.seed = seed;
    let started = Instant::now();
    let first = run(place, text, Run::Kernel);
    let mut truth = Truth::of(first.clone());
    found.lock().unwrap().count(Run::Kernel, false, started.elapsed());
    for &way in runs {
        let started = Instant::now();
        let other = run(place, text, way);
        let took = started.elapsed();
        let told = truth.difference(&other, way.name(), || run(place, text, Run::Kernel));
        found.lock().unwrap().count(way, told.is_some(), took);
        let Some(told) = told else { continue };
        trace::keep(&format!("sequence.{seed}"), "text", text);
        trace::keep(&format!("sequence.{seed}"), Run::Kernel.name(), &first);
        trace::keep(&format!("sequence.{seed}"), way.name(), &other);
        println!("the sequence of seed {seed} differs:\n{text}{told}");
        let described = if is_given { told } else { describe(place, way, text, told) };
        found.lock().unwrap().differing.push(format!("== seed {seed}, {}:\n{described}", way.name()));
        return;
    }
    let of_kernel = truth.note();
    if !of_kernel.is_empty() {
        println!("the sequence of seed {seed} traces the same{of_kernel}");
    }
}

/// The shortest sequence that differs, how often it does, and how often the kernel differs from itself over it.
fn describe(place: &mut Place<'_>, way: Run, text: &str, told: String) -> String {
    let mut differs = |text: &str, way: Run| {
        let truth = run(place, text, Run::Kernel);
        difference(&truth, &run(place, text, way), way.name())
    };
    match shorten(text, |text| differs(text, way)) {
        Shortened::Seldom(times) => format!("{text}{told}  (not again in {times} runs)"),
        Shortened::To { text, told, differing, times } => {
            let of_kernel = (0..times).filter(|_| differs(&text, Run::KernelAgain).is_some()).count();
            format!("{text}{told}  ({differing} of {times} runs differ; of the kernel's {of_kernel})")
        }
    }
}

fn run(place: &mut Place<'_>, text: &str, way: Run) -> String {
    let (interpreter, seed) = (place.about.interpreter(), place.seed);
    let bed = place.bed();
    bed.write("sequence", text);
    let trace = bed.run_sequence(interpreter, way, seed);
    if !trace.contains(ENDED_WELL) {
        // Nothing is left of what a program did that did not end.
        place.bed = None;
    }
    trace
}
