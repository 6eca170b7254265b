//! A namespace that plays a host.

use std::fs;
use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType};

use crate::addresses::family;
use crate::interface::facts_named;
use crate::links::VethEnd;
use crate::netlink::Netlink;
use crate::{LabError, LoopbackCable, LoopbackCableOptions, Namespace};

/// A host with the ports a test plugs in.
pub(super) struct Host {
    pub(super) namespace: Namespace,
    pub(super) netlink: Netlink,
    next_mac: u8,
}

impl Host {
    /// A host without ports, or none where this user may not make one.
    pub(super) fn new_or_skip() -> Option<Self> {
        let usable = Namespace::new().and_then(|namespace| {
            namespace.enter(|| ())?;
            Ok(namespace)
        });
        let namespace = match usable {
            Ok(namespace) => namespace,
            Err(error) => {
                assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but: {error}");
                println!("SKIP {error}");
                return None;
            }
        };
        let mut netlink = Netlink::open_in(&namespace).unwrap();
        crate::cable::raise_loopback(&mut netlink).unwrap();
        Some(Self { namespace, netlink, next_mac: 1 })
    }

    /// A host with two ports, `port0` and `port1`, cabled to each other, down.
    pub(super) fn with_ports_or_skip() -> Option<Self> {
        let mut host = Self::new_or_skip()?;
        host.plug("port0", "port1");
        Some(host)
    }

    /// Adds two ports that are cabled to each other.
    pub(super) fn plug(&mut self, one: &str, other: &str) {
        let [one, other] = [one, other].map(|interface| {
            self.next_mac += 1;
            VethEnd { interface, ifindex: 0, mac: [2, 0, 0, 0, 0, self.next_mac], mtu_bytes: 1500, queues: 2 }
        });
        let here = self.namespace.clone();
        self.netlink.create_veth(&one, &other, here.fd()).unwrap();
    }

    /// Adds an interface without further properties.
    pub(super) fn add_link(&mut self, name: &str, kind: InfoKind) {
        let mut message = LinkMessage::default();
        message.attributes =
            vec![LinkAttribute::IfName(name.to_owned()), LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)])];
        self.netlink
            .request(&|| format!("add {name}"), RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
            .unwrap();
    }

    pub(super) fn ifindex(&mut self, interface: &str) -> u32 {
        facts_named(&mut self.netlink, interface).unwrap().ifindex
    }

    pub(super) fn up(&mut self, interface: &str) {
        let ifindex = self.ifindex(interface);
        self.netlink.set_up(ifindex, true).unwrap();
    }

    pub(super) fn address(&mut self, interface: &str, address: &str, prefix_bits: u8) {
        let ifindex = self.ifindex(interface);
        let address: IpAddr = address.parse().unwrap();
        self.netlink.add_address(ifindex, address, prefix_bits).unwrap();
    }

    /// Adds a route to `destination`/`prefix_bits` with more attributes.
    pub(super) fn route(
        &mut self,
        destination: &str,
        prefix_bits: u8,
        more: Vec<RouteAttribute>,
    ) -> Result<(), LabError> {
        let destination: IpAddr = destination.parse().unwrap();
        let mut message = RouteMessage::default();
        message.header.address_family = family(destination);
        message.header.destination_prefix_length = prefix_bits;
        message.header.table = 254;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        if prefix_bits > 0 {
            let destination = RouteAddress::from(destination);
            message.attributes.push(RouteAttribute::Destination(destination));
        }
        message.attributes.extend(more);
        self.netlink.request(
            &|| format!("add route {destination}/{prefix_bits}"),
            RouteNetlinkMessage::NewRoute(message),
            NLM_F_CREATE | NLM_F_EXCL,
        )
    }

    /// Attributes of a route through `interface` and perhaps a router.
    pub(super) fn through(&mut self, interface: &str, router: Option<&str>) -> Vec<RouteAttribute> {
        let mut attributes = vec![RouteAttribute::Oif(self.ifindex(interface))];
        attributes.extend(router.map(|router| {
            let router: IpAddr = router.parse().unwrap();
            RouteAttribute::Gateway(RouteAddress::from(router))
        }));
        attributes
    }

    pub(super) fn write_sysctl(&self, path: &str, value: &str) {
        let path = format!("/proc/sys/net/{path}");
        self.namespace.enter(|| fs::write(path, value)).unwrap().unwrap();
    }

    pub(super) fn read_sysctl(&self, path: &str) -> String {
        let path = format!("/proc/sys/net/{path}");
        let text = self.namespace.enter(|| fs::read_to_string(path)).unwrap();
        text.unwrap().trim().to_owned()
    }

    /// Waits until the kernel has made the link-local address of each of `interfaces`, which it
    /// does some time after they have got carrier.
    pub(super) fn await_link_local<const N: usize>(&mut self, interfaces: [&str; N]) {
        let indexes = interfaces.map(|interface| self.ifindex(interface));
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let table = self.namespace.enter(|| fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap()).unwrap();
            let made = |index: &u32| {
                table.lines().any(|line| {
                    let words: Vec<&str> = line.split_whitespace().collect();
                    line.starts_with("fe80") && words[1] == format!("{index:02x}")
                })
            };
            if indexes.iter().all(made) {
                return;
            }
            assert!(Instant::now() < deadline, "no link-local addresses: {table}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Lays a cable between two ports, impatiently.
    pub(super) fn lay(&self, near: &str, far: &str) -> Result<LoopbackCable, LabError> {
        let options = LoopbackCableOptions {
            carrier_timeout: Duration::from_millis(300),
            connect_timeout: Duration::from_millis(300),
        };
        self.namespace.enter(|| LoopbackCable::lay_with(near, far, options)).unwrap()
    }

    /// Everything `ip` shows of the host but passing states: an opinion independent of this crate.
    /// `None` where iproute2 is not installed.
    pub(super) fn shown_by_ip(&self) -> Option<String> {
        let questions = [
            "-o address show",
            "-4 route show table all",
            "-6 route show table all",
            "neighbour show nud permanent",
            "-o link show",
        ];
        let mut shown = String::new();
        for question in questions {
            let mut command = Command::new("ip");
            command.args(question.split(' '));
            let output = self.namespace.enter(|| command.output()).unwrap();
            let Ok(output) = output else {
                assert!(
                    std::env::var_os("NEARWIRE_REQUIRE").is_none(),
                    "NEARWIRE_REQUIRE is set, but there is no ip(8)"
                );
                println!("SKIP comparison with ip(8): not installed");
                return None;
            };
            assert!(output.status.success(), "{output:?}");
            let text = String::from_utf8(output.stdout).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            // These come with each address, but from a kernel worker in its own time.
            lines.retain(|line| !(question.starts_with("-6") && line.starts_with("local")));
            // The order of addresses matters, that of routes does not.
            if question.contains("route") {
                lines.sort_unstable();
            }
            for line in lines {
                // How long ago, and what the other end is doing at the moment.
                let words = line.split_whitespace().filter(|word| {
                    !matches!(*word, "linkdown" | "tentative" | "state" | "DOWN" | "UP")
                        && !word.starts_with('<')
                        && *word != "LOWERLAYERDOWN"
                });
                let words: Vec<&str> = words.collect();
                shown.push_str(&words.join(" "));
                shown.push('\n');
            }
        }
        Some(shown)
    }
}
