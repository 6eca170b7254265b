//! A network device that is found again under another name.

use serde::{Deserialize, Serialize};

use crate::read::Nic;
use crate::setting::{NicFact, PcieFact};
use crate::{Reading, Root, interfaces};

/// A network device: by its place on the PCI bus if it has one, else by the interface's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The interface's name when it was looked up.
    pub interface: String,
    /// The PCI functions from the root port down and the port of the last one:
    /// `0000:00:01.1 0000:02:00.0 port 0`, with the port's own name where it has one. Virtual
    /// interfaces have none.
    pub place: Option<String>,
}

impl Device {
    /// Looks an interface up in the calling thread's network namespace.
    #[must_use]
    pub fn of(root: &Root, interface: &str) -> Self {
        Self { interface: interface.to_owned(), place: place(root, interface) }
    }

    /// The interface's name now, if the device is there.
    #[must_use]
    pub fn find(&self, root: &Root) -> Option<String> {
        let is_it = |name: &str| self.place.is_some() && place(root, name) == self.place;
        let is_there = || Nic::open(root, &self.interface).read(NicFact::File("ifindex")).as_value().is_some();
        match &self.place {
            None => (is_there() || (root.is_live() && answers(&self.interface))).then(|| self.interface.clone()),
            Some(_) if is_it(&self.interface) => Some(self.interface.clone()),
            Some(_) => interfaces(root).ok()?.into_iter().find(|name| is_it(name)),
        }
    }

    /// What tells it from other devices.
    #[must_use]
    pub fn key(&self) -> &str {
        self.place.as_deref().unwrap_or(&self.interface)
    }
}

/// Whether ethtool finds the interface, where sysfs shows another namespace.
fn answers(interface: &str) -> bool {
    nearwire_sys::ethtool::Interface::open(interface).is_ok_and(|interface| interface.index().is_ok())
}

fn place(root: &Root, interface: &str) -> Option<String> {
    let nic = Nic::open(root, interface);
    let Reading::Value(path) = nic.read(NicFact::Pcie(PcieFact::Path)) else { return None };
    if path.is_empty() {
        return None;
    }
    let port = nic.read(NicFact::File("dev_port"));
    // Ports of a switch and stand-ins of virtual functions share function and number.
    let name = nic.read(NicFact::File("phys_port_name"));
    let name = name.as_value().map_or(String::new(), |name| format!(" {name}"));
    Some(format!("{path} port {}{name}", port.as_value().unwrap_or("0")))
}
