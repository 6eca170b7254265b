//! Why there is no root.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a directory or an archive cannot be a root.
#[derive(Debug, Error)]
pub enum RootError {
    /// The directory cannot be opened.
    #[error("open {path} as the root of a host's files: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The archive cannot be used.
    #[error("{path} cannot be used as a snapshot: {source}")]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What is wrong with it.
        source: ArchiveError,
    },
    /// What the snapshot says about itself is not understood.
    #[error("{path}: {file}: {what}")]
    Manifest {
        /// The directory or archive.
        path: PathBuf,
        /// The file in it.
        file: &'static str,
        /// What is wrong with it.
        what: String,
    },
}

/// What is wrong with an archive.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// The file cannot be opened.
    #[error("open it: {source}")]
    Open {
        /// What the kernel said.
        source: io::Error,
    },
    /// The file cannot be read, or what packed it is damaged.
    #[error("read it: {source}; it may be damaged or cut off")]
    Read {
        /// What the kernel or the unpacker said.
        source: io::Error,
    },
    /// It begins like no archive.
    #[error("it is no tar archive, nor one packed with zstd, gzip, bzip2 or xz")]
    NotAnArchive,
    /// It ends before the archive does.
    #[error("it ends in the middle, after {unpacked_bytes} unpacked bytes: it was cut off")]
    CutOff {
        /// How much there was.
        unpacked_bytes: u64,
    },
    /// An entry's header is wrong.
    #[error("it is damaged at unpacked byte {at_bytes}: {what}")]
    Damaged {
        /// Where the header is.
        at_bytes: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// An entry has a name that leads out of the archive.
    #[error("entry {entry:?} leads out of the archive")]
    Escape {
        /// The entry's name.
        entry: String,
    },
    /// A limit that keeps hostile archives from taking memory or time.
    #[error("it has more than {limit} {what}: no snapshot of a host has that")]
    TooLarge {
        /// What is counted, with its unit.
        what: &'static str,
        /// How much is allowed.
        limit: u64,
    },
    /// There is no host in it.
    #[error("it has neither proc nor sys at its top or in a directory or two below: it is no copy of a host")]
    NoHost,
}
