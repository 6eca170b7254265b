//! Ping-pong of datagrams in memory, with faults at the initiator's end.

use std::sync::atomic::{AtomicBool, Ordering};

use nearwire_frames::fault::{FaultCounts, FaultPort};
use nearwire_frames::ports::memory::memory_pair;
use nearwire_sys::tsc::{Clock, monotonic_raw_ns};
use nearwire_wire::MacAddress;

use super::*;
use crate::workloads::echo;
use crate::workloads::{PingPong, RoundOutcome, RoundPlan, SampleBuffer, Workload};

fn stations(near: &str, far: &str) -> [Station; 2] {
    let station =
        |address: &str, mac| Station { address: address.parse().unwrap(), mac: MacAddress([2, 0, 0, 0, 0, mac]) };
    [station(near, 1), station(far, 2)]
}

fn v4() -> [Station; 2] {
    stations("10.0.0.1:4000", "10.0.0.2:5000")
}

fn endpoint<P: Port>(port: P, [own, peer]: [Station; 2], size_bytes: usize) -> Result<UdpBypassEndpoint<P>, PathError> {
    let link = CableLink { ifindex: 2, mtu_bytes: 1500, is_virtual: false };
    let shadow = UdpSocket::bind("127.0.0.1:0").unwrap();
    UdpBypassEndpoint::new(
        port,
        ConnectedStack::new(1, link, own, peer)?,
        shadow,
        size_bytes,
        Duration::from_millis(10),
    )
}

/// Exchanges messages and gives what ping-pong counted, its samples, and what the port did.
fn exchange([own, peer]: [Station; 2], size_bytes: usize, fault: &str) -> (RoundOutcome, u64, FaultCounts) {
    const MESSAGES: u64 = 500;
    let (near, far) = memory_pair(64);
    let clock = Clock::calibrate();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut far = endpoint(far, [peer, own], size_bytes).unwrap();
        let stop = &done;
        let echo = scope.spawn(move || echo::run(&mut far, clock, false, || stop.load(Ordering::Relaxed)).unwrap());
        let now_ns: fn() -> u64 = monotonic_raw_ns;
        let port = FaultPort::new(near, fault.parse().unwrap(), 1, now_ns);
        let mut near = endpoint(port, [own, peer], size_bytes).unwrap();
        let plan = RoundPlan {
            warm_up_messages: 0,
            warm_up_ns: 0,
            messages: Some(MESSAGES),
            time_ns: None,
            timeout_ns: 10_000_000,
            cpu: None,
        };
        let mut samples = SampleBuffer::new(MESSAGES as usize);
        let outcome = PingPong {}.initiate(&mut near, clock, &plan, &mut samples).unwrap();
        done.store(true, Ordering::Relaxed);
        echo.join().unwrap();
        (outcome, samples.samples().len() as u64, near.port.receive_counts())
    })
}

#[test]
fn datagrams_of_both_families_and_all_sizes_come_back() {
    for (stations, most_bytes) in [(v4(), 1472), (stations("[fd00::1]:4000", "[fd00::2]:5000"), 1452)] {
        for size_bytes in [1, 7, 8, 64, most_bytes] {
            let (outcome, samples, _) = exchange(stations, size_bytes, "loss=0%");
            assert_eq!((samples + outcome.lost, outcome.corrupted), (500, 0), "{stations:?} {size_bytes} B");
            // An end that was not scheduled for the timeout's length may lose some.
            assert!(outcome.lost < 50, "{stations:?} {size_bytes} B: {outcome:?}");
        }
    }
}

#[test]
fn lost_datagrams_are_counted() {
    let (outcome, samples, faults) = exchange(v4(), 64, "loss=10%");
    assert_eq!((outcome.sent, samples + outcome.lost), (500, 500));
    assert!(outcome.lost >= faults.lost_frames && faults.lost_frames > 20, "{outcome:?} {faults:?}");
}

#[test]
fn corrupt_datagrams_are_never_samples() {
    let (outcome, samples, faults) = exchange(v4(), 64, "corrupt=20%");
    assert_eq!(samples + outcome.lost, 500);
    assert!(faults.corrupted_frames > 50);
    // A bit of a hardware address or of the EtherType flipped makes it another host's frame.
    assert!(outcome.lost > 30 && outcome.corrupted > 30, "{outcome:?} {faults:?}");
}

#[test]
fn datagram_of_a_stranger_is_none_of_ours() {
    let [own, peer] = v4();
    let stranger = Station { address: "10.0.0.2:5001".parse().unwrap(), ..peer };
    let (near, far) = memory_pair(4);
    let mut stranger = endpoint(far, [stranger, own], 64).unwrap();
    let mut near = endpoint(near, [own, peer], 64).unwrap();
    stranger.send(7).unwrap();
    assert_eq!(near.look().unwrap(), None);
}

#[test]
fn message_longer_than_the_mtu_is_refused_before_the_first_send() {
    let (near, _far) = memory_pair(4);
    let error = endpoint(near, v4(), 1473).err().unwrap().to_string();
    assert!(error.contains("larger than the MTU"), "{error}");
}
