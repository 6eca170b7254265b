//! What one file, or one reading of it, does not tell alone.

use super::*;

const ISOLATED: (&str, &str) = ("sys/devices/system/cpu/isolated", "2-3\n");
const UNIT: (&str, &str) = ("usr/lib/systemd/system/irqbalance.service", "[Service]\nExecStart=/usr/sbin/irqbalance\n");

fn banned(files: Files<'_>) -> String {
    value(
        &host(&[&[UNIT, ("etc/default/x", ""), ("etc/sysconfig/x", "")], files].concat()),
        "service.irqbalance.banned-cpus",
    )
}

#[test]
fn irqbalance_told_nothing_leaves_cpus_isolated_at_boot_alone() {
    assert_eq!(banned(&[ISOLATED]), "2-3");
    assert_eq!(banned(&[ISOLATED, ("sys/devices/system/cpu/nohz_full", "4\n")]), "2-4");
    assert_eq!(banned(&[("sys/devices/system/cpu/nohz_full", "(null)\n")]), "none");
    assert_eq!(banned(&[("etc/default/irqbalance", "#IRQBALANCE_BANNED_CPULIST=5\n"), ISOLATED]), "2-3");
}

#[test]
fn irqbalance_told_in_any_place_of_its_environment_leaves_those_cpus_alone() {
    let drop_in = "etc/systemd/system/irqbalance.service.d/cpus.conf";
    for (path, text) in [
        ("etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=\"6-7\"\n"),
        ("etc/sysconfig/irqbalance", "IRQBALANCE_BANNED_CPULIST=6,7 # the program's\n"),
        ("etc/sysconfig/irqbalance", "IRQBALANCE_BANNED_CPUS=000000c0\n"),
        (drop_in, "[Service]\nEnvironment=A=1 \"IRQBALANCE_BANNED_CPULIST=6 7\" IRQBALANCE_BANNED_CPULIST=6-7\n"),
        (drop_in, "[Service]\nEnvironment=IRQBALANCE_BANNED_CPUS=c0\n"),
    ] {
        // What it is told replaces what it would leave alone by itself.
        assert_eq!(banned(&[ISOLATED, (path, text)]), "6-7", "{path}: {text}");
    }
    let named = [
        (drop_in, "[Service]\nEnvironmentFile=-/srv/irqbalance\n"),
        ("srv/irqbalance", "IRQBALANCE_BANNED_CPULIST=6-7\n"),
    ];
    assert_eq!(banned(&[&[ISOLATED][..], &named].concat()), "6-7");
    let both = [("etc/default/irqbalance", "IRQBALANCE_BANNED_CPUS=1\nIRQBALANCE_BANNED_CPULIST=6-7\n")];
    assert_eq!(banned(&both), "6-7");
}

const COUNTERS: &str = "           CPU0       CPU1       CPU2       CPU3\n  30:          5          0          0          0  PCI-MSI  eth0-0\n  31:          0          0          0          0  PCI-MSI  nvme0q3\n LOC:          9          9          9          9  Local timer interrupts\n";

fn with_interrupts(text: &str) -> Reading {
    let masks = [("proc/irq/30/effective_affinity_list", "0\n"), ("proc/irq/31/effective_affinity_list", "3\n")];
    let files = [ISOLATED, ("sys/devices/system/cpu/online", "0-3\n"), ("proc/interrupts", text)];
    reading(&host(&[&files[..], &masks].concat()), "irq.on-isolated")
}

#[test]
fn vector_that_may_go_to_an_isolated_cpu_and_never_did_is_not_counted() {
    assert_eq!(with_interrupts(COUNTERS), Reading::value("none"));
}

#[test]
fn interrupts_of_isolated_cpus_read_once_cannot_be_told_from_old_ones() {
    let Reading::Unknown { why } =
        with_interrupts(&COUNTERS.replacen("31:          0          0          0", "31:  0  0  7", 1))
    else {
        panic!("an archive of one reading is judged");
    };
    assert!(why.contains("31 on 2") && why.contains("one reading"), "{why}");
}

#[test]
fn link_of_a_device_is_held_against_its_slot_and_not_only_its_own_best() {
    let directory = host(&[]);
    let root = directory.path();
    let port = "sys/devices/pci0000:00/0000:00:01.1";
    let device = format!("{port}/0000:02:00.0");
    add(root, &format!("{device}/net/eth0/mtu"), b"1500\n");
    link(root, "sys/class/net/eth0", "../../devices/pci0000:00/0000:00:01.1/0000:02:00.0/net/eth0");
    link(root, &format!("{device}/net/eth0/device"), "../../../0000:02:00.0");
    link(root, &format!("{device}/subsystem"), "../../../../bus/pci");
    add(root, "sys/bus/pci/x", b"");
    add(root, &format!("{device}/max_link_speed"), b"16.0 GT/s PCIe\n");
    add(root, &format!("{device}/max_link_width"), b"16\n");
    assert_eq!(value(&directory, "nic.pcie.speed-possible"), "16.0 GT/s PCIe");
    add(root, &format!("{port}/max_link_speed"), b"8.0 GT/s PCIe\n");
    add(root, &format!("{port}/max_link_width"), b"8\n");
    assert_eq!(value(&directory, "nic.pcie.speed-possible"), "8.0 GT/s PCIe");
    assert_eq!(value(&directory, "nic.pcie.width-possible"), "8");
    add(root, &format!("{port}/max_link_speed"), b"Unknown\n");
    add(root, &format!("{port}/max_link_width"), b"0\n");
    assert_eq!(value(&directory, "nic.pcie.speed-possible"), "16.0 GT/s PCIe");
    assert_eq!(value(&directory, "nic.pcie.width-possible"), "16");
}

#[test]
fn socket_that_takes_lldp_alone_is_no_tap() {
    let titles = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n";
    let socket = |protocol: &str| format!("0000000000000000 3      3    {protocol}   2     1 0      0      20115\n");
    let taps = |protocols: &[&str]| {
        let text = titles.to_owned() + &protocols.iter().map(|protocol| socket(protocol)).collect::<String>();
        value(&host(&[("proc/net/packet", &text)]), "stack.taps")
    };
    assert_eq!(taps(&["88cc", "888e"]), "0");
    assert_eq!(taps(&["88cc", "0003", "0800"]), "2");
}

fn rejected(options: &str) -> String {
    let log = format!(
        "6,0,0,-;Linux version 6.1.0\n5,1,0,-;Unknown kernel command line parameters \"{options}\", will be passed to user space.\n"
    );
    value(&host(&[("dev/kmsg", &log)]), "boot.rejected")
}

#[test]
fn options_for_programs_of_the_boot_are_not_told_as_rejected() {
    assert_eq!(rejected("BOOT_IMAGE=(hd0,gpt2)/vmlinuz splash rhgb ostree=/ostree/boot.1"), "none");
    assert_eq!(rejected("systemd.unified_cgroup_hierarchy=1 rd.luks.uuid=x net.ifnames=0"), "none");
    assert_eq!(rejected("BOOT_IMAGE=/vmlinuz isolcpu=2-3 splash"), "\"isolcpu=2-3\"");
}

#[test]
fn huge_pages_are_read_from_meminfo_where_no_node_tells_them() {
    let meminfo = "MemTotal: 8 kB\nHugePages_Total:     224\nHugePages_Free:      200\nHugepagesize:    1048576 kB\n";
    let huge_pages = |files: Files<'_>| value(&host(files), "memory.huge-pages");
    assert_eq!(huge_pages(&[("proc/meminfo", meminfo)]), "host 1048576kB: 200 of 224 free");
    let node = ("sys/devices/system/node/node0/cpulist", "0-3\n");
    assert_eq!(huge_pages(&[("proc/meminfo", meminfo), node]), "host 1048576kB: 200 of 224 free");
    let pool = "sys/devices/system/node/node0/hugepages/hugepages-2048kB";
    let (total, free) = (format!("{pool}/nr_hugepages"), format!("{pool}/free_hugepages"));
    assert_eq!(huge_pages(&[("proc/meminfo", meminfo), (&total, "0\n"), (&free, "0\n")]), "none");
}

#[test]
fn limit_of_the_wake_up_is_the_time_to_leave_c1_and_never_the_0_that_means_none() {
    let limit = |latency_us: &str| {
        let states = "sys/devices/system/cpu/cpu0/cpuidle/state";
        let files = [
            (format!("{states}0/name"), "POLL\n"),
            (format!("{states}0/latency"), "0\n"),
            (format!("{states}1/name"), "C1\n"),
            (format!("{states}1/latency"), latency_us),
            (format!("{states}2/name"), "C6\n"),
            (format!("{states}2/latency"), "133\n"),
        ];
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        value(&host(&files), "cpu.idle.c1-exit-us")
    };
    assert_eq!(limit("2\n"), "2");
    assert_eq!(limit("0\n"), "1");
}

#[test]
fn datagrams_lost_for_want_of_buffers_are_counted() {
    let snmp = "Ip: Forwarding\nIp: 2\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 9 0 4 8 3\n";
    assert_eq!(value(&host(&[("proc/net/snmp", snmp)]), "stack.udp-buffer-errors"), "3");
}

#[test]
fn kinds_of_roce_addresses_are_those_of_ethernet_ports() {
    let port = |device: &str| format!("sys/class/infiniband/{device}/ports/1");
    let directory = host(&[
        (&format!("{}/link_layer", port("mlx5_0")), "Ethernet\n"),
        (&format!("{}/gid_attrs/types/0", port("mlx5_0")), "IB/RoCE v1\n"),
        (&format!("{}/gid_attrs/types/1", port("mlx5_0")), "RoCE v2\n"),
        (&format!("{}/link_layer", port("mlx5_1")), "InfiniBand\n"),
        (&format!("{}/gid_attrs/types/0", port("mlx5_1")), "IB/RoCE v1\n"),
    ]);
    assert_eq!(value(&directory, "rdma.roce.gid-types"), "IB/RoCE v1, RoCE v2");
}

#[test]
fn private_flags_of_the_driver_are_read_by_its_names() {
    let answers = r#"{"private-flags": {"rx_cqe_compress": true, "rx_striding_rq": true, "tx_cqe_compress": false}}"#;
    let directory = host(&[("sys/class/net/eth0/mtu", "1500\n"), ("nearwire/interfaces/eth0.json", answers)]);
    assert_eq!(value(&directory, "nic.private-flags.names"), "rx_cqe_compress rx_striding_rq");
    assert_eq!(value(&directory, "nic.private-flags.rx-cqe-compress"), "on");
    assert_eq!(value(&directory, "nic.private-flags.tx-cqe-compress"), "off");
    assert_eq!(reading(&directory, "nic.private-flags.legacy-rx"), Reading::Unsupported);
}

#[test]
fn processors_that_the_firmware_divides_are_told_by_their_nodes() {
    let cpus = (0..4).flat_map(|cpu| {
        let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        [
            (format!("{topology}/physical_package_id"), "0\n".to_owned()),
            (format!("{topology}/core_id"), format!("{cpu}\n")),
        ]
    });
    let mut files: Vec<(String, String)> = cpus.collect();
    files.push(("sys/devices/system/cpu/online".to_owned(), "0-3\n".to_owned()));
    files.push(("sys/devices/system/node/node0/cpulist".to_owned(), "0-1\n".to_owned()));
    files.push(("sys/devices/system/node/node1/cpulist".to_owned(), "2-3\n".to_owned()));
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    assert_eq!(value(&host(&files), "firmware.nodes-per-socket"), "2");
}

#[test]
fn chain_of_a_queue_is_judged_from_its_rule_to_its_cpu() {
    let directory = host(&[
        ("sys/class/net/eth0/mtu", "1500\n"),
        ("sys/class/net/eth0/device/local_cpulist", "0-1\n"),
        ("proc/irq/30/effective_affinity_list", "0\n"),
        ("proc/irq/31/effective_affinity_list", "1\n"),
    ]);
    let chain = |ntuple: &str| {
        let answers = format!(
            r#"{{"napi": {{"instances": [{{"queues": ["rx-0", "tx-0"], "irq": 30}}, {{"queues": ["rx-1"], "irq": 31}}]}},
                 "features": {{"rx-ntuple-filter": "{ntuple}"}}}}"#
        );
        add(directory.path(), "nearwire/interfaces/eth0.json", answers.as_bytes());
        value(&directory, "nic.chain")
    };
    assert_eq!(chain("on"), "whole");
    assert_eq!(chain("off"), "no rule can bring a flow to a queue while ntuple is off");
    add(directory.path(), "proc/irq/31/effective_affinity_list", b"0\n");
    assert_eq!(chain("on"), "rx-0 tx-0 and rx-1 share CPU 0");
    add(directory.path(), "proc/irq/31/effective_affinity_list", b"7\n");
    assert_eq!(chain("on"), "rx-1: CPU 7 is not near the device");
    add(directory.path(), "proc/irq/31/effective_affinity_list", b"0-3\n");
    assert_eq!(chain("on"), "rx-1: interrupt 31 may go to CPUs 0-3");
}
