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
                 "flow-rules": {{"unsupported": true}}, "features": {{"rx-ntuple-filter": "{ntuple}"}}}}"#
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

/// A host of two queues, the second of which has its interrupt on the CPU that is isolated for the program.
fn steered(answers: &str) -> TempDir {
    host(&[
        ("sys/class/net/eth0/mtu", "1500\n"),
        ("sys/class/net/eth0/device/local_cpulist", "0-3\n"),
        ("sys/devices/system/cpu/isolated", "3\n"),
        ("proc/irq/30/effective_affinity_list", "0\n"),
        ("proc/irq/31/effective_affinity_list", "3\n"),
        ("nearwire/interfaces/eth0.json", answers),
    ])
}

const TWO_QUEUES: &str = r#""napi": {"instances": [{"queues": ["rx-0", "tx-0"], "irq": 30}, {"queues": ["rx-1", "tx-1"], "irq": 31}]}, "features": {"rx-ntuple-filter": "on"}"#;

#[test]
fn flow_that_a_rule_brings_to_a_queue_on_an_isolated_cpu_is_told_with_the_whole_chain() {
    let rules = |rules: &str| steered(&format!(r#"{{{TWO_QUEUES}, "flow-rules": {{"rules": [{rules}]}}}}"#));
    let udp = r#"{"location": 7, "kind": "udp4", "destination-port": 4321, "queue": 1}"#;
    let directory = rules(udp);
    let isolated = "interrupt 31 goes to CPU 3, which is isolated";
    assert_eq!(value(&directory, "nic.chain"), format!("rule 7 (udp4 port 4321) to rx-1 tx-1: {isolated}"));
    assert_eq!(value(&directory, "nic.rx-steering-rules"), "rule 7: udp4 port 4321 to queue 1");
    // Without a rule the hash brings flows there.
    assert_eq!(value(&rules(""), "nic.chain"), format!("rx-1 tx-1: {isolated}"));
    assert_eq!(value(&rules(""), "nic.rx-steering-rules"), "none");
    // What goes to a virtual function, to a group or nowhere says nothing of the queues here.
    let others = r#"{"location": 1, "kind": "ip4", "queue": 1, "virtual-function": 2},
                    {"location": 2, "kind": "tcp4", "is-dropped": true}, {"location": 3, "kind": "tcp6", "rss-context": 5}"#;
    let directory = rules(others);
    assert_eq!(value(&directory, "nic.chain"), format!("rx-1 tx-1: {isolated}"));
    assert_eq!(
        value(&directory, "nic.rx-steering-rules"),
        "rule 1: ip4 to queue 1 of virtual function 2, rule 2: tcp4 dropped, rule 3: tcp6 to the hash of group 5"
    );
}

/// A queue that the table of the hash leaves out is kept for flows that rules bring there; it was told as if all flows came to it.
#[test]
fn queue_that_the_hash_leaves_out_is_told_only_where_a_rule_brings_flows_to_it() {
    let table = |queues: &str, rules: &str| {
        steered(&format!(
            r#"{{{TWO_QUEUES}, "flow-rules": {{"rules": [{rules}]}}, "rss-table": {{"queues": [{queues}]}}}}"#
        ))
    };
    let isolated = "interrupt 31 goes to CPU 3, which is isolated";
    assert_eq!(value(&table("0, 0, 0, 0", ""), "nic.chain"), "whole");
    assert_eq!(value(&table("0, 0, 0, 0", ""), "nic.rss.indirection"), "0");
    let directory = table("0, 1, 0, 1", "");
    assert_eq!(value(&directory, "nic.chain"), format!("rx-1 tx-1: {isolated}"));
    assert_eq!(value(&directory, "nic.rss.indirection"), "0-1");
    assert_eq!(value(&table("0, 0, 0, 1", ""), "nic.rss.indirection"), "0-1, unevenly");
    let udp = r#"{"location": 7, "kind": "udp4", "destination-port": 4321, "queue": 1}"#;
    let directory = table("0, 0", udp);
    assert_eq!(value(&directory, "nic.chain"), format!("rule 7 (udp4 port 4321) to rx-1 tx-1: {isolated}"));
    // The table of a group, where it is not known, may bring flows to any queue.
    let group = r#"{"location": 3, "kind": "tcp6", "rss-context": 5}"#;
    assert_eq!(value(&table("0, 0", group), "nic.chain"), format!("rx-1 tx-1: {isolated}"));
    let told = "the hash brings flows to queue 2-3, which has no interrupt to receive by";
    assert_eq!(value(&table("0, 2, 3, 0", ""), "nic.chain"), told);
}

#[test]
fn flow_that_a_rule_brings_to_a_group_is_told_by_the_queues_of_the_groups_own_table() {
    let group = |rule: &str, table: &str| {
        steered(&format!(
            r#"{{{TWO_QUEUES}, "rss-table": {{"queues": [0, 0]}}, "flow-rules": {{"rules": [{{"location": 3, "kind": "tcp6",
                 "destination-port": 80, "rss-context": 5{rule}}}], "rss-contexts": {{"5": [{table}], "6": [0, 1]}}}}}}"#
        ))
    };
    let isolated = "rule 3 (tcp6 port 80) to rx-1 tx-1: interrupt 31 goes to CPU 3, which is isolated";
    // Neither the group nor the hash brings flows to the queue on the isolated CPU.
    assert_eq!(value(&group("", "0, 0"), "nic.chain"), "whole");
    assert_eq!(value(&group("", "0, 1"), "nic.chain"), isolated);
    let steering = |queues| format!("rule 3: tcp6 port 80 to the hash of group 5 (queue {queues})");
    assert_eq!(value(&group("", "0, 1"), "nic.rx-steering-rules"), steering("0-1"));
    let moved = group(r#", "queue-offset": 1"#, "0, 0");
    assert_eq!(value(&moved, "nic.chain"), isolated);
    assert_eq!(value(&moved, "nic.rx-steering-rules"), steering("1"));
    let gone = "rule 3 (tcp6 port 80): queue 4 has no interrupt to receive by";
    assert_eq!(value(&group("", "0, 4"), "nic.chain"), gone);
}

#[test]
fn rule_for_a_queue_that_is_gone_is_told_first() {
    let answers = r#""flow-rules": {"rules": [{"location": 1, "kind": "tcp4", "destination-port": 80, "queue": 9},
                     {"location": 2, "kind": "udp4", "queue": 9}]}"#;
    let told = value(&steered(&format!("{{{TWO_QUEUES}, {answers}}}")), "nic.chain");
    let (first, second) = told.split_once("; ").unwrap();
    assert_eq!(first, "rule 1 (tcp4 port 80) and 1 more: queue 9 has no interrupt to receive by");
    assert!(second.starts_with("rx-1 tx-1: interrupt 31"), "{second}");
}

#[test]
fn chain_of_a_copy_without_the_kernels_answers_is_told_by_the_names_of_interrupts() {
    let table =
        "     CPU0 CPU1 CPU2 CPU3\n 30: 1 0 0 0 PCI-MSI 1-edge eth0-TxRx-0\n 31: 0 0 0 1 PCI-MSI 2-edge eth0-TxRx-1\n";
    let directory = steered(r#"{"flow-rules": {"unsupported": true}}"#);
    add(directory.path(), "proc/interrupts", table.as_bytes());
    assert_eq!(value(&directory, "nic.chain"), "rx-1: interrupt 31 goes to CPU 3, which is isolated");
    // Nothing is wrong, and nobody asked for the rules.
    add(directory.path(), "nearwire/interfaces/eth0.json", b"{}");
    add(directory.path(), "proc/irq/31/effective_affinity_list", b"1\n");
    let Reading::Unknown { why } = reading(&directory, "nic.chain") else { panic!("a chain without rules is judged") };
    assert!(why.contains("rules for flows are not known"), "{why}");
}

const ROCE_PORT: [(&str, &str); 4] = [
    ("sys/class/net/eth0/mtu", "4200\n"),
    ("sys/class/net/eth0/device/infiniband/mlx5_0/fw_ver", "22.36.1010\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n"),
    ("sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=106\n"),
];

/// A port with RoCE, by what dcb and ethtool answer.
fn roce(dcb: &str, more: Files<'_>) -> TempDir {
    let answers = format!(r#"{{"dcb": {dcb}, "pause": {{"rx": false, "tx": false}}}}"#);
    host(&[&ROCE_PORT[..], &[("nearwire/interfaces/eth0.json", answers.as_str())], more].concat())
}

/// DSCP 26, as traffic class 106 has it, leads to priority 3; so do the settings of the vendors' guides.
const DSCP_TRUSTED: &str = r#"{"paused-priorities": 8, "dscp-priorities": [[0, 0], [26, 3]]}"#;

#[test]
fn roce_whose_trust_dscp_and_pauses_fit_is_whole() {
    let directory = roce(DSCP_TRUSTED, &[]);
    assert_eq!(value(&directory, "rdma.roce.flow-control"), "3");
    assert_eq!(value(&directory, "rdma.roce.trust"), "dscp");
    assert_eq!(value(&directory, "rdma.roce.chain"), "whole");
    // The kernel's own driver does not show marks; the finding says how to ask the device.
    let Reading::Unknown { why } = reading(&directory, "rdma.roce.congestion-control") else {
        panic!("marks are shown")
    };
    assert!(why.contains("mlxconfig"), "{why}");
}

/// A port that has both kinds of addresses is not enough where connections are made by the older one.
#[test]
fn roce_whose_connections_get_version_1_is_told() {
    let types = "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types";
    let with_mode = |mode: &str| {
        let files = [
            (format!("{types}/0"), "IB/RoCE v1\n"),
            (format!("{types}/1"), "RoCE v2\n"),
            ("sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode".to_owned(), mode),
        ];
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        value(&roce(DSCP_TRUSTED, &files), "rdma.roce.chain")
    };
    assert_eq!(with_mode("RoCE v2\n"), "whole");
    let told = "connections get addresses of RoCE version 1 (default_roce_mode), whose frames have no DSCP";
    assert_eq!(with_mode("IB/RoCE v1\n"), told);
}

#[test]
fn roce_in_a_priority_that_is_not_paused_is_told_with_the_reason() {
    let chain = |dcb: &str| value(&roce(dcb, &[]), "rdma.roce.chain");
    assert_eq!(
        chain(r#"{"paused-priorities": 8}"#),
        "priority 3 is paused, and frames without a VLAN tag are of priority 0, as the tag is trusted"
    );
    assert_eq!(
        chain(r#"{"paused-priorities": 8, "dscp-priorities": [[24, 3], [26, 4]]}"#),
        "DSCP 26, which RDMA is given, is of priority 4, and priority 3 is paused"
    );
    assert_eq!(
        chain(r#"{"paused-priorities": 0, "dscp-priorities": [[26, 3]]}"#),
        "no priority is paused and pause frames are off, so a full buffer loses frames"
    );
}

#[test]
fn roce_with_addresses_of_version_1_alone_is_told() {
    let types = "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types";
    let directory = roce(DSCP_TRUSTED, &[(&format!("{types}/0"), "IB/RoCE v1\n")]);
    let told = value(&directory, "rdma.roce.chain");
    assert_eq!(told, "no address is of RoCE version 2, and only its frames have a DSCP and marks");
    add(directory.path(), &format!("{types}/1"), b"RoCE v2\n");
    assert_eq!(value(&directory, "rdma.roce.chain"), "whole");
}

#[test]
fn roce_marks_are_read_of_each_priority_and_held_against_the_paused_one() {
    let mut files: Vec<(String, &str)> = Vec::new();
    for end in ["roce_np", "roce_rp"] {
        files.extend((0..8).map(|priority| (format!("sys/class/net/eth0/ecn/{end}/enable/{priority}"), "1\n")));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let directory = roce(DSCP_TRUSTED, &files);
    assert_eq!(value(&directory, "rdma.roce.congestion-control"), "on");
    assert_eq!(value(&directory, "rdma.roce.chain"), "whole");
    add(directory.path(), "sys/class/net/eth0/ecn/roce_rp/enable/3", b"0\n");
    assert_eq!(
        value(&directory, "rdma.roce.chain"),
        "priority 3 is paused and not marked (ECN), so a congested path is only paused"
    );
}

#[test]
fn interface_without_an_ethernet_port_of_rdma_has_nothing_of_roce() {
    let directory = host(&[("sys/class/net/eth0/mtu", "1500\n"), ("sys/class/net/eth0/device/vendor", "0x15b3\n")]);
    let of_infiniband = roce(DSCP_TRUSTED, &[("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n")]);
    for id in ["rdma.roce.flow-control", "rdma.roce.trust", "rdma.roce.congestion-control", "rdma.roce.chain"] {
        assert_eq!(reading(&directory, id), Reading::Unsupported, "{id}");
        assert_eq!(reading(&of_infiniband, id), Reading::Unsupported, "{id}");
    }
}

#[test]
fn offset_that_sos_kept_of_chronyc_is_read_and_stamps_are_those_of_the_configuration() {
    let tracking = "Reference ID    : CB00710F (ntp1.example.net)\nStratum         : 3\n\
                    System time     : 0.000006523 seconds slow of NTP time\nLeap status     : Normal\n";
    let directory = host(&[
        ("version.txt", "sosreport: 4.7.2\n"),
        ("sos_commands/chrony/chronyc_tracking", tracking),
        ("etc/chrony.conf", "pool 2.pool.example.net iburst\n#hwtimestamp *\n"),
    ]);
    assert_eq!(value(&directory, "clock.offset-ns"), "6523");
    assert_eq!(value(&directory, "clock.stamps"), "software");
    add(directory.path(), "etc/chrony.d/stamps.conf", b"hwtimestamp eth0 rxfilter ptp\n");
    assert_eq!(value(&directory, "clock.stamps"), "hardware");
    add(directory.path(), "etc/ptp4l.conf", b"[global]\ntime_stamping software\n");
    assert_eq!(value(&directory, "clock.stamps"), "software (ptp4l), hardware (chrony)");
    // The options of a daemon that runs count before its file.
    add(directory.path(), "run/ptp4l", b"");
    add(directory.path(), "proc/812/comm", b"ptp4l\n");
    add(directory.path(), "proc/812/cmdline", b"/usr/sbin/ptp4l\0-H\0-i\0eth0\0");
    assert_eq!(value(&directory, "clock.stamps"), "hardware");
    let Reading::Unknown { why } = reading(&directory, "clock.ptp.offset-ns") else { panic!("sos asks no ptp4l") };
    assert!(why.contains("no answers were recorded"), "{why}");
    add(directory.path(), "nearwire/clocks.json", br#"{"chrony": {"is-lost": true}, "ptp4l": {"needs-root": true}}"#);
    assert_eq!(reading(&directory, "clock.ptp.offset-ns"), Reading::NeedsRoot);
    let Reading::Unknown { why } = reading(&directory, "clock.offset-ns") else { panic!("a lost clock has an offset") };
    assert!(why.contains("follows no clock"), "{why}");
}

#[test]
fn ena_express_is_told_by_the_counter_of_its_driver() {
    let recorded =
        |answers: &str| host(&[("sys/class/net/eth0/mtu", "9001\n"), ("nearwire/interfaces/eth0.json", answers)]);
    for (mode, words) in [("0", "off"), ("1", "tcp"), ("2", "udp"), ("3", "tcp udp")] {
        let directory = recorded(&format!(r#"{{"ena": {{"srd-mode": {mode}}}}}"#));
        assert_eq!(value(&directory, "nic.ena.express"), words);
    }
    assert_eq!(
        reading(&recorded(r#"{"ena": {}}"#), "nic.ena.express"),
        Reading::Unsupported,
        "an older kind of instance"
    );
    // What sos keeps of `ethtool -S`.
    let counters = "NIC statistics:\n     tx_timeout: 0\n     ena_srd_mode: 1\n     ena_srd_tx_pkts: 7\n";
    let of_sos = |driver: &str| {
        let directory = host(&[
            ("version.txt", "sosreport: 4.7.2\n"),
            ("sys/class/net/eth0/mtu", "9001\n"),
            ("sos_commands/networking/ethtool_-S_eth0", counters),
        ]);
        link(directory.path(), "sys/class/net/eth0/device/driver", &format!("../../../bus/pci/drivers/{driver}"));
        reading(&directory, "nic.ena.express")
    };
    assert_eq!(of_sos("ena"), Reading::value("tcp"));
    assert_eq!(of_sos("mlx5_core"), Reading::Unsupported);
}
