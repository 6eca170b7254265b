//! Looks at everything that a command may ask of a snapshot later.

use crate::check::Owners;
use crate::plan::HostFacts;
use crate::read::HostFiles;
use crate::topology::Topology;
use crate::{Root, catalogue, read_settings};

/// Files of a CPU that a plan of CPUs needs beyond the topology's.
const OF_CPU: [&str; 7] = [
    "topology/die_id",
    "topology/cluster_id",
    "topology/core_cpus_list",
    "topology/die_cpus_list",
    "topology/package_cpus_list",
    "topology/cluster_cpus_list",
    "online",
];
const OF_CACHE: [&str; 5] = ["level", "type", "size", "shared_cpu_list", "id"];
const OF_HOST: [&str; 6] = [
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/present",
    "/sys/devices/system/cpu/offline",
    "/sys/devices/system/cpu/nohz_full",
    "/proc/irq/default_smp_affinity",
    "/proc/interrupts",
];
const OF_NODE: [&str; 3] = ["cpulist", "distance", "meminfo"];
const OF_IRQ: [&str; 4] = ["smp_affinity_list", "effective_affinity_list", "affinity_hint", "node"];
const OF_DEVICE: [&str; 7] = ["numa_node", "local_cpulist", "irq", "vendor", "device", "sriov_numvfs", "class"];

/// Reads every setting, of these interfaces too, and what plans are made from. The root remembers
/// what was looked at.
pub(super) fn look_at_everything(root: &Root, interfaces: &[String]) {
    let all: Vec<_> = catalogue::settings().collect();
    let _ = read_settings(root, &all, interfaces);
    let _ = Owners::without_secrets(&HostFiles::new(root), interfaces);
    let _ = HostFacts::read(root, interfaces);
    for path in OF_HOST {
        let _ = root.read(path);
    }
    cpus(root);
    directories(root, "/sys/devices/system/node", "node", &OF_NODE);
    directories(root, "/proc/irq", "", &OF_IRQ);
    let _ = root.list("/sys/class/net");
    for name in interfaces {
        interface(root, name);
    }
}

fn cpus(root: &Root) {
    for cpu in Topology::read(root).cpus() {
        let directory = format!("/sys/devices/system/cpu/cpu{}", cpu.id);
        for file in OF_CPU {
            let _ = root.read(&format!("{directory}/{file}"));
        }
        directories(root, &format!("{directory}/cache"), "index", &OF_CACHE);
    }
}

/// These files of each directory in a directory.
fn directories(root: &Root, parent: &str, prefix: &str, files: &[&str]) {
    let numbered = |name: &String| name.strip_prefix(prefix).is_some_and(|number| number.parse::<u32>().is_ok());
    for name in root.list(parent).unwrap_or_default().iter().filter(|name| numbered(name)) {
        for file in files {
            let _ = root.read(&format!("{parent}/{name}/{file}"));
        }
        if prefix.is_empty() {
            // The handlers of an interrupt are directories in its own.
            let _ = root.list(&format!("{parent}/{name}"));
        }
    }
}

fn interface(root: &Root, name: &str) {
    let directory = format!("/sys/class/net/{name}");
    let _ = root.has(&format!("{directory}/ifindex"));
    for file in ["mtu", "operstate", "carrier", "tx_queue_len", "speed", "type"] {
        let _ = root.read(&format!("{directory}/{file}"));
    }
    let _ = root.list(&format!("{directory}/queues"));
    for link in [directory.clone(), format!("{directory}/device"), format!("{directory}/device/driver")] {
        let _ = root.link_target(&link);
    }
    // A virtio device sits on a PCI function.
    for device in [format!("{directory}/device"), format!("{directory}/device/..")] {
        let _ = root.link_target(&format!("{device}/subsystem"));
        let _ = root.list(&format!("{device}/msi_irqs"));
        for file in OF_DEVICE {
            let _ = root.read(&format!("{device}/{file}"));
        }
    }
}
