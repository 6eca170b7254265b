//! Messages a second of each path as bars, for workloads without latencies.

use super::anchors::Anchors;
use super::palette::family;
use super::svg::{Anchor, Svg};
use crate::record::Run;
use crate::render::units::{cell_name, count, gigabits};

const WIDTH: f64 = 1080.0;
const ROW: f64 = 26.0;
const TOP: f64 = 12.0;
const FOOT: f64 = 34.0;
/// Room for the figures beside the longest bar.
const FIGURES: f64 = 250.0;

/// The chart of one size; the longest bar is the greatest rate.
pub(super) fn chart(runs: &[&Run], size_bytes: u32, anchors: &Anchors) -> String {
    let mut rows: Vec<(&Run, f64)> =
        runs.iter().map(|run| (*run, run.metric("received-rate").unwrap_or(0.0))).collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    let bottom = TOP + rows.len() as f64 * ROW;
    let mut svg = Svg::new(WIDTH, bottom + FOOT, &format!("messages a second of each path at {size_bytes} bytes"));
    let longest = rows.iter().map(|(run, _)| cell_name(&run.cell).chars().count()).max().unwrap_or(0);
    let left = (longest as f64).mul_add(7.7, 26.0).min(360.0);
    let greatest = rows.first().map_or(1.0, |(_, rate)| rate.max(1.0));
    for (index, (run, rate)) in rows.iter().enumerate() {
        let y = TOP + (index as f64 + 0.5) * ROW;
        let end = left + rate / greatest * (WIDTH - left - FIGURES);
        svg.open(&format!("row {}", family(&run.cell.path)), "");
        svg.text("label", (left - 14.0, y + 4.5), Anchor::End, &cell_name(&run.cell));
        svg.rect("bar", (left, y - 8.0), ((end - left).max(1.0), 16.0));
        svg.text("number", (end + 8.0, y + 4.5), Anchor::Start, &words(run));
        svg.close();
        let tip = format!("{}, {size_bytes} B: {}", cell_name(&run.cell), words(run));
        svg.row_spot((y, ROW), left - 8.0, &tip, anchors.id(run));
    }
    svg.line("axis", (left, TOP), (left, bottom));
    svg.text("caption", (left, bottom + 22.0), Anchor::Start, "messages that arrived, a second; bars begin at 0");
    svg.finish()
}

fn words(run: &Run) -> String {
    let rate = run.metric("received-rate").map_or_else(|| "–".to_owned(), |rate| count(rate as u64));
    let gigabits = gigabits(run).unwrap_or_else(|| "0.00".to_owned());
    let lost = if run.lost > 0 { format!(", {:.1} % lost", run.lost_percent()) } else { String::new() };
    format!("{rate}/s, {gigabits} Gb/s{lost}")
}
