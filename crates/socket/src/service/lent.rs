//! Sockets that are lent to the kernel while others want the CPUs of the threads that wait for them.
//!
//! Where no thread can spin, a message by AF_XDP costs more CPU time than one by a socket of the kernel's: two system calls that wake and
//! kick, and caches that are cold behind each sleep. So `spin = "auto"`, which measures what passes most messages
//! ([`crate::wait::auto`]), has the kernel's own way among those that it tries. The flows of the socket are closed then, its calls go to
//! the kernel at once ([`crate::direct`]), and one in 4 ms asks whether that is still the fastest way.
//!
//! A lent socket is undecided like a young one: whatever else is done with it finds it as the kernel has it, and settles it.

use crate::direct;
use crate::engine::Engine;
use crate::engines::SETTLED_TICKS;
use crate::host::Host;
use crate::id::SocketId;
use crate::reason::Reason;
use crate::socket::{Lent, Order, Service, Socket};
use crate::sockets::Sockets;
use crate::wait::{lends_only_connections, now_ns};

/// More sockets than this one thread does not lend: for each the agent has to close a flow, and to open it again.
const SOCKETS_AT_ONCE: usize = 4;

impl<H: Host> Sockets<H> {
    /// Lends the accelerated sockets and connections that these fds name, or that are in the sets that they name, to the kernel. What cannot
    /// be lent stays.
    pub fn lend(&mut self, fds: &[i32]) {
        let only_connections = lends_only_connections();
        let reason = if only_connections { Reason::SeveralAtOnce } else { Reason::CpusWanted };
        let mut are_lent = self.lend_streams(fds, reason);
        let has_many = |fd: &i32| self.sets.accelerated_in(*fd) > SOCKETS_AT_ONCE;
        // A wait for many asks each time, and to gather what belongs to them takes longer the more they are.
        if !only_connections && fds.len() <= SOCKETS_AT_ONCE && !fds.iter().any(has_many) {
            let component = self.all_of(fds, &[]);
            are_lent |= self.lend_these(component.sockets());
        }
        if are_lent {
            self.wait_for_late_frames();
        }
    }

    /// The same of one socket.
    pub fn lend_socket(&mut self, id: SocketId) {
        if self.lend_these(&[id]) {
            self.wait_for_late_frames();
        }
    }

    /// The thread is about to sleep in the kernel, and nobody may look at the ports: what is on its way to them is given to the kernel before.
    fn wait_for_late_frames(&mut self) {
        let begun_ticks = self.host.ticks();
        while self.host.ticks().wrapping_sub(begun_ticks) < SETTLED_TICKS {
            self.take_in_all_frames();
            self.engine().into_iter().for_each(Engine::give_late_segments);
        }
    }

    /// Whether any was.
    fn lend_these(&mut self, ids: &[SocketId]) -> bool {
        let mut are_lent = false;
        if ids.len() > SOCKETS_AT_ONCE || self.has_children() || self.inherits {
            return are_lent;
        }
        for id in ids.iter().copied() {
            if self.get(id).is_some_and(may_be_lent) && self.engine_ref().is_some_and(|engine| !engine.is_overflowing())
            {
                self.lend_now(id);
                are_lent = true;
            }
        }
        are_lent
    }

    fn lend_now(&mut self, id: SocketId) {
        self.hand_over(id, Reason::CpusWanted);
        let Some(socket) = self.get_mut(id) else { return };
        if !matches!(&socket.service, Service::Kernel(why) if why.reason == Reason::CpusWanted) {
            return;
        }
        socket.lent = Some(Lent::by_this_thread(now_ns()));
        // It has been used.
        socket.kernel_first = 0;
        socket.service = Service::Open;
        self.tell(id);
    }

    /// A call is about to ask the kernel. Where the socket is lent to it, whether it stays so is asked now.
    pub(crate) fn look_at_lent(&mut self, id: SocketId) {
        let Some(socket) = self.get_mut(id).filter(|socket| socket.is_lent() && socket.leftover.is_none()) else {
            return;
        };
        let (fd, now_ns) = (socket.shadow.fd.number(), now_ns());
        let Some(lent) = &mut socket.lent else { return };
        if lent.stays(fd, now_ns) {
            self.allow_calls(id, now_ns);
        } else {
            self.settle_lent(id);
        }
    }

    /// All calls that were allowed on a lent socket were made.
    pub fn ask_about_lent(&mut self, fd: i32) {
        match self.find(fd).filter(|id| self.get(*id).is_some_and(Socket::is_lent)) {
            Some(id) => self.look_at_lent(id),
            None => _ = direct::end(fd),
        }
    }

    fn allow_calls(&mut self, id: SocketId, now_ns: u64) {
        let Some(socket) = self.get_mut(id).filter(|socket| socket.file.fds == 1) else { return };
        if let Some(lent) = &mut socket.lent {
            let calls = lent.allow_more(now_ns);
            direct::allow(socket.shadow.fd.number(), calls);
        }
    }

    fn settle_lent(&mut self, id: SocketId) {
        let Some(socket) = self.get_mut(id) else { return };
        socket.read_ends();
        let (has_port, far) = (socket.ends.has_port(), socket.ends.far());
        if has_port {
            self.settle(id, far);
        } else {
            // Disconnected, it has no address until it sends.
            self.end_lending(id);
        }
        if self.get(id).is_some_and(Socket::is_lent) {
            self.allow_calls(id, now_ns());
        }
    }

    /// Before a lent socket is settled. `false`: it stays lent, as a thread may sleep in a call of the kernel's.
    pub(super) fn end_lending(&mut self, id: SocketId) -> bool {
        let Some(socket) = self.get_mut(id) else { return false };
        if !direct::end(socket.shadow.fd.number()) {
            return false;
        }
        socket.lent = None;
        true
    }

    /// Something is about to happen to a lent socket that calls which go to the kernel at once would not see. Where it cannot be taken back
    /// the kernel keeps it.
    pub(crate) fn end_lending_for_all(&mut self, id: SocketId) {
        if !self.get(id).is_some_and(Socket::is_lent) {
            return;
        }
        self.settle_lent(id);
        if let Some(socket) = self.get_mut(id).filter(|socket| socket.is_lent()) {
            socket.lent = None;
            socket.service = Service::Kernel(Reason::CpusWanted.into());
            self.tell(id);
        }
    }

    /// The kernel serves a socket. Where nothing changes that any more, its calls need not ask again.
    pub(crate) fn let_calls_pass(&self, id: SocketId) {
        let Some(socket) = self.get(id) else { return };
        let Service::Kernel(why) = &socket.service else { return };
        let may_come_back = matches!(why.reason, Reason::SharedSocket | Reason::AfterFork | Reason::NotUsed);
        let is_shared = socket.is_inherited || socket.inherited.is_some() || self.inherits;
        if !may_come_back && !is_shared && socket.leftover.is_none() {
            direct::allow_for_good(socket.shadow.fd.number());
        }
    }
}

/// What others may have a part in stays: who shares its port or its fd would have to be asked each time.
fn may_be_lent(socket: &Socket) -> bool {
    let is_plain = socket.kept().is_some_and(|kept| kept.ancillary.wants_times().is_none()) && !socket.may_share_port();
    is_plain
        && socket.is_accelerated()
        && socket.leftover.is_none()
        && socket.file.fds == 1
        && !socket.is_inherited
        && socket.inherited.is_none()
        && !socket.shadow.has_error
        && !socket.shadow.is_corked
        && socket.shadow.order == Order::QueueFirst
}
