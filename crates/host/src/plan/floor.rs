//! The cores of a host while they are given out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{HostFacts, Owner, PlanError, PlannedCore};
use crate::CpuSet;

/// Who wants cores, and where, for the message when there are not enough.
pub(super) struct Wish<'a> {
    pub who: &'a str,
    pub cpus: u32,
    pub node: Option<u32>,
    pub advice: &'static str,
    /// What to be under one cache with.
    pub near: Near,
}

/// Which of several caches a wish prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Near {
    /// One with so many free cores more, for somebody who comes later.
    Later(usize),
    /// That of the interrupts' CPUs.
    Irq,
}

/// The cores, and who owns which CPU so far.
pub(super) struct Floor {
    pub cores: Vec<PlannedCore>,
    /// CPUs that go offline with SMT.
    pub gone: CpuSet,
    owners: BTreeMap<u32, Owner>,
}

impl Floor {
    /// Siblings that the kernel does not list as each other's, or that are offline, are left out.
    pub fn of(facts: &HostFacts, is_smt_off: bool) -> Self {
        let mut cores: Vec<PlannedCore> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut gone = BTreeSet::new();
        for cpu in facts.topology.cpus() {
            if seen.contains(&cpu.id) {
                continue;
            }
            let is_there = |id: &u32| facts.topology.cpu(*id).is_some() && !seen.contains(id);
            let mut cpus: CpuSet = cpu.siblings.iter().chain([cpu.id]).filter(is_there).collect();
            seen.extend(cpus.iter());
            if is_smt_off {
                // The kernel keeps the first thread of each core (`cpu_smt_disable` of `kernel/cpu.c`).
                gone.extend(cpus.iter().skip(1));
                cpus = cpus.iter().take(1).collect();
            }
            let (package, node, cache_first, is_slow) = (cpu.package, cpu.node, cpu.cache_first, cpu.is_slow);
            let (book_first, drawer_first, rank) = (cpu.book_first, cpu.drawer_first, cpu.rank);
            cores.push(PlannedCore { cpus, package, node, cache_first, book_first, drawer_first, is_slow, rank });
        }
        Self { cores, gone: gone.into_iter().collect(), owners: BTreeMap::new() }
    }

    pub fn owner(&self, cpu: u32) -> Option<&Owner> {
        self.owners.get(&cpu)
    }

    fn is_free(&self, core: &PlannedCore) -> bool {
        core.cpus.iter().all(|cpu| !self.owners.contains_key(&cpu))
    }

    /// Positions of the free cores of a node in order of their numbers; of all for a host without nodes.
    pub fn free(&self, node: Option<u32>) -> Vec<usize> {
        let on_node = self.on_node(node);
        on_node.into_iter().filter(|at| self.is_free(&self.cores[*at])).collect()
    }

    fn on_node(&self, node: Option<u32>) -> Vec<usize> {
        let is_there = |at: &usize| node.is_none() || self.cores[*at].node == node;
        (0..self.cores.len()).filter(is_there).collect()
    }

    pub fn cpus_of(&self, cores: &[usize]) -> CpuSet {
        cores.iter().flat_map(|at| self.cores[*at].cpus.iter()).collect()
    }

    pub fn give(&mut self, cpus: impl IntoIterator<Item = u32>, owner: &Owner) {
        for cpu in cpus {
            self.owners.insert(cpu, owner.clone());
        }
    }

    /// Nodes with online CPUs, ascending.
    pub fn nodes(&self) -> Vec<u32> {
        let mut nodes: Vec<u32> = self.cores.iter().filter_map(|core| core.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Free cores of a node in the order in which a wish for so many of them takes them: fast ones before slow ones,
    /// as few caches as possible, and cores of a high rank before others. Who only wants to be near somebody who comes later
    /// leaves the highest to that one.
    fn in_order(&self, wish: &Wish<'_>, wanted: usize) -> Vec<usize> {
        let (fast, slow): (Vec<usize>, Vec<usize>) =
            self.free(wish.node).into_iter().partition(|at| !self.cores[*at].is_slow);
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut group_of = BTreeMap::new();
        for at in fast {
            // A core whose cache is not known is under that of its node.
            let group = *group_of.entry(self.cores[at].cache_first).or_insert(groups.len());
            match groups.get_mut(group) {
                Some(group) => group.push(at),
                None => groups.push(vec![at]),
            }
        }
        let is_near = |group: &[usize]| match wish.near {
            Near::Later(more) => group.len() >= wanted.saturating_add(more),
            Near::Irq => group.first().is_some_and(|at| self.has_irq(self.cores[*at].cache_first)),
        };
        let rank = |at: &usize| self.cores[*at].rank;
        // Sorting keeps the order of the numbers where nothing else decides.
        groups.iter_mut().for_each(|group| group.sort_by_key(|at| Reverse(rank(at))));
        groups.sort_by_cached_key(|group| {
            let is_enough = group.len() >= wanted;
            let lowest_taken = group.get(wanted.max(1) - 1).map(rank);
            let short = if is_enough { 0 } else { usize::MAX - group.len() };
            (!is_enough, Reverse(is_near(group)), short, Reverse(lowest_taken))
        });
        // What does not fit under one cache stays in its book and drawer where it can.
        let at =
            |group: &Vec<usize>| group.first().map(|at| (self.cores[*at].drawer_first, self.cores[*at].book_first));
        if let Some(home) = groups.first().and_then(at) {
            let distance =
                |group: &Vec<usize>| at(group).map(|(drawer, book)| (drawer != home.0, (drawer, book) != home));
            groups.sort_by_key(distance);
        }
        if let (Near::Later(more), Some(group)) = (wish.near, groups.first_mut())
            && group.first().map(rank) != group.last().map(rank)
            && let Some(over) = group.len().checked_sub(wanted)
        {
            group.rotate_left(more.min(over));
        }
        groups.into_iter().flatten().chain(slow).collect()
    }

    fn has_irq(&self, cache_first: Option<u32>) -> bool {
        let cores = self.cores.iter().filter(|core| core.cache_first == cache_first);
        cores.flat_map(|core| core.cpus.iter()).any(|cpu| self.owner(cpu) == Some(&Owner::Irq))
    }

    /// One CPU of each of so many cores; their siblings become idle.
    pub fn take_alone(&mut self, owner: &Owner, wish: &Wish<'_>) -> Result<Vec<u32>, PlanError> {
        let wanted = usize::try_from(wish.cpus).unwrap_or(usize::MAX);
        let free = self.in_order(wish, wanted);
        if free.len() < wanted {
            return Err(self.not_enough(wish, "each alone on its core"));
        }
        let mut taken = Vec::new();
        for at in &free[..wanted] {
            let mut cpus = self.cores[*at].cpus.clone().iter().collect::<Vec<_>>().into_iter();
            taken.extend(cpus.next());
            self.give(cpus, &Owner::IdleSibling);
        }
        self.give(taken.iter().copied(), owner);
        Ok(taken)
    }

    /// All CPUs of as many cores as it takes, core by core, siblings next to each other; what is
    /// over in the last core becomes idle.
    pub fn take_whole(&mut self, owner: &Owner, wish: &Wish<'_>, aligned: bool) -> Result<Vec<u32>, PlanError> {
        let wanted = usize::try_from(wish.cpus).unwrap_or(usize::MAX);
        let threads = self.cores.iter().map(|core| core.cpus.len()).max().unwrap_or(1).max(1);
        let free = self.in_order(wish, wanted.div_ceil(threads));
        let run = if aligned { self.aligned_run(wish.node, wanted) } else { None };
        let mut cpus = Vec::new();
        for at in run.unwrap_or(free) {
            if cpus.len() >= wanted {
                break;
            }
            cpus.extend(self.cores[at].cpus.iter());
        }
        if cpus.len() < wanted {
            return Err(self.not_enough(wish, "whole cores, both siblings"));
        }
        let over = cpus.split_off(wanted);
        self.give(over, &Owner::IdleSibling);
        self.give(cpus.iter().copied(), owner);
        Ok(cpus)
    }

    /// Free neighbouring cores that begin at a multiple of their number: cores that share a cache
    /// or a cluster come in such groups, and nobody straddles two of them. Fast ones under one cache come first.
    fn aligned_run(&self, node: Option<u32>, wanted: usize) -> Option<Vec<usize>> {
        let cores = self.on_node(node);
        let threads = cores.iter().map(|at| self.cores[*at].cpus.len()).max()?;
        let length = wanted.div_ceil(threads);
        let is_fit = |run: &&[usize]| {
            let cpus: usize = run.iter().map(|at| self.cores[*at].cpus.len()).sum();
            run.iter().all(|at| self.is_free(&self.cores[*at])) && cpus >= wanted
        };
        let is_best = |run: &&[usize]| {
            let caches: BTreeSet<_> = run.iter().map(|at| self.cores[*at].cache_first).collect();
            caches.len() <= 1 && run.iter().all(|at| !self.cores[*at].is_slow) && is_fit(run)
        };
        let runs = || cores.chunks_exact(length);
        runs().find(is_best).or_else(|| runs().find(is_fit)).map(<[usize]>::to_vec)
    }

    fn not_enough(&self, wish: &Wish<'_>, rule: &'static str) -> PlanError {
        let (all, free) = (self.on_node(wish.node), self.free(wish.node));
        PlanError::NotEnoughCpus {
            who: wish.who.to_owned(),
            wanted_cpus: wish.cpus,
            rule,
            node: wish.node,
            free_cores: free.len(),
            free: self.cpus_of(&free),
            cores: all.len(),
            cpus: self.cpus_of(&all).len(),
            advice: wish.advice,
        }
    }
}
