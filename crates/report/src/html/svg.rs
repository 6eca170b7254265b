//! Writing SVG: shapes, escaped text, and the scales that turn values into places.

use std::fmt::Write as _;

/// Escapes text for HTML and SVG, in content and in quoted attributes.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Which end of a text its position names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// An SVG picture under construction; lengths are in user units, which are CSS pixels at full width.
pub(crate) struct Svg {
    body: String,
    /// What lies below the picture (`spots.rs`).
    pub(crate) spots: String,
    width: f64,
    height: f64,
}

impl Svg {
    /// An empty picture with a name for readers who cannot see it.
    pub(crate) fn new(width: f64, height: f64, name: &str) -> Self {
        let mut body = String::new();
        let _ = write!(
            body,
            r#"<svg viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img" aria-label="{}">"#,
            escaped(name)
        );
        Self { body, spots: String::new(), width, height }
    }

    pub(crate) fn height(&self) -> f64 {
        self.height
    }

    pub(crate) fn width(&self) -> f64 {
        self.width
    }

    /// Begins a group; `tip` appears when the pointer rests on it, so a spot must tell it too.
    pub(crate) fn open(&mut self, class: &str, tip: &str) {
        let _ = write!(self.body, r#"<g class="{class}">"#);
        if !tip.is_empty() {
            let _ = write!(self.body, "<title>{}</title>", escaped(tip));
        }
    }

    pub(crate) fn close(&mut self) {
        self.body.push_str("</g>");
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let _ = write!(
            self.body,
            r#"<line class="{class}" x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/>"#,
            from.0, from.1, to.0, to.1
        );
    }

    pub(crate) fn circle(&mut self, class: &str, at: (f64, f64), radius: f64) {
        let _ = write!(self.body, r#"<circle class="{class}" cx="{:.1}" cy="{:.1}" r="{radius:.1}"/>"#, at.0, at.1);
    }

    pub(crate) fn rect(&mut self, class: &str, from: (f64, f64), size: (f64, f64)) {
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}"/>"#,
            from.0,
            from.1,
            size.0.max(0.0),
            size.1.max(0.0)
        );
    }

    /// A shape by its path data, which must come from numbers only.
    pub(crate) fn shape(&mut self, class: &str, path: &str) {
        let _ = write!(self.body, r#"<path class="{class}" d="{path}"/>"#);
    }

    pub(crate) fn diamond(&mut self, class: &str, at: (f64, f64), radius: f64) {
        let (x, y) = at;
        let _ = write!(
            self.body,
            r#"<path class="{class}" d="M{:.1} {y:.1}L{x:.1} {:.1}L{:.1} {y:.1}L{x:.1} {:.1}Z"/>"#,
            x - radius,
            y - radius,
            x + radius,
            y + radius
        );
    }

    pub(crate) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let _ = write!(self.body, r#"<path class="{class}" d=""#);
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = write!(self.body, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
        }
        self.body.push_str(r#""/>"#);
    }

    pub(crate) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = write!(
            self.body,
            r#"<text class="{class}" x="{:.1}" y="{:.1}" text-anchor="{anchor}">{}</text>"#,
            at.0,
            at.1,
            escaped(text)
        );
    }

    /// The picture, with its spots where it has any.
    pub(crate) fn finish(mut self) -> String {
        self.body.push_str("</svg>");
        if self.spots.is_empty() {
            return self.body;
        }
        format!("<div class=\"drawing\">{}{}</div>", self.spots, self.body)
    }
}

/// Maps values to places, by their logarithm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogScale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

/// A picosecond.
const SHORTEST_NS: f64 = 1e-3;
/// Eleven days.
const LONGEST_NS: f64 = 1e15;

impl LogScale {
    /// Covers all positive `values` with a margin; places run from `from` to `to`. A value beyond any measurement, which only
    /// a damaged record holds, lies at the end: margins around 1e308 would be infinite, and the decades to label with them.
    pub(crate) fn over(values: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for value in values.into_iter().filter(|value| value.is_finite() && *value > 0.0) {
            let value = value.clamp(SHORTEST_NS, LONGEST_NS);
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        let margin = (high / low).powf(0.035).max(1.08);
        let low = low / margin;
        // A labelled tick left of the lowest value tells more than empty margin.
        let decade = 10f64.powf(low.log10().floor());
        let below = [5.0, 2.0, 1.0].map(|step| step * decade).into_iter().find(|&tick| tick <= low);
        let low = below.filter(|&tick| low / tick < 1.3).map_or(low, |tick| tick * 0.999);
        Self { low, high: high * margin, from, to }
    }

    pub(crate) fn place(&self, value: f64) -> f64 {
        let share = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        self.from + share.min(1.0) * (self.to - self.from)
    }

    /// Round values to label: 1, 2, 5 of each decade, or only 1 when there are many decades.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let steps: &[f64] = match decades {
            d if d > 4.0 => &[1.0],
            d if d > 0.9 => &[1.0, 2.0, 5.0],
            _ => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
        };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        (first..=last)
            .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

/// Place of a percent on an axis of nines, in nines: 0 at 0 %, 1 at 90 %, 2 at 99 %.
pub(crate) fn nines(percent: f64) -> f64 {
    -(1.0 - percent / 100.0).max(1e-12).log10()
}

/// Label of a time axis: `500 ns`, `2 µs`, `10 ms`.
pub(crate) fn tick_label(value_ns: f64) -> String {
    let (value, unit) = match value_ns {
        below if below < 999.0 => (value_ns, "ns"),
        below if below < 999_000.0 => (value_ns / 1e3, "µs"),
        below if below < 9.99e8 => (value_ns / 1e6, "ms"),
        _ => (value_ns / 1e9, "s"),
    };
    let text = format!("{value:.1}");
    format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// Moves labels apart so that neighbours are at least `gap` from each other, within `from..=to`; keeps order.
pub(crate) fn spread_labels(wanted: &[f64], gap: f64, from: f64, to: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut places = vec![0.0; wanted.len()];
    let mut least = from;
    for &index in &order {
        places[index] = wanted[index].max(least);
        least = places[index] + gap;
    }
    let mut most = to;
    for &index in order.iter().rev() {
        places[index] = places[index].min(most);
        most = places[index] - gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_escaped() {
        assert_eq!(escaped("<a b='\"&\">"), "&lt;a b=&#39;&quot;&amp;&quot;&gt;");
    }

    #[test]
    fn nines_axis_counts_nines() {
        assert!((nines(99.9) - 3.0).abs() < 1e-9);
        assert_eq!(nines(0.0), 0.0);
    }

    #[test]
    fn crowded_labels_keep_their_order_and_gap() {
        let places = spread_labels(&[10.0, 11.0, 9.0, 50.0], 12.0, 0.0, 100.0);
        assert!(places[2] + 12.0 <= places[0] && places[0] + 12.0 <= places[1]);
        let low = spread_labels(&[99.0, 98.0, 97.0], 12.0, 0.0, 100.0);
        assert!(low.iter().all(|&place| place <= 100.0));
    }

    #[test]
    fn values_beyond_any_measurement_give_few_ticks() {
        for values in [[1.0, 1e308], [1e-308, 1.0], [1e-308, 1e308]] {
            assert!(LogScale::over(values, 0.0, 100.0).ticks().len() <= 20);
        }
    }

    #[test]
    fn narrow_range_still_has_ticks() {
        assert!(LogScale::over([700.0, 730.0], 0.0, 100.0).ticks().len() <= 12);
        assert!(LogScale::over([630.0, 41_000.0], 0.0, 100.0).ticks().len() >= 4);
    }
}
