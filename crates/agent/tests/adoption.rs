//! Connections that are adopted and released again while both ends send, beside the kernel at the far end. On a real kernel over a veth
//! pair; needs root (or says SKIP). `NEARWIRE_ADOPTIONS=N`: so many in each storm.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod streams;

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use nearwire_agent::adoption::{
    AdoptionError, Connection, Privileged, Set, adopt, end_by, release, release_by, shut_off, slipped,
};
use nearwire_agent::give_back::{GivenBack, Sender};
use nearwire_frames::ports::xdp::{Steer, XdpConfig, XdpMode, XdpPort};
use nearwire_frames::{Port, RawPort};
use nearwire_lab::{Cable, CableEnd, VirtualCable};
use nearwire_sys::socket::buffer_locks;
use nearwire_sys::tcp_repair::{Repair, unacknowledged_bytes};
use rustix::net::sockopt::{
    set_socket_reuseaddr, set_socket_send_buffer_size, socket_reuseaddr, socket_send_buffer_size,
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use streams::{Course, Random, cable_or_skip, connect, flow};

const ETHERNET_BYTES: usize = 14;
const PATIENCE: Duration = Duration::from_secs(20);

/// Gives the kernel what came to the port.
fn give_back(port: &mut XdpPort, sender: &mut Sender, to: SocketAddr) -> u32 {
    let mut count = 0;
    while let Some(sent) = port.receive(|frame| sender.send_packet(&frame[ETHERNET_BYTES..], to.ip())).unwrap() {
        assert_eq!(sent, GivenBack::Done);
        count += 1;
    }
    count
}

/// Adopts and releases a connection so often while `bytes` for each of these go both ways.
fn storm(address: fn(&CableEnd) -> IpAddr, accepted: bool, seed: u64) {
    let Some(cable) = cable_or_skip() else { return };
    let adoptions = std::env::var("NEARWIRE_ADOPTIONS").map_or(400, |count| count.parse().unwrap());
    let (near, far) = (cable.near(), cable.far());
    let config = XdpConfig::new(&near.interface, XdpMode::Generic, Steer::Filters);
    let mut port = near.namespace.enter(|| XdpPort::open(&config)).unwrap().unwrap();
    let mut sender = Sender::default();
    let [near_stream, far_stream] = connect(near, far, address, accepted);
    let (local, filter) = (near_stream.local_addr().unwrap(), flow(&near_stream));
    let (mut one, mut other) = (Course::new(1, 2), Course::new(2, 1));
    let (mut random, mut given_back, mut slips) = (Random(seed), 0, 0);
    let all_bytes = adoptions * 5_000;
    for _ in 0..adoptions {
        for _ in 0..random.below(3) {
            one.turn(&near_stream, random.below(20_000) as usize, all_bytes);
            other.turn(&far_stream, random.below(20_000) as usize, all_bytes);
        }
        port.add_filter(filter).unwrap();
        let mut connection = adopt(&near_stream).unwrap();
        for _ in 0..random.below(3) {
            other.turn(&far_stream, random.below(20_000) as usize, all_bytes);
        }
        let came = slipped(&near_stream).unwrap();
        slips += usize::from(!came.is_empty());
        connection.next_sequence = connection.next_sequence.wrapping_add(came.len() as u32);
        connection.unread.extend(came);
        near.namespace.enter(|| release(&near_stream, &connection)).unwrap().unwrap();
        port.remove_filter(filter).unwrap();
        given_back += near.namespace.enter(|| give_back(&mut port, &mut sender, local)).unwrap();
    }
    let until = Instant::now() + PATIENCE;
    while one.read < all_bytes || other.read < all_bytes {
        one.turn(&near_stream, 20_000, all_bytes);
        other.turn(&far_stream, 20_000, all_bytes);
        assert!(Instant::now() < until, "{} and {} of {all_bytes} bytes", one.read, other.read);
    }
    println!("{adoptions} adoptions, {all_bytes} bytes each way, {given_back} frames given back, {slips} slipped");
}

#[test]
fn accepted_connection_adopted_and_released_while_both_ends_send_loses_nothing() {
    storm(|end| end.ipv4.into(), true, 1);
}

#[test]
fn connected_connection_adopted_and_released_while_both_ends_send_loses_nothing() {
    storm(|end| end.ipv4.into(), false, 2);
}

#[test]
fn ipv6_connection_adopted_and_released_while_both_ends_send_loses_nothing() {
    storm(|end| end.ipv6.into(), true, 3);
}

/// Bytes that came between the last look at a parked shadow and its end were acknowledged, and nobody had them.
#[test]
fn packet_that_comes_to_a_shadow_that_is_shut_off_comes_again_to_the_kernel() {
    let Some(cable) = cable_or_skip() else { return };
    let (near, far) = (cable.near(), cable.far());
    for address in [|end: &CableEnd| IpAddr::from(end.ipv4), |end: &CableEnd| IpAddr::from(end.ipv6)] {
        let [mut near_stream, mut far_stream] = connect(near, far, address, true);
        for stream in [&near_stream, &far_stream] {
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        let mut connection = adopt(&near_stream).unwrap();
        far_stream.write_all(b"slips, ").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        shut_off(&near_stream, &connection).unwrap();
        far_stream.write_all(b"comes again").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let came = slipped(&near_stream).unwrap();
        assert_eq!(came, b"slips, ");
        connection.next_sequence = connection.next_sequence.wrapping_add(came.len() as u32);
        connection.unread.extend(came);
        near.namespace.enter(|| release(&near_stream, &connection)).unwrap().unwrap();
        let mut read = [0; 18];
        near_stream.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"slips, comes again");
        // Nothing is left of it.
        near_stream.write_all(b"back").unwrap();
        let mut back = [0; 4];
        far_stream.read_exact(&mut back).unwrap();
        far_stream.write_all(b"there").unwrap();
        near_stream.read_exact(&mut read[..5]).unwrap();
        assert_eq!((&back, &read[..5]), (b"back", &b"there"[..]));
    }
}

#[test]
fn socket_that_is_not_connected_is_not_adopted() {
    let Some(cable) = cable_or_skip() else { return };
    let (near, far) = cable
        .near()
        .namespace
        .enter(|| {
            let listener = TcpListener::bind("0.0.0.0:0").unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (near, listener.accept().unwrap().0)
        })
        .unwrap();
    far.shutdown(std::net::Shutdown::Write).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let refused = adopt(&near).unwrap_err();
    assert!(matches!(refused, AdoptionError::NotEstablished { state: 8 }), "{refused}");
    // It goes on as it was.
    (&near).write_all(b"still").unwrap();
    let mut buffer = [0; 5];
    (&far).read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"still");
}

/// As the kernel's own is after it was given up.
#[test]
fn connection_that_is_ended_reads_as_ended_and_keeps_its_address_option() {
    let Some(cable) = cable_or_skip() else { return };
    let (near, far) = (cable.near(), cable.far());
    for reuses in [false, true] {
        let [mut stream, mut far_stream] = connect(near, far, |end| end.ipv4.into(), false);
        set_socket_reuseaddr(&stream, reuses).unwrap();
        let connection = adopt(&stream).unwrap();
        assert_eq!(connection.set, Set { reuse_address: reuses, keepalive: false });
        end_by(&stream, connection.set, &|asked: Privileged| asked.set(&stream)).unwrap();
        assert_eq!(socket_reuseaddr(&stream).unwrap(), reuses);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        assert_eq!(stream.write(&[0]).unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(stream.take_error().unwrap().map(|error| error.kind()), None);
        assert_eq!(far_stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "nothing is sent");
    }
}

/// What a connection is given back with: written, and received, while its data was carried elsewhere.
#[derive(Debug, Clone, Copy)]
struct Carried {
    sent_bytes: usize,
    unsent_bytes: usize,
    unread_bytes: usize,
}

/// All of it arrives at either end.
fn gives_back(cable: &VirtualCable, carried: Carried, send_buffer_bytes: Option<usize>) {
    gives_back_by(cable, carried, send_buffer_bytes, |near, connection| release(near, connection));
}

type Release = fn(&TcpStream, &Connection) -> Result<(), AdoptionError>;

fn gives_back_by(cable: &VirtualCable, carried: Carried, send_buffer_bytes: Option<usize>, give_back: Release) {
    let Carried { sent_bytes, unsent_bytes, unread_bytes } = carried;
    let [near, far] = connect(cable.near(), cable.far(), |end| end.ipv4.into(), false);
    if let Some(bytes) = send_buffer_bytes {
        set_socket_send_buffer_size(&near, bytes).unwrap();
    }
    let buffer = || (socket_send_buffer_size(&near).unwrap(), buffer_locks(&near).unwrap());
    let before = buffer();
    let (mut one, mut other) = (Course::new(1, 2), Course::new(2, 1));
    let (mut of_near, mut of_far) = (adopt(&near).unwrap(), adopt(&far).unwrap());
    let write = |course: &mut Course, bytes: usize| {
        let written = course.next(bytes, u64::MAX);
        course.written += bytes as u64;
        written
    };
    of_near.sent = write(&mut one, sent_bytes);
    of_near.unsent = write(&mut one, unsent_bytes);
    of_near.unread = write(&mut other, unread_bytes);
    of_near.next_sequence = of_near.next_sequence.wrapping_add(unread_bytes as u32);
    of_far.unacknowledged_sequence = of_near.next_sequence;
    cable.far().namespace.enter(|| release(&far, &of_far)).unwrap().unwrap();
    cable.near().namespace.enter(|| give_back(&near, &of_near)).unwrap().unwrap_or_else(|e| panic!("{carried:?}: {e}"));
    assert_eq!(buffer(), before, "{carried:?}");
    let until = Instant::now() + PATIENCE;
    let (of_one, of_other) = (one.written, other.written);
    while one.read < of_other || other.read < of_one {
        one.turn(&near, 0, of_one);
        other.turn(&far, 0, of_other);
        assert!(Instant::now() < until, "{carried:?}: read {} of {of_other} and {} of {of_one}", one.read, other.read);
    }
}

/// Where the kernel has made its buffer no larger yet, or its host lets little be unsent.
#[test]
fn connection_with_more_than_the_kernels_buffers_hold_is_given_back_whole() {
    let Some(cable) = cable_or_skip() else { return };
    let sizes = [0, 1000, 1_000_000];
    let all = sizes.iter().flat_map(|sent| sizes.map(|unsent| (*sent, unsent)));
    for low_water_bytes in ["4294967295", "16384"] {
        let write = || std::fs::write("/proc/sys/net/ipv4/tcp_notsent_lowat", low_water_bytes);
        cable.near().namespace.enter(write).unwrap().unwrap();
        for (sent_bytes, unsent_bytes) in all.clone() {
            for send_buffer_bytes in [None, Some(20_000)] {
                gives_back(&cable, Carried { sent_bytes, unsent_bytes, unread_bytes: 0 }, send_buffer_bytes);
            }
        }
    }
    for unread_bytes in [1, 100_000, 1_000_000] {
        gives_back(&cable, Carried { sent_bytes: 10, unsent_bytes: 10, unread_bytes }, None);
    }
}

/// The kernel cuts anew what it is given: of one of its segments, the far end may have acknowledged a part, as the owner before had sent it.
#[test]
fn connection_with_a_segment_that_is_acknowledged_in_part_is_adopted_with_the_rest_of_it() {
    let Some(cable) = cable_or_skip() else { return };
    let [near, mut far] = connect(cable.near(), cable.far(), |end| end.ipv4.into(), false);
    let (mut of_near, mut of_far) = (adopt(&near).unwrap(), adopt(&far).unwrap());
    let sent: Vec<u8> = (0..=255).cycle().take(713).collect();
    of_near.sent.clone_from(&sent);
    of_far.unread = sent[..612].to_vec();
    of_far.next_sequence = of_far.next_sequence.wrapping_add(612);
    cable.near().namespace.enter(|| release(&near, &of_near)).unwrap().unwrap();
    cable.far().namespace.enter(|| release(&far, &of_far)).unwrap().unwrap();
    far.write_all(b"x").unwrap();
    let until = Instant::now() + PATIENCE;
    // The kernel sends the rest again after a second.
    while unacknowledged_bytes(&near).unwrap() != 101 {
        assert!(Instant::now() < until, "no part was acknowledged");
    }
    let again = adopt(&near).unwrap();
    assert_eq!((again.sent, again.unsent), (sent[612..].to_vec(), Vec::new()));
    assert_eq!(again.unacknowledged_sequence, of_near.unacknowledged_sequence.wrapping_add(612));
}

/// It may not have buffers beyond the host's limits, nor freeze and thaw; somebody does that for it.
fn release_without_capability(near: &TcpStream, connection: &Connection) -> Result<(), AdoptionError> {
    let may_not = || {
        let all = capabilities(None).unwrap();
        let effective = all.effective.difference(CapabilitySet::NET_ADMIN);
        set_capabilities(None, CapabilitySets { effective, ..all }).unwrap();
    };
    let asks = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        let (ask, asked) = channel::<Privileged>();
        let (answer, answered) = channel();
        let asks = &asks;
        let releases = threads.spawn(move || {
            may_not();
            let by_other = |asked: Privileged| {
                if asked.set(near).is_ok() {
                    return Ok(());
                }
                asks.lock().unwrap().push(asked);
                ask.send(asked).unwrap();
                answered.recv().unwrap()
            };
            let released = release_by(near, connection, Repair::Thaw, &by_other);
            drop(ask);
            released
        });
        asked.iter().for_each(|asked| answer.send(asked.set(near)).unwrap());
        releases.join().unwrap()
    })?;
    let asks = asks.into_inner().unwrap();
    let is_by_other = |wanted: fn(&Privileged) -> bool| asks.iter().any(wanted);
    assert!(is_by_other(|asked| matches!(asked, Privileged::Buffer { .. })), "{asks:?}");
    assert!(is_by_other(|asked| matches!(asked, Privileged::Repair(_))), "{asks:?}");
    Ok(())
}

#[test]
fn connection_with_more_than_the_hosts_limits_is_given_back_whole_by_a_program_without_capabilities() {
    let Some(cable) = cable_or_skip() else { return };
    let limit: usize = std::fs::read_to_string("/proc/sys/net/core/wmem_max").unwrap().trim().parse().unwrap();
    let carried = Carried { sent_bytes: limit, unsent_bytes: limit, unread_bytes: 0 };
    gives_back_by(&cable, carried, None, release_without_capability);
}
