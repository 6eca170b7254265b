//! What stands below the table: the comparison with the kernel, the machine, notes and warnings.

use std::collections::BTreeMap;

use super::style::{Ink, by_size};
use super::units::{cell_name, is_kernel_path, printable, quantile_us, time, us, variation, wrapped};
use crate::compare::{CompareOptions, Figure, Quantity, VariationComparison, compare_variations, verdict_text};
use crate::record::{Cell, Latency, Quantile, Record, Round, Run, Warning};
use crate::statistics::trend::median;

/// For each size: the best path that avoids the kernel's stack against the kernel's best.
///
/// Against the kernel's best and no other: a path that looks eight times faster than blocking sockets has
/// usually only removed the wake-up.
pub(super) fn verdict_lines(record: &Record) -> Vec<String> {
    let mut lines = Vec::new();
    // Latencies at different rates are not compared.
    let closed_loop = (record.experiment.latency == Latency::HalfRtt).then(|| by_size(record));
    for (size_bytes, runs) in closed_loop.into_iter().flatten() {
        let best = |kernel: bool| {
            runs.iter().find(|run| run.latency_ns.p50.is_some() && is_kernel_path(&run.cell.path) == kernel)
        };
        let (Some(near), Some(kernel)) = (best(false), best(true)) else {
            continue;
        };
        let (near_name, kernel_name) = (cell_name(&near.cell), cell_name(&kernel.cell));
        lines
            .extend(ratio_within_rounds(near, kernel).map(|ratio| {
                format!("{size_bytes} B: p50 of {near_name} is {ratio} {kernel_name}, the kernel's best")
            }));
    }
    lines.extend(record.runs.iter().filter_map(forwarder_line));
    lines.extend(variation_lines(record));
    if record.experiment.latency != Latency::None {
        lines.extend(legend(record));
    }
    lines
}

/// The medians of two cells against each other, round by round: what changed on the machine between rounds is in both. With more than one round, the
/// least and the greatest ratio too. `None`: no round has both.
fn ratio_within_rounds(near: &Run, kernel: &Run) -> Option<String> {
    let ratio = |round: &Round| {
        let of_kernel = kernel.rounds.iter().find(|other| other.index == round.index)?;
        Some(round.p50_ns? / of_kernel.p50_ns.filter(|ns| *ns > 0.0)?)
    };
    let ratios: Vec<f64> = near.rounds.iter().filter_map(ratio).collect();
    let middle = median(&ratios)?;
    let (least, greatest) = ratios.iter().fold((middle, middle), |(low, high), at| (low.min(*at), high.max(*at)));
    let range = if ratios.len() > 1 {
        format!(" ({least:.2}..{greatest:.2} in {} rounds)", ratios.len())
    } else {
        String::new()
    };
    Some(format!("{middle:.2}{range} x"))
}

/// What stands in the table in place of a quantile.
fn legend(record: &Record) -> Vec<String> {
    const SHOWN: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];
    let shows = |text: &str| record.runs.iter().any(|run| SHOWN.iter().any(|&p| quantile_us(run, p) == text));
    let mut lines = Vec::new();
    if shows("-") {
        lines.push("-: fewer than 10 samples lie beyond; measure longer to see it".to_owned());
    }
    if record.experiment.latency == Latency::HalfRtt {
        lines.push("tails: half RTT shows half of a stall of one end; double p99.9 and beyond to have it".to_owned());
    }
    if shows("lost") {
        lines.push("lost: so many messages were lost that this quantile is one of them".to_owned());
    }
    lines
}

/// What other values of the settings that were varied come to, against those that were named first.
fn variation_lines(record: &Record) -> Vec<String> {
    let comparisons = compare_variations(record, CompareOptions::default());
    let line = |VariationComparison { first, other }: &VariationComparison| {
        let cell = Cell { variation: BTreeMap::new(), ..first.clone() };
        let figures = [Quantity::P50, Quantity::P99].map(|quantity| figure_text(quantity, other.figure(quantity)));
        let others = other.figures.iter().filter(|figure| !matches!(figure.quantity, Quantity::P50 | Quantity::P99));
        let told = others.filter(|figure| figure.verdict.is_difference());
        let told = told.map(|figure| figure_text(figure.quantity, Some(figure)));
        let figures = figures.into_iter().chain(told).collect::<Vec<_>>().join("; ");
        let (one, other) = (variation(&other.cell), variation(first));
        format!("{} {} B, {one} against {other}: {figures}", cell_name(&cell), cell.size_bytes)
    };
    let mut lines: Vec<String> = comparisons.iter().map(line).collect();
    let mut figures = comparisons.iter().flat_map(|comparison| &comparison.other.figures);
    if figures.any(Figure::is_only_alone) {
        lines.push("(alone): a difference of this figure, which does not count among all figures together".to_owned());
    }
    lines
}

/// One figure of a variation: `p50 1.300 x (1.281..1.320), SLOWER`.
fn figure_text(quantity: Quantity, figure: Option<&Figure>) -> String {
    let name = quantity.name();
    match figure {
        None => format!("{name} -, too few samples a round"),
        Some(figure) if quantity == Quantity::Loss => {
            format!("{name} {:.3} % after {:.3} %, {}", figure.b, figure.a, verdict_text(figure))
        }
        Some(figure) if figure.is_lost() => format!("{name} {}", verdict_text(figure)),
        Some(figure) => {
            let interval = figure.interval.map(|(low, high)| format!(" ({low:.3}..{high:.3})")).unwrap_or_default();
            format!("{name} {:.3} x{interval}, {}", figure.change, verdict_text(figure))
        }
    }
}

fn forwarder_line(run: &Run) -> Option<String> {
    let quantiles = run.forwarder_ns.as_ref()?;
    let at = |percent| us(Quantile::at(quantiles, percent).and_then(|line| line.value_ns));
    Some(format!(
        "{} {} B: the forwarder's own latency, one way, is p50 {} us, p99 {} us, max {} us",
        cell_name(&run.cell),
        run.cell.size_bytes,
        at(50.0),
        at(99.0),
        at(100.0),
    ))
}

/// Costs of the machine and the clock, without which no figure above can be judged.
pub(super) fn machine_lines(record: &Record, width: usize) -> Vec<String> {
    let machine = &record.machine;
    let mut facts = Vec::new();
    if let Some(wake_up_ns) = machine.wake_up_ns {
        facts.push(format!("wake-up {} (in every blocking path)", time(wake_up_ns)));
    }
    match (machine.cache_line_ns, machine.cache_line_range_ns) {
        (Some(median_ns), Some((low_ns, high_ns))) => {
            facts.push(format!("cache line {} one way ({low_ns:.0}..{high_ns:.0})", time(median_ns)));
        }
        (Some(median_ns), None) => facts.push(format!("cache line {} one way", time(median_ns))),
        (None, _) => {}
    }
    if let Some(tick_hz) = machine.tick_hz {
        facts.push(format!("tick {tick_hz} Hz"));
    }
    let clock = &record.clock;
    let clock_line = format!(
        "clock    {}, {:.3} GHz, a stamp costs {:.1} ns, drift {:+.2} ppm; {}",
        printable(&clock.source),
        clock.hz as f64 / 1e9,
        clock.stamp_cost_ns,
        clock.drift_ppm,
        printable(&clock.reason)
    );
    let mut lines = Vec::new();
    if !facts.is_empty() {
        lines.extend(hanging("machine  ", &facts.join(", "), width));
    }
    lines.extend(hanging("clock    ", clock_line.trim_start_matches("clock").trim_start(), width));
    lines.extend(hanging("cpus     ", &cpus(record), width));
    lines.extend(hanging("cable    ", &printable(&record.experiment.cable_detail), width));
    if let Some(fault) = &record.experiment.fault {
        lines.extend(hanging("faults   ", &printable(fault), width));
    }
    lines
}

/// Where the two ends ran, and why there.
fn cpus(record: &Record) -> String {
    let experiment = &record.experiment;
    let end = |cpu: Option<u32>| cpu.map_or_else(|| "not pinned".to_owned(), |cpu| format!("CPU {cpu}"));
    let ends = format!("initiator {}, responder {}", end(experiment.cpu_initiator), end(experiment.cpu_responder));
    match &experiment.cpu_choice {
        Some(choice) => format!("{ends}; chosen: {}", printable(choice)),
        None => ends,
    }
}

/// Notes and warnings; what several cells share is said once with their names.
pub(super) fn notes(record: &Record, width: usize, ink: Ink) -> Vec<String> {
    let mut lines = Vec::new();
    let mut shared: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in &record.runs {
        for note in &run.notes {
            shared.entry(note).or_default().push(run);
        }
    }
    for (note, runs) in shared {
        let text = format!("{}: {}", names(record, &runs), printable(note));
        lines.extend(hanging("note     ", &text, width));
    }
    for group in warning_groups(record) {
        let code = printable(group.code);
        for (index, (text, runs)) in group.seen.iter().enumerate() {
            let whose = if runs.is_empty() { String::new() } else { format!("{}: ", names(record, runs)) };
            let text = format!("{code}: {whose}{}", printable(text));
            let label = if index == 0 { "WARNING  " } else { "         " };
            let mut block = hanging(label, &text, width);
            block[0] = block[0].replacen("WARNING", &ink.alarm("WARNING"), 1);
            lines.extend(block);
        }
        lines.extend(hanging("    try  ", &printable(group.advice), width));
    }
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

/// Warnings of one code with one advice: what was seen, and on which runs (none for the whole experiment).
struct WarningGroup<'a> {
    code: &'a str,
    advice: &'a str,
    seen: Vec<(&'a str, Vec<&'a Run>)>,
}

fn warning_groups(record: &Record) -> Vec<WarningGroup<'_>> {
    let of_record = record.warnings.iter().map(|warning| (None, warning));
    let of_runs = record.runs.iter().flat_map(|run| run.warnings.iter().map(move |warning| (Some(run), warning)));
    let mut groups: Vec<WarningGroup<'_>> = Vec::new();
    for (run, Warning { code, text, advice }) in of_record.chain(of_runs) {
        let known = groups.iter().position(|group| group.code == code && group.advice == advice);
        let index = known.unwrap_or_else(|| {
            groups.push(WarningGroup { code, advice, seen: Vec::new() });
            groups.len() - 1
        });
        let seen = &mut groups[index].seen;
        match seen.iter_mut().find(|(known, runs)| *known == text && !runs.is_empty()) {
            Some((_, runs)) => runs.extend(run),
            None => seen.push((text, run.into_iter().collect())),
        }
    }
    groups
}

/// The cells that share a note, as short as it can be said: `all cells`, a whole path, or cells with sizes.
pub(crate) fn names(record: &Record, runs: &[&Run]) -> String {
    if runs.len() == record.runs.len() && runs.len() > 1 {
        return "all cells".to_owned();
    }
    let mut parts: Vec<(String, Vec<String>)> = Vec::new();
    for run in runs {
        let of_path = |other: &&Run| other.cell.path == run.cell.path;
        let whole_path =
            record.runs.iter().filter(of_path).count() == runs.iter().filter(|other| of_path(other)).count();
        let name = if whole_path { run.cell.path.clone() } else { cell_name(&run.cell) };
        let name = printable(&name);
        let size = (!whole_path).then(|| run.cell.size_bytes.to_string());
        match parts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sizes)) => sizes.extend(size),
            None => parts.push((name, size.into_iter().collect())),
        }
    }
    let text = |(name, sizes): &(String, Vec<String>)| match sizes.as_slice() {
        [] => name.clone(),
        sizes => format!("{name} {} B", sizes.join("/")),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// `label` followed by text that is wrapped and indented by the label's width.
pub(crate) fn hanging(label: &str, text: &str, width: usize) -> Vec<String> {
    let indent = label.chars().count();
    let room = width.saturating_sub(indent).max(30);
    let mut lines: Vec<String> = wrapped(text, room).into_iter().map(|line| format!("{:indent$}{line}", "")).collect();
    match lines.first_mut() {
        Some(first) => *first = format!("{label}{}", &first[indent..]),
        None => lines.push(label.trim_end().to_owned()),
    }
    lines
}
