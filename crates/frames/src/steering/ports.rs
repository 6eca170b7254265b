//! What the word of a destination port says: the filters of an address and this port, where there is none or one.
//!
//! Invariant: a port's word never says less than the table of flows: it is written after a filter is entered there, and again
//! after it left.

use std::collections::HashMap;
use std::net::IpAddr;

use super::filter::{FLOW_ADDRESS, FLOW_PORT, FlowFilter};
use super::shares::{SHARES_BITS, Shares};

/// Ports there are.
pub(super) const PORTS: u32 = 1 << 16;
/// Length of a word.
pub(super) const PORT_WORD_BYTES: u32 = 8;
/// Where its parts stand: the IPv4 address as in the packet, then, in the CPU's order, the kind in the highest bits and below it
/// the shares that have the only filter.
pub(super) const PORT_WORD_ADDRESS: i16 = 0;
pub(super) const PORT_WORD_KIND_AND_SHARES: i16 = 4;
pub(super) const PORT_KIND_AT: u32 = SHARES_BITS;
/// Kinds: the protocol of the only filter, 17 or 6, or one of these.
pub(super) const PORT_EMPTY: u32 = 0;
pub(super) const PORT_SEVERAL: u32 = 1;

/// The filters of an address and a port, by port.
#[derive(Debug, Default)]
pub(super) struct Ports {
    filters: HashMap<u16, Vec<FlowFilter>>,
}

impl Ports {
    /// Notes a filter that is in the table. Of other classes nothing is noted.
    pub(super) fn add(&mut self, flow: FlowFilter) {
        if flow.class() == FLOW_ADDRESS | FLOW_PORT {
            self.filters.entry(flow.port).or_default().push(flow);
        }
    }

    /// Forgets it.
    pub(super) fn remove(&mut self, flow: FlowFilter) {
        let Some(filters) = self.filters.get_mut(&flow.port) else { return };
        filters.retain(|other| *other != flow);
        if filters.is_empty() {
            self.filters.remove(&flow.port);
        }
    }

    /// Place and content of a port's word that leaves the decision to the table of flows.
    pub(super) fn undecided(port: u16) -> ([u8; 4], [u8; PORT_WORD_BYTES as usize]) {
        (place(port), word([0; 4], PORT_SEVERAL, 0))
    }

    /// Place and content of the word of a port, where `shares` knows who has a filter.
    pub(super) fn word(
        &self,
        port: u16,
        shares: impl FnOnce(&FlowFilter) -> Option<Shares>,
    ) -> ([u8; 4], [u8; PORT_WORD_BYTES as usize]) {
        let word = match self.filters.get(&port).map(Vec::as_slice) {
            None => word([0; 4], PORT_EMPTY, 0),
            Some([flow @ FlowFilter { transport, address: IpAddr::V4(address), .. }]) => match shares(flow) {
                Some(shares) => word(address.octets(), transport.number().into(), shares.word()),
                None => word([0; 4], PORT_SEVERAL, 0),
            },
            Some(_) => word([0; 4], PORT_SEVERAL, 0),
        };
        (place(port), word)
    }
}

/// Ports are numbered in the map as they stand in packets.
fn place(port: u16) -> [u8; 4] {
    u32::from(u16::from_ne_bytes(port.to_be_bytes())).to_ne_bytes()
}

fn word(address: [u8; 4], kind: u32, shares: u32) -> [u8; PORT_WORD_BYTES as usize] {
    let mut word = [0; PORT_WORD_BYTES as usize];
    word[..4].copy_from_slice(&address);
    word[4..].copy_from_slice(&(kind << PORT_KIND_AT | shares).to_ne_bytes());
    word
}
