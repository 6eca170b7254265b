//! What an interface has in its namespace, read before it leaves and put back after.
//!
//! The device itself keeps its link address, MTU, queue length and what ethtool sets. Leaving a
//! namespace costs it its addresses, routes, neighbours, sysctls and its up state.

mod sysctls;
mod tables;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::neighbour::NeighbourMessage;
use netlink_packet_route::route::{RouteAttribute, RouteFlags, RouteMessage};

use sysctls::Sysctls;
use tables::{
    address_text, flags_of, has_gateway, is_link_local, is_lost_with, local_address, preferred_source, route_text,
};

use crate::interface::{self, InterfaceFacts};
use crate::netlink::Netlink;
use crate::{LabError, Namespace};

/// A lifetime without end (`INFINITY_LIFE_TIME`).
const FOREVER_S: u32 = u32::MAX;
/// Ticks a second of times in netlink (`USER_HZ`).
const USER_HZ: u32 = 100;
/// A route that names a source address is refused until that address has passed duplicate address
/// detection, which starts with the carrier and takes a second.
const ROUTE_PATIENCE: Duration = Duration::from_secs(8);
/// How often such a route is tried.
const ROUTE_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// An interface and all that moving it takes from it.
#[derive(Debug, Clone)]
pub(super) struct KeptInterface {
    pub(super) facts: InterfaceFacts,
    addresses: Vec<AddressMessage>,
    routes: Vec<RouteMessage>,
    neighbours: Vec<NeighbourMessage>,
    sysctls: Sysctls,
    read_at: Instant,
}

impl KeptInterface {
    /// Reads everything in `home`, the namespace of `netlink`.
    pub(super) fn read(netlink: &mut Netlink, home: &Namespace, facts: &InterfaceFacts) -> Result<Self, LabError> {
        let addresses = netlink.addresses_of(facts.ifindex)?;
        let own: Vec<IpAddr> = addresses.iter().filter_map(local_address).collect();
        let mut routes = netlink.routes()?;
        routes.retain(|route| is_lost_with(route, facts.ifindex, &own));
        // A route through a router needs the route to the router.
        routes.sort_by_key(has_gateway);
        Ok(Self {
            facts: facts.clone(),
            addresses,
            routes,
            neighbours: netlink.permanent_neighbours_of(facts.ifindex)?,
            sysctls: home.enter(|| Sysctls::read(&facts.name))?,
            read_at: Instant::now(),
        })
    }

    /// What to warn of before this interface is taken away.
    pub(super) fn warning(&self) -> Option<String> {
        let addresses: Vec<String> = self
            .addresses
            .iter()
            .filter_map(local_address)
            .filter(|address| !is_link_local(*address))
            .map(|address| address.to_string())
            .collect();
        (self.facts.up && !addresses.is_empty()).then(|| {
            format!(
                "{} was up with {}: connections through it stall until the cable is taken up",
                self.facts.name,
                addresses.join(", ")
            )
        })
    }

    /// A default route that would go with this interface, though it leads through another one: it
    /// sends from one of the addresses here.
    pub(super) fn default_route(&self) -> Option<&RouteMessage> {
        self.routes.iter().find(|route| route.header.destination_prefix_length == 0)
    }

    /// Gives the interface, which is back in `home`, what it had. Tries everything and returns
    /// what failed, in words.
    pub(super) fn restore(&self, netlink: &mut Netlink, home: &Namespace) -> Vec<String> {
        let mut failures = Vec::new();
        let ifindex = match interface::facts_named(netlink, &self.facts.name) {
            Ok(facts) => facts.ifindex,
            Err(error) => return vec![error.to_string()],
        };
        match home.enter(|| self.sysctls.restore()) {
            Ok(refused) => failures.extend(refused),
            Err(error) => failures.push(error.to_string()),
        }
        let mut attempt = |outcome: Result<(), LabError>| {
            failures.extend(outcome.err().map(|error| error.to_string()));
        };
        if self.facts.up {
            attempt(netlink.set_up(ifindex, true));
        }
        for address in &self.addresses {
            attempt(self.restore_address(netlink, ifindex, address));
        }
        if self.facts.up {
            for route in &self.routes {
                attempt(self.restore_route(netlink, ifindex, route));
            }
            for neighbour in &self.neighbours {
                attempt(netlink.restore_neighbour(ifindex, neighbour));
            }
        }
        failures.extend(self.differences(netlink, home));
        failures
    }

    fn elapsed_s(&self) -> u32 {
        u32::try_from(self.read_at.elapsed().as_secs()).unwrap_or(u32::MAX)
    }

    fn restore_address(&self, netlink: &mut Netlink, ifindex: u32, kept: &AddressMessage) -> Result<(), LabError> {
        /// Flags that a user sets; the others are states.
        const SETTABLE: AddressFlags = AddressFlags::Nodad
            .union(AddressFlags::Homeaddress)
            .union(AddressFlags::Managetempaddr)
            .union(AddressFlags::Noprefixroute)
            .union(AddressFlags::Mcautojoin);
        let mut message = kept.clone();
        message.header.index = ifindex;
        let flags = flags_of(kept) & SETTABLE;
        // The header has room for the lower eight only; the attribute has all.
        message.header.flags = AddressHeaderFlags::from_bits_retain(flags.bits().to_le_bytes()[0]);
        let elapsed_s = self.elapsed_s();
        for attribute in &mut message.attributes {
            match attribute {
                AddressAttribute::Flags(found) => *found = flags,
                AddressAttribute::CacheInfo(lifetimes) => {
                    lifetimes.ifa_preferred = shorten(lifetimes.ifa_preferred, elapsed_s);
                    lifetimes.ifa_valid = shorten(lifetimes.ifa_valid, elapsed_s);
                    if lifetimes.ifa_valid == 0 {
                        return Ok(()); // it would have expired meanwhile
                    }
                }
                _ => {}
            }
        }
        let text = address_text(kept);
        netlink.request(
            &|| format!("restore address {text}"),
            RouteNetlinkMessage::NewAddress(message),
            NLM_F_CREATE | NLM_F_REPLACE,
        )
    }

    fn restore_route(&self, netlink: &mut Netlink, ifindex: u32, kept: &RouteMessage) -> Result<(), LabError> {
        let Some(message) = self.route_to_restore(ifindex, kept) else {
            return Ok(());
        };
        let started = Instant::now();
        loop {
            let outcome = netlink.request(
                &|| format!("restore route {}", route_text(kept)),
                RouteNetlinkMessage::NewRoute(message.clone()),
                NLM_F_CREATE | NLM_F_APPEND,
            );
            match outcome {
                Ok(()) => return Ok(()),
                Err(error) => match error.refused_errno() {
                    // The kernel made it again with the address.
                    Some(libc::EEXIST) => return Ok(()),
                    Some(libc::EINVAL) if preferred_source(kept).is_some() && started.elapsed() < ROUTE_PATIENCE => {
                        std::thread::sleep(ROUTE_RETRY_INTERVAL);
                    }
                    _ => return Err(error),
                },
            }
        }
    }

    /// The route as it is to be asked for: without states, with the interface's present index.
    /// `None` when it has expired meanwhile.
    fn route_to_restore(&self, ifindex: u32, kept: &RouteMessage) -> Option<RouteMessage> {
        let elapsed_s = self.elapsed_s();
        let mut message = kept.clone();
        message.header.flags &= RouteFlags::Onlink | RouteFlags::Pervasive;
        let mut expires = None;
        message.attributes.retain_mut(|attribute| match attribute {
            RouteAttribute::Oif(oif) => {
                if *oif == self.facts.ifindex {
                    *oif = ifindex;
                }
                true
            }
            RouteAttribute::CacheInfo(times) => {
                if times.expires != 0 {
                    expires = Some((times.expires / USER_HZ).saturating_sub(elapsed_s));
                }
                false
            }
            _ => true,
        });
        if let Some(left_s) = expires {
            if left_s == 0 {
                return None;
            }
            message.attributes.push(RouteAttribute::Expires(left_s));
        }
        Some(message)
    }

    /// What is still not as it was, in words.
    fn differences(&self, netlink: &mut Netlink, home: &Namespace) -> Vec<String> {
        let now = interface::facts_named(netlink, &self.facts.name).and_then(|facts| Self::read(netlink, home, &facts));
        let now = match now {
            Ok(now) => now,
            Err(error) => return vec![error.to_string()],
        };
        let mut differences = Vec::new();
        if now.facts.up != self.facts.up {
            let state = |up| if up { "up" } else { "down" };
            differences.push(format!("it is {} and was {}", state(now.facts.up), state(self.facts.up)));
        }
        if now.facts.mtu_bytes != self.facts.mtu_bytes {
            differences.push(format!("its MTU is {} bytes and was {}", now.facts.mtu_bytes, self.facts.mtu_bytes));
        }
        let texts = |kept: &Self| -> Vec<String> {
            let addresses = kept.addresses.iter().map(address_text);
            let routes = kept.routes.iter().map(route_text);
            addresses.map(|text| format!("address {text}")).chain(routes.map(|text| format!("route {text}"))).collect()
        };
        let present = texts(&now);
        let missing = texts(self).into_iter().filter(|text| !present.contains(text));
        differences.extend(missing.map(|text| format!("{text} is missing")));
        differences
    }
}

/// What is left of a lifetime, in seconds.
fn shorten(lifetime_s: u32, elapsed_s: u32) -> u32 {
    if lifetime_s == FOREVER_S { FOREVER_S } else { lifetime_s.saturating_sub(elapsed_s) }
}
