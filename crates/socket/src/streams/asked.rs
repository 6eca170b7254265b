//! What a program asks of a connection that is carried, and what it sets: the shadow keeps its options, and the stack goes by them.

use nearwire_agent::adoption::Set;
use nearwire_stack::TcpInfo;

use super::options::StreamOptions;
use crate::epoll::Events;
use crate::host::Host;
use crate::reason::Reason;
use crate::sockets::Sockets;

impl<H: Host> Sockets<H> {
    /// Options as the program has set them, of which the shadow of a connection that is carried shows other values. `None`: the kernel knows.
    #[must_use]
    pub fn set_of_stream(&self, fd: i32) -> Option<Set> {
        Some(self.streams.get(fd)?.carried.set())
    }

    /// Figures of a connection that is carried, with what has come until now; `None`: the kernel has it.
    pub fn stream_info(&mut self, fd: i32) -> Option<TcpInfo> {
        self.claim_stream(fd);
        self.drive_streams();
        let connection = self.streams.get(fd)?.carried.id();
        self.engine_ref()?.stack_ref().tcp_info(connection)
    }

    /// An option was set on the shadow. One that the stack has not gives the connection to the kernel.
    pub fn stream_option_set(&mut self, fd: i32) {
        self.drive_streams();
        let Some(stream) = self.streams.get(fd) else { return };
        let (id, is_v4) = (stream.id, stream.options.is_v4);
        let (shadow, connection, set) = (stream.shadow, stream.carried.id(), stream.carried.set());
        let before = stream.options.tcp;
        let Ok(mut options) = StreamOptions::read(shadow, is_v4, set.keepalive) else {
            self.release_where_routed(fd, Reason::KernelCall);
            return;
        };
        // These are not the program's to say.
        options.tcp.tells_bulk = before.tells_bulk;
        (options.tcp.device_cuts, options.tcp.device_joins) = (before.device_cuts, before.device_joins);
        let now_ns = self.time().exact_ns();
        if let Some(engine) = self.engine() {
            engine.stack().tcp_configure(connection, now_ns, |of_stack| *of_stack = options.tcp);
        }
        if let Some(stream) = self.streams.get_mut(fd) {
            stream.options = options;
        }
        // More or less may be readable, and there may be room.
        self.sets.raise(id, Events::ARRIVED | Events::SENDABLE);
        self.sleepers.wake_all();
        self.follow_streams();
    }

    /// TCP_QUICKACK was set.
    pub fn stream_acknowledges_quickly(&mut self, fd: i32, is_quick: bool) {
        self.drive_streams();
        let Some(connection) = self.streams.get(fd).map(|stream| stream.carried.id()) else { return };
        if let Some(engine) = self.engine() {
            engine.stack().tcp_set_quick_acknowledgement(connection, is_quick);
        }
        self.follow_streams();
    }
}
