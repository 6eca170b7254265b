//! What each device carries as bars, for records of one size.

use super::palette::engine;
use super::plot::{Mark, clipped, mark};
use super::tables::Anchors;
use crate::dataplane::figures::{Size, frame_bits, three_digits, throughput};
use crate::dataplane::record::{Cell, DataplaneRecord, Throughput};
use crate::dataplane::words::{bounds_words, carried_with_unit};
use crate::html::svg::{Anchor, Svg};

const WIDTH: f64 = 1080.0;
const ROW: f64 = 26.0;
const TOP: f64 = 12.0;
const FOOT: f64 = 36.0;
/// Room for the figures beside the longest bar.
const FIGURES: f64 = 260.0;
/// Longest names, characters.
const LONGEST_DEVICE: usize = 30;
const LONGEST_GOAL: usize = 10;

/// A row for each device and goal, the devices that carry most by the last goal first.
pub(super) fn chart(record: &DataplaneRecord, size: &Size, anchors: &Anchors) -> String {
    let mut cells = size.cells.clone();
    let last = record.goals.last().map_or("", |goal| &goal.name);
    let rate = |cell: &Cell| throughput(cell, last).and_then(|found| found.lower_fps).unwrap_or(0.0);
    cells.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let goals = || record.goals.iter().map(|goal| goal.name.as_str());
    let rows: Vec<(&Cell, &Throughput)> =
        cells.iter().flat_map(|cell| goals().filter_map(|goal| Some((*cell, throughput(cell, goal)?)))).collect();
    let label = |cell: &Cell, found: &Throughput| {
        format!("{} {}", clipped(&cell.device, LONGEST_DEVICE), clipped(&found.goal, LONGEST_GOAL))
    };
    let longest = rows.iter().map(|(cell, found)| label(cell, found).chars().count()).max().unwrap_or(0);
    let left = (longest as f64).mul_add(7.7, 26.0).min(360.0);
    let most = |found: &Throughput| found.lower_fps.unwrap_or(0.0).max(found.upper_fps.unwrap_or(0.0));
    let greatest = rows.iter().map(|(_, found)| most(found)).fold(0.0, f64::max).max(1.0);
    let bottom = TOP + rows.len() as f64 * ROW;
    let mut svg = Svg::new(WIDTH, bottom + FOOT, &format!("frames a second of each device at {}", size.label()));
    let place = |fps: f64| left + fps / greatest * (WIDTH - left - FIGURES);
    for (index, (cell, found)) in rows.iter().enumerate() {
        let y = TOP + (index as f64 + 0.5) * ROW;
        let lower = found.lower_fps.unwrap_or(0.0);
        svg.open(&format!("row {}", engine(&cell.device)), "");
        svg.text("label", (left - 14.0, y + 4.5), Anchor::End, &label(cell, found));
        svg.rect("bar", (left, y - 8.0), (place(lower) - left, 16.0));
        if let Some(upper) = found.upper_fps.filter(|upper| *upper > lower) {
            svg.rect("band", (place(lower), y - 8.0), (place(upper) - place(lower), 16.0));
        }
        let sign = super::charts::mark_of(found);
        if sign != Mark::Filled {
            mark(&mut svg, sign, (place(lower), y));
        }
        svg.text("number", (place(most(found)) + 14.0, y + 4.5), Anchor::Start, &words(cell, found));
        svg.close();
        let tip = format!("{} {}\n{}", cell.device, size.label(), bounds_words(found));
        svg.row_spot((y, ROW), left - 8.0, &tip, anchors.id(cell));
    }
    svg.line("axis", (left, TOP), (left, bottom));
    let caption = "frames a second, from 0; the pale part of a bar is what lies between the bounds";
    svg.text("caption", (left, bottom + 24.0), Anchor::Start, caption);
    svg.finish()
}

fn words(cell: &Cell, found: &Throughput) -> String {
    let bits = found.lower_fps.map(|fps| three_digits(frame_bits(fps, cell.mean_bytes) / 1e9));
    let bits = bits.map(|bits| format!(", {bits} Gb/s")).unwrap_or_default();
    format!("{}{bits}", carried_with_unit(found))
}
