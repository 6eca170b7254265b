//! What a thread cost: CPU time and context switches; the interrupt flag; parent death.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::time::{ClockId, clock_gettime};

/// Counters of the calling thread since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadUsage {
    /// User and system time.
    pub cpu_ns: u64,
    /// Times the thread gave up its CPU (it blocked).
    pub voluntary_switches: u64,
    /// Times the CPU was taken from it.
    pub involuntary_switches: u64,
}

impl ThreadUsage {
    /// Reads the calling thread's counters. CPU time comes from `CLOCK_THREAD_CPUTIME_ID`, which counts nanoseconds
    /// where getrusage(2) may only count ticks.
    #[must_use]
    pub fn now() -> ThreadUsage {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        // SAFETY: an all-zero `rusage` is a valid value of this plain C structure.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is live and writable, and RUSAGE_THREAD is a valid `who` since Linux 2.6.26; the call can
        // only fail for a bad argument, in which case the zeroes remain.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
        ThreadUsage {
            cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }

    /// What was used since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &ThreadUsage) -> ThreadUsage {
        ThreadUsage {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
        }
    }
}

/// CPU time of a child of this process that has ended, and of the descendants that it waited for, ns. The child is still to be
/// waited for afterwards, and until then no other process has its number.
///
/// # Errors
/// waitid(2) failed: no such child.
pub fn ended_child_cpu_ns(pid: u32) -> io::Result<u64> {
    // SAFETY: an all-zero `rusage` is a valid value of this plain C structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the system call takes a null siginfo for "not wanted", and writes at most a `rusage` to the live and writable
    // `usage`: the C library's function lacks this fifth argument (waitid(2), "C library/kernel differences").
    let result = unsafe {
        libc::syscall(
            libc::SYS_waitid,
            libc::P_PID,
            libc::c_long::from(pid),
            std::ptr::null_mut::<libc::siginfo_t>(),
            libc::WEXITED | libc::WNOWAIT,
            &raw mut usage,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Ok(ns(usage.ru_utime) + ns(usage.ru_stime))
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_interrupt(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// True once SIGINT, SIGTERM or SIGHUP came after [`catch_interrupts`].
#[inline]
#[must_use]
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// From now on SIGINT, SIGTERM and SIGHUP only set the flag that [`interrupted`] reads; a second one of the same kind
/// has its default effect, so that a program that hangs can still be ended.
///
/// # Errors
/// sigaction(2) failed.
pub fn catch_interrupts() -> io::Result<()> {
    // Without SA_RESTART, so that a blocked call returns EINTR; with SA_RESETHAND for the second signal.
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        set_action(signal, note_interrupt as *const () as libc::sighandler_t, libc::SA_RESETHAND)?;
    }
    Ok(())
}

/// As [`catch_interrupts`], each time: what is being put back must not be cut off by the second of two signals, which a
/// terminal that closes sends. Only SIGKILL ends a program that hangs.
///
/// # Errors
/// sigaction(2) failed.
pub fn catch_every_interrupt() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        set_action(signal, note_interrupt as *const () as libc::sighandler_t, 0)?;
    }
    Ok(())
}

/// As [`catch_every_interrupt`] for SIGINT and SIGTERM, and ignores SIGHUP: for a process that is to go on when its
/// terminal is gone. What it starts ignores SIGHUP too.
///
/// # Errors
/// sigaction(2) failed.
pub fn outlive_terminal() -> io::Result<()> {
    catch_every_interrupt()?;
    set_action(libc::SIGHUP, libc::SIG_IGN, 0)
}

/// From now on SIGTERM ends this process at once, as it does by default.
///
/// # Errors
/// sigaction(2) failed.
pub fn end_at_termination() -> io::Result<()> {
    set_action(libc::SIGTERM, libc::SIG_DFL, 0)
}

/// Ignores SIGINT, SIGTERM and SIGHUP: for work that is worse half done than late.
///
/// # Errors
/// sigaction(2) failed.
pub fn ignore_requests_to_end() -> io::Result<()> {
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().try_for_each(|signal| set_action(signal, libc::SIG_IGN, 0))
}

/// Ignores SIGINT: for a child that its parent ends, when a terminal sends Ctrl-C to both.
///
/// # Errors
/// sigaction(2) failed.
pub fn ignore_interrupts() -> io::Result<()> {
    set_action(libc::SIGINT, libc::SIG_IGN, 0)
}

fn set_action(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: an all-zero `sigaction` is a valid value: empty mask, no flags, default handler.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: `action` is live; the handler, if any, only stores to an atomic, which is async-signal-safe.
    match unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_thread_uses_cpu_time() {
        let before = ThreadUsage::now();
        let until = std::time::Instant::now() + std::time::Duration::from_millis(10);
        while std::time::Instant::now() < until {
            std::hint::spin_loop();
        }
        assert!(ThreadUsage::now().since(&before).cpu_ns > 1_000_000);
    }

    #[test]
    fn ended_child_tells_its_cpu_time_and_can_still_be_waited_for() {
        let spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let mut child = std::process::Command::new("sh").args(["-c", spin]).spawn().unwrap();
        let cpu_ns = ended_child_cpu_ns(child.id()).unwrap();
        assert!(cpu_ns > 1_000_000, "{cpu_ns}");
        assert!(child.wait().unwrap().success());
        assert!(ended_child_cpu_ns(child.id()).is_err());
    }

    #[test]
    fn sleeping_thread_counts_a_voluntary_switch() {
        let before = ThreadUsage::now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(ThreadUsage::now().since(&before).voluntary_switches >= 1);
    }
}
