//! Writing below a root, as `echo VALUE > PATH` does. The only files ever made are those that a
//! kernel makes with a control group, in a copy of a host.

use std::os::fd::OwnedFd;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::tree::{Fault, Tree};
use super::{FILE_BYTES_MAX, Root};

impl Root {
    /// A file's text without white space at its end, with the kernel's own word for a failure.
    pub(crate) fn text(&self, path: &str) -> Result<String, Errno> {
        match self.tree.read(path, FILE_BYTES_MAX) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
            Err(Fault::Kernel(errno)) => Err(errno),
            Err(Fault::NotRegular | Fault::Other(_)) => Err(Errno::INVAL),
        }
    }

    /// Writes a value and a line feed in one call, as files of sysfs and procfs want it.
    pub(crate) fn write(&self, path: &str, value: &str) -> Result<(), Errno> {
        let file = self.open_to_write(path, OFlags::TRUNC)?;
        let line = format!("{value}\n");
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, line.as_bytes()))?;
        // Some files stop reading at the end of the value.
        if written < value.len() { Err(Errno::INVAL) } else { Ok(()) }
    }

    /// Opens a file as a write would, without writing: a missing right and a read-only file system
    /// show here.
    pub(crate) fn probe(&self, path: &str) -> Result<(), Errno> {
        self.open_to_write(path, OFlags::empty()).map(drop)
    }

    /// Whether the file's mode lets anybody write it; the kernel gives `0444` to what it only shows.
    pub(crate) fn has_writable_mode(&self, path: &str) -> Result<bool, Errno> {
        let file = self.open_on_disk(path, OFlags::PATH)?;
        Ok(fs::fstat(&file)?.st_mode & 0o222 != 0)
    }

    /// Makes a directory: a control group.
    pub(crate) fn make_directory(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = self.parent_of(path)?;
        fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))
    }

    /// Removes an empty directory; the files of a control group do not count.
    pub(crate) fn remove_directory(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = self.parent_of(path)?;
        fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)
    }

    /// Makes a file with a line, in a copy of a host; one that is there stays as it is.
    pub(crate) fn make_file(&self, path: &str, value: &str) -> Result<(), Errno> {
        let (parent, name) = self.copied_parent_of(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644)) {
            Ok(file) => rustix::io::write(&file, format!("{value}\n").as_bytes()).map(drop),
            Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Removes a file of a copy of a host.
    pub(crate) fn remove_file(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = self.copied_parent_of(path)?;
        fs::unlinkat(&parent, name, AtFlags::empty())
    }

    fn copied_parent_of<'a>(&self, path: &'a str) -> Result<(OwnedFd, &'a str), Errno> {
        if self.is_live { Err(Errno::PERM) } else { self.parent_of(path) }
    }

    /// The directory of a path, opened, and the last name.
    fn parent_of<'a>(&self, path: &'a str) -> Result<(OwnedFd, &'a str), Errno> {
        let (parent, name) = path.rsplit_once('/').ok_or(Errno::INVAL)?;
        if matches!(name, "" | "." | "..") {
            return Err(Errno::INVAL);
        }
        Ok((self.open_on_disk(parent, OFlags::PATH | OFlags::DIRECTORY)?, name))
    }

    /// An archive takes no writes.
    fn open_on_disk(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        match &*self.tree {
            Tree::Disk(disk) => disk.open(path, flags),
            Tree::Memory(_) => Err(Errno::ROFS),
        }
    }

    fn open_to_write(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        regular(self.open_on_disk(path, OFlags::WRONLY | OFlags::NONBLOCK | flags)?)
    }
}

/// A pipe or a device in a stranger's tree must neither block nor take a value.
fn regular(file: OwnedFd) -> Result<OwnedFd, Errno> {
    match FileType::from_raw_mode(fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(Errno::INVAL),
    }
}
