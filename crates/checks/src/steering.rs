//! Filters that come and go, and frames: the set decides as a model that looks at each filter.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nearwire_frames::steering::{
    ExactFlow, Filter, FilterError, FilterSet, FlowFilter, FrameFilter, Owner, Transport, VlanMatch,
};

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
/// Sources of the frames that are made here, and one more.
const REMOTES: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
    IpAddr::V6(Ipv6Addr::new(0xfdfd, 0xfdfd, 0xfdfd, 0xfdfd, 0xfdfd, 0xfdfd, 0xfdfd, 0xfdfd)),
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)),
];
const OWNERS: [Owner; 6] =
    [Owner::Share(0), Owner::Kernel, Owner::Nobody, Owner::Share(1), Owner::Share(253), Owner::Unheard];
const ETHER_TYPES: [u16; 6] = [0x0800, 0x86dd, 0x0806, 0x8100, 0x88a8, 0];
const VLANS: [VlanMatch; 5] =
    [VlanMatch::Untagged, VlanMatch::Id(5), VlanMatch::Id(0), VlanMatch::Id(0xffe), VlanMatch::Id(0xfff)];

/// A filter and one of its owners.
pub type Entry = (Filter, Owner);

/// Filters are added and removed, and frames are looked at, as the input says.
pub fn check(input: &[u8]) {
    let mut bytes = Bytes(input);
    let (mut set, mut model) = (FilterSet::new(), Vec::new());
    while !bytes.is_empty() {
        let what = usize::from(bytes.u8());
        match what % 4 {
            0 => add(&mut set, &mut model, (filter(&mut bytes), OWNERS[what / 4 % OWNERS.len()])),
            1 => remove(&mut set, &mut model, filter(&mut bytes)),
            2 => {
                let len_bytes = usize::from(bytes.u8());
                frame(&set, &model, bytes.take(len_bytes));
            }
            _ => frame(&set, &model, &made(&mut bytes)),
        }
        let filters: HashSet<Filter> = model.iter().map(|(filter, _)| *filter).collect();
        assert!(set.iter().count() == filters.len() && filters.iter().all(|filter| set.contains(filter)));
    }
}

fn add(set: &mut FilterSet, model: &mut Vec<Entry>, (filter, owner): Entry) {
    let is_exact = matches!(filter, Filter::Exact(_));
    let is_present = model.iter().any(|(other, has)| *other == filter && (is_exact || *has == owner));
    match set.add_for(filter, owner) {
        Ok(()) => {
            assert!(!is_present && !is_impossible(&filter));
            model.push((filter, owner));
        }
        Err(FilterError::Present { .. }) => assert!(is_present),
        Err(FilterError::Impossible { .. }) => assert!(is_impossible(&filter)),
        Err(other) => panic!("{other}"),
    }
}

fn remove(set: &mut FilterSet, model: &mut Vec<Entry>, filter: Filter) {
    let before = model.len();
    model.retain(|(other, _)| *other != filter);
    match set.remove(filter) {
        Ok(()) => assert!(model.len() < before),
        Err(FilterError::Missing { .. }) => assert!(model.len() == before),
        Err(other) => panic!("{other}"),
    }
}

fn is_impossible(filter: &Filter) -> bool {
    match filter {
        Filter::Flow(_) => false,
        Filter::Exact(flow) => flow.local.is_ipv4() != flow.remote.is_ipv4(),
        Filter::Frame(frame) => {
            matches!(frame.ether_type, Some(0x8100 | 0x88a8)) || frame.vlan == Some(VlanMatch::Id(0xfff))
        }
    }
}

/// The one check of a frame: of the filters that match, the first in order decides; of a frame filter the owner that joined first, of a
/// bound flow one of its owners.
pub fn frame(set: &FilterSet, filters: &[Entry], frame: &[u8]) {
    let matching = || filters.iter().filter(|(filter, _)| matches(filter, frame));
    let first = matching().map(|(filter, _)| turn(filter)).min();
    // Whether one was heard is the maps' to know: the kernel gets it.
    let gets = |owner| if owner == Owner::Unheard { Owner::Kernel } else { owner };
    let owners: Vec<Owner> =
        matching().filter(|(filter, _)| Some(turn(filter)) == first).map(|(_, owner)| gets(*owner)).collect();
    let verdict = set.verdict(frame);
    let is_right = match (&owners[..], first) {
        ([], _) => verdict == Owner::Kernel,
        ([first, ..], Some(..=8)) => verdict == *first,
        (owners, _) => owners.contains(&verdict),
    };
    assert!(is_right, "{verdict:?}: {filters:?} {frame:02x?}");
    assert_eq!(set.takes(frame), matches!(verdict, Owner::Share(_)));
}

/// The place of a filter in the order in which they decide.
fn turn(filter: &Filter) -> u32 {
    let parts = |parts: &[bool]| parts.iter().rev().fold(0, |bits, is_given| bits << 1 | u32::from(*is_given));
    match filter {
        Filter::Frame(frame) => parts(&[frame.mac.is_some(), frame.ether_type.is_some(), frame.vlan.is_some()]),
        Filter::Exact(_) => 9,
        Filter::Flow(flow) => 13 - parts(&[flow.port != 0, !flow.address.is_unspecified()]),
    }
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
        Filter::Exact(wanted) => {
            let ExactFlow { transport, local, local_port, .. } = *wanted;
            let bound = FlowFilter { transport, address: local, port: local_port };
            matches_flow(&bound, ether_type, packet).unwrap_or(false) && is_from(wanted, packet).unwrap_or(false)
        }
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

/// Of a whole packet to the local address; an address that is none is one here, and no wildcard.
fn is_from(wanted: &ExactFlow, packet: &[u8]) -> Option<bool> {
    let (remote, local, start): (IpAddr, IpAddr, _) = if packet.first()? >> 4 == 4 {
        let octets = |at: usize| Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
        (octets(12)?, octets(16)?, usize::from(packet[0] & 0xf) * 4)
    } else {
        let octets = |at: usize| Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?));
        (octets(8)?, octets(24)?, 40)
    };
    let ports = [word(packet, start)?, word(packet, start + 2)?];
    let wanted_ports = [wanted.remote_port, wanted.local_port].map(usize::from);
    Some(remote == wanted.remote && local == wanted.local && ports == wanted_ports)
}

fn transport(bytes: &mut Bytes<'_>) -> Transport {
    bytes.choose(&[Transport::Udp, Transport::Tcp])
}

fn filter(bytes: &mut Bytes<'_>) -> Filter {
    let parts = bytes.u8();
    if parts & 0xc0 == 0x40 {
        let (transport, local, local_port) = (transport(bytes), bytes.choose(&ADDRESSES), bytes.choose(&PORTS));
        let (remote, remote_port) = (bytes.choose(&REMOTES), bytes.choose(&[0, 0x100]));
        return Filter::Exact(ExactFlow { transport, local, local_port, remote, remote_port });
    }
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
