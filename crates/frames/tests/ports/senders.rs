//! Senders that share a queue, each in a thread of its own, on a real kernel: over a veth pair, and over the NICs of an emulated host.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nearwire_frames::Port;
use nearwire_frames::ports::xdp::{Kick, Steer, XdpConfig, XdpMode, XdpPort};

use crate::common::{Cable, FAR, NEAR, cable_of_queues_or_skip};

const PATIENCE: Duration = Duration::from_secs(5);
const RUN: Duration = Duration::from_secs(3);
/// Frames that a sender may be ahead of what has arrived: all of them fit into the receiver's ring.
const AHEAD: u32 = 20;
/// An EtherType for experiments; all frames are wanted here.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const SENDER_AT: usize = 14;
const FRAME_BYTES: usize = 60;
/// Threads, two for each of two ports.
const SENDERS: usize = 4;

fn frame(sender: u8, number: u32) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, sender]);
    frame.extend(ETHERTYPE);
    frame.push(sender);
    frame.extend(number.to_be_bytes());
    frame.resize(FRAME_BYTES, sender);
    frame
}

/// Sends numbered frames, as fast as they arrive, until it is told to stop; how many. As several threads of a program do by one port: the
/// kick is made without the lock, so that another thread uses buffers while the kernel takes those of this one.
fn send(port: &Mutex<XdpPort>, sender: u8, arrived: &AtomicU32, stop: &AtomicBool) -> u32 {
    let (mut sent, mut seen, mut moved) = (0_u32, 0, Instant::now());
    while !stop.load(Ordering::Acquire) {
        let now = arrived.load(Ordering::Acquire);
        if now != seen {
            (seen, moved) = (now, Instant::now());
        }
        if sent.saturating_sub(now) >= AHEAD {
            // A lost frame is told by the numbers.
            if moved.elapsed() > PATIENCE {
                break;
            }
            std::thread::yield_now();
            continue;
        }
        let kick = {
            let mut port = port.lock().unwrap();
            let is_queued = port.queue_on(0, FRAME_BYTES, |buffer| buffer.copy_from_slice(&frame(sender, sent)));
            sent += u32::from(is_queued.unwrap());
            port.submit_on(0)
        };
        if let Some(kicked) = kick.and_then(Kick::make) {
            port.lock().unwrap().kicked(kicked).unwrap();
        }
    }
    sent
}

/// Each of the senders' frames comes once, whole and in order. `keeps_order`: not so where the kernel queues what comes for each CPU (`enqueue_to_backlog`): a
/// thread's frame may be sent by another one that does so for it, and each CPU hands its own on.
fn each_comes_once(cable: &Cable, mode: XdpMode, keeps_order: bool) {
    let config = XdpConfig { shares: 2, ..XdpConfig::new(NEAR, mode, Steer::Filters) };
    let mut near = cable.near(|| XdpPort::open(&config)).unwrap();
    let other = cable.near(|| near.share()).unwrap();
    let ports = [Mutex::new(near), Mutex::new(other)];
    let steer = Steer::EtherType(u16::from_be_bytes(ETHERTYPE));
    let mut far = cable.far(|| XdpPort::open(&XdpConfig::new(FAR, mode, steer))).unwrap();
    let (arrived, stop) = ([const { AtomicU32::new(0) }; SENDERS], AtomicBool::new(false));
    let mut found = vec![Vec::new(); SENDERS];
    let sent = std::thread::scope(|scope| {
        let (ports, arrived, stop) = (&ports, &arrived, &stop);
        let start = |sender: usize| scope.spawn(move || send(&ports[sender % 2], sender as u8, &arrived[sender], stop));
        let senders: Vec<_> = (0..SENDERS).map(start).collect();
        let begun = Instant::now();
        while begun.elapsed() < RUN + PATIENCE / 10 {
            let taken = far.receive(|frame| {
                (usize::from(frame[SENDER_AT]), u32::from_be_bytes(*frame[SENDER_AT + 1..].first_chunk().unwrap()))
            });
            if let Some((sender, number)) = taken.unwrap() {
                found[sender].push(number);
                arrived[sender].fetch_add(1, Ordering::AcqRel);
            } else {
                std::thread::yield_now();
            }
            stop.store(begun.elapsed() > RUN, Ordering::Release);
        }
        senders.into_iter().map(|sender| sender.join().unwrap()).collect::<Vec<_>>()
    });
    println!("{mode}: {sent:?} frames sent");
    if !keeps_order {
        found.iter_mut().for_each(|numbers| numbers.sort_unstable());
    }
    for (sender, (sent, found)) in sent.into_iter().zip(&found).enumerate() {
        let wrong = found.iter().zip(0..).position(|(number, wanted)| *number != wanted);
        let around = wrong.map(|at| &found[at.saturating_sub(3)..found.len().min(at + 5)]);
        assert!(wrong.is_none(), "{mode}: sender {sender}: {around:?}, at {wrong:?} of {sent}");
        assert_eq!(found.len(), sent as usize, "{mode}: sender {sender}");
    }
}

#[test]
fn threads_that_send_by_two_ports_of_a_queue_each_frame_comes_once() {
    let Some(cable) = cable_of_queues_or_skip(1) else { return };
    for mode in [XdpMode::Generic, XdpMode::NativeCopy] {
        each_comes_once(&cable, mode, mode == XdpMode::NativeCopy);
    }
    // In an emulated host: virtio_net, which hands the NIC the very pages that a sender wrote, e1000e and vmxnet3.
    for number in [0, 2, 4] {
        let Some(nics) = Cable::of_nics(number) else { continue };
        each_comes_once(&nics, XdpMode::Generic, true);
        let native = nics.near(|| XdpPort::open(&XdpConfig::new(NEAR, XdpMode::NativeCopy, Steer::Filters)).map(drop));
        match native {
            Ok(()) => each_comes_once(&nics, XdpMode::NativeCopy, true),
            Err(error) => println!("NIC {number} has no native mode: {error}"),
        }
    }
}
