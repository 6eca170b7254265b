//! A namespace whose kernel forwards by its routes, and on which CPUs. As a bridge: [`join_by_bridge`](crate::join_by_bridge).

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::addresses::family;
use crate::netlink::Netlink;
use crate::{CableEnd, LabError, Namespace};

/// Where packets for a prefix go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelRoute {
    /// First address of the prefix.
    pub prefix: IpAddr,
    /// Bits that count.
    pub prefix_bits: u8,
    /// The next hop, of the same family.
    pub gateway: IpAddr,
    /// Index of the interface that it is behind.
    pub ifindex: u32,
}

/// Has the kernel of a namespace forward packets of both families, by the routes that it has.
///
/// # Errors
///
/// [`LabError::Write`] where `/proc/sys` cannot be written.
pub fn route_in_kernel(namespace: &Namespace) -> Result<(), LabError> {
    const FORWARDING: [&str; 2] = ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"];
    namespace.enter(|| {
        for path in FORWARDING {
            match std::fs::write(path, "1") {
                // Without IPv6 there is nothing to switch on.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                outcome => outcome.map_err(|source| LabError::Write { path: path.to_owned(), source })?,
            }
        }
        Ok(())
    })?
}

/// Gives the kernel of a namespace these routes.
///
/// # Errors
///
/// [`LabError::Refused`], as where a next hop is on no link.
pub fn add_routes(namespace: &Namespace, routes: &[KernelRoute]) -> Result<(), LabError> {
    let mut netlink = Netlink::open_in(namespace)?;
    routes.iter().try_for_each(|route| netlink.add_route(route))
}

/// Has the kernel handle what an interface receives on these CPUs (RPS), whatever CPU it was sent by. On veth the sender's CPU does all that
/// the receiving kernel has to do otherwise.
///
/// # Errors
///
/// [`LabError::Write`], also where the kernel was built without RPS.
pub fn receive_on_cpus(end: &CableEnd, cpus: &[u32]) -> Result<(), LabError> {
    end.namespace.enter(|| {
        for queue in 0..end.queues {
            let path = format!("class/net/{}/queues/rx-{queue}/rps_cpus", end.interface);
            let failed = |source| LabError::Write { path: format!("/sys/{path}"), source };
            write_in_own_sysfs(&path, &mask_of(cpus)).map_err(failed)?;
        }
        Ok(())
    })?
}

/// Writes a file of the sysfs that shows the calling thread's network namespace; `/sys` shows that of whoever mounted it.
fn write_in_own_sysfs(path: &str, value: &str) -> io::Result<()> {
    let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let sysfs = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    let file = openat(&sysfs, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, value.as_bytes())?;
    Ok(())
}

/// As the kernel reads masks: words of 32 bits in hexadecimal, the highest first.
fn mask_of(cpus: &[u32]) -> String {
    let words = cpus.iter().max().map_or(1, |highest| highest / 32 + 1);
    let word = |word: u32| cpus.iter().filter(|cpu| *cpu / 32 == word).fold(0_u32, |mask, cpu| mask | 1 << (cpu % 32));
    (0..words).rev().map(|at| format!("{:08x}", word(at))).collect::<Vec<_>>().join(",")
}

impl Netlink {
    fn add_route(&mut self, route: &KernelRoute) -> Result<(), LabError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(route.prefix);
        message.header.destination_prefix_length = route.prefix_bits;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![
            RouteAttribute::Destination(RouteAddress::from(route.prefix)),
            RouteAttribute::Gateway(RouteAddress::from(route.gateway)),
            RouteAttribute::Oif(route.ifindex),
        ];
        let KernelRoute { prefix, prefix_bits, gateway, .. } = route;
        self.request(
            &|| format!("add a route to {prefix}/{prefix_bits} by {gateway}"),
            RouteNetlinkMessage::NewRoute(message),
            NLM_F_CREATE | NLM_F_REPLACE,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_has_words_of_32_cpus_highest_first() {
        assert_eq!(mask_of(&[1]), "00000002");
        assert_eq!(mask_of(&[0, 31]), "80000001");
        assert_eq!(mask_of(&[33]), "00000002,00000000");
        assert_eq!(mask_of(&[]), "00000000");
    }
}
