//! Several owners of one bound flow, as SO_REUSEPORT makes them.
//!
//! A hash of the source chooses a slot of a table, and the slot names the owner: a source stays with its owner as long as its slot does.
//!
//! * An owner that joins takes its fair part of the slots, one at a time from the owner that has the most.
//! * The slots of one that leaves go one at a time to the owner that has the fewest.
//!
//! So exactly the flows move that must: 1/n of them, to the owner that joins or from the one that leaves. Owners differ by one slot at
//! most after joins; 256 slots make that 1.6 percent of a fair part among four owners, and 25 percent among 64.
//!
//! A frame filter looks at no source: its frames go to the first owner.

use super::owner::{Owner, SLOTS};

/// Groups that there can be: a power of two. 256 KiB of kernel memory.
pub(super) const GROUPS_MOST: u32 = 512;
/// Length of a slot table, as a shift.
pub(super) const GROUP_SHIFT: u32 = (SLOTS * size_of::<u16>()).ilog2();

// The hash: bits 24 to 31 of the product, which depend on all bits of the lower half of the seed.
pub(super) const HASH_FACTOR: i32 = 0x61c8_8647;
pub(super) const HASH_AT: u32 = 24;
pub(super) const HASH_BITS: u32 = SLOTS.ilog2();

/// The owner of each slot, as [`Owner::slot`].
pub(super) type Slots = [u16; SLOTS];

/// Who owns a filter, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owners {
    One(Owner),
    Several(Box<Group>),
}

/// Two owners or more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// In the order in which they joined.
    owners: Vec<Owner>,
    slots: Slots,
}

impl Owners {
    pub(super) fn has(&self, owner: Owner) -> bool {
        match self {
            Owners::One(one) => *one == owner,
            Owners::Several(group) => group.owners.contains(&owner),
        }
    }

    pub(super) fn first(&self) -> Owner {
        match self {
            Owners::One(owner) => *owner,
            Owners::Several(group) => group.owners[0],
        }
    }

    /// The same with an owner that is not among them.
    pub(super) fn with(self, owner: Owner) -> Owners {
        let mut group = match self {
            Owners::One(one) => Box::new(Group { owners: vec![one], slots: [one.slot(); SLOTS] }),
            Owners::Several(group) => group,
        };
        group.join(owner);
        Owners::Several(group)
    }

    /// The others; `None` where there are none.
    pub(super) fn without(self, owner: Owner) -> Option<Owners> {
        match self {
            Owners::One(one) => (one != owner).then_some(self),
            Owners::Several(mut group) => {
                group.leave(owner);
                Some(if let [one] = group.owners[..] { Owners::One(one) } else { Owners::Several(group) })
            }
        }
    }

    /// The same with `to` in the place of `from`, or without `from` where `to` is among them.
    pub(super) fn moved(self, from: Owner, to: Owner) -> Owners {
        if from == to {
            return self;
        }
        if self.has(to) {
            return self.without(from).unwrap_or(Owners::One(to));
        }
        match self {
            Owners::One(one) => Owners::One(if one == from { to } else { one }),
            Owners::Several(mut group) => {
                group.owners.iter_mut().filter(|owner| **owner == from).for_each(|owner| *owner = to);
                group.slots.iter_mut().filter(|slot| **slot == from.slot()).for_each(|slot| *slot = to.slot());
                Owners::Several(group)
            }
        }
    }

    /// The slots, where there are several owners.
    pub(super) fn slots(&self) -> Option<&Slots> {
        match self {
            Owners::One(_) => None,
            Owners::Several(group) => Some(&group.slots),
        }
    }

    /// The owner of a packet from the source that made this seed ([`super::headers::Packet::seed`]).
    pub(super) fn pick(&self, seed: u64) -> Owner {
        match self {
            Owners::One(owner) => *owner,
            Owners::Several(group) => {
                let hash = seed.wrapping_mul(i64::from(HASH_FACTOR).cast_unsigned()) >> HASH_AT;
                Owner::of_slot(group.slots[hash as usize % SLOTS])
            }
        }
    }
}

impl Group {
    fn join(&mut self, owner: Owner) {
        for _ in 0..SLOTS / (self.owners.len() + 1) {
            let most = self.owners.iter().copied().max_by_key(|other| self.slots_of(*other));
            let richest = most.map(Owner::slot);
            if let Some(slot) = self.slots.iter_mut().rfind(|slot| Some(**slot) == richest) {
                *slot = owner.slot();
            }
        }
        self.owners.push(owner);
    }

    fn leave(&mut self, owner: Owner) {
        self.owners.retain(|other| *other != owner);
        while let Some(at) = self.slots.iter().position(|slot| *slot == owner.slot()) {
            let fewest = self.owners.iter().copied().min_by_key(|other| self.slots_of(*other));
            let Some(heir) = fewest else { return };
            self.slots[at] = heir.slot();
        }
    }

    fn slots_of(&self, owner: Owner) -> usize {
        self.slots.iter().filter(|slot| **slot == owner.slot()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::owner::SHARES_MOST;
    use super::*;

    fn group(owners: impl IntoIterator<Item = Owner>) -> Owners {
        let mut owners = owners.into_iter();
        let first = Owners::One(owners.next().unwrap());
        owners.fold(first, Owners::with)
    }

    fn shares(count: u32) -> Owners {
        group((0..count).map(Owner::Share))
    }

    fn slots(owners: &Owners) -> Slots {
        owners.slots().copied().unwrap_or([owners.first().slot(); SLOTS])
    }

    fn slots_of(owners: &Owners, owner: Owner) -> usize {
        slots(owners).iter().filter(|slot| **slot == owner.slot()).count()
    }

    #[test]
    fn owner_that_joins_takes_its_fair_part_and_nothing_else_changes() {
        let mut owners = Owners::One(Owner::Kernel);
        for count in 2..=SHARES_MOST as usize {
            let joining = Owner::Share(count as u32);
            let before = slots(&owners);
            owners = owners.with(joining);
            let changed: Vec<u16> =
                before.iter().zip(slots(&owners)).filter(|(old, new)| *old != new).map(|(_, new)| new).collect();
            assert_eq!(changed, vec![joining.slot(); SLOTS / count]);
            let counts = (2..=count as u32).map(Owner::Share).chain([Owner::Kernel]);
            let counts: Vec<usize> = counts.map(|owner| slots_of(&owners, owner)).collect();
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(*least >= SLOTS / count && *most <= SLOTS.div_ceil(count), "{count} owners: {least} to {most}");
        }
    }

    #[test]
    fn slots_of_an_owner_that_leaves_are_spread_and_nothing_else_changes() {
        for count in [2, 3, 5, 8, 64, SHARES_MOST] {
            for leaving in [0, count / 2, count - 1].map(Owner::Share) {
                let owners = shares(count);
                let before = slots(&owners);
                let rest = owners.without(leaving).unwrap();
                for (old, new) in before.iter().zip(slots(&rest)) {
                    assert_eq!(*old == new, *old != leaving.slot());
                }
                assert_eq!(slots_of(&rest, leaving), 0);
                let counts = (0..count).map(Owner::Share).filter(|owner| *owner != leaving);
                let counts: Vec<usize> = counts.map(|owner| slots_of(&rest, owner)).collect();
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                assert!(most - least <= 1, "{leaving} of {count}: {least} to {most}");
            }
        }
        assert_eq!(shares(1).without(Owner::Share(0)), None);
        assert_eq!(shares(2).without(Owner::Share(0)), Some(Owners::One(Owner::Share(1))));
    }

    #[test]
    fn owner_in_the_place_of_another_takes_its_slots_and_no_others() {
        let (from, to) = (Owner::Share(1), Owner::Nobody);
        let before = shares(3);
        let after = before.clone().moved(from, to);
        for (old, new) in slots(&before).iter().zip(slots(&after)) {
            assert_eq!(new, if *old == from.slot() { to.slot() } else { *old });
        }
        assert!(after.has(to) && !after.has(from));
        assert_eq!(before.clone().moved(from, Owner::Share(2)), before.clone().without(from).unwrap());
        assert_eq!(before.clone().moved(from, from), before);
        assert_eq!(Owners::One(from).moved(from, to), Owners::One(to));
    }

    #[test]
    fn first_owner_is_the_one_that_joined_first() {
        let owners = group([Owner::Share(7), Owner::Share(0), Owner::Share(3)]);
        assert_eq!(owners.first(), Owner::Share(7));
        assert_eq!(owners.without(Owner::Share(7)).unwrap().first(), Owner::Share(0));
    }

    #[test]
    fn flows_of_many_sources_spread_roughly_evenly() {
        for count in 2..=8_u32 {
            let owners = shares(count);
            for (what, step) in [("ports", 0x100_u64), ("addresses", 0x100_0000), ("both", 0x100_0100)] {
                let mut flows = vec![0; count as usize];
                for source in 0..256_u64 {
                    let Owner::Share(share) = owners.pick(0x0200_000a + source * step) else { panic!() };
                    flows[share as usize] += 1;
                }
                let fair = 256 / count;
                assert!(flows.iter().all(|flows| (fair / 2..=fair * 2).contains(flows)), "{what}: {flows:?}");
            }
        }
    }
}
