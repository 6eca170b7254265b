//! Routes and neighbours as the kernel has them, for a router that is to do what the kernel does.
//!
//! Read once, in the network namespace of the calling thread. Of the kernel's tables those of a host without policy rules count: local, then
//! main, then default. Of routes to one prefix the one with the lowest metric counts, of several next hops the first. Routes for a type of
//! service or a source, and nexthop objects that the kernel does not spell out, are left out.

use nearwire_lab::{ForwardingTables, LabError, RouteEntry, RouteKind, forwarding_tables, interface_facts};

use super::{Interface, Neighbours, Prefix, Router, RouterError, Routes, Target};

/// `RT_TABLE_LOCAL`, `_MAIN` and `_DEFAULT` of `include/uapi/linux/rtnetlink.h`, in the order in which the kernel looks.
const TABLES: [u32; 3] = [255, 254, 253];

/// What the kernel has for some interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelView {
    /// The interfaces, in the order asked for: the number of one is that of its port.
    pub interfaces: Vec<Interface>,
    /// All routes; those through other interfaces lead to [`Target::OtherInterface`].
    pub routes: Routes,
    /// The neighbours on links of these interfaces whose link addresses are known.
    pub neighbours: Neighbours,
}

impl KernelView {
    /// A router that does what the kernel does.
    ///
    /// # Errors
    /// A route was changed to name a port that is not there.
    pub fn into_router(self) -> Result<Router, RouterError> {
        Router::new(self.interfaces, &self.routes, &self.neighbours)
    }
}

/// Reads what the kernel has, in the network namespace of the calling thread, for the interfaces called `names`.
///
/// # Errors
/// [`LabError::MissingInterface`], or a netlink failure.
pub fn kernel_view(names: &[&str]) -> Result<KernelView, LabError> {
    let facts = names.iter().map(|name| interface_facts(name)).collect::<Result<Vec<_>, _>>()?;
    let ifindexes: Vec<u32> = facts.iter().map(|facts| facts.ifindex).collect();
    let interfaces = facts.iter().map(|facts| Interface { mac: facts.mac, mtu_bytes: facts.mtu_bytes }).collect();
    let (routes, neighbours) = translate(forwarding_tables()?, &ifindexes);
    Ok(KernelView { interfaces, routes, neighbours })
}

fn translate(tables: ForwardingTables, ifindexes: &[u32]) -> (Routes, Neighbours) {
    let port_of = |ifindex: u32| ifindexes.iter().position(|known| *known == ifindex);
    let order = |route: &RouteEntry| TABLES.iter().position(|table| *table == route.table);
    let mut ordered: Vec<(usize, RouteEntry)> =
        tables.routes.into_iter().filter_map(|route| Some((order(&route)?, route))).collect();
    ordered.sort_by_key(|(order, route)| (*order, route.metric));
    let mut routes = Routes::default();
    for (_, route) in &ordered {
        if let (Some(prefix), Some(target)) =
            (Prefix::new(route.destination, route.prefix_bits), target_of(route, port_of))
        {
            routes.insert_if_absent(prefix, target);
        }
    }
    let mut neighbours = Neighbours::default();
    for neighbour in tables.neighbours {
        if let Some(port) = port_of(neighbour.ifindex) {
            neighbours.insert(port, neighbour.address, neighbour.mac);
        }
    }
    (routes, neighbours)
}

/// `None`: a route that does not count for packets between two hosts.
fn target_of(route: &RouteEntry, port_of: impl Fn(u32) -> Option<usize>) -> Option<Target> {
    match route.kind {
        RouteKind::ThisHost => Some(Target::ThisHost),
        RouteKind::Broadcast => Some(Target::Broadcast),
        RouteKind::Unreachable => Some(Target::Unreachable),
        RouteKind::Unicast => {
            let hop = route.hops.first()?;
            Some(match (port_of(hop.ifindex), hop.gateway) {
                (None, _) => Target::OtherInterface,
                (Some(port), None) => Target::Link { port },
                (Some(port), Some(address)) => Target::Gateway { port, address },
            })
        }
        RouteKind::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use nearwire_lab::RouteHop;

    use super::*;

    fn route(prefix: &str, bits: u8, table: u32, metric: u32, hops: &[(u32, Option<&str>)]) -> RouteEntry {
        let hop = |(ifindex, gateway): &(u32, Option<&str>)| RouteHop {
            ifindex: *ifindex,
            gateway: gateway.map(|text| text.parse().unwrap()),
        };
        let hops = hops.iter().map(hop).collect();
        let destination = prefix.parse().unwrap();
        RouteEntry { destination, prefix_bits: bits, table, metric, kind: RouteKind::Unicast, hops }
    }

    #[test]
    fn tables_translated_have_the_kernels_order() {
        let routes = vec![
            route("10.0.0.0", 8, 254, 100, &[(3, Some("10.9.0.1"))]),
            route("10.0.0.0", 8, 254, 20, &[(4, Some("10.9.0.2")), (3, None)]),
            route("10.1.0.0", 16, 254, 0, &[(99, None)]),
            route("10.2.0.0", 16, 100, 0, &[(3, None)]),
            route("10.3.0.0", 16, 254, 0, &[(3, None)]),
            RouteEntry { kind: RouteKind::ThisHost, ..route("10.3.0.0", 16, 255, 7, &[(3, None)]) },
            RouteEntry { kind: RouteKind::Other, ..route("224.0.0.0", 4, 254, 0, &[(3, None)]) },
        ];
        let tables = ForwardingTables { routes, neighbours: Vec::new() };
        let (routes, _) = translate(tables, &[3, 4]);
        let wanted = [
            (8, Target::Gateway { port: 1, address: "10.9.0.2".parse().unwrap() }),
            (16, Target::OtherInterface),
            (16, Target::ThisHost),
        ];
        assert_eq!(routes.iter().map(|(prefix, target)| (prefix.bits(), target)).collect::<Vec<_>>(), wanted);
    }
}
