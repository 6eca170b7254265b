//! Packet filters of the kernel, which accelerated traffic bypasses: `run` says so, `run --strict` refuses, `status` shows them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use common::accelerated::Bed;
use common::{NEARWIRE, code, errors, may_run, text};
use nearwire_lab::{Cable, Namespace, VirtualCable, VirtualCableOptions, program_under_test};
use serde_json::Value;

/// `nobody` on Debian, whom an agent of the test serves.
const NOBODY: u32 = 65534;

/// What sets a filter up, the words that name it, and what takes it away or makes it one that does nothing.
const FILTERS: [(&str, &str, &str); 7] = [
    (
        "nft add table inet t && nft add chain inet t c '{ type filter hook input priority 0; }' && nft add rule inet t c udp dport 9 drop",
        "nftables: chain c of table inet t at input: 1 rule",
        "nft flush chain inet t c",
    ),
    (
        "nft add table ip t && nft add chain ip t c '{ type filter hook output priority 0; policy drop; }'",
        "nftables: chain c of table ip t at output: 0 rules, policy drop",
        "nft add chain ip t c '{ policy accept; }'",
    ),
    (
        "iptables-legacy -A INPUT -p udp --dport 9 -j DROP",
        "iptables: chain INPUT of table filter has rules",
        "iptables-legacy -F && iptables-legacy -A FORWARD -j DROP",
    ),
    (
        "ip6tables-legacy -P OUTPUT DROP",
        "ip6tables: chain OUTPUT of table filter has rules, policy drop",
        "ip6tables-legacy -P OUTPUT ACCEPT",
    ),
    (
        "tc qdisc add dev nw0 clsact && tc filter add dev nw0 egress protocol ip prio 1 u32 match u32 0 0 classid 1:1",
        "tc: filters at the egress of nw0",
        "tc filter del dev nw0 egress",
    ),
    (
        "tc qdisc add dev nw0 ingress && tc filter add dev nw0 parent ffff: protocol ip prio 1 u32 match u32 0 0 classid 1:1",
        "tc: filters at the ingress of nw0",
        "tc qdisc del dev nw0 ingress",
    ),
    (
        "ip xfrm policy add src 10.0.0.0/8 dst 10.0.0.0/8 dir out action block",
        "IPsec: 1 policy",
        "ip xfrm policy flush",
    ),
];

/// Runs commands; why one failed.
fn shell(namespace: &Namespace, commands: &str) -> Result<(), String> {
    let run =
        || Command::new("sh").args(["-c", commands]).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().unwrap();
    let output = namespace.enter(run).unwrap();
    if output.status.success() { Ok(()) } else { Err(format!("{commands}: {}", errors(&output))) }
}

fn run_in(namespace: &Namespace, options: &[&str]) -> Output {
    let library = std::env::current_exe().unwrap().with_file_name("libnearwire_preload.so");
    let mut command = program_under_test(NEARWIRE);
    command.arg("run").args(options).arg("--library").arg(library).args(["--", "true"]).stdin(Stdio::null());
    namespace.enter(|| command.output()).unwrap().unwrap()
}

#[test]
fn each_kind_of_filter_is_named_and_refuses_strict_until_it_does_nothing() {
    if !may_run() {
        return;
    }
    let mut skipped = Vec::new();
    for (set_up, words, take_away) in FILTERS {
        let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
        let near = &cable.near().namespace;
        let clean = run_in(near, &["--strict"]);
        assert_eq!(code(&clean), Some(0), "{}", errors(&clean));
        if let Err(why) = shell(near, set_up) {
            skipped.push(why);
            continue;
        }
        let told = run_in(near, &[]);
        assert_eq!(code(&told), Some(0));
        assert!(errors(&told).contains(&format!("accelerated traffic bypasses {words}")), "{words}: {}", errors(&told));
        let refused = run_in(near, &["--strict"]);
        assert_eq!(code(&refused), Some(3));
        assert!(
            errors(&refused).contains(words) && errors(&refused).contains("--past-filters"),
            "{}",
            errors(&refused)
        );
        let dry = run_in(near, &["--strict", "--dry-run"]);
        assert_eq!(code(&dry), Some(3));
        assert!(text(&dry).contains(&format!("packet filters bypassed: {words}")), "{}", text(&dry));
        let accepted = run_in(near, &["--strict", "--past-filters"]);
        assert_eq!(code(&accepted), Some(0), "{}", errors(&accepted));
        shell(near, take_away).unwrap();
        let after = run_in(near, &["--strict"]);
        assert_eq!((code(&after), errors(&after).contains("bypasses")), (Some(0), false), "{}", errors(&after));
    }
    assert!(skipped.is_empty() || std::env::var_os("NEARWIRE_REQUIRE").is_none(), "{skipped:?}");
    for why in skipped {
        println!("SKIP {why}");
    }
}

#[test]
fn status_of_a_program_shows_the_filters_of_its_namespace() {
    let Some(bed) = Bed::lay() else { return };
    let near = bed.cable.near();
    if let Err(why) = shell(&near.namespace, FILTERS[0].0) {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "{why}");
        println!("SKIP {why}");
        return;
    }
    let mut program = bed.start(near, "server = bound(near, 9)\nstep()", &[]);
    program.step();
    let status = |options: &[&str]| {
        let output = Command::new(NEARWIRE).arg("status").args(options).arg(program.pid()).output().unwrap();
        assert_eq!(code(&output), Some(0), "{}", errors(&output));
        text(&output)
    };
    let words = FILTERS[0].1;
    assert!(status(&[]).contains(&format!("packet filters bypassed: {words}")), "{}", status(&[]));
    let json: Value = serde_json::from_str(&status(&["--json"])).unwrap();
    assert_eq!(json["packet_filters"], serde_json::json!([{"kind": "nftables", "words": words}]));
    assert_eq!(json["packet_filters_not_known"], serde_json::json!([]));
}

/// On veth the far end leaves the tag beside the frame, where a program in generic mode does not see it.
#[test]
fn interface_that_takes_vlan_tags_out_is_named_with_what_to_do() {
    let Some(bed) = Bed::lay() else { return };
    let near = bed.cable.near();
    let dry = run_in(&near.namespace, &["--dry-run"]);
    let interface = &near.interface;
    let words = format!("{interface} takes VLAN tags out of frames");
    let advice = format!("`ethtool -K PEER txvlan off` at the far end of {interface} leaves tags in");
    for wanted in [&words, &advice] {
        assert!(text(&dry).contains(wanted.as_str()), "{wanted}: {}", text(&dry));
    }
    let strict = run_in(&near.namespace, &["--strict"]);
    assert_eq!(code(&strict), Some(0), "{}", errors(&strict));
    let mut program = bed.start(near, "server = bound(near, 9)\nstep()", &[]);
    program.step();
    let status = |options: &[&str]| {
        text(&Command::new(NEARWIRE).arg("status").args(options).arg(program.pid()).output().unwrap())
    };
    assert!(status(&[]).contains(&format!("VLAN tags      {words}")), "{}", status(&[]));
    let json: Value = serde_json::from_str(&status(&["--json"])).unwrap();
    assert_eq!(json["vlan_tags_hidden"][0]["interface"], interface.as_str());
}

/// A user without capabilities cannot ask for filters. That nothing was found then says nothing.
#[test]
fn filters_that_a_user_cannot_read_are_told_and_refuse_strict() {
    let Some(bed) = Bed::lay() else { return };
    let near = &bed.cable.near().namespace;
    let program = bed.installed();
    let rights = bed.directory.path().join("agent.toml");
    std::fs::write(&rights, format!("[[allow]]\nusers = [{NOBODY}]\n")).unwrap();
    let mut agent = program_under_test(NEARWIRE);
    agent.args(["agent", "--background", "--rights"]).arg(&rights);
    let started = near.enter(|| agent.output()).unwrap().unwrap();
    assert_eq!(code(&started), Some(0), "{}", errors(&started));
    let run = |options: &[&str]| {
        let mut command = program_under_test(&program);
        command.arg("run").args(options).args(["--", "true"]).stdin(Stdio::null());
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
        near.enter(|| command.output()).unwrap().unwrap()
    };
    let advice = "nearwire run --dry-run, run as root in this network namespace, lists them";
    let told = run(&[]);
    assert_eq!(code(&told), Some(0), "{}", errors(&told));
    for words in ["not all could be read", "the programs of the control group cannot be asked for", advice] {
        assert!(errors(&told).contains(words), "{words}: {}", errors(&told));
    }
    assert!(!errors(&told).contains("stay with the kernel"), "{}", errors(&told));
    let refused = run(&["--strict"]);
    assert_eq!(code(&refused), Some(3), "{}", errors(&refused));
    for words in ["strict refuses without --past-filters", "cannot be asked for", advice] {
        assert!(errors(&refused).contains(words), "{words}: {}", errors(&refused));
    }
    let accepted = run(&["--strict", "--past-filters"]);
    assert_eq!(code(&accepted), Some(0), "{}", errors(&accepted));
    let quiet = run(&["--quiet"]);
    assert_eq!((code(&quiet), errors(&quiet).as_str()), (Some(0), ""));
}
