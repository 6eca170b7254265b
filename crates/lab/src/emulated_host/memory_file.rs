//! Files without a name, which are gone with the process that made them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};

/// A file in memory (`memfd_create(2)`). Other processes of this user open it by its path as long as this one lives.
#[derive(Debug)]
pub(super) struct MemoryFile(File);

impl MemoryFile {
    pub(super) fn new(name: &str) -> io::Result<Self> {
        Ok(Self(File::from(memfd_create(name, MemfdFlags::CLOEXEC)?)))
    }

    pub(super) fn with_bytes(name: &str, bytes: &[u8]) -> io::Result<Self> {
        let file = Self::new(name)?;
        file.0.write_all_at(bytes, 0)?;
        Ok(file)
    }

    /// A file of zeros, which take no memory until something else is written.
    pub(super) fn with_length(name: &str, bytes: u64) -> io::Result<Self> {
        let file = Self::new(name)?;
        file.0.set_len(bytes)?;
        Ok(file)
    }

    /// Valid in other processes while this one holds the file.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()))
    }

    pub(super) fn try_clone(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// The last lines of a text, at most `lines` of them.
    pub(super) fn tail(&self, lines: usize) -> String {
        let text = self.text();
        let from = text.lines().count().saturating_sub(lines);
        text.lines().skip(from).collect::<Vec<_>>().join("\n")
    }

    /// The whole text, with line ends and control characters of a terminal made plain.
    pub(super) fn text(&self) -> String {
        let length_bytes = self.0.metadata().map_or(0, |metadata| metadata.len()) as usize;
        let mut bytes = vec![0; length_bytes];
        let read_bytes = self.0.read_at(&mut bytes, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..read_bytes]).into_owned();
        text.replace(|character: char| character.is_control() && character != '\n' && character != '\t', "")
    }
}
