//! One thread at a time, and as good as free for a program with one thread.
//!
//! A [`Gate`] is a biased lock. The first thread that enters owns the bias: it enters and leaves with plain loads and
//! stores. When another thread comes, it takes the bias away once, with a system call that makes every thread of the
//! process run a memory barrier, and from then on the gate is a spin lock that sleeps when it takes long. A thread that
//! then enters [`STREAK`] times with no other in between gets a bias of its own (a program that sets up in one thread
//! and works in another, or whose other threads come by now and then); eight threads can have had one.
//!
//! The same thread cannot enter twice: a signal handler, or a call of the C library that came back to our symbols, is
//! told [`Entered::Reentered`] and never waits for itself.
//!
//! # What it costs
//!
//! Enter and leave, the least of five batches of `gate_entered_and_left_costs` (release build, Intel Xeon, two virtual
//! CPUs shared with others, hence the ranges; 0.6 of each is the loop):
//!
//! | | ns |
//! |---|---|
//! | biased | 0.9 to 1.7 |
//! | spin lock, no other thread waiting | 16 to 27 |
//! | `std::sync::Mutex`, no other thread waiting | 11 to 17 |
//! | taking the bias away, once, the other threads asleep | 170 |
//! | the same, another thread running | 1300 to 4200 |
//!
//! # Why it is right
//!
//! Let O own the bias with slot `s`, let R take it away.
//!
//! ```text
//! O: S1  inside[s] = O            R: (has the lock)
//!    --  compiler fence              S2  bias = EVERYBODY
//!    L1  bias still O's?             --  membarrier(PRIVATE_EXPEDITED)
//!        then it is in               L2  inside[s] == 0, acquire: now R is in
//!    S3  inside[s] = 0, release
//! ```
//!
//! `membarrier` returns after every running thread of the process has executed a full barrier somewhere between call
//! and return, and a thread that does not run passed one when it was switched out. So there is a point P in O's
//! instruction stream at which a full barrier acts; the compiler fence keeps S1 before L1 in that stream. Two cases:
//!
//! * S1 lies before P. Then the store is visible to everybody once membarrier has returned, and L2 reads it: R waits
//!   until S3. S3 is a release and L2 an acquire, so R sees all that O did to the value.
//! * S1 lies after P. Then L1 does too, S2 was before membarrier, so L1 reads EVERYBODY: O steps back (`inside[s] = 0`)
//!   and queues for the lock. It has not touched the value.
//!
//! The barrier costs R some microseconds and O nothing but an interrupt, which is why O needs none of its own (an
//! asymmetric fence). What O reads of the value after L1 it may in fact read earlier, but nobody else writes the value
//! before S2 and P.
//!
//! *Handing a bias over*: M has the lock. It stores `inside[t] = M` for its slot `t`, then `bias = M, t`, then frees the
//! lock (release), then `inside[t] = 0`. Whoever takes the lock next (acquire) sees both. A former owner that still
//! stands between S1 and L1 writes its own slot only, which nobody waits for any more; this is why each slot is one
//! thread's for ever. M itself cannot stand there: it has the lock. Who waited for M's slot in a former revocation held
//! the lock for as long.
//!
//! *Signals*: every step of one thread leaves "I am in" (`lock` or a slot holds this thread's identity) visible to the
//! thread's own handlers before it touches the value and until it has stopped to.
//!
//! *Thread identity* is the thread pointer (`%fs:0`, `TPIDR_EL0`), which is unique among living threads. A new thread
//! may get the pointer of one that ended: it then owns the dead one's bias, rightly, since starting a thread on a
//! reused stack happens after the end of the former one.
//!
//! # What it cannot do
//!
//! A signal handler that leaves by `siglongjmp` from within the closure would leave the gate closed: for its own thread each
//! call would then be a re-entry, other threads would wait for ever. So handlers wait until a call is over
//! (`signals/deferral.rs`). Those of faults (SIGSEGV from a bad pointer of the program's) cannot wait, and a jump out of one
//! does leave it closed until the thread's next call finds that out (`signals/faults.rs`). Without membarrier (Linux before
//! 4.14, a seccomp filter) the gate starts as a spin lock.

use std::cell::UnsafeCell;
use std::fmt;
use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicUsize, compiler_fence};

use rustix::thread::{MembarrierCommand, Timespec, futex, membarrier, nanosleep, sched_yield};

mod identity;
#[cfg(test)]
mod tests;

pub use identity::thread_identity;

/// So many entries of one thread in a row, and it gets the bias.
pub const STREAK: u32 = 4096;

/// Slots; the low bits of a thread's identity, which are zero, have room for one's number.
const SLOTS: usize = 8;
const SLOT_MASK: usize = SLOTS - 1;
/// `bias`: no thread has entered yet.
const NOBODY: usize = 0;
/// `bias`: the lock decides. No thread has the identity 0.
const EVERYBODY: usize = SLOT_MASK;

/// Looks at a variable before yielding, and yields before sleeping.
const SPINS: u32 = 100;
const YIELDS: u32 = 20;
const LOOKS: u32 = SPINS + YIELDS;
/// Sleep between two looks at an owner that does not come out, in ns.
const OWNER_NAP_NS: i64 = 50_000;
/// Without any membarrier: by then a store has left every store buffer. In ns.
const SETTLED_NS: i64 = 10_000_000;

/// What came of [`Gate::enter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered<R> {
    /// The closure ran; this is what it returned.
    Ran(R),
    /// This thread is inside already; the closure did not run.
    Reentered,
}

/// In what state a fork left the value for the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AfterFork {
    /// No other thread was inside.
    Whole,
    /// Another thread was inside at the fork: the value may be half changed. Do not use it, do not drop it.
    Torn,
}

/// Gives one thread at a time a `&mut T`; see the module for how.
#[repr(align(64))]
pub struct Gate<T> {
    /// NOBODY, EVERYBODY, or identity of the owner | slot. After the first claim only a holder of the lock writes it.
    bias: AtomicUsize,
    /// The owner's identity while it is inside; only the slot's one owner writes it.
    inside: [AtomicUsize; SLOTS],
    /// Identity of the thread that holds the lock, or 0.
    lock: AtomicUsize,
    /// Threads that sleep, or are about to.
    sleepers: AtomicU32,
    /// Futex: changes when a sleeper shall look again.
    wakes: AtomicU32,
    /// Under the lock: who entered last, and how often in a row.
    last: AtomicUsize,
    streak: AtomicU32,
    /// The thread of each slot, or 0. Written under the lock; the first one by the thread that claims the bias first.
    slot_of: [AtomicUsize; SLOTS],
    value: UnsafeCell<T>,
}

// SAFETY: `value` is reached by the thread that is inside only, as the module's argument says, so sharing a gate moves
// the value between threads and never shares it.
unsafe impl<T: Send> Sync for Gate<T> {}

enum Arrival {
    Reentered,
    /// The calling thread has just become the owner of the bias.
    Owner,
    Locked,
}

/// Leaves when dropped, so after a panic too.
enum Leaves<'a, T> {
    Slot(&'a AtomicUsize),
    Lock(&'a Gate<T>, usize),
}

impl<T> Drop for Leaves<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        match self {
            Leaves::Slot(inside) => inside.store(0, Release),
            Leaves::Lock(gate, me) => gate.leave_lock(*me),
        }
    }
}

impl<T> Gate<T> {
    /// A gate that no thread has entered.
    pub const fn new(value: T) -> Gate<T> {
        Gate {
            bias: AtomicUsize::new(NOBODY),
            inside: [const { AtomicUsize::new(0) }; SLOTS],
            lock: AtomicUsize::new(0),
            sleepers: AtomicU32::new(0),
            wakes: AtomicU32::new(0),
            last: AtomicUsize::new(0),
            streak: AtomicU32::new(0),
            slot_of: [const { AtomicUsize::new(0) }; SLOTS],
            value: UnsafeCell::new(value),
        }
    }

    /// Runs the closure as the only thread inside. Waits for another thread that is in; does not wait, and does not run
    /// the closure, where this thread is. A panic in the closure passes through and leaves the gate open.
    #[inline]
    pub fn enter<R>(&self, work: impl FnOnce(&mut T) -> R) -> Entered<R> {
        self.enter_unless(|_| false, work)
    }

    /// The same; where it could have to wait, and `must_not_wait` says so of this thread's identity, the closure does not
    /// run.
    #[inline]
    pub fn enter_unless<R>(&self, must_not_wait: impl Fn(usize) -> bool, work: impl FnOnce(&mut T) -> R) -> Entered<R> {
        let me = thread_identity();
        let bias = self.bias.load(Relaxed);
        if bias & !SLOT_MASK == me {
            let inside = &self.inside[bias & SLOT_MASK];
            if inside.load(Relaxed) != 0 {
                return Entered::Reentered;
            }
            inside.store(me, Relaxed);
            compiler_fence(SeqCst);
            let leaves = Leaves::<T>::Slot(inside);
            if self.bias.load(Relaxed) == bias {
                compiler_fence(SeqCst);
                // SAFETY: this thread owns the bias and said so before it looked: whoever takes the bias away waits for
                // `leaves`. It was not inside, so no other reference exists.
                return Entered::Ran(work(unsafe { &mut *self.value.get() }));
            }
            drop(leaves);
        }
        if must_not_wait(me) {
            return Entered::Reentered;
        }
        self.enter_slowly(me, work)
    }

    /// Whether a thread has the bias: a thread inside asks whether it is alone.
    #[inline]
    pub fn is_biased(&self) -> bool {
        self.bias.load(Relaxed) != EVERYBODY
    }

    /// Whether the thread inside, without the bias, was the only one here of late, and none is known to wait for it: by these many
    /// entries in a row. Asked by that thread.
    pub fn is_of_one_thread_for(&self, entries: u32) -> bool {
        self.streak.load(Relaxed) >= entries && self.sleepers.load(Relaxed) == 0
    }

    /// Stays inside until [`Gate::let_go`]: across a fork, say. `false`: this thread is inside already.
    #[must_use]
    pub fn hold(&self) -> bool {
        let me = thread_identity();
        loop {
            let bias = self.bias.load(Relaxed);
            if bias & !SLOT_MASK == me {
                let inside = &self.inside[bias & SLOT_MASK];
                if inside.load(Relaxed) != 0 {
                    return false;
                }
                inside.store(me, Relaxed);
                compiler_fence(SeqCst);
                if self.bias.load(Relaxed) == bias {
                    return true;
                }
                inside.store(0, Release);
            }
            match self.arrive(me) {
                Arrival::Reentered => return false,
                Arrival::Owner => {}
                Arrival::Locked => return true,
            }
        }
    }

    /// Runs `work` on the value in a [`Gate::hold`] of the calling thread.
    ///
    /// # Safety
    /// The thread holds the gate, and is in no closure that has the value.
    pub unsafe fn with_held<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the thread keeps all others out, and has no other reference (the caller's).
        work(unsafe { &mut *self.value.get() })
    }

    /// Where the calling thread is inside by a closure that it has jumped out of: runs `work` in its place, and leaves.
    ///
    /// # Safety
    /// The closure never goes on.
    pub unsafe fn leave_for_jumped(&self, work: impl FnOnce(&mut T)) {
        if self.is_inside(thread_identity()) {
            // SAFETY: this thread is inside, and nothing uses the closure's reference any more (the caller's).
            work(unsafe { &mut *self.value.get() });
            self.let_go();
        }
    }

    /// Ends a [`Gate::hold`] of the calling thread.
    pub fn let_go(&self) {
        let me = thread_identity();
        if self.lock.load(Relaxed) == me {
            self.leave_lock(me);
        } else if let Some(inside) = self.inside.iter().find(|inside| inside.load(Relaxed) == me) {
            inside.store(0, Release);
        }
    }

    #[cold]
    #[inline(never)]
    fn enter_slowly<R>(&self, me: usize, work: impl FnOnce(&mut T) -> R) -> Entered<R> {
        match self.arrive(me) {
            Arrival::Reentered => Entered::Reentered,
            Arrival::Owner => self.enter(work),
            Arrival::Locked => {
                let _leaves = Leaves::Lock(self, me);
                // SAFETY: this thread holds the lock, no bias is left whose owner could be inside, and it was not
                // inside before, so no other reference exists until `_leaves` is dropped.
                Entered::Ran(work(unsafe { &mut *self.value.get() }))
            }
        }
    }

    /// Whether the thread with this identity, which must be the calling one, is inside.
    pub fn is_inside(&self, me: usize) -> bool {
        self.lock.load(Relaxed) == me || self.inside.iter().any(|inside| inside.load(Relaxed) == me)
    }

    fn arrive(&self, me: usize) -> Arrival {
        if self.is_inside(me) {
            return Arrival::Reentered;
        }
        if self.bias.load(Relaxed) == NOBODY {
            let barrier = membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
            let claim = if barrier { me } else { EVERYBODY };
            if self.bias.compare_exchange(NOBODY, claim, SeqCst, SeqCst).is_ok() && barrier {
                self.slot_of[0].store(me, Relaxed);
                return Arrival::Owner;
            }
        }
        self.take_lock(me);
        let bias = self.bias.load(Relaxed);
        if bias != EVERYBODY {
            self.revoke(bias);
        }
        let again = self.last.load(Relaxed) == me;
        self.last.store(me, Relaxed);
        self.streak.store(if again { self.streak.load(Relaxed) + 1 } else { 0 }, Relaxed);
        Arrival::Locked
    }

    /// Takes the bias away. The caller holds the lock.
    fn revoke(&self, bias: usize) {
        self.bias.store(EVERYBODY, SeqCst);
        barrier_in_every_thread();
        let inside = &self.inside[bias & SLOT_MASK];
        let mut looks = 0;
        while inside.load(Acquire) != 0 {
            looks += 1;
            match looks {
                ..SPINS => spin_loop(),
                SPINS..LOOKS => sched_yield(),
                // An owner of lower priority on the same CPU must get to run.
                _ => nap(OWNER_NAP_NS),
            }
        }
    }

    fn try_lock(&self, me: usize) -> bool {
        self.lock.load(Relaxed) == 0 && self.lock.compare_exchange(0, me, SeqCst, Relaxed).is_ok()
    }

    fn take_lock(&self, me: usize) {
        for _ in 0..SPINS {
            if self.try_lock(me) {
                return;
            }
            spin_loop();
        }
        for _ in 0..YIELDS {
            sched_yield();
            if self.try_lock(me) {
                return;
            }
        }
        self.sleepers.fetch_add(1, SeqCst);
        loop {
            let wakes = self.wakes.load(SeqCst);
            // After the announcement: either this finds the lock free or who frees it finds a sleeper.
            if self.lock.compare_exchange(0, me, SeqCst, SeqCst).is_ok() {
                break;
            }
            let _ = futex::wait(&self.wakes, futex::Flags::PRIVATE, wakes, None);
        }
        self.sleepers.fetch_sub(1, SeqCst);
    }

    #[cold]
    fn leave_lock(&self, me: usize) {
        if self.streak.load(Relaxed) < STREAK {
            return self.free_lock();
        }
        self.streak.store(0, Relaxed);
        let Some(slot) = self.slot_for(me) else { return self.free_lock() };
        self.slot_of[slot].store(me, Relaxed);
        self.inside[slot].store(me, Relaxed);
        self.bias.store(me | slot, SeqCst);
        self.free_lock();
        self.inside[slot].store(0, Release);
    }

    /// The slot that a thread has, or one that nobody has had. The first is the first claimer's, which may not have said
    /// so yet.
    fn slot_for(&self, me: usize) -> Option<usize> {
        let is_of = |slot: &usize, who| self.slot_of[*slot].load(Relaxed) == who;
        (0..SLOTS).find(|slot| is_of(slot, me)).or_else(|| (1..SLOTS).find(|slot| is_of(slot, 0)))
    }

    fn free_lock(&self) {
        self.lock.store(0, SeqCst);
        if self.sleepers.load(SeqCst) != 0 {
            self.wakes.fetch_add(1, SeqCst);
            let _ = futex::wake(&self.wakes, futex::Flags::PRIVATE, 1);
        }
    }

    /// In the child of a fork: forgets the threads that do not exist there. The calling thread must be the only one; it
    /// may be inside (a fork within the closure keeps the value whole) and then still is.
    pub fn reset_after_fork(&self) -> AfterFork {
        let me = thread_identity();
        let slot = self.inside.iter().position(|inside| inside.load(Relaxed) == me);
        let locked = self.lock.load(Relaxed) == me;
        let others = self.lock.load(Relaxed) != 0 || self.inside.iter().any(|inside| inside.load(Relaxed) != 0);
        for (number, inside) in self.inside.iter().enumerate() {
            inside.store(if Some(number) == slot { me } else { 0 }, Relaxed);
        }
        self.lock.store(if locked { me } else { 0 }, Relaxed);
        self.sleepers.store(0, Relaxed);
        self.streak.store(0, Relaxed);
        for (number, owner) in self.slot_of.iter().enumerate() {
            owner.store(if Some(number) == slot { me } else { 0 }, Relaxed);
        }
        let bias = match slot {
            Some(slot) => me | slot,
            None if locked => EVERYBODY,
            None => NOBODY,
        };
        let _ = membarrier(MembarrierCommand::RegisterPrivateExpedited);
        self.bias.store(bias, SeqCst);
        if others && slot.is_none() && !locked { AfterFork::Torn } else { AfterFork::Whole }
    }
}

impl<T> fmt::Debug for Gate<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Gate").field("bias", &self.bias).field("lock", &self.lock).finish_non_exhaustive()
    }
}

/// Returns after each thread of the process has run a full memory barrier since the call.
pub fn barrier_in_every_thread() {
    let expedited = || membarrier(MembarrierCommand::PrivateExpedited);
    let registered = || membarrier(MembarrierCommand::RegisterPrivateExpedited).and_then(|()| expedited());
    let global = || membarrier(MembarrierCommand::Global);
    if expedited().or_else(|_| registered()).or_else(|_| global()).is_err() {
        // A filter of system calls came after the registration. No memory model promises it, but no CPU keeps a store
        // back for so long, and the interrupts of that time are barriers.
        nap(SETTLED_NS);
    }
}

fn nap(duration_ns: i64) {
    let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: duration_ns });
}
