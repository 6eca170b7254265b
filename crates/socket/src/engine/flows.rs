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
