//! A host together with the two ends of a cable, whose interfaces are in network namespaces of their own.
//!
//! Values of an interface are read and written at its end; kernel parameters that each network namespace has are those of both ends;
//! everything else is the host's.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use nearwire_bench::bed::TestBed;
use nearwire_host::change::{Cause, Change, Host, HostError, RootHost, Target};
use nearwire_host::{CpuSet, Disruption, ReadFrom, Root, Setting};
use nearwire_lab::{Namespace, interface_facts};

use crate::switch::Keep;

/// A link that was reset takes seconds to find its partner.
const CARRIER_MAX: Duration = Duration::from_secs(15);

/// One end.
#[derive(Debug)]
pub struct End {
    namespace: Namespace,
    interface: String,
    host: RootHost,
}

/// Why the ends of a cable cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum CableHostError {
    /// The host's files.
    #[error(transparent)]
    Root(#[from] nearwire_host::RootError),
    /// A namespace.
    #[error(transparent)]
    Lab(#[from] nearwire_lab::LabError),
    /// A kernel parameter of an end could not be given the host's value.
    #[error("write {value} to {path} at both ends of the cable: {source}")]
    Parameter {
        /// The file.
        path: String,
        /// The host's value.
        value: String,
        /// What the kernel said.
        source: std::io::Error,
    },
}

impl End {
    /// Without the right to mount, files of its interface are not seen.
    fn of(root: &Root, interface: String, namespace: Namespace) -> Result<Self, CableHostError> {
        let own = namespace.enter(Root::live_of_this_network)?;
        let host = RootHost::new(own.unwrap_or_else(|_| root.untraced()));
        Ok(Self { namespace, interface, host })
    }

    /// The interface.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Does something with the host as seen at this end.
    ///
    /// # Errors
    /// The namespace could not be entered.
    pub fn within<R>(&mut self, work: impl FnOnce(&mut RootHost) -> R) -> Result<R, CableHostError> {
        let Self { namespace, host, .. } = self;
        Ok(namespace.enter(|| work(host))?)
    }
}

/// The host and the ends.
#[derive(Debug)]
pub struct CableHost {
    host: RootHost,
    /// Near and far, of one pair or of two; none where the far end is another host.
    ends: Vec<End>,
    /// Whether the interfaces are gone with the cable.
    is_virtual: bool,
}

impl CableHost {
    /// This host and the ends of the cable of a test bed.
    ///
    /// # Errors
    /// See [`CableHostError`].
    pub fn new(bed: &TestBed) -> Result<Self, CableHostError> {
        let host = Self::alone()?;
        let of = |(interface, namespace): (String, Option<Namespace>)| {
            Some(End::of(host.host.root(), interface, namespace?))
        };
        let ends = bed.ends_here().into_iter().filter_map(of).collect::<Result<_, _>>()?;
        Ok(Self { ends, is_virtual: bed.kind == "virtual", ..host })
    }

    /// This host alone.
    ///
    /// # Errors
    /// See [`CableHostError`].
    pub fn alone() -> Result<Self, CableHostError> {
        Ok(Self::of(Root::live()?))
    }

    /// A host alone, by its files.
    #[must_use]
    pub fn of(root: Root) -> Self {
        Self { host: RootHost::new(root), ends: Vec::new(), is_virtual: false }
    }

    /// The host itself.
    pub fn host(&mut self) -> &mut RootHost {
        &mut self.host
    }

    /// The ends that are on this host and in namespaces of their own: near, far, or none.
    pub fn ends(&mut self) -> &mut [End] {
        &mut self.ends
    }

    /// Whether values of a setting are those of the ends: what is written at one of them is written at the other, and
    /// is gone with the cable's namespaces.
    ///
    /// # Errors
    /// A namespace could not be entered.
    pub fn is_parameter_of_ends(&mut self, setting: &Setting) -> Result<bool, CableHostError> {
        match (parameter(setting), self.ends.first_mut()) {
            (Some(path), Some(near)) if is_of_network(&path) => near.within(|_| is_writable(&path)),
            _ => Ok(false),
        }
    }

    /// Gives both ends the host's value of such a setting.
    ///
    /// # Errors
    /// See [`CableHostError`].
    pub fn take_over(&mut self, setting: &Setting) -> Result<(), CableHostError> {
        let Some(path) = parameter(setting) else { return Ok(()) };
        let failed =
            |value: &str, source| CableHostError::Parameter { path: path.clone(), value: value.to_owned(), source };
        let value = std::fs::read_to_string(&path).map_err(|source| failed("the host's value", source))?;
        for end in &mut self.ends {
            end.within(|_| std::fs::write(&path, &value))?.map_err(|source| failed(value.trim(), source))?;
        }
        Ok(())
    }

    /// Does something wherever values of a setting are written, and says where it is noted what was found there: with each end and
    /// its interface where it is a setting of interfaces and these are in namespaces, once where the ends have it for
    /// themselves, else with the host.
    ///
    /// # Errors
    /// A namespace could not be entered.
    pub fn at_places_of<R>(
        &mut self,
        setting: &Setting,
        mut work: impl FnMut(&mut RootHost, Option<&str>) -> R,
    ) -> Result<(Vec<R>, Keep), CableHostError> {
        let of_ends = self.is_parameter_of_ends(setting)?;
        let of_interfaces = matches!(setting.read, ReadFrom::Nic(_));
        let (count, keep) = match () {
            () if of_ends => (1, Keep::InMemory),
            () if of_interfaces && self.is_virtual => (self.ends.len(), Keep::InMemory),
            () if of_interfaces => (self.ends.len(), Keep::OnDisk),
            () => (0, Keep::OnDisk),
        };
        if count == 0 {
            return Ok((vec![work(&mut self.host, None)], Keep::OnDisk));
        }
        let at_end = |end: &mut End| {
            let interface = of_interfaces.then(|| end.interface.clone());
            end.within(|host| work(host, interface.as_deref()))
        };
        Ok((self.ends.iter_mut().take(count).map(at_end).collect::<Result<_, _>>()?, keep))
    }

    /// Which ends a target is at: their places.
    fn ends_of(&self, target: &Target) -> Vec<usize> {
        let at = |name: &str| self.ends.iter().position(|end| end.interface == name).into_iter().collect();
        match (target.device(), target) {
            (Some(device), _) => at(&device.interface),
            (None, Target::File { path, .. }) if is_of_network(path) => (0..self.ends.len()).collect(),
            _ => Vec::new(),
        }
    }

    /// Does something at each end that a target is at, or with the host; gives what the first one gave.
    fn at<R>(
        &mut self,
        action: &'static str,
        target: &Target,
        mut work: impl FnMut(&mut RootHost) -> Result<R, HostError>,
    ) -> Result<R, HostError> {
        let mut first = None;
        for at in self.ends_of(target) {
            let lost = |error: CableHostError| HostError {
                action,
                target: target.to_string(),
                cause: Cause::Says(error.to_string()),
                advice: "",
            };
            let has = |end: &mut End| match target {
                Target::File { path, .. } => end.within(|_| is_writable(path)),
                _ => Ok(true),
            };
            let end = &mut self.ends[at];
            if !has(end).map_err(lost)? {
                continue;
            }
            let result = end.within(&mut work).map_err(lost)??;
            first.get_or_insert(result);
        }
        match first {
            Some(result) => Ok(result),
            None => work(&mut self.host),
        }
    }
}

/// The file of a kernel parameter.
fn parameter(setting: &Setting) -> Option<String> {
    match setting.read {
        ReadFrom::Sysctl(name) => Some(format!("/proc/sys/{}", name.replace('.', "/"))),
        _ => None,
    }
}

/// Whether a file of `/proc/sys` is one that a network namespace may have for itself.
fn is_of_network(path: &str) -> bool {
    path.starts_with("/proc/sys/net/")
}

/// Whether the calling thread's namespace has such a file for itself: others are shown there and belong to the host.
fn is_writable(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o222 != 0)
}

impl Host for CableHost {
    fn read(&mut self, target: &Target) -> Result<String, HostError> {
        self.at("read", target, |host| host.read(target))
    }

    fn write(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.at("write", target, |host| host.write(target, word))
    }

    fn probe(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.at("write", target, |host| host.probe(target, word))
    }

    fn rehearse(&mut self, target: &Target) -> Result<(), HostError> {
        self.at("write", target, |host| host.rehearse(target))
    }

    fn cpus_taken_offline(&mut self, change: &Change) -> CpuSet {
        self.host.cpus_taken_offline(change)
    }

    fn witnesses(&mut self, changes: &[Change]) -> Vec<Change> {
        let mut witnesses = Vec::new();
        let mut left = changes.to_vec();
        for end in &mut self.ends {
            let is_at =
                |change: &Change| change.target.device().is_some_and(|device| device.interface == end.interface);
            let (here, others): (Vec<_>, Vec<_>) = left.into_iter().partition(is_at);
            left = others;
            witnesses.extend(end.within(|host| host.witnesses(&here)).unwrap_or_default());
        }
        witnesses.extend(self.host.witnesses(&left));
        witnesses
    }
}

/// Waits until the links are there again after changes that reset one. `ends` as a test bed has them.
pub fn await_links(ends: &[(String, Namespace)], changes: &[Change]) {
    if !changes.iter().any(|change| change.disruption() == Disruption::LinkReset) {
        return;
    }
    let start = Instant::now();
    let is_there = |(interface, namespace): &(String, Namespace)| {
        let facts = namespace.enter(|| interface_facts(interface));
        matches!(facts, Ok(Ok(facts)) if facts.carrier)
    };
    while !ends.iter().all(is_there) && start.elapsed() < CARRIER_MAX {
        std::thread::sleep(Duration::from_millis(5));
    }
}
