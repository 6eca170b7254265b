//! Two ends of ours in one process. Peers that break the protocol are in the modules; other processes in `tests/memif`.

mod hostile_handshake;
mod hostile_rings;
mod properties;

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{JoinHandle, spawn, yield_now};

use super::*;

/// A name that no other test has.
fn socket() -> MemifSocket {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    MemifSocket::Abstract(format!("nearwire-test-memif-{}-{number}", std::process::id()).into())
}

fn server() -> MemifConfig {
    MemifConfig::new(socket(), MemifRole::Server)
}

fn client_of(server: &MemifConfig) -> MemifConfig {
    MemifConfig { role: MemifRole::Client, ..server.clone() }
}

/// Opens both ends: the server's and the client's.
fn open_both(
    server: &MemifConfig,
    client: MemifConfig,
) -> (Result<MemifPort, PortError>, Result<MemifPort, PortError>) {
    let listener = MemifListener::bind(server).unwrap();
    let client = spawn(move || MemifPort::open(&client));
    let server = listener.accept();
    (server, client.join().unwrap())
}

fn pair_of(size_log2: u8, copies_frames: bool) -> (MemifPort, MemifPort) {
    let server = MemifConfig { ring_size_log2: size_log2, copies_frames, ..server() };
    let (server, client) = open_both(&server, client_of(&server));
    (server.unwrap(), client.unwrap())
}

fn pair() -> (MemifPort, MemifPort) {
    pair_of(4, false)
}

fn received(port: &mut MemifPort) -> Option<Vec<u8>> {
    port.receive(<[u8]>::to_vec).unwrap()
}

/// Frame `number`, of a length and content that follow from it; some take several buffers.
fn frame(number: u32) -> Vec<u8> {
    let len_bytes = match number % 16 {
        0..12 => 14 + number as usize * 7 % 1500,
        12..15 => 60,
        _ => 2000 + number as usize * 31 % 7000,
    };
    let mut frame = vec![(number % 251) as u8; len_bytes];
    frame[..4].copy_from_slice(&number.to_ne_bytes());
    frame
}

fn send_all(mut port: MemifPort, frames: u32) -> JoinHandle<MemifPort> {
    spawn(move || {
        for number in 0..frames {
            let frame = frame(number);
            while !port.queue(&frame).unwrap() {
                port.flush().unwrap();
                yield_now();
            }
            if number % 5 == 0 {
                port.flush().unwrap();
            }
        }
        port.flush().unwrap();
        port
    })
}

fn receive_all(port: &mut MemifPort, frames: u32) {
    for number in 0..frames {
        let matches = loop {
            match port.receive(|found| found == frame(number)).unwrap() {
                Some(matches) => break matches,
                None => yield_now(),
            }
        };
        assert!(matches, "frame {number}");
    }
    assert_eq!(port.statistics().received_frames, u64::from(frames));
}

#[test]
fn frames_of_many_sizes_arrive_in_order_from_server_and_client() {
    const FRAMES: u32 = 100_000;
    for (from_server, copies) in [(true, false), (false, false), (false, true)] {
        let (server, client) = pair_of(7, copies);
        let (sender, mut receiver) = if from_server { (server, client) } else { (client, server) };
        let sending = send_all(sender, FRAMES);
        receive_all(&mut receiver, FRAMES);
        assert_eq!(sending.join().unwrap().statistics().sent_frames, u64::from(FRAMES));
    }
}

#[test]
fn frame_queued_is_received_after_flush_only() {
    let (mut a, mut b) = pair();
    for _ in 0..2 {
        assert!(a.queue(&[1; 64]).unwrap());
        assert_eq!(received(&mut b), None);
        a.flush().unwrap();
        assert_eq!(received(&mut b).as_deref(), Some([1; 64].as_slice()));
        std::mem::swap(&mut a, &mut b);
    }
    assert_eq!((a.statistics().sent_frames, a.statistics().received_frames, a.statistics().kicks), (1, 1, 0));
}

#[test]
fn full_ring_queued_refuses_until_received() {
    let (mut a, mut b) = pair();
    for _ in 0..2 {
        for number in 0..16 {
            assert!(a.send(&[number; 64]).unwrap());
        }
        assert!(!a.send(&[99; 64]).unwrap());
        assert_eq!(received(&mut b).unwrap()[0], 0);
        // Slots come back in batches: two of sixteen.
        assert!(!a.send(&[99; 64]).unwrap());
        assert_eq!(received(&mut b).unwrap()[0], 1);
        assert!(a.send(&[16; 64]).unwrap() && a.send(&[17; 64]).unwrap());
        assert!(!a.send(&[99; 64]).unwrap());
        for number in 2..18 {
            assert_eq!(received(&mut b).unwrap()[0], number);
        }
        assert_eq!(received(&mut b), None);
        std::mem::swap(&mut a, &mut b);
    }
    assert!(a.statistics().send_refused_frames > 0);
}

#[test]
fn chain_without_room_is_queued_later_as_a_whole() {
    let (mut a, mut b) = pair();
    for _ in 0..13 {
        assert!(a.send(&[1; 64]).unwrap());
    }
    let long: Vec<u8> = (0..4 * 2048).map(|n| (n % 250) as u8).collect();
    assert!(!a.send(&long).unwrap());
    for _ in 0..13 {
        assert_eq!(received(&mut b).unwrap().len(), 64);
    }
    assert_eq!(received(&mut b), None);
    assert!(a.send(&long).unwrap());
    assert_eq!(received(&mut b).unwrap(), long);
    let most = vec![7; 16 * 2048];
    assert!(a.send(&most).unwrap());
    assert_eq!(received(&mut b).unwrap(), most);
    assert!(matches!(a.send(&vec![7; 16 * 2048 + 1]), Err(PortError::FrameLength { .. })));
    assert!(matches!(a.send(&vec![7; FRAME_MOST_BYTES + 1]), Err(PortError::FrameLength { .. })));
    assert!(matches!(a.send(&[7; 13]), Err(PortError::FrameLength { found_bytes: 13, .. })));
}

#[test]
fn frame_made_in_the_ports_buffer_is_received() {
    for copies in [false, true] {
        let (mut a, mut b) = pair_of(4, copies);
        for len_bytes in [14, 64, 2048, 5000] {
            assert!(a.queue_with(len_bytes, |buffer| buffer.fill(5)).unwrap());
            a.flush().unwrap();
            assert_eq!(received(&mut b).unwrap(), vec![5; len_bytes]);
        }
    }
}

#[test]
fn prepared_frame_patched_keeps_the_patch() {
    let (mut a, mut b) = pair();
    let prepared = a.prepare(&[0; 60]).unwrap();
    for number in 1..4 {
        assert!(a.send_prepared(prepared, |bytes| bytes[59] += 1).unwrap());
        assert_eq!(received(&mut b).unwrap()[59], number);
    }
    let other = PreparedFrame { slot: 1, len_bytes: 60 };
    assert!(matches!(a.send_prepared(other, |_| ()), Err(PortError::UnknownPreparedFrame { slot: 1, slots: 1, .. })));
    (1..64).for_each(|_| assert_eq!(a.prepare(&[0; 60]).unwrap().len_bytes(), 60));
    assert!(matches!(a.prepare(&[0; 60]), Err(PortError::NoPreparedSlot { slots: 64, .. })));
}

#[test]
fn other_end_dropped_frames_arrive_then_error() {
    let (mut a, mut b) = pair();
    a.send(&[1; 64]).unwrap();
    drop(a);
    assert_eq!(received(&mut b).as_deref(), Some([1; 64].as_slice()));
    let error = loop {
        if let Err(error) = b.receive(|_| ()) {
            break error;
        }
    };
    assert!(matches!(error, PortError::PeerGone) && matches!(b.queue(&[1; 64]), Err(PortError::PeerGone)));
    let (mut a, b) = pair();
    drop(b);
    let error = loop {
        if let Err(error) = a.send(&[1; 64]) {
            break error;
        }
    };
    assert!(matches!(error, PortError::PeerGone));
}

#[test]
fn client_without_the_secret_or_of_another_interface_is_refused_with_the_reason() {
    let server = MemifConfig { secret: Some(b"known".to_vec()), id: 3, ..server() };
    let client = MemifConfig { connect_within: Duration::from_millis(300), ..client_of(&server) };
    let wrong = [
        MemifConfig { secret: Some(b"knowm".to_vec()), ..client.clone() },
        MemifConfig { secret: None, ..client.clone() },
        MemifConfig { id: 4, ..client.clone() },
    ];
    for wrong in wrong {
        let (server, client) = open_both(&server, wrong);
        let server = server.unwrap_err();
        assert!(matches!(server, PortError::Memif { source: MemifError::Secret | MemifError::InterfaceId { .. }, .. }));
        let reason = client.unwrap_err().to_string();
        assert!(reason.contains("another secret") || reason.contains("asked for interface 4"), "{reason}");
    }
    let (server, client) = open_both(&server, client);
    assert!(server.unwrap().describe().starts_with("memif server at @nearwire-test-memif-"));
    assert!(client.unwrap().describe().ends_with("interface 3, rings of 1024 slots"));
}

#[test]
fn nobody_there_in_time_is_an_error_and_a_look_at_the_socket_is_no_client() {
    let server = MemifConfig { connect_within: Duration::from_millis(30), ..server() };
    let opened = MemifPort::open(&client_of(&server)).unwrap_err();
    assert!(matches!(opened, PortError::Memif { source: MemifError::NoPeer { peer: "server", waited_ms: 30 }, .. }));
    let listener = MemifListener::bind(&server).unwrap();
    drop(Control::connect(&server.socket, Deadline::after(Duration::ZERO)).unwrap());
    let accepted = listener.accept().unwrap_err();
    assert!(matches!(accepted, PortError::Memif { source: MemifError::NoPeer { peer: "client", .. }, .. }));
}

#[test]
fn file_left_by_a_server_is_replaced_and_others_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let config = MemifConfig::new(MemifSocket::from(path.as_path()), MemifRole::Server);
    let left = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(left);
    let listener = MemifListener::bind(&config).unwrap();
    assert!(matches!(MemifListener::bind(&config), Err(PortError::Memif { source: MemifError::Kernel { .. }, .. })));
    drop(listener);
    assert!(!path.exists());
    std::fs::write(&path, "a file").unwrap();
    MemifListener::bind(&config).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), b"a file");
}

#[test]
fn impossible_configuration_is_refused() {
    let right = server();
    let wrong = [
        MemifConfig { ring_size_log2: 0, ..right.clone() },
        MemifConfig { ring_size_log2: 15, ..right.clone() },
        MemifConfig { buffer_bytes: 63, ..right.clone() },
        MemifConfig { buffer_bytes: 65_536, ..right.clone() },
        MemifConfig { secret: Some(vec![1; 24]), ..right.clone() },
        MemifConfig { secret: Some(Vec::new()), ..right },
    ];
    for wrong in wrong {
        assert!(matches!(MemifPort::open(&wrong), Err(PortError::Config { .. })), "{wrong:?}");
        assert!(matches!(MemifPort::open(&client_of(&wrong)), Err(PortError::Config { .. })), "{wrong:?}");
    }
}
