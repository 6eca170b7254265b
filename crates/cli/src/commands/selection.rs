//! What `check` and `tune` work on: a host, a profile, interfaces, a plan of CPUs.

use std::time::SystemTime;

use anyhow::anyhow;
use nearwire_host::check::{CpuPlan, Day, Finding, Waivers, check};
use nearwire_host::plan::Plan;
use nearwire_host::profile::{self, Profile};
use nearwire_host::topology::Topology;
use nearwire_host::{Reading, Root, has_device, interfaces};

use super::host_root;
use crate::args::check::SelectionArgs;
use crate::exit::{self, Failure, OrExit};

/// All that was selected, opened and read.
pub struct Selection {
    pub root: Root,
    pub profile: Profile,
    /// Why this profile is the default, if none was named.
    pub default_reason: Option<&'static str>,
    pub interfaces: Vec<String>,
    pub plan: Option<CpuPlan>,
    pub waivers: Waivers,
}

impl Selection {
    pub fn open(args: &SelectionArgs) -> Result<Self, Failure> {
        let profile = Profile::load(args.profile()).or_exit(exit::USAGE)?;
        let root = host_root::open(&args.root)?;
        is_of_a_host(&root, args)?;
        let plan = match &args.plan {
            Some(path) => {
                let plan = Plan::load(path).or_exit(exit::USAGE)?;
                plan.fits(&Topology::read(&root)).or_exit(exit::USAGE)?;
                Some(CpuPlan::from(&plan))
            }
            None => None,
        };
        let waivers = args.waivers.as_deref().map(Waivers::load).transpose().or_exit(exit::USAGE)?.unwrap_or_default();
        let interfaces = chosen(&root, &args.nic)?;
        let default_reason = args.profile.is_none().then_some(profile::DEFAULT_REASON);
        Ok(Self { root, profile, default_reason, interfaces, plan, waivers })
    }

    /// Checks the host by the profile; readings that were `measured` take the place of what files say. What is waived today does not differ;
    /// also the waivers of what does not differ.
    pub fn check(&self, measured: &[(&str, Reading)]) -> (Vec<Finding>, Vec<String>) {
        let Self { root, profile, interfaces, plan, .. } = self;
        let mut findings = check(root, profile, interfaces, plan.as_ref(), measured);
        let unused = self.waivers.apply(&mut findings, &Day::of(SystemTime::now()));
        (findings, unused)
    }
}

/// The named interfaces, or without names those that have a device.
fn chosen(root: &Root, named: &[String]) -> Result<Vec<String>, Failure> {
    let present = interfaces(root).unwrap_or_default();
    if named.is_empty() {
        return Ok(present.into_iter().filter(|name| has_device(root, name)).collect());
    }
    match named.iter().find(|name| !present.contains(name)) {
        // A name that is given twice counts once.
        None => Ok(present.into_iter().filter(|name| named.contains(name)).collect()),
        Some(unknown) => Err(no_interface(unknown, &present)),
    }
}

/// The failure for an interface that the host does not have.
pub fn no_interface(unknown: &str, present: &[String]) -> Failure {
    let others = if present.is_empty() { "none".to_owned() } else { present.join(", ") };
    let error = anyhow!("no interface '{unknown}' on this host; it has {others}");
    Failure { code: exit::USAGE, error: Some(error) }
}

/// A directory without a host's files would pass every check.
fn is_of_a_host(root: &Root, args: &SelectionArgs) -> Result<(), Failure> {
    let Some(directory) = args.root.sysroot.as_ref().filter(|_| !root.has("/proc") && !root.has("/sys")) else {
        return Ok(());
    };
    let error = anyhow!("{} has neither proc nor sys: it is not a copy of a host's files", directory.display());
    Err(Failure { code: exit::USAGE, error: Some(error) })
}
