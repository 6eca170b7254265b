//! Sockets that other processes have too: by fork(2), by exec(2), or passed through a Unix socket.
//!
//! One process can serve a socket past the kernel, so one that another process reads goes back to the kernel.
//!
//! ```text
//!  before fork    filters are paused: the kernel's queue is the one queue, and what waited here goes there (`requeue.rs`)
//!  in the child   its copies of the engines' descriptors are closed; it keeps the maps of filters. All is in its first engine.
//!                 It sends by the shadow. When it first receives, polls or changes an inherited socket it *claims* it:
//!                 removes its filters from the maps, and marks it as claimed in memory that it shares with the parent
//!  in the parent  its next receive, poll or epoll_wait resumes the filters; it gives claimed sockets to the kernel
//! ```
//!
//! Each engine of the parent does so for its own sockets, and they go on. What they know of children together is their [`Family`].
//!
//! So a datagram that arrives while the parent does not look (it waits for the child, or has ended) is there for the one
//! that looks first, and a child that never looks costs the parent nothing. If both look, the parent reads what came by
//! its ports until it learns of the claim; what waits then goes to the shadow.
//!
//! The kernel's sets report what is true when a socket comes into them. What an edge-triggered registration has reported already is taken out
//! again (`epoll_sets/ready.rs`); what a child has not been notified of since the fork it hears from a watch of its own.
//!
//! By ports of the agent a socket that no call has used before the fork is *free*: it belongs to the process that first receives from it,
//! polls it or waits for it in a set, which opens its flow as that of any other socket. When a second one does so the agent gives the
//! flow to the kernel and tells both. A process that ends or closes a socket that others have gives the kernel what waits here. Nothing is paused for
//! such a socket: it has no flow.
//!
//! A child whose parent has ended accelerates an inherited socket itself when it first looks (`daemon`).

mod answer;
mod connections;
mod parent;
mod process;
mod shared_streams;

pub(crate) use parent::Parent;
pub(crate) use shared_streams::Access;

use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use nearwire_frames::steering::FlowFilter;
use nearwire_sys::shared_words::SharedWords;
use rustix::process::Pid;

use crate::bell::Bell;
use crate::descendants::Descendants;
use crate::engine::Watch;
use crate::id::SocketId;
use crate::reason::Reason;

/// Of the word of a claim: its reason, and whether the child had closed epoll sets that it shared. Above stands the inode.
const CLAIM_REASON: u64 = 0x7f;
const CLAIMED_WITHOUT_SETS: u64 = 0x80;
const _: () = assert!(Reason::ALL.len() as u64 <= CLAIM_REASON, "every reason has its number");
/// Rounds of taking frames in before a fork: a flood does not hold it up.
const ROUNDS_MOST: u32 = 64;

/// What all engines of a process know of its children.
#[derive(Debug, Default)]
pub(crate) struct Family {
    /// Whether there are some.
    descendants: Mutex<Descendants>,
    /// Word 0: how often something was claimed. Then a word for each socket: its inode and the reason, or 0. Then `ANSWERED`, and a word for
    /// each connection (`connections.rs`).
    words: OnceLock<Arc<SharedWords>>,
    bell: OnceLock<Arc<Bell>>,
}

impl Family {
    /// What a panic left are descriptors still.
    fn descendants(&self) -> MutexGuard<'_, Descendants> {
        self.descendants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: there is no memory for them, and what children claim is not heard.
    fn words(&self) -> Option<&Arc<SharedWords>> {
        if self.words.get().is_none()
            && let Ok(words) =
                SharedWords::create(c"nearwire-claims", shared_streams::FIRST_WORD + shared_streams::WORDS)
        {
            let _ = self.words.set(Arc::new(words));
        }
        self.words.get()
    }

    fn bell(&self) -> Option<Arc<Bell>> {
        if self.bell.get().is_none()
            && let Ok(bell) = Bell::new()
        {
            let _ = self.bell.set(Arc::new(bell));
        }
        self.bell.get().cloned()
    }
}

/// What an engine has to do with children of its process.
#[derive(Debug, Default)]
pub(crate) struct Children {
    family: Arc<Family>,
    /// There may be some.
    forked: bool,
    /// This process, as children know it: a parent that ends at once has a child that getppid(2) misleads.
    pid: Option<Pid>,
    /// The filters are paused since a fork.
    paused: bool,
    /// What waits at some socket was not given to the kernel for the fork that is under way.
    has_what_stays: bool,
    /// There is to be a timer thread, which answers other processes.
    wants_timer_thread: bool,
    /// The timer thread answered when exec(2) was about to end it. It still does if that failed.
    answered_before_exec: bool,
    /// How often something had been claimed when this engine looked for its own sockets among it.
    followed: u64,
    /// Watches for what comes to sockets after a fork, for the child: epoll sets have reported what came before it.
    since_fork: Option<Watch>,
    streams: shared_streams::SharedStreams,
    /// Claimed by a child that shares this memory (vfork).
    claims: Vec<(SocketId, Reason)>,
}

impl Children {
    /// Those of another engine of the process.
    pub(crate) fn of_another_engine(&self) -> Children {
        Children { family: Arc::clone(&self.family), forked: self.forked, pid: self.pid, ..Children::default() }
    }

    /// Sockets came from another engine, which may not have followed what was claimed of them.
    pub(crate) fn take_from(&mut self, other: &Children) {
        if other.forked {
            (self.forked, self.pid, self.followed) = (true, other.pid, u64::MAX);
        }
    }

    /// How often something was claimed.
    fn claimed(&self) -> u64 {
        self.family.words.get().and_then(|words| words.first()).map_or(0, |count| count.load(Acquire))
    }
}

/// What a child knows of a socket that its parent accelerates.
#[derive(Debug)]
pub(crate) struct Inherited {
    flows: Vec<FlowFilter>,
    inode: u64,
    parent: Arc<Parent>,
    /// No process had used it at the fork, and the agent knows which is the first.
    pub(crate) is_free: bool,
}
