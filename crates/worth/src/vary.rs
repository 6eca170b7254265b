//! Settings that an experiment runs under several values of: `--vary ID=V1,V2`.
//!
//! Values are written through a journal, as `nearwire tune apply` writes them: each effect is read back, and what was
//! found is put back before the next value is written, at the end, and by `nearwire tune revert` after `kill -9`.
//!
//! A setting of interfaces is written at both ends of the cable, one of a network namespace (`net.*`, where the cable's
//! namespaces have it) in both of these, and every other one on the host.

mod error;
mod place;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use nearwire_host::change::{Change, Located, NotAtRunTime, Scope, targets};
use nearwire_host::{Disruption, ReadFrom, Risk, Root, Setting, Value, catalogue};
use nearwire_lab::Namespace;

pub use error::VaryError;
use place::Place;

/// More combinations of values than this take longer than anybody waits.
const VARIATIONS_MAX: usize = 64;

/// Settings that take CPUs away from a measurement that runs on them.
const OF_CPUS: [&str; 3] = ["cpu.smt", "cpu.isolated", "cpu.isolated.cgroup"];
/// Settings on which hangs whether messages pass the cable at all, though none of them resets the link.
const OF_CABLE: [&str; 5] =
    ["nic.mtu", "nic.offload.loopback", "nic.local-loopback", "nic.offload.rx-fcs", "nic.ipoib-mode"];

/// A setting and the values to measure under, in the words in which the setting is read.
#[derive(Clone, Debug)]
pub struct Vary {
    /// The setting.
    pub setting: &'static Setting,
    /// Two values or more.
    pub values: Vec<String>,
}

impl FromStr for Vary {
    type Err = VaryError;

    fn from_str(text: &str) -> Result<Vary, VaryError> {
        let (id, values) = text.split_once('=').ok_or_else(|| VaryError::Form { text: text.to_owned() })?;
        if let Some((whole, _)) = id.split_once('[') {
            return Err(VaryError::Instance { id: id.to_owned(), whole: whole.to_owned() });
        }
        let near = || catalogue::near(id).iter().map(|setting| setting.id).collect();
        let setting = catalogue::setting(id).ok_or_else(|| VaryError::Unknown { id: id.to_owned(), near: near() })?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if values.len() < 2 || values.iter().any(String::is_empty) {
            return Err(VaryError::Form { text: text.to_owned() });
        }
        Ok(Vary { setting, values })
    }
}

/// One end of a cable on this host.
#[derive(Clone, Debug)]
pub struct End {
    /// The interface.
    pub interface: String,
    /// The namespace that holds it; that of the calling thread where there is none.
    pub namespace: Option<Namespace>,
}

/// Where values may be written.
#[derive(Clone, Debug)]
pub struct Bed {
    /// The ends of the cable that are on this host: two or four, or the near one alone.
    pub ends: Vec<End>,
    /// Whether the ends are gone with this process, so that nothing of them has to be put back after it was killed.
    pub is_virtual: bool,
    /// The directory of the host's journal.
    pub journal: PathBuf,
    /// Interfaces that are left alone, and why.
    pub in_use: BTreeMap<String, String>,
}

/// All combinations of the values of settings.
#[derive(Debug)]
pub struct Variations {
    varied: Vec<Vary>,
    places: Vec<Place>,
    /// The value of each setting, by its place in its list; of each combination.
    combinations: Vec<Vec<usize>>,
}

impl Variations {
    /// Looks up where the settings are written, and what they are now. Nothing is written, and no journal is made.
    ///
    /// # Errors
    /// A setting cannot be varied here, or a value cannot be written there.
    pub fn prepare(root: &Root, varied: Vec<Vary>, bed: &Bed) -> Result<Variations, VaryError> {
        for (at, vary) in varied.iter().enumerate() {
            may_be_varied(vary.setting)?;
            can_have(vary)?;
            if varied[..at].iter().any(|earlier| earlier.setting.id == vary.setting.id) {
                return Err(VaryError::Twice { id: vary.setting.id });
            }
        }
        let combinations = combinations(&varied);
        if combinations.len() > VARIATIONS_MAX {
            return Err(VaryError::TooMany { combinations: combinations.len(), most: VARIATIONS_MAX });
        }
        let mut places = places(root, bed);
        for (at, vary) in varied.iter().enumerate() {
            locate(&mut places, at, vary, bed)?;
        }
        places.retain(Place::is_used);
        let mut variations = Variations { varied, places, combinations };
        variations.try_values()?;
        Ok(variations)
    }

    /// The settings and values of each combination, as records have them.
    #[must_use]
    pub fn values(&self) -> Vec<BTreeMap<String, String>> {
        (0..self.combinations.len()).map(|variation| self.values_of(variation)).collect()
    }

    fn values_of(&self, variation: usize) -> BTreeMap<String, String> {
        let chosen = self.combinations.get(variation).into_iter().flatten();
        let named = self.varied.iter().zip(chosen);
        named.map(|(vary, at)| (vary.setting.id.to_owned(), vary.values[*at].clone())).collect()
    }

    /// What is written that outlives this process, each with the value it has now: it has to be agreed to.
    #[must_use]
    pub fn on_the_host(&self) -> Vec<String> {
        self.places.iter().filter(|place| place.is_durable()).flat_map(Place::in_words).collect()
    }

    /// Gives the settings the values of a combination. What was found is put back first. Gives a line for each place
    /// that says what was read back there and what was found.
    ///
    /// # Errors
    /// The host refused. All values are as found then, unless the error says otherwise.
    pub fn set(&mut self, variation: usize) -> Result<Vec<String>, VaryError> {
        self.put_back()?;
        let chosen = self.combinations.get(variation).into_iter().flatten();
        let values: Vec<String> = self.varied.iter().zip(chosen).map(|(vary, at)| vary.values[*at].clone()).collect();
        let written: Result<Vec<_>, _> = self.places.iter_mut().map(|place| place.write(&values)).collect();
        match written {
            Ok(lines) => Ok(lines.concat()),
            Err(error) => {
                self.put_back()?;
                Err(error)
            }
        }
    }

    /// Puts back what was found. Nothing happens where nothing was written.
    ///
    /// # Errors
    /// A value is not back: which, and why. The journal has it.
    pub fn put_back(&mut self) -> Result<(), VaryError> {
        let results: Vec<_> = self.places.iter_mut().rev().map(Place::put_back).collect();
        results.into_iter().collect()
    }

    /// Every value can be written, and those of a setting differ.
    fn try_values(&mut self) -> Result<(), VaryError> {
        for (at, vary) in self.varied.iter().enumerate() {
            let mut written: Vec<Vec<Change>> = Vec::new();
            for value in &vary.values {
                let places = self.places.iter_mut().map(|place| place.written(at, value));
                let changes = places.collect::<Result<Vec<_>, _>>()?.concat();
                if let Some(earlier) = written.iter().position(|earlier| are_same(earlier, &changes)) {
                    let (one, other) = (vary.values[earlier].clone(), value.clone());
                    return Err(VaryError::Equal { id: vary.setting.id, one, other });
                }
                written.push(changes);
            }
        }
        Ok(())
    }
}

/// Whether two values are the same at all places.
fn are_same(one: &[Change], other: &[Change]) -> bool {
    one.iter().zip(other).all(|(one, other)| one.target.same(&one.wanted, &other.wanted))
}

impl Drop for Variations {
    fn drop(&mut self) {
        // Whoever wants to know calls it before.
        let _ = self.put_back();
    }
}

fn may_be_varied(setting: &'static Setting) -> Result<(), VaryError> {
    let id = setting.id;
    if setting.risk.contains(&Risk::Security) {
        return Err(VaryError::Security { id });
    }
    if OF_CPUS.contains(&id) {
        return Err(VaryError::TakesCpus { id });
    }
    // Whether others can be written at all is answered by where they are.
    if OF_CABLE.contains(&id) || setting.disrupts == Disruption::LinkReset {
        return Err(VaryError::CutsCable { id });
    }
    Ok(())
}

/// Values that are none of the setting are refused here; the kernel would refuse some of them in the middle of a measurement.
fn can_have(vary: &Vary) -> Result<(), VaryError> {
    const WORDS_FOR_NUMBERS: [&str; 3] = ["n/a", "max", "unlimited"];
    let is_number = |word: &str| WORDS_FOR_NUMBERS.contains(&word) || word.parse::<f64>().is_ok_and(f64::is_finite);
    let kind = vary.setting.value;
    let fits = |value: &str| match kind {
        Value::Number(_) => value.split_whitespace().all(is_number),
        Value::Word(words) => words.contains(&value),
        Value::Text | Value::Switch | Value::CpuList => true,
    };
    match vary.values.iter().find(|value| !fits(value)) {
        Some(value) => Err(VaryError::NoValue { id: vary.setting.id, value: value.clone(), wanted: kind.to_string() }),
        None => Ok(()),
    }
}

/// The host first, then each namespace of the cable.
fn places(root: &Root, bed: &Bed) -> Vec<Place> {
    let own: Vec<End> = if bed.is_virtual { Vec::new() } else { bed.ends.clone() };
    let mut places = vec![Place::host(root, own, bed.journal.clone())];
    let mut known = Vec::new();
    for end in &bed.ends {
        let Some(namespace) = &end.namespace else { continue };
        let inode = namespace.inode().unwrap_or_default();
        match known.iter().position(|other| *other == inode) {
            Some(at) => places[at + 1].interfaces.push(end.interface.clone()),
            None => {
                known.push(inode);
                places.push(Place::namespace(root, namespace.clone(), end.interface.clone()));
            }
        }
    }
    places
}

/// Finds where a setting is written.
fn locate(places: &mut [Place], at: usize, vary: &Vary, bed: &Bed) -> Result<(), VaryError> {
    let setting = vary.setting;
    let is_of_interfaces = matches!(setting.read, ReadFrom::Nic(_));
    if is_of_interfaces {
        if bed.ends.is_empty() {
            return Err(VaryError::NoInterface { id: setting.id });
        }
        if let Some((interface, why)) = bed.ends.iter().find_map(|end| bed.in_use.get_key_value(&end.interface)) {
            return Err(VaryError::InUse { id: setting.id, interface: interface.clone(), why: why.clone() });
        }
    }
    let is_of_network = matches!(setting.read, ReadFrom::Sysctl(name) if name.starts_with("net."));
    let (host, namespaces) = places.split_at_mut(1);
    let is_within = is_of_network && namespaces.first_mut().is_some_and(|near| near.has(setting));
    let chosen: &mut [Place] = if (is_of_interfaces && bed.is_virtual) || is_within { namespaces } else { host };
    for place in chosen {
        let located = match place.find(setting) {
            Ok(located) => located,
            Err(NotAtRunTime::Absent { .. }) if is_of_interfaces => return Err(VaryError::NoPlace { id: setting.id }),
            Err(why) => return Err(VaryError::NotWritten { why: Box::new(why) }),
        };
        if located.is_empty() {
            return Err(VaryError::NoPlace { id: setting.id });
        }
        place.located.push((at, located));
    }
    Ok(())
}

/// All ways to choose a value of each setting; the last setting changes first.
fn combinations(varied: &[Vary]) -> Vec<Vec<usize>> {
    varied.iter().fold(vec![Vec::new()], |chosen, vary| {
        let with = |earlier: &Vec<usize>| {
            let earlier = earlier.clone();
            (0..vary.values.len()).map(move |at| earlier.iter().copied().chain([at]).collect())
        };
        chosen.iter().take(VARIATIONS_MAX + 1).flat_map(with).collect()
    })
}

/// The places of a setting in the calling thread's network namespace.
fn located(root: &Root, setting: &'static Setting, interfaces: &[String]) -> Result<Vec<Located>, NotAtRunTime> {
    targets(root, setting, &Scope { interfaces, cpus: None })
}
