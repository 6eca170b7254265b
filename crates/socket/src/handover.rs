//! Sockets that other processes have too: by fork(2), by exec(2), or passed through a Unix socket.
//!
//! One process can serve a socket past the kernel, so one that another process reads goes back to the kernel.
//!
//! ```text
//!  before fork    filters are paused: the kernel's queue is the one queue, and what waited here goes there (`requeue.rs`)
//!  in the child   its copies of the engine's descriptors are closed; it keeps the maps of filters.
//!                 It sends by the shadow. When it first receives, polls or changes an inherited socket it *claims* it:
//!                 takes its filters out of the maps, and says so in memory that it shares with the parent
//!  in the parent  its next receive, poll or epoll_wait resumes the filters; it gives claimed sockets to the kernel
//! ```
//!
//! So a datagram that arrives while the parent does not look (it waits for the child, or has ended) is there for whoever
//! looks first, and a child that never looks costs the parent nothing. Where both look, the parent reads what came by
//! its ports until it learns of the claim; what waits then goes to the shadow.
//!
//! A child whose parent has ended accelerates an inherited socket itself when it first looks (`daemon`).

mod process;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use nearwire_frames::PortFilters;
use nearwire_frames::steering::FlowFilter;
use nearwire_sys::descriptor::Descriptor;
use nearwire_sys::shared_words::SharedWords;
use rustix::io::{FdFlags, fcntl_getfd};
use rustix::process::{Pid, getppid, test_kill_process};

use crate::descendants::Descendants;
use crate::id::SocketId;
use crate::reason::Reason;

/// Places of sockets that can be claimed: as many as there can be numbers.
const PLACES: usize = 1 << 16;
/// Of the word of a claim: its reason, and whether the child had closed epoll sets that it shared. Above stands the inode.
const CLAIM_REASON: u64 = 0x7f;
const CLAIMED_WITHOUT_SETS: u64 = 0x80;
const _: () = assert!(Reason::ALL.len() as u64 <= CLAIM_REASON, "every reason has its number");
/// Rounds of taking frames in before a fork: a flood does not hold it up.
const ROUNDS_MOST: u32 = 64;

/// What a process has to do with its children.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// There may be some.
    pub(crate) forked: bool,
    /// Whether there are.
    descendants: Descendants,
    /// This process, as children know it: a parent that ends at once has a child that getppid(2) misleads.
    pid: Option<Pid>,
    /// The filters are paused since a fork.
    paused: bool,
    /// Word 0: something was claimed. Then a word for each socket: its inode and the reason, or 0.
    words: Option<SharedWords>,
    /// Claimed by a child that shares this memory (vfork).
    claims: Vec<(SocketId, Reason)>,
}

impl Children {
    #[inline]
    fn want_something(&self) -> bool {
        let said = |words: &SharedWords| words.first().is_some_and(|word| word.load(Relaxed) != 0);
        self.forked && (self.paused || !self.claims.is_empty() || self.words.as_ref().is_some_and(said))
    }
}

/// The process that a socket was inherited from.
#[derive(Debug)]
pub(crate) struct Parent {
    pid: Option<Pid>,
    filters: Vec<Box<dyn PortFilters>>,
    words: Option<SharedWords>,
}

impl Parent {
    fn has_ended(&self) -> bool {
        // Of a grandparent it is not known when it ended without having been waited for.
        getppid() != self.pid && self.pid.is_none_or(|pid| test_kill_process(pid).is_err())
    }
}

/// What a child knows of a socket that its parent accelerates.
#[derive(Debug)]
pub(crate) struct Inherited {
    flows: Vec<FlowFilter>,
    inode: u64,
    parent: Arc<Parent>,
}

/// The number of the open file in the kernel's file system of sockets: no two sockets have the same.
pub(crate) fn inode_of(number: Descriptor) -> Option<u64> {
    rustix::fs::fstat(number).ok().map(|status| status.st_ino)
}

/// Whether the program that follows by exec(2) finds a number open.
pub(crate) fn stays_open(number: Descriptor) -> bool {
    fcntl_getfd(number).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC))
}
