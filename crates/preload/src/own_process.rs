//! Whether the library's state is this process's own: that of a child of fork begins as a copy of its parent's, and a child of vfork has
//! its parent's memory.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32};

use rustix::mm::{Advice, madvise};
use rustix::process::getpid;
use rustix::thread::{gettid, sched_yield};

const PAGE_BYTES: usize = 4096;

/// What only this process has: in a child of fork it is zero. A page of its own.
#[repr(C, align(4096))]
struct OwnPage {
    /// [`READY`]; 0 in a process that has not begun, or a new child; else the thread that begins.
    phase: AtomicU32,
    pid: AtomicI32,
    _rest: [u8; PAGE_BYTES - 8],
}

const READY: u32 = u32::MAX;

static OWN: OwnPage = OwnPage { phase: AtomicU32::new(0), pid: AtomicI32::new(0), _rest: [0; PAGE_BYTES - 8] };

fn pid() -> i32 {
    getpid().as_raw_nonzero().get()
}

/// Whether the library's state is this process's own.
#[inline]
pub fn is_ready() -> bool {
    OWN.phase.load(Relaxed) == READY
}

/// Makes the library's state this process's own by `work`, unless another thread does so already.
#[cold]
pub fn begin(work: impl FnOnce()) -> bool {
    let me = this_thread();
    if OWN.phase.compare_exchange(0, me, Acquire, Relaxed).is_err() {
        return wait_for_beginner(me);
    }
    end_beginning(work);
    true
}

/// The same in the child of a fork, whose only thread this is.
pub fn begin_in_child(work: impl FnOnce()) {
    OWN.phase.store(this_thread(), Relaxed);
    end_beginning(work);
}

/// The state is own when this is done, and known to be.
fn end_beginning(work: impl FnOnce()) {
    work();
    OWN.pid.store(pid(), Relaxed);
    OWN.phase.store(READY, Release);
}

/// Has the kernel clear the page in children of any fork, so that [`is_ready`] is false there.
pub fn wipe_in_children() {
    let page = (&raw const OWN).cast_mut().cast();
    // SAFETY: a whole page of this library's zeroed data, which holds nothing but the value. Refused (before Linux
    // 4.14), only forks that run the handlers are noticed.
    let _ = unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) };
}

/// Another thread is at it, which takes microseconds: a call that did not wait would not be followed. `false`: it is this one,
/// beneath a signal handler.
#[cold]
fn wait_for_beginner(me: u32) -> bool {
    loop {
        match OWN.phase.load(Acquire) {
            READY => return true,
            beginner if beginner == me => return false,
            _ => sched_yield(),
        }
    }
}

/// The pid of this process, without a system call where it is known. In a child of vfork that is its parent's, whose memory
/// it has.
pub fn own_pid() -> u32 {
    let known = OWN.phase.load(Relaxed) == READY;
    if known { OWN.pid.load(Relaxed) } else { pid() }.cast_unsigned()
}

fn this_thread() -> u32 {
    gettid().as_raw_nonzero().get().cast_unsigned()
}

/// Whether this is a child of vfork, which has its parent's memory: what it does to descriptors must not be followed.
pub fn is_borrowed() -> bool {
    OWN.phase.load(Relaxed) == READY && OWN.pid.load(Relaxed) != pid()
}
