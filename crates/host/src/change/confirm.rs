//! A change that goes back by itself: whoever cuts his own connection off cannot confirm.
//!
//! The process that applied stays as the guardian. It keeps the journal locked, waits until somebody
//! confirms or the time is over, and puts everything back if nobody did; also when it is told to end
//! (SIGTERM) or its terminal is gone (SIGHUP). `kill -9` leaves a journal that revert understands.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use super::Host;
use super::revert::{RevertError, Reverted, revert};
use crate::journal::{HostIdentity, Journal, JournalError, Record};

/// Named in the journal's directory by whoever confirms.
const FILE: &str = "confirmed";
/// How often the file is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a guardian hears. Time comes from here too.
pub trait Watch {
    /// Time on a clock that only goes forward.
    fn now(&self) -> Duration;

    /// Waits for a word, this long at most.
    fn wait(&mut self, at_most: Duration) -> Word;
}

/// What a guardian can hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Nothing yet.
    Nothing,
    /// The change is to stay.
    Confirmed,
    /// The guardian is to end: a signal, or its terminal is gone.
    Ended,
}

/// How the wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Confirmed: the values stay.
    Kept,
    /// Nobody confirmed in time.
    TimedOut(Reverted),
    /// The guardian was ended before.
    Ended(Reverted),
}

/// Waits for a confirmation of what was just applied, and puts it back without one.
///
/// `unix_s` is the time now, for the journal.
///
/// # Errors
/// The values could not be put back, or the journal not be written.
pub fn keep_or_revert(
    host: &mut dyn Host,
    journal: &mut Journal,
    watch: &mut dyn Watch,
    within: Duration,
    unix_s: u64,
) -> Result<Verdict, RevertError> {
    // Without the record a guardian that is killed leaves a change that looks confirmed.
    if let Err(error) = journal.append(Record::ConfirmBy { unix_s: unix_s.saturating_add(within.as_secs()) }) {
        revert(host, journal, unix_s, false)?;
        return Err(error.into());
    }
    let start = watch.now();
    loop {
        let left = within.saturating_sub(watch.now().saturating_sub(start));
        if left.is_zero() {
            return Ok(Verdict::TimedOut(revert(host, journal, unix_s, false)?));
        }
        match watch.wait(left) {
            Word::Nothing => {}
            Word::Confirmed => {
                journal.append(Record::Confirmed)?;
                return Ok(Verdict::Kept);
            }
            Word::Ended => return Ok(Verdict::Ended(revert(host, journal, unix_s, false)?)),
        }
    }
}

/// Why a change could not be confirmed.
#[derive(Debug, Error)]
pub enum ConfirmError {
    /// No guardian waits.
    #[error("no change waits for a confirmation in {directory}")]
    NothingWaits {
        /// The journal's directory.
        directory: PathBuf,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The word cannot be left.
    #[error("write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Tells the guardian of a journal's directory that the change is to stay.
///
/// # Errors
/// See [`ConfirmError`].
pub fn confirm(directory: &Path, identity: &HostIdentity) -> Result<(), ConfirmError> {
    let nothing = || ConfirmError::NothingWaits { directory: directory.to_owned() };
    let content = Journal::look(directory, identity)?.ok_or_else(nothing)?;
    let waits = content.in_effect().last().is_some_and(|block| block.confirm_by_unix_s.is_some());
    // Of a guardian that was killed only the journal is left.
    if !waits || !Journal::is_held(directory) {
        return Err(nothing());
    }
    let path = directory.join(FILE);
    fs::write(&path, "").map_err(|source| ConfirmError::Write { path, source })
}

/// Hears a confirmation by the file that [`confirm`] leaves, and the end by a function, such as
/// `nearwire_sys::usage::interrupted`.
#[derive(Debug)]
pub struct FileWatch {
    path: PathBuf,
    is_ended: fn() -> bool,
    start: std::time::Instant,
}

impl FileWatch {
    /// Watches the directory of a journal that this process holds. A word left for an earlier
    /// guardian is taken away.
    #[must_use]
    pub fn new(journal: &Journal, is_ended: fn() -> bool) -> Self {
        let path = journal.directory().join(FILE);
        let _ = fs::remove_file(&path);
        Self { path, is_ended, start: std::time::Instant::now() }
    }
}

impl Watch for FileWatch {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wait(&mut self, at_most: Duration) -> Word {
        if (self.is_ended)() {
            return Word::Ended;
        }
        if fs::remove_file(&self.path).is_ok() {
            return Word::Confirmed;
        }
        std::thread::sleep(at_most.min(LOOK_EVERY));
        Word::Nothing
    }
}
