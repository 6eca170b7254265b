//! TCP connections: calls that send and receive.

use std::cell::Cell;
use std::time::Duration;

use libc::{c_int, c_short, iovec, msghdr, ssize_t};
use nearwire_socket::direct as words;
use nearwire_socket::{StreamCall, WaitsFor};
use nearwire_sys::own_stack;

use super::{adoption, direct};
use crate::c_types::message::{read_incoming, read_outgoing};
use crate::c_types::segments::{Of, Segments, single};
use crate::errno::{errno, fail};
use crate::signals::{deferral, handlers_so_far};
use crate::state::{self, FIRST, Subject};
use crate::turn::{Turn, Turns, Wait};
use crate::{cancellation, marks, real};

/// Flags that change nothing, or are followed.
const RECEIVE_FLAGS: c_int = libc::MSG_DONTWAIT
    | libc::MSG_PEEK
    | libc::MSG_NOSIGNAL
    | libc::MSG_CMSG_CLOEXEC
    | libc::MSG_WAITALL
    | libc::MSG_TRUNC;
/// Each is followed, and both only by the kernel.
const PEEK_ALL: c_int = libc::MSG_PEEK | libc::MSG_WAITALL;
const SEND_FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_EOR;

/// What came of an attempt.
enum Attempt {
    /// The call's return value.
    Ended(ssize_t),
    /// It is to be left, and to begin anew: a handler with SA_RESTART runs in between, or the thread is cancelled.
    Restart,
    /// The kernel has the connection.
    Kernel,
    /// The kernel is to have it for good.
    Leave,
}

use Attempt::{Ended, Kernel, Leave, Restart};

/// Receives: a whole call of the program. `original` makes it.
///
/// Neither this nor the next three are inlined: their frames would lie under every call of a datagram socket, on the
/// stack of the program.
///
/// # Safety
/// The pointers are those of a call that the program makes.
#[inline(never)]
pub unsafe fn receive(
    fd: c_int,
    (array, count): (*const iovec, usize),
    flags: c_int,
    original: impl Fn() -> ssize_t,
) -> ssize_t {
    // SAFETY: the caller's.
    let segments = unsafe { Segments::to_receive(array, count, Of::Vector) }.ok();
    let received = Cell::new(0);
    // SAFETY: the caller's.
    let attempt = || unsafe { receive_attempt(fd, segments.as_ref(), flags, &received) };
    let by_kernel = || match (received.get(), segments.as_ref()) {
        // SAFETY: the caller's.
        (1.., Some(segments)) => unsafe { receive_rest(fd, segments, received.get(), flags) },
        _ => original(),
    };
    let result = whole_call((fd, flags, libc::POLLIN), attempt, by_kernel);
    // What was received counts.
    if result < 0 && received.get() > 0 { received.get() as ssize_t } else { result }
}

/// A connection was released when a part of what a call waits for had come: the kernel gives the rest.
///
/// # Safety
/// As for [`receive`].
unsafe fn receive_rest(fd: c_int, segments: &Segments<'_>, received: usize, flags: c_int) -> ssize_t {
    if has_failed(fd) {
        return received as ssize_t;
    }
    let more = with_rest(segments, received, |message| {
        // SAFETY: the header is live, and its segments are those of the program's call.
        unsafe { real::recvmsg(fd, message, flags) }
    });
    // An error is for the next call.
    received as ssize_t + more.max(0)
}

/// What is behind the first `skip` bytes of some segments, as a message.
fn with_rest(segments: &Segments<'_>, skip: usize, call: impl FnOnce(*mut msghdr) -> ssize_t) -> ssize_t {
    let rest = segments.slices_from(skip).map(|slice| single(slice.as_ptr().cast(), slice.len())[0]);
    let mut rest: Vec<iovec> = rest.collect();
    // SAFETY: all zero is a header without anything.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (rest.as_mut_ptr(), rest.len() as _);
    call(&raw mut message)
}

/// recvmsg(2), the same way.
///
/// # Safety
/// As for [`receive`].
#[inline(never)]
pub unsafe fn receive_message(
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
    original: impl Fn() -> ssize_t,
) -> ssize_t {
    let (received, is_kernels) = (Cell::new(0), Cell::new(false));
    // SAFETY: the caller's.
    let incoming = || unsafe { read_incoming(message) }.ok();
    let attempt = || {
        let Some(incoming) = incoming() else { return Leave };
        // SAFETY: the caller's.
        unsafe { receive_attempt(fd, Some(&incoming.segments), flags, &received) }
    };
    // A part had come when the connection was released: what is written to the message is not the kernel's then.
    let by_kernel = || match (received.get(), incoming()) {
        // SAFETY: the caller's.
        (1.., Some(incoming)) => unsafe { receive_rest(fd, &incoming.segments, received.get(), flags) },
        _ => {
            is_kernels.set(true);
            original()
        }
    };
    let result = whole_call((fd, flags, libc::POLLIN), attempt, by_kernel);
    // What was received counts.
    let result = if result < 0 && received.get() > 0 { received.get() as ssize_t } else { result };
    if result >= 0
        && !is_kernels.get()
        && let Some(incoming) = incoming()
    {
        // SAFETY: the caller's. There is no name and no control message of a connection.
        let _ = unsafe { incoming.finish(None, 0) };
    }
    result
}

/// Sends: a whole call of the program. `original` makes it.
///
/// # Safety
/// As for [`receive`].
#[inline(never)]
pub unsafe fn send(
    fd: c_int,
    (array, count): (*const iovec, usize),
    flags: c_int,
    original: impl Fn() -> ssize_t,
) -> ssize_t {
    // SAFETY: the caller's.
    let segments = unsafe { Segments::new(array, count, Of::Vector) }.ok();
    send_all(fd, segments.as_ref(), flags, original)
}

/// sendmsg(2), the same way.
///
/// # Safety
/// As for [`receive`].
#[inline(never)]
pub unsafe fn send_message(fd: c_int, message: *const msghdr, flags: c_int, original: impl Fn() -> ssize_t) -> ssize_t {
    // SAFETY: the caller's.
    let outgoing = unsafe { read_outgoing(message) }.ok().filter(|outgoing| outgoing.control.is_empty());
    let segments = outgoing.map(|outgoing| outgoing.segments);
    send_all(fd, segments.as_ref(), flags, original)
}

/// A connection may be released when a part was sent: the kernel sends the rest, since a call that waits sends all.
fn send_all(fd: c_int, segments: Option<&Segments<'_>>, flags: c_int, original: impl Fn() -> ssize_t) -> ssize_t {
    let sent = Cell::new(0);
    let by_kernel = || match (sent.get(), segments) {
        (1.., Some(segments)) => send_rest(fd, segments, sent.get(), flags),
        _ => original(),
    };
    let result = whole_call((fd, flags, libc::POLLOUT), || send_attempt(fd, segments, flags, &sent), by_kernel);
    // What was sent counts.
    if result < 0 && sent.get() > 0 { sent.get() as ssize_t } else { result }
}

fn send_rest(fd: c_int, segments: &Segments<'_>, sent: usize, flags: c_int) -> ssize_t {
    if has_failed(fd) {
        // The next call tells how: the kernel tells it once.
        return sent as ssize_t;
    }
    let more = with_rest(segments, sent, |message| {
        // SAFETY: the header is live, and its segments are those of the program's call.
        unsafe { real::sendmsg(fd, message, flags) }
    });
    // An error is for the next call.
    sent as ssize_t + more.max(0)
}

/// Whether an error of a kernel's connection waits to be told.
fn has_failed(fd: c_int) -> bool {
    direct::polled(fd, 0).is_some_and(|found| found & libc::POLLERR != 0)
}

/// Makes attempts until one ends the call. What the kernel is to do it does in a call that is counted. The call's fd, flags and what it waits for.
fn whole_call(
    (fd, flags, event): (c_int, c_int, c_short),
    mut attempt: impl FnMut() -> Attempt,
    original: impl Fn() -> ssize_t,
) -> ssize_t {
    let before = handlers_so_far();
    let is_interrupted = || direct::end_call(before.since(), fd, flags, event);
    loop {
        cancellation::point();
        match deferral::inside(&mut attempt) {
            Ended(result) => return result,
            Kernel | Leave | Restart if is_interrupted() => return fail(libc::EINTR),
            Restart => {}
            Kernel => {
                if let Some(result) = direct::passes(fd, flags, event, &original) {
                    return result;
                }
                if !marks::is_stream(fd) || !state::is_in_use() {
                    return original();
                }
                if !is_carried(fd) && !words::may_pass(fd) && !adoption::claim(fd) {
                    adoption::leave(fd);
                }
            }
            Leave => {
                adoption::leave(fd);
                return original();
            }
        }
    }
}

/// Whether the stack carries the connection that an fd names.
pub fn is_carried(fd: c_int) -> bool {
    deferral::inside(|| state::with(|sockets| sockets.is_carried(fd))) == Some(true)
}

/// `received`: how many bytes attempts before this one have received, of a call that waits for all (MSG_WAITALL).
///
/// # Safety
/// The segments are writable.
unsafe fn receive_attempt(fd: c_int, segments: Option<&Segments<'_>>, flags: c_int, received: &Cell<usize>) -> Attempt {
    // A receive of nothing waits until there is something.
    let is_followed = flags & !RECEIVE_FLAGS == 0 && flags & PEEK_ALL != PEEK_ALL;
    let Some(segments) = segments.filter(|segments| is_followed && segments.total_bytes() > 0) else { return Leave };
    let (stays, takes_all) = (flags & libc::MSG_PEEK != 0, flags & libc::MSG_WAITALL != 0);
    // The bytes go nowhere (`tcp_recvmsg_locked`).
    let discards = flags & libc::MSG_TRUNC != 0;
    let total_bytes = segments.total_bytes();
    let mut may_wait = flags & libc::MSG_DONTWAIT == 0;
    // What ends the wait, unless there is something by then.
    let mut ends = None;
    let mut waiting = Waiting::default();
    loop {
        let call = state::with(|sockets| {
            let skip = received.get();
            sockets.receive_stream(fd, total_bytes - skip, may_wait, |one, two| {
                if discards {
                    let count = (one.len() + two.len()).min(total_bytes - skip);
                    return (if stays { 0 } else { count }, Ok(count));
                }
                // SAFETY: the caller's.
                let copied = unsafe {
                    let first = segments.scatter(one, skip);
                    first.and_then(|first| Ok(first + segments.scatter(two, skip + one.len())?))
                };
                let read = if stays { 0 } else { copied.unwrap_or(0) };
                (read, copied)
            })
        });
        let Some(call) = call else { return Kernel };
        match call {
            StreamCall::Done(Ok(count)) if takes_all && count > 0 && received.get() + count < total_bytes => {
                received.set(received.get() + count);
            }
            StreamCall::Done(Ok(count)) => return Ended((received.get() + count) as ssize_t),
            StreamCall::Failed(_) if received.get() > 0 => {
                state::with(|sockets| sockets.keep_stream_error(fd));
                return Ended(received.get() as ssize_t);
            }
            StreamCall::Done(Err(error)) => return Ended(fail(error.raw_os_error())),
            StreamCall::Kernel => return Kernel,
            StreamCall::Failed(error) => return Ended(fail(error)),
            StreamCall::WouldBlock { is_nonblocking, timeout } => {
                if let Some(ended) = ends.take() {
                    return ended;
                }
                let may_not_wait = is_nonblocking || flags & libc::MSG_DONTWAIT != 0;
                let before = errno();
                match waiting.turn(fd, may_not_wait, timeout) {
                    None => {}
                    Some(Ended(_) | Restart) if received.get() > 0 => {
                        fail(before);
                        return Ended(received.get() as ssize_t);
                    }
                    Some(ended) if may_not_wait => return ended,
                    // Less than SO_RCVLOWAT says is better than nothing.
                    ended => (ends, may_wait) = (ended, false),
                }
            }
        }
    }
}

/// `sent`: how many bytes attempts before this one have sent.
fn send_attempt(fd: c_int, segments: Option<&Segments<'_>>, flags: c_int, sent: &Cell<usize>) -> Attempt {
    let Some(segments) = segments.filter(|_| flags & !SEND_FLAGS == 0) else { return Leave };
    let total_bytes = segments.total_bytes();
    let mut waiting = Waiting::default();
    loop {
        let call = state::with(|sockets| {
            let mut last = StreamCall::Done(0);
            for rest in segments.slices_from(sent.get()) {
                let more = flags & libc::MSG_MORE != 0 || sent.get() + rest.len() < total_bytes;
                last = sockets.send_stream(fd, rest, more);
                let StreamCall::Done(count) = last else { return last };
                sent.set(sent.get() + count);
                if count < rest.len() {
                    // It tells why at the next attempt.
                    return StreamCall::Done(count);
                }
            }
            if total_bytes == 0 && !sockets.is_carried(fd) { StreamCall::Kernel } else { last }
        });
        let Some(call) = call else { return Kernel };
        let is_done = sent.get() == total_bytes;
        match call {
            StreamCall::Done(_) if is_done => return Ended(total_bytes as ssize_t),
            StreamCall::Done(_) => {}
            // What was sent before counts; the error is for the next call.
            StreamCall::Failed(_) if sent.get() > 0 => {
                state::with(|sockets| sockets.keep_stream_error(fd));
                return Ended(sent.get() as ssize_t);
            }
            StreamCall::Kernel => return Kernel,
            StreamCall::Failed(error) => {
                if error == libc::EPIPE && flags & libc::MSG_NOSIGNAL == 0 {
                    // SAFETY: raise(3) takes any signal (`sk_stream_error` of net/core/stream.c).
                    unsafe { libc::raise(libc::SIGPIPE) };
                }
                return Ended(fail(error));
            }
            StreamCall::WouldBlock { is_nonblocking, timeout } => {
                let may_not_wait = is_nonblocking || flags & libc::MSG_DONTWAIT != 0;
                let before = errno();
                match waiting.turn(fd, may_not_wait, timeout) {
                    None => {}
                    Some(Restart) if sent.get() == 0 => return Restart,
                    Some(Ended(_) | Restart) if sent.get() > 0 => {
                        fail(before);
                        return Ended(sent.get() as ssize_t);
                    }
                    Some(ended) => return ended,
                }
            }
        }
    }
}

/// A call that waits for bytes or for room.
#[derive(Default)]
struct Waiting(Option<Turns<'static>>);

impl Waiting {
    /// Waits a turn; what ends the attempt.
    fn turn(&mut self, fd: c_int, may_not_wait: bool, timeout: Option<Duration>) -> Option<Attempt> {
        if may_not_wait {
            return Some(Ended(fail(libc::EAGAIN)));
        }
        let turns = self.0.get_or_insert_with(|| {
            let (never_restarts, subject) = (timeout.is_some(), Subject::Engine(FIRST));
            Turns::new(Wait {
                timeout,
                mask: None,
                never_restarts,
                spins: true,
                waits_for: WaitsFor::Anything,
                subject,
            })
        });
        match turns.turn(&mut Vec::new()) {
            Turn::Again => None,
            Turn::Lend => {
                own_stack::run(|| state::with(|sockets| sockets.lend(&[fd])));
                None
            }
            Turn::Restarted => Some(Restart),
            Turn::TimedOut => Some(Ended(fail(libc::EAGAIN))),
            Turn::Interrupted => Some(Ended(fail(libc::EINTR))),
        }
    }
}
