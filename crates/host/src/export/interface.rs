//! What must be known of an interface to write a file for it.

use crate::{Reading, Root, catalogue, read_settings};

/// An interface, and what tells its device from others at boot, before it has its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The address of its PCI function, `0000:3b:00.0`, where it has one of its own.
    pub pci: Option<String>,
}

impl Interface {
    /// Looks at an interface of a host.
    #[must_use]
    pub fn read(root: &Root, name: &str) -> Self {
        let settings: Vec<_> = catalogue::setting("nic.bus-info").into_iter().collect();
        let readings = read_settings(root, &settings, &[name.to_owned()]);
        let bus = readings.into_iter().find_map(|(_, reading)| match reading {
            Reading::Value(value) => Some(value),
            _ => None,
        });
        Self { name: name.to_owned(), pci: bus.filter(|bus| is_pci(bus)) }
    }
}

/// The address of the interface's PCI function if that is a proper one and no other interface of
/// the list shares it, as two ports of one function do.
pub(super) fn own_pci<'a>(interfaces: &'a [Interface], name: &str) -> Option<&'a str> {
    let pci = interfaces.iter().find(|interface| interface.name == name)?.pci.as_deref()?;
    let shares = |interface: &&Interface| interface.name != name && interface.pci.as_deref() == Some(pci);
    (is_pci(pci) && !interfaces.iter().any(|interface| shares(&interface))).then_some(pci)
}

/// `DDDD:BB:DD.F`; the domain may be longer.
fn is_pci(address: &str) -> bool {
    let is_hex = |text: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let parts: Vec<_> = address.split([':', '.']).collect();
    let [domain, bus, device, function] = parts[..] else { return false };
    address.matches(':').count() == 2
        && is_hex(domain, 4..=8)
        && is_hex(bus, 2..=2)
        && is_hex(device, 2..=2)
        && is_hex(function, 1..=1)
}

/// Whether a name can stand in a path, a unit's name and a command without quotes. The kernel
/// takes more (`dev_valid_name`); such a name is refused here.
pub(super) fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    (1..=15).contains(&name.len()) && name.chars().all(plain) && !name.starts_with(['-', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_address_shared_by_two_ports_tells_neither() {
        let port = |name: &str, pci: &str| Interface { name: name.to_owned(), pci: Some(pci.to_owned()) };
        let ports = [port("a", "0000:3b:00.0"), port("b", "0000:3b:00.0"), port("c", "0000:3b:00.1")];
        assert_eq!(own_pci(&ports, "a"), None);
        assert_eq!(own_pci(&ports, "c"), Some("0000:3b:00.1"));
        assert_eq!(own_pci(&ports, "d"), None);
        for odd in ["virtio0", "0000:3b:00", "0000.3b.00:0", "0000:3b:00.0*", "\"0000:3b:00.0", ""] {
            assert_eq!(own_pci(&[port("a", odd)], "a"), None, "{odd}");
        }
    }

    #[test]
    fn name_that_a_shell_or_a_path_would_read_is_not_plain() {
        for name in ["eth0", "enp59s0f0np0", "eth0.100", "my-nic", "br_lan"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["", ".", "..", "-rf", "a b", "a;b", "a$b", "a/b", "a\nb", "é", "a%b", "a\"b", "x123456789012345"]
        {
            assert!(!is_plain(name), "{name}");
        }
    }

    #[test]
    fn interface_of_a_copied_host_has_the_place_its_device_links_to() {
        let copy = tempfile::tempdir().unwrap();
        let interface = copy.path().join("sys/class/net/eth0");
        std::fs::create_dir_all(&interface).unwrap();
        std::os::unix::fs::symlink("../../../devices/pci0000:3a/0000:3b:00.0", interface.join("device")).unwrap();
        let root = Root::directory(copy.path()).unwrap();
        assert_eq!(Interface::read(&root, "eth0").pci.as_deref(), Some("0000:3b:00.0"));
        assert_eq!(Interface::read(&root, "eth1").pci, None);
    }
}
