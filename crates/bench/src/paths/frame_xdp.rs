//! `frame/xdp`: AF_XDP, past the kernel's stack.

use std::fmt;

use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::{Candidate, Side, Steer, XdpMode, XdpPort, candidates};
use nearwire_wire::ethernet::EtherType;
use serde::{Deserialize, Serialize};

use super::frame::{OpenPort, receive_and_send_interfaces};
use super::{LocalEnd, PathError, Role, Setup, What};

/// Which of the ways a port can be made is used, by its label; the same at both ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpChoice {
    /// As in `generic, separate TX socket`.
    pub label: String,
}

/// A mode that was asked for, instead of the one that turns out the fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AskedMode {
    /// The NIC reads and writes packet memory.
    ZeroCopy,
    /// The program runs in the driver, frames are copied.
    Native,
    /// The program runs on socket buffers.
    Generic,
}

impl AskedMode {
    fn is(self, mode: XdpMode) -> bool {
        let asked = match self {
            AskedMode::ZeroCopy => XdpMode::ZeroCopy,
            AskedMode::Native => XdpMode::NativeCopy,
            AskedMode::Generic => XdpMode::Generic,
        };
        asked == mode
    }
}

impl fmt::Display for AskedMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AskedMode::ZeroCopy => "zero-copy",
            AskedMode::Native => "native",
            AskedMode::Generic => "generic",
        })
    }
}

/// The ways a port can be made on an interface of this end, in the mode asked for.
///
/// # Errors
/// There is no such interface, or its driver does not have the mode.
pub(crate) fn ways(
    interface: &str,
    role: Role,
    steer: Steer,
    mode: Option<AskedMode>,
) -> Result<Vec<Candidate>, PathError> {
    let side = if role == Role::Initiator { Side::Near } else { Side::Far };
    let facts = InterfaceFacts::read(interface)?;
    let mut found = candidates(&facts, side, steer);
    found.retain(|way| mode.is_none_or(|mode| mode.is(way.config.mode)));
    match mode {
        Some(mode) if found.is_empty() => {
            Err(PathError::NoSuchMode { mode, interface: interface.to_owned(), driver: facts.driver })
        }
        _ => Ok(found),
    }
}

/// Opens a port in the way that was chosen, or in the first that works, the likely fastest before the others.
pub(super) fn open_chosen(setup: &Setup, local: &LocalEnd, steer: Steer) -> Result<XdpPort, PathError> {
    let (receive, send) = receive_and_send_interfaces(setup, local)?;
    let mut found = ways(&receive.name, local.role, steer, setup.xdp_mode)?;
    if let Some(choice) = &setup.xdp {
        let known = found.iter().map(|way| way.label).collect::<Vec<_>>().join("; ");
        found.retain(|way| way.label == choice.label);
        if found.is_empty() {
            let (label, interface) = (choice.label.clone(), receive.name.clone());
            return Err(PathError::UnknownWay { label, interface, known });
        }
    }
    let mut refused = None;
    for Candidate { mut config, .. } in found {
        config.tx_interface = send.map(|interface| interface.name.clone());
        // What the far end's kernel sends, once it has its connection back, is joined on a virtual cable.
        config.joined_segments = setup.path.what == What::Tcp;
        match XdpPort::open(&config) {
            Ok(port) => return Ok(port),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.map_or(PathError::NoInterface, PathError::Port))
}

impl OpenPort for XdpPort {
    fn open_port(setup: &Setup, local: &LocalEnd) -> Result<XdpPort, PathError> {
        open_chosen(setup, local, Steer::EtherType(EtherType::MEASURING.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn way_of_a_mode_that_the_driver_lacks_is_refused_with_the_driver() {
        let error = ways("lo", Role::Initiator, Steer::All, Some(AskedMode::ZeroCopy)).unwrap_err().to_string();
        assert!(error.contains("lo") && error.contains("zero-copy") && error.contains("--xdp"), "{error}");
    }

    #[test]
    fn label_unknown_here_is_an_error_and_no_other_way() {
        let interface = super::super::EndInterface {
            name: "lo".to_owned(),
            mac: nearwire_wire::MacAddress([0; 6]),
            mtu_bytes: 1500,
            queues: 1,
            driver: String::new(),
        };
        let local = LocalEnd {
            role: Role::Responder,
            addresses: Vec::new(),
            peer_addresses: Vec::new(),
            interface: Some(interface),
            second_interface: None,
        };
        let setup = Setup { xdp: Some(XdpChoice { label: "by pigeon".to_owned() }), ..super::super::tests::setup() };
        let error = open_chosen(&setup, &local, Steer::All).unwrap_err().to_string();
        assert!(error.contains("by pigeon") && error.contains("generic, one socket a queue"), "{error}");
    }
}
