//! The kernel's description of a link, by one rtnetlink question (`RTM_GETLINK`).

use std::io;

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkInfo, LinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use super::Nic;
use crate::Reading;
use crate::setting::LinkFact;

/// What is kept of the description. The address is for telling interfaces apart and is not given
/// out.
pub(super) struct Link {
    pub index: u32,
    pub address: String,
    mtu_bytes: Option<u32>,
    tx_queue_len: Option<u32>,
    rx_queues: Option<u32>,
    tx_queues: Option<u32>,
    qdisc: Option<String>,
    kind: Option<String>,
}

impl Link {
    /// Asks about the interface of this name in the calling thread's network namespace.
    pub(super) fn ask(name: &str) -> Result<Self, Reading> {
        let failed = |error: io::Error| Reading::unknown(format!("rtnetlink: link {name}: {error}"));
        let answer = exchange(name).map_err(failed)?;
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
            .map_err(|error| Reading::unknown(format!("rtnetlink: link {name}: {error}")))?;
        match message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(Self::from_message(link)),
            NetlinkPayload::Error(error) => Err(failed(error.to_io())),
            _ => Err(Reading::unknown(format!("rtnetlink: link {name}: odd answer"))),
        }
    }

    fn from_message(message: LinkMessage) -> Self {
        let mut link = Self {
            index: message.header.index,
            address: String::new(),
            mtu_bytes: None,
            tx_queue_len: None,
            rx_queues: None,
            tx_queues: None,
            qdisc: None,
            kind: None,
        };
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::Address(bytes) => {
                    let pairs: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                    link.address = pairs.join(":");
                }
                LinkAttribute::Mtu(bytes) => link.mtu_bytes = Some(bytes),
                LinkAttribute::TxQueueLen(frames) => link.tx_queue_len = Some(frames),
                LinkAttribute::NumRxQueues(queues) => link.rx_queues = Some(queues),
                LinkAttribute::NumTxQueues(queues) => link.tx_queues = Some(queues),
                LinkAttribute::Qdisc(qdisc) => link.qdisc = Some(qdisc),
                LinkAttribute::LinkInfo(infos) => {
                    link.kind = infos.iter().find_map(|info| match info {
                        LinkInfo::Kind(kind) => Some(kind.to_string()),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        link
    }
}

fn exchange(name: &str) -> io::Result<Vec<u8>> {
    let mut link = LinkMessage::default();
    link.attributes.push(LinkAttribute::IfName(name.to_owned()));
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let payload = NetlinkPayload::from(RouteNetlinkMessage::GetLink(link));
    let mut message = NetlinkMessage::new(header, payload);
    message.finalize();
    let mut question = vec![0; message.buffer_len()];
    message.serialize(&mut question);

    let socket = Socket::new(NETLINK_ROUTE)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&question, 0)?;
    // The kernel has answered before `send` returns.
    socket.set_non_blocking(true)?;
    socket.recv_from_full().map(|(answer, _)| answer)
}

impl Nic<'_> {
    /// From rtnetlink; in a copy of a host from the files that have the same.
    pub(super) fn link_fact(&self, fact: LinkFact) -> Reading {
        let link = match &self.link {
            Ok(link) => link,
            Err(_) if !self.root.is_live() => return self.link_fact_from_sysfs(fact),
            Err(reading) => return reading.clone(),
        };
        let number = |number: Option<u32>| number.map_or(Reading::Unsupported, Reading::value);
        let text = |text: &Option<String>| match text {
            Some(text) => Reading::value(text),
            None => Reading::Unsupported,
        };
        match fact {
            LinkFact::Mtu => number(link.mtu_bytes),
            LinkFact::TxQueueLength => number(link.tx_queue_len),
            LinkFact::RxQueues => number(link.rx_queues),
            LinkFact::TxQueues => number(link.tx_queues),
            LinkFact::Qdisc => text(&link.qdisc),
            LinkFact::Kind => text(&link.kind),
        }
    }

    fn link_fact_from_sysfs(&self, fact: LinkFact) -> Reading {
        match fact {
            LinkFact::Mtu => self.file("mtu"),
            LinkFact::TxQueueLength => self.file("tx_queue_len"),
            LinkFact::RxQueues => self.count_queues("rx-"),
            LinkFact::TxQueues => self.count_queues("tx-"),
            LinkFact::Qdisc | LinkFact::Kind => Reading::unknown("only the live kernel can be asked"),
        }
    }
}
