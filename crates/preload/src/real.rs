//! The functions that the program would call without us: the next definition of each name in the order in which the
//! dynamic linker looks (`dlsym(RTLD_NEXT)`), so another preloaded library behind ours keeps its place.
//!
//! Each is looked for at its first call; two threads that do so at once find the same. We allocate nothing, glibc does
//! for the message about a name it has not got. [`find_all`] looks for all of them at once: `dlsym` is not
//! async-signal-safe, so a program's first call from a handler should not be the one that looks.
//!
//! A name that this C library lacks behaves as follows: newer system calls (`epoll_pwait2`, `close_range`, `closefrom`)
//! are made without it, names that are checks or aliases (`__recv_chk`, `fcntl64`) call the plain function, all others
//! fail with ENOSYS. Only a program built for another C library could call these.
//!
//! Not here, and why:
//!
//! * `execl`, `execle`, `execlp` take as many arguments as there are: they have an [`address`] only.
//! * `vfork`: returns twice into the same stack frame, which a wrapper's frame cannot stand. Its child shares our
//!   memory.
//! * `signal`, `bsd_signal`, `sigset`, `siginterrupt`, `sysv_signal`: made of `sigaction` in [`crate::signals`].
#![allow(clippy::too_many_arguments, reason = "the C library decides on the arguments")]

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    FILE, c_char, c_int, c_long, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, loff_t, mmsghdr, msghdr, nfds_t,
    off_t, off64_t, pid_t, pollfd, posix_spawn_file_actions_t, posix_spawnattr_t, pthread_attr_t, pthread_t,
    sigaction as action, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec, timeval,
};

use crate::signals::mask;

/// What a new thread of C begins with.
pub type ThreadStart = extern "C" fn(*mut c_void) -> *mut c_void;

mod absent;
#[cfg(test)]
mod tests;

use absent::Failure;

/// A name and what was found under it.
struct Next {
    name: &'static CStr,
    /// What is called where nothing is found.
    absent: AtomicPtr<c_void>,
    found: AtomicPtr<c_void>,
}

impl Next {
    #[inline]
    fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Acquire);
        if found.is_null() { self.find() } else { found }
    }

    /// No handler runs meanwhile: one that jumps would leave the lock of the dynamic linker held, and each other thread that
    /// looks for a name behind it would wait for ever.
    #[cold]
    fn find(&self) -> *mut c_void {
        let before = mask::set_mask(u64::MAX);
        // SAFETY: the name ends in NUL.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        mask::set_mask(before);
        if found.is_null() {
            found = self.absent.load(Ordering::Relaxed);
        }
        self.found.store(found, Ordering::Release);
        found
    }
}

/// `fn name(arguments) -> result;`, with `; rest` before the closing parenthesis for arguments that C passes as `...`,
/// and `else function` for what is called where the name is missing.
macro_rules! next_definitions {
    (@absent $name:ident ($($all:ident: $kind:ty),*) $result:ty,) => {{
        unsafe extern "C" fn absent($(_: $kind),*) -> $result {
            <$result as Failure>::not_implemented()
        }
        absent as unsafe extern "C" fn($($kind),*) -> $result
    }};
    (@absent $name:ident ($($all:ident: $kind:ty),*) $result:ty, $absent:path) => {
        $absent as unsafe extern "C" fn($($kind),*) -> $result
    };
    ($(fn $name:ident($($fixed:ident: $kind:ty),* $(; $($rest:ident: $rest_kind:ty),+)?) -> $result:ty $(, else $absent:path)?;)*) => {
        mod next {
            #![allow(non_upper_case_globals, reason = "named as in C")]
            use super::*;
            $(pub(super) static $name: Next = Next {
                // SAFETY: the only NUL is the last byte.
                name: unsafe { CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) },
                absent: AtomicPtr::new(
                    next_definitions!(@absent $name ($($fixed: $kind),* $(, $($rest: $rest_kind),+)?) $result, $($absent)?)
                        as *mut c_void,
                ),
                found: AtomicPtr::new(ptr::null_mut()),
            };)*
        }

        $(
            #[allow(non_snake_case, reason = "named as in C")]
            #[doc = concat!("The next `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As for the C function of this name.
            #[inline]
            pub unsafe fn $name($($fixed: $kind),* $(, $($rest: $rest_kind),+)?) -> $result {
                type Function = unsafe extern "C-unwind" fn($($kind),* $(, $($rest: $rest_kind),+)?) -> $result;
                // SAFETY: what is found under this name is the C function of this signature (on x86-64 and aarch64 an
                // integer or pointer that C passes as `...` travels as a fixed argument does; the count of vector
                // registers, which x86-64 wants besides, may be anything), or the stand-in of just this type. It may unwind: the
                // C library cancels threads so.
                // The caller vouches for the rest.
                unsafe {
                    let function = std::mem::transmute::<*mut c_void, Function>(next::$name.get());
                    function($($fixed),* $(, $($rest),+)?)
                }
            }
        )*

        /// Looks for all of them now.
        pub fn find_all() {
            $(next::$name.get();)*
        }

        /// All names.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

/// Where the next definition of a function is.
pub mod address {
    use super::{c_void, next};

    /// The next `execl`.
    pub fn execl() -> *mut c_void {
        next::execl.get()
    }

    /// The next `execle`.
    pub fn execle() -> *mut c_void {
        next::execle.get()
    }

    /// The next `execlp`.
    pub fn execlp() -> *mut c_void {
        next::execlp.get()
    }

    /// The next `syscall`.
    pub fn syscall() -> *mut c_void {
        next::syscall.get()
    }
}

next_definitions! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int;
    fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    fn accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    fn accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    fn getpeername(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int;
    fn sockatmark(fd: c_int) -> c_int;
    fn isfdtype(fd: c_int, kind: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int; argument: c_ulong) -> c_int;
    fn fcntl64(fd: c_int, command: c_int; argument: c_ulong) -> c_int, else absent::fcntl64;
    fn ioctl(fd: c_int, request: c_ulong; argument: c_ulong) -> c_int;
    fn syscall(number: c_long; a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong, e: c_ulong, f: c_ulong) -> c_long;

    fn send(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t;
    fn sendto(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int, address: *const sockaddr, address_length: socklen_t) -> ssize_t;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    fn recv(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t;
    fn recvfrom(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int, address: *mut sockaddr, address_length: *mut socklen_t) -> ssize_t;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    fn read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t;
    fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t;
    fn readv(fd: c_int, segments: *const iovec, count: c_int) -> ssize_t;
    fn writev(fd: c_int, segments: *const iovec, count: c_int) -> ssize_t;
    fn __read_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t, else absent::__read_chk;
    fn __recv_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t, flags: c_int) -> ssize_t, else absent::__recv_chk;
    fn __recvfrom_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t, flags: c_int, address: *mut sockaddr, address_length: *mut socklen_t) -> ssize_t, else absent::__recvfrom_chk;
    fn sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    fn sendfile64(out: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t, else absent::sendfile64;
    fn splice(from: c_int, from_offset: *mut loff_t, to: c_int, to_offset: *mut loff_t, length: size_t, flags: c_uint) -> ssize_t;
    fn tee(from: c_int, to: c_int, length: size_t, flags: c_uint) -> ssize_t;
    fn preadv2(fd: c_int, segments: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn preadv64v2(fd: c_int, segments: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t, else absent::preadv64v2;
    fn pwritev2(fd: c_int, segments: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn pwritev64v2(fd: c_int, segments: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t, else absent::pwritev64v2;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    fn vmsplice(fd: c_int, segments: *const iovec, count: size_t, flags: c_uint) -> ssize_t;

    fn poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int;
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int, room: size_t) -> c_int, else absent::__poll_chk;
    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: size_t) -> c_int, else absent::__ppoll_chk;
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int;
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn epoll_create(size: c_int) -> c_int;
    fn epoll_create1(flags: c_int) -> c_int;
    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    fn epoll_wait(epoll: c_int, events: *mut epoll_event, room: c_int, timeout_ms: c_int) -> c_int;
    fn epoll_pwait(epoll: c_int, events: *mut epoll_event, room: c_int, timeout_ms: c_int, mask: *const sigset_t) -> c_int;
    fn epoll_pwait2(epoll: c_int, events: *mut epoll_event, room: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int, else absent::epoll_pwait2;

    fn dup(fd: c_int) -> c_int;
    fn dup2(old: c_int, new: c_int) -> c_int;
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int;
    fn pipe(pair: *mut c_int) -> c_int;
    fn pipe2(pair: *mut c_int, flags: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int, else absent::close_range;
    fn closefrom(first: c_int) -> (), else absent::closefrom;

    fn chroot(path: *const c_char) -> c_int;
    fn prctl(operation: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int;
    fn fork() -> pid_t;
    fn _exit(status: c_int) -> c_int;
    fn _Exit(status: c_int) -> c_int;
    fn daemon(stay: c_int, keep_streams: c_int) -> c_int;
    fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int;
    fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int;
    fn execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn fexecve(fd: c_int, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
    fn posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;

    fn execl(path: *const c_char; first: *const c_char) -> c_int;
    fn execle(path: *const c_char; first: *const c_char) -> c_int;
    fn execlp(file: *const c_char; first: *const c_char) -> c_int;
    fn posix_spawn_file_actions_adddup2(actions: *mut posix_spawn_file_actions_t, fd: c_int, new: c_int) -> c_int;

    fn sigaction(signal: c_int, new: *const action, old: *mut action) -> c_int;

    fn pthread_create(thread: *mut pthread_t, attributes: *const pthread_attr_t, start: ThreadStart, argument: *mut c_void) -> c_int;
    fn pthread_cancel(thread: pthread_t) -> c_int;
    fn pthread_testcancel() -> ();
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}
