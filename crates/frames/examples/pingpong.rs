//! Half round trip and one-way rate of every way to open a veth pair, in interleaved rounds.
//!
//! `cargo run --release -p nearwire-frames --example pingpong [ROUNDS] [SECONDS]`; needs root, `ip` and two CPUs. Lays a
//! cable between two namespaces of its own; near end on CPU 0, far end on CPU 1, both spinning. 64-byte frames.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Cable, FAR, NEAR};
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::packet::{PacketConfig, PacketPort};
use nearwire_frames::ports::xdp::{Side, Steer, TimesWanted, XdpConfig, XdpPort, candidates};
use nearwire_frames::{Port, PortError};
use nearwire_sys::tsc::Clock;
use rustix::thread::{CpuSet, sched_setaffinity};

const ETHER_TYPE: u16 = 0x88b5;
const FRAME_BYTES: usize = 64;
const BATCH: usize = 64;
/// Without times, and what times cost. Of the device's, where generic mode has none, the kernel's.
const TIMES: [(Option<TimesWanted>, &str); 3] =
    [(None, ""), (Some(TimesWanted::Kernel), ", kernel's times"), (Some(TimesWanted::Device), ", device's times")];

type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), AnyError> {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let seconds: f64 = arguments.next().map_or(Ok(0.6), |text| text.parse())?;
    let round = Duration::from_secs_f64(seconds);
    let clock = Clock::calibrate();
    let mut results: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
    for _ in 0..rounds {
        let cable = Cable::lay()?;
        let near_facts = cable.near(|| InterfaceFacts::read(NEAR))?;
        let far_facts = cable.far(|| InterfaceFacts::read(FAR))?;
        let steer = Steer::EtherType(ETHER_TYPE);
        let near = candidates(&near_facts, Side::Near, steer);
        let far = candidates(&far_facts, Side::Far, steer);
        for (near, far) in near.iter().zip(&far) {
            for (times, label) in TIMES {
                let open = |config: &XdpConfig| {
                    let mut port = XdpPort::open(config)?;
                    times.map(|wanted| port.want_times(wanted));
                    Ok(port)
                };
                let outcome = measure(&cable, clock, round, || open(&near.config), || open(&far.config))?;
                results.entry(format!("AF_XDP {}{label}", near.label)).or_default().push(outcome);
            }
        }
        let open = |interface| PacketPort::open(&PacketConfig::new(interface, steer));
        let outcome = measure(&cable, clock, round, || open(NEAR), || open(FAR))?;
        results.entry("AF_PACKET".into()).or_default().push(outcome);
    }
    print(&results);
    Ok(())
}

struct Outcome {
    p50_ns: u64,
    prepared_p50_ns: u64,
    p99_ns: u64,
    sent_mpps: f64,
    mpps: f64,
    lost_percent: f64,
}

fn print(results: &BTreeMap<String, Vec<Outcome>>) {
    println!(
        "{:50} {:>16} {:>16} {:>6} {:>20} {:>16} {:>6}",
        "way (min/median/max)", "p50 ns", "prepared p50", "p99", "sent Mpps", "received Mpps", "lost%"
    );
    for (label, rounds) in results {
        let spread = |value: &dyn Fn(&Outcome) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            (values[0], values[values.len() / 2], values[values.len() - 1])
        };
        let whole = |(min, median, max): (f64, f64, f64)| format!("{min}/{median}/{max}");
        let rate = |(min, median, max): (f64, f64, f64)| format!("{min:.2}/{median:.2}/{max:.2}");
        println!(
            "{label:50} {:>16} {:>16} {:>6} {:>20} {:>16} {:>6.2}",
            whole(spread(&|o| o.p50_ns as f64)),
            whole(spread(&|o| o.prepared_p50_ns as f64)),
            spread(&|o| o.p99_ns as f64).1,
            rate(spread(&|o| o.sent_mpps)),
            rate(spread(&|o| o.mpps)),
            spread(&|o| o.lost_percent).1,
        );
    }
}

/// Opens both ends, lets the far one answer and count on its own thread, and measures from the near one.
fn measure<A: Port, B: Port>(
    cable: &Cable,
    clock: Clock,
    round: Duration,
    near: impl FnOnce() -> Result<A, PortError>,
    far: impl FnOnce() -> Result<B, PortError> + Send,
) -> Result<Outcome, AnyError> {
    let (opened, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| -> Result<u64, AnyError> {
            pin(1)?;
            let mut port = cable.far(far)?;
            opened.store(true, Ordering::Release);
            let counted = answer(&mut port, &stop);
            stop.store(true, Ordering::Release);
            Ok(counted?)
        });
        // Whatever happens below, the far end is told to stop: the scope waits for it.
        let _stop = StopOnDrop(&stop);
        pin(0)?;
        let mut port = cable.near(near)?;
        while !opened.load(Ordering::Acquire) && !echo.is_finished() {
            std::hint::spin_loop();
        }
        let latency = ping(&mut port, clock, round, false, &stop);
        let prepared = ping(&mut port, clock, round, true, &stop);
        let sent = blast(&mut port, round);
        std::thread::sleep(Duration::from_millis(5));
        stop.store(true, Ordering::Release);
        let counted = echo.join().map_err(|_| "the far end panicked")??;
        let ((p50_ns, p99_ns), (prepared_p50_ns, _), (sent, elapsed)) = (latency?, prepared?, sent?);
        let lost_percent = 100.0 * (sent.saturating_sub(counted)) as f64 / sent as f64;
        Ok(Outcome {
            p50_ns,
            prepared_p50_ns,
            p99_ns,
            sent_mpps: sent as f64 / elapsed.as_secs_f64() / 1e6,
            mpps: counted as f64 / elapsed.as_secs_f64() / 1e6,
            lost_percent,
        })
    })
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn pin(cpu: usize) -> Result<(), AnyError> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

fn frame(kind: u8) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    frame[14] = kind;
    frame
}

const PING: u8 = 1;
const COUNT: u8 = 2;

/// Answers pings and counts the others until told to stop.
fn answer<P: Port>(port: &mut P, stop: &AtomicBool) -> Result<u64, PortError> {
    let reply = frame(PING);
    let mut counted = 0;
    while !stop.load(Ordering::Relaxed) {
        match port.receive(|frame| frame[14])? {
            Some(PING) => drop(port.send(&reply)?),
            Some(_) => counted += 1,
            None => {}
        }
    }
    Ok(counted)
}

/// Half round trips for `round`: p50 and p99.
fn ping<P: Port>(
    port: &mut P,
    clock: Clock,
    round: Duration,
    use_prepared: bool,
    stop: &AtomicBool,
) -> Result<(u64, u64), PortError> {
    let request = frame(PING);
    let prepared = port.prepare(&request)?;
    let mut samples: Vec<u32> = Vec::with_capacity(4_000_000);
    let end = clock.now_ticks() + clock.ticks(round.as_nanos() as u64);
    while clock.now_ticks() < end && samples.len() < samples.capacity() {
        let start = clock.start_ticks();
        if use_prepared {
            port.send_prepared(prepared, |frame| frame[20] = frame[20].wrapping_add(1))?;
        } else {
            port.send(&request)?;
        }
        let give_up = start + clock.ticks(20_000_000);
        while port.receive(|_| ())?.is_none() {
            if clock.now_ticks() > give_up || stop.load(Ordering::Relaxed) {
                break;
            }
        }
        samples.push((clock.ns(clock.end_ticks().0 - start) / 2) as u32);
    }
    samples.sort_unstable();
    Ok((u64::from(samples[samples.len() / 2]), u64::from(samples[samples.len() * 99 / 100])))
}

/// Sends as fast as it goes: how many, in what time.
fn blast<P: Port>(port: &mut P, round: Duration) -> Result<(u64, Duration), PortError> {
    let frame = frame(COUNT);
    let before = port.statistics().sent_frames;
    let start = Instant::now();
    while start.elapsed() < round {
        for _ in 0..BATCH {
            if !port.queue(&frame)? {
                break;
            }
        }
        port.flush()?;
    }
    Ok((port.statistics().sent_frames - before, start.elapsed()))
}
