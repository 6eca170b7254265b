//! What a process learns about a share that it is given, as bytes: plain numbers in little-endian order and a name.
//!
//! Both sides are the same version of this crate, or do not understand each other: [`VERSION`] changes with any change here, in
//! [`super::division`] and in [`super::control`].
//!
//! What is read may be anything. Every number is checked before it is used, so that a wrong description is refused, and sizes can be added and
//! multiplied without a look.

use super::config::{Overflow, XdpMode};
use super::division::{Division, place_of_share};
use crate::steering::SHARES_MOST;

/// Of this layout of bytes, and of the memory that it describes.
const VERSION: u32 = 0x4e57_0003;
/// What SCM_RIGHTS passes at once (253 fds) is enough for so many queues.
const QUEUES_MOST: u32 = 120;
const RING_SLOTS_MOST: u32 = 1 << 16;
const FRAME_MOST_BYTES: u32 = 1 << 17;
const MULTI_BUFFER_MOST: u32 = 64;
const CREDIT_WORDS_MOST: u32 = 1 << 24;
const NAME_MOST_BYTES: u32 = 64;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Description {
    pub number: u32,
    pub ifindex: u32,
    pub mode: XdpMode,
    pub zero_copy: bool,
    pub program_id: u32,
    pub overflow: Overflow,
    pub share_ring_slots: u32,
    /// Buffers that may wait in each ring until the kernel gets what comes ([`super::rooms`]).
    pub room: u32,
    pub shares: u32,
    /// Buffers of a received frame, where it may have several.
    pub multi_buffer: Option<u32>,
    /// Bytes of the longest frame of several buffers.
    pub assembly_bytes: Option<u32>,
    /// 0: it polls nothing.
    pub busy_poll_us: u32,
    /// Words of the map of credits; 0: there is none.
    pub credit_words: u32,
    /// The interface's MTU, as the credits have it.
    pub longest_bytes: u64,
    /// Of frames without and with tags, and of the interface's where the port carries less (0: it does not).
    pub limits_bytes: [u32; 3],
    pub queues: Vec<(u32, Division)>,
    pub interface: String,
}

impl Description {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |number: u32| bytes.extend(number.to_le_bytes());
        let mode = match self.mode {
            XdpMode::ZeroCopy => 0,
            XdpMode::NativeCopy => 1,
            XdpMode::Generic => 2,
        };
        let numbers = [
            VERSION,
            self.number,
            self.ifindex,
            mode,
            self.zero_copy.into(),
            self.program_id,
            (self.overflow == Overflow::Kernel).into(),
            self.share_ring_slots,
            self.room,
            self.shares,
            self.multi_buffer.unwrap_or(0),
            self.assembly_bytes.unwrap_or(0),
            self.busy_poll_us,
            self.credit_words,
            self.longest_bytes as u32,
            (self.longest_bytes >> 32) as u32,
        ];
        numbers.into_iter().chain(self.limits_bytes).for_each(&mut put);
        put(self.queues.len() as u32);
        for (queue, division) in &self.queues {
            put(*queue);
            let Division { frame_size_bytes, fill_frames, tx_frames, prepared_frames, .. } = *division;
            let Division { area_buffers, share_areas, share_tx_frames, .. } = *division;
            [frame_size_bytes, fill_frames, tx_frames, prepared_frames, area_buffers, share_areas, share_tx_frames]
                .into_iter()
                .for_each(&mut put);
        }
        put(self.interface.len() as u32);
        bytes.extend(self.interface.as_bytes());
        bytes
    }

    /// `None`: the bytes are no description of a share that there can be.
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Description> {
        let mut rest = bytes;
        let mut take = || {
            let (number, behind) = rest.split_first_chunk()?;
            rest = behind;
            Some(u32::from_le_bytes(*number))
        };
        if take()? != VERSION {
            return None;
        }
        let (number, ifindex) = (take()?, take()?);
        let mode = [XdpMode::ZeroCopy, XdpMode::NativeCopy, XdpMode::Generic].get(take()? as usize).copied()?;
        let (zero_copy, program_id) = (flag(take()?)?, take()?);
        let overflow = if flag(take()?)? { Overflow::Kernel } else { Overflow::Drop };
        let (share_ring_slots, room, shares) = (take()?, take()?, take()?);
        let multi_buffer = at_most(take()?, MULTI_BUFFER_MOST).map(some)?;
        let assembly_bytes = at_most(take()?, FRAME_MOST_BYTES).map(some)?;
        let (busy_poll_us, credit_words) = (take()?, at_most(take()?, CREDIT_WORDS_MOST)?);
        let longest_bytes = u64::from(take()?) | u64::from(take()?) << 32;
        let mut limit = || take().and_then(|bytes| at_most(bytes, FRAME_MOST_BYTES));
        let limits_bytes = [limit()?, limit()?, limit()?];
        let mut queues = Vec::new();
        for _ in 0..at_most(take()?, QUEUES_MOST)? {
            let queue = take()?;
            let division = Division {
                frame_size_bytes: take()?,
                fill_frames: take()?,
                tx_frames: take()?,
                prepared_frames: take()?,
                area_buffers: take()?,
                share_areas: take()?,
                share_tx_frames: take()?,
            };
            queues.push((queue, division));
        }
        let name_bytes = at_most(take()?, NAME_MOST_BYTES)? as usize;
        let interface = (rest.len() == name_bytes).then(|| String::from_utf8(rest.to_vec()).ok()).flatten()?;
        let described = Description {
            number,
            ifindex,
            mode,
            zero_copy,
            program_id,
            overflow,
            share_ring_slots,
            room,
            shares,
            multi_buffer,
            assembly_bytes,
            busy_poll_us,
            credit_words,
            longest_bytes,
            limits_bytes,
            queues,
            interface,
        };
        described.is_sound().then_some(described)
    }

    fn is_sound(&self) -> bool {
        let [untagged, tagged, _] = self.limits_bytes;
        let first = self.queues.first().map(|(_, division)| *division);
        let alike = |other: &Division| {
            first.is_some_and(|first| {
                (other.frame_size_bytes, other.fill_frames) == (first.frame_size_bytes, first.fill_frames)
                    && other.area_buffers == first.area_buffers
            })
        };
        let divisions = || self.queues.iter().map(|(_, division)| division);
        let area_bytes = first.map_or(0, |first| u64::from(first.area_buffers) * u64::from(first.frame_size_bytes));
        !self.queues.is_empty()
            && (1..self.shares).contains(&self.number)
            && self.shares <= SHARES_MOST
            && self.share_ring_slots.is_power_of_two()
            && self.share_ring_slots <= RING_SLOTS_MOST
            && (1..=self.share_ring_slots).contains(&self.room)
            && untagged <= tagged
            && u64::from(tagged) <= area_bytes
            && divisions().all(|division| division.is_sound() && division.fill_frames > 0 && alike(division))
            && self.tx_division().is_some_and(|(area, division)| {
                area < division.share_areas && (1..=RING_SLOTS_MOST).contains(&division.share_tx_frames)
            })
    }

    /// Where the share sends: its area, and the queue's division.
    fn tx_division(&self) -> Option<(u32, &Division)> {
        let (at, area) = self.tx_place();
        self.queues.get(at).map(|(_, division)| (area, division))
    }

    /// The same by place.
    pub(super) fn tx_place(&self) -> (usize, u32) {
        place_of_share(self.number, (self.queues.len() as u32).max(1))
    }
}

fn flag(number: u32) -> Option<bool> {
    (number <= 1).then_some(number == 1)
}

fn at_most(number: u32, most: u32) -> Option<u32> {
    (number <= most).then_some(number)
}

fn some(number: u32) -> Option<u32> {
    Some(number).filter(|number| *number > 0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn description() -> Description {
        let division = Division {
            frame_size_bytes: 2048,
            fill_frames: 128,
            tx_frames: 64,
            prepared_frames: 16,
            area_buffers: 1,
            share_areas: 3,
            share_tx_frames: 64,
        };
        Description {
            number: 2,
            ifindex: 10,
            mode: XdpMode::Generic,
            zero_copy: false,
            program_id: 77,
            overflow: Overflow::Kernel,
            share_ring_slots: 256,
            room: 224,
            shares: 6,
            multi_buffer: None,
            assembly_bytes: None,
            busy_poll_us: 0,
            credit_words: 24 * 16,
            longest_bytes: u64::MAX,
            limits_bytes: [1514, 1518, 0],
            queues: vec![(0, division), (1, Division { tx_frames: 0, prepared_frames: 0, ..division })],
            interface: "nw0".to_owned(),
        }
    }

    #[test]
    fn description_written_and_read_is_the_same() {
        let described = description();
        assert_eq!(Description::of_bytes(&described.to_bytes()), Some(described));
    }

    #[test]
    fn description_that_is_cut_longer_or_of_another_version_is_refused() {
        let bytes = description().to_bytes();
        for len in 0..bytes.len() {
            assert_eq!(Description::of_bytes(&bytes[..len]), None, "{len} bytes");
        }
        assert_eq!(Description::of_bytes(&[&bytes[..], &[0]].concat()), None);
        let other = [&(VERSION + 1).to_le_bytes(), &bytes[4..]].concat();
        assert_eq!(Description::of_bytes(&other), None);
    }

    proptest! {
        /// Whatever is changed, what is accepted has sizes that can be computed with.
        #[test]
        fn any_words_changed_what_is_accepted_is_sound(changes in proptest::collection::vec((1usize..40, any::<u32>()), 1..4)) {
            let mut bytes = description().to_bytes();
            for (word, value) in changes {
                if let Some(place) = bytes.get_mut(4 * word..4 * word + 4) {
                    place.copy_from_slice(&value.to_le_bytes());
                }
            }
            if let Some(described) = Description::of_bytes(&bytes) {
                let (at, area) = described.tx_place();
                let division = described.queues[at].1;
                let memory = division.share_memory(area);
                let end = memory.start + u64::from(memory.tx_frames * memory.buffers) * u64::from(memory.frame_size_bytes);
                prop_assert!(end <= division.layout().packet_bytes() as u64);
                prop_assert!(memory.sender < division.layout().senders);
                prop_assert!(division.layout().file_bytes() < 1 << 40);
            }
        }
    }
}
