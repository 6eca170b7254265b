//! Whole measurements of hosts that are only simulated: what was planted is found, and what was not is not.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::cell::RefCell;
use std::rc::Rc;

use nearwire_bench::order::Order;
use nearwire_worth::result::{Candidate, Measured, Pair, Worth};
use nearwire_worth::run::{Observer, Schedule, Switch, SwitchError, measure};
use nearwire_worth::verdict::{Strictness, Verdict};
use nearwire_worth::{Figure, Figures, Subject, SubjectError};
use proptest::prelude::*;

/// A host whose settings have effects that are known.
struct Simulation {
    /// Of each setting: logarithm of the factor by which its wanted value multiplies latencies.
    effects: Vec<f64>,
    /// What two settings together have beyond the sum.
    together: Vec<(usize, usize, f64)>,
    /// Standard deviation of a run's logarithm.
    noise: f64,
    /// Share of runs that a burst multiplies by up to ten.
    bursts: f64,
    /// Growth of the logarithm with each run.
    drift: f64,
    /// Height of slow waves.
    waves: f64,
    /// Settings that the host refuses.
    refused: Vec<usize>,
    wanted: Vec<usize>,
    runs: u32,
    random: Random,
}

/// Uniform and normal numbers from a seed.
struct Random(Order);

impl Random {
    fn uniform(&mut self) -> f64 {
        ((self.0.number() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.uniform(), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (angle * std::f64::consts::TAU).cos()
    }
}

impl Simulation {
    fn new(effects: &[f64], seed: u64) -> Self {
        Self {
            effects: effects.to_vec(),
            together: Vec::new(),
            noise: 0.02,
            bursts: 0.0,
            drift: 0.0,
            waves: 0.0,
            refused: Vec::new(),
            wanted: Vec::new(),
            runs: 0,
            random: Random(Order::new(!seed)),
        }
    }

    fn figures(&mut self) -> Figures {
        self.runs += 1;
        let time = f64::from(self.runs);
        let mut log = self.drift * time + self.waves * (time / 37.0).sin();
        log += self.wanted.iter().map(|at| self.effects[*at]).sum::<f64>();
        let has = |at: &usize| self.wanted.contains(at);
        log += self.together.iter().filter(|(a, b, _)| has(a) && has(b)).map(|(_, _, more)| more).sum::<f64>();
        let mut noise = |scale: f64| self.noise * scale * self.random.normal();
        let (p50, p99, cpu) = (noise(1.0), noise(2.0), noise(1.0));
        let burst = if self.random.uniform() < self.bursts { self.random.uniform() * 10_f64.ln() } else { 0.0 };
        Figures::from([
            (Figure::P50Ns, 2_000.0 * (log + p50 + burst).exp()),
            (Figure::P99Ns, 9_000.0 * (log + p99 + burst).exp()),
            (Figure::CpuPerMessageNs, 1_500.0 * cpu.exp()),
        ])
    }
}

struct Shared(Rc<RefCell<Simulation>>);

impl Subject for Shared {
    fn name(&self) -> String {
        "simulated".to_owned()
    }

    fn run(&mut self) -> Result<Figures, SubjectError> {
        Ok(self.0.borrow_mut().figures())
    }
}

impl Switch for Shared {
    fn set(&mut self, wanted: &[usize]) -> Result<(), SwitchError> {
        let mut simulation = self.0.borrow_mut();
        if wanted.iter().any(|at| simulation.refused.contains(at)) {
            simulation.wanted.clear();
            return Err(SwitchError::Refused { why: "the host does not take it".to_owned() });
        }
        simulation.wanted = wanted.to_vec();
        Ok(())
    }
}

struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: usize, _: usize, _: &str) {}
    fn note(&mut self, _: &str) {}
}

fn schedule(seed: u64) -> Schedule {
    Schedule { rounds: 8, passes: 6, seed, strictness: Strictness::default() }
}

fn measured(simulation: Simulation, schedule: Schedule) -> Measured {
    measured_until(simulation, schedule, usize::MAX)
}

/// Ctrl-C comes after so many looks.
fn measured_until(simulation: Simulation, schedule: Schedule, looks: usize) -> Measured {
    let id = |at: usize| Candidate { id: format!("vm.planted{at}"), from: "0".to_owned(), to: "1".to_owned() };
    let candidates: Vec<Candidate> = (0..simulation.effects.len()).map(id).collect();
    let simulation = Rc::new(RefCell::new(simulation));
    let mut subjects: Vec<Box<dyn Subject>> = vec![Box::new(Shared(Rc::clone(&simulation)))];
    let looked = RefCell::new(0);
    let must_stop = || {
        *looked.borrow_mut() += 1;
        *looked.borrow() > looks
    };
    let result =
        measure(&candidates, &mut Shared(Rc::clone(&simulation)), &mut subjects, schedule, &mut Silent, &must_stop);
    assert!(simulation.borrow().wanted.is_empty(), "everything is as found at the end");
    result
}

fn verdict(worth: &Worth, figure: Figure) -> Verdict {
    worth.on[0].effect(figure).unwrap().verdict
}

#[test]
fn planted_effects_are_found_with_sign_and_size_among_placebos() {
    for seed in 0..30 {
        let effects = [-0.20, 0.0, 0.15, 0.0, 0.0, -0.08, 0.0, 0.0];
        let result = measured(Simulation::new(&effects, seed), schedule(seed));
        for (worth, planted) in result.settings.iter().zip(effects).filter(|(_, planted)| *planted != 0.0) {
            let effect = worth.on[0].effect(Figure::P50Ns).unwrap();
            let wanted = if planted < 0.0 { Verdict::Better } else { Verdict::Worse };
            assert_eq!(effect.verdict, wanted, "seed {seed}, planted {planted}: {effect:?}");
            let planted_ns = effect.found * planted.exp_m1();
            assert!((effect.change - planted_ns).abs() < 80.0, "seed {seed}: {planted_ns} {effect:?}");
            assert_eq!(verdict(worth, Figure::CpuPerMessageNs), Verdict::NoEffect, "seed {seed}");
        }
    }
}

/// Settings that do nothing and show an effect, and measurements with any such; per cent.
fn false_alarms(make: impl Fn(u64) -> Simulation, placebos: &[usize], seeds: std::ops::Range<u64>) -> (f64, f64) {
    let (mut alarms, mut with_any, count) = (0, 0, seeds.end - seeds.start);
    for seed in seeds {
        let schedule = Schedule { passes: 0, ..schedule(seed) };
        let result = measured(make(seed), schedule);
        let wrong = placebos.iter().filter(|at| result.settings[**at].has_effect()).count();
        alarms += wrong;
        with_any += u32::from(wrong > 0);
    }
    let settings = count as f64 * placebos.len() as f64;
    (alarms as f64 / settings * 100.0, f64::from(with_any) / count as f64 * 100.0)
}

#[test]
fn placebos_alone_give_few_false_alarms_whatever_the_noise() {
    let quiet = |seed| Simulation { noise: 0.01, ..Simulation::new(&[0.0; 10], seed) };
    let loud = |seed| Simulation { noise: 0.10, bursts: 0.15, ..Simulation::new(&[0.0; 10], seed) };
    let moving = |seed| Simulation { drift: 0.002, waves: 0.3, ..Simulation::new(&[0.0; 10], seed) };
    let all: Vec<usize> = (0..10).collect();
    for (name, make) in [("quiet", &quiet as &dyn Fn(u64) -> Simulation), ("loud", &loud), ("moving", &moving)] {
        let (of_settings, with_any) = false_alarms(make, &all, 0..200);
        println!("{name}: {of_settings:.2} % of settings, {with_any:.1} % of measurements");
        assert!(
            of_settings <= 1.5 && with_any <= 8.0,
            "{name}: {of_settings} % of settings, {with_any} % of measurements"
        );
    }
}

#[test]
fn placebos_beside_real_effects_give_at_most_one_false_alarm_in_twenty() {
    let effects = [-0.3, 0.3, -0.2, 0.2, -0.15, 0.0, 0.0, 0.0, 0.0, 0.0];
    let make = |seed| Simulation { bursts: 0.05, ..Simulation::new(&effects, seed) };
    let (of_settings, _) = false_alarms(make, &[5, 6, 7, 8, 9], 0..200);
    println!("{of_settings:.2} % of placebos");
    assert!(of_settings <= 5.0, "{of_settings} % of placebos");
}

#[test]
fn steady_drift_of_half_is_no_effect_and_hides_none() {
    let mut alarms = 0;
    for seed in 0..40 {
        let simulation = Simulation { drift: 0.4 / 128.0, ..Simulation::new(&[0.0, -0.1, 0.0, 0.0], seed) };
        let result = measured(simulation, Schedule { passes: 0, ..schedule(seed) });
        let verdicts: Vec<_> = result.settings.iter().map(|worth| verdict(worth, Figure::P50Ns)).collect();
        assert_eq!(verdicts[1], Verdict::Better, "seed {seed}");
        alarms += [0, 2, 3].iter().filter(|at| verdicts[**at].is_effect()).count();
    }
    assert!(alarms <= 6, "{alarms} of 120 placebos");
}

#[test]
fn noise_above_any_effect_is_told_with_what_could_have_been_seen() {
    let simulation = Simulation { noise: 0.8, ..Simulation::new(&[-0.05, 0.0], 3) };
    let result = measured(simulation, schedule(3));
    let effect = result.settings[0].on[0].effect(Figure::P50Ns).unwrap();
    assert_eq!(effect.verdict, Verdict::Noise);
    assert!(effect.visible_percent.unwrap() > 20.0);
}

#[test]
fn settings_that_undo_each_other_are_found_as_a_pair() {
    for seed in 0..10 {
        let planted = |more: f64| {
            let simulation = Simulation::new(&[-0.2, -0.25, 0.0], seed);
            Simulation { together: vec![(0, 1, more)], ..simulation }
        };
        let with = measured(planted(0.2), schedule(seed));
        let of_both = |result: &Measured| {
            let mut pairs = result.pairs.iter();
            let is_it = |pair: &&Pair| {
                [&pair.one[..], &pair.other].iter().all(|id| ["vm.planted0", "vm.planted1"].contains(id))
            };
            pairs.find(is_it).unwrap().on[0].effect(Figure::P50Ns).unwrap().clone()
        };
        let effect = of_both(&with);
        assert_eq!(effect.verdict, Verdict::Worse, "seed {seed}: {effect:?}");
        assert!((effect.percent.unwrap() - 0.2_f64.exp_m1() * 100.0).abs() < 8.0, "seed {seed}: {effect:?}");
        let without = measured(planted(0.0), schedule(seed));
        assert!(!of_both(&without).verdict.is_effect(), "seed {seed}");
    }
}

#[test]
fn setting_that_the_host_refuses_is_given_up_and_the_others_are_measured() {
    let simulation = Simulation { refused: vec![1], ..Simulation::new(&[-0.2, -0.2, 0.0], 1) };
    let result = measured(simulation, schedule(1));
    assert!(result.failure.is_none());
    assert!(result.settings[1].failure.as_ref().unwrap().contains("does not take it"));
    assert!(result.settings[1].on.is_empty());
    assert_eq!(verdict(&result.settings[0], Figure::P50Ns), Verdict::Better);
}

#[test]
fn interruption_keeps_what_was_measured() {
    let result = measured_until(Simulation::new(&[-0.2, 0.0], 1), schedule(1), 70);
    assert!(result.interrupted && result.failure.is_none());
    let pairs = result.settings[0].on[0].effects[0].pairs;
    assert!((4..16).contains(&pairs), "{pairs} pairs");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn large_effect_of_any_size_is_found_despite_bursts_and_drift(
        size in 0.15_f64..0.8, is_better: bool, seed: u64, drift in -0.001_f64..0.001,
    ) {
        let planted = if is_better { -size } else { size };
        let simulation = Simulation { bursts: 0.03, drift, noise: 0.015, ..Simulation::new(&[planted, 0.0], seed) };
        let result = measured(simulation, Schedule { passes: 0, rounds: 12, ..schedule(seed) });
        let wanted = if is_better { Verdict::Better } else { Verdict::Worse };
        prop_assert_eq!(verdict(&result.settings[0], Figure::P50Ns), wanted);
    }
}
