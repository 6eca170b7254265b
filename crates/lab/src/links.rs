//! Netlink requests about interfaces: make, find, move, bring up and down.

use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkMessage,
};

use crate::LabError;
use crate::netlink::Netlink;

/// One end of a veth pair to be made.
pub(crate) struct VethEnd<'a> {
    pub(crate) interface: &'a str,
    pub(crate) ifindex: u32,
    pub(crate) mac: [u8; 6],
    pub(crate) mtu_bytes: u32,
    pub(crate) queues: u32,
}

impl VethEnd<'_> {
    fn message(&self) -> LinkMessage {
        let mut message = LinkMessage::default();
        message.header.index = self.ifindex;
        message.attributes = vec![
            LinkAttribute::IfName(self.interface.to_owned()),
            LinkAttribute::Address(self.mac.to_vec()),
            LinkAttribute::Mtu(self.mtu_bytes),
            LinkAttribute::NumTxQueues(self.queues),
            LinkAttribute::NumRxQueues(self.queues),
        ];
        message
    }
}

impl Netlink {
    /// Makes a veth pair: `here` in this socket's namespace, `there` in `other`.
    pub(crate) fn create_veth(
        &mut self,
        here: &VethEnd<'_>,
        there: &VethEnd<'_>,
        other: BorrowedFd<'_>,
    ) -> Result<(), LabError> {
        let mut peer = there.message();
        peer.attributes.push(LinkAttribute::NetNsFd(other.as_raw_fd()));
        let mut message = here.message();
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.request(
            &|| format!("create veth pair {}/{}", here.interface, there.interface),
            RouteNetlinkMessage::NewLink(message),
            NLM_F_CREATE | NLM_F_EXCL,
        )
    }

    /// Brings an interface up or down.
    pub(crate) fn set_up(&mut self, ifindex: u32, up: bool) -> Result<(), LabError> {
        let mut message = LinkMessage::default();
        message.header.index = ifindex;
        message.header.change_mask = LinkFlags::Up;
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        self.request(
            &|| {
                let direction = if up { "up" } else { "down" };
                format!("bring interface {ifindex} {direction}")
            },
            RouteNetlinkMessage::SetLink(message),
            0,
        )
    }

    /// Moves an interface into another namespace. It arrives down and without addresses, with its
    /// name or one that follows `name_pattern`, and with its index where that is free.
    pub(crate) fn move_link(
        &mut self,
        ifindex: u32,
        namespace: BorrowedFd<'_>,
        name_pattern: Option<&str>,
    ) -> Result<(), LabError> {
        let mut message = LinkMessage::default();
        message.header.index = ifindex;
        message.attributes = vec![LinkAttribute::NetNsFd(namespace.as_raw_fd())];
        let name = name_pattern.map(|pattern| LinkAttribute::IfName(pattern.to_owned()));
        message.attributes.extend(name);
        self.request(
            &|| format!("move interface {ifindex} to another network namespace"),
            RouteNetlinkMessage::SetLink(message),
            0,
        )
    }

    /// Describes the interface with this index.
    pub(crate) fn link(&mut self, ifindex: u32) -> Result<Option<LinkMessage>, LabError> {
        let mut message = link_question();
        message.header.index = ifindex;
        self.get_link(&|| format!("describe interface {ifindex}"), message)
    }

    /// Describes the interface of this name. `None` when there is none.
    pub(crate) fn link_named(&mut self, interface: &str) -> Result<Option<LinkMessage>, LabError> {
        let mut message = link_question();
        message.attributes.push(LinkAttribute::IfName(interface.to_owned()));
        self.get_link(&|| format!("describe interface {interface}"), message)
    }

    /// Describes all interfaces of the namespace.
    pub(crate) fn links(&mut self) -> Result<Vec<LinkMessage>, LabError> {
        let question = RouteNetlinkMessage::GetLink(link_question());
        let answers = self.dump(&|| "list interfaces".to_owned(), &question)?;
        Ok(answers.into_iter().filter_map(link_answer).collect())
    }

    fn get_link(&mut self, action: &dyn Fn() -> String, message: LinkMessage) -> Result<Option<LinkMessage>, LabError> {
        match self.get(action, RouteNetlinkMessage::GetLink(message)) {
            Ok(answer) => Ok(answer.and_then(link_answer)),
            Err(error) if error.refused_errno() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn link_question() -> LinkMessage {
    let mut message = LinkMessage::default();
    // Statistics are most of an answer and of no interest here.
    message.attributes = vec![LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats])];
    message
}

fn link_answer(message: RouteNetlinkMessage) -> Option<LinkMessage> {
    match message {
        RouteNetlinkMessage::NewLink(link) => Some(link),
        _ => None,
    }
}
