//! The kernel as a device: its bridge, or its routing.

use std::net::IpAddr;

use nearwire_lab::{KernelRoute, LabError, add_routes, bridge_in_kernel, receive_on_cpus, route_in_kernel};

use super::Place;
use crate::function::FunctionKind;
use crate::traffic::Family;

/// Has the kernel forward, on the device's CPU.
pub(super) fn start(function: FunctionKind, place: Place) -> Result<(), LabError> {
    match function {
        FunctionKind::L3 => route_in_kernel(&place.ports[0].namespace)?,
        FunctionKind::Io | FunctionKind::MacSwap | FunctionKind::L2 => bridge_in_kernel(&place.ports)?,
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
        (at, KernelRoute { prefix: network(prefix, prefix_bits), prefix_bits, gateway, ifindex: ports[at].ifindex })
    };
    let families = if ports[0].ipv6_usable { &[Family::V4, Family::V6][..] } else { &[Family::V4] };
    let both = |family: &Family| [route(*family, family.sources(), 0), route(*family, family.destinations(), 1)];
    families.iter().flat_map(both).collect()
}

/// The address with the bits behind the prefix cleared.
fn network(address: IpAddr, prefix_bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(u32::from(32 - prefix_bits)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(u32::from(128 - prefix_bits)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}
