//! The forms of settings of interfaces: `.link` option, ethtool call, file.

use super::form::Form;
use super::words::{self, WordError};
use crate::setting::{EthtoolCall, LinkFact, NicFact, ReadFrom, Value, WordValues};
use crate::{Goal, Setting};

/// The forms of a goal.
pub(super) fn forms(goal: &Goal) -> Result<Vec<Form>, String> {
    let setting = goal.setting;
    match setting.nic.no_file {
        // One of them has an option on the command line; see there.
        Some(_) if words::command_line_forms(setting).next().is_some() => Ok(Vec::new()),
        Some(why) => Err(why.to_owned()),
        None => made(setting, &goal.value).map_err(|error| error.to_string()),
    }
}

/// The `.link` file first, where there is such an option: it is read before the link comes up.
fn made(setting: &Setting, value: &str) -> Result<Vec<Form>, WordError> {
    let link = link_options(setting, value)?;
    let link = (!link.is_empty()).then_some(Form::Link(link));
    let (other, tuned) = match &setting.nic.ethtool {
        Some(call) => {
            let values = call_values(setting, call, value)?;
            let pair = |(word, value): (&&str, &String)| [(*word).to_owned(), value.clone()];
            let words: Vec<_> = call.words.iter().zip(&values).flat_map(pair).collect();
            // `wake_on_lan` takes the letters alone.
            let tuned = if matches!(call.values, WordValues::Off(_)) { values } else { words.clone() };
            (Some(Form::Ethtool(call.flag, words)), tuned)
        }
        None => (by_read(setting, value)?, vec![value.to_owned()]),
    };
    let tuned = setting.nic.tuned.map(|option| Form::TunedNet(option, tuned));
    Ok(link.into_iter().chain(tuned).chain(other).collect())
}

/// What stands behind each word of the call.
fn call_values(setting: &Setting, call: &EthtoolCall, value: &str) -> Result<Vec<String>, WordError> {
    let same = |value: String| vec![value; call.words.len()];
    Ok(match call.values {
        WordValues::Same => same(match setting.value {
            Value::Switch => on_off(words::switch(value)?),
            Value::Number(_) => whole(value)?,
            // It says that there is nothing to choose.
            Value::Word(known) if words::is_nothing(value) => {
                let known = known.iter().copied().filter(|word| !words::is_nothing(word)).collect();
                return Err(WordError::Word { value: value.to_owned(), known });
            }
            _ => words::written(setting, value)?,
        }),
        WordValues::Between(pieces) => numbers(value, pieces)?,
        WordValues::IfNamed => {
            let written = words::written(setting, value)?;
            call.words.iter().map(|word| on_off(written.split(' ').any(|found| found == *word))).collect()
        }
        WordValues::If(word) => same(on_off(words::written(setting, value)? == word)),
        WordValues::Off(off) => match words::switch(value) {
            Ok(false) => same(off.to_owned()),
            // More than on is not said, such as which frames wake the host.
            _ => return Err(WordError::Word { value: value.to_owned(), known: vec!["off"] }),
        },
    })
}

/// The options of a `.link` file that say a value; none where there are none for the setting.
///
/// # Errors
/// The value is none that the options can have.
pub(crate) fn link_options(setting: &Setting, value: &str) -> Result<Vec<(&'static str, String)>, WordError> {
    let options = setting.nic.link;
    if options.is_empty() {
        return Ok(Vec::new());
    }
    let same = |value: String| vec![value; options.len()];
    let values = match (setting.nic.ethtool, setting.value) {
        (Some(call), _) if matches!(call.values, WordValues::Off(_)) => {
            call_values(setting, &call, value)?;
            same("off".to_owned())
        }
        (Some(call), _) if call.values != WordValues::Same => {
            call_values(setting, &call, value)?.iter().map(|value| yes_no(value)).collect()
        }
        (_, Value::Switch) => same(yes_no(&on_off(words::switch(value)?))),
        _ => same(whole(value)?),
    };
    let option = |(option, value): (&&'static str, String)| match option.split_once('=') {
        Some((name, form)) => (name, form.replace('#', &value)),
        None => (*option, value),
    };
    Ok(options.iter().zip(values).map(option).collect())
}

/// What is written to the place that is read.
fn by_read(setting: &Setting, value: &str) -> Result<Option<Form>, WordError> {
    let ReadFrom::Nic(fact) = setting.read else { return Ok(None) };
    let file = |file| words::written(setting, value).map(|written| Some(Form::NicFile(file, written)));
    match fact {
        NicFact::Link(LinkFact::Mtu) => file("mtu"),
        NicFact::Link(LinkFact::TxQueueLength) => file("tx_queue_len"),
        NicFact::Link(LinkFact::Qdisc) => words::word(value).map(|word| Some(Form::Qdisc(word))),
        NicFact::File(path) => file(path),
        NicFact::Device("sriov_numvfs") => file("device/sriov_numvfs"),
        NicFact::Device("power/control") => file("device/power/control"),
        NicFact::IrqAffinity => Ok(Some(Form::Interrupts(words::cpus(&words::list(value)?)?))),
        // A queue number a bit, as with CPUs.
        NicFact::QueueMask(direction, file) => {
            Ok(Some(Form::NicQueues(direction, file, words::mask(&words::cpus(value)?))))
        }
        NicFact::QueueFile(direction, file) => {
            Ok(Some(Form::NicQueues(direction, file, words::written(setting, value)?)))
        }
        _ => Ok(None),
    }
}

/// A number that is not below zero.
fn whole(value: &str) -> Result<String, WordError> {
    let number = words::number(value)?;
    if number.starts_with('-') { Err(WordError::Number { value: number }) } else { Ok(number) }
}

/// The numbers between fixed pieces of text.
fn numbers(value: &str, pieces: &[&str]) -> Result<Vec<String>, WordError> {
    let bad = || WordError::Number { value: value.to_owned() };
    let mut rest = value.strip_prefix(pieces[0]).ok_or_else(bad)?;
    let mut found = Vec::new();
    for piece in &pieces[1..] {
        let (number, after) = rest.split_once(piece).ok_or_else(bad)?;
        found.push(words::number(number)?);
        rest = after;
    }
    if rest.is_empty() { Ok(found) } else { Err(bad()) }
}

fn on_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// A word of ethtool as a `.link` file has it.
fn yes_no(word: &str) -> String {
    match word {
        "on" => "yes",
        "off" => "no",
        word => word,
    }
    .to_owned()
}
