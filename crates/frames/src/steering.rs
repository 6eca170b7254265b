//! Which frames a port takes from the kernel, chosen at run time: flows (protocol, local address, local port) and frames
//! (MAC address, EtherType, VLAN).
//!
//! The decision is written down twice: `set` in Rust, for ports whose frames come past no XDP program of ours and as
//! the model that tests hold the other one against, and `program` for the kernel, as an XDP program that looks filters
//! up in hash maps. Filters come and go in the maps while the program runs (`table`).
//!
//! ```text
//!   two tags at most  ->  does a frame filter match?  --yes--------------------------+
//!                              | no                                                  |
//!                         IPv4 without fragments, or IPv6 without extension headers, |
//!                         whole, with UDP or TCP?  --no--> the kernel's              |
//!                              | yes                                                 |
//!                         does a flow filter match? --no--> the kernel's             |
//!                              | yes                                                 |
//!                              +-----------------------------------------------------+--> the port's
//! ```
//!
//! A part of a filter that is left out matches everything. For each combination of given parts (a *class*) there is one
//! look-up with the other parts zero, made only while there is a filter of that class: the cost of a frame grows with the
//! number of classes in use, at most twelve, and not with the number of filters.
//!
//! A filter belongs to one or several *shares*, which are ports that receive from the same queues ([`crate::ports::xdp`]); where
//! nobody made any there is one, number 0. `shares` says which gets a frame.
//!
//! A frame that lies in several buffers shows the program the first one: what is looked at must be in it, and lengths are the kernel's word.
//!
//! Limits: a VLAN tag that the device took out of the frame (`ethtool -k IF`, rx-vlan-offload) is not seen, here as in
//! any XDP program; a flow filter takes the flow under any tags, and to any host when the interface is promiscuous or the
//! host is a router.

mod credits;
mod filter;
mod headers;
mod ports;
mod program;
mod set;
mod shares;
mod table;

pub(crate) use credits::{Counting, Credit, CreditWords};
pub use filter::{Filter, FilterError, FlowFilter, FrameFilter, Transport, VlanMatch};
pub use program::Capacity;
pub use set::FilterSet;
pub(crate) use shares::SHARE_BITS;
pub use shares::SHARES_MOST;
pub use table::SteeringTable;

#[cfg(test)]
mod tests;
