//! Sending and receiving.
#![allow(clippy::missing_safety_doc, reason = "as for the C function of each name")]
#![allow(missing_docs, reason = "each is the C function of its name")]

use std::ptr;
use std::time::{Duration, Instant};

use libc::{
    FILE, c_char, c_int, c_uint, c_void, iovec, loff_t, mmsghdr, msghdr, off_t, off64_t, size_t, sockaddr, socklen_t,
    ssize_t, timespec,
};

use crate::c_types::is_plausible;
use crate::c_types::segments::single;
use crate::calls::direct;
use crate::calls::process;
use crate::calls::receive::{self, Attempt, Into};
use crate::calls::{adoption, send, stream, tcp};
use crate::errno::{errno, fail};
use crate::signals::deferral;
use crate::turn::{readable, to_timespec};
use crate::{cancellation, marks, probe, real, state};

/// Calls that the kernel gets at once look at one line of memory, so the rest is apart.
#[inline(always)]
unsafe fn recv_into(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
    name: *mut sockaddr,
    name_length: *mut socklen_t,
) -> Option<ssize_t> {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        direct::receives(fd, flags, || real::recvfrom(fd, buffer, length, flags, name, name_length))
            .or_else(|| recv_by_library(fd, buffer, length, flags, name, name_length))
    }
}

#[inline(never)]
unsafe fn recv_by_library(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
    name: *mut sockaddr,
    name_length: *mut socklen_t,
) -> Option<ssize_t> {
    if !marks::is_socket(fd) {
        // SAFETY: the caller's, as for the C function.
        return marks::is_stream(fd).then(|| unsafe { recv_of_stream(fd, buffer, length, flags, name, name_length) });
    }
    let only = single(buffer, length);
    let into = Into::Segments { array: only.as_ptr(), count: 1, name, name_length };
    // SAFETY: the caller's, as for the C function.
    unsafe {
        receive::receive(fd, into, flags, |fd, more| {
            real::recvfrom(fd, buffer, length, flags | more, name, name_length)
        })
    }
}

#[inline(never)]
unsafe fn recv_of_stream(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
    name: *mut sockaddr,
    name_length: *mut socklen_t,
) -> ssize_t {
    let only = single(buffer, length);
    // SAFETY: the caller's, as for the C function.
    unsafe {
        let original = || real::recvfrom(fd, buffer, length, flags, name, name_length);
        let received = tcp::receive(fd, (only.as_ptr(), 1), flags, original);
        if received >= 0 && is_plausible(name_length, size_of::<socklen_t>()) && !name.is_null() {
            // Of a connection the source is not told.
            *name_length = 0;
        }
        received
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        recv_into(fd, buffer, length, flags, ptr::null_mut(), ptr::null_mut())
            .unwrap_or_else(|| real::recv(fd, buffer, length, flags))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's, as for the C function. Beyond `room` the original ends the program.
    unsafe {
        let received =
            if length > room { None } else { recv_into(fd, buffer, length, flags, ptr::null_mut(), ptr::null_mut()) };
        received.unwrap_or_else(|| real::__recv_chk(fd, buffer, length, room, flags))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
    name: *mut sockaddr,
    name_length: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        recv_into(fd, buffer, length, flags, name, name_length)
            .unwrap_or_else(|| real::recvfrom(fd, buffer, length, flags, name, name_length))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    room: size_t,
    flags: c_int,
    name: *mut sockaddr,
    name_length: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the caller's, as for the C function. Beyond `room` the original ends the program.
    unsafe {
        let received = if length > room { None } else { recv_into(fd, buffer, length, flags, name, name_length) };
        received.unwrap_or_else(|| real::__recvfrom_chk(fd, buffer, length, room, flags, name, name_length))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
    // SAFETY: the caller's, as for the C function. A read of nothing is nothing.
    unsafe {
        let received =
            if length == 0 { None } else { recv_into(fd, buffer, length, 0, ptr::null_mut(), ptr::null_mut()) };
        received.unwrap_or_else(|| real::read(fd, buffer, length))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t {
    // SAFETY: the caller's, as for the C function. Beyond `room` the original ends the program.
    unsafe { if length > room { real::__read_chk(fd, buffer, length, room) } else { read(fd, buffer, length) } }
}

/// Whether these have no room: a read of nothing is nothing (`sock_read_iter` of net/socket.c), and no datagram is taken.
///
/// # Safety
/// The segments are those of a call that the program makes.
unsafe fn have_no_room(segments: *const iovec, count: usize) -> bool {
    is_plausible(segments, size_of::<iovec>())
        // SAFETY: the caller's; they point somewhere.
        && (0..count).all(|at| unsafe { segments.add(at).read_unaligned() }.iov_len == 0)
}

unsafe fn recv_vector(fd: c_int, segments: *const iovec, count: c_int, flags: c_int) -> Option<ssize_t> {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        if marks::is_socket_or_stream(fd)
            && let Ok(segment_count) = usize::try_from(count)
            && segment_count > 0
            && !have_no_room(segments, segment_count)
        {
            let into = Into::Segments {
                array: segments,
                count: segment_count,
                name: ptr::null_mut(),
                name_length: ptr::null_mut(),
            };
            let mut message: msghdr = std::mem::zeroed();
            (message.msg_iov, message.msg_iovlen) = (segments.cast_mut(), segment_count as _);
            let original = |fd, more| {
                let mut message = message;
                real::recvmsg(fd, &raw mut message, more)
            };
            if let Some(received) = direct::receives(fd, flags, || original(fd, flags)) {
                return Some(received);
            }
            if marks::is_stream(fd) {
                return Some(tcp::receive(fd, (segments, segment_count), flags, || original(fd, flags)));
            }
            return receive::receive(fd, into, flags, original);
        }
        None
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, segments: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    unsafe { recv_vector(fd, segments, count, 0).unwrap_or_else(|| real::readv(fd, segments, count)) }
}

/// Flags of preadv2(2) that say nothing about a datagram.
const FLAGS_OF_FILES: c_int = libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_APPEND;

/// Of a socket, preadv2(2) is readv(2) where it is given no place to read from.
unsafe fn read_at_no_place(
    fd: c_int,
    segments: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> Option<ssize_t> {
    if offset != -1 || flags & !(FLAGS_OF_FILES | libc::RWF_NOWAIT) != 0 {
        return None;
    }
    let is_nowait = flags & libc::RWF_NOWAIT != 0;
    if is_nowait && marks::is_socket(fd) && !probe::sockets_take_nowait() {
        return None;
    }
    let flags = if is_nowait { libc::MSG_DONTWAIT } else { 0 };
    // SAFETY: the caller's, as for the C function.
    unsafe { recv_vector(fd, segments, count, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    segments: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        read_at_no_place(fd, segments, count, offset, flags)
            .unwrap_or_else(|| real::preadv2(fd, segments, count, offset, flags))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv64v2(
    fd: c_int,
    segments: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        read_at_no_place(fd, segments, count, offset, flags)
            .unwrap_or_else(|| real::preadv64v2(fd, segments, count, offset, flags))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_offset: *mut loff_t,
    to: c_int,
    to_offset: *mut loff_t,
    length: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        adoption::leave(from);
        adoption::leave(to);
        if marks::is_socket(from)
            && from_offset.is_null()
            && to_offset.is_null()
            && let Some(moved) = deferral::inside_deep(|| stream::splice_from(from, to, length, flags))
        {
            return moved;
        }
        real::splice(from, from_offset, to, to_offset, length, flags)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    adoption::leave(fd);
    // SAFETY: the caller's, as for the C function.
    let file = unsafe { real::fdopen(fd, mode) };
    if !file.is_null() {
        deferral::inside_deep(|| stream::opened_as_file(fd));
    }
    file
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    unsafe { recv_message(fd, message, flags).unwrap_or_else(|| real::recvmsg(fd, message, flags)) }
}

unsafe fn recv_message(fd: c_int, message: *mut msghdr, flags: c_int) -> Option<ssize_t> {
    if !marks::is_socket_or_stream(fd) || message.is_null() {
        return None;
    }
    // SAFETY: the caller's, as for the C function.
    let at_once = direct::receives(fd, flags, || unsafe { real::recvmsg(fd, message, flags) });
    if at_once.is_some() {
        return at_once;
    }
    if marks::is_stream(fd) {
        // SAFETY: as above.
        return Some(unsafe { tcp::receive_message(fd, message, flags, || real::recvmsg(fd, message, flags)) });
    }
    // SAFETY: as above.
    unsafe { receive::receive(fd, Into::Message(message), flags, |fd, more| real::recvmsg(fd, message, flags | more)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        adoption::leave(fd);
        let has_timeout = timeout.is_null() || is_plausible(timeout, size_of::<timespec>());
        if !marks::is_socket(fd) || !has_timeout || count == 0 {
            return real::recvmmsg(fd, messages, count, flags, timeout);
        }
        let at_once = direct::receives_several(fd, flags, || real::recvmmsg(fd, messages, count, flags, timeout));
        if let Some(received) = at_once {
            return received;
        }
        let Some(time) = super::poll::duration(timeout) else {
            return real::recvmmsg(fd, messages, count, flags, timeout);
        };
        let started = Instant::now();
        let deadline = time.and_then(|time| started.checked_add(time));
        let mut left = None;
        let received = loop {
            cancellation::point();
            match deferral::inside(|| recv_messages(fd, messages, count, flags, (deadline, &mut left))) {
                Received::Ended(received) => break received,
                Received::Restart => {}
                Received::Kernel => return real::recvmmsg(fd, messages, count, flags, timeout),
            }
        };
        if let Some(time) = time
            && received > 0
        {
            *timeout = crate::turn::to_timespec(time.saturating_sub(started.elapsed()));
        }
        received
    }
}

/// What came of a recvmmsg(2).
enum Received {
    /// Its return value.
    Ended(c_int),
    /// It is to be left before the first datagram, and to begin anew.
    Restart,
    /// It is the kernel's.
    Kernel,
}

/// As `do_recvmmsg` of `net/socket.c`: the timeout is looked at after each datagram, and an error after the first one is
/// told by the next call, but for EAGAIN. EINTR is not: the kernel keeps a number of its own there that no program knows.
unsafe fn recv_messages(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    (deadline, left): (Option<Instant>, &mut Option<Duration>),
) -> Received {
    let mut each = flags & !libc::MSG_WAITFORONE;
    let (mut done, before) = (0, errno());
    while done < count {
        let entry = messages.wrapping_add(done as usize);
        // SAFETY: the caller's array.
        let length = unsafe {
            if is_plausible(entry, size_of::<mmsghdr>()) {
                let length = match recv_message_inside(fd, &raw mut (*entry).msg_hdr, each, (done > 0, &mut *left)) {
                    Some(Attempt::Ended(length)) => length,
                    Some(Attempt::Restart) if done == 0 => return Received::Restart,
                    None if done == 0 => return Received::Kernel,
                    // A handler is to run.
                    Some(Attempt::Restart) => break,
                    None => {
                        done += rest_at_kernel(fd, entry, count - done, flags);
                        break;
                    }
                };
                if length >= 0 {
                    (*entry).msg_len = length as c_uint;
                }
                length
            } else {
                fail(libc::EFAULT)
            }
        };
        if length < 0 {
            let error = errno();
            if done > 0 {
                if error != libc::EAGAIN && error != libc::EINTR {
                    state::with_fd(fd, |sockets| sockets.set_pending_error(fd, error));
                }
                fail(before);
            }
            break;
        }
        (done, *left) = (done + 1, None);
        if flags & libc::MSG_WAITFORONE != 0 {
            each |= libc::MSG_DONTWAIT;
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            break;
        }
    }
    if done == 0 {
        return Received::Ended(-1);
    }
    fail(before);
    Received::Ended(done as c_int)
}

/// The kernel has the socket since the last datagram: how many more it gives at once. An error stays for the next call.
unsafe fn rest_at_kernel(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_uint {
    let (mut polled, now) = (readable(fd), to_timespec(Duration::ZERO));
    // SAFETY: a live entry and timeout; the caller's array.
    unsafe {
        real::ppoll(&raw mut polled, 1, &raw const now, ptr::null());
        // Shut down in both directions it has POLLHUP beside.
        if polled.revents & (libc::POLLIN | libc::POLLERR) != libc::POLLIN {
            return 0;
        }
        let flags = flags | libc::MSG_DONTWAIT;
        c_uint::try_from(real::recvmmsg(fd, messages, count, flags, ptr::null_mut())).unwrap_or(0)
    }
}

/// As [`receive::attempt`].
unsafe fn recv_message_inside(
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
    waits: (bool, &mut Option<Duration>),
) -> Option<Attempt> {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        if message.is_null() {
            return None;
        }
        let original = |fd, more| real::recvmsg(fd, message, flags | more);
        receive::attempt(fd, Into::Message(message), flags, waits, &original)
    }
}

#[inline(always)]
unsafe fn send_buffer(
    fd: c_int,
    buffer: *const c_void,
    length: size_t,
    flags: c_int,
    name: *const sockaddr,
    name_length: socklen_t,
) -> Option<ssize_t> {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        direct::sends(fd, flags, || real::sendto(fd, buffer, length, flags, name, name_length))
            .or_else(|| send_by_library(fd, buffer, length, flags, name, name_length))
    }
}

#[inline(never)]
unsafe fn send_by_library(
    fd: c_int,
    buffer: *const c_void,
    length: size_t,
    flags: c_int,
    name: *const sockaddr,
    name_length: socklen_t,
) -> Option<ssize_t> {
    let only = single(buffer, length);
    if marks::is_stream(fd) {
        // SAFETY: the caller's, as for the C function.
        return Some(unsafe {
            let original = || real::sendto(fd, buffer, length, flags, name, name_length);
            tcp::send(fd, (only.as_ptr(), 1), flags, original)
        });
    }
    if !marks::is_socket(fd) {
        return None;
    }
    // SAFETY: the caller's, as for the C function.
    unsafe { send::send(fd, (only.as_ptr(), 1), flags, (name, name_length), false) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        send_buffer(fd, buffer, length, flags, ptr::null(), 0)
            .unwrap_or_else(|| send::by_kernel(fd, real::send(fd, buffer, length, flags)))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    length: size_t,
    flags: c_int,
    name: *const sockaddr,
    name_length: socklen_t,
) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        send_buffer(fd, buffer, length, flags, name, name_length)
            .unwrap_or_else(|| send::by_kernel(fd, real::sendto(fd, buffer, length, flags, name, name_length)))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: the caller's, as for the C function. A write of nothing is a datagram of nothing on a socket.
    unsafe {
        send_buffer(fd, buffer, length, 0, ptr::null(), 0)
            .unwrap_or_else(|| send::by_kernel(fd, real::write(fd, buffer, length)))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, segments: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    unsafe { send_vector(fd, segments, count, || real::writev(fd, segments, count)) }
}

unsafe fn send_vector(fd: c_int, segments: *const iovec, count: c_int, original: impl Fn() -> ssize_t) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        if marks::is_stream(fd) {
            let segment_count = usize::try_from(count).unwrap_or(usize::MAX);
            return direct::sends(fd, 0, &original)
                .unwrap_or_else(|| tcp::send(fd, (segments, segment_count), 0, &original));
        }
        if marks::is_socket(fd)
            && let Ok(segment_count) = usize::try_from(count)
            && segment_count > 0
            && let Some(sent) = direct::sends(fd, 0, &original)
                .or_else(|| send::send(fd, (segments, segment_count), 0, (ptr::null(), 0), false))
        {
            return sent;
        }
        send::by_kernel(fd, original())
    }
}

/// Of a socket, pwritev2(2) is writev(2) where it is given no place to write to. What its flags ask for is the kernel's to say.
unsafe fn write_at_no_place(
    fd: c_int,
    segments: *const iovec,
    count: c_int,
    (offset, flags): (off64_t, c_int),
    original: impl Fn() -> ssize_t,
) -> ssize_t {
    if offset == -1 && flags & !FLAGS_OF_FILES == 0 {
        // SAFETY: the caller's, as for the C function.
        return unsafe { send_vector(fd, segments, count, original) };
    }
    adoption::leave(fd);
    send::by_kernel(fd, original())
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    segments: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    let original = || unsafe { real::pwritev2(fd, segments, count, offset, flags) };
    // SAFETY: the caller's, as for the C function.
    unsafe { write_at_no_place(fd, segments, count, (offset, flags), original) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev64v2(
    fd: c_int,
    segments: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    let original = || unsafe { real::pwritev64v2(fd, segments, count, offset, flags) };
    // SAFETY: the caller's, as for the C function.
    unsafe { write_at_no_place(fd, segments, count, (offset, flags), original) }
}

unsafe fn send_message(fd: c_int, message: *const msghdr, flags: c_int, more: bool) -> Option<ssize_t> {
    if !marks::is_socket_or_stream(fd) || message.is_null() {
        return None;
    }
    // SAFETY: the caller's, as for the C function.
    let at_once = direct::sends(fd, flags, || unsafe { real::sendmsg(fd, message, flags) });
    if at_once.is_some() {
        return at_once;
    }
    if marks::is_stream(fd) {
        // SAFETY: as above.
        return Some(unsafe { tcp::send_message(fd, message, flags, || real::sendmsg(fd, message, flags)) });
    }
    // SAFETY: as above.
    unsafe { send::send_message(fd, message, flags, more) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        if !marks::is_socket(fd) {
            deferral::inside(|| process::before_sendmsg(message));
        }
        send_message(fd, message, flags, false)
            .unwrap_or_else(|| send::by_kernel(fd, real::sendmsg(fd, message, flags)))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        adoption::leave(fd);
        if !marks::is_socket(fd) {
            let seen = if is_plausible(messages, size_of::<mmsghdr>()) { count.min(1024) as usize } else { 0 };
            for at in 0..seen {
                deferral::inside(|| process::before_sendmsg(&raw const (*messages.add(at)).msg_hdr));
            }
            return real::sendmmsg(fd, messages, count, flags);
        }
        cancellation::point();
        deferral::inside_deep(|| send_messages(fd, messages, count, flags))
    }
}

unsafe fn send_messages(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        let (mut done, before) = (0, errno());
        while done < count.min(1024) {
            let entry = messages.wrapping_add(done as usize);
            if !is_plausible(entry, size_of::<mmsghdr>()) {
                fail(libc::EFAULT);
                break;
            }
            let header = &raw const (*entry).msg_hdr;
            let sent = send_message(fd, header, flags, true)
                .unwrap_or_else(|| send::by_kernel(fd, real::sendmsg(fd, header, flags)));
            if sent < 0 {
                break;
            }
            (*entry).msg_len = sent as c_uint;
            done += 1;
        }
        state::send_with(state::Subject::Fd(fd), nearwire_socket::Sockets::kick);
        if done == 0 && count > 0 {
            return -1;
        }
        // What stopped it after the first is not told.
        fail(before);
        done as c_int
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    let original = || unsafe { real::sendfile(out, from, offset, count) };
    if marks::is_stream(out) {
        // SAFETY: as above; `off_t` has 64 bits.
        return unsafe { stream::send_file((out, from), offset, count, original) };
    }
    original()
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile64(out: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t {
    // SAFETY: the caller's, as for the C function.
    let original = || unsafe { real::sendfile64(out, from, offset, count) };
    if marks::is_stream(out) {
        // SAFETY: as above.
        return unsafe { stream::send_file((out, from), offset, count, original) };
    }
    original()
}
