//! Random numbers to resample with, a stream of its own for each figure of each cell.

use super::Quantity;
use crate::record::Cell;

/// SplitMix64 (Steele, Lea and Flood 2014): small, seeded, good enough to resample with.
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    /// The stream of one figure. It hangs on the names of the cells that are compared and on nothing else, so that
    /// other cells beside them change nothing.
    pub(super) fn of_figure(seed: u64, cells: [&Cell; 2], quantity: Quantity) -> Self {
        let mut hash = Fnv::default();
        for cell in cells {
            hash.add(&cell.path);
            hash.add(cell.tx.as_deref().unwrap_or_default());
            hash.add(cell.rx.as_deref().unwrap_or_default());
            hash.add(&cell.size_bytes.to_string());
            hash.add(&cell.ip_version.unwrap_or_default().to_string());
            if let Some(rate_per_second) = cell.rate_per_second {
                hash.add(&rate_per_second.to_string());
            }
            for (id, value) in &cell.variation {
                hash.add(id);
                hash.add(value);
            }
        }
        hash.add(quantity.name());
        Self(seed ^ hash.0)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; the bias is below `bound / 2^64`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// FNV-1a, 64 bits: the same on every machine and in every version.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds a name and an end, so that `ab`, `c` and `a`, `bc` differ.
    fn add(&mut self, name: &str) {
        for byte in name.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
