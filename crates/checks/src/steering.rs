//! Filters that come and go, and frames: the set decides as a model that looks at each filter.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nearwire_frames::steering::{Filter, FilterError, FilterSet, FlowFilter, FrameFilter, Transport, VlanMatch};

use crate::bytes::Bytes;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];
const ADDRESSES: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3)),
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x42)),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
];
const PORTS: [u16; 4] = [7000, 0, 7001, 0x581b];
const ETHER_TYPES: [u16; 6] = [0x0800, 0x86dd, 0x0806, 0x8100, 0x88a8, 0];
const VLANS: [VlanMatch; 5] =
    [VlanMatch::Untagged, VlanMatch::Id(5), VlanMatch::Id(0), VlanMatch::Id(0xffe), VlanMatch::Id(0xfff)];

/// Filters are added and removed, and frames are looked at, as the input says.
pub fn check(input: &[u8]) {
    let mut bytes = Bytes(input);
    let (mut set, mut model) = (FilterSet::new(), Vec::new());
    while !bytes.is_empty() {
        match bytes.below(4) {
            0 => add(&mut set, &mut model, filter(&mut bytes)),
            1 => remove(&mut set, &mut model, filter(&mut bytes)),
            2 => {
                let len_bytes = usize::from(bytes.u8());
                frame(&set, &model, bytes.take(len_bytes));
            }
            _ => frame(&set, &model, &made(&mut bytes)),
        }
        assert!(set.iter().count() == model.len() && model.iter().all(|filter| set.contains(filter)));
    }
}

fn add(set: &mut FilterSet, model: &mut Vec<Filter>, filter: Filter) {
    match set.add(filter) {
        Ok(()) => {
            assert!(!model.contains(&filter) && !is_impossible(&filter));
            model.push(filter);
        }
        Err(FilterError::Present { .. }) => assert!(model.contains(&filter)),
        Err(FilterError::Impossible { .. }) => assert!(is_impossible(&filter)),
        Err(other) => panic!("{other}"),
    }
}

fn remove(set: &mut FilterSet, model: &mut Vec<Filter>, filter: Filter) {
    match (set.remove(filter), model.iter().position(|other| *other == filter)) {
        (Ok(()), Some(at)) => drop(model.swap_remove(at)),
        (Err(FilterError::Missing { .. }), None) => {}
        (removed, known) => panic!("{removed:?}, known at {known:?}"),
    }
}

fn is_impossible(filter: &Filter) -> bool {
    let Filter::Frame(frame) = filter else { return false };
    matches!(frame.ether_type, Some(0x8100 | 0x88a8)) || frame.vlan == Some(VlanMatch::Id(0xfff))
}

/// The one check of a frame.
pub fn frame(set: &FilterSet, filters: &[Filter], frame: &[u8]) {
    let wanted = filters.iter().any(|filter| matches(filter, frame));
    assert_eq!(set.takes(frame), wanted, "{filters:?} {frame:02x?}");
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(*bytes.get(at)?) << 8 | usize::from(*bytes.get(at + 1)?))
}

/// Whether one filter matches, read off the frame by its offsets.
fn matches(filter: &Filter, frame: &[u8]) -> bool {
    if *filter == Filter::Frame(FrameFilter::default()) {
        return true;
    }
    let is_tag = |at| matches!(word(frame, at), Some(0x8100 | 0x88a8));
    let tags = if !is_tag(12) {
        0
    } else if is_tag(16) {
        2
    } else {
        1
    };
    let Some(ether_type) = word(frame, 12 + 4 * tags) else { return false };
    let packet = frame.get(14 + 4 * tags..).unwrap_or_default();
    match filter {
        Filter::Frame(wanted) => {
            wanted.mac.is_none_or(|mac| frame.starts_with(&mac))
                && wanted.ether_type.is_none_or(|wanted| usize::from(wanted) == ether_type)
                && wanted.vlan.is_none_or(|vlan| match vlan {
                    VlanMatch::Untagged => tags == 0,
                    VlanMatch::Id(id) => tags > 0 && word(frame, 14).map(|tag| tag & 0xfff) == Some(id.into()),
                })
        }
        Filter::Flow(wanted) => matches_flow(wanted, ether_type, packet).unwrap_or(false),
    }
}

/// `None`: cut.
fn matches_flow(wanted: &FlowFilter, ether_type: usize, packet: &[u8]) -> Option<bool> {
    let version = packet.first()? >> 4;
    let (address, protocol, start, end): (IpAddr, _, _, _) = match (ether_type, version) {
        (0x0800, 4) => {
            let octets: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            if word(packet, 6)? & 0x3fff != 0 || packet[0] & 0xf < 5 {
                return Some(false);
            }
            (octets.into(), packet[9], usize::from(packet[0] & 0xf) * 4, word(packet, 2)?)
        }
        (0x86dd, 6) => {
            let octets: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            (octets.into(), packet[6], 40, 40 + word(packet, 4)?)
        }
        _ => return Some(false),
    };
    let (number, header_bytes) = match wanted.transport {
        Transport::Udp => (17, 8),
        Transport::Tcp => (6, 20),
    };
    let is_whole = end <= packet.len() && start + header_bytes <= end;
    let is_address =
        wanted.address == address || (wanted.address.is_unspecified() && wanted.address.is_ipv4() == address.is_ipv4());
    let is_port = || wanted.port == 0 || word(packet, start + 2) == Some(wanted.port.into());
    Some(is_whole && protocol == number && is_address && is_port())
}

fn transport(bytes: &mut Bytes<'_>) -> Transport {
    bytes.choose(&[Transport::Udp, Transport::Tcp])
}

fn filter(bytes: &mut Bytes<'_>) -> Filter {
    let parts = bytes.u8();
    if parts & 0x80 == 0 {
        let (transport, address, port) = (transport(bytes), bytes.choose(&ADDRESSES), bytes.choose(&PORTS));
        return Filter::Flow(FlowFilter { transport, address, port });
    }
    Filter::Frame(FrameFilter {
        mac: (parts & 1 != 0).then_some(if parts & 8 == 0 { MAC } else { [0; 6] }),
        ether_type: (parts & 2 != 0).then(|| bytes.choose(&ETHER_TYPES)),
        vlan: (parts & 4 != 0).then(|| bytes.choose(&VLANS)),
    })
}

/// A frame that filters may match, with a few bytes changed.
fn made(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let (transport, address, port) = (transport(bytes), bytes.choose(&ADDRESSES), bytes.choose(&PORTS));
    let (shape, fragment) = (bytes.u8(), bytes.choose(&[0x40, 0, 0x20, 0x80, 0x01]));
    let mut frame = [MAC, [2; 6]].concat();
    for tag in 0..shape & 3 {
        frame.extend_from_slice(if shape & 4 << tag == 0 { &[0x81, 0, 0, 5] } else { &[0x88, 0xa8, 0xa0, 0] });
    }
    let options = usize::from(shape >> 5 & 1) * 4;
    let segment_bytes = transport.header_least_bytes() + usize::from(shape >> 6) * 3;
    match address {
        IpAddr::V4(address) => {
            frame.extend_from_slice(&[8, 0, 0x45 + (options / 4) as u8, 0, 0, (20 + options + segment_bytes) as u8]);
            frame.extend_from_slice(&[0, 0, fragment, 0, 64, transport.number(), 0, 0, 10, 0, 0, 2]);
            frame.extend_from_slice(&address.octets());
            frame.resize(frame.len() + options, 1);
        }
        IpAddr::V6(address) => {
            frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, segment_bytes as u8, transport.number(), 64]);
            frame.extend_from_slice(&[0xfd; 16]);
            frame.extend_from_slice(&address.octets());
        }
    }
    let start = frame.len();
    frame.resize(start + segment_bytes, 0);
    frame[start + 2..start + 4].copy_from_slice(&port.to_be_bytes());
    for _ in 0..bytes.below(4) {
        let (place, value) = (bytes.below(frame.len()), bytes.u8());
        match value {
            0xfe => frame.truncate(place.max(1)),
            0xfd => frame.push(0),
            value => frame[place] = value,
        }
    }
    frame
}
