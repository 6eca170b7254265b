//! Several records in one picture: each cell's median in each record.

use super::anchors::Anchors;
use super::palette::family;
use super::svg::{Anchor, LogScale, Svg, tick_label};
use super::words::micro;
use crate::record::{Cell, Record};
use crate::render::units::cell_name;

const WIDTH: f64 = 1080.0;
const ROW: f64 = 30.0;
const TOP: f64 = 40.0;
const FOOT: f64 = 40.0;

/// The letter a record goes by on the page: A, B, ... Z, then numbers.
pub(crate) fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(offset) if offset < 26 => char::from(b'A' + offset).to_string(),
        _ => (index + 1).to_string(),
    }
}

/// The chart of the cells of `size_bytes`; `None` when there is one record or no such cell. Rows link to the first record
/// that has the cell.
pub(super) fn chart(records: &[Record], size_bytes: u32, anchors: &[Anchors]) -> Option<String> {
    let mut rows: Vec<(&Cell, Vec<(usize, f64)>)> = Vec::new();
    for (index, record) in records.iter().enumerate() {
        for run in record.runs.iter().filter(|run| run.cell.size_bytes == size_bytes) {
            let Some(p50_ns) = run.latency_ns.p50 else {
                continue;
            };
            match rows.iter_mut().find(|(cell, _)| **cell == run.cell) {
                Some((_, points)) => points.push((index, p50_ns)),
                None => rows.push((&run.cell, vec![(index, p50_ns)])),
            }
        }
    }
    if records.len() < 2 || rows.is_empty() {
        return None;
    }
    rows.sort_by(|a, b| a.1[0].1.total_cmp(&b.1[0].1));
    let bottom = TOP + rows.len() as f64 * ROW;
    let mut svg = Svg::new(WIDTH, bottom + FOOT, "median of each path in each record");
    let longest = rows.iter().map(|(cell, _)| cell_name(cell).chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * 7.7 + 26.0).min(360.0);
    let values = rows.iter().flat_map(|(_, points)| points.iter().map(|point| point.1));
    let scale = LogScale::over(values, left, WIDTH - 16.0);
    for tick in scale.ticks() {
        let x = scale.place(tick);
        svg.line("grid", (x, TOP - 6.0), (x, bottom));
        svg.text("tick", (x, TOP - 16.0), Anchor::Middle, &tick_label(tick));
    }
    svg.line("axis", (left, bottom), (WIDTH - 16.0, bottom));
    let caption = format!(
        "p50, {}, log axis; each letter is a record, and records are separate runs",
        records[0].experiment.latency.words()
    );
    svg.text("caption", (left, bottom + 24.0), Anchor::Start, &caption);
    for (index, (cell, points)) in rows.iter().enumerate() {
        let y = TOP + (index as f64 + 0.5) * ROW;
        row(&mut svg, cell, points, &scale, (left, y));
        let id = anchors.iter().find_map(|anchors| anchors.id_of(cell)).unwrap_or_default();
        svg.row_spot((y, ROW), left - 8.0, &tip(cell, points), id);
    }
    Some(svg.finish())
}

fn row(svg: &mut Svg, cell: &Cell, points: &[(usize, f64)], scale: &LogScale, at: (f64, f64)) {
    let (left, y) = at;
    svg.open(&format!("row {}", family(&cell.path)), "");
    svg.text("label", (left - 14.0, y + 4.5), Anchor::End, &cell_name(cell));
    let places: Vec<f64> = points.iter().map(|point| scale.place(point.1)).collect();
    let from = places.iter().copied().fold(f64::INFINITY, f64::min);
    let to = places.iter().copied().fold(0.0, f64::max);
    svg.line("link", (from, y), (to, y));
    for ((index, _), &x) in points.iter().zip(&places) {
        svg.circle(if *index == 0 { "p50" } else { "p99" }, (x, y), 4.6);
    }
    // Letters above the dots, moved apart where records agree.
    let letters = super::svg::spread_labels(&places, 10.0, left, WIDTH - 8.0);
    for ((index, _), x) in points.iter().zip(letters) {
        svg.text("letter", (x, y - 7.5), Anchor::Middle, &letter(*index));
    }
    svg.close();
}

fn tip(cell: &Cell, points: &[(usize, f64)]) -> String {
    let parts: Vec<String> = points.iter().map(|(index, ns)| format!("{}: {}", letter(*index), micro(*ns))).collect();
    format!("{}, {} B, p50\n{}", cell_name(cell), cell.size_bytes, parts.join("\n"))
}
