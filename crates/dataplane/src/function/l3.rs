//! A router of IPv4 and IPv6: longest prefix match, next hops, and the checks of RFC 1812 and RFC 8200.
//!
//! It forwards and does nothing else: it sends no ICMP errors, does not fragment, does not act on IP options, and asks nobody for link
//! addresses. What needs that is dropped with a cause, as the kernel or another router does it better.

mod checks;
mod fib;
mod kernel;
mod prefix_table;
mod routes;

use nearwire_wire::MacAddress;
use nearwire_wire::ethernet::{EtherType, UNTAGGED_HEADER_BYTES};
use nearwire_wire::ipv4::{HEADER_BYTES_MIN, Ipv4Header};
use nearwire_wire::ipv6::{HEADER_BYTES, Ipv6Header};

use super::{ADDRESS_BYTES, DropCause, Function, Rewrite, Verdict};
use fib::{Fib, Hop};

pub use kernel::{KernelView, kernel_view};
pub use routes::{Neighbours, Prefix, Routes, Target};

/// What a router knows of the interface behind a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// Its link address: frames to others are not the router's.
    pub mac: [u8; 6],
    /// Largest packet that it sends, bytes.
    pub mtu_bytes: u32,
}

/// Routes that no router can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouterError {
    /// A route leads to a port that is not there.
    #[error("route to {}/{} leads to port {port}; there are {ports} ports, counted from 0", prefix.address(), prefix.bits())]
    NoSuchPort {
        /// The route's prefix.
        prefix: Prefix,
        /// The port that it names.
        port: usize,
        /// How many ports there are.
        ports: usize,
    },
}

/// A router.
#[derive(Debug, Clone)]
pub struct Router {
    interfaces: Vec<Interface>,
    fib: Fib,
}

impl Router {
    /// A router with an interface for each port, in order. Neighbours that no route leads to are not used.
    ///
    /// # Errors
    /// A route names a port without an interface.
    pub fn new(interfaces: Vec<Interface>, routes: &Routes, neighbours: &Neighbours) -> Result<Router, RouterError> {
        let fib = checked_fib(&interfaces, routes, neighbours)?;
        Ok(Router { interfaces, fib })
    }

    /// Takes other routes and neighbours; not for the hot path, as all tables are built anew.
    ///
    /// # Errors
    /// As [`Router::new`]; the router is as before then.
    pub fn replace(&mut self, routes: &Routes, neighbours: &Neighbours) -> Result<(), RouterError> {
        self.fib = checked_fib(&self.interfaces, routes, neighbours)?;
        Ok(())
    }

    #[inline]
    fn route(&self, ingress: usize, frame: &[u8]) -> Result<Verdict, DropCause> {
        let interface = self.interfaces.get(ingress).ok_or(DropCause::NoSuchPort)?;
        let (header, packet) = frame.split_first_chunk::<UNTAGGED_HEADER_BYTES>().ok_or(DropCause::Runt)?;
        if header[..ADDRESS_BYTES] != interface.mac {
            // RFC 1812 section 5.3.4: what came to a group of the link is not forwarded.
            let is_group = header.first_chunk().is_some_and(|to| MacAddress(*to).is_group());
            return Err(if is_group { DropCause::LinkGroup } else { DropCause::OtherHost });
        }
        match EtherType(u16::from_be_bytes([header[12], header[13]])) {
            EtherType::IPV4 => self.route_v4(packet),
            EtherType::IPV6 => self.route_v6(packet),
            EtherType(0x8100 | 0x88a8) => Err(DropCause::Tagged),
            _ => Err(DropCause::NotIp),
        }
    }

    #[inline]
    fn route_v4(&self, packet: &[u8]) -> Result<Verdict, DropCause> {
        // RFC 1812 section 5.2.2: version, lengths, header checksum.
        let packet = Ipv4Header::parse(packet).map_err(checks::cause_v4)?;
        let header = packet.header;
        checks::addresses_v4(header.source, header.destination)?;
        if self.fib.is_no_source(header.source) {
            return Err(DropCause::MartianSource);
        }
        if !packet.options.is_empty() {
            checks::options(packet.options)?;
        }
        let total_bytes = HEADER_BYTES_MIN + packet.options.len() + packet.payload.len();
        let too_big = if header.dont_fragment { DropCause::TooBig } else { DropCause::WantsFragments };
        leave(self.fib.hop_v4(header.destination), header.ttl, total_bytes, too_big)
    }

    #[inline]
    fn route_v6(&self, packet: &[u8]) -> Result<Verdict, DropCause> {
        let (header, payload) = Ipv6Header::parse(packet).map_err(checks::cause_v6)?;
        checks::addresses_v6(header.source, header.destination)?;
        let total_bytes = HEADER_BYTES + payload.len();
        // RFC 8200 section 5: routers do not fragment.
        leave(self.fib.hop_v6(header.destination), header.hop_limit, total_bytes, DropCause::TooBig)
    }
}

#[inline]
fn leave(hop: Hop, hops_left: u8, total_bytes: usize, too_big: DropCause) -> Result<Verdict, DropCause> {
    match hop {
        // RFC 1812 section 5.3.1, RFC 8200 section 3: what would leave with 0 does not.
        Hop::Forward { .. } if hops_left <= 1 => Err(DropCause::TtlExpired),
        Hop::Forward { mtu_bytes, .. } if total_bytes > mtu_bytes => Err(too_big),
        Hop::Forward { egress, source, destination, .. } => {
            Ok(Verdict::Forward { egress, rewrite: Rewrite::Route { source, destination } })
        }
        Hop::Drop(cause) => Err(cause),
    }
}

fn checked_fib(interfaces: &[Interface], routes: &Routes, neighbours: &Neighbours) -> Result<Fib, RouterError> {
    let ports = interfaces.len();
    for (prefix, target) in routes.iter() {
        if let Some(port) = target.port().filter(|port| *port >= ports) {
            return Err(RouterError::NoSuchPort { prefix, port, ports });
        }
    }
    Ok(Fib::new(interfaces, routes, neighbours))
}

impl Function for Router {
    #[inline]
    fn judge(&mut self, _now_ns: u64, ingress: usize, frame: &[u8]) -> Verdict {
        self.route(ingress, frame).unwrap_or_else(Verdict::Drop)
    }
}

#[cfg(test)]
mod tests;
