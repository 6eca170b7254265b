//! How fast CPUs of one node copy memory of another: the rule of the Busy Poll paper, which asks
//! `numademo 128m memcpy` for more than 8 GB/s on the same node.
//!
//! Memory is of the node whose CPU touches it first, which is the kernel's default policy.

use std::time::Instant;

use super::{ProbeError, of_each, on_cpu};
use crate::Reading;
use crate::topology::{Cpu, Topology};

/// One of the two buffers, bytes: larger than a share of the last-level cache on most hosts, small
/// enough to find on each node.
const BUFFER_BYTES: usize = 64 << 20;
/// The best of these counts: the others met something else.
const ROUNDS: u32 = 5;

/// The rate of one pair of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRate {
    /// The node of the CPU.
    pub cpu_node: u32,
    /// The node of the memory.
    pub memory_node: u32,
    /// Bytes copied a second; each is read once and written once.
    pub bytes_per_s: u64,
}

impl CopyRate {
    /// The reading of `hardware.memory-bandwidth`: the rate of each node with itself.
    #[must_use]
    pub fn reading(all: &[Self]) -> Reading {
        let local = all.iter().filter(|rate| rate.cpu_node == rate.memory_node);
        of_each(local.map(|rate| (rate.cpu_node, rate.bytes_per_s)))
    }
}

/// Measures every pair of nodes, with the first of these CPUs that each node has. Nodes without one
/// are left out; a host without nodes counts as one.
///
/// # Errors
/// See [`ProbeError`].
pub fn memory(topology: &Topology, allowed: &[u32]) -> Result<Vec<CopyRate>, ProbeError> {
    let mut first: Vec<(u32, u32)> = Vec::new();
    for cpu in topology.cpus().iter().filter(|cpu| allowed.contains(&cpu.id)) {
        let node = node_of(cpu);
        if !first.iter().any(|(known, _)| *known == node) {
            first.push((node, cpu.id));
        }
    }
    let mut rates = Vec::new();
    for &(memory_node, owner) in &first {
        let mut buffers = on_cpu(owner, || (vec![1_u8; BUFFER_BYTES], vec![2_u8; BUFFER_BYTES]))?;
        for &(cpu_node, cpu) in &first {
            let bytes_per_s = on_cpu(cpu, || best(&mut buffers))?;
            rates.push(CopyRate { cpu_node, memory_node, bytes_per_s });
        }
    }
    Ok(rates)
}

fn node_of(cpu: &Cpu) -> u32 {
    cpu.node.unwrap_or(0)
}

fn best((from, to): &mut (Vec<u8>, Vec<u8>)) -> u64 {
    let rates = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        to.copy_from_slice(std::hint::black_box(from));
        std::hint::black_box(&to);
        let ns = start.elapsed().as_nanos().max(1);
        u64::try_from(BUFFER_BYTES as u128 * 1_000_000_000 / ns).unwrap_or(u64::MAX)
    });
    rates.max().unwrap_or(0)
}
