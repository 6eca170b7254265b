//! Policies of IPsec as the kernel tells of them (`struct xfrm_userpolicy_info` and what stands behind it).
//!
//! Source: `include/uapi/linux/xfrm.h`, `net/xfrm/xfrm_user.c`.

use std::net::IpAddr;

use nearwire_frames::steering::ExactFlow;
use nearwire_sys::netlink::message::{Attributes, address_of};

/// `struct xfrm_selector`: addresses of 16 bytes each, in network byte order from their beginning, and how many bits count.
const DESTINATION_AT: usize = 0;
const SOURCE_AT: usize = 16;
const FAMILY_AT: usize = 40;
const DESTINATION_BITS_AT: usize = 42;
const SOURCE_BITS_AT: usize = 43;
const PROTOCOL_AT: usize = 44;
/// Behind the selector (56 bytes), limits (64), what was used of them (32), priority and index.
const DIRECTION_AT: usize = 160;
const ACTION_AT: usize = 161;
const ATTRIBUTES_AT: usize = 168;
const XFRMA_TMPL: u16 = 5;
const XFRM_POLICY_IN: u8 = 0;
const XFRM_POLICY_OUT: u8 = 1;
const XFRM_POLICY_ALLOW: u8 = 0;
/// `IPPROTO_TCP`; 0 is any.
const TCP: u8 = 6;

/// Whether a policy does something with packets of a TCP connection, whatever its ports. One that cannot be read does.
pub(super) fn is_for(policy: &[u8], flow: &ExactFlow) -> bool {
    let byte = |at: usize| policy.get(at).copied();
    let Some((direction, action)) = byte(DIRECTION_AT).zip(byte(ACTION_AT)) else { return true };
    let (source, destination) = match direction {
        XFRM_POLICY_IN => (flow.remote, flow.local),
        XFRM_POLICY_OUT => (flow.local, flow.remote),
        _ => return false,
    };
    // What passes without having been transformed passes by as well.
    let has_template = policy.get(ATTRIBUTES_AT..).is_some_and(|rest| Attributes(rest).value(XFRMA_TMPL).is_some());
    if action == XFRM_POLICY_ALLOW && !has_template {
        return false;
    }
    let is_tcp = byte(PROTOCOL_AT).is_none_or(|protocol| protocol == 0 || protocol == TCP);
    let is_within = |address, at, bits_at| is_within(policy, address, at, byte(bits_at).unwrap_or(0));
    is_tcp
        && is_within(source, SOURCE_AT, SOURCE_BITS_AT)
        && is_within(destination, DESTINATION_AT, DESTINATION_BITS_AT)
}

fn is_within(policy: &[u8], address: IpAddr, at: usize, bits: u8) -> bool {
    let family =
        policy.get(FAMILY_AT..).and_then(|rest| rest.first_chunk()).map_or(0, |family| u16::from_ne_bytes(*family));
    let (bytes, of_family) = if address.is_ipv4() { (4, 2) } else { (16, 10) };
    let prefix = policy.get(at..at + bytes).and_then(address_of);
    let number = |address| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    };
    let differs = prefix.map_or(0, |prefix| number(prefix) ^ number(address));
    // AF_UNSPEC is any.
    (family == 0 || family == of_family) && differs.checked_shr(128 - u32::from(bits.min(128))).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearwire_frames::steering::Transport;
    use nearwire_sys::netlink::message::attribute;

    struct Policy<'a> {
        direction: u8,
        source: (&'a str, u8),
        destination: (&'a str, u8),
        protocol: u8,
        action: u8,
        has_template: bool,
    }

    const OUT: Policy = Policy {
        direction: XFRM_POLICY_OUT,
        source: ("0.0.0.0", 0),
        destination: ("10.8.0.0", 16),
        protocol: 0,
        action: XFRM_POLICY_ALLOW,
        has_template: true,
    };

    fn octets(address: &str) -> (u16, Vec<u8>) {
        match address.parse().unwrap() {
            IpAddr::V4(address) => (2, address.octets().to_vec()),
            IpAddr::V6(address) => (10, address.octets().to_vec()),
        }
    }

    impl Policy<'_> {
        fn bytes(&self) -> Vec<u8> {
            let mut bytes = vec![0; ATTRIBUTES_AT];
            let (family, source) = octets(self.source.0);
            bytes[SOURCE_AT..SOURCE_AT + source.len()].copy_from_slice(&source);
            let (_, destination) = octets(self.destination.0);
            bytes[DESTINATION_AT..DESTINATION_AT + destination.len()].copy_from_slice(&destination);
            bytes[FAMILY_AT..FAMILY_AT + 2].copy_from_slice(&family.to_ne_bytes());
            (bytes[SOURCE_BITS_AT], bytes[DESTINATION_BITS_AT]) = (self.source.1, self.destination.1);
            (bytes[PROTOCOL_AT], bytes[DIRECTION_AT], bytes[ACTION_AT]) = (self.protocol, self.direction, self.action);
            if self.has_template {
                bytes.extend(attribute(XFRMA_TMPL, &[0; 64]));
            }
            bytes
        }

        fn is_for(&self, local: &str, remote: &str) -> bool {
            let socket = |address: &str| (address.parse::<IpAddr>().unwrap(), 80).into();
            is_for(&self.bytes(), &ExactFlow::between(Transport::Tcp, socket(local), socket(remote)))
        }
    }

    #[test]
    fn policy_is_for_connections_within_its_addresses_in_its_direction() {
        assert!(OUT.is_for("10.0.0.1", "10.8.3.4"));
        assert!(!OUT.is_for("10.0.0.1", "10.9.3.4"));
        assert!(!OUT.is_for("10.8.3.4", "10.0.0.1"), "what is sent to there, not from there");
        assert!(Policy { direction: XFRM_POLICY_IN, ..OUT }.is_for("10.8.3.4", "10.0.0.1"));
        assert!(!Policy { direction: 2, ..OUT }.is_for("10.0.0.1", "10.8.3.4"), "what is passed on");
        assert!(!Policy { source: ("10.1.0.0", 24), ..OUT }.is_for("10.0.0.1", "10.8.3.4"));
        assert!(!OUT.is_for("fd00::1", "fd00::2"), "the other family");
        let of_6 = Policy { source: ("::", 0), destination: ("fd00::", 8), ..OUT };
        assert!(of_6.is_for("fe80::1", "fd12::2") && !of_6.is_for("fe80::1", "fe80::2"));
    }

    #[test]
    fn policy_that_lets_pass_or_is_for_another_protocol_is_for_none() {
        assert!(!Policy { has_template: false, ..OUT }.is_for("10.0.0.1", "10.8.3.4"));
        assert!(Policy { has_template: false, action: 1, ..OUT }.is_for("10.0.0.1", "10.8.3.4"), "it drops them");
        assert!(!Policy { protocol: 17, ..OUT }.is_for("10.0.0.1", "10.8.3.4"));
        assert!(Policy { protocol: TCP, ..OUT }.is_for("10.0.0.1", "10.8.3.4"));
        let whole = OUT.bytes();
        let flow = ExactFlow::between(Transport::Tcp, ([10, 0, 0, 1], 1).into(), ([10, 8, 0, 1], 1).into());
        assert!(is_for(&whole[..100], &flow), "one that is cut off");
    }
}
