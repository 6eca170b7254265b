//! What `frame/packet` and `frame/xdp` share: measuring frames over any port.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nearwire_frames::PortError;
use nearwire_frames::fault::{FaultConfig, FaultPort};
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::port::{Port, PreparedFrame};
use nearwire_sys::socket::hold_promiscuous;
use nearwire_sys::tsc::monotonic_raw_ns;
use nearwire_wire::MacAddress;
use nearwire_wire::ethernet::VlanTags;
use nearwire_wire::measuring::{self, ExperimentToken, Kind, MeasuringHeader, ParseError};

use super::{EndAddress, EndInterface, LocalEnd, Path, PathError, Role, RxMode, Setup, TxMode};
use crate::endpoint::{Arrival, Deadline, Endpoint, EndpointError, Remark, while_room};

/// Empty looks at the port (some nanoseconds each) between two looks at the deadline.
const POLLS_PER_CLOCK_READ: u32 = 256;

/// Where a VLAN tag stands in a frame, and its length.
const TAG_AT: usize = 12;
const TAG_BYTES: usize = 4;

/// Attempts to send a frame that the port has no room for, before the clock is looked at.
const SEND_ATTEMPTS: u32 = 1000;

/// Where frames come in, and where they go out when that is another interface (forward workload).
pub(super) fn receive_and_send_interfaces<'a>(
    setup: &Setup,
    local: &'a LocalEnd,
) -> Result<(&'a EndInterface, Option<&'a EndInterface>), PathError> {
    let first = local.interface()?;
    match (&local.second_interface, setup.workload.uses_two_cables(), local.role) {
        (_, false, _) => Ok((first, None)),
        (None, true, _) => Err(PathError::NoInterface),
        (Some(second), true, Role::Initiator) => Ok((second, Some(first))),
        (Some(second), true, Role::Responder) => Ok((first, Some(second))),
    }
}

/// A port that can be opened at one end of a cable.
pub trait OpenPort: Port + Sized {
    /// Opens it on the end's interfaces.
    ///
    /// # Errors
    /// This end has no interface, or the port cannot be made on it.
    fn open_port(setup: &Setup, local: &LocalEnd) -> Result<Self, PathError>;
}

/// A port with faults at the initiator's end, and none at the responder's: one set of dice decides over the round trip.
pub type Faulty<P> = FaultPort<P, fn() -> u64>;

impl<P: OpenPort> OpenPort for Faulty<P> {
    fn open_port(setup: &Setup, local: &LocalEnd) -> Result<Faulty<P>, PathError> {
        let port = P::open_port(setup, local)?;
        Ok(FaultPort::new(port, faults_of(setup, local.role), setup.fault_seed, monotonic_raw_ns))
    }
}

/// The faults of one end's port.
pub(super) fn faults_of(setup: &Setup, role: Role) -> FaultConfig {
    setup.fault.filter(|_| role == Role::Initiator).unwrap_or_default()
}

/// What a path over a port has to say after a round.
pub(super) fn port_remarks(port: &impl Port) -> Vec<Remark> {
    let dropped_frames = port.statistics().receive_dropped_frames;
    let dropped = (dropped_frames > 0).then_some(Remark::Dropped(dropped_frames));
    std::iter::once(Remark::Note(port.describe())).chain(dropped).collect()
}

/// An open port of either kind, not yet introduced to its peer.
pub struct FramePath<P> {
    port: P,
    promiscuous: Option<OwnedFd>,
    own: MacAddress,
    setup: Setup,
    role: Role,
}

impl<P: OpenPort> Path for FramePath<P> {
    type Endpoint = FrameEndpoint<P>;

    fn open(setup: &Setup, local: &LocalEnd) -> Result<FramePath<P>, PathError> {
        // Frames are to be sent to the interface they are received on.
        let receiving = receive_and_send_interfaces(setup, local)?.0;
        let port = P::open_port(setup, local)?;
        let promiscuous = setup.vlan.map(|_| hear_all_vlans(&receiving.name)).transpose()?;
        Ok(FramePath { port, promiscuous, own: receiving.mac, setup: setup.clone(), role: local.role })
    }

    fn address(&self) -> EndAddress {
        EndAddress { port: None, mac: Some(self.own) }
    }

    fn connect(mut self, peer: &EndAddress) -> Result<FrameEndpoint<P>, PathError> {
        let peer = peer.mac.ok_or(PathError::NoPeerAddress { missing: "hardware address" })?;
        let tags = tags(self.setup.vlan);
        let header = MeasuringHeader {
            destination: peer,
            source: self.own,
            tags,
            kind: if self.role == Role::Initiator { Kind::Request } else { Kind::Reply },
            token: ExperimentToken(self.setup.token),
            sequence: 0,
        };
        let mut frame = vec![0; self.setup.size_bytes as usize];
        measuring::write(&mut frame, &header).map_err(|source| PathError::Frame { source })?;
        let prepared = match self.setup.tx {
            TxMode::Frame => None,
            // Two, so that one can be patched while the kernel still holds the other.
            TxMode::Prepared => Some([self.port.prepare(&frame)?, self.port.prepare(&frame)?]),
        };
        Ok(FrameEndpoint {
            port: self.port,
            prepared,
            next_prepared: 0,
            received: vec![0; frame.len() + 1],
            expected: Expected::answer_to(&frame, header)?,
            frame,
            sequence_offset: measuring::sequence_offset(tags),
            rx: self.setup.rx,
            patience: Duration::from_nanos(self.setup.timeout_ns),
            _promiscuous: self.promiscuous,
        })
    }
}

/// A NIC with a filter of VLANs drops those that the host has no interface for.
fn hear_all_vlans(interface: &str) -> Result<OwnedFd, PathError> {
    let ifindex = InterfaceFacts::read(interface)?.ifindex;
    hold_promiscuous(ifindex).map_err(PathError::io(format!("receive all VLANs on {interface}")))
}

fn tags(vlan: Option<u16>) -> VlanTags {
    use nearwire_wire::ethernet::{TagKind, VlanTag};
    let tag = vlan.and_then(|id| VlanTag::new(TagKind::Customer, 0, false, id));
    tag.map_or(VlanTags::None, VlanTags::One)
}

/// What a frame must be to count.
struct Expected {
    kind: Kind,
    token: ExperimentToken,
    /// As it is on the wire.
    whole: Form,
    /// As a NIC that takes tags out of what it receives leaves it; nothing without tags.
    stripped: Option<Form>,
}

/// A frame as it is compared.
struct Form {
    /// All but its sequence number.
    frame: Vec<u8>,
    /// The bits that must be as in `frame`.
    significant: Vec<u8>,
    sequence_offset: usize,
}

impl Form {
    fn new(frame: Vec<u8>, sequence_offset: usize) -> Form {
        let mut significant = vec![u8::MAX; frame.len()];
        significant[sequence_offset..sequence_offset + size_of::<u64>()].fill(0);
        Form { frame, significant, sequence_offset }
    }

    fn without_tag(&self) -> Form {
        let mut frame = self.frame.clone();
        frame.drain(TAG_AT..TAG_AT + TAG_BYTES);
        Form::new(frame, self.sequence_offset - TAG_BYTES)
    }

    /// The number of a frame that is as it was sent.
    #[inline]
    fn number_in(&self, frame: &[u8], length_bytes: usize) -> Option<u64> {
        if length_bytes != self.frame.len() || !self.is_as_sent(frame) {
            return None;
        }
        let at = self.sequence_offset;
        let number = frame.get(at..at + size_of::<u64>())?.try_into().ok()?;
        Some(u64::from_be_bytes(number))
    }

    /// All bytes in one go, without a branch on any: of a frame that lies in another CPU's cache, comparing its parts one
    /// after the other took 40 ns longer.
    #[inline]
    fn is_as_sent(&self, frame: &[u8]) -> bool {
        let pairs = frame.iter().zip(&self.frame).zip(&self.significant);
        pairs.fold(0, |differing, ((found, sent), significant)| differing | ((found ^ sent) & significant)) == 0
    }
}

impl Expected {
    /// What the peer sends, knowing what is sent to it.
    fn answer_to(sent: &[u8], header: MeasuringHeader) -> Result<Expected, PathError> {
        let kind = if header.kind == Kind::Request { Kind::Reply } else { Kind::Request };
        let header = MeasuringHeader { destination: header.source, source: header.destination, kind, ..header };
        let mut frame = vec![0; sent.len()];
        measuring::write(&mut frame, &header).map_err(|source| PathError::Frame { source })?;
        let whole = Form::new(frame, measuring::sequence_offset(header.tags));
        let stripped = matches!(header.tags, VlanTags::One(_)).then(|| whole.without_tag());
        Ok(Expected { kind, token: header.token, whole, stripped })
    }

    /// `None`: somebody else's frame, which is none of ours to judge. A good frame is known by one comparison; any other is
    /// taken apart to see what it is.
    #[inline]
    fn judge(&self, frame: &[u8], length_bytes: usize) -> Option<Arrival> {
        let stripped = || self.stripped.as_ref()?.number_in(frame, length_bytes);
        match self.whole.number_in(frame, length_bytes).or_else(stripped) {
            Some(number) => Some(Arrival::Message(number)),
            None => self.judge_other(frame, length_bytes),
        }
    }

    #[cold]
    fn judge_other(&self, frame: &[u8], length_bytes: usize) -> Option<Arrival> {
        let parsed = match measuring::parse(frame) {
            Ok(parsed) => parsed,
            Err(ParseError::Ethernet(_) | ParseError::OtherEtherType { .. }) => return None,
            Err(_) => return Some(Arrival::Corrupt),
        };
        if parsed.header.token != self.token || parsed.header.kind != self.kind {
            return None;
        }
        if length_bytes != frame.len() || parsed.verify(self.whole.frame.len()).is_err() {
            return Some(Arrival::Corrupt);
        }
        // Addresses or tags differ, and the rest is as it was sent: a switch on the way may have changed the tag.
        Some(Arrival::Message(parsed.header.sequence))
    }
}

/// A port with a frame of its own.
pub struct FrameEndpoint<P> {
    port: P,
    prepared: Option<[PreparedFrame; 2]>,
    next_prepared: usize,
    frame: Vec<u8>,
    received: Vec<u8>,
    expected: Expected,
    sequence_offset: usize,
    rx: RxMode,
    /// For the port to have room.
    patience: Duration,
    _promiscuous: Option<OwnedFd>,
}

impl<P: Port> FrameEndpoint<P> {
    #[inline]
    fn hand_over(&mut self, sequence: u64) -> Result<bool, PortError> {
        let (at, number) = (self.sequence_offset, sequence.to_be_bytes());
        match self.prepared {
            Some(resident) => {
                self.next_prepared ^= 1;
                self.port
                    .send_prepared(resident[self.next_prepared], |frame| frame[at..at + 8].copy_from_slice(&number))
            }
            None => {
                self.frame[at..at + 8].copy_from_slice(&number);
                self.port.send(&self.frame)
            }
        }
    }

    #[inline]
    fn look(&mut self) -> Result<Option<Option<Arrival>>, PortError> {
        let expected = &self.expected;
        match self.rx {
            RxMode::InPlace => self.port.receive(|frame| expected.judge(frame, frame.len())),
            RxMode::Frame => {
                let length = self.port.receive_copy(&mut self.received)?;
                Ok(length.map(|bytes| expected.judge(&self.received[..bytes.min(self.received.len())], bytes)))
            }
        }
    }
}

/// Sends as soon as the port has room. A device may say late that frames are sent (coalesced completions): that is no loss. After
/// `patience` the frame is given up: `false`.
#[inline]
pub(super) fn attempt<E: Into<EndpointError>>(
    patience: Duration,
    mut send: impl FnMut() -> Result<bool, E>,
) -> Result<bool, EndpointError> {
    let mut attempt = || -> Result<bool, EndpointError> {
        for _ in 0..SEND_ATTEMPTS {
            if send().map_err(Into::into)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    if attempt()? {
        return Ok(true);
    }
    let begun = Instant::now();
    while begun.elapsed() < patience {
        if attempt()? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Looks at a port until a message came or the deadline passed.
#[inline]
pub(super) fn poll(
    deadline: &Deadline,
    mut look: impl FnMut() -> Result<Option<Arrival>, PortError>,
) -> Result<Option<Arrival>, EndpointError> {
    let mut polls = 0_u32;
    loop {
        if let Some(arrival) = look()? {
            return Ok(Some(arrival));
        }
        polls += 1;
        if polls.is_multiple_of(POLLS_PER_CLOCK_READ) && deadline.passed() {
            return Ok(None);
        }
    }
}

impl<P: Port> Endpoint for FrameEndpoint<P> {
    #[inline]
    fn send(&mut self, sequence: u64) -> Result<bool, EndpointError> {
        attempt(self.patience, || self.hand_over(sequence))
    }

    #[inline]
    fn receive(&mut self, deadline: &Deadline) -> Result<Option<Arrival>, EndpointError> {
        poll(deadline, || Ok(self.look()?.flatten()))
    }

    #[inline]
    fn try_send(&mut self, sequence: u64) -> Result<bool, EndpointError> {
        Ok(self.hand_over(sequence)?)
    }

    fn try_send_burst(&mut self, first_sequence: u64, count: u32) -> Result<u32, EndpointError> {
        let at = self.sequence_offset;
        // Prepared frames are made for one message at a time; a burst copies.
        let sent = while_room(count, |sent| {
            self.frame[at..at + 8].copy_from_slice(&(first_sequence + u64::from(sent)).to_be_bytes());
            self.port.queue(&self.frame)
        })?;
        self.port.flush()?;
        Ok(sent)
    }

    #[inline]
    fn try_receive(&mut self) -> Result<Option<Arrival>, EndpointError> {
        Ok(self.look()?.flatten())
    }

    fn remarks(&self) -> Vec<Remark> {
        port_remarks(&self.port)
    }
}

#[cfg(test)]
mod tests;
