//! Outputs of eight drivers, by ethtool 3.5 to 6.14, as `sos` keeps them.

use proptest::prelude::*;

use super::DIRECTORY;
use crate::root::{MemoryTree, Node};
use crate::{Reading, Root, catalogue, read_settings};

/// Each has the outputs of several commands, in the order of the commands that stand before them.
const FIXTURES: [(&str, &str); 8] = [
    ("mlx5_core", include_str!("fixtures/mlx5.txt")),
    ("ice", include_str!("fixtures/ice.txt")),
    ("i40e", include_str!("fixtures/i40e.txt")),
    ("ixgbe", include_str!("fixtures/ixgbe.txt")),
    ("ena", include_str!("fixtures/ena.txt")),
    ("bnxt_en", include_str!("fixtures/bnxt.txt")),
    ("virtio_net", include_str!("fixtures/virtio_net.txt")),
    ("tg3", include_str!("fixtures/tg3.txt")),
];

/// Files by the names that `sos` gives them: what is no part of a word becomes `_`.
fn files(fixture: &str) -> Vec<(String, String)> {
    let outputs = fixture.split("# ").filter(|part| !part.is_empty());
    let file = |part: &str| {
        let (command, output) = part.split_once('\n').unwrap();
        (command.replace(' ', "_"), output.to_owned())
    };
    outputs.map(file).collect()
}

fn fixture(driver: &str) -> Vec<(String, String)> {
    files(FIXTURES.iter().find(|(name, _)| *name == driver).unwrap().1)
}

fn root_of(files: &[(String, String)]) -> Root {
    let mut tree = MemoryTree::new();
    for (name, output) in files {
        tree.insert(&format!("{DIRECTORY}/{name}"), Node::File(output.as_bytes().into())).unwrap();
    }
    Root::memory(tree, "report".into()).unwrap()
}

fn reading(files: &[(String, String)], id: &str) -> Reading {
    let setting = catalogue::setting(id).unwrap();
    read_settings(&root_of(files), &[setting], &["eth0".to_owned()]).remove(0).1
}

fn assert_read(driver: &str, wanted: &[(&str, &str)]) {
    let files = fixture(driver);
    for (id, value) in [("nic.driver", driver)].iter().chain(wanted) {
        let wanted = if *value == "-" { Reading::Unsupported } else { Reading::value(*value) };
        assert_eq!(reading(&files, id), wanted, "{driver} {id}");
    }
}

#[test]
fn outputs_of_mlx5_read_are_its_settings() {
    assert_read(
        "mlx5_core",
        &[
            ("nic.firmware", "22.39.2048 (MT_0000000359)"),
            ("nic.bus-info", "0000:3b:00.0"),
            ("nic.speed-mbps", "100000"),
            ("nic.duplex", "full"),
            ("nic.autoneg", "on"),
            ("nic.wake-on-lan", "off"),
            ("nic.coalesce.rx-usecs", "8"),
            ("nic.coalesce.tx-frames", "128"),
            ("nic.coalesce.adaptive-rx", "on"),
            ("nic.coalesce.completion-timer", "completion"),
            ("nic.ring.rx", "1024"),
            ("nic.ring.rx-max", "8192"),
            ("nic.ring.tx-push", "off"),
            ("nic.ring.tx-push-bytes", "-"),
            ("nic.channels.combined", "24"),
            ("nic.channels.combined-max", "63"),
            ("nic.pause", "rx tx"),
            ("nic.pause.autoneg", "off"),
            ("nic.offload.gro", "on"),
            ("nic.offload.lro", "off"),
            ("nic.offload.loopback", "off [fixed]"),
            ("nic.private-flags.rx-cqe-compress", "on"),
            ("nic.private-flags.rx-striding-rq", "on"),
            ("nic.private-flags", "9"),
            ("nic.energy-efficient", "-"),
            ("nic.fec", "rs"),
            ("nic.timestamping", "tx-hardware tx-software rx-hardware rx-software clock"),
            ("nic.rss.hash-function", "toeplitz"),
            ("nic.rss.indirection", "0-23"),
            ("nic.rx-steering-rules", "rule 7: udp4 port 4321 to queue 3, rule 8: ether dropped"),
            ("nic.module", "QSFP (SFF-8636)"),
            ("nic.ena.express", "-"),
            ("nic.mtu", "9000"),
            ("nic.qdisc", "mq"),
            ("nic.queues.rx", "192"),
            ("nic.kind", "-"),
            ("nic.carrier", "1"),
            ("nic.operational-state", "up"),
            ("nic.neighbours", "none"),
        ],
    );
}

#[test]
fn outputs_of_intel_drivers_read_are_their_settings() {
    assert_read(
        "ice",
        &[
            ("nic.coalesce.rx-usecs", "50"),
            ("nic.coalesce.rx-usecs-high", "0"),
            ("nic.offload.ntuple", "on"),
            ("nic.private-flags.legacy-rx", "off"),
            ("nic.fec", "none"),
            ("nic.ring.data-split", "off"),
            ("nic.carrier", "0"),
            ("nic.operational-state", "down"),
        ],
    );
    let files = fixture("ice");
    for (id, why) in [
        ("nic.speed-mbps", "the link is down"),
        ("nic.duplex", "the link is down"),
        ("nic.rss.hash-function", "no copy of /sos_commands/networking/ethtool_-x_eth0"),
        ("nic.rx-steering-rules", "no copy of"),
        ("nic.napi.map", "sos does not gather it"),
        ("rdma.roce.trust", "no copy of"),
    ] {
        let Reading::Unknown { why: found } = reading(&files, id) else { panic!("{id}") };
        assert!(found.contains(why), "{id}: {found}");
    }
    assert_read(
        "i40e",
        &[
            ("nic.speed-mbps", "25000"),
            ("nic.ring.rx", "512"),
            ("nic.ring.tx-push", "off"),
            ("nic.coalesce.completion-timer", "-"),
            ("nic.coalesce.tx-frames-irq", "256"),
            ("nic.energy-efficient", "-"),
            ("nic.rx-steering-rules", "none"),
            ("nic.neighbours", "above: bond0"),
            ("nic.offload.lro", "off [fixed]"),
        ],
    );
    assert_read(
        "ixgbe",
        &[
            ("nic.coalesce.rx-usecs", "1"),
            ("nic.coalesce.adaptive-rx", "off"),
            ("nic.channels.combined", "16"),
            ("nic.pause", "rx tx"),
            ("nic.energy-efficient", "-"),
            ("nic.timestamping", "tx-hardware tx-software rx-hardware rx-software clock"),
        ],
    );
}

#[test]
fn outputs_of_other_drivers_read_are_their_settings() {
    assert_read(
        "ena",
        &[
            ("nic.duplex", "full"),
            ("nic.coalesce.rx-usecs", "20"),
            ("nic.ring.rx", "1024"),
            ("nic.ring.tx-push-bytes", "96"),
            ("nic.ring.rx-push", "-"),
            ("nic.pause", "-"),
            ("nic.wake-on-lan", "-"),
            ("nic.private-flags.names", "-"),
            ("nic.ena.express", "tcp udp"),
            ("nic.timestamping", "tx-software rx-software"),
        ],
    );
    assert_read(
        "bnxt_en",
        &[
            ("nic.coalesce.rx-irq", "1 us, 2 frames"),
            ("nic.coalesce.completion-timer", "event"),
            ("nic.offload.gro-hw", "on"),
            ("nic.energy-efficient", "on, not active"),
            ("nic.wake-on-lan", "on"),
            ("nic.ring.rx-max", "2047"),
        ],
    );
    assert_read(
        "virtio_net",
        &[
            ("nic.coalesce.rx-frames", "1"),
            ("nic.channels.combined", "4"),
            ("nic.offload.rx-checksum", "on [fixed]"),
            ("nic.rss.hash-function", "toeplitz"),
            ("nic.rss.indirection", "-"),
            ("nic.rx-steering-rules", "-"),
            ("nic.module", "-"),
        ],
    );
}

/// Neither `n/a` nor names of the kernel, nor options that came later.
#[test]
fn outputs_of_an_old_ethtool_read_are_settings_and_what_it_lacks_is_unknown() {
    assert_read(
        "tg3",
        &[
            ("nic.speed-mbps", "1000"),
            ("nic.duplex", "half"),
            ("nic.coalesce.rx-usecs", "20"),
            ("nic.coalesce.rx-irq", "0 us, 5 frames"),
            ("nic.ring.tx", "511"),
            ("nic.pause", "rx"),
            ("nic.pause.autoneg", "on"),
            ("nic.offload.tx-checksum", "on"),
            ("nic.offload.tso", "off"),
            ("nic.offload.rxhash", "off"),
            ("nic.energy-efficient", "off"),
            ("nic.timestamping", "rx-software"),
            ("nic.private-flags.names", "-"),
        ],
    );
    let files = fixture("tg3");
    for (id, why) in [
        ("nic.channels.combined", "has no answer in it"),
        ("nic.ring.tx-push", "prints no line TX Push"),
        ("nic.coalesce.completion-timer", "prints no line CQE mode RX"),
    ] {
        let Reading::Unknown { why: found } = reading(&files, id) else { panic!("{id}") };
        assert!(found.contains(why), "{id}: {found}");
    }
}

/// As ethtool prints the rules before 6.14 and from then on.
#[test]
fn rule_to_a_group_read_names_the_queues_of_the_groups_table_where_somebody_had_it_printed() {
    let rule = |action: &str| {
        format!(
            "24 RX rings available\nTotal 1 rules\n\nFilter: 2\n\tRule Type: UDP over IPv4\n\tDest port: 4321 mask: 0x0\n{action}\n\n"
        )
    };
    let older = |queue| rule(&format!("\tRSS Context ID: 5\n\tAction: Direct to queue {queue}"));
    let table = "RX flow hash indirection table for eth0 with 24 RX ring(s):\n    0:      2     3     2     3\nRSS hash key:\n6d:5a\n";
    let steering = |rules: &str, table: Option<&str>| {
        let table = table.map(|table| ("ethtool_-x_eth0_context_5".to_owned(), table.to_owned()));
        let rules = ("ethtool_-n_eth0".to_owned(), rules.to_owned());
        reading(&[rules].into_iter().chain(table).collect::<Vec<_>>(), "nic.rx-steering-rules")
    };
    let told = |queues: &str| Reading::Value(format!("rule 2: udp4 port 4321 to the hash of group 5{queues}"));
    let newer = rule("\tAction: Direct to RSS context id 5");
    assert_eq!(steering(&newer, None), told(""));
    assert_eq!(steering(&newer, Some(table)), told(" (queue 2-3)"));
    assert_eq!(steering(&older(0), Some(table)), told(" (queue 2-3)"));
    let moved = rule("\tAction: Direct to RSS context id 5 (queue base offset: 4)");
    assert_eq!(steering(&moved, Some(table)), told(" (queue 6-7)"));
    assert_eq!(steering(&older(4), Some(table)), told(" (queue 6-7)"));
    assert_eq!(steering(&newer, Some("Cannot get RX flow hash configuration\n")), told(""));
}

#[test]
fn neighbours_of_a_bond_are_what_it_is_made_of_and_what_is_on_it() {
    let mut files = fixture("i40e");
    files.retain(|(name, _)| name.starts_with("ip_"));
    let root = root_of(&files);
    let setting = catalogue::setting("nic.neighbours").unwrap();
    let (_, found) = read_settings(&root, &[setting], &["bond0".to_owned()]).remove(0);
    assert_eq!(found, Reading::value("above: bond0.12, below: eth0"));
    let setting = catalogue::setting("nic.kind").unwrap();
    let kinds = ["bond0", "bond0.12"].map(str::to_owned);
    let found: Vec<_> = read_settings(&root, &[setting], &kinds).into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(found, [Reading::value("bond"), Reading::value("vlan")]);
}

/// As on hosts of containers and of Open vSwitch.
#[test]
fn part_of_a_switch_is_no_kind_and_what_is_in_another_namespace_is_no_neighbour() {
    let head = |number: u32, name: &str, words: &str| {
        format!(
            "{number}: {name}: <BROADCAST,UP,LOWER_UP> mtu 1500 qdisc noqueue {words}state UP mode DEFAULT group default qlen 1000\n    \
                 link/ether 02:00:00:00:00:0{number} brd ff:ff:ff:ff:ff:ff promiscuity 1 minmtu 68 maxmtu 65535 \n"
        )
    };
    let details = "addrgenmode eui64 numtxqueues 1 numrxqueues 1 \n";
    let text = [
        head(6, "eth0", "master ovs-system "),
        format!("    openvswitch_slave {details}"),
        head(7, "veth1@if16", "master br0 "),
        format!("    veth \n    bridge_slave state forwarding priority 32 {details}"),
        head(8, "vlan5@if3", ""),
        format!("    vlan protocol 802.1Q id 5 <REORDER_HDR> {details}"),
    ];
    let root = root_of(&[("ip_-s_-d_link".to_owned(), text.concat())]);
    let nics = ["eth0", "veth1", "vlan5"].map(str::to_owned);
    let of = |id: &str| {
        let found = read_settings(&root, &[catalogue::setting(id).unwrap()], &nics);
        found.into_iter().map(|(_, reading)| reading).collect::<Vec<_>>()
    };
    assert_eq!(of("nic.kind"), [Reading::Unsupported, Reading::value("veth"), Reading::value("vlan")]);
    let neighbours = ["above: ovs-system", "above: br0", "none"].map(Reading::value);
    assert_eq!(of("nic.neighbours"), neighbours);
}

#[test]
fn refusals_read_tell_what_the_driver_lacks_from_what_nobody_was_allowed_to_ask() {
    let coalesce = |text: &str| reading(&[("ethtool_-c_eth0".to_owned(), text.to_owned())], "nic.coalesce.rx-usecs");
    for text in [
        "netlink error: Operation not supported\n",
        "Coalesce parameters for eth0:\nCannot get device coalesce settings: Operation not supported\n",
    ] {
        assert_eq!(coalesce(text), Reading::Unsupported, "{text}");
    }
    assert_eq!(coalesce("netlink error: Operation not permitted\n"), Reading::NeedsRoot);
    for text in [
        "",
        "Cannot get device coalesce settings: No such device\n",
        "ethtool version 6.1\nUsage:\n\tethtool [ FLAGS ] DEVNAME\n",
        "Coalesce parameters for eth0:\nAdaptive RX: off  TX: off\nrx-usecs: many\n",
    ] {
        assert!(matches!(coalesce(text), Reading::Unknown { .. }), "{text}: {:?}", coalesce(text));
    }
}

/// What ethtool is asked about a NIC. Which flags are on cannot be told from a list that was cut off.
fn judged() -> Vec<&'static crate::Setting> {
    let is_asked = |setting: &&crate::Setting| {
        setting.id.starts_with("nic.") && !["nic.private-flags.names", "nic.private-flags"].contains(&setting.id)
    };
    catalogue::settings().filter(is_asked).collect()
}

#[test]
fn output_cut_off_behind_any_line_gives_no_wrong_value() {
    for (driver, text) in FIXTURES {
        let whole = files(text);
        let settings = judged();
        let nics = ["eth0".to_owned()];
        let right = read_settings(&root_of(&whole), &settings, &nics);
        for (at, (name, output)) in whole.iter().enumerate() {
            let ends = output.match_indices('\n').map(|(end, _)| end + 1).filter(|end| *end < output.len());
            for end in ends {
                let mut cut = whole.clone();
                cut[at].1.truncate(end);
                let found = read_settings(&root_of(&cut), &settings, &nics);
                for ((id, right), (_, found)) in right.iter().zip(found) {
                    // Whether the driver lets a group be switched is in the lines below it.
                    let state = |reading: &Reading| reading.as_value().map(|value| value.replace(" [fixed]", ""));
                    let is_right = state(&found) == state(right) || found.as_value().is_none();
                    assert!(is_right, "{driver} {name} to {end}: {id} {found:?}, not {right:?}");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn output_cut_off_or_changed_anywhere_never_panics(
        driver in 0..FIXTURES.len(),
        file in any::<prop::sample::Index>(),
        end in any::<prop::sample::Index>(),
        odd in any::<char>(),
    ) {
        let mut files = files(FIXTURES[driver].1);
        let file = file.index(files.len());
        let text = &mut files[file].1;
        let ends: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
        let end = ends[end.index(ends.len())];
        let rest = text.split_off(end);
        for text in [text.clone(), format!("{text}{odd}{rest}")] {
            files[file].1 = text;
            let _ = read_settings(&root_of(&files), &judged(), &["eth0".to_owned()]);
        }
    }

    #[test]
    fn any_text_read_as_description_of_links_never_panics(text in r"(\d: |eth0|@|: <|UP|>| mtu | |\n|    )*") {
        let _ = super::links::link(&text, "eth0");
        let _ = super::links::neighbours(&text, "eth0");
    }
}
