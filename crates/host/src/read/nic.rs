//! Facts of network interfaces, in the calling thread's network namespace.
//!
//! ethtool and rtnetlink answer for the thread. `/sys/class/net` does not: it shows the namespace
//! of whoever mounted it, so a file there is believed only when the interface in it is the same
//! one. In a copy of a host what the kernel answered is read from a recording, by the same facts, or from what `ethtool` and
//! `ip` printed.

mod chain;
mod device;
mod ena;
mod link;
mod netlink_answers;
mod outputs;
mod pcie;
mod question;
mod recording;
#[cfg(test)]
mod recording_tests;
mod roce;

use std::cell::OnceCell;

use nearwire_sys::dcb::Dcb;
use nearwire_sys::ethtool::{
    Channels, Coalesce, DriverInfo, EnergyEfficient, EthtoolError, Features, Fec, Interface, LinkSettings, Pause,
    PrivateFlags, Rings, Timestamping,
};
use serde_json::{Map, Value, json};

use super::{one_line, text};
use crate::setting::{EthtoolFact, NicFact};
use crate::{CpuSet, Reading, Root};
use link::{Identity, LinkFacts};
use netlink_answers::{Device, ModulePower, MoreCoalesce, MoreRings, Polling};
use outputs::Outputs;
use question::{Ena, FlowRules, HashFunction, Indirection, Module, Question, WakeOnLan};
use recording::{Recording, record};

pub(crate) use recording::DIRECTORY as RECORDINGS;

type Answer<T> = OnceCell<Result<T, Reading>>;

/// The answers about an interface, each asked for once, in the order in which they are recorded.
macro_rules! answers {
    ($($field:ident: $answer:ty,)*) => {
        #[derive(Default)]
        struct Answers {
            $($field: Answer<$answer>,)*
        }

        impl Nic<'_> {
            /// All of them in the form of a recording.
            fn add_answers(&self, answers: &mut Map<String, Value>) {
                $(
                    let answer = self.answer(&self.answers.$field).map(Question::to_json);
                    self.add_answer(answers, <$answer>::KEY, answer);
                )*
            }
        }
    };
}

answers! {
    driver: DriverInfo,
    rings: Rings,
    coalesce: Coalesce,
    channels: Channels,
    settings: LinkSettings,
    timestamping: Timestamping,
    pause: Pause,
    energy_efficient: EnergyEfficient,
    fec: Fec,
    hash_function: HashFunction,
    indirection: Indirection,
    wake_on_lan: WakeOnLan,
    module: Module,
    features: Features,
    private_flags: PrivateFlags,
    flow_rules: FlowRules,
    dcb: Dcb,
    ena: Ena,
    polling: Polling,
    device: Device,
    more_rings: MoreRings,
    more_coalesce: MoreCoalesce,
    module_power: ModulePower,
}

/// Who answers what files do not say.
enum Source<'a> {
    Kernel(Interface),
    Recording(Recording),
    Outputs(Outputs<'a>),
}

impl Source<'_> {
    fn ask<T: Question>(&self) -> Result<T, Reading> {
        match self {
            Self::Kernel(interface) => T::ask(interface),
            Self::Recording(recording) => recording.answer(),
            Self::Outputs(outputs) => outputs.answer(),
        }
    }
}

/// One interface while its settings are read: each question is asked once.
pub(crate) struct Nic<'a> {
    root: &'a Root,
    name: &'a str,
    /// CPUs that a plan keeps for the program and for guests.
    kept: CpuSet,
    source: Result<Source<'a>, Reading>,
    link: Result<LinkFacts, Reading>,
    /// The interface's directory in sysfs, or why it is not to be believed.
    sysfs: Result<String, Reading>,
    answers: Answers,
}

impl<'a> Nic<'a> {
    /// Takes hold of an interface; that it does not exist shows in every reading.
    pub(crate) fn open(root: &'a Root, name: &'a str) -> Self {
        let mut identity = None;
        let (source, link) = if !is_name(name) {
            let why = || Reading::unknown(format!("{name:?} is not the name of an interface"));
            (Err(why()), Err(why()))
        } else if root.is_live() {
            let link = link::ask(name).map(|(found, facts)| {
                identity = Some(found);
                facts
            });
            (Interface::open(name).map(Source::Kernel).map_err(reading), link)
        } else {
            match (Recording::open(root, name), Outputs::open(root, name)) {
                (Err(Reading::Unknown { .. }), Some(outputs)) => {
                    let link = outputs.link();
                    (Ok(Source::Outputs(outputs)), link)
                }
                (recording, _) => {
                    let link = recording.as_ref().map_err(Clone::clone);
                    let link = link.and_then(|recording| recording.fields(LinkFacts::KEY));
                    (recording.map(Source::Recording), link)
                }
            }
        };
        let mut nic = Self {
            root,
            name,
            kept: CpuSet::default(),
            source,
            link,
            sysfs: Err(Reading::Unsupported),
            answers: Answers::default(),
        };
        nic.sysfs = nic.find_in_sysfs(identity);
        nic
    }

    /// The same, for a program that these CPUs are planned for.
    pub(crate) fn keeping(self, cpus: Option<&CpuSet>) -> Self {
        Self { kept: cpus.cloned().unwrap_or_default(), ..self }
    }

    pub(crate) fn read(&self, fact: NicFact) -> Reading {
        match fact {
            NicFact::Driver => self.driver_name(),
            NicFact::BusInfo => self.bus_info(),
            NicFact::Ethtool(fact) => self.ethtool(fact),
            NicFact::Link(fact) => self.link_fact(fact),
            NicFact::Netlink(fact) => self.netlink(fact),
            NicFact::Offload(names) => self.offload(names),
            NicFact::File(file) => self.file(file),
            NicFact::Device(file) => self.device_file(file),
            NicFact::QueueMask(direction, file) => self.queue_masks(direction, file),
            NicFact::QueueFile(direction, file) => self.queue_files(direction, file),
            NicFact::IrqAffinity => self.irq_affinity(),
            NicFact::Statistics(names) => self.statistics(names),
            NicFact::Neighbours => self.neighbours(),
            NicFact::Pcie(fact) => self.pcie(fact),
            NicFact::Roce(fact) => self.roce(fact),
            NicFact::EnaExpress => self.ena_express(),
        }
    }

    /// The interface's directory in sysfs, if sysfs shows this very interface.
    pub(crate) fn directory(&self) -> Result<&str, Reading> {
        self.sysfs.as_deref().map_err(Clone::clone)
    }

    fn ethtool(&self, fact: EthtoolFact) -> Reading {
        match fact {
            EthtoolFact::Driver(of) => self.ask(&self.answers.driver, of),
            EthtoolFact::Rings(of) => self.ask(&self.answers.rings, of),
            EthtoolFact::Coalesce(of) => self.ask(&self.answers.coalesce, of),
            EthtoolFact::Channels(of) => self.ask(&self.answers.channels, of),
            EthtoolFact::Link(of) => self.ask(&self.answers.settings, of),
            EthtoolFact::Timestamping(of) => self.ask(&self.answers.timestamping, of),
            EthtoolFact::Pause(of) => self.ask(&self.answers.pause, of),
            EthtoolFact::EnergyEfficient(of) => self.ask(&self.answers.energy_efficient, of),
            EthtoolFact::Fec(of) => self.ask(&self.answers.fec, of),
            EthtoolFact::HashFunction(of) => self.ask(&self.answers.hash_function, |hash| of(hash.bits)),
            EthtoolFact::Indirection => self.ask(&self.answers.indirection, chain::table),
            EthtoolFact::WakeOnLan(of) => self.ask(&self.answers.wake_on_lan, |wake| of(wake.events)),
            EthtoolFact::PrivateFlags(of) => self.ask(&self.answers.private_flags, of),
            EthtoolFact::FlowRules => self.ask(&self.answers.flow_rules, chain::rules),
            EthtoolFact::Module(of) => self.ask(&self.answers.module, |module| of(module.kind)),
        }
    }

    fn driver_name(&self) -> Reading {
        self.driver_or_link(|info| text(&info.driver), "device/driver")
    }

    fn bus_info(&self) -> Reading {
        self.driver_or_link(|info| text(&info.bus_info), "device")
    }

    /// From the driver's answer; in a copy without it from a link.
    fn driver_or_link(&self, of: fn(&DriverInfo) -> Reading, link: &str) -> Reading {
        match self.ask(&self.answers.driver, of) {
            Reading::Unknown { .. } if !self.root.is_live() => self.device_link(link),
            found => found,
        }
    }

    /// Everything the kernel says of the interface, in the form of a recording. Hardware and
    /// network addresses are not in it, nor what a copy has no answer to.
    pub(crate) fn answers(&self) -> Map<String, Value> {
        let mut answers = Map::new();
        let link = self.link.as_ref().map(|facts| json!(facts));
        self.add_answer(&mut answers, LinkFacts::KEY, link);
        self.add_answers(&mut answers);
        answers
    }

    fn add_answer(&self, answers: &mut Map<String, Value>, key: &str, answer: Result<Value, &Reading>) {
        let is_known = self.root.is_live() || !matches!(answer, Err(Reading::Unknown { .. }));
        if is_known {
            answers.insert(key.to_owned(), record(answer));
        }
    }

    fn offload(&self, names: &[&str]) -> Reading {
        self.ask(&self.answers.features, |features| {
            let known: Vec<_> = names.iter().filter_map(|name| features.get(name)).collect();
            if known.is_empty() {
                return Reading::Unsupported;
            }
            let is_on = known.iter().any(|feature| feature.is_active);
            // As ethtool(8) words it: the driver lets nobody change it.
            let fixed = if known.iter().any(|feature| feature.is_changeable) { "" } else { " [fixed]" };
            Reading::Value(format!("{}{fixed}", if is_on { "on" } else { "off" }))
        })
    }

    /// Those of the kernel's offloads that the driver lets be switched.
    pub(crate) fn changeable_offloads(&self, names: &[&str]) -> Vec<String> {
        let Ok(features) = self.answer(&self.answers.features) else { return Vec::new() };
        let is_changeable = |name: &&&str| features.get(name).is_some_and(|feature| feature.is_changeable);
        names.iter().filter(is_changeable).map(|name| (*name).to_owned()).collect()
    }

    fn ask<T: Question>(&self, answer: &Answer<T>, of: impl FnOnce(&T) -> Reading) -> Reading {
        match self.answer(answer) {
            Ok(found) => of(found),
            Err(reading) => reading.clone(),
        }
    }

    fn answer<'s, T: Question>(&'s self, answer: &'s Answer<T>) -> Result<&'s T, &'s Reading> {
        let ask = || self.source.as_ref().map_err(Clone::clone)?.ask();
        answer.get_or_init(ask).as_ref()
    }

    fn file(&self, file: &str) -> Reading {
        let found = self.directory().and_then(|sysfs| self.root.read(&format!("{sysfs}/{file}")));
        let found = found.map(|text| one_line(&text));
        match (found, &self.source) {
            (Err(Reading::Unknown { .. }), Ok(Source::Outputs(outputs))) => outputs.file(file).into(),
            (found, _) => found.into(),
        }
    }

    /// Looks whether sysfs shows this very interface: the same name, index and hardware address.
    /// Name and index alone are often equal in two namespaces; of the loopback interface the
    /// address is too, so that it needs the thread to be where its process is.
    fn find_in_sysfs(&self, identity: Option<Identity>) -> Result<String, Reading> {
        let name = self.name;
        if !is_name(name) {
            return Err(Reading::unknown(format!("{name:?} is not the name of an interface")));
        }
        let sysfs = format!("/sys/class/net/{name}");
        if self.root.is_live() {
            let elsewhere = || Reading::unknown("sysfs shows another network namespace than this thread's");
            let why = || self.link.as_ref().err().cloned().unwrap_or_else(elsewhere);
            let link = identity.ok_or_else(why)?;
            let read = |file| self.root.read(&format!("{sysfs}/{file}")).map_err(|_| elsewhere());
            let has_address = link.address.contains(|c| c != '0' && c != ':');
            let is_same = read("ifindex")? == link.index.to_string()
                && read("address")? == link.address
                && (has_address || !self.root.is_thread_elsewhere());
            if !is_same {
                return Err(elsewhere());
            }
        }
        self.root.list(&sysfs).map(|_| sysfs)
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
