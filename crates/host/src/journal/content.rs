//! What the records of a journal come to.

use std::path::Path;

use super::record::FORMAT;
use super::{HostIdentity, JournalError, Record, line};
use crate::change::Change;

/// What a journal says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The plans, oldest first.
    pub blocks: Vec<Block>,
    /// Whether the last line was torn by a crash.
    pub is_torn: bool,
    /// Lines that cannot be trusted, and are left out.
    pub damaged: Vec<Damage>,
    /// What a revert that began was going to make of each target, by its key.
    pub reverting: Option<Vec<(String, String)>>,
}

/// A line that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// One plan and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// When it was written, seconds since 1970.
    pub unix_s: u64,
    /// The profile it came from.
    pub profile: Option<String>,
    /// The host and boot it was written on.
    pub host: HostIdentity,
    /// Its changes in the order of writing.
    pub entries: Vec<Entry>,
    /// How far it came.
    pub state: BlockState,
    /// Until when it has to be confirmed, seconds since 1970, and is not yet.
    pub confirm_by_unix_s: Option<u64>,
}

/// How far a plan came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// It was never finished: a crash, or it is being written now.
    Begun,
    /// All of it was written and verified.
    Complete,
    /// All of it was put back.
    RolledBack,
}

/// One change and how far it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The change.
    pub change: Change,
    /// How far it came.
    pub progress: Progress,
}

/// How far a change came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing was written.
    Planned,
    /// It was about to be written; nobody knows whether it was.
    Intended,
    /// It was written, and this was read back.
    Done(String),
}

impl Block {
    /// Whether its values may be in effect.
    #[must_use]
    pub fn is_in_effect(&self) -> bool {
        self.state != BlockState::RolledBack
    }
}

impl Content {
    /// The plans whose values may be in effect, oldest first.
    pub fn in_effect(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| block.is_in_effect())
    }

    /// Whether a plan was neither finished nor put back, as far as the journal can be read.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        !self.damaged.is_empty() || self.blocks.iter().any(|block| block.state == BlockState::Begun)
    }

    /// Adds a record. One that speaks of a change that is not there is left out: the check sums
    /// say that nobody but us wrote it.
    pub(super) fn take(&mut self, record: Record) {
        match record {
            Record::Header { .. } => {}
            Record::Plan { unix_s, profile, host, changes } => {
                let entries = changes.into_iter().map(|change| Entry { change, progress: Progress::Planned }).collect();
                let state = BlockState::Begun;
                self.blocks.push(Block { unix_s, profile, host, entries, state, confirm_by_unix_s: None });
                // A plan made after a revert that was broken off stands on its own.
                self.reverting = None;
            }
            Record::Reverting { goals } => self.reverting = Some(goals),
            record => {
                let Some(block) = self.blocks.last_mut() else { return };
                match record {
                    Record::Intent { change } => {
                        if let Some(entry) = block.entries.get_mut(change) {
                            entry.progress = Progress::Intended;
                        }
                    }
                    Record::Done { change, effect } => {
                        if let Some(entry) = block.entries.get_mut(change) {
                            entry.progress = Progress::Done(effect);
                        }
                    }
                    Record::Complete => block.state = BlockState::Complete,
                    Record::ConfirmBy { unix_s } => block.confirm_by_unix_s = Some(unix_s),
                    Record::Confirmed => block.confirm_by_unix_s = None,
                    Record::TakingBack => block.state = BlockState::Begun,
                    Record::RolledBack => block.state = BlockState::RolledBack,
                    Record::Header { .. } | Record::Plan { .. } | Record::Reverting { .. } => {}
                }
            }
        }
    }

    pub(super) fn check(&self, path: &Path, identity: &HostIdentity) -> Result<(), JournalError> {
        for block in self.in_effect() {
            if block.host.is_other_machine(identity) {
                return Err(JournalError::OtherHost { path: path.to_owned() });
            }
            let is_of_network = block.entries.iter().any(|entry| entry.change.target.is_of_network());
            if is_of_network && block.host.is_other_network(identity) {
                return Err(JournalError::OtherNetwork { path: path.to_owned() });
            }
        }
        Ok(())
    }
}

/// The content of a journal's bytes, and how many of them are whole lines. What is damaged is left out and named.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<(Content, u64), JournalError> {
    let mut salvage = Salvage::default();
    let mut whole_bytes = 0;
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n').zip(1..).peekable();
    while let Some((bytes, number)) = lines.next() {
        let corrupt = |why: String| JournalError::Corrupt { path: path.to_owned(), line: number, why };
        let text = match bytes.strip_suffix(b"\n").map(std::str::from_utf8) {
            Some(Ok(line)) => line::text(line),
            Some(Err(_)) => Err("it is not text".to_owned()),
            None => Err("it does not end".to_owned()),
        };
        whole_bytes += bytes.len() as u64;
        match text {
            Ok(text) => {
                if number == 1 {
                    check_format(path, text)?;
                }
                // The sum is right and the format known, so this is what was written.
                salvage.take(serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))?);
            }
            // A file that somebody else left under this name is not cut.
            Err(why) if number == 1 && !line::may_be_torn(bytes) => return Err(corrupt(why)),
            Err(_) if lines.peek().is_none() => {
                salvage.content.is_torn = true;
                whole_bytes -= bytes.len() as u64;
            }
            Err(why) => salvage.damage(number, why),
        }
    }
    Ok((salvage.end(), whole_bytes))
}

/// Reads around damaged lines. Numbers of changes count within a plan, so what follows a plan that was lost must not
/// be taken for news of the plan before it.
#[derive(Default)]
struct Salvage {
    content: Content,
    /// Records behind a damaged line that may belong to a lost plan or to the last one.
    doubtful: Option<Vec<Record>>,
    is_plan_lost: bool,
    /// Plans in the middle of which a line is damaged: any of their changes may have been announced by it.
    touched: Vec<usize>,
}

impl Salvage {
    fn damage(&mut self, line: usize, why: String) {
        self.content.damaged.push(Damage { line, why });
        match self.content.blocks.last() {
            // No plan follows one that is unfinished, so the line was about that one.
            Some(block) if block.state == BlockState::Begun && !self.is_plan_lost => {
                self.touched.push(self.content.blocks.len() - 1);
            }
            _ if self.doubtful.is_none() => self.doubtful = Some(Vec::new()),
            _ => {}
        }
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Plan { .. } | Record::Reverting { .. } => {
                self.settle();
                self.is_plan_lost = false;
                self.content.take(record);
            }
            // These come once in a plan that is not finished, and the last one is.
            Record::Intent { .. } | Record::Done { .. } | Record::Complete | Record::RolledBack
                if self.doubtful.take().is_some() =>
            {
                self.is_plan_lost = true;
            }
            _ if self.is_plan_lost => {}
            record => match &mut self.doubtful {
                Some(doubtful) => doubtful.push(record),
                None => self.content.take(record),
            },
        }
    }

    fn settle(&mut self) {
        for record in self.doubtful.take().unwrap_or_default() {
            self.content.take(record);
        }
    }

    fn end(mut self) -> Content {
        self.settle();
        for at in self.touched {
            let entries = self.content.blocks.get_mut(at).map(|block| &mut block.entries);
            for entry in entries.into_iter().flatten().filter(|entry| !entry.change.is_as_wanted()) {
                if entry.progress == Progress::Planned {
                    entry.progress = Progress::Intended;
                }
            }
        }
        self.content
    }
}

/// Only the format can be trusted in the first line of a journal of another version.
fn check_format(path: &Path, text: &str) -> Result<(), JournalError> {
    let header: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    match header.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format <= u64::from(FORMAT) => Ok(()),
        Some(format) => {
            Err(JournalError::Newer { path: path.to_owned(), found: u32::try_from(format).unwrap_or(u32::MAX) })
        }
        None => Err(JournalError::Corrupt { path: path.to_owned(), line: 1, why: "it is no header".to_owned() }),
    }
}
