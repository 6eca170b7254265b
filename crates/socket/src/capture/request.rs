//! What command and process say to each other in the status page.

/// What a capturing command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The command, by its pid in its own namespace; below 2^22, as all are (`PID_MAX_LIMIT`).
    pub pid: u32,
    /// Tells one request from another of the same process; 20 bits.
    pub number: u32,
    /// The logarithm to base 2 of the ring's bytes, 12 to 30.
    pub ring_log2_bytes: u32,
    /// How many bytes of each frame are kept; 0: all.
    pub snap_bytes: u16,
}

const PID_BITS: u32 = 22;
const NUMBER_BITS: u32 = 20;
const LOG2_BITS: u32 = 6;
const LOG2: std::ops::RangeInclusive<u32> = 12..=30;

const fn low(bits: u32) -> u64 {
    (1 << bits) - 1
}

impl Request {
    /// The two words of it in the page. They belong together: /proc/PID/mem does not promise to store a word at once.
    #[must_use]
    pub const fn words(self) -> [u64; 2] {
        let word = self.snap_bytes as u64
            | (self.ring_log2_bytes as u64 & low(LOG2_BITS)) << 16
            | (self.number as u64 & low(NUMBER_BITS)) << (16 + LOG2_BITS)
            | (self.pid as u64 & low(PID_BITS)) << (16 + LOG2_BITS + NUMBER_BITS);
        [word, !word]
    }

    /// What two words of a page say; `None`: nothing, or half of something.
    #[must_use]
    pub fn of_words([word, complement]: [u64; 2]) -> Option<Request> {
        let request = Request {
            snap_bytes: word as u16,
            ring_log2_bytes: (word >> 16 & low(LOG2_BITS)) as u32,
            number: (word >> (16 + LOG2_BITS) & low(NUMBER_BITS)) as u32,
            pid: (word >> (16 + LOG2_BITS + NUMBER_BITS)) as u32,
        };
        (word == !complement && LOG2.contains(&request.ring_log2_bytes)).then_some(request)
    }
}

/// What the process answers, with the number of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Its descriptor of the ring.
    Ready {
        /// See [`Request::number`].
        number: u32,
        /// The fd in the process.
        fd: u32,
    },
    /// It could not make the ring.
    Refused {
        /// See [`Request::number`].
        number: u32,
        /// The error.
        errno: u32,
    },
    /// Another command captures it.
    Busy {
        /// See [`Request::number`].
        number: u32,
    },
    /// The capture is over.
    Ended {
        /// See [`Request::number`].
        number: u32,
    },
}

impl Answer {
    /// As it stands in the page.
    #[must_use]
    pub const fn word(self) -> u64 {
        let (kind, number, value) = match self {
            Answer::Ready { number, fd } => (1, number, fd),
            Answer::Refused { number, errno } => (2, number, errno),
            Answer::Busy { number } => (3, number, 0),
            Answer::Ended { number } => (4, number, 0),
        };
        value as u64 | (number as u64 & low(NUMBER_BITS)) << 32 | kind << 56
    }

    /// What a word of a page says; `None`: nothing that has a meaning.
    #[must_use]
    pub const fn of_word(word: u64) -> Option<Answer> {
        let (number, value) = ((word >> 32 & low(NUMBER_BITS)) as u32, word as u32);
        match word >> 56 {
            1 => Some(Answer::Ready { number, fd: value }),
            2 => Some(Answer::Refused { number, errno: value }),
            3 => Some(Answer::Busy { number }),
            4 => Some(Answer::Ended { number }),
            _ => None,
        }
    }

    /// The number of the request.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Answer::Ready { number, .. }
            | Answer::Refused { number, .. }
            | Answer::Busy { number }
            | Answer::Ended { number } => number,
        }
    }
}
