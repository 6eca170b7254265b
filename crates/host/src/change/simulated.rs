//! A host in memory, and faults around any host.

use std::collections::BTreeMap;

use rustix::io::Errno;

use super::offline::{SMT_CONTROL, threads_left};
use super::{Change, EthtoolParameter, Host, HostError, Target};
use crate::CpuSet;

/// Values by the keys of their targets. Changing rings or channels puts the device's interrupts and
/// delays to what a driver starts with, as drivers do. With threads switched off, what belongs to
/// [`SECOND_THREADS`] cannot be read, and when they are back it is what a kernel starts with.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryHost {
    pub values: BTreeMap<String, String>,
    pub writes: usize,
}

pub(crate) const AFTER_RESET: &str = "0-7";
/// The second threads of the cores of CPUs 0 to 3.
pub(crate) const SECOND_THREADS: std::ops::Range<u32> = 4..8;
pub(crate) const AFTER_ONLINE: &str = "1";

impl MemoryHost {
    pub fn set(&mut self, target: &Target, value: &str) {
        self.values.insert(target.key(), value.to_owned());
    }

    fn has_second_threads(&self) -> bool {
        self.values.get(SMT_CONTROL).is_none_or(|control| control == "on")
    }

    /// What the kernel says of a value of a CPU that is offline (`drivers/cpufreq/cpufreq.c`,
    /// `arch/x86/kernel/cpu/intel_epb.c`).
    fn reach(&self, action: &'static str, target: &Target) -> Result<(), HostError> {
        let is_offline = target.cpu().is_some_and(|cpu| SECOND_THREADS.contains(&cpu)) && !self.has_second_threads();
        match is_offline {
            true if target.key().contains("/cpufreq/") => Err(HostError::kernel(action, target, Errno::BUSY)),
            true => Err(HostError::absent(action, target)),
            false => Ok(()),
        }
    }

    fn switch_threads(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        if !matches!(word, "on" | "off") {
            return Err(HostError::kernel("write", target, Errno::INVAL));
        }
        let come_back = word == "on" && !self.has_second_threads();
        self.set(target, word);
        let is_of_second = |key: &str| SECOND_THREADS.into_iter().any(|cpu| key.contains(&format!("/cpu/cpu{cpu}/")));
        for (_, value) in self.values.iter_mut().filter(|(key, _)| come_back && is_of_second(key)) {
            AFTER_ONLINE.clone_into(value);
        }
        Ok(())
    }
}

impl Host for MemoryHost {
    fn read(&mut self, target: &Target) -> Result<String, HostError> {
        self.reach("read", target)?;
        self.values.get(&target.key()).cloned().ok_or_else(|| HostError::absent("read", target))
    }

    fn write(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.writes += 1;
        self.reach("write", target)?;
        if target.key() == SMT_CONTROL && self.values.contains_key(SMT_CONTROL) {
            return self.switch_threads(target, word);
        }
        let Some(value) = self.values.get_mut(&target.key()) else {
            return Err(HostError::absent("write", target));
        };
        word.clone_into(value);
        if let Target::Ethtool { device, parameter: EthtoolParameter::Ring(_) | EthtoolParameter::Channels(_) } = target
        {
            let of_device = |key: &str| key.starts_with(&format!("{} interrupt vector", device.key()));
            for (_, value) in self.values.iter_mut().filter(|(key, _)| of_device(key)) {
                AFTER_RESET.clone_into(value);
            }
        }
        Ok(())
    }

    fn probe(&mut self, target: &Target, _word: &str) -> Result<(), HostError> {
        self.read(target).map(drop)
    }

    fn cpus_taken_offline(&mut self, change: &Change) -> CpuSet {
        match threads_left(change) {
            Some(_) if self.has_second_threads() => SECOND_THREADS.collect(),
            _ => CpuSet::default(),
        }
    }
}

/// What goes wrong at a write.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It is refused.
    Refuse(Errno),
    /// It is taken without effect.
    Ignore,
    /// Another value is kept than was written.
    Round(String),
    /// The target goes away just before.
    Vanish,
}

/// A host on which the writes of these numbers, counted from 0, go wrong, once each.
pub(crate) struct Faulty<H> {
    pub inner: H,
    pub faults: Vec<(usize, Fault)>,
    pub writes: usize,
    pub refuse_probe_of: Option<(String, Errno)>,
    gone: Vec<String>,
}

impl<H: Host> Faulty<H> {
    pub fn new(inner: H, faults: Vec<(usize, Fault)>) -> Self {
        Self { inner, faults, writes: 0, refuse_probe_of: None, gone: Vec::new() }
    }

    /// What vanished is there again.
    pub fn heal(&mut self) {
        self.gone.clear();
    }
}

impl<H: Host> Host for Faulty<H> {
    fn read(&mut self, target: &Target) -> Result<String, HostError> {
        if self.gone.contains(&target.key()) {
            return Err(HostError::absent("read", target));
        }
        self.inner.read(target)
    }

    fn write(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        let number = self.writes;
        self.writes += 1;
        match self.faults.iter().find(|(at, _)| *at == number).map(|(_, fault)| fault.clone()) {
            None if self.gone.contains(&target.key()) => Err(HostError::absent("write", target)),
            None => self.inner.write(target, word),
            Some(Fault::Refuse(errno)) => Err(HostError::kernel("write", target, errno)),
            Some(Fault::Ignore) => Ok(()),
            Some(Fault::Round(value)) => self.inner.write(target, &value),
            Some(Fault::Vanish) => {
                self.gone.push(target.key());
                Err(HostError::absent("write", target))
            }
        }
    }

    fn probe(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        match &self.refuse_probe_of {
            Some((key, errno)) if *key == target.key() => Err(HostError::kernel("write", target, *errno)),
            _ => self.inner.probe(target, word),
        }
    }

    fn cpus_taken_offline(&mut self, change: &Change) -> CpuSet {
        self.inner.cpus_taken_offline(change)
    }
}
