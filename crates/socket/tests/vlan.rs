//! VLAN interfaces, which not every kernel has: where this one has none, the same test runs in an emulated host.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use common::{Bed, NEAR, bed_or_skip};
use nearwire_lab::EmulatedHost;
use nearwire_lab::emulated_host::{HostHardware, HostSystem};
use nearwire_stack::NeedsKernel;

#[test]
fn vlan_interface_sends_with_its_tag() {
    let Some(mut bed) = bed_or_skip() else { return };
    bed.ip_batch(&format!("link add link {NEAR} name v5 type vlan id 5"));
    let devices = bed.near().namespace.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev")).unwrap().unwrap();
    if devices.contains("v5:") { sends_with_its_tag(&mut bed) } else { in_an_emulated_host() }
}

fn sends_with_its_tag(bed: &mut Bed) {
    bed.ip("link set v5 up");
    bed.ip("addr add 10.5.0.1/24 dev v5");
    bed.ip("neigh add 10.5.0.2 lladdr 02:00:00:00:00:05 dev v5");
    let frame = bed.send("10.5.0.2").unwrap();
    assert_eq!(frame[12..18], [0x81, 0, 0, 5, 8, 0]);
    bed.ip("link add link v5 name v6 type vlan id 6 proto 802.1ad");
    bed.ip("link set v6 up");
    bed.ip("addr add 10.6.0.1/24 dev v6");
    bed.ip("neigh add 10.6.0.2 lladdr 02:00:00:00:00:06 dev v6");
    let frame = bed.send("10.6.0.2").unwrap();
    assert_eq!(frame[12..22], [0x81, 0, 0, 5, 0x88, 0xa8, 0, 6, 8, 0]);
    bed.ip("link del v5");
    assert_eq!(bed.send("10.5.0.2"), Err(NeedsKernel::NoRoute));
}

/// This test, by a kernel that has VLAN interfaces.
fn in_an_emulated_host() {
    let itself = std::env::current_exe().unwrap();
    let name = itself.file_name().unwrap().to_str().unwrap().to_owned();
    let ip = ["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip"].into_iter().find(|ip| std::path::Path::new(ip).exists());
    let programs = [itself.to_str().unwrap(), ip.unwrap()];
    let system = HostSystem::of_target(env!("CARGO_TARGET_TMPDIR"), &programs);
    let mut host = match EmulatedHost::boot(&HostHardware::default(), &system, "") {
        Err(error) if error.is_missing_requirement() => {
            assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but: {error}");
            return println!("SKIP no VLAN interfaces here, and {error}");
        }
        host => host.unwrap(),
    };
    let test = format!("modprobe 8021q && NEARWIRE_REQUIRE=all {name} --exact vlan_interface_sends_with_its_tag");
    let output = host.run(&test).unwrap();
    assert_eq!(output.status, 0, "{}", output.text());
}
