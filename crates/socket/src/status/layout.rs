//! Where each word of the status page is. The one table that writer and reader share.

use std::ffi::CStr;

use crate::reason::{Handed, worded};
use crate::wait::auto::{Doing, Why};

/// The name of the mapping; `/proc/PID/maps` shows `/memfd:nearwire-status (deleted)`.
pub const NAME: &CStr = c"nearwire-status";
/// The first word: seven letters and the version of this layout.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"nwstatu\x06");
/// The bytes of [`MAGIC`] that are the version.
pub(super) const VERSION_SHIFT: u32 = 56;

/// What stands for automatic spinning where a time stands.
pub(super) const SPIN_AUTO: u64 = u64::MAX - 1;

/// Sockets that have a slot.
pub const SLOTS: usize = 4096;
/// Interfaces that have a place.
pub const INTERFACES: usize = 16;
/// Engines that have a block of counters of their own.
pub const ENGINES: usize = 8;

worded! {
    /// What the engine of the process is doing.
    EngineState {
        /// No socket wanted it yet.
        Idle => "not started: no socket wanted it yet",
        /// It serves sockets.
        Running => "running",
        /// It could not start, for the reason beside.
        Failed => "not running",
        /// It ended: the program ends, or gave everything back.
        Ended => "ended",
    }
}

worded! {
    /// Who serves a socket.
    SocketState {
        /// Nobody: the slot is free.
        Free => "free",
        /// The kernel, for the reason beside.
        Kernel => "kernel",
        /// The engine.
        Accelerated => "accelerated",
    }
}

worded! {
    /// What a thread with `spin = "auto"` last did while it waited, and why.
    Waiting {
        /// No call has waited.
        Nothing => "no call has waited yet",
        /// Nobody else wants the CPU.
        SpinsCalm => "it spins: messages come soon, and nobody else wants the CPU",
        /// Messages come late.
        SleepsLate => "it sleeps: messages come later than 200 us",
        /// Preempted; measured.
        SpinsPreempted => "it spins: others run on its CPU, and spinning passes most messages",
        /// Preempted; measured.
        GivesWayPreempted => "it spins and gives way: others run on its CPU, and this passes most messages",
        /// Preempted; measured.
        SleepsPreempted => "it sleeps: others run on its CPU, and sleeping passes most messages",
        /// More spinners than CPUs; measured.
        SpinsCrowded => "it spins: more threads spin than there are CPUs, and spinning passes most messages",
        /// More spinners than CPUs; measured.
        GivesWayCrowded => "it spins and gives way: more threads spin than there are CPUs, and this passes most messages",
        /// More spinners than CPUs; measured.
        SleepsCrowded => "it sleeps: more threads spin than there are CPUs, and sleeping passes most messages",
        /// Preempted; measured.
        ByKernelPreempted => "it leaves its sockets to the kernel: others run on its CPU, and the kernel's way passes most messages",
        /// More spinners than CPUs; measured.
        ByKernelCrowded => "it leaves its sockets to the kernel: more threads spin than there are CPUs, and the kernel's way passes most messages",
        /// Several connections; measured.
        ByKernelSeveral => "it leaves its connections to the kernel, which passes more messages of several at once",
    }
}

impl Waiting {
    /// What a thread does for a reason.
    #[must_use]
    pub const fn of(doing: Doing, why: Why) -> Waiting {
        match (why, doing) {
            (Why::Calm, _) => Waiting::SpinsCalm,
            (Why::Late, _) => Waiting::SleepsLate,
            (Why::Preempted, Doing::Spins) => Waiting::SpinsPreempted,
            (Why::Preempted, Doing::GivesWay) => Waiting::GivesWayPreempted,
            (Why::Preempted, Doing::Sleeps) => Waiting::SleepsPreempted,
            (Why::Crowded, Doing::Spins) => Waiting::SpinsCrowded,
            (Why::Crowded, Doing::GivesWay) => Waiting::GivesWayCrowded,
            (Why::Crowded, Doing::Sleeps) => Waiting::SleepsCrowded,
            (Why::Preempted, Doing::ByKernel) => Waiting::ByKernelPreempted,
            (Why::Crowded, Doing::ByKernel) => Waiting::ByKernelCrowded,
            (Why::Several, _) => Waiting::ByKernelSeveral,
        }
    }
}

worded! {
    /// Counters of the process, each the sum of those of its engines. The words with underscores are the keys of `nearwire status --json`.
    Counter {
        /// Frames taken from the interfaces.
        FramesReceived => "frames received",
        /// Frames given to the interfaces.
        FramesSent => "frames sent",
        /// Frames that were dropped here: malformed, or no room.
        FramesDropped => "frames dropped",
        /// Frames that came to us and are the kernel's.
        FramesNotOurs => "frames not ours",
        /// System calls that made the kernel send.
        Kicks => "kicks",
        /// Looks at the rings that found nothing.
        PollsEmpty => "polls empty",
        /// Looks at the rings that found frames.
        PollsFull => "polls full",
        /// Time that calls spun while they waited, of all threads.
        SpinningNs => "spinning ns",
        /// Times a call slept.
        Sleeps => "sleeps",
        /// Time that calls slept, of all threads.
        SleepingNs => "sleeping ns",
        /// Calls that the library answered itself.
        CallsServed => "calls served",
        /// Sockets that were ever accelerated.
        SocketsAccelerated => "sockets accelerated",
        /// The kernel's before.
        ConnectionsAdopted => "connections adopted",
        /// The kernel's again.
        ConnectionsReleased => "connections released",
        /// The kernel would not take them back: their far ends were told that they are gone.
        ConnectionsLost => "connections the kernel did not take back",
        /// Sockets that were given back to the kernel.
        SocketsGivenBack => "sockets given back",
        /// Sockets that found no slot here.
        SocketsWithoutSlot => "sockets without slot",
        /// Frames that went by the kernel because the rings had no room: the program did not read for too long.
        FramesOverflowed => "frames by the kernel for want of room",
        /// Times that a socket was left to the kernel as others wanted the CPUs of its threads.
        SocketsLent => "times a socket was lent to the kernel",
    }
}

worded! {
    /// Counters of a socket.
    SocketCounter {
        /// Datagrams the program received from the engine.
        Received => "received datagrams",
        /// Their bytes.
        ReceivedBytes => "received bytes",
        /// Datagrams sent by the engine.
        Sent => "sent datagrams",
        /// Their bytes.
        SentBytes => "sent bytes",
        /// Datagrams dropped because the receive buffer was full.
        Dropped => "dropped datagrams",
        /// Datagrams received by the shadow.
        ReceivedByShadow => "received by shadow",
        /// Datagrams sent by the shadow.
        SentByShadow => "sent by shadow",
        /// Calls handed to the kernel, those two included.
        CallsHanded => "calls handed",
        /// Receives that found nothing and would have blocked.
        WouldBlock => "would block",
    }
}

/// Words that belong together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) at: usize,
    pub(super) words: usize,
}

impl Field {
    /// Behind the start of something that repeats.
    pub(super) const fn of(self, start: usize) -> Field {
        Field { at: start + self.at, words: self.words }
    }
}

/// Fields one behind the other, and how many words they are in all.
macro_rules! layout {
    ($total:ident: $($name:ident: $words:expr,)+) => { layout!(@ 0; $total; $($name: $words,)+); };
    (@ $at:expr; $total:ident;) => { pub(super) const $total: usize = $at; };
    (@ $at:expr; $total:ident; $name:ident: $words:expr, $($rest:tt)*) => {
        pub(super) const $name: Field = Field { at: $at, words: $words };
        layout!(@ $name.at + $name.words; $total; $($rest)*);
    };
}

/// A text is its length in bytes, and its bytes.
const fn text_words(bytes: usize) -> usize {
    1 + bytes.div_ceil(8)
}

/// Room for the words about the engine, bytes of UTF-8.
pub const ENGINE_TEXT_BYTES: usize = 248;
/// Room for counters that later versions add without moving anything.
const COUNTER_WORDS: usize = 32;
const HANDED_WORDS: usize = 64;
const SOCKET_COUNTER_WORDS: usize = 12;

/// Blocks and slots are written by different threads: none shares a cache line with another one, nor the pair of lines that
/// is fetched together. Words.
const APART: usize = 16;
const _: () = assert!(COUNTER_BLOCKS.at.is_multiple_of(APART) && BLOCK_WORDS.is_multiple_of(APART));
const _: () = assert!(SOCKETS.at.is_multiple_of(APART) && SOCKET_WORDS.is_multiple_of(APART));

const fn words_to_next_line(before: Field) -> usize {
    (before.at + before.words).next_multiple_of(APART) - (before.at + before.words)
}

layout! { PAGE_WORDS:
    PAGE_MAGIC: 1,
    HEADER_FIRST: 1,
    PID: 1,
    // Clock ticks after boot, as field 22 of /proc/PID/stat.
    STARTED_TICKS: 1,
    // CLOCK_MONOTONIC when the page was made.
    SINCE_NS: 1,
    LIBRARY_VERSION: text_words(40),
    // Nanoseconds; 0 sleeps, all ones spins forever, one less is automatic.
    SPIN_NS: 1,
    STRICT: 1,
    CONFIG: text_words(8192),
    ENGINE_STATE: 1,
    ENGINE_REASON: 1,
    ENGINE_TEXT: text_words(ENGINE_TEXT_BYTES),
    // Engines that serve.
    ENGINE_COUNT: 1,
    INTERFACE_COUNT: 1,
    INTERFACE_AREA: INTERFACES * INTERFACE_WORDS,
    HEADER_LAST: 1,
    // What a capturing command asks: the request and its complement. The only words that others write.
    CAPTURE_REQUEST: 2,
    CAPTURE_ANSWER: 1,
    // What automatic spinning comes to: a number of `Waiting`.
    WAITING: 1,
    _UNUSED: words_to_next_line(WAITING),
    COUNTER_BLOCKS: BLOCKS * BLOCK_WORDS,
    SOCKETS: SLOTS * SOCKET_WORDS,
}

layout! { BLOCK_WORDS:
    COUNTERS: COUNTER_WORDS,
    HANDED: HANDED_WORDS,
}

layout! { INTERFACE_WORDS:
    INTERFACE_NAME: text_words(16),
    INTERFACE_INDEX: 1,
    // A reason's number and one, or 0 for one that is used.
    INTERFACE_REASON: 1,
    INTERFACE_QUEUES: 1,
    INTERFACE_MODE: text_words(24),
    INTERFACE_TEXT: text_words(160),
}

layout! { SOCKET_WORDS:
    SOCKET_FIRST: 1,
    SOCKET_STATE: 1,
    SOCKET_FD: 1,
    SOCKET_REASON: 1,
    SOCKET_DETAIL: 1,
    SOCKET_LOCAL: 3,
    SOCKET_REMOTE: 3,
    SOCKET_INTERFACE: 1,
    // The number of the engine that serves it.
    SOCKET_ENGINE: 1,
    // 1: a TCP connection, of which the next words are.
    SOCKET_IS_CONNECTION: 1,
    // CLOCK_MONOTONIC when it came to who has it.
    SOCKET_SINCE_NS: 1,
    SOCKET_ADOPTED: 1,
    SOCKET_RELEASED: 1,
    SOCKET_LAST: 1,
    // Of the stack's, since it was adopted last. Stored now and then, by themselves.
    SOCKET_ROUND_TRIP_NS: 1,
    SOCKET_RETRANSMITTED: 1,
    SOCKET_COUNTERS: SOCKET_COUNTER_WORDS,
}

/// The length of the page.
pub const PAGE_BYTES: usize = PAGE_WORDS * 8;

const _: () = assert!(Counter::ALL.len() <= COUNTER_WORDS);
const _: () = assert!(Handed::END <= HANDED_WORDS);
const _: () = assert!(SocketCounter::ALL.len() <= SOCKET_COUNTER_WORDS);

/// Where the words about captures stand in the page: two of the [request](crate::capture::Request), one of the
/// [answer](crate::capture::Answer), each in the byte order of this CPU.
pub const CAPTURE_AT_BYTES: usize = CAPTURE_REQUEST.at * 8;
const _: () = assert!(CAPTURE_ANSWER.at == CAPTURE_REQUEST.at + 2);

/// The sequence words around a described part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bracket {
    pub(super) first: usize,
    pub(super) last: usize,
}

pub(super) const HEADER: Bracket = Bracket { first: HEADER_FIRST.at, last: HEADER_LAST.at };

/// A block for each engine, and one for what is counted once for all of them.
pub(super) const BLOCKS: usize = ENGINES + 1;
pub(super) const PROCESS_BLOCK: usize = ENGINES;

/// The first word of a block of counters.
pub(super) const fn block_start(block: usize) -> usize {
    COUNTER_BLOCKS.at + block * BLOCK_WORDS
}

/// The first word of a slot.
pub(super) const fn slot_start(slot: usize) -> usize {
    SOCKETS.at + slot * SOCKET_WORDS
}

pub(super) const fn interface_start(number: usize) -> usize {
    INTERFACE_AREA.at + number * INTERFACE_WORDS
}
