//! How threads come to engines of their own.
//!
//! A socket begins in the first engine. Where several threads use that, one after the other gets those sockets that it
//! alone uses into an engine of its own, with a gate that it alone enters: queues, stack, epoll sets and all
//! (`nearwire_socket`, `engines.rs`). As many engines as a port was opened for, on one queue too.
//!
//! | what happens | what is done |
//! |---|---|
//! | a thread uses a socket again and again while others use the engine | it moves, with what belongs to it, to the thread's engine |
//! | two that are in different engines meet: in epoll_ctl, in one poll | both move to the first |
//! | something that only the first engine can do: a new interface, groups, frame times, a capture | all move to the first |
//! | fork | all move to the first, and the others end |
//!
//! Both gates are kept while something moves, the first engine's before the other's. A thread that waits for a gate is
//! inside no other, except here; a signal handler on top of a call of ours does not wait ([`Gate::enter_unless`]).
//!
//! [`Gate::enter_unless`]: crate::gate::Gate::enter_unless

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use nearwire_socket::{Component, Moved, Sockets, Wish};
use nearwire_sys::own_stack;

use crate::gate::thread_identity;
use crate::state::{self, ENGINES_MOST, FIRST, Subject};
use crate::{keeper, marks};

/// The thread that each engine was founded for, or that took it over: its identity. 0: none.
static OWNERS: [AtomicUsize; ENGINES_MOST] = [const { AtomicUsize::new(0) }; ENGINES_MOST];

/// The engine that serves all these numbers, after having brought them together where several did. By the time it is
/// entered another thread may have moved some.
#[inline]
fn unite(numbers: &[i32]) -> usize {
    if !state::has_several() { FIRST } else { unite_in_first(numbers) }
}

#[cold]
fn unite_in_first(numbers: &[i32]) -> usize {
    let followed = || numbers.iter().copied().filter(|number| marks::is_followed(*number));
    let Some(engine) = followed().next().map(marks::engine_of) else { return FIRST };
    // Sets inside sets are for the first.
    let are_nested = followed().filter(|number| marks::is_epoll(*number)).nth(1).is_some();
    if !are_nested && followed().all(|number| marks::engine_of(number) == engine) {
        return engine;
    }
    for number in followed() {
        own_stack::run(|| move_to_first(marks::engine_of(number), false));
    }
    FIRST
}

/// Runs `work` on the engine that serves all these numbers, after having brought them together in the first where several did.
/// The engine's number comes first.
#[inline]
pub fn with_all<R>(numbers: &[i32], mut work: impl FnMut(usize, &mut Sockets) -> R) -> Option<R> {
    loop {
        let engine = unite(numbers);
        let ran = state::with_subject(Subject::Engine(engine), |sockets| {
            are_served_by(numbers, engine).then(|| work(engine, sockets))
        });
        match ran {
            Some(Some(result)) => return Some(result),
            // Some were moved in between, or the engine ended.
            _ if !are_served_by(numbers, engine) => {}
            _ => return None,
        }
    }
}

/// The same for a call that waits for all of them at once, which then move together.
#[inline]
pub fn with_polled<R>(numbers: &[i32], mut work: impl FnMut(usize, &mut Sockets) -> R) -> Option<R> {
    let mut wanted_from = None;
    let result = with_all(numbers, |engine, sockets| {
        let result = work(engine, sockets);
        wanted_from = state::note_poll(engine, sockets, numbers).then_some(engine);
        result
    });
    if let Some(engine) = wanted_from {
        own_stack::run(|| give_own(engine, |first, me| first.component_of(me, numbers)));
    }
    result
}

#[inline]
fn are_served_by(numbers: &[i32], engine: usize) -> bool {
    !state::has_several()
        || numbers.iter().all(|number| !marks::is_followed(*number) || marks::engine_of(*number) == engine)
}

/// Does what sockets asked for in a call that is over.
#[cold]
pub fn grant(wish: Wish, subject: Subject) {
    match wish {
        Wish::Nothing => {}
        Wish::OwnEngine => give_own(subject.engine(), |first, me| match subject {
            Subject::Number(number) => first.component_of(me, &[number]),
            Subject::Socket(id) => first.component_of_socket(me, id),
            Subject::Engine(_) => None,
        }),
        Wish::FirstEngine => all_move_to_first(false),
        Wish::OnlyFirstEngine => {
            all_move_to_first(true);
            state::with(Sockets::others_ended);
        }
        Wish::AskSharing => ask_sharing(Subject::Engine(subject.engine())),
    }
}

/// Asks the kernel who has the ports of an engine's sockets. It may take milliseconds, in which other threads go on.
fn ask_sharing(engine: Subject) {
    if let Some(question) = state::with_subject(engine, Sockets::take_sharing_question).flatten() {
        let answer = question.ask();
        state::with_subject(engine, |sockets| sockets.sharing_answered(answer));
    }
}

/// Moves all that an engine has to the first; `ends`: and ends it.
#[cold]
fn move_to_first(engine: usize, ends: bool) {
    state::with_first_and(
        || Some(engine),
        |engine, first, other| {
            if let Some(sockets) = other {
                sockets.move_all_to(first, |what| note_moved(what, FIRST));
                end_if(ends, engine, first, other);
            }
        },
    );
}

fn all_move_to_first(ends: bool) {
    (0..ENGINES_MOST).for_each(|engine| move_to_first(engine, ends));
}

/// Ends an engine that is to end, or is spent.
fn end_if(ends: bool, engine: usize, first: &mut Sockets, other: &mut Option<Sockets>) {
    if let Some(sockets) = other.as_mut().filter(|sockets| ends || sockets.is_spent()) {
        first.take_back(sockets);
        OWNERS[engine].store(0, Relaxed);
    }
    // A thread that is about to sleep has the numbers of its descriptors.
    other.take_if(|sockets| sockets.is_spent() && !sockets.has_sleepers());
}

/// Before a fork: all move to the first engine, and the others end, so that parent and child have one. It stays so until
/// [`after_fork`].
pub fn fold_for_fork() {
    FORKS.fetch_add(1, Relaxed);
    if state::is_in_use() {
        // A thread that is about to found an engine has done so then, or learns of the fork in the gate. An engine that were left
        // would be torn down in the child, where its rings are not mapped.
        state::with(|_| ());
    }
    if state::has_several() {
        all_move_to_first(true);
    }
}

/// In the parent.
pub fn after_fork() {
    FORKS.fetch_sub(1, Relaxed);
}

/// Whether a thread is between the two.
pub fn is_forking() -> bool {
    FORKS.load(Relaxed) != 0
}

/// In a child of fork, which has one engine.
pub fn after_fork_in_child() {
    FORKS.store(0, Relaxed);
    OWNERS.iter().for_each(|owner| owner.store(0, Relaxed));
}

/// Moves what a call was about, with all that belongs to it, to the engine of the calling thread. Where that cannot be
/// it stays where it is.
#[cold]
fn give_own(from: usize, find: impl FnOnce(&mut Sockets, usize) -> Option<Component>) {
    if from != FIRST {
        // Shared, like the first engine: it goes the way over that.
        return move_to_first(from, false);
    }
    let me = thread_identity();
    state::with_first_and(
        || engine_of_thread(me),
        |engine, first, other| {
            let Some(component) = find(first, me) else { return };
            if !component.sockets().iter().all(|id| marks::can_move(*id)) {
                return;
            }
            end_if(false, engine, first, other);
            if other.is_none() {
                *other = first.found_engine(engine as u32, keeper::held_of(engine));
                state::note_founded(engine);
            }
            if let Some(other) = other.as_mut().filter(|sockets| !sockets.is_spent()) {
                OWNERS[engine].store(me, Relaxed);
                first.move_to(other, &component, |what| note_moved(what, engine));
            }
        },
    );
}

/// Threads that are about to fork: sockets stay in the first engine.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The engine that a thread has, or one that nobody uses.
fn engine_of_thread(me: usize) -> Option<usize> {
    if FORKS.load(Relaxed) != 0 {
        return None;
    }
    let mut numbers = FIRST + 1..ENGINES_MOST;
    let own = numbers.clone().find(|engine| OWNERS[*engine].load(Relaxed) == me);
    own.or_else(|| numbers.find(|engine| marks::count_of(*engine) == 0))
}

fn note_moved(what: Moved, engine: usize) {
    match what {
        Moved::Number(number) => marks::move_number(number, engine),
        Moved::Socket(id) => marks::move_socket(id, engine),
    }
}
