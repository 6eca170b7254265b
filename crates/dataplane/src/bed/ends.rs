//! The two ends of a bed: ports, or programs on hosts.

use std::net::{SocketAddr, UdpSocket};

use nearwire_frames::ports::xdp::Side;
use nearwire_lab::{CableEnd, CablePair};
use nearwire_sys::ethtool::Interface;
use nearwire_sys::tsc::Clock;
use nearwire_wire::MacAddress;

use super::{BedError, BedPlan};
use crate::device::DeviceId;
use crate::ports::{Taken, open_packet, open_xdp};
use crate::tester::{AnyTester, HostSocket, Receives, Sends, Tester, TesterError};
use crate::topology::End;
use crate::traffic::{DESTINATION_PORT, FrameMaker, Hops, SOURCE_PORT, Traffic};

/// What is known of both ends.
struct Ends<'a> {
    plan: &'a BedPlan,
    traffic: &'a Traffic,
    clock: Clock,
    generator: &'a CableEnd,
    sink: &'a CableEnd,
    hops: Hops,
    /// Link address that the sink's host sends to.
    back: [u8; 6],
}

/// Opens them.
pub(super) fn open(
    plan: &BedPlan,
    links: &[CablePair],
    traffic: &Traffic,
    clock: Clock,
) -> Result<Box<dyn AnyTester>, BedError> {
    let (first, last) = match links {
        [only] => (only, only),
        [first, .., last] => (first, last),
        [] => unreachable!("a chain has at least one link"),
    };
    let (generator, sink) = (&first.near, &last.far);
    let to_router = plan.device.is_some_and(DeviceId::is_router);
    let destination = if to_router { first.far.mac } else { sink.mac };
    let back = if to_router { last.near.mac } else { generator.mac };
    let hops = Hops { source: MacAddress(generator.mac), destination: MacAddress(destination) };
    let ends = Ends { plan, traffic, clock, generator, sink, hops, back };
    match (plan.topology.ends()[0], plan.tester_is_xdp) {
        (End::Host, _) => ends.with_sending(ends.sending_host()?),
        (End::Port, true) => {
            let open = || open_xdp(&generator.interface, Side::Near, Taken::None);
            ends.with_sending(generator.namespace.enter(open)??)
        }
        (End::Port, false) => {
            let open = || open_packet(&generator.interface, Taken::None);
            ends.with_sending(generator.namespace.enter(open)??)
        }
    }
}

impl Ends<'_> {
    fn with_sending<S: Sends + std::fmt::Debug + 'static>(&self, sending: S) -> Result<Box<dyn AnyTester>, BedError> {
        let sink = self.sink;
        match (self.plan.topology.ends()[1], self.plan.tester_is_xdp) {
            (End::Host, _) => self.tester(sending, self.receiving_host()?),
            (End::Port, true) => {
                let open = || open_xdp(&sink.interface, Side::Far, Taken::TestTraffic);
                self.tester(sending, sink.namespace.enter(open)??)
            }
            (End::Port, false) => {
                let open = || open_packet(&sink.interface, Taken::TestTraffic);
                self.tester(sending, sink.namespace.enter(open)??)
            }
        }
    }

    fn tester<S, R>(&self, sending: S, receiving: R) -> Result<Box<dyn AnyTester>, BedError>
    where
        S: Sends + std::fmt::Debug + 'static,
        R: Receives + Send + std::fmt::Debug + 'static,
    {
        let sink = MacAddress(self.sink.mac);
        let tester = Tester::new(sending, receiving, self.traffic, self.hops, sink, self.clock)?;
        Ok(Box::new(tester.with_sink_on(self.plan.cpus.sink)))
    }

    fn sending_host(&self) -> Result<HostSocket, BedError> {
        let (own, other) = (self.source(), self.destination());
        self.host(self.generator, own, other, self.hops.destination.0)
    }

    fn receiving_host(&self) -> Result<HostSocket, BedError> {
        self.host(self.sink, self.destination(), self.source(), self.back)
    }

    fn source(&self) -> SocketAddr {
        SocketAddr::new(self.traffic.family.sources(), SOURCE_PORT)
    }

    fn destination(&self) -> SocketAddr {
        SocketAddr::new(self.traffic.family.destinations(), DESTINATION_PORT)
    }

    /// Gives the end the address of test traffic, and opens a socket there.
    fn host(
        &self,
        end: &CableEnd,
        own: SocketAddr,
        other: SocketAddr,
        other_mac: [u8; 6],
    ) -> Result<HostSocket, BedError> {
        end.add_address(own.ip(), self.traffic.family.common_prefix_bits())?;
        end.add_neighbour(other.ip(), other_mac)?;
        let failed = |source| BedError::HostSocket { address: own, source };
        let headers_bytes = FrameMaker::new(self.traffic, self.hops).map_err(TesterError::from)?.headers_bytes();
        let connected = || {
            compute_checksums(&end.interface);
            let socket = UdpSocket::bind(own)?;
            socket.connect(other)?;
            HostSocket::new(socket, headers_bytes)
        };
        end.namespace.enter(connected)?.map_err(failed)
    }
}

/// Has the kernel compute the checksums of what it sends. A virtual cable leaves that to a device which there is not: frames then have none,
/// and what a port of frames hands on to another kernel is dropped there.
fn compute_checksums(interface: &str) {
    // Devices without the feature compute, or have hardware that does.
    let _ = Interface::open(interface).and_then(|device| device.set_feature("tx-checksum-ip-generic", false));
}
