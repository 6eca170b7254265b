//! Shares of other processes: an ordinary user's, without any capability, which is killed at any moment. On a real kernel over a veth pair of
//! one queue. Needs root (or says SKIP).

#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod common;

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{Cable, FAR, NEAR, cable_of_queues_or_skip};
use nearwire_frames::ports::xdp::{Handed, Overflow, Steer, XdpConfig, XdpMode, XdpPort};
use nearwire_frames::steering::{Filter, FlowFilter, Transport};
use nearwire_frames::{Port, PortError, RawPort};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

const MODES: [XdpMode; 2] = [XdpMode::Generic, XdpMode::NativeCopy];
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const HEADERS_BYTES: usize = 14 + 20 + 8;
const PATIENCE: Duration = Duration::from_secs(5);
const ORDINARY_USER: u32 = 65534;
const KILLS: u32 = 100;
const FRAMES: u32 = 256;
/// Ports: of the share of another process, of the one beside it, of this one, of the far end.
const HANDED: u16 = 7000;
const BESIDE: u16 = 7001;
const OWN: u16 = 7002;
const ECHOED: u16 = 8000;
const CHILD: &str = "NEARWIRE_TEST_HANDED";

fn config(interface: &str, mode: XdpMode) -> XdpConfig {
    XdpConfig {
        shares: 4,
        hands_over: true,
        fill_frames: FRAMES,
        share_ring_slots: 64,
        ..XdpConfig::new(interface, mode, Steer::Filters)
    }
}

fn open(cable: &Cable, mode: XdpMode) -> (XdpPort, XdpPort) {
    let near = cable.near(|| XdpPort::open(&config(NEAR, mode))).unwrap();
    let mut far = cable.far(|| XdpPort::open(&config(FAR, mode))).unwrap();
    far.add_filter(flow(ECHOED)).unwrap();
    (near, far)
}

fn flow(port: u16) -> Filter {
    Filter::Flow(FlowFilter { transport: Transport::Udp, address: ADDRESS.into(), port })
}

/// A datagram with a number.
fn datagram(port: u16, number: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 2]);
    frame.extend(ADDRESS.octets());
    frame.extend([9000_u16.to_be_bytes(), port.to_be_bytes(), 12_u16.to_be_bytes(), [0, 0]].as_flattened());
    frame.extend(number.to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame[HEADERS_BYTES..].first_chunk().unwrap())
}

/// What veth drops, because others fill the CPU's backlog, is sent again.
fn send(port: &mut XdpPort, to: u16, number: u32) {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let refused = port.statistics().send_refused_frames;
        if port.send(&datagram(to, number)).unwrap() && port.statistics().send_refused_frames == refused {
            return;
        }
    }
    panic!("no frame leaves: {:?}", port.statistics());
}

/// The numbers of so many frames, ascending; fewer, when they do not come.
fn numbers(port: &mut XdpPort, frames: usize) -> Vec<u32> {
    let (until, mut numbers) = (Instant::now() + PATIENCE, Vec::new());
    while numbers.len() < frames && Instant::now() < until {
        numbers.extend(port.receive(number).unwrap());
    }
    numbers.sort_unstable();
    numbers
}

/// Passes what a share is made of.
fn give(stream: &UnixStream, handed: &Handed) {
    let fds: Vec<_> = handed.fds.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(stream, &[IoSlice::new(&handed.description)], &mut ancillary, SendFlags::empty()).unwrap();
}

/// Gets it, in the other process.
fn get(stream: &UnixStream) -> (Vec<u8>, Vec<OwnedFd>) {
    let mut description = vec![0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(stream, &mut [IoSliceMut::new(&mut description)], &mut ancillary, RecvFlags::CMSG_CLOEXEC);
    description.truncate(got.unwrap().bytes);
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    (description, fds.flatten().collect())
}

/// Starts a process of an ordinary user that answers what comes by the share that it is given.
fn start(handed: &Handed) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    give(&ours, handed);
    let child = Command::new("/proc/self/exe")
        .args(["process_that_is_given_a_share", "--exact", "--ignored", "--test-threads=1", "--nocapture"])
        .env(CHILD, "1")
        .uid(ORDINARY_USER)
        .gid(ORDINARY_USER)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    (child, ours)
}

#[test]
#[ignore = "started by the others"]
fn process_that_is_given_a_share() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    for capabilities in ["CapPrm", "CapEff"] {
        assert!(status.contains(&format!("{capabilities}:\t0000000000000000")), "{status}");
    }
    let mut stream = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let (description, fds) = get(&stream);
    let mut port = XdpPort::from_handed(&description, fds).unwrap();
    stream.write_all(b"ready").unwrap();
    let mut answers = 0_u32;
    loop {
        // In place now and then, and several with one kick.
        let came = if answers.is_multiple_of(3) {
            let came = port.lend().unwrap().map(|lent| number(lent.bytes));
            if came.is_some() {
                port.give_back().unwrap();
            }
            came
        } else {
            port.receive(number).unwrap()
        };
        let Some(came) = came else {
            port.flush().unwrap();
            continue;
        };
        answers += 1;
        while !port.queue(&datagram(ECHOED, came)).unwrap() {
            port.flush().unwrap();
        }
        if answers.is_multiple_of(4) {
            port.flush().unwrap();
        }
    }
}

fn ready(stream: &mut UnixStream) {
    let mut said = [0; 5];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"ready");
}

#[test]
fn process_of_an_ordinary_user_receives_and_sends_by_its_share() {
    let Some(cable) = cable_of_queues_or_skip(1) else { return };
    for mode in MODES {
        let (mut near, mut far) = open(&cable, mode);
        let handed = cable.near(|| near.hand_over()).unwrap();
        near.steering_of(handed.number).unwrap().add(flow(HANDED)).unwrap();
        let (mut child, mut stream) = start(&handed);
        ready(&mut stream);
        for round in 0..200 {
            (0..8).for_each(|at| send(&mut far, HANDED, round * 8 + at));
            assert_eq!(numbers(&mut far, 8), (round * 8..round * 8 + 8).collect::<Vec<_>>(), "{mode}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        near.recover(handed.number).unwrap();
        assert!(near.steering_of(handed.number).is_none() && near.recover(handed.number).is_err());
        all_buffers_are_there(&cable, &mut near, &mut far);
    }
}

/// All receive buffers, and all send buffers of every share.
fn all_buffers_are_there(cable: &Cable, near: &mut XdpPort, far: &mut XdpPort) {
    let mut shares = Vec::new();
    for _ in 1..near.config().shares {
        let handed = cable.near(|| near.hand_over()).unwrap();
        let mut share = XdpPort::from_handed(&handed.description, handed.fds).unwrap();
        let until = Instant::now() + PATIENCE;
        let mut sent = 0;
        while sent < 3 * near.config().tx_frames && Instant::now() < until {
            let refused = share.statistics().send_refused_frames;
            while share.queue(&datagram(OWN + 1, 0)).unwrap() {
                sent += 1;
            }
            let at_once = share.statistics().sent_frames;
            share.flush().unwrap();
            assert!(at_once > 0 && share.statistics().send_refused_frames > refused);
        }
        // With nothing on its way, a burst takes all there are.
        let until = Instant::now() + PATIENCE;
        let mut burst = 0;
        while burst < near.config().tx_frames && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
            share.flush().unwrap();
            burst = 0;
            while share.queue(&datagram(OWN + 1, 0)).unwrap() {
                burst += 1;
            }
        }
        assert_eq!(burst, near.config().tx_frames, "share {}", handed.number);
        shares.push((handed.number, share));
    }
    for (number, share) in shares {
        drop(share);
        near.recover(number).unwrap();
    }
    near.add_filter(flow(OWN)).unwrap();
    // Late frames are looked for, until the rings are the port's own again.
    let until = Instant::now() + Duration::from_millis(60);
    while Instant::now() < until {
        assert!(near.receive(|_| ()).unwrap().is_none());
    }
    for _ in 0..3 {
        (0..FRAMES).for_each(|number| send(far, OWN, number));
        assert_eq!(numbers(near, FRAMES as usize), (0..FRAMES).collect::<Vec<_>>(), "{:?}", near.statistics());
    }
    near.remove_filter(flow(OWN)).unwrap();
}

/// What the traffic beside the killed processes came to.
struct Beside {
    sent: u32,
    received: Vec<u32>,
    echoed: u32,
}

/// Has frames come for both shares until `over`, while `work` is done.
fn with_traffic(far: &mut XdpPort, beside: &mut XdpPort, work: impl FnOnce()) -> Beside {
    const AHEAD: u32 = 32;
    let (over, came) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let (mut sent, mut echoed) = (0, 0);
            while !over.load(Ordering::Acquire) {
                // A receiver that keeps up would keep the sender here.
                while sent - came.load(Ordering::Acquire) < AHEAD && !over.load(Ordering::Acquire) {
                    send(far, BESIDE, sent);
                    send(far, HANDED, sent);
                    sent += 1;
                }
                while far.receive(|_| ()).unwrap().is_some() {
                    echoed += 1;
                }
                std::thread::yield_now();
            }
            (sent, echoed)
        });
        let receiver = scope.spawn(|| {
            let mut received = Vec::new();
            let mut until = None;
            loop {
                match beside.receive(number).unwrap() {
                    Some(number) => {
                        received.push(number);
                        came.store(received.len() as u32, Ordering::Release);
                    }
                    None if until.is_some_and(|until| Instant::now() > until) => return received,
                    None => std::thread::yield_now(),
                }
                if until.is_none() && over.load(Ordering::Acquire) {
                    until = Some(Instant::now() + Duration::from_millis(200));
                }
            }
        });
        work();
        over.store(true, Ordering::Release);
        let (sent, echoed) = sender.join().unwrap();
        Beside { sent, received: receiver.join().unwrap(), echoed }
    })
}

#[test]
fn processes_killed_at_any_moment_leave_nothing_missing_and_the_share_beside_loses_nothing() {
    let Some(cable) = cable_of_queues_or_skip(1) else { return };
    for mode in MODES {
        let (mut near, mut far) = open(&cable, mode);
        let mut beside = cable.near(|| near.share()).unwrap();
        beside.add_filter(flow(BESIDE)).unwrap();
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let began = Instant::now();
        let traffic = with_traffic(&mut far, &mut beside, || {
            for kill in 0..KILLS {
                let handed = cable.near(|| near.hand_over()).unwrap();
                near.steering_of(handed.number).unwrap().add(flow(HANDED)).unwrap();
                let (mut child, mut stream) = start(&handed);
                // Most while they work, some while they begin.
                if kill % 8 != 0 {
                    ready(&mut stream);
                }
                std::thread::sleep(Duration::from_micros(random() % 5000));
                child.kill().unwrap();
                child.wait().unwrap();
                near.recover(handed.number).unwrap();
            }
        });
        println!(
            "{mode}: {KILLS} kills in {:?}, {} frames beside, {} answers",
            began.elapsed(),
            traffic.sent,
            traffic.echoed
        );
        let mut received = traffic.received;
        received.sort_unstable();
        assert!(received.iter().copied().eq(0..traffic.sent), "{mode}: {} of {}", received.len(), traffic.sent);
        assert!(traffic.echoed > KILLS, "they did work: {}", traffic.echoed);
        near.unshare(beside).unwrap();
        all_buffers_are_there(&cable, &mut near, &mut far);
    }
}

#[test]
fn shares_left_unread_with_full_rings_leave_buffers_for_the_one_that_is_read() {
    const UNREAD: u16 = 20;
    const FIRST: u16 = 9000;
    let Some(cable) = cable_of_queues_or_skip(1) else { return };
    for mode in MODES {
        let many = XdpConfig {
            shares: 80,
            fill_frames: 4096,
            rx_ring_slots: 16,
            share_ring_slots: 256,
            overflow: Overflow::Kernel,
            ..config(NEAR, mode)
        };
        let mut near = cable.near(|| XdpPort::open(&many)).unwrap();
        let mut far = cable.far(|| XdpPort::open(&config(FAR, mode))).unwrap();
        let mut share = |port: u16| {
            let handed = cable.near(|| near.hand_over()).unwrap();
            near.steering_of(handed.number).unwrap().add(flow(port)).unwrap();
            XdpPort::from_handed(&handed.description, handed.fds).unwrap()
        };
        let unread: Vec<XdpPort> = (0..UNREAD).map(|at| share(FIRST + at)).collect();
        let mut read = share(FIRST + UNREAD);
        for number in 0..300 {
            (0..UNREAD).for_each(|at| send(&mut far, FIRST + at, number));
        }
        for round in 0..100 {
            (0..8).for_each(|at| send(&mut far, FIRST + UNREAD, round * 8 + at));
            assert_eq!(numbers(&mut read, 8), (round * 8..round * 8 + 8).collect::<Vec<_>>(), "{mode}");
        }
        assert!(
            unread.iter().all(|share| share.has_frames() && share.statistics().receive_dropped_frames == 0),
            "{mode}"
        );
        assert!(unread[0].overflowed_frames() > 0 && read.overflowed_frames() == 0);
    }
}

#[test]
fn what_is_not_a_share_is_refused_by_the_process_that_gets_it() {
    let Some(cable) = cable_of_queues_or_skip(1) else { return };
    let (mut near, far) = open(&cable, XdpMode::Generic);
    let handed = cable.near(|| near.hand_over()).unwrap();
    let copies = || handed.fds.iter().map(|fd| fd.try_clone().unwrap()).collect::<Vec<_>>();
    assert!(XdpPort::from_handed(&[], copies()).is_err());
    assert!(XdpPort::from_handed(&handed.description, Vec::new()).is_err(), "no fds");
    let mut swapped = copies();
    swapped.reverse();
    assert!(XdpPort::from_handed(&handed.description, swapped).is_err());
    // Every word of the description, changed to what a number could be by mistake.
    for word in 0..handed.description.len() / 4 {
        for value in [0, 1, 3, 1 << 10, 1 << 16, u32::MAX] {
            let mut description = handed.description.clone();
            description[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
            // Taken or refused, it harms nobody.
            if let Ok(mut port) = XdpPort::from_handed(&description, copies()) {
                assert!(port.receive(|_| ()).is_ok());
            }
        }
    }
    near.recover(handed.number).unwrap();
    let kept = XdpConfig { hands_over: false, ..config(FAR, XdpMode::Generic) };
    drop(far);
    let mut far = cable.far(|| XdpPort::open(&kept)).unwrap();
    assert!(matches!(far.hand_over(), Err(PortError::Config { setting: "hands_over", .. })));
}
