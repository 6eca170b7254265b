//! The tree that settings are read from: the live host, a directory with the same files, or an
//! archive of them.

mod archive;
mod error;
mod looks;
mod memory;
mod printed;
mod recorded;
mod tree;

mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_getres};

use crate::Reading;
use looks::Trace;
use recorded::Format;
use tree::{Disk, Fault, Tree};

pub(crate) use archive::unpack_zstd;
pub use error::{ArchiveError, RootError};
pub(crate) use looks::{Looks, Seen};
pub(crate) use memory::MemoryTree;
#[cfg(test)]
pub(crate) use memory::Node;
pub(crate) use recorded::{DeviceBytes, FORMAT, LOOKED_AT, Lack, LookedAt, MANIFEST, NOT_COPIED, to_hex};

/// More of a file than this is not read: the longest honest one, a kernel configuration, has
/// 300 KB.
pub(crate) const FILE_BYTES_MAX: u64 = 4 << 20;

/// What directories that `sos report` and `hwloc-gather-topology` filled have at their top.
const MARKS_OF_SELECTIONS: [&str; 4] = ["/sos_commands", "/sos_reports", "/version.txt", "/proc/hwloc-nofile-info"];

/// What a copy of a host's settings has some of, and a copy of its processors nothing.
const NOT_OF_CPUS: [&str; 4] = ["/etc", "/proc/sys", "/proc/cmdline", "/sys/class/net"];

/// A tree of `/proc`, `/sys`, `/boot`, `/etc` and `/run` files.
///
/// Paths are given as on a live host, `/proc/cmdline`. In a directory or archive they cannot escape
/// it, not even by links (`openat2` with `RESOLVE_IN_ROOT`): the tree may come from a stranger.
///
/// A copy may be *whole*: a snapshot, which knows of everything that was looked at whether it was
/// there. What is not in another copy was perhaps only not copied.
#[derive(Debug)]
pub struct Root {
    tree: Arc<Tree>,
    path: PathBuf,
    is_live: bool,
    /// A copy whose maker chose among the files of a directory: what it lacks says nothing.
    is_selection: bool,
    /// Of a snapshot.
    looked_at: Option<Arc<LookedAt>>,
    trace: Option<Trace>,
}

impl Root {
    /// The host this program runs on.
    ///
    /// # Errors
    /// `/` cannot be opened.
    pub fn live() -> Result<Self, RootError> {
        Self::disk(Path::new("/"), true)
    }

    /// The host this program runs on, with the interfaces of the calling thread's network namespace where `/sys` shows
    /// those of another one. Needs the right to mount, and mounts nothing that others see.
    ///
    /// # Errors
    /// `/` cannot be opened, or the kernel refuses a sysfs for this namespace.
    pub fn live_of_this_network() -> Result<Self, RootError> {
        match Disk::of_this_network() {
            Ok(disk) => Ok(Self::of_disk(disk, Path::new("/"), true)),
            Err(source) => Err(RootError::Directory { path: PathBuf::from("/sys of this network namespace"), source }),
        }
    }

    /// A directory that holds a copy of a host's files.
    ///
    /// # Errors
    /// It is not a directory that can be opened, or a snapshot that is not understood.
    pub fn directory(path: impl AsRef<Path>) -> Result<Self, RootError> {
        Self::disk(path.as_ref(), false)?.with_manifest()
    }

    /// An archive that holds a copy of a host's files: a snapshot, what `hwloc-gather-topology` or
    /// `sos report` made, or any tar archive with `proc` or `sys` at its top or in one or two
    /// directories below; as it is or packed with zstd, gzip, bzip2 or xz. Nothing is unpacked to disk,
    /// and less than 192 MiB of memory are taken whatever is in it.
    ///
    /// # Errors
    /// It cannot be read, is no such archive, exceeds a limit, or is a snapshot that is not
    /// understood.
    pub fn archive(path: impl AsRef<Path>) -> Result<Self, RootError> {
        let path = path.as_ref();
        match archive::read(path) {
            Ok(tree) => Self::memory(tree, path.to_owned()),
            Err(source) => Err(RootError::Archive { path: path.to_owned(), source }),
        }
    }

    /// A tree in memory; the path is what messages call it.
    pub(crate) fn memory(tree: MemoryTree, path: PathBuf) -> Result<Self, RootError> {
        let tree = Arc::new(Tree::Memory(tree));
        Self { tree, path, is_live: false, is_selection: true, looked_at: None, trace: None }.with_manifest()
    }

    fn disk(path: &Path, is_live: bool) -> Result<Self, RootError> {
        match Disk::open_at(path, is_live) {
            Ok(disk) => Ok(Self::of_disk(disk, path, is_live)),
            Err(source) => Err(RootError::Directory { path: path.to_owned(), source }),
        }
    }

    fn of_disk(disk: Disk, path: &Path, is_live: bool) -> Self {
        let tree = Arc::new(Tree::Disk(disk));
        Self { tree, path: path.to_owned(), is_live, is_selection: false, looked_at: None, trace: None }
    }

    fn with_manifest(mut self) -> Result<Self, RootError> {
        if !self.has(MANIFEST) {
            // Copies of processors alone, as hwloc and util-linux have them among their tests, have no more than these.
            let is_of_cpus = self.has("/proc/cpuinfo") && !NOT_OF_CPUS.iter().any(|path| self.has(path));
            self.is_selection |= is_of_cpus || MARKS_OF_SELECTIONS.iter().any(|mark| self.has(mark));
            return Ok(self);
        }
        let wrong = |file, what: String| RootError::Manifest { path: self.path.clone(), file, what };
        let text = |file: &'static str| {
            self.read(file).map_err(|reading| wrong(file, format!("cannot be read: {}", reading.in_words())))
        };
        let Format { format } =
            serde_json::from_str(&text(MANIFEST)?).map_err(|error| wrong(MANIFEST, error.to_string()))?;
        if format != FORMAT {
            let what = format!("format {format} is not understood, only {FORMAT}: another version of nearwire made it");
            return Err(wrong(MANIFEST, what));
        }
        let looked_at: LookedAt =
            serde_json::from_str(&text(LOOKED_AT)?).map_err(|error| wrong(LOOKED_AT, error.to_string()))?;
        self.is_selection = looked_at.of_a_selection;
        self.looked_at = Some(Arc::new(looked_at));
        Ok(self)
    }

    /// The same tree, remembering what is looked at from now on.
    pub(crate) fn traced(&self) -> Self {
        Self { trace: Some(Trace::default()), ..self.untraced() }
    }

    /// The same tree, remembering nothing.
    #[must_use]
    pub fn untraced(&self) -> Self {
        let (tree, looked_at) = (Arc::clone(&self.tree), self.looked_at.clone());
        Self { tree, path: self.path.clone(), looked_at, trace: None, ..*self }
    }

    /// What was looked at since this was asked last.
    pub(crate) fn take_looks(&self) -> Looks {
        self.trace.as_ref().map(Trace::take).unwrap_or_default()
    }

    /// Whether this is the host the program runs on, so that the kernel can be asked too.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Where the tree is, without links in the path.
    pub(crate) fn place(&self) -> PathBuf {
        self.path.canonicalize().unwrap_or_else(|_| self.path.clone())
    }

    /// Whether what is not there was not there on the host either, as far as settings are read:
    /// the live host or a snapshot, not any other copy.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_live || self.looked_at.as_ref().is_some_and(|looked_at| !looked_at.of_a_copy)
    }

    /// Whether a file that is not there says something where the directory around it is there. Tools that gather reports choose
    /// among the files of a directory; whoever copies a directory has what was in it.
    pub(crate) fn tells_absence(&self) -> bool {
        !self.is_selection
    }

    /// The reading that stands for what a list of a copy does not name.
    pub(crate) fn absent_or_not_copied(&self, what: &str) -> Reading {
        if self.is_selection {
            Reading::unknown(format!("{} has no copy of {what}", self.path.display()))
        } else {
            Reading::Unsupported
        }
    }

    /// Whether the calling thread left the network namespace of its process, which is most likely
    /// the one that `/sys/class/net` shows.
    pub(crate) fn is_thread_elsewhere(&self) -> bool {
        let namespace = |of| std::fs::read_link(format!("/proc/{of}/ns/net")).ok();
        self.is_live && namespace("thread-self") != namespace("self")
    }

    /// The text of a file without white space at its end, and without the NUL that several kernels
    /// wrote behind some lists; odd bytes are replaced.
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
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches(|c: char| c.is_whitespace() || c == '\0').to_owned())
    }

    /// The first `limit_bytes` of a file.
    ///
    /// # Errors
    /// The reading that stands for the missing bytes.
    pub fn read_bytes(&self, path: &str, limit_bytes: u64) -> Result<Vec<u8>, Reading> {
        let limit_bytes = limit_bytes.min(FILE_BYTES_MAX);
        let found = self.read_file(path, limit_bytes);
        self.note(path, |seen| match &found {
            // The longest look is kept.
            Ok(bytes) if seen.file.as_ref().is_none_or(|(_, limit)| *limit <= limit_bytes) => {
                seen.file = Some((bytes.clone(), limit_bytes));
            }
            Ok(_) => {}
            Err(reading) => seen.unread = Some(reading.clone()),
        });
        found
    }

    fn read_file(&self, path: &str, limit_bytes: u64) -> Result<Vec<u8>, Reading> {
        if let Some(looked_at) = &self.looked_at {
            if let Some(reading) = looked_at.unread.get(path).and_then(Lack::reading) {
                return Err(reading);
            }
            if looked_at.first_bytes.get(path).is_some_and(|&copied| copied < limit_bytes) {
                return Err(Reading::unknown(format!("{} has only the start of {path}", self.path.display())));
            }
        }
        self.tree.read(path, limit_bytes).or_else(|fault| match fault {
            Fault::Kernel(Errno::NOENT | Errno::NOTDIR)
                if self.is_selection && path.starts_with(printed::PARAMETERS) =>
            {
                self.printed_parameter(path)
            }
            Fault::Kernel(errno) => Err(self.missing(path, errno)),
            Fault::NotRegular => Err(Reading::unknown(format!("{path} is not a regular file"))),
            Fault::Other(error) => Err(Reading::unknown(format!("read {path}: {error}"))),
        })
    }

    /// A parameter of the kernel by what `sysctl -a` printed, which `sos` keeps in place of the files.
    fn printed_parameter(&self, path: &str) -> Result<Vec<u8>, Reading> {
        let all = self.tree.read(printed::ALL_PARAMETERS, FILE_BYTES_MAX);
        let all = all.map_err(|_| self.missing(path, Errno::NOENT))?;
        match printed::parameter(&String::from_utf8_lossy(&all), path) {
            printed::Parameter::Value(value) => Ok(value.as_bytes().to_vec()),
            printed::Parameter::Absent => Err(Reading::Unsupported),
            printed::Parameter::NotPrinted => Err(self.missing(path, Errno::NOENT)),
        }
    }

    /// The records of the kernel's log, one a line, from a device that gives one a read, up to the first that is behind all
    /// that is looked for; of a copy the text of the file.
    pub(crate) fn read_log(&self, path: &str, is_behind: fn(&str) -> bool) -> Result<String, Reading> {
        if !self.is_live {
            return self.read(path);
        }
        let found = self.read_records(path, is_behind);
        self.note(path, |seen| match &found {
            Ok(text) => seen.file = Some((text.clone().into_bytes(), FILE_BYTES_MAX)),
            Err(reading) => seen.unread = Some(reading.clone()),
        });
        found
    }

    fn read_records(&self, path: &str, is_behind: fn(&str) -> bool) -> Result<String, Reading> {
        const RECORD_BYTES_MAX: usize = 8192;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let device = self.tree.device(path, flags).map_err(|errno| self.missing(path, errno))?;
        let mut log = Vec::new();
        let mut record = [0; RECORD_BYTES_MAX];
        while (log.len() as u64) < FILE_BYTES_MAX {
            match rustix::io::read(&device, &mut record) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(length) => {
                    log.extend_from_slice(&record[..length]);
                    if is_behind(&String::from_utf8_lossy(&record[..length])) {
                        break;
                    }
                }
                // A record was overwritten before it could be read; the next read goes on behind.
                Err(Errno::PIPE | Errno::INTR) => {}
                Err(errno) => return Err(Reading::from_errno(path, errno)),
            }
        }
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    /// Some bytes of a device at an offset; of a snapshot those that were read there.
    pub(crate) fn read_device<const BYTES: usize>(&self, path: &str, offset: u64) -> Result<[u8; BYTES], Reading> {
        let found = match &self.looked_at {
            None if self.is_live => self.read_device_now::<BYTES>(path, offset),
            None => Err(Reading::unknown(format!("{path} is read on a live host only"))),
            Some(_) if self.is_absent(path) => Err(Reading::Unsupported),
            Some(looked_at) => {
                let unknown = || Err(Reading::unknown(format!("{} has no copy of {path}", self.path.display())));
                looked_at.device(path, offset).unwrap_or_else(unknown).and_then(|bytes| {
                    bytes.try_into().map_err(|_| Reading::unknown(format!("{LOOKED_AT}: odd bytes of {path}")))
                })
            }
        };
        self.note(path, |seen| {
            seen.device.insert(offset, found.clone().map(|bytes| bytes.to_vec()));
        });
        found
    }

    fn read_device_now<const BYTES: usize>(&self, path: &str, offset: u64) -> Result<[u8; BYTES], Reading> {
        let device = self.tree.device(path, OFlags::RDONLY).map_err(|errno| self.missing(path, errno))?;
        let mut bytes = [0; BYTES];
        match rustix::io::pread(&device, &mut bytes, offset) {
            Ok(length) if length == BYTES => Ok(bytes),
            Ok(length) => Err(Reading::unknown(format!("{path} gave {length} bytes of {BYTES}"))),
            // The word of the msr driver for a register that the processor does not have.
            Err(Errno::IO) => Err(Reading::Unsupported),
            Err(errno) => Err(Reading::from_errno(path, errno)),
        }
    }

    /// The length of a tick of the coarse clock, nanoseconds.
    pub(crate) fn coarse_clock_resolution_ns(&self) -> Option<u64> {
        match &self.looked_at {
            None if self.is_live => u64::try_from(clock_getres(ClockId::MonotonicCoarse).tv_nsec).ok(),
            None => None,
            Some(looked_at) => looked_at.coarse_clock_resolution_ns,
        }
    }

    /// The names in a directory, in order, numbers inside names counted as numbers
    /// (`cpu2` before `cpu10`).
    ///
    /// # Errors
    /// The reading that stands for the missing names.
    pub fn list(&self, path: &str) -> Result<Vec<String>, Reading> {
        let found = self.list_now(path);
        self.note(path, |seen| match &found {
            Ok(names) => seen.names = Some(names.clone()),
            Err(reading) => seen.unlisted = Some(reading.clone()),
        });
        found
    }

    /// The files of several directories by name, as tools of the system read them: one of an earlier directory takes the
    /// place of one with its name in a later one.
    pub(crate) fn files_of(
        &self,
        directories: impl IntoIterator<Item: AsRef<str>>,
        suffix: &str,
    ) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for directory in directories {
            let directory = directory.as_ref();
            for name in self.list(directory).unwrap_or_default().into_iter().filter(|name| name.ends_with(suffix)) {
                let path = format!("{directory}/{name}");
                files.entry(name).or_insert(path);
            }
        }
        files
    }

    fn list_now(&self, path: &str) -> Result<Vec<String>, Reading> {
        if let Some(looked_at) = &self.looked_at
            && !looked_at.listed.contains(path)
        {
            let lack = looked_at.unlisted.get(path).and_then(Lack::reading);
            return Err(lack.unwrap_or_else(|| self.missing(path, Errno::NOENT)));
        }
        let mut names = self.tree.names(path).map_err(|errno| self.missing(path, errno))?;
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
        let found = match self.tree.target(path) {
            Ok(target) if target == NOT_COPIED && self.looked_at.is_some() => {
                Err(Reading::unknown(format!("{} has only the name of {path}", self.path.display())))
            }
            // A directory that is not there has no links in it.
            Err(Errno::NOENT) if self.tree.has(parent_of(path)).is_err() => {
                Err(self.missing(parent_of(path), Errno::NOENT))
            }
            found => found.map_err(|errno| self.missing(path, errno)),
        };
        self.note(path, |seen| match &found {
            Ok(target) => seen.target = Some(target.clone()),
            Err(Reading::Unsupported) => seen.is_absent = true,
            Err(_) => seen.is_there |= self.find(path).is_ok(),
        });
        found
    }

    /// Whether there is something at a path.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        let found = self.find(path);
        self.note(path, |seen| match found {
            Ok(()) => seen.is_there = true,
            Err(errno) => seen.is_absent |= self.missing(path, errno) == Reading::Unsupported,
        });
        found.is_ok()
    }

    /// Finds something at a path, or in a snapshot its name alone.
    fn find(&self, path: &str) -> Result<(), Errno> {
        match self.tree.has(path) {
            Err(_) if self.looked_at.is_some() && self.tree.target(path).as_deref() == Ok(NOT_COPIED) => Ok(()),
            found => found,
        }
    }

    fn note(&self, path: &str, add: impl FnOnce(&mut Seen)) {
        if let Some(trace) = &self.trace
            && !path.starts_with("/nearwire/")
        {
            trace.note(path, add);
        }
    }

    fn is_absent(&self, path: &str) -> bool {
        self.looked_at.as_ref().is_some_and(|looked_at| looked_at.is_absent(path))
    }

    /// What an error means. A file that is not there says on a live host that the host does not
    /// have the thing. A snapshot knows what was not there. In a copied directory it says so only if
    /// the files beside it were copied, and it is no link whose target was not copied. In what a tool gathered it
    /// says nothing.
    fn missing(&self, path: &str, errno: Errno) -> Reading {
        if !matches!(errno, Errno::NOENT | Errno::NOTDIR) {
            return Reading::from_errno(path, errno);
        }
        if self.is_live || self.is_absent(path) {
            return Reading::Unsupported;
        }
        let root = self.path.display();
        if self.looked_at.is_some() || self.is_selection || self.tree.target(path).is_ok() {
            return Reading::unknown(format!("{root} has no copy of {path}"));
        }
        // Every host has the directories at the top: without one, the copy is not complete.
        let beside = match path.rsplit_once('/') {
            Some((parent, _)) if !parent.is_empty() => parent,
            _ => path,
        };
        if self.tree.has(beside).is_ok() {
            Reading::Unsupported
        } else {
            Reading::unknown(format!("{root} has no copy of {beside}"))
        }
    }
}

fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
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
