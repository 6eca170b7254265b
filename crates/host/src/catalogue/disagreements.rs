//! Where the papers disagree, with each other or with today's kernels and tools, and what
//! Nearwire holds.

/// A topic on which the papers disagree.
#[derive(Clone, Copy, Debug)]
pub struct Disagreement {
    /// The settings it is about.
    pub ids: &'static [&'static str],
    /// Who holds what.
    pub positions: &'static str,
    /// What Nearwire holds.
    pub rule: &'static str,
}

/// The disagreements about a setting.
pub fn disagreements(id: &str) -> impl Iterator<Item = &'static Disagreement> + '_ {
    DISAGREEMENTS.iter().filter(move |topic| topic.ids.contains(&id))
}

const fn topic(ids: &'static [&'static str], positions: &'static str, rule: &'static str) -> Disagreement {
    Disagreement { ids, positions, rule }
}

/// Every topic on which the papers disagree.
pub const DISAGREEMENTS: &[Disagreement] = &[
    topic(
        &["cpu.smt"],
        "Four papers switch it off; Netronome's uses sibling pairs.",
        "Leave the sibling of each hot CPU offline or empty; give both siblings to one guest.",
    ),
    topic(
        &["cpu.turbo"],
        "Three papers switch it on; Netronome's switches it off to make runs repeatable.",
        "On for latency, off to compare runs, and always with the clock that was reached.",
    ),
    topic(
        &["nic.coalesce.rx-usecs"],
        "The VMA and usNIC papers set 0; Intel's sets about 100.",
        "0 for a blocking reader; a long delay for one that spins, which interrupts only disturb.",
    ),
    topic(
        &["nic.offload.gro"],
        "The VMA paper leaves it on; Intel's switches it off.",
        "Off for request and response, on for bulk data; measure.",
    ),
    topic(
        &["placement.program-and-interrupt", "nic.irq-affinity"],
        "Netronome's paper says both the same CPUs and other CPUs; Intel's says other CPUs of the same node.",
        "A spinning program may share its CPU with the interrupt; a blocking one wants another CPU of the same cache.",
    ),
    topic(
        &["nic.irq-affinity", "irq.of-each-cpu", "irq.on-isolated"],
        "All on CPU 0 in the ExaNIC script, whose text says 0 and 1; all CPUs of the node in the VMA paper; spread equally in \
         Netronome's.",
        "One vector a CPU, on the housekeeping CPUs of the device's node.",
    ),
    topic(
        &["boot.intel_iommu", "boot.iommu", "memory.iommu-groups", "firmware.iommu"],
        "Off in Intel's paper; on in the usNIC paper; on with pass-through in Netronome's.",
        "Pass-through; off only if nothing needs it and the owner agrees.",
    ),
    topic(
        &["boot.intel_idle.max_cstate", "boot.processor.max_cstate", "boot.idle", "cpu.pm-qos-resume-latency-us"],
        "Four papers give four combinations of intel_idle.max_cstate, processor.max_cstate and idle.",
        "A limit on the wake-up of single CPUs while the host runs; the command line only where that is not possible.",
    ),
    topic(
        &["firmware.p-states", "boot.intel_pstate", "cpu.governor"],
        "Off in two papers; on with the governor performance in the usNIC paper.",
        "Governor and preference performance; intel_pstate=disable only on processors that do not control P-states themselves.",
    ),
    topic(
        &["memory.thp"],
        "The VMA paper sets never as its store advises, and finds that never makes VMA slower.",
        "madvise with explicit huge pages; measure.",
    ),
    topic(
        &["nic.ring.rx", "nic.ring.tx"],
        "The VMA paper says smallest possible and sets 2048.",
        "The smallest ring without drops at the burst that was measured.",
    ),
    topic(
        &["nic.pause", "switch.flow-control"],
        "On in the VMA and usNIC papers; forwarding profiles of vendors switch it off.",
        "Off, unless it is part of a lossless class.",
    ),
    topic(
        &["nic.mtu", "switch.mtu"],
        "1500 in the VMA paper; 9000 in the usNIC paper.",
        "A profile for latency leaves it alone.",
    ),
    topic(
        &["service.irqbalance", "irq.irqbalance", "service.irqbalance.banned-cpus"],
        "The papers stop it; cloud guides keep it with CPUs banned.",
        "Either, if the effective affinity stays put for half a minute.",
    ),
    topic(
        &["net.core.netdev_max_backlog"],
        "The VMA paper sets 250000 and says that the default is sufficient.",
        "The default unless frames are dropped there.",
    ),
    topic(&["net.ipv4.tcp_sack"], "The VMA paper sets 0; the vendor's script that it copies from sets 1.", "1."),
    topic(
        &["boot.selinux", "boot.audit", "service.selinux"],
        "Off in the ExaNIC and usNIC papers; the others are silent.",
        "Never without consent, and only after its cost was measured.",
    ),
    topic(
        &["kernel.watchdog", "kernel.watchdog_cpumask"],
        "Off in the ExaNIC guide; the kernel keeps it off tickless CPUs by itself.",
        "Kept, on the housekeeping CPUs.",
    ),
    topic(
        &["boot.default_hugepagesz", "boot.hugepages", "memory.huge-page-size"],
        "Netronome's text prefers 1G; its example has 2M as the default.",
        "By what the program asks for, on the node of the device.",
    ),
    topic(
        &["firmware.patrol-scrub", "firmware.execute-disable"],
        "Only the usNIC paper switches them off.",
        "Patrol scrub while measuring only; execute disable stays on.",
    ),
    topic(
        &["service.tuned", "service.tuned.profile"],
        "Netronome's paper disables it; distributions ship it with profiles for latency.",
        "One owner of each setting, whoever it is.",
    ),
    topic(
        &["net.core.busy_read", "app.busy-poll"],
        "50 in Intel's paper; 70 in cloud guides.",
        "Measure between 20 and 100.",
    ),
    topic(
        &["kernel.timer_migration"],
        "Profiles of one distribution set 0, of another 1.",
        "0 where CPUs are isolated for good, 1 where threads are pinned as they come; measure.",
    ),
    topic(
        &["virtualisation.hypervisor-flag"],
        "Intel's paper avoids guests; Netronome's is about them.",
        "By purpose.",
    ),
    topic(
        &["firmware.dram-refresh"],
        "Only the usNIC paper sets 2x, which works against latency.",
        "1x unless the vendor asks for more.",
    ),
];
