//! syscall(2): a program that makes its calls by number is served as one that makes them by name.
//!
//! Where the raw call differs from the C function, the difference is here: ppoll and pselect6 write the time that is left
//! into their timeout, masks are 8 bytes with their size beside them, pselect6 has both in a pair. The standard library
//! makes its own calls (futex, getrandom, statx) by this function too; they fall through two comparisons.
#![allow(clippy::missing_safety_doc, reason = "as for the C function of each name")]
#![allow(missing_docs, reason = "each is the C function of its name")]
#![allow(clippy::too_many_arguments, reason = "the C library decides on the arguments")]

use std::time::Instant;

use libc::{c_int, c_long, c_uint, c_ulong, sigset_t, size_t, timespec};

use super::{descriptors, epoll, poll, process, sockets, transfer};
use crate::probe::is_readable;
use crate::signals::deferral;
use crate::turn::to_timespec;
use crate::{io_uring, real, timer, wiring};

/// Bytes of the kernel's signal mask.
const MASK_BYTES: c_ulong = 8;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
    e: c_ulong,
    f: c_ulong,
) -> c_long {
    let arguments = [a, b, c, d, e, f];
    // SAFETY: the caller's, as for the C function.
    unsafe {
        let answered = match number {
            libc::SYS_futex | libc::SYS_getrandom => None,
            libc::SYS_ppoll | libc::SYS_pselect6 | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => {
                masked(number, arguments)
            }
            libc::SYS_io_uring_setup | libc::SYS_io_uring_register | libc::SYS_io_uring_enter => {
                return uses_io_uring(number, arguments);
            }
            libc::SYS_seccomp => {
                timer::forbid();
                None
            }
            libc::SYS_chroot | libc::SYS_pivot_root => {
                deferral::inside_deep(wiring::before_new_root);
                None
            }
            _ => by_name(number, arguments).or_else(|| by_older_name(number, arguments)),
        };
        answered.unwrap_or_else(|| real::syscall(number, a, b, c, d, e, f))
    }
}

/// What is accelerated is the kernel's before the program can have anything done with it. A ring may also be inherited, so that
/// the first call that is seen is not the one that made it.
unsafe fn uses_io_uring(number: c_long, [a, b, c, d, e, f]: [c_ulong; 6]) -> c_long {
    if number != libc::SYS_io_uring_setup {
        deferral::inside_deep(io_uring::set_up);
    }
    // SAFETY: the caller's, as for the C function.
    let result = unsafe { real::syscall(number, a, b, c, d, e, f) };
    if result >= 0 {
        deferral::inside_deep(io_uring::set_up);
    }
    result
}

/// Calls whose C function takes the same arguments.
unsafe fn by_name(number: c_long, [a, b, c, d, e, f]: [c_ulong; 6]) -> Option<c_long> {
    let fd = a as c_int;
    // SAFETY: the caller's, as for the C function; registers hold what the call takes, in its order.
    let result = unsafe {
        match number {
            libc::SYS_socket => sockets::socket(fd, b as c_int, c as c_int).into(),
            libc::SYS_bind => sockets::bind(fd, b as _, c as _).into(),
            libc::SYS_connect => sockets::connect(fd, b as _, c as _).into(),
            libc::SYS_prctl => process::prctl(fd, b, c, d, e).into(),
            libc::SYS_shutdown => sockets::shutdown(fd, b as c_int).into(),
            libc::SYS_setsockopt => sockets::setsockopt(fd, b as c_int, c as c_int, d as _, e as _).into(),
            libc::SYS_fcntl => sockets::fcntl(fd, b as c_int, c).into(),
            libc::SYS_ioctl => sockets::ioctl(fd, b, c).into(),
            libc::SYS_close => descriptors::close(fd).into(),
            libc::SYS_close_range => descriptors::close_range(a as c_uint, b as c_uint, c as c_int).into(),
            libc::SYS_dup => descriptors::dup(fd).into(),
            libc::SYS_dup3 => descriptors::dup3(fd, b as c_int, c as c_int).into(),
            libc::SYS_sendto => transfer::sendto(fd, b as _, c as size_t, d as c_int, e as _, f as _) as c_long,
            libc::SYS_sendmsg => transfer::sendmsg(fd, b as _, c as c_int) as c_long,
            libc::SYS_sendmmsg => transfer::sendmmsg(fd, b as _, c as c_uint, d as c_int).into(),
            libc::SYS_recvfrom => transfer::recvfrom(fd, b as _, c as size_t, d as c_int, e as _, f as _) as c_long,
            libc::SYS_recvmsg => transfer::recvmsg(fd, b as _, c as c_int) as c_long,
            libc::SYS_recvmmsg => transfer::recvmmsg(fd, b as _, c as c_uint, d as c_int, e as _).into(),
            libc::SYS_read => transfer::read(fd, b as _, c as size_t) as c_long,
            libc::SYS_write => transfer::write(fd, b as _, c as size_t) as c_long,
            libc::SYS_readv => transfer::readv(fd, b as _, c as c_int) as c_long,
            libc::SYS_writev => transfer::writev(fd, b as _, c as c_int) as c_long,
            libc::SYS_epoll_create1 => epoll::epoll_create1(fd).into(),
            libc::SYS_epoll_ctl => epoll::epoll_ctl(fd, b as c_int, c as c_int, d as _).into(),
            _ => return None,
        }
    };
    Some(result)
}

/// Calls that newer machines do not have.
#[cfg(target_arch = "x86_64")]
unsafe fn by_older_name(number: c_long, [a, b, c, d, e, _]: [c_ulong; 6]) -> Option<c_long> {
    // SAFETY: the caller's, as for the C function.
    let result = unsafe {
        match number {
            libc::SYS_dup2 => descriptors::dup2(a as c_int, b as c_int),
            libc::SYS_poll => poll::poll(a as _, b, c as c_int),
            libc::SYS_select => poll::select(a as c_int, b as _, c as _, d as _, e as _),
            libc::SYS_epoll_create => epoll::epoll_create(a as c_int),
            libc::SYS_epoll_wait => epoll::epoll_wait(a as c_int, b as _, c as c_int, d as c_int),
            _ => return None,
        }
    };
    Some(result.into())
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn by_older_name(_: c_long, _: [c_ulong; 6]) -> Option<c_long> {
    None
}

/// Calls that wait under a mask. `None`: the kernel refuses the mask.
unsafe fn masked(number: c_long, [a, b, c, d, e, f]: [c_ulong; 6]) -> Option<c_long> {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        let result = match number {
            libc::SYS_ppoll => {
                let mask = mask_of(d, e)?;
                with_time_left(c as _, || poll::ppoll(a as _, b, c as _, mask.as_ptr()))
            }
            libc::SYS_pselect6 => {
                let mask = mask_of_pair(f as _)?;
                with_time_left(e as _, || poll::pselect(a as c_int, b as _, c as _, d as _, e as _, mask.as_ptr()))
            }
            libc::SYS_epoll_pwait => {
                epoll::epoll_pwait(a as c_int, b as _, c as c_int, d as c_int, mask_of(e, f)?.as_ptr())
            }
            _ => epoll::epoll_pwait2(a as c_int, b as _, c as c_int, d as _, mask_of(e, f)?.as_ptr()),
        };
        Some(result.into())
    }
}

/// A mask as C functions take it.
struct Mask(Option<sigset_t>);

impl Mask {
    fn as_ptr(&self) -> *const sigset_t {
        self.0.as_ref().map_or(std::ptr::null(), std::ptr::from_ref)
    }
}

unsafe fn mask_of(address: c_ulong, size_bytes: c_ulong) -> Option<Mask> {
    let mask = address as *const u64;
    if mask.is_null() {
        return Some(Mask(None));
    }
    if size_bytes != MASK_BYTES || !is_readable(mask, size_of::<u64>()) {
        return None;
    }
    // SAFETY: the caller's pointer to a mask of the kernel's, which is the first word of the C library's; all zero is a set.
    unsafe {
        let mut set: sigset_t = std::mem::zeroed();
        (&raw mut set).cast::<u64>().write(mask.read_unaligned());
        Some(Mask(Some(set)))
    }
}

/// The sixth argument of pselect6: address and size of the mask.
unsafe fn mask_of_pair(pair: *const [c_ulong; 2]) -> Option<Mask> {
    if pair.is_null() {
        return Some(Mask(None));
    }
    if !is_readable(pair, size_of::<[c_ulong; 2]>()) {
        return None;
    }
    // SAFETY: the caller's.
    unsafe {
        let [mask, size_bytes] = pair.read_unaligned();
        mask_of(mask, size_bytes)
    }
}

/// The kernel writes the time that is left, where there was any (`poll_select_finish`).
unsafe fn with_time_left(timeout: *mut timespec, call: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's.
    let Some(Some(time)) = (unsafe { poll::duration(timeout) }) else { return call() };
    let started = Instant::now();
    let result = call();
    if !time.is_zero() {
        // SAFETY: as above.
        unsafe { *timeout = to_timespec(time.saturating_sub(started.elapsed())) };
    }
    result
}
