//! The process's side of the status page.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::time::Duration;

use nearwire_sys::shared_words::SharedWords;
use rustix::time::{ClockId, clock_gettime};

use super::layout::{self, Bracket, Counter, EngineState, Field, HEADER, SocketCounter, SocketState};
use super::reader::{Reader, Status};
use crate::config::{Config, Spin};
use crate::reason::{Handed, Reason};

/// Who writes a page.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The process.
    pub pid: u32,
    /// When it started, in clock ticks after boot: field 22 of `/proc/PID/stat`. With it a page that a child inherited is
    /// distinguished from the child's own.
    pub started_ticks: u64,
}

impl Identity {
    /// Of the calling process.
    ///
    /// # Errors
    /// `/proc/self/stat` cannot be read.
    pub fn of_self() -> io::Result<Identity> {
        let stat = nearwire_sys::kernel_files::read_to_string("/proc/self/stat")?;
        // The name of the program is in parentheses and may have anything in it, parentheses too.
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_ascii_whitespace());
        let started = fields.and_then(|mut fields| fields.nth(19)?.parse().ok());
        let started_ticks = started.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Identity { pid: std::process::id(), started_ticks })
    }
}

/// The engine as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Engine<'a> {
    /// What it is doing.
    pub state: EngineState,
    /// Why it serves nothing, if so.
    pub reason: Option<Reason>,
    /// More words, such as the error; what is beyond [`layout::ENGINE_TEXT_BYTES`] is cut.
    pub text: &'a str,
}

/// One interface.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceAbout<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its index.
    pub ifindex: u32,
    /// Why it is not used; `None` for one that is.
    pub reason: Option<Reason>,
    /// Queues that are served.
    pub queues: u32,
    /// How sockets are attached, as in "generic".
    pub mode: &'a str,
    /// The port in words, or the error.
    pub text: &'a str,
}

/// Writes the page of this process for one of its engines, the first unless [`Writer::for_engine`] says otherwise; a clone
/// writes the same. One thread at a time changes what is described, or a socket's slot; an engine's counters too are added
/// to by one thread at a time. The page is there until its last writer is dropped.
#[derive(Clone, Debug)]
pub struct Writer {
    words: Arc<SharedWords>,
    /// Where the engine's counters are.
    block: usize,
    engine: u32,
}

impl Writer {
    /// Makes the page: the identity, no socket, an idle engine, the configuration with its way of waiting on this many
    /// CPUs.
    ///
    /// # Errors
    /// As [`SharedWords::create`].
    pub fn create(identity: Identity, config: &Config, online_cpus: u32) -> io::Result<Writer> {
        let words = SharedWords::create(layout::NAME, layout::PAGE_WORDS)?;
        Ok(Writer::begin(words, identity, config, online_cpus))
    }

    /// The page of the calling process. Where a sandbox forbids it, one that nobody else can read: its counters are printed
    /// at the end still, where that is asked for.
    #[must_use]
    pub fn of_self(config: &Config, online_cpus: u32) -> Writer {
        // Without /proc nobody looks either.
        let unknown = |_| Identity { pid: std::process::id(), started_ticks: 0 };
        let identity = Identity::of_self().unwrap_or_else(unknown);
        let words = SharedWords::create(layout::NAME, layout::PAGE_WORDS);
        let words = words.unwrap_or_else(|_| SharedWords::private(layout::PAGE_WORDS));
        Writer::begin(words, identity, config, online_cpus)
    }

    fn begin(words: SharedWords, identity: Identity, config: &Config, online_cpus: u32) -> Writer {
        let writer = Writer { words: Arc::new(words), block: layout::block_start(0), engine: 0 };
        let spin_ns = match config.spin.on(online_cpus) {
            Spin::For(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(layout::SPIN_AUTO - 1),
            Spin::Auto => layout::SPIN_AUTO,
            Spin::Forever => u64::MAX,
        };
        writer.change(HEADER, || {
            writer.set(layout::PID, u64::from(identity.pid));
            writer.set(layout::STARTED_TICKS, identity.started_ticks);
            writer.set(layout::SINCE_NS, monotonic_ns());
            writer.set_text(layout::LIBRARY_VERSION, env!("CARGO_PKG_VERSION"));
            writer.set(layout::SPIN_NS, spin_ns);
            writer.set(layout::STRICT, u64::from(config.strict));
            writer.set_text(layout::CONFIG, &config.to_toml());
            writer.set(layout::ENGINE_COUNT, 1);
        });
        // Last: a reader that finds the magic finds all of the above.
        writer.words[layout::PAGE_MAGIC.at].store(layout::MAGIC, Release);
        writer
    }

    /// The same page, written for another engine: the reader adds its counters to those of the others. Beyond
    /// [`layout::ENGINES`] engines share the last block, and may lose counts to each other.
    #[must_use]
    pub fn for_engine(&self, engine: u32) -> Writer {
        let block = (engine as usize).min(layout::ENGINES - 1);
        Writer { words: Arc::clone(&self.words), block: layout::block_start(block), engine }
    }

    /// The number of the engine that it writes for, from 0.
    #[must_use]
    pub const fn engine(&self) -> u32 {
        self.engine
    }

    /// Leaves the page out of children; see [`SharedWords::dont_fork`] for what a child must then not do.
    ///
    /// # Errors
    /// As madvise(2).
    pub fn dont_fork(&self) -> io::Result<()> {
        self.words.dont_fork()
    }

    /// Says how the engine is.
    pub fn set_engine(&self, engine: &Engine<'_>) {
        self.change(HEADER, || {
            self.set(layout::ENGINE_STATE, engine.state as u64);
            self.set(layout::ENGINE_REASON, reason_number(engine.reason));
            self.set_text(layout::ENGINE_TEXT, engine.text);
        });
    }

    /// Says how many engines serve; 1 at first.
    pub fn set_engine_count(&self, count: u32) {
        self.change(HEADER, || self.set(layout::ENGINE_COUNT, u64::from(count)));
    }

    /// Describes an interface at a place below [`layout::INTERFACES`]; others are left out.
    pub fn set_interface(&self, number: usize, about: &InterfaceAbout<'_>) {
        if number >= layout::INTERFACES {
            return;
        }
        let start = layout::interface_start(number);
        self.change(HEADER, || {
            self.set_text(layout::INTERFACE_NAME.of(start), about.name);
            self.set(layout::INTERFACE_INDEX.of(start), u64::from(about.ifindex));
            self.set(layout::INTERFACE_REASON.of(start), reason_number(about.reason));
            self.set(layout::INTERFACE_QUEUES.of(start), u64::from(about.queues));
            self.set_text(layout::INTERFACE_MODE.of(start), about.mode);
            self.set_text(layout::INTERFACE_TEXT.of(start), about.text);
            let count = self.words[layout::INTERFACE_COUNT.at].load(Relaxed);
            self.set(layout::INTERFACE_COUNT, count.max(number as u64 + 1));
        });
    }

    /// How many places of interfaces are described: those beyond are no longer.
    pub fn set_interface_count(&self, count: usize) {
        self.change(HEADER, || self.set(layout::INTERFACE_COUNT, count.min(layout::INTERFACES) as u64));
    }

    /// Sets a counter of the engine that is counted elsewhere.
    #[inline]
    pub fn set_counter(&self, counter: Counter, value: u64) {
        self.words[layout::COUNTERS.of(self.block).at + counter as usize].store(value, Relaxed);
    }

    /// Sets a counter that is counted elsewhere, once for all engines; no engine may count it besides.
    #[inline]
    pub fn set_process_counter(&self, counter: Counter, value: u64) {
        let block = layout::block_start(layout::PROCESS_BLOCK);
        self.words[layout::COUNTERS.of(block).at + counter as usize].store(value, Relaxed);
    }

    /// Says what automatic spinning comes to: the number of a [`Waiting`](super::Waiting).
    pub fn set_waiting(&self, number: u64) {
        self.words[layout::WAITING.at].store(number, Relaxed);
    }

    /// What a reader of the page would see.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        Some(Reader::new(&self.bytes()).ok()?.status())
    }

    /// Adds to a counter of the engine.
    #[inline]
    pub fn count(&self, counter: Counter, more: u64) {
        add(&self.words[layout::COUNTERS.of(self.block).at + counter as usize], more);
    }

    /// What it has counted.
    #[must_use]
    pub fn counted(&self, counter: Counter) -> u64 {
        self.words[layout::COUNTERS.of(self.block).at + counter as usize].load(Relaxed)
    }

    /// Counts a call that was handed to the kernel.
    #[inline]
    pub fn count_handed(&self, handed: Handed) {
        add(&self.words[layout::HANDED.of(self.block).at + handed.number()], 1);
    }

    /// The slot of a socket; `None` beyond [`layout::SLOTS`].
    #[inline]
    #[must_use]
    pub fn socket(&self, slot: usize) -> Option<SocketWriter<'_>> {
        SocketWriter::of(&self.words, slot)
    }

    pub(super) fn words(&self) -> &Arc<SharedWords> {
        &self.words
    }

    /// What a capturing command asks for.
    #[inline]
    pub(crate) fn capture_request(&self) -> u64 {
        self.words[layout::CAPTURE_REQUEST.at].load(Relaxed)
    }

    /// What belongs to it.
    pub(crate) fn capture_complement(&self) -> u64 {
        self.words[layout::CAPTURE_REQUEST.at + 1].load(Relaxed)
    }

    /// Answers it.
    pub(crate) fn set_capture_answer(&self, answer: u64) {
        // A reader that sees it sees the ring as it was made.
        self.words[layout::CAPTURE_ANSWER.at].store(answer, Release);
    }

    fn change(&self, bracket: Bracket, set: impl FnOnce()) {
        change(&self.words, bracket, set);
    }

    #[inline]
    fn set(&self, field: Field, value: u64) {
        self.words[field.at].store(value, Relaxed);
    }

    /// A text, cut at a character where it is too long.
    fn set_text(&self, field: Field, text: &str) {
        store_text(&self.words[field.at..][..field.words], text);
    }

    #[cfg(test)]
    pub(super) fn address(&self) -> u64 {
        self.words.as_ptr().addr() as u64
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect()
    }
}

/// The slot of one socket.
#[derive(Clone, Copy, Debug)]
pub struct SocketWriter<'a> {
    words: &'a SharedWords,
    start: usize,
}

fn change(words: &SharedWords, bracket: Bracket, set: impl FnOnce()) {
    let next = words[bracket.first].load(Relaxed).wrapping_add(1);
    words[bracket.last].store(next, Relaxed);
    // A reader that sees one of the stores below sees the one above.
    fence(Release);
    set();
    words[bracket.first].store(next, Release);
}

impl SocketWriter<'_> {
    /// A slot of a page; `None` beyond [`layout::SLOTS`].
    #[inline]
    pub(super) fn of(words: &SharedWords, slot: usize) -> Option<SocketWriter<'_>> {
        (slot < layout::SLOTS).then_some(SocketWriter { words, start: layout::slot_start(slot) })
    }

    /// Takes the slot for a new socket, which is the kernel's until somebody says otherwise: all counters are 0, no address.
    pub fn open(&self, fd: i32) {
        self.change(|| {
            for word in &self.words[self.start + layout::SOCKET_STATE.at..self.start + layout::SOCKET_LAST.at] {
                word.store(0, Relaxed);
            }
            self.set(layout::SOCKET_STATE, SocketState::Kernel as u64);
            self.set(layout::SOCKET_FD, fd as u32 as u64);
            self.set(layout::SOCKET_REASON, reason_number(Some(Reason::NotBound)));
        });
        for counter in SocketCounter::ALL {
            self.counter(*counter).store(0, Relaxed);
        }
    }

    /// The same for a TCP connection.
    pub fn open_connection(&self, fd: i32, reason: Reason) {
        self.open(fd);
        self.set_round_trip(0, 0);
        self.change(|| {
            self.set(layout::SOCKET_IS_CONNECTION, 1);
            self.set(layout::SOCKET_REASON, reason_number(Some(reason)));
            self.set(layout::SOCKET_SINCE_NS, monotonic_ns());
        });
    }

    /// Whether nothing has the slot.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.words[layout::SOCKET_STATE.of(self.start).at].load(Relaxed) == SocketState::Free as u64
    }

    /// The stack has adopted the connection from the kernel.
    pub fn set_adopted(&self, ifindex: u32) {
        self.change(|| {
            self.set(layout::SOCKET_STATE, SocketState::Accelerated as u64);
            self.set(layout::SOCKET_REASON, reason_number(None));
            self.set(layout::SOCKET_INTERFACE, u64::from(ifindex));
            self.set(layout::SOCKET_SINCE_NS, monotonic_ns());
            self.add(layout::SOCKET_ADOPTED);
        });
    }

    /// The kernel has the connection back, and why.
    pub fn set_released(&self, reason: Reason) {
        self.change(|| {
            self.set(layout::SOCKET_STATE, SocketState::Kernel as u64);
            self.set(layout::SOCKET_REASON, reason_number(Some(reason)));
            self.set(layout::SOCKET_DETAIL, 0);
            self.set(layout::SOCKET_SINCE_NS, monotonic_ns());
            self.add(layout::SOCKET_RELEASED);
        });
    }

    /// What the stack measured of the connection since it was adopted.
    pub fn set_round_trip(&self, smoothed_ns: u64, retransmitted_segments: u64) {
        self.set(layout::SOCKET_ROUND_TRIP_NS, smoothed_ns);
        self.set(layout::SOCKET_RETRANSMITTED, retransmitted_segments);
    }

    /// Frees the slot.
    pub fn close(&self) {
        self.change(|| self.set(layout::SOCKET_STATE, SocketState::Free as u64));
    }

    /// The engine serves it now.
    pub fn set_accelerated(&self) {
        self.change(|| {
            self.set(layout::SOCKET_STATE, SocketState::Accelerated as u64);
            self.set(layout::SOCKET_REASON, reason_number(None));
        });
    }

    /// The kernel serves it, and why; the detail is that of [`Reason::sentence`], 0 for none.
    pub fn set_kernel(&self, reason: Reason, detail: u64) {
        self.change(|| {
            self.set(layout::SOCKET_STATE, SocketState::Kernel as u64);
            self.set(layout::SOCKET_REASON, reason_number(Some(reason)));
            self.set(layout::SOCKET_DETAIL, detail);
        });
    }

    /// The program's fd, when that changes (dup2(2)).
    pub fn set_fd(&self, fd: i32) {
        self.change(|| self.set(layout::SOCKET_FD, fd as u32 as u64));
    }

    /// The address it is bound to.
    pub fn set_local(&self, address: Option<SocketAddr>) {
        self.change(|| self.set_address(layout::SOCKET_LOCAL, address));
    }

    /// The address it is connected to.
    pub fn set_remote(&self, address: Option<SocketAddr>) {
        self.change(|| self.set_address(layout::SOCKET_REMOTE, address));
    }

    /// The interface whose port serves it; 0 for several.
    pub fn set_interface(&self, ifindex: u32) {
        self.change(|| self.set(layout::SOCKET_INTERFACE, u64::from(ifindex)));
    }

    /// The number of the engine that serves it, from 0.
    pub fn set_engine_number(&self, engine: u32) {
        self.change(|| self.set(layout::SOCKET_ENGINE, u64::from(engine)));
    }

    /// Sets one of its counters that is counted elsewhere.
    pub fn set_counter(&self, counter: SocketCounter, value: u64) {
        self.counter(counter).store(value, Relaxed);
    }

    /// Adds to one of its counters.
    #[inline]
    pub fn count(&self, counter: SocketCounter, more: u64) {
        add(self.counter(counter), more);
    }

    /// A datagram that the program received.
    #[inline]
    pub fn count_received(&self, len_bytes: usize) {
        self.count_both([SocketCounter::Received, SocketCounter::ReceivedBytes], len_bytes);
    }

    /// A datagram that was sent.
    #[inline]
    pub fn count_sent(&self, len_bytes: usize) {
        self.count_both([SocketCounter::Sent, SocketCounter::SentBytes], len_bytes);
    }

    /// How many datagrams, or calls on a connection, were counted.
    #[must_use]
    pub fn counted(&self) -> u64 {
        let start = self.start + layout::SOCKET_COUNTERS.at;
        let count = |of: SocketCounter| self.words.get(start + of as usize).map_or(0, |word| word.load(Relaxed));
        count(SocketCounter::Received) + count(SocketCounter::Sent)
    }

    /// One datagram, and its bytes. One slice of known length: the bounds are looked at once.
    #[inline]
    fn count_both(&self, [datagrams, bytes]: [SocketCounter; 2], len_bytes: usize) {
        let start = self.start + layout::SOCKET_COUNTERS.at;
        if let Some(counters) = self.words.get(start..start + layout::SOCKET_COUNTERS.words) {
            add(&counters[datagrams as usize], 1);
            add(&counters[bytes as usize], len_bytes as u64);
        }
    }

    fn change(&self, set: impl FnOnce()) {
        let at = |field: Field| field.of(self.start).at;
        change(self.words, Bracket { first: at(layout::SOCKET_FIRST), last: at(layout::SOCKET_LAST) }, set);
    }

    fn set(&self, field: Field, value: u64) {
        self.words[field.of(self.start).at].store(value, Relaxed);
    }

    fn add(&self, field: Field) {
        add(&self.words[field.of(self.start).at], 1);
    }

    fn set_address(&self, field: Field, address: Option<SocketAddr>) {
        let bits = match address.map(|address| address.ip()) {
            None => 0,
            Some(IpAddr::V4(address)) => u128::from(address.to_bits()),
            Some(IpAddr::V6(address)) => address.to_bits(),
        };
        let about = address.map_or(0, |address| {
            let (family, scope) = match address {
                SocketAddr::V4(_) => (4, 0),
                SocketAddr::V6(address) => (6, u64::from(address.scope_id())),
            };
            u64::from(address.port()) | family << 16 | scope << 32
        });
        let words = &self.words[field.of(self.start).at..][..field.words];
        for (word, value) in words.iter().zip([(bits >> 64) as u64, bits as u64, about]) {
            word.store(value, Relaxed);
        }
    }

    #[inline]
    fn counter(&self, counter: SocketCounter) -> &AtomicU64 {
        &self.words[self.start + layout::SOCKET_COUNTERS.at + counter as usize]
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let now = Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0));
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// One thread adds at a time, so two plain instructions do; a locked one would cost 5 ns.
#[inline]
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
}

/// A text as its length in bytes and its bytes, cut at a character where the words are too few.
pub(crate) fn store_text(words: &[AtomicU64], text: &str) {
    let Some((length, room)) = words.split_first() else { return };
    let text = &text[..text.floor_char_boundary(room.len() * 8)];
    length.store(text.len() as u64, Relaxed);
    for (word, bytes) in room.iter().zip(text.as_bytes().chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(whole), Relaxed);
    }
}

/// 0 for none, else the reason's number and one.
fn reason_number(reason: Option<Reason>) -> u64 {
    reason.map_or(0, |reason| reason as u64 + 1)
}
