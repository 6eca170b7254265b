//! Peers that break the protocol: each lie is an error that names it, and none is undefined behaviour or a panic.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;
use crate::ports::memif::handshake::Joined;
use crate::ports::memif::layout::Layout;
use crate::ports::memif::message::{AddRing, Direction, Hello, Init, Message, VERSION};
use crate::ports::memif::region::{Region, Regions};
use crate::ports::memif::ring::{DESCRIPTOR_NEXT, Descriptor, RingView, ring_bytes};

const WITHIN: Duration = Duration::from_secs(10);

fn sockets() -> (Control, Control) {
    let (a, b) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
            .unwrap();
    (a.into(), b.into())
}

fn memory(len_bytes: u64, seals: SealFlags) -> OwnedFd {
    let file = memfd_create(c"test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, len_bytes).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file
}

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::NONBLOCK).unwrap()
}

/// A client whose messages are given one by one.
struct Told(Control, JoinHandle<Result<Joined, MemifError>>);

impl Told {
    fn new() -> Told {
        let (ours, theirs) = sockets();
        let server = spawn(move || join(theirs, &server(), Deadline::after(WITHIN)));
        Told(ours, server)
    }

    fn init() -> Init {
        Init { version: VERSION, id: 0, mode: 0, secret: [0; 24], name: [0; 32] }
    }

    /// What is after HELLO and INIT.
    fn begun() -> Told {
        Told::new().say(&Message::Init(Told::init()), None)
    }

    fn say(self, message: &Message, descriptor: Option<OwnedFd>) -> Told {
        self.0.send(message, descriptor.as_ref().map(AsFd::as_fd)).unwrap();
        self
    }

    fn say_region(self, length_bytes: u64, file: OwnedFd) -> Told {
        self.say(&Message::AddRegion { number: 0, length_bytes }, Some(file))
    }

    fn say_rings(self, change: impl Fn(&mut AddRing)) -> Told {
        let layout = Layout::new(4, 256);
        [Direction::ClientToServer, Direction::ServerToClient].into_iter().fold(self, |told, direction| {
            let mut ring = layout.add_ring(direction);
            change(&mut ring);
            told.say(&Message::AddRing(ring), Some(event()))
        })
    }

    fn connect(self) -> Told {
        self.say(&Message::Connect { name: [0; 32] }, None)
    }

    fn error(self) -> MemifError {
        self.1.join().unwrap().unwrap_err()
    }
}

/// A region with both rings, as a client makes it.
fn laid_out() -> (OwnedFd, u64) {
    let layout = Layout::new(4, 256);
    let (region, file) = Region::create(layout.region_bytes()).unwrap();
    let mut regions = Regions::default();
    regions.add(0, region).unwrap();
    let regions = Arc::new(regions);
    for direction in [Direction::ClientToServer, Direction::ServerToClient] {
        let ring = RingView::new(&regions, (0, layout.ring_offset_bytes(direction)), 4, direction).unwrap();
        layout.fill(&ring, direction);
    }
    (file, layout.region_bytes() as u64)
}

#[test]
fn client_that_says_all_right_is_connected_also_without_waiting_for_answers() {
    let (file, len_bytes) = laid_out();
    let Told(_control, server) = Told::begun().say_region(len_bytes, file).say_rings(|_| ()).connect();
    server.join().unwrap().unwrap();
}

#[test]
fn wrong_init_is_refused() {
    let version = Told::new().say(&Message::Init(Init { version: 0x0100, ..Told::init() }), None).error();
    assert!(matches!(version, MemifError::Version { least: 0x0100, .. }), "{version}");
    let mode = Told::new().say(&Message::Init(Init { mode: 1, ..Told::init() }), None).error();
    assert!(matches!(mode, MemifError::Mode { found: 1 }), "{mode}");
    let other = Told::new().connect().error();
    assert!(matches!(other, MemifError::UnexpectedMessage { found: 6, wanted: "INIT" }), "{other}");
}

#[test]
fn wrong_region_is_refused() {
    let add = |number, length_bytes| Message::AddRegion { number, length_bytes };
    let none = Told::begun().say(&add(0, 4096), None).error();
    assert!(matches!(none, MemifError::NoRegionFile { region: 0 }), "{none}");
    let number = Told::begun().say(&add(1, 4096), Some(memory(4096, SealFlags::SHRINK))).error();
    assert!(matches!(number, MemifError::RegionNumber { found: 1, wanted: 0, .. }), "{number}");
    let long = Told::begun().say_region(4097, memory(4096, SealFlags::SHRINK)).error();
    assert!(matches!(long, MemifError::RegionLength { found_bytes: 4097, file_bytes: 4096, .. }), "{long}");
    let unsealed = Told::begun().say_region(4096, memory(4096, SealFlags::GROW)).error();
    assert!(matches!(unsealed, MemifError::RegionUnsealed { lacks: "no F_SEAL_SHRINK", .. }), "{unsealed}");
    let read_only = Told::begun().say_region(4096, memory(4096, SealFlags::SHRINK | SealFlags::WRITE)).error();
    assert!(matches!(read_only, MemifError::Kernel { tried: "map a region", .. }), "{read_only}");
}

#[test]
fn wrong_ring_is_refused() {
    let with = |change: fn(&mut AddRing)| {
        let (file, len_bytes) = laid_out();
        Told::begun().say_region(len_bytes, file).say_rings(change).connect().error()
    };
    let error = with(|ring| ring.offset_bytes += 8);
    assert!(matches!(error, MemifError::RingPlace { .. }), "{error}");
    let error = with(|ring| ring.offset_bytes = u32::MAX - 15);
    assert!(matches!(error, MemifError::RingPlace { offset_bytes: 0xffff_fff0, .. }), "{error}");
    let error = with(|ring| ring.region = 1);
    assert!(matches!(error, MemifError::RingPlace { region: 1, .. }), "{error}");
    let error = with(|ring| ring.size_log2 = 15);
    assert!(matches!(error, MemifError::RingSize { size_log2: 15, .. }), "{error}");
    let error = with(|ring| ring.size_log2 = 14);
    assert!(matches!(error, MemifError::RingPlace { .. }), "{error}");
    let error = with(|ring| ring.offset_bytes += 1024);
    assert!(matches!(error, MemifError::Cookie { .. }), "{error}");
    // Said before it connects: the server is gone by then.
    let begun = |ring: AddRing, event| {
        let (file, len_bytes) = laid_out();
        Told::begun().say_region(len_bytes, file).say(&Message::AddRing(ring), Some(event)).error()
    };
    let right = Layout::new(4, 256).add_ring(Direction::ClientToServer);
    let error = begun(AddRing { number: 1, ..right }, event());
    assert!(matches!(error, MemifError::RingNumber { found: 1, .. }), "{error}");
    let error = begun(AddRing { private_header_bytes: 8, ..right }, event());
    assert!(matches!(error, MemifError::PrivateHeader { found_bytes: 8 }), "{error}");
    let error = begun(right, memory(8, SealFlags::empty()));
    assert!(matches!(error, MemifError::NoEvent { .. }), "{error}");
    let error = Told::begun().connect().error();
    assert!(matches!(error, MemifError::RingMissing { .. }), "{error}");
}

#[test]
fn wrong_hello_or_answer_is_refused_by_the_client() {
    let told = |messages: &[Message]| {
        let (ours, theirs) = sockets();
        messages.iter().for_each(|message| ours.send(message, None).unwrap());
        join(theirs, &client_of(&server()), Deadline::after(Duration::from_millis(50))).unwrap_err()
    };
    let hello = Hello {
        name: [0; 32],
        least_version: VERSION,
        most_version: VERSION,
        last_region: 0,
        last_s2c_ring: 0,
        last_c2s_ring: 0,
        ring_size_log2: 14,
    };
    assert!(matches!(told(&[]), MemifError::Silent { wanted: "HELLO" }));
    let old = told(&[Message::Hello(Hello { least_version: 0x0100, most_version: 0x01ff, ..hello })]);
    assert!(matches!(old, MemifError::Version { most: 0x01ff, .. }), "{old}");
    let none = told(&[Message::Hello(Hello { ring_size_log2: 0, ..hello }), Message::Ack, Message::Ack]);
    assert!(matches!(none, MemifError::RingSize { size_log2: 0, .. }), "{none}");
    let early = told(&[Message::Hello(hello), Message::Connected { name: [0; 32] }]);
    assert!(matches!(early, MemifError::UnexpectedMessage { found: 7, .. }), "{early}");
    let refused = told(&[Message::Hello(hello), Message::Disconnect { code: 5, reason: "no\x1b[2J".into() }]);
    assert!(refused.to_string().ends_with("no?[2J (code 5)"), "{refused}");
}

#[test]
fn packet_that_is_no_message_is_refused() {
    for len_bytes in [1, 127, 129, 500] {
        let (ours, theirs) = rustix_pair();
        rustix::io::write(&ours, &vec![0; len_bytes]).unwrap();
        let error = Control::from(theirs).receive(Deadline::after(WITHIN), "x").unwrap_err();
        let seen_bytes = len_bytes.min(129);
        assert!(matches!(error, MemifError::MessageLength { found_bytes } if found_bytes == seen_bytes), "{error}");
    }
    let (ours, theirs) = rustix_pair();
    drop(ours);
    let error = Control::from(theirs).receive(Deadline::after(WITHIN), "x").unwrap_err();
    assert!(matches!(error, MemifError::Closed { wanted: "x" }), "{error}");
}

fn rustix_pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).unwrap()
}

/// A port of ours, and the rings of the other end in a test's hand: those it sends through and those it receives from.
struct Held {
    port: MemifPort,
    there: RingView,
    back: RingView,
    _control: Control,
}

fn held(role: MemifRole) -> Held {
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
    fn send(&self, descriptors: &[Descriptor]) {
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

fn descriptors() -> impl Strategy<Value = Vec<Descriptor>> {
    let near = |end: u32| prop_oneof![0..end, end - 300..=end, Just(0), any::<u32>()];
    let end = Layout::new(3, 256).region_bytes() as u32;
    let one = (0..4_u16, 0..3_u16, near(300), near(end)).prop_map(|(flags, region, length_bytes, offset_bytes)| {
        Descriptor { flags, region: region / 2, length_bytes, offset_bytes, metadata: 0 }
    });
    prop::collection::vec(one, 1..=8)
}

fn messages() -> impl Strategy<Value = Vec<(Message, u8)>> {
    let end = Layout::new(4, 256).region_bytes() as u64;
    let ring = (any::<bool>(), 0..2_u16, 0..2_u16, 0..20_u32, 0..16_u8, 0..2_u16);
    let ring = ring.prop_map(|(from_client, number, region, lines, size_log2, header)| {
        let direction = if from_client { Direction::ClientToServer } else { Direction::ServerToClient };
        let (offset_bytes, private_header_bytes) = (lines * 32, header.saturating_sub(1));
        AddRing { direction, number: number / 2, region, offset_bytes, size_log2, private_header_bytes }
    });
    let one = prop_oneof![
        (0..3_u16, 0..=end + 1).prop_map(|(number, length_bytes)| Message::AddRegion { number, length_bytes }),
        ring.prop_map(Message::AddRing),
        Just(Message::Connect { name: [0xff; 32] }),
        Just(Message::Ack),
        any::<u16>().prop_map(|version| Message::Init(Init { version, ..Told::init() })),
    ];
    prop::collection::vec((one, 0..4_u8), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_descriptors_are_frames_or_an_error(descriptors in descriptors(), copies in any::<bool>()) {
        for role in [MemifRole::Server, MemifRole::Client] {
            let mut held = held(role);
            held.port.copies = copies;
            held.send(&descriptors);
            let mut slots = 0;
            while let Ok(Some(len_bytes)) = held.port.receive(|frame| frame.iter().map(|byte| usize::from(*byte)).sum::<usize>().max(frame.len()).min(1)) {
                slots += len_bytes;
            }
            prop_assert!(slots <= descriptors.len());
        }
    }

    #[test]
    fn any_buffers_and_indices_take_frames_or_are_an_error(descriptors in descriptors(), index in any::<u16>()) {
        let mut held = held(MemifRole::Server);
        descriptors.iter().enumerate().for_each(|(at, descriptor)| held.back.write(at as u16, *descriptor));
        held.back.receiver_index().store(8, Ordering::Release);
        let sent = (0..9).take_while(|n| matches!(held.port.send(&vec![1; 14 + n * 100]), Ok(true))).count();
        prop_assert!(sent <= 8);
        held.back.receiver_index().store(index, Ordering::Release);
        held.there.sender_index().store(index, Ordering::Release);
        let _ = (held.port.send(&[1; 64]), held.port.receive(|frame| frame.len()));
    }

    #[test]
    fn any_messages_end_the_handshake(messages in messages()) {
        let told = Told::begun();
        for (message, with) in messages {
            let descriptor = match with {
                0 => None,
                1 => Some(event()),
                2 => Some(laid_out().0),
                _ => Some(memory(ring_bytes(4).into(), SealFlags::SHRINK)),
            };
            // Refused where the server has ended it.
            let _ = told.0.send(&message, descriptor.as_ref().map(AsFd::as_fd));
        }
        let Told(control, server) = told;
        drop(control);
        let _ = server.join().unwrap();
    }
}
