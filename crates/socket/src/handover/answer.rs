//! How a process answers others while it computes.
//!
//! A child takes a socket from its parent (*claims* it) when it first reads. What waits with the parent then, in its rings or its queues, is
//! the child's too, and the parent may not call for long. So a process whose children may claim something has a timer thread from its
//! first call after the fork: a claim rings its bell, and the child waits for the answer. Until that call the parent's flows are paused, and nothing
//! waits with it; where something had to stay that waited at the fork, the thread begins with the fork.
//!
//! Of a socket that several processes could use first the agent says that another one uses it too. The thread hears that as well.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::time::Duration;

use nearwire_sys::descriptor::Descriptor;

use super::Children;
use super::parent::{ANSWERED, Parent};
use crate::bell::Bell;
use crate::engine::Engine;
use crate::engines::Wish;
use crate::host::Host;
use crate::id::SocketId;
use crate::socket::Socket;
use crate::sockets::Sockets;

/// A parent that is stopped keeps a child no longer. Long, for hosts on which a thread takes its time to start.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// The same of a connection that the parent carries: until it is given back, calls on it fail. A parent may have much to give back, on a host with no CPU left.
pub(super) const STREAM_ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// The same of another process that the agent tells. A process that has nothing does not answer, so the first use of such a socket takes this long.
const GIVEN_BACK_WITHIN: Duration = Duration::from_millis(5);
const ANSWER_LOOKED_FOR_EVERY: Duration = Duration::from_micros(20);

impl<H: Host> Sockets<H> {
    /// What the timer thread waits for; `None`: the kernel has no descriptor for it.
    pub fn bell(&mut self) -> Option<Arc<Bell>> {
        self.children.family.bell()
    }

    /// How often children have claimed something of this process.
    #[must_use]
    pub fn claims(&self) -> u64 {
        self.children.claimed()
    }

    /// Whether the timer thread answers children from now on: they wait for it then, also while it starts.
    pub fn answers_children(&self, is_so: bool) {
        if let Some(answered) = self.answered() {
            let _ = answered.fetch_update(SeqCst, SeqCst, |answered| Some(if is_so { answered.max(1) } else { 0 }));
        }
    }

    /// exec(2) follows: the timer thread ends with the program, and none begins. If it fails, the program's next call says that there is one.
    pub(super) fn leave_children_unanswered(&mut self) {
        self.children.answered_before_exec |= self.answered().is_some_and(|answered| answered.load(Acquire) > 0);
        self.answers_children(false);
        self.children.wants_timer_thread = false;
        if self.siblings.wish == Wish::TimerThread {
            self.siblings.wish = Wish::Nothing;
        }
    }

    fn answered(&self) -> Option<&AtomicU64> {
        self.children.family.words.get().and_then(|words| words.get(ANSWERED))
    }

    /// Gives children what they claimed of this engine.
    pub fn answer_children(&mut self) {
        if self.children.paused {
            // The program's next call has the flows in force again.
            self.follow_claims();
        } else {
            self.follow_children();
        }
        // The question has shown that the agent is gone, or has brought news of it: nothing else will report that again.
        if self.engine_ref().is_some_and(Engine::is_told_by_holder) {
            self.look();
        }
    }

    /// All engines have answered what was claimed so far, and the timer thread answers what will be.
    pub fn answered_children(&self, claims: u64) {
        if let Some(answered) = self.answered() {
            answered.store(claims + 1, Release);
        }
    }

    /// What is readable when the agent has said something.
    pub fn agent(&self) -> Option<Descriptor> {
        self.host.agent()
    }

    /// Frames of a socket come to the ports from now on. By the agent, another process may want them that has the socket too.
    pub(crate) fn expect_others_at(&mut self, id: SocketId) {
        let may_have_others = |socket: &Socket| socket.has_flows() && (socket.is_inherited || self.children.forked);
        if self.get(id).is_some_and(may_have_others) && self.asks_agent() {
            self.children.wants_timer_thread = true;
            self.wish_for_timer_thread();
        }
    }

    /// Another process has used the socket, and hears of this one by the agent: what waits there comes to the shadow.
    pub(super) fn await_what_waits_elsewhere(&self, id: SocketId) {
        let Some(socket) = self.get(id).filter(|socket| socket.is_shared_with_others()) else { return };
        // Nothing in time: nothing waits, or it comes later.
        self.host.await_readable(socket.shadow.fd, GIVEN_BACK_WITHIN);
    }

    /// Has the timer thread begun.
    pub(super) fn wish_for_timer_thread(&mut self) {
        if self.children.wants_timer_thread && self.siblings.wish == Wish::Nothing {
            self.children.wants_timer_thread = false;
            self.siblings.wish = Wish::TimerThread;
        }
    }
}

impl Children {
    /// Whether something is claimed that this engine has not looked at, or there is nobody yet to look.
    #[inline]
    pub(super) fn want_something(&self) -> bool {
        self.wants_timer_thread
            || self.answered_before_exec
            || self.forked && (self.paused || !self.claims.is_empty() || self.claimed() != self.followed)
    }
}

impl Parent {
    /// Something was claimed: the parent looks at the words with its next call, or when its bell rings. How often that was so far.
    pub(super) fn note_claim(&self) -> Option<u64> {
        let said = self.words.as_ref()?.first()?;
        Some(said.fetch_add(1, SeqCst) + 1)
    }

    /// Rings the parent's bell, and waits until it has looked at this claim.
    pub(super) fn await_answer(&self, claims: u64, within: Duration, host: &impl Host) {
        let Some(answered) = self.words.as_ref().and_then(|words| words.get(ANSWERED)) else { return };
        let Some(bell) = self.bell.as_ref().filter(|_| answered.load(SeqCst) > 0) else { return };
        bell.ring();
        let time = || Duration::from_nanos(host.clocks().monotonic_ns);
        let until = time() + within;
        while answered.load(Acquire) <= claims && time() < until && !self.has_ended() {
            host.pause(ANSWER_LOOKED_FOR_EVERY);
        }
    }
}
