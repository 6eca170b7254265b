//! The trials of a search: rate over trial number, by what came of them, so that the reader sees how the bounds came about.

use serde::Serialize;

use super::palette::engine;
use super::plot::Scale;
use super::tables::Anchors;
use crate::dataplane::figures::{Size, by_size, loss_ratio, lost_frames, mpps, offered_fps, percent, throughput};
use crate::dataplane::record::{Cell, DataplaneRecord, Goal, Trial};
use crate::dataplane::words::{bounds_words, cell_words};
use crate::html::svg::{Anchor, Svg};
use crate::html::words::{micro, micro_number};
use crate::render::units::count;

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = WIDTH - 10.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = HEIGHT - 22.0;

/// The search of one cell.
#[derive(Debug, Serialize)]
pub(super) struct Search {
    /// Of the cell's row in the table of figures.
    id: String,
    name: String,
    family: &'static str,
    bounds: Vec<String>,
    svg: String,
    trials: Vec<Row>,
}

/// A trial in the table of trials.
#[derive(Debug, Serialize)]
struct Row {
    outcome: &'static str,
    class: &'static str,
    sign: &'static str,
    /// As [`COLUMNS`] after the outcome.
    values: Vec<String>,
}

/// Of the table of trials, after the trial's number and the outcome.
pub(super) const COLUMNS: [&str; 11] = [
    "Mpps offered",
    "for",
    "sent",
    "not sent",
    "received",
    "lost",
    "doubled",
    "reordered",
    "corrupted",
    "p50 µs",
    "p99 µs",
];

/// What came of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    KeepsAll,
    KeepsSome,
    KeepsNone,
    GeneratorShort,
}

impl Outcome {
    fn of(trial: &Trial, goals: &[Goal]) -> Self {
        let kept = goals.iter().filter(|goal| keeps(goal, trial)).count();
        match kept {
            0 if trial.unsent_frames > lost_frames(trial) => Self::GeneratorShort,
            0 => Self::KeepsNone,
            kept if kept == goals.len() => Self::KeepsAll,
            _ => Self::KeepsSome,
        }
    }

    /// Class, sign and words.
    const fn look(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::KeepsAll => ("keeps-all", "●", "keeps to every goal"),
            Self::KeepsSome => ("keeps-some", "◆", "keeps to some goals"),
            Self::KeepsNone => ("keeps-none", "×", "keeps to no goal"),
            Self::GeneratorShort => ("short", "□", "the generator was too slow"),
        }
    }
}

/// What the signs mean: class, sign and words.
pub(super) fn key() -> Vec<(&'static str, &'static str, &'static str)> {
    [Outcome::KeepsAll, Outcome::KeepsSome, Outcome::KeepsNone, Outcome::GeneratorShort].map(Outcome::look).to_vec()
}

/// Whether a trial keeps to a goal; a latency that the trial does not have keeps to it.
fn keeps(goal: &Goal, trial: &Trial) -> bool {
    let latency_ns = goal.latency.and_then(|bound| match bound.percentile {
        50.0 => trial.p50_ns,
        99.0 => trial.p99_ns,
        _ => None,
    });
    let is_fast = goal.latency.zip(latency_ns).is_none_or(|(bound, ns)| ns <= bound.at_most_ns as f64);
    is_fast && loss_ratio(trial) <= goal.loss_ratio
}

/// The searches of one size.
#[derive(Debug, Serialize)]
pub(super) struct SizeSearches {
    label: String,
    searches: Vec<Search>,
}

/// The searches of all cells that have trials.
pub(super) fn searches(record: &DataplaneRecord, anchors: &Anchors) -> Vec<SizeSearches> {
    let of_size = |size: &Size| {
        let cells = size.cells.iter().filter(|cell| !cell.trials.is_empty());
        let searches: Vec<Search> = cells.map(|cell| search(record, cell, anchors.id(cell))).collect();
        (!searches.is_empty()).then(|| SizeSearches { label: size.label(), searches })
    };
    by_size(record).iter().filter_map(of_size).collect()
}

fn search(record: &DataplaneRecord, cell: &Cell, id: &str) -> Search {
    let found = record.goals.iter().filter_map(|goal| throughput(cell, &goal.name));
    let bounds: Vec<String> = found.map(bounds_words).collect();
    let outcomes: Vec<Outcome> = cell.trials.iter().map(|trial| Outcome::of(trial, &record.goals)).collect();
    Search {
        id: id.to_owned(),
        name: cell_words(cell),
        family: engine(&cell.device),
        svg: picture(record, cell, &outcomes, &bounds),
        bounds,
        trials: cell.trials.iter().zip(&outcomes).map(|(trial, outcome)| row(trial, *outcome)).collect(),
    }
}

fn row(trial: &Trial, outcome: Outcome) -> Row {
    let (class, sign, words) = outcome.look();
    let greatest = if trial.rate_fps.is_none() { " (all it could)" } else { "" };
    let counts = [
        trial.sent_frames,
        trial.unsent_frames,
        trial.received_frames,
        lost_frames(trial),
        trial.duplicated_frames,
        trial.reordered_frames,
        trial.corrupted_frames,
    ];
    let mut values = vec![format!("{}{greatest}", mpps(Some(offered_fps(trial)))), micro(trial.duration_ns as f64)];
    values.extend(counts.map(count));
    values.extend([trial.p50_ns, trial.p99_ns].map(micro_number));
    Row { outcome: words, class, sign, values }
}

fn picture(record: &DataplaneRecord, cell: &Cell, outcomes: &[Outcome], bounds: &[String]) -> String {
    let name = format!("rate of each trial of {}, in their order", cell_words(cell));
    let mut svg = Svg::new(WIDTH, HEIGHT, &name);
    let last = record.goals.last().and_then(|goal| throughput(cell, &goal.name));
    let drawn_bounds = last.into_iter().flat_map(|found| [found.lower_fps, found.upper_fps]).flatten();
    let rates = cell.trials.iter().map(offered_fps);
    let scale = Scale::linear(rates.chain(drawn_bounds), BOTTOM, TOP);
    let ticks = scale.ticks();
    for (index, tick) in ticks.iter().enumerate() {
        let y = scale.place(*tick);
        svg.line("grid", (LEFT, y), (RIGHT, y));
        if index % 2 == 0 {
            svg.text("tick", (LEFT - 6.0, y + 4.0), Anchor::End, &mpps(Some(*tick)));
        }
    }
    if let Some(found) = last {
        let (low, high) = (found.lower_fps.unwrap_or(0.0), found.upper_fps.or(found.lower_fps).unwrap_or(0.0));
        svg.rect("band", (LEFT, scale.place(high)), (RIGHT - LEFT, scale.place(low) - scale.place(high)));
        svg.line("bound", (LEFT, scale.place(low)), (RIGHT, scale.place(low)));
    }
    let step = (RIGHT - LEFT - 16.0) / (cell.trials.len().max(2) - 1) as f64;
    for (index, (trial, outcome)) in cell.trials.iter().zip(outcomes).enumerate() {
        let at = (LEFT + 8.0 + index as f64 * step, scale.place(offered_fps(trial)));
        sign(&mut svg, *outcome, at);
    }
    svg.line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    svg.text("tick", (LEFT, BOTTOM + 16.0), Anchor::Start, "trial 1");
    svg.text("tick", (RIGHT, BOTTOM + 16.0), Anchor::End, &format!("{}", cell.trials.len()));
    svg.spot((0.0, 0.0), (WIDTH, HEIGHT), &words(cell, outcomes, bounds));
    svg.finish()
}

fn sign(svg: &mut Svg, outcome: Outcome, (x, y): (f64, f64)) {
    let class = outcome.look().0;
    match outcome {
        Outcome::KeepsAll => svg.circle(class, (x, y), 3.4),
        Outcome::KeepsSome => svg.diamond(class, (x, y), 4.4),
        Outcome::KeepsNone => {
            svg.line(class, (x - 3.4, y - 3.4), (x + 3.4, y + 3.4));
            svg.line(class, (x - 3.4, y + 3.4), (x + 3.4, y - 3.4));
        }
        Outcome::GeneratorShort => svg.rect(class, (x - 3.4, y - 3.4), (6.8, 6.8)),
    }
}

/// The search in words.
fn words(cell: &Cell, outcomes: &[Outcome], bounds: &[String]) -> String {
    let of = |wanted: Outcome| outcomes.iter().filter(|outcome| **outcome == wanted).count();
    let kinds = [Outcome::KeepsAll, Outcome::KeepsSome, Outcome::KeepsNone, Outcome::GeneratorShort];
    let told = kinds.into_iter().filter(|kind| of(*kind) > 0).map(|kind| format!("{} {}", of(kind), kind.look().2));
    let worst = cell.trials.iter().map(loss_ratio).fold(0.0, f64::max);
    format!(
        "{}, {} trials: {}; at worst {} of the frames did not come back\n{}",
        cell_words(cell),
        outcomes.len(),
        told.collect::<Vec<_>>().join(", "),
        percent(worst),
        bounds.join("\n")
    )
}
