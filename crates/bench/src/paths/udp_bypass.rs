//! `udp/bypass`: UDP by this project's stack over AF_XDP; the kernel only moves frames.
//!
//! The journey of an end:
//!
//! 1. *Open*: a UDP socket of the kernel, the *shadow*, is bound; so the port is free for us, and taken for others. A port
//!    (`frames`) with a filter for the shadow's address takes what would come to it. All else stays the kernel's.
//! 2. *Connect*: the stack is told what this end knows of the cable: link, own address, route, the peer's hardware address.
//! 3. *Send*: the stack writes headers, checksum and message into a buffer of the port; one kick.
//! 4. *Receive*: the stack looks at a frame where it lies, checks it from Ethernet to UDP and lends the message.
//!
//! Checksums are computed and verified in full: both ends are ours, nobody leaves a sum to a card.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use nearwire_frames::PortError;
use nearwire_frames::port::Port;
use nearwire_frames::steering::{Filter, FlowFilter, Transport};
use nearwire_stack::{Dropped, EndpointId, Family, Message, PortId, ReceiveChecksum, Stack, Take, UdpOptions, Verdict};

use super::bypass::{CableLink, FlowPort, Station};
use super::frame::{attempt, poll, port_remarks};
use super::{EndAddress, LocalEnd, Path, PathError, Setup};
use crate::endpoint::{Arrival, Deadline, Endpoint, EndpointError, Remark, while_room};

/// An end that has its addresses and its port, and does not know its peer's yet.
pub struct UdpBypassPath<P> {
    port: P,
    shadow: UdpSocket,
    own: Station,
    link: CableLink,
    peer: IpAddr,
    size_bytes: usize,
    secret: u64,
    patience: Duration,
}

impl<P: FlowPort> Path for UdpBypassPath<P> {
    type Endpoint = UdpBypassEndpoint<P>;

    fn open(setup: &Setup, local: &LocalEnd) -> Result<UdpBypassPath<P>, PathError> {
        let (own, peer) = local.addresses(setup.ip_version)?;
        let interface = local.interface()?;
        let bound = SocketAddr::new(own, 0);
        let shadow = UdpSocket::bind(bound).map_err(PathError::io(format!("bind {} to {bound}", setup.path)))?;
        let address = shadow.local_addr().map_err(PathError::io("read the socket's own address"))?;
        let mut port = P::open_to_steer(setup, local)?;
        let flow = FlowFilter { transport: Transport::Udp, address: address.ip(), port: address.port() };
        port.take(Filter::Flow(flow))?;
        Ok(UdpBypassPath {
            port,
            shadow,
            own: Station { address, mac: interface.mac },
            link: CableLink::of(interface)?,
            peer,
            size_bytes: setup.size_bytes as usize,
            secret: u64::from(setup.token),
            patience: Duration::from_nanos(setup.timeout_ns),
        })
    }

    fn address(&self) -> EndAddress {
        EndAddress { port: Some(self.own.address.port()), mac: Some(self.own.mac) }
    }

    fn connect(self, peer: &EndAddress) -> Result<UdpBypassEndpoint<P>, PathError> {
        let port = peer.port.ok_or(PathError::NoPeerAddress { missing: "port" })?;
        let mac = peer.mac.ok_or(PathError::NoPeerAddress { missing: "hardware address" })?;
        let peer = Station { address: SocketAddr::new(self.peer, port), mac };
        let connecting = PathError::io(format!("connect udp/bypass to {}", peer.address));
        self.shadow.connect(peer.address).map_err(connecting)?;
        let stack = ConnectedStack::new(self.secret, self.link, self.own, peer)?;
        UdpBypassEndpoint::new(self.port, stack, self.shadow, self.size_bytes, self.patience)
    }
}

/// A stack that knows one cable, with one endpoint on it.
struct ConnectedStack {
    stack: Stack,
    attached: PortId,
    endpoint: EndpointId,
}

impl ConnectedStack {
    fn new(secret: u64, link: CableLink, own: Station, peer: Station) -> Result<ConnectedStack, PathError> {
        let (mut stack, attached) = link.stack(secret, own, peer);
        let family = if own.address.is_ipv4() { Family::V4 } else { Family::V6 };
        let endpoint = stack.udp_open(family, UdpOptions::default());
        stack.udp_bind(endpoint, own.address)?;
        stack.udp_connect(endpoint, peer.address, Some(own.address.ip()))?;
        Ok(ConnectedStack { stack, attached, endpoint })
    }

    /// Takes a frame in; `None`: it says nothing of a message of ours.
    #[inline]
    fn judge(&mut self, frame: &[u8], size_bytes: usize) -> Option<Arrival> {
        let arrival = nearwire_stack::Arrival {
            port: self.attached,
            frame,
            received_ns: 0,
            device_ns: 0,
            checksum: ReceiveChecksum::Verify,
        };
        let mut found = None;
        let verdict = self.stack.receive(&arrival, |_, datagram| {
            found = Some(read_message(datagram.payload, size_bytes));
            Take::Consumed
        });
        match verdict {
            Verdict::Delivered { .. } => found,
            Verdict::Dropped(
                Dropped::InHdrErrors | Dropped::InTruncatedPkts | Dropped::InErrors | Dropped::InCsumErrors,
            ) => Some(Arrival::Corrupt),
            Verdict::Segment { .. } | Verdict::Ending { .. } | Verdict::Dropped(_) | Verdict::NotOurs(_) => None,
        }
    }
}

/// As the socket paths: the length, and the number in the first eight bytes. The checksum spoke for the rest.
#[inline]
pub(super) fn read_message(payload: &[u8], size_bytes: usize) -> Arrival {
    if payload.len() != size_bytes {
        return Arrival::Corrupt;
    }
    let number = match payload.first_chunk::<8>() {
        Some(number) => u64::from_le_bytes(*number),
        None => payload.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    };
    Arrival::Message(number)
}

/// A connected end.
pub struct UdpBypassEndpoint<P> {
    port: P,
    stack: ConnectedStack,
    message: Vec<u8>,
    /// For the port to have room.
    patience: Duration,
    /// Holds the port number against other programs.
    _shadow: UdpSocket,
}

impl<P: Port> UdpBypassEndpoint<P> {
    fn new(
        port: P,
        mut stack: ConnectedStack,
        shadow: UdpSocket,
        size_bytes: usize,
        patience: Duration,
    ) -> Result<UdpBypassEndpoint<P>, PathError> {
        let message = vec![0x5a; size_bytes];
        // Made and not written, so not sent: what the stack cannot send is told before the first message.
        stack.stack.udp_send(stack.endpoint, &Message::new(&message)).map_err(EndpointError::needs_kernel)?;
        Ok(UdpBypassEndpoint { port, stack, message, patience, _shadow: shadow })
    }

    fn number_bytes(&self) -> usize {
        self.message.len().min(8)
    }

    fn number_message(&mut self, sequence: u64) {
        let n = self.number_bytes();
        self.message[..n].copy_from_slice(&sequence.to_le_bytes()[..n]);
    }

    #[inline]
    fn hand_over(&mut self) -> Result<bool, EndpointError> {
        let queued = self.queue()?;
        self.port.flush()?;
        Ok(queued)
    }

    #[inline]
    fn queue(&mut self) -> Result<bool, EndpointError> {
        let ConnectedStack { stack, endpoint, .. } = &mut self.stack;
        let outgoing = stack.udp_send(*endpoint, &Message::new(&self.message)).map_err(EndpointError::needs_kernel)?;
        let queued = self.port.queue_with(outgoing.len_bytes(), |frame| {
            outgoing.write(frame);
        })?;
        Ok(queued)
    }

    #[inline]
    fn look(&mut self) -> Result<Option<Arrival>, PortError> {
        let (stack, size_bytes) = (&mut self.stack, self.message.len());
        self.port.receive(|frame| stack.judge(frame, size_bytes)).map(Option::flatten)
    }
}

impl<P: Port> Endpoint for UdpBypassEndpoint<P> {
    #[inline]
    fn send(&mut self, sequence: u64) -> Result<bool, EndpointError> {
        self.number_message(sequence);
        attempt(self.patience, || self.hand_over())
    }

    #[inline]
    fn receive(&mut self, deadline: &Deadline) -> Result<Option<Arrival>, EndpointError> {
        poll(deadline, || self.look())
    }

    #[inline]
    fn try_send(&mut self, sequence: u64) -> Result<bool, EndpointError> {
        self.number_message(sequence);
        self.hand_over()
    }

    fn try_send_burst(&mut self, first_sequence: u64, count: u32) -> Result<u32, EndpointError> {
        let sent = while_room(count, |sent| {
            self.number_message(first_sequence + u64::from(sent));
            self.queue()
        })?;
        self.port.flush()?;
        Ok(sent)
    }

    #[inline]
    fn try_receive(&mut self) -> Result<Option<Arrival>, EndpointError> {
        Ok(self.look()?)
    }

    fn sequence_bits(&self) -> u32 {
        self.number_bytes() as u32 * 8
    }

    fn remarks(&self) -> Vec<Remark> {
        port_remarks(&self.port)
    }
}

#[cfg(test)]
mod tests;
