//! Which CPUs irqbalance leaves alone, by the environment that its unit gives it.
//!
//! Source: `setup_banned_cpus` of irqbalance (`cputree.c`); `systemd.exec(5)` for the environment.

use std::collections::BTreeMap;

use super::{HostFiles, cpus, service};
use crate::{CpuSet, Reading};

const UNIT: &str = "irqbalance.service";
/// Where distributions keep the environment: Debian and those after it, Red Hat and those after it.
const ENVIRONMENTS: [&str; 2] = ["/etc/default/irqbalance", "/etc/sysconfig/irqbalance"];
const LIST: &str = "IRQBALANCE_BANNED_CPULIST";
const MASK: &str = "IRQBALANCE_BANNED_CPUS";

/// The CPUs that irqbalance is told to leave alone. Told nothing, it leaves alone those isolated at boot and those without
/// a tick.
pub(crate) fn banned_cpus(files: &HostFiles<'_>) -> Reading {
    let environment = match environment(files) {
        Ok(environment) => environment,
        Err(reading) => return reading,
    };
    // The list wins over the mask.
    match (environment.get(LIST), environment.get(MASK)) {
        (Some(list), _) => cpus(LIST, list, CpuSet::from_list),
        (None, Some(mask)) => cpus(MASK, mask, CpuSet::from_mask),
        (None, None) => {
            let of = |file: &str| {
                let text = files.root().read(&format!("/sys/devices/system/cpu/{file}")).unwrap_or_default();
                CpuSet::from_list(&text).unwrap_or_default()
            };
            Reading::value(of("isolated").iter().chain(of("nohz_full").iter()).collect::<CpuSet>())
        }
    }
}

/// The variables that the service gets: those of the unit and its drop-ins, and over them those of environment files.
fn environment(files: &HostFiles<'_>) -> Result<BTreeMap<String, String>, Reading> {
    let units = service::texts(files, UNIT)?;
    let mut variables = BTreeMap::new();
    let mut named: Vec<String> = ENVIRONMENTS.map(str::to_owned).to_vec();
    for line in units.iter().flat_map(|text| text.lines()).map(str::trim) {
        if let Some(assignments) = line.strip_prefix("Environment=") {
            variables.extend(words(assignments).filter_map(|word| assignment(&word)));
        } else if let Some(path) = line.strip_prefix("EnvironmentFile=") {
            // What is read goes into snapshots, and a file of another name may hold secrets of others.
            let path = path.trim().trim_start_matches('-');
            named.extend(path.contains("irqbalance").then(|| path.to_owned()));
        }
    }
    named.dedup();
    let texts: Vec<_> = named.iter().map(|path| files.root().read(path)).collect();
    if let Some(Err(reading)) = texts.iter().find(|text| **text == Err(Reading::NeedsRoot)) {
        return Err(reading.clone());
    }
    let is_known = |text: &Result<String, Reading>| !matches!(text, Err(Reading::Unknown { .. }));
    match texts.iter().find(|text| !is_known(text)) {
        Some(Err(reading)) if !texts.iter().any(is_known) => return Err(reading.clone()),
        _ => {}
    }
    if units.is_empty() && texts.iter().all(Result::is_err) {
        return Err(Reading::Unsupported);
    }
    variables.extend(texts.iter().flatten().flat_map(|text| text.lines()).filter_map(assignment));
    Ok(variables)
}

/// `NAME=value`, quotes and comments left out.
fn assignment(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    let value = value.split('#').next().unwrap_or_default().trim().trim_matches(['"', '\'']);
    Some((name.trim().to_owned(), value.to_owned()))
}

/// The assignments of one line, of which each may be in quotes.
fn words(line: &str) -> impl Iterator<Item = String> {
    let mut quote = None;
    let mut words = vec![String::new()];
    for c in line.chars() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, c) if c.is_whitespace() => words.push(String::new()),
            (_, c) => words.last_mut().into_iter().for_each(|word| word.push(c)),
        }
    }
    words.into_iter().filter(|word| !word.is_empty())
}
