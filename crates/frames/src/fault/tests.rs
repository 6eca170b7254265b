use std::cell::Cell;

use super::*;
use crate::ports::memory::{MemoryPort, memory_pair};

fn faulty<N: FnMut() -> u64>(config: &str, seed: u64, now_ns: N) -> (FaultPort<MemoryPort, N>, MemoryPort) {
    let (near, far) = memory_pair(4096);
    (FaultPort::new(near, config.parse().unwrap(), seed, now_ns), far)
}

fn number(n: u32) -> Vec<u8> {
    n.to_be_bytes().repeat(4)
}

fn send_numbers(port: &mut impl Port, numbers: std::ops::Range<u32>) {
    for n in numbers {
        assert!(port.send(&number(n)).unwrap());
    }
}

fn receive_all(port: &mut impl Port) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| port.receive(<[u8]>::to_vec).unwrap()).collect()
}

#[test]
fn no_faults_frames_pass_unchanged() {
    let (mut near, mut far) = faulty("loss=0%,on=both", 1, || 0);
    send_numbers(&mut far, 0..100);
    send_numbers(&mut near, 0..100);
    let wanted: Vec<_> = (0..100).map(number).collect();
    assert_eq!(receive_all(&mut near), wanted);
    assert_eq!(receive_all(&mut far), wanted);
}

#[test]
fn loss_on_either_side_frames_missing_are_those_counted() {
    let (mut near, mut far) = faulty("loss=10%,on=both", 7, || 0);
    send_numbers(&mut far, 0..2000);
    send_numbers(&mut near, 0..2000);
    let (received, sent) = (receive_all(&mut near).len() as u64, receive_all(&mut far).len() as u64);
    assert_eq!(received, 2000 - near.receive_counts().lost_frames);
    assert_eq!(sent, 2000 - near.send_counts().lost_frames);
    assert!((150..250).contains(&near.receive_counts().lost_frames), "{:?}", near.receive_counts());
    assert_ne!(near.receive_counts().lost_frames, near.send_counts().lost_frames, "own dice for each direction");
}

#[test]
fn full_loss_nothing_arrives_and_nothing_hangs() {
    let (mut near, mut far) = faulty("loss=100%", 7, || 0);
    send_numbers(&mut far, 0..50);
    assert!(receive_all(&mut near).is_empty());
    assert_eq!(near.receive_counts().lost_frames, 50);
}

#[test]
fn duplicate_always_every_frame_arrives_twice_in_order() {
    let (mut near, mut far) = faulty("duplicate=100%,on=both", 7, || 0);
    send_numbers(&mut far, 0..3);
    send_numbers(&mut near, 0..3);
    let wanted: Vec<_> = [0, 0, 1, 1, 2, 2].map(number).into();
    assert_eq!(receive_all(&mut near), wanted);
    assert_eq!(receive_all(&mut far), wanted);
}

#[test]
fn corrupt_always_every_frame_differs_in_one_bit() {
    let (mut near, mut far) = faulty("corrupt=100%", 7, || 0);
    send_numbers(&mut far, 0..100);
    for (n, frame) in receive_all(&mut near).into_iter().enumerate() {
        let flipped: u32 = frame.iter().zip(number(n as u32)).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(flipped, 1);
    }
}

#[test]
fn reordered_frames_come_later_and_none_is_missing() {
    let (mut near, mut far) = faulty("reorder=20%", 3, || 0);
    send_numbers(&mut far, 0..1000);
    let mut received = receive_all(&mut near);
    let wanted: Vec<_> = (0..1000).map(number).collect();
    assert_ne!(received, wanted);
    assert!(received.len() >= 990, "at the end, frames may wait for one to overtake them");
    received.sort();
    received.dedup();
    assert_eq!(received[..], wanted[..received.len()]);
}

#[test]
fn reordered_frame_without_successor_goes_after_the_wait() {
    let now_ns = Cell::new(0);
    let (mut near, mut far) = faulty("reorder=100%", 3, || now_ns.get());
    send_numbers(&mut far, 0..1);
    assert!(receive_all(&mut near).is_empty());
    now_ns.set(100_000);
    assert_eq!(receive_all(&mut near), [number(0)]);
}

#[test]
fn delay_on_both_sides_frames_arrive_when_the_time_has_passed() {
    let now_ns = Cell::new(0);
    let (mut near, mut far) = faulty("delay=20us,on=both", 3, || now_ns.get());
    send_numbers(&mut far, 0..3);
    send_numbers(&mut near, 0..3);
    assert!(receive_all(&mut near).is_empty());
    assert!(receive_all(&mut far).is_empty());
    now_ns.set(19_999);
    assert!(receive_all(&mut near).is_empty());
    now_ns.set(40_000);
    assert_eq!(receive_all(&mut near), (0..3).map(number).collect::<Vec<_>>());
    assert_eq!(receive_all(&mut far), (0..3).map(number).collect::<Vec<_>>());
}

#[test]
fn same_seed_same_faults_other_seed_others() {
    let run = |seed| {
        let (mut near, mut far) = faulty("loss=10%,duplicate=10%,corrupt=10%,reorder=10%", seed, || 0);
        send_numbers(&mut far, 0..500);
        receive_all(&mut near)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn further_fault_switched_on_losses_stay_the_same() {
    let lost = |config| {
        let (mut near, mut far) = faulty(config, 9, || 0);
        send_numbers(&mut far, 0..500);
        let received = receive_all(&mut near);
        (0..500).map(number).filter(|frame| !received.contains(frame)).collect::<Vec<_>>()
    };
    assert_eq!(lost("loss=10%"), lost("loss=10%,duplicate=30%"));
}

#[test]
fn prepared_frame_with_send_faults_keeps_patches_of_lost_sends() {
    let (mut near, mut far) = faulty("loss=50%,on=send", 5, || 0);
    let prepared = near.prepare(&[0; 14]).unwrap();
    for _ in 0..40 {
        assert!(near.send_prepared(prepared, |frame| frame[0] += 1).unwrap());
    }
    let lost = near.send_counts().lost_frames;
    let received = receive_all(&mut far);
    assert!((5..35).contains(&lost));
    assert_eq!(received.len() as u64, 40 - lost);
    assert!(received.windows(2).all(|pair| pair[0][0] < pair[1][0]));
}

#[test]
fn port_inside_full_frames_wait_and_go_later() {
    let (near, mut far) = memory_pair(2);
    let mut near = FaultPort::new(near, "duplicate=100%,on=send".parse().unwrap(), 1, || 0);
    assert!(near.send(&number(0)).unwrap() && near.send(&number(1)).unwrap());
    assert_eq!(receive_all(&mut far), [number(0), number(0)]);
    near.flush().unwrap();
    assert_eq!(receive_all(&mut far), [number(1), number(1)]);
}
