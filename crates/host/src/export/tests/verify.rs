//! Exported files found again on a host after a boot, or named with the cause.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::super::text::{Said, said};
use super::super::{Exported, State, Verified, installed, verify};
use super::{Format, all_goals, exported, goal, with_pci};
use crate::{CpuSet, Goal, Root};

fn put(tree: &TempDir, path: &str, text: &str) {
    let path = tree.path().join(path.trim_start_matches('/'));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A host with some files, on which the goals are exported and installed.
fn host(format: Format, goals: &[Goal], files: &[(&str, &str)]) -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    for (path, text) in files {
        put(&tree, path, text);
    }
    with_pci(format, goals).write_below(tree.path()).unwrap();
    tree
}

fn verified(tree: &TempDir) -> Vec<Verified> {
    let root = Root::directory(tree.path()).unwrap();
    verify(&root, &installed(&root))
}

/// The found value and the cause of the only value, which is not in force.
#[track_caller]
fn not_in_force(tree: &TempDir) -> (String, String) {
    match &verified(tree)[..] {
        [Verified { state: State::NotInForce { found, cause }, .. }] => (found.clone(), cause.clone()),
        other => panic!("{other:?}"),
    }
}

const BUSY_POLL: &str = "/proc/sys/net/core/busy_poll";

#[test]
fn comment_of_every_exported_value_is_read_as_the_setting_and_the_value() {
    let mut goals = all_goals();
    goals.push(Goal { cpus: CpuSet::from_list("2-3").ok(), ..goal("cpu.governor", None, "performance") });
    for format in Format::ALL {
        let export = with_pci(format, &goals);
        let lines = export.files.iter().flat_map(|file| file.text.lines());
        let read: Vec<Said> = lines.filter_map(said).collect();
        assert_eq!(read.len() + export.left_out.len(), goals.len(), "{}", format.name());
        for found in read {
            let is_it = |goal: &&Goal| {
                (goal.setting, &goal.interface, &goal.cpus) == (found.setting, &found.interface, &found.cpus)
            };
            assert_eq!(goals.iter().find(is_it).map(|goal| goal.value.as_str()), Some(found.value.as_str()));
        }
    }
}

#[test]
fn exported_value_that_the_host_has_is_in_force() {
    let tree = host(Format::Sysctl, &[goal("net.core.busy_poll", None, "50")], &[(BUSY_POLL, "50\n")]);
    let found = verified(&tree);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id.as_str(), &found[0].state), ("net.core.busy_poll", &State::InForce));
    assert_eq!(found[0].file, "/etc/sysctl.d/90-nearwire.conf");
}

#[test]
fn exported_file_that_is_not_installed_is_named() {
    let export = exported(Format::Sysctl, &[goal("net.core.busy_poll", None, "50")]);
    let files: Vec<_> =
        export.files.iter().map(|file| Exported { path: file.path.clone(), text: file.text.clone() }).collect();
    let tree = tempfile::tempdir().unwrap();
    let state = || verify(&Root::directory(tree.path()).unwrap(), &files).remove(0).state;
    put(&tree, BUSY_POLL, "0\n");
    let cause = "/etc/sysctl.d/90-nearwire.conf is not installed".to_owned();
    assert_eq!(state(), State::NotInForce { found: "0".to_owned(), cause });
    // Somebody wrote it by hand.
    put(&tree, BUSY_POLL, "50\n");
    let cause = "/etc/sysctl.d/90-nearwire.conf is not installed: the next boot loses it".to_owned();
    assert_eq!(state(), State::NotKept { cause });
}

#[test]
fn sysctl_that_a_later_file_overrides_is_named_with_that_file() {
    let goals = [goal("net.core.busy_poll", None, "50")];
    let tree =
        host(Format::Sysctl, &goals, &[(BUSY_POLL, "0\n"), ("/usr/lib/sysctl.d/10-a.conf", "net.core.busy_poll=1\n")]);
    assert!(not_in_force(&tree).1.contains("is the last to set it"), "{:?}", not_in_force(&tree));
    put(&tree, "/run/sysctl.d/99-site.conf", "# x\nnet/core/busy_poll = 0\n");
    let (found, cause) = not_in_force(&tree);
    assert_eq!(found, "0");
    assert_eq!(cause, "/run/sysctl.d/99-site.conf is read later and overrides it: net.core.busy_poll = 0");
    // A file of that name in /etc takes its place.
    put(&tree, "/etc/sysctl.d/99-site.conf", "\n");
    assert!(not_in_force(&tree).1.contains("is the last to set it"));
}

#[test]
fn word_of_the_command_line_that_the_boot_loader_lacks_is_named() {
    let goals = [goal("boot.nohz_full", None, "2-3")];
    let tree = host(Format::Grub, &goals, &[("/proc/cmdline", "ro nohz_full=1 quiet\n")]);
    assert!(not_in_force(&tree).1.contains("no boot loader's configuration could be read"));
    put(&tree, "/boot/grub/grub.cfg", "menuentry x {\n  linux /vmlinuz ro nohz_full=1 quiet\n}\n");
    let (found, cause) = not_in_force(&tree);
    assert_eq!(found, "1");
    assert!(
        cause.starts_with(
            "the running kernel has nohz_full=1; no entry of /boot/grub/grub.cfg boots with nohz_full=2-3"
        )
    );
    assert!(cause.contains("the boot loader was not updated; run update-grub"), "{cause}");
}

#[test]
fn word_that_the_boot_loader_has_waits_for_the_boot() {
    let goals = [goal("boot.nohz_full", None, "2-3")];
    let entry = "title x\noptions ro nohz_full=2-3 quiet\n";
    let files = [("/proc/cmdline", "ro quiet\n"), ("/boot/loader/entries/x.conf", entry)];
    let (found, cause) = not_in_force(&host(Format::Grub, &goals, &files));
    assert_eq!(found, "not set");
    assert_eq!(
        cause,
        "/boot/loader/entries/x.conf boots with nohz_full=2-3: the host was not booted since, or by another entry"
    );
}

#[test]
fn word_said_twice_on_the_running_command_line_is_named() {
    let goals = [goal("boot.nohz_full", None, "2-3")];
    let tree = host(Format::Grub, &goals, &[("/proc/cmdline", "ro nohz_full=2-3 nohz_full=1\n")]);
    assert_eq!(not_in_force(&tree).1, "the running kernel has nohz_full=2-3 nohz_full=1, of which the last counts");
}

#[test]
fn value_whose_unit_is_not_enabled_is_named_with_the_command() {
    const GOVERNOR: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let tree = host(Format::Systemd, &[goal("memory.thp", None, "madvise")], &[(GOVERNOR, "[always] madvise never\n")]);
    let (found, cause) = not_in_force(&tree);
    assert_eq!(found, "always");
    assert!(cause.ends_with("is not enabled: run systemctl enable --now nearwire-tune.service"), "{cause}");
    put(&tree, "/etc/systemd/system/multi-user.target.wants/nearwire-tune.service", "");
    assert!(not_in_force(&tree).1.contains("systemctl status nearwire-tune.service tells"));
}

#[test]
fn link_file_behind_another_one_is_named_with_that_one() {
    let goals = [goal("nic.tx-queue-length", Some("eth0"), "500")];
    let files = [("/sys/class/net/eth0/tx_queue_len", "1000\n"), ("/sys/class/net/eth0/ifindex", "2\n")];
    let tree = host(Format::Systemd, &goals, &files);
    assert!(not_in_force(&tree).1.contains("is read when the device appears"), "{:?}", not_in_force(&tree));
    put(&tree, "/usr/lib/systemd/network/73-site.link", "[Match]\nOriginalName=*\n");
    assert!(not_in_force(&tree).1.starts_with("/usr/lib/systemd/network/73-site.link comes before"));
}

/// Distributions have an earlier file for devices on USB, which was named for every interface.
#[test]
fn earlier_link_file_that_does_not_match_the_interface_is_not_named() {
    let goals = [goal("nic.tx-queue-length", Some("eth0"), "500")];
    let device = "/sys/devices/pci0000:00/0000:00:02.0/0000:3b:00.0/net/eth0";
    let files = [(format!("{device}/tx_queue_len"), "1000\n"), (format!("{device}/ifindex"), "2\n")];
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let tree = host(Format::Systemd, &goals, &files);
    let class = tree.path().join("sys/class/net");
    std::fs::create_dir_all(&class).unwrap();
    std::os::unix::fs::symlink(format!("../../{}", &device[5..]), class.join("eth0")).unwrap();
    for (name, condition) in
        [("73-usb", "Path=*-usb-*"), ("10-other", "OriginalName=wl*"), ("20-slot", "Path=pci-0000:3c:*")]
    {
        put(&tree, &format!("/usr/lib/systemd/network/{name}.link"), &format!("[Match]\n{condition}\n"));
    }
    let cause = not_in_force(&tree).1;
    assert!(cause.ends_with("or the driver refused the value"), "{cause}");
    put(&tree, "/usr/lib/systemd/network/30-host.link", "[Match]\nHost=db*\n");
    let cause = not_in_force(&tree).1;
    assert!(
        cause.ends_with(
            "/usr/lib/systemd/network/30-host.link comes before it and counts alone if its Host matches eth0"
        ),
        "{cause}"
    );
    put(&tree, "/usr/lib/systemd/network/80-slot.link", "[Match]\nPath=pci-0000:3b:00.?\n");
    assert!(not_in_force(&tree).1.starts_with("/usr/lib/systemd/network/80-slot.link comes before"));
    // The card was put into another slot.
    put(&tree, "/usr/lib/systemd/network/80-slot.link", "");
    let ours = "/etc/systemd/network/90-nearwire-eth0.link";
    put(&tree, ours, &std::fs::read_to_string(tree.path().join(&ours[1..])).unwrap().replace("0000:3b", "0000:3c"));
    assert!(not_in_force(&tree).1.starts_with(&format!("the conditions of {ours} do not match eth0")));
}

#[test]
fn profile_of_tuned_that_is_not_active_is_named() {
    let goals = [goal("vm.swappiness", None, "1")];
    let files = [("/proc/sys/vm/swappiness", "60\n"), ("/etc/tuned/active_profile", "balanced\n")];
    let tree = host(Format::TunedProfile, &goals, &files);
    assert_eq!(not_in_force(&tree).1, "the active profile of tuned is balanced: run tuned-adm profile nearwire");
}

#[test]
fn huge_pages_of_which_some_are_in_use_are_in_force() {
    let goals = [goal("memory.huge-pages", None, "node0 2048kB: 16 of 16 free")];
    let pool = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB";
    let files = [(format!("{pool}/nr_hugepages"), "16\n"), (format!("{pool}/free_hugepages"), "3\n")];
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    assert_eq!(verified(&host(Format::Systemd, &goals, &files))[0].state, State::InForce);
}

#[test]
fn interrupts_that_each_go_to_one_of_the_exported_cpus_are_in_force() {
    let device = "/sys/class/net/eth0/device/msi_irqs";
    let files = [(format!("{device}/41"), ""), (format!("{device}/42"), "")];
    let mut files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    files.extend([
        ("/sys/class/net/eth0/ifindex", "2\n"),
        ("/proc/irq/41/effective_affinity_list", "2\n"),
        ("/proc/irq/42/effective_affinity_list", "3\n"),
    ]);
    let tree = host(Format::Systemd, &[goal("nic.irq-affinity", Some("eth0"), "2-3")], &files);
    assert_eq!(verified(&tree)[0].state, State::InForce);
    put(&tree, "/proc/irq/42/effective_affinity_list", "0\n");
    assert!(matches!(verified(&tree)[0].state, State::NotInForce { .. }));
}

#[test]
fn value_in_a_playbook_is_looked_for_in_the_file_that_it_lays_down() {
    let export = exported(Format::Ansible, &[goal("net.core.busy_poll", None, "50")]);
    let files = [Exported { path: "/nearwire.yml".to_owned(), text: export.files[0].text.clone() }];
    let tree = tempfile::tempdir().unwrap();
    put(&tree, BUSY_POLL, "0\n");
    let found = verify(&Root::directory(tree.path()).unwrap(), &files).remove(0);
    assert_eq!(found.file, "/etc/sysctl.d/90-nearwire.conf");
}

#[test]
fn file_of_somebody_else_is_none_of_ours() {
    let tree = tempfile::tempdir().unwrap();
    put(&tree, "/etc/sysctl.d/90-nearwire.conf", "# net.core.busy_poll = 50 -- mine\nnet.core.busy_poll = 50\n");
    assert!(installed(&Root::directory(Path::new(tree.path())).unwrap()).is_empty());
}
