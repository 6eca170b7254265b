//! POSIX socket behaviour over the stack.
//!
//! A program's call, as the preload library makes it: the original call on the *shadow*, the real kernel socket behind
//! the program's fd, then what it meant is followed here ([`Sockets`]). Data calls are tried here first and say who
//! serves them: `Done`, or the kernel by the original call.
//!
//! * [`Sockets`] (`sockets.rs`): fds, the lives of sockets, who serves them and why;
//!   `sending.rs` sends (`send_run.rs`: what may wait for a common kick), `transfer.rs` receives and takes in what there
//!   is, `readiness.rs` says what poll(2) would;
//! * `handover.rs`: sockets that other processes have too, by fork, exec or a Unix socket; `requeue.rs` gives datagrams that
//!   wait back to the kernel;
//! * [`tcp`]: connections that are adopted from the kernel and released to it;
//! * [`engine`]: ports, stack, the kernel's tables, and the watch over everything that is not a frame;
//! * [`epoll`]: sets of accelerated sockets; `epoll_sets.rs` divides a program's set between the kernel and them;
//! * [`poll`]: poll(2) and select(2) over accelerated sockets and the kernel's descriptors;
//! * [`wait`]: how a call spins and then sleeps;
//! * [`kernel_tables`]: links, addresses, routes, neighbours and groups, by netlink;
//! * [`config`]: what the user chose: which sockets are accelerated, how they wait, on which interfaces; read from a file and
//!   from the environment by the same code.
//! * [`program`]: whether a program can be preloaded, by looking at its ELF file; [`preconditions`]: what the host and the
//!   process must have;
//! * [`reason`]: why a socket is not accelerated, in words; [`status`]: what a process tells about its sockets, for
//!   `nearwire status`; [`capture`]: its frames, for `nearwire capture`.

#![forbid(unsafe_code)]

mod bell;
pub mod capture;
pub mod config;
mod descendants;
pub mod direct;
pub mod engine;
mod engines;
pub mod epoll;
mod epoll_sets;
mod handover;
pub mod host;
mod id;
pub mod kept;
pub mod kernel_tables;
mod now;
mod overflow;
pub mod poll;
pub mod preconditions;
pub mod program;
mod readiness;
pub mod reason;
mod requeue;
mod send_run;
mod sending;
mod service;
mod sharing;
mod sleepers;
mod socket;
mod sockets;
pub mod status;
mod streams;
pub mod tcp;
mod tell;
mod transfer;
pub mod wait;

/// What the calls of this crate speak of.
pub use nearwire_stack::{Datagram, Family, Message, SourceFilter, TcpInfo};

pub use bell::{Bell, Woken};
pub use engines::{Component, ENGINES_MOST, FirstUse, Moved, Wish};
pub use epoll_sets::{AskKernel, Asked, Collected, Concerns, Control, Operation, plain};
pub use host::{AgentPid, Host, HostPort, Offloads, PortWanted, ThisHost};
pub use id::SocketId;
pub use kept::Ancillary;

pub use now::{Clocks, Now};
pub use reason::{Reason, Why};
pub use send_run::{Held, Sight};
pub use sending::{AfterSend, Send, Sender};
pub use sharing::{SharingAnswer, SharingQuestion};
pub use sleepers::set::EndOfSleep;
pub use sleepers::{Thread, WaitsFor};
pub use socket::ShadowSaid;
pub use sockets::Sockets;
pub use streams::{Adoption, Pace, StreamCall, StreamsDue, options_of_connection};
pub use transfer::{Delivery, News, Receive, SleepDescriptors};
