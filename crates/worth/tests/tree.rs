//! A whole measurement of a copy of a host's files, by way of the journal: what is read back from them decides how quick the subject is.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nearwire_bench::order::Order;
use nearwire_host::change::RootHost;
use nearwire_host::journal::{HostIdentity, Journal};
use nearwire_host::profile::Wanted;
use nearwire_host::tune::prepare;
use nearwire_host::{Goal, Root, catalogue};
use nearwire_worth::cable_host::CableHost;
use nearwire_worth::result::{Candidate, Measured, Worth};
use nearwire_worth::run::{Observer, Schedule, measure};
use nearwire_worth::switch::{Command, JournalSwitch, Keep, Placed};
use nearwire_worth::verdict::{Strictness, Verdict};
use nearwire_worth::{Figure, Figures, Subject, SubjectError};

const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const FILES: [(&str, &str); 8] = [
    ("sys/devices/system/cpu/online", "0-1\n"),
    ("sys/devices/system/cpu/present", "0-1\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors", "performance powersave\n"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_available_governors", "performance powersave\n"),
    (THP, "[always] madvise never\n"),
    ("proc/sys/vm/swappiness", "60\n"),
];
/// What is wanted, and what it does to latencies: nothing where it is 1.
const WANTED: [(&str, &str, f64); 3] =
    [("cpu.governor", "performance", 0.7), ("memory.thp", "never", 1.2), ("vm.swappiness", "10", 1.0)];
const FOUND_NS: f64 = 2_000.0;
const NOISE: f64 = 0.02;

struct Copy(tempfile::TempDir);

impl Copy {
    fn new() -> Self {
        let copy = Self(tempfile::tempdir().unwrap());
        for (path, text) in FILES {
            let file = copy.root().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        copy
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    fn host(&self) -> Root {
        Root::directory(self.root()).unwrap()
    }

    fn texts(&self) -> BTreeMap<PathBuf, String> {
        let mut texts = BTreeMap::new();
        let mut directories = vec![self.root()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    texts.insert(path.clone(), fs::read_to_string(&path).unwrap());
                }
            }
        }
        texts
    }
}

/// A program whose messages take as long as the files of the copy say.
struct Program {
    root: PathBuf,
    order: Order,
    /// Each way in which the files were found.
    seen: Rc<RefCell<Vec<String>>>,
}

impl Program {
    fn text(&self, path: impl AsRef<Path>) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    /// Between -1 and 1.
    fn random(&mut self) -> f64 {
        (self.order.number() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

impl Subject for Program {
    fn name(&self) -> String {
        "program".to_owned()
    }

    fn run(&mut self) -> Result<Figures, SubjectError> {
        let governor = |cpu| self.text(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"));
        let governors = [governor(0), governor(1)];
        let (thp, swappiness) = (self.text(THP), self.text("proc/sys/vm/swappiness"));
        // It has a CPU for each of its ends, and is as quick as the slower one.
        let is_quick = governors.iter().all(|governor| governor.trim() == "performance");
        let is_without_pages = thp.contains("[never]");
        let is = [is_quick, is_without_pages, swappiness.trim() == "10"];
        let factor: f64 = WANTED.iter().zip(is).filter(|(_, is)| *is).map(|((.., factor), _)| factor).product();
        self.seen.borrow_mut().push(format!("{is:?}"));
        let noise = 1.0 + NOISE * self.random();
        Ok(Figures::from([(Figure::P50Ns, FOUND_NS * factor * noise)]))
    }
}

struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: usize, _: usize, _: &str) {}
    fn note(&mut self, _: &str) {}
}

fn placed(host: &mut RootHost, (id, value, _): (&str, &str, f64)) -> Placed {
    let goal = Goal {
        setting: catalogue::setting(id).unwrap(),
        interface: None,
        cpus: None,
        value: value.to_owned(),
        wanted: Wanted::Equal(value.to_owned()),
        reason: "A reason.".to_owned(),
    };
    let prepared = prepare(host, &[goal], &[]);
    assert!(prepared.failed.is_empty() && !prepared.changes.is_empty(), "{id}: {prepared:?}");
    Placed::Written { changes: prepared.changes, keep: Keep::OnDisk }
}

#[test]
fn settings_of_a_copy_that_its_program_depends_on_are_found_and_the_copy_is_as_before() {
    let copy = Copy::new();
    let before = copy.texts();
    let mut host = RootHost::new(copy.host());
    let journal = Journal::open(&copy.0.path().join("journal"), HostIdentity::of(host.root())).unwrap();
    let settings: Vec<Placed> = WANTED.into_iter().map(|wanted| placed(&mut host, wanted)).collect();
    let candidate = |(id, to, _): (&str, &str, f64)| Candidate { id: id.into(), from: "found".into(), to: to.into() };
    let candidates: Vec<Candidate> = WANTED.into_iter().map(candidate).collect();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let program = Program { root: copy.root(), order: Order::new(7), seen: Rc::clone(&seen) };
    let mut subjects: Vec<Box<dyn Subject>> = vec![Box::new(program)];
    let measured: Measured = {
        let host = CableHost::of(copy.host());
        let mut switch = JournalSwitch::new(Command::TuneMeasure, host, journal, settings, &|| false, &|_| {});
        let schedule = Schedule { rounds: 8, passes: 6, seed: 7, strictness: Strictness::default() };
        measure(&candidates, &mut switch, &mut subjects, schedule, &mut Silent, &|| false)
    };
    assert_eq!(measured.failure, None);

    let effect = |worth: &Worth| worth.on[0].effect(Figure::P50Ns).unwrap().clone();
    let verdicts = [Verdict::Better, Verdict::Worse, Verdict::NoEffect];
    for ((worth, (id, _, factor)), verdict) in measured.settings.iter().zip(WANTED).zip(verdicts) {
        let effect = effect(worth);
        assert_eq!((&worth.candidate.id[..], effect.verdict), (id, verdict), "{effect:?}");
        let planted_ns = FOUND_NS * (factor - 1.0);
        assert!((effect.change - planted_ns).abs() < 0.03 * FOUND_NS, "{id}: {planted_ns} {effect:?}");
    }
    // Both of an effect were measured together, too.
    assert!(seen.borrow().iter().any(|is| is == "[true, true, false]"));
    assert_eq!(copy.texts(), before);
    assert!(!copy.0.path().join("journal/journal").exists());
}
