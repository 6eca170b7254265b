//! The decision as an XDP program.
//!
//! Registers that outlive calls: `R6` the context, `R7` the frame, moved on by the length of the tags (later: the IP
//! version), `R8` the frame's end (later: the destination port), `R9` the classes in use (later: the word of the destination port, the
//! verdict, and at last the number of the share).
//!
//! Memory that this process maps too (`words`) is a map of one value each, which the program reaches by its address,
//! without a look-up. What belongs together there is one word, read by one load.
//!
//! Invariant: no byte is read before the program compared its place with the frame's end; the verifier sees to it.
//! Source: `include/uapi/linux/bpf.h` (`struct xdp_md`), RFC 791, RFC 8200.

use std::os::fd::AsFd;

use nearwire_sys::bpf::{Instruction, LoadError, Map, Program};

use super::credits::{self, Counting, CreditMap};
use super::filter::{EXACT_CLASS, FRAME_CLASSES_FROM, FRAME_ETHER_TYPE, FRAME_MAC, FRAME_VLAN, Transport, UNTAGGED};
use super::owner::{KERNEL, NOBODY, UNHEARD};
use super::words::WordMaps;
use crate::xdp::assembler::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use crate::xdp::assembler::Width::{Byte, Double, Half, Word};
use crate::xdp::assembler::{Assembler, HelperCall, Label, Register};
use crate::xdp::programs::{TAG_ETHER_TYPES, loaded_as};
use crate::xdp::redirect::{CONTEXT_DATA, CONTEXT_DATA_END, Place, XDP_DROP, append_pass, append_place};
use crate::xdp::stamps::{self, Stamps, When, append_stamped_redirect};
use crate::xdp::tags::{self, TagQuestion};

mod flows;

/// What frames the buffers of a port hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Longer frames stay with the kernel: the MTU may grow while a port is open.
    pub frame_most_bytes: u32,
    /// A frame may lie in several buffers, and takes one more for each so many bytes. `None`: it lies in one.
    pub buffer_bytes: Option<u32>,
    /// The program sees the beginning of a long frame, and the kernel has the rest in pieces. Else it has all in one: generic mode joins them for a
    /// program that does not ask for pieces.
    pub in_pieces: bool,
}

impl From<u32> for Capacity {
    /// Of frames that lie in one buffer each.
    fn from(frame_most_bytes: u32) -> Capacity {
        Capacity { frame_most_bytes, buffer_bytes: None, in_pieces: false }
    }
}

/// What the program looks at.
#[derive(Debug)]
pub(super) struct Maps {
    /// What this process maps too.
    pub words: WordMaps,
    /// By key of an exact flow: the verdict.
    pub exact_v4: Map,
    pub exact_v6: Map,
    /// By flow key: the verdict.
    pub flows: Map,
    /// By frame key: the verdict.
    pub frames: Map,
    /// Places of each queue in the map of sockets.
    pub shares_most: u32,
    /// By place: how many frames the socket has room for; without it all are redirected.
    pub credits: Option<CreditMap>,
}

impl Maps {
    /// See [`CreditMap::has_bundles`].
    fn has_bundles(&self) -> bool {
        self.credits.as_ref().is_some_and(CreditMap::has_bundles)
    }
}

// On the stack, below R10. Keys are laid out as `filter` has them.
const FRAME_KEY: i16 = -16;
const FRAME_KEY_TYPE: i16 = FRAME_KEY + 6;
const FRAME_KEY_VLAN: i16 = FRAME_KEY + 8;
const FRAME_KEY_CLASS: i16 = FRAME_KEY + 10;
const SEEN_MAC: i16 = -32;
const SEEN_TYPE: i16 = -26;
const SEEN_VLAN: i16 = -24;
const FLOW_KEY: i16 = -56;
const FLOW_KEY_PORT: i16 = FLOW_KEY + 16;
const FLOW_KEY_PROTOCOL: i16 = FLOW_KEY + 18;
const FLOW_KEY_CLASS: i16 = FLOW_KEY + 19;
const PLACE_KEY: i16 = -76;
/// The classes in use, with [`STAMPED`], after R9 says something else.
const CLASSES: i16 = -80;
/// Length of the frame, and what of it is from `R7` on; where frames may lie in several buffers.
const FRAME_BYTES: i16 = -84;
const REST_BYTES: i16 = -88;
/// Length of the IP packet, 0 where it was not looked at; where there may be bundles.
const PACKET_BYTES: i16 = -92;

/// The packet's flow as the key of an exact one: addresses, ports and protocol. Those of IPv4 end where those of IPv6 end.
const PROTOCOL: i16 = -100;
const PORTS: i16 = PROTOCOL - 4;
const REMOTE_V4: i16 = PORTS - 4;
const LOCAL_V4: i16 = REMOTE_V4 - 4;
const REMOTE_V6: i16 = PORTS - 16;
const LOCAL_V6: i16 = REMOTE_V6 - 16;

/// In the word of classes, beside theirs: somebody wants times of frames.
pub(super) const STAMPED: u32 = 1 << 16;
/// Where in the word of classes the verdict by the filter that matches every frame begins.
pub(super) const EVERYTHING_AT: u32 = 32;

// In the frame, from R7.
const TYPE: i16 = 12;
const TAG: i16 = 14;
const TAG_BYTES: i32 = 4;
const IP: i16 = 14;
const IPV4_BYTES: i32 = 20;
const IPV6_BYTES: i32 = 40;
const PORT_IN_SEGMENT: i16 = 2;

const FLOW_CLASS_BITS: i32 = 0b1111 | 1 << EXACT_CLASS;
const FRAME_CLASS_BITS: i32 = 0xff << FRAME_CLASSES_FROM;

/// Gives what the filters in `maps` match to the socket that `sockets` has for the frame's queue and the share that owns it, or drops it,
/// and the rest, with all frames that `capacity` is too small for, to the kernel.
/// With `stamps` a frame has times in front of it: always, or where the word of classes says so ([`STAMPED`]). With `tags` frames whose
/// tag the device took out are the kernel's.
pub(super) fn steer(
    maps: &Maps,
    sockets: &Map,
    capacity: Capacity,
    (stamps, tags): (Option<Stamps>, Option<TagQuestion>),
    always: bool,
) -> Result<Program, LoadError> {
    let when = if always { When::Always } else { When::Bit { at: CLASSES, bit: STAMPED.cast_signed() } };
    let place = Place::OfShare { of: maps.shares_most };
    let redirect = |program: &mut Assembler| append_stamped_redirect(program, sockets, place, stamps, when);
    let instructions = instructions(maps, capacity, tags, redirect);
    stamps::load_asking("nw_filters", &instructions, (stamps, tags), capacity.in_pieces)
}

/// The same decision, told by the program's return value: the place in the map of sockets behind [`TOLD`].
#[cfg(test)]
pub(super) fn tell(maps: &Maps, capacity: Capacity) -> Result<Program, LoadError> {
    let tell = |program: &mut Assembler| {
        append_place(program, Place::OfShare { of: maps.shares_most });
        program.copy(R0, R2).add(R0, TOLD.cast_signed()).exit();
    };
    stamps::load("nw_tell", &instructions(maps, capacity, None, tell), None, capacity.in_pieces)
}

/// More than any XDP action.
#[cfg(test)]
pub(super) const TOLD: u32 = 0x1000;

/// Where a frame can go.
#[derive(Clone, Copy)]
struct Ways {
    /// By the verdict of a flow in `R9`.
    verdict: Label,
    /// To the owner in `R9`, by the verdict of a frame filter.
    owner: Label,
    /// To the kernel, counted where it is an error message of ICMP or ICMPv6.
    icmp: Label,
    icmp_v6: Label,
    pass: Label,
}

/// `redirect` has the context in `R1` and the share's number in `R9`.
fn instructions(
    maps: &Maps,
    capacity: Capacity,
    tags: Option<TagQuestion>,
    redirect: impl FnOnce(&mut Assembler),
) -> Vec<Instruction> {
    let mut program = Assembler::new();
    let pass = program.label();
    let (icmp, icmp_v6) = if maps.credits.is_some() { (program.label(), program.label()) } else { (pass, pass) };
    let ways = Ways { verdict: program.label(), owner: program.label(), icmp, icmp_v6, pass };
    append_classes(&mut program, maps, capacity, ways);
    append_ethernet(&mut program, capacity, ways);
    append_frame_filters(&mut program, maps, ways);
    append_flow(&mut program, maps, capacity, ways);
    flows::append_group(&mut program, maps, ways);
    append_owner(&mut program, ways);
    // Before the frame is counted.
    if let Some(question) = tags {
        tags::append_question(&mut program, question, ways.pass);
    }
    match &maps.credits {
        Some(credits) => append_credit(&mut program, maps, credits, capacity, ways.pass),
        None => append_length(&mut program, capacity, ways.pass),
    }
    program.copy(R1, R6); // the context
    redirect(&mut program);
    if let Some(credits) = &maps.credits {
        append_errors(&mut program, credits, ways);
    }
    program.place(ways.pass);
    append_pass(&mut program);
    program.finish()
}

/// Gives the kernel what is too long for the port: AF_XDP would drop it. Changes `R1` and `R2`.
fn append_length(program: &mut Assembler, capacity: Capacity, pass: Label) {
    let most_bytes = capacity.frame_most_bytes.cast_signed();
    if capacity.in_pieces {
        program.set(R1, most_bytes).load(Word, R2, R10, FRAME_BYTES);
    } else {
        program.load(Word, R1, R6, CONTEXT_DATA).load(Word, R2, R6, CONTEXT_DATA_END).add(R1, most_bytes); // one past the longest frame
    }
    program.jump_if_above(R2, R1, pass); // is within the frame
}

/// Goes on with a share in `R9`; of other owners the frame is the kernel's, or dropped.
fn append_owner(program: &mut Assembler, ways: Ways) {
    let share = program.label();
    program
        .place(ways.owner)
        .jump_if_below(R9, KERNEL.cast_signed(), share)
        .jump_if_not_equal(R9, NOBODY.cast_signed(), ways.pass) // the kernel's
        .set(R0, XDP_DROP.cast_signed())
        .exit()
        .place(share);
}

const TCP: i32 = Transport::Tcp.number() as i32;

/// Counts the frame for the share in `R9`, or for the kernel where the share's socket has no room. A segment of TCP is dropped then: its sender
/// sends it again, while a kernel that has the connection elsewhere, or not at all for a moment, would answer it. It has no place in an order
/// with datagrams, so what comes behind it is redirected as soon as there is room.
fn append_credit(program: &mut Assembler, maps: &Maps, credits: &CreditMap, capacity: Capacity, pass: Label) {
    let [full, bundle, fits, count, drop, long, room] = std::array::from_fn(|_| program.label());
    program.copy(R1, R6);
    append_place(program, Place::OfShare { of: maps.shares_most });
    program
        .store(Word, R10, PLACE_KEY, R2) // key: the place
        .copy(R2, R10)
        .add(R2, i32::from(PLACE_KEY)) // its address
        .load_map(R1, credits.map.as_fd())
        .call(HelperCall::MapLookup)
        .jump_if_equal(R0, 0, pass); // a queue without sockets
    if credits.has_bundles() {
        // More than one datagram. Of TCP it is one segment, however long.
        program
            .load(Word, R5, R10, PROTOCOL)
            .jump_if_equal(R5, TCP, fits)
            .load(Word, R4, R10, PACKET_BYTES)
            .load(Double, R3, R0, credits::LONGEST)
            .jump_if_above(R4, R3, bundle)
            .place(fits);
    }
    append_length(program, capacity, long);
    program.load(Double, R1, R0, credits::PASSED).load(Double, R2, R0, credits::SETTLED).jump_if_above(R1, R2, full); // the kernel has frames that come before this one
    if let Some(buffer_bytes) = capacity.buffer_bytes {
        append_buffers(program, capacity, buffer_bytes.cast_signed()); // R4 = how many the frame takes
    }
    program.load(Double, R3, R0, credits::REDIRECTED).load(Double, R2, R0, credits::UNTIL);
    match capacity.buffer_bytes {
        None => program.jump_if_above(R2, R3, room),
        Some(_) => program
            .add_register(R3, R4) // with which there would be ...
            .jump_if_above(R3, R2, full) // ... more than there is room for
            .jump(room),
    };
    program.place(full).set(R1, 1);
    if credits.has_bundles() {
        program
            .jump(count)
            .place(bundle)
            .set(R1, 1)
            .jump_if_equal(R3, 0, count) // nobody reads yet
            .copy(R1, R4)
            .add_register(R1, R3)
            .add(R1, -1)
            .divide_register(R1, R3); // R1 = so many datagrams at least
    }
    program
        .place(count)
        .load(Word, R5, R10, PROTOCOL)
        .jump_if_equal(R5, TCP, drop)
        .add_to_memory(R0, credits::PASSED, R1)
        .jump(pass)
        .place(long) // of TCP, nobody can have it
        .load(Word, R5, R10, PROTOCOL)
        .jump_if_not_equal(R5, TCP, pass)
        .set(R1, 1)
        .add_to_memory(R0, credits::TOO_LONG, R1)
        .set(R0, XDP_DROP.cast_signed())
        .exit()
        .place(drop)
        .add_to_memory(R0, credits::DROPPED, R1)
        .set(R0, XDP_DROP.cast_signed())
        .exit()
        .place(room);
    match (credits.counting, capacity.buffer_bytes) {
        (Counting::OneCpu, None) => program.add(R3, 1).store(Double, R0, credits::REDIRECTED, R3),
        (Counting::OneCpu, Some(_)) => program.store(Double, R0, credits::REDIRECTED, R3),
        (Counting::SeveralCpus, None) => program.set(R1, 1).add_to_memory(R0, credits::REDIRECTED, R1),
        (Counting::SeveralCpus, Some(_)) => program.add_to_memory(R0, credits::REDIRECTED, R4),
    };
}

/// `R4` = how many buffers of so many bytes the frame takes. Keeps `R0`; changes `R1` to `R5`, and `R8`.
fn append_buffers(program: &mut Assembler, capacity: Capacity, buffer_bytes: i32) {
    let one = program.label();
    program.set(R4, 1);
    // Most frames take one, and a division takes time.
    if capacity.in_pieces {
        program.load(Word, R5, R10, FRAME_BYTES).jump_if_below(R5, buffer_bytes + 1, one).copy(R4, R5);
    } else {
        let several = program.label();
        program
            .load(Word, R1, R6, CONTEXT_DATA)
            .load(Word, R2, R6, CONTEXT_DATA_END)
            .add(R1, buffer_bytes)
            .jump_if_above(R2, R1, several)
            .jump(one)
            .place(several)
            .copy(R8, R0)
            .copy(R1, R6)
            .call(HelperCall::FrameLength)
            .copy(R4, R0)
            .copy(R0, R8);
    }
    program.add(R4, buffer_bytes - 1).divide(R4, buffer_bytes).place(one);
}

/// Types of ICMP messages that are no errors.
const ICMP_ECHO_REPLY: i32 = 0;
const ICMP_ECHO: i32 = 8;
/// Of ICMPv6, a bit that the types of all messages have that are no errors (RFC 4443, 2.1).
const ICMP_V6_INFORMS: i32 = 0x80;

/// Counts error messages, in the first place, and goes on to the end.
fn append_errors(program: &mut Assembler, credits: &CreditMap, ways: Ways) {
    let error = program.label();
    program.place(ways.icmp).copy(R3, R7).add_register(R3, R2); // R3 = as far before the message as R7 before the packet
    ends_within(program, R3, i32::from(IP) + 1, ways.pass); // its type
    program
        .load(Byte, R1, R3, IP)
        .jump_if_equal(R1, ICMP_ECHO_REPLY, ways.pass)
        .jump_if_equal(R1, ICMP_ECHO, ways.pass)
        .jump(error)
        .place(ways.icmp_v6)
        .load(Byte, R1, R7, IP + IPV6_BYTES as i16)
        .and(R1, ICMP_V6_INFORMS)
        .jump_if_not_equal(R1, 0, ways.pass)
        .place(error)
        .store_constant(Word, R10, PLACE_KEY, 0) // key: the first place
        .copy(R2, R10)
        .add(R2, i32::from(PLACE_KEY)) // its address
        .load_map(R1, credits.map.as_fd())
        .call(HelperCall::MapLookup)
        .jump_if_equal(R0, 0, ways.pass) // never: it is there
        .set(R1, 1)
        .add_to_memory(R0, credits::ERRORS, R1);
}

/// Looks which classes of filters there are; decides where there is none, or one that says all.
fn append_classes(program: &mut Assembler, maps: &Maps, capacity: Capacity, ways: Ways) {
    let some = program.label();
    program
        .copy(R6, R1) // the context, for after the calls
        .load(Word, R7, R1, CONTEXT_DATA) // first byte of the frame
        .load(Word, R8, R1, CONTEXT_DATA_END); // one past its last linear byte
    if capacity.in_pieces {
        program.call(HelperCall::FrameLength).store(Word, R10, FRAME_BYTES, R0).store(Word, R10, REST_BYTES, R0);
    }
    if maps.has_bundles() {
        program.store_constant(Word, R10, PACKET_BYTES, 0); // not known yet
    }
    if maps.credits.is_some() {
        program.store_constant(Word, R10, PROTOCOL, 0); // as well
    }
    program
        .load_map_value(R1, maps.words.classes.as_fd(), 0)
        .load(Double, R9, R1, 0) // the classes in use
        .store(Word, R10, CLASSES, R9)
        .jump_if_equal(R9, 0, ways.pass) // no filter
        .copy(R1, R9)
        .and(R1, 1 << FRAME_CLASSES_FROM) // the class of the filter without parts ...
        .jump_if_equal(R1, 0, some) // ... is not in use
        .shift_right(R9, EVERYTHING_AT.cast_signed()) // its verdict
        .jump(ways.owner) // it matches every frame
        .place(some);
}

/// Keeps MAC, EtherType and VLAN on the stack, and moves `R7` on by the length of up to two tags.
fn append_ethernet(program: &mut Assembler, capacity: Capacity, ways: Ways) {
    ends_within(program, R7, 14, ways.pass); // an Ethernet header
    program
        .load(Word, R1, R7, 0) // destination, first four bytes
        .store(Word, R10, SEEN_MAC, R1)
        .load(Half, R1, R7, 4) // and the other two
        .store(Half, R10, SEEN_MAC + 4, R1)
        .store_constant(Half, R10, SEEN_VLAN, i32::from(UNTAGGED)) // until a tag says otherwise
        .load(Half, R4, R7, TYPE); // the EtherType, or a tag's
    let typed = program.label();
    for tag in 0..2 {
        let tagged = program.label();
        for ether_type in TAG_ETHER_TYPES {
            program.jump_if_equal(R4, loaded_as(ether_type), tagged); // a tag
        }
        program.jump(typed).place(tagged); // no tag
        ends_within(program, R7, i32::from(TAG) + TAG_BYTES, ways.pass); // the tag and the type behind it
        if tag == 0 {
            program
                .load(Half, R1, R7, TAG) // priority and number
                .swap_from_network(R1)
                .and(R1, 0xfff) // the number
                .store(Half, R10, SEEN_VLAN, R1);
        }
        if capacity.in_pieces {
            program.load(Word, R1, R10, REST_BYTES).add(R1, -TAG_BYTES).store(Word, R10, REST_BYTES, R1);
        }
        program
            .add(R7, TAG_BYTES) // as if there had been no tag
            .load(Half, R4, R7, TYPE); // the type behind it
    }
    program.place(typed).store(Half, R10, SEEN_TYPE, R4);
}

/// One look-up for each class of frame filters in use.
fn append_frame_filters(program: &mut Assembler, maps: &Maps, ways: Ways) {
    let flows = program.label();
    program.copy(R1, R9).and(R1, FRAME_CLASS_BITS).jump_if_equal(R1, 0, flows); // no frame filter
    for class in 1..8_u8 {
        let next = program.label();
        unless_in_use(program, 1 << (FRAME_CLASSES_FROM + u32::from(class)), next);
        program
            .load(Word, R1, R10, SEEN_MAC) // the parts of the class, 0 for the others
            .load(Half, R2, R10, SEEN_MAC + 4)
            .load(Half, R3, R10, SEEN_TYPE)
            .load(Half, R4, R10, SEEN_VLAN);
        let mut part = |bit: u8, registers: &[Register]| {
            if class & bit == 0 {
                for &register in registers {
                    program.set(register, 0); // not a part of this class
                }
            }
        };
        part(FRAME_MAC, &[R1, R2]);
        part(FRAME_ETHER_TYPE, &[R3]);
        part(FRAME_VLAN, &[R4]);
        program
            .store(Word, R10, FRAME_KEY, R1)
            .store(Half, R10, FRAME_KEY + 4, R2)
            .store(Half, R10, FRAME_KEY_TYPE, R3)
            .store(Half, R10, FRAME_KEY_VLAN, R4)
            .store_constant(Half, R10, FRAME_KEY_CLASS, i32::from(class));
        look_up(program, &maps.frames, FRAME_KEY, ways.owner);
        program.place(next);
    }
    program.place(flows).copy(R1, R9).and(R1, FLOW_CLASS_BITS).jump_if_equal(R1, 0, ways.pass); // no flow filter
}

/// Puts the flow of a whole UDP or TCP packet on the stack, the IP version into `R7` and the destination port into `R8`, and decides by
/// them.
fn append_flow(program: &mut Assembler, maps: &Maps, capacity: Capacity, ways: Ways) {
    let (v4, v6) = (program.label(), program.label());
    let bound = flows::Bound { search: program.label(), other: program.label() };
    program
        .load(Half, R4, R10, SEEN_TYPE)
        .jump_if_equal(R4, loaded_as(0x0800), v4)
        .jump_if_equal(R4, loaded_as(0x86dd), v6)
        .jump(ways.pass); // ARP and all else: the kernel's
    program.place(v4);
    append_flow_v4(program, maps, capacity, ways);
    flows::append_port_v4(program, maps, ways, bound);
    program.place(v6);
    append_flow_v6(program, maps, capacity, ways);
    flows::append_port_v6(program, maps, ways, bound);
    flows::append_bound(program, maps, ways, bound);
}

fn append_flow_v4(program: &mut Assembler, maps: &Maps, capacity: Capacity, ways: Ways) {
    let pass = ways.pass;
    ends_within(program, R7, i32::from(IP) + IPV4_BYTES, pass); // the header without options
    program
        .load(Byte, R2, R7, IP) // version and header length
        .copy(R3, R2)
        .shift_right(R3, 4)
        .jump_if_not_equal(R3, 4, pass) // not version 4
        .and(R2, 0xf)
        .shift_left(R2, 2) // R2 = header length, bytes
        .jump_if_below(R2, IPV4_BYTES, pass) // impossible
        .load(Half, R3, R7, IP + 6) // flags and fragment offset
        .and(R3, loaded_as(0x3fff)) // "more fragments", or an offset:
        .jump_if_not_equal(R3, 0, pass) // a fragment, which may have no ports
        .load(Half, R4, R7, IP + 2)
        .swap_from_network(R4) // R4 = length of the packet
        .load(Byte, R5, R7, IP + 9); // R5 = protocol
    let transport = append_transport(program, (ICMP, ways.icmp), pass); // R1 = shortest header of it
    program
        .place(transport)
        .add_register(R1, R2) // both headers ...
        .jump_if_above(R1, R4, pass); // ... are longer than the packet
    packet_ends_within(program, i32::from(IP), capacity, pass);
    if maps.has_bundles() {
        program.store(Word, R10, PACKET_BYTES, R4);
    }
    program.copy(R3, R7).add_register(R3, R2); // R3 = as far before the segment as R7 before the packet
    ends_within(program, R3, i32::from(IP) + 4, pass); // its ports (which the verifier cannot know yet)
    program
        .load(Half, R8, R3, IP + PORT_IN_SEGMENT) // destination port, as in the packet
        .load(Word, R2, R3, IP) // both ports
        .store(Word, R10, PORTS, R2)
        .load(Word, R2, R7, IP + 12) // source address
        .store(Word, R10, REMOTE_V4, R2)
        .load(Word, R1, R7, IP + 16) // destination address
        .store(Word, R10, LOCAL_V4, R1)
        .store(Word, R10, PROTOCOL, R5)
        .set(R7, 4); // the IP version
}

fn append_flow_v6(program: &mut Assembler, maps: &Maps, capacity: Capacity, ways: Ways) {
    let pass = ways.pass;
    let segment = i32::from(IP) + IPV6_BYTES;
    ends_within(program, R7, segment + 4, pass); // the header and ports behind it
    program
        .load(Byte, R2, R7, IP) // version and half of the traffic class
        .shift_right(R2, 4)
        .jump_if_not_equal(R2, 6, pass) // not version 6
        .load(Half, R4, R7, IP + 4)
        .swap_from_network(R4) // R4 = length of what follows the header
        .load(Byte, R5, R7, IP + 6); // R5 = protocol, or the kind of an extension header
    let transport = append_transport(program, (ICMP_V6, ways.icmp_v6), pass); // R1 = shortest header of it
    program.place(transport).jump_if_above(R1, R4, pass); // which does not fit
    packet_ends_within(program, segment, capacity, pass);
    if maps.has_bundles() {
        program.add(R4, IPV6_BYTES).store(Word, R10, PACKET_BYTES, R4); // with the header
    }
    program
        .load(Half, R8, R7, IP + IPV6_BYTES as i16 + PORT_IN_SEGMENT) // destination port, as in the packet
        .load(Word, R2, R7, IP + IPV6_BYTES as i16) // both ports
        .store(Word, R10, PORTS, R2)
        .store(Word, R10, PROTOCOL, R5);
    for half in [0, 8] {
        program
            .load(Double, R1, R7, IP + 8 + half) // source address
            .store(Double, R10, REMOTE_V6 + half, R1)
            .load(Double, R1, R7, IP + 24 + half) // destination address
            .store(Double, R10, LOCAL_V6 + half, R1);
    }
    program.set(R7, 6); // the IP version
}

/// ICMP and ICMPv6, which bring errors of what was sent.
const ICMP: i32 = 1;
const ICMP_V6: i32 = 58;

/// `R1` = length of the shortest header of the protocol in `R5`, where the returned label is to be placed. `icmp`: the number of that
/// protocol, and where it goes.
fn append_transport(program: &mut Assembler, icmp: (i32, Label), pass: Label) -> Label {
    let known = program.label();
    for transport in [Transport::Udp, Transport::Tcp] {
        program.set(R1, transport.header_least_bytes() as i32).jump_if_equal(R5, i32::from(transport.number()), known);
    }
    program
        .jump_if_equal(R5, icmp.0, icmp.1) // the kernel's, and somebody may have to look what it says
        .jump(pass); // extension headers and all else: the kernel's
    known
}

/// Goes to `otherwise` unless the frame has the number of bytes in `R4` from `start` on. Changes `R0` and `R3`.
fn packet_ends_within(program: &mut Assembler, start: i32, capacity: Capacity, otherwise: Label) {
    if capacity.in_pieces {
        program
            .copy(R0, R4)
            .add(R0, start) // the packet's end ...
            .load(Word, R3, R10, REST_BYTES)
            .jump_if_above(R0, R3, otherwise); // ... is not in the frame, in whichever buffer
    } else {
        program
            .copy(R3, R7)
            .add(R3, start)
            .add_register(R3, R4) // the packet's end ...
            .jump_if_above(R3, R8, otherwise); // ... is not in the frame
    }
}

/// Goes to `otherwise` unless the frame has `bytes` from `base` on, in the first buffer.
fn ends_within(program: &mut Assembler, base: Register, bytes: i32, otherwise: Label) {
    program
        .copy(R1, base)
        .add(R1, bytes) // R1 = one past what is wanted ...
        .jump_if_above(R1, R8, otherwise); // ... is beyond the frame
}

/// Goes to `next` when no filter of the class with this bit is there, by the classes in `R9`.
fn unless_in_use(program: &mut Assembler, class_bit: i32, next: Label) {
    program.copy(R1, R9).and(R1, class_bit).jump_if_equal(R1, 0, next);
}

/// Goes to `found`, with the verdict in `R9`, when the key at this place of the stack is in the map.
fn look_up(program: &mut Assembler, map: &Map, key: i16, found: Label) {
    let missed = program.label();
    append_look_up(program, map, key, missed);
    program.jump(found).place(missed);
}

/// The same of an exact flow. One of which no frame was heard is noted in its place as the kernel's, by one step that looks again: the place may be another
/// flow's by now, whose verdict stays.
fn look_up_exact(program: &mut Assembler, map: &Map, key: i16, ways: Ways) {
    let missed = program.label();
    append_look_up(program, map, key, missed);
    program
        .jump_if_not_equal(R9, UNHEARD.cast_signed(), ways.verdict)
        .copy(R1, R0)
        .set(R2, KERNEL.cast_signed())
        .set(R0, UNHEARD.cast_signed())
        .exchange_word_if_equal(R1, 0, R2) // is R0
        .jump(ways.pass)
        .place(missed);
}

fn append_look_up(program: &mut Assembler, map: &Map, key: i16, missed: Label) {
    program
        .copy(R2, R10)
        .add(R2, i32::from(key)) // R2 = address of the key
        .load_map(R1, map.as_fd())
        .call(HelperCall::MapLookup)
        .jump_if_equal(R0, 0, missed)
        .load(Word, R9, R0, 0); // the verdict
}
