//! The process that sockets were inherited from, and what it shares with its children.

use std::sync::Arc;

use nearwire_frames::PortFilters;
use nearwire_sys::shared_words::SharedWords;
use rustix::process::{Pid, getppid, test_kill_process};

use crate::bell::Bell;
use crate::engine::Watch;

/// Places of sockets that can be claimed: as many as there can be numbers.
pub(super) const PLACES: usize = 1 << 16;
/// The word behind those of sockets: one more than how often something was claimed when the parent last looked; 0: it looks at its next call.
pub(super) const ANSWERED: usize = PLACES + 1;

/// The process that a socket was inherited from.
#[derive(Debug)]
pub(crate) struct Parent {
    pub(super) pid: Option<Pid>,
    pub(super) filters: Vec<Box<dyn PortFilters>>,
    pub(super) words: Option<Arc<SharedWords>>,
    pub(super) bell: Option<Arc<Bell>>,
    /// Reports sockets to which something came since the fork; `None`: that is not known of any.
    pub(super) since_fork: Option<Watch>,
}

impl Parent {
    pub(super) fn has_ended(&self) -> bool {
        // Of a grandparent it is not known when it ended without having been waited for.
        getppid() != self.pid && self.pid.is_none_or(|pid| test_kill_process(pid).is_err())
    }
}
