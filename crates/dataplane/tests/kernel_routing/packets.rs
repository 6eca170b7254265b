//! The packets that both routers get.

use std::net::IpAddr;

use etherparse::PacketBuilder;
use nearwire_dataplane::function::DropCause;
use nearwire_lab::CablePair;
use nearwire_wire::checksum::Sum;

/// What is sent, with what is expected of it: `None`, it is forwarded.
pub struct Sent {
    pub what: &'static str,
    pub frame: Vec<u8>,
    pub cause: Option<DropCause>,
}

/// Makes frames from near to far.
pub struct Maker {
    source: [u8; 6],
    destination: [u8; 6],
    pub sent: Vec<Sent>,
}

impl Maker {
    /// A datagram whose source port is the number of the packet.
    pub fn frame(&self, source: &str, destination: &str, ttl: u8, payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2(self.source, self.destination);
        let builder = match (source.parse().unwrap(), destination.parse().unwrap()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => builder.ipv4(source.octets(), destination.octets(), ttl),
            (IpAddr::V6(source), IpAddr::V6(destination)) => builder.ipv6(source.octets(), destination.octets(), ttl),
            _ => panic!("two versions"),
        };
        let mut frame = Vec::new();
        builder.udp(self.sent.len() as u16, 7).write(&mut frame, payload).unwrap();
        frame
    }

    /// Which packet it is, and its bytes.
    pub fn describe(&self, frame: &[u8]) -> String {
        let port_at = if frame[12] == 0x08 { 14 + usize::from(frame[14] & 0xf) * 4 } else { 54 };
        let number = usize::from(u16::from_be_bytes([frame[port_at], frame[port_at + 1]]));
        format!("{}: {frame:02x?}", self.sent.get(number).map_or("?", |sent| sent.what))
    }

    /// Adds a packet of a host on the near link, of `payload_bytes`, after `change`.
    fn add(
        &mut self,
        what: &'static str,
        (destination, ttl, payload_bytes): (&str, u8, usize),
        cause: Option<DropCause>,
        change: impl FnOnce(&mut Vec<u8>),
    ) {
        let source = if destination.contains(':') { "fd77::9" } else { "10.77.0.9" };
        let mut frame = self.frame(source, destination, ttl, &vec![0; payload_bytes]);
        change(&mut frame);
        self.sent.push(Sent { what, frame, cause });
    }
}

fn write_checksum(frame: &mut [u8]) {
    let header_bytes = usize::from(frame[14] & 0xf) * 4;
    frame[24..26].fill(0);
    let checksum = Sum::default().bytes(&frame[14..14 + header_bytes]).checksum();
    frame[24..26].copy_from_slice(&checksum);
}

fn put_options(frame: &mut Vec<u8>, options: &[u8]) {
    frame.splice(34..34, options.iter().copied());
    frame[14] += (options.len() / 4) as u8;
    let total_bytes = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&total_bytes.to_be_bytes());
    write_checksum(frame);
}

fn set_source(frame: &mut [u8], source: [u8; 4]) {
    frame[26..30].copy_from_slice(&source);
    write_checksum(frame);
}

/// The packets from the first pair's near end to the hosts behind the second's.
pub fn packets(first: &CablePair) -> Maker {
    let mut maker = Maker { source: first.near.mac, destination: first.far.mac, sent: Vec::new() };
    let same = |_: &mut Vec<u8>| {};
    let add = &mut maker;
    add.add("to a neighbour", ("10.77.1.1", 64, 20), None, same);
    add.add("by a gateway", ("192.0.2.1", 64, 20), None, same);
    add.add("v6 to a neighbour", ("fd77:0:0:1::1", 64, 20), None, same);
    add.add("v6 by a gateway", ("2001:db8::1", 64, 20), None, same);
    add.add("by the default route of a longer prefix", ("192.0.3.1", 64, 20), None, same);
    add.add("last TTL", ("192.0.2.1", 2, 20), None, same);
    add.add("greatest TTL", ("192.0.2.1", 255, 20), None, same);
    add.add("last hop limit", ("2001:db8::1", 2, 20), None, same);
    add.add("padded", ("192.0.2.1", 64, 1), None, |frame| frame.resize(60, 0));
    add.add("as long as the MTU", ("192.0.2.1", 64, 1280 - 28), None, same);
    add.add("v6 as long as the MTU", ("2001:db8::1", 64, 1280 - 48), None, same);
    add.add("fragment", ("192.0.2.1", 64, 24), None, |frame| {
        frame[20..22].copy_from_slice(&[0x20, 0x05]);
        write_checksum(frame);
    });
    add.add("no-operation options", ("192.0.2.1", 64, 20), None, |frame| put_options(frame, &[1, 1, 1, 0]));
    add.add("an option for nobody", ("192.0.2.1", 64, 20), None, |frame| put_options(frame, &[30, 4, 1, 2]));
    add.add("class E source", ("192.0.2.1", 64, 20), None, |frame| set_source(frame, [240, 0, 0, 1]));
    // Among them are sums in the corner of RFC 1624.
    for identification in 0..=255_u8 {
        add.add("one of many checksums", ("192.0.2.1", 64, 20), None, |frame| {
            frame[18..20].copy_from_slice(&[0xfe ^ identification, identification]);
            write_checksum(frame);
        });
    }
    dropped(&mut maker);
    maker
}

fn dropped(add: &mut Maker) {
    let same = |_: &mut Vec<u8>| {};
    let rows = [
        ("TTL 1", ("192.0.2.1", 1, 20), DropCause::TtlExpired),
        ("TTL 0", ("192.0.2.1", 0, 20), DropCause::TtlExpired),
        ("hop limit 1", ("2001:db8::1", 1, 20), DropCause::TtlExpired),
        ("hop limit 0", ("2001:db8::1", 0, 20), DropCause::TtlExpired),
        ("no route", ("8.8.8.8", 64, 20), DropCause::NoRoute),
        ("v6 no route", ("2002::1", 64, 20), DropCause::NoRoute),
        ("unreachable", ("198.51.100.1", 64, 20), DropCause::Unreachable),
        ("too big with DF", ("192.0.2.1", 64, 1280 - 27), DropCause::TooBig),
        ("v6 too big", ("2001:db8::1", 64, 1280 - 47), DropCause::TooBig),
        ("for the router", ("10.77.1.2", 64, 20), DropCause::ForThisHost),
        ("v6 for the router", ("fd77:0:0:1::2", 64, 20), DropCause::ForThisHost),
        ("directed broadcast", ("10.77.1.255", 64, 20), DropCause::Broadcast),
        ("group", ("224.0.0.5", 64, 20), DropCause::Multicast),
        ("loopback", ("127.0.0.1", 64, 20), DropCause::MartianDestination),
        ("v6 loopback", ("::1", 64, 20), DropCause::MartianDestination),
        ("network 0", ("0.1.2.3", 64, 20), DropCause::MartianDestination),
    ];
    for (what, packet, cause) in rows {
        add.add(what, packet, Some(cause), same);
    }
    let to = ("192.0.2.1", 64, 20);
    for (what, source) in [
        ("source loopback", [127, 0, 0, 1]),
        ("source 0", [0, 0, 0, 0]),
        ("source group", [224, 0, 0, 1]),
        ("own source", [10, 77, 1, 2]),
    ] {
        add.add(what, to, Some(DropCause::MartianSource), |frame| set_source(frame, source));
    }
    add.add("bad checksum", to, Some(DropCause::HeaderChecksum), |frame| frame[24] ^= 1);
    add.add("wrong MAC", to, Some(DropCause::OtherHost), |frame| frame[5] ^= 0x10);
    add.add("broadcast MAC", to, Some(DropCause::LinkGroup), |frame| frame[..6].fill(0xff));
    add.add("cut", to, Some(DropCause::TotalLength), |frame| frame.truncate(frame.len() - 1));
    add.add("version 5", to, Some(DropCause::Version), |frame| {
        frame[14] = 0x55;
        write_checksum(frame);
    });
    add.add("header of 16 bytes", to, Some(DropCause::HeaderLength), |frame| frame[14] = 0x44);
    add.add("bad option", to, Some(DropCause::MalformedOption), |frame| put_options(frame, &[1, 1, 30, 9]));
    let to_v6 = ("2001:db8::1", 64, 20);
    add.add("v6 cut", to_v6, Some(DropCause::TotalLength), |frame| frame.truncate(frame.len() - 1));
    add.add("link-local source", to_v6, Some(DropCause::LinkLocal), |frame| {
        frame[22..38].copy_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    });
    add.add("v6 source group", to_v6, Some(DropCause::MartianSource), |frame| {
        frame[22..24].copy_from_slice(&[0xff, 0x02])
    });
}
