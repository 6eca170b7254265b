//! Latency over time: a row for each cell, a colour for how far each block is from what is usual for the cell. What
//! disturbs the whole machine is a stripe across the rows.
//!
//! Blue is faster and orange slower, which all common kinds of colour blindness tell apart; what is faster is also drawn
//! half as high, so that print in grey tells it too.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::anchors::Anchors;
use super::heat_blocks::{Blocks, EDGES, Figure, Piece, Row};
use super::palette::family;
use super::svg::{Anchor, Svg, tick_label};
use super::words::micro;
use crate::record::{Latency, Record, Run};
use crate::render::by_size;
use crate::render::units::cell_name;

const WIDTH: f64 = 1080.0;
const ROW: f64 = 20.0;
const BAR: f64 = 16.0;
const TOP: f64 = 30.0;
const FOOT: f64 = 110.0;
const LINE: f64 = 18.0;
const SWATCH: f64 = 58.0;
const RIGHT: f64 = WIDTH - 12.0;
/// Stretches in the words of a row, at most.
const MOST_TOLD: usize = 6;
/// From this level on a stretch is told in the words of its row: 1.25 times as long, or less than 0.8 times.
const TOLD_LEVEL: i32 = 3;

/// A picture with its title.
#[derive(Debug, Serialize)]
pub(super) struct HeatMap {
    title: &'static str,
    is_open: bool,
    svg: String,
}

/// Medians and 99 % of all blocks; none for workloads without latencies.
pub(super) fn maps(record: &Record, anchors: &Anchors) -> Vec<HeatMap> {
    if record.experiment.latency == Latency::None {
        return Vec::new();
    }
    let groups = by_size(record);
    let runs: Vec<&Run> = groups.values().flatten().copied().collect();
    let kinds = [(Figure::P50, "Median (p50) of each block", true), (Figure::P99, "99 % (p99) of each block", false)];
    let map = |(figure, title, is_open)| {
        let blocks = Blocks::of(record, &runs, figure);
        let is_drawn = !blocks.rows.is_empty() && blocks.end_ns > 0.0;
        is_drawn.then(|| HeatMap { title, is_open, svg: picture(&blocks, title, groups.len() > 1, anchors) })
    };
    kinds.into_iter().filter_map(map).collect()
}

fn picture(blocks: &Blocks, title: &str, has_sizes: bool, anchors: &Anchors) -> String {
    let label = |run: &Run| match has_sizes {
        true => format!("{} {} B", cell_name(&run.cell), run.cell.size_bytes),
        false => cell_name(&run.cell),
    };
    let bottom = TOP + blocks.rows.len() as f64 * ROW;
    let name = format!("{title} against what is usual for its cell, over the time of the experiment");
    let mut svg = Svg::new(WIDTH, bottom + FOOT, &name);
    let longest = blocks.rows.iter().map(|row| label(row.run).chars().count()).max().unwrap_or(0);
    let left = (longest as f64).mul_add(7.7, 26.0).min(360.0);
    let place = |ns: f64| left + (ns / blocks.end_ns).clamp(0.0, 1.0) * (RIGHT - left);
    for tick_ns in ticks(blocks.end_ns) {
        let text = if tick_ns == 0.0 { "0".to_owned() } else { tick_label(tick_ns) };
        svg.text("tick", (place(tick_ns), TOP - 12.0), Anchor::Middle, &text);
        svg.line("axis", (place(tick_ns), TOP - 7.0), (place(tick_ns), TOP - 2.0));
    }
    for (index, row) in blocks.rows.iter().enumerate() {
        let y = TOP + (index as f64 + 0.5) * ROW;
        svg.open(&format!("row {}", family(&row.run.cell.path)), "");
        svg.text("label", (left - 12.0, y + 4.5), Anchor::End, &label(row.run));
        for (level, shape) in shapes(row, y, place) {
            svg.shape(&class(level), &shape);
        }
        svg.close();
        svg.row_spot((y, ROW), left - 6.0, &tip(row, &label(row.run)), anchors.id(row.run));
    }
    let captions = captions(blocks);
    for (index, caption) in captions.iter().enumerate() {
        svg.text("caption", (left, bottom + 20.0 + index as f64 * LINE), Anchor::Start, caption);
    }
    legend(&mut svg, left, bottom + 16.0 + captions.len() as f64 * LINE);
    svg.finish()
}

fn captions(blocks: &Blocks) -> Vec<String> {
    let how = match blocks.is_by_turns {
        true => "a round is drawn as wide as the turn in which each cell was measured once",
        false => "blocks at their own times",
    };
    let mut captions = vec![format!("time since the experiment began; {how}")];
    if blocks.blocks_of_piece > 1 {
        captions.push(format!("each mark is the median of {} neighbouring blocks", blocks.blocks_of_piece));
    }
    captions
}

/// Class of a level's colour: `h0` is usual, `hs3` slower, `hf3` faster.
fn class(level: i32) -> String {
    match level {
        0 => "h0".to_owned(),
        slower if slower > 0 => format!("hs{slower}"),
        faster => format!("hf{}", -faster),
    }
}

/// One shape for each level: all of the row's pieces at it. Neighbours of one level are drawn as one.
fn shapes(row: &Row, y: f64, place: impl Fn(f64) -> f64) -> BTreeMap<i32, String> {
    let mut shapes: BTreeMap<i32, String> = BTreeMap::new();
    let is_same = |a: &Piece, b: &Piece| a.level() == b.level() && place(b.from_ns) - place(a.to_ns) < 0.05;
    for group in row.pieces.chunk_by(is_same) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let (from, to) = (place(first.from_ns), place(last.to_ns));
        let level = first.level();
        let height = if level < 0 { BAR / 2.0 } else { BAR };
        let width = (to - from).max(0.6);
        let shape = shapes.entry(level).or_default();
        let _ = write!(shape, "M{from:.1} {:.1}h{width:.1}v{height:.0}h-{width:.1}z", y + BAR / 2.0 - height);
    }
    shapes
}

/// From zero on, at most ten.
fn ticks(end_ns: f64) -> impl Iterator<Item = f64> {
    let wanted = end_ns / 8.0;
    let decade = 10f64.powf(wanted.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade).into_iter().find(|step| *step >= wanted);
    let step = step.unwrap_or(end_ns);
    (0..=10).map(move |index| f64::from(index) * step).take_while(move |tick| *tick <= end_ns)
}

fn legend(svg: &mut Svg, left: f64, y: f64) {
    let steps = EDGES.len() as i32;
    for level in -steps..=steps {
        let x = left + f64::from(level + steps) * SWATCH;
        let height = if level < 0 { BAR / 2.0 } else { BAR };
        svg.rect(&class(level), (x, y + BAR - height), (SWATCH, height));
        if level < steps {
            let edge = if level < 0 { 1.0 / EDGES[(-level - 1) as usize] } else { EDGES[level as usize] };
            svg.text("tick", (x + SWATCH, y + BAR + 15.0), Anchor::Middle, &format!("{edge:.2}"));
        }
    }
    let width = f64::from(2 * steps + 1) * SWATCH;
    let at = y + BAR + 34.0;
    svg.text("caption", (left, at), Anchor::Start, "← faster, half as high");
    svg.text("caption", (left + width / 2.0, at), Anchor::Middle, "times what is usual for the cell");
    svg.text("caption", (left + width, at), Anchor::End, "slower →");
}

/// The row in words: what is usual, the range, and the stretches that are farthest from it.
fn tip(row: &Row, label: &str) -> String {
    let ratios = || row.pieces.iter().map(|piece| piece.ratio);
    let (least, most) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
    let mut words = format!("{label}: usual {}, from {least:.2} to {most:.2} times that", micro(row.usual_ns));
    let mut far: Vec<&Piece> = row.pieces.iter().filter(|piece| piece.level().abs() >= TOLD_LEVEL).collect();
    if far.is_empty() {
        return words;
    }
    let count = far.len();
    far.sort_by(|a, b| b.ratio.ln().abs().total_cmp(&a.ratio.ln().abs()));
    far.truncate(MOST_TOLD);
    far.sort_by(|a, b| a.from_ns.total_cmp(&b.from_ns));
    let told: Vec<String> = far.iter().map(|piece| format!("{:.2} at {}", piece.ratio, micro(piece.from_ns))).collect();
    let _ = write!(words, "\n{count} of {} marks are far from it, the farthest: {}", row.pieces.len(), told.join(", "));
    words
}
