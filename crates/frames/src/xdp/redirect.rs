//! What ends a program: the kernel's way, or the way to a socket.
//!
//! Source: `include/uapi/linux/bpf.h` (`struct xdp_md`, `bpf_redirect_map`).

use std::os::fd::AsFd;

use nearwire_sys::bpf::Map;

use super::assembler::Register::{R0, R1, R2, R3, R9};
use super::assembler::{Assembler, HelperCall, Width};

/// `XDP_DROP`.
pub const XDP_DROP: u32 = 1;
/// `XDP_PASS`.
pub const XDP_PASS: u32 = 2;
/// `XDP_REDIRECT`.
pub const XDP_REDIRECT: u32 = 4;

// Offsets in `struct xdp_md`.
pub(crate) const CONTEXT_DATA: i16 = 0;
pub(crate) const CONTEXT_DATA_END: i16 = 4;
const CONTEXT_RX_QUEUE_INDEX: i16 = 16;

/// Where the socket for a frame stands in the map of sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// At the number of the queue that the frame came in on.
    OfQueue,
    /// At [`place_of`] the queue and the share whose number is in `R9`, of so many.
    OfShare { of: u32 },
}

/// The place of a share's socket for a queue, where a queue has places for so many shares. One queue's stand together, so that a queue that
/// the device got later has its places behind the map's end, where the kernel has none and passes the frame.
pub(crate) fn place_of(queue: u32, share: u32, shares_most: u32) -> u32 {
    queue * shares_most + share
}

/// Returns `bpf_redirect_map(sockets, place, XDP_PASS)`. Expects the context in `R1`.
pub(crate) fn append_redirect(program: &mut Assembler, sockets: &Map, place: Place) {
    append_place(program, place);
    program
        .load_map(R1, sockets.as_fd()) // the map of sockets
        .set(R3, XDP_PASS.cast_signed()) // when the queue has no socket
        .call(HelperCall::RedirectMap) // R0 = XDP_REDIRECT or XDP_PASS
        .exit();
}

/// Puts the place into `R2`. Expects the context in `R1`.
pub(crate) fn append_place(program: &mut Assembler, place: Place) {
    program.load(Width::Word, R2, R1, CONTEXT_RX_QUEUE_INDEX); // the queue the frame came in on
    if let Place::OfShare { of } = place {
        if of.is_power_of_two() {
            program.shift_left(R2, of.ilog2().cast_signed());
        } else {
            program.multiply(R2, of.cast_signed());
        }
        program.add_register(R2, R9); // R2 was the first of the queue's places
    }
}

pub(crate) fn append_pass(program: &mut Assembler) {
    program
        .set(R0, XDP_PASS.cast_signed()) // the kernel's way
        .exit();
}
