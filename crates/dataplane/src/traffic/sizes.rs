//! Sizes of frames, one after the other.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Bytes of the frame check sequence, which sizes of RFCs contain and Nearwire's do not.
const FCS_BYTES: u32 = 4;

/// Shortest frame, bytes without FCS.
const LEAST_BYTES: u32 = 60;
/// Longest: a jumbo frame with a tag.
const MOST_BYTES: u32 = 9022;
/// Most sizes in a sequence: what an index of one byte tells apart, and more than any IMIX in use has.
const SEQUENCE_MOST: usize = 256;

/// Letters of RFC 6985 section 4, with the sizes that they stand for, FCS included.
const GENOME: [(char, u32); 7] = [('a', 64), ('b', 128), ('c', 256), ('d', 512), ('e', 1024), ('f', 1280), ('g', 1518)];

/// The mix that testers name without further words: 7 of 64, 4 of 594 and 1 of 1518 bytes with FCS, spread evenly.
const IMIX_BYTES: [u32; 12] = [60, 590, 60, 60, 590, 60, 1514, 60, 590, 60, 590, 60];

/// Sizes of frames in bytes without FCS, which repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u32>", into = "Vec<u32>")]
pub struct Sizes {
    sequence_bytes: Vec<u32>,
}

/// Why sizes cannot be what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizesError {
    /// No size.
    #[error(
        "sizes are missing; give bytes without FCS as in 60 or 60+590+1514, `imix`, or letters of RFC 6985 as in `genome:aaag`"
    )]
    Empty,
    /// Not a number.
    #[error("{found:?} is no size; give bytes without FCS, {LEAST_BYTES} to {MOST_BYTES}")]
    NoNumber {
        /// What was found.
        found: String,
    },
    /// Out of range.
    #[error("frames of {found_bytes} bytes are not possible; give {LEAST_BYTES} to {MOST_BYTES} bytes without FCS")]
    Range {
        /// What was found.
        found_bytes: u32,
    },
    /// Not a letter of the RFC.
    #[error(
        "{found:?} is no letter of an IMIX genome (RFC 6985); a to g stand for 64, 128, 256, 512, 1024, 1280 and 1518 bytes with FCS"
    )]
    Letter {
        /// What was found.
        found: char,
    },
    /// Too many.
    #[error("a sequence of {found} sizes is too long; give up to {SEQUENCE_MOST}")]
    TooMany {
        /// How many.
        found: usize,
    },
}

impl Sizes {
    /// From sizes in bytes without FCS.
    ///
    /// # Errors
    /// None, too many, or one out of range.
    pub fn new(sequence_bytes: Vec<u32>) -> Result<Sizes, SizesError> {
        if sequence_bytes.is_empty() {
            return Err(SizesError::Empty);
        }
        if sequence_bytes.len() > SEQUENCE_MOST {
            return Err(SizesError::TooMany { found: sequence_bytes.len() });
        }
        match sequence_bytes.iter().find(|bytes| !(LEAST_BYTES..=MOST_BYTES).contains(bytes)) {
            Some(&found_bytes) => Err(SizesError::Range { found_bytes }),
            None => Ok(Sizes { sequence_bytes }),
        }
    }

    /// In order.
    #[must_use]
    pub fn sequence_bytes(&self) -> &[u32] {
        &self.sequence_bytes
    }

    /// The mean, bytes.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        self.sequence_bytes.iter().map(|&bytes| f64::from(bytes)).sum::<f64>() / self.sequence_bytes.len() as f64
    }

    /// The longest.
    #[must_use]
    pub fn most_bytes(&self) -> u32 {
        self.sequence_bytes.iter().copied().max().unwrap_or(LEAST_BYTES)
    }

    /// The shortest.
    #[must_use]
    pub fn least_bytes(&self) -> u32 {
        self.sequence_bytes.iter().copied().min().unwrap_or(LEAST_BYTES)
    }

    /// The place in the sequence of the frame with this number.
    #[inline]
    pub(super) fn place_of(&self, number: u64) -> usize {
        let sizes = self.sequence_bytes.len();
        if sizes == 1 { 0 } else { (number % sizes as u64) as usize }
    }
}

impl TryFrom<Vec<u32>> for Sizes {
    type Error = SizesError;

    fn try_from(sequence_bytes: Vec<u32>) -> Result<Sizes, SizesError> {
        Sizes::new(sequence_bytes)
    }
}

impl From<Sizes> for Vec<u32> {
    fn from(sizes: Sizes) -> Vec<u32> {
        sizes.sequence_bytes
    }
}

impl FromStr for Sizes {
    type Err = SizesError;

    fn from_str(text: &str) -> Result<Sizes, SizesError> {
        if text == "imix" {
            return Sizes::new(IMIX_BYTES.to_vec());
        }
        if let Some(letters) = text.strip_prefix("genome:") {
            let size = |letter| GENOME.iter().find(|known| known.0 == letter).map(|known| known.1 - FCS_BYTES);
            let sizes = letters.chars().map(|letter| size(letter).ok_or(SizesError::Letter { found: letter }));
            return Sizes::new(sizes.collect::<Result<_, _>>()?);
        }
        let number = |word: &str| word.parse().map_err(|_| SizesError::NoNumber { found: word.to_owned() });
        Sizes::new(text.split('+').map(number).collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sequence_bytes == IMIX_BYTES {
            return f.write_str("imix");
        }
        let words: Vec<String> = self.sequence_bytes.iter().map(u32::to_string).collect();
        f.write_str(&words.join("+"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_sizes_are_read() {
        let read = |text: &str| text.parse::<Sizes>().map(|sizes| sizes.sequence_bytes);
        assert_eq!(read("60"), Ok(vec![60]));
        assert_eq!(read("60+1514"), Ok(vec![60, 1514]));
        assert_eq!(read("genome:aag"), Ok(vec![60, 60, 1514]));
        assert_eq!(read("imix").map(|sizes| sizes.len()), Ok(12));
    }

    /// The mean that is quoted for this mix is 361.83 bytes with FCS.
    #[test]
    fn imix_has_the_mean_that_is_quoted() {
        let imix: Sizes = "imix".parse().unwrap();
        assert!((imix.mean_bytes() + f64::from(FCS_BYTES) - 361.83).abs() < 0.01, "{}", imix.mean_bytes());
        assert_eq!(imix.to_string(), "imix");
    }

    #[test]
    fn impossible_sizes_are_refused_with_what_is_possible() {
        let refusal = |text: &str| text.parse::<Sizes>().unwrap_err();
        assert_eq!(refusal("59"), SizesError::Range { found_bytes: 59 });
        assert_eq!(refusal("60+"), SizesError::NoNumber { found: String::new() });
        assert_eq!(refusal("genome:ax"), SizesError::Letter { found: 'x' });
        assert_eq!(refusal("genome:"), SizesError::Empty);
        assert_eq!(refusal(&["60"; 300].join("+")), SizesError::TooMany { found: 300 });
    }
}
