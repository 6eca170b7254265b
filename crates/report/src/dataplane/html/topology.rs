//! A picture of the test bed: boxes for places with the parts inside, their interfaces and CPUs, and the links between them.

use serde::Serialize;

use super::plot::clipped;
use crate::dataplane::parts::{Bed, beds, cpu_words, listed, shared_cpus};
use crate::dataplane::record::{DataplaneRecord, Part};
use crate::dataplane::words::is_wire;
use crate::html::svg::{Anchor, Svg};
use crate::render::units::wrapped;

const WIDTH: f64 = 1080.0;
const MARGIN: f64 = 16.0;
/// Parts in a row, at most; further parts are in rows below.
const IN_A_ROW: usize = 5;
const WIDEST: f64 = 250.0;
/// Between parts at least: twice the margin of a place, and a link.
const GAP: f64 = 44.0;
const BOX_HEIGHT: f64 = 136.0;
const BOX_TOP: f64 = 34.0;
const ROW: f64 = BOX_TOP + BOX_HEIGHT + 50.0;
const PLACE_MARGIN: f64 = 10.0;
/// Lines of a part's detail, at most.
const DETAIL_LINES: usize = 2;
/// Of text of 12 units, on average.
const CHARACTER: f64 = 6.6;
/// Of bold text of 12 units, on average.
const BOLD_CHARACTER: f64 = 7.6;
const PORT: f64 = 9.0;

/// A picture and whose it is.
#[derive(Debug, Serialize)]
pub(super) struct Picture {
    devices: String,
    svg: String,
}

/// One for each arrangement of parts, those without a device last.
pub(super) fn pictures(record: &DataplaneRecord) -> Vec<Picture> {
    let mut beds = beds(record);
    beds.sort_by_key(|bed| bed.devices.iter().all(|device| is_wire(device)));
    let picture = |bed: &Bed| Picture { devices: listed(&bed.devices), svg: picture(bed) };
    beds.iter().map(picture).collect()
}

/// Where a part is drawn.
struct Placed<'a> {
    part: &'a Part,
    row: usize,
    x: f64,
    y: f64,
    width: f64,
}

impl Placed<'_> {
    fn middle(&self) -> f64 {
        self.y + BOX_HEIGHT / 2.0
    }

    fn right(&self) -> f64 {
        self.x + self.width
    }
}

fn placed(parts: &[Part]) -> Vec<Placed<'_>> {
    let columns = parts.len().clamp(1, IN_A_ROW);
    let room = WIDTH - 2.0 * MARGIN;
    let gaps = columns as f64 - 1.0;
    let width = ((room - gaps * GAP) / columns as f64).min(WIDEST);
    let gap = if columns > 1 { (room - width * columns as f64) / gaps } else { 0.0 };
    let at = |(index, part)| {
        let (row, column) = (index / IN_A_ROW, index % IN_A_ROW);
        Placed { part, row, x: MARGIN + column as f64 * (width + gap), y: row as f64 * ROW + BOX_TOP, width }
    };
    parts.iter().enumerate().map(at).collect()
}

fn picture(bed: &Bed) -> String {
    let boxes = placed(bed.parts);
    let rows = boxes.last().map_or(1, |last| last.row + 1);
    let names: Vec<&str> = bed.parts.iter().map(|part| part.name.as_str()).collect();
    let name = format!("the parts that frames pass, in their order: {}", names.join(", "));
    let mut svg = Svg::new(WIDTH, rows as f64 * ROW - 24.0, &name);
    places(&mut svg, &boxes);
    for pair in boxes.windows(2) {
        link(&mut svg, &pair[0], &pair[1]);
    }
    let shared = shared_cpus(bed.parts);
    for (index, placed) in boxes.iter().enumerate() {
        let users = |cpu: &u32| shared.get(cpu);
        let is_shared = placed.part.cpus.iter().any(|cpu| users(cpu).is_some());
        part(&mut svg, placed, is_shared);
        ports(&mut svg, placed, (index > 0, index + 1 < boxes.len()));
        let others: Vec<&str> = placed.part.cpus.iter().filter_map(users).flatten().copied().collect();
        svg.spot((placed.x, placed.y), (placed.width, BOX_HEIGHT), &tip(placed.part, &others));
    }
    svg.finish()
}

/// A box around consecutive parts of one place and row.
fn places(svg: &mut Svg, boxes: &[Placed]) {
    let mut seen: Vec<&str> = Vec::new();
    for group in boxes.chunk_by(|a, b| a.row == b.row && a.part.place == b.part.place) {
        let ([first, ..], [.., last]) = (group, group) else { continue };
        let width = last.right() - first.x + 2.0 * PLACE_MARGIN;
        let from = (first.x - PLACE_MARGIN, first.y - PLACE_MARGIN);
        svg.rect("place", from, (width, BOX_HEIGHT + 2.0 * PLACE_MARGIN));
        let place = first.part.place.as_str();
        let again = if seen.contains(&place) { " (the same)" } else { "" };
        seen.push(place);
        let most = ((width + GAP / 2.0) / CHARACTER) as usize;
        svg.text("group", (from.0 + 2.0, from.1 - 7.0), Anchor::Start, &clipped(&format!("{place}{again}"), most));
    }
}

/// From the right of a part to the left of the next, around the end of the row where it is in the next one.
fn link(svg: &mut Svg, from: &Placed, to: &Placed) {
    let (start, end) = ((from.right(), from.middle()), (to.x, to.middle()));
    if from.row == to.row {
        svg.line("wire", start, end);
        return;
    }
    let (out, back) = ((start.0 + PLACE_MARGIN + 4.0).min(WIDTH - 1.0), (end.0 - PLACE_MARGIN - 4.0).max(1.0));
    let between = from.y + BOX_HEIGHT + 17.0;
    svg.polyline("wire", &[start, (out, start.1), (out, between), (back, between), (back, end.1), end]);
}

fn part(svg: &mut Svg, placed: &Placed, is_shared: bool) {
    let Placed { part, x, y, width, .. } = placed;
    let (left, most) = (x + 14.0, ((width - 28.0) / CHARACTER) as usize);
    svg.rect("part-box", (*x, *y), (*width, BOX_HEIGHT));
    svg.text("name", (left, y + 24.0), Anchor::Start, &clipped(&part.name, most * 5 / 6));
    for (index, line) in detail_lines(&part.detail, most).iter().enumerate() {
        svg.text("tick", (left, y + 43.0 + index as f64 * 16.0), Anchor::Start, line);
    }
    let cpus = cpu_words(&part.cpus);
    let cpus = clipped(&if is_shared { format!("{cpus}, shared") } else { cpus }, most * 5 / 6);
    let chip = cpus.chars().count() as f64 * BOLD_CHARACTER + 16.0;
    svg.rect(if is_shared { "chip shared" } else { "chip" }, (left - 2.0, y + 75.0), (chip.min(width - 24.0), 21.0));
    svg.text(if is_shared { "number shared" } else { "number" }, (left + 5.0, y + 89.5), Anchor::Start, &cpus);
}

fn detail_lines(detail: &str, most: usize) -> Vec<String> {
    let mut lines = wrapped(detail, most);
    if lines.len() > DETAIL_LINES {
        let rest = lines.split_off(DETAIL_LINES - 1).join(" ");
        lines.push(rest);
    }
    lines.iter().map(|line| clipped(line, most)).collect()
}

/// Squares where links meet a part, with the names of the interfaces.
fn ports(svg: &mut Svg, placed: &Placed, (has_left, has_right): (bool, bool)) {
    let Placed { part, x, y, width, .. } = placed;
    let most = (((width - 32.0) / if has_left && has_right { 2.0 } else { 1.0 }) / CHARACTER) as usize;
    let base = y + BOX_HEIGHT - 12.0;
    let square =
        |svg: &mut Svg, at: f64| svg.rect("port", (at - PORT / 2.0, placed.middle() - PORT / 2.0), (PORT, PORT));
    if let Some(first) = part.interfaces.first().filter(|_| has_left) {
        square(svg, *x);
        svg.text("letter", (x + 12.0, base), Anchor::Start, &clipped(&format!("◂ {first}"), most));
    }
    if let Some(last) = part.interfaces.last().filter(|_| has_right) {
        square(svg, placed.right());
        svg.text("letter", (placed.right() - 12.0, base), Anchor::End, &clipped(&format!("{last} ▸"), most));
    }
}

/// The part in words.
fn tip(part: &Part, users: &[&str]) -> String {
    let interfaces = if part.interfaces.is_empty() { "none".to_owned() } else { part.interfaces.join(", ") };
    let mut users: Vec<&str> = users.iter().copied().filter(|name| *name != part.name).collect();
    users.dedup();
    let shared = if users.is_empty() { String::new() } else { format!(", shared with {}", listed(&users)) };
    let Part { name, detail, place, cpus, .. } = part;
    format!("{name}: {detail}\nin {place}; interfaces: {interfaces}; {}{shared}", cpu_words(cpus))
}
