//! What a router asks of a packet before it looks for a route (RFC 1812 sections 5.2.2 and 5.3.7).
//!
//! Where RFCs leave a choice, this does as Linux (`net/ipv4/route.c`, `net/ipv6/ip6_input.c`): addresses of 240.0.0.0/4 are forwarded. Unlike
//! Linux, link-local IPv4 addresses are not (RFC 3927 section 7), nor are those of 0.0.0.0/8 besides 0.0.0.0 (RFC 1812 section 5.3.7; Linux
//! does since 5.3).

use std::net::{Ipv4Addr, Ipv6Addr};

use nearwire_wire::ipv4::Ipv4Error;
use nearwire_wire::ipv6::Ipv6Error;

use crate::function::DropCause;

const OPTION_END: u8 = 0;
const OPTION_NO_OPERATION: u8 = 1;
/// Options that a router acts on: record route, timestamp, loose and strict source route (RFC 791 section 3.1).
const OPTIONS_FOR_ROUTERS: [u8; 4] = [7, 68, 131, 137];

pub(super) const fn cause_v4(error: Ipv4Error) -> DropCause {
    match error {
        Ipv4Error::Version { .. } => DropCause::Version,
        Ipv4Error::HeaderLength { .. } => DropCause::HeaderLength,
        Ipv4Error::Checksum => DropCause::HeaderChecksum,
        Ipv4Error::Option { .. } => DropCause::MalformedOption,
        Ipv4Error::TooShort { .. } | Ipv4Error::TotalLength { .. } | Ipv4Error::Cut { .. } => DropCause::TotalLength,
    }
}

pub(super) const fn cause_v6(error: Ipv6Error) -> DropCause {
    match error {
        Ipv6Error::Version { .. } => DropCause::Version,
        Ipv6Error::TooShort { .. } | Ipv6Error::Cut { .. } | Ipv6Error::TooLong { .. } => DropCause::TotalLength,
    }
}

/// Refuses addresses that no packet on its way between two hosts has.
#[inline]
pub(super) fn addresses_v4(source: Ipv4Addr, destination: Ipv4Addr) -> Result<(), DropCause> {
    // Section 5.3.7: network 0, loopback and groups are no sources; 4.2.2.11: nor is the limited broadcast.
    if is_zero_or_loopback(source) || source.is_multicast() || source.is_broadcast() {
        return Err(DropCause::MartianSource);
    }
    if destination.is_multicast() {
        return Err(DropCause::Multicast);
    }
    if destination.is_broadcast() {
        return Err(DropCause::Broadcast);
    }
    if is_zero_or_loopback(destination) {
        return Err(DropCause::MartianDestination);
    }
    // RFC 3927 section 7: a router must not forward them.
    if source.is_link_local() || destination.is_link_local() {
        return Err(DropCause::LinkLocal);
    }
    Ok(())
}

#[inline]
const fn is_zero_or_loopback(address: Ipv4Addr) -> bool {
    matches!(address.octets()[0], 0 | 127)
}

/// As [`addresses_v4`].
#[inline]
pub(super) fn addresses_v6(source: Ipv6Addr, destination: Ipv6Addr) -> Result<(), DropCause> {
    // RFC 4291 sections 2.5.2, 2.5.3, 2.7; an IPv4 address in IPv6 form is not used on wires.
    let is_mapped = source.to_bits() >> 32 == 0xffff;
    if source.is_multicast() || is_mapped || is_unspecified_or_loopback(source) {
        return Err(DropCause::MartianSource);
    }
    if destination.is_multicast() {
        return Err(DropCause::Multicast);
    }
    if is_unspecified_or_loopback(destination) {
        return Err(DropCause::MartianDestination);
    }
    // RFC 4291 section 2.5.6.
    if source.is_unicast_link_local() || destination.is_unicast_link_local() {
        return Err(DropCause::LinkLocal);
    }
    Ok(())
}

#[inline]
const fn is_unspecified_or_loopback(address: Ipv6Addr) -> bool {
    address.to_bits() <= 1
}

/// Refuses options that are malformed, or that would have this router write into them (RFC 1812 section 5.2.4.1). Others pass as they are.
pub(super) fn options(options: &[u8]) -> Result<(), DropCause> {
    let mut rest = options;
    while let [kind, after @ ..] = rest {
        match *kind {
            OPTION_END => return Ok(()),
            OPTION_NO_OPERATION => rest = after,
            kind if OPTIONS_FOR_ROUTERS.contains(&kind) => return Err(DropCause::OptionForRouter),
            _ => {
                let len_bytes = after.first().map_or(0, |len_bytes| usize::from(*len_bytes));
                let behind = if len_bytes < 2 { None } else { rest.get(len_bytes..) };
                rest = behind.ok_or(DropCause::MalformedOption)?;
            }
        }
    }
    Ok(())
}
