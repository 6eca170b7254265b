//! Data Center Bridging of an interface: which priorities are paused one by one, and which frames belong to which priority.
//!
//! Source: `include/uapi/linux/dcbnl.h`, `net/dcb/dcbnl.c` (Linux 6.18).

use std::io;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Deserialize, Serialize};

use crate::netlink;
use crate::netlink::message::{Attributes, DATAGRAM_BYTES_MAX, Messages, Request, u16_of};

const GET: u16 = 78;
/// `struct dcbmsg` with `DCB_CMD_IEEE_GET`.
const HEADER: [u8; 4] = [libc::AF_UNSPEC as u8, 21, 0, 0];
const INTERFACE_NAME: u16 = 1;
const IEEE: u16 = 13;
const IEEE_PFC: u16 = 2;
const IEEE_APPS: u16 = 3;
const IEEE_APP: u16 = 1;
/// Where `pfc_en` is in `struct ieee_pfc`.
const PFC_ENABLED_AT: usize = 1;
/// `IEEE_8021QAZ_APP_SEL_DSCP`.
const DSCP: u8 = 5;

/// What is configured, in the words of IEEE 802.1Qaz.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Dcb {
    /// A bit for each priority that is paused by itself; `None` where the driver has no such pauses.
    pub paused_priorities: Option<u8>,
    /// The priorities of frames by the DSCP of IP: DSCP, priority. Without any the driver goes by the VLAN tag.
    pub dscp_priorities: Vec<(u16, u8)>,
}

/// Asks for the interface of this name in the calling thread's network namespace.
///
/// # Errors
/// `EOPNOTSUPP` where the driver has no such configuration, `ENODEV` where there is no such interface.
pub fn of_interface(name: &str) -> io::Result<Dcb> {
    let socket = netlink::open(None)?;
    let request = Request::new(GET, libc::NLM_F_REQUEST as u16, 0, &HEADER);
    let request = request.attribute(INTERFACE_NAME, format!("{name}\0").as_bytes());
    send(&socket, &request.into_bytes(), SendFlags::empty())?;
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    // The kernel has answered before send(2) returns.
    let (len_bytes, _) = recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
    of_answer(&buffer[..len_bytes])
}

fn of_answer(datagram: &[u8]) -> io::Result<Dcb> {
    let message = Messages::new(datagram).next().ok_or(io::ErrorKind::InvalidData)?;
    if i32::from(message.kind) == libc::NLMSG_ERROR {
        // An acknowledgement is no answer.
        return Err(message.verdict().err().unwrap_or(Errno::PROTO).into());
    }
    let Some(ieee) = message.attributes(HEADER.len()).value(IEEE) else { return Ok(Dcb::default()) };
    let apps = Attributes(Attributes(ieee).value(IEEE_APPS).unwrap_or_default());
    let dscp = |(kind, app): (u16, &[u8])| match app {
        // `struct dcb_app`: selector, priority, protocol.
        [DSCP, priority, protocol @ ..] if kind == IEEE_APP => Some((u16_of(protocol)?, *priority)),
        _ => None,
    };
    Ok(Dcb {
        paused_priorities: Attributes(ieee).value(IEEE_PFC).and_then(|pfc| pfc.get(PFC_ENABLED_AT).copied()),
        dscp_priorities: apps.filter_map(dscp).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::{attribute, nest};

    fn answer(ieee: &[Vec<u8>]) -> Vec<u8> {
        Request::new(GET, 0, 0, &HEADER)
            .attribute(INTERFACE_NAME, b"eth0\0")
            .attribute(IEEE | libc::NLA_F_NESTED as u16, &ieee.concat())
            .into_bytes()
    }

    /// Sizes and numbers printed by a C program with `linux/dcbnl.h`: `struct ieee_pfc` has 136 bytes, `pfc_en` is the second.
    #[test]
    fn answer_of_a_driver_is_the_paused_priorities_and_the_dscp_of_each() {
        let mut pfc = vec![0; 136];
        (pfc[0], pfc[1]) = (8, 1 << 3);
        let app = |selector: u8, priority: u8, protocol: u16| {
            attribute(IEEE_APP, &[&[selector, priority][..], &protocol.to_ne_bytes()].concat())
        };
        // Selector 1 is an EtherType.
        let apps = [app(5, 3, 26), app(1, 3, 0x8915), app(5, 0, 0)].concat();
        let found = of_answer(&answer(&[attribute(1, &[0; 59]), attribute(IEEE_PFC, &pfc), nest(IEEE_APPS, &apps)]));
        assert_eq!(found.unwrap(), Dcb { paused_priorities: Some(8), dscp_priorities: vec![(26, 3), (0, 0)] });
        assert_eq!(of_answer(&answer(&[])).unwrap(), Dcb::default());
    }

    #[test]
    fn loopback_has_no_such_configuration() {
        let error = of_interface("lo").unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::OPNOTSUPP), "{error}");
        assert_eq!(Errno::from_io_error(&of_interface("nw-absent").unwrap_err()), Some(Errno::NODEV));
    }
}
