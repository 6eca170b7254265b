//! The engine: cells in interleaved rounds of random order, with the machine probed between them.

use std::collections::HashMap;
use std::io::{self, Write};

use nearwire_report::record::{self, Cell};
use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::interrupted;

use crate::bed::TestBed;
use crate::experiment::{Amount, CellSpec, Experiment, ROUND_SAMPLES_MAX};
use crate::order::Order;
use crate::outcome::{CellOutcome, RoundCounts, per_message};
use crate::paths::{PathId, XdpChoice};
use crate::probe::{Steal, cache_line_ns, wake_up_ns};
use crate::round::{self, RoundError, RoundResult};
use crate::workloads::{AnyWorkload, PingPong, RoundPlan, SampleBuffer};
use crate::xdp_choice;
use nearwire_sys::affinity::{lock_memory, pin_current_thread};

/// Round trips kept exactly over all cells, 4 bytes each; beyond its share a cell goes over to a histogram. Bounds the
/// memory of any run, however long.
const EXACT_SAMPLES_TOTAL: usize = 24 << 20;

/// Steal above which a round is marked: half a per cent.
pub const STEAL_LIMIT_PPM: f64 = 5_000.0;

/// Told what happens while it runs.
pub trait Observer {
    /// A cell's round begins.
    fn cell(&mut self, done: usize, total: usize, what: &str);
    /// Something was chosen or found that people should know now.
    fn note(&mut self, text: &str);
}

/// Gives settings of the host the values of a variation.
pub trait Settings {
    /// Writes the values of this one of [`Experiment::variations`], and nothing else. Says what was read back, a line
    /// each.
    ///
    /// # Errors
    /// The host did not take them, in words.
    fn set(&mut self, variation: usize) -> Result<Vec<String>, String>;
}

/// What an experiment came to.
#[derive(Debug)]
pub struct Results {
    /// One run a cell that gave anything, in the order of the experiment's cells.
    pub runs: Vec<record::Run>,
    /// Costs of the machine itself.
    pub machine: record::Machine,
    /// Doubts about the whole.
    pub warnings: Vec<record::Warning>,
    /// True when Ctrl-C ended it.
    pub interrupted: bool,
    /// Why it ended early, if it failed.
    pub failure: Option<String>,
}

/// Runs an experiment on a test bed.
pub struct Engine<'a> {
    experiment: &'a Experiment,
    bed: &'a mut TestBed,
    clock: Clock,
    observer: &'a mut dyn Observer,
    raw_samples: Option<&'a mut dyn Write>,
    settings: Option<&'a mut dyn Settings>,
    buffer: SampleBuffer,
    /// By path.
    xdp: HashMap<PathId, XdpChoice>,
    token: u32,
    cache_line_probes_ns: Vec<f64>,
    warnings: Vec<record::Warning>,
}

impl<'a> Engine<'a> {
    /// `raw_samples` gets every round trip as CSV when given.
    pub fn new(
        experiment: &'a Experiment,
        bed: &'a mut TestBed,
        clock: Clock,
        observer: &'a mut dyn Observer,
        raw_samples: Option<&'a mut dyn Write>,
    ) -> Engine<'a> {
        Engine {
            token: experiment.seed as u32 ^ std::process::id() ^ clock.now_ticks() as u32,
            buffer: SampleBuffer::new(ROUND_SAMPLES_MAX as usize),
            experiment,
            bed,
            clock,
            observer,
            raw_samples,
            settings: None,
            xdp: HashMap::new(),
            cache_line_probes_ns: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// With what writes the values of the experiment's variations.
    #[must_use]
    pub fn with_settings(self, settings: &'a mut dyn Settings) -> Engine<'a> {
        Engine { settings: Some(settings), ..self }
    }

    /// Measures. Whatever ends it early, what was measured by then is in the results.
    #[must_use]
    pub fn run(mut self) -> Results {
        self.settle();
        let wake_up = self.same_machine_cpus().and_then(|(own, other)| wake_up_ns(self.clock, own, other));
        let mut cells = self.cells();
        let failure = match self.choose_xdp() {
            Ok(notes) => {
                notes.iter().for_each(|(path, note)| xdp_choice::add_note(&mut cells, *path, note));
                let ended = self.begin_raw().and_then(|()| self.rounds(&mut cells));
                ended.and(self.end_raw()).err()
            }
            Err(error) => Some(error.to_string()),
        };
        let machine = self.machine(wake_up);
        let runs = cells.into_iter().filter_map(|cell| cell.finish(&mut self.warnings)).collect();
        Results { runs, machine, warnings: self.warnings, interrupted: interrupted(), failure }
    }

    /// Pins this thread and locks its memory; what does not work becomes a warning.
    fn settle(&mut self) {
        if let Some(cpu) = self.experiment.cpu_initiator
            && let Err(errno) = pin_current_thread(cpu)
        {
            self.warn(
                "not-pinned",
                format!("the initiator could not be pinned to CPU {cpu}: {errno}"),
                "give CPUs of this process's affinity mask with --cpus",
            );
        }
        if let Err(errno) = lock_memory() {
            self.warn(
                "memory-not-locked",
                format!("memory could not be locked: {errno}"),
                "raise RLIMIT_MEMLOCK (ulimit -l) or give the program CAP_IPC_LOCK",
            );
        }
    }

    fn warn(&mut self, code: &str, text: String, advice: &str) {
        self.warnings.push(record::Warning { code: code.to_owned(), text, advice: advice.to_owned() });
    }

    /// Each cell under each variation, one cell's variations side by side.
    fn cells(&self) -> Vec<CellOutcome> {
        let Experiment { cells, variations, workload, .. } = self.experiment;
        let exact_limit = EXACT_SAMPLES_TOTAL / (cells.len() * self.variations()).max(1);
        let of_cell = |spec: &CellSpec| {
            let as_it_is = variations.is_empty().then(Default::default);
            let values = variations.iter().cloned().chain(as_it_is);
            values.map(|values| CellOutcome::new(*spec, *workload, values, exact_limit)).collect::<Vec<_>>()
        };
        cells.iter().flat_map(of_cell).collect()
    }

    fn variations(&self) -> usize {
        self.experiment.variations.len().max(1)
    }

    /// The two CPUs when both ends run here and are pinned: only then can the distance between them be probed.
    fn same_machine_cpus(&self) -> Option<(u32, u32)> {
        let same = self.bed.responder.same_machine;
        Some((self.experiment.cpu_initiator?, self.bed.responder.cpu?)).filter(|_| same)
    }

    /// Finds the fastest way for each path over AF_XDP, and says what was found.
    fn choose_xdp(&mut self) -> Result<Vec<(PathId, String)>, RoundError> {
        // The choice is one between ports, so without faults, and by how soon each message is answered.
        let workload = match self.experiment.workload {
            AnyWorkload::Load(_) | AnyWorkload::Stream(_) => AnyWorkload::PingPong(PingPong {}),
            other => other,
        };
        let plain = Experiment { fault: None, workload, ..self.experiment.clone() };
        let mut notes: Vec<(PathId, String)> = Vec::new();
        for cell in self.experiment.cells.iter().filter(|cell| cell.path.is_xdp()) {
            if notes.iter().any(|(path, _)| *path == cell.path) {
                continue;
            }
            let setup = plain.setup(cell, self.bed, self.token, 0, None);
            let (choice, note) = xdp_choice::choose(self.bed, self.clock, &setup, &mut self.buffer)?;
            self.observer.note(&note);
            self.xdp.extend(choice.map(|choice| (cell.path, choice)));
            notes.push((cell.path, note));
        }
        Ok(notes)
    }

    /// All rounds of all cells, unless something ends them early: then why.
    fn rounds(&mut self, cells: &mut [CellOutcome]) -> Result<(), String> {
        let rounds = self.experiment.effective_rounds();
        let mut order = Order::new(self.experiment.seed);
        let mut line_ns = self.probe_line();
        let (per_round, variations) = (cells.len(), self.variations());
        let total = per_round * rounds as usize;
        for index in 0..rounds {
            let mut position = 0;
            for variation in order.shuffled(variations) {
                if interrupted() {
                    return Ok(());
                }
                let notes = self.vary(variation)?;
                for which in order.shuffled(per_round / variations) {
                    let cell = &mut cells[which * variations + variation];
                    cell.note(&notes);
                    let place = Place { index, position, rounds, line_before_ns: line_ns };
                    position += 1;
                    if interrupted() {
                        return Ok(());
                    }
                    if cell.failure.is_some() {
                        continue;
                    }
                    let done = index as usize * per_round + place.position as usize;
                    self.observer.cell(done, total, &cell.describe());
                    match self.cell_round(cell, &place) {
                        Ok(line_after_ns) => {
                            line_ns = line_after_ns;
                            self.write_raw(cell, index)?;
                        }
                        Err(error) if error.ends_experiment() => return Err(error.to_string()),
                        Err(error) => cell.failure = Some(error.to_string()),
                    }
                }
            }
        }
        Ok(())
    }

    fn vary(&mut self, variation: usize) -> Result<Vec<String>, String> {
        match &mut self.settings {
            Some(settings) if !self.experiment.variations.is_empty() => settings.set(variation),
            _ => Ok(Vec::new()),
        }
    }

    /// One round of one cell; gives the cache-line probe taken after it.
    fn cell_round(&mut self, cell: &mut CellOutcome, place: &Place) -> Result<Option<f64>, RoundError> {
        let setup = {
            let xdp = self.xdp.get(&cell.spec.path).cloned();
            self.experiment.setup(&cell.spec, self.bed, self.token, place.index, xdp)
        };
        let plan = self.plan(place);
        let cpus = self.cpus();
        let (steal_before, began) = (Steal::now(&cpus), self.clock.now_ticks());
        let result = round::run(self.bed, self.clock, &setup, &plan, &mut self.buffer)?;
        let elapsed_ns = self.clock.ns(self.clock.now_ticks() - began);
        let steal_ppm = Steal::now(&cpus).ppm_since(&steal_before, elapsed_ns, cpus.len());
        let line_after_ns = self.probe_line();
        let line_ns = match (place.line_before_ns, line_after_ns) {
            (Some(before), Some(after)) => Some((before + after) / 2.0),
            (one, other) => one.or(other),
        };
        self.keep(cell, place, &result, steal_ppm, line_ns);
        Ok(line_after_ns)
    }

    fn keep(
        &mut self,
        cell: &mut CellOutcome,
        place: &Place,
        result: &RoundResult,
        steal_ppm: f64,
        line_ns: Option<f64>,
    ) {
        let outcome = &result.outcome;
        let RoundCounts { figures, samples, lost } = cell.add(self.clock, &self.buffer, result);
        let mut marks = Vec::new();
        if steal_ppm > STEAL_LIMIT_PPM {
            marks.push("steal".to_owned());
        }
        if outcome.migrated > 0 {
            marks.push("migrated".to_owned());
        }
        cell.rounds.push(record::Round {
            index: place.index,
            position: place.position,
            started_ns: self.clock.ns_since_calibration(outcome.started_ticks),
            duration_ns: outcome.duration_ns,
            warm_up_messages: outcome.warm_up_messages,
            warm_up_ns: outcome.warm_up_ns,
            samples,
            lost,
            p50_ns: figures.p50_ns,
            p99_ns: figures.p99_ns,
            blocks: figures.blocks,
            steal_ppm,
            voluntary_switches: outcome.usage.voluntary_switches,
            involuntary_switches: outcome.usage.involuntary_switches,
            responder_voluntary_switches: result.responder.outcome.voluntary_switches,
            responder_involuntary_switches: result.responder.outcome.involuntary_switches,
            cpu_initiator_ns_per_message: cell.cpu_initiator_ns_per_message(outcome.usage.cpu_ns, outcome.sent),
            cpu_responder_ns_per_message: per_message(
                result.responder.outcome.cpu_ns,
                result.responder.outcome.messages,
            ),
            cache_line_ns: line_ns,
            marks,
        });
    }

    fn begin_raw(&mut self) -> Result<(), String> {
        const HEADER: &str = "path,tx,rx,size_bytes,ip_version,round,sent_ns,rtt_ns";
        // Only where there are any, so that readers of other experiments find what they know.
        let variation = if self.experiment.variations.is_empty() { "" } else { ",variation" };
        let rate = self.experiment.workload.rate_per_second().map_or("", |_| ",rate_per_second,intended_ns");
        self.raw_samples.as_mut().map_or(Ok(()), |out| writeln!(out, "{HEADER}{rate}{variation}")).map_err(raw_failure)
    }

    /// One line a message: the cell, the round, the send stamp, the whole round trip from it, for a load its rate and when the message was to
    /// be sent, and the values of settings that are varied.
    fn write_raw(&mut self, cell: &CellOutcome, round: u32) -> Result<(), String> {
        let Some(out) = &mut self.raw_samples else {
            return Ok(());
        };
        let values: Vec<_> = cell.variation.iter().map(|(id, value)| format!("{id}={value}")).collect();
        let values = if values.is_empty() { String::new() } else { format!(",{}", values.join(" ")) };
        let cell = cell.spec.cell();
        let [tx, rx] = [&cell.tx, &cell.rx].map(|mode| mode.as_deref().unwrap_or_default());
        let ip = cell.ip_version.map(|version| version.to_string()).unwrap_or_default();
        for sample in self.buffer.samples() {
            let sent_ticks = sample.intended_ticks + u64::from(sample.sent_after_ticks);
            let sent_ns = self.clock.ns_since_calibration(sent_ticks);
            let rtt_ns = self.clock.ns(u64::from(sample.received_after_ticks.saturating_sub(sample.sent_after_ticks)));
            let intended_ns = self.clock.ns_since_calibration(sample.intended_ticks);
            let of_load = cell.rate_per_second.map_or_else(String::new, |rate| format!(",{rate},{intended_ns}"));
            let Cell { path, size_bytes, .. } = &cell;
            writeln!(out, "{path},{tx},{rx},{size_bytes},{ip},{round},{sent_ns},{rtt_ns}{of_load}{values}")
                .map_err(raw_failure)?;
        }
        Ok(())
    }

    fn end_raw(&mut self) -> Result<(), String> {
        self.raw_samples.as_mut().map_or(Ok(()), |out| out.flush()).map_err(raw_failure)
    }

    fn plan(&self, place: &Place) -> RoundPlan {
        // The first rounds take the remainder, so that the sum is what was asked for.
        let share = |total: u64| {
            let rounds = u64::from(place.rounds);
            total / rounds + u64::from(u64::from(place.index) < total % rounds)
        };
        let (time_ns, messages) = match self.experiment.amount {
            Amount::TimeNs(ns) => (Some(share(ns)), None),
            Amount::Messages(messages) => (None, Some(share(messages))),
        };
        RoundPlan {
            warm_up_messages: self.experiment.warm_up_messages,
            warm_up_ns: self.experiment.warm_up_ns,
            messages,
            time_ns,
            timeout_ns: self.experiment.timeout_ns,
            cpu: self.experiment.cpu_initiator,
        }
    }

    fn cpus(&self) -> Vec<u32> {
        let far = self.bed.responder.cpu.filter(|_| self.bed.responder.same_machine);
        let mut cpus = self.experiment.cpu_initiator.into_iter().chain(far).collect::<Vec<_>>();
        cpus.dedup();
        cpus
    }

    fn probe_line(&mut self) -> Option<f64> {
        let (own, other) = self.same_machine_cpus()?;
        let line_ns = cache_line_ns(self.clock, own, other)?;
        self.cache_line_probes_ns.push(line_ns);
        Some(line_ns)
    }

    fn machine(&self, wake_up: Option<f64>) -> record::Machine {
        let mut probes = self.cache_line_probes_ns.clone();
        probes.sort_by(f64::total_cmp);
        record::Machine {
            wake_up_ns: wake_up,
            cache_line_ns: probes.get(probes.len() / 2).copied(),
            cache_line_range_ns: probes.first().copied().zip(probes.last().copied()),
            tick_hz: None,
            same_machine: self.bed.responder.same_machine,
        }
    }
}

fn raw_failure(source: io::Error) -> String {
    format!("write the raw samples: {source}; what was measured until then is in the results")
}

/// Where in the experiment a cell's round stands.
struct Place {
    index: u32,
    position: u32,
    rounds: u32,
    line_before_ns: Option<f64>,
}
