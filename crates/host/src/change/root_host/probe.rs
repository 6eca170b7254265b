//! Whether a write would be let through, found out without changing anything.

use nearwire_sys::ethtool::Interface;
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities};

use super::super::{EthtoolParameter, Form, Host, HostError, Target, partition};
use super::{RootHost, form, of_ethtool};

const ACTION: &str = "write";

/// Files whose value must be one of those that another file beside them lists.
const LISTED: &[(&str, &str)] = &[
    ("scaling_governor", "scaling_available_governors"),
    ("energy_performance_preference", "energy_performance_available_preferences"),
    ("current_governor", "available_governors"),
    ("current_clocksource", "available_clocksource"),
];

pub(super) fn probe(host: &mut RootHost, target: &Target, word: &str) -> Result<(), HostError> {
    match target {
        Target::Ethtool { parameter, .. } => {
            host.read(target)?;
            of_parameter(&host.ask(ACTION, target)?, target, parameter, word)?;
            may_administer_network(target)
        }
        Target::Service { .. } => {
            host.read(target)?;
            let is_root = rustix::process::geteuid().is_root();
            if is_root { Ok(()) } else { Err(HostError::kernel(ACTION, target, Errno::PERM)) }
        }
        Target::Link { .. } if host.root.is_live() => {
            host.read(target)?;
            may_administer_network(target)
        }
        Target::Irq { .. } => {
            host.read(target)?;
            let path = host.path(ACTION, target)?;
            host.root.probe(&path).map_err(|errno| HostError::kernel(ACTION, target, errno))
        }
        Target::Partition { path } => partition::probe(&host.root, target, path),
        Target::File { .. } | Target::InterfaceFile { .. } | Target::Link { .. } => {
            let path = host.path(ACTION, target)?;
            host.root.probe(&path).map_err(|errno| HostError::kernel(ACTION, target, errno))?;
            is_offered(host, target, &path, word)
        }
    }
}

fn of_parameter(
    interface: &Interface,
    target: &Target,
    parameter: &EthtoolParameter,
    word: &str,
) -> Result<(), HostError> {
    let failed = |error| of_ethtool(ACTION, target, error);
    if let EthtoolParameter::Feature(name) = parameter {
        return match interface.features().map_err(failed)?.get(name) {
            Some(feature) if feature.is_changeable => Ok(()),
            Some(_) => Err(HostError::says(ACTION, target, "the driver keeps it fixed")),
            None => Err(HostError::absent(ACTION, target)),
        };
    }
    match (parameter.limit(interface).map_err(failed)?, word.parse::<u32>()) {
        (Some(limit), Ok(wanted)) if wanted > limit => {
            Err(HostError::says(ACTION, target, format!("{wanted} is wanted and the device has at most {limit}")))
        }
        _ => Ok(()),
    }
}

/// Whether the word is among those that the kernel offers, where it says.
fn is_offered(host: &RootHost, target: &Target, path: &str, word: &str) -> Result<(), HostError> {
    let offered = match (form(target), path.rsplit_once('/')) {
        (Form::Choice, _) => host.root.text(path),
        (Form::Text, Some((directory, file))) => match LISTED.iter().find(|(of, _)| *of == file) {
            Some((_, list)) => host.root.text(&format!("{directory}/{list}")),
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    // A list that is not there says nothing, nor does one that a word of numbers need not be in.
    let Ok(offered) = offered else { return Ok(()) };
    let mut words = offered.split_whitespace().map(|offer| offer.trim_matches(['[', ']']));
    if words.any(|offer| offer == word) || word.parse::<u32>().is_ok() {
        return Ok(());
    }
    Err(HostError::says(ACTION, target, format!("{word} is wanted and the kernel offers {offered}")))
}

fn may_administer_network(target: &Target) -> Result<(), HostError> {
    match capabilities(None) {
        Ok(sets) if !sets.effective.contains(CapabilitySet::NET_ADMIN) => {
            Err(HostError::kernel(ACTION, target, Errno::PERM))
        }
        // Where it cannot be found out, the write will tell.
        _ => Ok(()),
    }
}
