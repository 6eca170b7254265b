//! Words of 64 bits in a shared mapping without a file: what a process tells about itself, to be read by others through
//! `/proc/PID/mem`, or what two processes tell each other that both map it.
//!
//! Sources: memfd_create(2), mmap(2), madvise(2), fcntl(2) (file sealing), `Documentation/filesystems/proc.rst` (`maps`, `mem`).

use std::ffi::CStr;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

use rustix::fs::{
    FallocateFlags, FileType, MemfdFlags, Mode, OFlags, SealFlags, fallocate, fchmod, fcntl_add_seals, fcntl_get_seals,
    fstat, ftruncate, memfd_create, open,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::process::geteuid;

use crate::bpf::Map;
use crate::held_signals;

/// What keeps a file as long as it is.
const LENGTH_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A shared mapping of words, zero at first; unmapped when dropped. In `/proc/PID/maps` it is called
/// `/memfd:NAME (deleted)`.
#[derive(Debug)]
pub struct SharedWords {
    begin: NonNull<AtomicU64>,
    words: usize,
    is_mapping: bool,
}

// SAFETY: the mapping belongs to the value alone, is reached only through shared references to atomics, and stays at its
// place until the value is dropped, whichever thread does that.
unsafe impl Send for SharedWords {}
// SAFETY: as above; all that a shared reference gives are atomics, which any number of threads may use.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps `words` words under a name. The descriptor is closed at once: nothing of the program's can close or
    /// inherit it. Pages are taken when they are first written.
    ///
    /// # Errors
    /// `EINVAL` for no words or a name longer than 249 bytes; `EFBIG` where a limit (`RLIMIT_FSIZE`) is lower; `ENOSYS` where a sandbox forbids memfd_create(2); `ENOMEM`,
    /// `EMFILE`, `ENFILE`.
    pub fn create(name: &CStr, words: usize) -> io::Result<SharedWords> {
        let length_bytes = length_of(words)?;
        let memory = memfd_create(name, MemfdFlags::CLOEXEC)?;
        set_length(&memory, length_bytes)?;
        // SAFETY: the file is as long as the mapping and nobody can shorten it: its only descriptor closes below.
        unsafe { map(&memory, words) }
    }

    /// The same with the descriptor, by which another process can [map it too](SharedWords::open). The length is sealed: no
    /// holder of the descriptor can shorten it, which would make a touch of what is cut off SIGBUS.
    ///
    /// A page is taken when it is first touched, and where the system has none left that is SIGBUS: fallocate(2) takes them
    /// before, and fails instead.
    ///
    /// # Errors
    /// As [`SharedWords::create`].
    pub fn create_to_share(name: &CStr, words: usize) -> io::Result<(SharedWords, OwnedFd)> {
        let length_bytes = length_of(words)?;
        let memory = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        set_length(&memory, length_bytes)?;
        fcntl_add_seals(&memory, LENGTH_SEALS)?;
        // SAFETY: the file is as long as the mapping, and its seals keep it so.
        let mapped = unsafe { map(&memory, words) }?;
        Ok((mapped, memory))
    }

    /// Maps words that another process made by [`SharedWords::create_to_share`], all of them. What they hold may come from
    /// anybody.
    ///
    /// # Errors
    /// `EINVAL` for a file whose length is not sealed, is none, or is not one of whole words; else as mmap(2).
    pub fn open(memory: impl AsFd) -> io::Result<SharedWords> {
        // Sealed first: the length that is read after that stays.
        if !fcntl_get_seals(&memory)?.contains(SealFlags::SHRINK) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let length_bytes = usize::try_from(fstat(&memory)?.st_size).unwrap_or(0);
        let words = length_bytes / size_of::<AtomicU64>();
        if length_of(words)? != length_bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the file is as long as the mapping, and its seals keep it so.
        unsafe { map(&memory, words) }
    }

    /// Maps the values of an array that BPF programs use too, one behind the other, each of whole words. They live as long as the
    /// mapping, whatever becomes of the map's descriptor.
    ///
    /// # Errors
    /// `EINVAL` for a map of another kind than [`MapKind::SharedArray`](crate::bpf::MapKind); else as mmap(2).
    pub fn of_array(map_of_words: &Map) -> io::Result<SharedWords> {
        let words = map_of_words.mappable_bytes() / size_of::<AtomicU64>();
        // SAFETY: the kernel keeps as many bytes for an array of this size, and an array never changes its size.
        unsafe { map(map_of_words, words) }
    }

    /// The same of an array whose fd another process gave, as long as that one says.
    ///
    /// # Errors
    /// `EINVAL` for no words, or an array that is shorter by a page; else as mmap(2).
    pub fn of_array_fd(array: impl AsFd, words: usize) -> io::Result<SharedWords> {
        length_of(words)?;
        // SAFETY: the kernel refuses to map more pages than an array has (`array_map_mmap` in kernel/bpf/arraymap.c), and an array never changes
        // its size. What is no array is a file of the process that gave it, which may end this one by shortening it, and no worse.
        unsafe { map(array, words) }
    }

    /// Maps words of a file that all processes of the calling user share, and that those of others may read; it is made where there is
    /// none. What they hold may come from any of them. Its pages are taken at once, so that no touch is SIGBUS for want of memory.
    ///
    /// # Errors
    /// `EPERM` for a file of another user, or one that is no regular file; else as open(2), fallocate(2) and mmap(2).
    pub fn in_file(path: &Path, words: usize) -> io::Result<SharedWords> {
        let length_bytes = length_of(words)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = open(path, flags, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH)?;
        let found = fstat(&file)?;
        if found.st_uid != geteuid().as_raw() || FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let readable = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        if !Mode::from_raw_mode(found.st_mode).contains(readable) {
            // The umask kept others out, or an earlier version. Where it cannot be changed others do not see the words.
            let _ = fchmod(&file, readable);
        }
        fallocate(&file, FallocateFlags::empty(), 0, length_bytes as u64)?;
        // SAFETY: the file is as long. Only processes of the same user can shorten it, which may end this one anyway.
        unsafe { map(&file, words) }
    }

    /// Words in memory of the process alone, which nobody finds by a name: where [`SharedWords::create`] is forbidden.
    #[must_use]
    pub fn private(words: usize) -> SharedWords {
        let boxed: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        SharedWords { begin: NonNull::from(Box::leak(boxed)).cast(), words, is_mapping: false }
    }

    /// Leaves the mapping out of children that fork(2) makes. A child must then not touch it: it is not there, and a touch
    /// is SIGSEGV; the child makes its own, and keeps this value from being dropped (`mem::forget`).
    ///
    /// # Errors
    /// As madvise(2).
    pub fn dont_fork(&self) -> io::Result<()> {
        if !self.is_mapping {
            return Ok(());
        }
        // SAFETY: begin and length are those of a mapping of ours, and MADV_DONTFORK changes nothing in this process.
        unsafe { madvise(self.begin.as_ptr().cast(), self.length_bytes(), Advice::LinuxDontFork) }?;
        Ok(())
    }

    fn length_bytes(&self) -> usize {
        self.words * size_of::<AtomicU64>()
    }
}

/// Makes memory so long, without SIGXFSZ for a program that may not write files as long.
///
/// # Errors
/// `EFBIG` for such a program.
pub fn set_length(memory: impl AsFd, length_bytes: usize) -> io::Result<()> {
    held_signals::without(&[libc::SIGXFSZ], || Ok(ftruncate(&memory, length_bytes as u64)?))
}

fn length_of(words: usize) -> io::Result<usize> {
    let length_bytes = words.checked_mul(size_of::<AtomicU64>()).filter(|bytes| *bytes > 0);
    length_bytes.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Maps so many words from the start of a file.
///
/// # Safety
/// The file is as long, and stays so.
unsafe fn map(memory: impl AsFd, words: usize) -> io::Result<SharedWords> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: without MAP_FIXED the kernel chooses a place that nothing else has, so that no memory of this process
    // changes.
    let place = unsafe { mmap(null_mut(), length_of(words)?, protection, MapFlags::SHARED, memory, 0) }?;
    match NonNull::new(place.cast()) {
        Some(begin) => Ok(SharedWords { begin, words, is_mapping: true }),
        None => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is this long, begins at a page and so is aligned (private words are a slice as it was made),
        // is zero or was written through these atomics, for which every value is valid, and lives as long as `self`. What others do
        // to it through their own mapping or /proc/PID/mem are stores to shared memory, for which atomics are made.
        unsafe { std::slice::from_raw_parts(self.begin.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        if !self.is_mapping {
            let boxed = std::ptr::slice_from_raw_parts_mut(self.begin.as_ptr(), self.words);
            // SAFETY: begin and length are those of the box that `private` gave up, and no reference outlives `self`.
            drop(unsafe { Box::from_raw(boxed) });
            return;
        }
        // SAFETY: the mapping is ours, and no reference into it outlives `self`. A failure leaves it mapped, which harms
        // nobody.
        let _ = unsafe { munmap(self.begin.as_ptr().cast(), self.length_bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    fn lines_of(name: &str) -> Vec<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains(&format!("/memfd:{name} "))).map(str::to_owned).collect()
    }

    #[test]
    fn words_created_are_zero_and_found_by_name_without_a_descriptor() {
        let words = SharedWords::create(c"nw-test-found", 1000).unwrap();
        assert_eq!(words.len(), 1000);
        assert!(words.iter().all(|word| word.load(Relaxed) == 0));
        let lines = lines_of("nw-test-found");
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("rw-s"), "{lines:?}");
        let targets = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let links: Vec<_> = targets.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
        assert!(!links.iter().any(|link| link.to_string_lossy().contains("nw-test-found")), "{links:?}");
        drop(words);
        assert_eq!(lines_of("nw-test-found").len(), 0);
    }

    #[test]
    fn word_written_is_read_through_the_process_memory() {
        let words = SharedWords::create(c"nw-test-memory", 16).unwrap();
        words[15].store(0x1122_3344_5566_7788, Relaxed);
        let begin = lines_of("nw-test-memory")[0].split('-').next().map(|hex| u64::from_str_radix(hex, 16)).unwrap();
        let mut bytes = [0; 8];
        let memory = std::fs::File::open("/proc/self/mem").unwrap();
        memory.read_exact_at(&mut bytes, begin.unwrap() + 15 * 8).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), 0x1122_3344_5566_7788);
    }

    #[test]
    fn mapping_not_forked_is_marked_so() {
        let words = SharedWords::create(c"nw-test-fork", 1).unwrap();
        words.dont_fork().unwrap();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let ours = smaps.split_once("/memfd:nw-test-fork ").unwrap().1;
        let flags = ours.lines().find(|line| line.starts_with("VmFlags:")).unwrap();
        assert!(flags.split(' ').any(|flag| flag == "dc"), "{flags}");
    }

    #[test]
    fn words_to_share_are_seen_through_a_second_mapping_and_keep_their_length() {
        let (words, memory) = SharedWords::create_to_share(c"nw-test-share", 1000).unwrap();
        let seen = SharedWords::open(&memory).unwrap();
        assert_eq!(seen.len(), 1000);
        words[999].store(7, Relaxed);
        seen[0].store(8, Relaxed);
        assert_eq!((seen[999].load(Relaxed), words[0].load(Relaxed)), (7, 8));
        for length_bytes in [0, 1 << 20] {
            assert_eq!(ftruncate(&memory, length_bytes), Err(rustix::io::Errno::PERM), "{length_bytes}");
        }
        assert_eq!(fcntl_add_seals(&memory, SealFlags::WRITE), Err(rustix::io::Errno::PERM));
    }

    #[test]
    fn memory_that_could_be_cut_is_not_opened() {
        let unsealed = memfd_create(c"nw-test-unsealed", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&unsealed, 4096).unwrap();
        assert_eq!(SharedWords::open(&unsealed).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        SharedWords::open(std::fs::File::open("/proc/self/exe").unwrap()).unwrap_err();
        for length_bytes in [0, 4097] {
            let odd = memfd_create(c"nw-test-odd", MemfdFlags::ALLOW_SEALING).unwrap();
            ftruncate(&odd, length_bytes).unwrap();
            fcntl_add_seals(&odd, LENGTH_SEALS).unwrap();
            assert_eq!(SharedWords::open(&odd).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{length_bytes}");
        }
    }

    #[test]
    fn private_words_written_are_read_and_have_no_name() {
        let words = SharedWords::private(3);
        words[2].store(7, Relaxed);
        assert_eq!((words.len(), words[2].load(Relaxed), words[0].load(Relaxed)), (3, 7, 0));
        words.dont_fork().unwrap();
    }

    #[test]
    fn no_words_created_is_an_invalid_input() {
        assert_eq!(SharedWords::create(c"x", 0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(SharedWords::create(c"x", usize::MAX).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
