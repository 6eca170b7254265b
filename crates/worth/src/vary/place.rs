//! A part of the host in which settings are varied: the host itself with a journal that outlives this process, or a
//! namespace of a cable with one that does not.

use std::path::PathBuf;

use nearwire_host::change::{
    Cause, Change, Host, HostError, Located, NotAtRunTime, Outcome, RootHost, Target, apply, take_newest_back,
};
use nearwire_host::journal::{HostIdentity, Journal, unix_s};
use nearwire_host::{CpuSet, ReadFrom, Root, Setting};
use nearwire_lab::{LabError, Namespace};

use super::{End, VaryError, located};
use crate::unconfirmed;

/// What plans are called in the journal, where `tune apply` names a profile.
const NAME: &str = "bench --vary";
const DURABLE_ADVICE: &str = "nearwire tune revert tries the rest again";
const FLEETING_ADVICE: &str = "it is gone with the cable";

/// Settings in one place.
#[derive(Debug)]
pub(super) struct Place {
    host: PlacedHost,
    /// The interfaces whose settings are written here.
    pub(super) interfaces: Vec<String>,
    /// Of the settings that are varied here: which, and where.
    pub(super) located: Vec<(usize, Vec<Located>)>,
    /// The directory of the journal; none where it lasts no longer than the namespace.
    directory: Option<PathBuf>,
    journal: Option<Journal>,
    is_written: bool,
}

impl Place {
    /// The host, with the interfaces that outlive this process, wherever they are now.
    pub(super) fn host(root: &Root, ends: Vec<End>, directory: PathBuf) -> Place {
        let interfaces = ends.iter().map(|end| end.interface.clone()).collect();
        let away = ends.into_iter().filter_map(|end| Some(Elsewhere::new(root, Some(end.interface), end.namespace?)));
        let host = PlacedHost { host: RootHost::new(root.untraced()), elsewhere: away.collect() };
        Place::new(host, interfaces, Some(directory))
    }

    /// A namespace that is gone with the cable.
    pub(super) fn namespace(root: &Root, namespace: Namespace, interface: String) -> Place {
        let elsewhere = vec![Elsewhere::new(root, None, namespace)];
        Place::new(PlacedHost { host: RootHost::new(root.untraced()), elsewhere }, vec![interface], None)
    }

    fn new(host: PlacedHost, interfaces: Vec<String>, directory: Option<PathBuf>) -> Place {
        let located = Vec::new();
        Place { host, interfaces, located, directory, journal: None, is_written: false }
    }

    pub(super) fn is_used(&self) -> bool {
        !self.located.is_empty()
    }

    pub(super) fn is_durable(&self) -> bool {
        self.directory.is_some()
    }

    /// Whether the namespace has a sysctl of its own.
    pub(super) fn has(&mut self, setting: &Setting) -> bool {
        let ReadFrom::Sysctl(name) = setting.read else { return false };
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        self.host.within(None, |host| host.root().has(&path)).unwrap_or(false)
    }

    /// Where a setting is written here.
    pub(super) fn find(&mut self, setting: &'static Setting) -> Result<Vec<Located>, NotAtRunTime> {
        let absent = Err(NotAtRunTime::Absent { id: setting.id });
        if !matches!(setting.read, ReadFrom::Nic(_)) {
            return self.host.within(None, |host| located(host.root(), setting, &[])).unwrap_or(absent);
        }
        let mut found = Vec::new();
        for interface in &self.interfaces {
            let find = |host: &mut RootHost| located(host.root(), setting, std::slice::from_ref(interface));
            found.extend(self.host.within(Some(interface), find).unwrap_or(absent.clone())?);
        }
        Ok(found)
    }

    /// What is written for a value of the setting at this place of the list; every place can have it.
    pub(super) fn written(&mut self, at: usize, value: &str) -> Result<Vec<Change>, VaryError> {
        let places: Vec<Located> = self.of(at).cloned().collect();
        places.iter().map(|located| change(located, value, &mut self.host)).collect()
    }

    fn of(&self, at: usize) -> impl Iterator<Item = &Located> {
        self.located.iter().filter(move |(of, _)| *of == at).flat_map(|(_, located)| located)
    }

    /// What is varied here and its values now.
    pub(super) fn in_words(&self) -> Vec<String> {
        self.located.iter().flat_map(|(_, located)| located).map(|located| located.id.clone()).collect()
    }

    /// Writes a value of each setting, by its place in the list of all, and says what was read back.
    pub(super) fn write(&mut self, values: &[String]) -> Result<Vec<String>, VaryError> {
        let places: Vec<(usize, Located)> =
            self.located.iter().flat_map(|(at, located)| located.iter().map(|one| (*at, one.clone()))).collect();
        let planned = places.iter().map(|(at, located)| change(located, &values[*at], &mut self.host));
        let changes: Vec<Change> = planned.collect::<Result<_, _>>()?;
        self.open()?;
        let Some(journal) = &mut self.journal else { return Ok(Vec::new()) };
        let as_found = changes.iter().filter(|change| change.is_as_wanted());
        let mut lines: Vec<_> = as_found.map(|change| format!("{} = {}, as found", change.id, change.found)).collect();
        let applied = apply(&mut self.host, journal, changes, &unconfirmed::options(NAME));
        let applied = applied.map_err(|error| VaryError::Apply { why: Box::new(error) })?;
        self.is_written = !applied.written.is_empty();
        lines.extend(
            applied.written.iter().map(|(change, now)| format!("{} = {now}, found {}", change.id, change.found)),
        );
        Ok(lines)
    }

    /// Takes the journal, once.
    fn open(&mut self) -> Result<(), VaryError> {
        if self.journal.is_some() {
            return Ok(());
        }
        let identity = HostIdentity::of(self.host.host.root());
        self.journal = Some(match &self.directory {
            Some(directory) => Journal::open(directory, identity)?.without_history(),
            None => Journal::in_memory(identity),
        });
        Ok(())
    }

    /// Leaves everything as a process does that is killed.
    #[cfg(test)]
    pub(super) fn forget(&mut self) {
        self.journal = None;
    }

    /// Puts back what was written last, if anything was.
    pub(super) fn put_back(&mut self) -> Result<(), VaryError> {
        let Some(journal) = self.journal.as_mut().filter(|_| self.is_written) else { return Ok(()) };
        // Tried once: what is left is the journal's.
        self.is_written = false;
        let reverted = take_newest_back(&mut self.host, journal, unix_s())?;
        let problem = |(id, outcome): &(String, Outcome)| match outcome {
            Outcome::AsFound | Outcome::Restored { .. } => None,
            Outcome::Kept { now, .. } => Some(format!("{id}: somebody changed it to {now}")),
            Outcome::Permanent { now, .. } => Some(format!("{id} is {now}")),
            Outcome::Absent => Some(format!("{id} is not there")),
            Outcome::Failed(error) => Some(format!("{id}: {error}")),
        };
        let problems: Vec<String> = reverted.back.items.iter().filter_map(problem).collect();
        if problems.is_empty() {
            return Ok(());
        }
        let advice = if self.directory.is_some() { DURABLE_ADVICE } else { FLEETING_ADVICE };
        Err(VaryError::NotBack { values: problems.join("; "), advice })
    }
}

fn change(located: &Located, value: &str, host: &mut PlacedHost) -> Result<Change, VaryError> {
    let value_error =
        |error| VaryError::Value { id: located.id.clone(), value: value.to_owned(), why: Box::new(error) };
    Change::plan(located, located.wanted(value), host).map_err(value_error)
}

/// A host of which interfaces, or all, are in other network namespaces.
#[derive(Debug)]
struct PlacedHost {
    host: RootHost,
    elsewhere: Vec<Elsewhere>,
}

/// The host as another network namespace shows it.
#[derive(Debug)]
struct Elsewhere {
    /// The interface that is meant; everything where none is named.
    interface: Option<String>,
    namespace: Namespace,
    host: RootHost,
}

impl Elsewhere {
    /// Without the right to mount, files of interfaces are not seen.
    fn new(root: &Root, interface: Option<String>, namespace: Namespace) -> Elsewhere {
        let own = namespace.enter(Root::live_of_this_network).ok().and_then(Result::ok);
        let host = RootHost::new(own.filter(|_| root.is_live()).unwrap_or_else(|| root.untraced()));
        Elsewhere { interface, namespace, host }
    }
}

impl PlacedHost {
    /// Does something with the host where this interface is, or where everything is.
    fn within<R>(&mut self, interface: Option<&str>, work: impl FnOnce(&mut RootHost) -> R) -> Result<R, LabError> {
        let is_it = |place: &&mut Elsewhere| place.interface.is_none() || place.interface.as_deref() == interface;
        match self.elsewhere.iter_mut().find(is_it) {
            Some(Elsewhere { namespace, host, .. }) => namespace.enter(|| work(host)),
            None => Ok(work(&mut self.host)),
        }
    }

    fn at<R>(
        &mut self,
        target: &Target,
        action: &'static str,
        work: impl FnOnce(&mut RootHost) -> Result<R, HostError>,
    ) -> Result<R, HostError> {
        let interface = target.device().map(|device| device.interface.as_str());
        self.within(interface, work).unwrap_or_else(|error| {
            let (target, cause) = (target.to_string(), Cause::Says(error.to_string()));
            Err(HostError { action, target, cause, advice: "" })
        })
    }
}

impl Host for PlacedHost {
    fn read(&mut self, target: &Target) -> Result<String, HostError> {
        self.at(target, "read", |host| host.read(target))
    }

    fn write(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.at(target, "write", |host| host.write(target, word))
    }

    fn probe(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.at(target, "write", |host| host.probe(target, word))
    }

    fn rehearse(&mut self, target: &Target) -> Result<(), HostError> {
        self.at(target, "write", |host| host.rehearse(target))
    }

    fn cpus_taken_offline(&mut self, change: &Change) -> CpuSet {
        self.host.cpus_taken_offline(change)
    }

    /// Of each interface in its namespace.
    fn witnesses(&mut self, changes: &[Change]) -> Vec<Change> {
        let interface = |change: &Change| change.target.device().map(|device| device.interface.clone());
        let mut interfaces: Vec<_> = changes.iter().map(interface).collect();
        interfaces.sort();
        interfaces.dedup();
        let of = |name: Option<String>| {
            let own: Vec<_> = changes.iter().filter(|change| interface(change) == name).cloned().collect();
            self.within(name.as_deref(), |host| host.witnesses(&own)).unwrap_or_default()
        };
        interfaces.into_iter().flat_map(of).collect()
    }
}
