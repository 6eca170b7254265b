//! Frames a second of 64 bytes, one way, between two processes and with DPDK. Only on request, as it measures:
//!
//! `cargo test --release -p nearwire-frames --test memif speed -- --ignored --nocapture --test-threads=1`

use std::path::Path;

use nearwire_sys::affinity;

use super::*;

const FRAME: [u8; 64] = [0x5a; 64];
/// Frames between two flushes.
const BURST: usize = 32;
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(500);

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

/// Sends for as long as there is somebody, on the first CPU that this process may use.
pub fn flood(role: MemifRole, socket: &Path) {
    affinity::pin_current_thread(affinity::allowed_cpus()[0]).unwrap();
    let mut port = MemifPort::open(&config(role, socket)).unwrap();
    loop {
        for _ in 0..BURST {
            match port.queue(&FRAME) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => return,
            }
        }
        port.flush().unwrap();
    }
}

/// Frames received in a round, a second, and their mean time apart.
fn round(port: &mut MemifPort) -> f64 {
    let (start, mut frames, mut sum) = (Instant::now(), 0_u32, 0_u64);
    while start.elapsed() < ROUND {
        for _ in 0..1024 {
            if let Some(byte) = port.receive(|frame| frame[63]).unwrap() {
                frames += 1;
                sum += u64::from(byte);
            }
        }
    }
    assert_eq!(sum, u64::from(frames) * u64::from(FRAME[63]));
    f64::from(frames) / start.elapsed().as_secs_f64()
}

fn measure(what: &str, port: &mut MemifPort) {
    let before = load();
    let mut rates: Vec<_> = (0..ROUNDS).map(|_| round(port) / 1e6).collect();
    rates.sort_by(f64::total_cmp);
    let (least, median, most) = (rates[0], rates[ROUNDS / 2], rates[ROUNDS - 1]);
    println!("{what}: median {median:.1}, least {least:.1}, most {most:.1} M frames/s; load {before} -> {}", load());
}

#[test]
#[ignore = "measures: see the beginning of this file"]
fn frames_a_second_between_two_processes() {
    for (part, role) in [("flood as client", MemifRole::Server), ("flood as server", MemifRole::Client)] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("memif.sock");
        let _sender = start_part(part, &socket);
        // The last CPU; the sender has the first.
        let cpus = affinity::allowed_cpus();
        affinity::pin_current_thread(cpus[cpus.len() - 1]).unwrap();
        let mut port = MemifPort::open(&config(role, &socket)).unwrap();
        measure(part, &mut port);
        affinity::pin_current_thread_to(&cpus).unwrap();
    }
}
