//! Connections that are given back to the kernel and adopted again while both ends send and receive much: what the kernel's buffers have no room for then, and
//! what was sent and not acknowledged, is there too. Over IPv4 and IPv6, over a way that loses packets, and from one process to its child's child.

use std::os::fd::AsRawFd;
use std::process::Command;

use nearwire_lab::{Cable, CableEnd, Namespace};

use crate::common::accelerated::Bed;
use crate::tcp_programs::{Policy, await_listener, end, start, text};

const PROGRAM: &str = include_str!("tcp_storm.py");
const WAYS: [(Policy, Policy); 4] =
    [(Some("eager"), Some("eager")), (Some("eager"), None), (None, Some("eager")), (Some("auto"), Some("auto"))];
/// One packet in so many is lost each way.
const LOST_ONE_IN: u32 = 200;

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// `NEARWIRE_STORMS=N`: so many of each kind.
fn storms() -> usize {
    std::env::var("NEARWIRE_STORMS").map_or(1, |count| count.parse().unwrap())
}

/// Of what the library says of its counters, in all processes of a program.
fn count(said: &str, words: &str) -> u64 {
    let numbers = said.lines().filter_map(|line| line.trim().strip_suffix(words)?.split_whitespace().last());
    numbers.map(|number| number.parse::<u64>().unwrap()).sum()
}

/// What a storm is like.
#[derive(Debug, Clone, Copy)]
struct Storm {
    /// Of each connection and direction.
    bytes: u64,
    /// Processes, each the child of the one before, that have the connections one after another.
    processes: u32,
    is_v6: bool,
}

impl Storm {
    const PLAIN: Storm = Storm { bytes: 6_000_000, processes: 1, is_v6: false };

    /// Runs it in all ways between two ends, the first of which serves. `at`: which it is of those that this test runs.
    fn run(self, bed: &Bed, (server_end, client_end): (&CableEnd, &CableEnd), at: usize) {
        let bytes = if processors() > 1 { self.bytes } else { self.bytes / 10 };
        let (bytes, processes) = (bytes.to_string(), self.processes.to_string());
        let address = if self.is_v6 { server_end.ipv6.to_string() } else { server_end.ipv4.to_string() };
        for (way, (server, client)) in WAYS.into_iter().enumerate() {
            let number = 4 * at + way;
            let (port, seed) = ((7600 + number).to_string(), (100 * number).to_string());
            let words = |role: &str| {
                ["python3", "-c", PROGRAM, role, &address, &port, &bytes, &seed, &processes].map(str::to_owned)
            };
            let mut server_child = start(bed, server_end, &words("server"), server);
            await_listener(server_end, &port, &mut server_child);
            let both = [end(start(bed, client_end, &words("client"), client)), end(server_child)];
            for (done, policy) in both.into_iter().zip([client, server]) {
                let said = text(&done);
                let what = format!("{self:?}, seed {seed}, server {server:?}, client {client:?}\n{said}");
                assert!(done.status.success() && said.contains("all is the same"), "{what}");
                // On one emulated processor threads are in the kernel most of the time, where a connection is not adopted.
                let released = count(&said, "connections released");
                if policy == Some("eager") && processors() > 1 {
                    assert!(released > 6, "{what}");
                }
                assert_eq!(count(&said, "connections the kernel did not take back"), 0, "{what}");
                println!("{self:?}, {policy:?}: {released} releases");
            }
        }
    }
}

#[test]
fn connections_given_back_again_and_again_while_they_move_much_lose_nothing() {
    let Some(bed) = Bed::lay() else { return };
    for at in 0..storms() {
        Storm::PLAIN.run(&bed, (bed.cable.near(), bed.cable.far()), at);
    }
}

#[test]
fn connections_of_ipv6_given_back_again_and_again_while_they_move_much_lose_nothing() {
    let Some(bed) = Bed::lay() else { return };
    for at in 0..storms() {
        Storm { is_v6: true, ..Storm::PLAIN }.run(&bed, (bed.cable.near(), bed.cable.far()), at);
    }
}

#[test]
fn connections_that_go_from_process_to_child_and_are_given_back_meanwhile_lose_nothing() {
    let Some(bed) = Bed::lay() else { return };
    for at in 0..storms() {
        let storm = Storm { processes: 6, is_v6: at % 2 == 1, ..Storm::PLAIN };
        storm.run(&bed, (bed.cable.near(), bed.cable.far()), at);
    }
}

#[test]
fn connections_given_back_again_and_again_over_a_way_that_loses_packets_lose_nothing() {
    let Some(bed) = Bed::lay() else { return };
    // A stock kernel has it as a module.
    if processors() == 1 {
        return;
    }
    let beyond = lay_beyond(&bed);
    for at in 0..storms() {
        let storm = Storm { bytes: 1_000_000, processes: 1 + 2 * (at as u32 % 2), is_v6: at % 4 > 1 };
        storm.run(&bed, (bed.cable.near(), &beyond), at);
    }
}

fn run(namespace: &Namespace, words: &str) {
    let mut parts = words.split(' ');
    let run = || Command::new(parts.next().unwrap()).args(parts).status();
    assert!(namespace.enter(run).unwrap().unwrap().success(), "{words}");
}

/// A host behind the far end, which becomes a router that loses some of what it forwards.
fn lay_beyond(bed: &Bed) -> CableEnd {
    let (near, router) = (bed.cable.near(), bed.cable.far());
    let beyond = CableEnd {
        namespace: Namespace::new().unwrap(),
        ipv4: [10, 79, 0, 2].into(),
        ipv6: "fd79::2".parse().unwrap(),
        ..router.clone()
    };
    let inside = format!("/proc/{}/fd/{}", std::process::id(), beyond.namespace.fd().as_raw_fd());
    let at_router = [
        format!("ip link add nwb0 type veth peer name nw1 netns {inside}"),
        "ip addr add 10.79.0.1/24 dev nwb0".to_owned(),
        "ip addr add fd79::1/64 dev nwb0 nodad".to_owned(),
        "ip addr add fe80::1/64 dev nwb0 nodad".to_owned(),
        "ip link set nwb0 up".to_owned(),
        "nft add table inet storm".to_owned(),
        "nft add chain inet storm forward { type filter hook forward priority 0 ; }".to_owned(),
        format!("nft add rule inet storm forward numgen random mod {LOST_ONE_IN} == 0 drop"),
    ];
    at_router.iter().for_each(|line| run(&router.namespace, line));
    for family in ["ipv4", "ipv6"] {
        let path = format!("/proc/sys/net/{family}/conf/all/forwarding");
        router.namespace.enter(|| std::fs::write(&path, "1")).unwrap().unwrap();
    }
    let at_beyond = [
        "ip addr add 10.79.0.2/24 dev nw1".to_owned(),
        "ip addr add fd79::2/64 dev nw1 nodad".to_owned(),
        "ip link set nw1 up".to_owned(),
        format!("ip route add {}/32 via 10.79.0.1", near.ipv4),
        format!("ip -6 route add {}/128 via fd79::1", near.ipv6),
    ];
    at_beyond.iter().for_each(|line| run(&beyond.namespace, line));
    run(&near.namespace, &format!("ip route add 10.79.0.0/24 via {}", router.ipv4));
    run(&near.namespace, &format!("ip -6 route add fd79::/64 via {}", router.ipv6));
    beyond
}
