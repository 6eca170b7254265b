//! Attributes of a link, by rtnetlink in the calling thread's network namespace (`RTM_SETLINK`);
//! of a tree of files, by the files that have the same.

use std::io;

use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute as Attribute, LinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use serde::{Deserialize, Serialize};

use crate::setting::LinkFact;

/// An attribute that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkAttribute {
    /// Largest payload of a frame, bytes.
    Mtu,
    /// Length of the queue of the root qdisc, frames.
    TxQueueLength,
}

impl LinkAttribute {
    pub(super) const fn fact(self) -> LinkFact {
        match self {
            Self::Mtu => LinkFact::Mtu,
            Self::TxQueueLength => LinkFact::TxQueueLength,
        }
    }

    /// The word of ip-link(8).
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Mtu => "mtu",
            Self::TxQueueLength => "txqueuelen",
        }
    }

    /// The file of `/sys/class/net/IF/`.
    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::Mtu => "mtu",
            Self::TxQueueLength => "tx_queue_len",
        }
    }
}

/// Writes an attribute and waits for the kernel's answer.
pub(super) fn set(interface: &str, attribute: LinkAttribute, value: u32) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.attributes.push(Attribute::IfName(interface.to_owned()));
    link.attributes.push(match attribute {
        LinkAttribute::Mtu => Attribute::Mtu(value),
        LinkAttribute::TxQueueLength => Attribute::TxQueueLen(value),
    });
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(RouteNetlinkMessage::SetLink(link)));
    message.finalize();
    let mut request = vec![0; message.buffer_len()];
    message.serialize(&mut request);

    let socket = Socket::new(NETLINK_ROUTE)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&request, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(io::Error::other)?;
    match answer.payload {
        NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
        NetlinkPayload::Error(_) => Ok(()),
        _ => Err(io::Error::other("odd answer of rtnetlink")),
    }
}
