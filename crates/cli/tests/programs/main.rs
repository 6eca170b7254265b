//! Programs of others under `nearwire run`, at both ends of a cable and at one: what they do is what they do on the kernel.
//!
//! Which path the datagrams took is read from the kernel's own counters ([`Bed::assert_paths`]).

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod bed;
mod dns;
mod iperf;
mod languages;
mod memcached;
mod quic;
mod socat;
mod sockperf;
mod telephony;
mod time_service;
mod together;
mod tunnel;
