//! The kernel as a device: its bridge, or its routing.

use std::net::IpAddr;

use nearwire_lab::{KernelRoute, LabError, add_routes, join_by_bridge, receive_on_cpus, route_in_kernel};

use super::Place;
use crate::function::FunctionKind;
use crate::function::l3::Prefix;
use crate::traffic::Family;

/// Name of the bridge in a namespace that has nothing else of that kind.
const BRIDGE: &str = "nwbr0";

/// Has the kernel forward, on the device's CPU.
pub(super) fn start(function: FunctionKind, place: Place) -> Result<(), LabError> {
    let [first, second] = place.ports;
    match function {
        FunctionKind::L3 => route_in_kernel(&first.namespace)?,
        FunctionKind::Io | FunctionKind::MacSwap | FunctionKind::L2 => {
            join_by_bridge(&first.namespace, BRIDGE, &[&first.interface, &second.interface], first.mtu_bytes)?;
        }
    }
    place.ports.into_iter().try_for_each(|port| receive_on_cpus(port, &[place.cpu]))
}

/// Gives the kernel of the device's namespace the routes of test traffic.
pub(super) fn add_test_routes(place: Place) -> Result<(), LabError> {
    let routes: Vec<KernelRoute> = test_routes(place).into_iter().map(|(_, route)| route).collect();
    add_routes(&place.ports[0].namespace, &routes)
}

/// Routes to the senders of test traffic by the first port, to the receivers by the second, each with the number of its port.
pub(super) fn test_routes(place: Place) -> Vec<(usize, KernelRoute)> {
    let Place { ports, neighbours, .. } = place;
    let route = |family: Family, prefix: IpAddr, at: usize| {
        let gateway = match family {
            Family::V4 => neighbours[at].ipv4.into(),
            Family::V6 => neighbours[at].ipv6.into(),
        };
        let prefix_bits = family.prefix_bits();
        let prefix = Prefix::new(prefix, prefix_bits).map_or(prefix, Prefix::address);
        (at, KernelRoute { prefix, prefix_bits, gateway, ifindex: ports[at].ifindex })
    };
    let families = if ports[0].ipv6_usable { &[Family::V4, Family::V6][..] } else { &[Family::V4] };
    let both = |family: &Family| [route(*family, family.sources(), 0), route(*family, family.destinations(), 1)];
    families.iter().flat_map(both).collect()
}
