//! Connections for tests: the two ends of one, as if the kernels of both hosts had made it.

use std::net::{IpAddr, SocketAddr};

use nearwire_stack::{Stack, TcpFacts, TcpTimestamp, TcpWindow};
use nearwire_wire::checksum::Sum;
use nearwire_wire::ipv4::Ipv4Header;
use nearwire_wire::ipv6::Ipv6Header;
use nearwire_wire::tcp::options::{self, Options};
use nearwire_wire::tcp::{HEADER_BYTES_MIN, PROTOCOL, TcpHeader, TcpSegment};

/// What two ends agreed on, and where their numbers begin.
#[derive(Clone, Copy, Debug)]
pub struct Agreed {
    /// Numbers of the first bytes that each end sends.
    pub first: [u32; 2],
    pub maximum_segment_bytes: u16,
    /// The shift of windows that the first end tells, and the second.
    pub window_scale: Option<(u8, u8)>,
    pub has_selective_acknowledgement: bool,
    /// What the clock of each end shows.
    pub timestamps: Option<[u32; 2]>,
    pub has_congestion_notification: bool,
    /// What each end takes.
    pub window_bytes: [u32; 2],
}

impl Default for Agreed {
    fn default() -> Agreed {
        Agreed {
            first: [1000, 5000],
            maximum_segment_bytes: 1460,
            window_scale: Some((7, 7)),
            has_selective_acknowledgement: true,
            timestamps: Some([10_000, 20_000]),
            has_congestion_notification: false,
            window_bytes: [65_536, 65_536],
        }
    }
}

impl Agreed {
    /// The facts of one end: 0 or 1.
    pub fn facts(&self, end: usize, local: SocketAddr, peer: SocketAddr) -> TcpFacts {
        let other = 1 - end;
        let (mine, theirs) = (self.first[end], self.first[other]);
        let shifts = self.window_scale.map(|(first, second)| if end == 0 { (second, first) } else { (first, second) });
        TcpFacts {
            local,
            peer,
            unacknowledged_sequence: mine,
            sent: Vec::new(),
            unsent: Vec::new(),
            is_write_shut: false,
            next_sequence: theirs,
            unread: Vec::new(),
            window: TcpWindow {
                send_sequence: theirs,
                send_bytes: self.window_bytes[other],
                send_most_bytes: self.window_bytes[other],
                receive_bytes: self.window_bytes[end],
                receive_sequence: theirs,
            },
            maximum_segment_bytes: self.maximum_segment_bytes,
            window_scale: shifts,
            has_selective_acknowledgement: self.has_selective_acknowledgement,
            timestamp: self.timestamps.map(|clocks| TcpTimestamp {
                value: clocks[end],
                is_in_microseconds: false,
                recent: Some(clocks[other]),
            }),
            has_congestion_notification: self.has_congestion_notification,
            round_trip: None,
        }
    }
}

/// All frames that a stack sends now.
pub fn frames(stack: &mut Stack, now_ns: u64) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(segment) = stack.poll_transmit(now_ns) {
        let mut frame = vec![0xee; segment.len_bytes()];
        assert_eq!(segment.write(&mut frame), frame.len());
        frames.push(frame);
    }
    frames
}

/// A frame of a segment, with good checksums.
pub fn frame(
    from: u8,
    to: u8,
    source: IpAddr,
    destination: IpAddr,
    header: TcpHeader,
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let mut segment = vec![0; HEADER_BYTES_MIN + options.len() + payload.len()];
    header.write(options, &mut segment).expect("fits").copy_from_slice(payload);
    let (ethertype, mut packet, sum) = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, PROTOCOL, 0, 0];
            packet.extend(source.octets().into_iter().chain(destination.octets()));
            let total = (packet.len() + segment.len()) as u16;
            packet[2..4].copy_from_slice(&total.to_be_bytes());
            let checksum = Sum::default().bytes(&packet).checksum();
            packet[10..12].copy_from_slice(&checksum);
            (0x800_u16, packet, Sum::default().pseudo_v4(source, destination, PROTOCOL, segment.len() as u16))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend((segment.len() as u16).to_be_bytes());
            packet.extend([PROTOCOL, 64]);
            packet.extend(source.octets().into_iter().chain(destination.octets()));
            (0x86dd, packet, Sum::default().pseudo_v6(source, destination, PROTOCOL, segment.len() as u16))
        }
        _ => panic!("{source} and {destination} are of one family"),
    };
    let checksum = sum.bytes(&segment).checksum();
    segment[16..18].copy_from_slice(&checksum);
    packet.extend(segment);
    [&super::mac(to).0[..], &super::mac(from).0, &ethertype.to_be_bytes(), &packet].concat()
}

/// Header, options and payload of the segment in a frame without tags and IP options, and the type of service of its packet.
pub fn segment(frame: &[u8]) -> Option<(TcpHeader, Options, &[u8], u8)> {
    let (packet, tos) = match frame.get(12..14)? {
        [8, 0] => {
            let packet = Ipv4Header::parse(&frame[14..]).ok()?;
            (packet.payload, packet.header.tos)
        }
        _ => {
            let (header, payload) = Ipv6Header::parse(&frame[14..]).ok()?;
            (payload, header.traffic_class)
        }
    };
    let segment = TcpSegment::parse(packet).ok()?;
    Some((segment.header, options::parse(segment.options()), segment.payload(), tos))
}

/// A frame in one line.
pub fn describe(frame: &[u8]) -> String {
    let Some((header, options, payload, tos)) = segment(frame) else { return "no segment".to_owned() };
    let sequence = header.sequence;
    let end = sequence.wrapping_add(payload.len() as u32);
    format!(
        "{:?} {sequence}:{end}({}) ack {} win {} tos {tos} {:?} {:?}",
        header.flags,
        payload.len(),
        header.acknowledgement,
        header.window,
        options.timestamps.map(|stamps| (stamps.value, stamps.echo)),
        options.blocks.as_slice().iter().map(|block| (block.left, block.right)).collect::<Vec<_>>(),
    )
}
