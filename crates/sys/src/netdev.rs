//! The netdev family of generic netlink: what a driver can do for XDP.
//!
//! Two questions: the family's number by its name, then the device. An answer of the kernel fits one read.
//!
//! Sources: `Documentation/netlink/specs/netdev.yaml`, `include/uapi/linux/netdev.h` (Linux 6.3), genetlink(7),
//! `include/uapi/linux/genetlink.h`.

use std::io;

use bitflags::bitflags;
use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

bitflags! {
    /// `enum netdev_xdp_act`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct XdpFeatures: u64 {
        /// Programs run in the driver.
        const BASIC = 1 << 0;
        /// A program may redirect frames.
        const REDIRECT = 1 << 1;
        /// Frames can be redirected to this interface.
        const NDO_XMIT = 1 << 2;
        /// AF_XDP sockets share their memory with the device: zero copy.
        const XSK_ZEROCOPY = 1 << 3;
        /// The device runs programs itself.
        const HW_OFFLOAD = 1 << 4;
        /// Received frames may be in several buffers.
        const RX_SG = 1 << 5;
        /// So may frames that are redirected to this interface.
        const NDO_XMIT_SG = 1 << 6;
        const _ = !0;
    }
}

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETLINK_HEADER_BYTES: usize = 16;
const GENERIC_HEADER_BYTES: usize = 4;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLA_TYPE_MASK: u16 = 0x3fff;
const ANSWER_BYTES: usize = 8192;

/// What the driver of an interface of the calling thread's network namespace can do for XDP.
///
/// # Errors
/// `EOPNOTSUPP` on kernels before 6.3, which do not tell; `ENODEV` for no such interface.
pub fn xdp_features(ifindex: u32) -> io::Result<XdpFeatures> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(GENERIC))?;
    let ask = |question: &[u8]| -> io::Result<Vec<u8>> {
        sendto(&socket, question, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut answer = vec![0; ANSWER_BYTES];
        // The kernel has answered before the send returns.
        let (received, _) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
        answer.truncate(received);
        Ok(answer)
    };
    let family = ask(&question(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, b"netdev\0"))?;
    let family = attribute(&family, CTRL_ATTR_FAMILY_ID).map_err(|error| match error.raw_os_error() {
        // No family of this name.
        Some(libc::ENOENT) => io::Error::from_raw_os_error(libc::EOPNOTSUPP),
        _ => error,
    })?;
    let family = family.try_into().map(u16::from_ne_bytes).map_err(|_| odd_answer())?;
    let device = ask(&question(family, NETDEV_CMD_DEV_GET, NETDEV_A_DEV_IFINDEX, &ifindex.to_ne_bytes()))?;
    let features = attribute(&device, NETDEV_A_DEV_XDP_FEATURES)?;
    let features = features.try_into().map(u64::from_ne_bytes).map_err(|_| odd_answer())?;
    Ok(XdpFeatures::from_bits_retain(features))
}

/// A message with one attribute.
fn question(family: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let attribute_bytes = 4 + value.len();
    let total_bytes = NETLINK_HEADER_BYTES + GENERIC_HEADER_BYTES + attribute_bytes.next_multiple_of(4);
    let mut message = Vec::with_capacity(total_bytes);
    message.extend((total_bytes as u32).to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    message.extend([0; 8]); // sequence number and port: one question at a time
    message.extend([command, 1, 0, 0]); // version 1, reserved
    message.extend((attribute_bytes as u16).to_ne_bytes());
    message.extend(attribute.to_ne_bytes());
    message.extend(value);
    message.resize(total_bytes, 0);
    message
}

/// The value of the first attribute of this kind in an answer, or the error that the answer is.
fn attribute(answer: &[u8], wanted: u16) -> io::Result<&[u8]> {
    let u16_at = |bytes: &[u8], at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    if u16_at(answer, 4) == Some(NLMSG_ERROR) {
        let errno = answer.get(NETLINK_HEADER_BYTES..NETLINK_HEADER_BYTES + 4).ok_or_else(odd_answer)?;
        let errno = i32::from_ne_bytes(errno.try_into().map_err(|_| odd_answer())?);
        return Err(io::Error::from_raw_os_error(errno.saturating_neg()));
    }
    let mut rest = answer.get(NETLINK_HEADER_BYTES + GENERIC_HEADER_BYTES..).unwrap_or_default();
    while let (Some(length_bytes), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let length_bytes = usize::from(length_bytes);
        let value = rest.get(4..length_bytes).ok_or_else(odd_answer)?;
        if kind & NLA_TYPE_MASK == wanted {
            return Ok(value);
        }
        rest = rest.get(length_bytes.next_multiple_of(4)..).unwrap_or_default();
    }
    Err(odd_answer())
}

fn odd_answer() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is not what the netdev family describes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns;
    use std::process::Command;

    #[test]
    fn question_has_header_command_and_padded_attribute() {
        let bytes = question(16, 3, 2, b"netdev\0");
        assert_eq!(bytes.len(), 32);
        assert_eq!(bytes[..4], 32_u32.to_ne_bytes());
        assert_eq!((bytes[16], bytes[17], &bytes[24..]), (3, 1, &b"netdev\0\0"[..]));
    }

    #[test]
    fn answers_cut_or_odd_are_errors() {
        let answer = question(20, 1, NETDEV_A_DEV_XDP_FEATURES, &7_u64.to_ne_bytes());
        assert_eq!(attribute(&answer, NETDEV_A_DEV_XDP_FEATURES).unwrap(), 7_u64.to_ne_bytes());
        attribute(&answer, NETDEV_A_DEV_IFINDEX).unwrap_err();
        for len_bytes in 0..answer.len() {
            attribute(&answer[..len_bytes], NETDEV_A_DEV_XDP_FEATURES).unwrap_err();
        }
    }

    #[test]
    fn missing_interface_asked_is_no_device() {
        match xdp_features(0x7fff_fff0).unwrap_err().raw_os_error() {
            Some(libc::EOPNOTSUPP) => println!("SKIP this kernel has no netdev family"),
            found => assert_eq!(found, Some(libc::ENODEV)),
        }
    }

    /// veth gives its features when it has a program or GRO; the bit for programs in the driver it has always.
    #[test]
    fn veth_asked_runs_programs_in_the_driver_without_zero_copy() {
        let Ok(namespace) = netns::new_network_namespace() else {
            assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, and no namespace");
            println!("SKIP no network namespace here");
            return;
        };
        let features = netns::enter(&namespace, || {
            let made = Command::new("ip").args("link add nw0 index 10 type veth peer name nw1".split(' ')).status();
            assert!(made.unwrap().success());
            xdp_features(10)
        });
        match features.unwrap() {
            Ok(features) => {
                assert!(features.contains(XdpFeatures::BASIC) && !features.contains(XdpFeatures::XSK_ZEROCOPY));
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP)),
        }
    }
}
