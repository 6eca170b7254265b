//! Connections that the stack cannot go on with, or does worse than the kernel.

use nearwire_stack::{NeedsKernel, TcpReadiness};

/// Why the stack says that a connection is to be released to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToRelease {
    /// It cannot send.
    Stuck(NeedsKernel),
    /// Nothing of it comes by its port.
    Unheard,
    /// Long segments may not pass.
    PathInDoubt,
    /// It moves bulk.
    Bulk,
}

impl ToRelease {
    /// What weighs most, if anything.
    pub(super) fn of(readiness: &TcpReadiness) -> Option<ToRelease> {
        match readiness {
            TcpReadiness { stuck: Some(reason), .. } => Some(ToRelease::Stuck(*reason)),
            TcpReadiness { unheard: true, .. } => Some(ToRelease::Unheard),
            TcpReadiness { path_in_doubt: true, .. } => Some(ToRelease::PathInDoubt),
            TcpReadiness { is_bulk: true, .. } => Some(ToRelease::Bulk),
            _ => None,
        }
    }
}
