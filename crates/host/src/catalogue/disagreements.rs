//! Where the papers disagree, with each other or with today's kernels and tools, and what Nearwire holds. What each paper says
//! is in the profile that holds its advice to the letter.

use std::collections::BTreeMap;

use super::printed::{Paper, said};

/// A topic on which the papers disagree.
#[derive(Clone, Copy, Debug)]
pub struct Disagreement {
    /// The settings it is about.
    pub ids: &'static [&'static str],
    /// What Nearwire holds.
    pub rule: &'static str,
    /// What others hold, whose advice is in no profile.
    beside: Option<&'static str>,
}

impl Disagreement {
    const fn beside(self, beside: &'static str) -> Self {
        Self { beside: Some(beside), ..self }
    }

    /// Who holds what: `off (usNIC white paper, VMA benchmark); sibling pairs (OpenNFP deck)`.
    #[must_use]
    pub fn positions(&self) -> String {
        let of_papers = self.ids.iter().filter_map(|id| {
            let mut papers: BTreeMap<&str, Vec<Paper>> = BTreeMap::new();
            for said in said(id) {
                papers.entry(said.value.as_str()).or_default().push(said.paper);
            }
            let position = |(value, mut papers): (&str, Vec<Paper>)| {
                papers.dedup();
                let names: Vec<_> = papers.into_iter().map(Paper::name).collect();
                format!("{value} ({})", names.join(", "))
            };
            let positions: Vec<_> = papers.into_iter().map(position).collect();
            let which = if self.ids.len() > 1 { format!("{id} ") } else { String::new() };
            (!positions.is_empty()).then(|| format!("{which}{}", positions.join(", ")))
        });
        of_papers.chain(self.beside.map(str::to_owned)).collect::<Vec<_>>().join("; ")
    }
}

/// The disagreements about a setting.
pub fn disagreements(id: &str) -> impl Iterator<Item = &'static Disagreement> + '_ {
    DISAGREEMENTS.iter().filter(move |topic| topic.ids.contains(&id))
}

const fn topic(ids: &'static [&'static str], rule: &'static str) -> Disagreement {
    Disagreement { ids, rule, beside: None }
}

/// Every topic on which the papers disagree.
pub const DISAGREEMENTS: &[Disagreement] = &[
    topic(&["cpu.smt"], "Leave the sibling of each hot CPU offline or empty; give both siblings to one guest."),
    topic(&["cpu.turbo"], "On for latency, off to compare runs, and always with the clock that was reached."),
    topic(
        &["nic.coalesce.rx-usecs"],
        "0 for a blocking reader; a long delay for one that spins, which interrupts only disturb.",
    ),
    topic(&["nic.offload.gro"], "Off for request and response, on for bulk data; measure."),
    topic(
        &["placement.program-and-interrupt", "nic.irq-affinity"],
        "A spinning program may share its CPU with the interrupt; a blocking one wants another CPU of the same cache.",
    ),
    topic(
        &["nic.irq-affinity", "irq.of-each-cpu", "irq.on-isolated"],
        "One vector a CPU, on the housekeeping CPUs of the device's node.",
    ),
    topic(
        &["boot.intel_iommu", "boot.iommu", "memory.iommu-groups", "firmware.iommu"],
        "Pass-through; off only if nothing needs it and the owner agrees.",
    ),
    topic(
        &["boot.intel_idle.max_cstate", "boot.processor.max_cstate", "boot.idle", "cpu.pm-qos-resume-latency-us"],
        "A limit on the wake-up of single CPUs while the host runs; the command line only where that is not possible.",
    ),
    topic(
        &["firmware.p-states", "boot.intel_pstate", "cpu.governor"],
        "Governor and preference performance; intel_pstate=disable only on processors that do not control P-states themselves.",
    ),
    topic(&["memory.thp"], "madvise with explicit huge pages; measure."),
    topic(&["nic.ring.rx", "nic.ring.tx"], "The smallest ring without drops at the burst that was measured."),
    topic(&["nic.pause", "switch.flow-control"], "Off, unless it is part of a lossless class.")
        .beside("profiles of vendors for forwarding switch it off"),
    topic(&["nic.mtu", "switch.mtu"], "A profile for latency leaves it alone."),
    topic(
        &["service.irqbalance", "irq.irqbalance", "service.irqbalance.banned-cpus"],
        "Either, if the effective affinity stays put for half a minute.",
    )
    .beside("cloud guides keep it with CPUs banned"),
    topic(&["net.core.netdev_max_backlog"], "The default unless frames are dropped there."),
    topic(&["net.ipv4.tcp_sack"], "1.").beside("the vendor's script that the VMA benchmark copies from sets 1"),
    topic(
        &["boot.selinux", "boot.audit", "service.selinux"],
        "Never without consent, and only after its cost was measured.",
    ),
    topic(&["kernel.watchdog", "kernel.watchdog_cpumask"], "Kept, on the housekeeping CPUs.")
        .beside("the kernel keeps it off tickless CPUs by itself"),
    topic(
        &["boot.default_hugepagesz", "boot.hugepages", "memory.huge-page-size"],
        "By what the program asks for, on the node of the device.",
    ),
    topic(
        &["firmware.patrol-scrub", "firmware.execute-disable"],
        "Patrol scrub while measuring only; execute disable stays on.",
    ),
    topic(&["service.tuned", "service.tuned.profile"], "One owner of each setting, whoever it is.")
        .beside("distributions ship it with profiles for latency"),
    topic(&["net.core.busy_read", "app.busy-poll"], "Measure between 20 and 100.").beside("cloud guides set 70"),
    topic(
        &["kernel.timer_migration"],
        "0 where CPUs are isolated for good, 1 where threads are pinned as they come; measure.",
    )
    .beside("profiles of one distribution set 0, of another 1"),
    topic(&["virtualisation.hypervisor-flag"], "By purpose.").beside("the OpenNFP deck is about guests"),
    topic(&["firmware.dram-refresh"], "1x unless the vendor asks for more."),
];
