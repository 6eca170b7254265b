//! Closing of descriptors that somebody sent, and of connections, whose queues may have such.
//!
//! close(2) may take as long as somebody likes: a file does what its file system says, and one in user space may never answer; a socket of TCP
//! lingers; a Unix socket closes all that is in its queue. So the loop closes UDP sockets only, and leaves anything else to threads.
//!
//! A user whose descriptors are never closed has so many of these threads and no more, and keeps nobody else's waiting. What waits for them is
//! bounded because nothing more is read from who has as much ([`Disposal::is_full`]).

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::shadow::is_udp;

/// Threads of one user.
const THREADS_OF_USER_MOST: usize = 4;
/// Threads of all users. User identifiers are cheap to who has a range of them.
const THREADS_MOST: usize = 256;
/// With so many waiting, nothing more is read from a user. One packet may bring as many again.
const WAITING_OF_USER_MOST: usize = 256;
/// With so many, connections of the user are most of them. They are accepted, since others may wait behind them, but slowly.
const WAITING_OF_USER_FAR_TOO_MANY: usize = 1024;
const STACK_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Disposal {
    of_user: BTreeMap<u32, Arc<Mutex<Waiting>>>,
    threads: Arc<AtomicUsize>,
}

/// What is to be closed for a user.
#[derive(Debug, Default)]
struct Waiting {
    descriptors: VecDeque<OwnedFd>,
    threads: usize,
}

impl Disposal {
    /// Closes what came from a user.
    pub(super) fn take(&mut self, uid: u32, descriptors: impl IntoIterator<Item = OwnedFd>) {
        let slow: Vec<OwnedFd> = descriptors.into_iter().filter(|descriptor| is_udp(descriptor).is_err()).collect();
        if slow.is_empty() {
            return;
        }
        self.of_user.retain(|_, waiting| {
            let waiting = locked(waiting);
            !waiting.descriptors.is_empty() || waiting.threads > 0
        });
        let waiting = Arc::clone(self.of_user.entry(uid).or_default());
        locked(&waiting).descriptors.extend(slow);
        self.close_what_waits(uid, &waiting);
    }

    /// Whether nothing more is to be read from a user. The threads of users who had to wait for others' are started here.
    pub(super) fn is_full(&self, uid: u32) -> bool {
        let Some(waiting) = self.of_user.get(&uid) else { return false };
        if locked(waiting).descriptors.len() < WAITING_OF_USER_MOST {
            return false;
        }
        self.close_what_waits(uid, waiting);
        true
    }

    /// Whether even connections of a user are too many.
    pub(super) fn is_overflowing(&self, uid: u32) -> bool {
        let waiting = self.of_user.get(&uid);
        waiting.is_some_and(|waiting| locked(waiting).descriptors.len() >= WAITING_OF_USER_FAR_TOO_MANY)
    }

    fn close_what_waits(&self, uid: u32, waiting: &Arc<Mutex<Waiting>>) {
        let state = locked(waiting);
        let wanted = THREADS_OF_USER_MOST.saturating_sub(state.threads).min(state.descriptors.len());
        drop(state);
        for _ in 0..wanted {
            // Root's are not to wait for others'.
            if uid != 0 && self.threads.load(Ordering::Acquire) >= THREADS_MOST {
                return;
            }
            locked(waiting).threads += 1;
            self.threads.fetch_add(1, Ordering::AcqRel);
            let (threads, of_user) = (Arc::clone(&self.threads), Arc::clone(waiting));
            let close = move || {
                close_all(&of_user);
                threads.fetch_sub(1, Ordering::AcqRel);
            };
            // Without a thread it waits for the next that comes.
            if std::thread::Builder::new().stack_size(STACK_BYTES).spawn(close).is_err() {
                self.threads.fetch_sub(1, Ordering::AcqRel);
                locked(waiting).threads -= 1;
                return;
            }
        }
    }
}

/// One after the other, so that one that hangs keeps no other.
fn close_all(waiting: &Mutex<Waiting>) {
    loop {
        let mut state = locked(waiting);
        let Some(next) = state.descriptors.pop_front() else {
            state.threads -= 1;
            return;
        };
        drop(state);
        drop(next);
    }
}

fn locked(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
