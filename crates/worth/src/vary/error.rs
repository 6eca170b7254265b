//! Why settings cannot be varied.

use nearwire_host::LatencyRequestError;
use nearwire_host::change::{HostError, NotAtRunTime};
use nearwire_host::journal::JournalError;

use crate::cable_host::CableHostError;
use crate::run::SwitchError;

/// Why settings cannot be varied, or were not.
#[derive(Debug, thiserror::Error)]
pub enum VaryError {
    /// It is not an id, a sign and values.
    #[error("'{text}' is not a setting with two values or more, as in nic.offload.gro=on,off")]
    Form {
        /// What was given.
        text: String,
    },
    /// The catalogue does not have it.
    #[error("no setting '{id}'{}; nearwire settings lists all", similar(near))]
    Unknown {
        /// What was given.
        id: String,
        /// Settings with similar names.
        near: Vec<&'static str>,
    },
    /// A part of a setting was named.
    #[error("{id} is a part of the setting {whole}: name {whole}, which is varied at both ends of the cable")]
    Instance {
        /// What was given.
        id: String,
        /// The whole setting.
        whole: String,
    },
    /// It was named twice.
    #[error("{id} is varied twice: name all its values once, as in {id}=V1,V2,V3")]
    Twice {
        /// The setting.
        id: &'static str,
    },
    /// Too much to measure.
    #[error(
        "these settings have {combinations} or more combinations of values; vary fewer of them, {most} combinations at most"
    )]
    TooMany {
        /// How many.
        combinations: usize,
        /// How many are allowed.
        most: usize,
    },
    /// It is one that no measurement switches ([`crate::never`]).
    #[error(
        "{id} is not varied: {why}; to compare two values of it, run bench under each and give both records to nearwire compare"
    )]
    Never {
        /// The setting.
        id: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// It is one of interfaces, and there is none.
    #[error("{id} is a setting of interfaces, and this cable has none on this host that is known")]
    NoInterface {
        /// The setting.
        id: &'static str,
    },
    /// No place of it was found.
    #[error(
        "{id} cannot be written at the ends of this cable: neither their driver nor the kernel has it for them, or it is \
         a file of sysfs, which shows the cable's namespaces to root only"
    )]
    NoPlace {
        /// The setting.
        id: &'static str,
    },
    /// The interface is needed for something else.
    #[error("{id} of {interface} is left alone: {why}")]
    InUse {
        /// The setting.
        id: &'static str,
        /// The interface.
        interface: String,
        /// What it is used for.
        why: String,
    },
    /// It has no place that can be written while the host runs.
    #[error("vary: {why}")]
    NotWritten {
        /// Why.
        why: Box<NotAtRunTime>,
    },
    /// A value of another kind.
    #[error("'{value}' is no value of {id}, which is {wanted}")]
    NoValue {
        /// The setting.
        id: &'static str,
        /// The value.
        value: String,
        /// What its values are.
        wanted: String,
    },
    /// A value that the setting cannot have, or a place that cannot be read.
    #[error("give {id} the value '{value}': {why}")]
    Value {
        /// The setting with its instance.
        id: String,
        /// The value.
        value: String,
        /// What the host said.
        why: Box<HostError>,
    },
    /// A wake-up limit that cannot be held.
    #[error("vary cpu.dma-latency-us: {0}")]
    Request(#[from] LatencyRequestError),
    /// Two values are written alike.
    #[error("'{one}' and '{other}' are the same value of {id}, so there is nothing to compare")]
    Equal {
        /// The setting.
        id: &'static str,
        /// One value.
        one: String,
        /// The other.
        other: String,
    },
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The ends of the cable could not be reached.
    #[error(transparent)]
    Cable(#[from] CableHostError),
    /// The host did not take the values, or what was found is not back.
    #[error("vary: {0}")]
    Switch(#[from] SwitchError),
    /// What was measured may be of other values.
    #[error("somebody else changed what is varied meanwhile, and it stays so: {values}")]
    Changed {
        /// The settings and their values now.
        values: String,
    },
}

fn similar(near: &[&str]) -> String {
    if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) }
}
