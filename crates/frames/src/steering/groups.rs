//! The slot tables of groups, in memory that the program reads and this process maps.
//!
//! A table belongs to a flow as long as that has several owners. It is filled before the first verdict leads to it. Later each slot changes
//! by one store, so a frame goes to the owner before or after.
//!
//! A CPU may have read a verdict that leads to a table just before the flow left it, and reads the slot a moment later. So the table of a
//! flow keeps its slots when it is given back, and another flow gets it after [`REST`] at the earliest. The flow itself may have it again at
//! once: both owners that such a frame can meet are the flow's.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use nearwire_sys::shared_words::SharedWords;

use super::filter::Filter;
use super::group::{GROUPS_MOST, Owners, Slots};
use super::owner::{GROUP, SLOTS};
use super::words;

const SLOTS_PER_WORD: usize = size_of::<u64>() / size_of::<u16>();
const GROUP_WORDS: usize = SLOTS / SLOTS_PER_WORD;
/// How long a table is given to nobody after a flow left it: the program runs for less than a microsecond, or as long as a hypervisor
/// stops its CPU.
const REST: Duration = Duration::from_millis(100);

/// There is no table left.
#[derive(Debug)]
pub(super) struct NoneLeft;

/// Which tables are taken.
#[derive(Debug, Default)]
pub(super) struct Groups {
    of: HashMap<Filter, u32>,
    /// Tables from this one on were never used.
    unused: u32,
    /// Given back, the first one longest ago, and by whom.
    resting: VecDeque<(Instant, Filter, u32)>,
}

impl Groups {
    /// Shows the owners of a filter to the program, as far as they are in a table, and says the verdict that leads there.
    pub(super) fn show(&mut self, words: &SharedWords, filter: Filter, owners: &Owners) -> Result<u32, NoneLeft> {
        let Some(slots) = owners.slots().filter(|_| !matches!(filter, Filter::Frame(_))) else {
            return Ok(owners.first().verdict());
        };
        let group = match self.of.get(&filter) {
            Some(group) => *group,
            None => self.take(filter)?,
        };
        write(words, group, slots);
        Ok(GROUP + group)
    }

    /// The verdict for a filter whose owners were shown.
    pub(super) fn verdict(&self, filter: &Filter, owners: &Owners) -> u32 {
        let group = self.of.get(filter).filter(|_| owners.slots().is_some());
        group.map_or_else(|| owners.first().verdict(), |group| GROUP + group)
    }

    /// Nothing leads to the filter's table any more.
    pub(super) fn give_back(&mut self, filter: &Filter) {
        if let Some(group) = self.of.remove(filter) {
            self.resting.push_back((Instant::now(), *filter, group));
        }
    }

    fn take(&mut self, filter: Filter) -> Result<u32, NoneLeft> {
        let own = self.resting.iter().position(|(_, by, _)| *by == filter);
        let rested = || self.resting.front().filter(|(since, ..)| since.elapsed() > REST).map(|_| 0);
        let group = if own.is_none() && self.unused < GROUPS_MOST {
            self.unused += 1;
            self.unused - 1
        } else {
            let again = own.or_else(rested).and_then(|at| self.resting.remove(at));
            again.map(|(.., group)| group).ok_or(NoneLeft)?
        };
        self.of.insert(filter, group);
        Ok(group)
    }
}

fn write(shared: &SharedWords, group: u32, slots: &Slots) {
    let shared = shared[group as usize * GROUP_WORDS..].iter();
    for (word, slots) in shared.zip(slots.as_chunks::<SLOTS_PER_WORD>().0) {
        let slots = slots.map(u16::to_ne_bytes);
        let mut bytes = [0; size_of::<u64>()];
        bytes.copy_from_slice(slots.as_flattened());
        words::show(word, u64::from_ne_bytes(bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::filter::{FlowFilter, Transport};
    use super::super::owner::Owner;
    use super::*;

    fn flow(port: u16) -> Filter {
        Filter::Flow(FlowFilter { transport: Transport::Udp, address: Ipv4Addr::LOCALHOST.into(), port })
    }

    #[test]
    fn table_given_back_rests_before_another_flow_gets_it() {
        let words = SharedWords::private(GROUPS_MOST as usize * GROUP_WORDS);
        let mut groups = Groups::default();
        let two = Owners::One(Owner::Share(3)).with(Owner::Kernel);
        for port in 0..GROUPS_MOST as u16 {
            assert_eq!(groups.show(&words, flow(port), &two).unwrap(), GROUP + u32::from(port));
        }
        assert!(groups.show(&words, flow(600), &two).is_err(), "all are taken");
        groups.give_back(&flow(7));
        assert!(groups.show(&words, flow(600), &two).is_err(), "a frame may still be on its way by it");
        assert_eq!(groups.show(&words, flow(7), &two).unwrap(), GROUP + 7, "its own");
        groups.give_back(&flow(7));
        std::thread::sleep(REST + Duration::from_millis(1));
        assert_eq!(groups.show(&words, flow(600), &two).unwrap(), GROUP + 7);
        assert_eq!(groups.show(&words, flow(600), &Owners::One(Owner::Nobody)).unwrap(), Owner::Nobody.verdict());
    }
}
