//! Several engines in a process, and sockets that move between them.
//!
//! The first engine founds the others: each has queues of its own on the same interfaces ([`EnginePort::share`]), a stack of its
//! own, and the sockets of one thread. Numbers of sockets and sets are given out by the first engine only, so they mean
//! the same everywhere; in the tables of the others most places are empty.
//!
//! What moves is a [`Component`]: sockets, the epoll sets they are in, the sockets in those, and so on, since a set and its
//! sockets are looked at together. [`Sockets::component_of`] says what belongs together, and whether another engine can have
//! it: not what needs all interfaces or all datagrams of a port (groups, ports that several have), nor frame times, nor what other
//! processes have.
//!
//! ```text
//!  frames    the filter's word in the kernel says the other engine from now on; what came before is taken in
//!  endpoint  leaves the stack with what waits at it, and enters the other
//!  shadow    leaves the watch, and enters the other
//!  sets      leave the table with all registrations, and enter the other
//! ```
//!
//! A frame that the program in the kernel had decided on before, and that is in no ring [`SETTLED_TICKS`] after, is lost, as one
//! that finds a full ring.
//!
//! [`EnginePort::share`]: nearwire_frames::EnginePort::share

mod moving;

use std::time::Duration;

use crate::epoll::SetId;
use crate::id::SocketId;

/// Engines that a process can have.
pub const ENGINES_MOST: usize = 8;
/// How long frames may be on their way to the ring that the filter said before, where others want the CPU: 100 us at 5 GHz, 500 at 1.
const SETTLED_TICKS: u64 = 500_000;
/// Uses by one thread that make a socket its own, the first time; twice as many after each move, so that two threads that
/// take turns do not have it moved for ever.
const USES: u32 = 64;
/// Other threads must have come to the engine so often meanwhile: else nobody is in the way.
const CHANGES: u32 = 16;
/// Fewer uses by another thread are forgotten.
const USES_OF_OTHERS: u32 = 8;
/// More sockets stay together in the first engine: to move so many takes some milliseconds, in which both engines stand still.
const SOCKETS_MOST: usize = 1024;
/// An engine that could not be founded is tried again after this time.
const FOUND_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What sockets ask for at the end of a call; see [`Sockets::take_wish`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// Nothing.
    #[default]
    Nothing,
    /// What the call was about is used by the calling thread alone, which others keep waiting.
    OwnEngine,
    /// All that other engines have belongs to the first.
    FirstEngine,
    /// The same, and the others end: they have ports where there are none any more, or none where there are.
    OnlyFirstEngine,
    /// The kernel is to be asked who has ports that may be shared: [`Sockets::take_sharing_question`].
    AskSharing,
}

/// What another engine serves from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// A descriptor of the program's.
    Number(i32),
    /// A socket.
    Socket(SocketId),
}

/// What a component has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    /// A socket.
    Socket(SocketId),
    /// An epoll set.
    Set(SetId),
}

/// What belongs together; see the module.
#[derive(Debug, Default)]
pub struct Component {
    pub(crate) sockets: Vec<SocketId>,
    pub(crate) sets: Vec<SetId>,
}

impl Component {
    /// Its sockets.
    #[must_use]
    pub fn sockets(&self) -> &[SocketId] {
        &self.sockets
    }
}

/// Who uses a socket or a set while several threads use the engine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Its identity; 0: nobody's.
    thread: usize,
    /// In a row.
    uses: u32,
    /// Of the engine's gate, when it began.
    changes_before: u32,
    moves: u16,
    /// It is polled together with others, which have to be in the same engine: it moves with those.
    is_polled: bool,
}

impl Usage {
    /// Counts a use. Whether the thread has made it its own.
    fn note(&mut self, thread: usize, changes: u32) -> bool {
        if self.thread != thread {
            *self = Usage { thread, uses: 0, changes_before: changes, ..*self };
        }
        self.uses = self.uses.saturating_add(1);
        let is_own = self.uses >= USES << self.moves.min(16) && changes.wrapping_sub(self.changes_before) >= CHANGES;
        if is_own {
            *self = Usage { uses: 0, changes_before: changes, moves: self.moves.saturating_add(1), ..*self };
        }
        is_own
    }

    /// In another engine, where nobody has used it yet.
    pub(crate) fn begin_again(&mut self) {
        *self = Usage { moves: self.moves, is_polled: self.is_polled, ..Usage::default() };
    }

    pub(crate) const fn is_of_another(&self, thread: usize) -> bool {
        self.thread != thread && self.uses >= USES_OF_OTHERS
    }
}
