//! A change that goes back by itself: whoever cuts his own connection off cannot confirm.
//!
//! The process that applied stays as the guardian. It keeps the journal locked, waits until somebody
//! confirms or the time is over, and puts its own plan back if nobody did, also when it is told to end;
//! plans of before stay. `kill -9` leaves a journal that revert understands.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::Host;
use super::newest::take_newest_back;
use super::revert::Reverted;
use crate::journal::{BlockState, Content, HostIdentity, Journal, JournalError, Record, sync_parent};

/// Named in the journal's directory by whoever confirms.
const FILE: &str = "confirmed";
/// A guardian that hears answers in a moment; writing to a slow disk takes longer.
const ANSWER_MAX: Duration = Duration::from_secs(15);
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
) -> Result<Verdict, JournalError> {
    // Without the record a guardian that is killed leaves a change that looks confirmed.
    if let Err(error) = journal.append(Record::ConfirmBy { unix_s: unix_s.saturating_add(within.as_secs()) }) {
        take_newest_back(host, journal, unix_s)?;
        return Err(error);
    }
    let start = watch.now();
    loop {
        let left = within.saturating_sub(watch.now().saturating_sub(start));
        if left.is_zero() {
            return Ok(Verdict::TimedOut(take_newest_back(host, journal, unix_s)?));
        }
        match watch.wait(left) {
            Word::Nothing => {}
            // Whoever confirmed waits for the record, and is told that there is none.
            Word::Confirmed => match journal.append(Record::Confirmed) {
                Ok(()) => return Ok(Verdict::Kept),
                Err(error) => {
                    take_newest_back(host, journal, unix_s)?;
                    return Err(error);
                }
            },
            Word::Ended => return Ok(Verdict::Ended(take_newest_back(host, journal, unix_s)?)),
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
    /// The time was over first, or the guardian was told to end.
    #[error("the confirmation came too late: the values are put back")]
    TooLate,
    /// The guardian is there and does not hear.
    #[error(
        "the process that holds {directory} did not answer within {waited_s} s; nearwire tune status tells what is in effect"
    )]
    NoAnswer {
        /// The journal's directory.
        directory: PathBuf,
        /// How long was waited, seconds.
        waited_s: u64,
    },
    /// The word cannot be left.
    #[error("write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Tells the guardian of a journal's directory that the change is to stay, and waits until the journal says so.
///
/// # Errors
/// See [`ConfirmError`].
pub fn confirm(directory: &Path, identity: &HostIdentity) -> Result<(), ConfirmError> {
    let nothing = || ConfirmError::NothingWaits { directory: directory.to_owned() };
    let content = Journal::look(directory, identity)?.unwrap_or_default();
    let number = content.blocks.len();
    // Of a guardian that was killed only the journal is left.
    if stand(&content, number) != Stand::Waits || !Journal::is_held(directory) {
        return Err(nothing());
    }
    let path = directory.join(FILE);
    fs::write(&path, "").map_err(|source| ConfirmError::Write { path: path.clone(), source })?;
    let start = Instant::now();
    let error = loop {
        let is_held = Journal::is_held(directory);
        match stand(&Journal::look(directory, identity)?.unwrap_or_default(), number) {
            Stand::Confirmed => return Ok(()),
            Stand::GoesBack => break ConfirmError::TooLate,
            Stand::Waits if !is_held => break nothing(),
            Stand::Waits if start.elapsed() > ANSWER_MAX => {
                let waited_s = ANSWER_MAX.as_secs();
                break ConfirmError::NoAnswer { directory: directory.to_owned(), waited_s };
            }
            Stand::Waits => std::thread::sleep(LOOK_EVERY / 4),
        }
    };
    // It must not reach the guardian of another change.
    let _ = fs::remove_file(&path);
    Err(error)
}

/// How it stands with the confirmation of the plan of this number, counted from 1.
fn stand(content: &Content, number: usize) -> Stand {
    let block = number.checked_sub(1).and_then(|at| content.blocks.get(at));
    match block {
        Some(block) if block.state == BlockState::Complete && content.reverting.is_none() => {
            if block.confirm_by_unix_s.is_some() { Stand::Waits } else { Stand::Confirmed }
        }
        _ => Stand::GoesBack,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Waits,
    Confirmed,
    GoesBack,
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
            // Were it there again after a crash, the next guardian would take it away.
            let _ = sync_parent(&self.path);
            return Word::Confirmed;
        }
        std::thread::sleep(at_most.min(LOOK_EVERY));
        Word::Nothing
    }
}
