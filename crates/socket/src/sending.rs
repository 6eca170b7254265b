//! Sending: one attempt, which never waits.
//!
//! A thread that is alone at the sockets has the kernel send at once. Where several are, each sends on a TX queue of its own,
//! and makes the kick when it keeps the others out no more ([`AfterSend`]).

mod calls;

use std::sync::Arc;

use nearwire_frames::EnginePort;

use crate::config::Config;
use crate::engine::EngineKick;
use crate::host::{Host, ThisHost};
use crate::send_run::{Held, SendRun};

/// A send longer than this is refused before the kernel looks at what it gathers (`udp_sendmsg`).
const DATAGRAM_BYTES_MOST: usize = 65_535;
/// Threads that are distinguished; those behind them share TX queues by chance.
const THREADS_MOST: usize = 64;

/// What became of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Send {
    /// Sent, or queued until [`Sockets::flush`].
    Done,
    /// The original call has to be made on the shadow.
    Kernel,
    /// It fails: `strict` is set, and the socket cannot be accelerated.
    Refused,
    /// The call fails with this error.
    Failed(i32),
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The one thread that uses the sockets at this time.
    Alone,
    /// One of several, with a number that no other living thread has.
    OneOf(usize),
    /// One of several, by its number, that was alone for some time: the others, or the timer thread, come seldom.
    AloneForNow(usize),
}

/// What a send leaves to be done when nobody is kept out, in this order.
pub struct AfterSend<H: Host = ThisHost> {
    /// To be made; what it gives is for [`Sockets::kicked`].
    pub kick: Option<EngineKick<H::Port>>,
    /// [`Sockets::look`] is due.
    pub looks: bool,
    /// Held datagrams whose deadline no thread watches yet: for the timer thread.
    pub unwatched: Option<Arc<Held>>,
}

/// How sends leave.
pub(crate) struct Leaving<P: EnginePort> {
    pub(crate) run: SendRun,
    /// The thread that sends is one of several.
    is_shared: bool,
    /// Threads that sent while they were several; the place is the TX queue.
    threads: Vec<usize>,
    kick: Option<EngineKick<P>>,
    looks: bool,
}

impl<P: EnginePort> Leaving<P> {
    /// Coalescing, where that is configured.
    pub(crate) fn new(config: &Config) -> Leaving<P> {
        let run = SendRun::new(!config.send_coalescing.is_zero());
        Leaving { run, is_shared: false, threads: Vec::with_capacity(THREADS_MOST), kick: None, looks: false }
    }

    /// Whether a datagram that was queued at this time is to be kicked now. Threads that send at the same time hold nothing: a
    /// kick of many frames takes long, and each makes its own beside the others'.
    #[inline]
    fn kicks(&mut self, now_ticks: u64) -> bool {
        self.is_shared || self.run.kicks(now_ticks)
    }

    /// See [`SendRun::holds_another`].
    #[inline]
    const fn holds_another(&self) -> bool {
        !self.is_shared && self.run.holds_another()
    }

    fn tx_queue_of(&mut self, thread: usize) -> usize {
        if let Some(tx_queue) = self.threads.iter().position(|known| *known == thread) {
            return tx_queue;
        }
        if self.threads.len() < THREADS_MOST {
            self.threads.push(thread);
            return self.threads.len() - 1;
        }
        // Threads' control blocks are pages apart.
        (thread >> 12) % THREADS_MOST
    }
}
