//! What the kernel knows of links, addresses, routes, neighbours and groups, for
//! [`Stack::update`](nearwire_stack::Stack::update), kept current by rtnetlink.
//!
//! A listener is subscribed before the tables are dumped, so nothing is missed in between. News are
//! single [`Update`]s. Some changes the kernel does not tell in full (a multipath route that loses a
//! way with a link); then, and when messages were lost, [`KernelTables::read`] says [`News::Lost`]
//! and the whole picture is to be taken again.
//!
//! The MTU of a path the kernel tells when it is asked ([`KernelTables::path`]); [`PathErrors`] say when to ask again.
//! What it does not report at all is not here: redirects, and the MTU and hop limit that IPv6 routers advertise for an
//! interface.
//!
//! Sources: rtnetlink(7), `include/uapi/linux/rtnetlink.h`, `net/ipv4/fib_frontend.c`,
//! `net/ipv6/route.c`.

mod address;
mod error;
mod groups;
mod link;
mod neighbour;
pub mod packet_filters;
mod path_errors;
mod questions;
mod route;
mod rules;
mod subscription;
mod translate;
pub mod vlan_tags;

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use nearwire_stack::{Path, Update};
use nearwire_sys::netlink::message::{DATAGRAM_BYTES_MAX, Messages};

pub use error::TablesError;
pub use path_errors::{PathError, PathErrors};

use questions::Questions;
use subscription::{Arrived, Subscription};
use translate::{Noticed, Translator};

/// A dump is taken again this often when news arrived while it ran.
const SNAPSHOT_ATTEMPTS: u32 = 4;

/// What [`KernelTables::read`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing waited.
    None,
    /// All that waited was handed over.
    Applied,
    /// Updates alone do not lead to the kernel's state: take a [`KernelTables::snapshot`] for
    /// [`Stack::resync`](nearwire_stack::Stack::resync).
    Lost,
}

/// What the kernel knows of links, addresses, routes, neighbours and groups, as the stack wants it.
/// Of the network namespace of the thread that opened it, wherever it is used.
#[derive(Debug)]
pub struct KernelTables {
    subscription: Subscription,
    questions: Questions,
    translator: Translator,
    buffer: Vec<u8>,
}

impl KernelTables {
    /// Opens sockets in the calling thread's network namespace, subscribes, and takes a first picture. Its fds are where
    /// [`place`](nearwire_sys::descriptor::place) puts them.
    ///
    /// # Errors
    /// A socket cannot be had, or the kernel refuses a table.
    pub fn open() -> Result<(KernelTables, Vec<Update>), TablesError> {
        let (subscription, are_groups_told) = Subscription::open()?;
        let mut tables = KernelTables {
            subscription,
            questions: Questions::open()?,
            translator: Translator::open(are_groups_told)?,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        };
        let updates = tables.snapshot()?;
        Ok((tables, updates))
    }

    /// Becomes readable when there is news.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.subscription.as_fd()
    }

    /// Takes all news without waiting; each is handed to `apply`. After [`News::Lost`] some of it
    /// may have been handed over.
    ///
    /// # Errors
    /// The socket failed, or the kernel refused to say more of what it told.
    pub fn read(&mut self, mut apply: impl FnMut(Update)) -> Result<News, TablesError> {
        let mut noticed = Noticed::default();
        loop {
            match self.subscription.receive(&mut self.buffer)? {
                Arrived::Nothing => break,
                Arrived::Lost => return Ok(News::Lost),
                Arrived::Datagram { len_bytes } => {
                    noticed.is_any = true;
                    for message in Messages::new(&self.buffer[..len_bytes]) {
                        self.translator.event(&message, &mut noticed, &mut apply);
                    }
                }
            }
        }
        if !noticed.is_any {
            return Ok(News::None);
        }
        if noticed.rules {
            apply(self.questions.policy_rules(&mut self.buffer)?);
        }
        if noticed.groups {
            self.translator.groups.reread(&mut apply)?;
        }
        Ok(if noticed.is_lost { News::Lost } else { News::Applied })
    }

    /// The whole picture, for [`Stack::resync`](nearwire_stack::Stack::resync). News that waited are
    /// in it and dropped.
    ///
    /// # Errors
    /// The kernel refuses a table, or a socket failed.
    pub fn snapshot(&mut self) -> Result<Vec<Update>, TablesError> {
        let mut attempt = 1;
        loop {
            self.subscription.discard(&mut self.buffer)?;
            let updates = self.dump()?;
            // News from within the dump would be applied to a table that may have it already; most do no
            // harm then, but a route that was replaced would come back.
            if attempt == SNAPSHOT_ATTEMPTS || !self.subscription.has_news() {
                return Ok(updates);
            }
            attempt += 1;
        }
    }

    fn dump(&mut self) -> Result<Vec<Update>, TablesError> {
        let mut updates = Vec::new();
        self.translator.forget();
        for question in questions::TABLES {
            let kept = updates.len();
            self.questions.dump(question, &mut self.buffer, &mut |dumped| match dumped {
                questions::Dumped::Again => updates.truncate(kept),
                questions::Dumped::Message(message) => {
                    self.translator.dumped(&message, &mut |update| updates.push(update));
                }
            })?;
            if question.is_newest_first() {
                updates[kept..].reverse();
            }
        }
        self.translator.groups.reread(&mut |update| updates.push(update))?;
        if self.translator.has_unknown_route() {
            // Where a route is not understood no other may be trusted.
            updates.push(Update::PolicyRules { present: true });
        } else {
            updates.push(self.questions.policy_rules(&mut self.buffer)?);
        }
        Ok(updates)
    }

    /// Asks the kernel what it knows of the way to a destination through an interface, and for how long that is good; `None`:
    /// until somebody says otherwise.
    ///
    /// # Errors
    /// The kernel has no such way, or the socket failed.
    pub fn path(&mut self, ifindex: u32, destination: IpAddr) -> Result<(Path, Option<Duration>), TablesError> {
        self.questions.path(ifindex, destination, &mut self.buffer)
    }

    /// Asks the kernel to confirm a neighbour that is in use though stale (RTM_NEWNEIGH with NTF_USE).
    /// What comes of it is news later; a refusal (the neighbour is gone, CAP_NET_ADMIN is wanting) is
    /// not reported.
    ///
    /// # Errors
    /// The socket failed.
    pub fn use_neighbour(&mut self, ifindex: u32, address: IpAddr) -> Result<(), TablesError> {
        self.questions.use_neighbour(ifindex, address, &mut self.buffer)
    }
}
