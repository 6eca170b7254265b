//! Interfaces of hosts that are files, with recorded answers.

use proptest::prelude::*;

use crate::root::{MemoryTree, Node};
use crate::{Reading, Root, catalogue, read_settings};

fn recorded(answers: &str) -> Root {
    let mut tree = MemoryTree::new();
    for (path, text) in [
        ("sys/class/net/eth0/mtu", "1280\n"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
        ("nearwire/interfaces/eth0.json", answers),
    ] {
        tree.insert(path, Node::File(text.as_bytes().into())).unwrap();
    }
    Root::memory(tree, "test".into()).unwrap()
}

fn readings(root: &Root, ids: &[&str]) -> Vec<Reading> {
    let settings: Vec<_> = ids.iter().map(|id| catalogue::setting(id).unwrap()).collect();
    read_settings(root, &settings, &["eth0".to_owned()]).into_iter().map(|(_, reading)| reading).collect()
}

fn reading(answers: &str, id: &str) -> Reading {
    readings(&recorded(answers), &[id]).remove(0)
}

#[test]
fn recorded_answer_read_is_the_value() {
    let answers = r#"{
        "driver": {"driver": "mlx5_core", "firmware-version": "16.35.1012", "bus-info": "0000:3b:00.0"},
        "rings": {"rx": 1024, "rx-max": 8192},
        "coalesce": {"rx-usecs": 3, "adaptive-rx": true, "of-a-later-kernel": [1]},
        "channels": {"combined": 8, "combined-max": 63},
        "link-settings": {"speed-mbps": 25000, "duplex": "full", "autonegotiation": true},
        "timestamping": {"so-timestamping": "TX_HARDWARE | RX_HARDWARE | RAW_HARDWARE | 0x4000", "phc-index": 2},
        "pause": {"rx": true},
        "eee": {"enabled": true},
        "fec": {"active": 4},
        "rss-hash": {"bits": 1},
        "wake-on-lan": {"events": 0},
        "module": {"kind": 3},
        "link": {"mtu": 9000, "qdisc": "mq", "tx-queues": 8},
        "features": {"rx-gro": "on", "rx-lro": "off [fixed]", "rx-ntuple-filter": "off [requested on]",
                     "tx-tcp-segmentation": true}
    }"#;
    let root = recorded(answers);
    for (id, wanted) in [
        ("nic.driver", "mlx5_core"),
        ("nic.bus-info", "0000:3b:00.0"),
        ("nic.firmware", "16.35.1012"),
        ("nic.ring.rx", "1024"),
        ("nic.coalesce.rx-usecs", "3"),
        ("nic.coalesce.tx-usecs", "0"),
        ("nic.coalesce.adaptive-rx", "on"),
        ("nic.channels.combined", "8"),
        ("nic.speed-mbps", "25000"),
        ("nic.mtu", "9000"),
        ("nic.qdisc", "mq"),
        ("nic.pause.autoneg", "off"),
        ("nic.offload.gro", "on"),
        ("nic.offload.lro", "off [fixed]"),
        ("nic.offload.ntuple", "off"),
        ("nic.offload.tso", "on"),
        // Not in the recorded description of the link, and not a wrong 0.
        ("nic.queues.rx", "1"),
    ] {
        assert_eq!(readings(&root, &[id]), [Reading::value(wanted)], "{id}");
    }
}

#[test]
fn recorded_netlink_answer_read_is_the_value() {
    let root = recorded(
        r#"{
        "napi": {"instances": [
            {"queues": ["rx-0", "tx-0"], "irq": 40, "threaded": 2, "defer-hard-irqs": 2, "irq-suspend-timeout": 20000000},
            {"queues": ["rx-1", "tx-1"], "irq": 41, "threaded": 0, "defer-hard-irqs": 0, "irq-suspend-timeout": 20000000},
            {"irq": 42, "threaded": 0, "defer-hard-irqs": 0, "irq-suspend-timeout": 20000000}
        ]},
        "netdev": {"xdp-features": 11},
        "rings-netlink": {"tx-push": 1, "cqe-size": 64, "tcp-data-split": 1},
        "coalesce-netlink": {"use-cqe-mode-rx": 0},
        "module-netlink": {"power-mode-policy": 2}
    }"#,
    );
    for (id, wanted) in [
        ("nic.napi.defer-hard-irqs", "2 (rx-0 tx-0), 0 (rx-1 tx-1 interrupt 42)"),
        ("nic.napi.irq-suspend-timeout-ns", "20000000"),
        ("nic.napi.threaded", "busy-poll (rx-0 tx-0), off (rx-1 tx-1 interrupt 42)"),
        ("nic.napi.map", "rx-0 tx-0: interrupt 40, rx-1 tx-1: interrupt 41"),
        ("nic.xdp-features", "basic redirect xsk-zerocopy"),
        ("nic.ring.tx-push", "on"),
        ("nic.ring.data-split", "off"),
        ("nic.ring.completion-bytes", "64"),
        ("nic.coalesce.completion-timer", "event"),
        ("nic.module.power-mode", "auto"),
    ] {
        assert_eq!(readings(&root, &[id]), [Reading::value(wanted)], "{id}");
    }
    for id in ["nic.napi.gro-flush-timeout-ns", "nic.ring.rx-push", "nic.ring.buffer-bytes"] {
        assert_eq!(readings(&root, &[id]), [Reading::Unsupported], "{id}");
    }
}

#[test]
fn live_interface_asked_by_generic_netlink_answers_or_lacks_it() {
    let root = Root::live().unwrap();
    for id in ["nic.napi.map", "nic.xdp-features", "nic.ring.tx-push", "nic.coalesce.completion-timer"] {
        let setting = catalogue::setting(id).unwrap();
        let (_, reading) = read_settings(&root, &[setting], &["lo".to_owned()]).remove(0);
        assert!(!matches!(reading, Reading::Unknown { .. }), "{id}: {reading:?}");
    }
}

#[test]
fn recorded_lack_read_says_which() {
    let id = "nic.coalesce.rx-usecs";
    assert_eq!(reading(r#"{"coalesce": {"unsupported": true}}"#, id), Reading::Unsupported);
    assert_eq!(reading(r#"{"coalesce": {"needs-root": true}}"#, id), Reading::NeedsRoot);
    assert_eq!(reading(r#"{"coalesce": {"error": "gone"}}"#, id), Reading::unknown("gone"));
    assert_eq!(reading(r#"{"coalesce": {"unsupported": false, "rx-usecs": 7}}"#, id), Reading::value("7"));
}

#[test]
fn recorded_nonsense_read_is_unknown_and_names_file_and_key() {
    let file = "/nearwire/interfaces/eth0.json";
    for (answers, id, key) in [
        (r#"{"coalesce": {"rx-usecs": "three"}}"#, "nic.coalesce.rx-usecs", "coalesce.rx-usecs"),
        (r#"{"coalesce": {"tx-usecs": 1, "rx-usecs": -3}}"#, "nic.coalesce.tx-usecs", "coalesce.rx-usecs"),
        (r#"{"coalesce": 3}"#, "nic.coalesce.rx-usecs", "coalesce: not an object"),
        (r#"{"coalesce": {"unsupported": "yes"}}"#, "nic.coalesce.rx-usecs", "coalesce.unsupported"),
        (r#"{"features": {"rx-gro": 1}}"#, "nic.offload.gro", "features.rx-gro"),
        (r#"{"features": {"rx-gro": "perhaps"}}"#, "nic.offload.gro", "features.rx-gro"),
        (r#"{"link": {"qdisc": 1}}"#, "nic.qdisc", "link.qdisc"),
        (r#"{"rings": {}}"#, "nic.coalesce.rx-usecs", "no answer to coalesce"),
        ("[]", "nic.coalesce.rx-usecs", "invalid type"),
        ("{\"coalesce\": ", "nic.coalesce.rx-usecs", "line 1"),
    ] {
        let Reading::Unknown { why } = reading(answers, id) else { panic!("{answers}") };
        assert!(why.contains(file) && why.contains(key), "{answers}: {why}");
    }
    // One wrong answer does not spoil the others, nor files.
    let answers = r#"{"coalesce": {"rx-usecs": []}, "rings": {"rx": 512}, "link": 1}"#;
    assert_eq!(reading(answers, "nic.ring.rx"), Reading::value("512"));
    assert_eq!(reading(answers, "nic.mtu"), Reading::value("1280"));
}

proptest! {
    #[test]
    fn any_recording_read_never_panics(text in r#"[\[\]{}:,"a-z0-9 .-]{0,60}"#, answer in r#"[\[\]{}:,"a-z0-9 -]{0,20}"#) {
        let commands = ["coalesce", "features", "link", "driver", "timestamping"];
        let whole = commands.map(|command| format!("\"{command}\": {answer}")).join(", ");
        for answers in [text, format!("{{{whole}}}")] {
            let ids = ["nic.coalesce.rx-usecs", "nic.offload.gro", "nic.mtu", "nic.driver"];
            let _ = readings(&recorded(&answers), &ids);
        }
    }
}
