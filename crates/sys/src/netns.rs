//! Network and user namespaces: made without a path, entered by one thread, left for certain.
//!
//! A network namespace made here is *anonymous*: nothing but file descriptors (and the threads and
//! interfaces inside) holds it, so the kernel removes it when the process ends, whatever ended it.
//!
//! Source: namespaces(7), setns(2), user_namespaces(7).

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// The network namespace of the calling thread. `/proc/self` would be that of the first thread.
const OWN_NETWORK_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// Makes an empty network namespace (its loopback interface is down) and returns the descriptor
/// that keeps it alive.
///
/// The calling thread stays where it is: a short-lived thread moves into the new namespace and
/// opens it.
///
/// # Errors
///
/// `EPERM` without `CAP_SYS_ADMIN`, `ENOSPC` at the limit `user.max_net_namespaces`, `ENOENT`
/// when `/proc` is not mounted.
pub fn new_network_namespace() -> io::Result<OwnedFd> {
    let maker = std::thread::Builder::new().name("netns-maker".into()).spawn(|| {
        unshare(UnshareFlags::NEWNET)?;
        current()
    })?;
    maker.join().unwrap_or_else(|_| Err(io::Error::other("the thread that made it panicked")))
}

/// The network namespace the calling thread is in.
///
/// # Errors
///
/// `ENOENT` when `/proc` is not mounted, `EMFILE` at the descriptor limit.
pub fn current() -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(OWN_NETWORK_NAMESPACE, flags, Mode::empty())?)
}

/// The network namespace of a socket (`SIOCGSKNS`, Linux 4.10). It needs no `/proc`.
///
/// # Errors
///
/// `EPERM` without `CAP_NET_ADMIN` over the namespace, `EMFILE` at the descriptor limit.
pub fn of_socket(socket: impl AsFd) -> io::Result<OwnedFd> {
    /// `include/uapi/linux/sockios.h`.
    const SIOCGSKNS: u32 = 0x894c;
    // SAFETY: the request takes no argument; it makes a descriptor.
    let number = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCGSKNS as _) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has opened this descriptor for this call, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Runs `work` in the network namespace `namespace` on this thread, then returns to the namespace
/// the thread was in, also when `work` panics.
///
/// Sockets that `work` opens and threads that it starts stay in `namespace`; other threads of the
/// process are not touched.
///
/// # Errors
///
/// `EPERM` without `CAP_SYS_ADMIN` over `namespace`, or over the namespace to return to; `EINVAL`
/// when `namespace` is not a network namespace. `work` has not run then.
///
/// # Aborts
///
/// When the way back fails (`work` has given up `CAP_SYS_ADMIN`): the thread would go on in a
/// network that nothing after this call expects.
pub fn enter<R>(namespace: impl AsFd, work: impl FnOnce() -> R) -> io::Result<R> {
    go(namespace.as_fd(), current()?, abort).map(|_way_back| work())
}

/// The same for code in a program that is not ours, and without `/proc`: `previous` is the namespace
/// that the thread is in.
///
/// A way back that fails ends nothing: the thread stays in `namespace`. That needs `work`, or another
/// thread by setuid(2), to give `CAP_SYS_ADMIN` up meanwhile.
///
/// # Errors
///
/// As of [`enter`]. `work` has not run then.
pub fn visit<R>(namespace: impl AsFd, previous: OwnedFd, work: impl FnOnce() -> R) -> io::Result<R> {
    go(namespace.as_fd(), previous, |_| ()).map(|_way_back| work())
}

/// Enters a namespace, if there is a way back.
fn go(namespace: BorrowedFd<'_>, previous: OwnedFd, on_failure: fn(&io::Error)) -> io::Result<WayBack> {
    // Entering the namespace one is in changes nothing but is checked like any other entry. In a
    // user namespace, the way back to the host's network is refused: find out before leaving.
    set(previous.as_fd())?;
    set(namespace)?;
    Ok(WayBack { previous, on_failure })
}

/// Returns to the namespace it holds when dropped.
struct WayBack {
    previous: OwnedFd,
    on_failure: fn(&io::Error),
}

impl Drop for WayBack {
    fn drop(&mut self) {
        if let Err(error) = set(self.previous.as_fd()) {
            (self.on_failure)(&error);
        }
    }
}

fn abort(error: &io::Error) {
    eprintln!("return to the previous network namespace: {error}; aborting");
    std::process::abort();
}

fn set(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?)
}

/// Moves the process into a new user namespace, in which it is root, and a new network namespace
/// owned by it, so that an unprivileged user can make further network namespaces.
///
/// The process must have a single thread: call it first thing in `main`. The network of the host
/// is out of reach afterwards, for good: it belongs to the outer user namespace, and a thread
/// could not come back to it from [`enter`]. Files are accessed as the user who called.
///
/// # Errors
///
/// Each with a message that says what to do: the process has more threads, or the system forbids
/// or limits user namespaces. After a failed `uid_map` write the process is already in the new
/// namespace, without privilege in it; it can go on, or end.
pub fn enter_user_namespace() -> io::Result<()> {
    let threads = fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "enter a user namespace: the process has {threads} threads and the kernel \
                 allows one; do it before any thread is started"
            ),
        ));
    }
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET).map_err(explain_refusal)?;
    // An unprivileged process may map its group only after giving up setgroups(2).
    write_map("setgroups", "deny")?;
    write_map("uid_map", &format!("0 {} 1", uid.as_raw()))?;
    write_map("gid_map", &format!("0 {} 1", gid.as_raw()))
}

fn write_map(file: &str, content: &str) -> io::Result<()> {
    let path = format!("/proc/self/{file}");
    fs::write(&path, content).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!(
                "map the user into the new user namespace: write '{content}' to {path}: {error}; \
                 where AppArmor restricts user namespaces, set \
                 kernel.apparmor_restrict_unprivileged_userns=0, or run as root"
            ),
        )
    })
}

fn explain_refusal(error: io::Error) -> io::Error {
    let advice = match error.raw_os_error() {
        Some(libc::EPERM) => {
            "this system forbids user namespaces to unprivileged users (see the sysctls \
             kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns, \
             and the seccomp profile of a container); allow them or run as root"
        }
        Some(libc::ENOSPC) => {
            "the limit of user or network namespaces is reached (sysctls \
             user.max_user_namespaces and user.max_net_namespaces); raise it or run as root"
        }
        Some(libc::EINVAL) => "this kernel is built without user namespaces; run as root",
        _ => "run as root instead",
    };
    io::Error::new(error.kind(), format!("enter a user namespace: {error}; {advice}"))
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    assert!(!flags.contains(UnshareFlags::FILES), "the descriptor table stays shared");
    // SAFETY: the call is unsafe only for `FILES`, with which this thread could be left with
    // descriptors that other threads close and reuse; `FILES` is excluded above.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// Inode number: the identity of a namespace.
    fn identity(namespace: &OwnedFd) -> u64 {
        fs::File::from(namespace.try_clone().unwrap()).metadata().unwrap().ino()
    }

    /// A new namespace, or none where the test has no right to make one.
    fn namespace_or_skip() -> Option<OwnedFd> {
        match new_network_namespace() {
            Ok(namespace) => Some(namespace),
            Err(error) if std::env::var_os("NEARWIRE_REQUIRE").is_none() => {
                println!("SKIP cannot make a network namespace: {error}");
                None
            }
            Err(error) => panic!("NEARWIRE_REQUIRE is set and namespaces are refused: {error}"),
        }
    }

    #[test]
    fn new_namespace_made_caller_stays_in_its_own() {
        let before = identity(&current().unwrap());
        let Some(made) = namespace_or_skip() else {
            return;
        };
        assert_ne!(identity(&made), before);
        assert_eq!(identity(&current().unwrap()), before);
    }

    #[test]
    fn namespace_entered_work_sees_it_and_thread_returns() {
        let before = identity(&current().unwrap());
        let Some(made) = namespace_or_skip() else {
            return;
        };
        let inside = enter(&made, || identity(&current().unwrap())).unwrap();
        assert_eq!(inside, identity(&made));
        assert_eq!(identity(&current().unwrap()), before);
    }

    #[test]
    fn namespace_entered_work_panics_thread_returns() {
        let before = identity(&current().unwrap());
        let Some(made) = namespace_or_skip() else {
            return;
        };
        let outcome = std::panic::catch_unwind(|| enter(&made, || panic!("on purpose")));
        assert!(outcome.is_err());
        assert_eq!(identity(&current().unwrap()), before);
    }

    #[test]
    fn ordinary_file_entered_is_refused_and_work_does_not_run() {
        let file = fs::File::open("/proc/self/status").unwrap();
        let mut ran = false;
        enter(&file, || ran = true).unwrap_err();
        assert!(!ran);
    }

    #[test]
    fn process_with_threads_user_namespace_is_refused_with_count() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || stopped.recv().ok());
        let error = enter_user_namespace().unwrap_err();
        drop(stop);
        other.join().unwrap();
        assert!(error.to_string().contains("threads"), "{error}");
    }
}
