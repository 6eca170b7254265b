//! Interfaces: which there are, which have a port of ours, and why others have none.

use std::net::{IpAddr, Ipv4Addr};

use nearwire_frames::PortError;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::{Side, Steer, XdpConfig, XdpMode, XdpPort, candidates};
use nearwire_stack::{LinkKind, PortId, ReceiveChecksum, Update};

use crate::config::{Config, Mode};
use crate::reason::Reason;

/// Buffers to receive into, each queue: what bursts may bring, for all sockets together, while the program does not call.
/// The kernel's own buffer of one socket holds about 280 small datagrams by default, so this is the share of fourteen
/// sockets that are all full, and 8 MiB.
pub(super) const FILL_FRAMES: u32 = 4096;
/// Where RLIMIT_MEMLOCK, 8 MiB by default, does not allow these: two sockets' worth.
const FILL_FRAMES_LOCKED: u32 = 512;
/// The same, over all queues of an interface.
const FILL_FRAMES_MOST: u32 = 8192;
const TX_FRAMES: u32 = 256;

/// An interface with a port.
pub struct Attached {
    /// Its index.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// The port.
    pub port: XdpPort,
    /// The port's name in the stack.
    pub(super) port_id: PortId,
    /// Frames are queued that no kick was made for.
    pub(super) unsent: bool,
    /// The port said that it can no more.
    pub(super) failed: bool,
    is_veth: bool,
}

impl Attached {
    /// A sender on this machine leaves the checksum to its card, and the peer of a veth pair is such a sender: what
    /// arrives has the sum of the pseudo header alone. On any other device that would be corruption let through.
    #[inline]
    pub(super) const fn receive_checksum(&self) -> ReceiveChecksum {
        if self.is_veth { ReceiveChecksum::VerifyOrPartial } else { ReceiveChecksum::Verify }
    }
}

/// A link that could have a port.
#[derive(Clone, Debug)]
struct Link {
    ifindex: u32,
    is_up: bool,
    kind: LinkKind,
    /// Why it got no port when it was tried.
    refused: Option<Reason>,
}

/// See the module.
pub(super) struct Interfaces {
    pub(super) attached: Vec<Attached>,
    links: Vec<Link>,
    addresses: Vec<(u32, IpAddr)>,
    allowed: Vec<String>,
    mode: Mode,
}

impl Interfaces {
    pub(super) fn new(config: &Config) -> Interfaces {
        Interfaces {
            attached: Vec::new(),
            links: Vec::new(),
            addresses: Vec::new(),
            allowed: config.interfaces.clone(),
            mode: config.mode,
        }
    }

    /// Keeps links and addresses. Says whether addresses changed.
    pub(super) fn note(&mut self, update: &Update) -> bool {
        match update {
            Update::NewLink(link) => {
                let (ifindex, is_up, kind) = (link.ifindex, link.is_up, link.kind);
                match self.links.iter_mut().find(|known| known.ifindex == ifindex) {
                    // A change may have removed what stood in the way.
                    Some(known) => *known = Link { ifindex, is_up, kind, refused: None },
                    None => self.links.push(Link { ifindex, is_up, kind, refused: None }),
                }
            }
            Update::DelLink { ifindex } => {
                self.links.retain(|link| link.ifindex != *ifindex);
                self.addresses.retain(|(of, _)| of != ifindex);
                for attached in self.attached.iter_mut().filter(|attached| attached.ifindex == *ifindex) {
                    attached.failed = true;
                }
                return true;
            }
            Update::NewAddress(address) if !address.is_tentative => {
                let entry = (address.ifindex, address.address);
                if self.addresses.contains(&entry) {
                    return false;
                }
                self.addresses.push(entry);
                return true;
            }
            Update::DelAddress { ifindex, address } => {
                self.addresses.retain(|known| *known != (*ifindex, *address));
                return true;
            }
            _ => {}
        }
        false
    }

    pub(super) fn forget_addresses(&mut self) {
        self.addresses.clear();
        self.links.clear();
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
        let wanted = wanted.or_else(|| self.interface_with(local));
        let wanted = wanted.map(|ifindex| self.below(ifindex));
        let links: Vec<Link> =
            self.links.iter().filter(|link| wanted.is_none_or(|ifindex| ifindex == link.ifindex)).cloned().collect();
        let mut first_refusal = None;
        let mut usable = 0;
        for link in links {
            if self.attached.iter().any(|attached| attached.ifindex == link.ifindex) {
                usable += 1;
                continue;
            }
            let opened = match link.refused {
                Some(reason) => Err(reason),
                None => self.open(&link, &mut join),
            };
            match opened {
                Ok(attached) => {
                    self.attached.push(attached);
                    usable += 1;
                }
                Err(reason) => {
                    if let Some(known) = self.links.iter_mut().find(|known| known.ifindex == link.ifindex) {
                        known.refused = Some(reason);
                    }
                    // An interface that nobody would accelerate explains nothing where another one was tried.
                    if first_refusal.is_none() || first_refusal == Some(Reason::NotEthernet) {
                        first_refusal = Some(reason);
                    }
                }
            }
        }
        if usable > 0 { Ok(()) } else { Err(first_refusal.unwrap_or(Reason::NoInterface)) }
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
    ) -> Result<Attached, Reason> {
        match link.kind {
            LinkKind::Ethernet => {}
            LinkKind::Loopback => return Err(Reason::Loopback),
            LinkKind::Vlan { .. } | LinkKind::Other => return Err(Reason::NotEthernet),
        }
        if !link.is_up {
            return Err(Reason::InterfaceDown);
        }
        let name = rustix::net::netdevice::index_to_name_inlined(any_socket()?, link.ifindex)
            .map_err(|_| Reason::InterfaceDown)?;
        let name = name.as_str().to_owned();
        if !self.allowed.is_empty() && !self.allowed.contains(&name) {
            return Err(Reason::OtherInterface);
        }
        let facts = InterfaceFacts::read(&name).map_err(|error| Reason::of_port(&error))?;
        let refused = |error: PortError| Reason::of_port(&error);
        let mut port = open_port(&facts, self.mode).map_err(refused)?;
        let port_id = join(link.ifindex, &mut port).map_err(refused)?;
        Ok(Attached {
            ifindex: link.ifindex,
            name,
            port,
            port_id,
            unsent: false,
            failed: false,
            is_veth: facts.driver == "veth",
        })
    }
}

/// A socket of any kind, for questions about interfaces.
fn any_socket() -> Result<std::os::fd::OwnedFd, Reason> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).map_err(|_| Reason::NoInterface)
}

/// Opens a port in the first of the ways that may be used and works, on all receive queues: datagrams arrive on the
/// queue that the device chooses.
fn open_port(facts: &InterfaceFacts, mode: Mode) -> Result<XdpPort, PortError> {
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
        let open = |fill_frames| XdpPort::open(&sized(candidate.config.clone(), facts, fill_frames));
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

fn sized(config: XdpConfig, facts: &InterfaceFacts, fill_frames_most: u32) -> XdpConfig {
    // 2048 bytes carry a packet of the usual MTU; the kernel keeps 256 for itself.
    let frame_size_bytes = if facts.frame_most_bytes() > 1792 { 4096 } else { 2048 };
    let queues = facts.rx_queues.max(1);
    let share = FILL_FRAMES_MOST / queues;
    let fill_frames = (1 << share.max(64).ilog2()).min(fill_frames_most);
    XdpConfig {
        // All of them, as the device chooses. Where the way wants a socket of its own to send, the one of the last
        // queue sends: it seldom receives, and the CPU of the peer does not write what ours writes.
        rx_queues: (0..queues).collect(),
        tx_queue: config.tx_queue.min(queues - 1),
        separate_tx_socket: false,
        frame_size_bytes,
        fill_frames,
        rx_ring_slots: fill_frames,
        tx_frames: TX_FRAMES,
        prepared_frames: 0,
        ..config
    }
}
