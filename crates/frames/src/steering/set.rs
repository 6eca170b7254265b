//! The decision in Rust.

use std::collections::HashMap;

use super::filter::{EXACT_CLASS, FLOW_ADDRESS, FLOW_PORT, FRAME_CLASSES_FROM, Filter, FilterError};
use super::group::Owners;
use super::headers;
use super::owner::Owner;

/// Classes of flow filters in the order in which they are asked, the most exact first.
pub(super) const FLOW_CLASSES: [u8; 4] = [FLOW_ADDRESS | FLOW_PORT, FLOW_ADDRESS, FLOW_PORT, 0];
/// Classes of frame filters.
const FRAME_CLASSES: u8 = 8;
/// Classes there are.
const CLASSES: usize = EXACT_CLASS as usize + 1;

/// Filters, who owns what they match, and which classes of them there are.
#[derive(Debug, Clone, Default)]
pub struct FilterSet {
    filters: HashMap<Filter, Owners>,
    filters_of_class: [u32; CLASSES],
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
        self.add_for(filter, Owner::Share(0))
    }

    /// Adds a filter, or one owner more to a filter that is there.
    ///
    /// # Errors
    /// The owner has it already; or it is an exact flow, which has one owner, and another has it; or it can match no frame.
    pub fn add_for(&mut self, filter: Filter, owner: Owner) -> Result<(), FilterError> {
        let owners = self.with(filter, owner)?;
        self.give(filter, Some(owners));
        Ok(())
    }

    /// The owners of a filter, with one more.
    pub(super) fn with(&self, filter: Filter, owner: Owner) -> Result<Owners, FilterError> {
        filter.check()?;
        match self.filters.get(&filter) {
            None => Ok(Owners::One(owner)),
            Some(owners) if matches!(filter, Filter::Exact(_)) || owners.has(owner) => {
                Err(FilterError::Present { filter })
            }
            Some(owners) => Ok(owners.clone().with(owner)),
        }
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

    /// Takes a filter from an owner: what it matches is the other owners', or nobody's.
    ///
    /// # Errors
    /// The owner does not have it.
    pub fn remove_for(&mut self, filter: Filter, owner: Owner) -> Result<(), FilterError> {
        let rest = self.owned(filter, owner)?.without(owner);
        self.give(filter, rest);
        Ok(())
    }

    /// Gives what one owner has of a filter to another. Where the other has the filter already, the one only loses it.
    ///
    /// # Errors
    /// The owner does not have it.
    pub fn move_for(&mut self, filter: Filter, from: Owner, to: Owner) -> Result<(), FilterError> {
        let moved = self.owned(filter, from)?.moved(from, to);
        self.give(filter, Some(moved));
        Ok(())
    }

    /// The owners of a filter, of which this is one.
    pub(super) fn owned(&self, filter: Filter, owner: Owner) -> Result<Owners, FilterError> {
        let owners = self.owners(&filter).filter(|owners| owners.has(owner));
        owners.cloned().ok_or(FilterError::Missing { filter })
    }

    /// Gives a filter to these owners, or removes it.
    pub(super) fn give(&mut self, filter: Filter, to: Option<Owners>) {
        let was_there = match to {
            Some(to) => self.filters.insert(filter, to).is_some(),
            None => return drop(self.remove(filter)),
        };
        if !was_there {
            self.count(filter, |filters| filters + 1);
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

    /// Who owns what it matches.
    pub(super) fn owners(&self, filter: &Filter) -> Option<&Owners> {
        self.filters.get(filter)
    }

    /// The filters, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Filter> {
        self.filters.keys()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Bits of the classes in use.
    pub(super) fn classes(&self) -> u32 {
        self.classes
    }

    /// Whether a share gets this frame.
    #[must_use]
    pub fn takes(&self, frame: &[u8]) -> bool {
        matches!(self.verdict(frame), Owner::Share(_))
    }

    /// Who gets this frame: the owner by the filter that matches it first, or the kernel. `super::program` decides the same in the kernel.
    #[must_use]
    pub fn verdict(&self, frame: &[u8]) -> Owner {
        let owner = if self.has_class(FRAME_CLASSES_FROM) {
            self.owners(&Filter::Frame(super::FrameFilter::default())).map(Owners::first)
        } else {
            self.decided(frame)
        };
        // Whether one was heard is the maps' to know.
        owner.filter(|owner| *owner != Owner::Unheard).unwrap_or(Owner::Kernel)
    }

    /// `None`: no filter matches.
    fn decided(&self, frame: &[u8]) -> Option<Owner> {
        let (exact, packet) = headers::frame(frame)?;
        let of_class = |class: u8| {
            let owners = || self.owners(&Filter::Frame(exact.only(class)));
            self.has_class(FRAME_CLASSES_FROM + u32::from(class)).then(owners).flatten()
        };
        if let Some(owners) = (1..FRAME_CLASSES).find_map(of_class) {
            return Some(owners.first());
        }
        let packet = headers::packet(exact.ether_type?, packet)?;
        if let Some(owners) = self.owners(&Filter::Exact(packet.exact)) {
            return Some(owners.first());
        }
        let of_class = |class: u8| {
            let filter = packet.flow.only(class);
            // To address 0 or port 0 it is the filter of another class, whose turn is later.
            let is_class = self.has_class(class.into()) && filter.class() == class;
            is_class.then(|| self.owners(&Filter::Flow(filter))).flatten()
        };
        FLOW_CLASSES.into_iter().find_map(of_class).map(|owners| owners.pick(packet.seed))
    }

    fn has_class(&self, class: u32) -> bool {
        self.classes & 1 << class != 0
    }
}
