//! Descriptors of our own, out of the program's way.
//!
//! A program expects low fds for what it opens, and may close fds that it did not open (`closefrom`, a loop up
//! to the limit). So ours are moved to fds of [`WINDOW`] below the limit of open files, and are known here, for the
//! exported calls to spare them: `close` answers EBADF as for an fd that is not open, `close_range` and `closefrom`
//! close what lies [between](gaps), `dup2` onto one answers EBADF as for an fd above the limit.
//!
//! Where the limit is high the fds end at [`HIGHEST`] nevertheless: the kernel's table of fds is as long as
//! the highest fd in it, and each fork copies that.
//!
//! Looking ([`is_internal`]) is one comparison for the fds that programs use. All of it is atomic variables, so it
//! works in signal handlers and in the child of a fork, which inherits descriptors and table; an exec closes and
//! forgets all.

use std::fs::DirEntry;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

#[cfg(test)]
mod tests;

/// Numbers kept for us.
pub const WINDOW: RawFd = 256;
/// No fd of ours is as high.
pub const HIGHEST: RawFd = 8192;
/// Windows that are tried, from the highest down, before a descriptor stays where it is.
const WINDOWS: RawFd = 4;

const WORDS: usize = (HIGHEST / 64) as usize;
/// A bit per fd.
static NUMBERS: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// No fd of ours is lower.
static LOWEST: AtomicI32 = AtomicI32::new(RawFd::MAX);
/// Room in the process's table of descriptors before ours made it longer; 0 until then.
static PROGRAM_TABLE_END: AtomicUsize = AtomicUsize::new(0);
/// The highest fd that a copy was given, or that was closed: the table stays as long.
static HIGHEST_KNOWN: AtomicI32 = AtomicI32::new(-1);
/// What the kernel gives a table at first (`NR_OPEN_DEFAULT` of include/linux/fdtable.h).
const TABLE_FIRST: usize = 64;

fn word(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(fd).ok()?;
    Some((NUMBERS.get(number / 64)?, 1 << (number % 64)))
}

/// Whether an fd is one of ours.
#[inline]
#[must_use]
pub fn is_internal(fd: RawFd) -> bool {
    fd >= LOWEST.load(Relaxed) && word(fd).is_some_and(|(word, bit)| word.load(Acquire) & bit != 0)
}

/// Declares a descriptor ours where it is.
///
/// # Errors
/// EMFILE: the fd is [`HIGHEST`] or more.
pub fn adopt(fd: impl AsFd) -> Result<(), Errno> {
    let number = fd.as_fd().as_raw_fd();
    let (word, bit) = word(number).ok_or(Errno::MFILE)?;
    word.fetch_or(bit, AcqRel);
    LOWEST.fetch_min(number, Relaxed);
    Ok(())
}

/// Where the window lies: right below the limit of open files, or the upper half where the limit is low.
fn window_start() -> RawFd {
    let limit = getrlimit(Resource::Nofile).current.map_or(HIGHEST, |limit| limit.min(HIGHEST as u64) as RawFd);
    (limit - WINDOW).max(limit / 2)
}

/// The fds that the process's table had room for when the first of ours came: what select(2) looks at
/// unless the program opens a higher one.
#[must_use]
pub fn program_table_end() -> usize {
    PROGRAM_TABLE_END.load(Relaxed).max(TABLE_FIRST)
}

/// Whether descriptors of ours may have made the table longer.
#[inline]
#[must_use]
pub fn has_longer_table() -> bool {
    PROGRAM_TABLE_END.load(Relaxed) != 0
}

/// `FDSize` of proc_pid_status(5); none where /proc is not mounted. It is inherited: a process forked by one with many
/// descriptors starts with a longer table.
fn table_end_now() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("FDSize:")?.trim().parse().ok())
}

/// The program has a descriptor under this fd, or had: its table has room for it. Nothing to note of those that each table has room for.
#[inline]
pub fn note_fd(number: RawFd) {
    if number >= TABLE_FIRST as RawFd {
        HIGHEST_KNOWN.fetch_max(number, Relaxed);
    }
}

/// The highest descriptor that the program has open, where /proc is mounted, or has copied to or closed. Of those that the C library
/// closed itself no more is known.
#[must_use]
pub fn highest_of_program() -> Option<usize> {
    let is_of_program = |fd: &RawFd| !is_internal(*fd);
    let number = |name: std::io::Result<DirEntry>| name.ok()?.file_name().to_str()?.parse::<RawFd>().ok();
    let open = std::fs::read_dir("/proc/self/fd").ok();
    let open = open.and_then(|names| names.filter_map(number).filter(is_of_program).max());
    usize::try_from(open.unwrap_or(-1).max(HIGHEST_KNOWN.load(Relaxed))).ok()
}

fn note_program_table() {
    if PROGRAM_TABLE_END.load(Relaxed) == 0 {
        PROGRAM_TABLE_END.store(table_end_now().unwrap_or(TABLE_FIRST), Relaxed);
    }
}

/// A copy as a high fd, close-on-exec.
fn moved_up(fd: impl AsFd) -> Result<OwnedFd, Errno> {
    let start = window_start();
    let mut result = Err(Errno::MFILE);
    for window in 0..WINDOWS {
        let from = start - window * WINDOW;
        if from <= WINDOW / 2 {
            break;
        }
        result = fcntl_dupfd_cloexec(&fd, from);
        if result.as_ref().is_ok_and(|copy| copy.as_raw_fd() < HIGHEST) {
            return result;
        }
    }
    result.and(Err(Errno::MFILE))
}

/// Makes the process's table of descriptors long enough for ours, by a copy of this one that is closed again.
pub fn make_room(fd: impl AsFd) {
    note_program_table();
    if let Ok(copy) = moved_up(fd) {
        // SAFETY: the fd is the copy, which is given up here. Not by the C function, which programs have by now.
        unsafe { rustix::io::close(copy.into_raw_fd()) };
    }
}

/// A copy that is ours from the first moment on: it takes no low fd unless all high ones are taken.
///
/// # Errors
/// What fcntl(2) says: EMFILE, EBADF.
pub fn copy(fd: impl AsFd) -> Result<OwnedFd, Errno> {
    note_program_table();
    let copy = moved_up(&fd).or_else(|_| fcntl_dupfd_cloexec(&fd, 0))?;
    let _ = adopt(&copy);
    Ok(copy)
}

/// Makes an fd ours: moves it to a high one, close-on-exec, and declares it. Where all high fds are taken
/// it stays where it is; one that is too high to be known ([`HIGHEST`]) is not spared when the program closes it.
#[must_use]
pub fn protect(fd: OwnedFd) -> OwnedFd {
    note_program_table();
    let fd = match moved_up(&fd) {
        Ok(high) => {
            drop(fd);
            high
        }
        Err(_) => fd,
    };
    // Not known, it works as long as the program leaves it alone, as most programs do.
    let _ = adopt(&fd);
    fd
}

/// Forgets an fd without closing it. The standard library closes an `OwnedFd` by the C function, which is our own
/// symbol: where `close` comes from within this library (the calling thread is inside the gate) for an fd of ours,
/// it is to forget the fd and close it by a raw system call.
pub fn release(fd: RawFd) {
    if let Some((word, bit)) = word(fd) {
        word.fetch_and(!bit, AcqRel);
    }
}

/// Closes one of ours by a raw system call, wherever the calling thread is.
pub fn close(fd: OwnedFd) {
    let number = fd.into_raw_fd();
    release(number);
    // SAFETY: the value that owned the descriptor gave it up.
    unsafe { rustix::io::close(number) };
}

/// Closes all of ours: in the child of a fork that cannot use them, and whose table is as long as what is open in it.
pub fn close_all() {
    HIGHEST_KNOWN.store(-1, Relaxed);
    for fd in LOWEST.load(Relaxed)..HIGHEST {
        if is_internal(fd) {
            release(fd);
            // SAFETY: the values that own these descriptors were forgotten.
            unsafe { rustix::io::close(fd) };
        }
    }
}

/// The ranges of fds from `first` to `last`, both included, that hold none of ours: what `close_range` and
/// `closefrom` close.
pub fn gaps(first: u32, last: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut next = (first <= last).then_some(first);
    std::iter::from_fn(move || {
        while let Some(start) = next {
            let lowest = LOWEST.load(Relaxed).cast_unsigned();
            let ours = (start.max(lowest)..=last.min(HIGHEST as u32)).find(|number| is_internal(number.cast_signed()));
            let end = ours.map_or(Some(last), |number| number.checked_sub(1));
            next = ours.and_then(|number| number.checked_add(1)).filter(|number| *number <= last);
            if let Some(end) = end.filter(|end| *end >= start) {
                return Some((start, end));
            }
        }
        None
    })
}
