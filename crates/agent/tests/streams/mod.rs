//! A TCP connection between both ends of a cable, and what is written to it: tests that change its owner hold what is read against that.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::Command;

use nearwire_frames::steering::{ExactFlow, Filter, Transport};
use nearwire_lab::{Cable, CableEnd, VirtualCable, VirtualCableOptions, made_or_skip};

/// The byte at a place of a stream; each direction has its own.
fn byte_at(direction: u64, at: u64) -> u8 {
    let mixed = (at / 8 + direction).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (8 * (at % 8))) as u8
}

/// What one end wrote and read so far.
pub struct Course {
    writes: u64,
    reads: u64,
    pub written: u64,
    pub read: u64,
}

impl Course {
    pub const fn new(writes: u64, reads: u64) -> Course {
        Course { writes, reads, written: 0, read: 0 }
    }

    /// Up to `most` bytes that are to be written next, none beyond `until`.
    pub fn next(&self, most: usize, until: u64) -> Vec<u8> {
        let count = (most as u64).min(until - self.written);
        (0..count).map(|n| byte_at(self.writes, self.written + n)).collect()
    }

    /// These were read.
    pub fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            assert_eq!(*byte, byte_at(self.reads, self.read), "at {}", self.read);
            self.read += 1;
        }
    }

    /// Writes up to `most` bytes, and no more than up to `until`, and reads all that there is, by the kernel.
    pub fn turn(&mut self, mut stream: &TcpStream, most: usize, until: u64) {
        match stream.write(&self.next(most, until)) {
            Ok(taken) => self.written += taken as u64,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "write after {} bytes", self.written),
        }
        let mut buffer = [0; 16 << 10];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => panic!("the stream ended after {} bytes", self.read),
                Ok(len) => self.take(&buffer[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("read after {} bytes: {error}", self.read),
            }
        }
    }
}

/// A cable whose far end sends segments that fit into frames, with whole checksums.
pub fn cable_or_skip() -> Option<VirtualCable> {
    let options = VirtualCableOptions { queues: 1, ..VirtualCableOptions::default() };
    let cable = made_or_skip(VirtualCable::lay(options))?;
    for end in [cable.near(), cable.far()] {
        let mut ethtool = Command::new("ethtool");
        ethtool.args(["-K", &end.interface, "tx", "off", "tso", "off", "gso", "off", "gro", "off"]);
        assert!(end.namespace.enter(|| ethtool.output()).unwrap().unwrap().status.success());
    }
    Some(cable)
}

/// A connection between both ends of the cable, the near one accepted or connected.
pub fn connect(near: &CableEnd, far: &CableEnd, address: fn(&CableEnd) -> IpAddr, accepted: bool) -> [TcpStream; 2] {
    let (listens, connects) = if accepted { (near, far) } else { (far, near) };
    let listener = listens.namespace.enter(|| TcpListener::bind((address(listens), 0))).unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let connected = connects.namespace.enter(|| TcpStream::connect(to)).unwrap().unwrap();
    let taken = listener.accept().unwrap().0;
    let both = if accepted { [taken, connected] } else { [connected, taken] };
    both.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    both
}

/// What keeps the frames of a connection from the kernel.
pub fn flow(stream: &TcpStream) -> Filter {
    let (local, remote) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
    Filter::Exact(ExactFlow::between(Transport::Tcp, local, remote))
}

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}
