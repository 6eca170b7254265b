//! How many receive buffers each share that was handed over may leave unread.
//!
//! Shares of a queue receive into the same buffers, and a process that is stopped gives back none of those in its ring. If all rings together
//! could hold all of them, nothing would be left for the others, whose frames the driver or the kernel would drop; with zero copy the kernel's own, too.
//! So all rooms together are less than there is, however many shares there are. What finds no room goes to the kernel, and is not lost.
//!
//! The division: half of what an equal part would be is each share's for certain. Of the rest a share gets what it can use, up to an eighth of what
//! is left when it is opened. So the first of few have rooms as large as their rings, and the 60th of many has a small one. A room stays
//! as it is as long as its share: what is in a ring already cannot be taken back from a process that is stopped.
//!
//! For a queue of 8192 buffers with rings of 1024 slots, divided among 79: rooms of 896, 732, 560, 431 and so on: 114 for the tenth, 49 for the twentieth, 45
//! for the last.

use std::collections::BTreeMap;

use super::config::{XdpConfig, XdpMode};

/// A share gets so much of what is left, or more where the first needs more to have a room as large as its ring.
const PART_OF_REST: u32 = 8;
/// Buffers that are on their way in neither ring, and those of frames that several CPUs found the last room for.
const SPARE_PART: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Rooms {
    /// Of the port's own ring.
    first: u32,
    /// Of each share for certain, and at most.
    least: u32,
    most: u32,
    /// What no share has of the rest.
    rest: u32,
    part_of_rest: u32,
    /// Of each number what it has of the rest.
    given: BTreeMap<u32, u32>,
}

impl Rooms {
    pub(super) fn of(config: &XdpConfig, multi_buffer: Option<u32>) -> Rooms {
        let buffers = match config.mode {
            // The others are the driver's, to receive what is the kernel's.
            XdpMode::ZeroCopy => config.fill_frames / 2,
            XdpMode::NativeCopy | XdpMode::Generic => config.fill_frames,
        };
        let (first, most) = config.rooms(multi_buffer);
        let divided = buffers.saturating_sub(buffers / SPARE_PART + first.min(buffers / 4));
        Rooms { first, ..Rooms::new(divided, config.shares.saturating_sub(1), most) }
    }

    fn new(buffers: u32, shares: u32, most: u32) -> Rooms {
        let least = (buffers / shares.max(1) / 2).min(most);
        let rest = buffers - least * shares;
        let part_of_rest = (rest / (most - least).max(1)).clamp(1, PART_OF_REST);
        Rooms { first: 0, least, most, rest, part_of_rest, given: BTreeMap::new() }
    }

    /// The room of a share that is opened.
    pub(super) fn give(&mut self, number: u32) -> u32 {
        self.take_back(number);
        let more = (self.rest / self.part_of_rest.max(1)).min(self.most - self.least);
        self.rest -= more;
        self.given.insert(number, more);
        (self.least + more).max(1)
    }

    /// Of all shares that are open, the port's own first.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.first).chain(self.given.values().map(|more| (self.least + more).max(1)))
    }

    /// The share is over, and its ring is empty.
    pub(super) fn take_back(&mut self, number: u32) {
        self.rest += self.given.remove(&number).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_of_all_shares_are_less_than_there_is_and_the_first_is_as_large_as_its_ring() {
        for (buffers, most) in [(7154, 896), (3570, 224), (1778, 224), (434, 28), (210, 14)] {
            let mut rooms = Rooms::new(buffers, 79, most);
            let given: Vec<u32> = (1..80).map(|number| rooms.give(number)).collect();
            println!("{given:?}");
            assert_eq!(given[0], most);
            assert!(given.iter().sum::<u32>() <= buffers && given.iter().all(|room| *room > 0), "{given:?}");
            for number in 1..80 {
                rooms.take_back(number);
                assert!(rooms.give(number) <= most);
            }
            (1..80).for_each(|number| rooms.take_back(number));
            assert_eq!(rooms.give(7), most, "all came back");
        }
    }
}
