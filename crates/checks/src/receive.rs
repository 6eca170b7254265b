//! Frames into a stack with endpoints of every kind: each has one verdict, the counters say the same, and what is
//! delivered is what etherparse reads in the frame.

use std::cell::RefCell;

use etherparse::{NetSlice, SlicedPacket, TransportSlice, UdpSlice};
use nearwire_stack::{
    Arrival, Datagram, EndpointId, Family, InterfaceAddress, Link, LinkKind, Message, Offers, PortId, ReceiveChecksum,
    SourceFilter, Stack, StackConfig, Take, TcpOptions, UdpCounters, UdpOptions, Update, Verdict,
};
use nearwire_wire::checksum::Sum;
use nearwire_wire::ethernet::{EtherType, EthernetHeader, TagKind};
use nearwire_wire::{ipv6, udp};

use crate::bytes::Bytes;
use crate::host::tcp::Agreed;
use crate::host::{self, IFINDEX, at, v4, v6};

/// VLAN 5 of the interface, and VLAN 6 within it.
const VLAN_IFINDEX: u32 = 4;
const INNER_VLAN_IFINDEX: u32 = 5;
/// Few, and small ones, so that frames run out of them.
const QUEUE_SLOTS: u32 = 100;
const QUEUE_SLOT_BYTES: usize = 256;
/// More frames are not made of one input.
const FRAMES_MOST: usize = 24;

/// A stack that receives, its port and its endpoints.
#[derive(Debug)]
pub struct Receiver {
    /// The stack.
    pub stack: Stack,
    port: PortId,
    endpoints: Vec<EndpointId>,
}

/// What the frames of an input are made of.
struct Bench {
    receiver: Receiver,
    seeds: Vec<Vec<u8>>,
}

thread_local! {
    /// Kept from input to input, because a new stack costs more than an input. Every input leaves it with empty queues.
    static BENCH: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

/// Frames made of an input, one after the other.
pub fn check(input: &[u8]) {
    BENCH.with_borrow_mut(|kept| {
        // Taken out, so that a panic leaves none.
        let mut bench = kept.take().unwrap_or_else(|| Bench { receiver: Receiver::new(), seeds: seeds() });
        let mut bytes = Bytes(input);
        for _ in 0..FRAMES_MOST {
            if bytes.is_empty() {
                break;
            }
            let how = bytes.u8();
            let checksum = match how & 3 {
                0 => ReceiveChecksum::VerifyOrPartial,
                1 => ReceiveChecksum::Verified,
                2 => ReceiveChecksum::VerifyOrJoined,
                _ => ReceiveChecksum::Verify,
            };
            let frame = make(how, &bench.seeds, &mut bytes);
            bench.receiver.frame(&frame, checksum, how & 4 != 0);
        }
        bench.receiver.read_all();
        *kept = Some(bench);
    });
}

/// A frame: bytes as they are, or a good frame with changes.
fn make(how: u8, seeds: &[Vec<u8>], bytes: &mut Bytes<'_>) -> Vec<u8> {
    let mut frame = if how & 8 != 0 {
        let len_bytes = usize::from(bytes.u8());
        bytes.take(len_bytes).to_vec()
    } else {
        let mut frame = seeds[bytes.below(seeds.len())].clone();
        for _ in 0..bytes.below(6) {
            change(&mut frame, seeds, bytes);
        }
        frame
    };
    match how >> 4 & 3 {
        0 => {}
        1 => repair(&mut frame, Repair::Absent),
        _ => repair(&mut frame, Repair::Valid),
    }
    frame
}

/// One change: to a byte, a bit, a field of 16 bits, the length, or bytes put in or taken out or from another frame.
fn change(frame: &mut Vec<u8>, seeds: &[Vec<u8>], bytes: &mut Bytes<'_>) {
    let (what, place) = (bytes.u8(), bytes.below(256).min(frame.len().saturating_sub(1)));
    let end = |len: usize| (place + len).min(frame.len());
    match what % 8 {
        _ if frame.is_empty() => frame.extend_from_slice(bytes.take(60)),
        0 => frame[place] = bytes.u8(),
        1 => frame[place] ^= 1 << (what >> 3 & 7),
        2 => {
            let field = bytes.u16().to_be_bytes();
            let end = end(2);
            frame[place..end].copy_from_slice(&field[..end - place]);
        }
        3 => frame.truncate(place),
        4 => frame.resize(frame.len() + bytes.below(256), what),
        5 => {
            let piece = bytes.take(usize::from(what >> 3)).to_vec();
            frame.splice(place..place, piece);
        }
        6 => {
            let end = end(usize::from(what >> 3));
            frame.drain(place..end);
        }
        _ => {
            let other = &seeds[bytes.below(seeds.len())];
            let from = bytes.below(256).min(other.len());
            let end = end(usize::from(what >> 3)).min(place + other.len() - from);
            frame[place..end].copy_from_slice(&other[from..from + end - place]);
        }
    }
}

/// What becomes of the UDP checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// There is none.
    Absent,
    /// It is that of the datagram.
    Valid,
}

/// Makes the checksums right, so that changes reach what lies behind them.
pub fn repair(frame: &mut [u8], how: Repair) {
    let Ok((ethernet, packet)) = EthernetHeader::parse(frame) else { return };
    let ip_at = frame.len() - packet.len();
    let (udp_at, pseudo) = match ethernet.ethertype {
        EtherType::IPV4 if packet.len() >= 28 => {
            let header = ip_at..(ip_at + usize::from(packet[0] & 0xf) * 4).clamp(ip_at + 20, frame.len());
            frame[ip_at + 10..ip_at + 12].fill(0);
            let checksum = Sum::default().bytes(&frame[header.clone()]).checksum();
            frame[ip_at + 10..ip_at + 12].copy_from_slice(&checksum);
            (header.end, Sum::default().bytes(&frame[ip_at + 12..ip_at + 20]))
        }
        EtherType::IPV6 if packet.len() >= ipv6::HEADER_BYTES => {
            (ip_at + ipv6::HEADER_BYTES, Sum::default().bytes(&packet[8..40]))
        }
        _ => return,
    };
    let Some(datagram) = frame.get_mut(udp_at..).filter(|datagram| datagram.len() >= udp::HEADER_BYTES) else { return };
    let length = u16::from_be_bytes([datagram[4], datagram[5]]);
    datagram[6..8].fill(0);
    if how == Repair::Valid {
        let covered = &datagram[..usize::from(length).min(datagram.len())];
        let sum = pseudo.word(u16::from(udp::PROTOCOL)).word(length).bytes(covered);
        datagram[6..8].copy_from_slice(&udp::checksum_field(sum));
    }
}

/// Good frames for each endpoint of a [`Receiver`], plain, tagged, with options, and of other protocols.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut sender = host::host(1, &[2]);
    let (four, six) = (sender.endpoint(at(v4(1), 7)), sender.endpoint(at(v6(1), 7)));
    for id in [four, six] {
        sender.stack.udp_configure(id, |options| {
            options.of_each_family().into_iter().for_each(|one| one.multicast_interface = Some(multicast_interface()));
        });
    }
    let mut frames = Vec::new();
    for port in [4000, 4001, 4002, 5000] {
        for payload in [&b""[..], b"x", b"a payload of some length", &[0x5a; 300]] {
            frames.push(sender.send(four, &Message::to(payload, at(v4(2), port))).expect("has a way"));
            frames.push(sender.send(six, &Message::to(payload, at(v6(2), port))).expect("has a way"));
        }
    }
    for (id, group) in
        [(four, "239.1.1.1:4002"), (four, "239.1.1.2:4003"), (six, "[ff02::1]:4000"), (six, "[ff05::2]:4004")]
    {
        let to = group.parse().expect("an address");
        frames.push(sender.send(id, &Message::to(b"to all", to)).expect("has a way"));
    }
    for (local, peer) in [(v4(1), v4(2)), (v6(1), v6(2))] {
        let facts = Agreed::default().facts(0, at(local, 7), at(peer, 5001));
        let id = sender.stack.tcp_adopt(&facts, TcpOptions::default(), 0).expect("can be adopted");
        sender.stack.tcp_write(id, 0, &[0x33; 100], false).expect("has room");
        frames.extend(host::tcp::frames(&mut sender.stack, 0));
    }
    let under = |frame: &[u8], tags: &[u8]| [&frame[..12], tags, &frame[12..]].concat();
    frames.push(under(&frames[0], &[0x81, 0, 0, 0]));
    frames.push(under(&frames[1], &[0x81, 0, 0, 5]));
    frames.push(under(&frames[4], &[0x81, 0, 0, 5, 0x81, 0, 0, 6]));
    for options in [[0x94, 4, 0, 0], [131, 3, 4, 0], [1, 7, 3, 4]] {
        let mut with_options = frames[4].clone();
        with_options.splice(34..34, options);
        with_options[14] = 0x46;
        with_options[17] += 4;
        repair(&mut with_options, Repair::Absent);
        frames.push(with_options);
    }
    frames
}

const fn multicast_interface() -> nearwire_stack::MulticastInterface {
    nearwire_stack::MulticastInterface { ifindex: IFINDEX, source: None }
}

impl Default for Receiver {
    fn default() -> Receiver {
        Receiver::new()
    }
}

impl Receiver {
    /// Addresses of both families on an interface, a VLAN and a VLAN within; endpoints that are bound, connected, on
    /// all addresses, in groups with and without sources, and that share a port.
    #[must_use]
    pub fn new() -> Receiver {
        let config =
            StackConfig { queue_slots: QUEUE_SLOTS, queue_slot_bytes: QUEUE_SLOT_BYTES, ..StackConfig::new(1) };
        let mut host = host::host_with(2, &[1], config);
        for (ifindex, parent, vlan_id) in [(VLAN_IFINDEX, IFINDEX, 5), (INNER_VLAN_IFINDEX, VLAN_IFINDEX, 6)] {
            let kind = LinkKind::Vlan { parent, tag: TagKind::Customer, vlan_id };
            host.stack.update(Update::NewLink(Link { kind, ..host::link(ifindex, 2) }));
            let octet = 20 + ifindex as u8;
            let (four, six) = (format!("10.{octet}.0.2"), format!("fe80::{octet}"));
            for (address, prefix_len) in [(four, 24), (six, 64)] {
                let address = address.parse().expect("an address");
                let address = InterfaceAddress { is_tentative: false, ..host::address(ifindex, address, prefix_len) };
                host.stack.update(Update::NewAddress(address));
            }
        }
        host.stack.attach_port(3, Offers::default());
        // One small receive buffer, and fewer slots than the others hold: both limits are met.
        let small = UdpOptions { receive_buffer_bytes: 20_000, ..UdpOptions::default() };
        let bound = |text: &str| text.parse().expect("an address");
        let mut endpoints = vec![host.endpoint_with(bound("[::]:4000"), small)];
        endpoints.push(host.connected(at(v4(2), 4001), at(v4(1), 7)));
        endpoints.push(host.connected(at(v6(2), 4001), at(v6(1), 7)));
        endpoints.push(host.endpoint(at(v4(2), 4003)));
        let shared = UdpOptions { reuse_port: true, reuse_address: true, ..UdpOptions::default() };
        for _ in 0..3 {
            let id = host.endpoint_with(bound("0.0.0.0:4002"), shared);
            host.join(id, "239.1.1.1", &SourceFilter::default());
            endpoints.push(id);
        }
        let mut choosy = shared;
        choosy.of_each_family().into_iter().for_each(|one| one.multicast_all = false);
        for (filter, port) in [(SourceFilter::Include(vec![v4(1)]), 4003), (SourceFilter::Exclude(vec![v4(1)]), 4005)] {
            let id = host.endpoint_with(at("239.1.1.2".parse().expect("an address"), port), choosy);
            host.join(id, "239.1.1.2", &filter);
            endpoints.push(id);
        }
        let six = host.endpoint_with(bound("[::]:4004"), UdpOptions { v6_only: true, ..choosy });
        host.join(six, "ff05::2", &SourceFilter::default());
        endpoints.push(six);
        for (local, peer) in [(v4(2), v4(1)), (v6(2), v6(1))] {
            let facts = Agreed::default().facts(1, at(local, 5001), at(peer, 7));
            host.stack.tcp_adopt(&facts, TcpOptions::default(), 0).expect("can be adopted");
        }
        let group = "ff02::1".parse().expect("an address");
        host.stack.update(Update::NewGroup { ifindex: IFINDEX, group });
        Receiver { stack: host.stack, port: host.port, endpoints }
    }

    /// The one check of a frame.
    pub fn frame(&mut self, frame: &[u8], checksum: ReceiveChecksum, queue: bool) -> Verdict {
        let before = self.stack.statistics().clone();
        let waited = self.waiting();
        let arrival = Arrival { port: self.port, frame, received_ns: 1, device_ns: 0, checksum };
        let mut offered = 0;
        let verdict = self.stack.receive(&arrival, |_, datagram| {
            offered += 1;
            check_datagram(frame, datagram, checksum);
            if queue { Take::Queue } else { Take::Consumed }
        });
        let statistics = self.stack.statistics();
        assert_eq!(statistics.frames, before.frames + 1);
        let sum = statistics.delivered_frames + statistics.dropped_frames() + statistics.not_ours_frames();
        assert_eq!(sum, statistics.frames);
        let sum_of = |count: fn(&UdpCounters) -> u64| {
            let of = |family| count(statistics.udp(family)) - count(before.udp(family));
            of(Family::V4) + of(Family::V6)
        };
        let consumed = sum_of(|counters| counters.in_datagrams);
        let queued = u64::from(self.waiting() - waited);
        match verdict {
            Verdict::Delivered { endpoint, copies } => {
                assert!(self.endpoints.contains(&endpoint));
                assert_eq!(consumed + queued, u64::from(copies));
                assert_eq!(consumed, if queue { 0 } else { offered });
                assert_eq!(statistics.delivered_frames, before.delivered_frames + 1);
            }
            Verdict::Segment { connection } | Verdict::Ending { connection } => {
                assert!(self.stack.tcp_readiness(connection).is_some());
                assert_eq!((consumed, queued, offered), (0, 0, 0));
                assert_eq!(statistics.delivered_frames, before.delivered_frames + 1);
            }
            Verdict::Dropped(reason) => {
                assert_eq!((consumed, queued), (0, 0));
                assert_eq!(statistics.dropped(reason), before.dropped(reason) + 1);
            }
            Verdict::NotOurs(reason) => {
                assert_eq!((consumed, queued, offered), (0, 0, 0));
                assert_eq!(statistics.not_ours(reason), before.not_ours(reason) + 1);
                assert_eq!(sum_of(|counters| counters.in_errors + counters.no_ports + counters.ignored_multi), 0);
            }
        }
        let named = sum_of(|counters| counters.rcvbuf_errors + counters.mem_errors + counters.in_csum_errors);
        assert!(sum_of(|counters| counters.in_errors) >= named);
        verdict
    }

    /// Reads what waits: all of it comes, and no slot stays in use.
    pub fn read_all(&mut self) {
        for id in &self.endpoints {
            for left in (0..self.stack.udp_waiting(*id)).rev() {
                assert!(self.stack.udp_charged_bytes(*id) > 0);
                self.stack.udp_read(*id, |_| ()).expect("one waits");
                assert_eq!(self.stack.udp_waiting(*id), left);
            }
            assert_eq!(self.stack.udp_charged_bytes(*id), 0);
        }
        while self.stack.take_readable().is_some() {}
        assert_eq!(self.stack.udp_free_slots(), QUEUE_SLOTS as usize);
    }

    fn waiting(&self) -> u32 {
        self.endpoints.iter().map(|id| self.stack.udp_waiting(*id)).sum()
    }
}

/// What is delivered lies in the frame, etherparse reads the same there, and the checksum is good, if it counts.
fn check_datagram(frame: &[u8], datagram: &Datagram<'_>, checksum: ReceiveChecksum) {
    let (payload, whole) = (datagram.payload.as_ptr_range(), frame.as_ptr_range());
    assert!(whole.start <= payload.start && payload.end <= whole.end);
    let packet = SlicedPacket::from_ethernet(frame).expect("etherparse reads what was delivered");
    let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("{packet:?}") };
    assert_eq!(udp.source_port(), datagram.source.port());
    // etherparse takes all that the packet has; the length of the datagram may be less.
    assert!(udp.payload().starts_with(datagram.payload));
    assert_eq!(usize::from(udp.length()), datagram.payload.len() + udp::HEADER_BYTES);
    let (oracle, is_good) = match packet.net.expect("IP") {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let tos = header.dcp().value() << 2 | header.ecn().value();
            let calculated =
                udp.to_header().calc_checksum_ipv4_raw(header.source(), header.destination(), datagram.payload);
            let is_good = udp.checksum() == 0 || is_same_checksum(&udp, calculated.expect("short"));
            ((header.source_addr().into(), header.destination_addr().into(), header.ttl(), tos), is_good)
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            let calculated =
                udp.to_header().calc_checksum_ipv6_raw(header.source(), header.destination(), datagram.payload);
            let is_good = is_same_checksum(&udp, calculated.expect("short"));
            let (from, to) = (header.source_addr().into(), header.destination_addr().into());
            ((from, to, header.hop_limit(), header.traffic_class()), is_good)
        }
        NetSlice::Arp(_) => panic!("ARP"),
    };
    assert_eq!(oracle, (datagram.source.ip(), datagram.destination, datagram.ttl, datagram.tos));
    let is_verified = matches!(checksum, ReceiveChecksum::Verify | ReceiveChecksum::VerifyOrJoined);
    assert!(is_good || !is_verified, "delivered with a wrong checksum");
}

fn is_same_checksum(udp: &UdpSlice<'_>, calculated: u16) -> bool {
    udp.checksum() == calculated
}
