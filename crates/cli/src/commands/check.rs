//! `nearwire check`: a host against a profile.

mod json;
mod probes;
mod text;

use anyhow::anyhow;
use nearwire_host::check::{Finding, check};
use nearwire_host::profile::{self, Profile};
use nearwire_host::{Root, interfaces};

use crate::args::check::CheckArgs;
use crate::exit::{self, Failure, OrExit, Outcome};
use crate::output;
use probes::Probes;

/// What was checked, and what came of it.
struct Checked {
    profile: Profile,
    /// Why this profile, when nobody chose it.
    default_reason: Option<&'static str>,
    interfaces: Vec<String>,
    findings: Vec<Finding>,
    probes: Probes,
}

pub fn run(args: &CheckArgs) -> Outcome {
    let profile = Profile::load(args.profile.as_deref().unwrap_or(profile::DEFAULT)).or_exit(exit::USAGE)?;
    let root = match &args.sysroot {
        Some(directory) => Root::directory(directory).or_exit(exit::USAGE)?,
        None => Root::live().or_exit(exit::CANNOT)?,
    };
    let interfaces = chosen(&root, &args.nic)?;
    let probes = Probes::run(&root, args)?;
    let findings = check(&root, &profile, &interfaces, None, &probes.readings());
    let default_reason = args.profile.is_none().then_some(profile::DEFAULT_REASON);
    let checked = Checked { profile, default_reason, interfaces, findings, probes };
    output::print(&if args.json { json::page(&checked) } else { text::page(&checked, args.all) })?;
    match checked.findings.iter().any(|finding| finding.outcome.is_difference()) {
        true => Err(Failure::silent(exit::DIFFERENCE)),
        false => Ok(()),
    }
}

/// The named interfaces, or without names those that have a device: a bridge or a tunnel has no
/// rings and interrupts to judge.
fn chosen(root: &Root, named: &[String]) -> Result<Vec<String>, Failure> {
    let present = interfaces(root).unwrap_or_default();
    if named.is_empty() {
        let has_device = |name: &String| root.has(&format!("/sys/class/net/{name}/device"));
        return Ok(present.into_iter().filter(has_device).collect());
    }
    match named.iter().find(|name| !present.contains(name)) {
        None => Ok(named.to_vec()),
        Some(unknown) => {
            let others = if present.is_empty() { "none".to_owned() } else { present.join(", ") };
            let error = anyhow!("no interface '{unknown}' on this host; it has {others}");
            Err(Failure { code: exit::USAGE, error: Some(error) })
        }
    }
}
