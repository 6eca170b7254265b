//! The verdict for a flow: by the exact flow, or else by the bound one.

use std::os::fd::AsFd;

use super::{
    CLASSES, FLOW_KEY, FLOW_KEY_CLASS, FLOW_KEY_PORT, FLOW_KEY_PROTOCOL, LOCAL_V4, LOCAL_V6, Maps, PORTS, PROTOCOL,
    REMOTE_V4, REMOTE_V6, Ways, look_up, look_up_exact,
};
use crate::steering::filter::{FLOW_ADDRESS, FLOW_PORT};
use crate::steering::group::{GROUP_SHIFT, GROUPS_MOST, HASH_AT, HASH_BITS, HASH_FACTOR};
use crate::steering::owner::GROUP;
use crate::steering::ports::{
    PORT_EXACT, PORT_KIND_AT, PORT_KIND_MASK, PORT_SEVERAL, PORT_VERDICT, PORT_WORD_SHIFT, PORTS_V6_BYTES,
};
use crate::steering::set::FLOW_CLASSES;
use crate::xdp::assembler::Register::{R0, R1, R2, R5, R7, R8, R9, R10};
use crate::xdp::assembler::Width::{Byte, Double, Half, Word};
use crate::xdp::assembler::{Assembler, Label};

/// How a bound flow is found where the word of the port does not say it.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    /// In the map of flows, of all classes.
    pub(super) search: Label,
    /// There is none of the port: in the map of flows, of the classes without a port.
    pub(super) other: Label,
}

/// Decides by the word of the destination port in `R8`, for IPv4. That is a load, where a hash of a key and a walk through its bucket are 15
/// to 20 ns and three cache lines. Expects the destination address in `R1` and the protocol in `R5`.
pub(super) fn append_port_v4(program: &mut Assembler, maps: &Maps, ways: Ways, bound: Bound) {
    let (only, found, other) = (program.label(), program.label(), program.label());
    append_word(program, maps, 0, bound.other, only);
    look_up_exact(program, &maps.exact_v4, LOCAL_V4, ways);
    program
        .load(Word, R1, R10, LOCAL_V4)
        .load(Word, R5, R10, PROTOCOL)
        .place(only)
        .copy(R2, R9)
        .shift_right(R2, PORT_KIND_AT.cast_signed()) // R2 = address and protocol of the only bound flow
        .shift_left(R1, 8)
        .add_register(R1, R5) // R1 = those of the packet
        .jump_if_same(R1, R2, found)
        .jump_if_differs(R2, R5, other); // neither has it the protocol and a wildcard
    append_wildcard(program, found, bound);
    program.place(other);
    append_kind(program, bound);
    program.place(found).and(R9, PORT_VERDICT.cast_signed()).jump(ways.verdict);
}

/// The same for IPv6, of which a wildcard can be the only bound flow. Expects the protocol in `R5`.
pub(super) fn append_port_v6(program: &mut Assembler, maps: &Maps, ways: Ways, bound: Bound) {
    let (only, found, other) = (program.label(), program.label(), program.label());
    append_word(program, maps, PORTS_V6_BYTES, bound.other, only);
    look_up_exact(program, &maps.exact_v6, LOCAL_V6, ways);
    program
        .load(Word, R5, R10, PROTOCOL)
        .place(only)
        .copy(R2, R9)
        .shift_right(R2, PORT_KIND_AT.cast_signed()) // R2 = protocol of the only bound flow
        .jump_if_differs(R2, R5, other);
    append_wildcard(program, found, bound);
    program.place(other);
    append_kind(program, bound);
    program.place(found).and(R9, PORT_VERDICT.cast_signed()).jump(ways.verdict);
}

/// Puts the word of the port into `R9` and goes to `none` where it is empty, to `only` where there are no exact flows.
fn append_word(program: &mut Assembler, maps: &Maps, begin_bytes: i32, none: Label, only: Label) {
    program
        .copy(R2, R8)
        .shift_left(R2, PORT_WORD_SHIFT.cast_signed())
        .load_map_value(R0, maps.words.ports.as_fd(), begin_bytes)
        .add_register(R0, R2)
        .load(Double, R9, R0, 0)
        .jump_if_equal(R9, 0, none) // no flow has this port
        .copy(R2, R9)
        .and(R2, PORT_EXACT.cast_signed())
        .jump_if_equal(R2, 0, only);
}

/// The only bound flow of the port is a wildcard and matches: unless a filter of the address, whose turn is before, does.
fn append_wildcard(program: &mut Assembler, found: Label, bound: Bound) {
    program.load(Word, R1, R10, CLASSES).and(R1, 1 << FLOW_ADDRESS).jump_if_equal(R1, 0, found).jump(bound.search);
}

/// The word of the port, which is in `R2` from its kind on, does not say the flow.
fn append_kind(program: &mut Assembler, bound: Bound) {
    program
        .and(R2, PORT_KIND_MASK)
        .jump_if_equal(R2, PORT_SEVERAL.cast_signed(), bound.search) // more than fit
        .jump(bound.other);
}

/// One look-up for each class of flow filters in use, the most exact first.
pub(super) fn append_bound(program: &mut Assembler, maps: &Maps, ways: Ways, bound: Bound) {
    const NO_PORT: [u8; 2] = [FLOW_ADDRESS, 0];
    program.place(bound.other);
    let classes = NO_PORT.iter().fold(0, |bits, class| bits | 1 << class);
    program.load(Word, R1, R10, CLASSES).and(R1, classes).jump_if_equal(R1, 0, ways.pass); // no filter matches
    append_classes(program, maps, &NO_PORT, ways);
    program.place(bound.search);
    append_classes(program, maps, &FLOW_CLASSES, ways);
}

fn append_classes(program: &mut Assembler, maps: &Maps, classes: &[u8], ways: Ways) {
    append_address(program);
    // An address, once it is out of the key, does not come back: classes with it go first.
    let mut has_address = true;
    for &class in classes {
        let next = program.label();
        if class & FLOW_ADDRESS == 0 && std::mem::take(&mut has_address) {
            program
                .store_constant(Double, R10, FLOW_KEY, 0) // any address
                .store_constant(Double, R10, FLOW_KEY + 8, 0);
        }
        program.load(Word, R1, R10, CLASSES).and(R1, 1 << class).jump_if_equal(R1, 0, next); // no filter of this class
        if class & FLOW_PORT == 0 {
            program.store_constant(Half, R10, FLOW_KEY_PORT, 0); // any port
        } else {
            program.store(Half, R10, FLOW_KEY_PORT, R8); // this port
        }
        program
            .copy(R1, R7)
            .add(R1, i32::from(class) << 4) // version and class
            .store(Byte, R10, FLOW_KEY_CLASS, R1);
        look_up(program, &maps.flows, FLOW_KEY, ways.verdict);
        program.place(next);
    }
    program.jump(ways.pass); // no filter matches
}

/// Puts the destination address and the protocol into the flow key.
fn append_address(program: &mut Assembler) {
    let (v6, known) = (program.label(), program.label());
    program
        .load(Word, R1, R10, PROTOCOL)
        .store(Byte, R10, FLOW_KEY_PROTOCOL, R1)
        .jump_if_not_equal(R7, 4, v6)
        .load(Word, R1, R10, LOCAL_V4)
        .store(Word, R10, FLOW_KEY, R1)
        .store_constant(Word, R10, FLOW_KEY + 4, 0) // the rest of a longer address
        .store_constant(Double, R10, FLOW_KEY + 8, 0)
        .jump(known)
        .place(v6);
    for half in [0, 8] {
        program.load(Double, R1, R10, LOCAL_V6 + half).store(Double, R10, FLOW_KEY + half, R1);
    }
    program.place(known);
}

/// Of a verdict for several owners makes the one that the source chooses.
pub(super) fn append_group(program: &mut Assembler, maps: &Maps, ways: Ways) {
    let (v6, known) = (program.label(), program.label());
    program
        .place(ways.verdict)
        .jump_if_below(R9, GROUP.cast_signed(), ways.owner) // one owner
        .load(Half, R2, R10, PORTS) // source port
        .jump_if_not_equal(R7, 4, v6)
        .load(Word, R1, R10, REMOTE_V4)
        .add_register(R2, R1)
        .jump(known)
        .place(v6);
    for word in (0..16).step_by(4) {
        program.load(Word, R1, R10, REMOTE_V6 + word).add_register(R2, R1);
    }
    program
        .place(known)
        .multiply(R2, HASH_FACTOR)
        .shift_right(R2, HASH_AT.cast_signed())
        .and(R2, (1 << HASH_BITS) - 1) // R2 = hash of the source, the slot
        .shift_left(R2, 1) // in bytes
        .and(R9, GROUPS_MOST.cast_signed() - 1) // the index, bounded for the verifier
        .shift_left(R9, GROUP_SHIFT.cast_signed()) // in bytes
        .add_register(R2, R9)
        .load_map_value(R1, maps.words.groups.as_fd(), 0)
        .add_register(R1, R2)
        .load(Half, R9, R1, 0); // the owner
}
