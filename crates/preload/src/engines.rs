//! How sockets come to the engine of the thread that uses them.
//!
//! A socket begins in the first engine, which belongs to the first thread that uses one. Another thread gets an engine of its own
//! when it first receives from a socket that nobody has waited for, or waits for it, or first sends by it: with a gate, queues, a stack
//! and epoll sets of its own (`nearwire_socket`, `engines.rs`). The socket moves there, once, and has its frames come there: before its
//! first use they are the kernel's, so none is on its way to a ring when it moves. Other threads that use it enter that engine's gate.
//! There are as many engines as a port was opened for, on one queue too; further threads share the first.
//!
//! | what happens | what is done |
//! |---|---|
//! | a thread first receives or waits | what was opened and not waited for yet goes to its engine, with what belongs to it |
//! | a thread first sends by a socket that is in no epoll set | the same, but what is used in the first engine may still move when somebody waits |
//! | two that were waited for in different engines meet: in epoll_ctl, in one poll | both go to the first, for good |
//! | a socket asks for times of frames, or another one comes to its port | it goes to the first, for good |
//! | a capture, an interface comes or goes | the others end; what they had may move from the first once more |
//! | fork | nothing in the parent; the child has all in its first ([`state::hold_for_fork`]) |
//!
//! Both gates are kept while something moves, the first engine's before the other's. A thread that waits for a gate is
//! inside no other, except here; a signal handler on top of a call of ours does not wait ([`Gate::enter_unless`]).
//!
//! [`Gate::enter_unless`]: crate::gate::Gate::enter_unless

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use nearwire_socket::wait::now_ns;
use nearwire_socket::{Component, FirstUse, Moved, SocketId, Sockets, Wish};
use nearwire_sys::own_stack;

use crate::errno::{errno, fail};
use crate::gate::thread_identity;
use crate::state::{self, ENGINES_MOST, FIRST, Subject};
use crate::{marks, timer};

/// The thread that each engine belongs to: its identity. 0: none.
static OWNERS: [AtomicUsize; ENGINES_MOST] = [const { AtomicUsize::new(0) }; ENGINES_MOST];
/// Sockets stay in the first engine until this time of the monotonic clock, ns: there can be no other for now.
static NOT_BEFORE_NS: AtomicU64 = AtomicU64::new(0);
/// Between two attempts, ns: captures last for longer than a call.
const ATTEMPTS_EVERY_NS: u64 = 100_000_000;

/// How a thread uses a socket or a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Waits,
    Sends,
}

/// A thread is about to receive from what an fd names, or to wait for it.
#[inline]
pub fn about_to_wait(fd: i32) {
    if marks::is_unclaimed(fd) {
        first_use(&[fd], Use::Waits);
    }
}

/// The same of all that one call waits for.
#[inline]
pub fn about_to_wait_for_all(fds: &[i32]) {
    if fds.iter().any(|fd| marks::is_unclaimed(*fd)) {
        first_use(fds, Use::Waits);
    }
}

/// A thread is about to send by a socket.
#[inline]
pub fn about_to_send(fd: i32) {
    if marks::is_unused(fd) {
        first_use(&[fd], Use::Sends);
    }
}

/// Has what these fds name, as far as nobody has used it, go to the engine of the calling thread, and has frames come to it there. Where
/// that cannot be it stays in the first.
#[cold]
fn first_use(fds: &[i32], how: Use) {
    if is_too_early() && !fds.iter().any(|fd| marks::is_unused(*fd)) {
        return;
    }
    let sends = how == Use::Sends;
    if state::with(|first| fds.iter().all(|fd| !marks::is_unclaimed(*fd) || first.is_young(*fd, sends))) == Some(true) {
        return;
    }
    let before = errno();
    own_stack::run(|| {
        state::with_first_and(
            |first| choose(first, fds, how),
            |(engine, component), first, other| {
                if !move_out(engine, first, other, &component) {
                    stays(first, fds, how);
                    first.used(fds);
                }
            },
        );
    });
    fail(before);
}

/// The engine that these are to go to, with what belongs to them; `None`: the first uses them.
fn choose(first: &mut Sockets, fds: &[i32], how: Use) -> Option<(usize, Component)> {
    let is_free = |fd: &i32| marks::is_unclaimed(*fd) && !first.is_young(*fd, how == Use::Sends);
    let fds: Vec<i32> = fds.iter().copied().filter(is_free).collect();
    if fds.is_empty() {
        return None;
    }
    first.open_ports_for(&fds);
    let chosen = if is_too_early() {
        stay_for_now(&fds);
        None
    } else {
        choose_now(first, &fds, how)
    };
    if chosen.is_none() {
        first.used(&fds);
    }
    chosen
}

/// Whether there can be no engine but the first as yet.
fn is_too_early() -> bool {
    now_ns() < NOT_BEFORE_NS.load(Relaxed)
}

fn choose_now(first: &mut Sockets, fds: &[i32], how: Use) -> Option<(usize, Component)> {
    let me = thread_identity();
    let engine = engine_of_thread(me);
    if engine == Some(FIRST) {
        OWNERS[FIRST].store(me, Relaxed);
    }
    let Some(engine) = engine.filter(|engine| *engine != FIRST) else {
        stays(first, fds, how);
        return None;
    };
    let can_go = |component: &Component| can_move(component) && (how == Use::Waits || !component.has_sets());
    match first.first_use(fds) {
        FirstUse::Moves(component) if can_go(&component) => return Some((engine, component)),
        FirstUse::Undecided(component) if how == Use::Sends && can_go(&component) => return Some((engine, component)),
        FirstUse::Undecided(_) if how == Use::Waits => {}
        FirstUse::Later => {
            NOT_BEFORE_NS.store(now_ns() + ATTEMPTS_EVERY_NS, Relaxed);
            stay_for_now(fds);
        }
        FirstUse::Moves(_) | FirstUse::Undecided(_) | FirstUse::Stays => stays(first, fds, how),
    }
    None
}

/// These are the first engine's.
fn stays(first: &mut Sockets, fds: &[i32], how: Use) {
    if how == Use::Sends {
        return stay_for_now(fds);
    }
    first.settle_here(fds);
    fds.iter().filter(|fd| marks::is_unclaimed(**fd)).for_each(|fd| marks::claim(*fd));
}

/// These are the first engine's, and may still move when a thread waits for them.
fn stay_for_now(fds: &[i32]) {
    fds.iter().for_each(|fd| marks::note_used(*fd));
}

fn can_move(component: &Component) -> bool {
    component.sockets().iter().all(|id| marks::can_move(*id))
}

/// Moves a component to an engine, which is opened if there is none. `false`: there can be none.
fn move_out(engine: usize, first: &mut Sockets, other: &mut Option<Sockets>, component: &Component) -> bool {
    end_if(false, engine, first, other);
    if other.is_none() && first.may_try_to_open_branch() {
        *other = first.open_branch(engine as u32);
        state::note_opened(engine);
    }
    let is_moved = move_to_branch(engine, first, other, component);
    if is_moved {
        OWNERS[engine].store(thread_identity(), Relaxed);
    }
    is_moved
}

/// Moves a component to an engine that is there, by whose ports its frames come from then on. `false`: it has lost a port, or lacks one.
fn move_to_branch(engine: usize, first: &mut Sockets, other: &mut Option<Sockets>, component: &Component) -> bool {
    let Some(other) = other.as_mut().filter(|sockets| !sockets.is_spent()) else { return false };
    if !first.give_ports(other) {
        return false;
    }
    first.move_to(other, component, |what| note_moved(what, engine));
    other.use_component(component);
    true
}

/// The engine that serves all these fds, after having brought them together where several did. By the time it is
/// entered another thread may have moved some.
#[inline]
fn unite(fds: &[i32]) -> usize {
    if !state::has_several() { FIRST } else { unite_several(fds) }
}

#[cold]
fn unite_several(fds: &[i32]) -> usize {
    let followed = || fds.iter().copied().filter(|fd| marks::is_followed_or_stream(*fd));
    let Some(engine) = followed().map(marks::engine_of).max() else { return FIRST };
    // Sets inside sets are for the first.
    let are_nested = followed().filter(|fd| marks::is_epoll(*fd)).nth(1).is_some();
    let is_first = |fd: &i32| marks::engine_of(*fd) == FIRST;
    if !are_nested && followed().all(|fd| marks::engine_of(fd) == engine) {
        return engine;
    }
    let in_first: Vec<i32> = followed().filter(is_first).collect();
    let others_agree = followed().all(|fd| is_first(&fd) || marks::engine_of(fd) == engine);
    own_stack::run(|| {
        if !are_nested && others_agree && join(&in_first, engine) {
            return engine;
        }
        for fd in followed().filter(|fd| !is_first(fd)) {
            bring_to_first(marks::engine_of(fd), &[fd], &[]);
        }
        FIRST
    })
}

/// Moves what these fds name, and what belongs to it, to the engine that has the sockets they are used with. `false`: some of it was waited for
/// in the first.
fn join(fds: &[i32], engine: usize) -> bool {
    let joined = state::with_first_and(
        |first| Some((engine, first.component_of(fds).filter(can_move)?)),
        |(engine, component), first, other| move_to_branch(engine, first, other, &component),
    );
    joined == Some(true)
}

/// Runs `work` on the engine that serves all these fds, after having brought them together where several did.
/// The engine's number comes first.
#[inline]
pub fn with_all<R>(fds: &[i32], mut work: impl FnMut(usize, &mut Sockets) -> R) -> Option<R> {
    loop {
        let engine = unite(fds);
        let ran = state::with_subject(Subject::Engine(engine), |sockets| {
            are_served_by(fds, engine).then(|| work(engine, sockets))
        });
        match ran {
            Some(Some(result)) => return Some(result),
            // Some were moved in between, or the engine ended.
            _ if !are_served_by(fds, engine) => {}
            _ => return None,
        }
    }
}

#[inline]
fn are_served_by(fds: &[i32], engine: usize) -> bool {
    !state::has_several() || fds.iter().all(|fd| !marks::is_followed_or_stream(*fd) || marks::engine_of(*fd) == engine)
}

/// Does what sockets of an engine asked for in a call that is over.
#[cold]
pub fn grant(wish: Wish, engine: usize) {
    match wish {
        Wish::Nothing => {}
        Wish::FirstEngine => bring_wanted(engine),
        Wish::OnlyFirstEngine => {
            end_all();
            state::with(Sockets::others_ended);
        }
        Wish::AskSharing => ask_sharing(Subject::Engine(engine)),
        // Where there can be no thread, the program's next call answers.
        Wish::TimerThread => _ = timer::begin(),
        Wish::AllLook => state::with_each(Sockets::look),
    }
}

/// Asks the kernel which processes use the ports of an engine's sockets. It may take milliseconds, in which other threads go on.
fn ask_sharing(engine: Subject) {
    if let Some(question) = state::with_subject(engine, Sockets::take_sharing_question).flatten() {
        let mut answer = Some(question.ask());
        state::with_subject(engine, |sockets| answer.take().map(|answer| sockets.sharing_answered(answer)));
    }
}

/// Brings to the first engine what sockets of an engine asked to be there.
fn bring_wanted(engine: usize) {
    let Some(wanted) = state::with_subject(Subject::Engine(engine), Sockets::take_wanted_in_first) else { return };
    for id in wanted {
        bring_to_first(marks::engine_of_socket(id), &[], &[id]);
    }
}

/// Moves what these name, with all that belongs to it, from an engine to the first, for good.
#[cold]
fn bring_to_first(engine: usize, fds: &[i32], sockets: &[SocketId]) {
    state::with_first_and(
        |_| Some((engine, ())),
        |(engine, ()), first, other| {
            if let Some(other) = other {
                let component = other.all_of(fds, sockets);
                other.move_back_to(first, &component, |what| note_moved(what, FIRST));
            }
            end_if(false, engine, first, other);
        },
    );
}

/// Moves all that an engine has to the first, where nobody has used it yet, and ends it.
fn end(engine: usize) {
    state::with_first_and(
        |_| Some((engine, ())),
        |(engine, ()), first, other| {
            if let Some(sockets) = other {
                let again = |what| {
                    note_moved(what, FIRST);
                    if let Moved::Fd(fd) = what {
                        marks::begin_again(fd);
                    }
                };
                sockets.move_all_to(first, again);
                end_if(true, engine, first, other);
            }
        },
    );
}

fn end_all() {
    (0..ENGINES_MOST).for_each(end);
}

/// Ends an engine that is to end, or is spent.
fn end_if(ends: bool, engine: usize, first: &mut Sockets, other: &mut Option<Sockets>) {
    if let Some(sockets) = other.as_mut().filter(|sockets| ends || sockets.is_spent()) {
        first.take_back(sockets);
        OWNERS[engine].store(0, Relaxed);
    }
    // A thread that is about to sleep has copies of its fds.
    other.take_if(|sockets| sockets.is_spent() && !sockets.has_sleepers());
}

/// In a child of fork, which has one engine: that of its only thread.
pub fn after_fork_in_child() {
    OWNERS.iter().for_each(|owner| owner.store(0, Relaxed));
    OWNERS[FIRST].store(thread_identity(), Relaxed);
}

/// The engine that a thread has, or one that nobody uses.
fn engine_of_thread(me: usize) -> Option<usize> {
    let own = (FIRST..ENGINES_MOST).find(|engine| OWNERS[*engine].load(Relaxed) == me);
    own.or_else(|| (FIRST..ENGINES_MOST).find(|engine| marks::count_of(*engine) == 0))
}

/// What an engine has from now on.
pub fn note_moved(what: Moved, engine: usize) {
    match what {
        Moved::Fd(fd) => marks::move_fd(fd, engine),
        Moved::Socket(id) => marks::move_socket(id, engine),
    }
}
