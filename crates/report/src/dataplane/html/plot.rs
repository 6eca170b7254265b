//! A chart of lines: two axes, a label at the end of each line, bands between bounds, and words for each place.

use std::fmt::Write as _;

use crate::html::svg::{Anchor, LogScale, Svg, spread_labels};

const WIDTH: f64 = 1080.0;
const LEFT: f64 = 72.0;
const TOP: f64 = 30.0;
const FOOT: f64 = 56.0;
const LABEL_GAP: f64 = 17.0;
/// Longest label, characters.
const LONGEST_LABEL: usize = 40;
/// Horizontal places are at least so wide for the pointer, of the whole width.
const LEAST_PLACE: f64 = 0.02;

/// How a point is drawn, so that what it stands for is not told by colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// The bounds met.
    Filled,
    /// They did not meet.
    Hollow,
    /// At least so much.
    Upwards,
    /// At least so much, since the generator was too slow.
    Ringed,
    /// None.
    Cross,
}

/// One place of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Bounds, where the figure has both.
    pub(super) band: Option<(f64, f64)>,
    pub(super) mark: Mark,
    /// Joined with the point before it.
    pub(super) is_joined: bool,
}

/// One line.
#[derive(Debug)]
pub(super) struct Line {
    /// Of the colour.
    pub(super) family: &'static str,
    pub(super) dashes: &'static str,
    pub(super) label: String,
    pub(super) tip: String,
    pub(super) points: Vec<Point>,
}

/// How values are placed.
pub(super) enum Scale {
    /// From 0 to the greatest.
    Linear { greatest: f64, from: f64, to: f64 },
    /// Times.
    Log(LogScale),
}

impl Scale {
    pub(super) fn linear(values: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Self {
        let greatest = values.into_iter().fold(0.0, f64::max);
        Self::Linear { greatest: if greatest > 0.0 { greatest * 1.06 } else { 1.0 }, from, to }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        match self {
            Self::Linear { greatest, from, to } => from + (value / greatest).clamp(0.0, 1.0) * (to - from),
            Self::Log(scale) => scale.place(value),
        }
    }

    /// Round values, six or so.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self {
            Self::Linear { greatest, .. } => {
                let step = round_step(greatest / 6.0);
                (0..=12).map(|index| f64::from(index) * step).filter(|tick| tick <= greatest).collect()
            }
            Self::Log(scale) => scale.ticks(),
        }
    }
}

/// The next of 1, 2, 5 and their decades.
fn round_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].map(|step| step * decade).into_iter().find(|step| *step >= least * 0.999).unwrap_or(decade * 10.0)
}

/// What a chart shows.
pub(super) struct Plot<'a> {
    /// For readers who cannot see it.
    pub(super) name: String,
    pub(super) x_caption: &'a str,
    pub(super) y_caption: &'a str,
    /// Places with their labels; the axis spans them.
    pub(super) x_ticks: Vec<(f64, String)>,
    /// A label of the vertical axis.
    pub(super) y_label: fn(f64) -> String,
    pub(super) is_log: bool,
    pub(super) height: f64,
    pub(super) lines: Vec<Line>,
    /// Places that tell all lines' figures.
    pub(super) places: Vec<(f64, String)>,
}

impl Plot<'_> {
    pub(super) fn draw(&self) -> String {
        let longest = self.lines.iter().map(|line| line.label.chars().count()).max().unwrap_or(0).min(LONGEST_LABEL);
        let right = WIDTH - (longest as f64 * 7.8 + 36.0).min(360.0);
        let height = (self.lines.len() as f64 * LABEL_GAP + TOP + FOOT).max(self.height);
        let bottom = height - FOOT;
        let mut svg = Svg::new(WIDTH, height, &self.name);
        let scale = self.scale(bottom);
        let (low, high) = self.reach();
        let place = |x: f64| LEFT + ((x - low) / (high - low)).clamp(0.0, 1.0) * (right - LEFT);
        for (x, tip) in &self.places {
            let width = (right - LEFT) * (0.8 / self.places.len() as f64).max(LEAST_PLACE);
            svg.spot((place(*x) - width / 2.0, TOP), (width, bottom - TOP), tip);
        }
        self.frame(&mut svg, &scale, (right, bottom), place);
        let end = |line: &Line| line.points.last().map_or(bottom, |point| scale.place(point.y));
        let ends: Vec<f64> = self.lines.iter().map(end).collect();
        let labels = spread_labels(&ends, LABEL_GAP, TOP + 6.0, bottom - 2.0);
        for (line, label_y) in self.lines.iter().zip(labels) {
            svg.open(&format!("series strong {}", line.family), &line.tip);
            band(&mut svg, line, |point| place(point.x), &scale);
            curve(&mut svg, line, |point| (place(point.x), scale.place(point.y)));
            if let Some(last) = line.points.last() {
                let (x, y) = (place(last.x), scale.place(last.y));
                svg.polyline("leader", &[(x + 6.0, y), (right + 4.0, y), (right + 18.0, label_y)]);
                svg.text("label", (right + 22.0, label_y + 4.0), Anchor::Start, &clipped(&line.label, LONGEST_LABEL));
                svg.spot((right + 18.0, label_y - LABEL_GAP / 2.0), (WIDTH - right - 18.0, LABEL_GAP), &line.tip);
            }
            svg.close();
        }
        svg.finish()
    }

    fn scale(&self, bottom: f64) -> Scale {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let values = points.flat_map(|point| [point.y, point.band.map_or(point.y, |(_, high)| high)]);
        match self.is_log {
            true => Scale::Log(LogScale::over(values, bottom, TOP)),
            false => Scale::linear(values, bottom, TOP),
        }
    }

    /// The ends of the horizontal axis.
    fn reach(&self) -> (f64, f64) {
        let places = || self.x_ticks.iter().map(|(x, _)| *x);
        let (low, high) = (places().fold(f64::INFINITY, f64::min), places().fold(f64::NEG_INFINITY, f64::max));
        if low >= high || !(high - low).is_finite() {
            let middle = if low.is_finite() { low } else { 0.0 };
            return (middle - 1.0, middle + 1.0);
        }
        let margin = (high - low) * 0.04;
        (low - margin, high + margin)
    }

    fn frame(&self, svg: &mut Svg, scale: &Scale, (right, bottom): (f64, f64), place: impl Fn(f64) -> f64) {
        for tick in scale.ticks() {
            let y = scale.place(tick);
            svg.line("grid", (LEFT, y), (right, y));
            svg.text("tick", (LEFT - 10.0, y + 4.0), Anchor::End, &(self.y_label)(tick));
        }
        let most = (14 / self.x_ticks.iter().map(|(_, label)| label.len() / 10 + 1).max().unwrap_or(1)).max(2);
        let every = self.x_ticks.len().div_ceil(most).max(1);
        for (index, (x, label)) in self.x_ticks.iter().enumerate() {
            svg.line("grid", (place(*x), TOP), (place(*x), bottom));
            if index % every == 0 {
                svg.text("tick", (place(*x), bottom + 18.0), Anchor::Middle, &clipped(label, 18));
            }
        }
        svg.line("axis", (LEFT, bottom), (right, bottom));
        svg.text("caption", (LEFT, bottom + 42.0), Anchor::Start, self.x_caption);
        svg.text("caption", (LEFT - 62.0, TOP - 14.0), Anchor::Start, self.y_caption);
    }
}

/// The band between the bounds of consecutive points, and a bar at each.
fn band(svg: &mut Svg, line: &Line, x_of: impl Fn(&Point) -> f64, scale: &Scale) {
    let mut runs: Vec<Vec<(f64, f64, f64)>> = Vec::new();
    for point in &line.points {
        let Some((low, high)) = point.band else {
            runs.push(Vec::new());
            continue;
        };
        let (x, from, to) = (x_of(point), scale.place(low), scale.place(high));
        svg.line("interval", (x, from), (x, to));
        match runs.last_mut() {
            Some(run) if point.is_joined => run.push((x, from, to)),
            _ => runs.push(vec![(x, from, to)]),
        }
    }
    for run in runs.iter().filter(|run| run.len() > 1) {
        let there = run.iter().map(|(x, low, _)| (x, low));
        let back = run.iter().rev().map(|(x, _, high)| (x, high));
        let mut path = String::new();
        for (index, (x, y)) in there.chain(back).enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
        }
        svg.shape("band", &format!("{path}Z"));
    }
}

fn curve(svg: &mut Svg, line: &Line, at: impl Fn(&Point) -> (f64, f64)) {
    let mut joined: Vec<(f64, f64)> = Vec::new();
    for point in &line.points {
        if !point.is_joined && joined.len() > 1 {
            svg.polyline(&format!("curve {}", line.dashes), &joined);
        }
        if !point.is_joined {
            joined.clear();
        }
        joined.push(at(point));
    }
    if joined.len() > 1 {
        svg.polyline(&format!("curve {}", line.dashes), &joined);
    }
    for point in &line.points {
        mark(svg, point.mark, at(point));
    }
}

/// A point's sign.
pub(super) fn mark(svg: &mut Svg, mark: Mark, (x, y): (f64, f64)) {
    match mark {
        Mark::Filled => svg.circle("dot", (x, y), 3.6),
        Mark::Hollow => svg.circle("open", (x, y), 4.2),
        Mark::Upwards => svg.shape("open", &triangle(x, y)),
        Mark::Ringed => {
            svg.circle("ring", (x, y), 8.5);
            svg.shape("open", &triangle(x, y));
        }
        Mark::Cross => {
            svg.line("stroke", (x - 4.0, y - 4.0), (x + 4.0, y + 4.0));
            svg.line("stroke", (x - 4.0, y + 4.0), (x + 4.0, y - 4.0));
        }
    }
}

fn triangle(x: f64, y: f64) -> String {
    format!("M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}Z", x - 5.0, y + 4.0, x + 5.0, y + 4.0, x, y - 5.5)
}

/// Text of at most so many characters.
pub(super) fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axis_begins_at_zero_and_has_some_ticks() {
        for greatest in [1e-9, 0.37, 1.0, 28.8, 1e15] {
            let scale = Scale::linear([greatest], 100.0, 0.0);
            let ticks = scale.ticks();
            assert!((4..=9).contains(&ticks.len()), "{greatest}: {ticks:?}");
            assert_eq!((ticks[0], scale.place(0.0)), (0.0, 100.0));
        }
    }
}
