//! What the kernel does with the packets of a connection beside TCP, and the connection to be carried past it.
//!
//! Connection tracking (netfilter) follows the sequence numbers of each connection, and calls packets invalid that are not within the windows it
//! has seen; firewalls drop those. It does not see what is carried, so when the kernel has the connection again, also only to end it, all
//! its packets would be invalid. So it is told to be liberal with the connection, as the kernel does with those whose packets its own flow tables pass on
//! (`nf_flow_table_core.c`), and not to forget it. Where it translates addresses (NAT), packets on the wire are not those of the socket; where there are policies of
//! IPsec, they may be encrypted: such connections are the kernel's. So are those that the kernel does not know by the addresses of their socket
//! ([`addresses`]).
//!
//! Source: `include/uapi/linux/netfilter/nfnetlink_conntrack.h`, `nf_conntrack_tcp.h`, `nf_conntrack_common.h`, `include/uapi/linux/xfrm.h`.

mod addresses;
mod policy;

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nearwire_frames::steering::ExactFlow;
use nearwire_sys::netlink::message::{Attributes, attribute, nest};
use nearwire_sys::netlink::{self, Answers, is_module_absent};
use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SOCK_DIAG, XFRM};
use rustix::net::{AddressFamily, Protocol};

use crate::message::{Cause, Text};
use crate::shadow::ConnectedShadow;

/// There while the kernel can track connections, in each network namespace.
const TRACKING: &str = "/proc/sys/net/netfilter/nf_conntrack_count";

const CTNETLINK_NEW: u16 = 1 << 8;
const CTNETLINK_GET: u16 = 1 << 8 | 1;
/// `struct nfgenmsg`.
const NETFILTER_HEADER_BYTES: usize = 4;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_STATUS: u16 = 3;
const CTA_PROTOINFO: u16 = 4;
const CTA_TIMEOUT: u16 = 7;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
/// Of IPv4; those of IPv6 are two more.
const CTA_IP_SRC: u16 = 1;
const CTA_IP_DST: u16 = 2;
const CTA_PROTO_NUM: u16 = 1;
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;
const CTA_PROTOINFO_TCP: u16 = 1;
const CTA_PROTOINFO_TCP_FLAGS_ORIGINAL: u16 = 4;
const CTA_PROTOINFO_TCP_FLAGS_REPLY: u16 = 5;
/// `IP_CT_TCP_FLAG_BE_LIBERAL`, as a `struct nf_ct_tcp_flags`: what is set, and what is touched.
const LIBERAL: [u8; 2] = [8, 8];
/// `IPS_SRC_NAT`, `IPS_DST_NAT` and `IPS_SEQ_ADJUST`: packets are changed.
const CHANGED: u32 = 1 << 4 | 1 << 5 | 1 << 6;
/// The first packet of the kernel's sets it to what is usual again. The kernel's own for an established connection is 5 days.
const REMEMBERED_SECONDS: u32 = 30 * 24 * 3600;

const XFRM_MSG_GETPOLICY: u16 = 0x15;
/// `struct xfrm_userpolicy_id`, which asks for all.
const POLICY_ID_BYTES: usize = 64;
/// So often is looked for a part of the kernel that may be loaded later.
const LOOKED_FOR_EVERY: Duration = Duration::from_secs(1);

/// Of the network namespace of the thread that uses it.
#[derive(Debug, Default)]
pub struct PacketPath {
    diag: Option<OwnedFd>,
    tracking: Option<OwnedFd>,
    policies: Option<OwnedFd>,
    policies_looked_for: Option<Instant>,
}

impl PacketPath {
    /// A connection's packets are to pass by: what can be told of it is told.
    ///
    /// # Errors
    /// The kernel changes its packets, or cannot be told.
    pub fn leave(&mut self, shadow: &ConnectedShadow) -> Result<(), Cause> {
        let flow = &shadow.flow;
        let refused = |words: String| Cause::PacketsChanged { words: Text::cut(&words) };
        match self.has_its_addresses(shadow) {
            Ok(true) => {}
            Ok(false) => {
                let why = "the kernel does not know it by its addresses, which a BPF program may change, or does not tell (tcp_diag)";
                return Err(refused(why.to_owned()));
            }
            Err(error) => return Err(refused(format!("the kernel does not tell of TCP sockets: {error}"))),
        }
        match self.has_policy(flow) {
            Ok(false) => {}
            Ok(true) => return Err(refused("a policy of IPsec is for its addresses".to_owned())),
            Err(error) => return Err(refused(format!("the kernel does not tell of policies of IPsec: {error}"))),
        }
        match self.leave_tracking(flow) {
            Ok(true) => Ok(()),
            Ok(false) => Err(refused("its addresses are translated by the host (NAT)".to_owned())),
            Err(error) => Err(refused(format!("the host's connection tracking cannot be told of it: {error}"))),
        }
    }

    fn has_its_addresses(&mut self, shadow: &ConnectedShadow) -> io::Result<bool> {
        addresses::are_on_the_wire(opened(&mut self.diag, SOCK_DIAG)?, shadow)
    }

    /// Whether a policy of IPsec does something with what comes or is sent.
    fn has_policy(&mut self, flow: &ExactFlow) -> io::Result<bool> {
        if self.policies.is_none() {
            if self.policies_looked_for.is_some_and(|at| at.elapsed() < LOOKED_FOR_EVERY) {
                return Ok(false);
            }
            self.policies_looked_for = Some(Instant::now());
            if is_module_absent("xfrm_user") {
                return Ok(false);
            }
        }
        let socket = match opened(&mut self.policies, XFRM) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::PROTONOSUPPORT) => return Ok(false),
            opened => opened?,
        };
        let policies = netlink::ask(socket, XFRM_MSG_GETPOLICY, Answers::Many, &[0; POLICY_ID_BYTES], 0)?;
        Ok(policies.iter().any(|policy| policy::is_for(policy, flow)))
    }

    /// `false`: its packets are changed.
    fn leave_tracking(&mut self, flow: &ExactFlow) -> io::Result<bool> {
        if self.tracking.is_none() && !Path::new(TRACKING).exists() {
            return Ok(true);
        }
        let socket = opened(&mut self.tracking, NETFILTER)?;
        let ask = |kind, attributes: &[u8]| {
            let family = if flow.local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let payload = [&[family.as_raw() as u8, 0, 0, 0], attributes].concat();
            netlink::ask(socket, kind, Answers::One, &payload, NETFILTER_HEADER_BYTES)
        };
        let tuple = tuple(flow);
        let found = match ask(CTNETLINK_GET, &tuple) {
            // It is not tracked.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => return Ok(true),
            found => found?,
        };
        let status = found.first().and_then(|found| Attributes(found).value(CTA_STATUS)?.first_chunk());
        let status = u32::from_be_bytes(*status.ok_or(io::ErrorKind::InvalidData)?);
        if status & CHANGED != 0 {
            return Ok(false);
        }
        let flags =
            [CTA_PROTOINFO_TCP_FLAGS_ORIGINAL, CTA_PROTOINFO_TCP_FLAGS_REPLY].map(|kind| attribute(kind, &LIBERAL));
        let liberal = nest(CTA_PROTOINFO, &nest(CTA_PROTOINFO_TCP, &flags.concat()));
        let remembered = attribute(CTA_TIMEOUT, &REMEMBERED_SECONDS.to_be_bytes());
        match ask(CTNETLINK_NEW, &[tuple, liberal, remembered].concat()) {
            // It has gone since.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => Ok(true),
            done => done.map(|_| true),
        }
    }
}

/// A netlink socket of a protocol, which stays open.
fn opened(socket: &mut Option<OwnedFd>, protocol: Protocol) -> io::Result<&OwnedFd> {
    match socket {
        Some(socket) => Ok(socket),
        none => Ok(none.insert(netlink::open(Some(protocol))?)),
    }
}

/// A connection as its socket sees it: the kernel finds it by either direction.
fn tuple(flow: &ExactFlow) -> Vec<u8> {
    let address = |kind: u16, address: IpAddr| match address {
        IpAddr::V4(address) => attribute(kind, &address.octets()),
        IpAddr::V6(address) => attribute(kind + 2, &address.octets()),
    };
    let addresses = [address(CTA_IP_SRC, flow.local), address(CTA_IP_DST, flow.remote)].concat();
    let protocol = [
        attribute(CTA_PROTO_NUM, &[TCP]),
        attribute(CTA_PROTO_SRC_PORT, &flow.local_port.to_be_bytes()),
        attribute(CTA_PROTO_DST_PORT, &flow.remote_port.to_be_bytes()),
    ]
    .concat();
    nest(CTA_TUPLE_ORIG, &[nest(CTA_TUPLE_IP, &addresses), nest(CTA_TUPLE_PROTO, &protocol)].concat())
}
