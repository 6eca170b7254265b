//! Records on disk: written whole or not at all, read only when they are ours and not from the future.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::record::{self, Record};

/// A kind of record: what its files say of themselves.
pub trait Document: Serialize + DeserializeOwned {
    /// Value of `schema`.
    const SCHEMA: &'static str;
    /// The newest value of `schema_version` that this program reads.
    const SCHEMA_VERSION: u64;
    /// The command that writes such files, as in `nearwire bench --json`.
    const WRITTEN_BY: &'static str;
}

impl Document for Record {
    const SCHEMA: &'static str = record::SCHEMA;
    const SCHEMA_VERSION: u64 = record::SCHEMA_VERSION as u64;
    const WRITTEN_BY: &'static str = "nearwire bench --json";
}

/// Why a record could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be opened or read.
    #[error("read record {}: {source}; name a file that `{wanted_from}` wrote", path.display())]
    Io {
        /// What was read.
        path: PathBuf,
        /// The command that writes such files.
        wanted_from: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not JSON, or ends early.
    #[error(
        "read record {}: not valid JSON ({source}); the file may be cut short, measure again or restore it",
        path.display()
    )]
    NotJson {
        /// What was read.
        path: PathBuf,
        /// Line, column and what was found there.
        source: serde_json::Error,
    },
    /// JSON, but of something else.
    #[error(
        "read record {}: schema is {found}, wanted \"{wanted}\"; name a file that `{wanted_from}` wrote",
        path.display()
    )]
    Foreign {
        /// What was read.
        path: PathBuf,
        /// The value of `schema` that was wanted.
        wanted: &'static str,
        /// The command that writes such files.
        wanted_from: &'static str,
        /// The value of `schema`, or `missing`.
        found: String,
    },
    /// Written by a newer program.
    #[error(
        "read record {}: schema version {found}, this program reads up to {newest}; \
         read it with nearwire {written_by} or newer",
        path.display()
    )]
    Newer {
        /// What was read.
        path: PathBuf,
        /// Its `schema_version`.
        found: u64,
        /// The newest version that is read.
        newest: u64,
        /// Its `nearwire_version`.
        written_by: String,
    },
    /// Ours by name, but fields are missing or have the wrong type.
    #[error(
        "read record {}: damaged ({source}); it was changed after it was written, measure again or restore it",
        path.display()
    )]
    Damaged {
        /// What was read.
        path: PathBuf,
        /// The field and where it is.
        source: serde_json::Error,
    },
}

/// Why a file could not be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// No space left.
    #[error("write {target}: no space left on the device; free some, or name a file on another one")]
    DiskFull {
        /// What was written.
        target: String,
    },
    /// The system refused.
    #[error("write {target}: {source}; check that the folder exists and may be written to")]
    Io {
        /// What was written.
        target: String,
        /// What the system said.
        source: io::Error,
    },
    /// The record holds a number that JSON cannot express where one is required.
    #[error("write {target}: the record would not read back ({source}); this is a defect, please report it")]
    Unreadable {
        /// What was written.
        target: String,
        /// The field and why.
        source: serde_json::Error,
    },
}

impl WriteError {
    fn from_io(target: &str, source: io::Error) -> Self {
        let target = target.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { target },
            _ => Self::Io { target, source },
        }
    }
}

/// The part that tells whose a file is.
#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    schema: serde_json::Value,
    #[serde(default)]
    schema_version: serde_json::Value,
    #[serde(default)]
    nearwire_version: serde_json::Value,
}

/// Reads a record.
///
/// # Errors
/// When the file cannot be read, is not JSON, is not a record, is from a newer version, or is damaged.
pub fn read_record(path: impl AsRef<Path>) -> Result<Record, ReadError> {
    read_document(path)
}

/// Reads a record of any kind.
///
/// # Errors
/// As [`read_record`].
pub fn read_document<D: Document>(path: impl AsRef<Path>) -> Result<D, ReadError> {
    let path = path.as_ref();
    let unread = |source| ReadError::Io { path: path.into(), wanted_from: D::WRITTEN_BY, source };
    parse_document(path, &fs::read(path).map_err(unread)?)
}

fn parse_document<D: Document>(path: &Path, bytes: &[u8]) -> Result<D, ReadError> {
    let path = path.to_owned();
    let (wanted, wanted_from) = (D::SCHEMA, D::WRITTEN_BY);
    // Any JSON first: an array or a number is foreign, not damaged.
    let header = match serde_json::from_slice::<Header>(bytes) {
        Ok(header) => header,
        Err(source) if source.is_data() => {
            return Err(ReadError::Foreign { path, wanted, wanted_from, found: "missing".to_owned() });
        }
        Err(source) => return Err(ReadError::NotJson { path, source }),
    };
    if header.schema != D::SCHEMA {
        let found = match header.schema {
            serde_json::Value::Null => "missing".to_owned(),
            other => other.to_string(),
        };
        return Err(ReadError::Foreign { path, wanted, wanted_from, found });
    }
    if let Some(found) = header.schema_version.as_u64()
        && found > D::SCHEMA_VERSION
    {
        let written_by = header.nearwire_version.as_str().unwrap_or("of that version").to_owned();
        return Err(ReadError::Newer { path, found, newest: D::SCHEMA_VERSION, written_by });
    }
    serde_json::from_slice(bytes).map_err(|source| ReadError::Damaged { path, source })
}

/// The record as indented JSON with a final newline; reading it back gives the same record.
///
/// # Errors
/// When the record holds a NaN or an infinity in a field that must be a number.
pub fn write_json<D: Document>(record: &D) -> Result<String, WriteError> {
    let unreadable = |source| WriteError::Unreadable { target: "record".to_owned(), source };
    let mut text = serde_json::to_string_pretty(record).map_err(unreadable)?;
    // JSON has no NaN: serde writes null, which the reader would refuse long after the measurement is gone.
    serde_json::from_str::<D>(&text).map_err(unreadable)?;
    text.push('\n');
    Ok(text)
}

/// Writes a record to a writer and flushes it.
///
/// # Errors
/// When the record cannot be expressed or the writer fails; a full disk is told apart.
pub fn write_record_to<D: Document>(mut writer: impl Write, record: &D) -> Result<(), WriteError> {
    let text = write_json(record)?;
    writer
        .write_all(text.as_bytes())
        .and_then(|()| writer.flush())
        .map_err(|source| WriteError::from_io("record", source))
}

/// Writes a record to a file; an older file is replaced only when the new one is complete on disk.
///
/// # Errors
/// When the record cannot be expressed or the file not written; what was there before is untouched.
pub fn write_record<D: Document>(path: impl AsRef<Path>, record: &D) -> Result<(), WriteError> {
    write_text(path, &write_json(record)?)
}

/// Writes text to a file the way [`write_record`] does.
///
/// # Errors
/// When the file cannot be written; what was there before is untouched.
pub fn write_text(path: impl AsRef<Path>, text: &str) -> Result<(), WriteError> {
    let path = path.as_ref();
    let target = path.display().to_string();
    replace(path, text.as_bytes()).map_err(|source| WriteError::from_io(&target, source))
}

/// Tries whether `path` can be written, leaving no trace: a typo must fail before the measurement, not after.
///
/// # Errors
/// When a file cannot be made there.
pub fn ensure_writable(path: impl AsRef<Path>) -> Result<(), WriteError> {
    let path = path.as_ref();
    let target = path.display().to_string();
    let attempt = || -> io::Result<()> {
        if is_special(path) {
            return File::options().write(true).open(path).map(drop);
        }
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let draft = draft_of(&followed(path))?;
        File::create_new(&draft)?;
        fs::remove_file(&draft)
    };
    attempt().map_err(|source| WriteError::from_io(&target, source))
}

/// Writes a draft beside the file, then renames it over the file.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_special(path) {
        let mut device = File::options().write(true).open(path)?;
        return device.write_all(bytes).and_then(|()| device.flush());
    }
    let path = followed(path);
    let draft = draft_of(&path)?;
    let written = File::create_new(&draft)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&draft, &path));
    if written.is_err() {
        // The first error is the one to tell; a draft that was never made is not there to remove.
        drop(fs::remove_file(&draft));
        return written;
    }
    // The name must survive a power cut too; a file system that cannot sync folders has done what it can.
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty())
        && let Ok(folder) = File::open(folder)
    {
        drop(folder.sync_all());
    }
    Ok(())
}

/// True for what cannot be renamed over: `/dev/stdout`, a pipe.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// The file a link points to, so that the link stays a link.
fn followed(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn draft_of(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let draft = format!(".{}.{}.draft", name.to_string_lossy(), std::process::id());
    Ok(path.with_file_name(draft))
}
