//! The loopback cable: interfaces lent to a measurement and given back. In namespaces of the tests' own.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{assert_says, bench, code, errors, may_run, text};
use nearwire_frames::xdp::{AttachMode, attach_pass};
use nearwire_lab::Namespace;
use rustix::process::Signal;

const CABLE: [&str; 2] = ["--cable", "wa:wb"];

/// A host with two interfaces that a cable joins.
fn host() -> Namespace {
    let host = Namespace::new().unwrap();
    for line in [
        "link set lo up",
        "link add wa type veth peer name wb",
        "addr add 192.0.2.1/24 dev wa",
        "link set wa up",
        "link set wb up",
    ] {
        ip(&host, line);
    }
    await_links(&host);
    host
}

/// The kernel says that a link is there (`IFF_RUNNING`) a moment after both ends are up; until then `ip` shows NO-CARRIER.
fn await_links(host: &Namespace) {
    let give_up = Instant::now() + Duration::from_secs(10);
    while ip(host, "-o link show up").contains("NO-CARRIER") {
        assert!(Instant::now() < give_up, "no link: {}", ip(host, "-o link"));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn ip(host: &Namespace, line: &str) -> String {
    let output = host.enter(|| Command::new("ip").args(line.split(' ')).output().unwrap()).unwrap();
    assert!(output.status.success(), "ip {line}: {}", errors(&output));
    text(&output)
}

fn measured_on(host: &Namespace, paths: &[&str]) -> Output {
    host.enter(|| bench(&[paths, &CABLE].concat())).unwrap()
}

/// What must be the same afterwards. An interface that is elsewhere just now has no flags.
fn state(host: &Namespace) -> Vec<String> {
    let links = ip(host, "-o link show");
    let flags = |name: &str| {
        let link = links.lines().find(|line| line.contains(&format!(" {name}@")))?;
        Some(link.split_once('<')?.1.split_once('>')?.0.to_owned())
    };
    let flags = |name: &str| flags(name).unwrap_or_default();
    vec![ip(host, "-o -4 addr show"), flags("wa"), flags("wb"), ip(host, "route show")]
}

#[test]
fn measurement_over_a_loopback_cable_puts_both_interfaces_back() {
    if !may_run() {
        return;
    }
    let host = host();
    let before = state(&host);
    let output =
        measured_on(&host, &["udp/spin", "udp/bypass", "tcp/block", "tcp/bypass", "frame/packet", "frame/xdp"]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    assert!(text(&output).contains("loopback cable"), "{}", text(&output));
    await_state(&host, &before, "after a measurement");
}

#[test]
fn missing_interface_is_named() {
    if may_run() {
        assert_says(&bench(&["udp/spin", "--cable", "nosuch0:nosuch1"]), 2, &["nosuch0"]);
    }
}

#[test]
fn interface_with_the_default_route_is_refused_untouched() {
    if !may_run() {
        return;
    }
    let host = host();
    ip(&host, "route add default via 192.0.2.2 dev wa");
    let before = state(&host);
    assert_says(&measured_on(&host, &["udp/spin"]), 2, &["wa", "default route"]);
    assert_eq!(state(&host), before);
}

#[test]
fn interface_with_an_xdp_program_is_refused_untouched() {
    if !may_run() {
        return;
    }
    let host = host();
    let _program = host.enter(|| attach_pass("wa", AttachMode::Native)).unwrap().unwrap();
    assert_says(&measured_on(&host, &["udp/spin"]), 2, &["wa", "XDP"]);
    assert!(ip(&host, "-o link show dev wa").contains("xdp"), "the program is still there");
}

#[test]
fn interfaces_that_were_down_work_and_are_down_again() {
    if !may_run() {
        return;
    }
    let host = host();
    ip(&host, "link set wa down");
    ip(&host, "link set wb down");
    let before = state(&host);
    let output = measured_on(&host, &["udp/spin"]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    await_state(&host, &before, "after a measurement");
}

#[test]
fn interfaces_without_a_cable_between_them_are_refused_and_put_back() {
    if !may_run() {
        return;
    }
    let host = Namespace::new().unwrap();
    for line in ["link add wa type veth peer name pa", "link add wb type veth peer name pb"] {
        ip(&host, line);
    }
    for name in ["wa", "wb", "pa", "pb"] {
        ip(&host, &format!("link set {name} up"));
    }
    let output = measured_on(&host, &["udp/spin"]);
    assert_says(&output, 4, &["wa", "wb"]);
    assert!(ip(&host, "-o link").contains("wb"));
}

#[test]
fn killed_measurement_puts_both_interfaces_back() {
    if !may_run() {
        return;
    }
    let host = host();
    let before = state(&host);
    for after_ms in [20, 60, 150, 300, 700] {
        let mut measurement = common::command(&["bench", "udp/spin", "--size", "64", "--time", "10s", "--quiet"]);
        let measurement = measurement.args(CABLE).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = host.enter(|| measurement.spawn().unwrap()).unwrap();
        std::thread::sleep(Duration::from_millis(after_ms));
        common::kill(child.id(), Signal::KILL);
        child.wait().unwrap();
        await_state(&host, &before, &format!("killed after {after_ms} ms"));
    }
}

/// The interfaces of a killed measurement come back a moment after it is gone, and the links of those it put up again a
/// moment after it ended.
fn await_state(host: &Namespace, wanted: &[String], when: &str) {
    let give_up = Instant::now() + Duration::from_secs(10);
    while state(host) != wanted {
        assert!(Instant::now() < give_up, "{when}: {:?}, was {wanted:?}", state(host));
        std::thread::sleep(Duration::from_millis(20));
    }
}
