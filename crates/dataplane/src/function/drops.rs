//! Why frames do not leave, and how many.

/// Why a frame does not leave the forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropCause {
    /// It ends inside its Ethernet header or its VLAN tag.
    Runt,
    /// The port it came in by has no partner, or its function names a port that is not there.
    NoSuchPort,
    /// The port it should leave by has no room, also after a flush.
    EgressFull,
    /// It is longer than the port carries by which it should leave.
    EgressTooLong,
    /// Bridge: its destination is at the port that it came in by.
    SamePort,
    /// Bridge: its destination is one of 01-80-C2-00-00-00 to 0F (IEEE 802.1D-2004 section 7.12.6).
    ReservedGroup,
    /// Bridge: its VLAN is 4095 (IEEE 802.1Q-2018 table 9-2).
    ReservedVlan,
    /// Router: its Ethernet destination is another station.
    OtherHost,
    /// Router: its Ethernet destination is a group.
    LinkGroup,
    /// Router: it has a VLAN tag.
    Tagged,
    /// Router: it is neither IPv4 nor IPv6, as ARP.
    NotIp,
    /// Router: its IP version is not that of its EtherType.
    Version,
    /// Router: the length of its IPv4 header is impossible.
    HeaderLength,
    /// Router: its IPv4 header checksum is wrong.
    HeaderChecksum,
    /// Router: its IP packet is longer than the frame, or shorter than its own header.
    TotalLength,
    /// Router: an IPv4 option is malformed.
    MalformedOption,
    /// Router: an IPv4 option asks routers to do something, as record route.
    OptionForRouter,
    /// Router: its source is not an address of one other host.
    MartianSource,
    /// Router: its destination is loopback, "this network" or unspecified.
    MartianDestination,
    /// Router: its IP destination is a group.
    Multicast,
    /// Router: its IP destination is a broadcast address.
    Broadcast,
    /// Router: its source or destination is an address that counts on its link only.
    LinkLocal,
    /// Router: it is for the router itself.
    ForThisHost,
    /// Router: its TTL or hop limit is 0 or 1.
    TtlExpired,
    /// Router: no route leads to its destination.
    NoRoute,
    /// Router: the route to its destination says that it is not reachable.
    Unreachable,
    /// Router: the route to its destination leads through an interface that is no port of the forwarder.
    OtherInterface,
    /// Router: the link address of the next hop is not known.
    NoNeighbour,
    /// Router: it is longer than the MTU of its way and may not be fragmented.
    TooBig,
    /// Router: it is longer than the MTU of its way and would have to be fragmented, which this router does not.
    WantsFragments,
}

/// Causes with their names, in the order of the enum.
const NAMES: [(DropCause, &str); 30] = [
    (DropCause::Runt, "runt"),
    (DropCause::NoSuchPort, "no-such-port"),
    (DropCause::EgressFull, "egress-full"),
    (DropCause::EgressTooLong, "egress-too-long"),
    (DropCause::SamePort, "same-port"),
    (DropCause::ReservedGroup, "reserved-group"),
    (DropCause::ReservedVlan, "reserved-vlan"),
    (DropCause::OtherHost, "other-host"),
    (DropCause::LinkGroup, "link-group"),
    (DropCause::Tagged, "tagged"),
    (DropCause::NotIp, "not-ip"),
    (DropCause::Version, "version"),
    (DropCause::HeaderLength, "header-length"),
    (DropCause::HeaderChecksum, "header-checksum"),
    (DropCause::TotalLength, "total-length"),
    (DropCause::MalformedOption, "malformed-option"),
    (DropCause::OptionForRouter, "option-for-router"),
    (DropCause::MartianSource, "martian-source"),
    (DropCause::MartianDestination, "martian-destination"),
    (DropCause::Multicast, "multicast"),
    (DropCause::Broadcast, "broadcast"),
    (DropCause::LinkLocal, "link-local"),
    (DropCause::ForThisHost, "for-this-host"),
    (DropCause::TtlExpired, "ttl-expired"),
    (DropCause::NoRoute, "no-route"),
    (DropCause::Unreachable, "unreachable"),
    (DropCause::OtherInterface, "other-interface"),
    (DropCause::NoNeighbour, "no-neighbour"),
    (DropCause::TooBig, "too-big"),
    (DropCause::WantsFragments, "wants-fragments"),
];

impl DropCause {
    /// All causes.
    pub fn all() -> impl Iterator<Item = DropCause> {
        NAMES.iter().map(|(cause, _)| *cause)
    }

    /// The cause of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<DropCause> {
        NAMES.iter().find(|known| known.1 == name).map(|known| known.0)
    }

    /// Its name in records: lower case with hyphens, and never changed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        NAMES[self as usize].1
    }
}

impl std::fmt::Display for DropCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// How many frames were dropped, by cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drops {
    frames: [u64; NAMES.len()],
}

impl Default for Drops {
    fn default() -> Drops {
        Drops { frames: [0; NAMES.len()] }
    }
}

impl Drops {
    /// Counts one frame.
    #[inline]
    pub const fn count(&mut self, cause: DropCause) {
        self.frames[cause as usize] += 1;
    }

    /// Counts frames that others counted.
    pub const fn add(&mut self, cause: DropCause, frames: u64) {
        self.frames[cause as usize] += frames;
    }

    /// Frames dropped for one cause.
    #[must_use]
    pub const fn of(&self, cause: DropCause) -> u64 {
        self.frames[cause as usize]
    }

    /// Frames dropped for all causes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.frames.iter().sum()
    }

    /// The causes for which frames were dropped, with how many.
    pub fn iter(&self) -> impl Iterator<Item = (DropCause, u64)> {
        DropCause::all().zip(self.frames).filter(|(_, frames)| *frames > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_unique_and_kebab_case() {
        for (at, (cause, name)) in NAMES.iter().enumerate() {
            assert_eq!(*cause as usize, at, "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
            assert_eq!(NAMES.iter().filter(|other| other.1 == *name).count(), 1, "{name}");
        }
    }

    #[test]
    fn frames_counted_are_listed_by_cause() {
        let mut drops = Drops::default();
        assert_eq!(drops.iter().count(), 0);
        [DropCause::Runt, DropCause::TooBig, DropCause::Runt].into_iter().for_each(|cause| drops.count(cause));
        assert_eq!(drops.iter().collect::<Vec<_>>(), [(DropCause::Runt, 2), (DropCause::TooBig, 1)]);
        assert_eq!((drops.total(), drops.of(DropCause::Runt), drops.of(DropCause::Tagged)), (3, 2, 0));
    }
}
