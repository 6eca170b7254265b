//! The decision in Rust.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::filter::{FLOW_ADDRESS, FLOW_PORT, FRAME_CLASSES_FROM, Filter, FilterError};
use super::headers;
use super::shares::Shares;

/// Classes of flow filters in the order in which they are asked, the most exact first; and how many there are.
pub(super) const FLOW_CLASSES: [u8; 4] = [FLOW_ADDRESS | FLOW_PORT, FLOW_ADDRESS, FLOW_PORT, 0];
/// Classes of frame filters.
const FRAME_CLASSES: u8 = 8;

/// Filters, who has them, and which classes of them there are.
#[derive(Debug, Clone, Default)]
pub struct FilterSet {
    filters: HashMap<Filter, Shares>,
    filters_of_class: [u32; FLOW_CLASSES.len() + FRAME_CLASSES as usize],
    classes: u32,
}

impl FilterSet {
    /// No filter: nothing is taken.
    #[must_use]
    pub fn new() -> FilterSet {
        FilterSet::default()
    }

    /// Adds a filter.
    ///
    /// # Errors
    /// It is there, or can match no frame.
    pub fn add(&mut self, filter: Filter) -> Result<(), FilterError> {
        self.add_for(filter, 0)
    }

    /// Adds a filter for one share.
    ///
    /// # Errors
    /// The share has it, or it can match no frame.
    pub(super) fn add_for(&mut self, filter: Filter, share: u32) -> Result<(), FilterError> {
        filter.check()?;
        match self.filters.entry(filter) {
            Entry::Occupied(there) if there.get().has(share) => return Err(FilterError::Present { filter }),
            Entry::Occupied(mut there) => {
                let shares = there.get().with(share);
                there.insert(shares);
            }
            Entry::Vacant(place) => {
                place.insert(Shares::one(share));
                self.count(filter, |filters| filters + 1);
            }
        }
        Ok(())
    }

    /// Removes a filter, whoever has it.
    ///
    /// # Errors
    /// It is not there.
    pub fn remove(&mut self, filter: Filter) -> Result<(), FilterError> {
        if self.filters.remove(&filter).is_none() {
            return Err(FilterError::Missing { filter });
        }
        self.count(filter, |filters| filters - 1);
        Ok(())
    }

    /// Gives a filter that is there to these shares, or removes it.
    pub(super) fn give(&mut self, filter: Filter, to: Option<Shares>) {
        match (to, self.filters.get_mut(&filter)) {
            (Some(to), Some(shares)) => *shares = to,
            (None, Some(_)) => drop(self.remove(filter)),
            (_, None) => {}
        }
    }

    fn count(&mut self, filter: Filter, change: impl FnOnce(u32) -> u32) {
        let bit = filter.class_bit();
        let count = &mut self.filters_of_class[bit.trailing_zeros() as usize];
        *count = change(*count);
        self.classes = if *count == 0 { self.classes & !bit } else { self.classes | bit };
    }

    /// Whether it is there.
    #[must_use]
    pub fn contains(&self, filter: &Filter) -> bool {
        self.filters.contains_key(filter)
    }

    /// Who has it.
    pub(super) fn shares(&self, filter: &Filter) -> Option<Shares> {
        self.filters.get(filter).copied()
    }

    /// The filters, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Filter> {
        self.filters.keys()
    }

    /// Bits of the classes in use.
    pub(super) fn classes(&self) -> u32 {
        self.classes
    }

    /// Whether a filter matches this frame. `super::program` decides the same in the kernel.
    #[must_use]
    pub fn takes(&self, frame: &[u8]) -> bool {
        self.share_of(frame).is_some()
    }

    /// The number of the share that gets this frame: of those that have the filter which matches it first. `None`: no filter
    /// matches. `super::program` decides the same in the kernel.
    #[must_use]
    pub fn share_of(&self, frame: &[u8]) -> Option<u32> {
        if self.has_class(FRAME_CLASSES_FROM) {
            return self.shares(&Filter::Frame(super::FrameFilter::default())).map(Shares::first);
        }
        let (exact, packet) = headers::frame(frame)?;
        let of_class = |class: u8| {
            let shares = || self.shares(&Filter::Frame(exact.only(class)));
            self.has_class(FRAME_CLASSES_FROM + u32::from(class)).then(shares).flatten()
        };
        if let Some(shares) = (1..FRAME_CLASSES).find_map(of_class) {
            return Some(shares.first());
        }
        let packet = headers::packet(exact.ether_type?, packet)?;
        let of_class = |class: u8| {
            let filter = packet.flow.only(class);
            // To address 0 or port 0 it is the filter of another class, whose turn is later.
            let is_class = self.has_class(class.into()) && filter.class() == class;
            is_class.then(|| self.shares(&Filter::Flow(filter))).flatten()
        };
        FLOW_CLASSES.into_iter().find_map(of_class).map(|shares| shares.pick(packet.seed))
    }

    fn has_class(&self, class: u32) -> bool {
        self.classes & 1 << class != 0
    }
}
