//! Which files somebody looked at, and what was found: what a snapshot has to hold.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Reading;

/// Everything that was seen at each path, by the path as it was asked for.
pub(crate) type Looks = BTreeMap<String, Seen>;

/// What was seen at one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The bytes of the file, and how many were asked for.
    pub file: Option<(Vec<u8>, u64)>,
    /// Why the file could not be read.
    pub unread: Option<Reading>,
    /// The names in the directory.
    pub names: Option<Vec<String>>,
    /// Why the directory could not be listed.
    pub unlisted: Option<Reading>,
    /// What the link points at.
    pub target: Option<String>,
    /// There is something.
    pub is_there: bool,
    /// There is nothing.
    pub is_absent: bool,
    /// Bytes of the device by their offset, or why there are none.
    pub device: BTreeMap<u64, Result<Vec<u8>, Reading>>,
}

/// Keeps what is looked at.
#[derive(Debug, Default)]
pub(super) struct Trace(Mutex<Looks>);

impl Trace {
    pub(super) fn note(&self, path: &str, add: impl FnOnce(&mut Seen)) {
        add(self.lock().entry(path.to_owned()).or_default());
    }

    pub(super) fn take(&self) -> Looks {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Looks> {
        // A panic elsewhere leaves the map whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
