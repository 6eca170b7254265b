//! `nearwire tune export` on a described host.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use common::{code, nearwire, text};
use nearwire_lab::host_tree::HostTree;

const PROFILE: &str = "purpose = 'a test'
[[wish]]
setting = 'vm.swappiness'
at-most = 10
reason = 'a'
source = 'a'
[[wish]]
setting = 'boot.isolcpus'
equal = '2-3'
reason = 'a'
source = 'a'
";

fn export(forms: &[&str]) -> String {
    let host = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = host.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    write("proc/sys/vm/swappiness", "60\n");
    write("proc/cmdline", "quiet\n");
    write("sys/devices/system/cpu/online", "0-3\n");
    let profile = write("profile.toml", PROFILE);
    let (root, journal) = (host.path().to_str().unwrap(), host.path().join("journal"));
    let chosen = ["tune", "export", "--sysroot", root, "--profile", &profile, "--journal", journal.to_str().unwrap()];
    let output = nearwire(&[&chosen, forms].concat());
    assert_eq!(code(&output), Some(0), "{}", common::errors(&output));
    text(&output)
}

/// Of two words for SMT and CPUs, the second threads of cores got work that the first takes away.
#[test]
fn cpus_that_nosmt_takes_away_exported_are_named_and_get_no_work() {
    let host = common::described(&HostTree::named("opennfp").unwrap());
    let write = |name: &str, text: &str| {
        let path = host.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let profile = write(
        "profile.toml",
        &PROFILE.replace("'vm.swappiness'\nat-most = 10", "'cpu.smt'\nequal = 'off'").replace("2-3", "2-3,26"),
    );
    write("proc/cmdline", "quiet isolcpus=managed_irq,1\n");
    let (root, journal) = (host.path().to_str().unwrap(), host.path().join("journal"));
    let chosen = ["tune", "export", "--grub", "--sysroot", root, "--profile", &profile];
    let output = nearwire(&[&chosen[..], &["--journal", journal.to_str().unwrap()]].concat());
    assert_eq!(code(&output), Some(0), "{}", common::errors(&output));
    let text = text(&output);
    for part in [
        "isolcpus=managed_irq,2-3\"",
        "nosmt",
        "# not here: boot.isolcpus: CPUs 26 of it",
        "--delete=isolcpus=managed_irq,1",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn goal_that_another_chosen_form_keeps_is_not_told_as_left_out() {
    let alone = export(&["--sysctl"]);
    assert!(alone.contains("vm.swappiness = 10") && alone.contains("# not here: boot.isolcpus"), "{alone}");
    let both = export(&["--sysctl", "--grub"]);
    assert!(both.contains("isolcpus=2-3") && !both.contains("# not here"), "{both}");
}

#[test]
fn exported_files_are_verified_before_and_after_they_are_installed() {
    let host = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = host.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    put("proc/sys/vm/swappiness", "60\n");
    put("proc/cmdline", "quiet\n");
    put("sys/devices/system/cpu/online", "0-3\n");
    let profile = put("profile.toml", PROFILE);
    let (root, directory) = (host.path().to_str().unwrap(), host.path().join("exported"));
    let directory = directory.to_str().unwrap();
    let words = ["tune", "export", "--sysroot", root, "--profile", &profile, "--sysctl", "--grub", "--output"];
    assert_eq!(code(&nearwire(&[&words[..], &[directory]].concat())), Some(0));

    let nothing = nearwire(&["tune", "verify", "--sysroot", root]);
    common::assert_says(&nothing, 3, &["no file in /etc has values that nearwire tune export wrote"]);
    let verify = || nearwire(&["tune", "verify", directory, "--sysroot", root]);
    let before = verify();
    assert_eq!(code(&before), Some(1));
    for said in [
        "0 of 2 exported values are in force.",
        "/etc/sysctl.d/90-nearwire.conf is not installed",
        "and 60 on this host",
    ] {
        assert!(text(&before).contains(said), "{}", text(&before));
    }

    assert_eq!(code(&nearwire(&[&words[..], &[root]].concat())), Some(0));
    put("proc/sys/vm/swappiness", "10\n");
    let half = nearwire(&["tune", "verify", "--sysroot", root, "--json"]);
    assert_eq!(code(&half), Some(1));
    let page: serde_json::Value = serde_json::from_slice(&half.stdout).unwrap();
    let state =
        |id: &str| page["values"].as_array().unwrap().iter().find(|one| one["id"] == id).unwrap()["state"].clone();
    assert_eq!((state("vm.swappiness"), state("boot.isolcpus")), ("in-force".into(), "not-in-force".into()));

    put("proc/cmdline", "quiet isolcpus=2-3\n");
    for after in [verify(), nearwire(&["tune", "verify", "--sysroot", root])] {
        assert_eq!(code(&after), Some(0), "{}", text(&after));
        assert_eq!(text(&after), "2 of 2 exported values are in force.\n");
    }
}
