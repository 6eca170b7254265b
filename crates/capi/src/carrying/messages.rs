//! Messages that are laid out in frames of the port before it is known when they are sent.

use libc::{EMSGSIZE, ENOENT, ERANGE, c_int};
use nearwire_frames::ports::xdp::XdpPort;
use nearwire_frames::{Port as _, PreparedFrame, RawPort as _};
use nearwire_socket::tcp::carrier::Carrier;
use nearwire_stack::{ConnectionId, PreparedMessage, TcpCallError};

use crate::fault::Fault;

/// Those of a connection.
#[derive(Debug)]
pub(super) struct Messages {
    fd: c_int,
    places: Vec<Option<Loaded>>,
}

/// A message in a frame of the port.
#[derive(Debug)]
struct Loaded {
    message: PreparedMessage,
    frame: PreparedFrame,
    headers_bytes: usize,
    /// The frame has an earlier patch of the message.
    is_stale: bool,
}

/// What became of a message that was triggered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Triggered {
    /// It left in its frame.
    Sent,
    /// The stack has its bytes, to be sent as any other.
    Written,
    /// Nothing was taken.
    Refused(TcpCallError),
}

impl Messages {
    pub(super) fn new(fd: c_int, slots: u32) -> Messages {
        Messages { fd, places: (0..slots).map(|_| None).collect() }
    }

    /// The frames that are no longer used.
    pub(super) fn into_frames(self) -> impl Iterator<Item = PreparedFrame> {
        self.places.into_iter().flatten().map(|loaded| loaded.frame)
    }

    /// Lays a message out, for any number of triggers. `spare`: frames that nobody uses. `headers_bytes` are in front of it, and `segment_bytes` is
    /// the longest one that lies in a segment ([`nearwire_stack::Stack::tcp_layout`]).
    pub(super) fn load(
        &mut self,
        port: &mut XdpPort,
        spare: &mut Vec<PreparedFrame>,
        (headers_bytes, segment_bytes): (usize, usize),
        slot: u32,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        let fd = self.fd;
        if bytes.is_empty() || bytes.len() > segment_bytes {
            let why = format!(
                "load a message of fd {fd}: {} bytes; wanted: 1 to {segment_bytes}, which lie in one segment",
                bytes.len()
            );
            return Err(Fault::new(EMSGSIZE, why));
        }
        let place = self.places.get_mut(slot as usize).ok_or_else(|| no_slot(fd, slot))?;
        let frame = [&vec![0; headers_bytes], bytes].concat();
        let old = place.as_ref().map(|loaded| loaded.frame).or_else(|| spare.last().copied());
        let frame = match old {
            // While it is being sent the slot stays as it was.
            Some(old) => port.replace_prepared(old, &frame)?.ok_or_else(Fault::again)?,
            None => port.prepare(&frame)?,
        };
        if place.is_none() && old.is_some() {
            spare.pop();
        }
        *place = Some(Loaded { message: PreparedMessage::new(bytes), frame, headers_bytes, is_stale: false });
        Ok(())
    }

    /// Sends a message, after `patch` was written over its bytes from an offset on.
    pub(super) fn trigger(
        &mut self,
        (carrier, port): (&mut Carrier, &mut XdpPort),
        (id, now_ns): (ConnectionId, u64),
        slot: u32,
        (offset_bytes, patch): (usize, &[u8]),
    ) -> Result<Triggered, Fault> {
        let fd = self.fd;
        let place = self.places.get_mut(slot as usize).ok_or_else(|| no_slot(fd, slot))?;
        let loaded = place.as_mut().ok_or_else(|| {
            Fault::new(ENOENT, format!("trigger message {slot} of fd {fd}: nothing is loaded; load a message first"))
        })?;
        if !loaded.message.patch(offset_bytes, patch) {
            let why = format!(
                "trigger message {slot} of fd {fd}: {} bytes from {offset_bytes} on are not within its {} bytes",
                patch.len(),
                loaded.message.bytes().len()
            );
            return Err(Fault::new(EMSGSIZE, why));
        }
        let written = carrier.stack.tcp_write_whole(id, now_ns, loaded.message.bytes());
        if written.is_ok() && loaded.send(carrier, port, (id, now_ns), (offset_bytes, patch)) {
            return Ok(Triggered::Sent);
        }
        loaded.is_stale |= !patch.is_empty();
        Ok(written.map_or_else(Triggered::Refused, |()| Triggered::Written))
    }
}

impl Loaded {
    /// Sends the message, which was just written, in its frame; `false`: it could not be, and is sent as any other. A port that has failed says so to
    /// the next call.
    #[inline]
    fn send(
        &mut self,
        carrier: &mut Carrier,
        port: &mut XdpPort,
        (id, now_ns): (ConnectionId, u64),
        (offset_bytes, patch): (usize, &[u8]),
    ) -> bool {
        let Loaded { message, frame, headers_bytes, is_stale } = self;
        let Some(segment) = carrier.stack.tcp_transmit(id, now_ns) else { return false };
        let message_bytes = message.bytes().len();
        if segment.len_bytes() != *headers_bytes + message_bytes || !segment.is_all_new(message_bytes) {
            return false;
        }
        let sent = port.send_prepared(*frame, |frame| {
            let payload = &mut frame[*headers_bytes..];
            if *is_stale {
                payload.copy_from_slice(message.bytes());
            } else {
                payload[offset_bytes..offset_bytes + patch.len()].copy_from_slice(patch);
            }
            segment.write_headers(frame, message);
        });
        let is_sent = matches!(sent, Ok(true));
        *is_stale &= !is_sent;
        is_sent
    }
}

fn no_slot(fd: c_int, slot: u32) -> Fault {
    Fault::new(ERANGE, format!("message {slot} of fd {fd}: there is no such slot; adopt the connection with more"))
}
