//! What the word of a destination port says: the filters of an address and this port, where there is none or one.
//!
//! Invariant: a port's word never says less than the table of flows: it is written after a filter is entered there, and again
//! after it left.

use std::collections::HashMap;
use std::net::IpAddr;

use super::filter::{FLOW_ADDRESS, FLOW_PORT, FlowFilter};

/// Ports there are.
pub(super) const PORTS: u32 = 1 << 16;
/// Length of a word.
pub(super) const PORT_WORD_BYTES: u32 = 8;
/// Where its parts stand: the IPv4 address as in the packet, and the kind in the CPU's order.
pub(super) const PORT_WORD_ADDRESS: i16 = 0;
pub(super) const PORT_WORD_KIND: i16 = 4;
/// Kinds: the protocol of the only filter, or one of these.
pub(super) const PORT_EMPTY: u32 = 0;
pub(super) const PORT_SEVERAL: u32 = 0x100;

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
        (place(port), word([0; 4], PORT_SEVERAL))
    }

    /// Place and content of the word of a port.
    pub(super) fn word(&self, port: u16) -> ([u8; 4], [u8; PORT_WORD_BYTES as usize]) {
        let (address, kind) = match self.filters.get(&port).map(Vec::as_slice) {
            None => ([0; 4], PORT_EMPTY),
            Some([FlowFilter { transport, address: IpAddr::V4(address), .. }]) => {
                (address.octets(), u32::from(transport.number()))
            }
            Some(_) => ([0; 4], PORT_SEVERAL),
        };
        (place(port), word(address, kind))
    }
}

/// Ports are numbered in the map as they stand in packets.
fn place(port: u16) -> [u8; 4] {
    u32::from(u16::from_ne_bytes(port.to_be_bytes())).to_ne_bytes()
}

fn word(address: [u8; 4], kind: u32) -> [u8; PORT_WORD_BYTES as usize] {
    let mut word = [0; PORT_WORD_BYTES as usize];
    word[..4].copy_from_slice(&address);
    word[4..].copy_from_slice(&kind.to_ne_bytes());
    word
}
