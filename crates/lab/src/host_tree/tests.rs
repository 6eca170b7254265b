#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;

use super::*;

fn written(tree: &HostTree) -> tempfile::TempDir {
    let directory = tempfile::tempdir_in(scratch_directory()).unwrap();
    tree.write(directory.path()).unwrap();
    directory
}

fn text(directory: &tempfile::TempDir, path: &str) -> String {
    fs::read_to_string(directory.path().join(path.trim_start_matches('/'))).unwrap().trim_end().to_owned()
}

#[test]
fn every_built_in_host_can_be_written() {
    for (name, _) in HOSTS {
        let directory = written(&HostTree::named(name).unwrap());
        assert!(!text(&directory, "/proc/interrupts").is_empty(), "{name}");
    }
    assert!(HostTree::named("nobody").unwrap_err().to_string().contains("opennfp"));
}

/// Page 30 of the deck prints these lists.
#[test]
fn opennfp_host_has_the_cpu_lists_of_the_deck() {
    let directory = written(&HostTree::named("opennfp").unwrap());
    let even: Vec<_> = (0..48).step_by(2).map(|cpu: u32| cpu.to_string()).collect();
    assert_eq!(text(&directory, "/sys/devices/system/node/node0/cpulist"), even.join(","));
    assert_eq!(text(&directory, "/sys/bus/pci/devices/0000:05:00.0/local_cpulist"), even.join(","));
    assert_eq!(text(&directory, "/sys/devices/system/cpu/cpu25/topology/thread_siblings_list"), "1,25");
    assert_eq!(text(&directory, "/sys/devices/system/cpu/online"), "0-47");
}

/// The post prints this mask.
#[test]
fn vma_host_has_the_local_cpus_of_the_post() {
    let directory = written(&HostTree::named("vma").unwrap());
    assert_eq!(text(&directory, "/sys/class/net/enp5s0/device/local_cpus"), "00000555");
    assert_eq!(text(&directory, "/sys/class/net/enp5s0d1/device/numa_node"), "0");
}

#[test]
fn file_of_the_host_overrides_the_one_of_its_keys_and_its_base() {
    let host =
        HOSTS[0].1.to_owned() + "\n[files]\n\"/proc/cmdline\" = \"quiet\"\n\"/proc/sys/vm/swappiness\" = \"1\"\n";
    let directory = written(&HostTree::parse(&host).unwrap());
    assert_eq!(text(&directory, "/proc/cmdline"), "quiet");
    assert_eq!(text(&directory, "/proc/sys/vm/swappiness"), "1");
    assert_eq!(text(&directory, "/proc/sys/vm/stat_interval"), "1");
    let changed = HostTree::named("vma").unwrap().with_file("/proc/cmdline", "ro").without("/proc/irq");
    let directory = written(&changed);
    assert_eq!(text(&directory, "/proc/cmdline"), "ro");
    assert!(!directory.path().join("proc/irq").exists());
}

#[test]
fn unknown_key_or_contradiction_is_told() {
    let host = HOSTS[0].1;
    for (found, put, word) in [
        ("packages = 1", "packages = 2", "package_nodes"),
        ("packages = 1", "packages = 1\npackets = 2", "packets"),
        ("\"debian-13\"", "\"debian-2\"", "debian-13"),
        ("numa_node = -1\nlinks = [", "numa_node = -1\nlinks = [{", "expected"),
    ] {
        let message = HostTree::parse(&host.replacen(found, put, 1)).unwrap_err();
        let message = format!("{message}");
        assert!(message.contains(word) || word == "expected", "{word}: {message}");
    }
}
