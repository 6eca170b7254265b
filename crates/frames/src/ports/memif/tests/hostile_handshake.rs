//! Peers that lie while the connection is made: each lie is an error that names it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;
use crate::ports::memif::layout::Layout;
use crate::ports::memif::message::{AddRing, Direction, Hello, Init, Message, VERSION};
use crate::ports::memif::region::{Region, Regions};
use crate::ports::memif::ring::RingView;

pub const WITHIN: Duration = Duration::from_secs(10);

pub fn sockets() -> (Control, Control) {
    let (a, b) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
            .unwrap();
    (a.into(), b.into())
}

pub fn memory(len_bytes: u64, seals: SealFlags) -> OwnedFd {
    let file = memfd_create(c"test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, len_bytes).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file
}

pub fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::NONBLOCK).unwrap()
}

/// A client whose messages are given one by one.
pub struct Told(pub Control, pub JoinHandle<Result<Joined, MemifError>>);

impl Told {
    fn new() -> Told {
        let (ours, theirs) = sockets();
        let server = spawn(move || join(theirs, &server(), Deadline::after(WITHIN)));
        Told(ours, server)
    }

    pub fn init() -> Init {
        Init { version: VERSION, id: 0, mode: 0, secret: [0; 24], name: [0; 32] }
    }

    /// What is after HELLO and INIT.
    pub fn begun() -> Told {
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
pub fn laid_out() -> (OwnedFd, u64) {
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
