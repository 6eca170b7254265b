//! Topologies of made-up hosts.

use std::fs;

use proptest::prelude::*;

use super::*;

/// A host of `packages` x `cores` x `threads` CPUs, one node a package. Siblings are far apart, as
/// on real servers: the CPU's number counts cores first, then threads.
fn server(packages: u32, cores: u32, threads: u32, isolated: &[u32]) -> Topology {
    let all_cores = packages * cores;
    let cpu = |id: u32| {
        let core = id % all_cores;
        Cpu {
            id,
            core: Some(core % cores),
            package: Some(core / cores),
            siblings: (0..threads).map(|thread| core + thread * all_cores).collect(),
            is_isolated: isolated.contains(&id),
            node: Some(core / cores),
            ..Cpu::default()
        }
    };
    Topology::of((0..all_cores * threads).map(cpu).collect())
}

fn chosen(topology: &Topology, allowed: &[u32]) -> (u32, u32) {
    let pair = choose_cpus(topology, allowed);
    assert!(!pair.explanation.is_empty());
    (pair.first, pair.second)
}

#[test]
fn two_cores_choose_both() {
    assert_eq!(chosen(&server(1, 2, 1, &[]), &[]), (0, 1));
    assert_eq!(chosen(&server(1, 2, 2, &[]), &[]), (0, 1));
}

#[test]
fn more_cores_keep_away_from_cpu_0() {
    assert_eq!(chosen(&server(1, 4, 1, &[]), &[]), (1, 2));
    assert_eq!(chosen(&server(2, 4, 2, &[]), &[]), (1, 2));
}

#[test]
fn isolated_cpus_are_preferred_in_one_package() {
    assert_eq!(chosen(&server(2, 4, 1, &[2, 5, 6]), &[]), (5, 6));
    assert_eq!(chosen(&server(1, 4, 2, &[3, 7]), &[]), (1, 3));
    assert_eq!(chosen(&server(1, 2, 1, &[1]), &[]), (0, 1));
}

#[test]
fn allowed_cpus_alone_are_chosen() {
    let host = server(2, 4, 2, &[2, 3]);
    assert_eq!(chosen(&host, &[4, 6, 9]), (4, 6));
    assert_eq!(chosen(&host, &[1, 9]), (1, 9));
    assert_eq!(chosen(&host, &[1, 5]), (1, 5));
    assert_eq!(chosen(&host, &[7]), (7, 7));
    let pair = choose_cpus(&host, &[0, 1, 4]);
    assert!(pair.explanation.contains("isolated CPUs 2-3 are outside"), "{}", pair.explanation);
}

#[test]
fn one_cpu_is_shared_and_said_so() {
    let pair = choose_cpus(&server(1, 1, 1, &[]), &[]);
    assert_eq!((pair.first, pair.second), (0, 0));
    assert!(pair.explanation.contains("share CPU 0"));
    assert_eq!(chosen(&Topology::default(), &[3, 5]), (3, 3));
}

#[test]
fn siblings_share_a_core() {
    let host = server(2, 4, 2, &[]);
    assert!(host.share_core(1, 1) && host.share_core(1, 9) && host.share_core(9, 1));
    assert!(!host.share_core(1, 5));
    assert!(host.share_core(99, 99) && !host.share_core(99, 1));
}

#[test]
fn tree_read_gives_siblings_nodes_and_isolation() {
    let directory = tempfile::tempdir().unwrap();
    let cpu = "sys/devices/system/cpu";
    let files = [
        (format!("{cpu}/online"), "0,2-3\n"),
        (format!("{cpu}/isolated"), "3\n"),
        ("sys/fs/cgroup/cpuset.cpus.isolated".to_owned(), "2\n"),
        (format!("{cpu}/cpu0/topology/core_id"), "7\n"),
        (format!("{cpu}/cpu0/topology/physical_package_id"), "-1\n"),
        (format!("{cpu}/cpu0/topology/thread_siblings_list"), "0,2\n"),
        (format!("{cpu}/cpu2/topology/thread_siblings_list"), "odd\n"),
        ("sys/devices/system/node/node1/cpulist".to_owned(), "0-3\n"),
        ("sys/devices/system/node/nodes".to_owned(), "\n"),
    ];
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let host = Topology::read(&Root::directory(directory.path()).unwrap());
    let first = host.cpu(0).unwrap();
    assert_eq!((first.core, first.package, first.node), (Some(7), None, Some(1)));
    assert_eq!(first.siblings.to_string(), "0,2");
    assert!(!first.is_isolated && host.cpu(2).unwrap().is_isolated);
    assert!(host.cpu(1).is_none() && host.cpu(3).unwrap().is_isolated);
    assert_eq!(host.cpu(2).unwrap().siblings.to_string(), "2");
}

#[test]
fn live_host_read_has_this_cpu() {
    let host = Topology::read(&Root::live().unwrap());
    assert!(!host.cpus().is_empty());
    let pair = choose_cpus(&host, &[]);
    assert!(host.cpu(pair.first).is_some() && host.cpu(pair.second).is_some());
}

proptest! {
    #[test]
    fn any_host_and_mask_choose_allowed_cpus_of_two_cores_if_there_are(
        packages in 1..3u32, cores in 1..5u32, threads in 1..3u32,
        isolated in proptest::collection::vec(0..16u32, 0..4),
        allowed in proptest::collection::vec(0..16u32, 0..6),
    ) {
        let host = server(packages, cores, threads, &isolated);
        let usable: Vec<u32> = host.cpus().iter().map(|cpu| cpu.id)
            .filter(|id| allowed.is_empty() || allowed.contains(id)).collect();
        let (a, b) = chosen(&host, &allowed);
        if !usable.is_empty() {
            prop_assert!(usable.contains(&a) && usable.contains(&b));
            let two_cores = usable.iter().any(|&c| !host.share_core(c, usable[0]));
            prop_assert_eq!(host.share_core(a, b), !two_cores);
        }
    }
}
