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
