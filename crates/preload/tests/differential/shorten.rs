//! Makes a sequence that differs shorter. What differs only now and then is run more than once before lines are given up.

use std::time::{Duration, Instant};

/// Runs that tell how often a sequence differs.
const RUNS: u32 = 8;
/// A sequence without some lines differs no longer if it does not in this many times the runs in which it did once.
const RUNS_FOR_EACH: u32 = 3;
const TIME: Duration = Duration::from_secs(90);

pub enum Shortened {
    /// It did not differ again in so many runs.
    Seldom(u32),
    /// To this text, where the difference is told of, and how often it differs.
    To { text: String, told: String, differing: u32, times: u32 },
}

/// `differs` runs a text once and tells of a difference.
pub fn shorten(text: &str, mut differs: impl FnMut(&str) -> Option<String>) -> Shortened {
    let started = Instant::now();
    let mut told = String::new();
    let count = |text: &str, told: &mut String, differs: &mut dyn FnMut(&str) -> Option<String>| {
        let found: Vec<String> = (0..RUNS).filter_map(|_| differs(text)).collect();
        let times = u32::try_from(found.len()).unwrap();
        *told = found.into_iter().next().unwrap_or_default();
        times
    };
    let often = count(text, &mut told, &mut differs);
    if often == 0 {
        return Shortened::Seldom(RUNS);
    }
    let attempts = if often == RUNS { 1 } else { (RUNS * RUNS_FOR_EACH).div_ceil(often) };
    let mut lines: Vec<&str> = text.lines().collect();
    let mut piece = lines.len().div_ceil(2);
    while piece > 0 && started.elapsed() < TIME {
        let mut at = 0;
        while at < lines.len() && started.elapsed() < TIME {
            let end = (at + piece).min(lines.len());
            let fewer = joined(lines[..at].iter().chain(&lines[end..]));
            if (0..attempts).any(|_| differs(&fewer).is_some()) {
                lines.drain(at..end);
            } else {
                at = end;
            }
        }
        piece /= 2;
    }
    let text = joined(lines.iter());
    let differing = count(&text, &mut told, &mut differs);
    Shortened::To { text, told, differing, times: RUNS }
}

fn joined<'a>(lines: impl Iterator<Item = &'a &'a str>) -> String {
    lines.flat_map(|line| [line, "\n"]).collect()
}
