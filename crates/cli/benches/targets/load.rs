//! What the workloads `load` and `stream` reach: `make targets ONLY=load`.

use std::process::{Command, Stdio};
use std::time::Instant;

use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions};
use nearwire_report::read_record;
use nearwire_report::record::{Quantile, Record, Run};
use nearwire_report::statistics::quantiles_of;
use nearwire_sys::affinity::pin_current_thread;
use nearwire_sys::tsc::Clock;
use tempfile::TempDir;

use crate::one_way::{self, Kind};
use crate::verdicts::{spread, verdict};
use crate::{AnyError, INITIATOR_CPU, NEARWIRE, RESPONDER_CPU, SIZE_BYTES};

/// The word that chooses this part.
pub const NAME: &str = "load";

const ROUNDS: usize = 5;
const RATE_PER_SECOND: u64 = 100_000;
const ROUND_NS: u64 = 500_000_000;

/// Prints the targets; true when all are met.
pub fn judge() -> Result<bool, AnyError> {
    let clock = Clock::calibrate();
    let mut figures: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let received = metric(&stream()?, "received-rate")? / 1e6;
        let of_a_loop = apart(|| one_way(clock))?;
        let (late_us, noise_us) = (metric(&load()?, "lateness-p99.9")? / 1e3, apart(|| noise_us(clock))?);
        for (kept, figure) in figures.iter_mut().zip([received, received / of_a_loop, late_us, late_us - noise_us]) {
            kept.push(figure);
        }
    }
    let began = Instant::now();
    bench(&["udp/spin", "--workload", "load", "--rate", "sweep", "--size", "64"])?;
    let sweep_s = began.elapsed().as_secs_f64();
    println!("\n{:<54} {:>9} {:>22}  verdict", "target of load and stream", "wanted", "median (least..most)");
    let [received, ratio, late_us, over_us] = figures;
    println!("{:<54} {:>9} {:>22.2}", "lateness p99.9 at 100 k/s, us", "", spread(&late_us)?[1]);
    let mut all_met = true;
    all_met &= verdict("stream frame/xdp 64 B, received Mpps", spread(&received)?, 1.9, f64::INFINITY);
    all_met &= verdict("the same / one way in a loop of its own", spread(&ratio)?, 1.0, f64::INFINITY);
    all_met &= verdict("lateness p99.9 over the machine's noise, us", spread(&over_us)?, f64::NEG_INFINITY, 1.0);
    all_met &= verdict("sweep of ten rates, s", [sweep_s; 3], 0.0, 60.0);
    Ok(all_met)
}

/// On a thread of its own: what runs the command next inherits the CPUs of this one.
fn apart(measure: impl FnOnce() -> Result<f64, AnyError> + Send) -> Result<f64, AnyError> {
    let measured = std::thread::scope(|scope| scope.spawn(|| measure().map_err(|error| error.to_string())).join());
    Ok(measured.map_err(|_| "a measuring thread failed")??)
}

fn bench(words: &[&str]) -> Result<Record, AnyError> {
    let directory = TempDir::new()?;
    let file = directory.path().join("record.json");
    let cpus = format!("{INITIATOR_CPU},{RESPONDER_CPU}");
    let mut command = Command::new(NEARWIRE);
    command.arg("bench").args(words).args(["--cpus", &cpus, "--quiet", "--json"]).arg(&file);
    let output = command.stdout(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(format!("nearwire bench {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(read_record(&file)?)
}

const FRAMES: [&str; 9] = ["frame/xdp", "--tx", "frame", "--rx", "in-place", "--size", "64", "--rounds", "1"];

fn stream() -> Result<Run, AnyError> {
    only(bench(&[&FRAMES[..], &["--workload", "stream", "--time", "250ms"]].concat())?)
}

fn load() -> Result<Run, AnyError> {
    let rate = RATE_PER_SECOND.to_string();
    only(bench(
        &[&FRAMES[..], &["--workload", "load", "--arrivals", "fixed", "--rate", &rate, "--time", "500ms"]].concat(),
    )?)
}

fn only(record: Record) -> Result<Run, AnyError> {
    record.runs.into_iter().next().ok_or_else(|| "no run".into())
}

fn metric(run: &Run, name: &str) -> Result<f64, AnyError> {
    run.metric(name).ok_or_else(|| format!("{name} was not measured").into())
}

fn one_way(clock: Clock) -> Result<f64, AnyError> {
    let cable = VirtualCable::lay(VirtualCableOptions::default())?;
    Ok(one_way::rate(Kind::Xdp(SIZE_BYTES), cable.near(), cable.far(), clock)?.received_mpps)
}

/// How late a loop is that does nothing but wait for the times of the schedule, at 99.9 %.
fn noise_us(clock: Clock) -> Result<f64, AnyError> {
    pin_current_thread(INITIATOR_CPU)?;
    let gap_ticks = clock.hz() / RATE_PER_SECOND;
    let count = ROUND_NS * RATE_PER_SECOND / 1_000_000_000;
    let mut late_ns: Vec<u64> = Vec::with_capacity(count as usize);
    let began = clock.now_ticks();
    for message in 0..count {
        let due = began + message * gap_ticks;
        let mut now = clock.now_ticks();
        while now < due {
            now = clock.now_ticks();
        }
        late_ns.push(clock.ns(now - due));
    }
    let quantiles = quantiles_of(&mut late_ns);
    let p999 = Quantile::at(&quantiles, 99.9).and_then(|line| line.value_ns);
    p999.map(|ns| ns / 1e3).ok_or_else(|| "too few times".into())
}
