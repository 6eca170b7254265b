//! A small picture for each path: the median of every round against the median of all, so that drift, jumps
//! and disturbed rounds can be seen.

use std::cmp::Ordering;

use super::anchors::Anchors;
use super::palette::family;
use super::svg::{Anchor, Svg};
use super::words::micro;
use crate::record::Run;
use crate::render::units::cell_name;
use crate::statistics::trend::median;

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 84.0;
const LEFT: f64 = 8.0;
const RIGHT: f64 = WIDTH - 40.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = HEIGHT - 14.0;

/// Deviation that fills the picture, percent: the largest of the page within these bounds.
const LEAST_REACH: f64 = 3.0;
const MOST_REACH: f64 = 40.0;
/// Rounds in the words of a picture, at most.
const MOST_TOLD: usize = 20;

/// One path's picture with its caption.
#[derive(Debug, serde::Serialize)]
pub(super) struct Strip {
    name: String,
    /// Of the cell's row in the table of figures.
    id: String,
    family: &'static str,
    median: String,
    spread: String,
    svg: String,
}

/// The pictures of one size on one scale; paths with fewer than two supported rounds have none.
pub(super) fn strips(runs: &[&Run], anchors: &Anchors) -> Vec<Strip> {
    let reach = runs
        .iter()
        .flat_map(|run| deviations_percent(run))
        .map(|point| point.percent.abs())
        .fold(LEAST_REACH, f64::max)
        .min(MOST_REACH);
    runs.iter().filter_map(|run| strip(run, reach, anchors.id(run))).collect()
}

struct Point {
    index: usize,
    percent: f64,
    p50_ns: f64,
    marks: String,
}

fn deviations_percent(run: &Run) -> Vec<Point> {
    let medians: Vec<f64> = run.rounds.iter().filter_map(|round| round.p50_ns).collect();
    let Some(centre_ns) = median(&medians).filter(|&ns| ns > 0.0) else {
        return Vec::new();
    };
    let point = |(index, round): (usize, &crate::record::Round)| {
        let p50_ns = round.p50_ns?;
        let percent = (p50_ns / centre_ns - 1.0) * 100.0;
        Some(Point { index, percent, p50_ns, marks: round.marks.join(", ") })
    };
    run.rounds.iter().enumerate().filter_map(point).collect()
}

fn strip(run: &Run, reach: f64, id: &str) -> Option<Strip> {
    let points = deviations_percent(run);
    if points.len() < 2 {
        return None;
    }
    let name = cell_name(&run.cell);
    let lowest = points.iter().map(|point| point.percent).fold(f64::INFINITY, f64::min);
    let highest = points.iter().map(|point| point.percent).fold(f64::NEG_INFINITY, f64::max);
    let medians: Vec<f64> = points.iter().map(|point| point.p50_ns).collect();
    Some(Strip {
        median: micro(median(&medians)?),
        spread: format!("{lowest:+.1} to {highest:+.1} %"),
        svg: picture(run, &name, &points, reach),
        family: family(&run.cell.path),
        id: id.to_owned(),
        name,
    })
}

fn picture(run: &Run, name: &str, points: &[Point], reach: f64) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT, &format!("median of each round of {name}"));
    let middle = f64::midpoint(TOP, BOTTOM);
    let place_y = |percent: f64| middle - percent.clamp(-reach, reach) / reach * (BOTTOM - TOP) / 2.0;
    let last = run.rounds.len().saturating_sub(1).max(1) as f64;
    let place_x = |index: usize| LEFT + 4.0 + index as f64 / last * (RIGHT - LEFT - 8.0);
    for percent in [-reach, 0.0, reach] {
        let y = place_y(percent);
        svg.line(if percent == 0.0 { "axis" } else { "grid" }, (LEFT, y), (RIGHT, y));
        let label = if percent == 0.0 { "0".to_owned() } else { format!("{percent:+.0} %") };
        svg.text("tick", (WIDTH - 2.0, y + 4.0), Anchor::End, &label);
    }
    svg.open(&format!("series thin {}", family(&run.cell.path)), "");
    let line: Vec<(f64, f64)> = points.iter().map(|point| (place_x(point.index), place_y(point.percent))).collect();
    svg.polyline("curve d-solid", &line);
    for (point, &at) in points.iter().zip(&line) {
        svg.open(if point.marks.is_empty() { "round" } else { "round marked" }, "");
        svg.circle("dot", at, if point.marks.is_empty() { 3.0 } else { 4.4 });
        svg.close();
    }
    svg.close();
    svg.spot((0.0, 0.0), (WIDTH, HEIGHT), &tip(name, points));
    svg.finish()
}

/// Every round in words; of many the marked ones and those farthest from the median.
fn tip(name: &str, points: &[Point]) -> String {
    let mut told: Vec<&Point> = points.iter().collect();
    told.sort_by(|a, b| {
        (!b.marks.is_empty(), b.percent.abs())
            .partial_cmp(&(!a.marks.is_empty(), a.percent.abs()))
            .unwrap_or(Ordering::Equal)
    });
    told.truncate(MOST_TOLD);
    told.sort_by_key(|point| point.index);
    let words = |point: &&Point| {
        let marks = if point.marks.is_empty() { String::new() } else { format!(", marked: {}", point.marks) };
        format!("round {}: {} ({:+.1} %{marks})", point.index, micro(point.p50_ns), point.percent)
    };
    let rounds: Vec<String> = told.iter().map(words).collect();
    let which = if points.len() > MOST_TOLD { ", the farthest from the median" } else { "" };
    format!("{name}, median of each round{which}\n{}", rounds.join(" · "))
}
