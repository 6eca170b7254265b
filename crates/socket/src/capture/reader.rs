//! The command's side of a ring. What is in it may come from anybody.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use nearwire_frames::capture::Direction;
use nearwire_sys::shared_words::SharedWords;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;
use thiserror::Error;

use super::layout::{self, About};

/// Why a ring cannot be read.
#[derive(Debug, Error)]
pub enum RingError {
    /// Another process reads it.
    #[error("process {pid} captures it already; one at a time can")]
    Busy {
        /// Who, by its pid in its own namespace; 0 while it begins.
        pid: u32,
    },
    /// The memory is no ring of this version.
    #[error("the memory that the process gave is no capture ring of this version of nearwire")]
    NotARing,
    /// What lies in it makes no sense.
    #[error("the capture ring is damaged at word {position_words}: {what}")]
    Damaged {
        /// The position.
        position_words: u64,
        /// What was found there.
        what: &'static str,
    },
    /// The kernel refused something.
    #[error("{tried}: {source}")]
    Kernel {
        /// What was tried.
        tried: &'static str,
        /// The error.
        source: io::Error,
    },
}

impl RingError {
    const fn kernel(tried: &'static str, source: io::Error) -> RingError {
        RingError::Kernel { tried, source }
    }
}

/// Takes the lock of a reader. Whoever asks whether it is free has it for a moment: it is tried more than once.
fn lock(memory: &OwnedFd, reader: impl Fn() -> u32) -> Result<(), RingError> {
    const TRIES: u32 = 20;
    for _ in 0..TRIES {
        match flock(memory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(1)),
            Err(errno) => return Err(RingError::kernel("lock the capture ring", errno.into())),
        }
    }
    Err(RingError::Busy { pid: reader() })
}

/// A frame of a ring, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedFrame {
    /// When the engine had it, nanoseconds since 1970.
    pub time_ns: u64,
    /// Which way it went.
    pub direction: Direction,
    /// The place of its interface among [`RingReader::interfaces`].
    pub interface: usize,
    /// Bytes that it had on the wire.
    pub frame_bytes: u32,
}

/// An interface of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedInterface {
    /// Its index.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Its port in words.
    pub port: String,
    /// Frames that found no room in the ring.
    pub dropped_frames: u64,
}

/// Reads a ring; nobody else does while it lives.
#[derive(Debug)]
pub struct RingReader {
    words: SharedWords,
    /// Holds the lock.
    _memory: OwnedFd,
    data_words: u64,
    read_words: u64,
}

impl RingReader {
    /// Whether somebody else reads a ring: who, by its pid in its own namespace.
    ///
    /// # Errors
    /// The memory is no ring.
    pub fn reader_of(memory: &OwnedFd) -> Result<Option<u32>, RingError> {
        let words = SharedWords::open(memory).map_err(|_| RingError::NotARing)?;
        if words.get(layout::MAGIC_AT).map(|word| word.load(Acquire)) != Some(layout::MAGIC) {
            return Err(RingError::NotARing);
        }
        let reader = words.get(layout::READER_AT).map_or(0, |word| word.load(Relaxed) as u32);
        match flock(memory, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                let _ = flock(memory, FlockOperation::Unlock);
                Ok(None)
            }
            Err(_) => Ok(Some(reader)),
        }
    }

    /// Begins to read a ring, as process `pid`, and takes the memory that it lacks.
    ///
    /// # Errors
    /// It is none, another process reads it, or there is no memory.
    pub fn open(memory: OwnedFd, pid: u32) -> Result<RingReader, RingError> {
        let words = SharedWords::open(&memory).map_err(|_| RingError::NotARing)?;
        let data_words = (words.len().checked_sub(layout::DATA_AT).ok_or(RingError::NotARing)?) as u64;
        let is_ring = words[layout::MAGIC_AT].load(Acquire) == layout::MAGIC;
        if !is_ring || !data_words.is_power_of_two() || words[layout::DATA_WORDS_AT].load(Relaxed) != data_words {
            return Err(RingError::NotARing);
        }
        lock(&memory, || words[layout::READER_AT].load(Relaxed) as u32)?;
        words[layout::READER_AT].store(u64::from(pid), Relaxed);
        let length_bytes = words.len() as u64 * 8;
        fallocate(&memory, FallocateFlags::empty(), 0, length_bytes).map_err(|errno| {
            RingError::kernel("take memory for the capture ring (a smaller --ring needs less)", errno.into())
        })?;
        words[layout::TAKEN_AT].store(1, Release);
        let read_words = words[layout::READ_AT].load(Relaxed);
        Ok(RingReader { words, _memory: memory, data_words, read_words })
    }

    /// Takes the next frame; its bytes replace what `bytes` holds.
    ///
    /// # Errors
    /// [`RingError::Damaged`]: nothing more can be read.
    pub fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Option<CapturedFrame>, RingError> {
        let unread_words = self.words[layout::WRITTEN_AT].load(Acquire).wrapping_sub(self.read_words);
        if unread_words == 0 {
            return Ok(None);
        }
        if unread_words > self.data_words || unread_words < layout::RECORD_WORDS {
            return Err(self.damaged("the end of the records cannot be"));
        }
        let (time_ns, about) = (self.data(0), About::of_word(self.data(1)));
        let direction = match about.direction {
            1 => Direction::Inbound,
            2 => Direction::Outbound,
            _ => return Err(self.damaged("a direction that there is not")),
        };
        if about.record_words() > unread_words || about.kept_bytes > about.frame_bytes {
            return Err(self.damaged("a length that cannot be"));
        }
        if usize::from(about.place) >= self.interface_count() {
            return Err(self.damaged("an interface that is not described"));
        }
        bytes.clear();
        for at in layout::RECORD_WORDS..about.record_words() {
            bytes.extend_from_slice(&self.data(at).to_ne_bytes());
        }
        bytes.truncate(about.kept_bytes as usize);
        self.read_words = self.read_words.wrapping_add(about.record_words());
        self.words[layout::READ_AT].store(self.read_words, Release);
        let interface = usize::from(about.place);
        Ok(Some(CapturedFrame { time_ns, direction, interface, frame_bytes: about.frame_bytes }))
    }

    /// Words behind the ones that were read.
    fn data(&self, offset_words: u64) -> u64 {
        let at = (self.read_words.wrapping_add(offset_words) & (self.data_words - 1)) as usize;
        self.words[layout::DATA_AT + at].load(Relaxed)
    }

    fn damaged(&self, what: &'static str) -> RingError {
        RingError::Damaged { position_words: self.read_words, what }
    }

    fn interface_count(&self) -> usize {
        let count = self.words[layout::INTERFACE_COUNT_AT].load(Acquire);
        usize::try_from(count).unwrap_or(0).min(layout::INTERFACES)
    }

    /// The interfaces that are known by now, each at a place that stays.
    pub fn interfaces(&self) -> impl Iterator<Item = CapturedInterface> {
        (0..self.interface_count()).map(|place| {
            let start = layout::interface_at(place);
            CapturedInterface {
                ifindex: self.words[start + layout::IFINDEX].load(Relaxed) as u32,
                name: self.line(start, layout::NAME_TEXT),
                port: self.line(start, layout::PORT_TEXT),
                dropped_frames: self.words[start + layout::DROPPED].load(Relaxed),
            }
        })
    }

    fn line(&self, start: usize, range: std::ops::Range<usize>) -> String {
        let words = &self.words[start + range.start..start + range.end];
        let bytes: Vec<u8> = words[1..].iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        let length = usize::try_from(words[0].load(Relaxed)).unwrap_or(usize::MAX).min(bytes.len());
        String::from_utf8_lossy(&bytes[..length]).replace(char::is_control, "\u{fffd}")
    }

    /// The process records no more: it let the ring go.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.words[layout::ENDED_AT].load(Acquire) != 0
    }

    /// Tells the process that nobody reads any more.
    pub fn close(&self) {
        self.words[layout::CLOSED_AT].store(1, Release);
    }
}
