//! What a process knows of TCP connections that others have too (`connections.rs`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use nearwire_sys::shared_words::SharedWords;

use super::parent::{ANSWERED, Parent};
use crate::id::SocketId;

pub(super) const CLAIMED: u64 = 1;
pub(super) const CLOSED: u64 = 2;
/// A process may use it that does not look at the word: it is adopted by none.
pub(super) const OTHERS: u64 = 4;
pub(super) const INODE_SHIFT: u32 = 8;
/// Words of connections are behind all others.
pub(super) const FIRST_WORD: usize = ANSWERED + 1;
pub(super) const WORDS: usize = 1 << 16;

/// A connection of which several processes have an fd.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copied {
    pub(super) id: SocketId,
    pub(super) inode: u64,
    /// Where its word is, behind [`FIRST_WORD`].
    pub(super) at: usize,
}

impl Copied {
    pub(super) fn word(self, words: &SharedWords) -> Option<&AtomicU64> {
        words.get(FIRST_WORD + self.at)
    }
}

/// One that was inherited.
#[derive(Debug)]
pub(super) struct InheritedStream {
    pub(super) of: Copied,
    pub(super) parent: Arc<Parent>,
}

/// Who may use a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Others may use it too: the kernel's.
    Shared,
    /// The parent may use it too, until it closes its copy.
    AfterParent,
    /// Nobody else has it.
    Alone,
}

impl InheritedStream {
    /// Says something of it; what was said before. `None`: it is not known, as the parent has closed it long ago.
    pub(super) fn say(&self, what: u64) -> Option<u64> {
        let word = self.of.word(self.parent.words.as_ref()?)?;
        let is_it = |word: u64| (word >> INODE_SHIFT == self.of.inode).then_some(word | what);
        word.fetch_update(SeqCst, SeqCst, is_it).ok()
    }

    pub(super) fn access(&self) -> Access {
        match self.say(0) {
            Some(word) if word & OTHERS != 0 => Access::Shared,
            Some(word) if word & CLOSED != 0 || self.parent.has_ended() => Access::Alone,
            Some(_) => Access::AfterParent,
            None => Access::Shared,
        }
    }
}

/// By fd.
#[derive(Debug, Default)]
pub(super) struct Copies(Vec<Option<Copied>>);

impl Copies {
    pub(super) fn get(&self, fd: i32) -> Option<Copied> {
        *self.0.get(usize::try_from(fd).ok()?)?
    }

    pub(super) fn put(&mut self, fd: i32, copied: Copied) {
        let Ok(place) = usize::try_from(fd) else { return };
        if self.0.len() <= place {
            self.0.resize(place + 1, None);
        }
        self.0[place] = Some(copied);
    }

    pub(super) fn take(&mut self, fd: i32) -> Option<Copied> {
        self.0.get_mut(usize::try_from(fd).ok()?)?.take()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (i32, Copied)> {
        // Places are fds.
        self.0.iter().enumerate().filter_map(|(fd, copied)| Some((fd as i32, (*copied)?)))
    }
}

/// What a process has from one that it descends from, and has not used.
#[derive(Debug)]
pub(super) struct Inheritance {
    pub(super) copies: Copies,
    pub(super) parent: Arc<Parent>,
}

/// Connections of this process that others have, or had.
#[derive(Debug, Default)]
pub(crate) struct SharedStreams {
    /// That were open here at a fork.
    pub(super) with_children: Copies,
    /// How many had a word.
    pub(super) words_given: usize,
    pub(super) inherited: Vec<Inheritance>,
    /// By fd: inherited, used here, and adopted when the parent has closed its copy.
    pub(super) awaited: HashMap<i32, InheritedStream>,
    /// Fds of what children have claimed.
    pub(super) claimed: HashSet<i32>,
}

impl SharedStreams {
    /// What the child of a fork makes of it.
    pub(super) fn in_child(self, parent: &Arc<Parent>, was_prepared: bool) -> SharedStreams {
        let mut inherited = self.inherited;
        if was_prepared {
            inherited.push(Inheritance { copies: self.with_children, parent: parent.clone() });
        }
        SharedStreams { inherited, ..SharedStreams::default() }
    }

    pub(super) fn are_inherited(&self) -> bool {
        self.all_inherited().next().is_some()
    }

    pub(super) fn all_inherited(&self) -> impl Iterator<Item = (i32, InheritedStream)> {
        self.inherited.iter().flat_map(|from| {
            from.copies.all().map(|(fd, of)| (fd, InheritedStream { of, parent: from.parent.clone() }))
        })
    }

    pub(super) fn is_inherited(&self, fd: i32) -> bool {
        self.inherited.iter().any(|from| from.copies.get(fd).is_some())
    }

    pub(super) fn take_inherited(&mut self, fd: i32) -> Option<InheritedStream> {
        let take =
            |from: &mut Inheritance| from.copies.take(fd).map(|of| InheritedStream { of, parent: from.parent.clone() });
        self.inherited.iter_mut().find_map(take)
    }
}
