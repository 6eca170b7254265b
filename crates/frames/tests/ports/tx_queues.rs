//! TX queues of a port on a real kernel: sending on each, and kicks made without the port. Needs root (or says SKIP).

use std::time::{Duration, Instant};

use crate::common::{Cable, FAR, NEAR, cable_or_skip};
use nearwire_frames::Port;
use nearwire_frames::ports::xdp::{Steer, XdpConfig, XdpMode, XdpPort};

const ETHER_TYPE: u16 = 0x88b5;
const PATIENCE: Duration = Duration::from_secs(5);

fn open(cable: &Cable) -> (XdpPort, XdpPort) {
    let config = |interface| XdpConfig {
        rx_queues: vec![0, 1],
        tx_queue: 1,
        ..XdpConfig::new(interface, XdpMode::Generic, Steer::EtherType(ETHER_TYPE))
    };
    let near = cable.near(|| XdpPort::open(&XdpConfig { tx_queues: true, ..config(NEAR) })).unwrap();
    (near, cable.far(|| XdpPort::open(&config(FAR))).unwrap())
}

fn queue(port: &mut XdpPort, tx_queue: usize, number: u8) -> bool {
    let write = |frame: &mut [u8]| {
        frame.fill(number);
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        frame[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    };
    port.queue_on(tx_queue, 64, write).unwrap()
}

/// The last byte of each of so many frames, in ascending order.
fn numbers(port: &mut XdpPort, frames: usize) -> Vec<u8> {
    let (until, mut numbers) = (Instant::now() + PATIENCE, Vec::new());
    while numbers.len() < frames && Instant::now() < until {
        numbers.extend(port.receive(|frame| frame[63]).unwrap());
    }
    numbers.sort_unstable();
    numbers
}

#[test]
fn frames_of_each_tx_queue_leave_with_its_own_kick() {
    let Some(cable) = cable_or_skip() else { return };
    let (mut near, mut far) = open(&cable);
    assert_eq!((near.tx_queues(), far.tx_queues()), (2, 1));
    for number in 0..100 {
        assert!(queue(&mut near, usize::from(number) % 2, number));
    }
    assert!(near.submit_on(0).unwrap().make().is_none());
    assert_eq!(numbers(&mut far, 50), (0..100).step_by(2).collect::<Vec<_>>());
    near.flush_on(1).unwrap();
    assert_eq!(numbers(&mut far, 50), (1..100).step_by(2).collect::<Vec<_>>());
    assert!(near.submit_on(0).is_none() && near.submit_on(1).is_none(), "nothing is left");
    assert_eq!(near.statistics().sent_frames, 100);
}

#[test]
fn more_frames_than_buffers_kicked_elsewhere_all_leave() {
    let Some(cable) = cable_or_skip() else { return };
    let (mut near, mut far) = open(&cable);
    for number in 0..200 {
        assert!(queue(&mut near, 1, number), "buffers come back, {number}");
        assert!(near.submit_on(1).unwrap().make().is_none());
        assert_eq!(numbers(&mut far, 1), [number]);
    }
}

#[test]
fn kick_of_a_port_that_was_closed_harms_nobody() {
    let Some(cable) = cable_or_skip() else { return };
    let (mut near, mut far) = open(&cable);
    assert!(queue(&mut near, 1, 7));
    let kick = near.submit_on(1).unwrap();
    drop(near);
    // The memory is unmapped here, and still the kernel's as long as the socket is open.
    assert!(kick.make().is_none());
    assert_eq!(numbers(&mut far, 1), [7]);
}

#[test]
fn interface_down_kick_says_so_to_the_port() {
    let Some(cable) = cable_or_skip() else { return };
    let (mut near, _far) = open(&cable);
    assert!(queue(&mut near, 0, 7));
    let kick = near.submit_on(0).unwrap();
    cable.near(|| crate::common::ip(&format!("link set {NEAR} down")).unwrap());
    let kicked = kick.make().expect("a link that is down takes nothing");
    let error = near.kicked(kicked).unwrap_err();
    assert!(error.to_string().contains(NEAR), "{error}");
}

#[test]
fn kick_of_a_port_that_was_closed_says_nothing_to_the_next_on_the_same_interface() {
    let Some(cable) = cable_or_skip() else { return };
    let (mut near, far) = open(&cable);
    assert!(queue(&mut near, 0, 7));
    let kick = near.submit_on(0).unwrap();
    cable.near(|| crate::common::ip(&format!("link set {NEAR} down")).unwrap());
    let kicked = kick.make().expect("a link that is down takes nothing");
    drop((near, far));
    cable.near(|| crate::common::ip(&format!("link set {NEAR} up")).unwrap());
    let (mut next, _far) = open(&cable);
    next.kicked(kicked).unwrap();
}
