//! What is going to be measured, and what it came to, as text.

use std::fmt::Write as _;
use std::time::Duration;

use comfy_table::{CellAlignment, Table};
use nearwire_host::{Write, catalogue};
use nearwire_worth::Figure;
use nearwire_worth::result::{Measured, OnSubject, Pair, Worth};
use nearwire_worth::verdict::{Effect, Strictness, Verdict};
use nearwire_worth::words::{change_in_words, effect_in_words as cell, interval_in_words};

use super::candidates::Candidates;
use super::{RUNS_OF_ROUND, Told};
use crate::args::tune::MeasureArgs;
use crate::output::{terminal_width, wrapped};

/// Values longer than this break a table.
const VALUE_CHARACTERS_MAX: usize = 24;
/// So do longer names of what was measured, which may be whole command lines.
const SUBJECT_CHARACTERS_MAX: usize = 16;
/// A service that looks around every ten seconds has looked twice in a run as long as this.
const SERVICE_LOOKS_WITHIN: Duration = Duration::from_secs(20);
/// Of a path in the table.
const LINES_OF_PATH: usize = 2;

/// The settings that are going to be measured, and those that are not.
pub(super) fn before(args: &MeasureArgs, candidates: &Candidates, on: &str) -> String {
    let mut text = format!("Profile {} on {on}\n", candidates.profile);
    // Writing to a string cannot fail.
    let _ = match candidates.settings.len() {
        0 => writeln!(text, "\nNothing to measure: no difference from the profile can be written while the host runs."),
        1 => writeln!(text, "\n1 setting to measure in {} rounds:", args.rounds),
        count => writeln!(text, "\n{count} settings to measure in {} rounds:", args.rounds),
    };
    let width = candidates.settings.iter().map(|setting| setting.id.len()).max().unwrap_or(0);
    for setting in &candidates.settings {
        let _ = writeln!(text, "  {:<width$}  {} -> {}", setting.id, setting.from, setting.to);
    }
    text += &of_services(args, candidates);
    if !candidates.left.is_empty() {
        text.push_str("\nNot measured:\n");
        list(&mut text, &candidates.left);
    }
    text
}

/// What short runs tell of services that look around every now and then.
fn of_services(args: &MeasureArgs, candidates: &Candidates) -> String {
    let is_service = |id: &str| catalogue::setting(id).is_some_and(|setting| setting.write == Write::Service);
    let run = args.time / (args.rounds * RUNS_OF_ROUND);
    let has_any = candidates.settings.iter().any(|setting| is_service(&setting.id));
    if !has_any || run >= SERVICE_LOOKS_WITHIN || !args.command.is_empty() {
        return String::new();
    }
    let longer = humantime::format_duration(SERVICE_LOOKS_WITHIN * args.rounds * RUNS_OF_ROUND);
    let line = format!(
        "Runs take {} ms, and what a service does less often than that is not in them, as the looks of irqbalance every 10 s: --time \
         {longer} gives runs of {} s.",
        run.as_millis(),
        SERVICE_LOOKS_WITHIN.as_secs()
    );
    format!("\n{}\n", wrapped(&line, 0, terminal_width()))
}

fn list(text: &mut String, rows: &[(String, String)]) {
    let width = rows.iter().map(|(id, _)| id.len()).max().unwrap_or(0);
    for (id, why) in rows {
        let line = format!("  {id:<width$}  {why}");
        let _ = writeln!(text, "{}", wrapped(&line, width + 4, terminal_width()));
    }
}

/// The result.
pub(super) fn after(told: &Told<'_>) -> String {
    let measured = &told.measured;
    let mut text = format!("\n{}\n", headline(measured));
    let has_figures = measured.settings.iter().flat_map(Worth::effects).next().is_some();
    if has_figures {
        let _ = writeln!(text, "\n{}", table(measured));
    }
    given_up(&mut text, measured);
    pairs(&mut text, measured);
    let width = terminal_width();
    for note in &measured.notes {
        let _ = writeln!(text, "\n{}", wrapped(note, 0, width));
    }
    text.push('\n');
    if has_figures {
        let _ = writeln!(text, "{}", wrapped(&legend(told), 0, width));
    }
    if measured.failure.is_none() {
        text.push_str("All values are as found.\n");
    }
    text
}

/// What it came to, in a line.
pub(super) fn headline(measured: &Measured) -> String {
    let has = |verdict: Verdict| {
        let with = |worth: &&Worth| worth.effects().any(|effect| effect.verdict == verdict);
        measured.settings.iter().filter(with).count()
    };
    let noise = measured.settings.iter().filter(|worth| worth.is_noise()).count();
    let total = measured.settings.len();
    let words = if total == 1 { "1 setting".to_owned() } else { format!("{total} settings") };
    let mut line =
        format!("{words} measured: {} better, {} worse in some figure", has(Verdict::Better), has(Verdict::Worse));
    if noise > 0 {
        let _ = write!(line, "; for {noise} the noise is larger than any effect that could be seen");
    }
    let given_up = measured.settings.iter().filter(|worth| worth.failure.is_some()).count();
    if given_up > 0 {
        let _ = write!(line, "; {given_up} given up");
    }
    if measured.interrupted {
        line.push_str("; interrupted");
    }
    line + "."
}

/// The figures that occur, in order.
pub(super) fn figures(measured: &Measured) -> Vec<Figure> {
    let mut figures: Vec<Figure> =
        measured.settings.iter().flat_map(Worth::effects).map(|effect| effect.figure).collect();
    figures.sort_unstable();
    figures.dedup();
    figures
}

/// A line of each setting, and below it two lines of each path: each figure's change with its verdict, and the interval.
pub(super) fn table(measured: &Measured) -> String {
    let figures = figures(measured);
    let settings = measured.by_gain();
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["setting, path"].into_iter().chain(figures.iter().map(|figure| figure.name())));
    for on in settings.iter().flat_map(|worth| &worth.on) {
        let path = format!("  {}", short(&on.subject, SUBJECT_CHARACTERS_MAX));
        let of_figure = |figure: &Figure| on.effect(*figure).map_or_else(|| "-".to_owned(), in_two_lines);
        table.add_row([path].into_iter().chain(figures.iter().map(of_figure)));
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if at > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut rows = table.lines();
    let mut lines: Vec<String> = rows.by_ref().take(1).collect();
    for worth in settings.into_iter().filter(|worth| !worth.on.is_empty()) {
        lines.push(format!("{}  {}", worth.candidate.id, from_to(worth)));
        lines.extend(rows.by_ref().take(LINES_OF_PATH * worth.on.len()));
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n")
}

fn in_two_lines(effect: &Effect) -> String {
    format!("{} {}\n{}", change_in_words(effect), effect.verdict.words(), interval_in_words(effect))
}

/// A text that fits, with a mark where it was cut.
fn short(text: &str, characters_max: usize) -> String {
    match text.chars().count() > characters_max {
        true => text.chars().take(characters_max - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

pub(super) fn from_to(worth: &Worth) -> String {
    let [from, to] = [&worth.candidate.from, &worth.candidate.to].map(|value| short(value, VALUE_CHARACTERS_MAX));
    format!("{from} -> {to}")
}

fn given_up(text: &mut String, measured: &Measured) {
    let failed =
        measured.settings.iter().filter_map(|worth| Some((worth.candidate.id.clone(), worth.failure.clone()?)));
    let failed: Vec<_> = failed.collect();
    if !failed.is_empty() {
        text.push_str("\nGiven up:\n");
        list(text, &failed);
    }
}

fn pairs(text: &mut String, measured: &Measured) {
    if measured.pairs.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{}", pairs_in_words(measured));
    for (pair, on, effect) in sure_pairs(measured) {
        let line =
            format!("  {} with {}, {} {}: {}", pair.one, pair.other, on.subject, effect.figure.name(), cell(effect));
        let _ = writeln!(text, "{}", wrapped(&line, 4, terminal_width()));
    }
}

/// What the combinations came to, in a sentence.
pub(super) fn pairs_in_words(measured: &Measured) -> String {
    let looked = measured.pairs.len();
    let of = if looked == 1 { "1 pair was".to_owned() } else { format!("{looked} pairs were") };
    match sure_pairs(measured).next() {
        None => {
            format!("{of} measured in combination: of none, the effect differs measurably from the sum of the two.")
        }
        Some(_) => format!("{of} measured in combination. More (+) or less (-) than the sum of the two effects:"),
    }
}

/// Effects of pairs that differ from the sum.
pub(super) fn sure_pairs(measured: &Measured) -> impl Iterator<Item = (&Pair, &OnSubject, &Effect)> {
    measured.pairs.iter().flat_map(|pair| {
        let effects = pair.on.iter().flat_map(|on| on.effects.iter().map(move |effect| (on, effect)));
        effects.filter(|(_, effect)| effect.verdict.is_effect()).map(move |(on, effect)| (pair, on, effect))
    })
}

/// What the words mean.
pub(super) fn legend(told: &Told<'_>) -> String {
    let measured = &told.measured;
    let what =
        if told.cable.is_some() { "Half round trips and CPU time of a message" } else { "What the command prints" };
    let Strictness { false_share, least_percent, noise_percent } = Strictness::default();
    let levels = measured.settings.iter().flat_map(Worth::effects).map(|effect| effect.level);
    let level = levels.fold(f64::INFINITY, f64::min);
    let sure = if level.is_finite() { format!("{:.2} %", (1.0 - level) * 100.0) } else { "-".to_owned() };
    format!(
        "{what}, wanted against found. Intervals hold with {sure} each, so that of the effects told at most \
         {:.0} % are expected to be none. no effect: none of at least {least_percent} % was measured; noise: an effect of {noise_percent} % could not have been seen. \
         Seed {}.",
        false_share * 100.0,
        measured.seed
    )
}
