//! Median and 99 % of each path on a log axis, with intervals, above the published marks.

use super::anchors::Anchors;
use super::palette::family;
use super::published::{PUBLISHED, Published};
use super::svg::{Anchor, LogScale, Svg, tick_label};
use super::words::{micro, micro_number};
use crate::record::{Latency, Quantile, Run};
use crate::render::units::{cell_name, count, quantile};

const WIDTH: f64 = 1080.0;
const ROW: f64 = 26.0;
const TOP: f64 = 44.0;
const FOOT: f64 = 40.0;
const GROUP: f64 = 34.0;
const COLUMN: f64 = 62.0;

/// The chart of one size; `runs` come nearest first.
pub(super) fn chart(runs: &[&Run], size_bytes: u32, latency: Latency, anchors: &Anchors) -> String {
    // What was published is half of a round trip without load.
    let published: &[Published] = if latency == Latency::HalfRtt { &PUBLISHED } else { &[] };
    let published_height = if published.is_empty() { 0.0 } else { GROUP + published.len() as f64 * ROW };
    let bottom = TOP + runs.len() as f64 * ROW + published_height;
    let name = format!("p50 and p99 {} of each path at {size_bytes} bytes, log axis", latency.words());
    let mut svg = Svg::new(WIDTH, bottom + FOOT, &name);
    let longest = runs.iter().map(|run| cell_name(&run.cell).chars().count()).max().unwrap_or(0);
    let left = (longest.max(26) as f64).mul_add(7.7, 18.0).min(360.0);
    let right = WIDTH - 2.0 * COLUMN - 8.0;
    let values = runs.iter().flat_map(|run| values_of(run));
    let scale = LogScale::over(values.chain(published.iter().map(|mark| mark.half_rtt_ns)), left, right);
    axis(&mut svg, &scale, bottom, (left, right), latency);
    svg.text("column", (right + COLUMN, TOP - 18.0), Anchor::End, "p50 µs");
    svg.text("column", (right + 2.0 * COLUMN, TOP - 18.0), Anchor::End, "p99 µs");
    for (index, run) in runs.iter().enumerate() {
        let y = TOP + (index as f64 + 0.5) * ROW;
        row(&mut svg, run, &scale, y, (left, right));
        svg.row_spot((y, ROW), left - 8.0, &tip(run, &cell_name(&run.cell)), anchors.id(run));
    }
    let below = TOP + runs.len() as f64 * ROW;
    if !published.is_empty() {
        published_rows(&mut svg, &scale, below, (left, right));
    }
    svg.finish()
}

fn values_of(run: &Run) -> Vec<f64> {
    let lines = [quantile(run, 50.0), quantile(run, 99.0)];
    let mut values: Vec<f64> =
        lines.into_iter().flatten().flat_map(|line| [line.value_ns, line.low_ns, line.high_ns]).flatten().collect();
    values.extend(run.latency_ns.p50);
    values
}

fn axis(svg: &mut Svg, scale: &LogScale, bottom: f64, (left, right): (f64, f64), latency: Latency) {
    for tick in scale.ticks() {
        let x = scale.place(tick);
        svg.line("grid", (x, TOP - 8.0), (x, bottom));
        svg.text("tick", (x, TOP - 18.0), Anchor::Middle, &tick_label(tick));
    }
    svg.line("axis", (left, bottom), (right, bottom));
    svg.text(
        "caption",
        (left, bottom + 24.0),
        Anchor::Start,
        &format!(
            "{}, log axis · filled p50, hollow p99, bars 95 % intervals · further left is nearer the wire",
            latency.words()
        ),
    );
}

fn row(svg: &mut Svg, run: &Run, scale: &LogScale, y: f64, (left, right): (f64, f64)) {
    let name = cell_name(&run.cell);
    svg.open(&format!("row {}", family(&run.cell.path)), "");
    svg.text("label", (left - 14.0, y + 4.5), Anchor::End, &name);
    let p50 = quantile(run, 50.0).and_then(|line| Some((line.value_ns?, line)));
    let p99 = quantile(run, 99.0).and_then(|line| Some((line.value_ns?, line)));
    if let (Some((p50_ns, _)), Some((p99_ns, _))) = (p50, p99) {
        svg.line("link", (scale.place(p50_ns), y), (scale.place(p99_ns), y));
    }
    if let Some((p99_ns, line)) = p99 {
        interval(svg, line, scale, y);
        svg.circle("p99", (scale.place(p99_ns), y), 4.6);
    }
    if let Some((p50_ns, line)) = p50 {
        interval(svg, line, scale, y);
        svg.circle("p50", (scale.place(p50_ns), y), 5.4);
    }
    let number = |value: Option<(f64, &Quantile)>| micro_number(value.map(|(ns, _)| ns));
    svg.text("number strong", (right + COLUMN, y + 4.5), Anchor::End, &number(p50));
    svg.text("number", (right + 2.0 * COLUMN, y + 4.5), Anchor::End, &number(p99));
    svg.close();
}

fn interval(svg: &mut Svg, line: &Quantile, scale: &LogScale, y: f64) {
    let (Some(low_ns), Some(high_ns)) = (line.low_ns, line.high_ns) else {
        return;
    };
    let (from, to) = (scale.place(low_ns), scale.place(high_ns));
    svg.line("interval", (from, y), (to, y));
    svg.line("cap", (from, y - 4.0), (from, y + 4.0));
    svg.line("cap", (to, y - 4.0), (to, y + 4.0));
}

fn published_rows(svg: &mut Svg, scale: &LogScale, top: f64, (left, right): (f64, f64)) {
    svg.line("rule", (0.0, top + 8.0), (WIDTH, top + 8.0));
    svg.text("group", (0.0, top + 27.0), Anchor::Start, "Published, other hardware");
    for (index, mark) in PUBLISHED.iter().enumerate() {
        let y = top + GROUP + (index as f64 + 0.5) * ROW;
        let half_rtt = micro(mark.half_rtt_ns);
        let tip = format!("{}: {half_rtt}, published for other hardware", mark.name);
        svg.open("row f-published", "");
        svg.text("label", (left - 14.0, y + 4.5), Anchor::End, mark.name);
        svg.diamond("mark", (scale.place(mark.half_rtt_ns), y), 5.4);
        svg.text("number", (right + COLUMN + 18.0, y + 4.5), Anchor::End, &half_rtt);
        svg.close();
        svg.spot((0.0, y - ROW / 2.0), (WIDTH, ROW), &tip);
    }
}

fn tip(run: &Run, name: &str) -> String {
    let part = |title: &str, percent: f64| {
        let line = quantile(run, percent)?;
        let interval = match (line.low_ns, line.high_ns) {
            (Some(low_ns), Some(high_ns)) => format!(" (95 % interval {} to {})", micro(low_ns), micro(high_ns)),
            _ => String::new(),
        };
        Some(format!("{title} {}{interval}", micro(line.value_ns?)))
    };
    let mut lines = vec![format!("{name}, {} B, {} samples", run.cell.size_bytes, count(run.samples))];
    lines.extend(part("p50", 50.0));
    lines.extend(part("p99", 99.0));
    lines.extend(part("p99.9", 99.9));
    lines.join("\n")
}
