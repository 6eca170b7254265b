//! Numbers in the texts of settings.

use crate::Setting;

/// Settings of which 0 means no limit and `n/a` means that nothing is tolerated
/// (`Documentation/ABI/testing/sysfs-devices-power`).
const ZERO_IS_NO_LIMIT: [&str; 1] = ["cpu.pm-qos-resume-latency-us"];

/// The numbers of a text, in order: one for most settings, three for `tcp_rmem`. `None` when a
/// word is no number. A unit behind a single number is left out: `8.0 GT/s PCIe`, `16384 kB`.
pub(crate) fn numbers(setting: &Setting, text: &str) -> Option<Vec<f64>> {
    if text == "no limit" {
        return Some(vec![f64::INFINITY]);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let all: Option<Vec<f64>> = words.iter().map(|word| number(setting, word)).collect();
    match all {
        Some(all) if all.is_empty() => None,
        Some(all) => Some(all),
        None => number(setting, words.first()?).map(|only| vec![only]),
    }
}

fn number(setting: &Setting, word: &str) -> Option<f64> {
    if ZERO_IS_NO_LIMIT.contains(&setting.id) {
        match word {
            "0" => return Some(f64::INFINITY),
            "n/a" => return Some(0.0),
            _ => {}
        }
    }
    match word {
        "unlimited" | "max" | "infinity" => Some(f64::INFINITY),
        // `parse` would also take `nan` and `inf`.
        _ if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') => word.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn latency_of_zero_is_no_limit_and_not_the_best() {
        let setting = catalogue::setting("cpu.pm-qos-resume-latency-us").unwrap();
        assert_eq!(numbers(setting, "0"), Some(vec![f64::INFINITY]));
        assert_eq!(numbers(setting, "n/a"), Some(vec![0.0]));
    }

    #[test]
    fn numbers_with_units_and_in_lists_are_read() {
        let setting = catalogue::setting("nic.pcie.speed").unwrap();
        assert_eq!(numbers(setting, "8.0 GT/s PCIe"), Some(vec![8.0]));
        assert_eq!(numbers(setting, "4096 131072 6291456"), Some(vec![4096.0, 131_072.0, 6_291_456.0]));
        assert_eq!(numbers(setting, "Unknown"), None);
        assert_eq!(numbers(setting, ""), None);
        assert_eq!(numbers(setting, "nan"), None);
    }
}
