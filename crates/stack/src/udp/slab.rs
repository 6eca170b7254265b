//! Endpoints by number.

use std::collections::BTreeSet;

use super::endpoint::{Endpoint, EndpointId, Key};

/// Endpoints by number, and which numbers are on which local port.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    endpoints: Vec<Option<Endpoint>>,
    versions: Vec<u32>,
    free: Vec<u32>,
    /// (local port, number): bind and close only.
    by_port: BTreeSet<(u16, u32)>,
}

impl Slab {
    pub(crate) fn insert(&mut self, make: impl FnOnce(u32) -> Endpoint) -> EndpointId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.endpoints.push(None);
            self.versions.push(0);
            (self.endpoints.len() - 1) as u32
        });
        let version = self.versions[index as usize];
        self.endpoints[index as usize] = Some(make(version));
        EndpointId { index, version }
    }

    pub(crate) fn remove(&mut self, id: EndpointId) -> Option<Endpoint> {
        self.get(id)?;
        let endpoint = self.endpoints[id.index as usize].take()?;
        self.by_port.remove(&(endpoint.key.local_port, id.index));
        self.versions[id.index as usize] = id.version.wrapping_add(1);
        self.free.push(id.index);
        Some(endpoint)
    }

    /// Says that the endpoint is on a port now; 0: on none.
    pub(crate) fn moved_to_port(&mut self, index: u32, from: u16, to: u16) {
        self.by_port.remove(&(from, index));
        if to != 0 {
            self.by_port.insert((to, index));
        }
    }

    pub(crate) fn on_port(&self, port: u16) -> impl Iterator<Item = u32> {
        self.by_port.range((port, 0)..=(port, u32::MAX)).map(|(_, index)| *index)
    }

    #[inline]
    pub(crate) fn get(&self, id: EndpointId) -> Option<&Endpoint> {
        self.at(id.index).filter(|endpoint| endpoint.version == id.version)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: EndpointId) -> Option<&mut Endpoint> {
        self.at_mut(id.index).filter(|endpoint| endpoint.version == id.version)
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> Option<&Endpoint> {
        self.endpoints.get(index as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut Endpoint> {
        self.endpoints.get_mut(index as usize)?.as_mut()
    }

    #[inline]
    pub(crate) fn key(&self, index: u32) -> Option<&Key> {
        self.at(index).map(|endpoint| &endpoint.key)
    }

    pub(crate) fn len(&self) -> usize {
        self.endpoints.len()
    }
}
