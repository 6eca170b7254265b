//! Connections that are adopted and released again while both ends send, beside the kernel at the far end. On a real kernel over a veth
//! pair; needs root (or says SKIP). `NEARWIRE_ADOPTIONS=N`: so many in each storm.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use nearwire_agent::adoption::{AdoptionError, adopt, release, slipped};
use nearwire_agent::give_back::{GivenBack, Sender};
use nearwire_frames::ports::xdp::{Steer, XdpConfig, XdpMode, XdpPort};
use nearwire_frames::steering::{ExactFlow, Filter, Transport};
use nearwire_frames::{Port, RawPort};
use nearwire_lab::{Cable, CableEnd, VirtualCable, VirtualCableOptions};

const ETHERNET_BYTES: usize = 14;
const PATIENCE: Duration = Duration::from_secs(20);

/// The byte at a place of a stream; each direction has its own.
fn byte_at(direction: u64, at: u64) -> u8 {
    let mixed = (at / 8 + direction).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (8 * (at % 8))) as u8
}

/// One end of the stream: what it wrote and read so far.
struct End {
    stream: TcpStream,
    writes: u64,
    reads: u64,
    written: u64,
    read: u64,
}

impl End {
    fn new(stream: TcpStream, writes: u64, reads: u64) -> End {
        stream.set_nonblocking(true).unwrap();
        End { stream, writes, reads, written: 0, read: 0 }
    }

    /// Writes up to `most` bytes, and no more than up to `until`; reads all that there is.
    fn turn(&mut self, most: usize, until: u64) {
        let count = most.min((until - self.written) as usize);
        let bytes: Vec<u8> = (0..count as u64).map(|n| byte_at(self.writes, self.written + n)).collect();
        match self.stream.write(&bytes) {
            Ok(taken) => self.written += taken as u64,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "write after {} bytes", self.written),
        }
        let mut buffer = [0; 16 << 10];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("the stream ended after {} bytes", self.read),
                Ok(len) => {
                    for byte in &buffer[..len] {
                        assert_eq!(*byte, byte_at(self.reads, self.read), "at {}", self.read);
                        self.read += 1;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("read after {} bytes: {error}", self.read),
            }
        }
    }
}

/// A cable whose far end sends segments that fit into frames, with whole checksums.
fn cable_or_skip() -> Option<VirtualCable> {
    let cable = match VirtualCable::lay(VirtualCableOptions { queues: 1, ..VirtualCableOptions::default() }) {
        Ok(cable) => cable,
        Err(error) => {
            assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "{error}");
            println!("SKIP {error}");
            return None;
        }
    };
    for end in [cable.near(), cable.far()] {
        let mut ethtool = Command::new("ethtool");
        ethtool.args(["-K", &end.interface, "tx", "off", "tso", "off", "gso", "off", "gro", "off"]);
        assert!(end.namespace.enter(|| ethtool.output()).unwrap().unwrap().status.success());
    }
    Some(cable)
}

/// A connection between both ends of the cable, the near one accepted or connected.
fn connect(
    near: &CableEnd,
    far: &CableEnd,
    address: fn(&CableEnd) -> IpAddr,
    accepted: bool,
) -> (TcpStream, TcpStream) {
    let (listens, connects) = if accepted { (near, far) } else { (far, near) };
    let listener = listens.namespace.enter(|| TcpListener::bind((address(listens), 0))).unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let connected = connects.namespace.enter(|| TcpStream::connect(to)).unwrap().unwrap();
    let taken = listener.accept().unwrap().0;
    if accepted { (taken, connected) } else { (connected, taken) }
}

fn flow(stream: &TcpStream) -> Filter {
    let (local, remote) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
    Filter::Exact(ExactFlow {
        transport: Transport::Tcp,
        local: local.ip(),
        local_port: local.port(),
        remote: remote.ip(),
        remote_port: remote.port(),
    })
}

/// Gives the kernel what came to the port.
fn give_back(port: &mut XdpPort, sender: &mut Sender, to: SocketAddr) -> u32 {
    let mut count = 0;
    while let Some(sent) = port.receive(|frame| sender.send_packet(&frame[ETHERNET_BYTES..], to.ip())).unwrap() {
        assert_eq!(sent, GivenBack::Done);
        count += 1;
    }
    count
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Adopts and releases a connection so often while `bytes` for each of these go both ways.
fn storm(address: fn(&CableEnd) -> IpAddr, accepted: bool, seed: u64) {
    let Some(cable) = cable_or_skip() else { return };
    let adoptions = std::env::var("NEARWIRE_ADOPTIONS").map_or(400, |count| count.parse().unwrap());
    let (near, far) = (cable.near(), cable.far());
    let config = XdpConfig::new(&near.interface, XdpMode::Generic, Steer::Filters);
    let mut port = near.namespace.enter(|| XdpPort::open(&config)).unwrap().unwrap();
    let mut sender = Sender::default();
    let (near_stream, far_stream) = connect(near, far, address, accepted);
    let (local, filter) = (near_stream.local_addr().unwrap(), flow(&near_stream));
    let (mut one, mut other) = (End::new(near_stream, 1, 2), End::new(far_stream, 2, 1));
    let (mut random, mut given_back, mut slips) = (Random(seed), 0, 0);
    let all_bytes = adoptions * 5_000;
    for _ in 0..adoptions {
        for _ in 0..random.below(3) {
            one.turn(random.below(20_000) as usize, all_bytes);
            other.turn(random.below(20_000) as usize, all_bytes);
        }
        port.add_filter(filter).unwrap();
        let mut connection = adopt(&one.stream).unwrap();
        for _ in 0..random.below(3) {
            other.turn(random.below(20_000) as usize, all_bytes);
        }
        let came = slipped(&one.stream).unwrap();
        slips += usize::from(!came.is_empty());
        connection.next_sequence = connection.next_sequence.wrapping_add(came.len() as u32);
        connection.unread.extend(came);
        near.namespace.enter(|| release(&one.stream, &connection)).unwrap().unwrap();
        port.remove_filter(filter).unwrap();
        given_back += near.namespace.enter(|| give_back(&mut port, &mut sender, local)).unwrap();
    }
    let until = Instant::now() + PATIENCE;
    while one.read < all_bytes || other.read < all_bytes {
        one.turn(20_000, all_bytes);
        other.turn(20_000, all_bytes);
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
