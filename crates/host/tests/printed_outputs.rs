//! What the installed `ethtool` and `ip` print about an interface, read in place of the kernel's answers.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs;
use std::process::Command;

use nearwire_host::{Reading, Root, catalogue, read_settings};

use common::{run, skip};

const INSIDE: &str = "NEARWIRE_TEST_INSIDE";
const PREPARE: &str = "mount -t sysfs none /sys
ip link add nw0 numrxqueues 4 numtxqueues 2 type veth peer name nw1
ip link add br0 type bridge
ip link set nw1 master br0 up mtu 9000
ip link set nw0 up";
const INTERFACES: [&str; 4] = ["nw0", "nw1", "br0", "lo"];
const OPTIONS: [&str; 12] =
    ["", "-a", "-c", "-g", "-i", "-k", "-l", "-m", "-S", "-T", "--show-priv-flags", "--show-eee"];
/// Not by `sos`, by whoever else keeps outputs under these names.
const MORE_OPTIONS: [&str; 3] = ["-n", "-x", "--show-fec"];

/// Puts what commands print where `sos` puts it.
fn gather(report: &std::path::Path) {
    let print = |command: &[&str]| {
        let output = Command::new(command[0]).args(&command[1..]).output().unwrap();
        let name = command.join("_");
        fs::write(report.join(name), [output.stdout, output.stderr].concat()).unwrap();
    };
    for interface in INTERFACES {
        for option in OPTIONS.iter().chain(&MORE_OPTIONS) {
            let words = ["ethtool", option, interface];
            print(&words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>());
        }
    }
    print(&["ip", "-s", "-d", "link"]);
}

#[test]
fn outputs_of_the_installed_ethtool_read_as_the_kernel_answers() {
    if std::env::var_os(INSIDE).is_none() {
        if Command::new("ethtool").arg("--version").output().is_err() {
            return skip("ethtool(8) is not installed");
        }
        let name = "outputs_of_the_installed_ethtool_read_as_the_kernel_answers";
        let Some(mut command) = common::test_alone_in_namespaces(name, PREPARE) else { return };
        command.env(INSIDE, "1");
        return run(command);
    }
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("sos_commands/networking");
    fs::create_dir_all(&report).unwrap();
    gather(&report);
    let settings: Vec<_> = catalogue::settings().filter(|setting| setting.id.starts_with("nic.")).collect();
    let nics = INTERFACES.map(str::to_owned);
    let live = read_settings(&Root::live().unwrap(), &settings, &nics);
    let printed = read_settings(&Root::directory(directory.path()).unwrap(), &settings, &nics);
    let mut equal = 0;
    for ((id, live), (_, printed)) in live.iter().zip(&printed) {
        if !matches!(printed, Reading::Unknown { .. }) {
            assert_eq!(live, printed, "{id}");
            equal += 1;
        }
    }
    assert!(equal > 200, "{equal} of {} told: {printed:?}", live.len());
}
