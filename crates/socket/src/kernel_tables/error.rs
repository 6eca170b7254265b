//! Why the kernel's tables cannot be had.

use std::io;

use thiserror::Error;

/// Why the kernel's tables cannot be had.
#[derive(Debug, Error)]
pub enum TablesError {
    /// A call on a netlink socket failed.
    #[error(
        "{action}: {source}; without it nothing is known of routes and neighbours, and sockets stay with the kernel"
    )]
    Socket {
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused to dump a table.
    #[error("read the kernel's {table}: {source}")]
    Refused {
        /// Which table.
        table: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The list of groups cannot be read.
    #[error("read {path}: {source}; /proc must be mounted")]
    Groups {
        /// The file.
        path: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl TablesError {
    pub(super) fn socket(action: &'static str) -> impl Fn(rustix::io::Errno) -> TablesError {
        move |errno| TablesError::Socket { action, source: errno.into() }
    }
}

/// A message that is not of the form its type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;
