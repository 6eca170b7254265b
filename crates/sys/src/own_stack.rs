//! Work that needs a deep stack, in a thread that may have a small one.
//!
//! A preloaded library runs on the stacks of the program's threads, of which the smallest that POSIX allows has 16 KiB. What
//! opens interfaces or reads the kernel's tables needs more, so it runs on a stack of the library's own: mapped when it is
//! first needed, with a page below it that cannot be touched, and kept for the next one that needs it. To change stacks costs
//! some nanoseconds and hides the work from the optimizer, so what happens for each datagram does not use it.

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Of one stack, with the page below it. Memory is used where it was touched only.
const STACK_BYTES: usize = 512 * 1024;
const GUARD_BYTES: usize = 64 * 1024;
/// Stacks that are kept: so many threads seldom do deep work at once.
const KEPT_MOST: usize = 8;

/// Where each begins, or 0.
static KEPT: [AtomicUsize; KEPT_MOST] = [const { AtomicUsize::new(0) }; KEPT_MOST];

thread_local! {
    /// The calling thread is on such a stack.
    static IS_ON_OWN: Cell<bool> = const { Cell::new(false) };
}

/// One stack, for as long as the work takes.
struct Stack(usize);

impl Stack {
    fn take() -> Option<Stack> {
        let kept = KEPT.iter().filter(|slot| slot.load(Relaxed) != 0).map(|slot| slot.swap(0, AcqRel));
        kept.into_iter().find(|start| *start != 0).map(Stack).or_else(Stack::map)
    }

    fn map() -> Option<Stack> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: new memory where the kernel has room.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), STACK_BYTES, access, flags | MapFlags::STACK) }.ok()?;
        let stack = Stack(start as usize);
        // SAFETY: the first pages of that memory, which nothing uses.
        unsafe { mprotect(start, GUARD_BYTES, MprotectFlags::empty()) }.ok()?;
        Some(stack)
    }

    /// 64 bytes that nobody else touches, above which there is nothing.
    const fn top(&self) -> usize {
        self.0 + STACK_BYTES - 64
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        for slot in &KEPT {
            if slot.compare_exchange(0, self.0, AcqRel, Relaxed).is_ok() {
                return;
            }
        }
        // SAFETY: it was mapped with this length, and nothing runs on it.
        let _ = unsafe { munmap(self.0 as *mut c_void, STACK_BYTES) };
    }
}

/// What runs, and what came of it.
struct Job<F, R> {
    work: Option<F>,
    result: Option<std::thread::Result<R>>,
}

extern "C" fn run_job<F: FnOnce() -> R, R>(job: *mut c_void) {
    // SAFETY: `run` passes a job of just this type, which it does not touch meanwhile.
    let job = unsafe { &mut *job.cast::<Job<F, R>>() };
    let Some(work) = job.work.take() else { return };
    job.result = Some(catch_unwind(AssertUnwindSafe(work)));
}

/// Runs `work` on a stack of the library's own, or where the thread is on one already, or none can be had, on the present one.
/// A panic passes through.
pub fn run<R>(work: impl FnOnce() -> R) -> R {
    if IS_ON_OWN.get() {
        return here(work);
    }
    match Stack::take() {
        Some(stack) => run_on(&stack, work),
        None => here(work),
    }
}

/// The calling thread has jumped away from such a stack, if it was on one, which is lost.
pub fn left() {
    IS_ON_OWN.set(false);
}

/// Never a part of the caller: what the work needs of a stack would be taken from the one that the thread is on, whichever
/// way it goes.
#[inline(never)]
fn here<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[inline(never)]
fn run_on<F: FnOnce() -> R, R>(stack: &Stack, work: F) -> R {
    let mut job = Job { work: Some(work), result: None };
    IS_ON_OWN.set(true);
    // SAFETY: the stack is this thread's until the call is over; `run_job` takes what `job` is, and lets nothing unwind.
    unsafe { call_on(stack.top(), run_job::<F, R>, (&raw mut job).cast()) };
    IS_ON_OWN.set(false);
    match job.result {
        Some(Ok(result)) => result,
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("the work ran or panicked"),
    }
}

/// Calls a function with another stack.
///
/// # Safety
/// `top` is the aligned end of memory that nothing else uses as long as the function runs, and enough for it; the function
/// does not unwind.
#[cfg(target_arch = "x86_64")]
unsafe fn call_on(top: usize, function: extern "C" fn(*mut c_void), argument: *mut c_void) {
    // SAFETY: the caller's. The former stack pointer is in a register that functions preserve.
    unsafe {
        std::arch::asm!(
            "xchg rsp, r12",
            "call {function}",
            "mov rsp, r12",
            function = in(reg) function,
            inout("r12") top => _,
            in("rdi") argument,
            clobber_abi("C"),
        );
    }
}

/// Calls a function with another stack.
///
/// # Safety
/// `top` is the aligned end of memory that nothing else uses as long as the function runs, and enough for it; the function
/// does not unwind.
#[cfg(target_arch = "aarch64")]
unsafe fn call_on(top: usize, function: extern "C" fn(*mut c_void), argument: *mut c_void) {
    // SAFETY: the caller's. The former stack pointer is in a register that functions preserve.
    unsafe {
        std::arch::asm!(
            "mov x21, sp",
            "mov sp, x20",
            "blr {function}",
            "mov sp, x21",
            function = in(reg) function,
            in("x20") top,
            out("x21") _,
            in("x0") argument,
            clobber_abi("C"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs more than the stacks of the tests below have.
    fn deep() -> usize {
        let memory = std::hint::black_box([1_u8; 200 * 1024]);
        memory.iter().map(|byte| usize::from(*byte)).sum()
    }

    #[test]
    fn deep_work_of_a_thread_with_a_small_stack_runs() {
        let small = || std::thread::Builder::new().stack_size(32 * 1024);
        let threads: Vec<_> = (0..20).map(|_| small().spawn(|| run(|| run(deep))).unwrap()).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), 200 * 1024);
        }
        assert!(KEPT.iter().any(|slot| slot.load(Relaxed) != 0), "one is kept");
    }

    #[test]
    fn panic_of_the_work_passes_through() {
        let caught = catch_unwind(|| run(|| panic!("of the work")));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"of the work"));
        assert_eq!(run(|| 5), 5);
    }
}
