//! The project's speed targets, measured: `make targets`. Ends with 1 when one is missed.
//!
//! Everything that is compared runs on one virtual cable, in rounds in which the contenders take turns in random order. A
//! comparison is the median over rounds of the ratio within the round, so a machine that drifts changes neither side
//! alone.

mod accelerated;
mod command;
mod one_way;
mod paths;
mod process;
mod program;
mod sockperf;
mod waiting;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;

use nearwire_bench::bed::TestBed;
use nearwire_bench::order::Order;
use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions};
use nearwire_report::statistics::trend::median;
use nearwire_sys::tsc::Clock;

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
    let only = chosen().next();
    // The command first: it inherits the CPUs of this thread, which `measure` pins.
    let command = || only.map_or_else(command::judge, |_| Ok(true));
    let all = || -> Result<bool, AnyError> {
        let mut met = true;
        if !is_waiting {
            met &= command()?;
            met &= judge(&measure(only)?, only.is_some())?;
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

/// `only`: no contenders but those whose names contain this.
fn measure(only: Option<&str>) -> Result<Figures, AnyError> {
    let is_wanted = |name: &str| only.is_none_or(|part| name.contains(part));
    let cable = VirtualCable::lay(VirtualCableOptions::default())?;
    let (near, far) = (cable.near().clone(), cable.far().clone());
    let mut bed = TestBed::on_cable(Box::new(cable), NEARWIRE.as_ref(), Some(RESPONDER_CPU))?;
    nearwire_sys::affinity::pin_current_thread(INITIATOR_CPU)?;
    let clock = Clock::calibrate();
    let mut cells = paths::Cells::new(&mut bed, clock)?;
    let contests = sockperf::CONTESTS;
    let mut order = Order::new(1);
    let mut figures = Figures::new();
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        let uses_from = cells.len() + contests.len() + one_way::KINDS.len();
        for which in order.shuffled(uses_from + accelerated::USES.len()) {
            if which < cells.len() {
                let name = cells.name(which);
                if !is_wanted(&name) {
                    continue;
                }
                let [p50, p99] = cells.half_rtt_ns(which)?;
                keep(&mut figures, &name, p50);
                keep(&mut figures, &format!("{name} p99"), p99);
            } else if let Some(contest) = contests.get(which - cells.len()) {
                if is_wanted(contest.name) {
                    keep(&mut figures, contest.name, contest.half_rtt_p50_ns(&near, &far)?);
                }
            } else if which < uses_from {
                let kind = one_way::KINDS[which - cells.len() - contests.len()];
                if !is_wanted(&format!("send {}", kind.name())) {
                    continue;
                }
                let rate = one_way::rate(kind, &near, &far, clock)?;
                keep(&mut figures, &format!("{} sent Mpps", kind.name()), rate.sent_mpps);
                keep(&mut figures, &format!("{} received Mpps", kind.name()), rate.received_mpps);
            } else if is_wanted(accelerated::USES[which - uses_from].name) {
                for (name, figure) in accelerated::USES[which - uses_from].figures(&near, &far)? {
                    keep(&mut figures, &name, figure);
                }
            }
        }
        let last = |name: &str| figures.get(name)?.last().copied();
        let frames = cells.frame_names().filter_map(|name| Some([last(&name)?, last(&format!("{name} p99"))?]));
        if let Some([best, p99]) = frames.min_by(|a, b| a[0].total_cmp(&b[0])) {
            keep(&mut figures, "best frame path", best);
            keep(&mut figures, "best frame path p99", p99);
        }
        keep(&mut figures, "stamp ns", clock.stamp_cost_ns());
    }
    Ok(figures)
}

fn keep(figures: &mut Figures, name: &str, figure: f64) {
    figures.entry(name.to_owned()).or_default().push(figure);
}

/// Prints figures and targets; true when all are met. `in_part`: a target without figures is left out, and no failure.
fn judge(figures: &Figures, in_part: bool) -> Result<bool, AnyError> {
    println!("{SIZE_BYTES} B, {ROUNDS} interleaved rounds; half RTT p50 in ns where nothing else is said\n");
    println!("{:<34} {:>9} {:>9} {:>9}", "figure", "least", "median", "most");
    for (name, rounds) in figures {
        let [least, middle, most] = spread(rounds)?;
        println!("{name:<34} {least:>9.2} {middle:>9.2} {most:>9.2}");
    }
    println!("\n{:<54} {:>9} {:>22}  verdict", "target", "wanted", "median (least..most)");
    let ran = "run sockperf udp";
    let targets = [
        ("best frame path / udp/spin", ratio(figures, "best frame path", "udp/spin"), 0.0, 0.36),
        ("udp/spin / sockperf udp --nonblocked", ratio(figures, "udp/spin", "sockperf udp --nonblocked"), 0.0, 1.02),
        ("tcp/spin / sockperf tcp --nonblocked", ratio(figures, "tcp/spin", "sockperf tcp --nonblocked"), 0.0, 1.02),
        ("udp/block / sockperf udp", ratio(figures, "udp/block", "sockperf udp"), 0.85, 1.15),
        ("tcp/block / sockperf tcp", ratio(figures, "tcp/block", "sockperf tcp"), 0.85, 1.15),
        ("udp/bypass - best frame path", over(figures, "udp/bypass", "best frame path"), f64::NEG_INFINITY, 100.0),
        ("udp/bypass p99 / best frame path's", ratio(figures, "udp/bypass p99", "best frame path p99"), 0.0, 1.2),
        ("run sockperf udp - best frame path", over(figures, ran, "best frame path"), f64::NEG_INFINITY, 220.0),
        ("run sockperf udp / sockperf udp --nonblocked", ratio(figures, ran, "sockperf udp --nonblocked"), 0.0, 0.45),
        ("run sockperf udp / sockperf udp", ratio(figures, ran, "sockperf udp"), 0.0, 0.04),
        (
            "run sockperf epoll, 1000 sockets / 1",
            ratio(figures, "run sockperf epoll 1000", "run sockperf epoll 1"),
            0.0,
            1.2,
        ),
        (
            "send 64 B, both ends run in throughput profile / kernel",
            ratio(figures, "send 64 B to own, run throughput mpps", "send 64 B to own, kernel mpps"),
            2.5,
            f64::INFINITY,
        ),
        (
            "send 64 B, run in throughput profile / frames",
            ratio(figures, "send 64 B, run throughput mpps", "frame/xdp 106 B sent Mpps"),
            0.9,
            f64::INFINITY,
        ),
        (
            "send 1400 B, run in throughput profile / frames",
            ratio(figures, "send 1400 B, run throughput mpps", "frame/xdp 1442 B sent Mpps"),
            0.9,
            f64::INFINITY,
        ),
        (
            "ping beside 10 000 idle sockets / beside none",
            ratio(figures, "ping beside 10 000, run p50_ns", "ping, run p50_ns"),
            0.0,
            1.05,
        ),
        (
            "memory of run over the kernel's, MiB",
            over(figures, "ping, run rss_mib", "ping, kernel rss_mib"),
            f64::NEG_INFINITY,
            64.0,
        ),
        ("frame/xdp one way, received Mpps", figure(figures, "frame/xdp received Mpps"), 1.6, f64::INFINITY),
        ("cost of a stamp, ns", figure(figures, "stamp ns"), 0.0, 20.0),
    ];
    let mut all_met = true;
    for (name, rounds, least, most) in targets {
        if in_part && rounds.is_err() {
            continue;
        }
        let rounds = rounds?;
        all_met &= verdict(name, spread(&rounds)?, least, most);
    }
    Ok(all_met)
}

/// One line; true when the median lies between the limits. Half a unit of the last digit printed is granted.
fn verdict(name: &str, [low, middle, high]: [f64; 3], least: f64, most: f64) -> bool {
    let wanted = match (least, most) {
        (_, f64::INFINITY) => format!(">= {least}"),
        (0.0 | f64::NEG_INFINITY, _) => format!("<= {most}"),
        _ => format!("{least}..{most}"),
    };
    let met = (least - 0.005..=most + 0.005).contains(&middle);
    let measured = format!("{middle:.2} ({low:.2}..{high:.2})");
    println!("{name:<54} {wanted:>9} {measured:>22}  {}", if met { "met" } else { "MISSED" });
    met
}

fn figure(figures: &Figures, name: &str) -> Result<Vec<f64>, AnyError> {
    figures.get(name).cloned().ok_or_else(|| format!("{name} was not measured").into())
}

fn ratio(figures: &Figures, one: &str, other: &str) -> Result<Vec<f64>, AnyError> {
    let (one, other) = (figure(figures, one)?, figure(figures, other)?);
    Ok(one.iter().zip(&other).map(|(one, other)| one / other).collect())
}

fn over(figures: &Figures, one: &str, other: &str) -> Result<Vec<f64>, AnyError> {
    let (one, other) = (figure(figures, one)?, figure(figures, other)?);
    Ok(one.iter().zip(&other).map(|(one, other)| one - other).collect())
}

/// Least, median, most.
fn spread(rounds: &[f64]) -> Result<[f64; 3], AnyError> {
    let middle = median(rounds).ok_or("no rounds")?;
    let fold = |pick: fn(f64, f64) -> f64| rounds.iter().copied().fold(middle, pick);
    Ok([fold(f64::min), middle, fold(f64::max)])
}
