//! Ports: something that sends and receives Ethernet frames.
//!
//! [`port::Port`] is the seam; [`ports`] has the kinds (AF_XDP, AF_PACKET, in-memory), [`capture`] and [`fault`] are
//! ports around ports, [`steering`] decides which frames are a port's, [`xdp`] makes and attaches the XDP programs,
//! [`raw`] is what raw-frame programs need beyond a port, [`engine_port`] what an engine of sockets needs, [`interface`] says what an interface can do.

pub mod capture;
pub mod engine_port;
pub mod error;
pub mod fault;
pub mod interface;
pub mod port;
pub mod ports;
pub mod raw;
pub mod steered;
pub mod steering;
pub mod xdp;

#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod test_cable;

pub use engine_port::{EnginePort, FlowSocket, PortAbout, PortFilters, PortKick, RevokedFlow};
pub use error::PortError;
pub use port::{Port, PortStatistics, PreparedFrame};
pub use raw::{LentFrame, RawPort, Stamp, TimeSource};
