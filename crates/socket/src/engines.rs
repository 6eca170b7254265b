//! Several engines in a process, and which of them a socket belongs to.
//!
//! The first engine opens the others, its branches: each has queues of its own on the same interfaces ([`EnginePort::share`]), a stack of its
//! own, and the sockets of one thread. Numbers of sockets and sets are given out by the first engine only, so they mean
//! the same everywhere; in the tables of the others most places are empty.
//!
//! A socket is opened, bound and connected in the first engine, and its frames are the kernel's until a call uses it
//! ([`Sockets::used`]). The first thread that receives or waits decides: the socket moves to the engine of that thread once, has its
//! flows opened there, and stays. What moves is a [`Component`]: sockets, the epoll sets they are in, the sockets in those, and so on,
//! since a set and its sockets are looked at together. [`Sockets::first_use`] says what belongs together, and whether it can go: nothing
//! of it was waited for before, none needs times of frames, which the first engine has alone, and none shares its port with another
//! socket.
//!
//! ```text
//!  frames    of one in use: the filter's word in the kernel says the other engine from now on; what came before is taken in
//!  endpoint  leaves the stack with what waits at it, and enters the other
//!  shadow    leaves the watch, and enters the other
//!  sets      leave the table with all registrations, and enter the other
//! ```
//!
//! A frame of a socket in use that the program in the kernel had decided on before, and that is in no ring [`SETTLED_TICKS`] after, comes
//! by the kernel (`engine/late.rs`), behind those that came to the other engine meanwhile.
//!
//! Where two that were waited for in different engines meet (in one epoll set, in one poll), both go to the first engine for
//! good. So do sockets that come to share a port, and those that ask for times. For a capture and when an interface comes or goes,
//! the other engines end. What they had is in the first then, and may move once more.
//!
//! [`EnginePort::share`]: nearwire_frames::EnginePort::share

mod moving;

use std::net::SocketAddr;
use std::time::Duration;

use crate::epoll::SetId;
use crate::id::SocketId;

/// Engines that a process can have.
pub const ENGINES_MOST: usize = 8;
/// How long frames may be on their way to the ring that the filter said before, where others want the CPU: 100 us at 5 GHz, 500 at 1.
pub(crate) const SETTLED_TICKS: u64 = 500_000;
/// More sockets stay together in the first engine: to move so many takes some milliseconds, in which both engines stand still.
const SOCKETS_MOST: usize = 1024;
/// An engine that could not be opened is tried again after this time.
const OPEN_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What the sockets of one engine know of the process's other engines.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    /// Which engine this is: 0 for the first, which gives out the places of all sockets.
    pub(crate) number: u32,
    /// What calls ask for that only the caller, which has all engines, can do.
    pub(crate) wish: Wish,
    /// [`Wish::AllLook`] is wished, as soon as nothing else is.
    pub(crate) others_are_to_look: bool,
    /// Sockets that [`Wish::FirstEngine`] is about.
    pub(crate) wanted_in_first: Vec<SocketId>,
    /// In the first engine: sockets that others have, and where they are bound.
    pub(crate) away: Vec<(SocketId, Option<SocketAddr>)>,
    /// In the others: places of sockets that were closed there.
    pub(crate) freed: Vec<SocketId>,
    /// In the first: how many others there are.
    pub(crate) branches: u32,
    /// In the first: another could not be opened at this time of the monotonic clock.
    pub(crate) branch_failed_ns: Option<u64>,
}

/// What sockets ask for at the end of a call; see [`Sockets::take_wish`].
///
/// [`Sockets::take_wish`]: crate::Sockets::take_wish
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// Nothing.
    #[default]
    Nothing,
    /// Some sockets belong to the first engine from now on: [`Sockets::take_wanted_in_first`](crate::Sockets::take_wanted_in_first).
    FirstEngine,
    /// All that other engines have is the first engine's, and the others end: their ports are not those of the first any more, or
    /// one engine has to have all frames.
    OnlyFirstEngine,
    /// The kernel is to be asked who has ports that may be shared: [`Sockets::take_sharing_question`].
    ///
    /// [`Sockets::take_sharing_question`]: crate::Sockets::take_sharing_question
    AskSharing,
    /// Other processes may want sockets while the program computes: there is to be a timer thread, which answers them
    /// ([`Sockets::answer_children`](crate::Sockets::answer_children)).
    TimerThread,
    /// The agent said something, and this engine read it: all engines are to look ([`Sockets::look`](crate::Sockets::look)).
    AllLook,
}

/// What becomes of something that a thread uses first.
#[derive(Debug)]
pub enum FirstUse {
    /// It can go to the engine of that thread, with what belongs to it.
    Moves(Component),
    /// It belongs to the first engine.
    Stays,
    /// It has no address yet. It can go, too, with what belongs to it.
    Undecided(Component),
    /// It stays for now: there can be one engine only as long as a capture goes on.
    Later,
}

/// What another engine serves from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// A descriptor of the program's.
    Fd(i32),
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

    /// Whether one of them is in an epoll set.
    #[must_use]
    pub fn has_sets(&self) -> bool {
        !self.sets.is_empty()
    }
}

/// The members that were found so far, by their numbers, which are small.
#[derive(Debug, Default)]
struct Found {
    sockets: Vec<bool>,
    sets: Vec<bool>,
}

impl Found {
    /// Whether a member was not found before; from now on it was.
    fn is_new(&mut self, member: Member) -> bool {
        let (found, index) = match member {
            Member::Socket(id) => (&mut self.sockets, id.index()),
            Member::Set(set) => (&mut self.sets, set.index()),
        };
        if found.len() <= index {
            found.resize(index + 1, false);
        }
        found.get_mut(index).is_some_and(|found| !std::mem::replace(found, true))
    }
}
