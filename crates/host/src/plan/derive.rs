//! The words and lines that carry a plan out.
//!
//! Source: `Documentation/admin-guide/kernel-parameters.txt` (`isolcpus`, `nohz_full`, `rcu_nocbs`,
//! `irqaffinity`, `hugepages`), `cgroup-v2.rst` (partitions), `domain.html` of libvirt.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Owner, Plan, PlannedGuest};
use crate::CpuSet;

/// Everything that follows from a plan, in words to be typed or written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Derived {
    /// Words for the kernel's command line; none when nothing is isolated.
    pub boot: Vec<String>,
    /// Words for it that reserve huge pages early, when memory is in one piece.
    pub boot_hugepages: Vec<String>,
    /// The affinity of each interrupt.
    pub irq: Vec<FileLine>,
    /// Instead of `isolcpus=`, without a boot: a partition for all isolated CPUs that are no guest's.
    pub cpuset: Vec<FileLine>,
    /// Instead of `isolcpus=`, until the next boot: services and sessions stay on the OS's CPUs.
    /// Programs for other CPUs are then started by [`Prefix::systemd_run`].
    pub slices: Vec<String>,
    /// Huge pages of each node, at once.
    pub hugepages: Vec<FileLine>,
    /// What to put before a program's name.
    pub prefixes: Vec<Prefix>,
    /// What libvirt is told of each guest.
    pub guests: Vec<GuestLines>,
}

/// A text to be written to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileLine {
    /// The file.
    pub path: String,
    /// The text.
    pub value: String,
}

/// What puts a program on its CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Prefix {
    /// Whose CPUs.
    pub owner: String,
    /// With the CPUs alone.
    pub taskset: String,
    /// With memory of the same node, where there is one.
    pub numactl: Option<String>,
    /// Out of a session that [`Derived::slices`] keeps on the OS's CPUs.
    pub systemd_run: String,
}

/// What libvirt is told of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GuestLines {
    /// The guest.
    pub name: String,
    /// Commands for a guest that runs.
    pub virsh: Vec<String>,
    /// Elements for its definition.
    pub xml: String,
}

impl Plan {
    /// What follows from this plan.
    #[must_use]
    pub fn derived(&self) -> Derived {
        Derived {
            boot: self.boot(),
            boot_hugepages: self.boot_hugepages(),
            irq: self.irq_lines(),
            cpuset: self.cpuset_lines(),
            slices: self.slices(),
            hugepages: self.hugepage_lines(),
            prefixes: self.prefixes(),
            guests: self.guests.iter().map(guest_lines).collect(),
        }
    }

    fn boot(&self) -> Vec<String> {
        let isolated = self.isolated();
        if isolated.is_empty() {
            return Vec::new();
        }
        let others = self.cpus_where(|owner| !owner.is_isolated());
        let flags = self.host.isolcpus_flags.as_ref().map_or(String::new(), |flags| format!("{flags},"));
        vec![
            format!("isolcpus={flags}{isolated}"),
            format!("nohz_full={isolated}"),
            format!("rcu_nocbs={isolated}"),
            format!("irqaffinity={others}"),
        ]
    }

    /// Pages of each size on each node.
    fn pages(&self) -> BTreeMap<(u64, Option<u32>), u64> {
        let mut pages = BTreeMap::new();
        for guest in &self.guests {
            *pages.entry((guest.page_bytes, guest.node)).or_default() += guest.pages;
        }
        pages
    }

    fn boot_hugepages(&self) -> Vec<String> {
        let pages = self.pages();
        let sizes: BTreeSet<u64> = pages.keys().map(|(size, _)| *size).collect();
        let words = sizes.into_iter().flat_map(|size| {
            let of_size = pages.iter().filter(|((other, _), _)| *other == size);
            let counts = of_size.map(|((_, node), count)| match node {
                Some(node) => format!("{node}:{count}"),
                None => count.to_string(),
            });
            let counts = counts.collect::<Vec<_>>().join(",");
            [format!("hugepagesz={}", short(size)), format!("hugepages={counts}")]
        });
        words.collect()
    }

    fn hugepage_lines(&self) -> Vec<FileLine> {
        let line = |((size, node), count): (&(u64, Option<u32>), &u64)| {
            let pool = format!("hugepages/hugepages-{}kB/nr_hugepages", size / 1024);
            let path = match node {
                Some(node) => format!("/sys/devices/system/node/node{node}/{pool}"),
                None => format!("/sys/kernel/mm/{pool}"),
            };
            FileLine { path, value: count.to_string() }
        };
        self.pages().iter().map(line).collect()
    }

    fn irq_lines(&self) -> Vec<FileLine> {
        // Two ports of a device list the same interrupts.
        let irqs: BTreeMap<u32, u32> =
            self.nics.iter().flat_map(|nic| nic.irqs.iter().map(|irq| (irq.irq, irq.cpu))).collect();
        let line =
            |(irq, cpu)| FileLine { path: format!("/proc/irq/{irq}/smp_affinity_list"), value: format!("{cpu}") };
        irqs.into_iter().map(line).collect()
    }

    /// Not the guests': libvirt's group has their emulator threads too, which belong on the OS's CPUs.
    fn cpuset_lines(&self) -> Vec<FileLine> {
        const GROUPS: &str = "/sys/fs/cgroup";
        let cpus = self.cpus_where(|owner| owner.is_isolated() && !matches!(owner, Owner::Guest { .. }));
        if cpus.is_empty() {
            return Vec::new();
        }
        let line = |file: &str, value: String| FileLine { path: format!("{GROUPS}/{file}"), value };
        vec![
            line("cgroup.subtree_control", "+cpuset".to_owned()),
            line("nearwire/cpuset.cpus", cpus.to_string()),
            line("nearwire/cpuset.cpus.partition", "isolated".to_owned()),
        ]
    }

    fn slices(&self) -> Vec<String> {
        if self.isolated().is_empty() && self.cpus_where(|owner| *owner == Owner::Irq).is_empty() {
            return Vec::new();
        }
        let os = self.housekeeping();
        let line = |slice| format!("systemctl set-property --runtime {slice} AllowedCPUs={os}");
        ["init.scope", "system.slice", "user.slice"].map(line).to_vec()
    }

    fn prefixes(&self) -> Vec<Prefix> {
        let runs = |owner: &Owner| matches!(owner, Owner::App | Owner::Poller);
        let prefix = |share: &super::Share| {
            let cpus = &share.cpus;
            let taskset = format!("taskset -c {cpus}");
            Prefix {
                owner: share.owner.name().to_owned(),
                systemd_run: format!("systemd-run --scope --slice=nearwire.slice -p AllowedCPUs={cpus} {taskset}"),
                taskset,
                numactl: self
                    .one_node(cpus)
                    .filter(|node| self.has_memory(*node))
                    .map(|node| format!("numactl --physcpubind={cpus} --membind={node}")),
            }
        };
        self.shares.iter().filter(|share| runs(&share.owner)).map(prefix).collect()
    }

    /// A node without memory cannot be bound to.
    fn has_memory(&self, node: u32) -> bool {
        self.host.nodes.iter().find(|known| known.node == node).is_none_or(|known| known.memory_bytes != Some(0))
    }

    fn one_node(&self, cpus: &CpuSet) -> Option<u32> {
        let nodes: BTreeSet<Option<u32>> = cpus.iter().map(|cpu| self.node_of(cpu)).collect();
        if nodes.len() == 1 { nodes.into_iter().next().flatten() } else { None }
    }
}

fn guest_lines(guest: &PlannedGuest) -> GuestLines {
    let name = &guest.name;
    let mut virsh: Vec<String> =
        guest.vcpus.iter().map(|pin| format!("virsh vcpupin {name} {} {}", pin.vcpu, pin.cpu)).collect();
    virsh.push(format!("virsh emulatorpin {name} {}", guest.emulator_cpus));
    if let Some(node) = guest.node {
        virsh.push(format!("virsh numatune {name} --mode strict --nodeset {node} --config"));
    }
    GuestLines { name: name.clone(), virsh, xml: xml(guest) }
}

/// Elements of `<domain>`.
fn xml(guest: &PlannedGuest) -> String {
    let vcpus = guest.vcpus.len();
    let mut lines = vec![
        format!("<memory unit='KiB'>{}</memory>", guest.memory_bytes / 1024),
        "<memoryBacking>".to_owned(),
        format!("  <hugepages><page size='{}' unit='KiB'/></hugepages>", guest.page_bytes / 1024),
        "</memoryBacking>".to_owned(),
        format!("<vcpu placement='static'>{vcpus}</vcpu>"),
        "<cputune>".to_owned(),
    ];
    lines.extend(guest.vcpus.iter().map(|pin| format!("  <vcpupin vcpu='{}' cpuset='{}'/>", pin.vcpu, pin.cpu)));
    lines.push(format!("  <emulatorpin cpuset='{}'/>", guest.emulator_cpus));
    lines.push("</cputune>".to_owned());
    if let Some(node) = guest.node {
        lines.push(format!("<numatune><memory mode='strict' nodeset='{node}'/></numatune>"));
    }
    let threads = guest.threads_per_core.max(1);
    let cores = vcpus / usize::try_from(threads).unwrap_or(1);
    lines.push("<cpu mode='host-passthrough'>".to_owned());
    lines.push(format!("  <topology sockets='1' cores='{cores}' threads='{threads}'/>"));
    lines.push("</cpu>".to_owned());
    lines.join("\n")
}

/// As the command line wants it: `1G`, `2M`, `64K`.
fn short(bytes: u64) -> String {
    let units = [(30, 'G'), (20, 'M'), (10, 'K')];
    let fit = units.into_iter().find(|(shift, _)| bytes.is_multiple_of(1 << shift));
    fit.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}
