//! The host's table of threads that spin: words in a file that all programs of a user map, a thread each. Those of other users are read
//! ([`others`]).
//!
//! A word is the time it was last written, milliseconds, and the only CPU that the thread may run on. A thread writes it every
//! few milliseconds while it spins, so what a process leaves that was killed is old soon. Programs that run in containers with
//! a `/dev/shm` of their own do not see each other; that they take CPU time from one another is then seen by being preempted.

mod others;

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use nearwire_sys::shared_words::SharedWords;
use rustix::thread::{CpuSet, sched_getaffinity};

use super::online_cpus;
use others::Others;

const WORDS: usize = 256;
/// A thread that has not said for so long that it spins does not.
const OLD_MS: u64 = 50;
const CPU_BITS: u32 = 16;
const ANY_CPU: u64 = (1 << CPU_BITS) - 1;

/// Where the tables are, and what their names begin with; the user's number follows.
const DIRECTORY: &str = "/dev/shm";
const PREFIX: &str = "nearwire-spinners-";

static TABLE: OnceLock<Table> = OnceLock::new();

/// Maps the table. Where that is forbidden the threads of this process alone are in it.
pub fn open() {
    TABLE.get_or_init(|| Table::open_in(DIRECTORY, online_cpus()));
}

/// The table of the process's user, and the other ones.
struct Table {
    words: SharedWords,
    cpus: u32,
    others: Others,
}

impl Table {
    fn open_in(directory: &'static str, cpus: u32) -> Table {
        let path = format!("{directory}/{PREFIX}{}", rustix::process::geteuid().as_raw());
        let opened = SharedWords::in_file(path.as_ref(), WORDS);
        // A file that was not mapped is another one's.
        let own = opened.as_ref().ok().and_then(|_| rustix::fs::lstat(&path).ok()).map(|found| found.st_ino);
        let words = opened.unwrap_or_else(|_| SharedWords::private(WORDS));
        Table { words, cpus, others: Others::new(directory, own) }
    }
}

/// A thread's place in the table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Where, and what was written last; 0: nowhere.
    at: usize,
    word: u64,
}

impl Place {
    /// In no table.
    pub const NONE: Place = Place { at: 0, word: 0 };

    /// The thread spins; whether there is a CPU for each that does.
    pub fn spins(&mut self, now_ns: u64) -> bool {
        TABLE.get().is_none_or(|table| self.spins_beside(table, only_cpu(), now_ns / 1_000_000))
    }

    /// The thread spins, whether or not there is room.
    pub fn tells(&mut self, now_ns: u64) {
        if let Some(table) = TABLE.get() {
            self.count_in(&table.words, only_cpu(), now_ns / 1_000_000);
        }
    }

    /// It does not.
    pub fn sleeps(&mut self) {
        if let Some(table) = TABLE.get() {
            self.sleeps_in(&table.words);
        }
    }

    fn spins_beside(&mut self, table: &Table, only_cpu: u64, now_ms: u64) -> bool {
        let Some(own) = self.count_in(&table.words, only_cpu, now_ms) else { return false };
        let others = table.others.count(only_cpu, now_ms);
        Live { all: own.all + others.all, on_cpu: own.on_cpu + others.on_cpu }.have_room(table.cpus, only_cpu)
    }

    /// Says so, and counts. A child of fork has its parent's place: the one of the two that writes first keeps it. `None`: the table is full.
    fn count_in(&mut self, words: &[AtomicU64], only_cpu: u64, now_ms: u64) -> Option<Live> {
        // Never 0.
        let own = (now_ms + 1) << CPU_BITS | only_cpu;
        let swap = |at: usize, from: u64| words[at].compare_exchange(from, own, Relaxed, Relaxed).is_ok();
        if self.word == 0 || !swap(self.at, self.word) {
            let free = words.iter().enumerate().find(|(at, word)| {
                let found = word.load(Relaxed);
                !is_live(found, now_ms) && swap(*at, found)
            });
            self.at = free?.0;
        }
        self.word = own;
        let live = || words.iter().map(|word| word.load(Relaxed)).filter(|word| is_live(*word, now_ms));
        Some(Live { all: live().count(), on_cpu: live().filter(|word| word & ANY_CPU == only_cpu).count() })
    }

    fn sleeps_in(&mut self, words: &[AtomicU64]) {
        if self.word != 0 {
            let _ = words[self.at].compare_exchange(self.word, 0, Relaxed, Relaxed);
            self.word = 0;
        }
    }
}

/// Threads that spin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Live {
    all: usize,
    /// Of these, that may only run on the one CPU of the thread that asks.
    on_cpu: usize,
}

impl Live {
    /// Whether there is a CPU for each.
    fn have_room(self, cpus: u32, only_cpu: u64) -> bool {
        self.all <= cpus as usize && (only_cpu == ANY_CPU || self.on_cpu <= 1)
    }
}

fn is_live(word: u64, now_ms: u64) -> bool {
    let age_ms = (now_ms + 1).wrapping_sub(word >> CPU_BITS);
    // Another thread may have read the clock later.
    word != 0 && (age_ms <= OLD_MS || age_ms.wrapping_neg() <= OLD_MS)
}

/// Whether the calling thread may run on several CPUs.
pub fn is_movable() -> bool {
    only_cpu() == ANY_CPU
}

/// The CPU of a thread that is pinned to one.
fn only_cpu() -> u64 {
    let Ok(set) = sched_getaffinity(None) else { return ANY_CPU };
    let only = || (0..CpuSet::MAX_CPU).find(|cpu| set.is_set(*cpu)).map_or(ANY_CPU, |cpu| cpu as u64);
    if set.count() == 1 { only() } else { ANY_CPU }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUS: u32 = 2;

    impl Place {
        fn spins_in(&mut self, words: &[AtomicU64], cpus: u32, only_cpu: u64, now_ms: u64) -> bool {
            self.count_in(words, only_cpu, now_ms).is_some_and(|live| live.have_room(cpus, only_cpu))
        }
    }

    fn table() -> Vec<AtomicU64> {
        (0..8).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn more_spinners_than_cpus_have_no_room_until_one_sleeps() {
        let (words, mut places) = (table(), [Place::NONE; 3]);
        let [one, two, three] = &mut places;
        assert!(one.spins_in(&words, CPUS, ANY_CPU, 1000) && two.spins_in(&words, CPUS, ANY_CPU, 1000));
        assert!(!three.spins_in(&words, CPUS, ANY_CPU, 1001));
        assert!(!one.spins_in(&words, CPUS, ANY_CPU, 1002), "the first sees it too");
        three.sleeps_in(&words);
        assert!(one.spins_in(&words, CPUS, ANY_CPU, 1003));
    }

    #[test]
    fn two_spinners_pinned_to_one_cpu_have_no_room_though_another_is_free() {
        let (words, mut places) = (table(), [Place::NONE; 3]);
        let [one, two, three] = &mut places;
        assert!(one.spins_in(&words, 4, 0, 1000) && two.spins_in(&words, 4, 1, 1000));
        assert!(!three.spins_in(&words, 4, 1, 1000));
    }

    #[test]
    fn spinner_that_was_killed_is_forgotten() {
        let (words, mut places) = (table(), [Place::NONE; 3]);
        let [one, two, three] = &mut places;
        one.spins_in(&words, CPUS, ANY_CPU, 1000);
        assert!(two.spins_in(&words, CPUS, ANY_CPU, 1040));
        assert!(!three.spins_in(&words, CPUS, ANY_CPU, 1040));
        assert!(three.spins_in(&words, CPUS, ANY_CPU, 1040 + OLD_MS - 30), "the first is gone");
    }

    #[test]
    fn child_of_fork_gets_a_place_of_its_own() {
        let (words, mut parent) = (table(), Place::NONE);
        parent.spins_in(&words, CPUS, ANY_CPU, 1000);
        let mut child = parent;
        assert!(parent.spins_in(&words, CPUS, ANY_CPU, 1001) && child.spins_in(&words, CPUS, ANY_CPU, 1002));
        assert_eq!(words.iter().filter(|word| word.load(Relaxed) != 0).count(), 2);
    }

    #[test]
    fn full_table_has_no_room() {
        let words = table();
        let mut places = [Place::NONE; 9];
        let room: Vec<bool> = places.iter_mut().map(|place| place.spins_in(&words, 100, ANY_CPU, 1000)).collect();
        assert_eq!(room.iter().filter(|room| **room).count(), 8);
    }
}
