//! TCP connections of the program: adopted from the kernel, carried by the stack, and released to the kernel.
//!
//! ```text
//!  the kernel's  --listen: a frame came-->  --adopt: flow, freeze, facts-->  carried  --release: facts, thaw, flow-->  the kernel's, perhaps for good
//! ```
//! The kernel makes connections and ends them. A connection is carried while the program does nothing with it but send and receive. All else
//! has it released first, and the kernel does it: options, shutdown, close. What ends a connection comes to the kernel too: a segment with FIN,
//! RST or urgent data is not taken in; the connection is released and the segment sent to the kernel ([`Engine::give_ending`]).
//!
//! All connections are in the first engine. A call on a connection that the kernel has is counted ([`crate::direct`]), and none is adopted while
//! one is inside: a thread that sleeps in the kernel would not hear of what comes to the stack.
//!
//! A thread may compute for long: the timer thread does what is due then (`Sockets::drive_streams`).

mod asked;
mod bulk;
mod call;
mod change;
mod due;
mod hearing;
mod lent;
mod not_adopted;
mod one_thread;
mod options;
mod stays;
mod tell;
mod to_release;
mod transfer;
mod way;

use std::collections::HashMap;

use nearwire_frames::steering::ExactFlow;
use nearwire_stack::{ConnectionId, TcpReadiness};
use nearwire_sys::descriptor::Descriptor;

use crate::engine::Engine;
use crate::epoll::Events;
use crate::host::Host;
use crate::id::SocketId;
use crate::reason::Reason;
use crate::socket::Lent;
use crate::tcp::Carried;
use options::StreamOptions;

pub use call::StreamCall;
pub use due::{Pace, StreamsDue};
pub use options::options_of_connection;

/// This bit of a shadow's token in the watch says that it belongs to a connection; the other bits are its fd.
const CONNECTION_TOKEN: u32 = 1 << 31;

/// A connection that the stack carries.
#[derive(Debug)]
struct Stream {
    /// Its number in epoll sets.
    id: SocketId,
    shadow: Descriptor,
    inode: u64,
    carried: Carried,
    flow: ExactFlow,
    options: StreamOptions,
    /// What `Sockets::calls_served` was when it was adopted.
    calls_before: Option<u64>,
    /// How often bytes came to its shadow, with nothing at the port in between.
    slips: u32,
    /// It was given up, and a call has said so.
    has_told_error: bool,
}

impl Stream {
    /// Whether a call is to say that it was given up: the first one (`sock_error`).
    fn is_to_tell_error(&mut self) -> bool {
        !std::mem::replace(&mut self.has_told_error, true)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// By fd.
    places: Vec<Option<Box<Stream>>>,
    by_connection: HashMap<ConnectionId, i32>,
    by_id: HashMap<SocketId, i32>,
    /// Of each fd, the calls that the kernel gets the next time that a port cannot hold frames of its connection.
    calls_after_too_long: HashMap<i32, u16>,
    /// By fd.
    lent: HashMap<i32, Lent>,
    /// By fd, those that move bulk, or have.
    bulk: HashMap<i32, bulk::Moved>,
    /// By fd, those that are listened for.
    hearing: HashMap<i32, hearing::Hearing>,
    /// So often connections were adopted that were over soon, and no other: see `Sockets::learn_from_life`.
    short_lives: u32,
    /// So many connections heard nothing by their port, and no more did: see `Sockets::release_unheard`.
    unheard: u32,
    /// Some are to be released as soon as the kernel has a route.
    waits_for_route: bool,
    /// Those that the kernel does better.
    to_release: Vec<(ConnectionId, to_release::ToRelease)>,
    /// See `Sockets::release_where_routed`; CLOCK_MONOTONIC_RAW.
    without_agent_since_ns: Option<u64>,
    /// What ended a connection waits to be given to the kernel.
    is_releasing: bool,
    due: StreamsDue,
    /// Whose connections are carried by `auto`.
    one_thread: one_thread::OneThread,
    /// The place behind the last one whose round trip the page was told.
    told_behind: usize,
}

impl Streams {
    #[inline]
    fn get(&self, fd: i32) -> Option<&Stream> {
        self.places.get(usize::try_from(fd).ok()?)?.as_deref()
    }

    #[inline]
    fn get_mut(&mut self, fd: i32) -> Option<&mut Stream> {
        self.places.get_mut(usize::try_from(fd).ok()?)?.as_deref_mut()
    }

    fn put(&mut self, fd: i32, stream: Stream) {
        let Ok(place) = usize::try_from(fd) else { return };
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || None);
        }
        self.by_connection.insert(stream.carried.id(), fd);
        self.by_id.insert(stream.id, fd);
        self.places[place] = Some(Box::new(stream));
    }

    fn take(&mut self, fd: i32) -> Option<Box<Stream>> {
        let taken = self.places.get_mut(usize::try_from(fd).ok()?)?.take()?;
        self.by_connection.remove(&taken.carried.id());
        self.by_id.remove(&taken.id);
        Some(taken)
    }

    fn fd_of(&self, connection: ConnectionId) -> Option<i32> {
        self.by_connection.get(&connection).copied()
    }

    fn fds(&self) -> Vec<i32> {
        self.by_id.values().copied().collect()
    }

    /// Whether the stack carries any.
    #[inline]
    pub(crate) fn are_carried(&self) -> bool {
        !self.by_id.is_empty()
    }

    /// Whether the stack carries the one of this number.
    pub(crate) fn is_carried(&self, id: SocketId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// What poll(2) would say of one that is carried (`tcp_poll` of net/ipv4/tcp.c); its end is the kernel's to tell.
    pub(crate) fn state_of<H: Host>(&self, id: SocketId, engine: &Engine<H>) -> Events {
        let Some(stream) = self.by_id.get(&id).and_then(|fd| self.get(*fd)) else { return Events::empty() };
        let events = engine.stack_ref().tcp_readiness(stream.carried.id()).map_or(Events::empty(), events_of);
        if stream.has_told_error { events - Events::ERR } else { events }
    }
}

fn events_of(readiness: TcpReadiness) -> Events {
    let mut events = Events::empty();
    events.set(Events::IN | Events::RDNORM, readiness.readable);
    events.set(Events::OUT | Events::WRNORM, readiness.writable);
    events.set(Events::RDHUP, readiness.peer_closed);
    events.set(Events::HUP, readiness.hung_up);
    events.set(Events::ERR, readiness.error.is_some());
    events
}

/// What became of an attempt to adopt a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// The stack carries it.
    Carried,
    /// Not yet: it is tried again after some calls.
    Later,
    /// The kernel has it for good.
    Never(Reason),
}
