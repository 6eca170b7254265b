//! The PCI Express path of an interface: from the root port down, by sysfs and the configuration
//! space of each function.
//!
//! Source: PCI Express Base Specification 5.0, 7.5 (capability), 7.7 and 10.5 (extended
//! capabilities); `include/uapi/linux/pci_regs.h`.

use super::Nic;
use crate::Reading;
use crate::read::condense::condense;
use crate::setting::PcieFact;

/// Without privileges the kernel gives this much of the configuration space.
const HEADER_BYTES: usize = 64;
const CONFIG_BYTES: u64 = 4096;
const CAPABILITIES_AT: usize = 0x34;
const EXPRESS: u8 = 0x10;
const DEVICE_CONTROL: usize = 0x08;
const LINK_CAPABILITIES: usize = 0x0c;
const LINK_CONTROL: usize = 0x10;
const LINK_STATUS: usize = 0x12;
/// Gigatransfers a second, by the number of the speed, counted from 1.
const SPEEDS: [&str; 6] = ["2.5", "5.0", "8.0", "16.0", "32.0", "64.0"];
const EXTENDED_AT: usize = 0x100;
const ATS: u16 = 0x0f;
const ATS_CONTROL: usize = 6;
/// More capabilities than this do not fit; a loop in the list ends here.
const CAPABILITIES_MAX: usize = 64;

impl Nic<'_> {
    pub(super) fn pcie(&self, fact: PcieFact) -> Reading {
        let path = match self.pci_path() {
            Ok(path) => path,
            Err(reading) => return reading,
        };
        let own = |of: fn(&[u8]) -> Reading| match path.last() {
            Some((_, directory)) => self.of_config(directory, of),
            None => Reading::Unsupported,
        };
        match fact {
            PcieFact::Path => Reading::Value(path.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")),
            PcieFact::SpeedPossible => self.possible(&path, "max_link_speed"),
            PcieFact::WidthPossible => self.possible(&path, "max_link_width"),
            PcieFact::MaxPayload => self.along(&path, max_payload),
            PcieFact::Aspm => self.along(&path, aspm),
            PcieFact::MaxReadRequest => own(max_read_request),
            PcieFact::RelaxedOrdering => own(|config| device_control_bit(config, 4)),
            PcieFact::ExtendedTags => own(|config| device_control_bit(config, 8)),
            PcieFact::AddressTranslation => own(address_translation),
        }
    }

    /// The functions from below the host bridge to the device, each with its directory.
    pub(crate) fn pci_path(&self) -> Result<Vec<(String, String)>, Reading> {
        let sysfs = self.sysfs.as_ref().map_err(Clone::clone)?;
        let target = match self.root.link_target(sysfs) {
            Ok(target) => target,
            // A copy may have plain directories in place of links.
            Err(_) => return Err(Reading::unknown("sysfs does not show where the device is")),
        };
        let Some((_, below)) = target.split_once("devices/") else {
            return Err(Reading::Unsupported);
        };
        let mut directory = "/sys/devices".to_owned();
        let mut path = Vec::new();
        for part in below.split('/') {
            directory = format!("{directory}/{part}");
            if is_pci_address(part) {
                path.push((part.to_owned(), directory.clone()));
            }
        }
        if path.is_empty() { Err(Reading::Unsupported) } else { Ok(path) }
    }

    /// The lower of what the device and the port above it can do, which is the most that their link can have.
    fn possible(&self, path: &[(String, String)], file: &str) -> Reading {
        let number = |text: &str| text.split(' ').next()?.parse::<f64>().ok().filter(|&number| number > 0.0);
        let of_device = self.device_file(file);
        let above = path.len().checked_sub(2).and_then(|at| path.get(at));
        let of_port = above.and_then(|(_, directory)| {
            let by_config = || link_word(&self.config(directory).ok()?, "max", file.strip_prefix("max_link_")?);
            self.root.read(&format!("{directory}/{file}")).ok().or_else(by_config)
        });
        // Ports of virtual machines may say `Unknown` or 0.
        match (of_device.as_value().and_then(number), of_port.as_deref().and_then(number)) {
            (Some(device), Some(port)) if port < device => Reading::value(of_port.unwrap_or_default()),
            _ => of_device,
        }
    }

    fn along(&self, path: &[(String, String)], of: fn(&[u8]) -> Reading) -> Reading {
        let readings = path.iter().map(|(name, directory)| (name.clone(), self.of_config(directory, of)));
        // A bridge of the old kind above the device has no such setting.
        let known: Vec<_> = readings.filter(|(_, reading)| *reading != Reading::Unsupported).collect();
        condense(known)
    }

    /// What a file of the device about its link would say, for copies without these files. A function that is not of
    /// PCI Express has no such link.
    pub(super) fn link_by_config(&self, file: &str) -> Option<Reading> {
        let (end, what) = file.split_once("_link_")?;
        let config = self.config(&self.pci_path().ok()?.last()?.1).ok().filter(|config| config.len() > HEADER_BYTES)?;
        Some(link_word(&config, end, what).map_or(Reading::Unsupported, Reading::Value))
    }

    /// The configuration space, from sysfs; `sos` copies the older files of it.
    fn config(&self, directory: &str) -> Result<Vec<u8>, Reading> {
        match self.root.read_bytes(&format!("{directory}/config"), CONFIG_BYTES) {
            Err(lack @ Reading::Unknown { .. }) if !self.root.tells_absence() => {
                let address = directory.rsplit('/').next().unwrap_or_default();
                let (bus, function) = address.rsplit_once(':').unwrap_or_default();
                let bus = bus.strip_prefix("0000:").unwrap_or(bus);
                self.root.read_bytes(&format!("/proc/bus/pci/{bus}/{function}"), CONFIG_BYTES).map_err(|_| lack)
            }
            found => found,
        }
    }

    fn of_config(&self, directory: &str, of: fn(&[u8]) -> Reading) -> Reading {
        match self.config(directory) {
            Ok(config) if config.len() <= HEADER_BYTES => {
                if self.root.is_whole() {
                    Reading::NeedsRoot
                } else {
                    Reading::unknown("the copy has only the first 64 bytes of the configuration space")
                }
            }
            Ok(config) => of(&config),
            Err(reading) => reading,
        }
    }
}

/// `0000:05:00.0`, with 4 or 5 digits of domain.
fn is_pci_address(part: &str) -> bool {
    let mut pieces = part.split([':', '.']);
    let lengths = [4..=5, 2..=2, 2..=2, 1..=1];
    let is_hex = |piece: &str| piece.bytes().all(|b| b.is_ascii_hexdigit());
    lengths.into_iter().all(|length| pieces.next().is_some_and(|p| length.contains(&p.len()) && is_hex(p)))
        && pieces.next().is_none()
}

fn word(config: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes([*config.get(at)?, *config.get(at + 1)?]))
}

/// Where the capability of PCI Express begins.
fn express(config: &[u8]) -> Option<usize> {
    let mut at = usize::from(*config.get(CAPABILITIES_AT)? & !3);
    for _ in 0..CAPABILITIES_MAX {
        if at < HEADER_BYTES {
            return None;
        }
        if *config.get(at)? == EXPRESS {
            return Some(at);
        }
        at = usize::from(*config.get(at + 1)? & !3);
    }
    None
}

/// Speed or width of the link in the words of sysfs (`pci_speed_string` of `drivers/pci/probe.c`): both registers have the
/// speed in bits 0 to 3 and the width in bits 4 to 9.
fn link_word(config: &[u8], end: &str, what: &str) -> Option<String> {
    let at = express(config)? + if end == "current" { LINK_STATUS } else { LINK_CAPABILITIES };
    let register = word(config, at)?;
    match what {
        "speed" => SPEEDS.get(usize::from(register & 0xf).checked_sub(1)?).map(|speed| format!("{speed} GT/s PCIe")),
        "width" => Some((register >> 4 & 0x3f).to_string()),
        _ => None,
    }
}

fn device_control(config: &[u8]) -> Option<u16> {
    word(config, express(config)? + DEVICE_CONTROL)
}

fn max_payload(config: &[u8]) -> Reading {
    size(device_control(config).map(|control| control >> 5))
}

fn max_read_request(config: &[u8]) -> Reading {
    size(device_control(config).map(|control| control >> 12))
}

/// Three bits that mean 128 bytes shifted left; 6 and 7 are reserved.
fn size(field: Option<u16>) -> Reading {
    match field.map(|field| field & 7) {
        Some(shift @ 0..=5) => Reading::value(128_u32 << shift),
        Some(_) => Reading::unknown("a reserved size"),
        None => Reading::Unsupported,
    }
}

fn device_control_bit(config: &[u8], bit: u32) -> Reading {
    device_control(config).map_or(Reading::Unsupported, |control| Reading::switch(control >> bit & 1 == 1))
}

fn aspm(config: &[u8]) -> Reading {
    let control = express(config).and_then(|at| word(config, at + LINK_CONTROL));
    let words = ["off", "L0s", "L1", "L0s L1"];
    control.map_or(Reading::Unsupported, |control| Reading::value(words[usize::from(control & 3)]))
}

fn address_translation(config: &[u8]) -> Reading {
    let mut at = EXTENDED_AT;
    for _ in 0..CAPABILITIES_MAX {
        let (Some(id), Some(next)) = (word(config, at), word(config, at + 2)) else {
            return Reading::Unsupported;
        };
        if id == ATS {
            let control = word(config, at + ATS_CONTROL);
            return control.map_or(Reading::Unsupported, |control| Reading::switch(control >> 15 == 1));
        }
        at = usize::from(next >> 4 & !3);
        if at < EXTENDED_AT {
            return Reading::Unsupported;
        }
    }
    Reading::Unsupported
}
