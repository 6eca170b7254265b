//! RDMA over Ethernet: what of its traffic is paused, marked and told apart, and whether these fit together.
//!
//! Sources: `drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c` (the first DSCP entry makes the device trust DSCP, the last one
//! that is deleted makes it trust the VLAN tag), `drivers/infiniband/core/cma_configfs.c` (`default_roce_tos`),
//! `ecn/roce_np` and `ecn/roce_rp` of the vendor's driver.

use std::collections::BTreeSet;

use nearwire_sys::dcb::Dcb;

use super::Nic;
use super::chain::WHOLE;
use crate::read::rdma::{DEVICES, gid_types_of};
use crate::setting::RoceFact;
use crate::{CpuSet, Reading};

/// The two ends of marking: who tells the sender of a mark, who sends more slowly.
const MARKING_ENDS: [&str; 2] = ["roce_np", "roce_rp"];
const PRIORITIES: u32 = 8;
/// Of the eight bits of traffic class the upper six are the DSCP.
const DSCP_SHIFT: u16 = 2;
const UNSEEN_MARKING: &str = "the kernel's own driver does not show it; see mlxconfig -d PCI-ADDRESS query ROCE_CC_PRIO_MASK_P1 \
                              for ConnectX, which marks on every priority unless told otherwise";

impl Nic<'_> {
    pub(super) fn roce(&self, fact: RoceFact) -> Reading {
        let device = match self.roce_device() {
            Ok(device) => device,
            Err(reading) => return reading,
        };
        match fact {
            RoceFact::FlowControl => self.ask(&self.answers.dcb, |dcb| Reading::Value(in_words(&paused(dcb)))),
            RoceFact::Trust => self.ask(&self.answers.dcb, |dcb| Reading::value(trust(dcb))),
            RoceFact::CongestionControl => match self.marked_priorities() {
                Ok(marked) => Reading::switch(!marked.is_empty()),
                Err(reading) => reading,
            },
            RoceFact::Chain => self.ask(&self.answers.dcb, |dcb| self.roce_chain(&device, dcb)),
        }
    }

    /// The RDMA device of this interface's function, if its port is Ethernet.
    fn roce_device(&self) -> Result<String, Reading> {
        let devices = self.root.list(&format!("{}/device/infiniband", self.directory()?));
        // A copy that chose among files has no word of RDMA where the host has none.
        let device = devices?.into_iter().next().ok_or(Reading::Unsupported)?;
        match self.root.read(&format!("{DEVICES}/{device}/ports/{}/link_layer", self.roce_port())) {
            Ok(layer) if layer == "Ethernet" => Ok(device),
            Ok(_) => Err(Reading::Unsupported),
            Err(reading) => Err(reading),
        }
    }

    /// Ports of RDMA devices are counted from 1, those of a function from 0.
    fn roce_port(&self) -> u32 {
        self.file("dev_port").as_value().and_then(|port| port.parse::<u32>().ok()).unwrap_or(0).saturating_add(1)
    }

    /// The priorities on which both ends of marking are switched on.
    fn marked_priorities(&self) -> Result<CpuSet, Reading> {
        let directory = format!("{}/ecn", self.directory()?);
        self.root.list(&directory).map_err(|lack| match lack {
            Reading::Unsupported => Reading::unknown(UNSEEN_MARKING),
            lack => lack,
        })?;
        let is_on = |priority: u32, end| match self.root.read(&format!("{directory}/{end}/enable/{priority}")) {
            Ok(text) => Ok(text == "1"),
            Err(reading) => Err(reading),
        };
        let mut marked = Vec::new();
        for priority in 0..PRIORITIES {
            if is_on(priority, MARKING_ENDS[0])? && is_on(priority, MARKING_ENDS[1])? {
                marked.push(priority);
            }
        }
        Ok(marked.into_iter().collect())
    }

    /// The DSCP that connections are given unless they choose one, by either of two drivers' files.
    fn roce_dscp(&self, device: &str) -> Option<u16> {
        let port = self.roce_port();
        let by_configfs = self.root.read(&format!("/sys/kernel/config/rdma_cm/{device}/ports/{port}/default_roce_tos"));
        let by_device = || self.root.read(&format!("{DEVICES}/{device}/tc/{port}/traffic_class"));
        let text = by_configfs.or_else(|_| by_device()).ok()?;
        let number = text.lines().next()?.rsplit('=').next()?.trim();
        number.parse::<u16>().ok().map(|class| class >> DSCP_SHIFT)
    }

    /// Whether an address of the port is of version 2, as far as addresses are known.
    fn has_version_2(&self, device: &str) -> Option<bool> {
        let kinds = gid_types_of(self.root, &format!("{DEVICES}/{device}/ports/{}", self.roce_port())).ok()?;
        (!kinds.is_empty()).then(|| kinds.iter().any(|kind| kind.contains("v2")))
    }

    /// Whether connections get addresses of version 1 unless they choose, though the port has better ones: the kernel's own
    /// choice is version 2 (`drivers/infiniband/core/cma_configfs.c`).
    fn prefers_version_1(&self, device: &str) -> bool {
        let file = format!("/sys/kernel/config/rdma_cm/{device}/ports/{}/default_roce_mode", self.roce_port());
        self.root.read(&file).is_ok_and(|mode| mode.contains("v1"))
    }

    /// `whole`, or how trust, pauses and marks do not fit each other.
    fn roce_chain(&self, device: &str, dcb: &Dcb) -> Reading {
        let paused = paused(dcb);
        let mut faults = Vec::new();
        if self.has_version_2(device) == Some(false) {
            faults.push("no address is of RoCE version 2, and only its frames have a DSCP and marks".to_owned());
        } else if self.prefers_version_1(device) {
            faults.push(
                "connections get addresses of RoCE version 1 (default_roce_mode), whose frames have no DSCP".to_owned(),
            );
        }
        if paused.is_empty() {
            if self.ask(&self.answers.pause, |pause| Reading::switch(pause.rx && pause.tx)).as_value() != Some("on") {
                faults.push("no priority is paused and pause frames are off, so a full buffer loses frames".to_owned());
            }
        } else {
            faults.extend(unreached(dcb, &paused, self.roce_dscp(device)));
            if self.ask(&self.answers.pause, |pause| Reading::switch(pause.rx || pause.tx)).as_value() == Some("on") {
                faults.push(format!("pause frames for the whole port are on beside those for priority {paused}"));
            }
            if let Ok(marked) = self.marked_priorities()
                && let unmarked = paused.iter().filter(|priority| !marked.contains(*priority)).collect::<CpuSet>()
                && !unmarked.is_empty()
            {
                faults.push(format!(
                    "priority {unmarked} is paused and not marked (ECN), so a congested path is only paused"
                ));
            }
        }
        Reading::Value(if faults.is_empty() { WHOLE.to_owned() } else { faults.join("; ") })
    }
}

fn paused(dcb: &Dcb) -> CpuSet {
    let bits = dcb.paused_priorities.unwrap_or(0);
    (0..PRIORITIES).filter(|priority| bits >> priority & 1 == 1).collect()
}

fn in_words(priorities: &CpuSet) -> String {
    if priorities.is_empty() { "none".to_owned() } else { priorities.to_string() }
}

fn trust(dcb: &Dcb) -> &'static str {
    if dcb.dscp_priorities.is_empty() { "pcp" } else { "dscp" }
}

/// Why frames of RDMA do not get into a paused priority, by the DSCP that they are given if that is known.
fn unreached(dcb: &Dcb, paused: &CpuSet, dscp: Option<u16>) -> Option<String> {
    if dcb.dscp_priorities.is_empty() {
        let reached = paused.contains(0);
        return (!reached).then(|| {
            format!(
                "priority {paused} is paused, and frames without a VLAN tag are of priority 0, as the tag is trusted"
            )
        });
    }
    let priority_of =
        |dscp: u16| dcb.dscp_priorities.iter().find(|(of, _)| *of == dscp).map_or(0, |(_, priority)| *priority);
    match dscp {
        Some(dscp) => {
            let priority = priority_of(dscp);
            (!paused.contains(priority.into())).then(|| {
                format!("DSCP {dscp}, which RDMA is given, is of priority {priority}, and priority {paused} is paused")
            })
        }
        None => {
            let reached: BTreeSet<u8> = dcb.dscp_priorities.iter().map(|(_, priority)| *priority).collect();
            (!reached.iter().any(|priority| paused.contains((*priority).into())))
                .then(|| format!("priority {paused} is paused, and no DSCP leads to it"))
        }
    }
}
