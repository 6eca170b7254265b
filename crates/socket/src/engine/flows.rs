//! Which packets the ports take: the flows of all endpoints, each counted, the same on every port.

use std::collections::HashMap;

use nearwire_frames::PortError;
use nearwire_frames::ports::xdp::XdpPort;
use nearwire_frames::raw::RawPort;
use nearwire_frames::steering::{Filter, FlowFilter};

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

    pub(super) fn add_all_to(&self, port: &mut XdpPort) -> Result<(), PortError> {
        self.wanted.keys().try_for_each(|flow| port.add_filter(Filter::Flow(*flow)))
    }

    pub(super) fn add(&mut self, flows: &[FlowFilter], ports: &mut [Attached]) -> Result<(), Reason> {
        for (at, flow) in flows.iter().enumerate() {
            let users = self.wanted.entry(*flow).or_default();
            *users += 1;
            if *users > 1 {
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
    /// the kernel would get a packet.
    pub(super) fn hand_to(
        &mut self,
        other: &mut Flows,
        flows: &[FlowFilter],
        ports: &mut [Attached],
        others: &mut [Attached],
    ) -> Result<(), Reason> {
        for flow in flows {
            let Some(users) = self.wanted.get_mut(flow) else { continue };
            *users -= 1;
            let is_last = *users == 0;
            if is_last {
                self.wanted.remove(flow);
            }
            let users = other.wanted.entry(*flow).or_default();
            *users += 1;
            let is_first = *users == 1;
            hand_filter(Filter::Flow(*flow), (ports, is_last), (others, is_first))
                .map_err(|_| Reason::TooManySockets)?;
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, flows: &[FlowFilter], ports: &mut [Attached]) {
        for flow in flows {
            let Some(users) = self.wanted.get_mut(flow) else { continue };
            *users -= 1;
            if *users == 0 {
                self.wanted.remove(flow);
                for attached in ports.iter_mut() {
                    // Missing where adding it failed half way.
                    let _ = attached.port.remove_filter(Filter::Flow(*flow));
                }
            }
        }
    }
}

/// `is_last`: nobody wants it of the ports any more; `is_first`: nobody wanted it of the others.
fn hand_filter(
    filter: Filter,
    (ports, is_last): (&mut [Attached], bool),
    (others, is_first): (&mut [Attached], bool),
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

fn move_filter(attached: &mut Attached, filter: Filter, share: u32) -> Result<(), PortError> {
    attached.port.steering_table().map_or(Ok(()), |table| table.move_to(filter, share))
}
