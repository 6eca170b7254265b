//! Network interfaces: their devices on the bus, their queues, their interrupts.

use std::fmt::Write as _;

use super::HostTreeError;
use super::description::{IrqKeys, NicKeys};
use super::machine::{Machine, list};
use super::pci;
use super::tree::Tree;

/// One interrupt of a host.
struct Irq {
    number: u32,
    name: String,
    kind: &'static str,
    node: i32,
    affinity: Vec<u32>,
    effective: u32,
}

pub(super) fn files(nics: &[NicKeys], machine: &Machine<'_>, tree: &mut Tree) -> Result<(), HostTreeError> {
    let mut irqs = system_irqs(machine);
    loopback(tree);
    for (ifindex, nic) in (2..).zip(nics) {
        if nic.pci.is_empty() || nic.links.len() != nic.pci.len() {
            let (functions, links) = (nic.pci.len(), nic.links.len());
            let reason = format!("{}: pci names {functions} functions, links describes {links}", nic.name);
            return Err(HostTreeError::Contradiction { reason });
        }
        let device = functions(nic, machine, tree);
        interface(nic, ifindex, &device, machine, tree);
        let own = nic_irqs(nic, machine);
        for irq in &own {
            tree.text(&format!("{device}/msi_irqs/{}", irq.number), "msix");
        }
        irqs.extend(own);
    }
    irq_files(&irqs, machine, tree);
    Ok(())
}

/// Those of the machine itself.
fn system_irqs(machine: &Machine<'_>) -> Vec<Irq> {
    let online = machine.online();
    let first = online.first().copied().unwrap_or(0);
    let irq = |number, name: &str, kind| Irq {
        number,
        name: name.to_owned(),
        kind,
        node: 0,
        affinity: online.clone(),
        effective: first,
    };
    vec![irq(0, "timer", "IO-APIC   2-edge"), irq(8, "rtc0", "IO-APIC   8-edge"), irq(9, "acpi", "IO-APIC   9-fasteoi")]
}

fn nic_irqs(nic: &NicKeys, machine: &Machine<'_>) -> Vec<Irq> {
    let spread = |keys: &IrqKeys| {
        let affinity = match &keys.affinity {
            Some(text) => text.split(',').filter_map(|cpu| cpu.trim().parse().ok()).collect(),
            None => local_cpus(nic, machine),
        };
        let one = |at: u32| Irq {
            number: keys.first + at,
            name: keys.name.replace("{}", &at.to_string()),
            kind: "PCI-MSIX",
            node: nic.numa_node,
            effective: keys.effective.unwrap_or_else(|| affinity[at as usize % affinity.len().max(1)]),
            affinity: affinity.clone(),
        };
        (0..keys.count).map(one).collect::<Vec<_>>()
    };
    nic.irqs.iter().flat_map(spread).collect()
}

fn local_cpus(nic: &NicKeys, machine: &Machine<'_>) -> Vec<u32> {
    let of_node = machine.on_node(nic.numa_node);
    if of_node.is_empty() { machine.online() } else { of_node }
}

/// The bridges and the device; gives the device's directory.
fn functions(nic: &NicKeys, machine: &Machine<'_>, tree: &mut Tree) -> String {
    let domain_and_bus = nic.pci[0].rsplit_once(':').map_or("0000:00", |(before, _)| before);
    let mut directory = format!("/sys/devices/pci{domain_and_bus}");
    let local = local_cpus(nic, machine);
    let (vendor, device_id) = nic.id.split_once(':').unwrap_or((&nic.id, "0000"));
    for (function, link) in nic.pci.iter().zip(&nic.links) {
        directory = format!("{directory}/{function}");
        let is_device = Some(function) == nic.pci.last();
        let (vendor, id, class) =
            if is_device { (vendor, device_id, "0x020000") } else { ("8086", "0151", "0x060400") };
        tree.texts(
            &directory,
            [
                ("vendor", format!("0x{vendor}")),
                ("device", format!("0x{id}")),
                ("class", class.to_owned()),
                ("numa_node", nic.numa_node.to_string()),
                ("local_cpulist", nic.local_cpulist.clone().unwrap_or_else(|| list(&local))),
                ("local_cpus", machine.mask(&local)),
                ("current_link_speed", link.speed.clone()),
                ("current_link_width", link.width.to_string()),
                ("max_link_speed", link.max_speed.clone()),
                ("max_link_width", link.max_width.to_string()),
            ],
        );
        tree.bytes(&format!("{directory}/config"), pci::config(nic));
        let driver = if is_device { nic.driver.as_str() } else { "pcieport" };
        tree.directory(&format!("/sys/bus/pci/drivers/{driver}"));
        tree.link(&format!("{directory}/driver"), &format!("/sys/bus/pci/drivers/{driver}"));
        tree.link(&format!("{directory}/subsystem"), "/sys/bus/pci");
        tree.link(&format!("/sys/bus/pci/devices/{function}"), &directory);
    }
    tree.text(&format!("{directory}/irq"), 0);
    tree.text(&format!("{directory}/power/control"), "on");
    tree.text(&format!("{directory}/aer_dev_correctable"), "RxErr 0\nBadTLP 0\nBadDLLP 0\nTOTAL_ERR_COR 0");
    if let Some(vfs_max) = nic.vfs_max {
        tree.texts(&directory, [("sriov_totalvfs", vfs_max), ("sriov_numvfs", 0)]);
    }
    directory
}

fn interface(nic: &NicKeys, ifindex: u32, device: &str, machine: &Machine<'_>, tree: &mut Tree) {
    let directory = format!("{device}/net/{}", nic.name);
    tree.link(&format!("/sys/class/net/{}", nic.name), &directory);
    tree.link(&format!("{directory}/device"), device);
    tree.directory(&format!("/sys/module/{}", nic.driver));
    tree.texts(
        &directory,
        [
            ("ifindex", ifindex.to_string()),
            // Locally administered: nobody's address.
            ("address", format!("02:00:00:00:00:{ifindex:02x}")),
            ("dev_port", nic.port.to_string()),
            ("mtu", nic.mtu_bytes.to_string()),
            ("speed", nic.speed_mbps.to_string()),
        ],
    );
    tree.texts(
        &directory,
        [
            ("type", "1"),
            ("operstate", "up"),
            ("carrier", "1"),
            ("carrier_changes", "2"),
            ("duplex", "full"),
            ("tx_queue_len", "1000"),
            ("gro_flush_timeout", "0"),
            ("napi_defer_hard_irqs", "0"),
            ("threaded", "0"),
        ],
    );
    statistics(&directory, tree);
    let none = machine.mask(&[]);
    for queue in 0..nic.rx_queues {
        tree.texts(&format!("{directory}/queues/rx-{queue}"), [("rps_cpus", none.as_str()), ("rps_flow_cnt", "0")]);
    }
    for queue in 0..nic.tx_queues {
        let queue = format!("{directory}/queues/tx-{queue}");
        tree.texts(&queue, [("xps_cpus", none.as_str()), ("xps_rxqs", "0"), ("tx_timeout", "0")]);
        tree.texts(
            &format!("{queue}/byte_queue_limits"),
            [("limit", "0"), ("limit_max", "1879048192"), ("limit_min", "0")],
        );
    }
}

fn loopback(tree: &mut Tree) {
    const DIRECTORY: &str = "/sys/devices/virtual/net/lo";
    tree.link("/sys/class/net/lo", DIRECTORY);
    tree.texts(DIRECTORY, [("ifindex", "1"), ("address", "00:00:00:00:00:00"), ("mtu", "65536"), ("type", "772")]);
    statistics(DIRECTORY, tree);
}

fn statistics(directory: &str, tree: &mut Tree) {
    let names = [
        "rx_packets",
        "tx_packets",
        "rx_bytes",
        "tx_bytes",
        "rx_errors",
        "tx_errors",
        "rx_dropped",
        "tx_dropped",
        "rx_missed_errors",
        "rx_fifo_errors",
        "rx_crc_errors",
        "rx_over_errors",
        "rx_frame_errors",
        "rx_length_errors",
        "rx_nohandler",
        "multicast",
        "collisions",
        "tx_carrier_errors",
        "tx_aborted_errors",
        "tx_fifo_errors",
    ];
    tree.texts(&format!("{directory}/statistics"), names.map(|name| (name, 0)));
}

fn irq_files(irqs: &[Irq], machine: &Machine<'_>, tree: &mut Tree) {
    let online = machine.online();
    let mut table = " ".repeat(11);
    for cpu in &online {
        // Writing to a string cannot fail.
        let _ = write!(table, "{:<11}", format!("CPU{cpu}"));
    }
    table.push('\n');
    for irq in irqs {
        let _ = write!(table, "{:>4}:", irq.number);
        for cpu in &online {
            let _ = write!(table, "{:>11}", if *cpu == irq.effective { 1000 } else { 0 });
        }
        let _ = writeln!(table, " {}   {}", irq.kind, irq.name);
        tree.texts(
            &format!("/proc/irq/{}", irq.number),
            [
                ("smp_affinity", machine.mask(&irq.affinity)),
                ("smp_affinity_list", list(&irq.affinity)),
                ("effective_affinity", machine.mask(&[irq.effective])),
                ("effective_affinity_list", irq.effective.to_string()),
                ("affinity_hint", machine.mask(&[])),
                ("node", irq.node.to_string()),
                ("spurious", "count 0\nunhandled 0\nlast_unhandled 0 ms".to_owned()),
            ],
        );
        tree.directory(&format!("/proc/irq/{}/{}", irq.number, irq.name));
    }
    for (name, title, count) in [
        ("NMI", "Non-maskable interrupts", 3),
        ("LOC", "Local timer interrupts", 250_000),
        ("RES", "Rescheduling interrupts", 1200),
        ("CAL", "Function call interrupts", 4000),
        ("TLB", "TLB shootdowns", 90),
    ] {
        let _ = write!(table, "{name:>4}:");
        for _ in &online {
            let _ = write!(table, "{count:>11}");
        }
        let _ = writeln!(table, "   {title}");
    }
    tree.text("/proc/interrupts", table);
    tree.text("/proc/irq/default_smp_affinity", machine.mask(&online));
}
