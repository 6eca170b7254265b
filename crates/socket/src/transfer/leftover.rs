//! What waited here when a socket became the kernel's: it is given back, or read before what the kernel has.

use crate::host::Host;
use crate::id::SocketId;
use crate::requeue::{Altered, requeue};
use crate::socket::{KERNEL_BYTES_OF_A_DATAGRAM, Memory, Socket};
use crate::sockets::Sockets;

impl<H: Host> Sockets<H> {
    fn drop_leftover(&mut self, id: SocketId, by_child: bool) {
        if self.get(id).is_none_or(|socket| socket.leftover.is_none()) {
            return;
        }
        self.put_into_kernels_sets(id, by_child);
        let Some((socket, engine)) = self.with_engine(id) else { return };
        if let Some(endpoint) = socket.leftover.take() {
            engine.stack().udp_close(endpoint);
            engine.unwatch_shadow(socket.shadow.fd);
            self.service_changed();
        }
    }

    /// Gives what waits at a socket back to the kernel. The watch reports it there, and sets that have reported it do not report it once more.
    /// `by_child`: as of [`Sockets::give_back`].
    pub(crate) fn give_waiting_back(&mut self, id: SocketId, by_child: bool) {
        self.give_back_as_far(id, by_child, Altered::Stays);
    }

    fn give_back_as_far(&mut self, id: SocketId, by_child: bool, altered: Altered) {
        // What has come meanwhile is reported.
        self.tell_of_shadows(&[]);
        let Some((socket, engine)) = self.with_engine(id) else { return };
        // What is still on its way is reported when it has come.
        if requeue(socket, engine, altered) && socket.shadow.is_readable() {
            self.tell_of_shadows(&[id]);
            if by_child {
                self.sets.take_out_of_kernels(id);
            }
        }
    }

    /// connect(2) is about to be called. What waits here goes to the shadow while that takes it: one that is connected takes nothing of others
    /// than its peer, and who inherits the socket could not read it when this process has closed it. Nothing is done for one that has a peer
    /// already, as the address of the call, which may point nowhere, is not read here and it may disconnect; or where a set would report once more
    /// what it has reported.
    pub fn connecting(&mut self, fd: i32) {
        let Some(id) = self.find(fd) else { return };
        if self.get(id).is_some_and(Socket::is_free) {
            // The stack of another process that has the flow would not know of the peer.
            self.leave_flow_of_others(id);
        }
        let is_unconnected = |socket: &Socket| socket.is_accelerated() && socket.ends.remote.is_none();
        if !self.get(id).is_some_and(is_unconnected) || self.sets.have_told(id) {
            return;
        }
        self.take_in_all_frames();
        let waiting = self.waiting(id);
        let Some(socket) = self.get(id).filter(|_| waiting > 0) else { return };
        let shadow = socket.shadow.fd;
        let before_bytes = Memory::ReceivedBytes.of(shadow);
        self.give_waiting_back(id, false);
        let given = waiting.saturating_sub(self.waiting(id));
        let there_bytes = before_bytes.saturating_add(given.saturating_mul(KERNEL_BYTES_OF_A_DATAGRAM));
        // The loopback device delivers within the call that sends, unless another CPU or thread does its work.
        self.let_settle(|| Memory::ReceivedBytes.of(shadow) >= there_bytes);
    }

    /// How many datagrams wait in the stack for a socket.
    fn waiting(&mut self, id: SocketId) -> u32 {
        let Some((socket, engine)) = self.with_engine(id) else { return 0 };
        socket.endpoint().map_or(0, |endpoint| engine.stack_ref().udp_waiting(endpoint))
    }

    /// The process closes a socket that the kernel serves, ends or executes another program, and others have the socket: they read what waits
    /// here, behind what the kernel has.
    pub(crate) fn leave_leftover(&mut self, id: SocketId) {
        self.give_back_as_far(id, false, Altered::Goes);
        self.drop_leftover(id, false);
    }

    /// What had waited here was read, or some of it. Where the kernel has something to read, the leftover stays until that is read too:
    /// the kernel's set would tell once more of what was told here. What was shut down is readable for ever.
    #[cold]
    pub(super) fn leftover_was_read(&mut self, id: SocketId) {
        if !self.get(id).is_some_and(|socket| socket.shadow.is_readable()) {
            self.drop_leftover_if_read(id, false);
        }
    }

    /// Of a socket that the kernel serves, the last datagram that had waited here may be gone: what comes from now on only the kernel
    /// reports, so its sets and who polls have to ask the kernel. `by_child`: as of [`Sockets::give_back`].
    #[cold]
    pub(crate) fn drop_leftover_if_read(&mut self, id: SocketId, by_child: bool) {
        let Some((socket, engine)) = self.with_engine(id) else { return };
        if socket.leftover.is_some_and(|endpoint| engine.stack_ref().udp_waiting(endpoint) == 0) {
            self.drop_leftover(id, by_child);
        }
    }

    /// Whether datagrams that were taken before a socket became the kernel's wait to be read.
    #[must_use]
    pub fn has_leftover(&self, fd: i32) -> bool {
        self.find(fd).and_then(|id| self.get(id)).is_some_and(|socket| socket.leftover.is_some())
    }
}
