//! Ports: something that sends and receives Ethernet frames.
//!
//! [`port::Port`] is the seam; [`ports`] has the kinds (AF_XDP, AF_PACKET, in-memory), [`capture`] and [`fault`] are
//! ports around ports, [`xdp`] makes and attaches the XDP programs, [`interface`] says what an interface can do.

pub mod capture;
pub mod error;
pub mod fault;
pub mod interface;
pub mod port;
pub mod ports;
pub mod xdp;

pub use error::PortError;
pub use port::{Port, PortStatistics, PreparedFrame};
