//! What poll(2) would say of an accelerated socket.

use rustix::event::PollFlags;

use crate::epoll::Events;
use crate::epoll_sets::Sets;
use crate::host::Host;
use crate::id::SocketId;
use crate::socket::{Service, Socket};
use crate::sockets::{EngineState, Sockets};

impl<H: Host> Sockets<H> {
    /// What is true of a socket now.
    pub fn readiness_of(&mut self, id: SocketId) -> Events {
        let (_, mut state) = self.sets_and_state();
        state(id)
    }

    /// The same by fd, after taking in what the ports have; `None`: the kernel knows.
    pub fn readiness(&mut self, fd: i32) -> Option<Events> {
        let id = self.accelerated(fd)?;
        Some(self.readiness_of(id))
    }

    /// The socket that an fd names, if it is accelerated, or now is because the program waits for it, or has datagrams from when
    /// it was.
    pub fn accelerated(&mut self, fd: i32) -> Option<SocketId> {
        self.claim_fd(fd);
        self.follow_shared_sockets();
        let id = self.find(fd)?;
        self.use_socket(id);
        if matches!(self.get(id)?.service, Service::Open) {
            self.settle_if_bound(fd);
        }
        self.get(id)?.is_answered_here().then_some(id)
    }

    /// Whether it is not decided yet who serves a socket.
    #[must_use]
    pub fn is_undecided(&self, fd: i32) -> bool {
        self.find(fd).and_then(|id| self.get(id)).is_some_and(|socket| matches!(socket.service, Service::Open))
    }

    /// A socket whose port the kernel chose is decided when the program first waits for it.
    pub(crate) fn settle_if_bound(&mut self, fd: i32) {
        let Some(id) = self.find(fd) else { return };
        let Some(socket) = self.get(id) else { return };
        let awaits = socket.is_young() || socket.awaits_first_use();
        if matches!(socket.service, Service::Open) && socket.ends.has_port() && !awaits {
            self.settle(id, socket.ends.far());
        }
    }

    /// The sets, and the state of sockets beside them.
    pub(crate) fn sets_and_state(&mut self) -> (&mut Sets, impl FnMut(SocketId) -> Events) {
        let Sockets { sets, table, engine, streams, .. } = self;
        (sets, |id: SocketId| match table.get_mut(id) {
            Some(socket) => state(socket, engine),
            None => match engine {
                EngineState::Open(engine) => streams.state_of(id, engine),
                EngineState::Closed | EngineState::Refused(..) => Events::empty(),
            },
        })
    }
}

/// As `datagram_poll` of `net/core/datagram.c`: a UDP socket can always send.
fn state<H: Host>(socket: &mut Socket, engine: &EngineState<H>) -> Events {
    const READABLE: Events = Events::IN.union(Events::RDNORM);
    let mut state = if socket.is_accelerated() {
        Events::SENDABLE
    } else {
        Events::from_bits_truncate(u32::from(socket.shadow.all_events().bits()))
    };
    let waits = match (engine, socket.endpoint()) {
        (EngineState::Open(engine), Some(endpoint)) => engine.stack_ref().udp_waiting(endpoint) > 0,
        _ => false,
    };
    if socket.shadow.has_data || socket.shadow.has_error {
        // The watch tells what came, not what is left.
        socket.shadow.look();
        socket.shadow.has_error |= socket.shadow.pending_error != 0;
    }
    if waits || socket.shadow.has_data {
        state |= READABLE;
    }
    if socket.shadow.has_report && socket.is_accelerated() {
        let found = socket.shadow.events();
        socket.shadow.has_report = found.contains(PollFlags::ERR);
        socket.shadow.has_priority = found.contains(PollFlags::PRI);
    }
    if socket.shadow.has_error || socket.shadow.has_report {
        state |= Events::ERR;
        // SO_SELECT_ERR_QUEUE: programs that ask for nothing but PRI read the error queue by it (chronyd).
        state.set(Events::PRI, socket.shadow.has_priority);
    }
    state
}
