//! What a stack should be: lists that are looked through from end to end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nearwire_stack::{
    Dropped, EndpointId, Family, InterfaceAddress, Link, LinkKind, Message, Neighbour, NotOurs, OVERHEAD_BYTES, PortId,
    SourceFilter, UdpOptions, Update, Verdict,
};
use nearwire_wire::MacAddress;

use super::family_of;
use super::frames::{Fault, Sent, Spec};
use super::waiting::Waiting;

/// An open endpoint. IPv4 addresses are IPv4, in either family.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) id: EndpointId,
    pub(super) family: Family,
    pub(super) options: UdpOptions,
    pub(super) local: IpAddr,
    pub(super) local_port: u16,
    /// The address was given to bind().
    pub(super) is_locked: bool,
    pub(super) remote: Option<(IpAddr, u16)>,
    pub(super) memberships: Vec<(u32, IpAddr, SourceFilter)>,
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) is_announced: bool,
}

/// What should become of a frame.
pub(super) enum Expected {
    Verdict(Verdict),
    OneOf(Vec<EndpointId>),
    AllOf(Vec<EndpointId>),
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Model {
    /// Port, interface, whether it is still attached.
    pub(super) ports: Vec<(PortId, u32, bool)>,
    pub(super) endpoints: Vec<Endpoint>,
    /// By family.
    pub(super) read_datagrams: [u64; 2],
    links: BTreeMap<u32, Link>,
    /// VLAN interfaces whose parent went after they came.
    orphans: BTreeSet<u32>,
    addresses: Vec<InterfaceAddress>,
    neighbours: Vec<Neighbour>,
    groups: BTreeSet<(u32, IpAddr)>,
}

impl Endpoint {
    pub(super) fn new(id: EndpointId, family: Family, options: UdpOptions) -> Endpoint {
        let mut endpoint = Endpoint {
            id,
            family,
            options,
            local: Ipv4Addr::UNSPECIFIED.into(),
            local_port: 0,
            is_locked: false,
            remote: None,
            memberships: Vec::new(),
            waiting: VecDeque::new(),
            is_announced: false,
        };
        endpoint.local = endpoint.any();
        endpoint
    }

    fn any(&self) -> IpAddr {
        match self.family {
            Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    pub(super) fn may_bind(&self, address: IpAddr) -> bool {
        match self.family {
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6() && !(self.options.v6_only && address.to_canonical().is_ipv4()),
        }
    }

    pub(super) fn may_carry(&self, remote: IpAddr) -> bool {
        match self.family {
            Family::V4 => remote.to_canonical().is_ipv4(),
            Family::V6 => remote.to_canonical().is_ipv6() || !self.options.v6_only,
        }
    }

    pub(super) fn bind(&mut self, address: SocketAddr) {
        let local = address.ip().to_canonical();
        self.is_locked = !local.is_unspecified();
        self.local = if self.is_locked { local } else { self.any() };
        self.local_port = address.port();
    }

    pub(super) fn disconnect(&mut self) {
        self.remote = None;
        if !self.is_locked {
            self.local = self.any();
        }
    }

    pub(super) fn leave(&mut self, ifindex: u32, group: IpAddr) -> bool {
        let before = self.memberships.len();
        self.memberships.retain(|(at, joined, _)| (*at, *joined) != (ifindex, group));
        self.memberships.len() < before
    }

    pub(super) fn charged_bytes(&self) -> u64 {
        let charge = |waiting: &Waiting| waiting.payload.len().div_ceil(64) as u64 * 64 + u64::from(OVERHEAD_BYTES);
        self.waiting.iter().map(charge).sum()
    }

    /// Why a datagram that is to wait cannot. Its length is no reason: one that is longer than a slot waits too.
    pub(super) fn refuses(&self) -> Option<Dropped> {
        (self.charged_bytes() > u64::from(self.options.receive_buffer_bytes)).then_some(Dropped::RcvbufErrors)
    }

    fn takes(&self, is_v4: bool) -> bool {
        match (self.family, is_v4) {
            (Family::V4, is_v4) => is_v4,
            (Family::V6, true) => {
                !self.options.v6_only && (self.local.is_ipv4() || self.local == Ipv6Addr::UNSPECIFIED)
            }
            (Family::V6, false) => self.local.is_ipv6(),
        }
    }

    /// Whether the datagram could be for it, and how well it fits.
    fn score(&self, spec: &Spec, ifindex: u32) -> Option<u32> {
        let is_v4 = spec.destination.is_ipv4();
        let is_local = self.local_port != 0
            && self.local_port == spec.destination_port
            && self.takes(is_v4)
            && (self.local == spec.destination || self.local.is_unspecified());
        let is_remote =
            self.remote.is_none_or(|(address, port)| address == spec.source && (port == 0 || port == spec.source_port));
        let is_device = self.options.device.is_none_or(|device| device == ifindex);
        let remote_port = self.remote.is_some_and(|(_, port)| port != 0);
        let parts = [self.remote.is_some(), remote_port, self.options.device.is_some()];
        let own_family = (self.family == Family::V4) == is_v4;
        (is_local && is_remote && is_device)
            .then(|| u32::from(own_family) + 4 * parts.into_iter().map(u32::from).sum::<u32>())
    }

    /// 0: connected, 1: bound to an address, 2: on all addresses.
    fn tier(&self) -> u8 {
        let is_full = self.remote.is_some_and(|(_, port)| port != 0);
        match self.local {
            local if local.is_unspecified() => 2,
            local if is_full && !local.is_multicast() => 0,
            _ => 1,
        }
    }

    fn wants_group(&self, ifindex: u32, spec: &Spec) -> bool {
        let joined = self.memberships.iter().find(|(at, group, _)| (*at, *group) == (ifindex, spec.destination));
        match joined {
            Some((_, _, SourceFilter::Include(sources))) => sources.contains(&spec.source),
            Some((_, _, SourceFilter::Exclude(sources))) => !sources.contains(&spec.source),
            None => self.options.of(super::family_of(spec.destination)).multicast_all,
        }
    }
}

impl Model {
    pub(super) fn endpoint(&self, id: EndpointId) -> Option<&Endpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.id == id)
    }

    pub(super) fn endpoint_mut(&mut self, id: EndpointId) -> Option<&mut Endpoint> {
        self.endpoints.iter_mut().find(|endpoint| endpoint.id == id)
    }

    pub(super) fn count_read(&mut self, destination: IpAddr) {
        self.read_datagrams[family_of(destination) as usize] += 1;
    }

    /// What the kernel said is gone; ports and endpoints are not.
    pub(super) fn forget_host(&mut self) {
        let Model { ports, endpoints, read_datagrams, .. } = std::mem::take(self);
        *self = Model { ports, endpoints, read_datagrams, ..Model::default() };
    }

    pub(super) fn update(&mut self, update: &Update) {
        match update {
            Update::NewLink(link) => {
                self.orphans.remove(&link.ifindex);
                self.links.insert(link.ifindex, link.clone());
            }
            Update::DelLink { ifindex } => {
                self.links.remove(ifindex);
                let below = |link: &&Link| matches!(link.kind, LinkKind::Vlan { parent, .. } if parent == *ifindex);
                self.orphans.extend(self.links.values().filter(below).map(|link| link.ifindex));
                self.addresses.retain(|address| address.ifindex != *ifindex);
                self.neighbours.retain(|neighbour| neighbour.ifindex != *ifindex);
                self.groups.retain(|(at, _)| at != ifindex);
            }
            Update::NewAddress(address) => {
                let same = |other: &&mut InterfaceAddress| {
                    (other.ifindex, other.address) == (address.ifindex, address.address)
                };
                match self.addresses.iter_mut().find(same) {
                    Some(other) => *other = address.clone(),
                    None => self.addresses.push(address.clone()),
                }
            }
            Update::DelAddress { ifindex, address } => {
                self.addresses.retain(|other| (other.ifindex, other.address) != (*ifindex, *address));
            }
            Update::NewNeighbour(neighbour) => {
                let at = (neighbour.ifindex, neighbour.address);
                self.neighbours.retain(|other| (other.ifindex, other.address) != at);
                self.neighbours.push(neighbour.clone());
            }
            Update::DelNeighbour { ifindex, address } => {
                self.neighbours.retain(|other| (other.ifindex, other.address) != (*ifindex, *address));
            }
            Update::NewGroup { ifindex, group } => drop(self.groups.insert((*ifindex, *group))),
            Update::DelGroup { ifindex, group } => drop(self.groups.remove(&(*ifindex, *group))),
            // Where frames go, not whether they come.
            Update::NewRoute { .. } | Update::DelRoute(_) | Update::Path { .. } | Update::PolicyRules { .. } => {}
        }
    }

    /// Whether another endpoint has the address and does not share it.
    pub(super) fn is_taken(&self, wanted: &Endpoint, address: SocketAddr) -> bool {
        let mut bound = Endpoint::new(wanted.id, wanted.family, wanted.options);
        bound.bind(address);
        self.endpoints.iter().filter(|other| other.id != wanted.id).any(|other| {
            let (ours, theirs) = (&bound.options, &other.options);
            let share = (ours.reuse_address && theirs.reuse_address) || (ours.reuse_port && theirs.reuse_port);
            let same_device = ours.device.is_none() || theirs.device.is_none() || ours.device == theirs.device;
            let meet = [true, false].into_iter().any(|is_v4| bound.takes(is_v4) && other.takes(is_v4))
                && (bound.local.is_unspecified() || other.local.is_unspecified() || bound.local == other.local);
            other.local_port == bound.local_port && !share && same_device && meet
        })
    }

    /// The interface that a frame with these tags comes in on, and the hardware address it has.
    pub(super) fn way_in(&self, port: PortId, tag_ids: &[u16]) -> Option<(u32, MacAddress)> {
        let ifindex = self.receiving(port)?;
        let interface = tag_ids.iter().try_fold(ifindex, |below, id| {
            let is_above = |link: &&Link| {
                matches!(link.kind, LinkKind::Vlan { parent, vlan_id, .. } if (parent, vlan_id) == (below, *id))
            };
            let above = self.links.values().filter(|link| link.is_up && !self.orphans.contains(&link.ifindex));
            let above = above.clone().find(is_above).map(|link| link.ifindex);
            if *id == 0 { Some(above.unwrap_or(below)) } else { above }
        })?;
        self.links.get(&interface).map(|link| (interface, link.mac))
    }

    fn receiving(&self, port: PortId) -> Option<u32> {
        let (_, ifindex, _) = self.ports.iter().find(|(other, _, is_attached)| *other == port && *is_attached)?;
        self.links.get(ifindex).filter(|link| link.is_up).map(|link| link.ifindex)
    }

    fn is_own(&self, ifindex: u32, address: IpAddr) -> bool {
        let is_narrow = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        self.addresses
            .iter()
            .any(|own| own.address == address && !own.is_tentative && (!is_narrow || own.ifindex == ifindex))
    }

    fn is_broadcast(&self, address: IpAddr) -> bool {
        address == Ipv4Addr::BROADCAST || self.addresses.iter().any(|own| own.broadcast.is_some_and(|to| address == to))
    }

    /// What becomes of a frame that comes in by `way`.
    pub(super) fn expect(&self, way: Option<(u32, MacAddress)>, port: PortId, spec: &Spec) -> Expected {
        match self.refused(way, port, spec) {
            Some(verdict) => Expected::Verdict(verdict),
            None => self.receivers(way.map_or(0, |(ifindex, _)| ifindex), spec),
        }
    }

    fn refused(&self, way: Option<(u32, MacAddress)>, port: PortId, spec: &Spec) -> Option<Verdict> {
        let not_ours = |reason| Some(Verdict::NotOurs(reason));
        let dropped = |reason| Some(Verdict::Dropped(reason));
        let Some((ifindex, _)) = way else {
            let is_up = self.receiving(port).is_some();
            return not_ours(if is_up { NotOurs::UnknownVlan } else { NotOurs::InterfaceDown });
        };
        let is_v4 = spec.destination.is_ipv4();
        match spec.fault {
            Fault::OtherStation => return not_ours(NotOurs::OtherHost),
            Fault::EtherType => return not_ours(NotOurs::EtherType),
            Fault::Cut => return dropped(Dropped::InTruncatedPkts),
            Fault::Fragment if is_v4 => return not_ours(NotOurs::Fragment),
            Fault::Fragment => return not_ours(NotOurs::ExtensionHeader),
            Fault::Protocol => return not_ours(NotOurs::Protocol),
            _ => {}
        }
        let elsewhere = self.elsewhere(ifindex, spec.destination).map(Verdict::NotOurs);
        let impossible = match (spec.source, spec.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => elsewhere.or(self
                .is_martian(ifindex, source, destination)
                .then_some(Verdict::Dropped(Dropped::InMartianSource))),
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let is_martian = source.is_multicast() || source.is_loopback() || source.to_ipv4_mapped().is_some();
                let is_nowhere = (destination.is_multicast() && destination.segments()[0] & 0xf <= 1)
                    || destination.is_loopback()
                    || destination.is_unspecified();
                let martian = is_martian.then_some(Verdict::Dropped(Dropped::InMartianSource));
                martian.or(is_nowhere.then_some(Verdict::Dropped(Dropped::InAddrErrors))).or(elsewhere)
            }
            mixed => panic!("{mixed:?}"),
        };
        impossible.or(match spec.fault {
            Fault::Length => dropped(Dropped::InErrors),
            Fault::WrongChecksum => dropped(Dropped::InCsumErrors),
            Fault::NoChecksum if !is_v4 => dropped(Dropped::InCsumErrors),
            _ => None,
        })
    }

    fn elsewhere(&self, ifindex: u32, destination: IpAddr) -> Option<NotOurs> {
        if destination.is_multicast() {
            let at = (ifindex, destination);
            let mut memberships = self.endpoints.iter().flat_map(|endpoint| &endpoint.memberships);
            let is_joined =
                self.groups.contains(&at) || memberships.any(|(at, group, _)| (*at, *group) == (ifindex, destination));
            return (!is_joined).then_some(NotOurs::GroupNotJoined);
        }
        let is_ours = self.is_own(ifindex, destination) || self.is_broadcast(destination);
        (!is_ours).then_some(NotOurs::OtherAddress)
    }

    fn is_martian(&self, ifindex: u32, source: Ipv4Addr, destination: Ipv4Addr) -> bool {
        let may_be_unspecified = destination.is_broadcast();
        let is_odd = match source.octets()[0] {
            0 => !(source.is_unspecified() && may_be_unspecified),
            first => first == 127 || source.is_multicast() || source.is_broadcast(),
        };
        is_odd || self.is_own(ifindex, source.into()) || self.is_broadcast(source.into())
    }

    fn receivers(&self, ifindex: u32, spec: &Spec) -> Expected {
        let is_group = spec.destination.is_multicast();
        let fits = self.endpoints.iter().filter_map(|endpoint| Some((endpoint, endpoint.score(spec, ifindex)?)));
        if is_group || (self.is_broadcast(spec.destination) && !self.is_own(ifindex, spec.destination)) {
            let wants = |endpoint: &&Endpoint| !is_group || endpoint.wants_group(ifindex, spec);
            let all: Vec<_> = fits.map(|(endpoint, _)| endpoint).filter(wants).map(|endpoint| endpoint.id).collect();
            return if all.is_empty() {
                Expected::Verdict(Verdict::Dropped(Dropped::IgnoredMulti))
            } else {
                Expected::AllOf(all)
            };
        }
        let Some(tier) = fits.clone().map(|(endpoint, _)| endpoint.tier()).min() else {
            return Expected::Verdict(Verdict::Dropped(Dropped::NoPorts));
        };
        let best: Vec<_> = fits.filter(|(endpoint, _)| endpoint.tier() == tier).collect();
        let most = best.iter().map(|(_, score)| *score).max();
        // Of those that share a port any may be chosen, also one that fits less well.
        let shares = best.iter().any(|(endpoint, _)| endpoint.options.reuse_port);
        let chosen = best.iter().filter(|(_, score)| shares || tier == 0 || Some(*score) == most);
        Expected::OneOf(chosen.map(|(endpoint, _)| endpoint.id).collect())
    }

    /// A copy for one endpoint.
    pub(super) fn deliver(
        &mut self,
        id: EndpointId,
        waiting: Waiting,
        was_offered: bool,
        reads: bool,
    ) -> Result<(), Dropped> {
        let endpoint = self.endpoint_mut(id).expect("is open");
        assert_eq!(was_offered, endpoint.waiting.is_empty(), "offered only where nothing waits");
        if was_offered && reads {
            self.count_read(waiting.destination);
            return Ok(());
        }
        if let Some(reason) = endpoint.refuses() {
            return Err(reason);
        }
        endpoint.waiting.push_back(waiting);
        endpoint.is_announced = true;
        Ok(())
    }

    /// A frame that was sent is what the message wants, from this host as it is now, to a neighbour it knows.
    pub(super) fn check_sent(&self, endpoint: &Endpoint, message: &Message<'_>, sent: &Sent) {
        let to =
            message.to.map(|to| (to.ip().to_canonical(), to.port())).or(endpoint.remote).expect("has a destination");
        assert_eq!((sent.destination.ip(), sent.destination.port()), to);
        assert_eq!(sent.source.port(), endpoint.local_port);
        assert_eq!(sent.payload, message.payload);
        let source = sent.source.ip();
        assert!(message.source.is_none_or(|wanted| wanted == source));
        assert!(self.addresses.iter().any(|own| own.address == source && !own.is_tentative), "{source} is not ours");
        assert!(message.ttl.is_none_or(|ttl| ttl == sent.ttl) && sent.ttl > 0);
        let link = self.links.values().find(|link| link.mac == sent.ethernet.source).expect("an interface");
        assert!(link.is_up && sent.packet_bytes <= link.mtu_bytes as usize);
        assert!(message.ifindex.is_none_or(|ifindex| ifindex == link.ifindex));
        let is_neighbour = |neighbour: &Neighbour| {
            neighbour.ifindex == link.ifindex
                && neighbour.mac == sent.ethernet.destination
                && neighbour.state.is_usable()
        };
        assert!(to.0.is_multicast() || self.neighbours.iter().any(is_neighbour), "{sent:?}");
        assert_eq!(to.0.is_multicast(), sent.ethernet.destination.is_group());
        assert!(sent.has_checksum || (endpoint.options.no_checksum && to.0.is_ipv4()));
    }
}
