//! Times of frames: a record that a program writes in front of each frame that it redirects, where AF_XDP leaves it.
//!
//! ```text
//!   frame - 24   when the device received it, by its own clock, ns; 0: it did not say
//!   frame - 16   when the program ran, CLOCK_TAI, ns
//!   frame -  8   the mark: the record is there
//! ```
//!
//! Invariant: a mark is a random number that only this port's program knows, so no bytes of a sender are ever taken for a
//! record; and reading a record removes the mark, so no record is read for two frames.
//!
//! The device's time is what `bpf_xdp_metadata_rx_timestamp` gives. Only a program that was loaded for the device may call it, and
//! only in the driver. The other one is taken in any mode.
//!
//! Source: `Documentation/networking/xdp-rx-metadata.rst`, `include/uapi/linux/bpf.h` (`bpf_xdp_adjust_meta`,
//! `bpf_ktime_get_tai_ns`), `net/xdp/xsk.c` (`__xsk_rcv` copies what is in front of the frame too).

use std::num::NonZeroU64;

use nearwire_sys::bpf::{Instruction, LoadError, LoadOptions, Map, Program};

use super::assembler::Register::{R0, R1, R2, R3, R6, R7, R8, R10};
use super::assembler::Width::{Double, Word};
use super::assembler::{Assembler, HelperCall};
use super::redirect::{CONTEXT_DATA, Place, append_redirect};
use super::tags::TagQuestion;

/// Offset in `struct xdp_md`.
const CONTEXT_DATA_META: i16 = 8;
/// Length of a record.
pub(crate) const RECORD_BYTES: usize = 24;
/// What is asked for the driver's answer, below R10.
const ANSWER: i16 = -8;

/// The kernel's function that asks the driver.
pub(crate) const DEVICE_TIME: &str = "bpf_xdp_metadata_rx_timestamp";

/// Where the device's time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceClock {
    /// From nowhere.
    None,
    /// From the driver of an interface.
    Driver {
        /// Number of [`DEVICE_TIME`] in this kernel.
        function: u32,
        /// The interface.
        ifindex: u32,
    },
    /// The same for every frame: there is no driver here that has one.
    #[cfg(test)]
    Standing(u32),
}

/// How a program stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamps {
    /// What makes a record one.
    pub mark: NonZeroU64,
    /// Who has the device's time.
    pub device: DeviceClock,
}

/// When a program stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Each frame.
    Always,
    /// Where a word below R10 has a bit at that time.
    Bit {
        /// Where the word is.
        at: i16,
        /// The bit.
        bit: i32,
    },
}

/// A record as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Record {
    /// By the device's clock; 0: none.
    pub device_ns: u64,
    /// CLOCK_TAI; 0: there was no record.
    pub tai_ns: u64,
}

impl Record {
    /// Reads the record in front of a frame, if there is one, and takes its mark away.
    #[inline]
    pub(crate) fn take(bytes: &mut [u8; RECORD_BYTES], mark: NonZeroU64) -> Record {
        let (device_ns, rest) = bytes.split_at_mut(8);
        let (tai_ns, found) = rest.split_at_mut(8);
        if *found != mark.get().to_ne_bytes() {
            return Record::default();
        }
        found.fill(0);
        let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        Record { device_ns: number(device_ns), tai_ns: number(tai_ns) }
    }
}

/// Loads a program that stamps so, or not at all; with `multi_buffer` it can do with frames in several buffers.
pub(crate) fn load(
    name: &str,
    instructions: &[Instruction],
    stamps: Option<Stamps>,
    multi_buffer: bool,
) -> Result<Program, LoadError> {
    load_asking(name, instructions, (stamps, None), multi_buffer)
}

/// The same of a program that asks for tags too.
pub(crate) fn load_asking(
    name: &str,
    instructions: &[Instruction],
    (stamps, tags): (Option<Stamps>, Option<TagQuestion>),
    multi_buffer: bool,
) -> Result<Program, LoadError> {
    let bound_to = match stamps.map(|stamps| stamps.device) {
        Some(DeviceClock::Driver { ifindex, .. }) => Some(ifindex),
        _ => tags.map(|tags| tags.ifindex),
    };
    Program::load_xdp_with(name, instructions, LoadOptions { bound_to, multi_buffer })
}

/// As [`append_redirect`], with a record in front of the frame. Where there is no room for one, the frame goes without.
/// Expects the context in `R1`; of what registers and stack hold besides, `R9` is kept.
pub(crate) fn append_stamped_redirect(
    program: &mut Assembler,
    sockets: &Map,
    place: Place,
    stamps: Option<Stamps>,
    when: When,
) {
    let Some(stamps) = stamps else { return append_redirect(program, sockets, place) };
    let unstamped = program.label();
    program.copy(R6, R1); // the context, for after the calls
    if let When::Bit { at, bit } = when {
        program.load(Word, R2, R10, at).and(R2, bit).jump_if_equal(R2, 0, unstamped); // nobody wants times
    }
    program
        .set(R2, -(RECORD_BYTES as i32))
        .call(HelperCall::AdjustMeta) // room in front of the frame
        .jump_if_not_equal(R0, 0, unstamped) // the driver has none
        .call(HelperCall::TimeTai)
        .copy(R7, R0); // the time
    append_device_time(program, stamps.device);
    program
        .load(Word, R1, R6, CONTEXT_DATA_META) // the record
        .load(Word, R2, R6, CONTEXT_DATA) // its end
        .copy(R3, R1)
        .add(R3, RECORD_BYTES as i32)
        .jump_if_above(R3, R2, unstamped) // never: the room was made
        .store(Double, R1, 0, R8)
        .store(Double, R1, 8, R7)
        .set_double(R3, stamps.mark.get())
        .store(Double, R1, 16, R3)
        .place(unstamped)
        .copy(R1, R6); // the context
    append_redirect(program, sockets, place);
}

/// Puts the device's time into `R8`, or 0.
fn append_device_time(program: &mut Assembler, device: DeviceClock) {
    match device {
        DeviceClock::None => {
            program.set(R8, 0);
        }
        DeviceClock::Driver { function, .. } => {
            let told = program.label();
            program
                .set(R8, 0)
                .store(Double, R10, ANSWER, R8) // a pointer given to the kernel is to something
                .copy(R1, R6) // the context
                .copy(R2, R10)
                .add(R2, i32::from(ANSWER))
                .call_kernel(function)
                .load(Double, R8, R10, ANSWER)
                .jump_if_equal(R0, 0, told)
                .set(R8, 0) // the driver has no time of this frame
                .place(told);
        }
        #[cfg(test)]
        DeviceClock::Standing(time_ns) => {
            program.set_double(R8, u64::from(time_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: NonZeroU64 = NonZeroU64::new(0x0123_4567_89ab_cdef).unwrap();

    fn record(device_ns: u64, tai_ns: u64, mark: u64) -> [u8; RECORD_BYTES] {
        [device_ns, tai_ns, mark].map(u64::to_ne_bytes).as_flattened().try_into().unwrap()
    }

    #[test]
    fn record_taken_is_not_taken_again() {
        let mut bytes = record(7, 9, MARK.get());
        assert_eq!(Record::take(&mut bytes, MARK), Record { device_ns: 7, tai_ns: 9 });
        assert_eq!(Record::take(&mut bytes, MARK), Record::default());
    }

    #[test]
    fn other_bytes_taken_are_no_record_and_stay() {
        for mark in [0, 1, u64::MAX, MARK.get() ^ 1, MARK.get().swap_bytes()] {
            let mut bytes = record(7, 9, mark);
            assert_eq!(Record::take(&mut bytes, MARK), Record::default());
            assert_eq!(bytes, record(7, 9, mark));
        }
    }
}
