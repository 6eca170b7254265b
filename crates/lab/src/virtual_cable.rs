//! The virtual cable: veth between two anonymous namespaces.

use std::time::Duration;

use crate::cable::{self, EndAddresses};
use crate::links::VethEnd;
use crate::netlink::Netlink;
use crate::{Cable, CableEnd, CablePair, LabError, Namespace};

/// Smallest MTU that IPv6 works with (RFC 8200 section 5), in bytes.
const MTU_BYTES_MIN: u32 = 1280;
/// `ETH_MAX_MTU` less what veth adds, in bytes: what the kernel accepts for veth.
const MTU_BYTES_MAX: u32 = 65_535;
/// More queues than this are of no use on one cable and cost memory.
const QUEUES_MAX: u32 = 64;
/// A veth pair is ready as soon as both ends are up; this is for a stalled machine.
const READY_TIMEOUT: Duration = Duration::from_secs(5);
/// Index of the first interface. Each end gets a number of its own across both namespaces: the
/// kernel takes a veth whose peer has the same number for a plain device and reports carrier
/// changes on it up to a second late (`linkwatch_urgent_event`).
const FIRST_IFINDEX: u32 = 10;

/// How a virtual cable is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtualCableOptions {
    /// Largest payload of a frame, in bytes: 1280 to 65535.
    pub mtu_bytes: u32,
    /// Queues of each end in each direction, 1 to 64. Two let a program send and receive on
    /// different queues, which is faster.
    pub queues: u32,
    /// Pairs of ends: 1, or 2 for the forward workload.
    pub pairs: u32,
}

impl Default for VirtualCableOptions {
    fn default() -> Self {
        Self { mtu_bytes: 1500, queues: 2, pairs: 1 }
    }
}

impl VirtualCableOptions {
    pub(crate) fn check(self) -> Result<(), LabError> {
        let checks = [
            ("mtu_bytes", self.mtu_bytes, MTU_BYTES_MIN..=MTU_BYTES_MAX, "1280 to 65535"),
            ("queues", self.queues, 1..=QUEUES_MAX, "1 to 64"),
            ("pairs", self.pairs, 1..=2, "1 or 2"),
        ];
        for (option, value, range, allowed) in checks {
            if !range.contains(&value) {
                return Err(LabError::Option { option, value, allowed });
            }
        }
        Ok(())
    }
}

/// One or two veth pairs between two anonymous namespaces, with addresses and neighbours, ready to
/// carry traffic. The near ends are `nw0` and `nw2`, the far ends `nw1` and `nw3`.
///
/// Gone when dropped, and when the process ends in whatever way.
#[derive(Debug)]
pub struct VirtualCable {
    first: CablePair,
    second: Option<CablePair>,
    warnings: Vec<String>,
}

impl VirtualCable {
    /// Lays the cable. Takes milliseconds.
    ///
    /// # Errors
    ///
    /// [`LabError::Option`]; [`LabError::CreateNamespace`] without privilege;
    /// [`LabError::Refused`] where the kernel has no veth.
    pub fn lay(options: VirtualCableOptions) -> Result<Self, LabError> {
        options.check()?;
        let mut near = Side::make()?;
        let mut far = Side::make()?;
        let first = lay_pair(&mut near, &mut far, options, 0)?;
        let second = (options.pairs == 2).then(|| lay_pair(&mut near, &mut far, options, 1)).transpose()?;
        let mut warnings: Vec<String> = near.warning.into_iter().collect();
        warnings.extend(cable::ipv6_warning(&first));
        Ok(Self { first, second, warnings })
    }
}

impl Cable for VirtualCable {
    fn pair(&self) -> &CablePair {
        &self.first
    }

    fn second_pair(&self) -> Option<&CablePair> {
        self.second.as_ref()
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn kind(&self) -> &'static str {
        "virtual"
    }

    fn take_up(self: Box<Self>) -> Result<(), LabError> {
        // The kernel removes the namespaces with everything inside once nothing holds them.
        Ok(())
    }
}

/// A namespace under construction.
pub(crate) struct Side {
    namespace: Namespace,
    netlink: Netlink,
    pub(crate) warning: Option<String>,
}

impl Side {
    pub(crate) fn make() -> Result<Self, LabError> {
        let namespace = Namespace::new()?;
        let warning = cable::quieten(&namespace)?;
        let mut netlink = Netlink::open_in(&namespace)?;
        cable::raise_loopback(&mut netlink)?;
        Ok(Self { namespace, netlink, warning })
    }

    /// Addresses the interface and brings it up.
    fn dress(&mut self, veth: &VethEnd<'_>, addresses: EndAddresses) -> Result<CableEnd, LabError> {
        let ipv6_usable = cable::give_addresses(&mut self.netlink, veth.ifindex, addresses)?;
        self.netlink.set_up(veth.ifindex, true)?;
        Ok(CableEnd {
            namespace: self.namespace.clone(),
            interface: veth.interface.to_owned(),
            ifindex: veth.ifindex,
            mac: veth.mac,
            ipv4: addresses.ipv4,
            ipv6: addresses.ipv6,
            ipv6_usable,
            mtu_bytes: veth.mtu_bytes,
            driver: "veth".to_owned(),
            queues: veth.queues,
        })
    }

    /// Waits until this side's end can send and receive, and tells it of the other.
    fn finish(&mut self, end: &CableEnd, other: &CableEnd) -> Result<(), LabError> {
        cable::await_carrier(&mut self.netlink, end.ifindex, &end.interface, READY_TIMEOUT)?;
        cable::await_delivery(&mut self.netlink, end, READY_TIMEOUT)?;
        cable::introduce(&mut self.netlink, end, other)
    }
}

/// Joins two namespaces by a veth pair with addresses and neighbours.
pub(crate) fn lay_pair(
    near: &mut Side,
    far: &mut Side,
    options: VirtualCableOptions,
    pair: u8,
) -> Result<CablePair, LabError> {
    let names = [format!("nw{}", 2 * pair), format!("nw{}", 2 * pair + 1)];
    let near_veth = veth_end(&names[0], options, 2 * pair);
    let far_veth = veth_end(&names[1], options, 2 * pair + 1);
    near.netlink.create_veth(&near_veth, &far_veth, far.namespace.fd())?;
    let ends = CablePair {
        near: near.dress(&near_veth, EndAddresses::new(pair, 1))?,
        far: far.dress(&far_veth, EndAddresses::new(pair, 2))?,
    };
    near.finish(&ends.near, &ends.far)?;
    far.finish(&ends.far, &ends.near)?;
    Ok(ends)
}

/// End number `number` of the cable. Its link address is locally administered and says "NW".
fn veth_end(interface: &str, options: VirtualCableOptions, number: u8) -> VethEnd<'_> {
    VethEnd {
        interface,
        ifindex: FIRST_IFINDEX + u32::from(number),
        mac: [0x02, b'N', b'W', 0, 0, number],
        mtu_bytes: options.mtu_bytes,
        queues: options.queues,
    }
}
