//! Clients' sockets that are the kernel's until they have sent and received enough to be worth a flow.
//!
//! A flow costs two answers of the agent, or two changes of the table of flows, and the stack its endpoint: together more than a request and
//! its answer. Programs that open a socket for each request (resolvers, proxies) would be slower than by the kernel. Such a socket stays
//! undecided, as one without an address: its calls are the kernel's own, and each datagram is counted. The first call behind the last one that
//! is counted decides who serves it, as connect(2) or the first send does of others. So it is with the first socket that a process uses, which has
//! the ports opened.
//!
//! Some clients bind each socket to a port of their choice, as servers do. Which of the two has the socket is known when it is first used:
//! who sends by it or connects it is a client, who receives from it or waits for it a server, whose socket is accelerated at once.

use std::net::SocketAddr;

use nearwire_stack::Family;
use nearwire_sys::descriptor::Descriptor;

use crate::engines::SETTLED_TICKS;
use crate::host::Host;
use crate::id::SocketId;
use crate::kept;
use crate::socket::{Memory, Service, Socket};
use crate::sockets::{EngineState, Sockets};

/// Of so many datagrams one is none of a request and its answer: the socket is reported, with its addresses, and rules are asked. For sockets of a
/// single request that would be in vain.
const ASKED_ABOUT_AFTER: u16 = 3;

impl<H: Host> Sockets<H> {
    /// How many datagrams of a socket that is opened now the kernel is to send and receive first. As long as there is no port, none: to open
    /// one takes milliseconds, in which the kernel's buffer would overflow with what a socket that has begun to receive gets.
    pub(crate) fn kernel_first_of_new(&self) -> u16 {
        let has_no_port = match &self.engine {
            EngineState::Closed => true,
            EngineState::Open(engine) => engine.attached().next().is_none(),
            EngineState::Refused(..) => false,
        };
        if has_no_port { 0 } else { self.config.datagrams_by_kernel_first() }
    }

    /// A socket was bound to a port of the program's choice. Whether its first use decides who serves it: programs that choose a port at
    /// random for each request do what servers do, until they send. Not where it is the kernel's anyway, or where others may have its port:
    /// those are told at once that it is there.
    pub(crate) fn bound_for_later(&mut self, id: SocketId) -> bool {
        let Some(socket) = self.get(id).filter(|socket| socket.awaits_first_use()) else { return false };
        let is_loopback = socket.ends.bound_to.is_some_and(|to| to.ip().to_canonical().is_loopback());
        let may_share = socket.has_options && kept::may_share_port(socket.shadow.fd);
        let is_kernels =
            is_loopback || self.mistake.is_some() || self.has_io_uring || self.ask_rules(id, None).is_err();
        if is_kernels || may_share {
            return false;
        }
        if let Some(socket) = self.get_mut(id) {
            socket.ends.local = socket.ends.bound_to;
        }
        self.tell(id);
        true
    }

    /// The first use of a socket with a port of the program's choice connects it or sends by it.
    pub(crate) fn is_clients(&mut self, id: SocketId) {
        if let Some(socket) = self.get_mut(id) {
            socket.is_client = true;
        }
        self.tell(id);
    }

    /// A young socket was connected, or is not any more.
    pub(crate) fn connected_young(&mut self, id: SocketId) {
        let first = self.config.datagrams_by_kernel_first();
        let Some(socket) = self.get_mut(id) else { return };
        socket.ends.is_unread = true;
        if first - socket.kernel_first >= ASKED_ABOUT_AFTER { self.ask_about_young(id) } else { self.tell(id) }
    }

    /// The kernel sends a datagram of a young socket.
    pub(crate) fn send_young(&mut self, id: SocketId, to: Option<SocketAddr>) {
        let Some(socket) = self.get_mut(id) else { return };
        let is_v4 = matches!(socket.family, Family::V4);
        let to = to.filter(|to| to.port() != 0 && (to.is_ipv4() || !is_v4));
        socket.ends.sent_to = to.or(socket.ends.sent_to);
        self.count_by_kernel(id);
    }

    /// Whether an fd names a young socket, or, `sends`, one that a send makes young.
    #[must_use]
    pub fn is_young(&self, fd: i32, sends: bool) -> bool {
        let is_young = |socket: &Socket| socket.is_young() || sends && socket.awaits_first_use();
        self.find(fd).and_then(|id| self.get(id)).is_some_and(is_young)
    }

    /// Whether the first use of a socket is still to come, and decides who serves it.
    #[must_use]
    pub fn awaits_first_use(&self, fd: i32) -> bool {
        self.find(fd).and_then(|id| self.get(id)).is_some_and(Socket::awaits_first_use)
    }

    /// The kernel sends or has received a datagram of a socket.
    pub(crate) fn count_by_kernel(&mut self, id: SocketId) {
        let first = self.config.datagrams_by_kernel_first();
        let Some(socket) = self.get_mut(id).filter(|socket| socket.is_young() && !socket.is_lent()) else { return };
        socket.kernel_first -= 1;
        if socket.kernel_first == 0 || first - socket.kernel_first == ASKED_ABOUT_AFTER {
            self.ask_about_young(id);
        }
    }

    /// Asks the kernel for the addresses of a young socket, or of one that was until this call, and the rules whether it may be accelerated.
    fn ask_about_young(&mut self, id: SocketId) {
        let Some(socket) = self.get_mut(id) else { return };
        socket.read_ends();
        let (far, is_server) = (socket.ends.far(), socket.ends.is_server());
        // Nobody else has its port, so no other socket follows it to the kernel.
        if (far.is_some() || is_server)
            && let Err(why) = self.ask_rules(id, far)
            && let Some(socket) = self.get_mut(id)
        {
            socket.service = Service::Kernel(why);
        }
        self.tell(id);
    }

    /// Decides who serves young sockets without waiting for more datagrams, as if they had been used: other processes are to have them.
    pub(crate) fn settle_young(&mut self) {
        for id in self.ids() {
            if self.get(id).is_some_and(Socket::awaits_first_use) {
                self.settle(id, None);
            }
            self.end_lending_for_all(id);
            let Some(socket) = self.get_mut(id).filter(|socket| socket.is_young()) else { continue };
            socket.read_ends();
            let far = socket.ends.far();
            if far.is_some() || socket.ends.is_server() {
                (socket.kernel_first, socket.is_used) = (0, true);
                self.settle(id, far);
            }
        }
    }

    /// What the kernel has of a socket's datagrams leaves before what the ports send. A driver that frees frames late is not waited for.
    pub(crate) fn let_leave(&self, shadow: Descriptor) {
        self.let_settle(|| Memory::UnsentBytes.of(shadow) == 0);
    }

    /// Waits until the kernel has done what it does of itself, and no longer than that may take.
    pub(crate) fn let_settle(&self, is_settled: impl Fn() -> bool) {
        let begun_ticks = self.host.ticks();
        while !is_settled() && self.host.ticks().wrapping_sub(begun_ticks) < SETTLED_TICKS {
            std::hint::spin_loop();
        }
    }
}
