//! Sets of CPU numbers in the kernel's two notations: list (`0-3,8`) and mask (`0000010f`).
//!
//! Source: `lib/bitmap-str.c` (Linux 6.18).

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// Numbers above this are refused: a set from an odd file must not fill the memory. The largest
/// `CONFIG_NR_CPUS` is 8192.
const CPU_MAX: u32 = 65_535;

/// A set of CPU numbers. Prints as a list, or `none` when empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuSet(BTreeSet<u32>);

/// Why a text is not a set of CPUs.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CpuSetError {
    /// A part is neither a number nor a range.
    #[error("{part:?} in a CPU list is neither a number nor a range first-last[:used/group]")]
    Part {
        /// The part between commas.
        part: String,
    },
    /// A mask has a group that is not up to eight hexadecimal digits.
    #[error("{group:?} in a CPU mask is not one to eight hexadecimal digits")]
    Group {
        /// The group between commas.
        group: String,
    },
    /// A number no kernel has.
    #[error("CPU {cpu} is above {CPU_MAX}")]
    TooLarge {
        /// The number.
        cpu: u32,
    },
}

impl CpuSet {
    /// Reads a list: numbers and ranges between commas, ranges with an optional stride
    /// (`0-31:2/8`: the first two of every eight). Empty text and `(null)`, which the kernel gives
    /// for a list that was never set, are the empty set.
    ///
    /// # Errors
    /// See [`CpuSetError`].
    pub fn from_list(text: &str) -> Result<Self, CpuSetError> {
        let text = text.trim();
        let mut cpus = BTreeSet::new();
        if text.is_empty() || text == "(null)" {
            return Ok(Self(cpus));
        }
        for part in text.split(',') {
            let range = Range::parse(part.trim()).ok_or_else(|| CpuSetError::Part { part: part.to_owned() })?;
            if range.last > CPU_MAX {
                return Err(CpuSetError::TooLarge { cpu: range.last });
            }
            cpus.extend(range.cpus());
        }
        Ok(Self(cpus))
    }

    /// Reads a mask: groups of 32 bits in hexadecimal between commas, highest first.
    ///
    /// # Errors
    /// See [`CpuSetError`].
    pub fn from_mask(text: &str) -> Result<Self, CpuSetError> {
        let mut cpus = BTreeSet::new();
        for (at, group) in (0u32..).zip(text.trim().rsplit(',')) {
            let is_hex = group.bytes().all(|b| b.is_ascii_hexdigit());
            let bits = match u32::from_str_radix(group, 16) {
                Ok(bits) if is_hex && group.len() <= 8 => bits,
                _ => {
                    return Err(CpuSetError::Group { group: group.to_owned() });
                }
            };
            let first = at.saturating_mul(u32::BITS);
            if bits != 0 && first > CPU_MAX {
                return Err(CpuSetError::TooLarge { cpu: first });
            }
            cpus.extend((0..u32::BITS).filter(|bit| bits >> bit & 1 != 0).map(|bit| first + bit));
        }
        Ok(Self(cpus))
    }

    /// The mask that [`Self::from_mask`] reads: `0000010f`, groups of eight digits between commas.
    #[must_use]
    pub fn to_mask(&self) -> String {
        let groups = self.0.last().map_or(1, |last| last / u32::BITS + 1);
        let group = |at: u32| {
            let first = at * u32::BITS;
            let bits = self.0.range(first..first + u32::BITS).fold(0, |bits: u32, cpu| bits | 1 << (cpu - first));
            format!("{bits:08x}")
        };
        (0..groups).rev().map(group).collect::<Vec<_>>().join(",")
    }

    /// The CPUs in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    /// Whether a CPU is in the set.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// Whether no CPU is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many CPUs are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// As a list; the empty set is the empty text, as in the kernel's files.
impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_empty() { serializer.serialize_str("") } else { serializer.collect_str(self) }
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_list(&text).map_err(serde::de::Error::custom)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<T: IntoIterator<Item = u32>>(cpus: T) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|&next| next == last + 1) {
                last = next;
            }
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

/// `first-last:used/group`.
struct Range {
    first: u32,
    last: u32,
    used: u32,
    group: u32,
}

impl Range {
    fn parse(part: &str) -> Option<Self> {
        let (bounds, stride) = match part.split_once(':') {
            Some((bounds, stride)) => (bounds, Some(stride)),
            None => (part, None),
        };
        let (first, last) = match bounds.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(bounds)?, number(bounds)?),
        };
        let (used, group) = match stride {
            Some(stride) => {
                let (used, group) = stride.split_once('/')?;
                (number(used)?, number(group)?)
            }
            None => (1, 1),
        };
        let makes_sense = first <= last && used >= 1 && used <= group;
        makes_sense.then_some(Self { first, last, used, group })
    }

    fn cpus(self) -> impl Iterator<Item = u32> {
        (self.first..=self.last).filter(move |cpu| (cpu - self.first) % self.group < self.used)
    }
}

/// Decimal digits only: `str::parse` would take a sign.
fn number(text: &str) -> Option<u32> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str) -> Vec<u32> {
        CpuSet::from_list(text).expect("valid").iter().collect()
    }

    #[test]
    fn list_parsed_has_numbers_ranges_and_strides() {
        assert_eq!(list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(list("0-7:1/2"), [0, 2, 4, 6]);
        assert_eq!(list("1-8:2/4"), [1, 2, 5, 6]);
        assert_eq!(list(""), [0u32; 0]);
        assert_eq!(list("(null)\n"), [0u32; 0]);
    }

    #[test]
    fn list_with_nonsense_is_refused() {
        for text in ["x", "3-1", "1-", "-1", "1,,2", "+1", "0-3:0/2", "0-3:3/2", "0-3:1", "1-2-3"] {
            assert!(CpuSet::from_list(text).is_err(), "{text}");
        }
        let huge = CpuSet::from_list("0-4294967295");
        assert_eq!(huge, Err(CpuSetError::TooLarge { cpu: u32::MAX }));
    }

    #[test]
    fn mask_parsed_counts_groups_from_the_right() {
        let mask = |text| CpuSet::from_mask(text).map(|set| set.to_string());
        assert_eq!(mask("3\n"), Ok("0-1".to_owned()));
        assert_eq!(mask("00000001,80000000"), Ok("31-32".to_owned()));
        assert_eq!(mask("0000,00000000"), Ok("none".to_owned()));
        for text in ["", "g", "+1", "123456789", "1,,1"] {
            assert!(CpuSet::from_mask(text).is_err(), "{text}");
        }
        let far = format!("1{}", ",00000000".repeat(4000));
        assert!(CpuSet::from_mask(&far).is_err());
    }

    proptest! {
        #[test]
        fn set_printed_and_parsed_is_the_same(cpus in proptest::collection::btree_set(0..5000u32, 1..60)) {
            let set: CpuSet = cpus.iter().copied().collect();
            prop_assert_eq!(CpuSet::from_list(&set.to_string()), Ok(set.clone()));

            let mut groups = [0u32; 160];
            for cpu in cpus {
                groups[cpu as usize / 32] |= 1 << (cpu % 32);
            }
            let groups: Vec<_> = groups.iter().rev().map(|bits| format!("{bits:08x}")).collect();
            prop_assert_eq!(CpuSet::from_mask(&set.to_mask()), Ok(set.clone()));
            prop_assert_eq!(CpuSet::from_mask(&groups.join(",")), Ok(set));
        }

        #[test]
        fn any_text_parses_or_errs(text in "[-0-9a-f,:/ ]{0,20}|.*") {
            let _ = CpuSet::from_list(&text);
            let _ = CpuSet::from_mask(&text);
        }
    }
}
