//! Segments of any kind into a connection, with writes, reads, time and changes of owner in between: what it sends is what was written and
//! is well formed, what is read is what came, its windows do not shrink, and it comes to rest.

use nearwire_stack::{
    Arrival, CongestionControl, ConnectionId, Keepalive, ReceiveChecksum, Take, TcpCallError, TcpOptions, Verdict,
};
use nearwire_wire::tcp::options::{Block, Blocks, OPTIONS_BYTES_MAX, Options, Timestamps};
use nearwire_wire::tcp::{Flags, TcpHeader};

use crate::bytes::Bytes;
use crate::host::tcp::{Agreed, frame, frames, segment};
use crate::host::{self, Host, at, v4};

const MS: u64 = 1_000_000;
/// Steps that are made of one input.
const STEPS_MOST: usize = 200;
/// More segments are never sent at once: a full send buffer of the smallest segments.
const FRAMES_MOST: usize = 2000;
const OURS: u32 = u32::MAX - 3000;
const THEIRS: u32 = u32::MAX - 1000;

/// The byte of a number in either direction.
const fn byte(sequence: u32) -> u8 {
    (sequence ^ sequence >> 8) as u8
}

struct World {
    host: Host,
    id: ConnectionId,
    options: TcpOptions,
    now_ns: u64,
    /// Numbers of the byte that is written next and of the one that is read next.
    written: u32,
    read: u32,
    /// What the last segments said: acknowledgement and right edge of the window.
    acknowledged: u32,
    edge: u32,
    shift: u8,
}

/// An input: a connection, then steps.
pub fn check(input: &[u8]) {
    let mut bytes = Bytes(input);
    let mut world = World::new(&mut bytes);
    for _ in 0..STEPS_MOST {
        if bytes.is_empty() {
            break;
        }
        match bytes.u8() % 16 {
            0 => world.write(&mut bytes),
            1 => world.read(&mut bytes),
            2 => world.pass(&mut bytes),
            3 => world.move_on(&mut bytes),
            4 => world.end(&mut bytes),
            _ => world.come(&mut bytes),
        }
        world.collect();
    }
    world.rest();
}

impl World {
    fn new(bytes: &mut Bytes<'_>) -> World {
        let how = bytes.u8();
        let has = |bit: u8| how >> bit & 1 != 0;
        let shift = bytes.u8() % 15;
        let agreed = Agreed {
            first: [OURS, THEIRS],
            maximum_segment_bytes: bytes.u16() % 2000,
            window_scale: has(0).then_some((shift, shift)),
            has_selective_acknowledgement: has(1),
            timestamps: has(2).then_some([u32::MAX - 5; 2]),
            has_congestion_notification: has(3),
            window_bytes: [bytes.u16().into(), bytes.u16().into()],
        };
        let options = TcpOptions {
            no_delay: has(4),
            cork: has(5),
            keepalive: has(6).then_some(Keepalive { idle_ns: 1000 * MS, interval_ns: 300 * MS, probes: 3 }),
            user_timeout_ns: has(7).then_some(3000 * MS),
            receive_buffer_bytes: u32::from(bytes.u16()) + 1,
            send_buffer_bytes: u32::from(bytes.u16()) + 1,
            congestion_control: bytes.choose(&[CongestionControl::Cubic, CongestionControl::NewReno]),
            ..TcpOptions::default()
        };
        let mut host = host::host(1, &[2]);
        let facts = agreed.facts(0, at(v4(1), 7), at(v4(2), 9));
        let now_ns = 1000 * MS;
        let id = host.stack.tcp_adopt(&facts, options, now_ns).expect("can be adopted");
        let edge = THEIRS.wrapping_add(agreed.window_bytes[0]);
        let shift = if has(0) { shift } else { 0 };
        World { host, id, options, now_ns, written: OURS, read: THEIRS, acknowledged: THEIRS, edge, shift }
    }

    fn write(&mut self, bytes: &mut Bytes<'_>) {
        let count = u32::from(bytes.u16() % 5000);
        let data: Vec<u8> = (0..count).map(|at| byte(self.written.wrapping_add(at))).collect();
        if let Ok(taken) = self.host.stack.tcp_write(self.id, self.now_ns, &data, bytes.bool()) {
            self.written = self.written.wrapping_add(taken as u32);
        }
    }

    fn read(&mut self, bytes: &mut Bytes<'_>) {
        let mut into = vec![0; usize::from(bytes.u16() % 5000) + 1];
        let peeked = self.host.stack.tcp_peek(self.id, &mut into);
        let found = self.host.stack.tcp_read(self.id, &mut into);
        assert_eq!(peeked, found);
        for found in &into[..found.unwrap_or(0)] {
            assert_eq!(*found, byte(self.read));
            self.read = self.read.wrapping_add(1);
        }
    }

    fn pass(&mut self, bytes: &mut Bytes<'_>) {
        self.now_ns += match bytes.u8() % 4 {
            0 => u64::from(bytes.u8()) * 1000,
            1 => u64::from(bytes.u8()) * MS,
            2 => u64::from(bytes.u8()) * 1000 * MS,
            _ => self.host.stack.next_deadline().unwrap_or(0).saturating_sub(self.now_ns),
        };
    }

    /// The connection goes to another owner and comes back.
    fn move_on(&mut self, bytes: &mut Bytes<'_>) {
        let Ok(facts) = self.host.stack.tcp_export(self.id, self.now_ns) else { return };
        assert_eq!(self.host.stack.tcp_connections(), 0);
        self.now_ns += u64::from(bytes.u8()) * MS;
        self.id = self.host.stack.tcp_adopt(&facts, self.options, self.now_ns).expect("can be adopted again");
        let same = |facts: &nearwire_stack::TcpFacts| {
            (
                facts.sent.clone(),
                facts.unsent.clone(),
                facts.unread.clone(),
                facts.window,
                facts.unacknowledged_sequence,
            )
        };
        if bytes.bool() {
            let again = self.host.stack.tcp_export(self.id, self.now_ns).expect("nothing came");
            assert_eq!(same(&again), same(&facts));
            self.id = self.host.stack.tcp_adopt(&again, self.options, self.now_ns).expect("can be adopted again");
        }
    }

    fn end(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.u8() {
            0 => self.host.stack.tcp_abort(self.id, self.now_ns),
            1..20 => {
                let _ = self.host.stack.tcp_shutdown(self.id, self.now_ns);
            }
            20..60 => self.host.stack.tcp_set_quick_acknowledgement(self.id, bytes.bool()),
            _ => {
                let (no_delay, cork) = (bytes.bool(), bytes.bool());
                self.options = TcpOptions { no_delay, cork, ..self.options };
                let options = self.options;
                self.host.stack.tcp_configure(self.id, self.now_ns, |known| *known = options);
            }
        }
    }

    /// A segment near what is expected, or far from it.
    fn come(&mut self, bytes: &mut Bytes<'_>) {
        let how = bytes.u8();
        let near =
            |bytes: &mut Bytes<'_>, number: u32| number.wrapping_add_signed(i32::from(bytes.u16().cast_signed()));
        let sequence = match how & 3 {
            0 => near(bytes, self.acknowledged),
            1 => self.acknowledged.wrapping_add(u32::from(bytes.u8()) * 10),
            _ => self.acknowledged,
        };
        let acknowledgement = match how >> 2 & 3 {
            0 => near(bytes, self.written),
            1 => OURS.wrapping_add(bytes.u16().into()),
            _ => self.written,
        };
        let flags = match how >> 4 & 3 {
            0 => Flags::from_bits_retain(bytes.u8()),
            _ => Flags::ACK,
        };
        // Urgent data leaves the connection to the kernel, and a SYN has no payload that counts.
        let block = |bytes: &mut Bytes<'_>| {
            let left = OURS.wrapping_add(bytes.u16().into());
            Block { left, right: left.wrapping_add(bytes.u16().into()) }
        };
        let blocks: Vec<Block> = (0..how >> 6).map(|_| block(bytes)).collect();
        let options = Options {
            timestamps: (bytes.u8() & 7 != 0).then(|| Timestamps {
                value: (u32::MAX - 5).wrapping_add(bytes.u16().into()),
                echo: (u32::MAX - 5).wrapping_add(bytes.u8().into()),
            }),
            blocks: Blocks::new(&blocks),
            ..Options::default()
        };
        let mut written = [0; OPTIONS_BYTES_MAX];
        let count = options.write(&mut written);
        let len = u32::from(bytes.u16() % 1400);
        let payload: Vec<u8> = (0..len).map(|at| byte(sequence.wrapping_add(at))).collect();
        let header = TcpHeader {
            source_port: 9,
            destination_port: 7,
            sequence,
            acknowledgement,
            flags,
            window: bytes.u16(),
            checksum: [0; 2],
            urgent: 0,
        };
        let mut frame = frame(2, 1, v4(2), v4(1), header, &written[..count], &payload);
        if bytes.u8() == 0 {
            // Options that are none.
            for byte in frame.iter_mut().skip(54).take(count) {
                *byte = bytes.u8();
            }
        }
        self.receive(&frame);
    }

    fn receive(&mut self, frame: &[u8]) {
        self.host.stack.tcp_time(self.now_ns);
        let checksum = ReceiveChecksum::Verified;
        let arrival = Arrival { port: self.host.port, frame, received_ns: 0, device_ns: 0, checksum };
        let verdict = self.host.stack.receive(&arrival, |_, _| Take::Queue);
        assert_eq!(verdict, Verdict::Segment { connection: self.id });
    }

    /// All that is sent now.
    fn collect(&mut self) {
        let frames = frames(&mut self.host.stack, self.now_ns);
        assert!(frames.len() < FRAMES_MOST, "{} frames at once", frames.len());
        for frame in &frames {
            self.look_at(frame);
        }
        assert!(self.host.stack.poll_transmit(self.now_ns).is_none());
        assert!(self.host.stack.next_deadline().is_none_or(|deadline_ns| deadline_ns > self.now_ns));
        let info = self.host.stack.tcp_info(self.id).expect("is here");
        assert!(info.selective_bytes + info.lost_bytes <= info.unacknowledged_bytes);
        assert!(info.unread_bytes <= 1 << 30);
    }

    fn look_at(&mut self, frame: &[u8]) {
        let packet = etherparse::SlicedPacket::from_ethernet(frame).expect("well formed");
        let (Some(etherparse::NetSlice::Ipv4(ip)), Some(etherparse::TransportSlice::Tcp(tcp))) =
            (packet.net, packet.transport)
        else {
            panic!("a segment over IPv4");
        };
        assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
        let checksum =
            tcp.to_header().calc_checksum_ipv4_raw(ip.header().source(), ip.header().destination(), tcp.payload());
        assert_eq!(Ok(tcp.checksum()), checksum);
        let (header, _, payload, _) = segment(frame).expect("a segment");
        for (at, found) in payload.iter().enumerate() {
            assert_eq!(*found, byte(header.sequence.wrapping_add(at as u32)));
        }
        let end = header.sequence.wrapping_add(payload.len() as u32);
        assert!(payload.is_empty() || self.written.wrapping_sub(end).cast_signed() >= 0, "only what was written");
        if header.flags.contains(Flags::RST) {
            return;
        }
        let edge = header.acknowledgement.wrapping_add(u32::from(header.window) << self.shift);
        assert!(header.acknowledgement.wrapping_sub(self.acknowledged).cast_signed() >= 0, "never goes back");
        assert!(edge.wrapping_sub(self.edge).cast_signed() >= 0, "the window does not shrink");
        (self.acknowledged, self.edge) = (header.acknowledgement, edge);
    }

    /// What came in order is there, and without a far end the connection ends or falls silent.
    fn rest(&mut self) {
        let mut into = vec![0; 1 << 20];
        match self.host.stack.tcp_read(self.id, &mut into) {
            Ok(count) => assert!(
                into[..count]
                    .iter()
                    .enumerate()
                    .all(|(at, found)| { *found == byte(self.read.wrapping_add(at as u32)) })
            ),
            Err(TcpCallError::WouldBlock | TcpCallError::Ended(_)) => {}
            Err(error) => panic!("{error}"),
        }
        for _ in 0..2000 {
            let Some(deadline_ns) = self.host.stack.next_deadline() else { break };
            self.now_ns = self.now_ns.max(deadline_ns);
            self.collect();
        }
        let info = self.host.stack.tcp_info(self.id);
        assert_eq!(self.host.stack.next_deadline(), None, "it comes to rest: {info:?} at {} ns", self.now_ns);
        self.host.stack.tcp_remove(self.id);
        assert_eq!((self.host.stack.tcp_connections(), self.host.stack.next_deadline()), (0, None));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn any_segments_leave_a_connection_in_order(input in proptest::collection::vec(any::<u8>(), 0..2000)) {
            super::check(&input);
        }
    }
}
