//! TCP connections in an engine: their frames come by its ports, and the stack's segments leave by them.

use std::net::IpAddr;

use nearwire_agent::give_back::{Ip, Sender};
use nearwire_frames::capture::Direction;
use nearwire_frames::steering::ExactFlow;
use nearwire_frames::{EnginePort, FlowSocket};
use nearwire_stack::ConnectionId;
use nearwire_sys::descriptor::Descriptor;
use nearwire_wire::ethernet::{EtherType, EthernetHeader};
use nearwire_wire::ipv4::Ipv4Header;
use nearwire_wire::ipv6::Ipv6Header;
use nearwire_wire::tcp;

use super::Engine;
use crate::host::{Host, at_home};
use crate::now::Now;
use crate::reason::Reason;
use crate::status::Counter;

/// More segments that end connections are not kept until these are given to the kernel: it gets them when they come again.
const ENDINGS_MOST: usize = 256;

/// A segment that ends a connection: the kernel, to which that is released, gets it.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) connection: ConnectionId,
    ip: Ip,
    segment: Vec<u8>,
}

impl Ending {
    /// Of a frame that the stack has found to be right.
    fn of(connection: ConnectionId, frame: &[u8]) -> Option<Ending> {
        let (header, packet) = EthernetHeader::parse(frame).ok()?;
        let protocol = tcp::PROTOCOL;
        let (ip, segment) = match header.ethertype {
            EtherType::IPV4 => {
                let packet = Ipv4Header::parse(packet).ok()?;
                let header = packet.header;
                let (source, destination): (IpAddr, IpAddr) = (header.source.into(), header.destination.into());
                (Ip { source, destination, ttl: header.ttl, tos: header.tos, protocol }, packet.payload)
            }
            EtherType::IPV6 => {
                let (header, payload) = Ipv6Header::parse(packet).ok()?;
                let (source, destination): (IpAddr, IpAddr) = (header.source.into(), header.destination.into());
                (Ip { source, destination, ttl: header.hop_limit, tos: header.traffic_class, protocol }, payload)
            }
            _ => return None,
        };
        Some(Ending { connection, ip, segment: segment.to_vec() })
    }
}

/// Segments that end connections, until these are released.
#[derive(Debug, Default)]
pub(super) struct Endings {
    waiting: Vec<Ending>,
    sender: Sender,
}

impl Endings {
    #[cold]
    pub(super) fn take(&mut self, connection: ConnectionId, frame: &[u8]) {
        if self.waiting.len() < ENDINGS_MOST {
            self.waiting.extend(Ending::of(connection, frame));
        }
    }
}

impl<H: Host> Engine<H> {
    /// Has all ports take the frames of a connection.
    ///
    /// # Errors
    /// One refuses, or there is none.
    pub(crate) fn open_connection(&mut self, flow: ExactFlow, socket: FlowSocket) -> Result<(), Reason> {
        let attached = &mut self.interfaces.attached;
        if attached.is_empty() {
            return Err(Reason::NoInterface);
        }
        let mut refused = None;
        for attached in attached.iter_mut() {
            if let Err(error) = attached.port.open_connection(flow, socket) {
                refused = Some(attached.refused_flow(&error));
                break;
            }
        }
        match refused {
            Some(reason) => {
                self.close_connection(flow);
                Err(reason)
            }
            None => Ok(()),
        }
    }

    /// Has them take these no more.
    pub(crate) fn close_connection(&mut self, flow: ExactFlow) {
        self.interfaces.attached.iter_mut().for_each(|attached| attached.port.close_connection(flow));
    }

    /// Sends what is due of all connections.
    #[inline]
    pub(crate) fn transmit(&mut self, now: Now, now_ns: u64) {
        let mut has_sent = false;
        let Engine { stack, interfaces, page, capture, .. } = self;
        while let Some(segment) = stack.poll_transmit(now_ns) {
            let Some(attached) = interfaces.by_port(segment.port()).filter(|attached| attached.failed.is_none()) else {
                break;
            };
            let ifindex = attached.ifindex;
            let queued = attached.port.queue_on(0, segment.len_bytes(), |frame| {
                segment.write(frame);
                if let Some(capture) = capture {
                    capture.record(now, ifindex, Direction::Outbound, frame);
                }
            });
            // Without room it was not sent, and comes again.
            if !matches!(queued, Ok(true)) {
                break;
            }
            attached.unsent_queues |= 1;
            page.count(Counter::FramesSent, 1);
            has_sent = true;
        }
        if has_sent {
            self.flush();
        }
    }

    /// Segments that end connections, which are to be released now.
    #[inline]
    pub(crate) fn take_endings(&mut self) -> Vec<Ending> {
        std::mem::take(&mut self.endings.waiting)
    }

    /// Has the kernel get a segment, after its connection was released.
    pub(crate) fn give_ending(&mut self, shadow: Descriptor, ending: &Ending) {
        let Endings { sender, .. } = &mut self.endings;
        let destination = ending.ip.destination;
        if !sender.is_open_for(destination) {
            let _ = at_home(self.interfaces.home.as_deref(), || sender.open_for(destination));
        }
        if sender.is_open_for(destination) {
            // Refused, the far end sends it again.
            let _ = sender.send_segment(ending.ip, &ending.segment);
        } else {
            self.host.give_segment(shadow, ending.ip, &ending.segment);
        }
    }
}
