//! What forbids lending an interface. Every check reads; none changes anything.

use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::tc::{TcAttribute, TcMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::kept::KeptInterface;
use crate::LabError;
use crate::interface::{self, InterfaceFacts};
use crate::netlink::Netlink;
use crate::route::{is_default_through, leads_through, table_of};

/// Facts about both interfaces, if both may be moved away.
pub(super) fn usable_pair(netlink: &mut Netlink, near: &str, far: &str) -> Result<[InterfaceFacts; 2], LabError> {
    let found = [interface::facts_named(netlink, near)?, interface::facts_named(netlink, far)?];
    // By index: an interface can be named by alternative names too.
    if found[0].ifindex == found[1].ifindex {
        return Err(LabError::SameInterface { interface: found[0].name.clone() });
    }
    let links = netlink.links()?;
    let routes = netlink.routes()?;
    let disciplines = netlink.queue_disciplines()?;
    for facts in &found {
        refuse_by_nature(facts, &links)?;
        refuse_dependents(facts, &links)?;
        refuse_routes(facts, &routes)?;
        refuse_disciplines(facts, &disciplines)?;
    }
    Ok(found)
}

fn refuse_by_nature(facts: &InterfaceFacts, links: &[LinkMessage]) -> Result<(), LabError> {
    let interface = facts.name.clone();
    if facts.loopback {
        return Err(LabError::LoopbackInterface { interface });
    }
    if let Some(ifindex) = facts.controller_ifindex {
        let controller = links
            .iter()
            .map(InterfaceFacts::from_link)
            .find(|link| link.ifindex == ifindex)
            .map_or_else(|| format!("interface {ifindex}"), |link| link.name);
        return Err(LabError::Enslaved { interface, controller });
    }
    if let Some(program_id) = facts.xdp_program_id {
        return Err(LabError::XdpAttached { interface, program_id });
    }
    if facts.pinned_to_namespace {
        return Err(LabError::PinnedToNamespace { interface, kind: facts.driver_or_kind().to_owned() });
    }
    Ok(())
}

/// Refuses an interface that others are stacked upon: VLANs, macvlans and the like would be cut
/// from the network, and some of them do not survive it.
pub(super) fn refuse_dependents(facts: &InterfaceFacts, links: &[LinkMessage]) -> Result<(), LabError> {
    let dependent = links.iter().find(|link| {
        let mut below = false;
        let mut elsewhere = false;
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::Link(ifindex) => below = *ifindex == facts.ifindex,
                LinkAttribute::LinkNetNsId(_) => elsewhere = true,
                // The peer of a veth is beside it, not below.
                LinkAttribute::LinkInfo(infos) if is_veth(infos) => elsewhere = true,
                _ => {}
            }
        }
        below && !elsewhere && link.header.index != facts.ifindex
    });
    match dependent {
        None => Ok(()),
        Some(link) => {
            let above = InterfaceFacts::from_link(link).name;
            Err(LabError::NotRevertible {
                interface: facts.name.clone(),
                found: format!("has {above} stacked upon it"),
                advice: format!("delete {above} first (ip link del {above})"),
            })
        }
    }
}

fn is_veth(infos: &[LinkInfo]) -> bool {
    infos.iter().any(|info| matches!(info, LinkInfo::Kind(InfoKind::Veth)))
}

/// Refuses an interface whose address the default route sends from.
pub(super) fn refuse_source_of_default_route(kept: &KeptInterface) -> Result<(), LabError> {
    kept.default_route().map_or(Ok(()), |route| Err(default_route(&kept.facts, route)))
}

fn default_route(facts: &InterfaceFacts, route: &RouteMessage) -> LabError {
    LabError::DefaultRoute { interface: facts.name.clone(), family: family_name(route), table: table_of(route) }
}

fn refuse_routes(facts: &InterfaceFacts, routes: &[RouteMessage]) -> Result<(), LabError> {
    for route in routes {
        if is_default_through(route, facts.ifindex) {
            return Err(default_route(facts, route));
        }
        if !leads_through(route, facts.ifindex) || route.header.kind != RouteType::Unicast {
            continue;
        }
        let shared = route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::MultiPath(_) => Some("several next hops"),
            RouteAttribute::NhId(_) => Some("a next-hop object"),
            RouteAttribute::Encap(_) => Some("an encapsulation"),
            _ => None,
        });
        if let Some(what) = shared {
            return Err(LabError::NotRevertible {
                interface: facts.name.clone(),
                found: format!("carries an {} route with {what}", family_name(route)),
                advice: "remove the route first, or choose another interface".to_owned(),
            });
        }
    }
    Ok(())
}

fn family_name(route: &RouteMessage) -> &'static str {
    match route.header.address_family {
        AddressFamily::Inet6 => "IPv6",
        _ => "IPv4",
    }
}

/// Refuses an interface with queue disciplines or filters that someone set up: the kernel drops
/// them when the interface moves. Those of the kernel's own choice have no handle.
fn refuse_disciplines(facts: &InterfaceFacts, all: &[TcMessage]) -> Result<(), LabError> {
    let set_up = all.iter().find(|discipline| {
        i64::from(discipline.header.index) == i64::from(facts.ifindex) && discipline.header.handle.major != 0
    });
    let Some(discipline) = set_up else {
        return Ok(());
    };
    let kind = discipline
        .attributes
        .iter()
        .find_map(|attribute| if let TcAttribute::Kind(kind) = attribute { Some(kind.as_str()) } else { None });
    let parent = match kind {
        Some("clsact" | "ingress") => kind.unwrap_or_default(),
        _ => "root",
    };
    Err(LabError::NotRevertible {
        interface: facts.name.clone(),
        found: format!("has a {} queue discipline", kind.unwrap_or("configured")),
        advice: format!("remove it first (tc qdisc del dev {} {parent})", facts.name),
    })
}

impl Netlink {
    /// All queue disciplines of the namespace.
    fn queue_disciplines(&mut self) -> Result<Vec<TcMessage>, LabError> {
        let question = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let answers = match self.dump(&|| "list queue disciplines".to_owned(), &question) {
            // A kernel without traffic control has none.
            Err(error) if error.refused_errno() == Some(libc::EOPNOTSUPP) => Vec::new(),
            outcome => outcome?,
        };
        Ok(answers
            .into_iter()
            .filter_map(|answer| match answer {
                RouteNetlinkMessage::NewQueueDiscipline(discipline) => Some(discipline),
                _ => None,
            })
            .collect())
    }
}
