//! Why a connection is not adopted, and when it is tried again.

use crate::reason::{Reason, Why};

/// Calls that the kernel gets before a connection that could not be adopted yet, or was released, is tried again.
pub(super) const CALLS_UNTIL_TRIED_AGAIN: u16 = 16;

/// Why a connection stays the kernel's.
#[derive(Clone, Copy, Debug)]
pub(super) enum NotAdopted {
    /// It is tried again after some calls more.
    Yet {
        /// How many.
        calls: u16,
    },
    /// It is the kernel's for good.
    Ever(Why),
}

impl NotAdopted {
    pub(super) const YET: NotAdopted = NotAdopted::Yet { calls: CALLS_UNTIL_TRIED_AGAIN };
}

impl From<Reason> for NotAdopted {
    fn from(reason: Reason) -> NotAdopted {
        NotAdopted::Ever(reason.into())
    }
}

impl From<Why> for NotAdopted {
    fn from(why: Why) -> NotAdopted {
        NotAdopted::Ever(why)
    }
}
