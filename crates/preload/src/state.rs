//! The library's state: the engines of the process, each with its sockets behind a gate of its own.
//!
//! Nothing happens before the program opens its first UDP socket. A socket begins in the first engine; the first thread that
//! waits for it has it moved to its own ([`crate::engines`]). A call enters the gate of the engine that serves what it is about, its
//! [`Subject`].
//!
//! Should something in here ever panic, the engines are taken down: the kernel has all packets again and all calls go to it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use nearwire_socket::engine::EngineKick;
use nearwire_socket::reason::HandedCall;
use nearwire_socket::status::{Engine, EngineState, Status};
use nearwire_socket::{AfterSend, Held, Moved, Reason, Sender, SocketId, Sockets, Wish};
use nearwire_sys::own_stack;

use crate::errno::{errno, fail};
use crate::gate::{AfterFork, Entered, Gate, thread_identity};
use crate::{internal_fd, marks, own_process};

/// Engines that a process can have, the first among them.
pub const ENGINES_MOST: usize = nearwire_socket::ENGINES_MOST;
/// That of sockets that no other has.
pub const FIRST: usize = 0;
/// Entries in a row by which a thread without the bias is alone enough to hold datagrams back. The timer thread takes the bias whenever it
/// sends what is held, and until the bias is back, after thousands of entries, each datagram would be kicked.
const ALONE_ENTRIES: u32 = 128;

/// What each engine has; nothing before it is opened.
static ENGINES: [Gate<Option<Sockets>>; ENGINES_MOST] = [const { Gate::new(None) }; ENGINES_MOST];
/// One more than the highest number of an engine that there ever was, but at least 1.
static OPENED: AtomicUsize = AtomicUsize::new(1);
/// Nothing is accelerated any more.
static OFF: AtomicBool = AtomicBool::new(false);
static IN_USE: AtomicBool = AtomicBool::new(false);

/// What is called in files that use this one ([`crate::wiring`]).
#[derive(Clone, Copy, Debug)]
pub struct Above {
    /// Makes the library's state this process's own; `false`: it cannot be.
    pub begin_process: fn() -> bool,
    /// The sockets of the first engine. `None`: nothing is accelerated.
    pub first_sockets: fn() -> Option<Sockets>,
    /// Does what sockets of an engine asked for in a call that is over.
    pub grant: fn(Wish, usize),
    /// Has datagrams that an engine holds back sent in time.
    pub watch: fn(usize, &Held),
}

static ABOVE: OnceLock<&'static Above> = OnceLock::new();

/// Sets what is called above. The first counts.
pub fn connect(above: &'static Above) {
    let _ = ABOVE.set(above);
}

/// Whether a socket was ever followed; before, nothing has to be asked.
#[inline]
pub fn is_in_use() -> bool {
    !OFF.load(Relaxed) && IN_USE.load(Relaxed)
}

/// A socket is followed.
pub fn set_in_use() {
    IN_USE.store(true, Relaxed);
}

/// Whether the library is off for good.
pub fn is_off() -> bool {
    OFF.load(Relaxed)
}

/// What a call is about.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// A descriptor of the program's.
    Fd(i32),
    /// A socket that the call holds.
    Socket(SocketId),
    /// All that an engine has.
    Engine(usize),
}

impl Subject {
    /// The engine that serves it.
    #[inline]
    pub fn engine(self) -> usize {
        match self {
            Subject::Fd(fd) => marks::engine_of(fd),
            Subject::Socket(id) => marks::engine_of_socket(id),
            Subject::Engine(engine) => engine,
        }
    }
}

/// Runs `work` on the sockets of the first engine. `None`: it did not run, and the call is the kernel's: a signal handler
/// interrupted a call of the same thread, or the library is off.
#[inline]
pub fn with<R>(work: impl FnMut(&mut Sockets) -> R) -> Option<R> {
    with_subject(Subject::Engine(FIRST), work)
}

/// The same on those of the engine that serves an fd.
#[inline]
pub fn with_fd<R>(fd: i32, work: impl FnMut(&mut Sockets) -> R) -> Option<R> {
    with_subject(Subject::Fd(fd), work)
}

/// The same on those of the engine that serves a subject.
#[inline]
pub fn with_subject<R>(subject: Subject, mut work: impl FnMut(&mut Sockets) -> R) -> Option<R> {
    enter_for(subject, |_, sockets| {
        sockets.end_send_run();
        work(sockets)
    })
}

/// The same for a send, which goes on with the run of sends that it belongs to.
#[inline]
pub fn send_with<R>(subject: Subject, mut work: impl FnMut(&mut Sockets) -> R) -> Option<R> {
    let mut after = None;
    let result = enter_for(subject, |engine, sockets| {
        sockets.set_sender(sender_in(&ENGINES[engine]));
        let result = work(sockets);
        after = sockets.take_after_send().map(|after| (engine, after));
        result
    })?;
    if let Some((engine, after)) = after {
        finish(engine, after);
    }
    Some(result)
}

/// Who the thread inside is among those that send.
#[inline]
fn sender_in<T>(gate: &Gate<T>) -> Sender {
    if gate.is_biased() {
        return Sender::Alone;
    }
    let of_one_thread = gate.is_of_one_thread_for(ALONE_ENTRIES);
    if of_one_thread { Sender::AloneForNow(thread_identity()) } else { Sender::OneOf(thread_identity()) }
}

/// The rest of a send, with the gate open for others: the kick is most of what a send takes.
fn finish(engine: usize, after: AfterSend) {
    if let Some(kicked) = after.kick.and_then(EngineKick::make) {
        enter(engine, |sockets| sockets.kicked(kicked));
    }
    if after.looks {
        own_stack::run(|| enter(engine, Sockets::look));
    }
    if let (Some(held), Some(above)) = (after.unwatched, ABOVE.get()) {
        (above.watch)(engine, &held);
    }
}

/// The engines that there may be.
pub fn engines() -> std::ops::Range<usize> {
    0..OPENED.load(Relaxed)
}

/// Runs `work` on each engine that there is.
pub fn with_each(mut work: impl FnMut(&mut Sockets)) {
    for engine in engines() {
        with_subject(Subject::Engine(engine), &mut work);
    }
}

/// Enters the engine that serves a subject. A move holds both gates, so the subject stays while this is inside.
///
/// Results are written to where they are read. Handed up through each closure as a value, one is copied at each step by loads that are wider
/// than the stores before them, for which a processor waits some 12 cycles each time: that was 10 ns of a receive that finds nothing.
#[inline]
fn enter_for<R>(subject: Subject, mut work: impl FnMut(usize, &mut Sockets) -> R) -> Option<R> {
    loop {
        let engine = subject.engine();
        let (mut result, mut wish, mut is_moved) = (None, Wish::Nothing, false);
        enter(engine, |sockets| {
            is_moved = subject.engine() != engine;
            if !is_moved {
                result = Some(work(engine, sockets));
                wish = sockets.take_wish();
            }
        });
        if wish != Wish::Nothing {
            let before = errno();
            own_stack::run(|| ABOVE.get().map(|above| (above.grant)(wish, engine)));
            fail(before);
        }
        // It may have been moved in between.
        if !is_moved || subject.engine() == engine {
            return result;
        }
    }
}

#[inline]
fn enter<R>(engine: usize, work: impl FnOnce(&mut Sockets) -> R) -> Option<R> {
    if OFF.load(Relaxed) || !(own_process::is_ready() || begin_process()) {
        return None;
    }
    // What the library asks the kernel on the way leaves no trace in the program's errno.
    let before = errno();
    let mut result = None;
    ENGINES[engine].enter_unless(is_elsewhere, |state| {
        if state.is_none() && engine == FIRST {
            // The move too: on the program's stack it would be a copy of all sockets' state in the frame of every call.
            own_stack::run(|| *state = begin());
        }
        let Some(sockets) = state.as_mut() else { return };
        sockets.enter();
        if catch_unwind(AssertUnwindSafe(|| result = Some(work(sockets)))).is_err() {
            own_stack::run(|| give_up(state, ""));
        }
    });
    fail(before);
    if OFF.load(Relaxed) {
        give_all_up();
    }
    result
}

/// Whether a thread is inside another engine already, and this is a signal handler on top of that: it must not wait, as who
/// keeps it waiting may wait for that engine.
#[cold]
fn is_elsewhere(thread: usize) -> bool {
    let opened = OPENED.load(Relaxed);
    opened > 1 && ENGINES[..opened].iter().any(|gate| gate.is_inside(thread))
}

#[cold]
fn begin_process() -> bool {
    ABOVE.get().is_some_and(|above| (above.begin_process)())
}

fn begin() -> Option<Sockets> {
    let sockets = ABOVE.get().and_then(|above| (above.first_sockets)());
    if sockets.is_none() {
        OFF.store(true, Relaxed);
    }
    sockets
}

/// Runs `work` on the first engine and the other one that is chosen when the first is kept; that may not be opened. `None`:
/// it did not run, as none was chosen, or the calling thread is inside one of them already.
#[cold]
pub fn with_first_and<C, R>(
    choose: impl FnOnce(&mut Sockets) -> Option<(usize, C)>,
    work: impl FnOnce((usize, C), &mut Sockets, &mut Option<Sockets>) -> R,
) -> Option<R> {
    enter(FIRST, |first| {
        let (engine, chosen) = choose(first).filter(|(engine, _)| *engine != FIRST)?;
        first.flush();
        let both = ENGINES[engine].enter(|other| {
            other.iter_mut().for_each(Sockets::enter);
            work((engine, chosen), first, other)
        });
        match both {
            Entered::Ran(result) => Some(result),
            Entered::Reentered => None,
        }
    })?
}

/// Whether there may be more engines than the first.
#[inline]
pub fn has_several() -> bool {
    OPENED.load(Relaxed) > 1
}

/// An engine is opened.
pub fn note_opened(engine: usize) {
    OPENED.fetch_max(engine + 1, Relaxed);
}

/// A call that is made by the original function for a reason of its own; `None`, for returning.
#[cold]
pub fn handed<R>(fd: i32, call: HandedCall) -> Option<R> {
    with_fd(fd, |sockets| sockets.handed(fd, call));
    None
}

/// What the process would tell now.
pub fn status() -> Option<Status> {
    with_each(Sockets::tell_all);
    with(|sockets| sockets.page().status())?
}

/// Whether the calling thread is in the library's state: a call that comes now is its own.
#[must_use]
pub fn is_inside() -> bool {
    let me = thread_identity();
    ENGINES[..OPENED.load(Relaxed)].iter().any(|gate| gate.is_inside(me))
}

/// Keeps other threads out of all engines until [`let_go`], and prepares their sockets for a fork. `false`: the calling thread is
/// inside one already, or there is nothing.
pub fn hold_for_fork() -> bool {
    if OFF.load(Relaxed) || !(own_process::is_ready() || begin_process()) || is_inside() || !ENGINES[FIRST].hold() {
        return false;
    }
    // None is opened while the first is held. A thread that is in the first and in another has both already, so there is no deadlock.
    let others = &ENGINES[FIRST + 1..OPENED.load(Relaxed)];
    others.iter().for_each(|gate| _ = gate.hold());
    with_each_held(Sockets::prepare_fork);
    true
}

/// Ends [`hold_for_fork`], in the parent. Whether something stayed here that only the timer thread can give to a child.
pub fn let_go() -> bool {
    let mut stayed = false;
    with_each_held(|sockets| stayed |= sockets.after_fork_in_parent());
    ENGINES[..OPENED.load(Relaxed)].iter().rev().for_each(Gate::let_go);
    if OFF.load(Relaxed) {
        give_all_up();
    }
    stayed
}

/// The calling thread holds all.
fn with_each_held(mut work: impl FnMut(&mut Sockets)) {
    let before = errno();
    for gate in &ENGINES[..OPENED.load(Relaxed)] {
        // SAFETY: held by this thread, which is in no closure.
        unsafe {
            gate.with_held(|state| {
                let Some(sockets) = state else { return };
                sockets.enter();
                if catch_unwind(AssertUnwindSafe(|| work(sockets))).is_err() {
                    give_up(state, "");
                }
            });
        }
    }
    fail(before);
}

/// In the child of a fork. `was_held`: the forking thread had kept the others out, after having prepared the sockets.
/// `moved` is told what the first engine has from now on.
pub fn after_fork_in_child(was_held: bool, moved: impl FnMut(Moved)) {
    let opened = OPENED.swap(1, Relaxed);
    let gates = &ENGINES[..opened];
    let torn = gates.iter().filter(|gate| gate.reset_after_fork() == AfterFork::Torn).count();
    if was_held {
        gates.iter().for_each(Gate::let_go);
    }
    let before = errno();
    let mut others = Vec::new();
    for gate in &gates[FIRST + 1..] {
        gate.enter(|state| others.extend(state.take()));
    }
    ENGINES[FIRST].enter(|state| {
        if torn > 0 {
            std::mem::forget(std::mem::take(&mut others));
            return forget(state);
        }
        let Some(sockets) = state else { return };
        let fold = || sockets.after_fork_in_child(was_held, std::mem::take(&mut others), moved);
        if catch_unwind(AssertUnwindSafe(fold)).is_err() {
            forget(state);
        }
    });
    fail(before);
}

/// The state is not to be trusted: nothing of it is used or dropped, which would detach the parent's programs.
fn forget(state: &mut Option<Sockets>) {
    std::mem::forget(state.take());
    marks::unfollow_all();
    internal_fd::close_all();
}

/// The calling thread has jumped out of a call, from a handler that could not wait. An engine that it was inside of may be half
/// changed, and others may be closed by the same call: all are given up.
#[cold]
pub fn left_by_a_jump() {
    let before = errno();
    let me = thread_identity();
    if ENGINES.iter().any(|gate| gate.is_inside(me)) {
        OFF.store(true, Relaxed);
        for gate in &ENGINES {
            // SAFETY: the thread is past the closure, which is why this is called.
            unsafe { gate.leave_for_jumped(|state| own_stack::run(|| give_up(state, LEFT_BY_A_JUMP))) };
        }
        give_all_up();
    }
    fail(before);
}

/// What `status` says then.
const LEFT_BY_A_JUMP: &str = "a handler jumped out of a call that had faulted";

#[cold]
fn give_up(state: &mut Option<Sockets>, text: &str) {
    OFF.store(true, Relaxed);
    let mut broken = state.take();
    if let Some(sockets) = &mut broken {
        // Programs that wait for them hear of it.
        let _ = catch_unwind(AssertUnwindSafe(|| sockets.abandon_streams()));
        let page = sockets.page().clone();
        page.set_engine(&Engine { state: EngineState::Failed, reason: Some(Reason::EngineFailed), text });
        // It stays, and says so.
        std::mem::forget(page);
    }
    // What is left of it detaches its programs on the way down; should that panic too, it stays where it is.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(broken)));
}

/// The library is off: what other engines have is given up too, when the thread that found out is inside none.
#[cold]
fn give_all_up() {
    for gate in &ENGINES[..OPENED.load(Relaxed)] {
        gate.enter_unless(is_elsewhere, |state| {
            if state.is_some() {
                own_stack::run(|| give_up(state, ""));
            }
        });
    }
}
