//! What went wrong: an errno value for programs, a text for people.

use std::cell::RefCell;

use libc::c_int;
use nearwire_frames::PortError;
use nearwire_frames::steering::FilterError;

/// A failed call.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Positive.
    pub(crate) errno: c_int,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Fault {
        Fault { errno, text: text.into() }
    }

    /// Nothing is wrong, and nothing went: no text is made, because programs ask again at once.
    pub(crate) fn again() -> Fault {
        Fault { errno: libc::EAGAIN, text: String::new() }
    }
}

impl From<PortError> for Fault {
    fn from(error: PortError) -> Fault {
        Fault { errno: errno(&error), text: error.to_string() }
    }
}

fn errno(error: &PortError) -> c_int {
    let of_source = |source: &std::io::Error| source.raw_os_error().unwrap_or(libc::EIO);
    match error {
        PortError::NoSuchInterface { .. } => libc::ENODEV,
        PortError::InterfaceDown { .. } => libc::ENETDOWN,
        PortError::QueueOutOfRange { .. } => libc::ERANGE,
        PortError::ProgramPresent { .. } | PortError::QueueBusy { .. } => libc::EBUSY,
        PortError::ModeUnsupported { .. } | PortError::AttachRefused { .. } => libc::ENOTSUP,
        PortError::MemoryLimit { .. } => libc::ENOMEM,
        PortError::Privilege { .. } => libc::EPERM,
        PortError::Config { .. } => libc::EINVAL,
        PortError::FrameLength { .. } => libc::EMSGSIZE,
        PortError::NoPreparedSlot { .. } => libc::ENOSPC,
        PortError::UnknownPreparedFrame { .. } => libc::ENOENT,
        PortError::OutOfTurn { .. } => libc::EBADFD,
        PortError::InterfaceGone { source, .. } => match of_source(source) {
            libc::ENETDOWN => libc::ENETDOWN,
            _ => libc::ENODEV,
        },
        PortError::Filter { source, .. } => match source {
            FilterError::FixedRule => libc::ENOTSUP,
            FilterError::Present { .. } => libc::EEXIST,
            FilterError::Missing { .. } => libc::ENOENT,
            FilterError::Full { .. } => libc::ENOSPC,
            _ => libc::EINVAL,
        },
        PortError::ProgramRejected { source, .. } => of_source(&source.source),
        PortError::Kernel { source, .. } => of_source(source),
        _ => libc::EIO,
    }
}

thread_local! {
    /// Of the last failed call without a port.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the text of a failed call without a port, and gives the value to return.
pub(crate) fn keep(fault: Fault) -> c_int {
    LAST.with(|last| *last.borrow_mut() = fault.text);
    -fault.errno
}

pub(crate) fn last_of_thread() -> String {
    LAST.with(|last| last.borrow().clone())
}
