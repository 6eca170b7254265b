//! Ranges of sequence numbers: what a receiver has beyond the byte that it waits for.

use nearwire_wire::tcp::options::{BLOCKS_MAX, Block};

use super::sequence::Sequence;

/// Ranges kept at most: a segment that would make one more is refused. A sender fills the first hole first, so it comes again.
const RANGES_MOST: usize = 64;

/// From `start` to before `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: Sequence,
    pub(crate) end: Sequence,
}

impl Range {
    pub(crate) const fn block(self) -> Block {
        Block { left: self.start.0, right: self.end.0 }
    }

    const fn holds(self, sequence: Sequence) -> bool {
        !sequence.is_before(self.start) && sequence.is_before(self.end)
    }
}

/// Ranges in order, none touching the next; and where bytes came last, for the order of blocks in acknowledgements.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    all: Vec<Range>,
    /// Numbers in ranges that changed last, the newest first.
    recent: [Sequence; BLOCKS_MAX],
    recent_count: u8,
}

impl Ranges {
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The byte after the last range.
    pub(crate) fn end(&self) -> Option<Sequence> {
        self.all.last().map(|range| range.end)
    }

    /// What of `wanted` is here already: the overlap with the first range that has some.
    pub(crate) fn overlap(&self, wanted: Range) -> Option<Range> {
        let touching = self.all.iter().find(|range| wanted.start.is_before(range.end))?;
        let overlap = Range { start: wanted.start.later_of(touching.start), end: wanted.end.earlier_of(touching.end) };
        overlap.start.is_before(overlap.end).then_some(overlap)
    }

    /// Adds a range. `false`: there are too many.
    pub(crate) fn insert(&mut self, new: Range) -> bool {
        let from = self.all.partition_point(|range| range.end.is_before(new.start));
        let until = self.all.partition_point(|range| !range.start.is_after(new.end));
        if from >= until {
            if self.all.len() == RANGES_MOST {
                return false;
            }
            self.all.reserve_exact(RANGES_MOST - self.all.len());
            self.all.insert(from, new);
        } else {
            let end = new.end.later_of(self.all[until - 1].end);
            let first = &mut self.all[from];
            first.start = first.start.earlier_of(new.start);
            first.end = end;
            self.all.drain(from + 1..until);
        }
        self.remember(new.start);
        true
    }

    /// Takes the first range out if it begins no later than `next`: the number after it.
    pub(crate) fn take_from(&mut self, next: Sequence) -> Option<Sequence> {
        let first = *self.all.first()?;
        if first.start.is_after(next) {
            return None;
        }
        self.all.remove(0);
        Some(first.end)
    }

    fn remember(&mut self, sequence: Sequence) {
        let Some(range) = self.all.iter().copied().find(|range| range.holds(sequence)) else { return };
        let count = usize::from(self.recent_count);
        let kept = self.recent;
        let others = kept[..count].iter().filter(|other| !range.holds(**other));
        let newest = std::iter::once(&sequence).chain(others).take(BLOCKS_MAX);
        self.recent_count = 0;
        for (place, point) in self.recent.iter_mut().zip(newest) {
            *place = *point;
            self.recent_count += 1;
        }
    }

    /// Blocks for an acknowledgement, at most `count`.
    ///
    //= RFC 2018 4 MUST: the first block has the segment that came last; the others repeat what was told most recently
    pub(crate) fn blocks(&self, count: usize, blocks: &mut [Block; BLOCKS_MAX]) -> usize {
        let most = count.min(BLOCKS_MAX).min(self.all.len());
        let mut found = 0;
        let recent = self.recent[..self.recent_count.into()].iter();
        let by_recency = recent.filter_map(|point| self.all.iter().find(|range| range.holds(*point)));
        for range in by_recency.chain(&self.all) {
            if found == most {
                break;
            }
            let block = range.block();
            if !blocks[..found].contains(&block) {
                blocks[found] = block;
                found += 1;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(start: u32, end: u32) -> Range {
        Range { start: Sequence(start), end: Sequence(end) }
    }

    fn blocks(ranges: &Ranges, count: usize) -> Vec<(u32, u32)> {
        let mut blocks = [Block::default(); BLOCKS_MAX];
        let found = ranges.blocks(count, &mut blocks);
        blocks[..found].iter().map(|block| (block.left, block.right)).collect()
    }

    //= test RFC 2018 4
    #[test]
    fn blocks_name_the_newest_range_first() {
        let mut ranges = Ranges::default();
        for (start, end) in [(10, 20), (50, 60), (30, 40), (20, 25)] {
            assert!(ranges.insert(range(start, end)));
        }
        assert_eq!(blocks(&ranges, 3), [(10, 25), (30, 40), (50, 60)]);
        assert_eq!(ranges.take_from(Sequence(9)), None);
        assert_eq!(ranges.take_from(Sequence(10)), Some(Sequence(25)));
        assert_eq!(blocks(&ranges, 1), [(30, 40)]);
        assert!(ranges.insert(range(55, 70)));
        assert_eq!(blocks(&ranges, 4), [(50, 70), (30, 40)]);
    }

    #[test]
    fn too_many_ranges_are_refused_and_a_range_that_joins_two_is_not() {
        let mut ranges = Ranges::default();
        for at in 0..RANGES_MOST as u32 {
            assert!(ranges.insert(range(at * 10, at * 10 + 5)));
        }
        assert!(!ranges.insert(range(5000, 5001)));
        assert!(ranges.insert(range(5, 10)));
        assert!(ranges.insert(range(5000, 5001)));
    }

    proptest! {
        #[test]
        fn ranges_inserted_in_any_order_are_those_of_a_bitmap(
            start: u32, inserts in proptest::collection::vec((0..200_u32, 1..20_u32), 1..40),
        ) {
            let mut ranges = Ranges::default();
            let mut map = [false; 256];
            for (at, len) in inserts {
                let new = range(start.wrapping_add(at), start.wrapping_add(at + len));
                let is_known = (at..at + len).any(|byte| map[byte as usize]);
                prop_assert_eq!(ranges.overlap(new).is_some(), is_known);
                prop_assert!(ranges.insert(new));
                map[at as usize..(at + len) as usize].fill(true);
            }
            let mut found = [false; 256];
            for one in &ranges.all {
                for byte in 0..one.end - one.start {
                    found[(one.start + byte - Sequence(start)) as usize] = true;
                }
            }
            prop_assert_eq!(map, found);
            let apart = ranges.all.windows(2).all(|pair| pair[0].end.is_before(pair[1].start));
            prop_assert!(apart);
        }
    }
}
