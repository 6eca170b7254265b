//! Peers that lie in shared memory: each lie is an error that names it.

use super::hostile_handshake::{WITHIN, sockets};
use super::*;
use crate::ports::memif::layout::Layout;
use crate::ports::memif::ring::{DESCRIPTOR_NEXT, Descriptor, RingView};

/// A port of ours, and the rings of the other end in a test's hand: those it sends through and those it receives from.
pub struct Held {
    pub port: MemifPort,
    pub there: RingView,
    pub back: RingView,
    _control: Control,
}

pub fn held(role: MemifRole) -> Held {
    let server = MemifConfig { ring_size_log2: 3, buffer_bytes: 256, ..server() };
    let client = client_of(&server);
    let (ours, theirs) = sockets();
    let (port, hand) = if role == MemifRole::Server { (server, client) } else { (client, server) };
    let hand = spawn(move || join(ours, &hand, Deadline::after(WITHIN)).unwrap());
    let port = MemifPort::of(join(theirs, &port, Deadline::after(WITHIN)), &port).unwrap();
    let Joined { control, sending, receiving, .. } = hand.join().unwrap();
    Held { port, there: sending, back: receiving, _control: control }
}

impl Held {
    /// Writes descriptors from the ring's beginning on, and tells the port of them.
    pub fn send(&self, descriptors: &[Descriptor]) {
        descriptors.iter().enumerate().for_each(|(index, descriptor)| self.there.write(index as u16, *descriptor));
        self.there.sender_index().store(descriptors.len() as u16, Ordering::Release);
    }

    fn error(&mut self) -> MemifError {
        match self.port.receive(|frame| frame.len()) {
            Err(PortError::Memif { source, .. }) => source,
            other => panic!("{other:?}"),
        }
    }
}

/// The beginning of the region: `length_bytes` from `offset_bytes` on.
fn piece(flags: u16, offset_bytes: u32, length_bytes: u32) -> Descriptor {
    Descriptor { flags, region: 0, length_bytes, offset_bytes, metadata: 0 }
}

#[test]
fn chain_made_by_hand_is_received_in_one_piece() {
    let mut held = held(MemifRole::Server);
    let at = Layout::new(3, 256).region_bytes() as u32 - 1000;
    let start = held.there.regions.span(0, at, 1000).unwrap();
    // SAFETY: the bytes are within the region, and this thread alone uses it.
    (0..1000).for_each(|n| unsafe { start.add(n).write((n % 251) as u8) });
    // Pieces that overlap nothing, in another order than they lie, one of them empty.
    held.send(&[piece(DESCRIPTOR_NEXT, at + 500, 300), piece(DESCRIPTOR_NEXT, at, 0), piece(0, at, 200)]);
    let wanted: Vec<u8> = (500..800).chain(0..200).map(|n| (n % 251) as u8).collect();
    assert_eq!(received(&mut held.port), Some(wanted));
    assert_eq!(received(&mut held.port), None);
    assert_eq!(held.there.receiver_index().load(Ordering::Acquire), 3);
}

#[test]
fn descriptor_beyond_its_region_is_an_error() {
    let end = Layout::new(3, 256).region_bytes() as u32;
    let wrong = [(end - 99, 100), (end, 1), (u32::MAX, 1), (u32::MAX, u32::MAX), (0, u32::MAX)];
    for (offset_bytes, length_bytes) in wrong {
        for flags in [0, DESCRIPTOR_NEXT] {
            let mut held = held(MemifRole::Server);
            held.send(&[piece(flags, offset_bytes, length_bytes), piece(0, 0, 64)]);
            let error = held.error();
            assert!(matches!(error, MemifError::Descriptor { slot: 0, .. }), "{error}");
        }
    }
    let mut held = held(MemifRole::Server);
    held.send(&[piece(DESCRIPTOR_NEXT, 0, 64), Descriptor { region: 1, ..piece(0, 0, 64) }]);
    assert!(matches!(held.error(), MemifError::Descriptor { slot: 1, region: 1, .. }));
}

#[test]
fn frame_without_end_or_bytes_is_an_error() {
    let mut cut = held(MemifRole::Server);
    cut.send(&[piece(DESCRIPTOR_NEXT, 0, 64); 2]);
    assert!(matches!(cut.error(), MemifError::ChainCut { slot: 0, slots: 2 }));
    let mut endless = held(MemifRole::Server);
    endless.send(&[piece(DESCRIPTOR_NEXT, 0, 64); 8]);
    assert!(matches!(endless.error(), MemifError::ChainCut { slot: 0, slots: 8 }));
    let mut empty = held(MemifRole::Server);
    empty.send(&[piece(0, 0, 0)]);
    assert!(matches!(empty.error(), MemifError::FrameLength { slot: 0, .. }));
}

#[test]
fn client_takes_no_bytes_beyond_the_buffer_it_gave_and_keeps_its_place() {
    let mut long = held(MemifRole::Client);
    long.send(&[piece(0, 0, 257)]);
    assert!(matches!(long.error(), MemifError::Descriptor { slot: 0, length_bytes: 257, .. }));
    // Where the server says the buffer is does not count.
    let mut moved = held(MemifRole::Client);
    moved.send(&[Descriptor { region: 9, ..piece(0, u32::MAX, 256) }]);
    assert_eq!(received(&mut moved.port), Some(vec![0; 256]));
}

#[test]
fn index_that_jumps_is_an_error() {
    for role in [MemifRole::Server, MemifRole::Client] {
        for found in [9, 0x8000, u16::MAX] {
            let mut held = held(role);
            held.there.sender_index().store(found, Ordering::Release);
            let error = held.error();
            assert!(matches!(error, MemifError::RingJump { size_slots: 8, .. }), "{error}");
        }
        let mut back = held(role);
        back.send(&[piece(0, 0, 64); 3]);
        assert!(received(&mut back.port).is_some());
        back.there.sender_index().store(1, Ordering::Release);
        assert!(received(&mut back.port).is_some() && received(&mut back.port).is_some());
        assert!(matches!(back.error(), MemifError::RingJump { found: 1, last: 3, .. }));
    }
}

#[test]
fn receiver_that_takes_what_was_not_sent_is_an_error() {
    for role in [MemifRole::Server, MemifRole::Client] {
        let mut held = held(role);
        let ahead = held.back.ahead();
        held.back.receiver_index().store(ahead, Ordering::Release);
        (0..8).for_each(|_| assert!(held.port.send(&[1; 64]).unwrap()));
        held.back.receiver_index().store(ahead + 9, Ordering::Release);
        let error = held.port.send(&[1; 64]).unwrap_err();
        assert!(matches!(error, PortError::Memif { source: MemifError::RingJump { .. }, .. }), "{error}");
    }
}

#[test]
fn server_is_given_buffers_that_are_not_there() {
    for (offset_bytes, length_bytes) in [(u32::MAX, 64), (0, u32::MAX), (0, 0)] {
        let mut held = held(MemifRole::Server);
        held.back.write(0, piece(0, offset_bytes, length_bytes));
        held.back.receiver_index().store(8, Ordering::Release);
        let error = held.port.send(&[1; 64]).unwrap_err();
        assert!(matches!(error, PortError::Memif { source: MemifError::Descriptor { slot: 0, .. }, .. }), "{error}");
    }
}

#[test]
fn peer_that_wants_interrupts_gets_one_for_a_flush() {
    let mut held = held(MemifRole::Client);
    // The hand has joined as a server, which masks interrupts.
    assert!(held.port.send(&[1; 64]).unwrap());
    assert_eq!(held.port.statistics().kicks, 0);
    let flags = held.back.regions.span(0, 4, 2).unwrap().cast::<u16>();
    // SAFETY: the flags of the first ring, which lies at the region's beginning; this thread alone uses them.
    unsafe { flags.write(0) };
    assert!(held.port.queue(&[1; 64]).unwrap() && held.port.queue(&[1; 64]).unwrap());
    held.port.flush().unwrap();
    held.port.flush().unwrap();
    assert_eq!(held.port.statistics().kicks, 1);
}
