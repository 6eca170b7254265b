//! poll(2) and select(2).

use std::time::Duration;

use libc::{FD_SETSIZE, c_int, c_ulong, fd_set, nfds_t, pollfd, sigset_t};
use nearwire_socket::poll::PollSplit;
use nearwire_socket::poll::select::{FdSets, WORD_BITS};
use nearwire_socket::{Concerns, Sockets};
use nearwire_sys::own_stack;
use rustix::process::{Resource, getrlimit};

use crate::calls::direct;
use crate::cancellation;
use crate::errno::{errno, fail};
use crate::probe::is_readable;
use crate::signals::deferral;
use crate::state::{self, Subject};
use crate::turn::{Turn, Turns, Wait, to_timespec};
use crate::{engines, internal_fd, marks, real};

/// How often the kernel's descriptors are asked while the call spins: each turn in so many.
const TURNS_PER_ASKING: u32 = 128;

/// Arrays up to this length are within every limit of open files, which poll(2) looks at first.
const COUNT_UNCHECKED: usize = 256;

/// poll(2). `None`: there is nothing in it that the library follows, or the kernel would refuse it. `original` makes the call as it is.
///
/// # Safety
/// `fds` points to `count` entries.
pub unsafe fn poll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: Option<Duration>,
    mask: Option<&sigset_t>,
    original: impl FnOnce() -> c_int,
) -> Option<c_int> {
    let count = usize::try_from(count).ok()?;
    if !state::is_in_use() || count == 0 || (count > COUNT_UNCHECKED && count as u64 > open_files_most()) {
        return None;
    }
    if !is_readable(fds, count.checked_mul(size_of::<pollfd>())?) {
        return None;
    }
    // SAFETY: the caller's.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count) };
    if !fds.iter().any(|entry| marks::is_followed_or_stream(entry.fd)) {
        return None;
    }
    let at_once = direct::waits(fds.iter().map(|entry| entry.fd), original);
    by_library(at_once, timeout, |timeout| poll_call(fds, timeout, mask))
}

/// What becomes of a wait that the kernel did not make at once. One that was interrupted looks at what is there, and does not wait for more.
fn by_library(
    at_once: direct::Wait,
    timeout: Option<Duration>,
    call: impl FnOnce(Option<Duration>) -> Option<c_int>,
) -> Option<c_int> {
    match at_once {
        direct::Wait::Done(result) => Some(result),
        direct::Wait::Library => call(timeout),
        direct::Wait::Interrupted => match call(Some(Duration::ZERO))? {
            0 if timeout != Some(Duration::ZERO) => Some(fail(libc::EINTR) as c_int),
            found => Some(found),
        },
    }
}

fn open_files_most() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// A list divided into what is ours and what is the kernel's.
#[derive(Default)]
struct Divided {
    split: PollSplit,
    /// The engine that serves all of it, and its generation when it was divided: who serves a socket may change while a
    /// call waits.
    divided: Option<(usize, u64)>,
    concerns: Option<Concerns>,
    /// An epoll descriptor is in it.
    has_sets: bool,
}

impl Divided {
    /// Whether it was divided anew.
    fn divide(&mut self, fds: &[pollfd], engine: usize, sockets: &mut Sockets) -> bool {
        if self.divided == Some((engine, sockets.generation())) {
            return false;
        }
        let uses = |sockets: &Sockets, fd| is_read(fds, fd) || !sockets.awaits_first_use(fd);
        self.split.fill(fds, |fd| match fd {
            fd if marks::is_socket(fd) && uses(sockets, fd) => sockets.accelerated(fd),
            fd if marks::is_stream(fd) => {
                sockets.claim_stream(fd);
                sockets.carried(fd)
            }
            _ => None,
        });
        let of = |entry: &pollfd| match entry.fd {
            fd if marks::is_epoll(fd) => sockets.epoll_concerns(fd),
            fd if marks::is_socket(fd) && sockets.is_undecided(fd) => Concerns::Later,
            // Another thread may have it adopted meanwhile.
            fd if marks::is_stream(fd) => Concerns::Later,
            _ => Concerns::No,
        };
        let concerns = if self.split.has_ours() { Concerns::Now } else { Concerns::No };
        self.concerns = Some(fds.iter().map(of).fold(concerns, Concerns::max));
        self.has_sets = fds.iter().any(|entry| marks::is_epoll(entry.fd));
        // Deciding on a socket above may have changed it.
        self.divided = Some((engine, sockets.generation()));
        true
    }
}

/// Whether a list asks for what can be received. A program that is about to send asks for room alone, which does not make it a server.
fn is_read(fds: &[pollfd], fd: c_int) -> bool {
    const READS: i16 = libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLPRI;
    fds.iter().any(|entry| entry.fd == fd && entry.events & READS != 0)
}

/// A whole call of the program.
#[inline]
fn poll_call(fds: &mut [pollfd], mut timeout: Option<Duration>, mask: Option<&sigset_t>) -> Option<c_int> {
    loop {
        cancellation::point();
        match deferral::inside(|| poll_slice(fds, timeout, mask))? {
            Attempt::Ended(result) => return Some(result),
            Attempt::Restart(rest) => timeout = rest,
        }
    }
}

/// What came of an attempt.
pub(super) enum Attempt {
    /// The call's return value.
    Ended(c_int),
    /// The call is to be left, as the thread is cancelled; if it goes on it has this time left.
    Restart(Option<Duration>),
}

use Attempt::{Ended, Restart};

fn poll_slice(fds: &mut [pollfd], timeout: Option<Duration>, mask: Option<&sigset_t>) -> Option<Attempt> {
    let mut list = Divided::default();
    let numbers: Vec<c_int> = fds.iter().map(|entry| entry.fd).filter(|fd| marks::is_followed_or_stream(*fd)).collect();
    let is_waited_for =
        |fd: &c_int| marks::is_followed(*fd) && !marks::is_unused(*fd) || marks::is_epoll(*fd) || is_read(fds, *fd);
    let waited_for: Vec<c_int> = numbers.iter().copied().filter(is_waited_for).collect();
    engines::about_to_wait_for_all(&waited_for);
    engines::with_all(&numbers, |engine, sockets| list.divide(fds, engine, sockets))?;
    let spins = match list.concerns? {
        Concerns::No => return None,
        concerns => concerns == Concerns::Now,
    };
    let mut turns: Option<Turns<'_>> = None;
    let mut looks = 0_u32;
    loop {
        let is_last = turns.as_ref().is_some_and(Turns::is_over);
        if (is_last || looks.is_multiple_of(TURNS_PER_ASKING)) && !list.split.kernel().is_empty() {
            ask_kernel(list.split.kernel());
        }
        looks = looks.wrapping_add(1);
        let (engine, ready) = engines::with_all(&numbers, |engine, sockets| {
            if list.split.has_ours() || list.has_sets {
                sockets.take_in();
            }
            if list.divide(fds, engine, sockets) && !list.split.kernel().is_empty() {
                return (engine, None);
            }
            let ready = list.split.merge(fds, |id| sockets.readiness_of(id));
            (engine, Some(ready + mark_sets(fds, |fd| sockets.epoll_is_ready(fd) == Some(true))))
        })?;
        // The kernel was asked about another list, if at all.
        let Some(ready) = ready else {
            looks = 0;
            continue;
        };
        // Without time it looks at signals (`do_poll`), of which only a mask could let one through just now.
        if ready > 0 || (timeout == Some(Duration::ZERO) && mask.is_none()) {
            return Some(Ended(ready as c_int));
        }
        let wait = Wait { spins, ..Wait::poll(timeout, mask, Subject::Engine(engine)) };
        let turns = turns.get_or_insert_with(|| Turns::new(wait));
        turns.is_at(Subject::Engine(engine));
        match turns.turn(list.split.kernel()) {
            Turn::Again => {}
            Turn::Lend => {
                own_stack::run(|| engines::with_all(&numbers, |_, sockets| sockets.lend(&numbers)));
            }
            Turn::Restarted => return Some(Restart(turns.rest())),
            Turn::TimedOut => return Some(Ended(0)),
            Turn::Interrupted => return Some(Ended(fail(libc::EINTR) as c_int)),
        }
    }
}

/// Epoll descriptors that the kernel finds nothing in, and the library does. How many.
fn mark_sets(fds: &mut [pollfd], mut is_ready: impl FnMut(c_int) -> bool) -> usize {
    let mut marked = 0;
    for entry in fds.iter_mut().filter(|entry| entry.fd >= 0 && marks::is_epoll(entry.fd)) {
        const READABLE: i16 = libc::POLLIN | libc::POLLRDNORM;
        let wanted = entry.events & READABLE;
        if entry.revents & wanted == 0 && wanted != 0 && is_ready(entry.fd) {
            marked += usize::from(entry.revents == 0);
            entry.revents |= wanted;
        }
    }
    marked
}

fn ask_kernel(fds: &mut [pollfd]) {
    let now = to_timespec(Duration::ZERO);
    // SAFETY: a live array and timeout; the answer is in the array.
    unsafe { real::ppoll(fds.as_mut_ptr(), fds.len() as nfds_t, &raw const now, std::ptr::null()) };
}

/// select(2). `original` makes the call as it is.
///
/// # Safety
/// The sets are null or hold `count` bits.
pub unsafe fn select(
    count: c_int,
    sets: [*mut fd_set; 3],
    timeout: Option<Duration>,
    mask: Option<&sigset_t>,
    original: impl FnOnce() -> c_int,
) -> Option<c_int> {
    // SAFETY: the caller's.
    let (mut sets, count) = unsafe { select_sets(count, sets) }?;
    let at_once = direct::waits(sets.fds(count), original);
    by_library(at_once, timeout, |timeout| select_call(count, &mut sets, timeout, mask))
}

fn select_call(
    count: usize,
    sets: &mut FdSets<'_>,
    mut timeout: Option<Duration>,
    mask: Option<&sigset_t>,
) -> Option<c_int> {
    loop {
        cancellation::point();
        match deferral::inside(|| select_attempt(count, sets, timeout, mask))? {
            Ended(result) => return Some(result),
            Restart(rest) => timeout = rest,
        }
    }
}

/// The sets of a select(2) as words, and how many bits of each count.
///
/// # Safety
/// As for [`select`].
unsafe fn select_sets<'s>(count: c_int, [read, write, except]: [*mut fd_set; 3]) -> Option<(FdSets<'s>, usize)> {
    if !state::is_in_use() {
        return None;
    }
    let count = usize::try_from(count).ok()?;
    let words = count.div_ceil(WORD_BITS);
    let bad = |set: *mut fd_set| !set.is_null() && !is_readable(set, words * size_of::<c_ulong>());
    if bad(read) || bad(write) || bad(except) {
        return None;
    }
    // SAFETY: the caller's; a program may have sets longer than `fd_set`, of which select(2) reads `count` bits.
    let words_of = |set: *mut fd_set| unsafe {
        (!set.is_null()).then(|| std::slice::from_raw_parts_mut(set.cast::<c_ulong>(), words))
    };
    Some((FdSets { read: words_of(read), write: words_of(write), except: words_of(except) }, count))
}

fn select_attempt(
    count: usize,
    sets: &mut FdSets<'_>,
    timeout: Option<Duration>,
    mask: Option<&sigset_t>,
) -> Option<Attempt> {
    let mut list = Vec::new();
    sets.poll_list(count, &mut list);
    if !list.iter().any(|entry| marks::is_followed_or_stream(entry.fd)) {
        return None;
    }
    let count = count.min(table_end(&list));
    list.retain(|entry| (entry.fd as usize) < count);
    let attempt = poll_slice(&mut list, timeout, mask)?;
    if !matches!(attempt, Ended(0..)) {
        return Some(attempt);
    }
    Some(Ended(match sets.answer(count, &list) {
        Ok(bits) => bits as c_int,
        Err(errno) => fail(errno.raw_os_error()) as c_int,
    }))
}

/// What select(2) is to be given for a count of the program's: the kernel reads and writes as many bits, but none beyond the end
/// of the table of descriptors. Programs give it the limit of open files with sets of `FD_SETSIZE` bits, so where our own descriptors
/// made the table longer, what lies behind such a set would be overwritten.
pub fn select_count(count: c_int) -> c_int {
    if count <= FD_SETSIZE as c_int || !internal_fd::has_longer_table() {
        return count;
    }
    count_of_program(count)
}

/// The fds below `count` that the program's table would have room for.
fn count_of_program(count: c_int) -> c_int {
    let end = deferral::inside(|| end_of_program(internal_fd::program_table_end()));
    count.min(c_int::try_from(end).unwrap_or(c_int::MAX))
}

/// select(2) by the kernel, which `call` asks about so many fds. Of those behind the end of the program's table it ignores
/// what is not open; where our own descriptors made the table longer it refuses them, with the sets as they were, and is asked again
/// about those before the end.
pub fn select_by_kernel(count: c_int, call: impl Fn(c_int) -> c_int) -> c_int {
    let result = call(count);
    let is_within = usize::try_from(count).is_ok_and(|count| count <= internal_fd::program_table_end());
    if result >= 0 || errno() != libc::EBADF || is_within || !internal_fd::has_longer_table() {
        return result;
    }
    let fewer = count_of_program(count);
    if fewer < count { call(fewer) } else { fail(libc::EBADF) as c_int }
}

/// Bits beyond the end of the process's table of descriptors are ignored and left as they are (`core_sys_select`). Our own
/// descriptors made the table longer than the program's would be, so its end is what the program's own need.
fn table_end(list: &[pollfd]) -> usize {
    let first_end = internal_fd::program_table_end();
    // In ascending order; most often the last one is within the table, or open.
    match list.last() {
        Some(last) if last.fd as usize >= first_end && !is_open(last.fd) => {}
        _ => return usize::MAX,
    }
    end_of_program(first_end)
}

/// Where the table would end that was so long at first.
fn end_of_program(first_end: usize) -> usize {
    internal_fd::highest_of_program().map_or(first_end, |highest| (highest + 1).next_power_of_two().max(first_end))
}

fn is_open(fd: c_int) -> bool {
    let before = errno();
    // SAFETY: an fd that is not open is an error.
    let is_open = marks::is_followed(fd) || unsafe { real::fcntl(fd, libc::F_GETFD, 0) } >= 0;
    fail(before);
    is_open
}
