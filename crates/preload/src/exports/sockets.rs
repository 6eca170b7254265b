//! Opening, addressing and asking sockets.
#![allow(clippy::missing_safety_doc, reason = "as for the C function of each name")]
#![allow(missing_docs, reason = "each is the C function of its name")]

use libc::{c_int, c_ulong, c_void, sockaddr, socklen_t};
use nearwire_socket::Reason;

use crate::calls::{adoption, names, options, stream_options};
use crate::signals::deferral;
use crate::{cancellation, marks, real, state};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    deferral::inside_deep(|| {
        // SAFETY: the caller's, as for the C function.
        let fd = unsafe { real::socket(domain, kind, protocol) };
        names::opened(fd, domain, kind, protocol);
        fd
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    adoption::leave(fd);
    // SAFETY: the caller's, as for the C function.
    unsafe { real::listen(fd, backlog) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: the caller's, as for the C function.
    let accepted = unsafe { real::accept(fd, address, length) };
    names::accepted(fd, accepted);
    accepted
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's, as for the C function.
    let accepted = unsafe { real::accept4(fd, address, length, flags) };
    names::accepted(fd, accepted);
    accepted
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: the caller's, as for the C function.
    let original = || unsafe { real::bind(fd, address, length) };
    if !marks::is_socket(fd) {
        return original();
    }
    deferral::inside_deep(|| match original() {
        // SAFETY: as above.
        0 => unsafe { names::bound(fd, address, length) },
        refused => refused,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: the caller's, as for the C function.
    let original = || unsafe { real::connect(fd, address, length) };
    adoption::release(fd);
    if !marks::is_socket(fd) {
        return original();
    }
    cancellation::point();
    deferral::inside_deep(|| {
        state::with_fd(fd, |sockets| sockets.connecting(fd));
        names::connected(fd, original())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    // SAFETY: the caller's, as for the C function.
    let original = || unsafe { real::shutdown(fd, how) };
    adoption::leave(fd);
    if !marks::is_socket(fd) || !matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR) {
        return original();
    }
    // Before the call, so that those who wait for the socket wait in the kernel when it wakes them. One that is not connected
    // is shut down too, and told that it is not connected (`inet_shutdown`).
    deferral::inside_deep(|| {
        state::with_fd(fd, |sockets| sockets.only_kernel(fd, Reason::ShutDown));
        let result = original();
        state::with_fd(fd, |sockets| sockets.shut_down(fd));
        result
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        if level == libc::IPPROTO_TCP && marks::is_stream(fd) {
            let original = || real::getsockopt(fd, level, option, value, length);
            return stream_options::get(fd, option, (value, length), original);
        }
        if marks::is_socket_or_stream(fd)
            && let Some(result) = deferral::inside(|| options::get(fd, level, option, value, length))
        {
            return result;
        }
        real::getsockopt(fd, level, option, value, length)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    // SAFETY: the caller's, as for the C function.
    let original = || unsafe { real::setsockopt(fd, level, option, value, length) };
    if marks::is_any_stream(fd) {
        // SAFETY: as above.
        return unsafe { stream_options::set(fd, (level, option), (value, length), original) };
    }
    if !marks::is_socket(fd) {
        return original();
    }
    deferral::inside_deep(|| {
        let result = original();
        if result == 0 {
            // SAFETY: as above.
            unsafe { options::changed(fd, level, option, value, length) };
        }
        result
    })
}

/// `fcntl` of any name: C passes its argument as `...`, which on x86-64 and aarch64 travels as a fixed one does.
unsafe fn fcntl_by(
    original: unsafe fn(c_int, c_int, c_ulong) -> c_int,
    fd: c_int,
    command: c_int,
    argument: c_ulong,
) -> c_int {
    // SAFETY: the caller's, as for the C function.
    let original = || unsafe { original(fd, command, argument) };
    if marks::is_stream(fd) {
        if !matches!(command, libc::F_SETFL | libc::F_GETFL | libc::F_GETFD | libc::F_SETFD) {
            adoption::leave(fd);
        }
        let result = original();
        if command == libc::F_SETFL && result >= 0 {
            adoption::set_nonblocking(fd, argument as c_int & libc::O_NONBLOCK != 0);
        }
        return result;
    }
    if !marks::is_followed(fd) {
        return original();
    }
    deferral::inside_deep(|| {
        let result = original();
        if result >= 0 {
            options::fcntl_done(fd, command, argument, result);
        }
        result
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: the caller's, as for the C function.
    unsafe { fcntl_by(real::fcntl, fd, command, argument) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: the caller's, as for the C function.
    unsafe { fcntl_by(real::fcntl64, fd, command, argument) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int {
    // SAFETY: the caller's, as for the C function.
    let original = || unsafe { real::ioctl(fd, request, argument) };
    if marks::is_stream(fd) {
        // SAFETY: as above.
        return unsafe { stream_options::ioctl(fd, request, argument, original) };
    }
    if !marks::is_socket(fd) {
        return original();
    }
    deferral::inside(|| {
        // SAFETY: as above.
        if let Some(result) = unsafe { options::ioctl(fd, request, argument) } {
            return result;
        }
        let result = original();
        if result == 0 {
            // SAFETY: as above.
            unsafe { options::ioctl_done(fd, request, argument) };
        }
        result
    })
}
