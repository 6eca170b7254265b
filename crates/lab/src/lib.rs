//! Cables and other test beds. A cable has two ends that face each other, each in a network
//! namespace of its own.
//!
//! - [`VirtualCable`]: a veth pair (or two) between two anonymous namespaces, laid in milliseconds.
//! - [`LoopbackCable`]: two interfaces of this host moved into two anonymous namespaces, so that
//!   traffic between them must cross the wire. [`GuardedCable`] is the same in the care of another
//!   process, which puts the interfaces back also after `kill -9`.
//! - [`VirtualChain`]: namespaces in a row, with devices under test in the middle; [`join_by_bridge`] and
//!   [`route_in_kernel`] make the kernel of such a namespace a device.
//! - [`emulated_host`]: a whole host in software emulation, for tests of tuning, reboot and crash; also a guest whose NICs are
//!   joined to an end of a cable ([`join_by_bridge`], [`give_away_addresses`]).
//! - Two hosts need no cable from here: [`route_to`] tells which interface leads to the other one.
//! - [`host_tree`]: hosts that are only described, for tests of what is read from a host.
//!
//! Namespaces are anonymous: only descriptors hold them. When the process ends, also by
//! `kill -9`, the kernel removes them with everything that was made inside and sends hardware
//! interfaces back to the initial namespace.
#![forbid(unsafe_code)]

mod addresses;
mod cable;
pub mod emulated_host;
mod error;
mod forwarding_tables;
mod guarded_cable;
mod host_bridge;
pub mod host_tree;
mod interface;
mod kernel_device;
mod links;
mod loopback_cable;
mod namespace;
mod netlink;
mod program;
mod route;
mod skip;
mod virtual_cable;
mod virtual_chain;

pub use cable::{Cable, CableEnd, CablePair};
pub use emulated_host::EmulatedHost;
pub use error::{LabError, LabErrorKind};
pub use forwarding_tables::{ForwardingTables, NeighbourEntry, RouteEntry, RouteHop, RouteKind, forwarding_tables};
pub use guarded_cable::{GuardedCable, guard};
pub use host_bridge::{give_away_addresses, join_by_bridge};
pub use interface::{InterfaceFacts, interface_facts, interfaces};
pub use kernel_device::{KernelRoute, add_routes, receive_on_cpus, route_in_kernel};
pub use loopback_cable::{LoopbackCable, LoopbackCableOptions};
pub use namespace::Namespace;
pub use program::program_under_test;
pub use route::{RouteFacts, interfaces_of_default_routes, neighbour_mac, route_to};
pub use skip::{emulated_or_skip, made_or_skip};
pub use virtual_cable::{VirtualCable, VirtualCableOptions};
pub use virtual_chain::VirtualChain;
