//! TCP connections in an engine: their frames come by its ports, and the stack's segments leave by them.

use std::net::{IpAddr, SocketAddr};

use nearwire_agent::give_back::{Ip, Sender, segment_of};
use nearwire_frames::capture::Direction;
use nearwire_frames::steering::{ExactFlow, Transport};
use nearwire_frames::{EnginePort, FlowSocket};
use nearwire_stack::ConnectionId;
use nearwire_sys::descriptor::{Descriptor, inode_of};
use nearwire_wire::tcp::TcpSegment;

use super::Engine;
use super::late::LATE_TICKS;
use crate::host::{Host, Offloads, at_home};
use crate::now::Now;
use crate::reason::Reason;
use crate::status::Counter;

/// More segments are not kept until they are given to the kernel: it gets them when they come again.
const SEGMENTS_MOST: usize = 256;
/// As many connections that were released are remembered.
const RELEASED_MOST: usize = 256;

/// A TCP segment for the kernel.
#[derive(Debug)]
pub(crate) struct Segment {
    ip: Ip,
    bytes: Vec<u8>,
}

impl Segment {
    /// Of a frame that the stack has found to be right.
    fn of(frame: &[u8]) -> Option<Segment> {
        let (ip, segment) = segment_of(frame)?;
        Some(Segment { ip, bytes: segment.to_vec() })
    }

    /// The flow that it belongs to.
    fn flow(&self) -> Option<ExactFlow> {
        let header = TcpSegment::parse(&self.bytes).ok()?.header;
        let local = SocketAddr::new(self.ip.destination, header.destination_port);
        Some(ExactFlow::between(Transport::Tcp, local, SocketAddr::new(self.ip.source, header.source_port)))
    }
}

/// A segment that ends a connection: the kernel, to which that is released, gets it.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) connection: ConnectionId,
    segment: Segment,
}

/// A connection that was released, until no frame of it can be on its way here.
#[derive(Debug)]
struct Released {
    flow: ExactFlow,
    shadow: FlowSocket,
}

/// Segments that the kernel gets: those that end connections, when these are released, and those that came to a port although their
/// connection had just been released.
#[derive(Debug, Default)]
pub(super) struct KernelsSegments {
    endings: Vec<Ending>,
    released: Vec<Released>,
    /// Of the last one that was released.
    released_ticks: u64,
    late: Vec<(FlowSocket, Segment)>,
    sender: Sender,
}

impl KernelsSegments {
    #[cold]
    pub(super) fn take_ending(&mut self, connection: ConnectionId, frame: &[u8]) {
        if self.endings.len() < SEGMENTS_MOST {
            self.endings.extend(Segment::of(frame).map(|segment| Ending { connection, segment }));
        }
    }

    /// A segment of no connection here came.
    #[cold]
    pub(super) fn take_late(&mut self, now: Now, frame: &[u8]) {
        if now.ticks.wrapping_sub(self.released_ticks) > LATE_TICKS {
            self.released.clear();
        }
        if self.released.is_empty() || self.late.len() >= SEGMENTS_MOST {
            return;
        }
        let Some((segment, flow)) = Segment::of(frame).and_then(|segment| segment.flow().map(|flow| (segment, flow)))
        else {
            return;
        };
        if let Some(released) = self.released.iter().rev().find(|released| released.flow == flow) {
            self.late.push((released.shadow, segment));
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

    /// Whether a frame of a connection, which the kernel has, came by one of the ports since this was first asked. `None`: not all of them listen yet.
    ///
    /// # Errors
    /// One refuses, or there is none.
    pub(crate) fn hears_connection(&mut self, flow: ExactFlow, socket: FlowSocket) -> Result<Option<bool>, Reason> {
        let attached = &mut self.interfaces.attached;
        let mut refused = attached.is_empty().then_some(Reason::NoInterface);
        let (mut is_heard, mut all_listen) = (false, true);
        for attached in attached.iter_mut() {
            match attached.port.hears_connection(flow, socket) {
                Ok(heard) => (is_heard, all_listen) = (is_heard || heard == Some(true), all_listen && heard.is_some()),
                Err(error) => refused = Some(attached.refused_flow(&error)),
            }
        }
        match refused {
            Some(reason) => {
                self.close_connection(flow);
                Err(reason)
            }
            None => Ok((is_heard || all_listen).then_some(is_heard)),
        }
    }

    /// What the kernel's path to a far end does with long segments. `None`: no port is on the way to it.
    pub(crate) fn offloads_towards(&self, remote: IpAddr) -> Option<Offloads> {
        let ifindex = self.stack.interface_for(remote, None).ok()?;
        self.interfaces.offloads_of(ifindex)
    }

    /// Has them take these no more.
    pub(crate) fn close_connection(&mut self, flow: ExactFlow) {
        self.interfaces.attached.iter_mut().for_each(|attached| attached.port.close_connection(flow));
    }

    /// Sends what is due of all connections.
    #[inline]
    pub(crate) fn transmit(&mut self, now: Now, now_ns: u64) {
        let mut has_sent = false;
        loop {
            has_sent |= self.queue_segments(now, now_ns);
            // What is known of the path decides how long segments are.
            if !(self.stack.has_path_question() && self.answer_path_question(now)) {
                break;
            }
        }
        if has_sent {
            self.flush();
        }
    }

    /// Whether there were any, up to a question of a path.
    #[inline]
    fn queue_segments(&mut self, now: Now, now_ns: u64) -> bool {
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
        has_sent
    }

    #[inline]
    pub(crate) const fn has_endings(&self) -> bool {
        !self.kernels_segments.endings.is_empty()
    }

    /// Segments that end connections, which are to be released now.
    #[inline]
    pub(crate) fn take_endings(&mut self) -> Vec<Ending> {
        std::mem::take(&mut self.kernels_segments.endings)
    }

    /// Has the kernel get a segment, after its connection was released.
    pub(crate) fn give_ending(&mut self, shadow: Descriptor, ending: &Ending) {
        self.give_segment(shadow, &ending.segment);
    }

    /// A connection has just been released: what comes of it still the kernel gets.
    pub(crate) fn expect_late_segments(&mut self, now: Now, flow: ExactFlow, shadow: FlowSocket) {
        let segments = &mut self.kernels_segments;
        segments.released_ticks = now.ticks;
        let surplus = (segments.released.len() + 1).saturating_sub(RELEASED_MOST);
        segments.released.drain(..surplus);
        segments.released.push(Released { flow, shadow });
    }

    /// Has the kernel get what came of released connections.
    #[inline]
    pub(crate) fn give_late_segments(&mut self) {
        if self.kernels_segments.late.is_empty() {
            return;
        }
        for (shadow, segment) in std::mem::take(&mut self.kernels_segments.late) {
            // Closed, its descriptor may be another socket's.
            if inode_of(shadow.descriptor) == Some(shadow.inode) {
                self.give_segment(shadow.descriptor, &segment);
            }
        }
    }

    fn give_segment(&mut self, shadow: Descriptor, segment: &Segment) {
        let sender = &mut self.kernels_segments.sender;
        let destination = segment.ip.destination;
        if !sender.is_open_for(destination) {
            let _ = at_home(self.interfaces.home.as_deref(), || sender.open_for(destination));
        }
        if sender.is_open_for(destination) {
            // Refused, the far end sends it again.
            let _ = sender.send_segment(segment.ip, &segment.bytes);
        } else {
            self.host.give_segment(shadow, segment.ip, &segment.bytes);
        }
    }
}
