//! The values of keys, the same for files and variables.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Adopt, Agent, Config, Mode, Problem, Spin};

/// The keys at the top of a file; in upper case behind `NEARWIRE_` they are variables.
pub(super) const KEYS: [&str; 11] = [
    "spin",
    "interfaces",
    "mode",
    "strict",
    "stats",
    "send_coalescing",
    "kernel_first",
    "engines",
    "past_filters",
    "agent",
    "adopt",
];

/// The variable that a key is.
pub(super) fn variable(key: &str) -> String {
    format!("NEARWIRE_{}", key.to_ascii_uppercase())
}

/// The variables of all keys.
pub fn variables() -> impl Iterator<Item = String> {
    KEYS.into_iter().map(variable)
}

/// Shorter, the thread that ends the wait would spend its time going to sleep; longer serves nobody.
const SEND_COALESCING: RangeInclusive<Duration> = Duration::from_micros(20)..=Duration::from_millis(10);
/// Longest name of an interface, bytes (`IFNAMSIZ` without its NUL).
const INTERFACE_BYTES_MAX: usize = 15;

/// Sets one key from text; lists are separated by commas.
pub(super) fn set(config: &mut Config, key: &str, text: &str) -> Result<(), Problem> {
    let bad = |expected: &str| Problem::Value {
        key: key.to_owned(),
        found: format!("\"{text}\""),
        expected: expected.to_owned(),
    };
    match key {
        "spin" => config.spin = spin(text).ok_or_else(|| bad("auto, forever, 0 or a time such as 50us, 10ms, 1s"))?,
        "mode" => {
            config.mode = match text {
                "auto" => Mode::Auto,
                "native" => Mode::Native,
                "generic" => Mode::Generic,
                _ => return Err(bad("auto, native or generic")),
            }
        }
        "agent" => {
            config.agent = match text {
                "auto" => Agent::Auto,
                "off" => Agent::Off,
                _ => return Err(bad("auto or off")),
            }
        }
        "adopt" => {
            config.adopt = match text {
                "never" => Adopt::Never,
                "auto" => Adopt::Auto,
                "eager" => Adopt::Eager,
                _ => return Err(bad("never, auto or eager")),
            }
        }
        "strict" => config.strict = switch(text).ok_or_else(|| bad("true or false"))?,
        "past_filters" => config.past_filters = switch(text).ok_or_else(|| bad("true or false"))?,
        "stats" => config.stats = switch(text).ok_or_else(|| bad("true or false"))?,
        "send_coalescing" => {
            let fits = time(text).filter(|time| time.is_zero() || SEND_COALESCING.contains(time));
            config.send_coalescing = fits.ok_or_else(|| bad("0 or a time from 20us to 10ms"))?;
        }
        "kernel_first" => {
            config.kernel_first = text.parse().map_err(|_| bad("a number of datagrams, 0 to 65535"))?;
        }
        "engines" => config.engines = engines(text).ok_or_else(|| bad("auto or a number from 1 to 8"))?,
        _ => {
            let names: Vec<String> = text.split(',').map(str::trim).map(str::to_owned).collect();
            let is_name = |name: &String| (1..=INTERFACE_BYTES_MAX).contains(&name.len()) && !name.contains(['/', ' ']);
            if !names.iter().all(is_name) {
                return Err(bad("names of interfaces"));
            }
            config.interfaces = names;
        }
    }
    Ok(())
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

fn engines(text: &str) -> Option<Option<u32>> {
    match text {
        "auto" => Some(None),
        _ => text.parse().ok().filter(|most| (1..=crate::ENGINES_MOST as u32).contains(most)).map(Some),
    }
}

fn spin(text: &str) -> Option<Spin> {
    match text {
        "auto" => Some(Spin::Auto),
        "forever" => Some(Spin::Forever),
        _ => time(text).map(Spin::For),
    }
}

fn time(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let ns_of_unit = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(ns_of_unit).map(Duration::from_nanos)
}
