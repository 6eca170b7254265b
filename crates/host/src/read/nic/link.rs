//! The kernel's description of a link, by one rtnetlink question (`RTM_GETLINK`).

use std::io;

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkInfo, LinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use serde::{Deserialize, Serialize};

use super::Nic;
use crate::Reading;
use crate::setting::LinkFact;

/// What tells interfaces apart. The address is not given out.
pub(super) struct Identity {
    pub index: u32,
    pub address: String,
}

/// What else is kept of the description.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct LinkFacts {
    #[serde(rename = "mtu")]
    mtu_bytes: Option<u32>,
    tx_queue_length: Option<u32>,
    rx_queues: Option<u32>,
    tx_queues: Option<u32>,
    qdisc: Option<String>,
    kind: Option<String>,
}

impl LinkFacts {
    /// Their name in a recording.
    pub(super) const KEY: &'static str = "link";
}

/// Asks about the interface of this name in the calling thread's network namespace.
pub(super) fn ask(name: &str) -> Result<(Identity, LinkFacts), Reading> {
    let failed = |error: io::Error| Reading::unknown(format!("rtnetlink: link {name}: {error}"));
    let answer = exchange(name).map_err(failed)?;
    let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
        .map_err(|error| Reading::unknown(format!("rtnetlink: link {name}: {error}")))?;
    match message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(from_message(link)),
        NetlinkPayload::Error(error) => Err(failed(error.to_io())),
        _ => Err(Reading::unknown(format!("rtnetlink: link {name}: odd answer"))),
    }
}

fn from_message(message: LinkMessage) -> (Identity, LinkFacts) {
    let mut identity = Identity { index: message.header.index, address: String::new() };
    let mut link = LinkFacts::default();
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::Address(bytes) => {
                let pairs: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                identity.address = pairs.join(":");
            }
            LinkAttribute::Mtu(bytes) => link.mtu_bytes = Some(bytes),
            LinkAttribute::TxQueueLen(frames) => link.tx_queue_length = Some(frames),
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
    (identity, link)
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
    /// From rtnetlink; in a copy of a host from its recording or the files that have the same.
    pub(super) fn link_fact(&self, fact: LinkFact) -> Reading {
        let (found, may_be_in_sysfs) = match &self.link {
            Ok(link) => (link.get(fact), !self.root.is_whole()),
            Err(reading) => (reading.clone(), !self.root.is_live()),
        };
        match (&found, fact) {
            _ if !may_be_in_sysfs => found,
            (Reading::Value(_) | Reading::NeedsRoot, _) | (_, LinkFact::Qdisc | LinkFact::Kind) => found,
            (_, LinkFact::Mtu) => self.file("mtu"),
            (_, LinkFact::TxQueueLength) => self.file("tx_queue_len"),
            (_, LinkFact::RxQueues) => self.count_queues("rx-"),
            (_, LinkFact::TxQueues) => self.count_queues("tx-"),
        }
    }
}

impl LinkFacts {
    fn get(&self, fact: LinkFact) -> Reading {
        let number = |number: Option<u32>| number.map_or(Reading::Unsupported, Reading::value);
        let text = |text: &Option<String>| text.as_ref().map_or(Reading::Unsupported, Reading::value);
        match fact {
            LinkFact::Mtu => number(self.mtu_bytes),
            LinkFact::TxQueueLength => number(self.tx_queue_length),
            LinkFact::RxQueues => number(self.rx_queues),
            LinkFact::TxQueues => number(self.tx_queues),
            LinkFact::Qdisc => text(&self.qdisc),
            LinkFact::Kind => text(&self.kind),
        }
    }
}
