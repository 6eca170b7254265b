//! One process at a time.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{JournalError, disk, sync_parent};

const FILE: &str = "lock";

/// Held until dropped, and by the kernel let go of when the process ends.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    pub(super) fn take(directory: &Path) -> Result<Self, JournalError> {
        let path = directory.join(FILE);
        let is_new = !path.exists();
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(disk("open", &path))?;
        if is_new {
            sync_parent(&path)?;
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(JournalError::Busy { directory: directory.to_owned(), pid: holder(directory) });
            }
            Err(errno) => return Err(disk("lock", &path)(errno.into())),
        }
        // For whoever is refused; the lock itself does not depend on it, a full disk does no harm.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self(file))
    }
}

impl Drop for Lock {
    /// A child that is just being started has a copy of the descriptor for a moment, which would
    /// hold the lock on.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Whether somebody has the lock. Nothing is made or changed for the question.
pub(super) fn is_held(directory: &Path) -> bool {
    let Ok(file) = File::open(directory.join(FILE)) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// The process that took the lock last.
pub(super) fn holder(directory: &Path) -> Option<u32> {
    fs::read_to_string(directory.join(FILE)).ok()?.trim().parse().ok()
}
