//! What was changed, on disk before it is changed, so that it can be put back whatever happens.
//!
//! A directory holds:
//!
//! * `lock`: locked (flock) by the process that changes the host, with its process id;
//! * `journal`: the values that are in effect now, if any;
//! * `history/`: journals whose values were all put back.
//!
//! A journal is a file of lines that only grows. The first plan is there as a whole before the file
//! has its name, and each announcement is on the disk before what it announces happens. A last
//! line that was torn by a crash is left out: nothing it announced has happened. A line before it that
//! is damaged is left out too, and named: what the other lines say of values found before still counts.

mod content;
mod identity;
mod line;
mod lock;
mod record;

#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use thiserror::Error;

pub use content::{Block, BlockState, Content, Damage, Entry, Progress};
pub use identity::HostIdentity;
pub(crate) use record::Record;

use crate::change::Change;
use lock::Lock;
use record::FORMAT;

/// Where the journal is unless somebody says otherwise.
pub const DEFAULT_DIRECTORY: &str = "/var/lib/nearwire/journal";

/// Now, as plans and what was put back are dated: seconds since 1970.
#[must_use]
pub fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

const FILE: &str = "journal";
const NEW: &str = "journal.new";
const HISTORY: &str = "history";

/// Why there is no journal to work with. The host is untouched.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Somebody else is changing the host.
    #[error("{directory} is in use by another nearwire{}; wait for it, or end it", pid.map_or(String::new(), |pid| format!(" (pid {pid})")))]
    Busy {
        /// The journal's directory.
        directory: PathBuf,
        /// Its process id, if it could be read.
        pid: Option<u32>,
    },
    /// A file or directory of the journal cannot be used.
    #[error("{action} {path}: {source}")]
    Disk {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A later Nearwire wrote it.
    #[error(
        "{path} has format {found}, and this nearwire knows up to {FORMAT}; revert with the newer nearwire that wrote it"
    )]
    Newer {
        /// The journal.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// It was written on another machine.
    #[error("{path} was written on another host, or for a copy of one; give each a journal of its own")]
    OtherHost {
        /// The journal.
        path: PathBuf,
    },
    /// It was written in another network namespace of this host since it was booted.
    #[error("{path} was written in another network namespace; run nearwire there")]
    OtherNetwork {
        /// The journal.
        path: PathBuf,
    },
    /// It is no journal, or has a record that this Nearwire does not know.
    #[error("{path} is damaged at line {line}: {why}; nothing is done with it")]
    Corrupt {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The damage.
        why: String,
    },
}

/// The journal of a host, locked.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    identity: HostIdentity,
    content: Content,
    file: Option<File>,
    /// Up to here the file is whole.
    length_bytes: u64,
    /// Whether a journal that is ended goes to the history.
    keeps_history: bool,
    /// None of a journal in memory.
    lock: Option<Lock>,
}

impl Journal {
    /// Takes the journal of a directory, which is made if it is not there.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub fn open(directory: &Path, identity: HostIdentity) -> Result<Self, JournalError> {
        make_directory(directory)?;
        let lock = Lock::take(directory)?;
        let (content, length_bytes) = read(directory, &identity)?.unwrap_or_default();
        let (directory, lock) = (directory.to_owned(), Some(lock));
        let mut journal = Self { directory, identity, content, file: None, length_bytes, keeps_history: true, lock };
        if journal.path().exists() {
            let path = journal.path();
            let file = OpenOptions::new().append(true).open(&path).map_err(disk("open", &path))?;
            if journal.content.is_torn {
                // It goes, or the next one would be torn too.
                let cut = file.set_len(length_bytes).and_then(|()| file.sync_all());
                cut.map_err(disk("cut the torn line off", &path))?;
            }
            journal.file = Some(file);
        }
        Ok(journal)
    }

    /// A journal that nobody can read after this process: for values of what goes with the process too, such as the
    /// interfaces of a virtual cable.
    #[must_use]
    pub fn in_memory(identity: HostIdentity) -> Self {
        let content = Content::default();
        Self {
            directory: PathBuf::new(),
            identity,
            content,
            file: None,
            length_bytes: 0,
            keeps_history: false,
            lock: None,
        }
    }

    /// Keeps no history from now on: what is written and put back hundreds of times is of no interest afterwards.
    #[must_use]
    pub fn without_history(self) -> Self {
        Self { keeps_history: false, ..self }
    }

    /// What a directory's journal says, without taking it; `None` when there is no journal.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub fn look(directory: &Path, identity: &HostIdentity) -> Result<Option<Content>, JournalError> {
        Ok(read(directory, identity)?.map(|(content, _)| content))
    }

    /// What it says.
    #[must_use]
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Whether a process holds the journal of a directory now.
    #[must_use]
    pub fn is_held(directory: &Path) -> bool {
        lock::is_held(directory)
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// This host, now.
    #[must_use]
    pub fn identity(&self) -> &HostIdentity {
        &self.identity
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Writes a plan down, in a new journal if there is none.
    pub(crate) fn begin(
        &mut self,
        unix_s: u64,
        profile: Option<String>,
        changes: Vec<Change>,
    ) -> Result<(), JournalError> {
        let plan = Record::Plan { unix_s, profile, host: self.identity.clone(), changes };
        if self.lock.is_none() {
            self.content.take(plan);
            return Ok(());
        }
        // Of a journal without a whole plan nothing is kept, its header may be torn.
        if self.file.is_some() && !self.content.blocks.is_empty() {
            return self.append(plan);
        }
        let header = Record::Header { format: FORMAT, program: concat!("nearwire ", env!("CARGO_PKG_VERSION")).into() };
        let path = self.directory.join(NEW);
        let lines = line::line(&header)? + &line::line(&plan)?;
        let written = self.create(&path, lines.as_bytes());
        if written.is_err() {
            // Whatever became of it, it is not the journal.
            let _ = fs::remove_file(&path).map(|()| sync_directory(&self.directory));
        }
        self.file = Some(written?);
        self.length_bytes = lines.len() as u64;
        self.content.take(plan);
        Ok(())
    }

    fn create(&self, path: &Path, bytes: &[u8]) -> Result<File, JournalError> {
        // A left-over of a crash may have another owner's rights.
        let _ = fs::remove_file(path);
        let mut options = OpenOptions::new();
        let file = options.append(true).create_new(true).mode(0o600).open(path).map_err(disk("create", path))?;
        let mut writer = &file;
        writer.write_all(bytes).and_then(|()| file.sync_all()).map_err(disk("write", path))?;
        let to = self.path();
        fs::rename(path, &to).map_err(disk("name", &to))?;
        sync_directory(&self.directory)?;
        Ok(file)
    }

    /// Adds a record, and returns when it is on the disk. That something was done need not be: a
    /// change that was announced counts as done.
    pub(crate) fn append(&mut self, record: Record) -> Result<(), JournalError> {
        let path = self.path();
        let Some(file) = &self.file else {
            if self.lock.is_none() {
                self.content.take(record);
            }
            return Ok(());
        };
        let line = line::line(&record)?;
        let mut writer = file;
        let sync = || if matches!(record, Record::Done { .. }) { Ok(()) } else { file.sync_data() };
        if let Err(error) = writer.write_all(line.as_bytes()).and_then(|()| sync()) {
            // Half a line must not stay before the next one.
            let _ = file.set_len(self.length_bytes);
            return Err(disk("write", &path)(error));
        }
        self.length_bytes += line.len() as u64;
        self.content.take(record);
        Ok(())
    }

    /// Ends the journal: everything it speaks of is put back. It goes to the history, if one is kept.
    pub(crate) fn close(&mut self, unix_s: u64) -> Result<(), JournalError> {
        if self.lock.is_none() {
            self.content = Content::default();
        }
        if self.file.take().is_none() {
            return Ok(());
        }
        if !self.keeps_history {
            let path = self.path();
            fs::remove_file(&path).map_err(disk("remove", &path))?;
            sync_directory(&self.directory)?;
            self.content = Content::default();
            self.length_bytes = 0;
            return Ok(());
        }
        let history = self.directory.join(HISTORY);
        make_directory(&history)?;
        let mut names = (0..).map(|n: u32| history.join(format!("{unix_s}-{n}.journal")));
        let to = names.find(|path| !path.exists()).unwrap_or_else(|| history.join("journal"));
        fs::rename(self.path(), &to).map_err(disk("name", &to))?;
        sync_directory(&history)?;
        sync_directory(&self.directory)?;
        self.content = Content::default();
        self.length_bytes = 0;
        Ok(())
    }
}

fn read(directory: &Path, identity: &HostIdentity) -> Result<Option<(Content, u64)>, JournalError> {
    let path = directory.join(FILE);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(disk("read", &path)(error)),
    };
    let (content, length_bytes) = content::parse(&path, &bytes)?;
    content.check(&path, identity)?;
    Ok(Some((content, length_bytes)))
}

/// Makes a directory and what is missing above it, so that they are there after a crash too.
fn make_directory(path: &Path) -> Result<(), JournalError> {
    let is_missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(disk("create", path))?;
    missing.iter().rev().try_for_each(|made| sync_parent(made))
}

/// Makes the name of a file or directory, or that it has none any more, last over a crash.
pub(crate) fn sync_parent(path: &Path) -> Result<(), JournalError> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => sync_directory(Path::new(".")),
        Some(parent) => sync_directory(parent),
        None => Ok(()),
    }
}

fn sync_directory(path: &Path) -> Result<(), JournalError> {
    #[cfg(test)]
    tests::note_sync(path);
    File::open(path).and_then(|directory| directory.sync_all()).map_err(disk("sync", path))
}

fn disk(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_owned();
    move |source| JournalError::Disk { action, path, source }
}
