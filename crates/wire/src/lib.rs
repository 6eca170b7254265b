//! Packet formats: bytes to meaning and back, without I/O, allocation or clocks.
//!
//! * [`ethernet`]: the Ethernet II header with up to two VLAN tags;
//! * [`measuring`]: Nearwire's own frame, which the `frame/*` paths send and receive;
//! * [`MacAddress`]: the addresses of both.
//!
//! Everything that comes from the wire is hostile until parsed: any byte string gives a value or
//! an error, never a panic. Everything that goes to the wire can be parsed back to what was
//! written; one property test per format says so.

#![forbid(unsafe_code)]

pub mod ethernet;
mod mac;
pub mod measuring;

pub use mac::{MacAddress, MacAddressError};
