//! Test traffic: numbered UDP datagrams whose every byte the sink knows.
//!
//! ```text
//! | Ethernet | tag | IPv4 or IPv6 | UDP | token | number | due     | fill           |
//! |       14 | 0,4 |     20 or 40 |   8 |     2 |      6 |       8 | up to the size |
//! ```
//!
//! Addresses are those that are set aside for benchmarks (RFC 2544 appendix C.2.2, RFC 5180 section 8). *number* counts the frames of a
//! generator; size and flow of a frame follow from it. *due* is the time at which the frame was to leave, in ticks of this host's clock.
//! The sink compares all that a device may not change: addresses of IP, ports, length, content, and the UDP checksum, which covers them.
//! Devices may change Ethernet addresses, tags, TTL and the checksum of the IPv4 header.

mod announcement;
mod flows;
mod headers;
mod sizes;
mod template;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nearwire_wire::MacAddress;
use serde::{Deserialize, Serialize};

pub use announcement::Announcement;
pub use flows::{Flows, SOURCE_PORT};
pub use headers::TrafficError;
pub use sizes::{Sizes, SizesError};
pub(crate) use template::NUMBER_BITS;
pub use template::{FrameMaker, Reading};

/// Port that test traffic goes to.
pub const DESTINATION_PORT: u16 = 7; // echo: RFC 2544 appendix C.2.6.4

/// Version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Family {
    /// IPv4.
    #[serde(rename = "4")]
    V4,
    /// IPv6.
    #[serde(rename = "6")]
    V6,
}

impl Family {
    /// First address of the senders; flows count on from there.
    #[must_use]
    pub const fn sources(self) -> IpAddr {
        match self {
            Family::V4 => IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)),
            Family::V6 => IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1)),
        }
    }

    /// First address of the receivers.
    #[must_use]
    pub const fn destinations(self) -> IpAddr {
        match self {
            Family::V4 => IpAddr::V4(Ipv4Addr::new(198, 19, 0, 1)),
            Family::V6 => IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 1)),
        }
    }

    /// Bits of the prefix that senders and receivers have in common.
    #[must_use]
    pub const fn common_prefix_bits(self) -> u8 {
        match self {
            Family::V4 => 15,
            Family::V6 => 48,
        }
    }

    /// Bits of the prefix that all receivers have in common, and the senders do not.
    #[must_use]
    pub const fn prefix_bits(self) -> u8 {
        match self {
            Family::V4 => 16,
            Family::V6 => 64,
        }
    }
}

/// The shortest frame that has room for headers, number and time, bytes without FCS.
#[must_use]
pub const fn least_frame_bytes(family: Family, is_tagged: bool) -> u32 {
    headers::least_frame_bytes(family, is_tagged) as u32
}

/// What a generator sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Version of IP.
    pub family: Family,
    /// Sizes of frames, one after the other.
    pub sizes: Sizes,
    /// How many flows frames belong to, in turn.
    pub flows: Flows,
    /// VLAN that frames are tagged for, 1 to 4094; none: no tag.
    pub vlan: Option<u16>,
    /// Distinguishes this traffic from that of another generator.
    pub token: u16,
}

/// Where frames come from and go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hops {
    /// The generator's interface.
    pub source: MacAddress,
    /// The sink's, or that of the router on the way.
    pub destination: MacAddress,
}
