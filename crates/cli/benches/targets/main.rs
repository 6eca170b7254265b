//! The project's speed targets, measured: `make targets`. Ends with 1 when one is missed.
//!
//! Everything that is compared runs on one virtual cable, in rounds in which the contenders take turns in random order. A
//! comparison is the median over rounds of the ratio within the round, so a machine that drifts changes neither side
//! alone.

mod accelerated;
mod command;
mod contenders;
mod dataplane;
mod load;
mod neighbours;
mod one_way;
mod pairs;
mod paths;
mod process;
mod program;
mod redis;
mod sockperf;
mod start_up;
mod tune;
mod verdicts;
mod waiting;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;

use nearwire_bench::order::Order;

type AnyError = Box<dyn Error>;

const ROUNDS: usize = 6;
/// Payload of sockets, whole frame without FCS of ports.
const SIZE_BYTES: u32 = 64;
const INITIATOR_CPU: u32 = 0;
const RESPONDER_CPU: u32 = 1;

/// The binary under test: the responder of every path, and the command whose cost is measured.
const NEARWIRE: &str = env!("CARGO_BIN_EXE_nearwire");

/// Figures by name, one a round.
type Figures = BTreeMap<String, Vec<f64>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((program::MARK, words)) = arguments.split_first().map(|(first, words)| (first.as_str(), words)) {
        return match program::run(words) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    // `cargo test --benches` starts this without --bench; nothing here belongs into a test run on a shared machine.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let chosen = || arguments.iter().filter(|argument| !argument.starts_with('-')).map(String::as_str);
    let words: Vec<&str> = chosen().flat_map(|words| words.split(' ')).collect();
    let is_waiting = words.first() == Some(&waiting::NAME);
    let is_tune = words.first() == Some(&tune::NAME);
    let is_load = words.first() == Some(&load::NAME);
    let is_dataplane = words.first() == Some(&dataplane::NAME);
    let only = chosen().next();
    // What runs the command first: it inherits the CPUs of this thread, which `measure` pins.
    let command = || only.map_or_else(command::judge, |_| Ok(true));
    let all = || -> Result<bool, AnyError> {
        let mut met = true;
        if is_tune || only.is_none() {
            met &= tune::judge()?;
        }
        if !is_waiting && !is_tune && !is_load && !is_dataplane {
            met &= command()?;
            met &= verdicts::judge(&measure(only)?, only.is_some())?;
        }
        if is_load || only.is_none() {
            met &= load::judge()?;
        }
        if is_dataplane || only.is_none() {
            met &= dataplane::judge()?;
        }
        if is_waiting || only.is_none() {
            met &= waiting::judge(words.get(1..).unwrap_or_default())?;
        }
        Ok(met)
    };
    match all() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("targets: {error}");
            ExitCode::from(4)
        }
    }
}

/// `only`: no contenders but those whose names contain this, or one of several parts between commas.
fn measure(only: Option<&str>) -> Result<Figures, AnyError> {
    contenders::Bed::with(|bed| {
        let is_wanted = |name: &str| only.is_none_or(|parts| parts.split(',').any(|part| name.contains(part)));
        let wanted: Vec<_> = bed.contenders().into_iter().filter(|one| is_wanted(&bed.name(*one))).collect();
        let mut order = Order::new(1);
        let mut figures = Figures::new();
        for round in 1..=ROUNDS {
            eprintln!("round {round} of {ROUNDS}");
            for which in order.shuffled(wanted.len()) {
                let one = wanted[which];
                let measured = bed.figures(one).map_err(|error| format!("{}: {error}", bed.name(one)))?;
                for (name, figure) in measured {
                    keep(&mut figures, &name, figure);
                }
            }
            for (name, figure) in bed.best_frame_path(&figures) {
                keep(&mut figures, name, figure);
            }
            keep(&mut figures, "stamp ns", bed.clock.stamp_cost_ns());
        }
        Ok(figures)
    })
}

fn keep(figures: &mut Figures, name: &str, figure: f64) {
    figures.entry(name.to_owned()).or_default().push(figure);
}
