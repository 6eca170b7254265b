//! The decision in Rust.

use std::collections::HashSet;

use super::filter::{FRAME_CLASSES_FROM, Filter, FilterError};
use super::headers;

/// Classes of flow filters, and of frame filters.
const FLOW_CLASSES: u8 = 4;
const FRAME_CLASSES: u8 = 8;

/// Filters, and which classes of them there are.
#[derive(Debug, Clone, Default)]
pub struct FilterSet {
    filters: HashSet<Filter>,
    filters_of_class: [u32; (FLOW_CLASSES + FRAME_CLASSES) as usize],
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
        filter.check()?;
        if !self.filters.insert(filter) {
            return Err(FilterError::Present { filter });
        }
        self.count(filter, |filters| filters + 1);
        Ok(())
    }

    /// Removes a filter.
    ///
    /// # Errors
    /// It is not there.
    pub fn remove(&mut self, filter: Filter) -> Result<(), FilterError> {
        if !self.filters.remove(&filter) {
            return Err(FilterError::Missing { filter });
        }
        self.count(filter, |filters| filters - 1);
        Ok(())
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
        self.filters.contains(filter)
    }

    /// The filters, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Filter> {
        self.filters.iter()
    }

    /// Bits of the classes in use.
    pub(super) fn classes(&self) -> u32 {
        self.classes
    }

    /// Whether a filter matches this frame. `super::program` decides the same in the kernel.
    #[must_use]
    pub fn takes(&self, frame: &[u8]) -> bool {
        if self.has_class(FRAME_CLASSES_FROM) {
            return true;
        }
        let Some((exact, packet)) = headers::frame(frame) else { return false };
        let matches = |class: &u8| {
            self.has_class(FRAME_CLASSES_FROM + u32::from(*class)) && self.contains(&Filter::Frame(exact.only(*class)))
        };
        if (1..FRAME_CLASSES).any(|class| matches(&class)) {
            return true;
        }
        let Some(exact) = exact.ether_type.and_then(|ether_type| headers::flow(ether_type, packet)) else {
            return false;
        };
        (0..FLOW_CLASSES).any(|class| self.has_class(class.into()) && self.contains(&Filter::Flow(exact.only(class))))
    }

    fn has_class(&self, class: u32) -> bool {
        self.classes & 1 << class != 0
    }
}
