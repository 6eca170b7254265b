//! Attributes of a link, by rtnetlink in the calling thread's network namespace (`RTM_SETLINK`);
//! of a tree of files, by the files that have the same.

use std::io;
use std::time::Duration;

use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute as Attribute, LinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
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

/// What the kernel tells everybody of links that come, go or change, in the network namespace of the thread that asked
/// for it (`RTMGRP_LINK`, rtnetlink(7)).
#[derive(Debug)]
pub struct LinkEvents(Socket);

impl LinkEvents {
    /// Listens from now on.
    ///
    /// # Errors
    /// There is no such socket to be had.
    pub fn listen() -> io::Result<Self> {
        const RTMGRP_LINK: u32 = 1;
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, RTMGRP_LINK))?;
        socket.set_non_blocking(true)?;
        Ok(Self(socket))
    }

    /// Waits for an event, this long at most, and takes all that are there; whether there was one. A signal ends the
    /// wait too.
    ///
    /// # Errors
    /// The socket failed.
    pub fn wait(&self, at_most: Duration) -> io::Result<bool> {
        let time = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&time)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        loop {
            match self.0.recv_from_full() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                // More came than there was room for, which is one more reason to look.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NOBUFS) => {}
                Err(error) => return Err(error),
            }
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
