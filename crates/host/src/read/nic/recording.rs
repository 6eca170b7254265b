//! What the kernel answered about an interface, written down.
//!
//! `/nearwire/interfaces/IF.json` of a tree has an object a command, and in it the answer or why
//! there is none: `{"coalesce": {"rx-usecs": 3}, "pause": {"unsupported": true}}`.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::question::{Question, from_fields};
use crate::root::Lack;
use crate::{Reading, Root};

/// Where recordings are.
pub(crate) const DIRECTORY: &str = "/nearwire/interfaces";

/// The recorded answers of one interface.
pub(super) struct Recording {
    path: String,
    answers: Map<String, Value>,
}

impl Recording {
    pub(super) fn open(root: &Root, name: &str) -> Result<Self, Reading> {
        let path = format!("{DIRECTORY}/{name}.json");
        let text = match root.read(&path) {
            Ok(text) => text,
            Err(Reading::NeedsRoot) => return Err(Reading::NeedsRoot),
            Err(_) => {
                let why = format!("only the live kernel can be asked, and no answers were recorded in {path}");
                return Err(Reading::unknown(why));
            }
        };
        match serde_json::from_str(&text) {
            Ok(answers) => Ok(Self { path, answers }),
            Err(error) => Err(Reading::unknown(format!("{path}: {error}"))),
        }
    }

    pub(super) fn answer<T: Question>(&self) -> Result<T, Reading> {
        self.parse(T::KEY, T::from_json)
    }

    /// The fields of an answer that is no command of ethtool.
    pub(super) fn fields<T: DeserializeOwned>(&self, key: &str) -> Result<T, Reading> {
        self.parse(key, from_fields)
    }

    fn parse<T>(&self, key: &str, parse: impl FnOnce(&Map<String, Value>) -> Result<T, String>) -> Result<T, Reading> {
        let path = &self.path;
        let answer = match self.answers.get(key) {
            Some(Value::Object(answer)) => answer,
            Some(_) => return Err(Reading::unknown(format!("{path}: {key}: not an object"))),
            None => return Err(Reading::unknown(format!("{path} has no answer to {key}"))),
        };
        let wrong = |what| Reading::unknown(format!("{path}: {key}.{what}"));
        let why_none = ["unsupported", "needs-root", "error"];
        if why_none.iter().any(|word| answer.contains_key(*word)) {
            let lack: Lack = from_fields(answer).map_err(wrong)?;
            if let Some(reading) = lack.reading() {
                return Err(reading);
            }
        }
        parse(answer).map_err(wrong)
    }
}

/// An answer, or why there is none, as it is recorded.
pub(super) fn record(answer: Result<Value, &Reading>) -> Value {
    answer.unwrap_or_else(|reading| serde_json::json!(Lack::of(reading)))
}
