//! Descriptors: numbers of other people's, and where our own come from and are put.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use crate::bpf::call::Instruction;
use crate::bpf::make::{self, LoadOptions, MapSpec, XdpAttach};

pub use crate::bpf::make::Refusal;

/// A descriptor number of the program that this code runs in, which may close it or open something else under it at any
/// time; the kernel then answers `EBADF`, or speaks of the other thing, as it would to the program itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Descriptor(RawFd);

impl Descriptor {
    /// `None` for a negative number, which names no descriptor.
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

/// Has all descriptors of the process from a number on closed when it executes a program, whoever opened them.
///
/// # Errors
/// close_range(2) failed: `ENOSYS` in a sandbox that does not know it.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: with this flag the call closes nothing; it changes what execve(2) does, when no code of this program runs any more.
    let result = unsafe { libc::close_range(first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What a port is made of, as far as it needs capabilities to be had: an AF_XDP socket, a map, a program, a link.
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
        /// Maps in them are given by descriptors of this process.
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

/// Where descriptors come from. A process with the capabilities asks the kernel ([`from_kernel`]); one without could ask a
/// helper process that has them, and nothing else would change.
pub trait Source: Sync {
    /// Gets one.
    ///
    /// # Errors
    /// The kernel, or whoever was asked, refused.
    fn obtain(&self, request: &Request<'_>) -> Result<OwnedFd, Refusal>;

    /// Puts an internal descriptor that needs no capability (epoll, eventfd, netlink) where the process wants it.
    fn place(&self, descriptor: OwnedFd) -> OwnedFd {
        descriptor
    }

    /// Makes a copy of a descriptor of the program's, close-on-exec, where the process wants internal ones.
    ///
    /// # Errors
    /// fcntl(2) failed: `EMFILE`, `EBADF`.
    fn copy(&self, descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        descriptor.try_clone_to_owned()
    }

    /// Closes one that it gave.
    fn close(&self, descriptor: OwnedFd) {
        drop(descriptor);
    }
}

static SOURCE: OnceLock<&'static dyn Source> = OnceLock::new();

/// Says once for the process where descriptors come from and go to. A library inside somebody else's program puts them
/// out of the way: programs count on getting the lowest free number, and close whole ranges.
pub fn set_source(source: &'static dyn Source) {
    // A second call would be the same library again; the first counts.
    let _ = SOURCE.set(source);
}

/// Gets a descriptor from the process's source.
///
/// # Errors
/// As [`Source::obtain`].
pub fn obtain(request: &Request<'_>) -> Result<OwnedFd, Refusal> {
    match SOURCE.get() {
        Some(source) => source.obtain(request),
        None => from_kernel(request),
    }
}

/// Puts a new internal descriptor where the process wants it; without [`set_source`] it stays.
#[must_use]
pub fn place(descriptor: OwnedFd) -> OwnedFd {
    match SOURCE.get() {
        Some(source) => source.place(descriptor),
        None => descriptor,
    }
}

/// Makes an internal copy of a descriptor of the program's, where the process wants it from the first moment on.
///
/// # Errors
/// As [`Source::copy`].
pub fn copy(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    match SOURCE.get() {
        Some(source) => source.copy(descriptor),
        None => descriptor.try_clone_to_owned(),
    }
}

/// Closes a descriptor of the process's source where the calling thread may be anywhere: a library inside somebody else's program
/// takes a close(2) that does not come from within it for the program's, and spares the number.
pub fn close(descriptor: OwnedFd) {
    match SOURCE.get() {
        Some(source) => source.close(descriptor),
        None => drop(descriptor),
    }
}

/// Asks the kernel.
///
/// # Errors
/// It refused, most often for want of a capability.
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
