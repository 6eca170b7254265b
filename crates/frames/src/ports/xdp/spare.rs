//! Packet memory that was found before a port wants it. The first touch of a page has the kernel find it and clear it, and on a virtual machine the host too:
//! 26 MiB took 12 to 120 ms here, of the 40 to 180 that the first call of a program waited for its port.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearwire_sys::held_signals;
use nearwire_sys::shared_words::set_length;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::pwrite;

const PIECE_BYTES: usize = 1 << 20;

static SPARE: Spare = Spare(Mutex::new(None));

/// With its length. Held while it is found: a port that wants memory meanwhile waits, which is shorter than to find its own.
struct Spare(Mutex<Option<(OwnedFd, usize)>>);

/// Finds so much packet memory for the next port of this process that wants ordinary pages; it takes what it needs of it.
///
/// # Errors
/// There is not so much, or this process may not write files as long.
pub fn prepare_memory(length_bytes: usize) -> io::Result<()> {
    SPARE.prepare(length_bytes)
}

/// A file for packet memory, zero as far as it goes, with `pages` of a kind, which is to be `length_bytes` long.
pub(super) fn take(pages: MemfdFlags, length_bytes: usize) -> io::Result<OwnedFd> {
    let spare = if pages.is_empty() { SPARE.take(length_bytes) } else { None };
    spare.map_or_else(|| make(pages), Ok)
}

impl Spare {
    fn lock(&self) -> MutexGuard<'_, Option<(OwnedFd, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where at least half of it is wanted: a socket that is opened to try something needs a page or two, and leaves it for the port.
    fn take(&self, length_bytes: usize) -> Option<OwnedFd> {
        self.lock().take_if(|(_, prepared_bytes)| length_bytes >= *prepared_bytes / 2).map(|(memory, _)| memory)
    }

    fn prepare(&self, length_bytes: usize) -> io::Result<()> {
        let mut spare = self.lock();
        let memory = make(MemfdFlags::empty())?;
        set_length(&memory, length_bytes)?;
        let zeroes = vec![0; PIECE_BYTES];
        held_signals::without(&[libc::SIGXFSZ], || {
            let mut at_bytes = 0;
            while at_bytes < length_bytes {
                let piece = &zeroes[..PIECE_BYTES.min(length_bytes - at_bytes)];
                at_bytes += pwrite(&memory, piece, at_bytes as u64)?;
            }
            Ok::<(), io::Error>(())
        })?;
        *spare = Some((memory, length_bytes));
        Ok(())
    }
}

fn make(pages: MemfdFlags) -> io::Result<OwnedFd> {
    Ok(memfd_create(c"nearwire-packets", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | pages)?)
}

#[cfg(test)]
mod tests {
    use rustix::fs::fstat;

    use super::*;

    #[test]
    fn memory_prepared_is_taken_once_and_has_its_pages() {
        let (spare, length_bytes) = (Spare(Mutex::new(None)), PIECE_BYTES + 5000);
        spare.prepare(length_bytes).unwrap();
        let stat = fstat(spare.take(length_bytes).unwrap()).unwrap();
        assert_eq!((stat.st_size as usize, stat.st_blocks as usize * 512 >= length_bytes), (length_bytes, true));
        assert!(spare.take(length_bytes).is_none());
    }

    #[test]
    fn memory_prepared_is_left_for_a_port_by_who_needs_little() {
        let (spare, length_bytes) = (Spare(Mutex::new(None)), PIECE_BYTES);
        spare.prepare(length_bytes).unwrap();
        assert!(spare.take(3 * 4096).is_none());
        assert!(spare.take(length_bytes - 4096).is_some());
    }
}
