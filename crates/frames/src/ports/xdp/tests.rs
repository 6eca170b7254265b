//! The XDP programs run by the kernel on packet fixtures, with a live socket in the map.

use super::*;
use crate::raw::{RawPort, Stamp, TimeSource};
use crate::steering::{Filter, FrameFilter};
use crate::test_cable::{FAR, NEAR, cable_or_skip};
use crate::xdp::redirect::{XDP_PASS, XDP_REDIRECT};
use crate::xdp::stamps::{DeviceClock, Stamps};

const WANTED: u16 = 0x88b5;

/// A frame with these types one after another, cut or filled to `len_bytes`.
fn frame(types: &[u16], len_bytes: usize) -> Vec<u8> {
    let mut frame = vec![0xee; 12];
    for (n, ether_type) in types.iter().enumerate() {
        if n > 0 {
            frame.extend([0x60, 0x07]); // priority, number
        }
        frame.extend(ether_type.to_be_bytes());
    }
    frame.resize(len_bytes, 0xdd);
    frame
}

/// Runs `test` with a map that has a socket for queue 0 and none for queue 1, in the namespace of the interface.
fn with_sockets(test: impl FnOnce(&Map, u32)) {
    let Some(cable) = cable_or_skip() else { return };
    cable.near(|| {
        let facts = InterfaceFacts::read(NEAR).unwrap();
        let config = XdpConfig::new(NEAR, XdpMode::Generic, Steer::All);
        let sockets = open_sockets(&config, &facts, &facts).unwrap();
        let map = Map::xskmap("test", 2).unwrap();
        map.set_socket(0, sockets.receivers[0].socket()).unwrap();
        test(&map, facts.ifindex);
    });
}

#[test]
fn steer_run_on_fixtures_redirects_the_wanted_type_only() {
    with_sockets(|map, ifindex| {
        let program = programs::steer(map, WANTED, None, false).unwrap();
        let fixtures: [(&str, Vec<u8>, u32); 16] = [
            ("wanted, shortest", frame(&[WANTED], 14), XDP_REDIRECT),
            ("wanted, long", frame(&[WANTED], 1514), XDP_REDIRECT),
            ("IPv4", frame(&[0x0800], 60), XDP_PASS),
            ("IPv6, shortest", frame(&[0x86dd], 14), XDP_PASS),
            ("wanted, bytes swapped", frame(&[WANTED.swap_bytes()], 60), XDP_PASS),
            ("802.1Q, wanted", frame(&[0x8100, WANTED], 60), XDP_REDIRECT),
            ("802.1Q, wanted, shortest", frame(&[0x8100, WANTED], 18), XDP_REDIRECT),
            ("802.1ad, wanted", frame(&[0x88a8, WANTED], 60), XDP_REDIRECT),
            ("802.1Q, IPv4", frame(&[0x8100, 0x0800], 60), XDP_PASS),
            ("802.1Q cut within the tag", frame(&[0x8100], 17), XDP_PASS),
            ("802.1Q cut before the tag", frame(&[0x8100], 14), XDP_PASS),
            ("802.1ad, 802.1Q, wanted", frame(&[0x88a8, 0x8100, WANTED], 60), XDP_REDIRECT),
            ("802.1Q, 802.1Q, wanted, shortest", frame(&[0x8100, 0x8100, WANTED], 22), XDP_REDIRECT),
            ("802.1ad, 802.1Q, cut", frame(&[0x88a8, 0x8100], 21), XDP_PASS),
            ("802.1ad, 802.1Q, IPv4", frame(&[0x88a8, 0x8100, 0x0800], 60), XDP_PASS),
            ("three tags, wanted", frame(&[0x88a8, 0x8100, 0x8100, WANTED], 60), XDP_PASS),
        ];
        for (name, packet, action) in fixtures {
            let run = program.test_run_on(&packet, ifindex, 0).unwrap();
            assert_eq!((run.retval, run.data_out), (action, packet.clone()), "{name}");
            let without_socket = program.test_run_on(&packet, ifindex, 1).unwrap();
            assert_eq!(without_socket.retval, XDP_PASS, "{name}, on a queue without a socket");
        }
    });
}

#[test]
fn steer_all_run_redirects_everything_where_there_is_a_socket() {
    with_sockets(|map, ifindex| {
        let program = programs::steer_all(map, None, false).unwrap();
        for packet in [frame(&[0x0800], 14), frame(&[WANTED], 1514)] {
            assert_eq!(program.test_run_on(&packet, ifindex, 0).unwrap().retval, XDP_REDIRECT);
            assert_eq!(program.test_run_on(&packet, ifindex, 1).unwrap().retval, XDP_PASS);
        }
    });
}

/// What a port that lies in a test run's place would find in front of the frame, and the frame.
fn split(data: &[u8], mark: std::num::NonZeroU64) -> (Record, &[u8]) {
    let (record, frame) = data.split_first_chunk().unwrap();
    (Record::take(&mut record.clone(), mark), frame)
}

#[test]
fn stamping_programs_run_write_a_record_and_leave_the_frame_as_it_is() {
    with_sockets(|map, ifindex| {
        let mark = std::num::NonZeroU64::new(0xfeed_beef_0123_4567).unwrap();
        for (device, device_ns) in [(DeviceClock::None, 0), (DeviceClock::Standing(u32::MAX), u64::from(u32::MAX))] {
            let stamps = Some(Stamps { mark, device });
            let programs = [
                programs::steer_all(map, stamps, false).unwrap(),
                programs::steer(map, WANTED, stamps, false).unwrap(),
            ];
            for (program, packet) in programs.iter().zip([frame(&[0x0800], 14), frame(&[0x8100, WANTED], 1514)]) {
                let run = program.test_run_on(&packet, ifindex, 0).unwrap();
                let (record, frame) = split(&run.data_out, mark);
                assert_eq!((run.retval, frame), (XDP_REDIRECT, &packet[..]));
                assert_eq!(record.device_ns, device_ns);
                assert_ne!(record.tai_ns, 0);
            }
            let kept = frame(&[0x0800], 60);
            let run = programs[1].test_run_on(&kept, ifindex, 0).unwrap();
            assert_eq!((run.retval, run.data_out), (XDP_PASS, kept), "the kernel's frames have no record");
        }
    });
}

/// No driver here has a time of its own, so the program has one in its place; all behind it is as it would be.
#[test]
fn frames_stamped_by_a_device_arrive_with_its_time_and_the_kernels() {
    let Some(cable) = cable_or_skip() else { return };
    for mode in [XdpMode::Generic, XdpMode::NativeCopy] {
        // Not all: the kernel's own frames come when they will.
        let mut far = cable.far(|| XdpPort::open(&XdpConfig::new(FAR, mode, Steer::EtherType(WANTED)))).unwrap();
        let mut near = cable.near(|| XdpPort::open(&XdpConfig::new(NEAR, mode, Steer::All))).unwrap();
        let send = |near: &mut XdpPort| assert!(near.send(&frame(&[WANTED], 60)).unwrap());
        send(&mut near);
        assert_eq!(next_times(&mut far), FrameTimes::default());
        far.stamp(DeviceClock::Standing(77)).unwrap();
        // More often than there are buffers, so each comes by several times.
        for _ in 0..500 {
            send(&mut near);
            let times = next_times(&mut far);
            assert_eq!(times.device_ns, Some(77), "{mode}");
            assert!(times.kernel_ns.is_some());
            send(&mut near);
            let lent = loop {
                if let Some(lent) = far.lend().unwrap() {
                    break lent;
                }
            };
            assert_eq!(lent.stamp, Some(Stamp { time_ns: 77, source: TimeSource::Hardware }));
            far.give_back().unwrap();
        }
        // What earlier frames left in the buffers is nobody's time.
        cable
            .far(|| {
                let sockets = far.sockets.as_ref().unwrap();
                far.attachment.own().unwrap().change_program(&programs::steer_all(sockets, None, false).unwrap())
            })
            .unwrap();
        for _ in 0..500 {
            send(&mut near);
            assert_eq!(next_times(&mut far), FrameTimes::default(), "{mode}");
        }
    }
}

fn next_times(port: &mut XdpPort) -> FrameTimes {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while std::time::Instant::now() < until {
        if let Some(times) = port.receive_timed(|_, times| times).unwrap() {
            return times;
        }
    }
    panic!("no frame came");
}

#[test]
fn socket_closed_map_forgets_it_and_frames_pass() {
    let Some(cable) = cable_or_skip() else { return };
    cable.near(|| {
        let facts = InterfaceFacts::read(NEAR).unwrap();
        let config = XdpConfig::new(NEAR, XdpMode::Generic, Steer::All);
        let map = Map::xskmap("test", 2).unwrap();
        let program = programs::steer_all(&map, None, false).unwrap();
        let sockets = open_sockets(&config, &facts, &facts).unwrap();
        map.set_socket(0, sockets.receivers[0].socket()).unwrap();
        drop(sockets);
        assert_eq!(program.test_run_on(&frame(&[WANTED], 60), facts.ifindex, 0).unwrap().retval, XDP_PASS);
    });
}

#[test]
fn pass_run_passes_everything() {
    let Some(_cable) = cable_or_skip() else { return };
    let program = programs::pass().unwrap();
    assert_eq!(program.test_run(&frame(&[WANTED], 60)).unwrap().retval, XDP_PASS);
}

#[test]
fn sent_buffers_are_taken_back() {
    let Some(cable) = cable_or_skip() else { return };
    cable.near(|| {
        let facts = InterfaceFacts::read(NEAR).unwrap();
        let config = XdpConfig::new(NEAR, XdpMode::Generic, Steer::All);
        let mut sender = open_sockets(&config, &facts, &facts).unwrap().sender;
        for _ in 0..100 {
            assert!(sender.queue(&frame(&[WANTED], 60)));
            sender.flush().unwrap();
        }
        // Copy mode completes within the kick, so a few buffers serve all: 100 kicks, no refusal, a free list that is nearly full.
        assert_eq!((sender.sent_frames, sender.refused_frames, sender.kicks), (100, 0, 100));
        assert!(sender.free_frames() + 8 >= config.tx_frames as usize);
    });
}

/// A share that is stopped, or whose process is killed, leaves the buffers that it had pushed to whoever comes next.
#[test]
fn share_that_stops_between_two_steps_of_giving_back_keeps_no_buffers_from_the_others() {
    const FRAMES: usize = 64;
    let Some(cable) = cable_or_skip() else { return };
    for mode in [XdpMode::Generic, XdpMode::NativeCopy] {
        let config = |interface| XdpConfig {
            rx_queues: vec![0, 1],
            tx_queues: true,
            shares: 2,
            fill_frames: FRAMES as u32,
            ..XdpConfig::new(interface, mode, Steer::Filters)
        };
        let mut near = cable.near(|| XdpPort::open(&config(NEAR))).unwrap();
        let mut far = cable.far(|| XdpPort::open(&config(FAR))).unwrap();
        let mut share = cable.near(|| near.share()).unwrap();
        share.add_filter(of_type(WANTED)).unwrap();
        let mut exchange = |frames: usize, share: &mut XdpPort| {
            (0..frames).for_each(|_| assert!(far.send(&frame(&[WANTED], 60)).unwrap()));
            let until = std::time::Instant::now() + std::time::Duration::from_millis(200);
            let mut came = 0;
            while came < frames && std::time::Instant::now() < until {
                came += usize::from(share.receive(|_| ()).unwrap().is_some());
            }
            came
        };
        for steps in 1..100 {
            shared_ring::tests::stop_after(steps);
            // Where it stops, it was reading its last frame: the buffer is still its own.
            let came = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| exchange(FRAMES / 2, &mut share)));
            shared_ring::tests::stop_never();
            near.unshare(share).unwrap();
            share = cable.near(|| near.share()).unwrap();
            share.add_filter(of_type(WANTED)).unwrap();
            let left = std::time::Instant::now() + std::time::Duration::from_millis(if came.is_err() { 5 } else { 0 });
            while std::time::Instant::now() < left {
                let _ = share.receive(|_| ()).unwrap();
            }
            assert_eq!(exchange(FRAMES, &mut share), FRAMES, "{mode}, stopped after {steps} steps: {came:?}");
        }
        near.unshare(share).unwrap();
        near.add_filter(of_type(WANTED)).unwrap();
        assert_eq!(exchange(FRAMES, &mut near), FRAMES, "{mode}: what the share kept came back with it");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while near.receivers[0].is_sharing() && std::time::Instant::now() < until {
            assert!(near.receive(|_| ()).unwrap().is_none());
        }
        assert!(!near.receivers[0].is_sharing(), "{mode}: nobody shares its rings any more");
        for _ in 0..4 {
            assert_eq!(exchange(FRAMES, &mut near), FRAMES, "{mode}");
        }
    }
}

fn of_type(ether_type: u16) -> Filter {
    Filter::Frame(FrameFilter { ether_type: Some(ether_type), ..FrameFilter::default() })
}

/// Options of a socket as the kernel has them: whether polling is preferred, and the microseconds of a poll. It tells nobody the budget.
fn busy_polling_of(socket: BorrowedFd<'_>) -> (i32, i32) {
    let read = |name| {
        let (mut value, mut length) = (-1_i32, size_of::<i32>() as libc::socklen_t);
        let into = (&raw mut value).cast();
        // SAFETY: the kernel writes at most `length` bytes, which `value` has.
        let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, into, &raw mut length) };
        assert_eq!(result, 0, "option {name}: {}", io::Error::last_os_error());
        value
    };
    (read(libc::SO_PREFER_BUSY_POLL), read(libc::SO_BUSY_POLL))
}

#[test]
fn native_port_that_polls_busily_prefers_polling_on_all_its_receiving_sockets() {
    let Some(cable) = cable_or_skip() else { return };
    cable.near(|| {
        let polling = XdpConfig { busy_poll_us: 20, ..XdpConfig::new(NEAR, XdpMode::NativeCopy, Steer::All) };
        for config in [polling.clone().with_queues(2), polling.with_separate_tx(0, 1)] {
            let mut port = XdpPort::open(&config).unwrap();
            let of_receivers = |port: &XdpPort| port.receive_sockets().map(busy_polling_of).collect::<Vec<_>>();
            assert!(of_receivers(&port).iter().all(|found| *found == (1, 20)), "{:?}", of_receivers(&port));
            assert!(port.describe().ends_with(", busy polling"), "{}", port.describe());
            if config.rx_queues.len() == 1 {
                // A copying send asks nothing of the driver's receive path.
                assert_eq!(busy_polling_of(port.sender.socket()), (0, 0));
            }
            port.set_busy_poll(0).unwrap();
            assert!(of_receivers(&port).iter().all(|found| *found == (0, 0)), "{:?}", of_receivers(&port));
            // As a zero-copy port has it, of whose separate socket the driver's rounds send.
            busy_poll::poll_busily([port.sender.socket()].into_iter(), 20).unwrap();
            assert_eq!(busy_polling_of(port.sender.socket()), (1, 20));
        }
    });
}
