//! Interfaces: which there are, which have a port of ours, and why others have none.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::port::Port;
use nearwire_frames::ports::xdp::{
    Overflow, Side, Steer, TimesWanted, XdpConfig, XdpMode, XdpPort, candidates, fill_frames as ring_frames,
};
use nearwire_frames::steering::{SHARES_MOST, SteeringTable};
use nearwire_frames::{PortError, RawPort as _, TimeSource};
use nearwire_stack::{LinkKind, PortId, ReceiveChecksum, Update};
use nearwire_sys::ethtool::{Interface, SoTimestamping};

use crate::config::{Config, Mode};
use crate::reason::Reason;

/// Buffers to receive into, each queue: what bursts may bring, for all sockets together, while the program does not call. The kernel gets
/// what comes beyond, at its own price.
/// The kernel's own buffer of one socket holds about 280 small datagrams by default, so this is the share of fourteen
/// sockets that are all full, and 8 MiB.
///
/// All of them pass through the caches one after the other. What fewer would be worth, as half round trips of 64 bytes (sockperf
/// under `run` at both ends, veth, pinned, spin forever, seven interleaved rounds, medians of p50 / p99 in us): 4096 buffers 1.562 /
/// 1.857, 256 1.512 / 1.782, 64 1.517 / 1.677, with sockperf tp the same rates. A port that took all but 256 out of the ring after
/// 131 072 calm frames, and told the program of its room that much oftener, had nothing of it: 1.502 / 1.662 beside 1.492 / 1.677.
pub(super) const FILL_FRAMES: u32 = 4096;
/// Where RLIMIT_MEMLOCK, 8 MiB by default, does not allow these: two sockets' worth.
const FILL_FRAMES_LOCKED: u32 = 512;
/// The same, over all queues of an interface.
const FILL_FRAMES_MOST: u32 = 8192;
const TX_FRAMES: u32 = 256;
/// Devices with more queues send on one: their packet memory would be several MiB for few threads.
const LANES_MOST: u32 = 16;
/// Engines of one process that can have a share of a port: each has half a MiB of send buffers.
const SHARES_OF_PORT: u32 = 8;
/// What others may undo without a word (an interface given back, a limit raised) is tried again after this time.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How often the time between two attempts to have a lost port back doubles: to about a minute. An attempt keeps the program
/// waiting, for half a second where another program has AF_XDP sockets on the queues.
const RETRY_DOUBLINGS: u32 = 6;

/// An interface with a port.
pub struct Attached {
    /// Its index.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// The port.
    pub port: XdpPort,
    /// The port in words, kept because a capture that begins must not allocate.
    pub(super) description: String,
    /// The port's name in the stack.
    pub(super) port_id: PortId,
    /// A bit for each lane on which frames are queued that no kick was made for.
    pub(super) unsent_lanes: u64,
    /// It can no more, and why.
    pub(super) failed: Option<Reason>,
    pub(super) told_dropped_frames: u64,
    pub(super) is_veth: bool,
}

impl Attached {
    pub(super) fn new(ifindex: u32, name: &str, is_veth: bool, port: XdpPort, port_id: PortId) -> Attached {
        Attached {
            ifindex,
            name: name.to_owned(),
            description: port.describe(),
            port,
            port_id,
            unsent_lanes: 0,
            failed: None,
            told_dropped_frames: 0,
            is_veth,
        }
    }

    /// Has the port's frames carry times, which its words tell too.
    pub(super) fn want_times(&mut self, wanted: TimesWanted) {
        self.port.want_times(wanted);
        self.description = self.port.describe();
    }

    /// A sender on this machine leaves the checksum to its card, and the peer of a veth pair is such a sender: what
    /// arrives has the sum of the pseudo header alone. On any other device that would be corruption let through.
    #[inline]
    pub(super) const fn receive_checksum(&self) -> ReceiveChecksum {
        if self.is_veth { ReceiveChecksum::VerifyOrPartial } else { ReceiveChecksum::Verify }
    }

    /// The device stamps what it receives, for the kernel's sockets only.
    fn lacks_device_times(&self) -> bool {
        let stamps = || {
            let times = Interface::open(&self.name).ok()?.timestamping().ok()?;
            Some(times.so_timestamping.contains(SoTimestamping::RX_HARDWARE))
        };
        self.port.time_source() != TimeSource::Hardware && stamps().unwrap_or(false)
    }
}

/// A link that could have a port.
#[derive(Clone, Debug)]
struct Link {
    ifindex: u32,
    is_up: bool,
    mtu_bytes: u32,
    kind: LinkKind,
    /// Why it got no port when it was tried, or lost the one it had.
    refused: Option<Refused>,
    /// It had a port and lost it.
    lost: Option<Lost>,
}

/// When a port was lost, or another was last tried for.
#[derive(Clone, Copy, Debug)]
struct Lost {
    since: Instant,
    /// Since the link came up; also those that gave a port, which may fail soon.
    attempts: u32,
}

impl Lost {
    fn now(attempts: u32) -> Lost {
        Lost { since: Instant::now(), attempts }
    }

    fn is_due(self) -> bool {
        self.since.elapsed() > RETRY_AFTER * (1 << self.attempts.saturating_sub(1).min(RETRY_DOUBLINGS))
    }
}

/// An interface that could not be had.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) name: String,
    pub(super) reason: Reason,
    /// The error in words.
    pub(super) text: String,
    since: Instant,
}

impl Refused {
    fn new(name: &str, reason: Reason, text: String) -> Refused {
        Refused { name: name.to_owned(), reason, text, since: Instant::now() }
    }
}

impl Link {
    /// What is in the way of a port.
    fn obstacle(&self) -> Option<Reason> {
        match self.kind {
            LinkKind::Ethernet if !self.is_up => Some(Reason::InterfaceDown),
            LinkKind::Ethernet => self.refused.as_ref().map(|refused| refused.reason),
            LinkKind::Loopback => Some(Reason::Loopback),
            LinkKind::Vlan { .. } | LinkKind::Other => Some(Reason::NotEthernet),
        }
    }

    /// What is in the way of trying to open one.
    fn forbids(&self) -> Option<Reason> {
        self.obstacle().filter(|reason| !is_passing(*reason) || !self.is_retry_due())
    }

    /// It lost its port, nothing known is in the way of another, and nobody will tell when it can be had.
    fn wants_port_back(&self) -> bool {
        self.lost.is_some_and(Lost::is_due) && self.forbids().is_none()
    }

    fn is_retry_due(&self) -> bool {
        self.refused.as_ref().is_none_or(|refused| refused.since.elapsed() > RETRY_AFTER)
    }
}

/// Nobody tells when it is over, and an attempt costs a fraction of a millisecond and disturbs nobody.
const fn is_passing(reason: Reason) -> bool {
    use Reason::{DescriptorLimit, EngineFailed, InterfaceBusy, MemoryLimit};
    matches!(reason, InterfaceBusy | MemoryLimit | DescriptorLimit | EngineFailed)
}

/// What an update changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// An address came or went.
    pub(super) addresses: bool,
    /// An interface may have a port that could not have one before.
    pub(super) links: bool,
}

/// The interfaces that traffic of a socket may cross.
#[derive(Clone, Copy, Debug)]
enum Place {
    All,
    One(u32),
}

/// See the module.
pub(super) struct Interfaces {
    pub(super) attached: Vec<Attached>,
    /// Counts what comes into `attached` and goes out of it.
    pub(super) generation: u64,
    links: Vec<Link>,
    addresses: Vec<(u32, IpAddr)>,
    allowed: Vec<String>,
    mode: Mode,
    engines_most: u32,
    /// Whether ports are opened here.
    opens: bool,
    /// A port or a refusal came or went.
    pub(super) changed: bool,
}

impl Interfaces {
    pub(super) fn new(config: &Config) -> Interfaces {
        Interfaces {
            attached: Vec::new(),
            generation: 0,
            links: Vec::new(),
            addresses: Vec::new(),
            allowed: config.interfaces.clone(),
            mode: config.mode,
            engines_most: config.engines.unwrap_or(SHARES_MOST),
            opens: true,
            changed: true,
        }
    }

    /// Keeps links and addresses.
    pub(super) fn note(&mut self, update: &Update) -> Changes {
        let mut changes = Changes::default();
        match update {
            Update::NewLink(link) => {
                self.changed = true;
                changes.links = self.note_link(link);
            }
            Update::DelLink { ifindex } => {
                self.changed = true;
                let carrier = self.below(*ifindex);
                self.links.retain(|link| link.ifindex != *ifindex);
                changes.links = self.lost_vlan(carrier);
                self.addresses.retain(|(of, _)| of != ifindex);
                self.fail(*ifindex, Reason::InterfaceDown);
                changes.addresses = true;
            }
            Update::NewAddress(address) if !address.is_tentative => {
                let entry = (address.ifindex, address.address);
                if !self.addresses.contains(&entry) {
                    self.addresses.push(entry);
                    changes.addresses = true;
                }
            }
            Update::DelAddress { ifindex, address } => {
                self.addresses.retain(|known| *known != (*ifindex, *address));
                changes.addresses = true;
            }
            _ => {}
        }
        changes
    }

    /// Whether a port may be had now that could not be had before. Opening a port makes news of its own on some drivers,
    /// so only what matters to it counts as a change.
    fn note_link(&mut self, link: &nearwire_stack::Link) -> bool {
        let mut new = Link {
            ifindex: link.ifindex,
            is_up: link.is_up,
            mtu_bytes: link.mtu_bytes,
            kind: link.kind,
            refused: None,
            lost: None,
        };
        let known = self.links.iter_mut().find(|known| known.ifindex == new.ifindex);
        let came_up = known.as_ref().is_none_or(|known| !known.is_up || known.kind != new.kind);
        let is_changed = known.as_ref().is_none_or(|known| came_up || known.mtu_bytes != new.mtu_bytes);
        if let Some(known) = &known {
            // Who took the program off an interface wanted it off: only a new beginning brings it back.
            let is_detached = |refused: &Refused| refused.reason == Reason::ProgramDetached;
            let stays = !is_changed || (!came_up && known.refused.as_ref().is_some_and(is_detached));
            new.refused = known.refused.clone().filter(|_| stays);
            new.lost = known.lost.map(|lost| Lost { attempts: if came_up { 0 } else { lost.attempts }, ..lost });
        }
        let obstacle = new.obstacle();
        let (ifindex, mtu_bytes) = (new.ifindex, new.mtu_bytes);
        for attached in self.attached.iter().filter(|attached| attached.ifindex == ifindex) {
            attached.port.follow_mtu(mtu_bytes);
        }
        match known {
            Some(known) => *known = new,
            None => self.links.push(new),
        }
        self.fail_where_tags_hide(self.below(ifindex));
        match obstacle {
            Some(reason) => self.fail(ifindex, reason),
            None => return is_changed,
        }
        false
    }

    /// Gives up a port whose frames are those of several VLANs, and do not say of which.
    fn fail_where_tags_hide(&mut self, carrier: u32) {
        let carries_vlans = self.carries_vlans(carrier);
        let attached = self.attached.iter_mut().find(|attached| attached.ifindex == carrier);
        if let Some(attached) = attached.filter(|_| carries_vlans)
            && hides_tags(&attached.name, attached.is_veth)
        {
            attached.failed.get_or_insert(Reason::HiddenVlanTags);
        }
    }

    fn carries_vlans(&self, carrier: u32) -> bool {
        let is_vlan = |link: &&Link| matches!(link.kind, LinkKind::Vlan { .. });
        self.links.iter().filter(is_vlan).any(|link| self.below(link.ifindex) == carrier)
    }

    /// A VLAN interface is gone. Whether what carried it may have a port now.
    fn lost_vlan(&mut self, carrier: u32) -> bool {
        if self.carries_vlans(carrier) {
            return false;
        }
        let is_hiding = |refused: &Refused| refused.reason == Reason::HiddenVlanTags;
        let link = self.links.iter_mut().find(|link| link.ifindex == carrier);
        link.is_some_and(|link| link.refused.take_if(|refused| is_hiding(refused)).is_some())
    }

    pub(super) fn tables(&mut self) -> impl Iterator<Item = &mut SteeringTable> {
        self.attached.iter_mut().filter_map(|attached| attached.port.steering_table())
    }

    /// The port of an interface can no more.
    fn fail(&mut self, ifindex: u32, reason: Reason) {
        for attached in self.attached.iter_mut().filter(|attached| attached.ifindex == ifindex) {
            attached.failed.get_or_insert(reason);
        }
    }

    /// Takes a whole picture, after news were lost.
    pub(super) fn resync(&mut self, known: &[Update]) {
        self.addresses.clear();
        let mut there = Vec::new();
        for update in known {
            if let Update::NewLink(link) = update {
                there.push(link.ifindex);
            }
            self.note(update);
        }
        self.links.retain(|link| there.contains(&link.ifindex));
        for attached in self.attached.iter_mut().filter(|attached| !there.contains(&attached.ifindex)) {
            attached.failed.get_or_insert(Reason::InterfaceDown);
        }
    }

    /// Finds ports whose program somebody has taken off the interface: frames do not come to them any more.
    pub(super) fn check_programs(&mut self) {
        for attached in self.attached.iter_mut().filter(|attached| !attached.port.is_attached()) {
            attached.failed.get_or_insert(Reason::ProgramDetached);
        }
    }

    /// Takes out a port that failed; its program is detached and its rings can be read to the end.
    pub(super) fn take_failed(&mut self) -> Option<Attached> {
        let at = self.attached.iter().position(|attached| attached.failed.is_some())?;
        let mut attached = self.attached.swap_remove(at);
        self.generation += 1;
        attached.port.detach();
        // That it is down is known by the link, and over with it.
        let reason = attached.failed.filter(|reason| *reason != Reason::InterfaceDown);
        if let Some(link) = self.links.iter_mut().find(|link| link.ifindex == attached.ifindex) {
            link.refused = reason.map(|reason| Refused::new(&attached.name, reason, String::new()));
            link.lost = Some(Lost::now(link.lost.map_or(0, |lost| lost.attempts)));
        }
        Some(attached)
    }

    /// Who had interfaces that were busy has let them go.
    pub(super) fn retry_busy(&mut self) {
        let is_busy = |refused: &Refused| refused.reason == Reason::InterfaceBusy;
        for link in self.links.iter_mut().filter(|link| link.refused.as_ref().is_some_and(is_busy)) {
            link.refused = None;
        }
    }

    /// Whether a port that was lost should be opened again.
    pub(super) fn want_ports_back(&self) -> bool {
        self.opens && self.links.iter().any(|link| link.wants_port_back() && !self.has_port(link.ifindex))
    }

    /// Takes in a port that another engine opened, and opens none.
    pub(super) fn adopt(&mut self, attached: Attached) {
        self.opens = false;
        self.put_in(attached);
    }

    fn put_in(&mut self, attached: Attached) {
        self.generation += 1;
        self.attached.push(attached);
    }

    /// Takes all out.
    pub(super) fn take_all(&mut self) -> Vec<Attached> {
        self.generation += 1;
        std::mem::take(&mut self.attached)
    }

    pub(super) fn has_loopback(&self) -> bool {
        self.links.iter().any(|link| link.kind == LinkKind::Loopback && link.is_up)
    }

    pub(super) fn own_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().map(|(_, address)| *address).filter(|address| !address.is_loopback())
    }

    pub(super) fn first_addresses_v4(&self) -> Vec<(u32, Ipv4Addr)> {
        let v4 = |(ifindex, address): &(u32, IpAddr)| match address {
            IpAddr::V4(address) => Some((*ifindex, *address)),
            IpAddr::V6(_) => None,
        };
        self.addresses.iter().filter_map(v4).collect()
    }

    pub(super) fn interface_with(&self, address: IpAddr) -> Option<u32> {
        self.addresses.iter().find(|(_, known)| *known == address).map(|(ifindex, _)| *ifindex)
    }

    /// Links that were tried and have no port; of the loopback interface nobody expects one.
    pub(super) fn refused(&self) -> impl Iterator<Item = (u32, &Refused)> {
        let refused = self.links.iter().filter_map(|link| Some((link.ifindex, link.refused.as_ref()?)));
        refused.filter(|(_, refused)| refused.reason != Reason::Loopback)
    }

    pub(super) fn by_port(&mut self, port: PortId) -> Option<&mut Attached> {
        self.attached.iter_mut().find(|attached| attached.port_id == port)
    }

    /// Opens ports where they are missing: on `wanted`, else on the interface of `local`, else on all.
    pub(super) fn attach(
        &mut self,
        local: IpAddr,
        wanted: Option<u32>,
        mut join: impl FnMut(u32, &mut XdpPort) -> Result<PortId, PortError>,
    ) -> Result<(), Reason> {
        let place = self.place_of(local, wanted)?;
        let mut usable = Usable::default();
        for at in 0..self.links.len() {
            let link = &self.links[at];
            if !place.includes(link) {
                continue;
            }
            if self.has_port(link.ifindex) {
                usable.add(None);
                continue;
            }
            if let Some(reason) = link.forbids().or((!self.opens).then_some(Reason::NoInterface)) {
                usable.add(Some(reason));
                continue;
            }
            let opened = self.open(link, &mut join);
            let lost = &mut self.links[at].lost;
            *lost = lost.map(|lost| Lost::now(lost.attempts.saturating_add(1)));
            match opened {
                Ok(attached) => {
                    self.links[at].refused = None;
                    self.changed = true;
                    self.put_in(attached);
                    usable.add(None);
                }
                Err(refused) => {
                    let reason = refused.reason;
                    self.links[at].refused = Some(refused);
                    self.changed = true;
                    usable.add(Some(reason));
                }
            }
        }
        usable.outcome()
    }

    /// Why no port takes what comes for a socket.
    pub(super) fn why_not(&self, local: IpAddr, wanted: Option<u32>) -> Result<(), Reason> {
        let place = self.place_of(local, wanted)?;
        let mut usable = Usable::default();
        for link in self.links.iter().filter(|link| place.includes(link)) {
            let lacks = if self.has_port(link.ifindex) { None } else { link.obstacle().or(Some(Reason::NoInterface)) };
            usable.add(lacks);
        }
        usable.outcome()
    }

    /// A device that stamps what it receives is among the interfaces of a socket, and its port has none of these times.
    pub(super) fn lack_device_times(&self, local: IpAddr, wanted: Option<u32>) -> bool {
        let Ok(place) = self.place_of(local, wanted) else { return false };
        let of = |attached: &&Attached| {
            self.links.iter().any(|link| link.ifindex == attached.ifindex && place.includes(link))
        };
        self.attached.iter().filter(of).any(Attached::lacks_device_times)
    }

    fn place_of(&self, local: IpAddr, wanted: Option<u32>) -> Result<Place, Reason> {
        if let Some(ifindex) = wanted.or_else(|| self.interface_with(local)) {
            return Ok(Place::One(self.below(ifindex)));
        }
        // One that was removed, or never was of this host.
        if local.is_unspecified() || local.is_multicast() { Ok(Place::All) } else { Err(Reason::ForeignAddress) }
    }

    fn has_port(&self, ifindex: u32) -> bool {
        self.attached.iter().any(|attached| attached.ifindex == ifindex)
    }

    /// The interface that carries a VLAN interface, or the interface itself.
    fn below(&self, ifindex: u32) -> u32 {
        let mut at = ifindex;
        while let Some(Link { kind: LinkKind::Vlan { parent, .. }, .. }) =
            self.links.iter().find(|link| link.ifindex == at)
        {
            at = *parent;
        }
        at
    }

    fn open(
        &self,
        link: &Link,
        join: impl FnOnce(u32, &mut XdpPort) -> Result<PortId, PortError>,
    ) -> Result<Attached, Refused> {
        let name =
            name_of(link.ifindex).map_err(|error| Refused::new("", Reason::of_error(&error), error.to_string()))?;
        if !self.allowed.is_empty() && !self.allowed.contains(&name) {
            return Err(Refused::new(&name, Reason::OtherInterface, String::new()));
        }
        let refused = |error: PortError| Refused::new(&name, Reason::of_port(&error), error.to_string());
        let facts = InterfaceFacts::read(&name).map_err(refused)?;
        if self.carries_vlans(link.ifindex) && hides_tags(&name, facts.driver == "veth") {
            return Err(Refused::new(&name, Reason::HiddenVlanTags, String::new()));
        }
        let mut port = open_port(&facts, self.mode, self.engines_most).map_err(refused)?;
        let port_id = join(link.ifindex, &mut port).map_err(refused)?;
        Ok(Attached::new(link.ifindex, &name, facts.driver == "veth", port, port_id))
    }
}

impl Place {
    fn includes(self, link: &Link) -> bool {
        match self {
            Place::All => link.kind != LinkKind::Loopback,
            Place::One(one) => one == link.ifindex,
        }
    }
}

/// Whether any of some interfaces can be used, and why the first cannot.
#[derive(Debug, Default)]
struct Usable {
    any: bool,
    refusal: Option<Reason>,
}

impl Usable {
    fn add(&mut self, refusal: Option<Reason>) {
        self.any |= refusal.is_none();
        // An interface that nobody would accelerate explains nothing where another one was tried.
        if matches!(self.refusal, None | Some(Reason::NotEthernet)) {
            self.refusal = refusal.or(self.refusal);
        }
    }

    fn outcome(self) -> Result<(), Reason> {
        if self.any { Ok(()) } else { Err(self.refusal.unwrap_or(Reason::NoInterface)) }
    }
}

/// Whether frames that come by an interface may have lost their VLAN tag, which the kernel keeps beside them then: an XDP
/// program does not see it. With veth it is the far end that leaves it out, whatever this end is told.
fn hides_tags(name: &str, is_veth: bool) -> bool {
    let strips = || Interface::open(name)?.strips_vlan_tags();
    is_veth || strips().unwrap_or(true)
}

/// What the kernel calls an interface.
fn name_of(ifindex: u32) -> io::Result<String> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
    let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    Ok(netdevice::index_to_name_inlined(any, ifindex)?.as_str().to_owned())
}

/// Opens a port in the first of the ways that may be used and works, on all receive queues: datagrams arrive on the
/// queue that the device chooses.
fn open_port(facts: &InterfaceFacts, mode: Mode, engines_most: u32) -> Result<XdpPort, PortError> {
    let allowed = |config: &XdpConfig| match mode {
        Mode::Auto => true,
        Mode::Native => config.mode != XdpMode::Generic,
        Mode::Generic => config.mode == XdpMode::Generic,
    };
    let mut refused = None;
    for candidate in candidates(facts, Side::Near, Steer::Filters) {
        if !allowed(&candidate.config) {
            continue;
        }
        let open = |fill_frames| XdpPort::open(&sized(candidate.config.clone(), facts, fill_frames, engines_most));
        let opened = match open(FILL_FRAMES) {
            Err(PortError::MemoryLimit { .. }) => open(FILL_FRAMES_LOCKED),
            opened => opened,
        };
        match opened {
            Ok(port) => return Ok(port),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| PortError::NoSuchInterface { interface: facts.name.clone() }))
}

/// Opens a port on an interface of the calling thread's network namespace as an engine would, closes it, and says what it was.
pub(crate) fn try_port(facts: &InterfaceFacts, config: &Config) -> Result<String, PortError> {
    open_port(facts, config.mode, config.engines.unwrap_or(SHARES_MOST)).map(|port| port.describe())
}

fn sized(config: XdpConfig, facts: &InterfaceFacts, fill_frames_most: u32, engines_most: u32) -> XdpConfig {
    let config = config.with_buffers_for(facts);
    let queues = facts.rx_queues.max(1);
    let share = FILL_FRAMES_MOST / queues;
    let fill_frames = (1 << share.max(64).ilog2()).min(fill_frames_most);
    // In zero-copy mode the device receives into them: never fewer than its ring takes. In the others it has buffers of its own, and what
    // finds none of these goes to the kernel.
    let fill_frames = match config.mode {
        XdpMode::ZeroCopy => ring_frames(facts, config.mode, fill_frames),
        XdpMode::NativeCopy | XdpMode::Generic => fill_frames,
    };
    let shares = engines_most.clamp(1, SHARES_OF_PORT);
    let others = shares - 1;
    XdpConfig {
        // All of them, as the device chooses. Where the way wants a socket of its own to send, the one of the last
        // queue sends: it seldom receives, and the CPU of the peer does not write what ours writes.
        rx_queues: (0..queues).collect(),
        tx_queue: config.tx_queue.min(queues - 1),
        separate_tx_socket: false,
        lanes: queues <= LANES_MOST,
        shares,
        fill_frames,
        overflow: Overflow::Kernel,
        // An engine whose thread does not call keeps what its rings hold from the others: all rings together hold less
        // than there is.
        //
        // In zero-copy mode the kernel's own frames come in the same buffers: half stay for them, whatever is left unread.
        rx_ring_slots: if others == 0 && config.mode != XdpMode::ZeroCopy { fill_frames } else { fill_frames / 2 },
        share_ring_slots: 1 << ((fill_frames / 2).saturating_sub(1) / others.max(1)).max(16).ilog2(),
        // In the same memory, however many buffers a frame takes.
        tx_frames: TX_FRAMES / (facts.frame_most_bytes() as u32).div_ceil(config.frame_size_bytes).clamp(1, 8),
        prepared_frames: 0,
        ..config
    }
}
