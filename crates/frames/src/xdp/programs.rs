//! The XDP programs.
//!
//! [`pass`] gives every frame to the kernel. Attached to veth, it makes the driver receive through NAPI, without which
//! the kernel's busy polling does nothing there.
//!
//! [`steer_all`] gives every frame of a queue to that queue's socket.
//!
//! [`steer`] gives frames of one EtherType to the socket, under up to two VLAN tags:
//!
//! ```text
//!   14 bytes there? --no--------------------------------------+
//!         | yes                                               |
//!   type at 12: wanted? --yes--------------------------+      |
//!         | no                                         |      |
//!   a tag? --no----------------------------------------|----->+
//!         | yes                                        |      |
//!   18 bytes there? --no-------------------------------|----->+
//!         | yes                                        |      |
//!   type at 16: wanted? --yes------------------------->+      |
//!         | no                                         |      |
//!   a tag? --no----------------------------------------|----->+
//!         | yes                                        |      |
//!   22 bytes there? --no-------------------------------|----->+
//!         | yes                                        |      |
//!   type at 20: wanted? --yes------------------------->+      |
//!         | no                                         |      |
//!         +--------------------------------------------|----->+
//!                                                   redirect  pass
//! ```
//!
//! The program that steers by filters is [`crate::steering`]'s. All that redirect can write times in front of the frame (`stamps`).
//!
//! Invariant: a frame is redirected only to a socket that is there; all else takes the kernel's way, so a missing
//! socket or a queue without one costs no frame. See `redirect`.

use nearwire_sys::bpf::{Instruction, LoadError, LoadOptions, Map, Program};

use super::assembler::Register::{R1, R2, R3, R4, R5};
use super::assembler::{Assembler, Label, Width};
use super::redirect::{CONTEXT_DATA, CONTEXT_DATA_END, Place, append_pass};
use super::stamps::{self, Stamps, When, append_stamped_redirect};

/// EtherTypes of VLAN tags: 802.1Q and 802.1ad.
pub(crate) const TAG_ETHER_TYPES: [u16; 2] = [0x8100, 0x88a8];
/// Where the EtherType is in an untagged frame.
const ETHER_TYPE_AT: i16 = 12;
/// Length of a VLAN tag.
const TAG_BYTES: i16 = 4;
/// VLAN tags looked behind.
const TAGS_MOST: i16 = 2;

/// Gives every frame to the kernel.
///
/// # Errors
/// The kernel refused the program.
pub fn pass() -> Result<Program, LoadError> {
    pass_with(LoadOptions::default())
}

/// The same, loaded so.
pub(crate) fn pass_with(options: LoadOptions) -> Result<Program, LoadError> {
    let mut program = Assembler::new();
    append_pass(&mut program);
    Program::load_xdp_with("nw_pass", &program.finish(), options)
}

/// Gives every frame to the socket that `sockets` has for the frame's queue, with times in front of it if there are `stamps`.
/// `multi_buffer`: frames may lie in several buffers.
///
/// # Errors
/// The kernel refused the program.
pub(crate) fn steer_all(sockets: &Map, stamps: Option<Stamps>, multi_buffer: bool) -> Result<Program, LoadError> {
    let mut program = Assembler::new();
    append_stamped_redirect(&mut program, sockets, Place::OfQueue, stamps, When::Always);
    stamps::load("nw_steer_all", &program.finish(), stamps, multi_buffer)
}

/// The same of frames of `ether_type`, under up to two VLAN tags.
///
/// # Errors
/// The kernel refused the program.
pub(crate) fn steer(
    sockets: &Map,
    ether_type: u16,
    stamps: Option<Stamps>,
    multi_buffer: bool,
) -> Result<Program, LoadError> {
    stamps::load("nw_steer", &steer_instructions(sockets, ether_type, stamps), stamps, multi_buffer)
}

fn steer_instructions(sockets: &Map, ether_type: u16, stamps: Option<Stamps>) -> Vec<Instruction> {
    let mut program = Assembler::new();
    let redirect = program.label();
    let pass = program.label();
    program
        .load(Width::Word, R2, R1, CONTEXT_DATA) // first byte of the frame
        .load(Width::Word, R3, R1, CONTEXT_DATA_END); // one past its last linear byte
    for tags in 0..=TAGS_MOST {
        append_look(&mut program, ether_type, tags, redirect, pass);
    }
    program.place(redirect);
    append_stamped_redirect(&mut program, sockets, Place::OfQueue, stamps, When::Always);
    program.place(pass);
    append_pass(&mut program);
    program.finish()
}

/// Looks at the EtherType behind `tags` tags: goes to `redirect` or to `pass`, or on to look behind one tag more.
fn append_look(program: &mut Assembler, ether_type: u16, tags: i16, redirect: Label, pass: Label) {
    let at = ETHER_TYPE_AT + tags * TAG_BYTES;
    program
        .copy(R4, R2) // R4 = first byte ...
        .add(R4, i32::from(at + 2)) // ... behind the EtherType
        .jump_if_above(R4, R3, pass) // the frame ends before that
        .load(Width::Half, R5, R2, at) // the EtherType
        .jump_if_equal(R5, loaded_as(ether_type), redirect); // it is the wanted one
    if tags == TAGS_MOST {
        program.jump(pass); // three tags deep: not ours
        return;
    }
    let behind_tag = program.label();
    for tag in TAG_ETHER_TYPES {
        program.jump_if_equal(R5, loaded_as(tag), behind_tag); // a tag: look behind it
    }
    program.jump(pass); // any other type: the kernel's
    program.place(behind_tag);
}

/// What the CPU loads, in its own byte order, for a big-endian number in the frame.
pub(crate) fn loaded_as(wire: u16) -> i32 {
    i32::from(u16::from_ne_bytes(wire.to_be_bytes()))
}
