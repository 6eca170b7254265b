//! `nearwire check` of the described hosts, word for word. After an intended change
//! `NEARWIRE_WRITE_GOLDEN=1 cargo test -p nearwire-cli --test golden_check` writes the pages again.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{DECK, described, errors, nearwire, text};
use nearwire_lab::host_tree::{HOSTS, HostTree};
use tempfile::TempDir;

/// Each host with the profiles that are meant for it.
const PAGES: [(&str, &str); 10] = [
    ("exanic", "raw-frame"),
    ("exanic", "as-printed/exanic"),
    ("vma", "socket-bypass"),
    ("vma", "as-printed/vma"),
    ("busy-poll", "busy-poll"),
    ("busy-poll", "as-printed/busy-poll"),
    ("usnic", "mpi"),
    ("usnic", "as-printed/usnic"),
    ("opennfp", "nfv"),
    ("opennfp", "as-printed/opennfp"),
];

fn page(root: &Path, profile: &str, more: &[&str]) -> String {
    let root = root.to_str().unwrap();
    let output = nearwire(&[&["check", "--sysroot", root, "--profile", profile], more].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{profile}: {}", errors(&output));
    let page = text(&output);
    assert!(!page.contains(root), "a page that depends on where the tree is: {page}");
    page
}

/// Compares a page with its file, or writes it.
#[track_caller]
fn assert_golden(name: &str, page: &str) {
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/check")).join(format!("{name}.txt"));
    if std::env::var_os("NEARWIRE_WRITE_GOLDEN").is_some() {
        fs::write(&file, page).unwrap();
    }
    let golden = fs::read_to_string(&file).unwrap_or_default();
    let lines = || golden.lines().zip(page.lines()).enumerate().find(|(_, (wanted, found))| wanted != found);
    assert!(golden == page, "{} differs, first at {:?}; the page is:\n{page}", file.display(), lines());
}

#[test]
fn described_host_checked_prints_its_page_word_for_word() {
    for (host, profile) in PAGES {
        let tree = described(&HostTree::named(host).unwrap());
        let name = format!("{host}-{}", profile.replace('/', "-"));
        assert_golden(&name, &page(tree.path(), profile, &[]));
    }
}

#[test]
fn opennfp_host_checked_with_the_plan_of_its_deck_prints_its_page_word_for_word() {
    let tree = described(&HostTree::named("opennfp").unwrap());
    let root = tree.path().to_str().unwrap();
    let plan = nearwire(&[&["plan", "--sysroot", root, "--json"], &DECK[..]].concat());
    let file = tree.path().join("plan.json");
    fs::write(&file, text(&plan)).unwrap();
    assert_golden("opennfp-nfv-plan", &page(tree.path(), "nfv", &["--plan", file.to_str().unwrap()]));
}

/// A host's description with some of its words replaced, and with other texts in files.
fn tuned(host: &str, words: &[(&str, &str)], files: &[(&str, &str)]) -> TempDir {
    let mut description = HOSTS.iter().find(|(name, _)| *name == host).unwrap().1.to_owned();
    for (found, put) in words {
        assert!(description.contains(found), "{host} has no '{found}'");
        description = description.replace(found, put);
    }
    let tree = HostTree::parse(&description)
        .unwrap()
        .without("/etc/systemd/system/multi-user.target.wants/irqbalance.service");
    let tree = tree.without("/sys/fs/cgroup/system.slice/irqbalance.service").without("/proc/611");
    described(&files.iter().fold(tree, |tree, (path, text)| tree.with_file(path, text)))
}

#[track_caller]
fn assert_no_difference(root: &Path, profile: &str) {
    let page = page(root, profile, &[]);
    assert!(page.contains(" wishes: 0 differ,"), "{page}");
}

#[test]
fn busy_poll_host_with_the_values_of_its_paper_is_as_printed() {
    let words = [
        ("coalesce = { rx-usecs = 1 }", "coalesce = { rx-usecs = 100 }"),
        ("rx-gro = \"on\"", "rx-gro = \"off\""),
        ("rx-lro = \"on\"", "rx-lro = \"off\""),
    ];
    let files = [("/proc/sys/net/core/busy_read", "50"), ("/proc/sys/net/core/busy_poll", "50")];
    assert_no_difference(tuned("busy-poll", &words, &files).path(), "as-printed/busy-poll");
}

#[test]
fn vma_host_with_the_values_of_its_paper_is_as_printed() {
    let words = [
        ("rx-usecs = 16, rx-frames = 44, tx-usecs = 16,", "tx-usecs = 8,"),
        ("adaptive-rx = true", "adaptive-rx = false"),
        ("rx-ntuple-filter = \"off\"", "rx-ntuple-filter = \"on\""),
        (
            "\"/sys/module/mlx4_core/parameters/log_num_mgm_entry_size\" = \"-10\"",
            "\"/sys/module/mlx4_core/parameters/log_num_mgm_entry_size\" = \"-1\"",
        ),
        ("port_type_array\" = \"(null)\"", "port_type_array\" = \"2,2\""),
        ("num_vfs\" = \"(null)\"", "num_vfs\" = \"2\""),
        ("probe_vf\" = \"(null)\"", "probe_vf\" = \"0\""),
    ];
    let mut files = vec![
        ("/proc/cmdline".to_owned(), "ro intel_idle.max_cstate=0 processor.max_cstate=1"),
        ("/proc/self/limits".to_owned(), "Max locked memory         unlimited            unlimited            bytes"),
        ("/proc/sys/vm/nr_hugepages".to_owned(), "800"),
        ("/proc/sys/vm/overcommit_memory".to_owned(), "1"),
        ("/proc/sys/net/core/rmem_max".to_owned(), "4194304"),
        ("/proc/sys/net/core/wmem_max".to_owned(), "4194304"),
        ("/proc/sys/net/ipv4/tcp_wmem".to_owned(), "4096\t65536\t4194304"),
        ("/proc/sys/net/ipv4/tcp_tso_win_divisor".to_owned(), "30"),
        ("/proc/sys/net/ipv4/tcp_mtu_probing".to_owned(), "1"),
    ];
    for port in ["enp5s0", "enp5s0d1"] {
        for queue in 0..8 {
            let directory = format!("/sys/devices/pci0000:00/0000:00:03.0/0000:05:00.0/net/{port}/queues/rx-{queue}");
            files.push((format!("{directory}/rps_flow_cnt"), "4096"));
        }
    }
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    assert_no_difference(tuned("vma", &words, &files).path(), "as-printed/vma");
}

#[test]
fn exanic_host_with_the_values_of_its_guide_is_as_printed() {
    let mut files = vec![
        ("/proc/cmdline".to_owned(), "ro isolcpus=2,3 nohz_full=2,3 irqaffinity=0,1"),
        ("/sys/devices/system/cpu/isolated".to_owned(), "2-3"),
        ("/sys/devices/system/cpu/nohz_full".to_owned(), "2-3"),
        ("/proc/irq/default_smp_affinity".to_owned(), "3"),
        ("/proc/sys/kernel/nmi_watchdog".to_owned(), "0"),
    ];
    for cpu in 0..4 {
        let directory = "/sys/devices/system";
        files.push((format!("{directory}/cpu/cpu{cpu}/cpufreq/scaling_governor"), "performance"));
        files.push((format!("{directory}/machinecheck/machinecheck{cpu}/check_interval"), "0"));
        files.extend((1..6).map(|state| (format!("{directory}/cpu/cpu{cpu}/cpuidle/state{state}/disable"), "1")));
    }
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    assert_no_difference(tuned("exanic", &[], &files).path(), "as-printed/exanic");
}

#[test]
fn usnic_host_with_the_values_of_its_paper_is_as_printed() {
    let words = [
        ("rx-usecs = 125, tx-usecs = 125, rx-usecs-high = 125, adaptive-rx = true", "tx-usecs = 125"),
        ("mtu_bytes = 1500", "mtu_bytes = 9000"),
        ("  { name = \"C6\", exit_us = 104, residency_us = 345 },\n", ""),
        ("scaling_governor = \"schedutil\"", "scaling_governor = \"performance\""),
        ("\"f020de\"", "\"f020df\""),
    ];
    let device = "/sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0/0000:04:00.0/0000:06:00.0";
    let mut files = vec![(format!("{device}/sriov_numvfs"), "16")];
    files.extend((0..16).map(|cpu| (format!("/sys/devices/system/cpu/cpu{cpu}/power/energy_perf_bias"), "0")));
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    assert_no_difference(tuned("usnic", &words, &files).path(), "as-printed/usnic");
}

#[test]
fn opennfp_host_with_the_values_of_its_deck_is_as_printed() {
    let words = [
        ("  { name = \"C1E\", exit_us = 10, residency_us = 20 },\n", ""),
        ("  { name = \"C3\", exit_us = 33, residency_us = 100 },\n", ""),
        ("  { name = \"C6\", exit_us = 133, residency_us = 400 },\n", ""),
        ("name = \"enp5s0np0-rxtx-{}\"", "name = \"enp5s0np0-rxtx-{}\", effective = 0"),
    ];
    let device = "/sys/devices/pci0000:00/0000:00:02.0/0000:05:00.0/net/enp5s0np0";
    let isolated = "2-23,26-47";
    let command_line = format!(
        "ro isolcpus={isolated} default_hugepagesz=1G hugepagesz=1G hugepages=224 intel_iommu=on iommu=pt idle=poll"
    );
    let mut files = vec![
        ("/proc/cmdline".to_owned(), command_line.as_str()),
        ("/sys/devices/system/cpu/isolated".to_owned(), isolated),
        ("/etc/default/irqbalance".to_owned(), "IRQBALANCE_BANNED_CPULIST=2-23,26-47"),
    ];
    let state = |cpu| format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state1/disable");
    files.extend((0..48).map(|cpu| (state(cpu), "1")));
    files.extend((0..8).map(|queue| (format!("{device}/queues/rx-{queue}/rps_flow_cnt"), "4096")));
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    assert_no_difference(tuned("opennfp", &words, &files).path(), "as-printed/opennfp");
}
