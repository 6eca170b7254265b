//! Both ends are ours, in two processes.

use std::path::Path;

use super::*;

fn frame(number: u32) -> Vec<u8> {
    let mut frame = vec![(number % 251) as u8; 14 + number as usize * 37 % 3000];
    frame[..4].copy_from_slice(&number.to_ne_bytes());
    frame
}

/// The client: sends back what comes until the peer is gone.
pub fn echo(socket: &Path) {
    let mut port = MemifPort::open(&config(MemifRole::Client, socket)).unwrap();
    while let Ok(frame) = received(&mut port) {
        if send(&mut port, &frame).is_err() {
            return;
        }
    }
}

/// The client: is killed while it sends.
pub fn send_until_killed(socket: &Path) {
    let mut port = MemifPort::open(&config(MemifRole::Client, socket)).unwrap();
    loop {
        send(&mut port, &[7; 64]).unwrap();
    }
}

#[test]
fn frames_sent_to_another_process_come_back_in_order() {
    const FRAMES: u32 = 100_000;
    const UNDER_WAY: u32 = 64;
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif.sock");
    let _echo = start_part("echo", &socket);
    let mut port = MemifPort::open(&config(MemifRole::Server, &socket)).unwrap();
    for number in 0..FRAMES + UNDER_WAY {
        if number < FRAMES {
            send(&mut port, &frame(number)).unwrap();
        }
        if number >= UNDER_WAY {
            assert!(received(&mut port).unwrap() == frame(number - UNDER_WAY), "frame {}", number - UNDER_WAY);
        }
    }
    assert_eq!(port.statistics().received_frames, u64::from(FRAMES));
}

#[test]
fn other_process_killed_frames_that_were_sent_arrive_then_error() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif.sock");
    let mut other = start_part("send until killed", &socket);
    let mut port = MemifPort::open(&config(MemifRole::Server, &socket)).unwrap();
    (0..5000).for_each(|_| assert_eq!(received(&mut port).unwrap(), [7; 64]));
    other.0.kill().unwrap();
    other.0.wait().unwrap();
    let error = loop {
        match received(&mut port) {
            Ok(frame) => assert_eq!(frame, [7; 64]),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, PortError::PeerGone), "{error}");
    assert!(matches!(port.queue(&[1; 64]), Err(PortError::PeerGone)));
}
