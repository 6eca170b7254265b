//! What every cable has: two ends, perhaps a second pair of them, and warnings.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use netlink_packet_route::route::RouteType;

use crate::interface::InterfaceFacts;
use crate::netlink::Netlink;
use crate::{LabError, Namespace};

/// Prefix length of the IPv4 addresses on a cable, in bits.
pub(crate) const IPV4_PREFIX_BITS: u8 = 24;
/// Prefix length of the IPv6 addresses on a cable, in bits.
pub(crate) const IPV6_PREFIX_BITS: u8 = 64;
/// How long to wait between two looks at something that the kernel is about to finish.
const LOOK_INTERVAL: Duration = Duration::from_micros(100);
/// The kernel delivers to a new address as soon as a worker of it ran; this is for a stalled machine.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Hardware takes seconds to find its link partner: look less and less often, up to this.
const LOOK_INTERVAL_MAX: Duration = Duration::from_millis(20);

/// One end of a cable: an interface in a namespace, up and with addresses.
#[derive(Debug, Clone)]
pub struct CableEnd {
    /// The namespace that holds the interface and nothing else but `lo` (and a second pair).
    pub namespace: Namespace,
    /// Name of the interface.
    pub interface: String,
    /// Index of the interface within its namespace.
    pub ifindex: u32,
    /// Its link address.
    pub mac: [u8; 6],
    /// Its IPv4 address.
    pub ipv4: Ipv4Addr,
    /// Its IPv6 address; usable if `ipv6_usable`.
    pub ipv6: Ipv6Addr,
    /// Whether the kernel took the IPv6 address. False where IPv6 is switched off at boot.
    pub ipv6_usable: bool,
    /// Largest payload of a frame, in bytes.
    pub mtu_bytes: u32,
    /// Driver of the hardware, or kind of the software interface, as in `veth`.
    pub driver: String,
    /// Queues in each direction: the lesser of transmit and receive queues.
    pub queues: u32,
}

impl CableEnd {
    /// Gives the interface one address more, usable at once.
    ///
    /// # Errors
    ///
    /// [`LabError::Refused`], as where the kernel has no IPv6.
    pub fn add_address(&self, address: IpAddr, prefix_bits: u8) -> Result<(), LabError> {
        let mut netlink = Netlink::open_in(&self.namespace)?;
        netlink.add_address(self.ifindex, address, prefix_bits)?;
        await_local_route(&mut netlink, &self.interface, address, DELIVERY_TIMEOUT)
    }

    /// Tells this end for good at which link address another one is.
    ///
    /// # Errors
    ///
    /// [`LabError::Refused`].
    pub fn add_neighbour(&self, address: IpAddr, mac: [u8; 6]) -> Result<(), LabError> {
        Netlink::open_in(&self.namespace)?.add_neighbour(self.ifindex, address, mac)
    }

    /// Its IPv4 address and, where it is usable, its IPv6 address, each with the bits of its prefix.
    #[must_use]
    pub fn addresses(&self) -> Vec<(IpAddr, u8)> {
        let ipv6 = self.ipv6_usable.then_some((self.ipv6.into(), IPV6_PREFIX_BITS));
        std::iter::once((self.ipv4.into(), IPV4_PREFIX_BITS)).chain(ipv6).collect()
    }
}

/// Two ends that face each other.
#[derive(Debug, Clone)]
pub struct CablePair {
    /// The initiator's end.
    pub near: CableEnd,
    /// The responder's end.
    pub far: CableEnd,
}

/// A laid cable. Dropping it takes it up.
pub trait Cable {
    /// The first pair of ends.
    fn pair(&self) -> &CablePair;

    /// A second pair between the same two namespaces, for the forward workload.
    fn second_pair(&self) -> Option<&CablePair>;

    /// What a reader of the results should know about this cable, a sentence each.
    fn warnings(&self) -> &[String];

    /// `virtual` or `loopback`.
    fn kind(&self) -> &'static str;

    /// Takes the cable up and says what did not work, which dropping cannot.
    ///
    /// # Errors
    ///
    /// [`LabError::PutBack`] when an interface is not quite as it was before.
    fn take_up(self: Box<Self>) -> Result<(), LabError>;

    /// The initiator's end.
    fn near(&self) -> &CableEnd {
        &self.pair().near
    }

    /// The responder's end.
    fn far(&self) -> &CableEnd {
        &self.pair().far
    }
}

/// The addresses of one end. Nothing else lives in its namespace, so nothing can collide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndAddresses {
    pub(crate) ipv4: Ipv4Addr,
    pub(crate) ipv6: Ipv6Addr,
}

impl EndAddresses {
    /// Addresses of end `host` (1 near, 2 far) of pair number `pair`: private ranges
    /// (RFC 1918, RFC 4193).
    pub(crate) fn new(pair: u8, host: u8) -> Self {
        Self {
            ipv4: Ipv4Addr::new(10, 77, pair, host),
            ipv6: Ipv6Addr::new(0xfd77, 0, 0, u16::from(pair), 0, 0, 0, u16::from(host)),
        }
    }
}

/// What to warn of when the kernel took no IPv6 address.
pub(crate) fn ipv6_warning(pair: &CablePair) -> Option<String> {
    let usable = pair.near.ipv6_usable && pair.far.ipv6_usable;
    (!usable).then(|| "IPv6 is switched off in this kernel: the cable carries IPv4 only".to_owned())
}

/// Brings `lo` up, so that both ends can also be reached by their own addresses.
pub(crate) fn raise_loopback(netlink: &mut Netlink) -> Result<(), LabError> {
    /// `LOOPBACK_IFINDEX` of the kernel: every namespace has `lo` as its first interface.
    const LOOPBACK_IFINDEX: u32 = 1;
    netlink.set_up(LOOPBACK_IFINDEX, true)
}

/// Gives an interface its addresses. False when the kernel has no IPv6.
pub(crate) fn give_addresses(netlink: &mut Netlink, ifindex: u32, addresses: EndAddresses) -> Result<bool, LabError> {
    netlink.add_address(ifindex, IpAddr::V4(addresses.ipv4), IPV4_PREFIX_BITS)?;
    match netlink.add_address(ifindex, IpAddr::V6(addresses.ipv6), IPV6_PREFIX_BITS) {
        Ok(()) => Ok(true),
        // EOPNOTSUPP: no IPv6 in the kernel; EACCES: net.ipv6.conf.*.disable_ipv6 could not be
        // cleared because /proc/sys is read-only.
        Err(error) if matches!(error.refused_errno(), Some(libc::EOPNOTSUPP | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Tells the end behind `netlink` where the other end is.
pub(crate) fn introduce(netlink: &mut Netlink, end: &CableEnd, other: &CableEnd) -> Result<(), LabError> {
    netlink.add_neighbour(end.ifindex, IpAddr::V4(other.ipv4), other.mac)?;
    if end.ipv6_usable && other.ipv6_usable {
        netlink.add_neighbour(end.ifindex, IpAddr::V6(other.ipv6), other.mac)?;
    }
    Ok(())
}

/// Waits until an interface has carrier and returns its facts.
pub(crate) fn await_carrier(
    netlink: &mut Netlink,
    ifindex: u32,
    interface: &str,
    timeout: Duration,
) -> Result<InterfaceFacts, LabError> {
    let started = Instant::now();
    let mut interval = LOOK_INTERVAL;
    loop {
        // Since Linux 6.9 this question also makes the kernel act on a carrier change that it has
        // so far only queued, so the first answer is normally the last.
        let link = netlink.link(ifindex)?.ok_or_else(|| LabError::NoCarrier {
            interface: interface.to_owned(),
            waited_ms: millis(started.elapsed()),
        })?;
        let facts = InterfaceFacts::from_link(&link);
        if facts.carrier {
            return Ok(facts);
        }
        if started.elapsed() >= timeout {
            return Err(LabError::NoCarrier { interface: interface.to_owned(), waited_ms: millis(timeout) });
        }
        std::thread::sleep(interval);
        interval = (2 * interval).min(LOOK_INTERVAL_MAX);
    }
}

/// Waits until the kernel receives for an IPv6 address that was just added. Without duplicate
/// address detection the address may be sent from at once, but the route that delivers to it is
/// made by a kernel worker (`addrconf_dad_work`); until then packets to it are dropped.
pub(crate) fn await_delivery(netlink: &mut Netlink, end: &CableEnd, timeout: Duration) -> Result<(), LabError> {
    if !end.ipv6_usable {
        return Ok(());
    }
    await_local_route(netlink, &end.interface, end.ipv6.into(), timeout)
}

fn await_local_route(
    netlink: &mut Netlink,
    interface: &str,
    address: IpAddr,
    timeout: Duration,
) -> Result<(), LabError> {
    let started = Instant::now();
    loop {
        let outcome = netlink.route_towards(address);
        match outcome {
            Ok(route) if route.header.kind == RouteType::Local => return Ok(()),
            Ok(_) | Err(LabError::NoRoute { .. }) if started.elapsed() < timeout => {
                std::thread::sleep(LOOK_INTERVAL);
            }
            Ok(_) => {
                let (interface, waited_ms) = (interface.to_owned(), millis(timeout));
                return Err(LabError::AddressNotReady { interface, address, waited_ms });
            }
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Silences what a namespace would send by itself. Link-local addresses and with them router
/// solicitations are not made, groups are reported once and then not for a day, addresses are not
/// probed. To be called
/// before interfaces arrive: they start from `default`.
///
/// Returns a warning when `/proc/sys` cannot be written; the cable works without.
pub(crate) fn quieten(namespace: &Namespace) -> Result<Option<String>, LabError> {
    /// A day, in milliseconds: longer than any run.
    const NEVER_MS: &str = "86400000";
    /// `IN6_ADDR_GEN_MODE_NONE`: no link-local address is made.
    const NO_LINK_LOCAL: &str = "1";
    /// Version 1 reports a group while it is joined, not by a timer afterwards: whatever is sent
    /// has been sent when the cable is laid.
    const REPORT_AT_ONCE: &str = "1";
    const SETTINGS: [(&str, &str); 7] = [
        ("disable_ipv6", "0"),
        ("addr_gen_mode", NO_LINK_LOCAL),
        ("accept_ra", "0"),
        ("accept_dad", "0"),
        ("force_mld_version", REPORT_AT_ONCE),
        ("mldv1_unsolicited_report_interval", NEVER_MS),
        ("mldv2_unsolicited_report_interval", NEVER_MS),
    ];
    let refused = namespace.enter(|| {
        SETTINGS.iter().find_map(|(name, value)| {
            let path = format!("/proc/sys/net/ipv6/conf/default/{name}");
            let refusal = std::fs::write(&path, value).err();
            // What this kernel does not have needs no silencing.
            let refusal = refusal.filter(|error| error.kind() != io::ErrorKind::NotFound);
            refusal.map(|error| (path, error))
        })
    })?;
    Ok(refused.map(|(path, error)| {
        format!(
            "the kernel's own IPv6 traffic could not be silenced on the cable (write {path}: \
             {error}); a few frames a minute may disturb the measurement"
        )
    }))
}
