//! Clients' sockets that are the kernel's until they have sent and received enough to be worth a flow.
//!
//! A flow costs two answers of the agent, or two changes of the table of flows, and the stack its endpoint: together more than a request and
//! its answer. Programs that open a socket for each request (resolvers, proxies) would be slower than by the kernel. Such a socket stays
//! undecided, as one without an address: its calls are the kernel's own, and each datagram is counted. The first call behind the last one that
//! is counted decides who serves it, as connect(2) or the first send does of others. So it is with the first socket that a process uses, which has
//! the ports opened.

use std::net::SocketAddr;

use nearwire_stack::Family;
use nearwire_sys::descriptor::Descriptor;
use nearwire_sys::socket::option_bytes;

use crate::engines::SETTLED_TICKS;
use crate::host::Host;
use crate::id::SocketId;
use crate::socket::{Service, Socket};
use crate::sockets::{EngineState, Sockets};

/// Of so many datagrams one is none of a request and its answer: the socket is told of, with its addresses, and rules are asked. For sockets of a
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

    /// Whether an fd names a young socket.
    #[must_use]
    pub fn is_young(&self, fd: i32) -> bool {
        self.find(fd).and_then(|id| self.get(id)).is_some_and(Socket::is_young)
    }

    /// The kernel sends or has received a datagram of a socket.
    pub(crate) fn count_by_kernel(&mut self, id: SocketId) {
        let first = self.config.datagrams_by_kernel_first();
        let Some(socket) = self.get_mut(id).filter(|socket| socket.is_young()) else { return };
        socket.kernel_first -= 1;
        if socket.kernel_first == 0 || first - socket.kernel_first == ASKED_ABOUT_AFTER {
            self.ask_about_young(id);
        }
    }

    /// Asks the kernel for the addresses of a young socket, or of one that was until this call, and the rules whether it may be accelerated.
    fn ask_about_young(&mut self, id: SocketId) {
        let Some(socket) = self.get_mut(id) else { return };
        socket.read_ends();
        // Nobody else has a port that the kernel chose, so no other socket follows it to the kernel.
        if let Some(far) = socket.ends.far()
            && let Err(why) = self.ask_rules(id, Some(far))
            && let Some(socket) = self.get_mut(id)
        {
            socket.service = Service::Kernel(why);
        }
        self.tell(id);
    }

    /// Decides who serves young sockets without waiting for more datagrams, as if they had been used: other processes are to have them.
    pub(crate) fn settle_young(&mut self) {
        for id in self.ids() {
            let Some(socket) = self.get_mut(id).filter(|socket| socket.is_young()) else { continue };
            socket.read_ends();
            let Some(far) = socket.ends.far() else { continue };
            (socket.kernel_first, socket.is_used) = (0, true);
            self.settle(id, Some(far));
        }
    }

    /// What the kernel has of a socket's datagrams leaves before what the ports send. A driver that frees frames late is not waited for.
    pub(crate) fn let_leave(&self, shadow: Descriptor) {
        let begun_ticks = self.host.ticks();
        while has_unsent(shadow) && self.host.ticks().wrapping_sub(begun_ticks) < SETTLED_TICKS {
            std::hint::spin_loop();
        }
    }
}

/// Whether the kernel has datagrams of a socket that no driver has sent yet (`SO_MEMINFO` of net/core/sock.c).
fn has_unsent(shadow: Descriptor) -> bool {
    // include/uapi/linux/sock_diag.h.
    const SK_MEMINFO_WMEM_ALLOC: usize = 2;
    const SO_MEMINFO: i32 = 55;
    let mut words = [0; 9 * 4];
    let read = option_bytes(shadow, libc::SOL_SOCKET, SO_MEMINFO, &mut words);
    let at = SK_MEMINFO_WMEM_ALLOC * 4;
    read.is_ok_and(|len_bytes| len_bytes > at) && words[at..at + 4] != [0; 4]
}
