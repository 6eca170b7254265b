//! A UDP socket of the program.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use nearwire_frames::FlowSocket;
use nearwire_frames::steering::FlowFilter;
use nearwire_stack::{EndpointId, Family, SourceFilter};
use nearwire_sys::descriptor::Descriptor;

use crate::handover::{Inherited, inode_of};
use crate::reason::Why;
use crate::shadow::{Ancillary, Kept};
use crate::status::Slot;

/// A shadow that gets more and more from this host must not be read for ever.
const OLDER_MOST: u16 = 4096;

/// Who serves a socket.
#[derive(Debug)]
pub(crate) enum Service {
    /// Not decided: it has no address.
    Open,
    /// The kernel, and why.
    Kernel(Why),
    /// The stack.
    Accelerated(Accelerated),
}

/// What an accelerated socket has in the engine.
#[derive(Debug)]
pub(crate) struct Accelerated {
    pub(crate) endpoint: EndpointId,
    /// The packets the ports take for it.
    pub(crate) flows: Vec<FlowFilter>,
    /// Where it first sent to, which says by which interface its traffic goes.
    pub(crate) first_remote: Option<IpAddr>,
    /// Of the shadow, to recognize it under any fd.
    pub(crate) inode: u64,
}

/// A group joined, as the shadow was told.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) ifindex: u32,
    pub(crate) group: IpAddr,
    pub(crate) filter: SourceFilter,
}

/// See the module. In the order in which a datagram needs it: the first line of the cache has what each call looks at, the
/// second what it counts. With a thousand sockets every line is a miss.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct UdpSocket {
    pub(crate) service: Service,
    /// One of its fds.
    pub(crate) shadow: Descriptor,
    /// How many fds it has.
    pub(crate) numbers: u32,
    pub(crate) family: Family,
    /// O_NONBLOCK, which belongs to the open file, not to the fd.
    pub(crate) is_nonblocking: bool,
    /// The program bound it to a port of its choice.
    pub(crate) is_server: bool,
    pub(crate) is_connected: bool,
    /// It was connected once, or asked for errors (`IP_RECVERR`): the kernel tells it of ICMP messages.
    pub(crate) hears_errors: bool,
    /// The shadow may have a datagram.
    pub(crate) shadow_has_data: bool,
    /// What the shadow has came before what waits in the queue: one datagram of it is read first.
    pub(crate) shadow_is_older: bool,
    /// The shadow has datagrams that come before those of the ports, and that the receive buffer has no room for.
    pub(crate) is_behind_shadow: bool,
    /// The shadow may have an error.
    pub(crate) shadow_has_error: bool,
    /// The error is something in the error queue, and the program wants to be told by POLLPRI (`SO_SELECT_ERR_QUEUE`).
    pub(crate) shadow_has_priority: bool,
    /// The shadow's error queue may hold a report that no receive tells of (`MSG_ERRQUEUE` alone reads it).
    pub(crate) has_report: bool,
    /// The kernel gathers a datagram of several sends (MSG_MORE): the sends that follow belong to it.
    pub(crate) is_corked: bool,
    /// An error that a call could not tell, for the next one: what the kernel keeps in `sk_err`. 0: none.
    pub(crate) pending_error: i32,
    /// Datagrams read from ports since the watch was looked at on their account.
    pub(crate) received_unlooked: u32,
    /// That of `kept`.
    ancillary: Ancillary,
    /// What is told of it.
    pub(crate) slot: Slot,
    /// When the datagram read last arrived (SIOCGSTAMP), nanoseconds since 1970; 0: nobody looked at the clock. `None`: the
    /// kernel knows.
    pub(crate) stamp_ns: Option<u64>,
    kept: Option<Kept>,
    pub(crate) memberships: Vec<Membership>,
    /// An endpoint that is no longer served, with datagrams that were taken before.
    pub(crate) leftover: Option<EndpointId>,
    /// The parent of this process accelerates it, or could.
    pub(crate) inherited: Option<Inherited>,
    /// The process was born with it: others have it too.
    pub(crate) is_inherited: bool,
    /// This host's first IPv4 address on each interface, for packet information of group datagrams.
    pub(crate) own_addresses: Vec<(u32, Ipv4Addr)>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: Option<SocketAddr>,
    /// Calls that wait at it: it lives until they end, whichever fds are closed, as an open file does.
    pub(crate) holders: u32,
    /// Of those calls, in the order in which they began to wait.
    pub(crate) tickets: Vec<u32>,
    pub(crate) next_ticket: u32,
    /// The shadow's descriptor when the program has closed all of its own.
    pub(crate) kept_open: Option<OwnedFd>,
    /// How often it was found that the shadow may have something: what a thread learns from the shadow is old when that
    /// changed while it asked.
    pub(crate) shadow_news: u32,
    /// Of the shadow: no two sockets have the same. 0: the kernel did not tell.
    pub(crate) own_inode: u64,
    /// A thread has received from it or waited for it, or it has moved: it stays in its engine.
    pub(crate) is_settled: bool,
    /// A call has sent by it, received from it or waited for it. Until then an accelerated one has no flows.
    pub(crate) is_used: bool,
    /// SIOCGSTAMP asked when a datagram arrived.
    pub(crate) asks_stamps: bool,
    /// Datagrams that the shadow dropped for want of room, as far as it told.
    pub(crate) shadow_dropped: u32,
    /// Datagrams that are read from the shadow while `shadow_is_older`, at most: it may have several that came first.
    pub(crate) older_at_shadow: u16,
    /// SO_RCVTIMEO was set to a negative time, which the kernel keeps as "never wait" and does not tell.
    pub(crate) never_waits: bool,
}

impl Accelerated {
    /// What has a right to its flows.
    pub(crate) const fn flow_socket(&self, shadow: Descriptor) -> FlowSocket {
        FlowSocket { descriptor: shadow, inode: self.inode }
    }
}

impl UdpSocket {
    pub(crate) fn new(shadow: Descriptor, family: Family, is_nonblocking: bool, slot: Slot) -> UdpSocket {
        UdpSocket {
            shadow,
            numbers: 1,
            family,
            is_nonblocking,
            is_server: false,
            is_connected: false,
            hears_errors: false,
            service: Service::Open,
            ancillary: Ancillary::NONE,
            kept: None,
            memberships: Vec::new(),
            shadow_has_data: false,
            shadow_news: 0,
            shadow_is_older: false,
            is_behind_shadow: false,
            shadow_dropped: 0,
            older_at_shadow: 0,
            shadow_has_error: false,
            shadow_has_priority: false,
            has_report: false,
            is_corked: false,
            pending_error: 0,
            received_unlooked: 0,
            leftover: None,
            inherited: None,
            is_inherited: false,
            slot,
            own_addresses: Vec::new(),
            local: None,
            remote: None,
            holders: 0,
            tickets: Vec::new(),
            next_ticket: 0,
            kept_open: None,
            never_waits: false,
            stamp_ns: None,
            own_inode: inode_of(shadow).unwrap_or(0),
            is_settled: false,
            is_used: false,
            asks_stamps: false,
        }
    }

    /// What the kernel keeps of it, if that was read.
    pub(crate) const fn kept(&self) -> Option<&Kept> {
        self.kept.as_ref()
    }

    /// It was read, or is to be read again.
    pub(crate) fn keep(&mut self, kept: Option<Kept>) {
        self.ancillary = kept.map_or(Ancillary::NONE, |kept| kept.ancillary);
        self.hears_errors |= kept.is_some_and(|kept| kept.asks_for_errors);
        self.kept = kept;
    }

    /// What recvmsg tells.
    #[inline]
    pub(crate) const fn ancillary(&self) -> &Ancillary {
        &self.ancillary
    }

    /// The shadow may have a datagram.
    pub(crate) fn may_have_data(&mut self) {
        self.shadow_has_data = true;
        self.shadow_news = self.shadow_news.wrapping_add(1);
    }

    /// All that the shadow has came before what the ports will bring.
    pub(crate) fn read_shadow_first(&mut self) {
        self.may_have_data();
        (self.shadow_is_older, self.older_at_shadow) = (true, OLDER_MOST);
    }

    /// The endpoint whose queue may hold datagrams for it.
    #[inline]
    pub(crate) fn endpoint(&self) -> Option<EndpointId> {
        match &self.service {
            Service::Accelerated(accelerated) => Some(accelerated.endpoint),
            Service::Open | Service::Kernel(_) => self.leftover,
        }
    }

    /// The program may ask when a datagram arrived.
    pub(crate) fn wants_stamps(&self) -> bool {
        self.asks_stamps || self.ancillary.wants_times().is_some()
    }

    pub(crate) fn own_address_on(&self, ifindex: u32) -> Option<Ipv4Addr> {
        self.own_addresses.iter().find(|(of, _)| *of == ifindex).map(|(_, address)| *address)
    }

    /// What is true of it is known here alone: it is accelerated, or was and has datagrams from then.
    pub(crate) const fn is_answered_here(&self) -> bool {
        self.is_accelerated() || self.leftover.is_some()
    }

    pub(crate) fn inode(&self) -> Option<u64> {
        match &self.service {
            Service::Accelerated(accelerated) => Some(accelerated.inode),
            Service::Open | Service::Kernel(_) => None,
        }
    }

    /// It was inherited, and whichever process uses it first has it.
    pub(crate) fn is_free(&self) -> bool {
        self.inherited.as_ref().is_some_and(|inherited| inherited.is_free)
    }

    /// The kernel may choose among several at its port.
    pub(crate) fn has_reuse_port(&self) -> bool {
        self.kept().is_some_and(|kept| kept.options.reuse_port)
    }

    /// Frames of it come to ports.
    pub(crate) const fn has_flows(&self) -> bool {
        matches!(&self.service, Service::Accelerated(accelerated) if !accelerated.flows.is_empty())
    }

    #[inline]
    pub(crate) const fn is_accelerated(&self) -> bool {
        matches!(self.service, Service::Accelerated(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_keeps_what_a_datagram_needs_in_two_lines_of_the_cache() {
        use std::mem::{offset_of, size_of};
        let first_end = offset_of!(UdpSocket, slot);
        assert!(first_end + size_of::<Slot>() <= 128, "{first_end}");
    }
}
