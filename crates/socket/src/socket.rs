//! A socket of the program, in parts: its open file, its addresses, its shadow, and what UDP alone has.

mod lent;
mod open_file;
mod shadow;
mod udp;

use std::net::{IpAddr, SocketAddr};

use nearwire_frames::FlowSocket;
use nearwire_frames::steering::FlowFilter;
use nearwire_stack::{EndpointId, Family};
use nearwire_sys::descriptor::Descriptor;
use rustix::net::sockopt::socket_cookie;

use crate::handover::Inherited;
use crate::host::AgentPid;
use crate::kept::{Kept, local_address, peer_address};
use crate::reason::{Reason, Why};
use crate::status::Slot;

pub(crate) use lent::Lent;
pub(crate) use nearwire_sys::socket::{KERNEL_BYTES_OF_A_DATAGRAM, Memory};
pub(crate) use open_file::OpenFile;
pub use shadow::ShadowSaid;
pub(crate) use shadow::{Order, Shadow};
pub(crate) use udp::{Membership, Udp};

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

/// The addresses of a socket.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// What the program bound it to, with a port of its choice.
    pub(crate) bound_to: Option<SocketAddr>,
    pub(crate) is_connected: bool,
    pub(crate) local: Option<SocketAddr>,
    /// That of connect(2), or of the last one.
    pub(crate) remote: Option<SocketAddr>,
    /// The kernel has others by now, which nobody has asked it for.
    pub(crate) is_unread: bool,
    /// Where one that is not connected sent to last, as long as nobody has decided who serves it; or when that was decided.
    pub(crate) sent_to: Option<SocketAddr>,
}

impl Ends {
    /// Whom it is connected to.
    #[inline]
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.remote.filter(|_| self.is_connected)
    }

    /// Whether the program bound it to a port of its choice.
    pub(crate) const fn is_server(&self) -> bool {
        self.bound_to.is_some()
    }

    /// Whom it is connected to or sends to: what says by which interface its traffic goes. What a server sends to says nothing: others
    /// may send to it by all interfaces.
    pub(crate) fn far(&self) -> Option<SocketAddr> {
        self.peer().or(self.sent_to.filter(|_| !self.is_server()))
    }

    /// bind(2) or the kernel gave it a port.
    pub(crate) fn has_port(&self) -> bool {
        self.local.is_some_and(|local| local.port() != 0)
    }
}

/// See the module. In the order in which a datagram needs it: the first line of the cache says who serves it, the second has
/// what each call looks at and counts. With a thousand sockets every line is a miss.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Socket {
    pub(crate) service: Service,
    pub(crate) shadow: Shadow,
    pub(crate) family: Family,
    /// What is reported about it.
    pub(crate) slot: Slot,
    pub(crate) udp: Udp,
    pub(crate) file: OpenFile,
    pub(crate) ends: Ends,
    /// So many datagrams it has still to send and receive by the kernel before it may be accelerated.
    pub(crate) kernel_first: u16,
    /// The kernel serves it for a time.
    pub(crate) lent: Option<Lent>,
    /// It was connected, or has sent, before any call received from it or waited for it.
    pub(crate) is_client: bool,
    /// An endpoint that is no longer served, with datagrams that were taken before.
    pub(crate) leftover: Option<EndpointId>,
    /// The parent of this process accelerates it, or could.
    pub(crate) inherited: Option<Inherited>,
    /// The program has set options of it.
    pub(crate) has_options: bool,
    /// The process was born with it: others have it too.
    pub(crate) is_inherited: bool,
    /// The process had it when it last forked: children that live may have it.
    pub(crate) is_of_children: bool,
    /// The agent that knew at that time which processes have it; a later agent does not know.
    pub(crate) shared_by_agent: Option<AgentPid>,
    /// A thread has received from it or waited for it, or it has moved: it stays in its engine.
    pub(crate) is_settled: bool,
    /// A call has sent by it, received from it or waited for it. Until then an accelerated one has no flows.
    pub(crate) is_used: bool,
    kept: Option<Kept>,
}

impl Accelerated {
    /// What has a right to its flows.
    pub(crate) const fn flow_socket(&self, shadow: Descriptor) -> FlowSocket {
        FlowSocket { descriptor: shadow, inode: self.inode }
    }
}

impl Socket {
    pub(crate) fn new(
        shadow: Descriptor,
        family: Family,
        is_nonblocking: bool,
        slot: Slot,
        kernel_first: u16,
    ) -> Socket {
        Socket {
            service: Service::Open,
            shadow: Shadow::new(shadow),
            family,
            slot,
            udp: Udp::default(),
            file: OpenFile::new(shadow, is_nonblocking),
            ends: Ends::default(),
            kernel_first,
            lent: None,
            is_client: false,
            leftover: None,
            inherited: None,
            has_options: false,
            is_inherited: false,
            is_of_children: false,
            shared_by_agent: None,
            is_settled: false,
            is_used: false,
            kept: None,
        }
    }

    /// A client's, for which the kernel does what is to be done until it has sent and received enough, or one that is lent to the kernel.
    pub(crate) const fn is_young(&self) -> bool {
        self.kernel_first > 0 && (self.is_client || !self.ends.is_server()) && matches!(self.service, Service::Open)
            || self.is_lent()
    }

    /// The kernel serves it until that is not the faster way any more.
    pub(crate) const fn is_lent(&self) -> bool {
        self.lent.is_some() && matches!(self.service, Service::Open)
    }

    /// Bound to a port of the program's choice. A call that sends by it or connects it makes it a client's; one that receives from it or
    /// waits for it, a server's.
    pub(crate) const fn awaits_first_use(&self) -> bool {
        self.kernel_first > 0 && self.ends.is_server() && !self.is_client && matches!(self.service, Service::Open)
    }

    /// Asks the kernel whom it is connected to.
    pub(crate) fn read_peer(&mut self) {
        self.ends.remote = peer_address(self.shadow.fd);
        self.ends.is_connected = self.ends.remote.is_some();
        self.shadow.hears_errors |= self.ends.is_connected;
    }

    /// Whether other processes had it once.
    pub(crate) const fn was_shared(&self) -> bool {
        self.is_inherited || self.is_of_children
    }

    /// Asks the kernel for both of its addresses.
    pub(crate) fn read_ends(&mut self) {
        self.ends.local = local_address(self.shadow.fd).ok();
        self.ends.is_unread = false;
        self.read_peer();
    }

    /// Why nobody has decided who serves it.
    pub(crate) fn why_open(&self) -> Reason {
        if self.is_lent() {
            Reason::CpusWanted
        } else if self.awaits_first_use() {
            Reason::NotUsed
        } else if self.is_young() && (self.is_client || self.ends.is_unread || self.ends.far().is_some()) {
            Reason::FewDatagrams
        } else {
            Reason::NotBound
        }
    }

    /// What the kernel keeps of it, if that was read.
    pub(crate) const fn kept(&self) -> Option<&Kept> {
        self.kept.as_ref()
    }

    /// It was read, or is to be read again.
    pub(crate) fn keep(&mut self, kept: Option<Kept>) {
        self.udp.ancillary = kept.map(|kept| kept.ancillary).unwrap_or_default();
        self.shadow.hears_errors |= kept.is_some_and(|kept| kept.asks_for_errors());
        self.kept = kept;
    }

    /// The endpoint whose queue may hold datagrams for it.
    #[inline]
    pub(crate) fn endpoint(&self) -> Option<EndpointId> {
        match &self.service {
            Service::Accelerated(accelerated) => Some(accelerated.endpoint),
            Service::Open | Service::Kernel(_) => self.leftover,
        }
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

    /// The kernel serves it as other processes use it, which the agent knows.
    pub(crate) fn is_shared_with_others(&self) -> bool {
        matches!(&self.service, Service::Kernel(why) if why.reason == Reason::SharedSocket) && self.leftover.is_none()
    }

    /// The same of one with this cookie (`SO_COOKIE`).
    pub(crate) fn is_shared_with_others_as(&self, cookie: u64) -> bool {
        self.is_shared_with_others() && socket_cookie(self.shadow.fd) == Ok(cookie)
    }

    /// It was inherited, and whichever process uses it first has it.
    pub(crate) fn is_free(&self) -> bool {
        self.inherited.as_ref().is_some_and(|inherited| inherited.is_free)
    }

    /// The kernel may choose among several at its port.
    pub(crate) fn has_reuse_port(&self) -> bool {
        self.kept().is_some_and(|kept| kept.options.reuse_port)
    }

    /// Of all sockets at its port it is the one that gets what its peer sends (`compute_score` of net/ipv4/udp.c). The others may have
    /// flows, which would take that until it has its own.
    pub(crate) fn is_preferred_by_peer(&self) -> bool {
        self.has_reuse_port() && self.ends.is_connected
    }

    /// Others may have its port too: the kernel lets them.
    pub(crate) fn may_share_port(&self) -> bool {
        self.kept()
            .is_none_or(|kept| kept.options.reuse_address || kept.options.reuse_port || kept.options.device.is_some())
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
    use std::mem::{offset_of, size_of};

    use super::*;
    use crate::kept::Ancillary;

    #[test]
    fn layout_keeps_what_a_datagram_needs_in_two_lines_of_the_cache() {
        let first_end = offset_of!(Socket, slot) + size_of::<Slot>();
        assert!(first_end <= 128, "{first_end}");
        let told = offset_of!(Socket, udp) + size_of::<Ancillary>();
        assert!(told <= 128, "{told}");
    }
}
