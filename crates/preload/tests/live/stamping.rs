//! What it costs a program to ask for times of arrival: the call is short, and does not wait for the network to be still. Needs
//! namespaces and a C compiler (or says SKIP).

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearwire_lab::{Cable, program_under_test};

use crate::common::{WAITS, cable_with_peer_or_skip, compiled, library, tried};

const PORT: u16 = 5100;
const GAP: Duration = Duration::from_micros(200);
/// Of the median: a single call may meet a CPU that others use. In an emulated host it is 80 to 250 us.
const SHORT_US: u64 = 2000;

/// How long each call took that asked for times, in microseconds.
fn calls_us(spin: &str, mode: &str) -> Option<Vec<u64>> {
    let (cable, peer) = cable_with_peer_or_skip(Duration::from_secs(5))?;
    let near = cable.near();
    let mut command = program_under_test(compiled("stamping"));
    command.args([near.ipv4.to_string(), PORT.to_string()]).env("LD_PRELOAD", library()).stdout(Stdio::piped());
    command.envs([("NEARWIRE_SPIN", spin), ("NEARWIRE_MODE", mode), ("NEARWIRE_STRICT", "1")]);
    let mut child = near.namespace.enter(|| command.spawn()).unwrap().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let (mut first, mut told, over) = (String::new(), String::new(), AtomicBool::new(false));
    lines.read_line(&mut first).unwrap();
    assert_eq!(first, "ready\n");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // Refused once the program has ended.
                let _ = peer.send_to(b"datagram", (near.ipv4, PORT));
                std::thread::sleep(GAP);
            }
        });
        lines.read_to_string(&mut told).unwrap();
        over.store(true, Ordering::Relaxed);
    });
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}: {told}");
    Some(told.lines().map(|line| line.parse().unwrap()).collect())
}

#[test]
fn times_asked_for_while_datagrams_come_hold_no_call_up() {
    for &(spin, mode) in tried(&WAITS) {
        let Some(mut calls_us) = calls_us(spin, mode) else { return };
        calls_us.sort_unstable();
        let (median_us, longest_us) = (calls_us[calls_us.len() / 2], calls_us[calls_us.len() - 1]);
        println!("spin {spin}, {mode}: {median_us} us in the median of {}, {longest_us} us at most", calls_us.len());
        assert!(median_us < SHORT_US, "spin {spin}, {mode}: {calls_us:?}");
    }
}
