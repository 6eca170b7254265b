//! The live host, or a tree of files that looks like one.

mod probe;

use std::path::PathBuf;
use std::process::Command;

use nearwire_sys::ethtool::{EthtoolError, Interface};
use rustix::io::Errno;

use super::offline::threads_left;
use super::{Change, Form, Host, HostError, Target, link, partition, witness};
use crate::read::Nic;
use crate::setting::NicFact;
use crate::topology::Topology;
use crate::{CpuSet, Reading, Root};

/// A host below a [`Root`]. On the live one interfaces and `net.*` sysctls are those of the calling
/// thread's network namespace. In a tree only files can be written, and none outside of it.
#[derive(Debug)]
pub struct RootHost {
    root: Root,
    systemctl: PathBuf,
}

impl RootHost {
    /// A host whose files are below this root.
    #[must_use]
    pub fn new(root: Root) -> Self {
        Self { root, systemctl: PathBuf::from("systemctl") }
    }

    /// With another program in place of systemctl(1).
    #[must_use]
    pub fn with_systemctl(self, systemctl: impl Into<PathBuf>) -> Self {
        Self { systemctl: systemctl.into(), ..self }
    }

    /// The files.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The file of a target that is one, by the interface's name now.
    fn path(&self, action: &'static str, target: &Target) -> Result<String, HostError> {
        match target {
            Target::File { path, .. } => Ok(path.clone()),
            Target::InterfaceFile { file, .. } => Ok(format!("{}/{file}", self.directory(action, target)?)),
            Target::Link { attribute, .. } => Ok(format!("{}/{}", self.directory(action, target)?, attribute.file())),
            Target::Irq { vector, .. } => {
                let interface = self.interface(action, target)?;
                let irqs = Nic::open(&self.root, &interface).irqs();
                let irqs = irqs.map_err(|reading| of_reading(action, target, reading))?;
                let irq = irqs.get(*vector).ok_or_else(|| HostError::absent(action, target))?;
                Ok(format!("/proc/irq/{irq}/smp_affinity_list"))
            }
            Target::Partition { path } => Ok(path.clone()),
            Target::Ethtool { .. } | Target::Service { .. } => Err(self.only_live(action, target)),
        }
    }

    /// The interface's name now.
    fn interface(&self, action: &'static str, target: &Target) -> Result<String, HostError> {
        let device = target.device().ok_or_else(|| HostError::absent(action, target))?;
        device.find(&self.root).ok_or_else(|| HostError::absent(action, target))
    }

    /// The interface's directory, if sysfs shows this thread's network namespace.
    fn directory(&self, action: &'static str, target: &Target) -> Result<String, HostError> {
        let interface = self.interface(action, target)?;
        let nic = Nic::open(&self.root, &interface);
        nic.directory().map(str::to_owned).map_err(|reading| of_reading(action, target, reading))
    }

    fn ask(&self, action: &'static str, target: &Target) -> Result<Interface, HostError> {
        if !self.root.is_live() {
            return Err(self.only_live(action, target));
        }
        let interface = self.interface(action, target)?;
        Interface::open(&interface).map_err(|error| of_ethtool(action, target, error))
    }

    /// A controller that is on, with the groups that came to rely on it: it is no longer the one
    /// that was switched on for the partition alone, and stays.
    fn with_users(&self, word: String) -> String {
        let users = if word == "on" { partition::users_of_controller(&self.root) } else { Vec::new() };
        if users.is_empty() { word } else { format!("{word}, used by {}", users.join(" ")) }
    }

    fn only_live(&self, action: &'static str, target: &Target) -> HostError {
        HostError::says(action, target, "a tree of files has no kernel and no services to ask")
    }

    fn systemctl(&self, action: &'static str, target: &Target, words: [&str; 2]) -> Result<(bool, String), HostError> {
        if !self.root.is_live() {
            return Err(self.only_live(action, target));
        }
        let output = Command::new(&self.systemctl).args(words).output().map_err(|error| {
            let what = format!("start {} {}: {error}", self.systemctl.display(), words.join(" "));
            HostError::says(action, target, what)
        })?;
        let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
        Ok((output.status.success(), String::from_utf8_lossy(&text).trim().to_owned()))
    }
}

impl Host for RootHost {
    fn read(&mut self, target: &Target) -> Result<String, HostError> {
        const ACTION: &str = "read";
        match target {
            Target::Ethtool { parameter, .. } => {
                let interface = self.ask(ACTION, target)?;
                parameter.read(&interface).map_err(|error| of_ethtool(ACTION, target, error))
            }
            Target::Service { unit } => match self.systemctl(ACTION, target, ["is-active", unit])? {
                (true, _) => Ok("running".to_owned()),
                (false, state) if matches!(state.as_str(), "activating" | "reloading" | "deactivating") => {
                    Ok("running".to_owned())
                }
                (false, state) if matches!(state.as_str(), "inactive" | "failed" | "unknown") => {
                    Ok("stopped".to_owned())
                }
                (false, state) => Err(HostError::says(ACTION, target, state)),
            },
            Target::Link { attribute, .. } if self.root.is_live() => {
                let interface = self.interface(ACTION, target)?;
                match Nic::open(&self.root, &interface).read(NicFact::Link(attribute.fact())) {
                    Reading::Value(value) => Ok(value),
                    reading => Err(of_reading(ACTION, target, reading)),
                }
            }
            Target::Partition { path } => partition::read(&self.root, target, path),
            _ => {
                let path = self.path(ACTION, target)?;
                let text = self.root.text(&path).map_err(|errno| HostError::kernel(ACTION, target, errno))?;
                let form = form(target);
                let word = form.word(&text).map_err(|error| HostError::says(ACTION, target, error.to_string()))?;
                Ok(if matches!(form, Form::Controller(_)) { self.with_users(word) } else { word })
            }
        }
    }

    fn write(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        const ACTION: &str = "write";
        match target {
            Target::Ethtool { parameter, .. } => {
                let interface = self.ask(ACTION, target)?;
                parameter.write(&interface, word).map_err(|error| of_ethtool(ACTION, target, error))
            }
            Target::Service { unit } => {
                let verb = if word == "running" { "start" } else { "stop" };
                // systemd starts a unit five times in ten seconds at most and then leaves it stopped, unless its count is set
                // to zero. A unit that is not loaded has none and is refused, so that only the start tells.
                if verb == "start" {
                    self.systemctl(ACTION, target, ["reset-failed", unit])?;
                }
                match self.systemctl(ACTION, target, [verb, unit])? {
                    (true, _) => Ok(()),
                    (false, why) => Err(HostError::says(ACTION, target, format!("systemctl {verb}: {why}"))),
                }
            }
            Target::Link { attribute, .. } if self.root.is_live() => {
                let interface = self.interface(ACTION, target)?;
                let number = word.parse().map_err(|_| HostError::kernel(ACTION, target, Errno::INVAL))?;
                link::set(&interface, *attribute, number).map_err(|error| match Errno::from_io_error(&error) {
                    Some(errno) => HostError::kernel(ACTION, target, errno),
                    None => HostError::says(ACTION, target, error.to_string()),
                })
            }
            Target::Partition { path } => partition::write(&self.root, target, path, word),
            _ => {
                let path = self.path(ACTION, target)?;
                let text = match form(target) {
                    form if self.root.is_live() => form.text(word),
                    Form::Controller(name) => listed(&self.root.text(&path).unwrap_or_default(), name, word == "on"),
                    form => form.reads_back(&self.root.text(&path).unwrap_or_default(), word),
                };
                self.root.write(&path, &text).map_err(|errno| HostError::kernel(ACTION, target, errno))
            }
        }
    }

    fn probe(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        probe::probe(self, target, word)
    }

    fn rehearse(&mut self, target: &Target) -> Result<(), HostError> {
        // The mode of the file does not tell a managed interrupt or one of a single CPU from others.
        let Target::Irq { .. } = target else { return Ok(()) };
        let now = self.read(target)?;
        self.write(target, &now)
    }

    fn cpus_taken_offline(&mut self, change: &Change) -> CpuSet {
        match threads_left(change) {
            Some(left) if self.root.is_live() => Topology::read(&self.root).threads_beyond(left),
            // In a tree of files every CPU keeps its files.
            _ => CpuSet::default(),
        }
    }

    fn witnesses(&mut self, changes: &[Change]) -> Vec<Change> {
        witness::witnesses(self, changes)
    }
}

fn form(target: &Target) -> &Form {
    match target {
        Target::File { form, .. } | Target::InterfaceFile { form, .. } => form,
        Target::Irq { .. } => &Form::CpuList,
        Target::Partition { .. } | Target::Link { .. } | Target::Ethtool { .. } | Target::Service { .. } => &Form::Text,
    }
}

/// A list of controllers with or without one of them, as the kernel would print it after a write.
fn listed(list: &str, name: &str, is_on: bool) -> String {
    let others = list.split_whitespace().filter(|word| *word != name);
    others.chain(is_on.then_some(name)).collect::<Vec<_>>().join(" ")
}

fn of_reading(action: &'static str, target: &Target, reading: Reading) -> HostError {
    match reading {
        Reading::NeedsRoot => HostError::kernel(action, target, Errno::PERM),
        Reading::Unknown { why } => HostError::says(action, target, why),
        Reading::Unsupported | Reading::Value(_) => HostError::absent(action, target),
    }
}

fn of_ethtool(action: &'static str, target: &Target, error: EthtoolError) -> HostError {
    let errno = match &error {
        EthtoolError::Unsupported { .. } => Some(Errno::OPNOTSUPP),
        EthtoolError::NotPermitted { .. } => Some(Errno::PERM),
        EthtoolError::NoInterface { .. } => Some(Errno::NODEV),
        EthtoolError::Failed { source, .. } => Errno::from_io_error(source),
        _ => None,
    };
    match errno {
        Some(errno) => HostError::kernel(action, target, errno),
        None => HostError::says(action, target, error.to_string()),
    }
}
