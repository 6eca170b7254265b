//! `nearwire tune measure` of services, on a host of its own whose systemctl(1) starts a unit five times at most, as systemd does within ten
//! seconds, and of settings that it leaves alone.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use common::measuring::Place;
use common::{assert_says, code, errors, may_run, text};

/// The state of a unit is in the file where the kernel would show whether its group has a process.
const SYSTEMCTL: &str = r#"#!/bin/sh
state=/sys/fs/cgroup/system.slice/$2/cgroup.events
case $1 in
    is-active) if grep -q 1 $state; then echo active; else echo inactive; exit 3; fi ;;
    reset-failed) rm -f starts ;;
    stop) echo populated 0 > $state; echo >> stops ;;
    start)
        echo >> starts
        if [ $(wc -l < starts) -gt 5 ]; then echo "Job for $2 failed." >&2; exit 1; fi
        echo populated 1 > $state ;;
esac
"#;

/// Nothing of it is seen outside, and irqbalance runs there.
const HOST: &str = "\
set -e
mount -t tmpfs none /run
mount -t tmpfs none /sys/fs/cgroup
mkdir -p /run/systemd/system /sys/fs/cgroup/system.slice/irqbalance.service /sys/fs/cgroup/system.slice/chrony.service
touch /run/systemd/system/irqbalance.service /run/systemd/system/chrony.service
irqbalance=/sys/fs/cgroup/system.slice/irqbalance.service/cgroup.events
echo populated 1 | tee $irqbalance > /sys/fs/cgroup/system.slice/chrony.service/cgroup.events
PATH=$PWD:$PATH
measure=\"$NEARWIRE tune measure udp/spin --profile profile.toml --yes --quiet --journal journal --results results\"
";

/// What a script says on such a host.
fn on_host(place: &Place, script: &str) -> String {
    let systemctl = place.path("systemctl");
    fs::write(&systemctl, SYSTEMCTL).unwrap();
    fs::set_permissions(&systemctl, PermissionsExt::from_mode(0o700)).unwrap();
    let mut host = Command::new("unshare");
    host.args(["-m", "sh", "-c"]).arg(format!("{HOST}{script}")).env("NEARWIRE", common::NEARWIRE);
    let output = host.current_dir(place.directory()).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}{}", text(&output), errors(&output));
    text(&output)
}

fn without(service: &str) -> (&str, String) {
    (service, "lacks = ['running', 'enabled']".to_owned())
}

#[test]
fn service_is_stopped_and_started_in_each_round_and_runs_in_the_end() {
    if !may_run() {
        return;
    }
    let place = Place::new(&[without("service.irqbalance"), without("clock.chrony")]);
    let said = on_host(&place, "$measure --rounds 8 --time 2s\necho stopped $(wc -l < stops) times; cat $irqbalance");
    assert!(said.contains("service.irqbalance  running -> stopped"), "{said}");
    assert!(said.contains("Runs take 62 ms"), "{said}");
    assert!(said.contains("clock.chrony  the clock would run on its own"), "{said}");
    assert!(said.contains("1 setting measured") && !said.contains("given up"), "{said}");
    let stops = said.split("stopped ").last().and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    assert!(stops.unwrap() > 5 && said.ends_with("populated 1\n"), "{said}");
    assert!(!place.has_journal());
}

#[test]
fn service_stopped_by_a_measurement_that_was_killed_is_started_by_revert() {
    if !may_run() {
        return;
    }
    let place = Place::new(&[without("service.irqbalance")]);
    let script = "\
$measure --rounds 100 --time 60s >/dev/null 2>&1 &
for i in $(seq 1 1500); do grep -q 0 $irqbalance && break; sleep 0.02; done
kill -9 $!
cat $irqbalance
$NEARWIRE tune revert --yes --journal journal
cat $irqbalance";
    let said = on_host(&place, script);
    assert!(said.starts_with("populated 0\n") && said.ends_with("populated 1\n"), "{said}");
    assert!(!place.has_journal());
}

#[test]
fn mtu_is_not_switched_under_the_paths_of_a_cable() {
    if !may_run() {
        return;
    }
    let place = Place::new(&[("nic.mtu", "equal = 1400".to_owned())]);
    let output = place.measure(&["udp/spin", "--yes", "--quiet"]).output().unwrap();
    assert_says(&output, 0, &[]);
    let said = text(&output);
    assert!(said.contains("Nothing to measure") && said.contains("nic.mtu[nw0]  it can interrupt the cable"), "{said}");
}

/// On a host of its own an interface has the default route, and another one leads to whoever works there. A veth has no device, which
/// the interfaces that are chosen without a name have.
const HOST_WITH_THREE_INTERFACES: &str = "\
set -e
for name in wa wb wc; do
    ip link add $name type veth peer name ${name}1; ip link set $name up; ip link set ${name}1 up
done
ip address add 192.0.2.1/24 dev wa
ip address add 198.51.100.1/24 dev wb
ip route add default via 192.0.2.9
mount -t sysfs none /sys
for name in wa wb wc; do
    own=/sys/devices/virtual/net/$name; index=$(cat $own/ifindex)
    mount -t tmpfs none $own; mkdir $own/device; echo $index > $own/ifindex
done
SSH_CONNECTION='198.51.100.7 50022 198.51.100.1 22' \
    $NEARWIRE tune measure --profile profile.toml --journal journal --quiet --figure '([0-9]+)' -- echo 1 || echo left with $?";

#[test]
fn interfaces_that_carry_the_default_route_or_the_callers_connection_are_left_alone() {
    if !may_run() {
        return;
    }
    let place = Place::new(&[("nic.tx-queue-length", "equal = 77".to_owned())]);
    let mut host = Command::new("unshare");
    host.args(["-n", "-m", "sh", "-c", HOST_WITH_THREE_INTERFACES]).env("NEARWIRE", common::NEARWIRE);
    let output = host.stdin(Stdio::null()).current_dir(place.directory()).output().unwrap();
    let said = text(&output);
    for words in [
        "nic.tx-queue-length[wa]  it carries the default route, so it is left alone",
        "nic.tx-queue-length[wb]  your connection comes in by it, so it is left alone",
        "1 setting to measure",
        "nic.tx-queue-length[wc]  1000 -> 77",
    ] {
        assert!(said.contains(words), "no '{words}' in {said}{}", errors(&output));
    }
    assert!(said.ends_with("left with 2\n"), "nobody said yes: {said}");
}
