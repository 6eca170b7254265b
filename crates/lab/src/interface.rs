//! Facts about interfaces of the calling thread's namespace.

use std::fs;
use std::path::Path;

use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp, State};

use crate::LabError;
use crate::netlink::Netlink;

/// Interface names are at most this long: `IFNAMSIZ` less the terminating zero.
const NAME_BYTES_MAX: usize = 15;

/// What the kernel tells about an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterfaceFacts {
    /// Name, as in `eth0`.
    pub name: String,
    /// Index within its namespace.
    pub ifindex: u32,
    /// Link address; all zero for `lo` and for links whose addresses are not Ethernet's.
    pub mac: [u8; 6],
    /// Largest payload of a frame, in bytes.
    pub mtu_bytes: u32,
    /// Brought up by the administrator (`IFF_UP`).
    pub up: bool,
    /// The link is there and the kernel has noticed: `IFF_LOWER_UP` and an operational state that
    /// lets traffic pass.
    pub carrier: bool,
    /// `IFLA_INFO_KIND`, as in `veth` or `bridge`; `None` for hardware.
    pub kind: Option<String>,
    /// Name of the device driver from sysfs, as in `ixgbe`; `None` for software interfaces and in
    /// namespaces that sysfs does not show.
    pub driver: Option<String>,
    /// Transmit queues allocated.
    pub tx_queues: u32,
    /// Receive queues allocated.
    pub rx_queues: u32,
    /// Kernel id of the XDP program attached, in whichever mode.
    pub xdp_program_id: Option<u32>,
    /// The loopback interface (`IFF_LOOPBACK`).
    pub loopback: bool,
    /// Index of the bridge, bond, team or VRF that holds this interface.
    pub controller_ifindex: Option<u32>,
    /// The kernel says that it cannot change its namespace (`IFLA_NETNS_IMMUTABLE`, Linux 6.15).
    /// False also where the kernel does not say.
    pub pinned_to_namespace: bool,
}

/// Facts about the interface called `name` in the namespace of the calling thread.
///
/// # Errors
///
/// [`LabError::MissingInterface`] with the names there are, or a netlink failure.
pub fn interface_facts(name: &str) -> Result<InterfaceFacts, LabError> {
    let mut netlink = Netlink::open()?;
    facts_named(&mut netlink, name)
}

/// Facts about all interfaces in the namespace of the calling thread, by index.
///
/// # Errors
///
/// A netlink failure.
pub fn interfaces() -> Result<Vec<InterfaceFacts>, LabError> {
    let links = Netlink::open()?.links()?;
    Ok(links.iter().map(InterfaceFacts::from_link).collect())
}

/// Facts about the interface called `name` in the namespace of `netlink`.
pub(crate) fn facts_named(netlink: &mut Netlink, name: &str) -> Result<InterfaceFacts, LabError> {
    let possible = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    let link = if possible { netlink.link_named(name)? } else { None };
    if let Some(link) = link {
        return Ok(InterfaceFacts::from_link(&link));
    }
    let existing = netlink.links()?;
    Err(LabError::MissingInterface {
        interface: name.to_owned(),
        existing: existing.iter().map(|link| InterfaceFacts::from_link(link).name).collect(),
    })
}

impl InterfaceFacts {
    /// What other programs show as the driver: the driver of hardware, else the kind.
    #[must_use]
    pub fn driver_or_kind(&self) -> &str {
        self.driver.as_deref().or(self.kind.as_deref()).unwrap_or("unknown")
    }

    pub(crate) fn from_link(link: &LinkMessage) -> Self {
        let flags = link.header.flags;
        let mut facts = Self {
            name: String::new(),
            ifindex: link.header.index,
            mac: [0; 6],
            mtu_bytes: 0,
            up: flags.contains(LinkFlags::Up),
            carrier: false,
            kind: None,
            driver: None,
            tx_queues: 1,
            rx_queues: 1,
            xdp_program_id: None,
            loopback: flags.contains(LinkFlags::Loopback),
            controller_ifindex: None,
            pinned_to_namespace: false,
        };
        let mut state = State::Unknown;
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::OperState(found) => state = *found,
                other => facts.take(other),
            }
        }
        // Drivers that do not track the state leave it unknown, which lets traffic pass.
        let passes = matches!(state, State::Up | State::Unknown);
        facts.carrier = flags.contains(LinkFlags::LowerUp) && passes;
        facts.driver = driver_of(&facts);
        facts
    }

    fn take(&mut self, attribute: &LinkAttribute) {
        match attribute {
            LinkAttribute::IfName(name) => self.name.clone_from(name),
            LinkAttribute::Address(bytes) => {
                self.mac = bytes.as_slice().try_into().unwrap_or_default();
            }
            LinkAttribute::Mtu(mtu) => self.mtu_bytes = *mtu,
            LinkAttribute::NumTxQueues(queues) => self.tx_queues = *queues,
            LinkAttribute::NumRxQueues(queues) => self.rx_queues = *queues,
            LinkAttribute::Controller(ifindex) => self.controller_ifindex = Some(*ifindex),
            LinkAttribute::NetnsImmutable(pinned) => self.pinned_to_namespace = *pinned,
            LinkAttribute::Xdp(xdp) => self.xdp_program_id = xdp.iter().find_map(program_id),
            LinkAttribute::LinkInfo(infos) => {
                self.kind = infos.iter().find_map(|info| match info {
                    LinkInfo::Kind(kind) => Some(kind.to_string()),
                    _ => None,
                });
            }
            _ => {}
        }
    }
}

fn program_id(attribute: &LinkXdp) -> Option<u32> {
    match attribute {
        LinkXdp::ProgId(id) | LinkXdp::DrvProgId(id) | LinkXdp::SkbProgId(id) | LinkXdp::HwProgId(id) if *id != 0 => {
            Some(*id)
        }
        _ => None,
    }
}

/// The driver from sysfs, if sysfs shows this very interface: it shows the namespace it was
/// mounted in, which may hold another interface of the same name.
fn driver_of(facts: &InterfaceFacts) -> Option<String> {
    if facts.kind.is_some() || facts.loopback {
        return None;
    }
    let folder = Path::new("/sys/class/net").join(&facts.name);
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let same_index = read("ifindex")?.trim() == facts.ifindex.to_string();
    let mac = facts.mac.map(|byte| format!("{byte:02x}")).join(":");
    if !same_index || read("address")?.trim() != mac {
        return None;
    }
    let driver = fs::read_link(folder.join("device/driver")).ok()?;
    Some(driver.file_name()?.to_string_lossy().into_owned())
}
