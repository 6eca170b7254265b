//! RTM_NEWADDR and RTM_DELADDR.
//!
//! Source: `include/uapi/linux/if_addr.h`.

use std::net::IpAddr;

use nearwire_stack::InterfaceAddress;
use nearwire_sys::netlink::message::{Message, address_of, u32_of};
use netlink_packet_route::address::AddressHeader;

use super::error::Malformed;

const HEADER_BYTES: usize = 8;

/// The address of an RTM_NEWADDR or RTM_DELADDR of IPv4 or IPv6.
pub(super) fn address(message: &Message<'_>) -> Result<InterfaceAddress, Malformed> {
    let header = AddressHeader::parse(message.payload).map_err(|_| Malformed)?;
    let (mut local, mut peer, mut broadcast) = (None, None, None);
    // The byte of the header has no room for all of them.
    let mut flags = u32::from(header.flags.bits());
    for (kind, value) in message.attributes(HEADER_BYTES) {
        match kind {
            libc::IFA_LOCAL => local = address_of(value),
            libc::IFA_ADDRESS => peer = address_of(value),
            libc::IFA_BROADCAST => broadcast = address_of(value),
            libc::IFA_FLAGS => flags = u32_of(value).ok_or(Malformed)?,
            _ => {}
        }
    }
    let address = local.or(peer).ok_or(Malformed)?;
    let has = |flag| flags & flag != 0;
    // IPv6 gave the bit of secondary another meaning.
    let shared = has(libc::IFA_F_SECONDARY);
    Ok(InterfaceAddress {
        ifindex: header.index,
        address,
        prefix_len: header.prefix_len,
        broadcast: broadcast.and_then(|address| if let IpAddr::V4(address) = address { Some(address) } else { None }),
        is_secondary: shared && address.is_ipv4(),
        is_deprecated: has(libc::IFA_F_DEPRECATED),
        is_temporary: shared && address.is_ipv6(),
        is_tentative: has(libc::IFA_F_DADFAILED) || (has(libc::IFA_F_TENTATIVE) && !has(libc::IFA_F_OPTIMISTIC)),
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use nearwire_sys::netlink::message::{Messages, Request};

    fn request(family: i32, prefix_len: u8, flags: u8) -> Request {
        Request::new(libc::RTM_NEWADDR, 0, 0, &[family as u8, prefix_len, flags, 0, 7, 0, 0, 0])
    }

    fn parsed(request: Request) -> Result<InterfaceAddress, Malformed> {
        let bytes = request.into_bytes();
        address(&Messages::new(&bytes).next().unwrap())
    }

    #[test]
    fn point_to_point_address_is_the_local_one() {
        let bytes = request(libc::AF_INET, 32, 1)
            .attribute(libc::IFA_ADDRESS, &[10, 0, 0, 2])
            .attribute(libc::IFA_LOCAL, &[10, 0, 0, 1])
            .attribute(libc::IFA_BROADCAST, &[10, 0, 0, 255]);
        let found = parsed(bytes).unwrap();
        assert_eq!((found.ifindex, found.address, found.prefix_len), (7, Ipv4Addr::new(10, 0, 0, 1).into(), 32));
        assert_eq!(found.broadcast, Some(Ipv4Addr::new(10, 0, 0, 255)));
        assert!(found.is_secondary && !found.is_temporary);
    }

    #[test]
    fn v6_flags_come_from_the_attribute() {
        let with = |flags: u32| {
            parsed(
                request(libc::AF_INET6, 64, 0)
                    .attribute(libc::IFA_ADDRESS, &[0xfd; 16])
                    .attribute(libc::IFA_FLAGS, &flags.to_ne_bytes()),
            )
            .unwrap()
        };
        assert!(with(libc::IFA_F_TEMPORARY).is_temporary && !with(libc::IFA_F_TEMPORARY).is_secondary);
        assert!(with(libc::IFA_F_DEPRECATED).is_deprecated);
        assert!(with(libc::IFA_F_TENTATIVE).is_tentative && with(libc::IFA_F_DADFAILED).is_tentative);
        assert!(!with(libc::IFA_F_TENTATIVE | libc::IFA_F_OPTIMISTIC).is_tentative);
    }

    #[test]
    fn message_without_address_is_malformed() {
        assert_eq!(parsed(request(libc::AF_INET, 32, 0)), Err(Malformed));
        assert_eq!(parsed(Request::new(libc::RTM_NEWADDR, 0, 0, &[2])), Err(Malformed));
    }
}
