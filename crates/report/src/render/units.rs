//! Numbers and names as people read them.

use crate::record::{Cell, Quantile, Run};
use crate::statistics::is_lost;

/// Nanoseconds as microseconds: two decimals below 100 us, none above; `-` when unsupported.
#[must_use]
pub fn us(value_ns: Option<f64>) -> String {
    match value_ns {
        None => "-".to_owned(),
        Some(value_ns) if value_ns.abs() < 99_995.0 => format!("{:.2}", value_ns / 1000.0),
        Some(value_ns) => format!("{:.0}", value_ns / 1000.0),
    }
}

/// Nanoseconds with the unit that suits them: `643 ns`, `3.20 us`, `4.1 ms`, `10 s`.
#[must_use]
pub fn time(value_ns: f64) -> String {
    match value_ns.abs() {
        below if below < 99.95 => format!("{value_ns:.1} ns"),
        below if below < 999.5 => format!("{value_ns:.0} ns"),
        below if below < 99_995.0 => format!("{:.2} us", value_ns / 1e3),
        below if below < 999_500.0 => format!("{:.0} us", value_ns / 1e3),
        below if below < 9.995e8 => format!("{:.1} ms", value_ns / 1e6),
        _ => format!("{:.1} s", value_ns / 1e9),
    }
}

/// A count with thin groups of three: `1 234 567`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Gigabits that arrived in a second; `None` for workloads that do not count them.
pub(crate) fn gigabits(run: &Run) -> Option<String> {
    Some(format!("{:.2}", run.metric("received-bits")? / 1e9))
}

/// A cell without its size: `frame/xdp prepared in-place`, `udp/spin IPv6`, `udp/spin 10 000/s`.
#[must_use]
pub fn cell_name(cell: &Cell) -> String {
    let mut name = cell.path.clone();
    for part in [&cell.tx, &cell.rx].into_iter().flatten() {
        name.push(' ');
        name.push_str(part);
    }
    if cell.ip_version == Some(6) {
        name.push_str(" IPv6");
    }
    if let Some(rate_per_second) = cell.rate_per_second {
        name.push_str(&format!(" {}/s", count(rate_per_second)));
    }
    if !cell.variation.is_empty() {
        name.push(' ');
        name.push_str(&variation(cell));
    }
    printable(&name)
}

/// The values of the settings that were varied: `nic.offload.gro=on`.
pub(crate) fn variation(cell: &Cell) -> String {
    let values = cell.variation.iter().map(|(id, value)| format!("{id}={value}"));
    printable(&values.collect::<Vec<_>>().join(" "))
}

/// True for paths through the kernel's socket layer and network stack.
#[must_use]
pub fn is_kernel_path(path: &str) -> bool {
    let (what, how) = path.split_once('/').unwrap_or((path, ""));
    matches!(what, "udp" | "tcp") && !matches!(how, "bypass" | "sockets")
}

/// The line of a run's quantile table at exactly `percent`.
#[must_use]
pub fn quantile(run: &Run, percent: f64) -> Option<&Quantile> {
    Quantile::at(&run.quantiles, percent)
}

/// A quantile of a run as tables have it: microseconds, `lost` when it falls among the lost messages, `-` when too few
/// messages support it.
pub(crate) fn quantile_us(run: &Run, percent: f64) -> String {
    match quantile(run, percent) {
        Some(line) if is_lost(line) => "lost".to_owned(),
        line => us(line.and_then(|line| line.value_ns)),
    }
}

/// The comment line that parts the cells in formats that know only one: `# udp/spin size 64`.
pub(super) fn cell_comment(cell: &Cell) -> String {
    format!("# {} size {}\n", cell_name(cell), cell.size_bytes)
}

/// Breaks text into lines of at most `width` characters, at spaces.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Replaces control characters, so that text from a record cannot steer the terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_change_precision_at_a_hundred() {
        assert_eq!(us(Some(643.0)), "0.64");
        assert_eq!(us(Some(99_994.0)), "99.99");
        assert_eq!(us(Some(100_000.0)), "100");
        assert_eq!(us(None), "-");
    }

    #[test]
    fn long_count_is_grouped() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1 234 567");
    }

    #[test]
    fn text_from_a_record_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\n"), "a [31mb ");
    }
}
