//! Why `epoll_ctl` is refused.

use rustix::io::Errno;
use thiserror::Error;

use super::Events;

/// Why a registration was not made, changed or removed.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum EpollError {
    /// `EEXIST`.
    #[error("add descriptor {fd} to an epoll set: it is in the set; modify it instead")]
    Exists {
        /// The descriptor.
        fd: i32,
    },
    /// `ENOENT`.
    #[error("change descriptor {fd} of an epoll set: it is not in the set; add it first")]
    Missing {
        /// The descriptor.
        fd: i32,
    },
    /// `EINVAL`: EPOLLEXCLUSIVE goes with EPOLLIN, OUT, ERR, HUP, WAKEUP and ET only.
    #[error("add descriptor {fd} exclusively to an epoll set: {others:?} cannot be asked for with EPOLLEXCLUSIVE")]
    ExclusiveWith {
        /// The descriptor.
        fd: i32,
        /// What was asked for besides.
        others: Events,
    },
    /// `EINVAL`.
    #[error("add descriptor {fd} exclusively to an epoll set: it is an epoll set; add it without EPOLLEXCLUSIVE")]
    ExclusiveSet {
        /// The descriptor.
        fd: i32,
    },
    /// `EINVAL`.
    #[error("modify descriptor {fd} of an epoll set: EPOLLEXCLUSIVE is there or asked for; remove and add it instead")]
    ModifiedExclusive {
        /// The descriptor.
        fd: i32,
    },
}

impl EpollError {
    /// What `epoll_ctl` sets `errno` to.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::Exists { .. } => Errno::EXIST,
            Self::Missing { .. } => Errno::NOENT,
            Self::ExclusiveWith { .. } | Self::ExclusiveSet { .. } | Self::ModifiedExclusive { .. } => Errno::INVAL,
        }
    }
}
