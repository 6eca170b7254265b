//! Who gets a frame, decided at run time: by frame filters (MAC address, EtherType, VLAN), by exact flows (protocol, both addresses and
//! ports) and by bound flows (protocol, local address or wildcard, local port).
//!
//! The decision is written down twice: `set` in Rust, for ports whose frames come past no XDP program of ours and as
//! the model that tests hold the other one against, and `program` for the kernel, as an XDP program that looks at maps. Filters come
//! and go in the maps while the program runs (`table`).
//!
//! ```text
//!   two tags at most  ->  does a frame filter match?  --yes---------------------------+
//!                              | no                                                   |
//!                         IPv4 without fragments, or IPv6 without extension headers,  |
//!                         whole, with UDP or TCP?  --no--> the kernel                 |
//!                              | yes                                                  |
//!                         is the exact flow there?  --yes-----------------------------+
//!                              | no                                                   |
//!                         does a bound flow match?  --yes--> one of its owners, by    |
//!                              | no                          a hash of the source     |
//!                              v                                     |                v
//!                         the kernel                                 +--------> its owner: a share,
//!                                                                               the kernel, or nobody
//! ```
//!
//! An [`Owner`] is a *share* (one of the ports that receive from the same queues, [`crate::ports::xdp`]; where nobody made any there is one,
//! number 0), the kernel, or nobody, for which the frame is dropped. An exact flow may say the kernel although its bound flow says a
//! share. `owner` has the numbers by which maps say it, `group` chooses among several owners.
//!
//! A word for each destination port says its only bound flow and whether there are exact flows (`ports`): most frames are decided by it,
//! without a hash. Where the port has several bound flows, or one of an IPv6 address, they are looked up. A part of a filter that is left
//! out matches everything. For each combination of given parts (a *class*) there is one look-up with the other parts zero, made only while
//! there is a filter of that class: the cost of a frame grows with the number of classes in use and not with the number of filters.
//!
//! A frame that lies in several buffers shows the program the first one: what is looked at must be in it, and lengths are the kernel's word.
//!
//! Limits: a VLAN tag that the device took out of the frame (`ethtool -k IF`, rx-vlan-offload) is not seen, unless the driver tells it (`xdp::tags`,
//! for ports of sockets); a flow filter takes the flow under any tags, and to any host when the interface is promiscuous or the
//! host is a router. The kernel gives the memory of an entry of a hash map that was replaced or removed to the next entry at once
//! (`kernel/bpf/memalloc.c`): a program that found the old entry some nanoseconds before may read the verdict of another flow that is added
//! just then, for one frame. Words of ports and slots of groups have no such moment.

mod credits;
mod filter;
mod group;
mod groups;
mod headers;
mod owner;
mod ports;
mod program;
mod set;
mod table;
mod words;

pub(crate) use credits::{Counting, Credit, CreditWords};
pub use filter::{ExactFlow, Filter, FilterError, FlowFilter, FrameFilter, Transport, VlanMatch};
pub use owner::{Owner, SHARES_MOST};
pub use program::Capacity;
pub use set::FilterSet;
pub use table::SteeringTable;

#[cfg(test)]
mod tests;
