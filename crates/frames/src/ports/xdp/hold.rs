//! Whose the attached program is, where several ports receive by it.

use std::sync::{Arc, Weak};

use crate::xdp::XdpAttachment;

/// What a port has of the attached program.
#[derive(Debug)]
pub(super) enum Hold {
    /// It is the port's.
    Own(Arc<XdpAttachment>),
    /// It is that of the port which this one is a share of.
    Other(Weak<XdpAttachment>),
    /// It is another process's, which says when it is detached.
    Elsewhere,
    /// It is the port's, and detached until the port is woken ([`XdpPort::rest`](super::XdpPort::rest)).
    Resting,
    /// Nothing any more.
    Nothing,
}

impl Hold {
    pub(super) fn own(&self) -> Option<&XdpAttachment> {
        match self {
            Hold::Own(attachment) => Some(attachment),
            Hold::Other(_) | Hold::Elsewhere | Hold::Resting | Hold::Nothing => None,
        }
    }

    /// A share's.
    pub(super) fn another(&self) -> Hold {
        match self {
            Hold::Own(attachment) => Hold::Other(Arc::downgrade(attachment)),
            Hold::Other(attachment) => Hold::Other(Weak::clone(attachment)),
            Hold::Elsewhere => Hold::Elsewhere,
            // A port that rests has no share in its own process.
            Hold::Resting | Hold::Nothing => Hold::Nothing,
        }
    }

    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Hold::Nothing)
    }

    pub(super) fn is_in_force(&self) -> bool {
        match self {
            Hold::Own(attachment) => attachment.is_in_force(),
            Hold::Other(attachment) => attachment.upgrade().is_some_and(|attachment| attachment.is_in_force()),
            Hold::Elsewhere => true,
            Hold::Resting | Hold::Nothing => false,
        }
    }
}
