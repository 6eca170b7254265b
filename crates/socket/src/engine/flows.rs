//! Which packets the ports take: the flows of all endpoints, each counted, the same on every port.

use std::collections::HashMap;

use nearwire_frames::steering::{Filter, FlowFilter};
use nearwire_frames::{EnginePort, PortError, PortFilters};

use super::Attached;
use crate::reason::Reason;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// How many endpoints want each.
    wanted: HashMap<FlowFilter, u32>,
}

impl Flows {
    pub(super) fn len(&self) -> usize {
        self.wanted.len()
    }

    pub(super) fn add_all_to(&self, port: &mut impl EnginePort) -> Result<(), PortError> {
        self.wanted.keys().try_for_each(|flow| port.add_filter(Filter::Flow(*flow)))
    }

    pub(super) fn add(&mut self, flows: &[FlowFilter], ports: &mut [Attached<impl EnginePort>]) -> Result<(), Reason> {
        for (at, flow) in flows.iter().enumerate() {
            if !self.count(*flow) {
                continue;
            }
            if ports.iter_mut().any(|attached| attached.port.add_filter(Filter::Flow(*flow)).is_err()) {
                self.remove(&flows[..=at], ports);
                return Err(Reason::TooManySockets);
            }
        }
        Ok(())
    }

    /// One who wants each of these wants it of the ports of another engine from now on, with no moment in between at which
    /// the kernel would get a packet. Refused, it still wants them here, but some may be the kernel's.
    pub(super) fn hand_to<P: EnginePort>(
        &mut self,
        other: &mut Flows,
        flows: &[FlowFilter],
        ports: &mut [Attached<P>],
        others: &mut [Attached<P>],
    ) -> Result<(), Reason> {
        for (at, flow) in flows.iter().enumerate() {
            let (is_last, is_first) = (self.uncount(*flow), other.count(*flow));
            if hand_filter(Filter::Flow(*flow), (ports, is_last), (others, is_first)).is_err() {
                other.remove(&flows[..=at], others);
                for flow in &flows[..=at] {
                    self.count(*flow);
                }
                return Err(Reason::TooManySockets);
            }
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, flows: &[FlowFilter], ports: &mut [Attached<impl EnginePort>]) {
        for flow in flows {
            if self.uncount(*flow) {
                for attached in ports.iter_mut() {
                    // Missing where adding or handing it over failed half way.
                    let _ = attached.port.remove_filter(Filter::Flow(*flow));
                }
            }
        }
    }

    /// Counts one more who wants it; whether nobody did before.
    fn count(&mut self, flow: FlowFilter) -> bool {
        let users = self.wanted.entry(flow).or_default();
        *users += 1;
        *users == 1
    }

    /// Counts one less; whether nobody wants it any more.
    fn uncount(&mut self, flow: FlowFilter) -> bool {
        let Some(users) = self.wanted.get_mut(&flow) else { return false };
        *users -= 1;
        let is_last = *users == 0;
        if is_last {
            self.wanted.remove(&flow);
        }
        is_last
    }
}

/// `is_last`: nobody wants it of the ports any more; `is_first`: nobody wanted it of the others.
fn hand_filter<P: EnginePort>(
    filter: Filter,
    (ports, is_last): (&mut [Attached<P>], bool),
    (others, is_first): (&mut [Attached<P>], bool),
) -> Result<(), PortError> {
    for attached in ports {
        let other = others.iter_mut().find(|other| other.ifindex == attached.ifindex);
        match (is_last, is_first, other) {
            (true, true, Some(other)) => move_filter(attached, filter, other.port.share_number())?,
            (false, true, Some(other)) => other.port.add_filter(filter)?,
            (true, ..) => attached.port.remove_filter(filter)?,
            (false, ..) => {}
        }
    }
    Ok(())
}

fn move_filter(attached: &mut Attached<impl EnginePort>, filter: Filter, share: u32) -> Result<(), PortError> {
    attached.port.filters().map_or(Ok(()), |filters| filters.move_to(filter, share))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use nearwire_frames::steering::Transport;
    use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions};

    use super::*;
    use crate::config::Config;
    use crate::engine::Engine;
    use crate::host::ThisHost;
    use crate::now::Now;
    use crate::status::Writer;

    fn flow(port: u16) -> FlowFilter {
        FlowFilter { transport: Transport::Udp, address: Ipv4Addr::UNSPECIFIED.into(), port }
    }

    /// The flows that the ports of an engine, and of those that share their queues, take.
    fn taken(engine: &mut Engine) -> Vec<Filter> {
        engine
            .interfaces
            .filters()
            .flat_map(|table| table.filters().unwrap().iter().copied().collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn flows_handed_over_and_refused_half_way_are_wanted_here_and_leave_nothing_there() {
        let cable = match VirtualCable::lay(VirtualCableOptions { queues: 2, ..VirtualCableOptions::default() }) {
            Ok(cable) => cable,
            Err(error) => {
                assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but: {error}");
                return println!("SKIP {error}");
            }
        };
        let config = Config::default();
        let page = Writer::of_self(&config, 1);
        let [shared, handed, lost] = [flow(1000), flow(1001), flow(1002)];
        let refused_half_way = || {
            let mut engine = Engine::open(ThisHost, &config, page.clone()).unwrap();
            engine
                .attach(Now::default(), IpAddr::from(Ipv4Addr::UNSPECIFIED), Some(cable.far().ipv4.into()), None)
                .unwrap();
            let mut other = engine.found(&config, &page).unwrap();
            other.add_flows(&[shared]).unwrap();
            engine.add_flows(&[shared, handed, lost]).unwrap();
            for table in engine.interfaces.filters() {
                table.remove(Filter::Flow(lost)).unwrap();
            }
            engine.hand_flows(&mut other, &[shared, handed, lost]).unwrap_err();

            assert_eq!(other.flows.wanted, HashMap::from([(shared, 1)]), "what it had before");
            assert_eq!(engine.flows.wanted, HashMap::from([(shared, 1), (handed, 1), (lost, 1)]));
            engine.remove_flows(&[shared, handed, lost]);
            assert_eq!(taken(&mut engine), [Filter::Flow(shared)], "of the other engine");
            // They can be wanted anew, by either.
            engine.add_flows(&[handed]).unwrap();
            other.add_flows(&[handed, lost]).unwrap();
            assert_eq!(taken(&mut engine).len(), 3);
            engine.take_back(&mut other);
        };
        cable.near().namespace.enter(refused_half_way).unwrap();
    }
}
