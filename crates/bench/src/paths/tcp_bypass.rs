//! `tcp/bypass`: TCP by this project's stack over AF_XDP, for a connection that the kernel made.
//!
//! The journey of an end:
//!
//! 1. *Open*: a TCP socket of the kernel, the *shadow*, is bound; the responder's listens. A port (`frames`) is opened that takes nothing.
//! 2. *Connect*: the kernel makes the connection. An exact flow has its frames come to the port, the kernel's side is frozen and parked, and
//!    the stack carries the connection (`nearwire_socket::tcp`).
//! 3. *Send*: the stack writes headers, checksum and a segment of the message into a buffer of the port; one kick.
//! 4. *Receive*: the stack looks at a frame where it lies, and what it carries is copied to the connection's buffer, and from there.
//! 5. *End*: the connection is released to the kernel, which closes it. Where the far end has closed it already, the stack does.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use nearwire_frames::PortError;
use nearwire_frames::port::Port;
use nearwire_frames::steering::{ExactFlow, Filter, Transport};
use nearwire_socket::tcp::Carried;
use nearwire_socket::tcp::carrier::Carrier;
use nearwire_stack::{TcpCallError, TcpOptions};
use rustix::net::getsockname;

use super::bypass::{CableLink, FlowPort, Station};
use super::frame::port_remarks;
use super::socket::{POLLS_PER_CLOCK_READ, join, open_socket};
use super::{EndAddress, LocalEnd, Path, PathError, Role, Setup};
use crate::endpoint::{Arrival, Deadline, Endpoint, EndpointError, Remark};

/// An end that has its port and a socket that is not connected yet.
pub struct TcpBypassPath<P> {
    port: P,
    shadow: OwnedFd,
    own: Station,
    link: CableLink,
    peer: IpAddr,
    setup: Setup,
    role: Role,
}

impl<P: FlowPort> Path for TcpBypassPath<P> {
    type Endpoint = TcpBypassEndpoint<P>;

    fn open(setup: &Setup, local: &LocalEnd) -> Result<TcpBypassPath<P>, PathError> {
        let (own, peer) = local.addresses(setup.ip_version)?;
        let interface = local.interface()?;
        let (shadow, address) = open_socket(setup, local.role, own)?;
        Ok(TcpBypassPath {
            port: P::open_to_steer(setup, local)?,
            shadow,
            own: Station { address, mac: interface.mac },
            link: CableLink::of(interface)?,
            peer,
            setup: setup.clone(),
            role: local.role,
        })
    }

    fn address(&self) -> EndAddress {
        EndAddress { port: Some(self.own.address.port()), mac: Some(self.own.mac) }
    }

    fn connect(self, peer: &EndAddress) -> Result<TcpBypassEndpoint<P>, PathError> {
        let port = peer.port.ok_or(PathError::NoPeerAddress { missing: "port" })?;
        let mac = peer.mac.ok_or(PathError::NoPeerAddress { missing: "hardware address" })?;
        let peer = Station { address: SocketAddr::new(self.peer, port), mac };
        let shadow = join(self.shadow, &self.setup, self.role, peer.address)?;
        let own = getsockname(&shadow).and_then(SocketAddr::try_from);
        let own = Station { address: own.map_err(PathError::io("read the socket's own address"))?, ..self.own };
        let (stack, attached) = self.link.stack(u64::from(self.setup.token), own, peer);
        // The kernel makes and ends connections, and on a virtual cable leaves sums to a card.
        let way = Way { carrier: Carrier::new(stack, attached, self.link.is_virtual), port: self.port };
        TcpBypassEndpoint::adopt(way, shadow, [own, peer], self.setup.size_bytes as usize)
    }
}

/// A port under a stack.
struct Way<P> {
    carrier: Carrier,
    port: P,
}

impl<P: Port> Way<P> {
    #[inline]
    fn look(&mut self) -> Result<bool, PortError> {
        self.carrier.look(&mut self.port)
    }

    #[inline]
    fn transmit(&mut self, now_ns: u64) -> Result<(), PortError> {
        self.carrier.transmit(&mut self.port, now_ns)
    }
}

/// A connected end, which the stack carries.
pub struct TcpBypassEndpoint<P: FlowPort> {
    way: Way<P>,
    /// `None`: it is at its end.
    carried: Option<Carried>,
    flow: Filter,
    shadow: OwnedFd,
    message: Vec<u8>,
    /// Of a message that is written in part.
    written_bytes: usize,
    buffer: Vec<u8>,
    filled_bytes: usize,
    /// Looks that found nothing.
    empty_looks: u32,
}

impl<P: FlowPort> TcpBypassEndpoint<P> {
    fn adopt(
        mut way: Way<P>,
        shadow: OwnedFd,
        [own, peer]: [Station; 2],
        size_bytes: usize,
    ) -> Result<TcpBypassEndpoint<P>, PathError> {
        let flow = Filter::Exact(ExactFlow::between(Transport::Tcp, own.address, peer.address));
        way.port.take(flow)?;
        let options = TcpOptions { no_delay: true, ..TcpOptions::default() };
        let now_ns = way.carrier.now_ns();
        let carried = Carried::adopt(&shadow, &mut way.carrier.stack, options, now_ns)?;
        let (message, buffer) = (vec![0x5a; size_bytes], vec![0; size_bytes]);
        Ok(TcpBypassEndpoint {
            way,
            carried: Some(carried),
            flow,
            shadow,
            message,
            written_bytes: 0,
            buffer,
            filled_bytes: 0,
            empty_looks: 0,
        })
    }

    fn number_bytes(&self) -> usize {
        self.message.len().min(8)
    }

    /// Reads what the connection has towards a message, which this gives when it is whole.
    #[inline]
    fn read(&mut self) -> Result<Option<Arrival>, EndpointError> {
        let Some(carried) = &self.carried else { return Err(EndpointError::Closed) };
        match self.way.carrier.stack.tcp_read(carried.id(), &mut self.buffer[self.filled_bytes..]) {
            Ok(0) => return Err(EndpointError::Closed),
            Ok(bytes) => self.filled_bytes += bytes,
            Err(TcpCallError::WouldBlock) => return Ok(None),
            Err(_) => return Err(EndpointError::Closed),
        }
        if self.filled_bytes < self.buffer.len() {
            return Ok(None);
        }
        self.filled_bytes = 0;
        let mut number = [0; 8];
        let n = self.number_bytes();
        number[..n].copy_from_slice(&self.buffer[..n]);
        Ok(Some(Arrival::Message(u64::from_le_bytes(number))))
    }

    /// Looks at the port once. `None`: nothing came; `Some(None)`: what came makes no message whole.
    #[inline]
    fn look(&mut self) -> Result<Option<Option<Arrival>>, EndpointError> {
        if !self.way.look()? {
            return Ok(None);
        }
        let arrival = self.read()?;
        if arrival.is_none() {
            // Of a message in many segments: acknowledgements are due, or the window was opened.
            let now_ns = self.way.carrier.now_ns();
            self.way.transmit(now_ns)?;
        }
        Ok(Some(arrival))
    }

    /// Timers, and what they find: the stack may have no way to send.
    #[cold]
    fn see_to_timers(&mut self) -> Result<(), EndpointError> {
        let now_ns = self.way.carrier.now_ns();
        self.way.transmit(now_ns)?;
        let carried = self.carried.as_ref().ok_or(EndpointError::Closed)?;
        match self.way.carrier.stack.tcp_readiness(carried.id()).and_then(|readiness| readiness.stuck) {
            Some(reason) => Err(EndpointError::needs_kernel(reason)),
            None => Ok(()),
        }
    }
}

impl<P: FlowPort> Endpoint for TcpBypassEndpoint<P> {
    #[inline]
    fn send(&mut self, sequence: u64) -> Result<bool, EndpointError> {
        while !self.try_send(sequence)? {
            self.see_to_timers()?;
            self.way.look()?;
        }
        Ok(true)
    }

    #[inline]
    fn try_send(&mut self, sequence: u64) -> Result<bool, EndpointError> {
        if self.written_bytes == 0 {
            let n = self.number_bytes();
            self.message[..n].copy_from_slice(&sequence.to_le_bytes()[..n]);
        }
        let now_ns = self.way.carrier.now_ns();
        let carried = self.carried.as_ref().ok_or(EndpointError::Closed)?;
        match self.way.carrier.stack.tcp_write(carried.id(), now_ns, &self.message[self.written_bytes..], false) {
            Ok(bytes) => self.written_bytes += bytes,
            Err(TcpCallError::WouldBlock) => return Ok(false),
            Err(_) => return Err(EndpointError::Closed),
        }
        self.way.transmit(now_ns)?;
        if self.written_bytes < self.message.len() {
            return Ok(false);
        }
        self.written_bytes = 0;
        Ok(true)
    }

    #[inline]
    fn try_receive(&mut self) -> Result<Option<Arrival>, EndpointError> {
        // What came together with the last one.
        if let Some(arrival) = self.read()? {
            return Ok(Some(arrival));
        }
        if let Some(found) = self.look()? {
            return Ok(found);
        }
        self.empty_looks = self.empty_looks.wrapping_add(1);
        if self.empty_looks.is_multiple_of(POLLS_PER_CLOCK_READ) {
            self.see_to_timers()?;
        }
        Ok(None)
    }

    #[inline]
    fn receive(&mut self, deadline: &Deadline) -> Result<Option<Arrival>, EndpointError> {
        // What came together with the last one.
        if let Some(arrival) = self.read()? {
            return Ok(Some(arrival));
        }
        let mut polls = 0_u32;
        loop {
            match self.look()? {
                Some(Some(arrival)) => return Ok(Some(arrival)),
                Some(None) => continue,
                None => {}
            }
            polls += 1;
            if polls.is_multiple_of(POLLS_PER_CLOCK_READ) {
                if deadline.passed() {
                    return Ok(None);
                }
                self.see_to_timers()?;
            }
        }
    }

    fn is_reliable(&self) -> bool {
        true
    }

    fn sequence_bits(&self) -> u32 {
        self.number_bytes() as u32 * 8
    }

    fn remarks(&self) -> Vec<Remark> {
        port_remarks(&self.way.port)
    }
}

impl<P: FlowPort> Drop for TcpBypassEndpoint<P> {
    fn drop(&mut self) {
        let Some(carried) = self.carried.take() else { return };
        let Way { carrier, port } = &mut self.way;
        let now_ns = carrier.now_ns();
        // One that is neither's now is closed with its socket, and the far end hears of that when it next sends.
        if let Err((_, Some(carried))) = carried.release(&self.shadow, &mut carrier.stack, now_ns) {
            carrier.close(port, carried.id());
        }
        let _ = port.leave(self.flow);
    }
}
