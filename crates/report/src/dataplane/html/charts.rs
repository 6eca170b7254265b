//! Charts of a record: rates against size, latency against load, loss against rate.

use super::palette::{dashes, engine};
use super::plot::{Line, Mark, Plot, Point};
use crate::dataplane::figures::{Size, by_size, devices, frame_bits, mpps, percent, three_digits, throughput};
use crate::dataplane::record::{Cell, DataplaneRecord, Goal, LatencyAt, LossAt, State, Throughput};
use crate::dataplane::words::{bounds_words, carried_with_unit};
use crate::html::svg::tick_label;
use crate::html::words::micro;

const HEIGHT: f64 = 360.0;
/// Room between sizes and mixes, in places.
const BEFORE_MIXES: f64 = 0.6;

/// What is drawn of a rate: its unit, and the value of so many frames a second of so many bytes.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    title: &'static str,
    caption: &'static str,
    of: fn(f64, f64) -> f64,
}

pub(super) const FRAMES: Unit =
    Unit { title: "frames a second", caption: "million frames a second (Mpps)", of: |fps, _| fps / 1e6 };
pub(super) const BITS: Unit = Unit {
    title: "bits a second",
    caption: "Gb/s of frames without FCS",
    of: |fps, mean_bytes| frame_bits(fps, mean_bytes) / 1e9,
};

/// A goal's rates against size, a line for each device; `None` where there is one size only.
pub(super) fn rates(record: &DataplaneRecord, goal: &Goal, unit: Unit) -> Option<String> {
    let sizes = by_size(record);
    if sizes.len() < 2 {
        return None;
    }
    let first_mix = sizes.iter().position(Size::is_mix);
    let place =
        |index: usize| index as f64 + if first_mix.is_some_and(|mix| index >= mix) { BEFORE_MIXES } else { 0.0 };
    let line = |device: &&str| {
        let point = |(index, size): (usize, &Size)| {
            let (cell, found) = figure(size, device, goal)?;
            // A size without a figure is a gap.
            let is_joined = !size.is_mix() && index > 0 && figure(&sizes[index - 1], device, goal).is_some();
            Some(rate_point(found, place(index), is_joined, |fps| (unit.of)(fps, cell.mean_bytes)))
        };
        let points: Vec<Point> = sizes.iter().enumerate().filter_map(point).collect();
        let told = sizes.iter().filter_map(|size| {
            let (cell, found) = figure(size, device, goal)?;
            Some(format!("{} {}", size.label(), in_unit(found, cell, unit)))
        });
        let tip = format!("{device}, {}: {}", goal.name, told.collect::<Vec<_>>().join(", "));
        let line = Line { family: engine(device), dashes: dashes(device), label: (*device).to_owned(), tip, points };
        (!line.points.is_empty()).then_some(line)
    };
    let lines: Vec<Line> = devices(record).iter().filter_map(line).collect();
    let places = sizes.iter().enumerate().map(|(index, size)| (place(index), size_words(size, goal, unit)));
    let plot = Plot {
        name: format!("{} of each device against frame size, by {}", unit.title, goal.name),
        x_caption: "bytes of a frame without FCS; mixes stand apart on the right",
        y_caption: unit.caption,
        x_ticks: sizes.iter().enumerate().map(|(index, size)| (place(index), size.sizes.to_owned())).collect(),
        y_label: three_digits_short,
        is_log: false,
        height: HEIGHT,
        places: places.collect(),
        lines,
    };
    (!plot.lines.is_empty()).then(|| plot.draw())
}

/// A device's cell of a size, and what it carries by a goal.
fn figure<'a>(size: &Size<'a>, device: &str, goal: &Goal) -> Option<(&'a Cell, &'a Throughput)> {
    let cell = *size.cells.iter().find(|cell| cell.device == device)?;
    Some((cell, throughput(cell, &goal.name)?))
}

/// A point of throughput; where no rate keeps to the goal, it is at 0.
fn rate_point(found: &Throughput, x: f64, is_joined: bool, of: impl Fn(f64) -> f64) -> Point {
    let lower = found.lower_fps.unwrap_or(0.0);
    let mark = mark_of(found);
    Point { x, y: of(lower), band: found.upper_fps.map(|upper| (of(lower), of(upper.max(lower)))), mark, is_joined }
}

pub(super) fn mark_of(found: &Throughput) -> Mark {
    match found.state {
        _ if found.lower_fps.is_none() => Mark::Cross,
        State::Found => Mark::Filled,
        State::AtLeast => Mark::Upwards,
        State::GeneratorLimited => Mark::Ringed,
        State::NotConverged => Mark::Hollow,
        State::Lossy => Mark::Cross,
    }
}

fn in_unit(found: &Throughput, cell: &Cell, unit: Unit) -> String {
    if unit.title == FRAMES.title {
        return carried_with_unit(found);
    }
    let value = found.lower_fps.map(|fps| three_digits((unit.of)(fps, cell.mean_bytes)));
    let sign = if matches!(found.state, State::AtLeast | State::GeneratorLimited) { "≥ " } else { "" };
    value.map_or_else(|| "lossy".to_owned(), |value| format!("{sign}{value} Gb/s"))
}

/// Every device's figure at a size.
fn size_words(size: &Size, goal: &Goal, unit: Unit) -> String {
    let told = size.cells.iter().map(|cell| match throughput(cell, &goal.name) {
        Some(found) if unit.title == FRAMES.title => format!("{} {}", cell.device, bounds_words(found)),
        Some(found) => format!("{} {}", cell.device, in_unit(found, cell, unit)),
        None => format!("{} has no figure", cell.device),
    });
    format!("{}\n{}", size.label(), told.collect::<Vec<_>>().join("\n"))
}

fn three_digits_short(value: f64) -> String {
    let text = three_digits(value);
    match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A quantile of latency: its name, dashes and value.
type Quantile = (&'static str, &'static str, fn(&LatencyAt) -> Option<f64>);
const QUANTILES: [Quantile; 3] =
    [("p50", "d-solid", |at| at.p50_ns), ("p99", "d-dash", |at| at.p99_ns), ("p99.9", "d-dot", |at| at.p999_ns)];

/// Latency at shares of the throughput; `None` where no device of this size has two rates.
pub(super) fn latency(size: &Size, goal: &str) -> Option<String> {
    let mut lines = Vec::new();
    for cell in size.cells.iter().filter(|cell| cell.latency.len() > 1) {
        for (name, dashes, of) in QUANTILES {
            let point = |(index, at): (usize, &LatencyAt)| {
                // A load at which too few frames support the quantile is a gap.
                let is_joined = index > 0 && of(&cell.latency[index - 1]).is_some();
                Some(Point { x: at.share, y: of(at)?, band: None, mark: Mark::Filled, is_joined })
            };
            let points: Vec<Point> = cell.latency.iter().enumerate().filter_map(point).collect();
            let told = cell.latency.iter().filter_map(|at| Some(format!("{} {}", percent(at.share), micro(of(at)?))));
            let tip = format!("{} {name}: {}", cell.device, told.collect::<Vec<_>>().join(", "));
            let label = format!("{} {name}", cell.device);
            lines.push(Line { family: engine(&cell.device), dashes, label, tip, points });
        }
    }
    lines.retain(|line| line.points.len() > 1);
    let mut shares: Vec<f64> = size.cells.iter().flat_map(|cell| cell.latency.iter().map(|at| at.share)).collect();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    let plot = Plot {
        name: format!("latency of each device at {} against load", size.label()),
        x_caption: &format!("load, of what the device carries by {goal}; solid p50, dashed p99, dotted p99.9"),
        y_caption: "latency one way, log axis",
        x_ticks: shares.iter().map(|share| (*share, percent(*share))).collect(),
        y_label: tick_label,
        is_log: true,
        height: HEIGHT,
        places: shares.iter().map(|share| (*share, share_words(size, *share))).collect(),
        lines,
    };
    (!plot.lines.is_empty()).then(|| plot.draw())
}

/// Every device's latency at a share.
fn share_words(size: &Size, share: f64) -> String {
    let of_cell = |cell: &&Cell| {
        let at = cell.latency.iter().find(|at| at.share == share)?;
        let told = QUANTILES.iter().filter_map(|(name, _, of)| Some(format!("{name} {}", micro(of(at)?))));
        Some(format!("{} at {} Mpps: {}", cell.device, mpps(Some(at.rate_fps)), told.collect::<Vec<_>>().join(", ")))
    };
    let told: Vec<String> = size.cells.iter().filter_map(of_cell).collect();
    format!("load of {}\n{}", percent(share), told.join("\n"))
}

/// Frame loss rate (RFC 2544 section 26.3); `None` where no device of this size has one.
pub(super) fn frame_loss(size: &Size) -> Option<String> {
    let line = |cell: &&Cell| {
        let mut losses: Vec<&LossAt> = cell.frame_loss.iter().collect();
        losses.sort_by(|a, b| a.rate_fps.total_cmp(&b.rate_fps));
        let point = |at: &&LossAt| Point {
            x: at.rate_fps / 1e6,
            y: at.loss_ratio * 100.0,
            band: None,
            mark: Mark::Filled,
            is_joined: true,
        };
        let told = losses.iter().map(|at| format!("{} at {} Mpps", percent(at.loss_ratio), mpps(Some(at.rate_fps))));
        let tip = format!("{}: {}", cell.device, told.collect::<Vec<_>>().join(", "));
        let points: Vec<Point> = losses.iter().map(point).collect();
        let (family, dashes) = (engine(&cell.device), dashes(&cell.device));
        (!points.is_empty()).then(|| Line { family, dashes, label: cell.device.clone(), tip, points })
    };
    let lines: Vec<Line> = size.cells.iter().filter_map(line).collect();
    let greatest = lines.iter().flat_map(|line| line.points.iter().map(|point| point.x)).fold(0.0, f64::max);
    let ticks = super::plot::Scale::linear([greatest], 0.0, 1.0).ticks();
    let plot = Plot {
        name: format!("frame loss rate of each device at {} against rate", size.label()),
        x_caption: "million frames a second that were offered",
        y_caption: "frames lost, %",
        x_ticks: ticks
            .iter()
            .map(|tick| (*tick, three_digits_short(*tick)))
            .chain([(greatest, String::new())])
            .collect(),
        y_label: three_digits_short,
        is_log: false,
        height: 300.0,
        places: Vec::new(),
        lines,
    };
    (!plot.lines.is_empty()).then(|| plot.draw())
}
