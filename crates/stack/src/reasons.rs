//! Why a frame was not delivered, or a datagram not sent, by this stack: one word and one sentence each, all counted.

use std::fmt;

/// An enum of reasons, each with the sentence shown to people; the position counts in statistics.
macro_rules! reasons {
    ($(#[$about:meta])* $name:ident { $($(#[doc = $doc:literal])+ $variant:ident => $words:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $name {
            /// All of them, in the order of their counters.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// A sentence part for people.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self {
                    $($name::$variant => $words,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.words())
            }
        }
    };
}

reasons! {
    /// Why a frame that came here is the kernel's to handle.
    ///
    /// With the steering program in place such a frame is rare: it was on its way when an endpoint closed, or an
    /// interface changed.
    NotOurs {
        /// No Ethernet header, or more VLAN tags than two.
        NotEthernet => "the frame has no readable Ethernet header",
        /// Neither IPv4 nor IPv6: ARP and the like.
        EtherType => "the frame carries neither IPv4 nor IPv6",
        /// Addressed to another station.
        OtherHost => "the frame is addressed to another station",
        /// Tagged for a VLAN that has no interface here.
        UnknownVlan => "the frame has a VLAN tag for which there is no interface",
        /// The interface is down or unknown.
        InterfaceDown => "the interface is down or not known",
        /// Part of a packet: the kernel reassembles.
        Fragment => "the packet is a fragment",
        /// Options that decide where the packet goes.
        SourceRoute => "the packet has a source route",
        /// IPv6 with extension headers.
        ExtensionHeader => "the packet has an extension header",
        /// A protocol without endpoints here.
        Protocol => "the packet carries a protocol that this stack does not serve",
        /// A TCP segment with a good checksum: the kernel may have its connection.
        NoConnection => "the TCP segment is of no connection here",
        /// The destination is no address of this host.
        OtherAddress => "the packet is addressed to no address of this host",
        /// A group that no endpoint joined.
        GroupNotJoined => "the packet is for a group that is not joined on its interface",
    }
}

reasons! {
    /// Why a frame for this host was dropped. The names are those of the kernel's counters (`/proc/net/snmp`,
    /// `/proc/net/snmp6`, `/proc/net/netstat`).
    Dropped {
        /// Ip: the header is malformed or its checksum wrong.
        InHdrErrors => "the IP header is malformed or its checksum is wrong",
        /// Ip: the packet is shorter than it says.
        InTruncatedPkts => "the IP packet is cut",
        /// A source address that no packet may have.
        InMartianSource => "the source address is one that no packet may have",
        /// Ip: a destination address that no packet may have.
        InAddrErrors => "the destination address is one that no packet may have",
        /// Udp: the datagram's length is impossible.
        InErrors => "the UDP length is impossible",
        /// Udp: the checksum is wrong, or missing over IPv6.
        InCsumErrors => "the UDP checksum is wrong or, over IPv6, missing",
        /// Udp: no endpoint takes it.
        NoPorts => "no endpoint takes the datagram",
        /// Udp: a group or broadcast datagram that no endpoint takes.
        IgnoredMulti => "no endpoint takes the group or broadcast datagram",
        /// Udp: the endpoint's receive buffer is full (SO_RCVBUF).
        RcvbufErrors => "the receive buffer of the endpoint is full",
        /// Udp: the stack's memory for queued datagrams is used up, or the datagram is longer than a slot of it.
        MemErrors => "the memory for queued datagrams is used up, or the datagram is longer than a slot of it",
        /// Tcp: the checksum of a segment is wrong.
        TcpInCsumErrors => "the TCP checksum is wrong",
    }
}

reasons! {
    /// Why a datagram has to be sent through the kernel, which will send it, or say what is wrong.
    NeedsKernel {
        /// The endpoint was closed or belongs to another stack.
        NoEndpoint => "the endpoint is closed",
        /// The endpoint has no local port yet: the kernel chooses one.
        NotBound => "the endpoint has no local port yet",
        /// No destination was given and the endpoint is not connected.
        NoDestination => "no destination was given and the endpoint is not connected",
        /// Destination and endpoint, or source, are of different families.
        FamilyMismatch => "the destination's address family is not the endpoint's",
        /// Port 0 is no destination.
        PortZero => "the destination port is 0",
        /// A link-local destination without interface.
        NoScope => "the destination is link-local and no interface was given",
        /// A time to live of 0 must not leave the host.
        TtlZero => "the time to live is 0",
        /// Routing rules beyond the usual three are in force.
        PolicyRouting => "policy routing rules are in force",
        /// No route matches.
        NoRoute => "no route matches the destination",
        /// The route says so: blackhole, unreachable, prohibit.
        Unreachable => "the route makes the destination unreachable",
        /// Several next hops share the traffic.
        Multipath => "several routes share the traffic",
        /// The route wants something that only the kernel does: encapsulation, a gateway for a group.
        UnsupportedRoute => "the route wants something that only the kernel does",
        /// The destination is this host.
        LocalDestination => "the destination is this host",
        /// Broadcast without SO_BROADCAST.
        BroadcastNotPermitted => "the destination is a broadcast address and SO_BROADCAST is not set",
        /// Broadcast: programs on this host get it too.
        Broadcast => "a broadcast is also for this host",
        /// A group that this host has joined, and IP_MULTICAST_LOOP is set.
        MulticastLoop => "the group is joined on this host and IP_MULTICAST_LOOP is set",
        /// The source address is not one of this host's.
        SourceNotOurs => "the source address is not one of this host's",
        /// No address of this host may be the source.
        NoSource => "no address of this host may be the source",
        /// The interface of the route is down or unknown.
        InterfaceDown => "the interface is down or not known",
        /// The interface of the route has no port of ours.
        NoPort => "the interface has no accelerated port",
        /// The next hop's hardware address is not known: the kernel asks for it.
        NeighbourUnresolved => "the hardware address of the next hop is not known",
        /// It must be fragmented, or refused.
        LargerThanMtu => "the packet is larger than the MTU",
        /// The kernel has to be asked whether the path carries it.
        PathUnknown => "it is not known yet whether the path carries a packet of this size",
    }
}

impl NeedsKernel {
    /// Whether the kernel could not send either: it has no route.
    #[must_use]
    pub const fn is_unroutable(self) -> bool {
        matches!(self, NeedsKernel::NoRoute | NeedsKernel::Unreachable | NeedsKernel::InterfaceDown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_listed_stand_at_their_number_with_words_of_their_own() {
        fn check<T: Copy>(all: &[T], number: impl Fn(T) -> usize, words: impl Fn(T) -> &'static str) {
            for (at, reason) in all.iter().enumerate() {
                assert_eq!(number(*reason), at);
            }
            let mut texts: Vec<_> = all.iter().map(|reason| words(*reason)).collect();
            texts.sort_unstable();
            texts.dedup();
            assert_eq!(texts.len(), all.len());
        }
        check(NotOurs::ALL, |reason| reason as usize, NotOurs::words);
        check(Dropped::ALL, |reason| reason as usize, Dropped::words);
        check(NeedsKernel::ALL, |reason| reason as usize, NeedsKernel::words);
    }
}
