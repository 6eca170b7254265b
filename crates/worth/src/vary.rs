//! Settings that an experiment runs under several values of: `--vary ID=V1,V2`.
//!
//! Values are written through a journal, as `nearwire tune apply` writes them: each effect is read back, and what was
//! found is put back before the next value is written, at the end, and by `nearwire tune revert` after `kill -9`.
//!
//! A setting of interfaces is written at both ends of the cable, one of a network namespace (`net.*`, where the cable's
//! namespaces have it) in both of these, and every other one on the host.

mod error;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use nearwire_host::change::{Change, Located, NotAtRunTime, RootHost, Scope, targets};
use nearwire_host::journal::{HostIdentity, Journal};
use nearwire_host::{LatencyRequest, ReadFrom, Setting, Value, Write, catalogue};

pub use error::VaryError;

use crate::cable_host::CableHost;
use crate::never::{why_never, why_no_reset};
use crate::switch::{Command, JournalSwitch, Keep, Placed, put_leftovers_back};

/// More combinations of values than this take longer than anybody waits.
const VARIATIONS_MAX: usize = 64;

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

/// Where values may be written.
#[derive(Clone, Debug)]
pub struct Bed {
    /// The interfaces of the cable that are on this host: two or four, or the near one alone.
    pub interfaces: Vec<String>,
    /// The directory of the host's journal.
    pub journal: PathBuf,
    /// Interfaces that are left alone, and why.
    pub in_use: BTreeMap<String, String>,
}

/// The places of a setting; a request has none ([`Placed::Request`]).
#[derive(Debug)]
struct Varied {
    vary: Vary,
    located: Vec<Located>,
    keep: Keep,
}

/// All combinations of the values of settings, and where these are written. Nothing is written yet.
#[derive(Debug)]
pub struct Planned {
    host: CableHost,
    journal: PathBuf,
    varied: Vec<Varied>,
    /// The value of each setting, by its place in its list; of each combination.
    combinations: Vec<Vec<usize>>,
}

impl Planned {
    /// Looks up where the settings are written, and what they are now. Nothing is written, and no journal is made.
    ///
    /// # Errors
    /// A setting cannot be varied here, or a value cannot be written there.
    pub fn new(mut host: CableHost, varied: Vec<Vary>, bed: &Bed) -> Result<Self, VaryError> {
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
        let varied = varied.into_iter().map(|vary| locate(&mut host, vary, bed)).collect::<Result<_, _>>()?;
        let mut planned = Self { host, journal: bed.journal.clone(), varied, combinations };
        planned.try_values()?;
        Ok(planned)
    }

    /// The settings and values of each combination, as records have them.
    #[must_use]
    pub fn values(&self) -> Vec<BTreeMap<String, String>> {
        let of = |chosen: &Vec<usize>| {
            let named = self.varied.iter().map(|varied| &varied.vary).zip(chosen);
            named.map(|(vary, at)| (vary.setting.id.to_owned(), vary.values[*at].clone())).collect()
        };
        self.combinations.iter().map(of).collect()
    }

    /// What is written that outlives this process: it has to be agreed to.
    #[must_use]
    pub fn on_the_host(&self) -> Vec<String> {
        let durable = self.varied.iter().filter(|varied| varied.keep == Keep::OnDisk);
        durable.flat_map(|varied| &varied.located).map(|located| located.id.clone()).collect()
    }

    /// Takes the journal of this host, if anything that outlives this process is varied, and puts back what a measurement
    /// that was killed had left in it.
    ///
    /// # Errors
    /// The journal cannot be used, what was left in it cannot be put back, or a value cannot be written any more.
    pub fn begin(mut self) -> Result<Variations, VaryError> {
        let identity = HostIdentity::of(self.host.host().root());
        let mut journal = match self.on_the_host().is_empty() {
            true => Journal::in_memory(identity),
            false => Journal::open(&self.journal, identity)?,
        };
        put_leftovers_back(&mut self.host, &mut journal)?;
        let (mut settings, mut firsts) = (Vec::new(), Vec::new());
        for varied in &self.varied {
            firsts.push(settings.len());
            for value in &varied.vary.values {
                settings.push(placed(&mut self.host, varied, value)?);
            }
        }
        let chosen = |values: &Vec<usize>| values.iter().zip(&firsts).map(|(value, first)| first + value).collect();
        let combinations = self.combinations.iter().map(chosen).collect();
        let switch = JournalSwitch::new(Command::BenchVary, self.host, journal, settings, &|| false, &|_| {});
        Ok(Variations { switch, combinations })
    }

    /// Every value can be written, and those of a setting differ.
    fn try_values(&mut self) -> Result<(), VaryError> {
        for varied in &self.varied {
            let mut placed_before: Vec<Placed> = Vec::new();
            let Vary { setting, values } = &varied.vary;
            for value in values {
                let placed = placed(&mut self.host, varied, value)?;
                if let Some(earlier) = placed_before.iter().position(|earlier| are_same(earlier, &placed)) {
                    let (one, other) = (values[earlier].clone(), value.clone());
                    return Err(VaryError::Equal { id: setting.id, one, other });
                }
                placed_before.push(placed);
            }
        }
        Ok(())
    }
}

/// How a setting gets a value.
fn placed(host: &mut CableHost, varied: &Varied, value: &str) -> Result<Placed, VaryError> {
    let Varied { vary: Vary { setting, .. }, located, keep } = varied;
    if setting.write == Write::PmQos {
        let none = || VaryError::NoValue { id: setting.id, value: value.to_owned(), wanted: setting.value.to_string() };
        let latency_us = value.parse().map_err(|_| none())?;
        // For a moment: whether this process may, and whether the kernel follows.
        LatencyRequest::hold(latency_us)?;
        return Ok(Placed::Request(latency_us));
    }
    let change = |located: &Located| {
        let failed = |error| VaryError::Value { id: located.id.clone(), value: value.to_owned(), why: Box::new(error) };
        Change::plan(located, located.wanted(value), host).map_err(failed)
    };
    Ok(Placed::Written { changes: located.iter().map(change).collect::<Result<_, _>>()?, keep: *keep })
}

/// Whether two values are the same at all places.
fn are_same(one: &Placed, other: &Placed) -> bool {
    match (one, other) {
        (Placed::Request(one_us), Placed::Request(other_us)) => one_us == other_us,
        _ => {
            let mut pairs = one.changes().iter().zip(other.changes());
            pairs.all(|(one, other)| one.target.same(&one.wanted, &other.wanted))
        }
    }
}

/// What gives settings the values of their combinations. They have what was found when it is dropped.
pub struct Variations {
    switch: JournalSwitch<'static>,
    /// The values of each combination, by their places among all values of all settings.
    combinations: Vec<Vec<usize>>,
}

impl Variations {
    /// Gives the settings the values of a combination. What was found is put back first. Gives a line for each place
    /// that says what was read back there and what was found.
    ///
    /// # Errors
    /// The host refused, or somebody else changed a value. All values are as found then, unless the error says otherwise.
    pub fn set(&mut self, variation: usize) -> Result<Vec<String>, VaryError> {
        let chosen = self.combinations.get(variation).map_or(&[][..], Vec::as_slice);
        let told = self.switch.give(chosen)?.to_vec();
        self.nobody_changed_any()?;
        Ok(told)
    }

    /// Puts back what was found. Nothing happens where nothing was written.
    ///
    /// # Errors
    /// A value is not back: which, and why. The journal has it.
    pub fn put_back(&mut self) -> Result<(), VaryError> {
        self.switch.give(&[])?;
        self.nobody_changed_any()
    }

    fn nobody_changed_any(&mut self) -> Result<(), VaryError> {
        match &self.switch.take_kept()[..] {
            [] => Ok(()),
            kept => Err(VaryError::Changed { values: kept.join("; ") }),
        }
    }
}

fn may_be_varied(setting: &'static Setting) -> Result<(), VaryError> {
    // Whether others can be written at all is answered by where they are.
    match why_never(setting).or_else(|| why_no_reset(setting)) {
        Some(why) => Err(VaryError::Never { id: setting.id, why }),
        None => Ok(()),
    }
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

/// Finds where a setting is written.
fn locate(host: &mut CableHost, vary: Vary, bed: &Bed) -> Result<Varied, VaryError> {
    let setting = vary.setting;
    if setting.write == Write::PmQos {
        return Ok(Varied { vary, located: Vec::new(), keep: Keep::InMemory });
    }
    let is_of_interfaces = matches!(setting.read, ReadFrom::Nic(_));
    if is_of_interfaces {
        if bed.interfaces.is_empty() {
            return Err(VaryError::NoInterface { id: setting.id });
        }
        if let Some((interface, why)) = bed.interfaces.iter().find_map(|name| bed.in_use.get_key_value(name)) {
            return Err(VaryError::InUse { id: setting.id, interface: interface.clone(), why: why.clone() });
        }
    }
    let find = |host: &mut RootHost, interface: Option<&str>| {
        let interfaces = interface.map_or_else(|| bed.interfaces.clone(), |interface| vec![interface.to_owned()]);
        targets(host.root(), setting, &Scope { interfaces: &interfaces, cpus: None })
    };
    let (found, keep) = host.at_places_of(setting, find)?;
    let mut located = Vec::new();
    for found in found {
        match found {
            Ok(here) if here.is_empty() => return Err(VaryError::NoPlace { id: setting.id }),
            Ok(here) => located.extend(here),
            Err(NotAtRunTime::Absent { .. }) if is_of_interfaces => return Err(VaryError::NoPlace { id: setting.id }),
            Err(why) => return Err(VaryError::NotWritten { why: Box::new(why) }),
        }
    }
    Ok(Varied { vary, located, keep })
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
