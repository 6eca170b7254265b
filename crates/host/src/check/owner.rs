//! Who else sets the settings of a host. Two owners of one setting undo each other's work, so a
//! difference that another tool would bring back is told with the tool's name.

mod files;
mod glob;
pub(crate) mod link_files;
pub(crate) mod tuned;

use crate::Setting;
use crate::read::HostFiles;
use crate::read::service::state;

/// A tool on the host that sets a setting by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The tool, and what in it: `tuned (profile balanced)`.
    pub tool: String,
    /// What to do about it.
    pub advice: String,
}

/// A service that sets things by itself.
struct Service {
    unit: &'static str,
    tool: &'static str,
    advice: &'static str,
    /// Ids, or their beginnings when they end in a dot.
    ids: &'static [&'static str],
}

/// Services whose settings do not depend on a configuration that can be read here.
const SERVICES: [Service; 8] = [
    Service {
        unit: "irqbalance.service",
        tool: "irqbalance",
        advice: "stop and disable it, or ban the CPUs by IRQBALANCE_BANNED_CPULIST in its environment",
        ids: &["nic.irq-affinity", "irq.on-isolated", "irq.of-each-cpu"],
    },
    Service {
        unit: "power-profiles-daemon.service",
        tool: "power-profiles-daemon",
        advice: "choose its profile: powerprofilesctl set performance",
        ids: &["firmware.platform-profile", "cpu.energy-performance-preference", "cpu.turbo"],
    },
    Service {
        unit: "thermald.service",
        tool: "thermald",
        advice: "disable it where cooling suffices",
        ids: &["cpu.pstate.max-percent", "cpu.power-limit-uw"],
    },
    Service {
        unit: "cpupower.service",
        tool: "cpupower",
        advice: "set the governor in /etc/default/cpupower",
        ids: &["cpu.governor", "cpu.frequency."],
    },
    Service {
        unit: "cpufrequtils.service",
        tool: "cpufrequtils",
        advice: "set GOVERNOR in /etc/default/cpufrequtils",
        ids: &["cpu.governor", "cpu.frequency."],
    },
    Service {
        unit: "saptune.service",
        tool: "saptune",
        advice: "change its note or solution: saptune note customise",
        ids: &["vm.", "kernel.numa_balancing", "cpu.governor", "cpu.energy-performance-bias", "memory.thp"],
    },
    Service {
        unit: "google-guest-agent.service",
        tool: "google-guest-agent",
        advice: "set set_multiqueue=false in [InstanceSetup] of /etc/default/instance_configs.cfg",
        ids: &["nic.irq-affinity", "nic.xps-cpus", "nic.channels."],
    },
    Service {
        unit: "azurelinuxagent.service",
        tool: "azurelinuxagent",
        advice: "look at OS.* in /etc/waagent.conf",
        ids: &["nic.irq-affinity"],
    },
];

/// What one tool sets.
#[derive(Debug)]
struct Claim {
    owner: Owner,
    /// Ids, or their beginnings when they end in a dot.
    ids: Vec<String>,
    /// The interface that it is about; `None` for all.
    interface: Option<String>,
}

/// The owners on one host.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    claims: Vec<Claim>,
}

impl Owners {
    pub(super) fn read(files: &HostFiles<'_>, interfaces: &[String]) -> Self {
        let mut owners = Self::without_secrets(files, interfaces);
        if is_active(files, "NetworkManager.service") {
            owners.claims.extend(files::network_manager(files.root(), interfaces));
        }
        owners
    }

    /// Of everything but the connections of `NetworkManager`, which hold pass phrases: what a
    /// snapshot may copy.
    pub(crate) fn without_secrets(files: &HostFiles<'_>, interfaces: &[String]) -> Self {
        let root = files.root();
        let mut claims = Vec::new();
        if is_active(files, "tuned.service") {
            claims.extend(tuned::claim(root));
        }
        claims.extend(SERVICES.iter().filter(|service| is_active(files, service.unit)).map(|service| Claim {
            owner: Owner { tool: service.tool.to_owned(), advice: service.advice.to_owned() },
            ids: service.ids.iter().map(|id| (*id).to_owned()).collect(),
            interface: None,
        }));
        claims.extend(files::links(root, interfaces));
        Self { claims }
    }

    /// The owner of a setting, of interfaces of that of this one.
    pub(super) fn of(&self, setting: &Setting, interface: Option<&str>) -> Option<Owner> {
        let is_meant = |id: &String| match id.strip_suffix('.') {
            Some(_) => setting.id.starts_with(id.as_str()),
            None => setting.id == id,
        };
        let claim = self.claims.iter().find(|claim| {
            let is_here = claim.interface.as_deref().is_none_or(|name| Some(name) == interface);
            is_here && claim.ids.iter().any(is_meant)
        });
        claim.map(|claim| claim.owner.clone())
    }
}

/// Whether a service runs, or where that cannot be seen, whether it will.
fn is_active(files: &HostFiles<'_>, unit: &str) -> bool {
    let state = state(files, unit);
    state.as_value().is_some_and(|state| state.starts_with("running") || state == "enabled")
}

/// `section, key, value` of a file in the form of `.ini` files; comments begin with `#` or `;`.
fn assignments(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let mut section = "";
    text.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
            return None;
        }
        if line.starts_with(['#', ';']) {
            return None;
        }
        let (key, value) = line.split_once('=')?;
        Some((section, key.trim(), value.trim()))
    })
}
