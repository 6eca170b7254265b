//! Who has a TCP connection: when it is adopted, and what has it released.
//!
//! A connection that is used by anything but calls that send, receive and wait, options, and their likes, is the kernel's for good: no thread may
//! be in a call of the kernel's that nobody counted when it is adopted.

use libc::c_int;
use nearwire_socket::{Adoption, Sockets, direct as words};
use nearwire_sys::own_stack;

use crate::signals::deferral;
use crate::{io_uring, marks, own_process, state, timer};

/// After accept(2) or socket(2): an fd of TCP.
pub fn opened(fd: c_int, is_server: bool) {
    if fd < 0 || state::is_off() || own_process::is_borrowed() || !marks::can_follow(fd) {
        return;
    }
    if io_uring::is_used() {
        state::with(Sockets::io_uring_used);
    }
    if state::with(|sockets| sockets.stream_opened(fd)) == Some(true) {
        marks::follow_stream(fd, is_server);
        state::set_in_use();
    }
}

/// The calls that the kernel was to get were made.
#[cold]
pub fn consider(fd: c_int) {
    let is_server = marks::is_server(fd);
    let adopt = || {
        // Here and not when it was opened, as most connections end before, and to look through a large program takes a while.
        io_uring::look_for();
        state::with(|sockets| sockets.adopt_stream(fd, is_server))
    };
    let adoption = deferral::inside_deep(adopt);
    match adoption {
        // Where there can be no thread, the program's next call does what is due.
        Some(Adoption::Carried) => _ = deferral::inside_deep(timer::begin),
        Some(Adoption::Later) => {}
        Some(Adoption::Never(_)) | None => marks::leave_stream(fd),
    }
}

/// Before anything is done to an fd that is no transfer and no option: the kernel has its connection for good.
#[inline]
pub fn leave(fd: c_int) {
    if is_of_program(fd) {
        leave_now(fd);
    }
}

/// Whether an fd is one of these, and the call the program's: the library changes connections by the same functions.
#[inline]
fn is_of_program(fd: c_int) -> bool {
    marks::is_stream(fd) && !own_process::is_borrowed() && !state::is_inside()
}

#[cold]
fn leave_now(fd: c_int) {
    deferral::inside_deep(|| state::with(|sockets| sockets.leave_stream(fd)));
    marks::leave_stream(fd);
}

/// The program has set an option by which packets, or what becomes of them, are other than the stack knows.
#[cold]
pub fn leave_for_option(fd: c_int) {
    if !own_process::is_borrowed() && !state::is_inside() {
        leave(fd);
        marks::leave_stream_and_accepted(fd);
    }
}

/// Before an option is set or asked for that only the kernel knows.
pub fn release(fd: c_int) {
    if is_of_program(fd) {
        deferral::inside_deep(|| state::with(|sockets| sockets.release_stream(fd)));
    }
}

/// Before an fd is closed.
pub fn closing(fd: c_int) {
    if marks::is_any_stream(fd) && !own_process::is_borrowed() && !state::is_inside() {
        deferral::inside_deep(|| state::with(|sockets| sockets.close_stream(fd)));
        marks::unfollow(fd);
    }
}

/// Before the first use of an fd: whether it is a copy of a parent's, who is told.
#[cold]
pub fn claim(fd: c_int) -> bool {
    deferral::inside(|| own_stack::run(|| state::with(|sockets| sockets.claim_stream(fd)))) == Some(true)
}

/// Before a fork, when the library's state was prepared for it: which of them the kernel has for good.
pub fn note_those_left() {
    marks::streams().filter(|fd| words::is_for_good(*fd)).for_each(marks::leave_stream);
}

/// Before a fork that the library's state could not be prepared for.
pub fn leave_all() {
    marks::streams().for_each(leave);
}

/// Before an exec: all but copies of a parent's that it closes.
pub fn leave_before_exec() {
    marks::streams().filter(|fd| !is_parents(*fd, true)).for_each(leave);
}

/// Before the process ends: all but copies of a parent's.
pub fn end_all() {
    marks::streams().filter(|fd| !is_parents(*fd, false)).for_each(closing);
}

fn is_parents(fd: c_int, before_exec: bool) -> bool {
    state::with(|sockets| sockets.is_parents_stream(fd, before_exec)) == Some(true)
}

/// O_NONBLOCK changed.
pub fn set_nonblocking(fd: c_int, is_nonblocking: bool) {
    if is_of_program(fd) {
        deferral::inside(|| state::with(|sockets| sockets.set_stream_nonblocking(fd, is_nonblocking)));
    }
}
