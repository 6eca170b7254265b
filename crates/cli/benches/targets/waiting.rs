//! Spin policies against the kernel where CPUs are wanted by several: `make targets ONLY=waiting`.
//!
//! A cell is a shape of programs, pinned or not, on a calm or a busy host. Each round runs a cell under every policy, in
//! random order; a comparison is the median over rounds of the ratio within the round. `waiting tunnel` runs the cells whose
//! names contain "tunnel", `waiting tunnel kernel auto 50us base` those under four policies: `50us` as `NEARWIRE_SPIN` has it, `base` is
//! `auto` of the nearwire that `BASE` in the environment names, `beside` and `kept` leave all sockets with the kernel and show what the
//! attached program and the library cost. `ROUNDS` and `MEASURED_MS` in the environment have the number of rounds and how long one measures.

mod cells;
mod policy;
pub mod program;

use std::collections::BTreeMap;
use std::str::FromStr;

use nearwire_bench::order::Order;
use nearwire_report::statistics::trend::median;

use crate::AnyError;
use cells::{Bed, Cell, Figures};
use policy::Policy;

/// The word that chooses this part.
pub const NAME: &str = "waiting";
const ROUNDS: usize = 5;
/// What two runs of the same differ by on a shared machine; a verdict allows it.
const RATE_NOISE: f64 = 0.03;
const P99_NOISE: f64 = 0.10;
/// How far `auto` may stay behind `forever` where that is better.
const BEHIND_FOREVER: f64 = 0.05;

/// Runs the cells and policies that the words name, all where they name none; true where every verdict is good.
pub fn judge(words: &[&str]) -> Result<bool, AnyError> {
    let (mut policies, mut names) = (Vec::new(), Vec::new());
    for word in words {
        match Policy::of_word(word) {
            Some(policy) => policies.push(policy),
            None => names.push(*word),
        }
    }
    if policies.is_empty() {
        policies = vec![Policy::Kernel, Policy::spin("auto"), Policy::spin("forever"), Policy::spin("0")];
    }
    let chosen: Vec<Cell> = Cell::all().filter(|cell| names.iter().all(|name| cell.name().contains(name))).collect();
    let rounds = from_environment("ROUNDS", ROUNDS);
    let bed = Bed::lay()?;
    let mut order = Order::new(1);
    let mut all_met = true;
    println!(
        "{:<34} {:>8} {:>12} {:>12}   thousands/s by round (left: medians of {rounds} rounds)",
        "cell", "policy", "messages/s", "p99 us"
    );
    for cell in chosen {
        let mut measured: BTreeMap<&Policy, Vec<Figures>> = BTreeMap::new();
        for _ in 0..rounds {
            for which in order.shuffled(policies.len()) {
                let policy = &policies[which];
                measured.entry(policy).or_default().push(cell.measure(&bed, policy)?);
            }
        }
        for policy in &policies {
            let of = |pick: fn(&Figures) -> f64| median(&measured[policy].iter().map(pick).collect::<Vec<_>>());
            let (rate, p99) = (of(|one| one.rate).unwrap_or(0.0), of(|one| one.p99_us).unwrap_or(0.0));
            // Where programs may run anywhere a round has them on one CPU or on two, and rates are several times apart.
            let each: Vec<String> = measured[policy].iter().map(|one| format!("{:.0}", one.rate / 1e3)).collect();
            println!("{:<34} {policy:>8} {rate:>12.0} {p99:>12.1}   {}", cell.name(), each.join(" "));
        }
        all_met &= verdicts(&cell, &measured);
    }
    Ok(all_met)
}

/// A number in the environment; `otherwise` where there is none.
fn from_environment<T: FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn verdicts(cell: &Cell, measured: &BTreeMap<&Policy, Vec<Figures>>) -> bool {
    let Some(auto) = measured.get(&Policy::spin("auto")) else { return true };
    let mut all_met = true;
    let mut say = |what: &str, ratio: f64, met: bool| {
        all_met &= met;
        println!("{:<34} {what:<28} {ratio:>7.2}  {}", cell.name(), if met { "met" } else { "MISSED" });
    };
    if let Some(kernel) = measured.get(&Policy::Kernel) {
        let (rate, p99) = (ratio(auto, kernel, |one| one.rate), ratio(auto, kernel, |one| one.p99_us));
        say("auto / kernel, rate", rate, rate >= 1.0 - RATE_NOISE);
        say("auto / kernel, p99", p99, p99 <= 1.0 + P99_NOISE);
    }
    if let Some(forever) = measured.get(&Policy::spin("forever")) {
        let rate = ratio(auto, forever, |one| one.rate);
        say("auto / forever, rate", rate, rate >= 1.0 - BEHIND_FOREVER - RATE_NOISE);
    }
    all_met
}

/// The median of the ratios within the rounds.
fn ratio(one: &[Figures], other: &[Figures], pick: fn(&Figures) -> f64) -> f64 {
    median(&one.iter().zip(other).map(|(one, other)| pick(one) / pick(other)).collect::<Vec<_>>()).unwrap_or(0.0)
}
