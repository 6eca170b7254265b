//! Fds: those of the program that this code runs in, and where our own come from and are placed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use rustix::io::{FdFlags, fcntl_getfd};

use crate::bpf::call::Instruction;
use crate::bpf::make::{self, LoadOptions, MapSpec, XdpAttach};

pub use crate::bpf::make::Refusal;

/// An fd of the program that this code runs in. The program may close it, or open something else under its number, at any
/// time; the kernel then answers `EBADF`, or answers about the other file, as it would to the program itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Descriptor(RawFd);

impl Descriptor {
    /// `None` for a negative number, which is no fd.
    #[must_use]
    pub const fn new(number: RawFd) -> Option<Descriptor> {
        if number < 0 { None } else { Some(Descriptor(number)) }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> RawFd {
        self.0
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the number is not -1, as `new` checked. That it stays open is not known, and nothing here builds
        // memory safety on it: it is only handed to system calls, and no mapping or owned descriptor is made of it.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

/// The inode of the open file, of a socket its number in the kernel's file system of sockets: no two sockets have the same.
#[must_use]
pub fn inode_of(fd: Descriptor) -> Option<u64> {
    rustix::fs::fstat(fd).ok().map(|status| status.st_ino)
}

/// Whether an fd stays open when the process executes another program.
#[must_use]
pub fn stays_open(fd: Descriptor) -> bool {
    fcntl_getfd(fd).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC))
}

/// Marks all fds of the process from `first` on close-on-exec, whoever opened them.
///
/// # Errors
/// close_range(2) failed: `ENOSYS` in a sandbox that does not know it.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: with this flag the call closes nothing; it changes what execve(2) does, when no code of this program runs any more.
    let result = unsafe { libc::close_range(first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A part of a port that needs capabilities to be made: an AF_XDP socket, a map, a program, a link.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// An AF_XDP socket, not bound yet. CAP_NET_RAW.
    XdpSocket,
    /// A BPF map. CAP_BPF.
    Map(&'a MapSpec<'a>),
    /// An XDP program, loaded. CAP_BPF and CAP_NET_ADMIN.
    Program {
        /// Its name.
        name: &'a str,
        /// They name maps by fds of this process.
        instructions: &'a [Instruction],
        /// What it is for.
        options: LoadOptions,
    },
    /// A link that attaches a program to an interface. CAP_NET_ADMIN.
    Link {
        /// The program.
        program: BorrowedFd<'a>,
        /// Interface index.
        ifindex: u32,
        /// Where in the receive path.
        attach: XdpAttach,
    },
}

/// Where fds come from. A process with the capabilities asks the kernel ([`from_kernel`]).
pub trait Source: Sync {
    /// Gets one.
    ///
    /// # Errors
    /// The kernel refused.
    fn obtain(&self, request: &Request<'_>) -> Result<OwnedFd, Refusal>;

    /// Moves an internal fd that needs no capability (epoll, eventfd, netlink) to where the process wants it.
    fn place(&self, descriptor: OwnedFd) -> OwnedFd {
        descriptor
    }

    /// Copies an fd of the program, close-on-exec, to where the process wants internal ones.
    ///
    /// # Errors
    /// fcntl(2) failed: `EMFILE`, `EBADF`.
    fn copy(&self, descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        descriptor.try_clone_to_owned()
    }

    /// Closes an fd that came from this source.
    fn close(&self, descriptor: OwnedFd) {
        drop(descriptor);
    }
}

static SOURCE: OnceLock<&'static dyn Source> = OnceLock::new();

/// Sets the process's source; the first call counts. A library inside another program moves its fds to high numbers:
/// programs rely on getting the lowest free number, and close whole ranges.
pub fn set_source(source: &'static dyn Source) {
    // A second call would be the same library again; the first counts.
    let _ = SOURCE.set(source);
}

/// Gets an fd from the process's source.
///
/// # Errors
/// As [`Source::obtain`].
pub fn obtain(request: &Request<'_>) -> Result<OwnedFd, Refusal> {
    match SOURCE.get() {
        Some(source) => source.obtain(request),
        None => from_kernel(request),
    }
}

/// Moves a new internal fd to where the process wants it; without [`set_source`] it stays.
#[must_use]
pub fn place(descriptor: OwnedFd) -> OwnedFd {
    match SOURCE.get() {
        Some(source) => source.place(descriptor),
        None => descriptor,
    }
}

/// Copies an fd of the program, at once to where the process wants internal ones.
///
/// # Errors
/// As [`Source::copy`].
pub fn copy(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    match SOURCE.get() {
        Some(source) => source.copy(descriptor),
        None => descriptor.try_clone_to_owned(),
    }
}

/// Closes an fd of the process's source. Needed where the calling thread may be outside the library: that takes a close(2) from outside for
/// one of the program's, and does not close its own fds for it.
pub fn close(descriptor: OwnedFd) {
    match SOURCE.get() {
        Some(source) => source.close(descriptor),
        None => drop(descriptor),
    }
}

/// Asks the kernel.
///
/// # Errors
/// It refused, most often because a capability is missing.
pub fn from_kernel(request: &Request<'_>) -> Result<OwnedFd, Refusal> {
    match request {
        Request::XdpSocket => {
            use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
            let made = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None);
            made.map_err(|errno| io::Error::from(errno).into())
        }
        Request::Map(spec) => Ok(make::make_map(spec)?),
        Request::Program { name, instructions, options } => make::make_program(name, instructions, *options),
        Request::Link { program, ifindex, attach } => Ok(make::make_link(*program, *ifindex, *attach)?),
    }
}
