//! A plan for a person to read.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::guest::in_units;
use super::{Derived, FileLine, Plan, PlannedCore, PlannedGuest, PlannedNic};
use crate::CpuSet;

// Writing to a string cannot fail, so what it returns is dropped throughout.

impl Plan {
    /// The plan as text: who owns what and why, then the lines that carry it out.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n\n", self.title());
        self.write_owners(&mut text);
        for nic in &self.nics {
            write_nic(nic, &mut text);
        }
        for guest in &self.guests {
            write_guest(guest, &mut text);
        }
        if !self.notes.is_empty() {
            let _ = writeln!(text, "Notes");
            for note in &self.notes {
                let _ = writeln!(text, "  {note}");
            }
            text.push('\n');
        }
        write_derived(&self.derived(), &mut text);
        text
    }

    /// `Plan for eth0: 48 CPUs, 24 cores, 2 packages, nodes 0-1`.
    pub(super) fn title(&self) -> String {
        let nics: Vec<_> = self.nics.iter().map(|nic| nic.interface.as_str()).collect();
        let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let cpus = self.host.cores.iter().map(|core| core.cpus.len()).sum();
        let packages = self.host.cores.iter().map(PlannedCore::place).collect::<BTreeSet<_>>().len();
        let books = self.host.cores.iter().filter_map(|core| core.book_first).collect::<BTreeSet<_>>().len();
        let drawers = self.host.cores.iter().filter_map(|core| core.drawer_first).collect::<BTreeSet<_>>().len();
        let nodes: CpuSet = self.host.nodes.iter().map(|node| node.node).collect();
        let mut parts = vec![count(cpus, "CPU"), count(self.host.cores.len(), "core"), count(packages, "package")];
        let above = [(books, "book"), (drawers, "drawer")].into_iter().filter(|(number, _)| *number > 0);
        parts.extend(above.map(|(number, what)| count(number, what)));
        match nodes.len() {
            0 => parts.push("no memory nodes".to_owned()),
            1 => parts.push(format!("node {nodes}")),
            _ => parts.push(format!("nodes {nodes}")),
        }
        if !self.host.offline.is_empty() {
            parts.push(format!("CPUs {} offline", self.host.offline));
        }
        let whom = if nics.is_empty() { "Plan".to_owned() } else { format!("Plan for {}", nics.join(", ")) };
        format!("{whom}: {}", parts.join(", "))
    }

    fn write_owners(&self, text: &mut String) {
        let rows: Vec<_> = self
            .shares
            .iter()
            .map(|share| {
                let nodes: CpuSet = share.cpus.iter().filter_map(|cpu| self.node_of(cpu)).collect();
                let node = if nodes.is_empty() { "-".to_owned() } else { nodes.to_string() };
                [share.owner.name().to_owned(), share.cpus.to_string(), node, share.why.clone()]
            })
            .collect();
        let titles = ["Owner", "CPUs", "Node"];
        let width = |at: usize| rows.iter().map(|row| row[at].len()).chain([titles[at].len()]).max().unwrap_or(0);
        let [owners, cpus, nodes] = [width(0), width(1), width(2)];
        let _ = writeln!(text, "{:<owners$}  {:<cpus$}  {:<nodes$}  Why", titles[0], titles[1], titles[2]);
        for [owner, list, node, why] in &rows {
            let _ = writeln!(text, "{owner:<owners$}  {list:<cpus$}  {node:<nodes$}  {why}");
        }
        text.push('\n');
    }
}

fn write_nic(nic: &PlannedNic, text: &mut String) {
    let about: Vec<_> = [&nic.driver, &nic.bus_address].into_iter().flatten().map(String::as_str).collect();
    let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
    let node = nic.node.map_or_else(|| "unknown node".to_owned(), |node| format!("node {node}"));
    let _ = writeln!(text, "NIC {}{about}, {node}\n  {}", nic.interface, nic.why);
    if !nic.irqs.is_empty() {
        let _ = writeln!(text, "  {}", nic.irq_why);
    }
    let width = nic.irqs.iter().map(|irq| irq.name.len()).max().unwrap_or(0);
    for irq in &nic.irqs {
        let queue = irq.queue.map_or_else(|| "other".to_owned(), |queue| format!("queue {queue}"));
        let _ = writeln!(text, "  {queue:<9} IRQ {:<5} {:<width$}  CPU {}", irq.irq, irq.name, irq.cpu);
    }
    text.push('\n');
}

fn write_guest(guest: &PlannedGuest, text: &mut String) {
    let node = guest.node.map_or(String::new(), |node| format!(", node {node}"));
    let (pages, size) = (guest.pages, in_units(guest.page_bytes));
    let pins: Vec<_> = guest.vcpus.iter().map(|pin| format!("{}->{}", pin.vcpu, pin.cpu)).collect();
    let _ = writeln!(text, "Guest {}{node}: {} as {pages} x {size}", guest.name, in_units(guest.memory_bytes));
    let _ = writeln!(text, "  vCPU->CPU {}; emulator on {}", pins.join(" "), guest.emulator_cpus);
    let _ = writeln!(text, "  {}\n", guest.memory_why);
}

fn write_derived(derived: &Derived, text: &mut String) {
    let echo = |line: &FileLine| format!("echo {} > {}", line.value, line.path);
    let mut section = |title: &str, lines: &[String]| {
        if !lines.is_empty() {
            let _ = writeln!(text, "{title}\n  {}\n", lines.join("\n  "));
        }
    };
    let boot = if derived.boot.is_empty() { Vec::new() } else { vec![derived.boot.join(" ")] };
    section("Kernel command line", &boot);
    let pages = if derived.boot_hugepages.is_empty() { Vec::new() } else { vec![derived.boot_hugepages.join(" ")] };
    section("Huge pages on the kernel command line", &pages);
    section("Huge pages at once", &derived.hugepages.iter().map(echo).collect::<Vec<_>>());
    let mut partition: Vec<String> = derived.cpuset.iter().map(echo).collect();
    if !partition.is_empty() {
        partition.insert(1, "mkdir /sys/fs/cgroup/nearwire".to_owned());
        partition.push("echo PID > /sys/fs/cgroup/nearwire/cgroup.procs  # of each program, before taskset".to_owned());
    }
    section("Instead of isolcpus=, at once: a cpuset partition (guests' CPUs are libvirt's)", &partition);
    let mut slices = derived.slices.clone();
    slices.extend(derived.prefixes.iter().map(|prefix| format!("{} PROGRAM", prefix.systemd_run)));
    section("Instead of isolcpus=, at once: services and sessions kept on the OS's CPUs", &slices);
    section(
        "Interrupts (again whenever a link comes up; irqbalance must not run, or must be told)",
        &derived.irq.iter().map(echo).collect::<Vec<_>>(),
    );
    let programs = derived.prefixes.iter().map(|prefix| {
        let line = prefix.numactl.as_ref().unwrap_or(&prefix.taskset);
        format!("{}: {line} PROGRAM", prefix.owner)
    });
    section("Programs after a boot with these words", &programs.collect::<Vec<_>>());
    for guest in &derived.guests {
        section(&format!("Guest {} by virsh", guest.name), &guest.virsh);
        let lines: Vec<String> = guest.xml.lines().map(str::to_owned).collect();
        section(&format!("Guest {} in its definition (virsh edit)", guest.name), &lines);
    }
}
