//! Lines with a label each: percentile curves on an axis of nines, and medians against message size.

use super::palette::{dashes, family};
use super::svg::{Anchor, LogScale, Svg, nines, spread_labels, tick_label};
use super::words::micro;
use crate::load::capacities;
use crate::record::{Cell, Latency, Record, Run};
use crate::render::units::cell_name;

const WIDTH: f64 = 1080.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 16.0;
const FOOT: f64 = 56.0;
const LABEL_GAP: f64 = 17.0;
const LEAST_HEIGHT: f64 = 440.0;
const SIZE_CAPTION: &str = "bytes, log axis: payload for sockets, whole frame without FCS for frames";
/// Labels of the axis are at least so far apart, of its length.
const LEAST_TICK: f64 = 0.06;

/// One line of a chart.
struct Series<'a> {
    cell: &'a Cell,
    label: String,
    strong: bool,
    tip: String,
    /// Place on the horizontal axis in its own unit, and nanoseconds.
    points: Vec<(f64, f64)>,
}

/// A horizontal axis: where a place lies between 0 and 1, and its labelled ticks.
struct Axis {
    caption: &'static str,
    /// Of the values, and how they are labelled.
    values: Values,
    ticks: Vec<(f64, String)>,
    low: f64,
    high: f64,
}

/// The vertical axis.
#[derive(Clone, Copy)]
struct Values {
    caption: &'static str,
    label: fn(f64) -> String,
}

impl Values {
    const fn of(latency: Latency) -> Values {
        let caption = match latency {
            Latency::HalfRtt => "half RTT, log axis",
            Latency::ResponseTime | Latency::None => "response time, log axis",
        };
        Values { caption, label: tick_label }
    }
}

/// Percentile curves of one size; `runs` come nearest first.
pub(super) fn percentiles(runs: &[&Run], size_bytes: u32, latency: Latency) -> String {
    let series: Vec<Series> = runs
        .iter()
        .filter_map(|run| {
            let points: Vec<(f64, f64)> = run
                .quantiles
                .iter()
                .filter(|line| line.percent < 100.0)
                .filter_map(|line| Some((nines(line.percent), line.value_ns?)))
                .collect();
            let last = run.quantiles.iter().rfind(|line| line.percent < 100.0 && line.value_ns.is_some())?;
            let tip = format!("{}: supported up to {} %", cell_name(&run.cell), last.percent);
            (points.len() > 1).then(|| Series {
                cell: &run.cell,
                label: cell_name(&run.cell),
                strong: is_best(run, runs),
                tip,
                points,
            })
        })
        .collect();
    let reached = series.iter().flat_map(|line| line.points.last()).map(|point| point.0);
    let high = reached.fold(2.0, f64::max);
    let marks = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];
    let axis = Axis {
        caption: "percentile, one more nine each step; a curve ends where its samples do",
        values: Values::of(latency),
        ticks: marks.iter().map(|&percent| (nines(percent), format!("{percent}"))).collect(),
        low: 0.0,
        high,
    };
    draw(&series, &axis, &format!("percentile curves of each path at {size_bytes} bytes"))
}

/// Medians against size, a line for each path that has two sizes or more; `None` when there is none. Runs at rates are
/// another chart's ([`rates`]).
pub(super) fn sizes(record: &Record) -> Option<String> {
    let p50_ns = |run: &Run| run.latency_ns.p50.filter(|_| run.cell.rate_per_second.is_none());
    let lines = by_size(record, p50_ns);
    let title = "median half round trip of each path against message size";
    let chart = Against {
        lines,
        caption: SIZE_CAPTION,
        values: Values::of(Latency::HalfRtt),
        words: |place| format!("{place:.0} B"),
        tip: micro,
    };
    chart.draw(title)
}

/// p99 of a load against its rate, a line for each combination that has two rates or more; `None` when there is none.
pub(super) fn rates(record: &Record) -> Option<String> {
    let capacities = capacities(record);
    let lines = capacities.iter().map(|capacity| {
        let label = format!("{} {} B", cell_name(&capacity.cell), capacity.cell.size_bytes);
        let point = |run: &&Run| Some((run.cell.rate_per_second? as f64, run.latency_ns.p99?));
        (&capacity.cell, label, capacity.runs.iter().filter_map(point).collect())
    });
    let title = "99 % response time of each path against the rate of messages";
    let caption = "messages a second that were to be sent, log axis; a line ends where p99 is not supported";
    let words = |place| format!("{}/s", si(place));
    Against { lines: lines.collect(), caption, values: Values::of(Latency::ResponseTime), words, tip: micro }
        .draw(title)
}

/// Messages and bits that arrived a second against size, a chart each with its title; none where there is one size only.
pub(super) fn throughput(record: &Record) -> Vec<(&'static str, String)> {
    let messages = Values { caption: "messages a second, log axis", label: si };
    let bits = Values { caption: "bits a second, log axis", label: si };
    let charts = [("Messages a second", "received-rate", messages), ("Bits a second", "received-bits", bits)];
    let chart = |(title, metric, values): (&'static str, &str, Values)| {
        let lines = by_size(record, |run| run.metric(metric).filter(|value| *value > 0.0));
        let drawn = Against { lines, caption: SIZE_CAPTION, values, words: |place| format!("{place:.0} B"), tip: si };
        Some((title, drawn.draw(&title.to_lowercase())?))
    };
    charts.into_iter().filter_map(chart).collect()
}

/// A line for each combination but its size: its sizes and values, where it has one.
fn by_size(record: &Record, value: impl Fn(&Run) -> Option<f64>) -> Vec<Line<'_>> {
    let mut lines: Vec<Line> = Vec::new();
    for run in &record.runs {
        let Some(value) = value(run) else {
            continue;
        };
        let (name, point) = (cell_name(&run.cell), (f64::from(run.cell.size_bytes), value));
        match lines.iter_mut().find(|(_, label, _)| *label == name) {
            Some((.., points)) => points.push(point),
            None => lines.push((&run.cell, name, vec![point])),
        }
    }
    lines
}

/// A number with k, M or G.
fn si(value: f64) -> String {
    let (value, unit) = match value {
        value if value < 999.0 => (value, ""),
        value if value < 999e3 => (value / 1e3, "k"),
        value if value < 999e6 => (value / 1e6, "M"),
        value => (value / 1e9, "G"),
    };
    let text = format!("{value:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A cell, its label, and points of a place and nanoseconds.
type Line<'a> = (&'a Cell, String, Vec<(f64, f64)>);

/// Lines over a log axis.
struct Against<'a, W> {
    lines: Vec<Line<'a>>,
    caption: &'static str,
    values: Values,
    /// A place in words, and a value.
    words: W,
    tip: fn(f64) -> String,
}

impl<W: Fn(f64) -> String> Against<'_, W> {
    /// `None`: no line has two places.
    fn draw(self, title: &str) -> Option<String> {
        let Against { lines, caption, values, words, tip } = self;
        let mut series: Vec<Series> = Vec::new();
        for (cell, label, mut points) in lines.into_iter().filter(|(.., points)| points.len() > 1) {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let tips: Vec<String> =
                points.iter().map(|(at, value)| format!("{} {}", words(*at), tip(*value))).collect();
            let tip = format!("{label}: {}", tips.join(", "));
            points.iter_mut().for_each(|(place, _)| *place = place.log2());
            series.push(Series { cell, label, strong: false, tip, points });
        }
        mark_best(&mut series);
        let places = || series.iter().flat_map(|line| line.points.iter().map(|point| point.0));
        let (low, high) = (places().fold(f64::INFINITY, f64::min), places().fold(0.0, f64::max));
        if low >= high {
            return None;
        }
        let mut ticks: Vec<f64> = places().collect();
        ticks.sort_by(f64::total_cmp);
        let margin = (high - low) * 0.03;
        let axis = Axis {
            caption,
            values,
            ticks: apart(&ticks, (high - low) * LEAST_TICK).map(|at| (at, words(at.exp2().round()))).collect(),
            low: low - margin,
            high: high + margin,
        };
        Some(draw(&series, &axis, title))
    }
}

/// Those of ascending places that are at least so far from the one before.
fn apart(places: &[f64], distance: f64) -> impl Iterator<Item = f64> {
    let mut last = f64::NEG_INFINITY;
    places.iter().copied().filter(move |place| {
        let is_apart = *place - last >= distance;
        last = if is_apart { *place } else { last };
        is_apart
    })
}

/// The nearest of each family is drawn strong, the others thin.
fn is_best(run: &Run, runs: &[&Run]) -> bool {
    let same = |other: &&&Run| family(&other.cell.path) == family(&run.cell.path);
    runs.iter().find(same).is_some_and(|first| first.cell == run.cell)
}

fn mark_best(series: &mut [Series]) {
    series.sort_by(|a, b| a.points[0].1.total_cmp(&b.points[0].1));
    let mut seen: Vec<&str> = Vec::new();
    for line in series {
        let family = family(&line.cell.path);
        line.strong = !seen.contains(&family);
        seen.push(family);
    }
}

fn draw(series: &[Series], axis: &Axis, name: &str) -> String {
    let longest = series.iter().map(|line| line.label.chars().count()).max().unwrap_or(0);
    let right = WIDTH - (longest as f64 * 7.8 + 34.0).min(360.0);
    let height = (series.len() as f64 * LABEL_GAP + TOP + FOOT).max(LEAST_HEIGHT);
    let bottom = height - FOOT;
    let mut svg = Svg::new(WIDTH, height, name);
    let values = series.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let scale = LogScale::over(values, bottom, TOP);
    let place = |x: f64| LEFT + (x - axis.low) / (axis.high - axis.low) * (right - LEFT);
    frame(&mut svg, axis, &scale, right, bottom, place);
    svg.text("caption", (svg.width() - 2.0, svg.height() - 14.0), Anchor::End, axis.values.caption);
    let ends: Vec<f64> =
        series.iter().map(|line| line.points.last().map_or(bottom, |point| scale.place(point.1))).collect();
    let labels = spread_labels(&ends, LABEL_GAP, TOP + 6.0, bottom - 2.0);
    // Strong lines last, so that they lie on top.
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by_key(|&index| series[index].strong);
    for index in order {
        let line = &series[index];
        let weight = if line.strong { "strong" } else { "thin" };
        svg.open(&format!("series {weight} {}", family(&line.cell.path)), &line.tip);
        let points: Vec<(f64, f64)> = line.points.iter().map(|&(x, ns)| (place(x), scale.place(ns))).collect();
        svg.polyline(&format!("curve {}", dashes(line.cell)), &points);
        if points.len() < 8 {
            for &point in &points {
                svg.circle("dot", point, 3.4);
            }
        }
        if let Some(&end) = points.last() {
            let label = labels[index];
            svg.polyline("leader", &[(end.0 + 3.0, end.1), (right + 2.0, end.1), (right + 18.0, label)]);
            svg.circle("end", end, 2.6);
            svg.text("label", (right + 22.0, label + 4.0), Anchor::Start, &line.label);
            svg.spot((right + 18.0, label - LABEL_GAP / 2.0), (WIDTH - right - 18.0, LABEL_GAP), &line.tip);
        }
        svg.close();
    }
    svg.finish()
}

fn frame(svg: &mut Svg, axis: &Axis, scale: &LogScale, right: f64, bottom: f64, place: impl Fn(f64) -> f64) {
    for tick in scale.ticks() {
        let y = scale.place(tick);
        svg.line("grid", (LEFT, y), (right, y));
        svg.text("tick", (LEFT - 10.0, y + 4.0), Anchor::End, &(axis.values.label)(tick));
    }
    for (x, label) in axis.ticks.iter().filter(|(x, _)| *x <= axis.high + 1e-9) {
        svg.line("grid", (place(*x), TOP), (place(*x), bottom));
        svg.text("tick", (place(*x), bottom + 18.0), Anchor::Middle, label);
    }
    svg.line("axis", (LEFT, bottom), (right, bottom));
    svg.text("caption", (LEFT, bottom + 42.0), Anchor::Start, axis.caption);
}
