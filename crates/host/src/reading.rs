//! What reading a setting can give.

use rustix::io::Errno;

/// The outcome of reading one setting. None of them is a failure of the reader: a host that lacks
/// something is described by saying so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reading {
    /// The value, as the kernel or the device words it, in one line.
    Value(String),
    /// This host, kernel or device does not have the setting.
    Unsupported,
    /// It exists, and only a privileged user may read it.
    NeedsRoot,
    /// It could not be found out.
    Unknown {
        /// The reason, for a person.
        why: String,
    },
}

impl Reading {
    /// A value from anything that prints.
    pub(crate) fn value(value: impl ToString) -> Self {
        Self::Value(value.to_string())
    }

    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { why: why.into() }
    }

    /// `on` or `off`, as ethtool words it.
    pub(crate) fn switch(is_on: bool) -> Self {
        Self::value(if is_on { "on" } else { "off" })
    }

    /// What an error of the kernel on a path means, except `ENOENT`, which only the root can
    /// judge.
    pub(crate) fn from_errno(path: &str, errno: Errno) -> Self {
        match errno {
            Errno::ACCESS | Errno::PERM => Self::NeedsRoot,
            Errno::OPNOTSUPP | Errno::NODEV | Errno::NOSYS => Self::Unsupported,
            _ => Self::unknown(format!("read {path}: {errno}")),
        }
    }

    /// The value, or why there is none, for a person.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Value(value) if value.is_empty() => "(empty)".to_owned(),
            Self::Value(value) => value.clone(),
            Self::Unsupported => "not on this host".to_owned(),
            Self::NeedsRoot => "needs root".to_owned(),
            Self::Unknown { why } => format!("unknown: {why}"),
        }
    }

    /// The value, if there is one.
    #[must_use]
    pub fn as_value(&self) -> Option<&str> {
        match self {
            Self::Value(value) => Some(value),
            _ => None,
        }
    }
}

impl From<Result<String, Reading>> for Reading {
    fn from(result: Result<String, Reading>) -> Self {
        result.map_or_else(|reading| reading, Self::Value)
    }
}
