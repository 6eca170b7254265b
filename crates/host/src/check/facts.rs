//! What a check knows of the host: readings, CPUs, owners.

use std::collections::{BTreeMap, BTreeSet};

use super::judge::{Judgement, is_version_at_least, judge};
use super::owner::{Owner, Owners};
use super::{CpuPlan, Outcome};
use crate::environment::read_settings_and;
use crate::profile::{Condition, CpuGroup, CpuRelation, Profile, Wanted, Wish};
use crate::read::HostFiles;
use crate::setting::{Menu, Vendor};
use crate::topology::Topology;
use crate::{CpuSet, Reading, Root, Setting, catalogue};

/// Readings and CPUs of one host.
pub(super) struct Facts<'a> {
    readings: BTreeMap<String, Reading>,
    interfaces: &'a [String],
    topology: Topology,
    plan: CpuPlan,
    is_planned: bool,
    owners: Owners,
}

/// Settings that conditions and groups of CPUs look at.
const OF_CONDITIONS: [&str; 10] = [
    "kernel.release",
    "cpu.model",
    "memory.nodes",
    "virtualisation.hypervisor-flag",
    "nic.driver",
    "nic.numa-node",
    "nic.local-cpus",
    "nic.carrier",
    "nic.operational-state",
    "virtualisation.maker",
];

impl<'a> Facts<'a> {
    pub(super) fn read(root: &Root, profile: &Profile, interfaces: &'a [String], plan: Option<&CpuPlan>) -> Self {
        let mut settings: Vec<&Setting> = OF_CONDITIONS.into_iter().filter_map(catalogue::setting).collect();
        for wish in &profile.wishes {
            settings.push(wish.setting);
            settings.extend(wish.or);
            let wanted = [Some(&wish.wanted), wish.or_wanted.as_ref()].into_iter().flatten();
            settings.extend(wanted.filter_map(Wanted::limit_setting));
            settings.extend(wish.when.iter().filter_map(looks_at));
        }
        settings.sort_by_key(|setting| setting.id);
        settings.dedup();
        let others = |files: &HostFiles<'_>| (files.topology().clone(), Owners::read(files, interfaces));
        let (readings, (topology, owners)) =
            read_settings_and(root, &settings, interfaces, plan.map(|plan| &plan.isolated), others);
        Self {
            readings: readings.into_iter().collect(),
            interfaces,
            plan: plan.cloned().unwrap_or_else(|| present(&topology)),
            is_planned: plan.is_some(),
            owners,
            topology,
        }
    }

    /// Puts readings in the place of what files say.
    pub(super) fn replace(&mut self, readings: &[(&str, Reading)]) {
        self.readings.extend(readings.iter().map(|(id, reading)| ((*id).to_owned(), reading.clone())));
    }

    pub(super) fn reading(&self, setting: &Setting, interface: Option<&str>) -> Reading {
        let id = setting.instance(interface);
        let missing = || Reading::Unknown { why: format!("{id} was not read") };
        self.readings.get(&id).cloned().unwrap_or_else(missing)
    }

    fn value(&self, id: &str, interface: Option<&str>) -> Option<&str> {
        let id = catalogue::setting(id)?.instance(interface);
        self.readings.get(&id)?.as_value()
    }

    pub(super) fn owner(&self, setting: &Setting, interface: Option<&str>) -> Option<Owner> {
        self.owners.of(setting, interface)
    }

    /// The CPUs of a group, or why they are not known.
    pub(super) fn cpus(&self, group: &CpuGroup, interface: Option<&str>) -> Result<CpuSet, Outcome> {
        let none = |why: &str| Err(Outcome::NotApplicable { why: why.to_owned() });
        match group {
            CpuGroup::Isolated if self.plan.isolated.is_empty() => none(NO_ISOLATION),
            CpuGroup::App if self.plan.app.is_empty() => none(NO_ISOLATION),
            CpuGroup::Isolated => Ok(self.plan.isolated.clone()),
            CpuGroup::App => Ok(self.plan.app.clone()),
            CpuGroup::Housekeeping => Ok(self.plan.housekeeping.clone()),
            CpuGroup::Irq => Ok(self.irq(interface)),
            CpuGroup::Online => Ok(self.topology.cpus().iter().map(|cpu| cpu.id).collect()),
            CpuGroup::NicNode => self.near(interface),
            CpuGroup::List(cpus) => Ok(cpus.clone()),
        }
    }

    /// What to write where CPUs are to be kept apart from a group: of those that are found, or of all that are online,
    /// the ones that are not in it.
    pub(super) fn others(&self, wanted: &Wanted, found: &Reading) -> Option<String> {
        let Wanted::Cpus(CpuRelation::ApartFrom, CpuGroup::List(taken)) = wanted else { return None };
        let rest = |cpus: CpuSet| cpus.iter().filter(|cpu| !taken.contains(*cpu)).collect::<CpuSet>();
        let found = found.as_value().and_then(|list| CpuSet::from_list(list).ok()).map(rest);
        let online = || self.cpus(&CpuGroup::Online, None).ok().map(rest);
        let others = found.filter(|cpus| !cpus.is_empty()).or_else(online)?;
        (!others.is_empty()).then(|| others.to_string())
    }

    /// The CPUs for interrupts: those of the plan, else the housekeeping ones near the interface,
    /// else all housekeeping ones.
    fn irq(&self, interface: Option<&str>) -> CpuSet {
        if self.is_planned {
            return self.plan.irq.clone();
        }
        let near = self.near(interface).unwrap_or_default();
        let both: CpuSet = self.plan.housekeeping.iter().filter(|&cpu| near.contains(cpu)).collect();
        if both.is_empty() { self.plan.housekeeping.clone() } else { both }
    }

    fn near(&self, interface: Option<&str>) -> Result<CpuSet, Outcome> {
        let node = self.value("nic.numa-node", interface).and_then(|node| node.parse::<u32>().ok());
        let Some(node) = node else {
            let why = "the device does not say which memory node it is on".to_owned();
            return Err(Outcome::NotApplicable { why });
        };
        Ok(self.topology.cpus().iter().filter(|cpu| cpu.node == Some(node)).map(|cpu| cpu.id).collect())
    }

    /// A wanted value with CPUs by number and with the value of another setting in place of it.
    pub(super) fn resolve(&self, wanted: &Wanted, interface: Option<&str>) -> Result<Wanted, Outcome> {
        Ok(match wanted {
            Wanted::Cpus(relation, group) => Wanted::Cpus(*relation, CpuGroup::List(self.cpus(group, interface)?)),
            Wanted::SameAs(other) => Wanted::Equal(self.limit(other, interface)?),
            Wanted::AtLeastOf(other) => Wanted::AtLeast(self.limit(other, interface)?),
            Wanted::AtMostOf(other) => Wanted::AtMost(self.limit(other, interface)?),
            other => other.clone(),
        })
    }

    /// The value of the setting that says how much is wanted of another one.
    fn limit(&self, setting: &Setting, interface: Option<&str>) -> Result<String, Outcome> {
        match self.reading(setting, interface.filter(|_| setting.is_of_interfaces())) {
            Reading::Value(value) => Ok(value),
            Reading::Unsupported => Err(Outcome::Unsupported),
            Reading::NeedsRoot => Err(Outcome::NeedsRoot),
            Reading::Unknown { why } => Err(Outcome::Unknown { why }),
        }
    }

    /// Judges a reading of this setting: by a wish, or by what the wish wants of another one.
    pub(super) fn judge(
        &self,
        setting: &Setting,
        wish: &Wish,
        wanted: &Wanted,
        interface: Option<&str>,
        found: &Reading,
    ) -> Judgement {
        let wanted = match self.resolve(wanted, interface) {
            Ok(wanted) => wanted,
            Err(outcome) => return Judgement::Unjudged(outcome),
        };
        let cpus = match wish.on.as_ref().map(|group| self.cpus(group, interface)).transpose() {
            Ok(cpus) => cpus,
            Err(outcome) => return Judgement::Unjudged(outcome),
        };
        judge(setting, &wanted, cpus.as_ref(), found)
    }

    /// What a wish comes to when a condition does not hold; `None` when it holds.
    pub(super) fn fails(&self, condition: &Condition, interface: Option<&str>) -> Option<Outcome> {
        match self.holds(condition, interface) {
            Some(true) => None,
            Some(false) => Some(Outcome::NotApplicable { why: format!("it counts only for {condition}") }),
            None => Some(Outcome::Unknown { why: format!("whether this is {condition} is not known") }),
        }
    }

    /// `None` where it is not known.
    fn holds(&self, condition: &Condition, interface: Option<&str>) -> Option<bool> {
        let flag = self.value("virtualisation.hypervisor-flag", None);
        let is_guest = flag.map(|flag| flag == "yes");
        match condition {
            Condition::KernelAtLeast(version) => is_version_at_least(self.value("kernel.release", None)?, version),
            Condition::Has(setting) => {
                let interface = interface.filter(|_| setting.is_of_interfaces());
                match self.reading(setting, interface) {
                    Reading::Unknown { .. } => None,
                    reading => Some(reading != Reading::Unsupported),
                }
            }
            Condition::Driver(names) => {
                self.drivers(interface).map(|found| found.iter().any(|driver| names.iter().any(|name| name == driver)))
            }
            Condition::Cpu(word) => match self.reading(catalogue::setting("cpu.model")?, None) {
                Reading::Value(model) => Some(model.contains(word.as_str())),
                // A processor without such a name is of another architecture.
                Reading::Unsupported => Some(false),
                _ => None,
            },
            Condition::BareMetal => is_guest.map(|is_guest| !is_guest),
            Condition::Guest => is_guest,
            Condition::NodesAtLeast(least) => {
                let nodes = CpuSet::from_list(self.value("memory.nodes", None).unwrap_or_default());
                nodes.ok().filter(|nodes| !nodes.is_empty()).map(|nodes| nodes.iter().count() as u64 >= *least)
            }
            Condition::PackagesAtLeast(least) => {
                let packages: BTreeSet<u32> = self.topology.cpus().iter().filter_map(|cpu| cpu.package_first).collect();
                (!packages.is_empty()).then_some(packages.len() as u64 >= *least)
            }
            Condition::CpusAtLeast(least) => {
                let cpus = self.topology.cpus().len() as u64;
                (cpus > 0).then_some(cpus >= *least)
            }
            Condition::Isolated => Some(!self.plan.isolated.is_empty()),
            Condition::Plan => Some(self.is_planned),
            Condition::Not(condition) => self.holds(condition, interface).map(|holds| !holds),
        }
    }

    /// Whether nothing is plugged into this interface while another one has a link: it takes no part in what the profile is for.
    pub(super) fn is_unplugged(&self, interface: &str) -> bool {
        let is_down = |name: &str| {
            self.value("nic.carrier", Some(name)) == Some("0")
                || matches!(
                    self.value("nic.operational-state", Some(name)),
                    Some("down" | "lowerlayerdown" | "notpresent")
                )
        };
        let has_link = |name: &String| self.value("nic.carrier", Some(name)) == Some("1") && !is_down(name);
        is_down(interface) && self.interfaces.iter().any(has_link)
    }

    /// The entries of firmware menus that this machine can have. Which maker's processor a menu belongs to counts where the
    /// host's is known, and the maker of the machine where it is one whose menus are known.
    pub(super) fn menus(&self, setting: &Setting) -> Vec<Menu> {
        let model = catalogue::setting("cpu.model").map(|model| self.reading(model, None));
        let maker = self.value("virtualisation.maker", None).and_then(Vendor::of_machine);
        let is_here = |menu: &Menu| {
            let has_processor = match &model {
                Some(Reading::Value(model)) => model.contains(menu.vendor.processor()),
                // A processor without such a name is of another architecture.
                Some(Reading::Unsupported) => false,
                _ => true,
            };
            let has_machine = maker.is_none_or(|maker| !menu.vendor.is_of_machines() || menu.vendor == maker);
            has_processor && has_machine
        };
        setting.menu.iter().copied().filter(is_here).collect()
    }

    /// The driver of one interface, or those of all.
    fn drivers(&self, interface: Option<&str>) -> Option<Vec<&str>> {
        let of = |name: &str| self.value("nic.driver", Some(name));
        match interface {
            Some(name) => of(name).map(|driver| vec![driver]),
            None => Some(self.interfaces.iter().filter_map(|name| of(name)).collect()),
        }
    }
}

/// The setting that a condition asks for.
fn looks_at(condition: &Condition) -> Option<&'static Setting> {
    match condition {
        Condition::Has(setting) => Some(setting),
        Condition::Not(condition) => looks_at(condition),
        _ => None,
    }
}

const NO_ISOLATION: &str = "no CPU is isolated, and no plan says which should be (nearwire plan)";

/// The division of CPUs that is in effect now.
fn present(topology: &Topology) -> CpuPlan {
    let of = |is_isolated: bool| -> CpuSet {
        topology.cpus().iter().filter(|cpu| cpu.is_isolated == is_isolated).map(|cpu| cpu.id).collect()
    };
    CpuPlan { isolated: of(true), app: of(true), housekeeping: of(false), irq: of(false) }
}
