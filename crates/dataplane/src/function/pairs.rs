//! Functions that look at nothing: what comes in by a port leaves by its partner. Ports 0 and 1 are partners, 2 and 3, and so on.

use nearwire_wire::ethernet::UNTAGGED_HEADER_BYTES;

use super::{DropCause, Function, Rewrite, Verdict};

/// Forwards frames as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Io;

/// Forwards frames with their Ethernet addresses swapped: what a generator sends comes back addressed to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MacSwap;

impl Function for Io {
    #[inline]
    fn judge(&mut self, _now_ns: u64, ingress: usize, frame: &[u8]) -> Verdict {
        to_partner(ingress, frame, Rewrite::None)
    }
}

impl Function for MacSwap {
    #[inline]
    fn judge(&mut self, _now_ns: u64, ingress: usize, frame: &[u8]) -> Verdict {
        to_partner(ingress, frame, Rewrite::SwapAddresses)
    }
}

#[inline]
fn to_partner(ingress: usize, frame: &[u8], rewrite: Rewrite) -> Verdict {
    if frame.len() < UNTAGGED_HEADER_BYTES {
        return Verdict::Drop(DropCause::Runt);
    }
    // The last of an odd number of ports names one that is not there, which the forwarder counts.
    Verdict::Forward { egress: ingress ^ 1, rewrite }
}
