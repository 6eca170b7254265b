//! The measurement: blocks of all settings in turns, then combinations of those that may interact.

use crate::estimate::{Centre, Compared, Scale};
use crate::result::{Candidate, FORMAT, Measured, OnSubject, Pair, Worth};
use crate::rounds::{Block, Level, blocks};
use crate::subject::{Figure, Figures, Subject};
use crate::verdict::{Effect, Strictness, Test, judge};
use crate::{interacts, screening};

/// What gives settings their values.
pub trait Switch {
    /// Gives exactly these settings, by their places among the candidates, the wanted values; all others have what was
    /// found.
    ///
    /// # Errors
    /// See [`SwitchError`]. Except for `NotBack`, all settings have what was found then.
    fn set(&mut self, wanted: &[usize]) -> Result<(), SwitchError>;
}

/// Why settings do not have the values they should have.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The host does not take them.
    #[error("{why}")]
    Refused {
        /// What the host said.
        why: String,
    },
    /// What was written could not be put back.
    #[error("{why}")]
    NotBack {
        /// Which values, and why.
        why: String,
    },
}

/// Told what happens.
pub trait Observer {
    /// So many runs of all are done, and this is next.
    fn progress(&mut self, done: usize, total: usize, what: &str);
    /// Something to know at once.
    fn note(&mut self, text: &str);
}

/// How much is measured, and how sure verdicts must be.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Blocks of four runs of each setting.
    pub rounds: usize,
    /// Passes over the combinations of settings that may interact; 0 leaves them out.
    pub passes: usize,
    /// Seed of all orders.
    pub seed: u64,
    /// How sure verdicts must be.
    pub strictness: Strictness,
}

/// Measures. Whatever ends it early, all settings have what was found when it returns, unless `failure` says otherwise, and what was measured
/// by then is in the result.
pub fn measure(
    candidates: &[Candidate],
    switch: &mut dyn Switch,
    subjects: &mut [Box<dyn Subject>],
    schedule: Schedule,
    observer: &mut dyn Observer,
    must_stop: &dyn Fn() -> bool,
) -> Measured {
    let names: Vec<String> = subjects.iter().map(|subject| subject.name()).collect();
    let mut bench = Bench { candidates, switch, subjects, observer, must_stop, done: 0, total: 0 };
    let mut singles = Singles::new(candidates.len(), names.len());
    let mut ended = bench.all_blocks(&mut singles, schedule);
    let settings = singles.worth(candidates, &names, schedule.strictness);
    let mut pairs = Vec::new();
    let mut notes = Vec::new();
    if ended.is_ok() {
        let chosen = chosen(&settings);
        ended = bench.all_combinations(&chosen, &names, schedule, &mut pairs, &mut notes);
    }
    let back = bench.switch.set(&[]).map_err(|error| End::Failed(error.to_string()));
    let failure = match (ended, back) {
        (_, Err(End::Failed(why))) | (Err(End::Failed(why)), _) => Some(why),
        _ => None,
    };
    Measured {
        format: FORMAT,
        seed: schedule.seed,
        rounds: schedule.rounds,
        subjects: names,
        settings,
        pairs,
        notes,
        interrupted: must_stop(),
        failure,
    }
}

/// The figures of one run of each subject.
type Run = Vec<Figures>;

/// Why a measurement ends before its time.
enum End {
    Stopped,
    Failed(String),
}

/// Why a run gave nothing.
enum RunError {
    End(End),
    /// Only these settings are to blame.
    Setting(String),
}

struct Bench<'a> {
    candidates: &'a [Candidate],
    switch: &'a mut dyn Switch,
    subjects: &'a mut [Box<dyn Subject>],
    observer: &'a mut dyn Observer,
    must_stop: &'a dyn Fn() -> bool,
    done: usize,
    total: usize,
}

impl Bench<'_> {
    fn all_blocks(&mut self, singles: &mut Singles, schedule: Schedule) -> Result<(), End> {
        let blocks = blocks(self.candidates.len(), schedule.rounds, schedule.seed);
        self.total = blocks.len() * 4;
        for block in blocks {
            if singles.failures[block.setting].is_some() {
                self.done += 4;
                continue;
            }
            match self.block(&block) {
                Ok(runs) => singles.add(&block, &runs),
                Err(RunError::End(end)) => return Err(end),
                Err(RunError::Setting(why)) => {
                    self.observer.note(&format!("{} is given up: {why}", self.candidates[block.setting].id));
                    singles.failures[block.setting] = Some(why);
                }
            }
        }
        Ok(())
    }

    fn block(&mut self, block: &Block) -> Result<Vec<Run>, RunError> {
        let mut runs = Vec::with_capacity(block.levels.len());
        for level in block.levels {
            let wanted: &[usize] = if level == Level::Wanted { &[block.setting] } else { &[] };
            runs.push(self.run(wanted)?);
        }
        Ok(runs)
    }

    /// All subjects once, with the wanted values of these settings.
    fn run(&mut self, wanted: &[usize]) -> Result<Run, RunError> {
        let ids: Vec<&str> = wanted.iter().map(|at| self.candidates[*at].id.as_str()).collect();
        let what = if ids.is_empty() { "as found".to_owned() } else { ids.join(" + ") };
        self.observer.progress(self.done, self.total, &what);
        self.done += 1;
        self.stop_if_asked()?;
        self.switch.set(wanted).map_err(|error| match error {
            SwitchError::Refused { why } => RunError::Setting(why),
            SwitchError::NotBack { why } => RunError::End(End::Failed(why)),
        })?;
        match self.subjects.iter_mut().map(|subject| subject.run()).collect::<Result<Run, _>>() {
            Ok(run) => {
                self.stop_if_asked()?;
                Ok(run)
            }
            Err(error) => {
                self.stop_if_asked()?;
                let why = error.to_string();
                if wanted.is_empty() || self.fails_as_found()? {
                    return Err(RunError::End(End::Failed(why)));
                }
                Err(RunError::Setting(format!("with it, {why}")))
            }
        }
    }

    /// Whether a subject fails also with all values as found: then no setting is to blame.
    fn fails_as_found(&mut self) -> Result<bool, RunError> {
        self.switch.set(&[]).map_err(|error| RunError::End(End::Failed(error.to_string())))?;
        Ok(self.subjects.iter_mut().any(|subject| subject.run().is_err()))
    }

    fn stop_if_asked(&self) -> Result<(), RunError> {
        if (self.must_stop)() { Err(RunError::End(End::Stopped)) } else { Ok(()) }
    }

    fn all_combinations(
        &mut self,
        chosen: &[usize],
        names: &[String],
        schedule: Schedule,
        pairs: &mut Vec<Pair>,
        notes: &mut Vec<String>,
    ) -> Result<(), End> {
        let combinations = screening::combinations(chosen.len());
        if combinations.is_empty() || schedule.passes < crate::estimate::PAIRS_MIN {
            return Ok(());
        }
        let passes = screening::passes(combinations.len(), schedule.passes, schedule.seed ^ 0x5eed);
        self.total += passes.len() * combinations.len();
        let mut results: Vec<Vec<Run>> = Vec::new();
        for pass in passes {
            let mut runs: Vec<Run> = vec![Run::new(); combinations.len()];
            for row in pass {
                let wanted = combinations[row].iter().zip(chosen).filter(|(is_wanted, _)| **is_wanted);
                let wanted: Vec<usize> = wanted.map(|(_, setting)| *setting).collect();
                match self.run(&wanted) {
                    Ok(run) => runs[row] = run,
                    Err(RunError::End(end)) => return Err(end),
                    Err(RunError::Setting(why)) => {
                        let ids: Vec<_> = wanted.iter().map(|at| self.candidates[*at].id.as_str()).collect();
                        notes.push(format!("No pairs were measured: {} together failed: {why}", ids.join(" and ")));
                        return Ok(());
                    }
                }
            }
            results.push(runs);
        }
        let screened = Screened { candidates: self.candidates, chosen, combinations: &combinations, results: &results };
        *pairs = screened.pairs(names, schedule.strictness);
        Ok(())
    }
}

/// Pairs of one subject: figure, found and wanted.
type Figured = Vec<(Figure, (f64, f64))>;

/// Pairs of runs with and without each setting.
struct Singles {
    /// By setting and subject.
    pairs: Vec<Vec<Figured>>,
    failures: Vec<Option<String>>,
}

impl Singles {
    fn new(settings: usize, subjects: usize) -> Self {
        Self { pairs: vec![vec![Vec::new(); subjects]; settings], failures: vec![None; settings] }
    }

    fn add(&mut self, block: &Block, runs: &[Run]) {
        for (found, wanted) in block.pairs() {
            for (subject, (found, wanted)) in runs[found].iter().zip(&runs[wanted]).enumerate() {
                let both = found.iter().filter_map(|(figure, found)| Some((*figure, (*found, *wanted.get(figure)?))));
                self.pairs[block.setting][subject].extend(both);
            }
        }
    }

    fn worth(&self, candidates: &[Candidate], names: &[String], strictness: Strictness) -> Vec<Worth> {
        let tests: Vec<Vec<Test<usize>>> = self.pairs.iter().map(|of| tests(of)).collect();
        let judged = judge(&tests, strictness);
        let all = candidates.iter().zip(judged).zip(&self.failures);
        all.map(|((candidate, effects), failure)| Worth {
            candidate: candidate.clone(),
            on: by_subject(names, effects),
            failure: failure.clone(),
        })
        .collect()
    }
}

/// The figures of one setting, each of one subject.
fn tests(of: &[Figured]) -> Vec<Test<usize>> {
    let mut tests = Vec::new();
    for (subject, pairs) in of.iter().enumerate() {
        let mut figures: Vec<Figure> = pairs.iter().map(|(figure, _)| *figure).collect();
        figures.sort_unstable();
        figures.dedup();
        for figure in figures {
            let of_figure: Vec<_> = pairs.iter().filter(|(of, _)| *of == figure).map(|(_, pair)| *pair).collect();
            tests.extend(Compared::of(&of_figure).map(|compared| Test { key: subject, figure, compared }));
        }
    }
    tests
}

fn by_subject(names: &[String], effects: Vec<(usize, Effect)>) -> Vec<OnSubject> {
    let of = |(at, name): (usize, &String)| {
        let effects: Vec<_> =
            effects.iter().filter(|(subject, _)| *subject == at).map(|(_, one)| one.clone()).collect();
        (!effects.is_empty()).then(|| OnSubject { subject: name.clone(), effects })
    };
    names.iter().enumerate().filter_map(of).collect()
}

/// The settings whose combinations are measured: those with an effect, the surest first, and those that are named as
/// interacting with another candidate.
fn chosen(settings: &[Worth]) -> Vec<usize> {
    let sureness = |worth: &Worth| {
        let sure = worth.effects().filter(|effect| effect.verdict.is_effect());
        sure.filter_map(|effect| Some(effect.percent?.abs() / effect.visible_percent?)).fold(0.0, f64::max)
    };
    let usable = |at: &usize| settings[*at].failure.is_none();
    let mut chosen: Vec<usize> = (0..settings.len()).filter(usable).filter(|at| settings[*at].has_effect()).collect();
    chosen.sort_by(|one, other| sureness(&settings[*other]).total_cmp(&sureness(&settings[*one])));
    for one in (0..settings.len()).filter(usable) {
        let id = &settings[one].candidate.id;
        let mut others = (0..settings.len()).filter(usable).filter(|other| *other != one);
        if !chosen.contains(&one) && others.any(|other| interacts::are_named(id, &settings[other].candidate.id)) {
            chosen.push(one);
        }
    }
    chosen.truncate(screening::FACTORS_MAX);
    chosen
}

/// Results of all combinations.
struct Screened<'a> {
    candidates: &'a [Candidate],
    chosen: &'a [usize],
    combinations: &'a [screening::Combination],
    /// By pass and combination.
    results: &'a [Vec<Run>],
}

impl Screened<'_> {
    fn pairs(&self, names: &[String], strictness: Strictness) -> Vec<Pair> {
        let count = self.chosen.len();
        let places: Vec<(usize, usize)> =
            (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other))).collect();
        let tests: Vec<Vec<Test<usize>>> = places.iter().map(|pair| self.tests(*pair, names.len())).collect();
        let judged = judge(&tests, strictness);
        let id = |place: usize| self.candidates[self.chosen[place]].id.clone();
        let all = places.into_iter().zip(judged);
        all.map(|((one, other), effects)| Pair { one: id(one), other: id(other), on: by_subject(names, effects) })
            .collect()
    }

    fn tests(&self, (one, other): (usize, usize), subjects: usize) -> Vec<Test<usize>> {
        let mut tests = Vec::new();
        for subject in 0..subjects {
            let Some(first) = self.results.first().and_then(|runs| runs.first()) else { continue };
            for figure in first[subject].keys() {
                tests.extend(self.compared((one, other), subject, *figure).map(|compared| Test {
                    key: subject,
                    figure: *figure,
                    compared,
                }));
            }
        }
        tests
    }

    /// One figure's interaction over all passes; `None` where a run has not got the figure.
    fn compared(&self, (one, other): (usize, usize), subject: usize, figure: Figure) -> Option<Compared> {
        let of_pass = |runs: &Vec<Run>| runs.iter().map(|run| run[subject].get(&figure).copied()).collect();
        let passes: Vec<Vec<f64>> = self.results.iter().map(of_pass).collect::<Option<_>>()?;
        let is_above_zero = passes.iter().flatten().all(|value| *value > 0.0);
        let scale = if is_above_zero { Scale::Ratio } else { Scale::Difference };
        let interaction = |values: &Vec<f64>| {
            let values: Vec<f64> = values.iter().map(|value| scale.of_one(*value)).collect();
            screening::interaction(self.combinations, &values, one, other)
        };
        let interactions: Vec<f64> = passes.iter().map(interaction).collect();
        // The combination of none is the first.
        let found: Vec<f64> = passes.iter().map(|values| values[0]).collect();
        let found = nearwire_report::statistics::trend::median(&found)?;
        Some(Compared { found, scale, centre: Centre::of(&interactions)?, pairs: interactions.len() })
    }
}
