//! Ports on a real kernel, over a veth pair between two namespaces of their own. Needs root (or says SKIP).

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Cable, FAR, NEAR, cable_or_skip, ip, ip_output};
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::packet::{PacketConfig, PacketPort};
use nearwire_frames::ports::xdp::{Candidate, Side, Steer, XdpConfig, XdpMode, XdpPort, candidates};
use nearwire_frames::xdp::{AttachMode, XdpAttachment, attach_pass, programs};
use nearwire_frames::{Port, PortError};

const ETHER_TYPE: u16 = 0x88b5;
const STEER: Steer = Steer::EtherType(ETHER_TYPE);
const PATIENCE: Duration = Duration::from_secs(5);

/// A frame under these VLAN tags, with a number and filled to `len_bytes`.
fn frame(tags: &[u16], number: u32, len_bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for (n, tag) in tags.iter().enumerate() {
        frame.extend(tag.to_be_bytes());
        frame.extend((0x6005 + n as u16).to_be_bytes());
    }
    frame.extend(ETHER_TYPE.to_be_bytes());
    frame.extend(number.to_be_bytes());
    frame.extend((frame.len()..len_bytes).map(|at| at as u8));
    frame.truncate(len_bytes);
    frame
}

/// The next frame, waited for.
fn next(port: &mut impl Port) -> Vec<u8> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(frame) = port.receive(<[u8]>::to_vec).unwrap() {
            return frame;
        }
    }
    panic!("no frame within {PATIENCE:?} on {}: {:?}", port.describe(), port.statistics());
}

fn pairs(cable: &Cable) -> Vec<(Candidate, Candidate)> {
    let near = cable.near(|| candidates(&InterfaceFacts::read(NEAR).unwrap(), Side::Near, STEER));
    let far = cable.far(|| candidates(&InterfaceFacts::read(FAR).unwrap(), Side::Far, STEER));
    near.into_iter().zip(far).collect()
}

fn open_pair(cable: &Cable, mode: XdpMode) -> (XdpPort, XdpPort) {
    let config = |interface| XdpConfig::new(interface, mode, STEER);
    let near = cable.near(|| XdpPort::open(&config(NEAR))).unwrap();
    (near, cable.far(|| XdpPort::open(&config(FAR))).unwrap())
}

fn open_packet_pair(cable: &Cable) -> (PacketPort, PacketPort) {
    let config = |interface| PacketConfig::new(interface, STEER);
    let near = cable.near(|| PacketPort::open(&config(NEAR))).unwrap();
    (near, cable.far(|| PacketPort::open(&config(FAR))).unwrap())
}

/// Everything a pair of ports must do, whatever their kind.
fn exercise(near: &mut impl Port, far: &mut impl Port) {
    echo(near, far);
    batches(near, far);
    prepared(near, far);
    for tags in [&[][..], &[0x8100], &[0x88a8], &[0x88a8, 0x8100], &[0x8100, 0x8100]] {
        let frame = frame(tags, 5, 80);
        assert!(near.send(&frame).unwrap());
        assert_eq!(next(far), frame, "tags {tags:x?} on {}", far.describe());
    }
    let too_long = vec![0; 1600];
    assert!(matches!(near.queue(&too_long), Err(PortError::FrameLength { found_bytes: 1600, .. })));
}

fn echo(near: &mut impl Port, far: &mut impl Port) {
    for (number, len_bytes) in [18, 60, 64, 200, 1514].into_iter().enumerate() {
        let frame = frame(&[], number as u32, len_bytes);
        assert!(near.send(&frame).unwrap());
        let mut copy = [0; 40];
        let until = Instant::now() + PATIENCE;
        let whole_bytes = loop {
            if let Some(whole_bytes) = far.receive_copy(&mut copy).unwrap() {
                break whole_bytes;
            }
            assert!(Instant::now() < until, "no frame on {}", far.describe());
        };
        assert_eq!((whole_bytes, &copy[..len_bytes.min(40)]), (len_bytes, &frame[..len_bytes.min(40)]));
        assert!(far.send(&frame).unwrap());
        assert_eq!(next(near), frame);
    }
}

fn batches(near: &mut impl Port, far: &mut impl Port) {
    let before = far.statistics();
    let mut number = 0;
    for _ in 0..100 {
        let mut queued = 0;
        while queued < 48 && near.queue(&frame(&[], number + queued, 64)).unwrap() {
            queued += 1;
        }
        near.flush().unwrap();
        assert!(queued >= 32, "a batch of {queued} only");
        for n in number..number + queued {
            assert_eq!(next(far), frame(&[], n, 64));
        }
        number += queued;
    }
    let after = far.statistics();
    assert_eq!(after.received_frames - before.received_frames, u64::from(number));
    assert_eq!(after.receive_dropped_frames, before.receive_dropped_frames);
}

fn prepared(near: &mut impl Port, far: &mut impl Port) {
    let resident = near.prepare(&frame(&[], 0, 64)).unwrap();
    for number in 1..200u32 {
        let patch = |bytes: &mut [u8]| bytes[14..18].copy_from_slice(&number.to_be_bytes());
        assert!(near.send_prepared(resident, patch).unwrap());
        assert_eq!(next(far), frame(&[], number, 64));
    }
}

#[test]
fn every_candidate_exchanges_batches_prepared_and_tagged_frames() {
    let Some(cable) = cable_or_skip() else { return };
    let pairs = pairs(&cable);
    assert_eq!(pairs.len(), 4);
    for (near, far) in pairs {
        println!("{}", near.label);
        let mut near = cable.near(|| XdpPort::open(&near.config)).unwrap();
        let mut far = cable.far(|| XdpPort::open(&far.config)).unwrap();
        exercise(&mut near, &mut far);
    }
}

#[test]
fn packet_ports_exchange_batches_prepared_and_tagged_frames() {
    let Some(cable) = cable_or_skip() else { return };
    let (mut near, mut far) = open_packet_pair(&cable);
    exercise(&mut near, &mut far);
}

#[test]
fn foreign_frames_sent_are_left_to_the_kernel() {
    let Some(cable) = cable_or_skip() else { return };
    let mut all = cable.near(|| PacketPort::open(&PacketConfig::new(NEAR, Steer::All))).unwrap();
    let mut xdp = cable.far(|| XdpPort::open(&XdpConfig::new(FAR, XdpMode::Generic, STEER))).unwrap();
    let mut packet = cable.far(|| PacketPort::open(&PacketConfig::new(FAR, STEER))).unwrap();
    let mut foreign = frame(&[], 1, 60);
    foreign[12..14].copy_from_slice(&0x88b6_u16.to_be_bytes());
    assert!(all.send(&foreign).unwrap());
    assert!(all.send(&frame(&[], 2, 60)).unwrap());
    assert_eq!(next(&mut xdp), frame(&[], 2, 60));
    // What XDP took the kernel's stack, and so the packet socket, never saw.
    assert_eq!(packet.receive(<[u8]>::to_vec).unwrap(), None);
}

/// Frames of all lengths and tags: what one kind of port sees the other sees too, byte for byte.
#[test]
fn same_sequence_sent_packet_and_xdp_ports_see_the_same() {
    let Some(cable) = cable_or_skip() else { return };
    let tags = [&[][..], &[0x8100], &[0x88a8, 0x8100], &[0x88a8], &[0x8100, 0x8100]];
    let sequence: Vec<_> =
        (0..600u32).map(|n| frame(tags[n as usize % tags.len()], n, 22 + (n as usize * 37) % 1490)).collect();
    let mut sender = cable.near(|| PacketPort::open(&PacketConfig::new(NEAR, STEER))).unwrap();
    let mut seen = |far: &mut dyn FnMut() -> Vec<u8>| -> Vec<Vec<u8>> {
        sequence
            .iter()
            .map(|frame| {
                assert!(sender.send(frame).unwrap());
                far()
            })
            .collect()
    };
    let mut packet = cable.far(|| PacketPort::open(&PacketConfig::new(FAR, STEER))).unwrap();
    let by_packet = seen(&mut || next(&mut packet));
    drop(packet);
    assert_eq!(by_packet, sequence);
    for mode in [XdpMode::Generic, XdpMode::NativeCopy] {
        // The packet socket sends on the queue of the CPU it runs on, and native veth delivers there.
        let both = XdpConfig { rx_queues: vec![0, 1], ..XdpConfig::new(FAR, mode, STEER) };
        let mut xdp = cable.far(|| XdpPort::open(&both)).unwrap();
        assert_eq!(seen(&mut || next(&mut xdp)), by_packet, "{mode}");
    }
}

#[test]
fn several_receive_queues_frames_of_each_arrive() {
    let Some(cable) = cable_or_skip() else { return };
    let both = XdpConfig { rx_queues: vec![0, 1], ..XdpConfig::new(FAR, XdpMode::NativeCopy, STEER) };
    let mut far = cable.far(|| XdpPort::open(&both)).unwrap();
    // Native veth delivers on the queue that a frame was sent on; the near side needs a program for its NAPI.
    for tx_queue in [0, 1, 0] {
        let one = XdpConfig { rx_queues: vec![tx_queue], tx_queue, ..XdpConfig::new(NEAR, XdpMode::NativeCopy, STEER) };
        let mut near = cable.near(|| XdpPort::open(&one)).unwrap();
        for n in 0..100 {
            assert!(near.send(&frame(&[], n, 64)).unwrap());
            assert_eq!(next(&mut far), frame(&[], n, 64));
        }
    }
}

#[test]
fn second_interface_given_frames_leave_there() {
    let Some(cable) = cable_or_skip() else { return };
    use std::os::fd::AsRawFd;
    let near_path = format!("/proc/{}/fd/{}", std::process::id(), cable.near.as_raw_fd());
    cable.far(|| {
        ip(&format!("link add nw2 index 12 type veth peer name nw3 index 13 netns {near_path}")).unwrap();
        ip("link set nw2 up").unwrap();
    });
    cable.near(|| ip("link set nw3 up")).unwrap();
    let middle = XdpConfig { tx_interface: Some("nw2".into()), ..XdpConfig::new(FAR, XdpMode::Generic, STEER) };
    let mut middle_xdp = cable.far(|| XdpPort::open(&middle)).unwrap();
    let mut source = cable.near(|| PacketPort::open(&PacketConfig::new(NEAR, STEER))).unwrap();
    let mut sink = cable.near(|| PacketPort::open(&PacketConfig::new("nw3", STEER))).unwrap();
    assert!(source.send(&frame(&[], 7, 64)).unwrap());
    let there = next(&mut middle_xdp);
    assert!(middle_xdp.send(&there).unwrap());
    assert_eq!(next(&mut sink), frame(&[], 7, 64));
    drop(middle_xdp);

    let middle = PacketConfig { tx_interface: Some("nw2".into()), ..PacketConfig::new(FAR, STEER) };
    let mut middle_packet = cable.far(|| PacketPort::open(&middle)).unwrap();
    assert!(source.send(&frame(&[], 8, 64)).unwrap());
    let there = next(&mut middle_packet);
    assert!(middle_packet.send(&there).unwrap());
    assert_eq!(next(&mut sink), frame(&[], 8, 64));
}

#[test]
fn nobody_receives_frames_beyond_the_buffers_are_counted_as_dropped() {
    let Some(cable) = cable_or_skip() else { return };
    let (mut near, mut far) = open_pair(&cable, XdpMode::Generic);
    let fill_frames = far.config().fill_frames;
    let sent = fill_frames + 100;
    for n in 0..sent {
        assert!(near.send(&frame(&[], n, 64)).unwrap());
    }
    assert_eq!(far.statistics().receive_dropped_frames, 100);
    for n in 0..fill_frames {
        assert_eq!(next(&mut far), frame(&[], n, 64));
    }

    drop((near, far));
    let (mut near, far) = open_packet_pair(&cable);
    for n in 0..PacketConfig::new(FAR, STEER).ring_slots + 100 {
        assert!(near.send(&frame(&[], n, 64)).unwrap());
    }
    // Reading resets the kernel's count; ours goes on.
    assert_eq!(far.statistics().receive_dropped_frames, 100);
    assert_eq!(far.statistics().receive_dropped_frames, 100);
}

#[test]
fn interface_with_a_program_opened_is_refused_and_the_program_stays() {
    let Some(cable) = cable_or_skip() else { return };
    cable.near(|| {
        let before = InterfaceFacts::read(NEAR).unwrap();
        for attach_mode in [AttachMode::Generic, AttachMode::Native] {
            let other = attach_pass(NEAR, attach_mode).unwrap();
            for mode in [XdpMode::Generic, XdpMode::NativeCopy] {
                let error = XdpPort::open(&XdpConfig::new(NEAR, mode, STEER)).unwrap_err();
                let named = format!("program id {} is attached in {attach_mode} mode", other.program_id());
                assert!(error.to_string().contains(&named), "{error}");
            }
            attach_pass(NEAR, attach_mode).unwrap_err();
            // As if it had been attached after the look: the kernel refuses.
            let program = programs::pass().unwrap();
            for late_mode in [AttachMode::Generic, AttachMode::Native] {
                let error = XdpAttachment::attach(&program, &before, late_mode).unwrap_err();
                assert!(
                    matches!(error, PortError::ProgramPresent { program_id, .. } if program_id == other.program_id()),
                    "{error}"
                );
            }
            let found = InterfaceFacts::read(NEAR).unwrap().program.unwrap();
            assert_eq!(found.program_id, other.program_id());
        }
        assert_eq!(InterfaceFacts::read(NEAR).unwrap().program, None);
    });
}

#[test]
fn port_closed_program_is_gone_and_the_queue_is_free() {
    let Some(cable) = cable_or_skip() else { return };
    for _ in 0..5 {
        let (near, _far) = open_pair(&cable, XdpMode::NativeCopy);
        let found = cable.near(|| InterfaceFacts::read(NEAR)).unwrap().program.unwrap();
        assert_eq!((found.program_id, found.mode), (near.facts().program_id, "native"));
        drop(near);
        assert_eq!(cable.near(|| InterfaceFacts::read(NEAR)).unwrap().program, None);
    }
}

#[test]
fn interface_removed_ports_fail_and_do_not_hang() {
    let Some(cable) = cable_or_skip() else { return };
    let fails = |port: &mut dyn FnMut() -> Result<(), PortError>, what: &str| {
        let until = Instant::now() + PATIENCE;
        loop {
            match port() {
                Ok(()) => assert!(Instant::now() < until, "{what} goes on"),
                Err(PortError::InterfaceGone { .. }) => return,
                Err(other) => panic!("{what}: {other}"),
            }
        }
    };
    let (mut near, mut far) = open_pair(&cable, XdpMode::Generic);
    cable.near(|| ip(&format!("link del {NEAR}"))).unwrap();
    fails(&mut || near.receive(|_| ()).map(drop), "AF_XDP receive");
    fails(&mut || near.send(&frame(&[], 1, 64)).map(drop), "AF_XDP send");
    fails(&mut || far.receive(|_| ()).map(drop), "AF_XDP receive on the peer");
    let Some(cable) = cable_or_skip() else { return };
    let (mut near, mut far) = open_packet_pair(&cable);
    cable.near(|| ip(&format!("link del {NEAR}"))).unwrap();
    fails(&mut || near.receive(|_| ()).map(drop), "AF_PACKET receive");
    fails(&mut || near.send(&frame(&[], 1, 64)).map(drop), "AF_PACKET send");
    fails(&mut || far.receive(|_| ()).map(drop), "AF_PACKET receive on the peer");
}

#[test]
fn impossible_configs_opened_each_say_what_is_wrong() {
    let Some(cable) = cable_or_skip() else { return };
    cable.near(|| {
        let config = XdpConfig::new(NEAR, XdpMode::Generic, STEER);
        let said = |config: &XdpConfig| XdpPort::open(config).unwrap_err().to_string();
        let missing = said(&XdpConfig { interface: "nw9".into(), ..config.clone() });
        assert!(missing.contains("open nw9: no such interface"), "{missing}");
        let queue = said(&config.clone().with_separate_tx(0, 2));
        assert!(queue.contains("open nw0 queue 2: it has 2 queue(s)"), "{queue}");
        let zero_copy = said(&XdpConfig::new(NEAR, XdpMode::ZeroCopy, STEER));
        assert!(zero_copy.starts_with("bind nw0 queue 0 in zero-copy: Operation not supported"), "{zero_copy}");
        assert!(zero_copy.ends_with("driver veth has no zero-copy; use copy mode"), "{zero_copy}");
        let _holder = XdpPort::open(&config).unwrap();
        ip(&format!("link set {NEAR} down")).unwrap();
        let down = PacketPort::open(&PacketConfig::new(NEAR, STEER)).unwrap_err().to_string();
        assert!(down.contains("the interface is down; bring it up with `ip link set nw0 up`"), "{down}");
    });
}

#[test]
fn veth_asked_for_facts_tells_kind_and_active_queues() {
    let Some(cable) = cable_or_skip() else { return };
    let facts = cable.near(|| InterfaceFacts::read(NEAR)).unwrap();
    assert_eq!((facts.driver.as_str(), facts.rx_queues, facts.tx_queues), ("veth", 2, 2));
    assert_eq!((facts.ifindex, facts.mtu_bytes, facts.up), (10, 1500, true));
    cable.near(|| {
        // Without numbers, the kernel allocates a queue for each CPU and uses one.
        ip("link add plain type veth peer name plain-peer").unwrap();
        assert_eq!(InterfaceFacts::read("plain").unwrap().rx_queues, 1);
    });
}

/// Runs one of the ignored tests below in a process of its own, in the near namespace, with `before` in front.
fn child(cable: &Cable, before: &[&str], test: &str) -> std::io::Result<Child> {
    let own = std::env::current_exe()?;
    let mut words = before.iter().map(std::ffi::OsString::from).collect::<Vec<_>>();
    words.push(own.into());
    words.extend(["--ignored", "--exact", "--nocapture", test].map(Into::into));
    cable.near(|| Command::new(&words[0]).args(&words[1..]).stdout(Stdio::piped()).spawn())
}

#[test]
fn process_killed_no_program_is_left() {
    let Some(cable) = cable_or_skip() else { return };
    let mut child = child(&cable, &[], "cable::child_opens_a_port_and_sleeps").unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("OPEN")), "the child opened its port");
    assert!(cable.near(|| InterfaceFacts::read(NEAR)).unwrap().program.is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    let until = Instant::now() + PATIENCE;
    while let Some(left) = cable.near(|| InterfaceFacts::read(NEAR)).unwrap().program {
        assert!(Instant::now() < until, "{left:?} is still there");
    }
    let shown = cable.near(|| ip_output(&format!("link show {NEAR}")));
    assert!(!shown.contains("xdp"), "{shown}");
    let (mut near, mut far) = open_pair(&cable, XdpMode::Generic);
    echo(&mut near, &mut far);
}

#[test]
#[ignore = "the child of process_killed_no_program_is_left"]
fn child_opens_a_port_and_sleeps() {
    let _port = XdpPort::open(&XdpConfig::new(NEAR, XdpMode::Generic, STEER)).unwrap();
    println!("OPEN");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn little_lockable_memory_open_says_which_limit_and_what_to_do() {
    let Some(cable) = cable_or_skip() else { return };
    let limited = ["setpriv", "--bounding-set=-ipc_lock", "prlimit", "--memlock=65536:65536"];
    let Ok(mut child) = child(&cable, &limited, "cable::child_opens_a_port_and_says_the_error") else {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set and there is no setpriv");
        println!("SKIP there is no setpriv or prlimit");
        return;
    };
    let lines: Vec<_> = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok).collect();
    child.wait().unwrap();
    let said = lines.join("\n");
    assert!(said.contains("RLIMIT_MEMLOCK is 65536 bytes for processes without CAP_IPC_LOCK"), "{said}");
}

#[test]
#[ignore = "the child of little_lockable_memory_open_says_which_limit_and_what_to_do"]
fn child_opens_a_port_and_says_the_error() {
    let config = XdpConfig::new(NEAR, XdpMode::Generic, STEER);
    println!("SAID {}", XdpPort::open(&config).map(drop).unwrap_err());
}

#[test]
fn reflect_example_swaps_addresses_and_ends_on_interrupt() {
    let Some(cable) = cable_or_skip() else { return };
    let own = std::env::current_exe().unwrap();
    let example = own.parent().unwrap().with_file_name("examples").join("reflect");
    if !example.exists() {
        println!("SKIP {} is not built; `cargo test` builds it when all tests are run", example.display());
        return;
    }
    let reflect = || Command::new(&example).arg(FAR).stdout(Stdio::piped()).spawn();
    let mut child = cable.far(reflect).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().starts_with("reflecting EtherType 88b5: AF_XDP generic on nw1"));
    let mut near = cable.near(|| XdpPort::open(&XdpConfig::new(NEAR, XdpMode::Generic, STEER))).unwrap();
    let sent = frame(&[], 3, 64);
    assert!(near.send(&sent).unwrap());
    let back = next(&mut near);
    assert_eq!((&back[..6], &back[6..12], &back[12..]), (&sent[6..12], &sent[..6], &sent[12..]));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
    let statistics: Vec<_> = lines.collect();
    assert!(statistics.iter().any(|line| line.trim() == "received_frames: 1,"), "{statistics:?}");
}

/// What a port says that waits for frames in vain.
#[track_caller]
fn error_of(port: &mut XdpPort) -> PortError {
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until, "{}: nothing was said", port.describe());
        if let Err(error) = port.receive(|_| ()) {
            return error;
        }
    }
}

#[test]
fn port_whose_program_was_detached_by_force_says_so() {
    let Some(cable) = cable_or_skip() else { return };
    for mode in [XdpMode::Generic, XdpMode::NativeCopy] {
        let mut port = cable.near(|| XdpPort::open(&XdpConfig::new(NEAR, mode, STEER))).unwrap();
        let program = port.facts().program_id;
        assert_eq!(cable.near(|| nearwire_sys::bpf::detach_links_of(program)).unwrap(), 1);
        let error = error_of(&mut port);
        assert!(matches!(&error, PortError::ProgramDetached { program_id, .. } if *program_id == program), "{error}");
    }
}

/// Its link is still on the interface, and holds the program of somebody else.
#[test]
fn port_whose_program_was_replaced_in_its_link_says_so() {
    let Some(cable) = cable_or_skip() else { return };
    for mode in [XdpMode::Generic, XdpMode::NativeCopy] {
        let mut port = cable.near(|| XdpPort::open(&XdpConfig::new(NEAR, mode, STEER))).unwrap();
        let (program, other) = (port.facts().program_id, programs::pass().unwrap());
        assert_eq!(cable.near(|| nearwire_sys::bpf::replace_in_links_of(program, &other)).unwrap(), 1);
        let attached = cable.near(|| InterfaceFacts::read(NEAR)).unwrap().program.unwrap();
        assert_eq!(attached.program_id, other.id().unwrap(), "the other one is on the interface");
        let error = error_of(&mut port);
        assert!(matches!(&error, PortError::ProgramDetached { program_id, .. } if *program_id == program), "{error}");
    }
}

/// The interface has a program again, which is not the port's.
#[test]
fn port_whose_program_was_detached_and_another_one_attached_says_so() {
    let Some(cable) = cable_or_skip() else { return };
    for (mode, other) in [(XdpMode::Generic, AttachMode::Generic), (XdpMode::NativeCopy, AttachMode::Native)] {
        let mut port = cable.near(|| XdpPort::open(&XdpConfig::new(NEAR, mode, STEER))).unwrap();
        let program = port.facts().program_id;
        assert_eq!(cable.near(|| nearwire_sys::bpf::detach_links_of(program)).unwrap(), 1);
        let other = cable.near(|| attach_pass(NEAR, other)).unwrap();
        let error = error_of(&mut port);
        assert!(matches!(&error, PortError::ProgramDetached { program_id, .. } if *program_id == program), "{error}");
        drop((port, other));
    }
}

/// Several queues receive, whichever the sender chose.
#[test]
fn port_with_a_socket_on_each_queue_gets_what_comes_on_any() {
    let Some(cable) = cable_or_skip() else { return };
    let facts = cable.far(|| InterfaceFacts::read(FAR)).unwrap();
    let config = XdpConfig::new(FAR, XdpMode::NativeCopy, STEER).with_queues(facts.rx_queues);
    let mut far = cable.far(|| XdpPort::open(&config)).unwrap();
    for tx_queue in 0..facts.rx_queues {
        let one = XdpConfig { rx_queues: vec![tx_queue], tx_queue, ..XdpConfig::new(NEAR, XdpMode::NativeCopy, STEER) };
        let mut near = cable.near(|| XdpPort::open(&one)).unwrap();
        let sent = frame(&[], tx_queue, 64);
        assert!(near.send(&sent).unwrap());
        assert_eq!(next(&mut far), sent);
    }
}
