//! Where a NIC is, and where its queues interrupt.

use std::collections::BTreeMap;

use super::floor::Floor;
use super::{HostFacts, NicFacts, PlannedIrq};

/// The node that serves a NIC.
pub(super) struct Place {
    /// What is known.
    pub node: Option<u32>,
    /// What is taken.
    pub served_by: Option<u32>,
    pub why: String,
}

/// Where a NIC is, by what the host says, or which node is taken when it says nothing.
pub(super) fn place(facts: &HostFacts, floor: &Floor, nic: &NicFacts, forced: Option<u32>) -> Place {
    let name = &nic.interface;
    let nodes = floor.nodes();
    let known = |node: u32, why: String| Place { node: Some(node), served_by: Some(node), why };
    if let Some(node) = forced {
        let said =
            nic.node.map_or("the host does not say where it is".to_owned(), |node| format!("the host says {node}"));
        return Place { node: nic.node, served_by: Some(node), why: format!("node {node} was asked for; {said}") };
    }
    match (nic.node, &nodes[..]) {
        (_, []) => Place { node: None, served_by: None, why: "this kernel has no memory nodes".to_owned() },
        (Some(node), _) if nodes.contains(&node) => known(node, format!("the host says that {name} is on node {node}")),
        (Some(node), _) => {
            let near = nearest(facts, node, &nodes);
            let why =
                format!("{name} is on node {node}, which has no online CPUs; node {near} is the nearest that has");
            Place { node: Some(node), served_by: Some(near), why }
        }
        (None, [only]) => Place {
            node: None,
            served_by: Some(*only),
            why: format!("the host does not say where {name} is, but node {only} is the only one with CPUs"),
        },
        (None, _) => by_other_means(floor, nic, &nodes),
    }
}

fn by_other_means(floor: &Floor, nic: &NicFacts, nodes: &[u32]) -> Place {
    let name = &nic.interface;
    if let Some(node) = nic.upstream_node.filter(|node| nodes.contains(node)) {
        let why = format!("the host does not say where {name} is (-1), but the bridge above it is on node {node}");
        return Place { node: Some(node), served_by: Some(node), why };
    }
    let local: Vec<u32> = nodes
        .iter()
        .copied()
        .filter(|node| {
            floor
                .cores
                .iter()
                .any(|core| core.node == Some(*node) && core.cpus.iter().any(|cpu| nic.local_cpus.contains(cpu)))
        })
        .collect();
    if let [node] = local[..] {
        let why = format!("the host does not say where {name} is (-1), but its local CPUs are all on node {node}");
        return Place { node: Some(node), served_by: Some(node), why };
    }
    let free = |node: &u32| (floor.free(Some(*node)).len(), std::cmp::Reverse(*node));
    let roomy = nodes.iter().copied().max_by_key(free);
    let why = format!(
        "the host does not say where {name} is (-1 means unknown, not node 0); node {} is taken because it has the most \
         free cores: measure on each node, then name the better one with --node",
        roomy.map_or_else(|| "?".to_owned(), |node| node.to_string())
    );
    Place { node: None, served_by: roomy, why }
}

fn nearest(facts: &HostFacts, from: u32, nodes: &[u32]) -> u32 {
    let distances = facts.nodes.get(&from).map(|node| node.distances.clone()).unwrap_or_default();
    // The kernel lists distances in the order of the online nodes.
    let at = |node: u32| facts.nodes.keys().position(|known| *known == node);
    let distance = |node: &u32| at(*node).and_then(|at| distances.get(at)).copied().unwrap_or(u32::MAX);
    nodes.iter().copied().min_by_key(|node| (distance(node), *node)).unwrap_or(from)
}

/// Gives interrupts to CPUs: queues in turn over the targets of their node, others to the OS.
#[derive(Default)]
pub(super) struct Dealer {
    /// How many queues each node's targets have got.
    dealt: BTreeMap<Option<u32>, usize>,
    /// Two ports of one device have the same interrupts.
    known: BTreeMap<u32, u32>,
}

impl Dealer {
    /// `targets` is not empty.
    pub fn deal(&mut self, nic: &NicFacts, node: Option<u32>, targets: &[u32], os: u32) -> Vec<PlannedIrq> {
        // A device with one interrupt has all it says in it.
        let is_only = nic.irqs.len() == 1;
        let deal_one = |irq: &super::IrqFacts| {
            let queue = irq.queue.or(is_only.then_some(0));
            let dealt = self.dealt.entry(node).or_default();
            // One whose name is not known may be a queue's, so that all of these on one CPU would be wrong.
            let may_be_queue = queue.is_some() || irq.name.is_empty();
            let cpu = *self.known.entry(irq.irq).or_insert_with(|| {
                if may_be_queue {
                    *dealt += 1;
                    targets[(*dealt - 1) % targets.len()]
                } else {
                    os
                }
            });
            PlannedIrq { queue, irq: irq.irq, name: irq.name.clone(), cpu }
        };
        nic.irqs.iter().map(deal_one).collect()
    }
}
