//! Descriptors of other people's, and where our own are put.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;

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

/// Moves a new descriptor to where the process wants its internal ones.
pub type Placement = fn(OwnedFd) -> OwnedFd;

static PLACEMENT: OnceLock<Placement> = OnceLock::new();

/// Says once for the process where internal descriptors go. A library inside somebody else's program puts them out of the
/// way: programs count on getting the lowest free number, and close whole ranges.
pub fn set_placement(placement: Placement) {
    // A second call would be the same library again; the first counts.
    let _ = PLACEMENT.set(placement);
}

/// Puts a new internal descriptor where the process wants it; without [`set_placement`] it stays.
#[must_use]
pub fn place(descriptor: OwnedFd) -> OwnedFd {
    match PLACEMENT.get() {
        Some(placement) => placement(descriptor),
        None => descriptor,
    }
}
