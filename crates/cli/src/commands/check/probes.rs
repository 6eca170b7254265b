//! Measurements that are made on request (`--probe`).

use std::fmt::Write as _;

use anyhow::anyhow;
use nearwire_host::probe::{self, ClockReached, CopyRate, Noise};
use nearwire_host::topology::Topology;
use nearwire_host::{CpuSet, Reading, Root};
use nearwire_sys::affinity::allowed_cpus;
use nearwire_sys::tsc::Clock;
use serde_json::{Value, json};

use crate::args::check::{CheckArgs, Probe};
use crate::exit::{self, Failure, OrExit};

/// The results of the probes that were asked for; empty where there were none.
#[derive(Default)]
pub(super) struct Probes {
    noise: Vec<Noise>,
    memory: Vec<CopyRate>,
    clock: Vec<ClockReached>,
}

impl Probes {
    pub(super) fn run(root: &Root, args: &CheckArgs) -> Result<Self, Failure> {
        if args.probe.is_empty() {
            return Ok(Self::default());
        }
        let topology = Topology::read(root);
        let cpus = cpus(&topology, args.probe_cpus.as_deref())?;
        let wants = |probe| args.probe.contains(&probe);
        let mut probes = Self::default();
        if wants(Probe::Clock) {
            probes.clock = probe::clock(&cpus).or_exit(exit::CANNOT)?;
        }
        if wants(Probe::Memory) {
            probes.memory = probe::memory(&topology, &allowed_cpus()).or_exit(exit::CANNOT)?;
        }
        if wants(Probe::Noise) {
            probes.noise = probe::noise(root, &Clock::calibrate(), &cpus, args.probe_time).or_exit(exit::CANNOT)?;
        }
        Ok(probes)
    }

    /// The readings of the settings that the probes measure.
    pub(super) fn readings(&self) -> Vec<(&'static str, Reading)> {
        let mut readings = Vec::new();
        if !self.noise.is_empty() {
            readings.push(("noise.sleep-gaps", Noise::reading(&self.noise)));
        }
        if !self.memory.is_empty() {
            readings.push(("hardware.memory-bandwidth", CopyRate::reading(&self.memory)));
        }
        if !self.clock.is_empty() {
            readings.push(("cpu.frequency.reached-khz", ClockReached::reading(&self.clock)));
        }
        readings
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        for reached in &self.clock {
            let _ = writeln!(text, "  clock   CPU {}: {:.2} GHz under load", reached.cpu, reached.khz as f64 / 1e6);
        }
        for rate in &self.memory {
            let CopyRate { cpu_node, memory_node, bytes_per_s } = rate;
            let gigabytes = *bytes_per_s as f64 / 1e9;
            let _ = writeln!(text, "  memory  node {cpu_node} copies in node {memory_node}: {gigabytes:.1} GB/s");
        }
        for noise in &self.noise {
            let _ = writeln!(text, "  noise   {}", in_words(noise));
        }
        if text.is_empty() { text } else { format!("\nMeasured\n{text}") }
    }

    pub(super) fn json(&self) -> Value {
        let noise = self.noise.iter().map(|noise| {
            let interrupts: Vec<_> =
                noise.interrupts.iter().map(|(name, count)| json!({"name": name, "count": count})).collect();
            json!({
                "cpu": noise.cpu, "window_ns": noise.window_ns, "gap_min_ns": probe::GAP_MIN_NS, "gaps": noise.gaps,
                "gaps_ns": noise.gaps_ns, "longest_ns": noise.longest_ns, "gaps_over_10_us": noise.gaps_over_10_us,
                "gaps_over_100_us": noise.gaps_over_100_us, "interrupts": interrupts,
            })
        });
        let memory = self.memory.iter().map(
            |rate| json!({"cpu_node": rate.cpu_node, "memory_node": rate.memory_node, "bytes_per_s": rate.bytes_per_s}),
        );
        let clock = self.clock.iter().map(|reached| json!({"cpu": reached.cpu, "khz": reached.khz}));
        json!({
            "noise": noise.collect::<Vec<_>>(),
            "memory": memory.collect::<Vec<_>>(),
            "clock": clock.collect::<Vec<_>>(),
        })
    }
}

fn in_words(noise: &Noise) -> String {
    let us = |ns: u64| ns as f64 / 1e3;
    let share = noise.gaps_ns as f64 / noise.window_ns.max(1) as f64 * 100.0;
    let named: Vec<_> = noise.interrupts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let interrupts = if named.is_empty() { String::new() } else { format!("; interrupts: {}", named.join(", ")) };
    format!(
        "CPU {}: longest gap {:.1} us in {:.1} s; {} of 1 us or more ({share:.3} % of the time), {} of 10 us, {} of 100 us{interrupts}",
        noise.cpu,
        us(noise.longest_ns),
        noise.window_ns as f64 / 1e9,
        noise.gaps,
        noise.gaps_over_10_us,
        noise.gaps_over_100_us,
    )
}

/// The named CPUs; without names the isolated ones; without those all that this process may use.
fn cpus(topology: &Topology, named: Option<&str>) -> Result<Vec<u32>, Failure> {
    let list = |cpus: &CpuSet| cpus.iter().collect::<Vec<_>>();
    if let Some(text) = named {
        let cpus = CpuSet::from_list(text).or_exit(exit::USAGE)?;
        return match cpus.iter().find(|&cpu| topology.cpu(cpu).is_none()) {
            None if cpus.is_empty() => Err(usage("--probe-cpus names no CPU".to_owned())),
            None => Ok(list(&cpus)),
            Some(missing) => Err(usage(format!("CPU {missing} of --probe-cpus is not online"))),
        };
    }
    let isolated: CpuSet = topology.cpus().iter().filter(|cpu| cpu.is_isolated).map(|cpu| cpu.id).collect();
    Ok(if isolated.is_empty() { allowed_cpus() } else { list(&isolated) })
}

fn usage(message: String) -> Failure {
    Failure { code: exit::USAGE, error: Some(anyhow!(message)) }
}
