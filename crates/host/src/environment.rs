//! Every setting's reading at once: the environment block of a record.

use std::collections::BTreeMap;

use crate::read::{HostFiles, Nic, placement};
use crate::setting::{NicFact, ReadFrom, Setting};
use crate::{CpuSet, Reading, Root, catalogue};

const INTERFACES: &str = "/sys/class/net";
/// What virtual interfaces say in place of a bus.
const KINDS: [&str; 2] = ["tap", "tun"];

/// Reads every setting that belongs in a record. A setting of an interface has the interface's
/// name in brackets behind its id: `nic.driver[nw0]`.
///
/// Interfaces and the `net.*` sysctls are those of the calling thread's network namespace.
#[must_use]
pub fn environment(root: &Root, interfaces: &[String]) -> BTreeMap<String, Reading> {
    let mut readings = host_environment(root);
    readings.extend(interface_environment(root, interfaces));
    readings
}

/// Reads the settings that are not an interface's. Call it before the thread leaves the initial
/// network namespace: others do not show every `net.core` sysctl.
#[must_use]
pub fn host_environment(root: &Root) -> BTreeMap<String, Reading> {
    let files = HostFiles::new(root);
    let readings = recorded().filter_map(|setting| {
        let reading = files.read_setting(setting)?;
        Some((setting.id.to_owned(), reading))
    });
    readings.collect()
}

/// Reads the settings of interfaces of the calling thread's network namespace.
#[must_use]
pub fn interface_environment(root: &Root, interfaces: &[String]) -> BTreeMap<String, Reading> {
    let mut readings = BTreeMap::new();
    for interface in interfaces {
        let nic = Nic::open(root, interface);
        for setting in recorded() {
            if let ReadFrom::Nic(fact) = setting.read {
                readings.insert(format!("{}[{interface}]", setting.id), nic.read(fact));
            }
        }
    }
    readings
}

fn recorded() -> impl Iterator<Item = &'static Setting> {
    catalogue::settings().filter(|setting| setting.in_record)
}

/// Reads these settings, whether or not they belong in a record, each with its id; one of an
/// interface once for each of these interfaces, as in [`environment`].
///
/// Files that several settings share are read once.
#[must_use]
pub fn read_settings(root: &Root, settings: &[&Setting], interfaces: &[String]) -> Vec<(String, Reading)> {
    read_settings_and(root, settings, interfaces, None, |_| ()).0
}

/// As [`read_settings`], for a program that CPUs are planned for, and what else is to be done while a setting takes its time.
pub(crate) fn read_settings_and<T>(
    root: &Root,
    settings: &[&Setting],
    interfaces: &[String],
    kept: Option<&CpuSet>,
    meanwhile: impl FnOnce(&HostFiles<'_>) -> T,
) -> (Vec<(String, Reading)>, T) {
    let files = HostFiles::new(root);
    let needs_nics = settings.iter().any(|setting| matches!(setting.read, ReadFrom::Nic(_)));
    // What takes time goes on while the others are read.
    if root.is_live() && settings.iter().any(|setting| setting.id == placement::TAKES_TIME) {
        placement::begin_watch(&files);
    }
    let named = interfaces.iter().filter(|_| needs_nics);
    let nics: Vec<_> = named.map(|name| (name, Nic::open(root, name).keeping(kept))).collect();
    let (mut readings, mut later) = (Vec::new(), None);
    for setting in settings {
        if setting.id == placement::TAKES_TIME && later.is_none() {
            later = Some((readings.len(), *setting));
            continue;
        }
        match files.read_setting(setting) {
            Some(reading) => readings.push((setting.id.to_owned(), reading)),
            None => {
                let ReadFrom::Nic(fact) = setting.read else { continue };
                readings.extend(nics.iter().map(|(name, nic)| (format!("{}[{name}]", setting.id), nic.read(fact))));
            }
        }
    }
    let done = meanwhile(&files);
    if let Some((at, setting)) = later
        && let Some(reading) = files.read_setting(setting)
    {
        readings.insert(at, (setting.id.to_owned(), reading));
    }
    (readings, done)
}

/// The interfaces that `/sys/class/net` shows, the loopback interface left out; of a copy without it those of `/proc/net/dev`.
///
/// # Errors
/// The reading that stands for the missing names.
pub fn interfaces(root: &Root) -> Result<Vec<String>, Reading> {
    let names = match root.list(INTERFACES) {
        Err(Reading::Unknown { .. }) if !root.tells_absence() => {
            let table = root.read("/proc/net/dev")?;
            let names = table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
            return Ok(names.filter(|name| name != "lo").collect());
        }
        names => names?,
    };
    Ok(names.into_iter().filter(|name| name != "lo" && is_interface(root, name)).collect())
}

/// Whether sysfs shows an interface of this name: `bonding_masters` is a file among them, and `sos` chooses among the files
/// of each.
pub(crate) fn is_interface(root: &Root, name: &str) -> bool {
    root.has(&format!("{INTERFACES}/{name}/ifindex"))
        || (!root.tells_absence() && root.list(&format!("{INTERFACES}/{name}")).is_ok())
}

/// Whether an interface has a device: a bridge or a tunnel has no rings and interrupts to judge.
#[must_use]
pub fn has_device(root: &Root, interface: &str) -> bool {
    let directory = format!("{INTERFACES}/{interface}");
    let has_link = root.has(&format!("{directory}/device"));
    if has_link || root.tells_absence() {
        return has_link;
    }
    match root.link_target(&directory) {
        Ok(target) => !target.contains("/virtual/"),
        // A tap names its kind in place of a bus.
        Err(_) => Nic::open(root, interface).read(NicFact::BusInfo).as_value().is_some_and(|bus| !KINDS.contains(&bus)),
    }
}

#[cfg(test)]
mod tests;
