//! The targets: which figures are compared, and what is wanted.

use nearwire_report::statistics::trend::median;

use crate::process::base;
use crate::{AnyError, Figures, ROUNDS, SIZE_BYTES, neighbours, pairs, start_up};

/// What two runs of the same differ by on a shared machine.
const BASE_NOISE: f64 = 0.03;

/// Prints figures and targets; true when all are met. `in_part`: a target without figures is left out, and no failure.
pub fn judge(figures: &Figures, in_part: bool) -> Result<bool, AnyError> {
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
        ("tcp/bypass - best frame path", over(figures, "tcp/bypass", "best frame path"), f64::NEG_INFINITY, 150.0),
        ("run sockperf udp - best frame path", over(figures, ran, "best frame path"), f64::NEG_INFINITY, 220.0),
        ("run sockperf udp / sockperf udp --nonblocked", ratio(figures, ran, "sockperf udp --nonblocked"), 0.0, 0.45),
        (
            "run sockperf tcp - best frame path",
            over(figures, "run sockperf tcp", "best frame path"),
            f64::NEG_INFINITY,
            280.0,
        ),
        ("run sockperf tcp / tcp/busy-poll", ratio(figures, "run sockperf tcp", "tcp/busy-poll"), 0.0, 0.42),
        redis("redis, 1 client, run / kernel", figures, "redis, 1 client", 1.6),
        redis("redis, 50 clients, run / kernel", figures, "redis, 50 clients", 2.06),
        redis("redis, 50 clients -P 16, run / kernel", figures, "redis, 50 clients -P 16", 1.3),
        (
            "redis, 50 clients, p99, run / kernel",
            ratio(figures, "redis, 50 clients, run p99 us", "redis, 50 clients, kernel p99 us"),
            0.0,
            0.5,
        ),
        ("run sockperf udp / sockperf udp", ratio(figures, ran, "sockperf udp"), 0.0, 0.04),
        (
            "run sockperf epoll, 1000 sockets / 1",
            ratio(figures, "run sockperf epoll 1000", "run sockperf epoll 1"),
            0.0,
            1.15,
        ),
        (
            "run sockperf, one queue - two queues",
            over(figures, "run sockperf udp, one queue", ran),
            f64::NEG_INFINITY,
            60.0,
        ),
        (
            "run sockperf, two programs - best frame path",
            over(figures, pairs::NAME, "best frame path"),
            f64::NEG_INFINITY,
            220.0,
        ),
        (
            "run sockperf, two programs / --nonblocked",
            ratio(figures, pairs::NAME, "sockperf udp --nonblocked"),
            0.0,
            0.45,
        ),
        ("run -- true, agent running, ms", figure(figures, start_up::WITH_AGENT), 0.0, 5.0),
        ("run -- true, which starts the agent, ms", figure(figures, start_up::WITHOUT_AGENT), 0.0, 30.0),
        (
            "ping beside 63 idle programs / alone",
            ratio(figures, "ping beside 63 programs, run p50_ns", "ping, run p50_ns"),
            0.0,
            1.05,
        ),
        (
            "socket per request, run / kernel",
            ratio(figures, "socket per request, run p50_ns", "socket per request, kernel p50_ns"),
            0.0,
            1.05,
        ),
        ("idle agent of 64 programs, CPU us in 500 ms", figure(figures, neighbours::AGENT_CPU), 0.0, 0.0),
        ("its memory beside packet memory, MiB", figure(figures, neighbours::AGENT_MEMORY), 0.0, 16.0),
        ("send 64 B, run in 2 threads, Mpps", figure(figures, "send 64 B, 2 threads, run mpps"), 2.2, f64::INFINITY),
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
    for (name, rounds, least, most) in targets.into_iter().chain(against_base(figures)) {
        if in_part && rounds.is_err() {
            continue;
        }
        let rounds = rounds?;
        all_met &= verdict(name, spread(&rounds)?, least, most);
    }
    Ok(all_met)
}

fn redis(name: &'static str, figures: &Figures, load: &str, least: f64) -> Target {
    (name, ratio(figures, &format!("{load}, run k/s"), &format!("{load}, kernel k/s")), least, f64::INFINITY)
}

type Target = (&'static str, Result<Vec<f64>, AnyError>, f64, f64);

/// No slower than the nearwire that `BASE` in the environment names, within what two runs of the same differ by; nothing where it names none.
fn against_base(figures: &Figures) -> Vec<Target> {
    if base().is_none() {
        return Vec::new();
    }
    let (most, least) = (1.0 + BASE_NOISE, 1.0 - BASE_NOISE);
    let of = |name, one, other, least, most| (name, ratio(figures, one, other), least, most);
    vec![
        of("run sockperf udp / base", "run sockperf udp", "base sockperf udp", 0.0, most),
        of("the same on one queue", "run sockperf udp, one queue", "base sockperf udp, one queue", 0.0, most),
        of("ping, run / base", "ping, run p50_ns", "ping, base p50_ns", 0.0, most),
        of("send 64 B, run / base", "send 64 B, run mpps", "send 64 B, base mpps", least, f64::INFINITY),
    ]
}

/// One line; true when the median lies between the limits. Half a unit of the last digit printed is granted.
pub fn verdict(name: &str, [low, middle, high]: [f64; 3], least: f64, most: f64) -> bool {
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
pub fn spread(rounds: &[f64]) -> Result<[f64; 3], AnyError> {
    let middle = median(rounds).ok_or("no rounds")?;
    let fold = |pick: fn(f64, f64) -> f64| rounds.iter().copied().fold(middle, pick);
    Ok([fold(f64::min), middle, fold(f64::max)])
}
