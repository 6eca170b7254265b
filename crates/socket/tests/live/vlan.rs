//! VLAN interfaces, which not every kernel has: where this one has none, the same test runs in an emulated host.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;

use crate::common::{Bed, NEAR, bed_or_skip};
use crate::near::{By, Near, ip};
use nearwire_lab::emulated_host::{HostHardware, HostSystem, SOONER};
use nearwire_lab::{EmulatedHost, emulated_or_skip};
use nearwire_socket::Reason;
use nearwire_socket::config::Mode;
use nearwire_stack::{NeedsKernel, SourceFilter};

#[test]
fn vlan_interface_sends_with_its_tag() {
    let Some(mut bed) = bed_or_skip() else { return };
    bed.ip_batch(&format!("link add link {NEAR} name v5 type vlan id 5"));
    let devices = bed.near().namespace.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev")).unwrap().unwrap();
    if devices.contains("v5:") { sends_with_its_tag(&mut bed) } else { in_an_emulated_host() }
}

/// Set in the emulated host.
const MUST_HAVE_VLANS: &str = "NEARWIRE_TEST_VLANS";

/// Without VLAN interfaces it is run in the emulated host, by the test above.
fn has_vlans(near: &Near) -> bool {
    let make = || Command::new("ip").args("link add link nw0 name v5 type vlan id 5".split(' ')).output();
    let is_made = near.near().namespace.enter(make).unwrap().unwrap().status.success();
    assert!(is_made || std::env::var_os(MUST_HAVE_VLANS).is_none(), "no VLAN interfaces in the emulated host");
    is_made
}

/// A VLAN of id 5 on both ends, 10.5.0.1 and 10.5.0.2. The near end has one already.
fn dress_vlan(near: &Near) {
    ip(&near.far().namespace, "link add link nw1 name v5 type vlan id 5");
    for (namespace, address) in [(&near.near().namespace, "10.5.0.1"), (&near.far().namespace, "10.5.0.2")] {
        ip(namespace, "link set v5 up");
        ip(namespace, &format!("addr add {address}/24 dev v5"));
    }
}

fn far_socket(near: &Near) -> UdpSocket {
    near.far().namespace.enter(|| UdpSocket::bind("10.5.0.2:0")).unwrap().unwrap()
}

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 77, 1, 2);

/// veth leaves the tag beside the frame, where no XDP program sees it.
#[test]
fn vlan_on_a_device_that_hides_tags_the_kernel_serves_groups_too() {
    for mode in [Mode::Generic, Mode::Native] {
        let Some(mut near) = Near::or_skip(mode) else { return };
        if !has_vlans(&near) {
            return;
        }
        dress_vlan(&near);
        ip(&near.far().namespace, "route add 239.0.0.0/8 dev v5");
        let far = far_socket(&near);
        let (in_vlan, in_group) = (near.open("10.5.0.1:5000"), near.open("0.0.0.0:5001"));
        assert_eq!(near.reason(&in_vlan), Some(Reason::HiddenVlanTags));
        in_group.join_multicast_v4(&GROUP, &[10, 5, 0, 1].into()).unwrap();
        let v5 = near.ip("-o link show v5").split(':').next().unwrap().parse().unwrap();
        near.sockets().joined(in_group.as_raw_fd(), v5, GROUP.into(), SourceFilter::default());
        for _ in 0..10 {
            far.send_to(b"in", "10.5.0.1:5000").unwrap();
            far.send_to(b"group", (GROUP, 5001)).unwrap();
        }
        for _ in 0..10 {
            assert_eq!(near.receive(&in_vlan), (By::Kernel, b"in".to_vec()));
            assert_eq!(near.receive(&in_group), (By::Kernel, b"group".to_vec()));
        }
        assert_eq!(near.try_receive(&in_group), None);
    }
}

#[test]
fn vlan_that_comes_and_goes_takes_the_port_of_its_device_away_for_so_long() {
    for mode in [Mode::Generic, Mode::Native] {
        let Some(mut near) = Near::or_skip(mode) else { return };
        let (socket, peer) = (near.open("0.0.0.0:5000"), near.peer());
        near.is_past_the_kernel_soon(&peer, &socket);
        if !has_vlans(&near) {
            return;
        }
        near.has_reason_soon(&socket, Some(Reason::HiddenVlanTags));
        dress_vlan(&near);
        far_socket(&near).send_to(b"in", "10.5.0.1:5000").unwrap();
        assert_eq!(near.receive(&socket), (By::Kernel, b"in".to_vec()));
        assert_eq!(near.delivered(&peer, &socket), By::Kernel);
        near.ip("link del v5");
        near.is_past_the_kernel_soon(&peer, &socket);
        assert_eq!(near.reason(&socket), None);
    }
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
    let Some(mut host) = emulated_or_skip(EmulatedHost::boot(&HostHardware::default(), &system, SOONER)) else {
        return;
    };
    let test = format!("modprobe 8021q && {MUST_HAVE_VLANS}=1 NEARWIRE_REQUIRE=all {name} vlan");
    let output = host.run(&test).unwrap();
    assert_eq!(output.status, 0, "{}", output.text());
    assert!(output.text().contains("3 passed"), "{}", output.text());
}
