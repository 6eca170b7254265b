//! Threads of other users that spin, by their tables.
//!
//! The files are read, not mapped: a user may shorten his own, and a touch of what is cut off would be SIGBUS in everybody's programs. What
//! they hold is only counted. At worst a user makes others believe that he spins, which he could do as well.
//!
//! Reading takes a microsecond for each user with a table, every 10 ms. The directory is asked whether something in it changed, every
//! second, and searched only if so. Where any of this fails, users do not see each other.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use nearwire_sys::descriptor::place;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, lstat, open, stat};
use rustix::io::pread;

use super::{ANY_CPU, Live, PREFIX, WORDS, is_live};

/// Tables that are read, and of these one user's: he may put others in the place of his own.
const TABLES_MOST: usize = 16;
const TABLES_OF_USER_MOST: usize = 2;
const READ_EVERY_MS: u64 = 10;
const ASK_EVERY_MS: u64 = 1000;
/// A change is followed by so many searches: a new table may not be readable yet at the first, or be made in the same tick of the clock.
const SEARCHES: u32 = 3;
/// Threads take the first places: one read is enough for most tables. It lies on the stack of the program's thread.
const PIECE_BYTES: usize = 512;
const PINNED_WORDS: usize = 16;

/// Another user's table.
#[derive(Debug)]
struct Table {
    user: u32,
    inode: u64,
    file: OwnedFd,
}

/// See the module. Without locks: the child of a fork may have been made at any moment.
#[derive(Debug)]
pub(super) struct Others {
    directory: &'static str,
    /// The inode of the process's own.
    own: Option<u64>,
    tables: [OnceLock<Table>; TABLES_MOST],
    read_ms: AtomicU64,
    asked_ms: AtomicU64,
    /// When the directory was last changed, as far as is known.
    changed: AtomicU64,
    searches: AtomicU32,
    /// What was counted last: threads, and CPUs that one of them may only run on, a bit each.
    live: AtomicUsize,
    pinned: [AtomicU64; PINNED_WORDS],
}

impl Others {
    pub(super) const fn new(directory: &'static str, own: Option<u64>) -> Others {
        Others {
            directory,
            own,
            tables: [const { OnceLock::new() }; TABLES_MOST],
            read_ms: AtomicU64::new(0),
            asked_ms: AtomicU64::new(0),
            changed: AtomicU64::new(0),
            searches: AtomicU32::new(0),
            live: AtomicUsize::new(0),
            pinned: [const { AtomicU64::new(0) }; PINNED_WORDS],
        }
    }

    /// How many spin, as of at most some milliseconds ago.
    pub(super) fn count(&self, only_cpu: u64, now_ms: u64) -> Live {
        if is_due(&self.asked_ms, now_ms, ASK_EVERY_MS) {
            self.ask();
        }
        if is_due(&self.read_ms, now_ms, READ_EVERY_MS) {
            self.read(now_ms);
        }
        let pinned = self.pinned.get((only_cpu / 64) as usize).map_or(0, |word| word.load(Relaxed));
        Live { all: self.live.load(Relaxed), on_cpu: usize::from(pinned >> (only_cpu % 64) & 1 == 1) }
    }

    /// Reads all tables.
    fn read(&self, now_ms: u64) {
        let mut live = 0;
        let mut pinned = [0_u64; PINNED_WORDS];
        for (at, table) in self.known().enumerate() {
            // Two threads may have found it at the same time.
            if self.known().take(at).any(|before| before.inode == table.inode) {
                continue;
            }
            table.each_live(now_ms, |only_cpu| {
                live += 1;
                if let Some(word) = pinned.get_mut((only_cpu / 64) as usize) {
                    *word |= 1 << (only_cpu % 64);
                }
            });
        }
        self.live.store(live, Relaxed);
        self.pinned.iter().zip(pinned).for_each(|(kept, pinned)| kept.store(pinned, Relaxed));
    }

    fn known(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().filter_map(OnceLock::get)
    }

    /// Looks for tables that are new.
    #[cold]
    fn ask(&self) {
        let Ok(found) = stat(self.directory) else { return };
        // Nanoseconds count up in a second: together they are a number that changes.
        let changed = (found.st_mtime as u64).wrapping_mul(1 << 30).wrapping_add(found.st_mtime_nsec);
        if self.changed.swap(changed, Relaxed) != changed {
            self.searches.store(SEARCHES, Relaxed);
        }
        let left = self.searches.load(Relaxed);
        if left > 0 {
            self.searches.store(left - 1, Relaxed);
            self.search();
        }
    }

    fn search(&self) {
        let Ok(entries) = std::fs::read_dir(self.directory) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let user = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
            if let Some(table) = user.and_then(|user| self.open(&entry.path(), user)) {
                let empty = self.tables.iter().find(|place| place.get().is_none());
                // Another thread took it: the next search finds the table.
                let _ = empty.map(|place| place.set(table));
            }
        }
    }

    /// A table that is not known, of the user that its name says.
    fn open(&self, path: &std::path::Path, user: u32) -> Option<Table> {
        let is_table =
            |found: &Stat| found.st_uid == user && FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        let is_new = |inode| self.own != Some(inode) && self.known().all(|known| known.inode != inode);
        // Before it is opened, which devices and queues would notice.
        if !lstat(path).is_ok_and(|found| is_table(&found) && is_new(found.st_ino))
            || self.known().filter(|known| known.user == user).count() >= TABLES_OF_USER_MOST
        {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = place(open(path, flags, Mode::empty()).ok()?);
        let found = fstat(&file).ok().filter(is_table)?;
        is_new(found.st_ino).then_some(Table { user, inode: found.st_ino, file })
    }
}

impl Table {
    /// Calls `take` with the only CPU of each thread that spins.
    fn each_live(&self, now_ms: u64, mut take: impl FnMut(u64)) {
        let mut piece = [0; PIECE_BYTES];
        let mut at = 0;
        while at < WORDS * size_of::<u64>() {
            let read = pread(&self.file, &mut piece, at as u64).unwrap_or(0);
            let words = piece[..read].as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
            let mut any = false;
            for word in words.filter(|word| is_live(*word, now_ms)) {
                any = true;
                take(word & ANY_CPU);
            }
            if !any || read < PIECE_BYTES {
                return;
            }
            at += PIECE_BYTES;
        }
    }
}

/// Whether so long has passed since the last time; of several threads that ask, one gets `true`.
fn is_due(last: &AtomicU64, now_ms: u64, every_ms: u64) -> bool {
    let before = last.load(Relaxed);
    now_ms.abs_diff(before) >= every_ms && last.compare_exchange(before, now_ms, Relaxed, Relaxed).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::super::{Place, Table as Own};
    use super::*;

    const NOBODY: u32 = 65534;
    /// Tells the child of a test where its table is.
    const CHILD_IN: &str = "NEARWIRE_TEST_SPINNERS_IN";

    fn is_root() -> bool {
        let is_root = rustix::process::geteuid().is_root();
        assert!(is_root || std::env::var_os("NEARWIRE_REQUIRE").is_none(), "this test needs root");
        is_root
    }

    /// A directory that lives as long as the process needs it, in which everybody may make files.
    fn directory() -> (tempfile::TempDir, &'static str) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        let path = directory.path().to_str().unwrap().to_owned().leak();
        (directory, path)
    }

    fn word(now_ms: u64, only_cpu: u64) -> [u8; 8] {
        ((now_ms + 1) << super::super::CPU_BITS | only_cpu).to_ne_bytes()
    }

    /// A table with a thread on each of these CPUs.
    fn table(path: &Path, owner: u32, now_ms: u64, on: &[u64]) {
        let words: Vec<u8> = on.iter().flat_map(|cpu| word(now_ms, *cpu)).collect();
        std::fs::write(path, words).unwrap();
        chown(path, Some(owner), None).unwrap();
    }

    fn live(all: usize, on_cpu: usize) -> Live {
        Live { all, on_cpu }
    }

    #[test]
    fn spinners_of_another_user_are_counted_until_they_sleep() {
        if !is_root() {
            return;
        }
        let (kept, path) = directory();
        let others = Others::new(path, None);
        assert_eq!(others.count(ANY_CPU, 1000), live(0, 0));
        let theirs = kept.path().join(format!("{PREFIX}{NOBODY}"));
        table(&theirs, NOBODY, 3000, &[ANY_CPU, 3]);
        assert_eq!(others.count(3, 3000), live(2, 1));
        assert_eq!(others.count(2, 3001), live(2, 0));
        assert_eq!(others.count(3, 3100), live(0, 0), "they have not said so for long");
    }

    #[test]
    fn files_that_are_no_tables_of_their_user_are_not_counted_and_stop_nobody() {
        if !is_root() {
            return;
        }
        let (kept, path) = directory();
        let file = |name: &str| kept.path().join(format!("{PREFIX}{name}"));
        table(&file("1000"), NOBODY, 3000, &[ANY_CPU]);
        table(&file("x"), NOBODY, 3000, &[ANY_CPU]);
        table(&kept.path().join("elsewhere"), 1001, 3000, &[ANY_CPU]);
        symlink(kept.path().join("elsewhere"), file("1001")).unwrap();
        std::fs::create_dir(file("0")).unwrap();
        let fifo = Command::new("mkfifo").arg(file("1002")).status().unwrap();
        assert!(fifo.success() && chown(file("1002"), Some(1002), None).is_ok());
        let others = Others::new(path, None);
        assert_eq!(others.count(ANY_CPU, 3000), live(0, 0));
        assert_eq!(others.known().count(), 0);
    }

    #[test]
    fn table_that_its_user_fills_shortens_or_replaces_harms_nobody() {
        if !is_root() {
            return;
        }
        let (kept, path) = directory();
        let theirs = kept.path().join(format!("{PREFIX}{NOBODY}"));
        let others = Others::new(path, None);
        table(&theirs, NOBODY, 3000, &[u64::from(u16::MAX) - 1; 2 * WORDS]);
        assert_eq!(others.count(ANY_CPU, 3000), live(WORDS, 0), "no more than a table holds");
        let file = std::fs::File::options().write(true).open(&theirs).unwrap();
        file.set_len(13).unwrap();
        assert_eq!(others.count(ANY_CPU, 3020), live(1, 0), "one whole word is left");
        file.write_all_at(&[0xff; 4096], 0).unwrap();
        assert_eq!(others.count(ANY_CPU, 3040), live(0, 0), "no time that was or comes soon");
        for now_ms in (1..10).map(|second| 3000 + 1000 * second) {
            std::fs::remove_file(&theirs).unwrap();
            table(&theirs, NOBODY, now_ms, &[ANY_CPU]);
            others.count(ANY_CPU, now_ms);
        }
        assert_eq!(others.known().count(), TABLES_OF_USER_MOST);
    }

    /// Run as another user, by the test below.
    #[test]
    fn child_spins_where_it_is_told_to() {
        let Ok(directory) = std::env::var(CHILD_IN) else { return };
        let own = Own::open_in(directory.leak(), 2);
        let mut places = [Place::NONE; 2];
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_secs(20) {
            let now_ms = nearwire_sys::tsc::monotonic_raw_ns() / 1_000_000;
            for place in &mut places {
                place.spins_beside(&own, ANY_CPU, now_ms);
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    #[test]
    fn threads_of_two_users_see_that_they_are_more_than_cpus() {
        if !is_root() {
            return;
        }
        let (_kept, path) = directory();
        let own = Own::open_in(path, 2);
        let mut place = Place::NONE;
        let mut spins = || {
            let now_ms = nearwire_sys::tsc::monotonic_raw_ns() / 1_000_000;
            std::thread::sleep(std::time::Duration::from_millis(2));
            place.spins_beside(&own, ANY_CPU, now_ms)
        };
        assert!(spins(), "one thread and two CPUs");
        // Where the other user may execute it.
        let program = Path::new(path).join("program");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let name = "wait::spinners::others::tests::child_spins_where_it_is_told_to";
        let mut child = Command::new(&program);
        child.args(["--exact", name]).env(CHILD_IN, path).uid(NOBODY).gid(NOBODY).current_dir("/");
        let mut child = child.stdout(Stdio::null()).spawn().unwrap();
        let until = |wanted: bool, spins: &mut dyn FnMut() -> bool| {
            let begun = std::time::Instant::now();
            while spins() != wanted {
                assert!(begun.elapsed() < std::time::Duration::from_secs(15), "{wanted}");
            }
        };
        until(false, &mut spins);
        child.kill().unwrap();
        child.wait().unwrap();
        until(true, &mut spins);
    }
}
