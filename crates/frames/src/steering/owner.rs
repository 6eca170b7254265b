//! Who gets the frames of a flow, and the number by which the maps say it.
//!
//! ```text
//!   0 to 253           the share with this number
//!   0x8000             the kernel
//!   0x8001             nobody
//!   0x8002             the kernel, which has got none yet: with the first frame it becomes 0x8000
//!   0x1_0000 + index   one of several, by the slot table with this index (`group`)
//! ```
//!
//! Such a number is a *verdict*. A slot of a group has one of 16 bits.

use std::fmt;

/// Slots of a group of owners.
pub(super) const SLOTS: usize = 256;

/// Shares that a port can have, with the first one. With the kernel and nobody they are as many as a group has slots, so that each
/// owner of a group has one.
pub const SHARES_MOST: u32 = SLOTS as u32 - 2;

pub(super) const KERNEL: u32 = 0x8000;
pub(super) const NOBODY: u32 = 0x8001;
pub(super) const UNHEARD: u32 = 0x8002;
/// Added to the index of a group.
pub(super) const GROUP: u32 = 1 << 16;
/// Bits of a verdict.
pub(super) const VERDICT_BITS: u32 = 17;

/// The one place that gets the frames of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The share of the port with this number ([`crate::ports::xdp::XdpPort::share_number`]). While there is no such share the kernel gets
    /// the frames.
    Share(u32),
    /// The kernel (`XDP_PASS`).
    Kernel,
    /// The kernel, and whether it got one is remembered ([`SteeringTable::has_heard`](super::SteeringTable::has_heard)): of exact flows alone.
    Unheard,
    /// Nobody: the frames are dropped (`XDP_DROP`).
    Nobody,
}

impl Owner {
    pub(super) fn verdict(self) -> u32 {
        match self {
            Owner::Share(share) => share,
            Owner::Kernel => KERNEL,
            Owner::Nobody => NOBODY,
            Owner::Unheard => UNHEARD,
        }
    }

    pub(super) fn slot(self) -> u16 {
        self.verdict() as u16
    }

    pub(super) fn of_slot(slot: u16) -> Owner {
        match u32::from(slot) {
            KERNEL => Owner::Kernel,
            NOBODY => Owner::Nobody,
            UNHEARD => Owner::Unheard,
            share => Owner::Share(share),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Share(share) => write!(f, "share {share}"),
            Owner::Kernel => f.write_str("the kernel"),
            Owner::Nobody => f.write_str("nobody"),
            Owner::Unheard => f.write_str("the kernel, until a frame is heard"),
        }
    }
}
