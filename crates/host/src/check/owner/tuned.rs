//! What the active profile of tuned sets (`tuned.conf(5)`).

use super::{Claim, Owner, assignments};
use crate::setting::ReadFrom;
use crate::{Root, catalogue};

/// Names the active profile, and those beside it.
pub(crate) const ACTIVE: &str = "/etc/tuned/active_profile";
const DIRECTORIES: [&str; 4] = ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];
/// More profiles than this that include one another are a circle.
const DEPTH_MAX: usize = 8;

/// Section, option, the id it sets. Options of interfaces are in the rows of the catalogue.
const OPTIONS: [(&str, &str, &str); 14] = [
    ("cpu", "governor", "cpu.governor"),
    ("cpu", "energy_perf_bias", "cpu.energy-performance-bias"),
    ("cpu", "energy_performance_preference", "cpu.energy-performance-preference"),
    ("cpu", "min_perf_pct", "cpu.pstate.min-percent"),
    ("cpu", "max_perf_pct", "cpu.pstate.max-percent"),
    ("cpu", "no_turbo", "cpu.turbo"),
    ("cpu", "boost", "cpu.turbo"),
    ("cpu", "force_latency", "cpu.dma-latency-us"),
    ("cpu", "pm_qos_resume_latency_us", "cpu.pm-qos-resume-latency-us"),
    ("vm", "transparent_hugepages", "memory.thp"),
    ("vm", "transparent_hugepage", "memory.thp"),
    ("vm", "transparent_hugepage.defrag", "memory.thp.defrag"),
    ("irqbalance", "banned_cpus", "service.irqbalance.banned-cpus"),
    ("scheduler", "default_irq_smp_affinity", "irq.default-affinity"),
];

/// What the active profile sets, if one is active.
pub(super) fn claim(root: &Root) -> Option<Claim> {
    let active = root.read(ACTIVE).ok().filter(|profile| !profile.is_empty())?;
    let mut ids = Vec::new();
    for profile in active.split_whitespace() {
        gather(root, profile, 0, &mut ids);
    }
    let advice =
        "put the value into a profile of tuned (nearwire tune export --tuned-profile), or stop and disable tuned";
    let owner = Owner { tool: format!("tuned (profile {active})"), advice: advice.to_owned() };
    Some(Claim { owner, ids, interface: None })
}

fn gather(root: &Root, profile: &str, depth: usize, ids: &mut Vec<String>) {
    let text = DIRECTORIES.iter().find_map(|directory| root.read(&format!("{directory}/{profile}/tuned.conf")).ok());
    let Some(text) = text.filter(|_| depth < DEPTH_MAX && !profile.contains('/')) else { return };
    for (section, key, value) in assignments(&text) {
        match (section, key) {
            ("main", "include") => {
                for included in value.split([',', ' ']).filter(|name| !name.is_empty()) {
                    gather(root, included.trim_start_matches('-'), depth + 1, ids);
                }
            }
            ("sysctl", name) => ids.push(name.to_owned()),
            ("sysfs", path) => ids.extend(of_file(path)),
            ("bootloader", key) if key.starts_with("cmdline") => {
                let names = value.split_whitespace().map(|word| word.split('=').next().unwrap_or(word));
                ids.extend(names.map(|name| format!("boot.{}", name.trim_start_matches('+'))));
            }
            ("net", key) => {
                let set = catalogue::settings().filter(|setting| setting.nic.tuned == Some(key));
                ids.extend(set.map(|setting| setting.id.to_owned()));
            }
            _ => {
                let known = OPTIONS.iter().find(|(of, option, _)| (*of, *option) == (section, key));
                ids.extend(known.map(|(.., id)| (*id).to_owned()));
            }
        }
    }
}

/// The setting that is read from a file.
fn of_file(path: &str) -> Option<String> {
    let is_it = |read| match read {
        ReadFrom::File(file) | ReadFrom::CpuList(file) | ReadFrom::CpuMask(file) | ReadFrom::Chosen(file) => {
            file == path
        }
        _ => false,
    };
    catalogue::settings().find(|setting| is_it(setting.read)).map(|setting| setting.id.to_owned())
}
