//! The loopback cable: two interfaces of this host, each moved into a namespace of its own, so
//! that traffic between them cannot take the short cut through the kernel and must cross the wire.
//!
//! ```text
//! checks.rs    what forbids it (nothing has been changed so far)
//! kept.rs      what an interface has, read before it leaves and put back after
//! borrowed.rs  an interface that is away; dropping it brings it home
//! ```
//!
//! # Kill and crash
//!
//! When the process ends without dropping the cable (`kill -9`), the kernel sends hardware
//! interfaces to the *initial* namespace by itself, with their names and settings of the hardware,
//! but down and without addresses and routes; whatever manages the network of the host, or
//! `ip addr` by hand, has to set those again. Virtual interfaces (veth, macvlan ...) vanish with
//! their namespace.

mod borrowed;
mod checks;
mod kept;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use borrowed::BorrowedInterface;
use kept::KeptInterface;

use crate::cable::{self, EndAddresses};
use crate::interface::InterfaceFacts;
use crate::netlink::Netlink;
use crate::{Cable, CableEnd, CablePair, LabError, Namespace};

/// How long a probe datagram is waited for before the next is sent.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// How patiently a loopback cable is laid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopbackCableOptions {
    /// How long each interface may take to find its link partner after it was brought up. Copper
    /// at 10 Gb/s and above takes several seconds.
    pub carrier_timeout: Duration,
    /// How long the first frame may take from one end to the other. A switch in between may hold
    /// a port back for half a minute (spanning tree).
    pub connect_timeout: Duration,
}

impl Default for LoopbackCableOptions {
    fn default() -> Self {
        Self { carrier_timeout: Duration::from_secs(10), connect_timeout: Duration::from_secs(3) }
    }
}

/// Two interfaces of this host, lent to a measurement. Dropping it, or better
/// [`put_back`](Self::put_back), brings them home with what they had.
#[derive(Debug)]
pub struct LoopbackCable {
    pair: CablePair,
    warnings: Vec<String>,
    lent: Lent,
}

impl LoopbackCable {
    /// Lays a cable between the interfaces `near` and `far` of the caller's namespace, which must
    /// be connected to each other outside.
    ///
    /// # Errors
    ///
    /// Before anything is changed: [`LabError::MissingInterface`], [`LabError::SameInterface`],
    /// [`LabError::LoopbackInterface`], [`LabError::Enslaved`], [`LabError::XdpAttached`],
    /// [`LabError::PinnedToNamespace`], [`LabError::DefaultRoute`], [`LabError::NotRevertible`].
    /// Later, with everything moved back: [`LabError::NoCarrier`], [`LabError::NotConnected`].
    pub fn lay(near: &str, far: &str) -> Result<Self, LabError> {
        Self::lay_with(near, far, LoopbackCableOptions::default())
    }

    /// [`lay`](Self::lay) with other timeouts.
    ///
    /// # Errors
    ///
    /// Those of [`lay`](Self::lay).
    pub fn lay_with(near: &str, far: &str, options: LoopbackCableOptions) -> Result<Self, LabError> {
        let home = Namespace::current()?;
        let mut netlink = Netlink::open()?;
        let found = checks::usable_pair(&mut netlink, near, far)?;
        let kept = [
            KeptInterface::read(&mut netlink, &home, &found[0])?,
            KeptInterface::read(&mut netlink, &home, &found[1])?,
        ];
        for interface in &kept {
            checks::refuse_source_of_default_route(interface)?;
        }
        let mut warnings: Vec<String> = kept.iter().filter_map(KeptInterface::warning).collect();
        let sides = [Side::make()?, Side::make()?];
        warnings.extend(sides[0].warning.clone());

        let [kept_near, kept_far] = kept;
        let mut lent = Lent { near: BorrowedInterface::take(kept_near, &home, &sides[0].namespace)?, far: None };
        let outcome = BorrowedInterface::take(kept_far, &home, &sides[1].namespace)
            .map(|far| lent.far = Some(far))
            .and_then(|()| connect(sides, &found, options));
        match outcome {
            Ok(pair) => {
                warnings.extend(cable::ipv6_warning(&pair));
                Ok(Self { pair, warnings, lent })
            }
            Err(first) => Err(match lent.settle() {
                Ok(()) => first,
                Err(then) => LabError::Twice { first: Box::new(first), then: Box::new(then) },
            }),
        }
    }

    /// Brings both interfaces home and gives them back what they had: name, addresses, routes,
    /// permanent neighbours, per-interface sysctls, and whether they were up. What it could not
    /// restore it names.
    ///
    /// # Errors
    ///
    /// [`LabError::PutBack`], after everything has been tried.
    pub fn put_back(mut self) -> Result<(), LabError> {
        self.lent.settle()
    }
}

/// The two interfaces that are away. Dropping it settles them.
#[derive(Debug)]
struct Lent {
    near: BorrowedInterface,
    far: Option<BorrowedInterface>,
}

impl Lent {
    /// Brings both home, then gives both what they had.
    fn settle(&mut self) -> Result<(), LabError> {
        self.near.bring_home();
        if let Some(far) = &mut self.far {
            far.bring_home();
        }
        let near = self.near.settle();
        let far = self.far.as_mut().map_or(Ok(()), BorrowedInterface::settle);
        match (near, far) {
            (Err(first), Err(then)) => Err(LabError::Twice { first: Box::new(first), then: Box::new(then) }),
            (near, far) => near.and(far),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Nobody is left to tell; whoever wants to know calls put_back.
        self.settle().ok();
    }
}

impl Cable for LoopbackCable {
    fn pair(&self) -> &CablePair {
        &self.pair
    }

    fn second_pair(&self) -> Option<&CablePair> {
        None
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn kind(&self) -> &'static str {
        "loopback"
    }

    fn take_up(self: Box<Self>) -> Result<(), LabError> {
        self.put_back()
    }
}

/// A namespace that one interface goes to.
struct Side {
    namespace: Namespace,
    netlink: Netlink,
    warning: Option<String>,
}

impl Side {
    fn make() -> Result<Self, LabError> {
        let namespace = Namespace::new()?;
        let warning = cable::quieten(&namespace)?;
        let mut netlink = Netlink::open_in(&namespace)?;
        cable::raise_loopback(&mut netlink)?;
        Ok(Self { namespace, netlink, warning })
    }

    /// Addresses the interface that has just arrived and brings it up.
    fn dress(&mut self, known: &InterfaceFacts, host: u8) -> Result<CableEnd, LabError> {
        let here = crate::interface::facts_named(&mut self.netlink, &known.name)?;
        let addresses = EndAddresses::new(0, host);
        let ipv6_usable = cable::give_addresses(&mut self.netlink, here.ifindex, addresses)?;
        self.netlink.set_up(here.ifindex, true)?;
        Ok(CableEnd {
            namespace: self.namespace.clone(),
            interface: here.name,
            ifindex: here.ifindex,
            mac: here.mac,
            ipv4: addresses.ipv4,
            ipv6: addresses.ipv6,
            ipv6_usable,
            mtu_bytes: here.mtu_bytes,
            driver: known.driver_or_kind().to_owned(),
            queues: here.tx_queues.min(here.rx_queues),
        })
    }

    fn finish(&mut self, end: &CableEnd, other: &CableEnd, timeout: Duration) -> Result<(), LabError> {
        cable::await_carrier(&mut self.netlink, end.ifindex, &end.interface, timeout)?;
        cable::await_delivery(&mut self.netlink, end, timeout)?;
        cable::introduce(&mut self.netlink, end, other)
    }
}

/// Makes both ends ready and proves that frames pass between them, both ways.
fn connect(
    sides: [Side; 2],
    found: &[InterfaceFacts; 2],
    options: LoopbackCableOptions,
) -> Result<CablePair, LabError> {
    let [mut near, mut far] = sides;
    let pair = CablePair { near: near.dress(&found[0], 1)?, far: far.dress(&found[1], 2)? };
    near.finish(&pair.near, &pair.far, options.carrier_timeout)?;
    far.finish(&pair.far, &pair.near, options.carrier_timeout)?;
    prove(&pair.near, &pair.far, options.connect_timeout)?;
    prove(&pair.far, &pair.near, options.connect_timeout)?;
    Ok(pair)
}

/// Sends datagrams from one end until one arrives at the other.
fn prove(from: &CableEnd, to: &CableEnd, timeout: Duration) -> Result<(), LabError> {
    let failed = |source| LabError::Probe { near: from.interface.clone(), far: to.interface.clone(), source };
    let receiver = bind_at(to)?.map_err(failed)?;
    let sender = bind_at(from)?.map_err(failed)?;
    receiver.set_read_timeout(Some(PROBE_INTERVAL)).map_err(failed)?;
    let target: SocketAddr = receiver.local_addr().map_err(failed)?;
    let started = Instant::now();
    while started.elapsed() < timeout {
        sender.send_to(b"nearwire", target).map_err(failed)?;
        match receiver.recv_from(&mut [0; 16]) {
            Ok((_, source)) if source.ip() == IpAddr::V4(from.ipv4) => return Ok(()),
            Ok(_) => {}
            // A timeout, or a signal that the caller deals with in its own time.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(LabError::NotConnected {
        near: from.interface.clone(),
        far: to.interface.clone(),
        waited_ms: cable::millis(timeout),
    })
}

fn bind_at(end: &CableEnd) -> Result<io::Result<UdpSocket>, LabError> {
    end.namespace.enter(|| UdpSocket::bind((end.ipv4, 0)))
}
