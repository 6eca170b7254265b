//! Processes: fork(2), exec(2), and descriptors that go to other processes. What becomes of the sockets is in
//! `nearwire_socket` (`handover.rs`); here is how we learn of it.
//!
//! | the program calls | we learn by |
//! |---|---|
//! | `fork`, `daemon`, `forkpty` | `pthread_atfork` handlers, registered with the first socket |
//! | `_Fork`, `clone`, `syscall(SYS_fork)` | a page that the kernel wipes in children, looked at by each call |
//! | `vfork` | the process id, when followed numbers are copied or closed, and at exec: it has our memory |
//! | `execve`, `execl` and their kin | the symbols |
//! | `posix_spawn` | `posix_spawn_file_actions_adddup2` |
//! | `sendmsg` with `SCM_RIGHTS` | the symbols; received sockets are not ours and stay the kernel's |
//!
//! # Which sockets a new program gets
//!
//! * exec, in this process or a child: those that stay open, that is without FD_CLOEXEC. So a program that forks and
//!   executes helpers should set it (SOCK_CLOEXEC), or its sockets go back to the kernel.
//! * `posix_spawn`: those that a file action copies. Not all that stay open: few programs set FD_CLOEXEC, and none means
//!   its helpers to read its sockets.
//! * `popen`, `system`: none, for the same reason; the C library's calls within itself pass no symbol of ours.
//!
//! # What is not seen
//!
//! A raw `execve`, and pidfd_getfd(2) by another process: the new owner of a socket finds what the
//! kernel gets, which is nothing while this process serves it. After an unnoticed fork while another thread was in a call of ours, the child's
//! inherited sockets get nothing while the parent serves them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use libc::{c_int, cmsghdr, msghdr};
use nearwire_socket::{Reason, Sockets};
use nearwire_sys::own_stack;

use crate::calls::adoption;
use crate::gate::thread_identity;
use crate::own_process::{self, is_borrowed};
use crate::signals::deferral;
use crate::state::FIRST;
use crate::{engines, marks, signals, state, timer};

/// A process has begun, this one or one that it descends from.
static BEGUN: AtomicBool = AtomicBool::new(false);
/// The thread that holds the gates for a fork, by its identity; 0: none.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Makes the library's state this process's own, with the first call that needs it.
#[cold]
pub fn begin() -> bool {
    own_process::begin(|| {
        if BEGUN.swap(true, Relaxed) {
            return own_stack::run(become_child);
        }
        // SAFETY: the handlers are functions of the right type, and stay while the library does, which is never unloaded.
        // Refused for want of memory, what waits at the end of the program is lost.
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child));
            libc::atexit(before_exit);
        }
        own_process::wipe_in_children();
    })
}

unsafe extern "C" fn before_fork() {
    // Handlers wait until both processes have their own state.
    deferral::begin();
    if !state::is_in_use() {
        return;
    }
    // No other thread is inside at the fork, so that the child's copy is whole.
    if own_stack::run(state::hold_for_fork) {
        HELD.store(thread_identity(), Relaxed);
        adoption::note_those_left();
    } else {
        adoption::leave_all();
    }
}

unsafe extern "C" fn after_fork_in_parent() {
    let stayed = is_held() && own_stack::run(state::let_go);
    deferral::end();
    // Without a thread a child must not wait for its answer.
    if stayed && !deferral::inside_deep(timer::begin) {
        state::with(|sockets| sockets.answers_children(false));
    }
}

/// Whether the calling thread holds the gates, or held them when it forked. It does not from now on.
fn is_held() -> bool {
    HELD.compare_exchange(thread_identity(), 0, Relaxed, Relaxed).is_ok()
}

unsafe extern "C" fn after_fork_in_child() {
    own_process::begin_in_child(|| own_stack::run(become_child));
    deferral::after_fork_in_child();
}

fn become_child() {
    signals::reset_after_fork();
    timer::after_fork_in_child();
    engines::after_fork_in_child();
    state::after_fork_in_child(is_held(), |what| engines::note_moved(what, FIRST));
}

/// Before daemon(3): its parent ends within the C library, unseen.
pub fn about_to_become_daemon() {
    if state::is_in_use() && !is_borrowed() {
        adoption::leave_all();
    }
}

/// After daemon(3) in the process that goes on: its parent is about to end and to free the interface. The kernel waits for its CPUs
/// several times to take sockets and program down, which on a busy host takes more than 50 ms.
pub fn became_daemon() {
    const LOOKS: u32 = 1000;
    for _ in 0..LOOKS {
        if !state::is_in_use() || state::with(|sockets| sockets.waits_for_parent()) != Some(true) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The process is about to end: what is held back is sent, and what waits at sockets that others have too is theirs.
pub extern "C" fn before_exit() {
    if state::is_in_use() && !is_borrowed() {
        deferral::inside_deep(|| {
            adoption::end_all();
            timer::send_the_rest();
            state::with_each(Sockets::leave_to_others);
        });
    }
}

/// Before exec(2).
pub fn before_exec() {
    if !state::is_in_use() {
        return;
    }
    adoption::leave_before_exec();
    if is_borrowed() {
        state::with_each(Sockets::prepare_exec_of_vfork);
    } else {
        state::with_each(Sockets::prepare_exec);
    }
}

/// A socket that another program is to get.
pub fn passed_by_spawn(fd: c_int) {
    adoption::leave(fd);
    if marks::is_socket(fd) && !is_borrowed() {
        state::with_fd(fd, |sockets| sockets.passed(fd, Reason::HandedOverByExec));
    }
}

/// Before sendmsg(2) on a socket that is not ours: descriptors of ours in its control messages.
///
/// # Safety
/// `message` is null or what the program passes to sendmsg(2).
#[inline]
pub unsafe fn before_sendmsg(message: *const msghdr) {
    // SAFETY: the caller's.
    unsafe {
        if !message.is_null() && (*message).msg_controllen >= size_of::<cmsghdr>() && state::is_in_use() {
            pass_descriptors(message);
        }
    }
}

#[cold]
unsafe fn pass_descriptors(message: *const msghdr) {
    // SAFETY: the caller's; libc's functions stay within `msg_controllen`, and what is read within `cmsg_len`, as far as
    // that is within the buffer.
    unsafe {
        if (*message).msg_control.is_null() {
            return;
        }
        let end = (*message).msg_control as usize + (*message).msg_controllen;
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(found) = header.as_ref() {
            if found.cmsg_level == libc::SOL_SOCKET && found.cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(header);
                let length_bytes = (header as usize).saturating_add(found.cmsg_len).min(end);
                let count = length_bytes.saturating_sub(data as usize) / size_of::<c_int>();
                for at in 0..count {
                    let fd = data.cast::<c_int>().add(at).read_unaligned();
                    adoption::leave(fd);
                    if marks::is_socket(fd) && !is_borrowed() {
                        state::with_fd(fd, |sockets| sockets.passed(fd, Reason::PassedToProcess));
                    }
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}
