use nearwire_lab::{VirtualCableOptions, VirtualChain, made_or_skip};
use nearwire_sys::affinity::allowed_cpus;

use super::*;

fn started(function: FunctionKind, inside: Inside) -> Option<(RunningGuest, VirtualChain)> {
    let chain = made_or_skip(VirtualChain::lay(2, VirtualCableOptions::default()))?;
    let [inner, outer] = chain.links() else { panic!("{:?}", chain.links()) };
    let place = Place {
        ports: [&inner.far, &outer.near],
        neighbours: [&inner.near, &outer.far],
        cpu: allowed_cpus()[0],
        shares_cpu: true,
    };
    match RunningGuest::start(function, inside, place) {
        Err(error) if !error.is_missing_requirement() => panic!("{error}"),
        started => Some((made_or_skip(started)?, chain)),
    }
}

#[test]
fn forwarder_that_ends_in_a_guest_is_told() {
    let Some((mut guest, _chain)) = started(FunctionKind::Io, Inside::Packet) else { return };
    guest.check().unwrap();
    let done =
        guest.host.run("ip link set nic2 down; while pidof nearwire >/dev/null; do usleep 50000; done; usleep 200000");
    assert_eq!(done.unwrap().status, 0);
    let error = guest.check().unwrap_err().to_string();
    assert!(error.contains("nearwire: ") && error.contains("nic2"), "{error}");
    assert!(error.contains("the interface went down"), "{error}");
}

#[test]
fn threads_of_a_guest_stay_on_its_cpu_and_bridges_join_its_nics() {
    let Some((mut guest, chain)) = started(FunctionKind::L3, Inside::Kernel) else { return };
    // The neighbours answered: all of the way is there, and only there.
    let received = guest.host.output_of("cat /sys/class/net/nic1/statistics/rx_packets").unwrap();
    assert!(received.parse::<u32>().unwrap() > 0, "{received}");
    let host = &chain.links()[0].far;
    let facts = host.namespace.enter(nearwire_lab::interfaces).unwrap().unwrap();
    let end = facts.iter().find(|facts| facts.name == host.interface).unwrap();
    assert_ne!(end.mac, host.mac);
    assert!(end.controller_ifindex.is_some());
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let cpus =
        children.flat_map(|pids| pids.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).flat_map(|pid| {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok())
        });
    let cpus: Vec<String> = cpus
        .filter_map(|status| Some(status.lines().find(|line| line.starts_with("Cpus_allowed_list"))?.to_owned()))
        .collect();
    let wanted = format!("Cpus_allowed_list:\t{}", allowed_cpus()[0]);
    assert!(cpus.len() > 1 && cpus.iter().all(|cpus| *cpus == wanted), "{cpus:?}");
}
