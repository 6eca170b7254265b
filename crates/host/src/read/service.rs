//! The state of systemd units, by files: no bus is needed, and a copy of the files will do.
//!
//! Source: `systemd.unit(5)` for the directories and their order, `cgroups(7)` for the group of a
//! running service.

use super::HostFiles;
use crate::Reading;

/// Where units are installed; an earlier directory wins.
const UNITS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
/// Where `systemctl enable` puts its links, also those until the next boot.
const ENABLED: [&str; 2] = ["/etc/systemd/system", "/run/systemd/system"];
const GROUPS: &str = "/sys/fs/cgroup/system.slice";

/// `running, enabled`, `stopped, disabled`, `masked`, `not installed`; without the first word when
/// the groups of running services are not to be seen.
pub(crate) fn state(files: &HostFiles<'_>, unit: &str) -> Reading {
    let root = files.root();
    if let Some(state) = printed_state(files, unit) {
        return Reading::Value(state);
    }
    if let Err(reading) = has_systemd(files) {
        return reading;
    }
    let link = |directory: &str| root.link_name(&format!("{directory}/{unit}"));
    // A link that a copy cannot follow is a unit all the same.
    let has = |directory: &&&str| link(directory).is_ok() || root.has(&format!("{directory}/{unit}"));
    let Some(directory) = UNITS.iter().find(has) else {
        return match root.absent_or_not_copied(unit) {
            Reading::Unsupported => Reading::value("not installed"),
            not_copied => not_copied,
        };
    };
    let enablement = match () {
        () if link(directory).as_deref() == Ok("null") => "masked",
        () if ENABLED.iter().any(|at| wants(files, at, unit)) => "enabled",
        () if UNITS[2..].iter().any(|at| wants(files, at, unit)) => "static",
        () => "disabled",
    };
    match is_running(files, unit) {
        Some(true) => Reading::Value(format!("running, {enablement}")),
        Some(false) => Reading::Value(format!("stopped, {enablement}")),
        None => Reading::value(enablement),
    }
}

/// By what `systemctl` printed, which `sos` keeps.
fn printed_state(files: &HostFiles<'_>, unit: &str) -> Option<String> {
    if files.root().tells_absence() {
        return None;
    }
    let table = |name: &str| files.root().read(&format!("/sos_commands/systemd/systemctl_{name}")).ok();
    let words_of = |text: &str| {
        let mut lines = text.lines().map(|line| line.trim_start_matches(['●', '*', ' ']).split_whitespace());
        let is_meant = |words: &mut std::str::SplitWhitespace<'_>| words.next() == Some(unit);
        lines.find_map(|mut words| is_meant(&mut words).then(|| words.map(str::to_owned).collect::<Vec<_>>()))
    };
    let installed = table("list-unit-files")?;
    let Some(words) = words_of(&installed) else {
        return installed.contains("unit files listed").then(|| "not installed".to_owned());
    };
    let enablement = match words.first().map(|word| word.trim_end_matches("-runtime")) {
        Some(known @ ("enabled" | "masked" | "disabled")) => known,
        Some("linked") => "disabled",
        _ => "static",
    };
    // Only loaded units that are active or have failed are in the table.
    let running = table("list-units").filter(|units| units.contains("loaded units listed")).map(|units| {
        let is_running = words_of(&units).is_some_and(|words| words.iter().any(|word| word == "running"));
        if is_running { "running, " } else { "stopped, " }
    });
    Some(format!("{}{enablement}", running.unwrap_or_default()))
}

/// The texts of a unit and of its drop-ins, in the order in which systemd reads them.
///
/// # Errors
/// The reading that stands for a text that is there and cannot be read.
pub(crate) fn texts(files: &HostFiles<'_>, unit: &str) -> Result<Vec<String>, Reading> {
    let root = files.root();
    let own = UNITS.iter().map(|directory| format!("{directory}/{unit}")).find(|path| root.has(path));
    // Drop-ins are read by name, whichever directory they are in; of equal names the earlier directory wins.
    let drop_ins = root.files_of(UNITS.map(|directory| format!("{directory}/{unit}.d")), ".conf");
    let texts = own.into_iter().chain(drop_ins.into_values()).filter_map(|path| match root.read(&path) {
        Ok(text) => Some(Ok(text)),
        Err(Reading::NeedsRoot) => Some(Err(Reading::NeedsRoot)),
        // A link to a unit that the copy does not have.
        Err(_) => None,
    });
    texts.collect()
}

fn has_systemd(files: &HostFiles<'_>) -> Result<(), Reading> {
    files.has_systemd(|| {
        let lists: Vec<_> = UNITS.iter().map(|directory| files.root().list(directory)).collect();
        match () {
            () if lists.iter().any(Result::is_ok) => Ok(()),
            () if lists.contains(&Err(Reading::NeedsRoot)) => Err(Reading::NeedsRoot),
            () if files.root().is_whole() => Err(Reading::Unsupported),
            () => Err(Reading::unknown("the copy has no directory of systemd units")),
        }
    })
}

/// Whether a target below this directory wants the unit.
fn wants(files: &HostFiles<'_>, directory: &str, unit: &str) -> bool {
    let entries = files.root().list(directory).unwrap_or_default();
    let targets = entries.iter().filter(|name| name.ends_with(".wants") || name.ends_with(".requires"));
    // The link may point at a file that the copy does not have.
    targets.into_iter().any(|target| files.root().link_name(&format!("{directory}/{target}/{unit}")).is_ok())
}

fn is_running(files: &HostFiles<'_>, unit: &str) -> Option<bool> {
    files.root().list(GROUPS).ok()?;
    if !files.root().tells_absence() && !files.root().has(&format!("{GROUPS}/{unit}")) {
        return None;
    }
    let events = files.root().read(&format!("{GROUPS}/{unit}/cgroup.events")).unwrap_or_default();
    Some(events.lines().any(|line| line == "populated 1"))
}

/// The target the host boots to: `multi-user.target`.
pub(crate) fn default_target(files: &HostFiles<'_>) -> Reading {
    if let Err(reading) = has_systemd(files) {
        return reading;
    }
    let links = UNITS.iter().map(|directory| files.root().link_name(&format!("{directory}/default.target")));
    let found = links.into_iter().find_map(Result::ok);
    found.map_or_else(|| files.root().absent_or_not_copied("default.target"), Reading::Value)
}

/// The timers that start something by themselves.
pub(crate) fn timers(files: &HostFiles<'_>) -> Reading {
    if let Err(reading) = has_systemd(files) {
        return reading;
    }
    let lists: Vec<_> =
        UNITS.iter().filter_map(|at| files.root().list(&format!("{at}/timers.target.wants")).ok()).collect();
    if lists.is_empty() && !files.root().tells_absence() {
        return files.root().absent_or_not_copied("the links to timers");
    }
    let mut timers: Vec<_> = lists.into_iter().flatten().collect();
    timers.sort();
    timers.dedup();
    Reading::Value(if timers.is_empty() { "none".to_owned() } else { timers.join(" ") })
}
