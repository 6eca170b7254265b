//! What poll(2) would say of an accelerated socket.

use nearwire_sys::descriptor::Descriptor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::epoll::Events;
use crate::epoll_sets::Sets;
use crate::host::Host;
use crate::id::SocketId;
use crate::sockets::{EngineState, Sockets};
use crate::udp_socket::{Service, UdpSocket};

impl<H: Host> Sockets<H> {
    /// What is true of a socket now.
    pub fn readiness_of(&mut self, id: SocketId) -> Events {
        let (_, mut state) = self.sets_and_state();
        state(id)
    }

    /// The same by fd, after taking in what the ports have; `None`: the kernel knows.
    pub fn readiness(&mut self, number: i32) -> Option<Events> {
        let id = self.accelerated(number)?;
        Some(self.readiness_of(id))
    }

    /// The socket that an fd names, if it is accelerated, or now is because the program waits for it, or has datagrams from when
    /// it was.
    pub fn accelerated(&mut self, number: i32) -> Option<SocketId> {
        self.claim_number(number);
        let id = self.find(number)?;
        self.use_socket(id);
        if matches!(self.get(id)?.service, Service::Open) {
            self.settle_if_bound(number);
        }
        self.get(id)?.is_answered_here().then_some(id)
    }

    /// Whether it is not decided yet who serves a socket.
    #[must_use]
    pub fn is_undecided(&self, number: i32) -> bool {
        self.find(number).and_then(|id| self.get(id)).is_some_and(|socket| matches!(socket.service, Service::Open))
    }

    /// A socket whose port the kernel chose is decided when the program first waits for it.
    pub(crate) fn settle_if_bound(&mut self, number: i32) {
        let Some(id) = self.find(number) else { return };
        let Some(socket) = self.get(id) else { return };
        if matches!(socket.service, Service::Open) && socket.local.is_some_and(|local| local.port() != 0) {
            self.settle(id, None);
        }
    }

    /// The sets, and the state of sockets beside them.
    pub(crate) fn sets_and_state(&mut self) -> (&mut Sets, impl FnMut(SocketId) -> Events) {
        let Sockets { sets, sockets, engine, .. } = self;
        (sets, |id: SocketId| match sockets.get_mut(id.index()) {
            Some(Some(socket)) => state(socket, engine),
            _ => Events::empty(),
        })
    }
}

/// As `datagram_poll` of `net/core/datagram.c`: a UDP socket can always send.
fn state<H: Host>(socket: &mut UdpSocket, engine: &EngineState<H>) -> Events {
    const READABLE: Events = Events::IN.union(Events::RDNORM);
    let mut state = if socket.is_accelerated() { Events::SENDABLE } else { kernel_state(socket.shadow) };
    let waits = match (engine, socket.endpoint()) {
        (EngineState::Open(engine), Some(endpoint)) => engine.stack_ref().udp_waiting(endpoint) > 0,
        _ => false,
    };
    if socket.shadow_has_data || socket.shadow_has_error {
        // The watch tells what came, not what is left.
        socket.look_at_shadow();
        socket.shadow_has_error |= socket.pending_error != 0;
    }
    if waits || socket.shadow_has_data {
        state |= READABLE;
    }
    if socket.has_report && socket.is_accelerated() {
        let found = socket.shadow_events();
        socket.has_report = found.contains(PollFlags::ERR);
        socket.shadow_has_priority = found.contains(PollFlags::PRI);
    }
    if socket.shadow_has_error || socket.has_report {
        state |= Events::ERR;
        // SO_SELECT_ERR_QUEUE: programs that ask for nothing but PRI read the error queue by it (chronyd).
        state.set(Events::PRI, socket.shadow_has_priority);
    }
    state
}

/// All that the kernel says of a socket.
#[cold]
fn kernel_state(socket: Descriptor) -> Events {
    Events::from_bits_truncate(u32::from(polled(socket, PollFlags::all()).bits()))
}

/// What poll(2) says at once; nothing, where it is refused.
fn polled(socket: Descriptor, asked: PollFlags) -> PollFlags {
    let mut polled = [PollFd::new(&socket, asked)];
    poll(&mut polled, Some(&Timespec::default())).map_or(PollFlags::empty(), |_| polled[0].revents())
}

impl UdpSocket {
    /// Asks the kernel what its shadow has.
    pub(crate) fn look_at_shadow(&mut self) {
        let found = self.shadow_events();
        self.shadow_has_data = found.contains(PollFlags::IN);
        self.shadow_is_older &= self.shadow_has_data;
        self.shadow_has_error = found.contains(PollFlags::ERR);
        self.shadow_has_priority = found.contains(PollFlags::PRI);
    }

    fn shadow_events(&self) -> PollFlags {
        polled(self.shadow, PollFlags::IN | PollFlags::PRI)
    }

    /// Whether the kernel has something to read for it, as the kernel says; nothing is noted.
    pub(crate) fn is_shadow_readable(&self) -> bool {
        self.shadow_events().contains(PollFlags::IN)
    }
}
