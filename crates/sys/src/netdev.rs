//! The netdev family of generic netlink: what a driver can do for XDP.
//!
//! Sources: `Documentation/netlink/specs/netdev.yaml`, `include/uapi/linux/netdev.h` (Linux 6.3).

use std::io;

use bitflags::bitflags;

use crate::generic_netlink::{Answers, Family, attribute, number};

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

bitflags! {
    /// `enum netdev_xdp_rx_metadata`: what a program in the driver may ask about a frame.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct XdpReceiveMetadata: u64 {
        /// When the device received it.
        const TIMESTAMP = 1 << 0;
        /// The hash that chose its queue.
        const HASH = 1 << 1;
        /// The VLAN tag that the device took out.
        const VLAN_TAG = 1 << 2;
        const _ = !0;
    }
}

const DEV_GET: u8 = 1;
const DEV_IFINDEX: u16 = 1;
const DEV_XDP_FEATURES: u16 = 3;
const DEV_XDP_ZERO_COPY_SEGMENTS: u16 = 4;
const DEV_XDP_RX_METADATA_FEATURES: u16 = 5;

/// What the driver of an interface of the calling thread's network namespace can do for XDP.
///
/// # Errors
/// `EOPNOTSUPP` on kernels before 6.3, which do not tell; `ENODEV` for no such interface.
pub fn xdp_features(ifindex: u32) -> io::Result<XdpFeatures> {
    let features = ask(ifindex, DEV_XDP_FEATURES)?;
    let odd = "the kernel's answer is not what the netdev family describes";
    features.map(XdpFeatures::from_bits_retain).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, odd))
}

/// What the driver of an interface of the calling thread's network namespace tells a program about a frame.
///
/// # Errors
/// `EOPNOTSUPP` on kernels before 6.6, which do not say; `ENODEV` for no such interface.
pub fn xdp_receive_metadata(ifindex: u32) -> io::Result<XdpReceiveMetadata> {
    let metadata = ask(ifindex, DEV_XDP_RX_METADATA_FEATURES)?;
    metadata.map(XdpReceiveMetadata::from_bits_retain).ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))
}

/// How many buffers a frame may lie in, in zero-copy mode, on an interface of the calling thread's network namespace; 1 where the driver
/// or the kernel (before 6.6) has no more.
///
/// # Errors
/// `EOPNOTSUPP` on kernels before 6.3, which do not tell; `ENODEV` for no such interface.
pub fn xdp_zero_copy_segments(ifindex: u32) -> io::Result<u32> {
    let segments = ask(ifindex, DEV_XDP_ZERO_COPY_SEGMENTS)?;
    Ok(segments.map_or(1, |segments| u32::try_from(segments).unwrap_or(u32::MAX)))
}

/// A number of the answer about an interface; `None`: it is not in there.
fn ask(ifindex: u32, fact: u16) -> io::Result<Option<u64>> {
    let family = Family::open("netdev").map_err(|error| match error.raw_os_error() {
        // No family of this name.
        Some(libc::ENOENT) => io::Error::from_raw_os_error(libc::EOPNOTSUPP),
        _ => error,
    })?;
    let answers = family.ask(DEV_GET, Answers::One, &attribute(DEV_IFINDEX, &ifindex.to_ne_bytes()))?;
    Ok(answers.first().and_then(|answer| number(answer, fact)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns;
    use std::process::Command;

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

    #[test]
    fn veth_asked_tells_times_of_frames() {
        let Ok(namespace) = netns::new_network_namespace() else {
            assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, and no namespace");
            println!("SKIP no network namespace here");
            return;
        };
        let metadata = netns::enter(&namespace, || {
            let made = Command::new("ip").args("link add nw0 index 10 type veth peer name nw1".split(' ')).status();
            assert!(made.unwrap().success());
            (xdp_receive_metadata(10), xdp_receive_metadata(1))
        });
        match metadata.unwrap() {
            (Ok(veth), lo) => {
                assert!(veth.contains(XdpReceiveMetadata::TIMESTAMP));
                assert!(lo.unwrap().is_empty(), "the loopback interface has no driver to tell");
            }
            (Err(error), _) => assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP)),
        }
    }
}
