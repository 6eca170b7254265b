//! Where each word of a ring is.
//!
//! A record is two words and the frame's bytes, filled up to whole words: the time, then lengths, interface and direction. Records
//! lie one behind the other and go on at the start when the end is reached. Positions count words since the ring was made.

use std::ffi::CStr;

/// The name of the memory: `/proc/PID/fd/N` is a link to `/memfd:nearwire-capture (deleted)`.
pub const NAME: &CStr = c"nearwire-capture";
/// The first word: seven letters and the version of this layout.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"nwcaptu\x01");

pub(super) const MAGIC_AT: usize = 0;
/// Words of records, a power of two.
pub(super) const DATA_WORDS_AT: usize = 1;

// Cache lines of their own: what the process writes, and what the command writes.
/// Records end here.
pub(super) const WRITTEN_AT: usize = 8;
/// Not 0: the process records no more.
pub(super) const ENDED_AT: usize = 9;
/// Interfaces that are described.
pub(super) const INTERFACE_COUNT_AT: usize = 10;

/// Records before this were read.
pub(super) const READ_AT: usize = 16;
/// The process that reads, by its pid in its own namespace.
pub(super) const READER_AT: usize = 17;
/// Not 0: all of the ring's memory is taken; before, only [`FIRST_WORDS`] of it are.
pub(super) const TAKEN_AT: usize = 18;
/// Not 0: the reader has what it wanted.
pub(super) const CLOSED_AT: usize = 19;

/// Interfaces that have a place.
pub(super) const INTERFACES: usize = 16;
const INTERFACES_AT: usize = 24;
const INTERFACE_WORDS: usize = 32;
/// Of an interface: its index.
pub(super) const IFINDEX: usize = 0;
/// Its frames that had no room.
pub(super) const DROPPED: usize = 1;
/// Its name, a length and 16 bytes.
pub(super) const NAME_TEXT: std::ops::Range<usize> = 2..5;
/// Its port in words.
pub(super) const PORT_TEXT: std::ops::Range<usize> = 5..INTERFACE_WORDS;

/// Records begin at a page.
pub(super) const DATA_AT: usize = 1024;
const _: () = assert!(INTERFACES_AT + INTERFACES * INTERFACE_WORDS <= DATA_AT);

/// Words of a record before its bytes.
pub(super) const RECORD_WORDS: u64 = 2;
/// Words of records whose memory the process takes itself, when it makes the ring: 256 KiB. To take all of it would hold
/// the program up for a millisecond or more, and without any the first frames would be lost.
pub(super) const FIRST_WORDS: u64 = 32 * 1024;

/// The first word of an interface's place.
pub(super) const fn interface_at(place: usize) -> usize {
    INTERFACES_AT + place * INTERFACE_WORDS
}

/// The words of the memory with room for records of so many bytes, a power of two.
#[must_use]
pub const fn words_for(records_bytes: usize) -> usize {
    DATA_AT + records_bytes / 8
}

/// The second word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    /// Bytes of the frame.
    pub(super) frame_bytes: u32,
    /// Bytes of it that follow.
    pub(super) kept_bytes: u32,
    pub(super) place: u8,
    pub(super) direction: u8,
}

const LENGTH_BITS: u32 = 24;
const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;

impl About {
    pub(super) const fn word(self) -> u64 {
        self.frame_bytes as u64 & LENGTH_MASK
            | (self.kept_bytes as u64 & LENGTH_MASK) << LENGTH_BITS
            | (self.place as u64) << 48
            | (self.direction as u64) << 56
    }

    pub(super) const fn of_word(word: u64) -> About {
        About {
            frame_bytes: (word & LENGTH_MASK) as u32,
            kept_bytes: (word >> LENGTH_BITS & LENGTH_MASK) as u32,
            place: (word >> 48) as u8,
            direction: (word >> 56) as u8,
        }
    }

    /// Words of the whole record.
    pub(super) const fn record_words(self) -> u64 {
        RECORD_WORDS + (self.kept_bytes as u64).div_ceil(8)
    }
}
