//! Facts of network interfaces, in the calling thread's network namespace.
//!
//! ethtool and rtnetlink answer for the thread. `/sys/class/net` does not: it shows the namespace
//! of whoever mounted it, so a file there is believed only when the interface in it is the same
//! one.

mod device;
mod link;
mod pcie;

use std::cell::OnceCell;

use nearwire_sys::ethtool::{
    Channels, Coalesce, DriverInfo, EnergyEfficient, EthtoolError, Features, Fec, Interface, LinkSettings, Pause,
    Rings, Timestamping,
};
use nearwire_sys::netdev::{self, XdpFeatures};

use rustix::io::Errno;

use super::one_line;
use crate::catalogue::nic::text;
use crate::setting::{EthtoolFact, NicFact};
use crate::{Reading, Root};
use link::Link;

type Answer<T> = OnceCell<Result<T, Reading>>;

/// One interface while its settings are read: each question is asked once.
pub(crate) struct Nic<'a> {
    root: &'a Root,
    name: &'a str,
    interface: Result<Interface, Reading>,
    link: Result<Link, Reading>,
    /// The interface's directory in sysfs, or why it is not to be believed.
    sysfs: Result<String, Reading>,
    driver: Answer<DriverInfo>,
    rings: Answer<Rings>,
    coalesce: Answer<Coalesce>,
    channels: Answer<Channels>,
    settings: Answer<LinkSettings>,
    timestamping: Answer<Timestamping>,
    pause: Answer<Pause>,
    energy_efficient: Answer<EnergyEfficient>,
    fec: Answer<Fec>,
    hash_function: Answer<u8>,
    wake_on_lan: Answer<u32>,
    module: Answer<u32>,
    features: Answer<Features>,
}

impl<'a> Nic<'a> {
    /// Takes hold of an interface; that it does not exist shows in every reading.
    pub(crate) fn open(root: &'a Root, name: &'a str) -> Self {
        let (interface, link) = if !is_name(name) {
            let why = || Reading::unknown(format!("{name:?} is not the name of an interface"));
            (Err(why()), Err(why()))
        } else if root.is_live() {
            (Interface::open(name).map_err(reading), Link::ask(name))
        } else {
            let why = || Reading::unknown("only the live kernel can be asked");
            (Err(why()), Err(why()))
        };
        let mut nic = Self {
            root,
            name,
            interface,
            link,
            sysfs: Err(Reading::Unsupported),
            driver: OnceCell::new(),
            rings: OnceCell::new(),
            coalesce: OnceCell::new(),
            channels: OnceCell::new(),
            settings: OnceCell::new(),
            timestamping: OnceCell::new(),
            pause: OnceCell::new(),
            energy_efficient: OnceCell::new(),
            fec: OnceCell::new(),
            hash_function: OnceCell::new(),
            wake_on_lan: OnceCell::new(),
            module: OnceCell::new(),
            features: OnceCell::new(),
        };
        nic.sysfs = nic.find_in_sysfs();
        nic
    }

    pub(crate) fn read(&self, fact: NicFact) -> Reading {
        match fact {
            NicFact::Driver => self.driver_name(),
            NicFact::BusInfo => self.bus_info(),
            NicFact::Ethtool(fact) => self.ethtool(fact),
            NicFact::Link(fact) => self.link_fact(fact),
            NicFact::Offload(names) => self.offload(names),
            NicFact::XdpFeatures => self.xdp_features(),
            NicFact::File(file) => self.file(file),
            NicFact::Device(file) => self.device_file(file),
            NicFact::QueueMask(direction, file) => self.queue_masks(direction, file),
            NicFact::QueueFile(direction, file) => self.queue_files(direction, file),
            NicFact::IrqAffinity => self.irq_affinity(),
            NicFact::Statistics(names) => self.statistics(names),
            NicFact::Neighbours => self.neighbours(),
            NicFact::Pcie(fact) => self.pcie(fact),
        }
    }

    fn ethtool(&self, fact: EthtoolFact) -> Reading {
        match fact {
            EthtoolFact::Driver(of) => self.ask(&self.driver, Interface::driver_info, of),
            EthtoolFact::Rings(of) => self.ask(&self.rings, Interface::rings, of),
            EthtoolFact::Coalesce(of) => self.ask(&self.coalesce, Interface::coalesce, of),
            EthtoolFact::Channels(of) => self.ask(&self.channels, Interface::channels, of),
            EthtoolFact::Link(of) => self.ask(&self.settings, Interface::link_settings, of),
            EthtoolFact::Timestamping(of) => self.ask(&self.timestamping, Interface::timestamping, of),
            EthtoolFact::Pause(of) => self.ask(&self.pause, Interface::pause, of),
            EthtoolFact::EnergyEfficient(of) => self.ask(&self.energy_efficient, Interface::energy_efficient, of),
            EthtoolFact::Fec(of) => self.ask(&self.fec, Interface::fec, of),
            EthtoolFact::HashFunction(of) => self.ask(&self.hash_function, Interface::hash_function, |&bits| of(bits)),
            EthtoolFact::WakeOnLan(of) => self.ask(&self.wake_on_lan, Interface::wake_on_lan, |&bits| of(bits)),
            EthtoolFact::Module(of) => self.ask(&self.module, Interface::module_kind, |&kind| of(kind)),
        }
    }

    fn driver_name(&self) -> Reading {
        if self.root.is_live() {
            return self.ask(&self.driver, Interface::driver_info, |info| text(&info.driver));
        }
        self.device_link("device/driver")
    }

    fn bus_info(&self) -> Reading {
        if self.root.is_live() {
            return self.ask(&self.driver, Interface::driver_info, |info| text(&info.bus_info));
        }
        self.device_link("device")
    }

    fn offload(&self, names: &[&str]) -> Reading {
        self.ask(&self.features, Interface::features, |features| {
            let known: Vec<_> = names.iter().filter_map(|name| features.get(name)).collect();
            if known.is_empty() {
                return Reading::Unsupported;
            }
            Reading::switch(known.iter().any(|feature| feature.is_active))
        })
    }

    /// What the driver can do for XDP, or `none`; any driver runs programs on socket buffers.
    fn xdp_features(&self) -> Reading {
        let index = match &self.link {
            Ok(link) => link.index,
            Err(reading) => return reading.clone(),
        };
        let names = [
            (XdpFeatures::BASIC, "native"),
            (XdpFeatures::REDIRECT, "redirect"),
            (XdpFeatures::NDO_XMIT, "redirect-target"),
            (XdpFeatures::XSK_ZEROCOPY, "zero-copy"),
            (XdpFeatures::HW_OFFLOAD, "offload"),
            (XdpFeatures::RX_SG, "multi-buffer"),
        ];
        match netdev::xdp_features(index) {
            Ok(found) => {
                let words: Vec<_> =
                    names.iter().filter(|(bit, _)| found.contains(*bit)).map(|(_, name)| *name).collect();
                Reading::value(if words.is_empty() { "none".to_owned() } else { words.join(" ") })
            }
            Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
                Reading::unknown("only Linux 6.3 and later tell")
            }
            Err(error) => Reading::unknown(format!("netdev family: {}: {error}", self.name)),
        }
    }

    fn ask<T>(
        &self,
        answer: &Answer<T>,
        question: fn(&Interface) -> Result<T, EthtoolError>,
        of: impl FnOnce(&T) -> Reading,
    ) -> Reading {
        let ask = || question(self.interface.as_ref().map_err(Clone::clone)?).map_err(reading);
        match answer.get_or_init(ask) {
            Ok(found) => of(found),
            Err(reading) => reading.clone(),
        }
    }

    fn file(&self, file: &str) -> Reading {
        let sysfs = match &self.sysfs {
            Ok(sysfs) => sysfs,
            Err(reading) => return reading.clone(),
        };
        self.root.read(&format!("{sysfs}/{file}")).map(|text| one_line(&text)).into()
    }

    /// Looks whether sysfs shows this very interface: the same name, index and hardware address.
    /// Name and index alone are often equal in two namespaces; of the loopback interface the
    /// address is too, so that it needs the thread to be where its process is.
    fn find_in_sysfs(&self) -> Result<String, Reading> {
        let name = self.name;
        if !is_name(name) {
            return Err(Reading::unknown(format!("{name:?} is not the name of an interface")));
        }
        let sysfs = format!("/sys/class/net/{name}");
        if !self.root.is_live() {
            return self.root.list(&sysfs).map(|_| sysfs);
        }
        let elsewhere = || Reading::unknown("sysfs shows another network namespace than this thread's");
        let link = self.link.as_ref().map_err(Clone::clone)?;
        let read = |file| self.root.read(&format!("{sysfs}/{file}")).map_err(|_| elsewhere());
        let has_address = link.address.contains(|c| c != '0' && c != ':');
        let is_same = read("ifindex")? == link.index.to_string()
            && read("address")? == link.address
            && (has_address || !self.root.is_thread_elsewhere());
        if is_same { Ok(sysfs) } else { Err(elsewhere()) }
    }
}

/// What the kernel's answer means for a setting.
fn reading(error: EthtoolError) -> Reading {
    match error {
        EthtoolError::Unsupported { .. } => Reading::Unsupported,
        EthtoolError::NotPermitted { .. } => Reading::NeedsRoot,
        other => Reading::unknown(other.to_string()),
    }
}

/// Whether the name can be an interface's, and so part of a path (`dev_valid_name` in
/// `net/core/dev.c`).
fn is_name(name: &str) -> bool {
    let odd = |c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace();
    (1..=15).contains(&name.len()) && name != "." && name != ".." && !name.contains(odd)
}
