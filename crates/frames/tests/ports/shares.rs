//! Ports that share the queues of one, on a real kernel over a veth pair of four queues, and of one. Needs root (or says SKIP).

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Cable, FAR, NEAR, cable_of_queues_or_skip};
use nearwire_frames::ports::xdp::{FrameTimes, Kick, Steer, TimesWanted, XdpConfig, XdpMode, XdpPort};
use nearwire_frames::steering::{Filter, FlowFilter, Owner, Transport};
use nearwire_frames::{Port, PortError, RawPort, TimeSource};
use nearwire_sys::btf::kernel_structure_has;

const QUEUES: u32 = 4;
const SHARES: u32 = 8;
const PATIENCE: Duration = Duration::from_secs(5);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const SOURCE_PORT: u16 = 9000;
const HEADERS_BYTES: usize = 14 + 20 + 8;
const MODES: [XdpMode; 2] = [XdpMode::Generic, XdpMode::NativeCopy];

fn config(interface: &str, mode: XdpMode) -> XdpConfig {
    let rx_queues = (0..QUEUES).collect();
    XdpConfig { rx_queues, tx_queues: true, shares: 4, ..XdpConfig::new(interface, mode, Steer::Filters) }
}

/// The port that is shared, and the one that sends to it, on any queue.
fn open(cable: &Cable, mode: XdpMode) -> (XdpPort, XdpPort) {
    let near = cable.near(|| XdpPort::open(&config(NEAR, mode))).unwrap();
    (near, cable.far(|| XdpPort::open(&config(FAR, mode))).unwrap())
}

fn share(cable: &Cable, port: &mut XdpPort) -> XdpPort {
    cable.near(|| port.share()).unwrap()
}

fn flow(port: u16) -> Filter {
    Filter::Flow(FlowFilter { transport: Transport::Udp, address: ADDRESS.into(), port })
}

/// A datagram with a number.
fn datagram(source_port: u16, port: u16, number: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 2]);
    frame.extend(ADDRESS.octets());
    frame.extend([source_port.to_be_bytes(), port.to_be_bytes(), 12_u16.to_be_bytes(), [0, 0]].as_flattened());
    frame.extend(number.to_be_bytes());
    frame
}

/// Sends on a queue, which in native mode is the one that veth delivers on; in generic mode all comes on queue 0. What veth drops, because
/// the other tests fill the CPU's backlog, is sent again.
fn send_from(far: &mut XdpPort, queue: usize, frame: &[u8]) {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if !far.queue_on(queue, frame.len(), |buffer| buffer.copy_from_slice(frame)).unwrap() {
            far.flush_on(queue).unwrap();
            continue;
        }
        let Some(kicked) = far.submit_on(queue).and_then(Kick::make) else { return };
        let refused = far.statistics().send_refused_frames;
        far.kicked(kicked).unwrap();
        far.flush_on(queue).unwrap();
        if far.statistics().send_refused_frames == refused {
            return;
        }
    }
    panic!("no frame leaves: {:?}", far.statistics());
}

fn send(far: &mut XdpPort, queue: usize, port: u16, number: u32) {
    send_from(far, queue, &datagram(SOURCE_PORT, port, number));
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame[HEADERS_BYTES..].first_chunk().unwrap())
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

fn nothing_comes(port: &mut XdpPort) {
    for _ in 0..1000 {
        assert_eq!(port.receive(number).unwrap(), None, "{}", port.describe());
    }
}

/// A port that takes port 7000, a share of it that takes 7001, and the far end.
fn open_two(cable: &Cable, mode: XdpMode) -> (XdpPort, XdpPort, XdpPort) {
    let (mut near, far) = open(cable, mode);
    let mut other = share(cable, &mut near);
    near.add_filter(flow(7000)).unwrap();
    other.add_filter(flow(7001)).unwrap();
    (near, other, far)
}

/// Every queue holds a burst for which all its buffers but a few are needed.
fn all_buffers_are_there(far: &mut XdpPort, near: &mut XdpPort, port: u16) {
    let burst = near.config().fill_frames - 28;
    for queue in 0..QUEUES {
        (0..burst).for_each(|number| send(far, queue as usize, port, number));
        assert_eq!(numbers(near, burst as usize), (0..burst).collect::<Vec<_>>(), "queue {queue}");
    }
    nothing_comes(near);
}

#[test]
fn ports_of_two_shares_each_gets_its_own_from_every_queue() {
    let Some(cable) = cable_of_queues_or_skip(QUEUES) else { return };
    for mode in MODES {
        let (mut near, mut other, mut far) = open_two(&cable, mode);
        assert_eq!((near.share_number(), other.share_number(), near.tx_queues(), other.tx_queues()), (0, 1, 4, 1));
        for number in 0..800 {
            send(&mut far, number as usize % 4, 7000 + (number / 4 % 2) as u16, number);
            if number % 40 == 39 {
                let all: Vec<u32> = (number - 39..=number).collect();
                let (ours, theirs): (Vec<u32>, Vec<u32>) = all.iter().partition(|number| *number / 4 % 2 == 0);
                assert_eq!(numbers(&mut near, 20), ours, "{mode}");
                assert_eq!(numbers(&mut other, 20), theirs, "{mode}");
            }
        }
        nothing_comes(&mut near);
        nothing_comes(&mut other);
        assert_eq!(other.statistics().received_frames, 400);
        assert_eq!(other.statistics().receive_dropped_frames, 0);
    }
}

#[test]
fn share_sends_by_a_ring_of_its_own_and_says_what_it_is() {
    let Some(cable) = cable_of_queues_or_skip(QUEUES) else { return };
    for mode in MODES {
        let (mut near, mut far) = open(&cable, mode);
        far.add_filter(flow(7000)).unwrap();
        let mut other = share(&cable, &mut near);
        let what = format!("share 1 of AF_XDP {mode} on {NEAR}, rx queue 0+1+2+3, tx queue 1");
        assert_eq!(other.describe(), what);
        assert!(other.is_attached() && other.receive_sockets().count() == 4);
        for number in 0..500 {
            assert!(other.send(&datagram(SOURCE_PORT, 7000, number)).unwrap());
            assert!(near.send(&datagram(SOURCE_PORT, 7000, 1000 + number)).unwrap());
            assert_eq!(numbers(&mut far, 2), [number, 1000 + number]);
        }
        assert!(other.queue(&datagram(SOURCE_PORT, 7000, 7)).unwrap());
        assert!(other.submit_on(0).unwrap().make().is_none());
        assert_eq!((numbers(&mut far, 1), other.statistics().sent_frames), (vec![7], 501));
        assert!(matches!(other.prepare(&datagram(1, 1, 1)), Err(PortError::NoPreparedSlot { slots: 0, .. })));
    }
}

/// Sends numbers until told to stop, and no more than are sure to find buffers, and says how many it sent.
fn send_ahead(far: &mut XdpPort, received: &AtomicU32, stop: &AtomicBool, port_of: impl Fn(u32) -> u16) -> u32 {
    const AHEAD: u32 = 48;
    let mut sent = 0;
    while !stop.load(Ordering::Acquire) {
        if sent - received.load(Ordering::Acquire) < AHEAD {
            send(far, sent as usize % 4, port_of(sent), sent);
            sent += 1;
        } else {
            std::thread::yield_now();
        }
    }
    sent
}

#[test]
fn filter_moved_under_traffic_every_frame_comes_once() {
    let Some(cable) = cable_of_queues_or_skip(QUEUES) else { return };
    for mode in MODES {
        let (mut near, mut far) = open(&cable, mode);
        let mut other = share(&cable, &mut near);
        near.add_filter(flow(7000)).unwrap();
        let (received, stop) = (AtomicU32::new(0), AtomicBool::new(false));
        let mut by_share = [Vec::new(), Vec::new()];
        let sent = std::thread::scope(|scope| {
            let sender = scope.spawn(|| send_ahead(&mut far, &received, &stop, |_| 7000));
            let until = Instant::now() + Duration::from_millis(800);
            let mut take = |near: &mut XdpPort, other: &mut XdpPort| {
                let before = by_share[0].len() + by_share[1].len();
                by_share[0].extend(near.receive(number).unwrap());
                by_share[1].extend(other.receive(number).unwrap());
                let now = by_share[0].len() + by_share[1].len();
                received.store(now as u32, Ordering::Release);
                now > before
            };
            let mut moves = 0_u32;
            while Instant::now() < until {
                let _ = (0..40).filter(|_| take(&mut near, &mut other)).count();
                let (from, to) = if moves.is_multiple_of(2) { (&mut near, 1) } else { (&mut other, 0) };
                from.steering_table().unwrap().move_to(flow(7000), Owner::Share(to)).unwrap();
                moves += 1;
            }
            stop.store(true, Ordering::Release);
            let sent = sender.join().unwrap();
            let until = Instant::now() + Duration::from_millis(200);
            while Instant::now() < until {
                take(&mut near, &mut other);
            }
            assert!(moves > 20, "{moves} moves");
            sent
        });
        let counts = by_share.each_ref().map(Vec::len);
        println!("{mode}: {sent} frames, {counts:?}");
        assert!(counts.iter().all(|frames| *frames > 100), "{counts:?}");
        let mut all = by_share.concat();
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..sent), "{mode}: {} of {sent} frames", all.len());
    }
}

#[test]
fn frames_through_two_threads_for_a_second_no_buffer_is_lost() {
    let Some(cable) = cable_of_queues_or_skip(QUEUES) else { return };
    for mode in MODES {
        let (mut near, mut other, mut far) = open_two(&cable, mode);
        let (received, stop, over) = (AtomicU32::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let fill_frames = near.config().fill_frames;
        let receive = |port: &mut XdpPort| {
            let mut frames = 0;
            while !over.load(Ordering::Acquire) {
                if port.receive(|_| ()).unwrap().is_some() {
                    received.fetch_add(1, Ordering::AcqRel);
                    frames += 1;
                } else {
                    std::thread::yield_now();
                }
            }
            frames
        };
        let (sent, frames) = std::thread::scope(|scope| {
            let sender =
                scope.spawn(|| send_ahead(&mut far, &received, &stop, |number| 7000 + (number / 4 % 2) as u16));
            let receivers = [scope.spawn(|| receive(&mut near)), scope.spawn(|| receive(&mut other))];
            std::thread::sleep(Duration::from_secs(1));
            // Longer on an emulated host: each buffer is to go round several times.
            let until = Instant::now() + PATIENCE;
            while received.load(Ordering::Acquire) <= 24 * fill_frames && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.store(true, Ordering::Release);
            let sent = sender.join().unwrap();
            let until = Instant::now() + PATIENCE;
            while received.load(Ordering::Acquire) < sent && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            over.store(true, Ordering::Release);
            (sent, receivers.map(|receiver| receiver.join().unwrap()))
        });
        println!("{mode}: {frames:?} of {sent}");
        assert_eq!(frames.iter().sum::<u32>(), sent, "{mode}: {:?} {:?}", near.statistics(), other.statistics());
        assert!(frames.iter().all(|frames| *frames > 10 * fill_frames), "{frames:?}");
        all_buffers_are_there(&mut far, &mut near, 7000);
        all_buffers_are_there(&mut far, &mut other, 7001);
    }
}

#[test]
fn share_made_and_taken_back_a_hundred_times_with_frames_unread_nothing_is_lost() {
    let Some(cable) = cable_of_queues_or_skip(QUEUES) else { return };
    for mode in MODES {
        let (mut near, mut far) = open(&cable, mode);
        near.add_filter(flow(7000)).unwrap();
        let started = Instant::now();
        for round in 0..100 {
            let mut other = share(&cable, &mut near);
            assert_eq!(other.share_number(), 1);
            other.add_filter(flow(7001)).unwrap();
            (0..40).for_each(|number| send(&mut far, number as usize % 4, 7001, number));
            if round % 2 == 0 {
                assert_eq!(numbers(&mut other, 20).len(), 20);
                assert!(other.lend().unwrap().is_some());
            }
            assert!(other.queue(&datagram(SOURCE_PORT, 1, 1)).unwrap());
            near.unshare(other).unwrap();
            send(&mut far, round % 4, 7001, 0);
            send(&mut far, round % 4, 7000, 7);
            assert_eq!(numbers(&mut near, 1), [7], "round {round}");
        }
        println!("{mode}: {} us each", started.elapsed().as_micros() / 100);
        all_buffers_are_there(&mut far, &mut near, 7000);
        // Every TX queue sends, beside the shares' rings.
        far.add_filter(flow(7000)).unwrap();
        for number in 0..200 {
            send_from(&mut near, 3, &datagram(SOURCE_PORT, 7000, number));
            assert_eq!(numbers(&mut far, 1), [number]);
        }
    }
}

#[test]
fn all_shares_made_and_given_back_in_any_order_work_again() {
    let Some(cable) = cable_of_queues_or_skip(QUEUES) else { return };
    let (mut near, mut far) = open(&cable, XdpMode::Generic);
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let mut shares: Vec<XdpPort> = (0..3).map(|_| share(&cable, &mut near)).collect();
        let refused = cable.near(|| near.share()).unwrap_err();
        assert!(matches!(refused, PortError::NoShareLeft { most: 4, .. }), "{refused}");
        for (number, share) in shares.iter_mut().enumerate() {
            assert_eq!(share.share_number(), number as u32 + 1);
            share.add_filter(flow(7001 + number as u16)).unwrap();
        }
        for number in 0..120 {
            send(&mut far, number as usize % 4, 7001 + (number / 4 % 3) as u16, number);
        }
        for (at, share) in (0..).zip(&mut shares) {
            assert_eq!(numbers(share, 40), (0..120).filter(|number| number / 4 % 3 == at).collect::<Vec<_>>());
        }
        let mut shares: Vec<Option<XdpPort>> = shares.into_iter().map(Some).collect();
        order.iter().for_each(|at| near.unshare(shares[*at].take().unwrap()).unwrap());
    }
    near.add_filter(flow(7000)).unwrap();
    all_buffers_are_there(&mut far, &mut near, 7000);
}

#[test]
fn same_flow_of_several_shares_each_source_stays_with_one() {
    let Some(cable) = cable_of_queues_or_skip(QUEUES) else { return };
    let (mut near, mut far) = open(&cable, XdpMode::Generic);
    let mut ports = vec![share(&cable, &mut near), share(&cable, &mut near)];
    ports.push(near);
    ports.iter_mut().for_each(|port| port.add_filter(flow(7000)).unwrap());
    let mut sources = vec![vec![]; 3];
    for source in 0..90_u16 {
        for queue in 0..4 {
            send_from(&mut far, queue, &datagram(20_000 + source, 7000, source.into()));
        }
        let until = Instant::now() + PATIENCE;
        let mut came = 0;
        while came < 4 && Instant::now() < until {
            for (port, sources) in ports.iter_mut().zip(&mut sources) {
                let number = port.receive(number).unwrap();
                came += usize::from(number.is_some());
                sources.extend(number);
            }
        }
    }
    let counts = sources.iter().map(Vec::len).collect::<Vec<_>>();
    assert!(counts.iter().sum::<usize>() == 360 && counts.iter().all(|frames| *frames > 60), "{counts:?}");
    let whole =
        |numbers: &[u32]| numbers.iter().all(|number| numbers.iter().filter(|other| *other == number).count() == 4);
    assert!(sources.iter().all(|numbers| whole(numbers)), "a source's frames all come to one share");
}

#[test]
fn share_dropped_first_port_goes_on_and_the_kernel_has_its_frames() {
    let Some(cable) = cable_of_queues_or_skip(QUEUES) else { return };
    for mode in MODES {
        let (mut near, mut other, mut far) = open_two(&cable, mode);
        (0..8).for_each(|number| send(&mut far, number as usize % 4, 7001, number));
        assert_eq!(numbers(&mut other, 4).len(), 4);
        // As a child of fork(2) has them until it executes: closing ours closes no socket.
        let _copies: Vec<_> = other.receive_sockets().map(|socket| socket.try_clone_to_owned().unwrap()).collect();
        drop(other);
        for number in 0..2000 {
            send(&mut far, number as usize % 4, 7000 + (number / 4 % 2) as u16, number);
            if number / 4 % 2 == 0 {
                assert_eq!(numbers(&mut near, 1), [number], "{mode}: {:?} {:?}", near.statistics(), far.statistics());
            }
        }
        // Its number is free, and its filters are nobody's.
        let mut other = share(&cable, &mut near);
        assert_eq!(other.share_number(), 1);
        other.add_filter(flow(7001)).unwrap();
        send(&mut far, 2, 7001, 5);
        assert_eq!(numbers(&mut other, 1), [5]);
        near.unshare(other).unwrap();
        send(&mut far, 2, 7000, 6);
        assert_eq!(numbers(&mut near, 1), [6]);
    }
}

#[test]
fn first_port_detached_or_dropped_its_shares_say_so_and_harm_nobody() {
    let Some(cable) = cable_of_queues_or_skip(QUEUES) else { return };
    for mode in MODES {
        let (mut near, mut far) = open(&cable, mode);
        far.add_filter(flow(7000)).unwrap();
        let (mut first, mut second) = (share(&cable, &mut near), share(&cable, &mut near));
        first.add_filter(flow(7001)).unwrap();
        send(&mut far, 1, 7001, 1);
        assert_eq!(numbers(&mut first, 1), [1]);
        second.detach();
        assert!(first.is_attached() && near.is_attached() && !second.is_attached());
        near.detach();
        assert!(!first.is_attached() && !near.is_attached());
        drop(near);
        send(&mut far, 1, 7001, 2);
        nothing_comes(&mut first);
        assert!(first.send(&datagram(SOURCE_PORT, 7000, 9)).unwrap());
        assert_eq!(numbers(&mut far, 1), [9]);
        first.remove_filter(flow(7001)).unwrap();
        drop((second, first));
        drop(far);
    }
}

#[test]
fn times_wanted_while_shared_are_of_the_first_port_and_of_shares_that_ask() {
    let Some(cable) = cable_of_queues_or_skip(QUEUES) else { return };
    for mode in MODES {
        let (mut near, mut other, mut far) = open_two(&cable, mode);
        assert_eq!(other.want_times(TimesWanted::Kernel), TimeSource::Program);
        assert_eq!(
            cable.near(|| near.want_times(TimesWanted::Kernel)),
            TimeSource::Kernel,
            "{:?}",
            near.no_kernel_times()
        );
        assert!(other.is_attached() && near.is_attached());
        // More often than there are buffers.
        for number in 0..600 {
            send(&mut far, number % 4, 7000, 1);
            send(&mut far, number % 4, 7001, 2);
            assert!(next_times(&mut near).kernel_ns.is_some(), "{mode}");
            assert_eq!(next_times(&mut other), FrameTimes::default(), "{mode}");
        }
        assert_eq!(other.want_times(TimesWanted::Kernel), TimeSource::Kernel);
        for number in 0..600 {
            send(&mut far, number % 4, 7001, 2);
            assert!(next_times(&mut other).kernel_ns.is_some(), "{mode}");
        }
        near.unshare(other).unwrap();
        send(&mut far, 0, 7000, 1);
        assert!(next_times(&mut near).kernel_ns.is_some(), "{mode}");
    }
}

fn next_times(port: &mut XdpPort) -> FrameTimes {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(times) = port.receive_timed(|_, times| times).unwrap() {
            return times;
        }
    }
    panic!("no frame came");
}

#[test]
fn share_that_cannot_be_is_refused_by_cause() {
    let Some(cable) = cable_of_queues_or_skip(10) else { return };
    let refused = |config: &XdpConfig| cable.near(|| XdpPort::open(config).unwrap().share()).unwrap_err();
    let by_type = XdpConfig { steer: Steer::EtherType(0x88b5), ..config(NEAR, XdpMode::Generic) };
    assert!(refused(&by_type).to_string().contains("Steer::Filters"));
    let one = refused(&XdpConfig { shares: 1, ..config(NEAR, XdpMode::Generic) });
    assert!(matches!(one, PortError::NoShareLeft { most: 1, .. }), "{one}");
    let wide = XdpConfig { rx_queues: (0..10).collect(), shares: SHARES, ..config(NEAR, XdpMode::Generic) };
    let mut near = cable.near(|| XdpPort::open(&wide)).unwrap();
    let mut shares: Vec<XdpPort> = (1..SHARES).map(|_| share(&cable, &mut near)).collect();
    let refused = cable.near(|| near.share()).unwrap_err();
    assert!(matches!(refused, PortError::NoShareLeft { most: SHARES, .. }), "{refused}");
    let refused = cable.near(|| shares[0].share()).unwrap_err();
    assert!(refused.to_string().contains("the port is a share itself"), "{refused}");
    let mut stranger = cable.far(|| XdpPort::open(&config(FAR, XdpMode::Generic))).unwrap();
    let refused = stranger.unshare(shares.remove(0)).unwrap_err();
    assert!(refused.to_string().contains("no share of this one"), "{refused}");
    assert_eq!(share(&cable, &mut near).share_number(), 1);
}

/// A container's interface has one queue.
#[test]
fn shares_on_one_queue_send_and_receive_at_the_same_time() {
    const SHARES: u32 = 3;
    const FRAMES: u32 = 5000;
    let Some(cable) = cable_of_queues_or_skip(1) else { return };
    // Without the lock two CPUs may give one buffer to two frames in generic mode (before Linux 6.15); engines have no shares there.
    let locks_generic_rings = matches!(kernel_structure_has("xsk_buff_pool", "rx_lock"), Ok(Some(true)));
    for mode in MODES.into_iter().filter(|mode| *mode != XdpMode::Generic || locks_generic_rings) {
        let of = |interface| XdpConfig { rx_queues: vec![0], shares: SHARES, ..config(interface, mode) };
        let mut near = cable.near(|| XdpPort::open(&of(NEAR))).unwrap();
        let mut far = cable.far(|| XdpPort::open(&of(FAR))).unwrap();
        let mut ports: Vec<_> = (1..SHARES).map(|_| share(&cable, &mut near)).collect();
        ports.push(near);
        // Each answers what comes to it, in a thread of its own.
        let over = AtomicBool::new(false);
        let answer = |port: &mut XdpPort| {
            while !over.load(Ordering::Acquire) {
                let Some(number) = port.receive(number).unwrap() else {
                    std::thread::yield_now();
                    continue;
                };
                while !port.send(&datagram(SOURCE_PORT, 8000, number)).unwrap() {}
            }
        };
        for (at, port) in (0..).zip(&mut ports) {
            port.add_filter(flow(7000 + at)).unwrap();
        }
        far.add_filter(flow(8000)).unwrap();
        let mut came = vec![0; FRAMES as usize];
        std::thread::scope(|scope| {
            for port in &mut ports {
                scope.spawn(|| answer(port));
            }
            // Since the last frame: with fewer CPUs than threads each of them may take some milliseconds.
            let mut until = Instant::now() + PATIENCE;
            for number in 0..FRAMES {
                send(&mut far, 0, 7000 + (number % SHARES) as u16, number);
                // At most so many are on their way as there are buffers for.
                while (came.iter().sum::<u32>() + 40 < number || number + 1 == FRAMES)
                    && came.iter().sum::<u32>() < FRAMES
                    && Instant::now() < until
                {
                    match far.receive(self::number).unwrap() {
                        Some(number) => {
                            came[number as usize] += 1;
                            until = Instant::now() + PATIENCE;
                        }
                        None => std::thread::yield_now(),
                    }
                }
            }
            over.store(true, Ordering::Release);
        });
        let refused: u64 = ports.iter().map(|port| port.statistics().send_refused_frames).sum();
        assert!(came.iter().all(|times| *times == 1) || refused > 0, "{mode}: {} came", came.iter().sum::<u32>());
        let mut near = ports.pop().unwrap();
        ports.into_iter().for_each(|share| near.unshare(share).unwrap());
        near.add_filter(flow(7100)).unwrap();
        let burst = near.config().fill_frames - 28;
        (0..burst).for_each(|number| send(&mut far, 0, 7100, number));
        assert_eq!(numbers(&mut near, burst as usize), (0..burst).collect::<Vec<_>>(), "{mode}");
    }
}
