//! Frames a second of 64 bytes, one way, between two processes and with DPDK. Only on request, as it measures:
//!
//! `cargo test --release -p nearwire-frames --test memif speed -- --ignored --nocapture --test-threads=1`

use std::hint::black_box;
use std::path::Path;

use nearwire_sys::affinity;

use super::*;

const FRAME: [u8; 64] = [0x5a; 64];
/// Frames between two flushes.
const BURST: usize = 32;
/// Many short rounds: other work on the machine shows in how far they are apart.
const ROUNDS: usize = 201;
const ROUND: Duration = Duration::from_millis(20);

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

/// Frames received in a second, in one round.
fn round(port: &mut MemifPort) -> f64 {
    let (start, mut frames, mut sum) = (Instant::now(), 0_u32, 0);
    while start.elapsed() < ROUND {
        for _ in 0..1024 {
            if let Some(len_bytes) = port.receive(|frame| black_box(frame).len()).unwrap() {
                frames += 1;
                sum += len_bytes;
            }
        }
    }
    assert_eq!(sum, frames as usize * FRAME.len());
    f64::from(frames) / start.elapsed().as_secs_f64()
}

/// Frames sent in a second, in one round.
fn sending_round(port: &mut MemifPort) -> f64 {
    let (start, mut frames) = (Instant::now(), 0_u32);
    while start.elapsed() < ROUND {
        for _ in 0..1024 / BURST {
            frames += (0..BURST).take_while(|_| port.queue(&FRAME).unwrap()).count() as u32;
            port.flush().unwrap();
        }
    }
    f64::from(frames) / start.elapsed().as_secs_f64()
}

fn measure(what: &str, port: &mut MemifPort) {
    measure_by(what, || round(port));
}

fn measure_by(what: &str, mut round: impl FnMut() -> f64) {
    let before = load();
    let mut rates: Vec<_> = (0..ROUNDS).map(|_| round() / 1e6).collect();
    rates.sort_by(f64::total_cmp);
    let of = |hundredths: usize| rates[(ROUNDS - 1) * hundredths / 100];
    let [least, quarter, median, upper, most] = [0, 25, 50, 75, 100].map(of);
    println!(
        "{what}: median {median:.1}, quartiles {quarter:.1} and {upper:.1}, least {least:.1}, most {most:.1} M frames/s; load {before} -> {}",
        load()
    );
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

#[test]
#[ignore = "measures: see the beginning of this file"]
fn frames_a_second_with_dpdk() {
    let cpus = affinity::allowed_cpus();
    // The forwarding thread of testpmd has the second CPU: it begins with both, as this thread does.
    let on_the_first = || affinity::pin_current_thread(cpus[0]).unwrap();
    let on_all = || affinity::pin_current_thread_to(&cpus).unwrap();
    for (role, named) in [(MemifRole::Server, "client"), (MemifRole::Client, "server")] {
        dpdk::with_opposite(
            role,
            "",
            "txonly",
            |_| (),
            |mut port| {
                on_the_first();
                measure(&format!("from DPDK as {named}"), &mut port);
                on_all();
            },
        );
        dpdk::with_opposite(
            role,
            "",
            "rxonly",
            |_| (),
            |mut port| {
                on_the_first();
                measure_by(&format!("to DPDK as {named}"), || sending_round(&mut port));
                on_all();
            },
        );
    }
}
