//! The tree that settings are read from: the live host, or a directory with the same files.

mod write;

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{self, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use thiserror::Error;

use crate::Reading;

/// More of a file than this is not read: the longest honest one, a kernel configuration, has
/// 300 KB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// A tree of `/proc`, `/sys`, `/boot`, `/etc` and `/run` files.
///
/// Paths are given as on a live host, `/proc/cmdline`. In a directory they cannot escape it, not
/// even by links (`openat2` with `RESOLVE_IN_ROOT`): the tree may come from a stranger.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    path: PathBuf,
    is_live: bool,
}

/// Why a directory cannot be a root.
#[derive(Debug, Error)]
#[error("open {path} as the root of a host's files: {source}")]
pub struct RootError {
    /// The directory.
    pub path: PathBuf,
    /// What the kernel said.
    pub source: std::io::Error,
}

impl Root {
    /// The host this program runs on.
    ///
    /// # Errors
    /// `/` cannot be opened.
    pub fn live() -> Result<Self, RootError> {
        Self::open(Path::new("/"), true)
    }

    /// A directory that holds a copy of a host's files.
    ///
    /// # Errors
    /// It is not a directory that can be opened.
    pub fn directory(path: impl AsRef<Path>) -> Result<Self, RootError> {
        Self::open(path.as_ref(), false)
    }

    fn open(path: &Path, is_live: bool) -> Result<Self, RootError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match fs::open(path, flags, Mode::empty()) {
            Ok(directory) => Ok(Self { directory, path: path.to_owned(), is_live }),
            Err(errno) => Err(RootError { path: path.to_owned(), source: errno.into() }),
        }
    }

    /// Whether this is the host the program runs on, so that the kernel can be asked too.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Whether the calling thread left the network namespace of its process, which is most likely
    /// the one that `/sys/class/net` shows.
    pub(crate) fn is_thread_elsewhere(&self) -> bool {
        let namespace = |of| std::fs::read_link(format!("/proc/{of}/ns/net")).ok();
        self.is_live && namespace("thread-self") != namespace("self")
    }

    /// The text of a file without white space at its end; odd bytes are replaced.
    ///
    /// # Errors
    /// The reading that stands for the missing text.
    pub fn read(&self, path: &str) -> Result<String, Reading> {
        self.read_first(path, FILE_BYTES_MAX)
    }

    /// As [`Self::read`], of the first `limit_bytes` only.
    ///
    /// # Errors
    /// The reading that stands for the missing text.
    pub fn read_first(&self, path: &str, limit_bytes: u64) -> Result<String, Reading> {
        let bytes = self.read_bytes(path, limit_bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// The first `limit_bytes` of a file.
    ///
    /// # Errors
    /// The reading that stands for the missing bytes.
    pub fn read_bytes(&self, path: &str, limit_bytes: u64) -> Result<Vec<u8>, Reading> {
        // A pipe in a stranger's tree must not block the reader.
        let file = self.open_in(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let kind = fs::fstat(&file).map_err(|errno| Reading::from_errno(path, errno))?;
        if FileType::from_raw_mode(kind.st_mode) != FileType::RegularFile {
            return Err(Reading::unknown(format!("{path} is not a regular file")));
        }
        let mut bytes = Vec::new();
        match File::from(file).take(limit_bytes.min(FILE_BYTES_MAX)).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(match Errno::from_io_error(&error) {
                Some(errno) => Reading::from_errno(path, errno),
                None => Reading::unknown(format!("read {path}: {error}")),
            }),
        }
    }

    /// The records of the kernel's log, one a line, from a device that gives one a read; of a copy
    /// the text of the file.
    pub(crate) fn read_log(&self, path: &str) -> Result<String, Reading> {
        const RECORD_BYTES_MAX: usize = 8192;
        if !self.is_live {
            return self.read(path);
        }
        let device = self.open_in(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let mut log = Vec::new();
        let mut record = [0; RECORD_BYTES_MAX];
        while (log.len() as u64) < FILE_BYTES_MAX {
            match rustix::io::read(&device, &mut record) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(length) => log.extend_from_slice(&record[..length]),
                // A record was overwritten before it could be read; the next read goes on behind.
                Err(Errno::PIPE | Errno::INTR) => {}
                Err(errno) => return Err(Reading::from_errno(path, errno)),
            }
        }
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    /// Some bytes of a device at an offset.
    pub(crate) fn read_device<const BYTES: usize>(&self, path: &str, offset: u64) -> Result<[u8; BYTES], Reading> {
        let device = self.open_in(path, OFlags::RDONLY)?;
        let mut bytes = [0; BYTES];
        match rustix::io::pread(&device, &mut bytes, offset) {
            Ok(length) if length == BYTES => Ok(bytes),
            Ok(length) => Err(Reading::unknown(format!("{path} gave {length} bytes of {BYTES}"))),
            // The word of the msr driver for a register that the processor does not have.
            Err(Errno::IO) => Err(Reading::Unsupported),
            Err(errno) => Err(Reading::from_errno(path, errno)),
        }
    }

    /// The names in a directory, in order, numbers inside names counted as numbers
    /// (`cpu2` before `cpu10`).
    ///
    /// # Errors
    /// The reading that stands for the missing names.
    pub fn list(&self, path: &str) -> Result<Vec<String>, Reading> {
        let directory = self.open_in(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let entries = fs::Dir::new(directory).map_err(|errno| Reading::from_errno(path, errno))?;
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name != "." && name != "..")
            .collect();
        names.sort_by_cached_key(|name| in_natural_order(name));
        Ok(names)
    }

    /// The last part of what a symbolic link points at: the name of a driver or bus in sysfs.
    ///
    /// # Errors
    /// The reading that stands for the missing name.
    pub fn link_name(&self, path: &str) -> Result<String, Reading> {
        let target = self.link_target(path)?;
        Ok(target.rsplit('/').next().unwrap_or(&target).to_owned())
    }

    /// What a symbolic link points at, as it is written there.
    pub(crate) fn link_target(&self, path: &str) -> Result<String, Reading> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = self.open_in(parent, OFlags::PATH | OFlags::DIRECTORY)?;
        let target = fs::readlinkat(&directory, name, Vec::new()).map_err(|errno| self.missing(path, errno))?;
        Ok(target.to_string_lossy().into_owned())
    }

    /// Whether there is something at a path.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.open_raw(path, OFlags::PATH).is_ok()
    }

    fn open_in(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Reading> {
        self.open_raw(path, flags).map_err(|errno| self.missing(path, errno))
    }

    fn open_raw(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let inside = path.trim_start_matches('/');
        let inside = if inside.is_empty() { "." } else { inside };
        let flags = flags | OFlags::CLOEXEC;
        if self.is_live {
            // Not openat2: sandboxes forbid it more often than it would be of use here.
            fs::openat(&self.directory, inside, flags, Mode::empty())
        } else {
            let resolve = ResolveFlags::IN_ROOT;
            fs::openat2(&self.directory, inside, flags, Mode::empty(), resolve)
        }
    }

    /// What an error means. A file that is not there says on a live host that the host does not
    /// have the thing. In a copy it says so only if the files beside it were copied.
    fn missing(&self, path: &str, errno: Errno) -> Reading {
        if !matches!(errno, Errno::NOENT | Errno::NOTDIR) {
            return Reading::from_errno(path, errno);
        }
        // Every host has the directories at the top: without one, the copy is not complete.
        let beside = match path.rsplit_once('/') {
            Some((parent, _)) if !parent.is_empty() => parent,
            _ => path,
        };
        if self.is_live || self.has(beside) {
            Reading::Unsupported
        } else {
            let root = self.path.display();
            Reading::unknown(format!("{root} has no copy of {beside}"))
        }
    }
}

/// Splits a name into text and numbers.
fn in_natural_order(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits_at = rest.find(|c: char| c.is_ascii_digit());
        let (text, after) = rest.split_at(digits_at.unwrap_or(rest.len()));
        let end = after.find(|c: char| !c.is_ascii_digit());
        let (digits, after) = after.split_at(end.unwrap_or(after.len()));
        parts.push((text.to_owned(), digits.parse().unwrap_or(u64::MAX)));
        rest = after;
    }
    parts
}
