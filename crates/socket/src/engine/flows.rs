//! Which packets the ports take: the flows of all endpoints, each counted, the same on every port.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nearwire_frames::steering::{FlowFilter, Transport};
use nearwire_frames::{EnginePort, FlowSocket, PortError, RevokedFlow};

use super::Attached;
use crate::reason::Reason;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// The sockets that want each; one that follows its addresses may be there twice.
    wanted: BTreeMap<FlowFilter, Vec<FlowSocket>>,
    /// What a port that came back was not given, as other processes have a right to it too.
    refused: Vec<RevokedFlow>,
}

impl Flows {
    pub(super) fn len(&self) -> usize {
        self.wanted.len()
    }

    /// Whether what comes to this address and port is to come here.
    pub(super) fn take(&self, address: IpAddr, port: u16) -> bool {
        self.wanted.contains_key(&FlowFilter { transport: Transport::Udp, address, port })
    }

    #[cfg(test)]
    pub(super) fn of_one(flow: FlowFilter) -> Flows {
        Flows { wanted: BTreeMap::from([(flow, Vec::new())]), refused: Vec::new() }
    }

    /// Has a port take all. What other processes have a right to is kept for [`Flows::take_refused`].
    ///
    /// # Errors
    /// The port cannot be had.
    pub(super) fn add_all_to(&mut self, port: &mut impl EnginePort) -> Result<(), PortError> {
        for (flow, sockets) in &self.wanted {
            for (at, socket) in sockets.iter().enumerate() {
                if sockets[..at].contains(socket) {
                    continue;
                }
                match port.add_flow(*flow, *socket, at == 0) {
                    Ok(()) => {}
                    Err(PortError::FlowShared { is_socket_shared, .. }) => {
                        self.refused.push(RevokedFlow { socket: *socket, is_socket_shared });
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    pub(super) const fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    pub(super) fn take_refused(&mut self) -> Vec<RevokedFlow> {
        std::mem::take(&mut self.refused)
    }

    pub(super) fn add(
        &mut self,
        flows: &[FlowFilter],
        socket: FlowSocket,
        ports: &mut [Attached<impl EnginePort>],
    ) -> Result<(), Reason> {
        for (at, flow) in flows.iter().enumerate() {
            let Count { is_another_socket: true, is_first_or_last } = self.count(*flow, socket) else { continue };
            let refused = ports.iter_mut().find_map(|attached| {
                let error = attached.port.add_flow(*flow, socket, is_first_or_last).err()?;
                Some(attached.refused_flow(&error))
            });
            if let Some(reason) = refused {
                self.remove(&flows[..=at], socket, ports);
                return Err(reason);
            }
        }
        Ok(())
    }

    /// A socket that wants each of these wants it of the ports of another engine from now on, with no moment in between at which
    /// the kernel would get a packet. Refused, it still wants them here, but some may be the kernel's.
    pub(super) fn hand_to<P: EnginePort>(
        &mut self,
        other: &mut Flows,
        (flows, socket): (&[FlowFilter], FlowSocket),
        ports: &mut [Attached<P>],
        others: &mut [Attached<P>],
    ) -> Result<(), Reason> {
        for (at, flow) in flows.iter().enumerate() {
            let (here, there) = (self.uncount(*flow, socket), other.count(*flow, socket));
            let counts = (here.is_first_or_last, there.is_first_or_last);
            if let Err(reason) = hand_flow(*flow, socket, counts, ports, others) {
                other.remove(&flows[..=at], socket, others);
                for flow in &flows[..=at] {
                    self.count(*flow, socket);
                }
                return Err(reason);
            }
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, flows: &[FlowFilter], socket: FlowSocket, ports: &mut [Attached<impl EnginePort>]) {
        for flow in flows {
            let Count { is_another_socket: true, is_first_or_last } = self.uncount(*flow, socket) else { continue };
            for attached in ports.iter_mut() {
                // Missing where adding or handing it over failed half way.
                if let Err(error) = attached.port.remove_flow(*flow, socket, is_first_or_last) {
                    attached.refused_flow(&error);
                }
            }
        }
    }

    /// The program has a socket under another fd.
    pub(super) fn rename(&mut self, socket: FlowSocket) {
        let known = self.wanted.values_mut().flatten().filter(|known| known.inode == socket.inode);
        known.for_each(|known| *known = socket);
    }

    /// Counts one more want of a socket's.
    fn count(&mut self, flow: FlowFilter, socket: FlowSocket) -> Count {
        let sockets = self.wanted.entry(flow).or_default();
        let is_another_socket = !sockets.iter().any(|known| known.inode == socket.inode);
        sockets.push(socket);
        Count { is_another_socket, is_first_or_last: sockets.len() == 1 }
    }

    /// Counts one less.
    fn uncount(&mut self, flow: FlowFilter, socket: FlowSocket) -> Count {
        let Some(sockets) = self.wanted.get_mut(&flow) else { return Count::default() };
        let Some(at) = sockets.iter().position(|known| known.inode == socket.inode) else { return Count::default() };
        sockets.swap_remove(at);
        let is_another_socket = !sockets.iter().any(|known| known.inode == socket.inode);
        let is_first_or_last = sockets.is_empty();
        if is_first_or_last {
            self.wanted.remove(&flow);
        }
        Count { is_another_socket, is_first_or_last }
    }
}

/// What a change of the wants of a flow meant.
#[derive(Debug, Default)]
struct Count {
    /// The socket did not want it before, or does not any more.
    is_another_socket: bool,
    /// Nor did any other.
    is_first_or_last: bool,
}

/// `is_last`: nobody wants it of the ports any more; `is_first`: nobody wanted it of the others.
fn hand_flow<P: EnginePort>(
    flow: FlowFilter,
    socket: FlowSocket,
    (is_last, is_first): (bool, bool),
    ports: &mut [Attached<P>],
    others: &mut [Attached<P>],
) -> Result<(), Reason> {
    for attached in ports {
        let other = others.iter_mut().find(|other| other.ifindex == attached.ifindex);
        let handed = match other {
            Some(other) => attached.port.hand_flow(&mut other.port, flow, socket, (is_last, is_first)),
            None => attached.port.remove_flow(flow, socket, is_last),
        };
        handed.map_err(|error| attached.refused_flow(&error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use nearwire_frames::steering::Filter;
    use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions, made_or_skip};

    use super::*;
    use crate::config::Config;
    use crate::engine::{Engine, Opening};
    use crate::host::ThisHost;
    use crate::now::Now;
    use crate::status::Writer;

    fn flow(port: u16) -> FlowFilter {
        FlowFilter { transport: Transport::Udp, address: Ipv4Addr::UNSPECIFIED.into(), port }
    }

    fn socket() -> FlowSocket {
        FlowSocket { descriptor: nearwire_sys::descriptor::Descriptor::new(0).unwrap(), inode: 1 }
    }

    /// The flows that the ports of an engine, and of those that share their queues, take.
    fn taken(engine: &mut Engine) -> Vec<Filter> {
        engine
            .interfaces
            .attached
            .iter_mut()
            .filter_map(|attached| attached.port.own_table())
            .flat_map(|table| table.filters().unwrap().iter().copied().collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn flows_handed_over_and_refused_half_way_are_wanted_here_and_leave_nothing_there() {
        let options = VirtualCableOptions { queues: 2, ..VirtualCableOptions::default() };
        let Some(cable) = made_or_skip(VirtualCable::lay(options)) else { return };
        let config = Config::default();
        let page = Writer::of_self(&config, 1);
        let [shared, handed, lost] = [flow(1000), flow(1001), flow(1002)];
        let wanted =
            |flows: &[FlowFilter]| flows.iter().map(|flow| (*flow, vec![socket()])).collect::<BTreeMap<_, _>>();
        let refused_half_way = || {
            let mut engine = Engine::open(ThisHost::default(), &config, page.clone()).unwrap();
            engine
                .attach(
                    Now::default(),
                    IpAddr::from(Ipv4Addr::UNSPECIFIED),
                    Some(cable.far().ipv4.into()),
                    None,
                    Opening::Now,
                )
                .unwrap();
            let mut other = engine.open_branch(&config, &page).unwrap();
            other.add_flows(&[shared], socket()).unwrap();
            engine.add_flows(&[shared, handed, lost], socket()).unwrap();
            for table in engine.interfaces.attached.iter_mut().filter_map(|attached| attached.port.own_table()) {
                table.remove(Filter::Flow(lost)).unwrap();
            }
            engine.hand_flows(Now::default(), &mut other, &[shared, handed, lost], socket()).unwrap_err();

            assert_eq!(other.flows.wanted, wanted(&[shared]), "what it had before");
            assert_eq!(engine.flows.wanted, wanted(&[shared, handed, lost]));
            engine.remove_flows(&[shared, handed, lost], socket());
            assert_eq!(taken(&mut engine), [Filter::Flow(shared)], "of the other engine");
            // They can be wanted anew, by either.
            engine.add_flows(&[handed], socket()).unwrap();
            other.add_flows(&[handed, lost], socket()).unwrap();
            assert_eq!(taken(&mut engine).len(), 3);
            engine.take_back(&mut other);
        };
        cable.near().namespace.enter(refused_half_way).unwrap();
    }
}
