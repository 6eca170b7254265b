//! Interfaces: which there are, which have a port of ours, and why others have none.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use nearwire_frames::{EnginePort, PortError, PortFilters, TimeSource};
use nearwire_stack::{LinkKind, PortId, Update};

use super::attached::Attached;
use super::link::{Link, Lost, Refused};
use crate::config::Config;
use crate::host::{Home, Host, Offloads, PortWanted, at_home};
use crate::now::Now;
use crate::reason::Reason;

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
pub(super) struct Interfaces<P> {
    pub(super) attached: Vec<Attached<P>>,
    /// Counts what comes into `attached` and goes out of it.
    pub(super) generation: u64,
    links: Vec<Link>,
    addresses: Vec<(u32, IpAddr)>,
    allowed: Vec<String>,
    wanted: PortWanted,
    pub(super) home: Option<Arc<Home>>,
    /// Whether ports are opened here.
    opens: bool,
    /// A port or a refusal came or went.
    pub(super) changed: bool,
}

impl<P: EnginePort> Interfaces<P> {
    pub(super) fn new(config: &Config, home: Option<Arc<Home>>) -> Interfaces<P> {
        Interfaces {
            attached: Vec::new(),
            generation: 0,
            links: Vec::new(),
            addresses: Vec::new(),
            allowed: config.interfaces.clone(),
            wanted: PortWanted::of(config),
            home,
            opens: true,
            changed: true,
        }
    }

    /// Keeps links and addresses.
    pub(super) fn note(&mut self, host: &impl Host<Port = P>, update: &Update) -> Changes {
        let mut changes = Changes::default();
        match update {
            Update::NewLink(link) => {
                self.changed = true;
                changes.links = self.note_link(host, link);
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
    fn note_link(&mut self, host: &impl Host<Port = P>, link: &nearwire_stack::Link) -> bool {
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
            // Somebody detached the program on purpose: it is attached again only when the link comes up anew.
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
        self.fail_where_tags_hide(host, self.below(ifindex));
        match obstacle {
            Some(reason) => self.fail(ifindex, reason),
            None => return is_changed,
        }
        false
    }

    /// Gives up a port whose frames are those of several VLANs, and do not say of which.
    fn fail_where_tags_hide(&mut self, host: &impl Host<Port = P>, carrier: u32) {
        let carries_vlans = self.carries_vlans(carrier);
        let attached = self.attached.iter_mut().find(|attached| attached.ifindex == carrier);
        if let Some(attached) = attached.filter(|_| carries_vlans)
            && at_home(self.home.as_deref(), || host.hides_tags(&attached.name, attached.is_veth)).unwrap_or(true)
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

    pub(super) fn filters(&mut self) -> impl Iterator<Item = &mut dyn PortFilters> {
        self.attached.iter_mut().filter_map(|attached| attached.port.filters())
    }

    /// The port of an interface can no more.
    fn fail(&mut self, ifindex: u32, reason: Reason) {
        for attached in self.attached.iter_mut().filter(|attached| attached.ifindex == ifindex) {
            attached.failed.get_or_insert(reason);
        }
    }

    /// Takes a whole picture, after news were lost.
    pub(super) fn resync(&mut self, host: &impl Host<Port = P>, known: &[Update]) {
        self.addresses.clear();
        let mut there = Vec::new();
        for update in known {
            if let Update::NewLink(link) = update {
                there.push(link.ifindex);
            }
            self.note(host, update);
        }
        self.links.retain(|link| there.contains(&link.ifindex));
        for attached in self.attached.iter_mut().filter(|attached| !there.contains(&attached.ifindex)) {
            attached.failed.get_or_insert(Reason::InterfaceDown);
        }
    }

    /// Finds ports to which frames do not come any more. One that had some since it was last looked at is as it was.
    pub(super) fn check_ports(&mut self) {
        for attached in &mut self.attached {
            let received_frames = attached.port.statistics().received_frames;
            let has_received = std::mem::replace(&mut attached.checked_frames, received_frames) != received_frames;
            // An agent tells more than whether they come.
            if has_received && attached.port.guard().is_none() {
                continue;
            }
            if let Err(error) = attached.port.check() {
                attached.failed.get_or_insert(Reason::of_failure(&error));
            }
        }
    }

    /// Takes out a port that failed; its program is detached and its rings can be read to the end.
    pub(super) fn take_failed(&mut self, now: Now) -> Option<Attached<P>> {
        let at = self.attached.iter().position(|attached| attached.failed.is_some())?;
        let mut attached = self.attached.swap_remove(at);
        self.generation += 1;
        attached.port.detach();
        // That it is down is known by the link, and over with it.
        let reason = attached.failed.filter(|reason| *reason != Reason::InterfaceDown);
        if let Some(link) = self.links.iter_mut().find(|link| link.ifindex == attached.ifindex) {
            link.refused = reason.map(|reason| Refused::new(now, &attached.name, reason, String::new()));
            link.lost = Some(Lost::at(now, link.lost.map_or(0, |lost| lost.attempts)));
        }
        Some(attached)
    }

    /// Interfaces that were busy are free again.
    pub(super) fn retry_busy(&mut self) {
        let is_busy = |refused: &Refused| refused.reason == Reason::InterfaceBusy;
        for link in self.links.iter_mut().filter(|link| link.refused.as_ref().is_some_and(is_busy)) {
            link.refused = None;
        }
    }

    /// Whether a port that was lost should be opened again.
    pub(super) fn want_ports_back(&self, now: Now) -> bool {
        self.opens && self.links.iter().any(|link| link.wants_port_back(now) && !self.has_port(link.ifindex))
    }

    /// Takes in a port that another engine opened, and opens none.
    pub(super) fn adopt(&mut self, attached: Attached<P>) {
        self.opens = false;
        self.put_in(attached);
    }

    fn put_in(&mut self, attached: Attached<P>) {
        self.generation += 1;
        self.attached.push(attached);
    }

    /// Takes all out.
    pub(super) fn take_all(&mut self) -> Vec<Attached<P>> {
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

    /// Of an interface with a port, or that of a VLAN on it.
    pub(super) fn offloads_of(&self, ifindex: u32) -> Option<Offloads> {
        let carrier = self.below(ifindex);
        self.attached.iter().find(|attached| attached.ifindex == carrier).map(|attached| attached.offloads)
    }

    pub(super) fn by_port(&mut self, port: PortId) -> Option<&mut Attached<P>> {
        self.attached.iter_mut().find(|attached| attached.port_id == port)
    }

    /// Opens ports where they are missing: on `wanted`, else on the interface of `local`, else on all.
    pub(super) fn attach(
        &mut self,
        now: Now,
        host: &impl Host<Port = P>,
        (local, wanted, opening): (IpAddr, Option<u32>, Opening),
        mut join: impl FnMut(u32, &mut P) -> Result<PortId, PortError>,
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
            // Its sockets are ready for the next agent's port; until then the shadows get what comes.
            if link.forbids(now) == Some(Reason::AgentGone) {
                usable.add(None);
                continue;
            }
            if let Some(reason) = link.forbids(now).or((!self.opens).then_some(Reason::NoInterface)) {
                usable.add(Some(reason));
                continue;
            }
            let open = || self.open(now, host, (link, opening), &mut join);
            let opened = match at_home(self.home.as_deref(), open) {
                Ok(opened) => opened,
                Err(reason) => {
                    usable.add(Some(reason));
                    continue;
                }
            };
            let Some(opened) = opened.transpose() else {
                // One that was lost is asked for again later.
                let lost = &mut self.links[at].lost;
                *lost = lost.map(|lost| Lost::at(now, lost.attempts));
                usable.add(None);
                continue;
            };
            // To ask whether there is an agent again costs little.
            let is_cheap = matches!(&opened, Err(refused) if refused.reason == Reason::AgentGone);
            // An agent that ended before this process had anything of it: the next one's is waited for as if it had been lost.
            let lost = &mut self.links[at].lost;
            *lost = lost
                .or(is_cheap.then_some(Lost::at(now, 0)))
                .map(|lost| Lost::at(now, lost.attempts.saturating_add(u32::from(!is_cheap))));
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
                    usable.add((!is_cheap).then_some(reason));
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
    pub(super) fn lack_device_times(&self, host: &impl Host<Port = P>, local: IpAddr, wanted: Option<u32>) -> bool {
        let Ok(place) = self.place_of(local, wanted) else { return false };
        let of = |attached: &&Attached<P>| {
            self.links.iter().any(|link| link.ifindex == attached.ifindex && place.includes(link))
        };
        let lacks = |attached: &Attached<P>| {
            attached.port.time_source() != TimeSource::Hardware
                && at_home(self.home.as_deref(), || host.stamps_received(&attached.name)).unwrap_or(true)
        };
        self.attached.iter().filter(of).any(lacks)
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
        now: Now,
        host: &impl Host<Port = P>,
        (link, opening): (&Link, Opening),
        join: impl FnOnce(u32, &mut P) -> Result<PortId, PortError>,
    ) -> Result<Option<Attached<P>>, Refused> {
        let unnamed = |error: io::Error| Refused::new(now, "", Reason::of_error(&error), error.to_string());
        let name = host.interface_name(link.ifindex).map_err(unnamed)?;
        if !self.allowed.is_empty() && !self.allowed.contains(&name) {
            return Err(Refused::new(now, &name, Reason::OtherInterface, String::new()));
        }
        if opening == Opening::Beside && host.is_port_awaited(&name, self.wanted) {
            return Ok(None);
        }
        let refused = |error: PortError| Refused::new(now, &name, Reason::of_port(&error), error.to_string());
        let facts = host.interface_facts(&name).map_err(refused)?;
        if self.carries_vlans(link.ifindex) && host.hides_tags(&name, facts.is_veth()) {
            return Err(Refused::new(now, &name, Reason::HiddenVlanTags, String::new()));
        }
        let is_later = match opening {
            Opening::Now => false,
            Opening::WhenUsed => host.is_served_by_agent(self.wanted),
            Opening::Beside => !host.begin_port(&name, self.wanted),
        };
        if is_later {
            return Ok(None);
        }
        let mut port = host.open_port(&facts, self.wanted).map_err(refused)?;
        let port_id = join(link.ifindex, &mut port).map_err(refused)?;
        let offloads = host.offloads(&name);
        Ok(Some(Attached { offloads, ..Attached::new(link.ifindex, &name, facts.is_veth(), port, port_id) }))
    }
}

/// When a port of the agent's is opened. A program's own is opened at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// At once.
    Now,
    /// When a call first uses the socket.
    WhenUsed,
    /// Beside what the program does, which is asked again: no call waits for it.
    Beside,
}

impl Opening {
    pub(crate) const fn of(is_used: bool) -> Opening {
        if is_used { Opening::Now } else { Opening::WhenUsed }
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
