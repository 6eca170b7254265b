//! The process's side of a ring. It allocates nothing, waits for nobody, and makes no system call for a frame.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use nearwire_frames::capture::Direction;
use nearwire_sys::descriptor::place;
use nearwire_sys::shared_words::SharedWords;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, fstat};

use super::layout::{self, About, FIRST_WORDS};
use crate::status::store_text;

/// Copies frames into a ring. One thread at a time.
///
/// Invariants: records lie in `read .. written`, which are at most `data_words` apart; `limit_words` is not beyond what is free
/// and has memory; of what the reader writes nothing is used before it was compared with these.
#[derive(Debug)]
pub struct Recorder {
    words: SharedWords,
    memory: OwnedFd,
    data_words: u64,
    written_words: u64,
    /// Nothing is written at this position and beyond.
    limit_words: u64,
    /// All of the memory is taken.
    is_taken: bool,
    snap_bytes: usize,
    /// The interfaces by their places; 0: none.
    ifindexes: [u32; layout::INTERFACES],
    /// The ring is another process's: see [`Recorder::leave_to_parent`].
    is_left: bool,
}

impl Recorder {
    /// Makes a ring with room for records of 2^`ring_log2_bytes` bytes. Of each frame it keeps `snap_bytes` bytes, or all for 0.
    ///
    /// # Errors
    /// As [`SharedWords::create_to_share`]; `ENOSPC`, `ENOMEM` where there is no memory for the first records.
    pub fn create(ring_log2_bytes: u32, snap_bytes: u16) -> io::Result<Recorder> {
        let data_words = 1_u64 << (ring_log2_bytes - 3);
        let (words, memory) = SharedWords::create_to_share(layout::NAME, layout::DATA_AT + data_words as usize)?;
        let first_words = data_words.min(FIRST_WORDS);
        fallocate(&memory, FallocateFlags::empty(), 0, (layout::DATA_AT as u64 + first_words) * 8)?;
        words[layout::DATA_WORDS_AT].store(data_words, Relaxed);
        words[layout::MAGIC_AT].store(layout::MAGIC, Release);
        Ok(Recorder {
            words,
            memory: place(memory),
            data_words,
            written_words: 0,
            limit_words: first_words,
            is_taken: false,
            snap_bytes: if snap_bytes == 0 { usize::MAX } else { usize::from(snap_bytes) },
            ifindexes: [0; layout::INTERFACES],
            is_left: false,
        })
    }

    /// Its fd, by which others open the ring while it lives.
    #[must_use]
    pub fn descriptor(&self) -> u32 {
        self.memory.as_fd().as_raw_fd().cast_unsigned()
    }

    /// Gives an interface a place, if it has none yet and one is left.
    pub fn describe(&mut self, ifindex: u32, name: &str, port: &str) {
        if ifindex == 0 || self.place_of(ifindex).is_some() {
            return;
        }
        let Some(place) = self.place_of(0) else { return };
        let start = layout::interface_at(place);
        self.words[start + layout::IFINDEX].store(u64::from(ifindex), Relaxed);
        let text = |range: std::ops::Range<usize>| &self.words[start + range.start..start + range.end];
        store_text(text(layout::NAME_TEXT), name);
        store_text(text(layout::PORT_TEXT), port);
        self.words[layout::INTERFACE_COUNT_AT].store(place as u64 + 1, Release);
        self.ifindexes[place] = ifindex;
    }

    /// Records a frame that passed at `time_ns`, nanoseconds since 1970, on an interface that was described; of others
    /// nothing is known.
    #[inline]
    pub fn record(&mut self, ifindex: u32, direction: Direction, time_ns: u64, frame: &[u8]) {
        let Some(place) = self.place_of(ifindex) else { return };
        let kept = &frame[..frame.len().min(self.snap_bytes)];
        let about = About {
            frame_bytes: frame.len() as u32,
            kept_bytes: kept.len() as u32,
            place: place as u8,
            direction: direction as u8,
        };
        if !self.has_room(about.record_words()) {
            // One thread at a time adds.
            let dropped = &self.words[layout::interface_at(place) + layout::DROPPED];
            dropped.store(dropped.load(Relaxed).wrapping_add(1), Relaxed);
            return;
        }
        let mask = self.data_words - 1;
        let data = &self.words[layout::DATA_AT..];
        let at = |words: u64| (self.written_words.wrapping_add(words) & mask) as usize;
        data[at(0)].store(time_ns, Relaxed);
        data[at(1)].store(about.word(), Relaxed);
        let begin = at(layout::RECORD_WORDS);
        let until_end_bytes = (data.len() - begin) * 8;
        let (first, rest) = kept.split_at(kept.len().min(until_end_bytes));
        store_bytes(&data[begin..], first);
        store_bytes(data, rest);
        self.written_words = self.written_words.wrapping_add(about.record_words());
        self.words[layout::WRITTEN_AT].store(self.written_words, Release);
    }

    #[inline]
    fn place_of(&self, ifindex: u32) -> Option<usize> {
        self.ifindexes.iter().position(|known| *known == ifindex)
    }

    #[inline]
    fn has_room(&mut self, record_words: u64) -> bool {
        // Both move on together, so their distance is right also where they begin anew.
        let left_words = self.limit_words.wrapping_sub(self.written_words);
        record_words <= left_words || self.look_at_reader(record_words)
    }

    /// How far the reader is. A position that cannot be is not believed: there is no room then.
    #[cold]
    fn look_at_reader(&mut self, record_words: u64) -> bool {
        if !self.is_taken && !self.take_all() {
            return false;
        }
        let unread_words = self.written_words.wrapping_sub(self.words[layout::READ_AT].load(Acquire));
        if unread_words > self.data_words {
            return false;
        }
        let left_words = self.data_words - unread_words;
        self.limit_words = self.written_words.wrapping_add(left_words);
        record_words <= left_words
    }

    /// The reader says that it has taken the memory that was missing, and the kernel has it.
    fn take_all(&mut self) -> bool {
        if self.words[layout::TAKEN_AT].load(Acquire) == 0 {
            return false;
        }
        let taken_bytes = fstat(&self.memory).map_or(0, |status| status.st_blocks.cast_unsigned().saturating_mul(512));
        self.is_taken = taken_bytes >= (layout::DATA_AT as u64 + self.data_words) * 8;
        self.is_taken
    }

    /// The reader has what it wanted.
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.words[layout::CLOSED_AT].load(Relaxed) != 0
    }

    /// There is a reader, or was one.
    #[must_use]
    pub fn was_opened(&self) -> bool {
        self.words[layout::READER_AT].load(Relaxed) != 0
    }

    /// Whether a process holds the lock of a reader. One system call.
    #[must_use]
    pub fn has_reader(&self) -> bool {
        // Where it can be had, nobody has it; and it is not kept.
        let free = flock(&self.memory, FlockOperation::NonBlockingLockShared).is_ok();
        if free {
            let _ = flock(&self.memory, FlockOperation::Unlock);
        }
        !free
    }

    /// For the child of a fork: gives its copies of mapping and descriptor up, and leaves the ring to its parent.
    pub fn leave_to_parent(mut self) {
        self.is_left = true;
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if !self.is_left {
            self.words[layout::ENDED_AT].store(1, Release);
        }
    }
}

#[inline]
fn store_bytes(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<8>();
    for (word, bytes) in words.iter().zip(whole) {
        word.store(u64::from_ne_bytes(*bytes), Relaxed);
    }
    if !rest.is_empty()
        && let Some(word) = words.get(whole.len())
    {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        word.store(u64::from_ne_bytes(last), Relaxed);
    }
}
