//! Ports that share the queues of one, for engines that have a thread each, or for other processes ([`super::handed`]).
//!
//! AF_XDP gives a frame only to a socket that is bound to the queue it came in on. So each *share* of a port has a socket for
//! each receive queue, with an RX ring of its own, over the memory and the fill ring of the first one's (`XDP_SHARED_UMEM`):
//!
//! ```text
//!   queue 0: share 0 --RX ring-->  share 1 --RX ring-->   one fill ring, one completion ring (`queue`)
//!   queue 1: share 0 --RX ring-->  share 1 --RX ring-->   one fill ring, one completion ring
//! ```
//!
//! The XDP program finds the share by the filter that matches ([`crate::steering`]) and the socket by queue and share. One of a share's
//! sockets has a TX ring too. The kernel locks the sending half of each socket (`xs->mutex`) and the completion ring of the queue (`cq_lock`), so
//! shares that send on one queue disturb each other little.
//!
//! A share that is over leaves its sockets, out of the map, to the next one ([`super::seats`]).
//!
//! What the shares have in common lives until the last one is gone, in whatever order they go. The program is that of the port which
//! [`XdpPort::open`] gave: with it, or its [`XdpPort::detach`], the kernel has all frames.
//!
//! Limits: a share that does not read keeps up to its RX ring's slots of each queue's buffers from the others; with at least as many
//! slots as buffers ([`super::XdpConfig`]) that is all of them.
//!
//! In generic mode two CPUs may bring frames of one queue at the same time, as over veth. Kernels before 6.15 (and stable
//! series without "xsk: Fix race condition in AF_XDP generic RX path") have a lock for each socket there and none for the fill ring that
//! they share, and may then give one buffer to two frames. There only one socket of a queue may get frames.
//!
//! Source: `net/xdp/xsk.c` (`xsk_bind`, `xsk_generic_rcv`), `net/xdp/xsk_buff_pool.c`.

use std::io;
use std::sync::Arc;

use nearwire_sys::bpf::Map;

use super::circulation::Circulation;
use super::entries::Entries;
use super::fill::{Fill, SharedFill};
use super::hold::Hold;
use super::number::Number;
use super::overflow;
use super::queue::Queue;
use super::receive::Receiver;
use super::rooms::Rooms;
use super::seats::SeatUse;
use super::send::{SendMemory, Sender};
use super::socket::ShareSocket;
use super::{Times, XdpConfig, XdpFacts, XdpMode, XdpPort};
use crate::PortError;
use crate::ports::limits::{self, FrameLimits};
use crate::steering::FilterError;

impl XdpPort {
    /// The number of this share: 0 for what [`XdpPort::open`] gave.
    #[must_use]
    pub fn share_number(&self) -> u32 {
        self.number.get()
    }

    /// Makes a port that receives from the same queues what its own filters match, none at first, and sends on one of them by a TX ring of
    /// its own. It can be used in another thread, and is like any port, but that
    ///
    /// * its frames have the host's times only, and once the port that it is of was asked for them ([`XdpPort::want_times`]);
    /// * it has no resident frames, and polls busily where the port was opened so ([`super::XdpConfig::busy_poll_us`]);
    /// * it is better given back by [`XdpPort::unshare`] than dropped. Dropped, frames that it has not read are lost, its buffers come back when
    ///   this port next finds no frame, and the kernel has what its filters match. The child of a fork must not drop it: its map is its
    ///   parent's.
    ///
    /// In the network namespace of the interface. As long as there is a share this port gives buffers back by exchanges too. While the shares are idle no difference is measured over veth.
    ///
    /// # Errors
    /// This port is a share, or was opened with another rule than [`super::Steer::Filters`]; there are as many as it was opened for
    /// ([`super::XdpConfig::shares`]); or the kernel refused a socket.
    pub fn share(&mut self) -> Result<XdpPort, PortError> {
        let number = self.begin_share()?;
        let shared = self.share_here(number);
        if shared.is_err() {
            self.own_fill_rings();
        }
        shared
    }

    /// A number, with a seat that is ready.
    pub(super) fn begin_share(&mut self) -> Result<Number, PortError> {
        let interface = || self.config.interface.clone();
        if self.share_number() != 0 {
            return Err(limits::is_a_share("share the queues", &self.config.interface));
        }
        let fixed_rule = || PortError::Filter { interface: interface(), source: FilterError::FixedRule };
        let table = self.steering.as_ref().ok_or_else(fixed_rule)?;
        let most = self.config.shares;
        let all_taken = || PortError::NoShareLeft { interface: interface(), most };
        let number = self.number.another(most).ok_or_else(all_taken)?;
        // Filters of one that had the number and was dropped.
        table.forget(number.get())?;
        self.share_fill_rings();
        let ready = self.prepare_seat(number.get());
        if ready.is_err() {
            self.own_fill_rings();
        }
        ready.map(|()| number)
    }

    fn share_here(&mut self, number: Number) -> Result<XdpPort, PortError> {
        let steering = self.steering.as_ref().map(|table| table.of_share(number.get()));
        let polls = self.busy_polls;
        let number_of = number.get();
        let multi_buffer = self.multi_buffer;
        let credits = self.config.rx_queues.iter().zip(&self.receivers).map(|(queue, first)| {
            overflow::another_credit(&self.config, first, self.config.place_of(*queue, number_of), multi_buffer)
        });
        let credits = credits.collect::<Vec<_>>();
        let assembly_bytes = self.receivers.first().and_then(Receiver::assembly_bytes);
        let queues: Vec<_> = self.receivers.iter().map(|receiver| Arc::clone(receiver.queue())).collect();
        let (config, facts, limits) = (self.config.clone(), self.facts.clone(), self.limits.clone());
        let (attachment, map, ifindex) = (self.attachment.another(), self.sockets.clone(), self.ifindex);
        let interface = config.interface.clone();
        let no_seat = || limits::is_no_share("share a queue", &interface);
        let seat = self.seat(number_of).ok_or_else(no_seat)?;
        let parts = Parts {
            number,
            ifindex,
            sockets: seat.sockets.iter().map(ShareSocket::another).collect(),
            queues,
            tx_at: seat.tx_at,
            memory: seat.memory,
            config,
            facts,
            limits,
            multi_buffer,
            assembly_bytes,
        };
        let mut share = parts.into_port(attachment, map)?;
        let receivers = std::mem::take(&mut share.receivers).into_vec().into_iter().zip(credits);
        share.receivers = receivers
            .map(|(mut receiver, credit)| {
                receiver.set_credit(credit);
                receiver.with_dropped_before()
            })
            .collect();
        share.steering = steering;
        seat.used = SeatUse::Here;
        share.entries = Some(self.enter(number_of)?);
        if polls && self.config.busy_poll_us > 0 {
            share.no_busy_poll = share.set_busy_poll(self.config.busy_poll_us).err();
        }
        Ok(share)
    }

    /// Puts the sockets of a seat into the map of sockets. Refused, those that are in it leave it.
    pub(super) fn enter(&mut self, number: u32) -> Result<Entries, PortError> {
        let refused = |source| PortError::refused("fill the map of AF_XDP sockets", &self.config.interface, source);
        let no_map = || refused(io::ErrorKind::NotFound.into());
        let sockets = Arc::clone(self.sockets.as_ref().ok_or_else(no_map)?);
        let mut entries = Entries::new(sockets);
        for seat in self.seats.iter().filter(|seat| seat.number == number) {
            for (&queue, socket) in self.config.rx_queues.iter().zip(&seat.sockets) {
                entries.enter(self.config.place_of(queue, number), &socket.socket).map_err(refused)?;
            }
        }
        Ok(entries)
    }

    /// Takes a share back: its filters are gone, what it has not read is discarded, and its buffers go back to the queues. What is queued on
    /// it is sent. Move filters first ([`crate::steering::SteeringTable::move_to`]), and read what is in the rings, where nothing may be lost.
    /// Its sockets stay open for the next share: whoever has them in an epoll set takes them out before.
    ///
    /// # Errors
    /// It is no share of this port, and is dropped. Or the kernel refused to take its filters out of the maps; all else is done,
    /// and the kernel has what they match.
    pub fn unshare(&mut self, mut share: XdpPort) -> Result<(), PortError> {
        if self.share_number() != 0 || share.share_number() == 0 || !share.number.is_of(&self.number) {
            return Err(limits::is_no_share("take a share back", &self.config.interface));
        }
        let number = share.share_number();
        drop(share.entries.take());
        if let Some((turn, _, taken)) = share.lent.take() {
            share.receivers[turn].give_back(taken);
        }
        if share.busy_polls {
            // Their next user asks again.
            let _ = share.set_busy_poll(0);
        }
        share.sender.abort();
        // What cannot be sent now leaves with the next share's kick.
        let _ = share.sender.flush();
        drop(share);
        self.free_seat(number)
    }

    pub(super) fn share_fill_rings(&mut self) {
        let receivers = std::mem::take(&mut self.receivers).into_vec();
        let shares = self.config.shares;
        self.receivers = receivers.into_iter().map(|receiver| receiver.sharing(shares)).collect();
        self.decide_acts_when_empty();
    }

    /// Where nobody shares the rings any more, they are this port's alone again, with what that saves.
    pub(super) fn own_fill_rings(&mut self) {
        let is_shared = self.seats.iter().any(|seat| !matches!(seat.used, SeatUse::Nobody));
        // In zero-copy mode the driver has buffers that nobody counts, so where the next frame comes could not be guessed any more.
        if !is_shared && self.config.mode != XdpMode::ZeroCopy {
            let receivers = std::mem::take(&mut self.receivers).into_vec();
            self.receivers = receivers.into_iter().map(Receiver::owning).collect();
        }
        self.decide_acts_when_empty();
    }
}

/// What a share is made of, in whatever process.
pub(super) struct Parts {
    pub number: Number,
    pub ifindex: u32,
    pub sockets: Vec<ShareSocket>,
    pub queues: Vec<Arc<Queue>>,
    pub tx_at: usize,
    pub memory: SendMemory,
    /// Of the port.
    pub config: XdpConfig,
    pub facts: XdpFacts,
    pub limits: FrameLimits,
    pub multi_buffer: Option<u32>,
    pub assembly_bytes: Option<usize>,
}

impl Parts {
    /// `sockets`: the map in which the share's are, where this process has it.
    pub(super) fn into_port(self, attachment: Hold, sockets: Option<Arc<Map>>) -> Result<XdpPort, PortError> {
        let Parts { number, ifindex, tx_at, memory, mut config, facts, limits, multi_buffer, assembly_bytes, .. } =
            self;
        let interface = config.interface.clone();
        config.tx_queue = config.rx_queues.get(tx_at).copied().unwrap_or(config.tx_queue);
        let (mut receivers, mut sender) = (Vec::with_capacity(self.queues.len()), None);
        for (ShareSocket { rx, tx, socket }, queue) in self.sockets.into_iter().zip(self.queues) {
            if let Some(tx) = tx {
                let copies = config.mode != XdpMode::ZeroCopy;
                let (socket, queue) = (Arc::clone(&socket), Arc::clone(&queue));
                sender = Some(Sender::new(socket, memory, tx, queue, copies));
            }
            let fill = SharedFill::new(queue, number.get(), config.shares);
            let receiver = Receiver::new(socket, rx, Fill::Shared(fill));
            receivers.push(match assembly_bytes {
                Some(frame_bytes) => receiver.with_assembly(frame_bytes),
                None => receiver,
            });
        }
        let sender = sender.ok_or_else(|| limits::is_no_share("share a queue", &interface))?;
        Ok(XdpPort {
            attachment,
            program: None,
            sockets,
            steering: None,
            receivers: receivers.into_boxed_slice(),
            next: 0,
            lent: None,
            busy_polls: false,
            last: 0,
            no_busy_poll: None,
            acts_when_empty: true,
            sender,
            other_senders: Vec::new(),
            empty_looks: 0,
            received_frames: 0,
            limits,
            multi_buffer,
            times: Times::new(None),
            config,
            facts,
            ifindex,
            entries: None,
            number,
            divisions: Vec::new(),
            seats: Vec::new(),
            // It hands nothing over.
            rooms: Rooms::default(),
            circulation: Circulation::none(),
            reclaims_until: None,
            link_due: None,
        })
    }
}
