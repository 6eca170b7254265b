//! Packet formats: bytes to meaning and back, without I/O, allocation or clocks.
//!
//! * [`ethernet`]: the Ethernet II header with up to two VLAN tags;
//! * [`ipv4`], [`ipv6`], [`udp`], [`tcp`]: the headers the stack reads and writes, [`checksum`] what covers them;
//! * [`measuring`]: Nearwire's own frame, which the `frame/*` paths send and receive;
//! * [`MacAddress`]: the addresses of Ethernet.
//!
//! Everything that comes from the wire is hostile until parsed: any byte string gives a value or
//! an error, never a panic. Everything that goes to the wire can be parsed back to what was
//! written; one property test per format says so.
//!
//! A line `//= RFC 1122 3.2.1.2 MUST: ...` stands where a requirement is met, `//= test RFC 1122 3.2.1.2` above the test
//! that shows it; a test of `nearwire-stack` fails where the second is missing.

#![forbid(unsafe_code)]

pub mod checksum;
pub mod ethernet;
pub mod ipv4;
pub mod ipv6;
mod mac;
pub mod measuring;
pub mod tcp;
pub mod udp;

pub use mac::{MacAddress, MacAddressError};
