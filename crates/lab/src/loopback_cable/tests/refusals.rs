//! What must not be lent is refused in words, and nothing has changed.

use std::time::{Duration, Instant};

use nearwire_sys::bpf::{Instruction, Link, Program, XdpAttach};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteNextHop};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use super::super::checks::refuse_dependents;
use super::host::Host;
use crate::interface::InterfaceFacts;
use crate::{LabError, LabErrorKind};

/// `r0 = XDP_PASS; exit`
const PASS: [Instruction; 2] = [
    Instruction { code: 0xb7, registers: 0, offset: 0, immediate: 2 },
    Instruction { code: 0x95, registers: 0, offset: 0, immediate: 0 },
];

/// Lays a cable that must be refused, with each port as the first and as the second end, and
/// returns the message. Nothing of the host may have changed.
fn refusal(host: &Host, port: &str, other: &str) -> (LabError, String) {
    let before = host.shown_by_ip();
    let reversed = host.lay(other, port).unwrap_err();
    let error = host.lay(port, other).unwrap_err();
    assert_eq!(error.to_string(), reversed.to_string());
    assert_eq!(error.kind(), LabErrorKind::UnusableInput);
    assert_eq!(host.shown_by_ip(), before);
    let text = error.to_string();
    (error, text)
}

fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "'{part}' not in: {text}");
    }
}

#[test]
fn missing_interface_named_refusal_lists_the_ports_there_are() {
    let Some(host) = Host::with_ports_or_skip() else {
        return;
    };
    let (error, text) = refusal(&host, "eth99", "port0");
    assert!(matches!(error, LabError::MissingInterface { .. }));
    assert_says(&text, &["eth99", "lo", "port0", "port1"]);
}

#[test]
fn same_interface_named_twice_is_refused() {
    let Some(host) = Host::with_ports_or_skip() else {
        return;
    };
    let (error, text) = refusal(&host, "port0", "port0");
    assert!(matches!(error, LabError::SameInterface { .. }));
    assert_says(&text, &["port0:port0", "name two"]);
}

#[test]
fn loopback_interface_named_is_refused() {
    let Some(host) = Host::with_ports_or_skip() else {
        return;
    };
    let (error, text) = refusal(&host, "lo", "port0");
    assert!(matches!(error, LabError::LoopbackInterface { .. }));
    assert_says(&text, &["lo is the loopback interface"]);
}

#[test]
fn default_route_through_port_is_refused_for_both_families() {
    for (address, bits, router, anywhere, family) in
        [("198.51.100.1", 24, "198.51.100.254", "0.0.0.0", "IPv4"), ("2001:db8::1", 64, "2001:db8::fe", "::", "IPv6")]
    {
        let Some(mut host) = Host::with_ports_or_skip() else {
            return;
        };
        host.up("port0");
        host.address("port0", address, bits);
        let mut route = host.through("port0", Some(router));
        route.push(RouteAttribute::Table(1000));
        host.route(anywhere, 0, route).unwrap();
        let (error, text) = refusal(&host, "port0", "port1");
        assert!(matches!(error, LabError::DefaultRoute { .. }));
        assert_says(&text, &["port0", family, "table 1000", "cut this host off"]);
    }
}

#[test]
fn default_route_shared_by_next_hops_is_refused() {
    let Some(mut host) = Host::with_ports_or_skip() else {
        return;
    };
    host.plug("other0", "other1");
    let mut hops = Vec::new();
    for (port, network) in [("port0", "198.51.100"), ("other0", "203.0.113")] {
        host.up(port);
        host.address(port, &format!("{network}.1"), 24);
        let mut hop = RouteNextHop::default();
        hop.interface_index = host.ifindex(port);
        let router: std::net::IpAddr = format!("{network}.254").parse().unwrap();
        hop.attributes = vec![RouteAttribute::Gateway(RouteAddress::from(router))];
        hops.push(hop);
    }
    host.route("0.0.0.0", 0, vec![RouteAttribute::MultiPath(hops.clone())]).unwrap();
    let (error, _) = refusal(&host, "port0", "port1");
    assert!(matches!(error, LabError::DefaultRoute { .. }));
}

#[test]
fn default_route_sends_from_address_of_port_is_refused() {
    let Some(mut host) = Host::with_ports_or_skip() else {
        return;
    };
    host.plug("other0", "other1");
    host.up("other0");
    host.up("port0");
    host.address("port0", "198.51.100.1", 24);
    let source: std::net::IpAddr = "198.51.100.1".parse().unwrap();
    let mut route = host.through("other0", None);
    route.push(RouteAttribute::PrefSource(RouteAddress::from(source)));
    host.route("0.0.0.0", 0, route).unwrap();
    let (error, text) = refusal(&host, "port0", "port1");
    assert!(matches!(error, LabError::DefaultRoute { .. }));
    assert_says(&text, &["port0"]);
}

#[test]
fn route_with_several_next_hops_is_refused() {
    let Some(mut host) = Host::with_ports_or_skip() else {
        return;
    };
    host.up("port0");
    host.address("port0", "198.51.100.1", 24);
    let hops = ["198.51.100.253", "198.51.100.254"].map(|router| {
        let router: std::net::IpAddr = router.parse().unwrap();
        let mut hop = RouteNextHop::default();
        hop.interface_index = host.ifindex("port0");
        hop.attributes = vec![RouteAttribute::Gateway(RouteAddress::from(router))];
        hop
    });
    host.route("192.0.2.0", 24, vec![RouteAttribute::MultiPath(hops.into())]).unwrap();
    let (error, text) = refusal(&host, "port0", "port1");
    assert!(matches!(error, LabError::NotRevertible { .. }));
    assert_says(&text, &["port0", "several next hops"]);
}

#[test]
fn port_of_a_bridge_is_refused_with_its_name() {
    let Some(mut host) = Host::with_ports_or_skip() else {
        return;
    };
    host.add_link("bridge0", InfoKind::Bridge);
    let mut message = LinkMessage::default();
    message.header.index = host.ifindex("port0");
    message.attributes = vec![LinkAttribute::Controller(host.ifindex("bridge0"))];
    host.netlink.request(&|| "enslave port0".to_owned(), RouteNetlinkMessage::SetLink(message), 0).unwrap();
    let (error, text) = refusal(&host, "port0", "port1");
    assert!(matches!(error, LabError::Enslaved { .. }));
    assert_says(&text, &["port0 is a port of bridge0", "nomaster"]);
}

#[test]
fn interface_pinned_to_its_namespace_is_refused() {
    let Some(mut host) = Host::with_ports_or_skip() else {
        return;
    };
    // A bridge cannot move.
    host.add_link("bridge0", InfoKind::Bridge);
    let (error, text) = refusal(&host, "bridge0", "port0");
    assert!(matches!(error, LabError::PinnedToNamespace { .. }));
    assert_says(&text, &["bridge0 (bridge)"]);
}

/// A link as the kernel describes it, stacked upon or paired with interface 7.
fn linked(kind: InfoKind, more: Option<LinkAttribute>) -> Vec<LinkMessage> {
    let mut message = LinkMessage::default();
    message.header.index = 8;
    message.attributes = vec![
        LinkAttribute::IfName("above0".to_owned()),
        LinkAttribute::Link(7),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)]),
    ];
    message.attributes.extend(more);
    vec![message]
}

#[test]
fn interface_stacked_upon_port_is_refused_with_its_name() {
    let mut port = LinkMessage::default();
    port.header.index = 7;
    port.attributes = vec![LinkAttribute::IfName("port0".to_owned())];
    let port = InterfaceFacts::from_link(&port);
    for kind in [InfoKind::Vlan, InfoKind::MacVlan, InfoKind::IpVlan] {
        let error = refuse_dependents(&port, &linked(kind, None)).unwrap_err();
        assert!(matches!(error, LabError::NotRevertible { .. }));
        assert_says(&error.to_string(), &["port0 has above0 stacked upon it"]);
    }
    // The peer of a veth, and a number that means an interface of another namespace.
    refuse_dependents(&port, &linked(InfoKind::Veth, None)).unwrap();
    let elsewhere = Some(LinkAttribute::LinkNetNsId(0));
    refuse_dependents(&port, &linked(InfoKind::Vlan, elsewhere)).unwrap();
}

#[test]
fn queue_discipline_set_up_by_someone_is_refused() {
    let Some(mut host) = Host::with_ports_or_skip() else {
        return;
    };
    let ifindex = host.ifindex("port0");
    let mut message = TcMessage::with_index(i32::try_from(ifindex).unwrap());
    message.header.parent = TcHandle::ROOT;
    message.header.handle = TcHandle { major: 1, minor: 0 };
    message.attributes = vec![TcAttribute::Kind("pfifo".to_owned())];
    host.netlink
        .request(
            &|| "add pfifo".to_owned(),
            RouteNetlinkMessage::NewQueueDiscipline(message),
            netlink_packet_core::NLM_F_CREATE,
        )
        .unwrap();
    let (error, text) = refusal(&host, "port0", "port1");
    assert!(matches!(error, LabError::NotRevertible { .. }));
    assert_says(&text, &["pfifo", "tc qdisc del dev port0 root"]);
}

#[test]
fn xdp_program_attached_is_refused_with_its_id() {
    let Some(mut host) = Host::with_ports_or_skip() else {
        return;
    };
    let program = match Program::load_xdp("pass", &PASS) {
        Ok(program) => program,
        Err(error) => {
            assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but: {error}");
            println!("SKIP {error}");
            return;
        }
    };
    let ifindex = host.ifindex("port0");
    for mode in [XdpAttach::Driver, XdpAttach::Skb] {
        let link = host.namespace.enter(|| Link::attach_xdp(&program, ifindex, mode));
        let link = link.unwrap().unwrap();
        let (error, text) = refusal(&host, "port0", "port1");
        assert!(matches!(error, LabError::XdpAttached { .. }));
        let id = program.id().unwrap();
        assert_says(&text, &["port0", &format!("program {id} "), "detach"]);
        drop(link);
        // A test that forks meanwhile keeps the link's descriptor until it executes.
        let deadline = Instant::now() + Duration::from_secs(5);
        let laid = loop {
            match host.lay("port0", "port1") {
                Err(LabError::XdpAttached { .. }) if Instant::now() < deadline => {}
                outcome => break outcome.unwrap(),
            }
        };
        laid.put_back().unwrap();
    }
}
