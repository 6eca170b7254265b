//! A host against a profile: what is as the profile wants it and what is not.
//!
//! [`check()`] reads the settings that the profile has wishes for and gives a [`Finding`] for each
//! wish, of a setting of interfaces one for each interface. Nothing is changed and nothing is
//! measured. What could not be read is said and never counts as wrong.

mod facts;
mod fix;
pub mod fleet;
mod judge;
pub(crate) mod owner;
mod summary;
mod waiver;

use crate::plan::Plan;
use crate::profile::{Profile, Wanted, Weight, Wish};
use crate::setting::Menu;
use crate::{CpuSet, Goal, Reading, Root, Write, goal};

use facts::Facts;
pub use fix::{Fix, When};
use judge::Judgement;
pub(crate) use judge::is_fulfilled;
pub use owner::Owner;
pub(crate) use owner::Owners;
pub use summary::{Summary, Unjudged};
pub use waiver::{Day, Waiver, Waivers};

/// Which CPUs are whose, as wishes mean them by `${plan.…}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuPlan {
    /// Those left alone for the program and the guests.
    pub isolated: CpuSet,
    /// The others.
    pub housekeeping: CpuSet,
    /// Those for interrupts of interfaces.
    pub irq: CpuSet,
    /// Those of the program.
    pub app: CpuSet,
}

impl From<&Plan> for CpuPlan {
    fn from(plan: &Plan) -> Self {
        Self { isolated: plan.isolated(), housekeeping: plan.housekeeping(), irq: plan.irq(), app: plan.app() }
    }
}

/// What came of one wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The value is as wanted, or better.
    Right,
    /// It is not.
    Differs,
    /// It is not, and a tool on the host sets it.
    Owned(Owner),
    /// It is not, and somebody has accepted that.
    Waived(Box<Waiver>),
    /// The printed value is not there, and a current kernel gives no reason to put it there.
    NotAdvised,
    /// The wish does not count on this host.
    NotApplicable {
        /// Why not.
        why: String,
    },
    /// The host, kernel or device does not have the setting.
    Unsupported,
    /// It could not be found out.
    Unknown {
        /// Why not.
        why: String,
    },
    /// Only root may read it.
    NeedsRoot,
}

impl Outcome {
    /// The outcome as commands print it, a word for scripts.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Right => "ok",
            Self::Differs => "differs",
            Self::Owned(_) => "owned",
            Self::Waived(_) => "waived",
            Self::NotAdvised => "not-advised",
            Self::NotApplicable { .. } => "not-applicable",
            Self::Unsupported => "unsupported",
            Self::Unknown { .. } => "unknown",
            Self::NeedsRoot => "needs-root",
        }
    }

    /// Whether something is not as the profile wants it.
    #[must_use]
    pub const fn is_difference(&self) -> bool {
        matches!(self, Self::Differs | Self::Owned(_))
    }
}

/// One wish, or one wish for one interface, and what was found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The wish.
    pub wish: Wish,
    /// The interface, of a setting of interfaces.
    pub interface: Option<String>,
    /// What came of it.
    pub outcome: Outcome,
    /// The setting's reading.
    pub found: Reading,
    /// The wanted value for a person: CPUs by number where they are known.
    pub wanted: String,
    /// What is wanted, with CPUs by number and with the value of another setting in its place;
    /// `None` where they are not known.
    pub resolved: Option<Wanted>,
    /// The value to write, in the words that the setting is read in, where one value is wanted.
    pub value: Option<String>,
    /// Of a setting that each CPU has: the CPUs that are judged, where not all are.
    pub cpus: Option<CpuSet>,
    /// Something to know beside the outcome: another setting that makes the wish true.
    pub note: Option<String>,
    /// The entries of firmware menus that this machine can have for the setting.
    pub menus: Vec<Menu>,
}

impl Finding {
    /// The setting's id, with the interface in brackets: `nic.mtu[eth0]`.
    #[must_use]
    pub fn id(&self) -> String {
        self.wish.setting.instance(self.interface.as_deref())
    }

    /// The value to bring about, where the wish is not fulfilled, says which, and a write or a file
    /// can bring it about.
    #[must_use]
    pub fn goal(&self) -> Option<Goal> {
        self.lasting_goal().filter(|_| self.outcome.is_difference())
    }

    /// As [`Self::goal`], also of a wish that is fulfilled now: what a file must say for it to stay
    /// so. A value that is better than wanted is the one to keep.
    #[must_use]
    pub fn lasting_goal(&self) -> Option<Goal> {
        let class = self.wish.setting.write;
        if matches!(
            class,
            Write::Fact
                | Write::Hardware
                | Write::Firmware
                | Write::KernelBuild
                | Write::OtherDevice
                | Write::Application
        ) {
            return None;
        }
        let is_better =
            |wanted: &Option<Wanted>| matches!(wanted, Some(Wanted::AtLeast(_) | Wanted::AtMost(_) | Wanted::OneOf(_)));
        let value = match (&self.outcome, &self.found) {
            (Outcome::Differs | Outcome::Owned(_), _) => self.value.clone(),
            (Outcome::Right, Reading::Value(found)) if is_better(&self.resolved) => Some(found.clone()),
            (Outcome::Right, _) => self.value.clone(),
            _ => None,
        }?;
        let Self { interface, cpus, wish, resolved, .. } = self.clone();
        Some(Goal { setting: wish.setting, interface, cpus, value, wanted: resolved?, reason: wish.reason })
    }
}

/// Judges each wish of a profile. `interfaces` are those whose settings count; without a `plan`
/// CPUs that are isolated now are the program's. Readings that were `measured` take the place of what files
/// say.
///
/// The weightiest differences come first, then the rest.
#[must_use]
pub fn check(
    root: &Root,
    profile: &Profile,
    interfaces: &[String],
    plan: Option<&CpuPlan>,
    measured: &[(&str, Reading)],
) -> Vec<Finding> {
    let mut facts = Facts::read(root, profile, interfaces, plan);
    facts.replace(measured);
    let mut findings: Vec<Finding> = Vec::new();
    for wish in &profile.wishes {
        if !wish.setting.is_of_interfaces() {
            findings.push(finding(&facts, wish, None));
        } else if interfaces.is_empty() {
            findings.push(without_interface(wish));
        } else {
            findings.extend(interfaces.iter().map(|name| finding(&facts, wish, Some(name))));
        }
    }
    sort(&mut findings);
    findings
}

fn without_interface(wish: &Wish) -> Finding {
    let outcome = Outcome::NotApplicable { why: "the host has no interface to look at".to_owned() };
    let wanted = wish.wanted.to_string();
    let wish = wish.clone();
    Finding {
        wish,
        interface: None,
        outcome,
        found: Reading::Unsupported,
        wanted,
        resolved: None,
        value: None,
        cpus: None,
        note: None,
        menus: Vec::new(),
    }
}

fn finding(facts: &Facts<'_>, wish: &Wish, interface: Option<&str>) -> Finding {
    let found = facts.reading(wish.setting, interface);
    let resolved = facts.resolve(&wish.wanted, interface).ok();
    let cpus = wish.on.as_ref().and_then(|group| facts.cpus(group, interface).ok());
    let (outcome, note) = outcome(facts, wish, interface, &found);
    Finding {
        interface: interface.map(str::to_owned),
        outcome,
        wanted: resolved.as_ref().unwrap_or(&wish.wanted).to_string(),
        value: resolved
            .as_ref()
            .and_then(|wanted| goal::value(wish.setting, wanted).or_else(|| facts.others(wanted, &found))),
        resolved,
        cpus,
        found,
        note,
        menus: facts.menus(wish.setting),
        wish: wish.clone(),
    }
}

fn outcome(facts: &Facts<'_>, wish: &Wish, interface: Option<&str>, found: &Reading) -> (Outcome, Option<String>) {
    if let Some(name) = interface.filter(|name| facts.is_unplugged(name)) {
        let why = format!("{name} has no link; alone, as with --nic {name}, it is judged");
        return (Outcome::NotApplicable { why }, None);
    }
    if let Some(why) = wish.when.iter().find_map(|condition| facts.fails(condition, interface)) {
        return (why, None);
    }
    let judged = facts.judge(wish.setting, wish, &wish.wanted, interface, found);
    if judged != Judgement::Right
        && let Some((other, wanted)) = wish.alternative()
    {
        let reading = facts.reading(other, interface.filter(|_| other.is_of_interfaces()));
        if facts.judge(other, wish, wanted, interface, &reading) == Judgement::Right {
            let value = reading.as_value().unwrap_or("none").to_owned();
            return (Outcome::Right, Some(format!("{} does it: {value}", other.id)));
        }
    }
    let outcome = match judged {
        Judgement::Right => Outcome::Right,
        Judgement::Wrong if wish.verdict.is_against() => Outcome::NotAdvised,
        Judgement::Wrong => match facts.owner(wish.setting, interface) {
            Some(owner) => Outcome::Owned(owner),
            None => Outcome::Differs,
        },
        Judgement::Unjudged(outcome) => outcome,
    };
    (outcome, None)
}

/// The rank of an outcome in a report: what needs an eye comes first.
const fn rank(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Differs | Outcome::Owned(_) => 0,
        Outcome::Waived(_) => 1,
        Outcome::NeedsRoot => 2,
        Outcome::Unknown { .. } => 3,
        Outcome::NotAdvised => 4,
        Outcome::Right => 5,
        Outcome::Unsupported => 6,
        Outcome::NotApplicable { .. } => 7,
    }
}

/// Strictly the weightiest differences first, whatever their area, then the rest; equal ones by area and in the order of the profile.
fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| (rank(&finding.outcome), finding.wish.weight, finding.wish.setting.area));
}

/// How many findings have each outcome, by [`Outcome::name`], in the order of a report.
#[must_use]
pub fn counts(findings: &[Finding]) -> Vec<(&'static str, usize)> {
    const NAMES: [&str; 9] =
        ["differs", "owned", "waived", "needs-root", "unknown", "not-advised", "ok", "unsupported", "not-applicable"];
    let count = |name| findings.iter().filter(|finding| finding.outcome.name() == name).count();
    NAMES.into_iter().map(|name| (name, count(name))).collect()
}

/// The weight of the weightiest difference, if there is any.
#[must_use]
pub fn worst(findings: &[Finding]) -> Option<Weight> {
    findings.iter().filter(|finding| finding.outcome.is_difference()).map(|finding| finding.wish.weight).min()
}

#[cfg(test)]
mod tests;
