//! Changes with their intervals, a row each, on a linear axis around zero: for pages of other crates.

use super::svg::{Anchor, Svg};

const WIDTH: f64 = 1080.0;
const ROW: f64 = 24.0;
const TOP: f64 = 34.0;
const FOOT: f64 = 34.0;
const LABEL_CHARACTER: f64 = 7.4;
const LABEL_MAX: f64 = 520.0;
const TICKS: i32 = 4;

/// A change with its interval.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalRow {
    /// What changed.
    pub label: String,
    /// Shown when the pointer rests on it.
    pub tip: String,
    /// The change.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Class of the marks: a family of paths, as in `f-udp`.
    pub class: &'static str,
    /// Whether the interval leaves zero out: a filled mark, else a hollow one.
    pub is_sure: bool,
}

/// The picture as SVG; `unit` is that of the numbers. Intervals that go beyond the axis are cut: it reaches twice as far as the
/// largest change.
#[must_use]
pub fn intervals(rows: &[IntervalRow], name: &str, unit: &str) -> String {
    let caption = format!("{unit} · filled: an effect was measured, hollow: none · bars are the intervals");
    draw(rows, &[], name, &caption, 0.0)
}

/// The same with a link for each row; the axis reaches at least `least_reach`.
pub(super) fn linked_intervals(
    rows: &[IntervalRow],
    links: &[String],
    name: &str,
    caption: &str,
    least_reach: f64,
) -> String {
    draw(rows, links, name, caption, least_reach)
}

fn draw(rows: &[IntervalRow], links: &[String], name: &str, caption: &str, least_reach: f64) -> String {
    let bottom = TOP + rows.len() as f64 * ROW;
    let mut svg = Svg::new(WIDTH, bottom + FOOT, name);
    let longest = rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0);
    let left = (longest as f64).mul_add(LABEL_CHARACTER, 24.0).min(LABEL_MAX);
    let right = WIDTH - 36.0;
    let most = rows.iter().map(|row| row.value.abs() * 2.0).fold(least_reach, f64::max);
    let reach = if most > 0.0 { rounded_up(most) } else { 1.0 };
    let place = |value: f64| left + (value.clamp(-reach, reach) / reach + 1.0) / 2.0 * (right - left);
    for tick in -TICKS..=TICKS {
        let value = reach * f64::from(tick) / f64::from(TICKS);
        let class = if tick == 0 { "axis" } else { "grid" };
        svg.line(class, (place(value), TOP - 8.0), (place(value), bottom));
        svg.text("tick", (place(value), TOP - 16.0), Anchor::Middle, &format!("{value:+}"));
    }
    for (at, row) in rows.iter().enumerate() {
        let y = (at as f64 + 0.5).mul_add(ROW, TOP);
        match links.get(at) {
            Some(id) => {
                svg.row_spot((y, ROW), left - 8.0, &row.tip, id);
                svg.open(&format!("row {}", row.class), "");
            }
            None => {
                svg.open(&format!("row {}", row.class), &row.tip);
                svg.rect("hit", (0.0, y - ROW / 2.0), (WIDTH, ROW));
            }
        }
        marks(&mut svg, row, (left, y), place);
        svg.close();
    }
    // From the edge, as labels may leave less room than it needs.
    svg.text("caption", (16.0, bottom + 22.0), Anchor::Start, caption);
    svg.finish()
}

fn marks(svg: &mut Svg, row: &IntervalRow, (left, y): (f64, f64), place: impl Fn(f64) -> f64) {
    svg.text("label", (left - 14.0, y + 4.5), Anchor::End, &row.label);
    let (from, to) = (place(row.low), place(row.high));
    svg.line("interval", (from, y), (to, y));
    for end in [from, to] {
        svg.line("cap", (end, y - 4.0), (end, y + 4.0));
    }
    svg.circle(if row.is_sure { "p50" } else { "p99" }, (place(row.value), y), 5.0);
}

/// The next of 1, 2, 4, 8 times a power of ten.
fn rounded_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 8.0, 10.0];
    steps.iter().map(|step| step * power).find(|step| *step >= value).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_label_and_marks_stay_within_the_picture() {
        let row = |label: &str, value: f64, is_sure| IntervalRow {
            label: label.to_owned(),
            tip: "<tip>".to_owned(),
            value,
            low: value - 500.0,
            high: value + 5.0,
            class: "f-udp",
            is_sure,
        };
        let picture = intervals(&[row("vm.swappiness", -12.0, true), row("nic.mtu[nw0]", 3.0, false)], "effects", "ns");
        for text in ["vm.swappiness", "nic.mtu[nw0]", "&lt;tip&gt;", "+40", "-40"] {
            assert!(picture.contains(text), "no {text} in {picture}");
        }
        let places = picture.split("cx=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
        assert!(places.clone().count() == 2 && places.into_iter().all(|x| (0.0..=WIDTH).contains(&x)));
        assert_eq!(rounded_up(0.3), 0.4);
    }
}
