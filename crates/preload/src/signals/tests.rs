//! Each test has a signal of its own, since actions belong to the process.

use std::cell::Cell;
use std::mem::zeroed;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use libc::{
    EINVAL, SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SA_RESTART, SA_SIGINFO, SI_QUEUE, SI_TKILL, SIGKILL, SIGRTMIN,
    SIGUSR1, SIGUSR2, SIGWINCH, pthread_kill, pthread_self, sigval, ucontext_t,
};

use super::older;
use super::*;

thread_local! {
    static RAN: Cell<u32> = const { Cell::new(0) };
    static SEEN: Cell<(c_int, c_int, usize, usize)> = const { Cell::new((0, 0, 0, 0)) };
    static DEPTH: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

extern "C" fn plain(_: c_int) {
    RAN.set(RAN.get() + 1);
}

extern "C" fn other(_: c_int) {
    RAN.set(RAN.get() + 100);
}

extern "C" fn informed(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's structures, of a signal sent with a value; gregs and signal stack are set.
    let (code, value, stack) = unsafe {
        let stack = (*context.cast::<ucontext_t>()).uc_stack.ss_sp as usize;
        ((*info).si_code, (*info).si_value().sival_ptr as usize, stack)
    };
    SEEN.set((signal, code, value, stack));
}

fn address(handler: extern "C" fn(c_int)) -> sighandler_t {
    handler as *const () as sighandler_t
}

fn action(handler: sighandler_t, flags: c_int) -> Action {
    // SAFETY: an all-zero action is a value of the type.
    let mut action = unsafe { zeroed::<Action>() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    action
}

/// Sets an action and gives the former.
fn set(signal: c_int, new: &Action) -> Action {
    // SAFETY: actions are variables, handlers functions of this file.
    unsafe {
        let mut old = zeroed();
        assert_eq!(sigaction(signal, new, &raw mut old), 0);
        old
    }
}

fn present(signal: c_int) -> Action {
    // SAFETY: `old` is a variable.
    unsafe {
        let mut old = zeroed();
        assert_eq!(sigaction(signal, ptr::null(), &raw mut old), 0);
        old
    }
}

fn raise(signal: c_int) {
    // SAFETY: the signal has a handler of this file.
    unsafe { assert_eq!(pthread_kill(pthread_self(), signal), 0) };
}

/// Handlers that ran in `work`, as counted.
fn counted(work: impl FnOnce()) -> (u32, u32) {
    let before = handlers_so_far();
    work();
    let after = handlers_so_far();
    (after.restarting - before.restarting, after.interrupting - before.interrupting)
}

#[test]
fn handler_with_and_without_restart_is_counted_apart() {
    let signal = SIGRTMIN();
    set(signal, &action(address(plain), 0));
    assert_eq!(counted(|| raise(signal)), (0, 1));
    set(signal, &action(address(plain), SA_RESTART));
    assert_eq!(counted(|| (0..3).for_each(|_| raise(signal))), (3, 0));
    assert_eq!(RAN.get(), 4);
}

#[test]
fn program_asks_its_own_handler_flags_and_mask_are_shown() {
    let signal = SIGRTMIN() + 1;
    assert_eq!(present(signal).sa_sigaction, SIG_DFL);
    let mut first = action(address(plain), SA_RESTART | SA_NODEFER);
    // SAFETY: the mask is a variable.
    unsafe { libc::sigaddset(&raw mut first.sa_mask, SIGUSR1) };
    assert_eq!(set(signal, &first).sa_sigaction, SIG_DFL);
    let informed = action(informed as *const () as sighandler_t, SA_SIGINFO);
    // Linux adds SA_RESTORER, which glibc shows.
    const SA_RESTORER: c_int = 0x0400_0000;
    for (old, new) in [(set(signal, &informed), &first), (set(signal, &first), &informed), (present(signal), &first)] {
        assert_eq!((old.sa_sigaction, old.sa_flags & !SA_RESTORER), (new.sa_sigaction, new.sa_flags));
        // SAFETY: the mask is a variable.
        assert_eq!(unsafe { libc::sigismember(&raw const old.sa_mask, SIGUSR1) == 1 }, new.sa_flags == first.sa_flags);
    }
    set(signal, &action(SIG_IGN, 0));
    assert_eq!(counted(|| raise(signal)), (0, 0));
    assert_eq!(set(signal, &first).sa_sigaction, SIG_IGN);
}

#[test]
fn action_refused_errno_is_the_kernels_and_nothing_changes() {
    // SAFETY: actions are variables.
    unsafe {
        let new = action(address(plain), 0);
        for signal in [SIGKILL, 0, 65, -1] {
            assert_eq!(sigaction(signal, &raw const new, ptr::null_mut()), -1);
            assert_eq!(*libc::__errno_location(), EINVAL);
        }
    }
    assert_eq!(present(SIGKILL).sa_sigaction, SIG_DFL);
}

#[test]
fn handler_reset_by_the_kernel_runs_once() {
    let signal = SIGWINCH;
    set(signal, &action(address(plain), SA_RESETHAND));
    assert_eq!(counted(|| raise(signal)), (0, 1));
    let after = present(signal);
    assert_eq!((after.sa_sigaction, after.sa_flags & SA_SIGINFO), (SIG_DFL, 0), "flags outlive the handler");
    assert_eq!(counted(|| raise(signal)), (0, 0), "the default is to ignore it");
}

#[test]
fn handler_sees_information_context_and_its_own_stack() {
    let signal = SIGRTMIN() + 2;
    let mut memory = vec![0_u8; 64 << 10];
    // SAFETY: the stack lives until it is disabled below; pointers are to variables.
    unsafe {
        let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
        let mut former = zeroed();
        assert_eq!(libc::sigaltstack(&raw const stack, &raw mut former), 0);
        set(signal, &action(informed as *const () as sighandler_t, SA_SIGINFO | SA_ONSTACK));
        let value = sigval { sival_ptr: 77 as *mut c_void };
        assert_eq!(libc::pthread_sigqueue(pthread_self(), signal, value), 0);
        assert_eq!(SEEN.get(), (signal, SI_QUEUE, 77, memory.as_ptr() as usize));
        raise(signal);
        assert_eq!(SEEN.get().1, SI_TKILL);
        libc::sigaltstack(&raw const former, ptr::null_mut());
    }
}

extern "C" fn nests(signal: c_int) {
    let (depth, deepest) = DEPTH.get();
    DEPTH.set((depth + 1, deepest.max(depth + 1)));
    if depth < 3 && deepest < 3 {
        raise(signal);
    }
    DEPTH.set((depth, DEPTH.get().1));
}

#[test]
fn signal_within_its_handler_nests_or_waits_by_the_flag() {
    let signal = SIGRTMIN() + 3;
    set(signal, &action(address(nests), SA_NODEFER));
    assert_eq!(counted(|| raise(signal)), (0, 4));
    assert_eq!(DEPTH.take(), (0, 4));
    set(signal, &action(address(nests), 0));
    DEPTH.set((2, 2));
    assert_eq!(counted(|| raise(signal)), (0, 2));
    assert_eq!(DEPTH.take(), (2, 3), "the second ran after the first");
}

#[test]
fn handler_runs_in_another_thread_only_that_one_counts() {
    let signal = SIGRTMIN() + 4;
    set(signal, &action(address(plain), 0));
    let waits = thread::spawn(|| {
        let before = handlers_so_far();
        while handlers_so_far() == before {
            thread::yield_now();
        }
        handlers_so_far().interrupting - before.interrupting
    });
    let ours = counted(|| {
        // Until it has begun to wait, a signal may come before its first look.
        while !waits.is_finished() {
            // SAFETY: the thread is not joined yet.
            unsafe { pthread_kill(waits.as_pthread_t(), signal) };
            thread::sleep(Duration::from_millis(5));
        }
    });
    assert_eq!((ours, waits.join().unwrap()), ((0, 0), 1));
}

#[test]
fn older_functions_give_the_flags_of_glibc() {
    let signal = SIGRTMIN() + 5;
    let flags = || present(signal).sa_flags & (SA_RESTART | SA_RESETHAND | SA_NODEFER | SA_SIGINFO);
    // SAFETY: handlers are functions of this file.
    unsafe {
        assert_eq!(older::signal(signal, address(plain)), SIG_DFL);
        assert_eq!((flags(), counted(|| raise(signal))), (SA_RESTART, (1, 0)));
        assert_eq!(older::siginterrupt(signal, 1), 0);
        assert_eq!((flags(), counted(|| raise(signal))), (0, (0, 1)));
        assert_eq!(older::signal(signal, address(other)), address(plain));
        assert_eq!((flags(), counted(|| raise(signal))), (0, (0, 1)));
        assert_eq!(older::siginterrupt(signal, 0), 0);
        assert_eq!(older::sysv_signal(signal, address(plain)), address(other));
        assert_eq!((flags(), counted(|| raise(signal))), (SA_RESETHAND | SA_NODEFER, (0, 1)));
        assert_eq!(older::signal(signal, libc::SIG_ERR), libc::SIG_ERR);
        assert_eq!(RAN.get(), 102 + 1);

        const SIG_HOLD: sighandler_t = 2;
        assert_eq!(older::sigset(signal, address(plain)), SIG_DFL);
        assert_eq!(older::sigset(signal, SIG_HOLD), address(plain));
        assert_eq!(counted(|| raise(signal)), (0, 0));
        let released = counted(|| assert_eq!(older::sigset(signal, address(other)), SIG_HOLD));
        assert_eq!((released, RAN.get()), ((0, 1), 203));
        assert_eq!(older::sigset(signal, SIG_DFL), address(other));
    }
}

#[test]
fn action_changed_while_another_thread_gets_signals_each_runs_one_of_the_two() {
    let signal = SIGRTMIN() + 6;
    set(signal, &action(address(plain), 0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (slow, quick) = (action(address(plain), 0), action(address(other), SA_RESTART));
            while !stop.load(Relaxed) {
                set(signal, &quick);
                set(signal, &slow);
            }
        });
        let counts = counted(|| (0..20_000).for_each(|_| raise(signal)));
        stop.store(true, Relaxed);
        assert_eq!(counts.0 + counts.1, 20_000);
        assert_eq!(RAN.get(), counts.0 * 100 + counts.1, "each handler ran under its own flag");
    });
}

#[test]
fn programs_action_is_ours_already_it_is_not_wrapped_twice() {
    let signal = SIGUSR2;
    set(signal, &action(address(plain), 0));
    // SAFETY: actions are variables; what the kernel has is set again, as a program does that asks it directly.
    unsafe {
        let mut raw = zeroed();
        assert_eq!(real::sigaction(signal, ptr::null(), &raw mut raw), 0);
        assert_ne!(raw.sa_sigaction, address(plain));
        assert_eq!(sigaction(signal, &raw const raw, ptr::null_mut()), 0);
    }
    assert_eq!(counted(|| raise(signal)), (0, 1));
    assert_eq!(present(signal).sa_sigaction, address(plain));
}
