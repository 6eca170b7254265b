//! Calls of a stack in any order: what is delivered, to whom and in which order is what a model without tables says, what
//! is sent fits what the host is at that moment, and in the end no memory is in use.

mod choices;
mod frames;
mod model;
mod waiting;

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};

use nearwire_stack::{
    Arrival, BindError, ConnectError, Dropped, EndpointId, Family, FrameChecksum, Message, NeedsKernel, Offers,
    PathMtuDiscovery, ReceiveChecksum, SourceFilter, Stack, StackConfig, Take, UdpOptions, Update, Verdict,
};

use crate::bytes::Bytes;
use frames::Sent;
use model::{Endpoint, Expected, Model};
use waiting::Waiting;

/// Never all in use: the model needs not know in which order receivers of a group are served.
const QUEUE_SLOTS: u32 = 1024;
const QUEUE_SLOT_BYTES: usize = 64;
const CALLS_MOST: usize = 100;
const ENDPOINTS_MOST: usize = 8;

/// A stack and what it should be.
struct World {
    stack: Stack,
    model: Model,
    /// All that were opened; closed ones too, for calls that come too late.
    ids: Vec<EndpointId>,
    /// Counts on with every frame, so that datagrams can be told apart.
    sent: u8,
    /// The last send, which is made again whenever the host changes.
    last: Option<Sending>,
}

/// What a send is made with.
#[derive(Clone, Copy)]
struct Sending {
    id: EndpointId,
    payload_bytes: usize,
    to: Option<SocketAddr>,
    source: Option<IpAddr>,
    ifindex: Option<u32>,
    ttl: Option<u8>,
}

thread_local! {
    /// Kept from input to input, because a new stack costs more than an input: as it was made, but for its counters.
    static KEPT: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// Calls made of an input, one after the other.
pub fn check(input: &[u8]) {
    // Taken out, so that a panic leaves none.
    let mut world = KEPT.take().unwrap_or_else(World::new);
    choices::picture(0xffff).into_iter().for_each(|update| world.update(update));
    let mut bytes = Bytes(input);
    world.open_some(bytes.u8());
    for _ in 0..CALLS_MOST {
        if bytes.is_empty() {
            break;
        }
        world.call(&mut bytes);
    }
    world.end();
    let is_as_made = world.model.ports.len() == 2 && world.model.ports.iter().all(|(_, _, is_attached)| *is_attached);
    KEPT.set(is_as_made.then_some(world));
}

impl World {
    /// Two ports, and a host that is not known yet.
    fn new() -> World {
        let config =
            StackConfig { queue_slots: QUEUE_SLOTS, queue_slot_bytes: QUEUE_SLOT_BYTES, ..StackConfig::new(3) };
        let mut world =
            World { stack: Stack::new(config), model: Model::default(), ids: Vec::new(), sent: 0, last: None };
        world.attach(2, false);
        world.attach(3, false);
        world
    }

    fn update(&mut self, update: Update) {
        self.model.update(&update);
        self.stack.update(update);
        self.send_again();
    }

    fn send_again(&mut self) {
        if let Some(last) = self.last {
            self.send_as(last);
        }
    }

    fn call(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.below(20) {
            0 => self.open(bytes),
            1 => self.bind(bytes),
            2 => self.connect(bytes),
            3 => self.disconnect(bytes),
            4 => self.configure(bytes),
            5 => self.join(bytes),
            6 => self.leave(bytes),
            7 => self.close(bytes),
            8 | 9 => self.send(bytes),
            10 => self.read(bytes),
            11 => self.take_readable(),
            12..=14 => self.update(choices::update(bytes)),
            15 => self.port_or_resync(bytes),
            _ => self.receive(bytes),
        }
    }

    fn id(&self, bytes: &mut Bytes<'_>) -> Option<EndpointId> {
        let at = usize::from(bytes.u8());
        self.ids.get(at % self.ids.len().max(1)).copied()
    }

    fn attach(&mut self, ifindex: u32, send_checksum: bool) {
        let port = self.stack.attach_port(ifindex, Offers { send_checksum });
        self.model.ports.push((port, ifindex, true));
    }

    fn port_or_resync(&mut self, bytes: &mut Bytes<'_>) {
        let what = bytes.u8();
        match what & 3 {
            0 if self.model.ports.len() < 6 => self.attach(choices::ifindex(bytes), what & 4 != 0),
            1 => {
                let at = bytes.below(self.model.ports.len());
                self.model.ports[at].2 = false;
                self.stack.detach_port(self.model.ports[at].0);
                assert_eq!(self.stack.interface_of(self.model.ports[at].0), None);
                self.send_again();
            }
            _ => {
                let picture = choices::picture(bytes.u16());
                self.model.forget_host();
                picture.iter().for_each(|update| self.model.update(update));
                self.stack.resync(picture);
                self.send_again();
            }
        }
    }

    /// Endpoints on all addresses, both families and with all of the options, so that more calls meet one.
    fn open_some(&mut self, which: u8) {
        for (bit, options) in [0x06, 0x07, 0x46, 0x4f].into_iter().enumerate() {
            if which >> bit & 1 != 0 {
                self.open_as(options);
                let any = if options & 1 == 0 { 0 } else { 4 };
                self.bind(&mut Bytes(&[self.ids.len() as u8 - 1, any]));
            }
        }
    }

    fn open(&mut self, bytes: &mut Bytes<'_>) {
        if self.model.endpoints.len() < ENDPOINTS_MOST {
            self.open_as(bytes.u8());
        }
    }

    fn open_as(&mut self, what: u8) {
        let bit = |n: u8| what >> n & 1 != 0;
        let family = if bit(0) { Family::V6 } else { Family::V4 };
        let mut options = UdpOptions {
            reuse_address: bit(1),
            reuse_port: bit(2),
            v6_only: bit(3),
            device: bit(4).then_some(2),
            receive_buffer_bytes: if bit(5) { 1500 } else { 200_000 },
            no_checksum: bit(7),
            ..UdpOptions::default()
        };
        options.of_each_family().into_iter().for_each(|one| one.multicast_all = !bit(6));
        let id = self.stack.udp_open(family, options);
        assert!(!self.ids.contains(&id), "an identifier names one endpoint for ever");
        self.ids.push(id);
        self.model.endpoints.push(Endpoint::new(id, family, options));
    }

    fn bind(&mut self, bytes: &mut Bytes<'_>) {
        let Some(id) = self.id(bytes) else { return };
        let address = choices::local(bytes);
        let bound = self.stack.udp_bind(id, address);
        let Some(endpoint) = self.model.endpoint(id) else {
            return assert_eq!(bound, Err(BindError::NoEndpoint { address }));
        };
        let wanted = match endpoint {
            Endpoint { local_port: port @ 1.., .. } => Err(BindError::AlreadyBound { address, port: *port }),
            _ if address.port() == 0 => Err(BindError::PortZero { address }),
            _ if !endpoint.may_bind(address.ip()) => {
                let v6_only = endpoint.options.v6_only;
                Err(BindError::FamilyMismatch { address, family: endpoint.family, v6_only })
            }
            _ if self.model.is_taken(endpoint, address) => Err(BindError::AddressInUse { address }),
            _ => Ok(()),
        };
        assert_eq!(bound, wanted);
        if wanted.is_ok() {
            self.model.endpoint_mut(id).expect("is open").bind(address);
        }
        self.check_names(id);
    }

    fn connect(&mut self, bytes: &mut Bytes<'_>) {
        let Some(id) = self.id(bytes) else { return };
        let (remote, how) = (choices::remote(bytes), bytes.u8());
        let source = (how & 3 == 0).then(|| choices::source(bytes).to_canonical());
        let connected = self.stack.udp_connect(id, remote, source);
        match self.model.endpoint_mut(id) {
            None => assert_eq!(connected, Err(ConnectError::NoEndpoint { remote })),
            Some(Endpoint { local_port: 0, .. }) => assert_eq!(connected, Err(ConnectError::NotBound { remote })),
            Some(endpoint) if connected.is_ok() => {
                assert!(endpoint.may_carry(remote.ip()) && !remote.ip().to_canonical().is_unspecified());
                if !endpoint.is_locked {
                    endpoint.local = self.stack.udp_local(id).expect("is open").ip();
                    assert!(source.is_none_or(|source| source == endpoint.local));
                }
                assert_eq!(endpoint.local.is_ipv4(), remote.ip().to_canonical().is_ipv4());
                endpoint.remote = Some((remote.ip().to_canonical(), remote.port()));
            }
            Some(_) => {}
        }
        self.check_names(id);
    }

    fn disconnect(&mut self, bytes: &mut Bytes<'_>) {
        let Some(id) = self.id(bytes) else { return };
        self.stack.udp_disconnect(id);
        if let Some(endpoint) = self.model.endpoint_mut(id) {
            endpoint.disconnect();
        }
        self.check_names(id);
    }

    /// Both ends are where the calls put them.
    fn check_names(&self, id: EndpointId) {
        let names = self.model.endpoint(id).map(|endpoint| ((endpoint.local, endpoint.local_port), endpoint.remote));
        let local = self.stack.udp_local(id).map(|local| (local.ip(), local.port()));
        assert_eq!(local, names.map(|(local, _)| local));
        let remote = self.stack.udp_remote(id).map(|remote| (remote.ip(), remote.port()));
        assert_eq!(remote, names.and_then(|(_, remote)| remote));
    }

    fn configure(&mut self, bytes: &mut Bytes<'_>) {
        let Some(id) = self.id(bytes) else { return };
        let what = bytes.u8();
        let change = |options: &mut UdpOptions| match what & 7 {
            0 => options.of_each_family().into_iter().for_each(|one| one.multicast_all = !one.multicast_all),
            1 => options.receive_buffer_bytes = u32::from(what) * 16,
            // Members of a group that share a port stay in it, whatever device they are bound to afterwards.
            2 if !options.reuse_port => options.device = [None, Some(2), Some(3), Some(4)][usize::from(what >> 3 & 3)],
            3 => options.of_each_family().into_iter().for_each(|one| {
                one.path_mtu_discovery = [PathMtuDiscovery::Do, PathMtuDiscovery::Omit][usize::from(what >> 3 & 1)];
            }),
            4 => options.broadcast = !options.broadcast,
            5 => options.of_each_family().into_iter().for_each(|one| one.multicast_loop = !one.multicast_loop),
            6 => options.of_each_family().into_iter().for_each(|one| one.ttl = (what & 8 != 0).then_some(what >> 4)),
            _ => options.no_checksum = !options.no_checksum,
        };
        self.stack.udp_configure(id, change);
        if let Some(endpoint) = self.model.endpoint_mut(id) {
            change(&mut endpoint.options);
        }
        assert_eq!(self.stack.udp_options(id), self.model.endpoint(id).map(|endpoint| &endpoint.options));
    }

    fn join(&mut self, bytes: &mut Bytes<'_>) {
        let Some(id) = self.id(bytes) else { return };
        let (ifindex, group, how) = (choices::ifindex(bytes), choices::group(bytes), bytes.u8());
        let sources = if how & 2 == 0 { Vec::new() } else { vec![choices::PEER_V4, choices::PEER_V6] };
        let filter = if how & 1 == 0 { SourceFilter::Exclude(sources) } else { SourceFilter::Include(sources) };
        let joined = self.stack.udp_join(id, ifindex, group, &filter);
        let endpoint = self.model.endpoint_mut(id).filter(|_| group.is_multicast());
        assert_eq!(joined.is_ok(), endpoint.is_some());
        if let Some(endpoint) = endpoint {
            endpoint.leave(ifindex, group);
            endpoint.memberships.push((ifindex, group, filter));
        }
    }

    fn leave(&mut self, bytes: &mut Bytes<'_>) {
        let Some(id) = self.id(bytes) else { return };
        let (ifindex, group) = (choices::ifindex(bytes), choices::group(bytes));
        let left = self.stack.udp_leave(id, ifindex, group);
        let wanted = self.model.endpoint_mut(id).is_some_and(|endpoint| endpoint.leave(ifindex, group));
        assert_eq!(left.is_ok(), wanted);
    }

    fn close(&mut self, bytes: &mut Bytes<'_>) {
        let Some(id) = self.id(bytes) else { return };
        self.stack.udp_close(id);
        self.model.endpoints.retain(|endpoint| endpoint.id != id);
        self.check_names(id);
    }

    fn send(&mut self, bytes: &mut Bytes<'_>) {
        let Some(id) = self.id(bytes) else { return };
        let how = bytes.u8();
        let payload_bytes = usize::from(bytes.u8()) * if how & 0x80 == 0 { 1 } else { 6 };
        let to = (how & 1 != 0).then(|| choices::remote(bytes));
        let source = (how & 6 == 6).then(|| choices::source(bytes).to_canonical());
        let ifindex = (how & 0x18 == 0x18).then(|| choices::ifindex(bytes));
        let ttl = (how & 0x60 == 0x60).then(|| bytes.below(3) as u8);
        let sending = Sending { id, payload_bytes, to, source, ifindex, ttl };
        self.send_as(sending);
        self.last = Some(sending);
    }

    /// Sends twice, the second time with nothing remembered: both come to the same.
    fn send_as(&mut self, sending: Sending) {
        let remembered = self.send_once(sending);
        self.stack.udp_warm(sending.id);
        self.stack.udp_configure(sending.id, |_| ());
        let resolved = self.send_once(sending);
        assert_eq!(remembered, resolved);
    }

    fn send_once(&mut self, sending: Sending) -> Result<Sent, NeedsKernel> {
        let Sending { id, payload_bytes, to, source, ifindex, ttl } = sending;
        let payload = &[0x5a; 1536][..payload_bytes];
        let message = Message { to, source, ifindex, ttl, ..Message::new(payload) };
        let count = |stack: &Stack| -> u64 {
            NeedsKernel::ALL.iter().map(|reason| stack.statistics().needs_kernel(*reason)).sum()
        };
        let counted = count(&self.stack);
        match self.stack.udp_send(id, &message) {
            Ok(outgoing) => {
                let (port, checksum) = (outgoing.port(), outgoing.checksum());
                let mut frame = vec![0xee; outgoing.len_bytes()];
                assert_eq!(outgoing.write(&mut frame), frame.len());
                assert!(self.model.ports.iter().any(|(other, _, is_attached)| *other == port && *is_attached));
                let endpoint = self.model.endpoint(id).expect("only open ones send");
                let sent = frames::read(&frame, checksum == FrameChecksum::Done);
                self.model.check_sent(endpoint, &message, &sent);
                Ok(sent)
            }
            Err(reason) => {
                assert_eq!(count(&self.stack), counted + 1);
                let endpoint = self.model.endpoint(id);
                assert_eq!(reason == NeedsKernel::NoEndpoint, endpoint.is_none());
                assert_eq!(reason == NeedsKernel::NotBound, endpoint.is_some_and(|endpoint| endpoint.local_port == 0));
                Err(reason)
            }
        }
    }

    fn read(&mut self, bytes: &mut Bytes<'_>) {
        let Some(id) = self.id(bytes) else { return };
        let peeks = bytes.bool();
        let see = |datagram: &nearwire_stack::Datagram<'_>| Waiting::of(datagram);
        let read = if peeks { self.stack.udp_peek(id, see) } else { self.stack.udp_read(id, see) };
        let first = self.model.endpoint(id).and_then(|endpoint| endpoint.waiting.front().cloned());
        assert_eq!(read, first);
        if let (Some(first), false) = (first, peeks) {
            self.model.count_read(first.destination);
            self.model.endpoint_mut(id).expect("is open").waiting.pop_front();
        }
        self.check_waiting();
    }

    fn take_readable(&mut self) {
        match self.stack.take_readable() {
            Some(id) => {
                let endpoint = self.model.endpoint_mut(id).expect("is open");
                assert!(std::mem::take(&mut endpoint.is_announced));
            }
            None => assert!(self.model.endpoints.iter().all(|endpoint| !endpoint.is_announced)),
        }
        while self.stack.take_stale_neighbour().is_some() {}
    }

    fn receive(&mut self, bytes: &mut Bytes<'_>) {
        let (at, reads) = (bytes.below(self.model.ports.len()), bytes.bool());
        let port = self.model.ports[at].0;
        self.sent = self.sent.wrapping_add(1);
        let spec = frames::Spec::new(bytes, self.sent);
        let way = self.model.way_in(port, &spec.tag_ids);
        let frame = spec.frame(way.map_or(choices::mac(9), |(_, mac)| mac));
        let expected = self.model.expect(way, port, &spec);
        let mut offered = Vec::new();
        let arrival = Arrival { port, frame: &frame, received_ns: 1, device_ns: 0, checksum: ReceiveChecksum::Verify };
        let verdict = self.stack.receive(&arrival, |id, datagram| {
            assert_eq!(
                Waiting::of(datagram),
                Waiting { ifindex: way.map_or(0, |(ifindex, _)| ifindex), ..spec.waiting() }
            );
            offered.push(id);
            if reads { Take::Consumed } else { Take::Queue }
        });
        let receivers = match expected {
            Expected::Verdict(wanted) => {
                assert_eq!((verdict, offered.len()), (wanted, 0), "{spec:?}");
                return self.check_waiting();
            }
            Expected::OneOf(candidates) => {
                let taken = candidates.iter().find(|id| offered.contains(id) || self.was_queued(**id));
                let refuser = || candidates.iter().find(|id| self.refuses(**id, verdict));
                vec![
                    *taken
                        .or_else(refuser)
                        .unwrap_or_else(|| panic!("{verdict:?}, wanted for {candidates:?}: {spec:?}")),
                ]
            }
            Expected::AllOf(receivers) => receivers,
        };
        let ifindex = way.map_or(0, |(ifindex, _)| ifindex);
        let mut outcomes = Vec::new();
        for id in &receivers {
            let waiting = Waiting { ifindex, ..spec.waiting() };
            let was_offered = offered.contains(id);
            outcomes.push((*id, self.model.deliver(*id, waiting, was_offered, reads)));
        }
        assert!(offered.iter().all(|id| receivers.contains(id)));
        let got: Vec<_> = outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).map(|(id, _)| *id).collect();
        match verdict {
            Verdict::Delivered { endpoint, copies } => {
                assert!(got.contains(&endpoint), "{spec:?}");
                assert_eq!(copies as usize, got.len(), "{spec:?}");
            }
            Verdict::Dropped(reason @ Dropped::RcvbufErrors) => {
                assert!(got.is_empty() && outcomes.iter().any(|(_, outcome)| *outcome == Err(reason)), "{spec:?}");
            }
            other => panic!("{other:?}, wanted for {receivers:?}: {spec:?}"),
        }
        self.check_waiting();
    }

    fn was_queued(&self, id: EndpointId) -> bool {
        let known = self.model.endpoint(id).map_or(0, |endpoint| endpoint.waiting.len());
        self.stack.udp_waiting(id) as usize > known
    }

    fn refuses(&self, id: EndpointId, verdict: Verdict) -> bool {
        let endpoint = self.model.endpoint(id).expect("is open");
        let reason = endpoint.refuses();
        // One where nothing waits would have been offered it.
        !endpoint.waiting.is_empty() && reason.is_some_and(|reason| verdict == Verdict::Dropped(reason))
    }

    /// As many wait as should, and no slot is in use but theirs.
    fn check_waiting(&self) {
        let mut all = 0;
        for endpoint in &self.model.endpoints {
            assert_eq!(self.stack.udp_waiting(endpoint.id) as usize, endpoint.waiting.len());
            assert_eq!(self.stack.udp_charged_bytes(endpoint.id), endpoint.charged_bytes());
            all += endpoint.waiting.len();
        }
        assert_eq!(self.stack.udp_free_slots() + all, QUEUE_SLOTS as usize);
    }

    /// Closes everything and forgets the host: nothing is in use, and nobody is left to take anything.
    fn end(&mut self) {
        self.check_waiting();
        for family in [Family::V4, Family::V6] {
            let read = self.model.read_datagrams[family as usize];
            assert_eq!(self.stack.statistics().udp(family).in_datagrams, read);
        }
        for id in self.ids.drain(..) {
            self.stack.udp_close(id);
        }
        self.model.endpoints.clear();
        self.check_waiting();
        assert_eq!(self.stack.take_readable(), None);
        for port in &self.model.ports {
            let frame = frames::Spec::new(&mut Bytes(&[]), 0).frame(choices::mac(2));
            let arrival = Arrival {
                port: port.0,
                frame: &frame,
                received_ns: 1,
                device_ns: 0,
                checksum: ReceiveChecksum::Verify,
            };
            let verdict = self.stack.receive(&arrival, |_, _| Take::Consumed);
            assert!(!matches!(verdict, Verdict::Delivered { .. }));
        }
        self.stack.resync([]);
        self.model.forget_host();
        (self.sent, self.last) = (0, None);
    }
}

/// The family that counts a datagram.
fn family_of(destination: IpAddr) -> Family {
    if destination.is_ipv4() { Family::V4 } else { Family::V6 }
}
