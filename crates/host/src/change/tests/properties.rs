//! Random plans, faults and strangers: what was written goes back, what others wrote stays.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rustix::io::Errno;

use super::super::simulated::{AFTER_ONLINE, Fault, Faulty, MemoryHost, SECOND_THREADS};
use super::*;
use crate::CpuSet;

/// Places of every kind on two devices.
fn pool() -> Vec<(&'static str, Target)> {
    let mut pool = vec![
        ("vm.swappiness", sysctl("vm.swappiness")),
        ("net.core.busy_read", sysctl("net.core.busy_read")),
        ("cpu.isolated", Target::Partition { path: "/sys/fs/cgroup/nearwire.isolated".into() }),
        ("cpu.governor[cpu1]", governor(1)),
        ("cpu.energy-performance-preference[cpu1]", of_cpu(1, "cpufreq/energy_performance_preference")),
        ("cpu.smt", smt()),
        ("cpu.governor[cpu5]", governor(5)),
        ("cpu.energy-performance-bias[cpu5]", bias(5)),
        ("cpu.energy-performance-bias[cpu6]", bias(6)),
    ];
    for interface in ["eth4", "eth5"] {
        let ids = match interface {
            "eth4" => [
                "nic.ring.rx[eth4]",
                "nic.coalesce.rx-frames[eth4]",
                "nic.irq-affinity[eth4/vector0]",
                "nic.irq-affinity[eth4/vector1]",
            ],
            _ => [
                "nic.ring.rx[eth5]",
                "nic.coalesce.rx-frames[eth5]",
                "nic.irq-affinity[eth5/vector0]",
                "nic.irq-affinity[eth5/vector1]",
            ],
        };
        pool.push((ids[0], ring(interface)));
        pool.push((ids[1], coalesce(interface, CoalesceField::RxFrames)));
        pool.push((ids[2], vector(interface, 0)));
        pool.push((ids[3], vector(interface, 1)));
    }
    pool
}

/// For each place of the pool: in the plan or not, value found, value wanted.
fn plans() -> impl Strategy<Value = Vec<Change>> {
    let places = pool().len();
    proptest::collection::vec((any::<bool>(), 1..6u32, 1..6u32), places).prop_map(|values| {
        let named = pool().into_iter().zip(values).filter(|(_, (is_in, ..))| *is_in);
        let mut plan: Vec<Change> = named
            .map(|((id, target), (_, found, wanted))| {
                let (found, wanted) = words(&target, found, wanted);
                change(id, target, &found, &wanted)
            })
            .collect();
        // What cannot be read when the plan is made is not in it.
        if plan.iter().any(|change| change.id == "cpu.smt" && change.found == "off") {
            plan.retain(|change| !is_of_second_thread(&change.target));
        }
        plan
    })
}

/// A value found and one wanted. A thread that was never offline has what the kernel starts with.
fn words(target: &Target, found: u32, wanted: u32) -> (String, String) {
    let switch = |number: u32| if number.is_multiple_of(2) { "off" } else { "on" }.to_owned();
    match () {
        () if *target == smt() => (switch(found), switch(wanted)),
        () if is_of_second_thread(target) => (AFTER_ONLINE.to_owned(), wanted.to_string()),
        () => (found.to_string(), wanted.to_string()),
    }
}

fn is_of_second_thread(target: &Target) -> bool {
    target.cpu().is_some_and(|cpu| SECOND_THREADS.contains(&cpu))
}

/// Whether the change is left out because the plan takes its CPU offline.
fn is_left_out(plan: &[Change], change: &Change) -> bool {
    let goes_off = |change: &Change| change.id == "cpu.smt" && change.found == "on" && change.wanted == "off";
    let is_of_cpus = matches!(change.target, Target::Irq { .. } | Target::Partition { .. });
    let is_for_second = is_of_cpus && matches!(change.wanted.as_str(), "4" | "5");
    (is_for_second || is_of_second_thread(&change.target)) && plan.iter().any(goes_off)
}

fn faults() -> impl Strategy<Value = Fault> {
    prop_oneof![
        proptest::sample::select(vec![Errno::INVAL, Errno::BUSY, Errno::IO, Errno::PERM, Errno::NODEV])
            .prop_map(Fault::Refuse),
        Just(Fault::Ignore),
        Just(Fault::Round("99".into())),
    ]
}

fn with_all_vectors(mut plan: Vec<Change>, host: &mut MemoryHost) -> Vec<Change> {
    for (id, target) in pool() {
        if !host.values.contains_key(&target.key()) {
            let (value, _) = words(&target, 3, 3);
            host.set(&target, &value);
        }
        if id.contains("irq") && !plan.iter().any(|change| change.id == id) {
            let value = host.values[&target.key()].clone();
            plan.push(change(id, target, &value, &value));
        }
    }
    plan
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn plan_with_a_fault_at_any_write_is_all_or_nothing(plan in plans(), at in 0..14usize, fault in faults()) {
        let directory = directory();
        let mut host = host_of(&plan);
        let plan = with_all_vectors(plan, &mut host);
        let before = host.values.clone();
        let mut host = Faulty::new(host, vec![(at, fault)]);
        let mut journal = journal(directory.path());
        match apply(&mut host, &mut journal, plan.clone(), &ApplyOptions::strict(1, None)) {
            Ok(applied) => {
                prop_assert!(applied.moved.is_empty() || at < host.writes);
                for change in plan.iter().filter(|change| !change.is_as_wanted() && !is_left_out(&plan, change)) {
                    prop_assert!(change.target.accepts(&change.wanted, &host.inner.values[&change.target.key()]));
                }
            }
            Err(_) => prop_assert_eq!(&host.inner.values, &before),
        }
        let written = host.writes;
        if let Ok(reverted) = revert(&mut host, &mut journal, 2, RevertOptions::default()) {
            let is_hit = (written..host.writes).contains(&at);
            prop_assert!(reverted.is_complete || is_hit, "{:?}", reverted);
        }
        // The fault is over: whichever way it went, a second one settles it and a third finds nothing.
        let _ = revert(&mut host, &mut journal, 2, RevertOptions::default());
        prop_assert_eq!(&host.inner.values, &before);
        prop_assert!(matches!(revert(&mut host, &mut journal, 3, RevertOptions::default()), Err(RevertError::Nothing)));
    }

    #[test]
    fn values_of_strangers_are_kept_and_all_others_put_back(
        plan in plans(),
        strangers in proptest::collection::vec(any::<bool>(), 17),
    ) {
        let directory = directory();
        let mut host = host_of(&plan);
        let plan = with_all_vectors(plan, &mut host);
        let mut expected: BTreeMap<_, _> = host.values.clone();
        let mut journal = journal(directory.path());
        apply(&mut host, &mut journal, plan.clone(), &ApplyOptions::strict(1, None)).unwrap();
        let is_left = host.values.get(&smt().key()).is_some_and(|control| control == "off");
        let is_open = |target: &Target| *target != smt() && !(is_left && is_of_second_thread(target));
        for ((_, target), _) in pool().iter().zip(strangers).filter(|((_, target), is_changed)| *is_changed && is_open(target)) {
            host.set(target, "77");
            expected.insert(target.key(), "77".to_owned());
        }
        if let Ok(reverted) = revert(&mut host, &mut journal, 2, RevertOptions::default()) {
            prop_assert!(reverted.is_complete);
        }
        prop_assert_eq!(&host.values, &expected);
    }

    /// Killed between any two of its host calls, an apply leaves a journal that puts all back.
    #[test]
    fn apply_cut_off_after_any_write_reverts_to_identity(plan in plans(), after in 0..14usize) {
        let directory = directory();
        let mut host = host_of(&plan);
        let plan = with_all_vectors(plan, &mut host);
        let before = host.values.clone();
        let cut = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut host = Dying { inner: &mut host, after, writes: 0 };
            let _ = apply(&mut host, &mut journal(directory.path()), plan, &ApplyOptions::strict(1, None));
        }));
        let mut journal = journal(directory.path());
        if cut.is_err() {
            prop_assert!(journal.content().is_interrupted());
        }
        let _ = revert(&mut host, &mut journal, 2, RevertOptions::default());
        prop_assert_eq!(&host.values, &before);
    }
}

/// Unwinds after a write, as a kill would: without any of the engine's own clean-up.
struct Dying<'a> {
    inner: &'a mut MemoryHost,
    after: usize,
    writes: usize,
}

impl Host for Dying<'_> {
    fn read(&mut self, target: &Target) -> Result<String, HostError> {
        self.inner.read(target)
    }

    fn write(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.inner.write(target, word)?;
        self.writes += 1;
        if self.writes > self.after {
            std::panic::resume_unwind(Box::new("killed"));
        }
        Ok(())
    }

    fn probe(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.inner.probe(target, word)
    }

    fn cpus_taken_offline(&mut self, change: &Change) -> CpuSet {
        self.inner.cpus_taken_offline(change)
    }
}
