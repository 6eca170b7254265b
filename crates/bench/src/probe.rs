//! What this machine costs with no network in it: a cache line between two CPUs, a wake-up between two threads, time
//! stolen by the hypervisor.
//!
//! A shared-memory round trip between the two CPUs is in every figure of every path, and on virtual machines it moves
//! by a factor of several while a run lasts (the hypervisor moves virtual CPUs between siblings and cores). It is
//! therefore probed between all rounds.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

use nearwire_sys::tsc::Clock;

use nearwire_sys::affinity::pin_current_thread;

/// Round trips in one block of the cache-line probe, and blocks in a probe.
const LINE_BLOCK: u32 = 200;
const LINE_BLOCKS: u32 = 9;

/// Blocking round trips in the wake-up probe.
const WAKE_UPS: usize = 400;

#[repr(align(128))]
struct Line(AtomicU32);

/// One-way transfer of a cache line between two CPUs, the median over blocks. Both wait without a PAUSE, which takes up to 140 cycles and
/// which no path waits with. The calling thread must be pinned to
/// one of them. Takes about half a millisecond.
///
/// `None` when both are the same CPU or the other cannot be used.
#[must_use]
pub fn cache_line_ns(clock: Clock, own_cpu: u32, other_cpu: u32) -> Option<f64> {
    if own_cpu == other_cpu {
        return None;
    }
    const ANSWERS: u32 = LINE_BLOCK * LINE_BLOCKS;
    const FAILED: u32 = u32::MAX;
    let line = Line(AtomicU32::new(0));
    let ready = AtomicU32::new(0);
    std::thread::scope(|scope| {
        // Odd values are questions, even ones answers.
        scope.spawn(|| {
            let pinned = pin_current_thread(other_cpu).is_ok();
            ready.store(if pinned { 1 } else { FAILED }, Ordering::Release);
            for answer in 1..=if pinned { ANSWERS } else { 0 } {
                while line.0.load(Ordering::Acquire) != answer * 2 - 1 {}
                line.0.store(answer * 2, Ordering::Release);
            }
        });
        while ready.load(Ordering::Acquire) == 0 {
            std::hint::spin_loop();
        }
        if ready.load(Ordering::Acquire) == FAILED {
            return None;
        }
        let mut blocks_ns = (0..LINE_BLOCKS).map(|block| line_block_ns(clock, &line.0, block)).collect::<Vec<_>>();
        blocks_ns.sort_by(f64::total_cmp);
        Some(blocks_ns[LINE_BLOCKS as usize / 2])
    })
}

fn line_block_ns(clock: Clock, line: &AtomicU32, block: u32) -> f64 {
    let began = clock.start_ticks();
    for question in block * LINE_BLOCK + 1..=(block + 1) * LINE_BLOCK {
        line.store(question * 2 - 1, Ordering::Release);
        while line.load(Ordering::Acquire) != question * 2 {}
    }
    let (ended, _) = clock.end_ticks();
    clock.ns(ended - began) as f64 / f64::from(LINE_BLOCK) / 2.0
}

/// One-way hand-over between two threads that sleep in read(2) on the two CPUs, the median: what every blocking path
/// pays for being woken. Takes some 30 ms.
///
/// `None` when a CPU cannot be used.
#[must_use]
pub fn wake_up_ns(clock: Clock, own_cpu: u32, other_cpu: u32) -> Option<f64> {
    let (mut ours, mut theirs) = UnixStream::pair().ok()?;
    let echo = std::thread::spawn(move || {
        let mut byte = [0];
        if pin_current_thread(other_cpu).is_ok() {
            while theirs.read_exact(&mut byte).is_ok() && theirs.write_all(&byte).is_ok() {}
        }
    });
    pin_current_thread(own_cpu).ok()?;
    let mut byte = [0];
    let mut round_trips_ns = Vec::with_capacity(WAKE_UPS);
    for _ in 0..WAKE_UPS {
        let began = clock.start_ticks();
        if ours.write_all(&byte).and_then(|()| ours.read_exact(&mut byte)).is_err() {
            break;
        }
        let (ended, _) = clock.end_ticks();
        round_trips_ns.push(clock.ns(ended - began));
    }
    drop(ours);
    echo.join().ok()?;
    if round_trips_ns.len() < WAKE_UPS {
        return None;
    }
    round_trips_ns.sort_unstable();
    Some(round_trips_ns[WAKE_UPS / 2] as f64 / 2.0)
}

/// Time that the hypervisor took from some CPUs, from `/proc/stat`, which counts in hundredths of a second: a single
/// short round can only show 0 or a whole hundredth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steal {
    hundredths: u64,
}

impl Steal {
    /// Reads the counters of these CPUs.
    #[must_use]
    pub fn now(cpus: &[u32]) -> Steal {
        Steal { hundredths: sum_steal(&fs::read_to_string("/proc/stat").unwrap_or_default(), cpus) }
    }

    /// Parts per million of `elapsed_ns` on `cpu_count` CPUs.
    #[must_use]
    pub fn ppm_since(&self, earlier: &Steal, elapsed_ns: u64, cpu_count: usize) -> f64 {
        let stolen_ns = self.hundredths.saturating_sub(earlier.hundredths) as f64 * 1e7;
        stolen_ns / (elapsed_ns.max(1) as f64 * cpu_count.max(1) as f64) * 1e6
    }
}

/// Steal is the eighth figure of a `cpuN` line (proc(5)).
fn sum_steal(stat: &str, cpus: &[u32]) -> u64 {
    let of_line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse::<u32>().ok()?;
        cpus.contains(&cpu).then(|| words.nth(7)?.parse::<u64>().ok())?
    };
    stat.lines().filter_map(of_line).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_sums_only_the_cpus_asked_for() {
        let stat = "cpu  1 2 3 4 5 6 7 800 9 10\ncpu0 1 2 3 4 5 6 7 300 9 10\ncpu1 1 2 3 4 5 6 7 500 9 10\nintr 5\n";
        assert_eq!(sum_steal(stat, &[0]), 300);
        assert_eq!(sum_steal(stat, &[0, 1]), 800);
        assert_eq!(sum_steal(stat, &[7]), 0);
        assert_eq!(sum_steal("garbage\ncpu0 1 2", &[0]), 0);
    }

    #[test]
    fn one_hundredth_in_a_second_on_one_cpu_is_ten_thousand_ppm() {
        let (before, after) = (Steal { hundredths: 5 }, Steal { hundredths: 6 });
        assert!((after.ppm_since(&before, 1_000_000_000, 1) - 10_000.0).abs() < 1e-6);
    }

    #[test]
    fn cache_line_between_a_cpu_and_itself_is_nothing() {
        assert_eq!(cache_line_ns(Clock::calibrate(), 0, 0), None);
    }

    #[test]
    fn probes_on_two_cpus_give_plausible_figures() {
        let cpus = nearwire_sys::affinity::allowed_cpus();
        let &[own, other, ..] = &cpus[..] else {
            println!("SKIP one CPU only");
            return;
        };
        std::thread::spawn(move || {
            pin_current_thread(own).unwrap();
            let clock = Clock::calibrate();
            let line_ns = cache_line_ns(clock, own, other).unwrap();
            assert!((1.0..100_000.0).contains(&line_ns), "{line_ns}");
            let wake_ns = wake_up_ns(clock, own, other).unwrap();
            assert!(wake_ns > 300.0, "{wake_ns}");
        })
        .join()
        .unwrap();
    }
}
