//! Whatever happens to the kernel's tables, a stack that followed is like one that looks afresh, and sends as the kernel would.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::HashSet;
use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

use common::{Bed, Sender, bed_or_skip, ip};
use nearwire_socket::kernel_tables::News;
use nearwire_stack::NeedsKernel;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

const DEVICES: [&str; 3] = ["nw0", "nw2", "v5"];
const ADDRESSES: [&str; 9] = [
    "10.77.0.1/24",
    "10.77.0.7/24",
    "10.78.0.1/24",
    "10.78.0.1/16",
    "10.77.1.1/24",
    "10.78.0.2/32",
    "fd77::1/64",
    "fd78::1/64",
    "fd78::2/128",
];
const DESTINATIONS: [&str; 30] = [
    "10.77.0.1",
    "10.77.0.2",
    "10.77.0.7",
    "10.77.0.50",
    "10.77.0.51",
    "10.77.0.255",
    "10.77.1.2",
    "10.77.1.50",
    "10.78.0.1",
    "10.78.0.2",
    "10.78.0.9",
    "10.78.0.255",
    "10.78.9.9",
    "192.0.2.1",
    "192.0.2.129",
    "198.51.100.1",
    "203.0.113.5",
    "239.1.2.3",
    "224.0.0.5",
    "fd77::1",
    "fd77::2",
    "fd77::50",
    "fd78::1",
    "fd78::2",
    "fd78::9",
    "fd77:0:0:1::2",
    "2001:db8::1",
    "2001:db8:1::1",
    "ff05::7",
    "2a00::1",
];

/// One change by `ip`; many are refused.
fn change(random: &mut Random) -> String {
    let device = random.of(&DEVICES);
    match random.below(16) {
        0..=2 => format!("addr {} {} dev {device}", random.of(&["add", "add", "del"]), random.of(&ADDRESSES)),
        3..=6 => route_v4(random, device),
        7..=9 => route_v6(random, device),
        10 => format!("link set {device} {}", random.of(&["up", "up", "up", "down"])),
        11 => format!("link set {device} mtu {}", random.of(&["1280", "1400", "1500", "1000"])),
        12 | 13 => neighbour(random, device),
        14 => random
            .of(&[
                "link add link nw0 name v5 type vlan id 5",
                "link add link nw2 name v5 type vlan id 7 proto 802.1ad",
                "link del v5",
                "link add br0 type bridge",
                "link del br0",
                "link set nw2 master br0",
                "link set nw2 nomaster",
                "link set v5 up",
            ])
            .to_owned(),
        _ => random
            .of(&[
                "nexthop add id 1 via 10.77.0.50 dev nw0",
                "nexthop add id 2 via fd77::50 dev nw0",
                "nexthop del id 1",
                "nexthop del id 2",
                "route add 203.0.113.0/24 nhid 1",
                "-6 route add 2001:db8:1::/48 nhid 2",
                "neigh flush all",
                "route flush root 192.0.2.0/24",
            ])
            .to_owned(),
    }
}

fn route_v4(random: &mut Random, device: &str) -> String {
    let verb = random.of(&["add", "add", "append", "prepend", "replace", "del", "del"]);
    let net =
        random.of(&["192.0.2.0/24", "192.0.2.128/25", "198.51.100.0/24", "default", "10.77.0.2/32", "203.0.113.5/32"]);
    let mut line = match random.below(10) {
        0 => format!("route {verb} {} {net}", random.of(&["unreachable", "blackhole", "throw", "prohibit"])),
        1 => format!("route {verb} {net} nexthop via 10.77.0.50 nexthop via 10.77.1.50"),
        2 => format!("route {verb} {} {net} dev {device} table local", random.of(&["local", "broadcast"])),
        3..=6 => format!("route {verb} {net} via {}", random.of(&["10.77.0.50", "10.77.0.51", "10.77.1.50"])),
        7 => format!("route {verb} {net} via inet6 fd77::50 dev nw0"),
        _ => format!("route {verb} {net} dev {device}"),
    };
    line.push_str(random.of(&[
        "",
        "",
        "",
        " metric 10",
        " metric 20",
        " tos 0x10",
        " src 10.77.0.1",
        " src 10.78.0.1",
    ]));
    line.push_str(random.of(&["", "", "", " mtu 1300", " hoplimit 9", " table default", " table 100"]));
    line
}

fn route_v6(random: &mut Random, device: &str) -> String {
    let verb = random.of(&["add", "add", "append", "prepend", "replace", "del", "del"]);
    let net = random.of(&["2001:db8::/32", "2001:db8:1::/48", "default", "fd77::2/128"]);
    let mut line = match random.below(8) {
        0 => format!("-6 route {verb} {} {net}", random.of(&["unreachable", "blackhole", "throw"])),
        1 => format!("-6 route {verb} {net} nexthop via fd77::50 nexthop via fd77::51"),
        2 => format!("-6 route {verb} {net} from fd78::/64 dev {device}"),
        3..=5 => format!("-6 route {verb} {net} via {}", random.of(&["fd77::50", "fd77::51", "fd77:0:0:1::50"])),
        _ => format!("-6 route {verb} {net} dev {device}"),
    };
    line.push_str(random.of(&["", "", "", " metric 10", " src fd77::1", " src fd78::1", " mtu 1290"]));
    line
}

fn neighbour(random: &mut Random, device: &str) -> String {
    let who = random.of(&[
        "10.77.0.2",
        "10.77.0.50",
        "10.77.0.51",
        "10.77.1.50",
        "10.78.0.9",
        "fd77::2",
        "fd77::50",
        "192.0.2.1",
    ]);
    let mac = random.below(4);
    match random.below(6) {
        0 => format!("neigh del {who} dev {device}"),
        1 => format!("neigh replace {who} lladdr 02:00:00:00:00:0{mac} dev {device} nud stale"),
        2 => format!("neigh change {who} dev {device} nud failed"),
        _ => format!("neigh replace {who} lladdr 02:00:00:00:00:0{mac} dev {device}"),
    }
}

/// What each destination comes to: the headers that depend on the tables, or why not.
fn outcomes(sender: &mut Sender) -> Vec<(String, Result<Vec<u8>, NeedsKernel>)> {
    let lens_bytes = [10, 1240, 1350];
    let cases = DESTINATIONS.iter().flat_map(|to| lens_bytes.map(|len_bytes| (to, len_bytes)));
    cases
        .map(|(to, len_bytes)| {
            let frame = sender.send(to.parse::<IpAddr>().unwrap(), 0, len_bytes);
            (format!("{to} {len_bytes}"), frame.map(|frame| frame[..74.min(frame.len())].to_vec()))
        })
        .collect()
}

/// Where the stack sends though the kernel would send elsewhere, or from another address.
fn disagreements(bed: &mut Bed) -> Vec<String> {
    let questions = DESTINATIONS.iter().fold(String::new(), |lines, to| lines + "route get " + to + "\n");
    let answers = bed.ip_batch(&questions);
    let mut found = Vec::new();
    for to in DESTINATIONS {
        let Ok(frame) = bed.send(to) else { continue };
        let source: IpAddr = match to.parse().unwrap() {
            IpAddr::V4(_) => <[u8; 4]>::try_from(&frame[26..30]).unwrap().into(),
            IpAddr::V6(_) => <[u8; 16]>::try_from(&frame[22..38]).unwrap().into(),
        };
        // The last byte of the hardware address is the number in the interface's name.
        let wanted = format!(" dev nw{} ", frame[11]);
        let answer = answers.lines().find(|line| line.split(' ').take(2).any(|word| word == to)).unwrap_or("refused");
        if !answer.contains(&wanted) || !answer.contains(&format!(" src {source} ")) {
            found.push(format!("stack{wanted}src {source}, kernel {answer}"));
        }
    }
    found
}

/// Where a sender that followed and a fresh one differ.
fn differences(bed: &mut Bed) -> Vec<String> {
    let (followed, fresh) = (outcomes(&mut bed.sender), outcomes(&mut bed.fresh()));
    let different = followed.into_iter().zip(fresh).filter(|(followed, fresh)| followed != fresh);
    different
        .map(|(followed, fresh)| format!("{}: followed {:x?}, fresh {:x?}", fresh.0, followed.1, fresh.1))
        .collect()
}

/// What is wrong after a while: neighbours and IPv6 addresses change by the kernel's timers and workers too.
fn mistakes(bed: &mut Bed) -> Vec<String> {
    let mut found = Vec::new();
    for _ in 0..20 {
        bed.catch_up();
        found = differences(bed);
        found.extend(disagreements(bed));
        if found.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    found
}

fn follow(seed: u64) {
    let Some(mut bed) = bed_or_skip() else { return };
    let mut random = Random(seed);
    let mut seen = HashSet::new();
    let mut history = String::new();
    for _ in 0..20 {
        let mut lines = String::new();
        for _ in 0..5 {
            writeln!(lines, "{}", change(&mut random)).unwrap();
        }
        bed.ip_batch(&lines);
        history.push_str(&lines);
        let found = mistakes(&mut bed);
        let routes = || {
            ip(&bed.near().namespace, "route show table all") + &ip(&bed.near().namespace, "-6 route show table all")
        };
        assert!(found.is_empty(), "seed {seed}\n{history}\n{}\n{}", routes(), found.join("\n"));
        seen.extend(outcomes(&mut bed.sender).into_iter().map(|(_, outcome)| outcome.err()));
    }
    assert!(seen.contains(&None) && seen.len() > 3, "seed {seed} shows something: {seen:?}");
}

#[test]
fn random_changes_followed_are_as_a_fresh_look_and_as_the_kernel_routes() {
    let seeds = std::env::var("NEARWIRE_TEST_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    (1..=seeds.unwrap_or(4)).for_each(follow);
}

#[test]
fn burst_beyond_the_sockets_buffer_is_lost_and_a_snapshot_makes_up_for_it() {
    let Some(mut bed) = bed_or_skip() else { return };
    rustix::net::sockopt::set_socket_recv_buffer_size(bed.tables.as_fd(), 4096).unwrap();
    let mut lines = String::new();
    for number in 0..1000 {
        writeln!(lines, "route add 192.{}.{}.0/24 via 10.77.0.2", number / 256, number % 256).unwrap();
    }
    bed.ip_batch(&lines);
    assert_eq!(bed.catch_up(), News::Lost);
    assert!(bed.send("192.3.200.1").is_ok());
    assert_eq!(mistakes(&mut bed), [""; 0]);
    assert_eq!(bed.catch_up(), News::None, "the news of before are in the snapshot");
    bed.ip("route del 192.3.200.0/24");
    assert_eq!(bed.send("192.3.200.1"), Err(NeedsKernel::NoRoute));
}
