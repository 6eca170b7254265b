//! `frame/xdp`: AF_XDP, past the kernel's stack.

use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::{Candidate, Side, Steer, XdpPort, candidates};
use nearwire_wire::ethernet::EtherType;
use serde::{Deserialize, Serialize};

use super::frame::{OpenPort, receive_and_send_interfaces};
use super::{LocalEnd, PathError, Role, Setup};

/// Which of the ways a port can be made is used, by its label; the same at both ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpChoice {
    /// As in `generic, separate TX socket`.
    pub label: String,
}

/// The ways a port can be made on an interface of this end.
pub(crate) fn ways(interface: &str, role: Role, steer: Steer) -> Result<Vec<Candidate>, PathError> {
    let side = if role == Role::Initiator { Side::Near } else { Side::Far };
    let facts = InterfaceFacts::read(interface)?;
    Ok(candidates(&facts, side, steer))
}

/// Opens a port in the way that was chosen, or that is likely the fastest.
pub(super) fn open_chosen(setup: &Setup, local: &LocalEnd, steer: Steer) -> Result<XdpPort, PathError> {
    let (receive, send) = receive_and_send_interfaces(setup, local)?;
    let mut found = ways(&receive.name, local.role, steer)?;
    let chosen = setup.xdp.as_ref().and_then(|choice| found.iter().position(|way| way.label == choice.label));
    if found.is_empty() {
        return Err(PathError::NoInterface);
    }
    let mut config = found.swap_remove(chosen.unwrap_or(0)).config;
    config.tx_interface = send.map(|interface| interface.name.clone());
    Ok(XdpPort::open(&config)?)
}

impl OpenPort for XdpPort {
    fn open_port(setup: &Setup, local: &LocalEnd) -> Result<XdpPort, PathError> {
        open_chosen(setup, local, Steer::EtherType(EtherType::MEASURING.0))
    }
}
