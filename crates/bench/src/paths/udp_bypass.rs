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

use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::port::Port;
use nearwire_frames::ports::xdp::{Steer, XdpPort};
use nearwire_frames::raw::RawPort;
use nearwire_frames::steering::{Filter, FlowFilter, Transport};
use nearwire_frames::{PortError, fault::FaultPort};
use nearwire_stack::{
    Dropped, EndpointId, Family, InterfaceAddress, Link, LinkKind, Message, Neighbour, NeighbourState, Offers, PortId,
    ReceiveChecksum, Route, Stack, StackConfig, Take, UdpOptions, Update, Verdict,
};
use nearwire_sys::tsc::monotonic_raw_ns;
use nearwire_wire::MacAddress;

use super::frame::{Faulty, attempt, faults_of, poll, port_remarks};
use super::frame_xdp::open_chosen;
use super::{EndAddress, LocalEnd, Path, PathError, Setup};
use crate::endpoint::{Arrival, Deadline, Endpoint, EndpointError, Remark};

/// A port that takes the frames of one flow.
pub trait FlowPort: Port + Sized {
    /// Opens it on the end's interface and has it take what comes to `address`.
    ///
    /// # Errors
    /// This end has no interface, or the port cannot be made on it.
    fn open_for(setup: &Setup, local: &LocalEnd, address: SocketAddr) -> Result<Self, PathError>;
}

impl FlowPort for XdpPort {
    fn open_for(setup: &Setup, local: &LocalEnd, address: SocketAddr) -> Result<XdpPort, PathError> {
        let mut port = open_chosen(setup, local, Steer::Filters)?;
        let flow = FlowFilter { transport: Transport::Udp, address: address.ip(), port: address.port() };
        port.add_filter(Filter::Flow(flow))?;
        Ok(port)
    }
}

impl<P: FlowPort> FlowPort for Faulty<P> {
    fn open_for(setup: &Setup, local: &LocalEnd, address: SocketAddr) -> Result<Faulty<P>, PathError> {
        let port = P::open_for(setup, local, address)?;
        Ok(FaultPort::new(port, faults_of(setup, local.role), setup.fault_seed, monotonic_raw_ns))
    }
}

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

/// A UDP address with the hardware address that it is reached by.
#[derive(Debug, Clone, Copy)]
struct Station {
    address: SocketAddr,
    mac: MacAddress,
}

/// What the stack wants to know of the interface.
#[derive(Debug, Clone, Copy)]
struct CableLink {
    ifindex: u32,
    mtu_bytes: u32,
}

impl<P: FlowPort> Path for UdpBypassPath<P> {
    type Endpoint = UdpBypassEndpoint<P>;

    fn open(setup: &Setup, local: &LocalEnd) -> Result<UdpBypassPath<P>, PathError> {
        let (own, peer) = local.addresses(setup.ip_version)?;
        let interface = local.interface()?;
        let facts = InterfaceFacts::read(&interface.name)?;
        let bound = SocketAddr::new(own, 0);
        let shadow = UdpSocket::bind(bound).map_err(PathError::io(format!("bind {} to {bound}", setup.path)))?;
        let address = shadow.local_addr().map_err(PathError::io("read the socket's own address"))?;
        Ok(UdpBypassPath {
            port: P::open_for(setup, local, address)?,
            shadow,
            own: Station { address, mac: interface.mac },
            link: CableLink { ifindex: facts.ifindex, mtu_bytes: facts.mtu_bytes },
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
        // Whatever comes is read as it comes, so nothing ever waits.
        let mut stack = Stack::new(StackConfig { queue_slots: 1, ..StackConfig::new(secret) });
        for update in known_of_cable(link, own, peer) {
            stack.update(update);
        }
        let attached = stack.attach_port(link.ifindex, Offers::default());
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
            Verdict::Segment { .. } | Verdict::Dropped(_) | Verdict::NotOurs(_) => None,
        }
    }
}

/// The events a netlink listener would tell of this end's cable. The peer is on the link: its hardware address came over
/// the control connection, so nobody is asked for it.
fn known_of_cable(link: CableLink, own: Station, peer: Station) -> [Update; 4] {
    let CableLink { ifindex, mtu_bytes } = link;
    let prefix_len = if own.address.is_ipv4() { 32 } else { 128 };
    let address = InterfaceAddress {
        ifindex,
        address: own.address.ip(),
        prefix_len,
        broadcast: None,
        is_secondary: false,
        is_deprecated: false,
        is_temporary: false,
        is_tentative: false,
    };
    let peer_address = peer.address.ip();
    [
        Update::NewLink(Link { ifindex, mac: own.mac, mtu_bytes, is_up: true, kind: LinkKind::Ethernet }),
        Update::NewAddress(address),
        Update::NewRoute { route: Route::on_link(peer_address, prefix_len, ifindex), replaces: false },
        Update::NewNeighbour(Neighbour {
            ifindex,
            address: peer_address,
            mac: peer.mac,
            state: NeighbourState::Permanent,
        }),
    ]
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

    #[inline]
    fn try_send(&mut self) -> Result<bool, EndpointError> {
        let ConnectedStack { stack, endpoint, .. } = &mut self.stack;
        let outgoing = stack.udp_send(*endpoint, &Message::new(&self.message)).map_err(EndpointError::needs_kernel)?;
        let queued = self.port.queue_with(outgoing.len_bytes(), |frame| {
            outgoing.write(frame);
        })?;
        self.port.flush()?;
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
    fn send(&mut self, sequence: u64) -> Result<(), EndpointError> {
        let n = self.number_bytes();
        self.message[..n].copy_from_slice(&sequence.to_le_bytes()[..n]);
        attempt(self.patience, || self.try_send())
    }

    #[inline]
    fn receive(&mut self, deadline: &Deadline) -> Result<Option<Arrival>, EndpointError> {
        poll(deadline, || self.look())
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
