//! Questions to the kernel: whole tables, the way to one destination, and the use of a neighbour.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nearwire_stack::{Path, Update};
use nearwire_sys::netlink;
use nearwire_sys::netlink::message::{Message, Messages, Request};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::TablesError;
use super::route;
use super::rules::Rules;

/// A dump is repeated this often when the table changed while it ran.
const DUMP_ATTEMPTS: u32 = 5;
const IFINFOMSG_BYTES: usize = 16;
const IFADDRMSG_BYTES: usize = 8;
const RTMSG_BYTES: usize = 12;
const NDMSG_BYTES: usize = 12;
const FIB_RULE_HDR_BYTES: usize = 12;
/// `RTEXT_FILTER_SKIP_STATS`: counters are long and not wanted.
const SKIP_STATS: u32 = 1 << 3;

/// A table to be dumped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    /// For an error message.
    table: &'static str,
    kind: u16,
    header_bytes: usize,
    family: i32,
}

impl Question {
    /// The kernel keeps the IPv6 addresses of an interface newest first (`net/ipv6/addrconf.c`,
    /// `ipv6_link_dev_addr`), and so it dumps them; news come oldest first.
    pub(super) const fn is_newest_first(&self) -> bool {
        self.kind == libc::RTM_GETADDR && self.family == libc::AF_INET6
    }
}

const fn question(table: &'static str, kind: u16, header_bytes: usize, family: i32) -> Question {
    Question { table, kind, header_bytes, family }
}

/// What makes a picture, in the order in which it builds up.
pub(super) const TABLES: [Question; 7] = [
    question("links", libc::RTM_GETLINK, IFINFOMSG_BYTES, libc::AF_UNSPEC),
    question("IPv4 addresses", libc::RTM_GETADDR, IFADDRMSG_BYTES, libc::AF_INET),
    question("IPv6 addresses", libc::RTM_GETADDR, IFADDRMSG_BYTES, libc::AF_INET6),
    question("IPv4 routes", libc::RTM_GETROUTE, RTMSG_BYTES, libc::AF_INET),
    question("IPv6 routes", libc::RTM_GETROUTE, RTMSG_BYTES, libc::AF_INET6),
    question("IPv4 neighbours", libc::RTM_GETNEIGH, NDMSG_BYTES, libc::AF_INET),
    question("IPv6 neighbours", libc::RTM_GETNEIGH, NDMSG_BYTES, libc::AF_INET6),
];
const RULES: [Question; 2] = [
    question("IPv4 routing rules", libc::RTM_GETRULE, FIB_RULE_HDR_BYTES, libc::AF_INET),
    question("IPv6 routing rules", libc::RTM_GETRULE, FIB_RULE_HDR_BYTES, libc::AF_INET6),
];

/// What a dump hands over.
pub(super) enum Dumped<'a> {
    Message(Message<'a>),
    /// The table changed meanwhile: all of it comes again.
    Again,
}

/// How a dump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Complete,
    Interrupted,
}

/// A netlink socket for one question at a time.
#[derive(Debug)]
pub(super) struct Questions {
    socket: OwnedFd,
    sequence: u32,
}

impl Questions {
    pub(super) fn open() -> Result<Self, TablesError> {
        let failed = |source| TablesError::Socket { action: "open a socket of NETLINK_ROUTE", source };
        Ok(Self { socket: netlink::open(None).map_err(failed)?, sequence: 0 })
    }

    /// Asks for a whole table.
    pub(super) fn dump(
        &mut self,
        question: Question,
        buffer: &mut [u8],
        take: &mut impl FnMut(Dumped<'_>),
    ) -> Result<(), TablesError> {
        for attempt in 1.. {
            match self.dump_once(question, buffer, take) {
                Ok(End::Interrupted) if attempt < DUMP_ATTEMPTS => take(Dumped::Again),
                Ok(_) => break,
                // A family that this kernel does not have has empty tables.
                Err(Errno::AFNOSUPPORT | Errno::OPNOTSUPP) => break,
                Err(errno) => return Err(TablesError::Refused { table: question.table, source: errno.into() }),
            }
        }
        Ok(())
    }

    fn dump_once(
        &mut self,
        question: Question,
        buffer: &mut [u8],
        take: &mut impl FnMut(Dumped<'_>),
    ) -> Result<End, Errno> {
        self.sequence += 1;
        let mut header = [0; IFINFOMSG_BYTES];
        header[0] = question.family as u8;
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
        let mut request = Request::new(question.kind, flags, self.sequence, &header[..question.header_bytes]);
        if question.kind == libc::RTM_GETLINK {
            request = request.attribute(libc::IFLA_EXT_MASK, &SKIP_STATS.to_ne_bytes());
        }
        self.send(&request.into_bytes())?;
        let mut end = End::Complete;
        loop {
            let len_bytes = match recv(&self.socket, &mut *buffer, RecvFlags::TRUNC) {
                Ok((_, len_bytes)) if len_bytes > buffer.len() => return Err(Errno::MSGSIZE),
                Ok((len_bytes, _)) => len_bytes,
                // Of refusals to earlier requests, which nobody waits for.
                Err(Errno::INTR | Errno::NOBUFS) => continue,
                Err(errno) => return Err(errno),
            };
            for message in Messages::new(&buffer[..len_bytes]).filter(|message| message.sequence == self.sequence) {
                if i32::from(message.flags) & libc::NLM_F_DUMP_INTR != 0 {
                    end = End::Interrupted;
                }
                match i32::from(message.kind) {
                    libc::NLMSG_DONE | libc::NLMSG_ERROR => return message.verdict().map(|()| end),
                    _ => take(Dumped::Message(message)),
                }
            }
        }
    }

    /// Whether there are rules beyond the kernel's own.
    pub(super) fn policy_rules(&mut self, buffer: &mut [u8]) -> Result<Update, TablesError> {
        let mut present = false;
        for question in RULES {
            let mut rules = Rules::default();
            self.dump(question, buffer, &mut |dumped| match dumped {
                Dumped::Again => rules = Rules::default(),
                // A kernel without the family answers with the rules of all.
                Dumped::Message(message) if message.family() == question.family => rules.add(&message),
                Dumped::Message(_) => {}
            })?;
            present |= !rules.are_the_kernels_own(question.family);
        }
        Ok(Update::PolicyRules { present })
    }

    /// RTM_GETROUTE for one destination: the answer has what the kernel keeps beside the route.
    pub(super) fn path(
        &mut self,
        ifindex: u32,
        destination: IpAddr,
        buffer: &mut [u8],
    ) -> Result<(Path, Option<Duration>), TablesError> {
        let refused = |errno: Errno| TablesError::Refused { table: "way to a destination", source: errno.into() };
        self.sequence += 1;
        let mut header = [0; RTMSG_BYTES];
        (header[0], header[1]) = match destination {
            IpAddr::V4(_) => (libc::AF_INET as u8, 32),
            IpAddr::V6(_) => (libc::AF_INET6 as u8, 128),
        };
        let request = Request::new(libc::RTM_GETROUTE, libc::NLM_F_REQUEST as u16, self.sequence, &header);
        let request = match destination {
            IpAddr::V4(address) => request.attribute(libc::RTA_DST, &address.octets()),
            IpAddr::V6(address) => request.attribute(libc::RTA_DST, &address.octets()),
        };
        let request = request.attribute(libc::RTA_OIF, &ifindex.to_ne_bytes());
        self.send(&request.into_bytes()).map_err(refused)?;
        loop {
            let len_bytes = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((len_bytes, _)) => len_bytes,
                Err(Errno::INTR | Errno::NOBUFS) => continue,
                Err(errno) => return Err(refused(errno)),
            };
            let answer = Messages::new(&buffer[..len_bytes]).find(|message| message.sequence == self.sequence);
            let Some(answer) = answer else { continue };
            if i32::from(answer.kind) == libc::NLMSG_ERROR {
                answer.verdict().map_err(refused)?;
                continue;
            }
            return Ok(route::path(&answer));
        }
    }

    /// RTM_NEWNEIGH with NTF_USE.
    pub(super) fn use_neighbour(
        &mut self,
        ifindex: u32,
        address: IpAddr,
        buffer: &mut [u8],
    ) -> Result<(), TablesError> {
        self.sequence += 1;
        let mut header = [0; NDMSG_BYTES];
        header[0] = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
        header[4..8].copy_from_slice(&ifindex.to_ne_bytes());
        header[10] = libc::NTF_USE;
        let request = Request::new(libc::RTM_NEWNEIGH, libc::NLM_F_REQUEST as u16, self.sequence, &header);
        let request = match address {
            IpAddr::V4(address) => request.attribute(libc::NDA_DST, &address.octets()),
            IpAddr::V6(address) => request.attribute(libc::NDA_DST, &address.octets()),
        };
        self.send(&request.into_bytes()).map_err(TablesError::socket("ask the kernel to confirm a neighbour"))?;
        // A refusal is there already; left unread they would fill the socket.
        while matches!(recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT), Ok(_) | Err(Errno::INTR | Errno::NOBUFS))
        {
        }
        Ok(())
    }

    fn send(&self, request: &[u8]) -> Result<(), Errno> {
        rustix::io::retry_on_intr(|| send(&self.socket, request, SendFlags::empty())).map(drop)
    }
}
