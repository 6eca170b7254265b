//! Whole exports of a realistic set, to be read by a person when they change.

use super::*;

/// A host with two isolated CPUs and one interface for a program that polls.
fn realistic() -> Vec<Goal> {
    let host = [
        ("boot.isolcpus", "2-3", "The scheduler puts nothing beside the program."),
        ("boot.nohz_full", "2-3", "The tick takes microseconds from a thread that spins."),
        ("boot.nosmt", "off", "The sibling of each hot CPU is left empty instead."),
        ("boot.default_hugepagesz", "1G", "Buffers of the bypass fit into few pages."),
        (
            "memory.huge-pages",
            "node0 1048576kB: 8 of 8 free, node0 2048kB: 512 of 512 free",
            "Buffers are on the node of the device.",
        ),
        ("boot.mitigations", "not set", "The profile does not lower security."),
        ("memory.thp", "madvise", "A page is made huge only for who asks."),
        ("cpu.turbo", "on", "A higher clock shortens everything."),
        ("cpu.dma-latency-us", "0", "No CPU sleeps while the program runs."),
        ("cpu.isolated.cgroup", "2-3", "It does what isolcpus= does, with a way back."),
        ("irq.default-affinity", "0-1", "New interrupts stay off the program's CPUs."),
        ("cpu.workqueue-affinity", "0-1", "Kernel work stays off the program's CPUs."),
        ("net.core.busy_poll", "50", "poll looks into the queue of the device itself."),
        ("net.core.busy_read", "50", "A read looks into the queue of the device itself."),
        ("net.ipv4.tcp_rmem", "4096 131072 6291456", "A burst fits."),
        ("kernel.watchdog_cpumask", "0-1", "The watchdog stays off the program's CPUs."),
        ("kernel.numa_balancing", "off", "Pages do not move while the program runs."),
        ("service.irqbalance", "stopped, disabled", "It moves interrupts onto the program's CPUs."),
        ("service.irqbalance.banned-cpus", "2-3", "If it is started again it leaves them alone."),
        ("memory.lock-limit-bytes", "unlimited", "The bypass locks its buffers."),
        ("kvm.halt-poll-ns", "0", "The host does not spin for idle guests."),
        ("firmware.c1e", "disabled", "Leaving the state takes microseconds."),
    ];
    let interface = [
        ("nic.mtu", "1500", "The program's frames are small."),
        ("nic.coalesce.adaptive-rx", "off", "The delay must not depend on the load."),
        ("nic.coalesce.rx-usecs", "0", "Each packet is told at once."),
        ("nic.ring.rx", "512", "A small ring stays in the cache."),
        ("nic.channels.combined", "2", "Each queue has a CPU of its own."),
        ("nic.offload.gro", "off", "A single packet pays for the attempt to join it."),
        ("nic.pause", "off", "One slow receiver must not stop everybody."),
        ("nic.energy-efficient", "off", "The transmitter takes microseconds to wake up."),
        ("nic.napi-defer-hard-irqs", "2", "A program that polls in time sees no interrupt."),
        ("nic.rps-cpus", "none", "Spreading costs an interrupt between CPUs."),
        ("nic.irq-affinity", "1", "The interrupt is beside the program and not on its CPU."),
        ("nic.qdisc", "pfifo_fast", "It does not pace."),
    ];
    let of = |interface: Option<&str>, (id, value, reason): (&str, &str, &str)| Goal {
        reason: reason.to_owned(),
        ..goal(id, interface, value)
    };
    let mut goals: Vec<_> = host.into_iter().map(|row| of(None, row)).collect();
    for (cpus, governor) in [("2-3", "performance"), ("0-1", "powersave")] {
        let row = ("cpu.governor", governor, "The hot CPUs run at full clock, the others save power for them.");
        goals.push(Goal { cpus: CpuSet::from_list(cpus).ok(), ..of(None, row) });
    }
    goals.extend(interface.into_iter().map(|row| of(Some("eth0"), row)));
    goals
}

fn shown(export: &Export) -> String {
    let mut text = String::new();
    for file in &export.files {
        text += &format!("===== {} {:o}\n{}\n", file.path, file.mode, file.text);
    }
    text += "===== left out\n";
    for left in &export.left_out {
        text += &format!("{}: {}\n", left.id, left.why);
    }
    text += &format!("===== after\n{}\n", export.after.join("\n"));
    text
}

#[test]
fn realistic_goals_exported_read_as_reviewed() {
    for format in Format::ALL {
        insta::assert_snapshot!(format.name(), shown(&with_pci(format, &realistic())));
    }
    insta::assert_snapshot!("systemd-without-place", shown(&exported(Format::Systemd, &realistic())));
    insta::assert_snapshot!("udev-without-place", shown(&exported(Format::Udev, &realistic())));
}
