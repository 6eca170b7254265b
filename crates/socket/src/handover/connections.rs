//! TCP connections that several processes have, by fork(2).
//!
//! One that is carried stays with the process that carries it, which goes on. Before its first use of a copy a child *claims* the connection: it says
//! so in memory that both have, and the parent's timer thread gives it to the kernel for good. A child that never uses it (one that writes a dump, or executes
//! something) costs the parent nothing. Where the parent has closed its copy, as servers do that have a child for each connection, the child adopts it
//! like one of its own.
//!
//! ```text
//! word of a connection   63-8  inode   2  others may have it   1  the parent has closed its copy   0  a child has claimed it
//! ```
//! A connection has its word from the first fork on that finds it open. A word with another inode belongs to another connection: words are given out anew after
//! [`WORDS`] connections.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use nearwire_frames::FlowSocket;
use nearwire_sys::descriptor::{Descriptor, inode_of, stays_open};
use nearwire_sys::shared_words::SharedWords;

use super::answer::STREAM_ANSWER_WITHIN;
use super::shared_streams::{Access, CLAIMED, CLOSED, Copied, INODE_SHIFT, InheritedStream, OTHERS, WORDS};
use crate::direct;
use crate::epoll::Events;
use crate::host::Host;
use crate::kept::peer_address;
use crate::reason::Reason;
use crate::sockets::Sockets;

impl<H: Host> Sockets<H> {
    /// fork(2) follows. Whether the child gets connections that it is to claim. `has_others`: earlier children live.
    pub(super) fn share_streams(&mut self, has_others: bool) -> bool {
        // A pause for datagrams would have the kernel take its frames.
        let is_paused = self.table.sockets().any(|socket| socket.has_flows());
        for (_, inherited) in self.children.streams.all_inherited() {
            inherited.say(OTHERS);
        }
        let Some(words) = self.children.family.words().cloned() else {
            self.fds_of_streams().into_iter().for_each(|fd| self.leave_stream(fd));
            return false;
        };
        let mut are_shared = false;
        for fd in self.fds_of_streams() {
            if direct::is_for_good(fd) {
                self.children.streams.with_children.take(fd);
            } else if !self.children.streams.is_inherited(fd) {
                let is_shared = self.share_stream(fd, &words, has_others).is_some();
                are_shared |= is_shared;
                if !is_shared {
                    self.leave_stream(fd);
                }
                if is_paused {
                    self.release_where_routed(fd, Reason::AfterFork);
                }
            }
        }
        if self.streams.are_carried() {
            // Claims are answered also while the program computes: there is a timer thread.
            self.children.has_what_stays = true;
            self.answers_children(true);
        }
        are_shared
    }

    fn fds_of_streams(&self) -> Vec<i32> {
        let is_stream = |fd: &i32| self.find(*fd).is_some_and(|id| self.get(id).is_none());
        (0..self.table.fds_end()).filter(is_stream).collect()
    }

    /// `None`: it is none that a child could use by itself.
    fn share_stream(&mut self, fd: i32, words: &SharedWords, has_others: bool) -> Option<()> {
        if self.children.streams.awaited.contains_key(&fd) {
            return None;
        }
        match self.children.streams.with_children.get(fd) {
            Some(copied) if has_others => _ = copied.word(words)?.fetch_or(OTHERS, Relaxed),
            Some(copied) => copied.word(words)?.store(copied.inode << INODE_SHIFT, Relaxed),
            None => {
                let copied = self.new_copy(fd)?;
                copied.word(words)?.store(copied.inode << INODE_SHIFT, Relaxed);
                self.children.streams.with_children.put(fd, copied);
            }
        }
        Some(())
    }

    fn new_copy(&mut self, fd: i32) -> Option<Copied> {
        let id = self.find(fd)?;
        let inode = match self.inode_of_stream(fd) {
            Some(inode) => inode,
            None => {
                let shadow = Descriptor::new(fd)?;
                // Listeners, and those to come, are no connections.
                peer_address(shadow)?;
                inode_of(shadow)?
            }
        };
        let at = self.children.streams.words_given % WORDS;
        self.children.streams.words_given += 1;
        Some(Copied { id, inode, at })
    }

    /// Before the first use of a connection that this process has from its parent. Whether it was that.
    #[inline]
    pub fn claim_stream(&mut self, fd: i32) -> bool {
        self.inherits && self.claim_inherited_stream(fd)
    }

    #[cold]
    fn claim_inherited_stream(&mut self, fd: i32) -> bool {
        let Some(inherited) = self.children.streams.take_inherited(fd) else { return false };
        if inherited.say(CLAIMED).is_some_and(|before| before & (CLAIMED | CLOSED) == 0)
            && let Some(claims) = inherited.parent.note_claim()
        {
            inherited.parent.await_answer(claims, STREAM_ANSWER_WITHIN, &self.host);
        }
        if let Some(shadow) = Descriptor::new(fd) {
            let socket = FlowSocket { descriptor: shadow, inode: inherited.of.inode };
            self.sets.handed_over(inherited.of.id, socket, Events::empty(), false);
        }
        match inherited.access() {
            Access::Shared => direct::allow_for_good(fd),
            Access::AfterParent => {
                self.children.streams.awaited.insert(fd, inherited);
                self.allow_first_calls(fd);
            }
            Access::Alone => self.allow_first_calls(fd),
        }
        true
    }

    /// Sets were inherited too, and connections in them may be registered nowhere in the kernel.
    pub(super) fn claim_registered_streams(&mut self) {
        let is_registered = |(_, inherited): &(i32, InheritedStream)| self.sets.has(inherited.of.id);
        let registered = self.children.streams.all_inherited().filter(is_registered).map(|(fd, _)| fd);
        for fd in registered.collect::<Vec<_>>() {
            self.claim_stream(fd);
        }
    }

    /// Who may use one beside this process, which is about to adopt it.
    pub(crate) fn stream_access(&mut self, fd: i32) -> Access {
        self.follow_children();
        if direct::is_for_good(fd) {
            return Access::Shared;
        }
        let Some(awaited) = self.children.streams.awaited.get(&fd) else { return Access::Alone };
        let access = awaited.access();
        if access != Access::AfterParent {
            self.children.streams.awaited.remove(&fd);
        }
        access
    }

    /// Gives the kernel the connections that children have claimed.
    pub(super) fn follow_claimed_streams(&mut self) {
        for fd in self.fds_of_streams() {
            if !direct::is_for_good(fd) && self.is_claimed(fd) {
                self.leave_stream_for(fd, Reason::ReadByChild);
                self.children.streams.claimed.insert(fd);
            }
        }
    }

    /// The kernel's side of a connection is about to be frozen, in which state its calls fail. `false`: a child has claimed the connection, and
    /// uses it by the kernel.
    ///
    /// A child that claims it from here on waits for the answer. It writes its claim and then reads whether claims are answered; this
    /// process writes that they are and then reads the claim: one of both sees what the other wrote.
    pub(crate) fn expect_claim_of(&mut self, fd: i32) -> bool {
        if self.word_of_stream(fd).is_none() {
            return true;
        }
        self.answers_children(true);
        if !self.is_claimed(fd) {
            return true;
        }
        self.answer_claim_of(fd);
        self.leave_stream_for(fd, Reason::ReadByChild);
        self.children.streams.claimed.insert(fd);
        false
    }

    /// The kernel keeps the connection, which a child may claim meanwhile and wait for: the timer thread answers it.
    pub(crate) fn answer_claim_of(&mut self, fd: i32) {
        if self.word_of_stream(fd).is_some() {
            self.children.wants_timer_thread = true;
            self.wish_for_timer_thread();
        }
    }

    fn is_claimed(&self, fd: i32) -> bool {
        self.word_of_stream(fd).is_some_and(|word| word.load(SeqCst) & CLAIMED != 0)
    }

    /// The word by which children of this process hear of a connection, if some have it.
    fn word_of_stream(&self, fd: i32) -> Option<&AtomicU64> {
        self.children.streams.with_children.get(fd)?.word(self.children.family.words.get()?)
    }

    /// The program has done something with a connection after which others may have it, and nobody knows who.
    pub(crate) fn tell_children_of_others(&mut self, fd: i32) {
        self.children.streams.claimed.remove(&fd);
        if let Some(word) = self.word_of_stream(fd) {
            word.fetch_or(OTHERS, SeqCst);
        }
    }

    /// An fd is about to be closed, and the kernel has its connection.
    pub(crate) fn tell_children_of_close(&mut self, fd: i32) {
        let is_followed = self.children.streams.claimed.remove(&fd) || !direct::is_for_good(fd);
        if let Some(word) = self.word_of_stream(fd).filter(|_| is_followed) {
            word.fetch_or(CLOSED, SeqCst);
        }
        let streams = &mut self.children.streams;
        streams.with_children.take(fd);
        streams.take_inherited(fd);
        streams.awaited.remove(&fd);
    }

    /// Whether the end of this process, or the program that it executes, takes nothing from a connection that it has from its parent.
    #[must_use]
    pub fn is_parents_stream(&self, fd: i32, before_exec: bool) -> bool {
        let is_inherited = self.children.streams.is_inherited(fd);
        is_inherited && !(before_exec && Descriptor::new(fd).is_some_and(stays_open))
    }
}
