//! A keyed hash for flow and table lookups.
//!
//! Multiply and fold (as wyhash and its kin do): two multiplications for the key of a flow, where the default hasher
//! takes some 20 ns. The secret comes from the caller, so a sender who does not know it cannot choose flows that collide;
//! it is no cryptographic hash.

use std::hash::{BuildHasher, Hash, Hasher};

/// Odd, with as many ones as zeros.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes hashers with one secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyedHash {
    secret: u64,
}

impl KeyedHash {
    pub(crate) const fn new(secret: u64) -> KeyedHash {
        KeyedHash { secret }
    }

    /// A hash all bits of which depend on all bits of the key, for a choice among few. Of the hash for tables, that of neighbouring ports differs in
    /// its low bits only, with some secrets: one of two sockets had the datagrams of 15 ports with one secret in 40.
    pub(crate) fn spread(&self, key: impl Hash) -> u32 {
        let state = self.hash_one(key);
        // As the finalizer of MurmurHash3 has them.
        let mixed = (state ^ state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        ((mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53) >> 32) as u32
    }
}

impl BuildHasher for KeyedHash {
    type Hasher = FoldHasher;

    #[inline]
    fn build_hasher(&self) -> FoldHasher {
        FoldHasher { state: self.secret, secret: self.secret ^ MULTIPLIER }
    }
}

#[derive(Debug)]
pub(crate) struct FoldHasher {
    state: u64,
    secret: u64,
}

#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

impl Hasher for FoldHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.state = fold(self.state ^ word, MULTIPLIER ^ self.secret.rotate_left(32));
    }

    #[inline]
    fn write_u128(&mut self, words: u128) {
        let (high, low) = ((words >> 64) as u64, words as u64);
        self.state = fold(self.state ^ low, high ^ self.secret.rotate_left(32)) ^ high.rotate_left(23);
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    #[inline]
    fn write_u16(&mut self, word: u16) {
        self.write_u64(u64::from(word));
    }

    #[inline]
    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_keys_hashed_fill_buckets_evenly() {
        let hash = KeyedHash::new(0x0123_4567_89ab_cdef);
        let mut buckets = [0_u32; 256];
        for n in 0..65_536_u32 {
            let address = u128::from(0xffff_0a00_0000_u64 + u64::from(n));
            buckets[(hash.hash_one((address, 7_u16)) >> 56) as usize] += 1;
        }
        let (least, most) = (buckets.iter().min(), buckets.iter().max());
        assert!(least > Some(&170) && most < Some(&350), "{least:?} {most:?}");
    }

    #[test]
    fn flows_of_neighbouring_ports_spread_over_two_whatever_the_secret() {
        let mut secret = 1_u64;
        let is_uneven = |secret| {
            let hash = KeyedHash::new(secret);
            let halves = (0..15_u32).map(|port| hash.spread((2_u128, 3_u128, (5001 << 16) + 5100 + port)) >> 31);
            [0, 15].contains(&halves.sum())
        };
        // Of 15 coins all are on one side once in 16 384 times.
        let uneven = (0..10_000).filter(|_| {
            secret = secret.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            is_uneven(secret)
        });
        let uneven = uneven.count();
        assert!(uneven < 6, "{uneven}");
    }

    #[test]
    fn other_secret_gives_other_hashes() {
        let key = (1_u128, 2_u16);
        assert_ne!(KeyedHash::new(1).hash_one(key), KeyedHash::new(2).hash_one(key));
    }
}
