//! What the word of a destination port says: its bound flow, where there is one, and whether it has exact flows.
//!
//! There is a word for each port and family, in memory that the program reads and this process maps:
//!
//! ```text
//!   bits  0 to 16   the verdict for the only bound flow (`owner`)
//!   bit  23         there are exact flows with this local port
//!   bits 24 to 31   kind: 0 no bound flow with this port; 1 several, or one that does not fit here; else its protocol, 6 or 17
//!   bits 32 to 63   IPv4 address of the only bound flow, as in the packet; 0: a wildcard
//! ```
//!
//! The program reads a word by one load, and it is changed by one store, so a frame goes by the word before or by the one after. An IPv6
//! address does not fit: of IPv6 a wildcard can be the only bound flow.
//!
//! Invariant: a port's word never says less than the maps of flows: it is written after a filter is entered there, and again after it
//! left.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use nearwire_sys::shared_words::SharedWords;

use super::filter::{FLOW_PORT, Filter, FlowFilter};
use super::owner::VERDICT_BITS;

/// Ports there are of a family.
const PORTS: usize = 1 << 16;
/// Words there are: IPv4's, then IPv6's.
pub(super) const PORT_WORDS: usize = 2 * PORTS;
/// Length of a word, as a shift.
pub(super) const PORT_WORD_SHIFT: u32 = 3;
/// Where IPv6's begin, bytes.
pub(super) const PORTS_V6_BYTES: i32 = (PORTS << PORT_WORD_SHIFT) as i32;

pub(super) const PORT_VERDICT: u32 = (1 << VERDICT_BITS) - 1;
pub(super) const PORT_EXACT: u32 = 1 << 23;
pub(super) const PORT_KIND_AT: u32 = 24;
pub(super) const PORT_KIND_MASK: i32 = 0xff;
/// Kinds: the protocol of the only bound flow, or one of these.
const NONE: u64 = 0;
pub(super) const PORT_SEVERAL: u32 = 1;
const ADDRESS_AT: u32 = 32;

/// Where a flow's word is, if it has one.
pub(super) fn place_of(filter: &Filter) -> Option<usize> {
    let (address, port) = match filter {
        Filter::Flow(FlowFilter { port: 0, .. }) | Filter::Frame(_) => return None,
        Filter::Flow(flow) => (flow.address, flow.port),
        Filter::Exact(flow) => (flow.local, flow.local_port),
    };
    // Ports are numbered as they stand in packets.
    let port = usize::from(u16::from_ne_bytes(port.to_be_bytes()));
    Some(if address.is_ipv4() { port } else { PORTS + port })
}

/// Has the word leave the decision to the maps of flows.
pub(super) fn leave_undecided(words: &SharedWords, place: usize) {
    let undecided = |word| Some(word & u64::from(PORT_EXACT) | u64::from(PORT_SEVERAL) << PORT_KIND_AT);
    // Never refused: the closure always has an answer.
    let _ = words[place].fetch_update(Ordering::AcqRel, Ordering::Acquire, undecided);
}

/// The flows of each word.
#[derive(Debug, Default)]
pub(super) struct Ports {
    flows: HashMap<usize, PortFlows>,
}

#[derive(Debug, Default)]
struct PortFlows {
    bound: Vec<FlowFilter>,
    exact: u32,
}

impl Ports {
    /// Notes a filter that is in a map.
    pub(super) fn add(&mut self, filter: &Filter) {
        let Some(place) = place_of(filter) else { return };
        let flows = self.flows.entry(place).or_default();
        match filter {
            Filter::Flow(flow) => flows.bound.push(*flow),
            Filter::Exact(_) => flows.exact += 1,
            Filter::Frame(_) => {}
        }
    }

    /// Forgets it.
    pub(super) fn remove(&mut self, filter: &Filter) {
        let Some(place) = place_of(filter) else { return };
        let Some(flows) = self.flows.get_mut(&place) else { return };
        match filter {
            Filter::Flow(flow) => flows.bound.retain(|other| other != flow),
            Filter::Exact(_) => flows.exact -= 1,
            Filter::Frame(_) => {}
        }
        if flows.bound.is_empty() && flows.exact == 0 {
            self.flows.remove(&place);
        }
    }

    /// The word of a place, where `verdict` knows what is decided of a bound flow.
    pub(super) fn word(&self, place: usize, verdict: impl FnOnce(&FlowFilter) -> Option<u32>) -> u64 {
        let Some(PortFlows { bound, exact }) = self.flows.get(&place) else { return NONE };
        let several = u64::from(PORT_SEVERAL) << PORT_KIND_AT;
        let bound = match bound.as_slice() {
            [] => NONE,
            [flow] => only(flow).zip(verdict(flow)).map_or(several, |(word, verdict)| word | u64::from(verdict)),
            _ => several,
        };
        bound | if *exact == 0 { 0 } else { u64::from(PORT_EXACT) }
    }
}

/// What a word says of its only bound flow; `None`: the flow does not fit.
fn only(flow: &FlowFilter) -> Option<u64> {
    debug_assert!(flow.class() & FLOW_PORT != 0, "flows without a port have no word");
    let address = match flow.address {
        IpAddr::V4(address) => u32::from_ne_bytes(address.octets()),
        IpAddr::V6(address) if address.is_unspecified() => 0,
        IpAddr::V6(_) => return None,
    };
    Some(u64::from(address) << ADDRESS_AT | u64::from(flow.transport.number()) << PORT_KIND_AT)
}
