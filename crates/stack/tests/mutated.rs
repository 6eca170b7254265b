//! Frames changed at random: the stack never panics, its counters add up, and what it delivers etherparse reads alike.
//!
//! A million frames in a normal run; `NEARWIRE_MUTATED_FRAMES` asks for another number.

mod common;

use common::{Host, IFINDEX, at, host, host_with, v4, v6};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use nearwire_stack::{
    Arrival, Dropped, EndpointId, Message, NotOurs, ReceiveChecksum, SourceFilter, StackConfig, Take, UdpOptions,
    Update, Verdict,
};
use proptest::prelude::*;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// A host with endpoints of every kind.
fn receiver() -> (Host, Vec<EndpointId>) {
    // One small receive buffer, and fewer slots than the others hold: both limits are met.
    let mut host = host_with(2, &[1], StackConfig { queue_slots: 100, ..StackConfig::new(1) });
    let group = "239.1.1.1".parse().expect("an address");
    let small = UdpOptions { receive_buffer_bytes: 20_000, ..UdpOptions::default() };
    let mut ids = vec![host.endpoint_with("[::]:4000".parse().expect("an address"), small)];
    ids.push(host.connected(at(v4(2), 4001), at(v4(1), 7)));
    let shared = UdpOptions { reuse_port: true, reuse_address: true, ..UdpOptions::default() };
    for _ in 0..3 {
        let id = host.endpoint_with("0.0.0.0:4002".parse().expect("an address"), shared);
        host.stack.udp_join(id, IFINDEX, group, &SourceFilter::default()).expect("a group");
        ids.push(id);
    }
    let kernels = "ff02::1".parse().expect("an address");
    host.stack.update(Update::NewGroup { ifindex: IFINDEX, group: kernels });
    (host, ids)
}

/// Good frames for each of them.
fn seeds() -> Vec<Vec<u8>> {
    let mut sender = host(1, &[2]);
    let (four, six) = (sender.endpoint(at(v4(1), 7)), sender.endpoint(at(v6(1), 7)));
    let mut frames = Vec::new();
    for port in [4000, 4001, 4002, 5000] {
        for payload in [&b""[..], b"x", b"a payload of some length", &[0x5a; 300]] {
            frames.push(sender.send(four, &Message::to(payload, at(v4(2), port))).expect("has a way"));
            frames.push(sender.send(six, &Message::to(payload, at(v6(2), port))).expect("has a way"));
        }
    }
    let mut tagged = frames[0].clone();
    tagged.splice(12..12, [0x81, 0, 0, 0]);
    frames.push(tagged);
    for options in [[0x94, 4, 0, 0], [131, 3, 4, 0], [1, 7, 3, 4]] {
        let mut with_options = frames[4].clone();
        with_options.splice(34..34, options);
        with_options[14] = 0x46;
        with_options[17] += 4;
        repair(&mut with_options);
        frames.push(with_options);
    }
    frames
}

/// Changes a frame: bits, bytes, words of interest, length, pieces of other frames.
fn mutate(frame: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(frame.len());
        match random.below(8) {
            _ if frame.is_empty() => frame.extend_from_slice(other),
            0 | 1 => frame[at] ^= 1 << random.below(8),
            2 => frame[at] = random.next() as u8,
            3 => frame[at] = [0, 0xff, 0x7f, 0x80][random.below(4)],
            4 => frame.truncate(at),
            5 => frame.resize(frame.len() + random.below(40), random.next() as u8),
            6 => {
                let len = random.below(8).min(frame.len() - at).min(other.len());
                let from = random.below(other.len() - len + 1);
                frame[at..at + len].copy_from_slice(&other[from..from + len]);
            }
            _ => {
                // The length fields, where the checks are.
                let field = [16, 18, 38][random.below(3)];
                if let Some(bytes) = frame.get_mut(field..field + 2) {
                    bytes.copy_from_slice(&(random.next() as u16 >> random.below(16)).to_be_bytes());
                }
            }
        }
    }
    if random.below(2) == 0 {
        repair(frame);
    }
}

/// Makes the checksums right, so that changes reach what lies behind them: the header's anew, UDP's absent.
fn repair(frame: &mut [u8]) {
    if frame.len() >= 42 && frame[12..14] == [8, 0] {
        let header = 14..(14 + usize::from(frame[14] & 0xf) * 4).clamp(34, frame.len());
        frame[24..26].fill(0);
        let checksum = nearwire_wire::checksum::Sum::default().bytes(&frame[header.clone()]).checksum();
        frame[24..26].copy_from_slice(&checksum);
        if let Some(field) = frame.get_mut(header.end + 6..header.end + 8) {
            field.fill(0);
        }
    }
}

/// The one check: every frame has one verdict, the counters say the same, and what is delivered is what etherparse reads.
fn check_frame(host: &mut Host, frame: &[u8], checksum: ReceiveChecksum, queue: bool) {
    let before = host.stack.statistics().frames;
    let arrival = Arrival { port: host.port, frame, received_ns: 1, checksum };
    let mut delivered = None;
    let verdict = host.stack.receive(&arrival, |_, datagram| {
        let meta = (datagram.source, datagram.destination, datagram.ttl, datagram.tos);
        delivered = Some((datagram.payload.to_vec(), meta));
        if queue { Take::Queue } else { Take::Consumed }
    });
    let statistics = host.stack.statistics();
    assert_eq!(statistics.frames, before + 1);
    let sum = statistics.delivered_frames + statistics.dropped_frames() + statistics.not_ours_frames();
    assert_eq!(sum, statistics.frames);
    if let Some((payload, (source, destination, ttl, tos))) = delivered {
        let packet = SlicedPacket::from_ethernet(frame).expect("etherparse reads what was delivered");
        let Some(TransportSlice::Udp(datagram)) = packet.transport else { panic!("{packet:?}") };
        assert_eq!(datagram.source_port(), source.port());
        let oracle = match packet.net.expect("IP") {
            NetSlice::Ipv4(ip) => {
                let header = ip.header();
                let oracle_tos = header.dcp().value() << 2 | header.ecn().value();
                (header.source_addr().into(), header.destination_addr().into(), header.ttl(), oracle_tos)
            }
            NetSlice::Ipv6(ip) => {
                let header = ip.header();
                let (from, to) = (header.source_addr().into(), header.destination_addr().into());
                (from, to, header.hop_limit(), header.traffic_class())
            }
            NetSlice::Arp(_) => panic!("ARP"),
        };
        assert_eq!(oracle, (source.ip(), destination, ttl, tos));
        // etherparse takes all that the packet has; the length of the datagram may be less.
        assert!(datagram.payload().starts_with(&payload));
        assert_eq!(usize::from(datagram.length()), payload.len() + 8);
    } else {
        assert!(
            queue || !matches!(verdict, Verdict::Delivered { .. }),
            "a reader that waits is offered what is delivered"
        );
    }
}

#[test]
fn million_mutated_frames_received_never_panic_and_counters_add_up() {
    let frames: u64 = std::env::var("NEARWIRE_MUTATED_FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let ((mut host, ids), seeds, mut random) = (receiver(), seeds(), Random(1));
    let mut frame = Vec::new();
    for n in 0..frames {
        frame.clear();
        frame.extend_from_slice(&seeds[random.below(seeds.len())]);
        let other = random.below(seeds.len());
        mutate(&mut frame, &seeds[other], &mut random);
        let known = [ReceiveChecksum::Verify, ReceiveChecksum::VerifyOrPartial, ReceiveChecksum::Verified];
        // Now and then nobody reads, so that buffers fill.
        let queue = n % 100_000 >= 95_000;
        check_frame(&mut host, &frame, known[random.below(3)], queue);
        if !queue || n % 100_000 == 99_999 {
            ids.iter().for_each(|id| while host.read(*id).is_some() {});
        }
    }
    let statistics = host.stack.statistics();
    if frames >= 1_000_000 {
        let unseen = Dropped::ALL.iter().filter(|reason| statistics.dropped(**reason) == 0);
        assert_eq!(unseen.collect::<Vec<_>>(), [] as [&Dropped; 0], "every way to drop was reached");
        let unseen: Vec<_> = NotOurs::ALL.iter().filter(|reason| statistics.not_ours(**reason) == 0).collect();
        assert_eq!(unseen, [&NotOurs::InterfaceDown]);
    }
}

proptest! {
    #[test]
    fn any_bytes_received_have_a_verdict(frames: Vec<Vec<u8>>) {
        let (mut host, _) = receiver();
        for frame in frames {
            check_frame(&mut host, &frame, ReceiveChecksum::Verify, false);
        }
    }
}
