//! Where the files are: on disk or in memory.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::memory::{MemoryTree, Node};

/// Attempts to open a file in a copy while others rename: few are raced, so that two almost always suffice.
const OPEN_ATTEMPTS_MAX: u32 = 100;

/// As long as nearly every file that is read.
const SHORT_FILE_BYTES: usize = 4096;

/// Files by paths like those of a live host.
#[derive(Debug)]
pub(super) enum Tree {
    Disk(Disk),
    Memory(MemoryTree),
}

/// A directory of a file system. Unless it is the live host's, a path cannot leave it.
#[derive(Debug)]
pub(super) struct Disk {
    directory: OwnedFd,
    is_live: bool,
    /// A sysfs that shows one network namespace, in place of what the host's shows of interfaces.
    interfaces: Option<OwnedFd>,
}

/// Why a file was not read.
pub(super) enum Fault {
    Kernel(Errno),
    NotRegular,
    Other(io::Error),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Kernel(errno)
    }
}

impl Tree {
    /// The first `limit_bytes` of a file.
    pub(super) fn read(&self, path: &str, limit_bytes: u64) -> Result<Vec<u8>, Fault> {
        match self {
            Self::Disk(disk) => disk.read(path, limit_bytes),
            Self::Memory(tree) => match tree.find(path)? {
                Node::File(bytes) => {
                    let length = usize::try_from(limit_bytes).map_or(bytes.len(), |limit| limit.min(bytes.len()));
                    Ok(bytes[..length].to_vec())
                }
                _ => Err(Fault::NotRegular),
            },
        }
    }

    /// The names in a directory, in no order.
    pub(super) fn names(&self, path: &str) -> Result<Vec<String>, Errno> {
        match self {
            Self::Disk(disk) => disk.names(path),
            Self::Memory(tree) => match tree.find(path)? {
                Node::Directory(names) => Ok(names.keys().map(|name| name.clone().into_string()).collect()),
                _ => Err(Errno::NOTDIR),
            },
        }
    }

    /// What a link points at.
    pub(super) fn target(&self, path: &str) -> Result<String, Errno> {
        match self {
            Self::Disk(disk) => {
                let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
                let directory = disk.open(parent, OFlags::PATH | OFlags::DIRECTORY)?;
                let target = fs::readlinkat(&directory, name, Vec::new())?;
                Ok(target.to_string_lossy().into_owned())
            }
            Self::Memory(tree) => match tree.find_link(path)? {
                Node::Link(target) => Ok(target.clone().into_string()),
                _ => Err(Errno::INVAL),
            },
        }
    }

    /// Whether there is something at a path.
    pub(super) fn has(&self, path: &str) -> Result<(), Errno> {
        match self {
            Self::Disk(disk) => disk.open(path, OFlags::PATH).map(drop),
            Self::Memory(tree) => tree.find(path).map(drop),
        }
    }

    /// Opens a device; there are none in memory.
    pub(super) fn device(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        match self {
            Self::Disk(disk) => disk.open(path, flags),
            Self::Memory(_) => Err(Errno::NOENT),
        }
    }
}

impl Disk {
    pub(super) fn open_at(path: &Path, is_live: bool) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { directory: fs::open(path, flags, Mode::empty())?, is_live, interfaces: None })
    }

    /// The live host with the interfaces of the calling thread's network namespace. The sysfs that shows them is
    /// mounted nowhere, so it goes with the last descriptor.
    pub(super) fn of_this_network() -> io::Result<Self> {
        let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(context.as_fd())?;
        let sysfs = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        Ok(Self { interfaces: Some(sysfs), ..Self::open_at(Path::new("/"), true)? })
    }

    fn read(&self, path: &str, limit_bytes: u64) -> Result<Vec<u8>, Fault> {
        // A pipe in a stranger's tree must not block the reader.
        let file = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let kind = fs::fstat(&file)?;
        if FileType::from_raw_mode(kind.st_mode) != FileType::RegularFile {
            return Err(Fault::NotRegular);
        }
        // Without room at the start it is felt for by reads of 32 bytes: 4 calls in place of 2 for each short file.
        let mut bytes = Vec::with_capacity(SHORT_FILE_BYTES);
        match File::from(file).take(limit_bytes).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(Errno::from_io_error(&error).map_or(Fault::Other(error), Fault::Kernel)),
        }
    }

    fn names(&self, path: &str) -> Result<Vec<String>, Errno> {
        let directory = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let names = fs::Dir::new(directory)?
            .filter_map(Result::ok)
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name != "." && name != "..");
        Ok(names.collect())
    }

    pub(super) fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let inside = path.trim_start_matches('/');
        let inside = if inside.is_empty() { "." } else { inside };
        let flags = flags | OFlags::CLOEXEC;
        let of_interfaces = inside.strip_prefix("sys/").filter(|path| path.starts_with("class/net"));
        if let (Some(sysfs), Some(path)) = (&self.interfaces, of_interfaces) {
            fs::openat(sysfs, path, flags, Mode::empty())
        } else if self.is_live {
            // Not openat2: sandboxes forbid it more often than it would be of use here.
            fs::openat(&self.directory, inside, flags, Mode::empty())
        } else {
            let open = || fs::openat2(&self.directory, inside, flags, Mode::empty(), ResolveFlags::IN_ROOT);
            let mut opened = open();
            // A rename or mount anywhere on the host while `..` of a link is followed makes the kernel ask to
            // try again (openat2(2)).
            for _ in 1..OPEN_ATTEMPTS_MAX {
                if !matches!(opened, Err(Errno::AGAIN)) {
                    break;
                }
                opened = open();
            }
            opened
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// The kernel's request to try again was taken for an error of the host's.
    #[test]
    fn file_behind_a_link_read_while_others_rename_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(at("sys/devices/nic")).unwrap();
        std::fs::create_dir_all(at("sys/class/net")).unwrap();
        std::fs::write(at("sys/devices/nic/mtu"), "1500").unwrap();
        std::os::unix::fs::symlink("../../devices/nic", at("sys/class/net/nic0")).unwrap();
        std::fs::write(at("one"), "").unwrap();
        let disk = Disk::open_at(directory.path(), false).unwrap();
        let is_over = AtomicBool::new(false);
        let failed = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::fs::rename(at("one"), at("other")).unwrap();
                    std::fs::rename(at("other"), at("one")).unwrap();
                }
            });
            let failed = (0..20_000).filter(|_| disk.read("/sys/class/net/nic0/mtu", 16).is_err()).count();
            is_over.store(true, Ordering::Relaxed);
            failed
        });
        assert_eq!(failed, 0);
    }
}
