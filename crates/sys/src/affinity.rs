//! Where the calling thread runs, and memory that stays in place.

use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pins the calling thread.
///
/// # Errors
/// The CPU does not exist or is not allowed for this process.
pub fn pin_current_thread(cpu: u32) -> Result<(), Errno> {
    pin_current_thread_to(&[cpu])
}

/// Has the calling thread run on some CPUs only.
///
/// # Errors
/// None of them is there and allowed for this process.
pub fn pin_current_thread_to(cpus: &[u32]) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu as usize >= CpuSet::MAX_CPU {
            return Err(Errno::INVAL);
        }
        set.set(cpu as usize);
    }
    sched_setaffinity(None, &set)
}

/// CPUs the calling thread may run on, ascending.
#[must_use]
pub fn allowed_cpus() -> Vec<u32> {
    let Ok(set) = sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect()
}

/// The CPU that the calling thread runs on now.
#[must_use]
pub fn current_cpu() -> u32 {
    rustix::thread::sched_getcpu() as u32
}

/// Has the calling thread run anywhere but on one CPU: on those that it is allowed now, and where that one is the only
/// one (a program that was pinned), on any that its cpuset has.
///
/// # Errors
/// There is no other.
pub fn avoid_cpu(cpu: u32) -> Result<(), Errno> {
    let without = |mut set: CpuSet| {
        if (cpu as usize) < CpuSet::MAX_CPU {
            set.unset(cpu as usize);
        }
        set
    };
    let others = without(sched_getaffinity(None)?);
    if others.count() > 0 {
        return sched_setaffinity(None, &others);
    }
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    sched_setaffinity(None, &without(all))
}

/// Locks what is mapped now, so that no sample waits for a page. Later mappings are not locked: a limit on locked
/// memory would then make them fail.
///
/// # Errors
/// EPERM or ENOMEM: more than RLIMIT_MEMLOCK without CAP_IPC_LOCK.
pub fn lock_memory() -> Result<(), Errno> {
    mlockall(MlockAllFlags::CURRENT)
}
