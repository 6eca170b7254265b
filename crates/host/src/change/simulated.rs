//! A host in memory, and faults around any host.

use std::collections::BTreeMap;

use rustix::io::Errno;

use super::{EthtoolParameter, Host, HostError, Target};

/// Values by the keys of their targets. Changing rings or channels puts the device's interrupts and
/// delays to what a driver starts with, as drivers do.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryHost {
    pub values: BTreeMap<String, String>,
    pub writes: usize,
}

pub(crate) const AFTER_RESET: &str = "0-7";

impl MemoryHost {
    pub fn set(&mut self, target: &Target, value: &str) {
        self.values.insert(target.key(), value.to_owned());
    }
}

impl Host for MemoryHost {
    fn read(&mut self, target: &Target) -> Result<String, HostError> {
        self.values.get(&target.key()).cloned().ok_or_else(|| HostError::absent("read", target))
    }

    fn write(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.writes += 1;
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
}
