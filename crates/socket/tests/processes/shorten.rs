//! Makes a sequence that fails shorter.

use crate::step::Step;

/// Attempts.
const TRIES_MOST: u32 = 2000;

/// A part of the steps that fails still, from which no single step can be left out; and why it fails.
pub fn shorten(
    mut steps: Vec<Step>,
    mut why: String,
    fails: impl Fn(&[Step]) -> Option<String>,
) -> (Vec<Step>, String) {
    let mut part = steps.len().div_ceil(2);
    let mut tries = 0;
    while part > 0 {
        let (mut at, mut is_shorter) = (0, false);
        while at < steps.len() && tries < TRIES_MOST {
            tries += 1;
            let fewer = [&steps[..at], &steps[(at + part).min(steps.len())..]].concat();
            match fails(&fewer) {
                Some(now) => (steps, why, is_shorter) = (fewer, now, true),
                None => at += part,
            }
        }
        part = if part > 1 { part.div_ceil(2) } else { usize::from(is_shorter && tries < TRIES_MOST) };
    }
    (steps, why)
}
