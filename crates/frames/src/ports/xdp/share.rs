//! Ports that share the queues of one, for engines that have a thread each.
//!
//! AF_XDP gives a frame only to a socket that is bound to the queue it came in on. So each *share* of a port has a socket for
//! each receive queue, with an RX ring of its own, over the memory and the fill ring of the first one's (`XDP_SHARED_UMEM`):
//!
//! ```text
//!   queue 0: share 0 --RX ring-->  share 1 --RX ring-->   one fill ring (`fill`), one completion ring
//!   queue 1: share 0 --RX ring-->  share 1 --RX ring-->   one fill ring,          one completion ring
//! ```
//!
//! The XDP program finds the share by the steering table ([`crate::steering`]) and the socket by queue and share. To send, a share
//! has one of the lanes ([`super::lanes`]): that socket stays bound as it is, and its TX ring changes hands.
//!
//! A share that is taken back leaves its sockets, out of the map, to the next one: the kernel takes 10 ms and more to close one, and what it
//! still puts into their rings can be taken out of them.
//!
//! What the shares have in common lives until the last one is gone, in whatever order they go. The program is that of the port which
//! [`XdpPort::open`] gave: with it, or its [`XdpPort::detach`], the kernel has all frames.
//!
//! Limits: a share that does not read keeps up to its RX ring's slots of each queue's buffers from the others; with at least as many
//! slots as buffers ([`super::XdpConfig`]) that is all of them.
//!
//! In generic mode two CPUs may bring frames of one queue at the same time, as over veth. Kernels before 6.15 (and stable
//! series without "xsk: Fix race condition in AF_XDP generic RX path") have a lock for each socket there and none for the fill ring that
//! they share, and may then give one buffer to two frames.
//!
//! Source: `net/xdp/xsk.c` (`xsk_bind`), `net/xdp/xsk_buff_pool.c`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nearwire_sys::bpf::Map;

use super::overflow;
use super::receive::{Parked, Receiver};
use super::socket::OpenAnother;
use super::{Times, XdpMode, XdpPort};
use crate::PortError;
use crate::ports::limits;
use crate::steering::{FilterError, SteeringTable};

/// How long rings that are out of the map are looked at for frames: longer than a round of a driver's on a CPU that others want too.
const IN_FLIGHT: Duration = Duration::from_millis(20);

/// Which numbers are taken.
#[derive(Debug)]
struct Numbers(Box<[AtomicBool]>);

/// A share's number; free again when dropped.
#[derive(Debug)]
pub(super) struct Number {
    numbers: Arc<Numbers>,
    number: u32,
}

impl Number {
    /// That of the port which shares are made of, of so many with itself.
    pub(super) fn first(shares_most: u32) -> Number {
        let numbers = (0..shares_most).map(|number| AtomicBool::new(number == 0)).collect();
        Number { numbers: Arc::new(Numbers(numbers)), number: 0 }
    }

    /// The lowest that is free.
    fn another(&self) -> Option<Number> {
        let number = self.numbers.0.iter().position(|is_taken| !is_taken.swap(true, Ordering::AcqRel))?;
        Some(Number { numbers: Arc::clone(&self.numbers), number: number as u32 })
    }

    pub(super) fn get(&self) -> u32 {
        self.number
    }

    fn is_of(&self, other: &Number) -> bool {
        Arc::ptr_eq(&self.numbers, &other.numbers)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.numbers.0[self.number as usize].store(false, Ordering::Release);
    }
}

/// A share's sockets in the map; out of it when dropped. Who has copies of their descriptors, as a child of fork(2) until it executes,
/// keeps them open, and frames that they still got would keep the buffers of all.
#[derive(Debug)]
pub(super) struct Entries {
    sockets: Arc<Map>,
    places: Vec<u32>,
}

impl Entries {
    fn enter(&mut self, place: u32, receiver: &Receiver) -> io::Result<()> {
        self.sockets.set_socket(place, receiver.socket())?;
        self.places.push(place);
        Ok(())
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        for place in &self.places {
            // Missing, where the socket is closed.
            let _ = self.sockets.delete(&place.to_ne_bytes());
        }
    }
}

impl XdpPort {
    /// The number of this share: 0 for what [`XdpPort::open`] gave.
    #[must_use]
    pub fn share_number(&self) -> u32 {
        self.number.get()
    }

    /// Makes a port that receives from the same queues what its own filters match, none at first, and sends on the last lane,
    /// which this port has no more. It can be used in another thread, and is like any port, but that
    ///
    /// * its frames have no times, and [`XdpPort::want_times`] does nothing;
    /// * it has no resident frames, and polls busily where the port was opened so ([`super::XdpConfig::busy_poll_us`]);
    /// * its lane brings its counters along, and frames that are queued on it and not sent;
    /// * it is better given back by [`XdpPort::unshare`] than dropped. Dropped, its lane and frames that it has not read are lost to
    ///   the other ports, with their buffers, and the kernel has what its filters match, until the next share gets its number. The
    ///   child of a fork must not drop it: its map is its parent's.
    ///
    /// In the network namespace of the interface. As long as there is a share this port gives buffers back behind a lock too, and
    /// does not guess at its next frame. While the shares are idle no difference is measured over veth.
    ///
    /// # Errors
    /// This port is a share, was opened with another rule than [`super::Steer::Filters`], or has no lane but the first; there are
    /// [`super::XdpConfig::shares_most`] ports with this one; or the kernel refused a socket.
    pub fn share(&mut self) -> Result<XdpPort, PortError> {
        let interface = || self.config.interface.clone();
        if self.share_number() != 0 {
            return Err(limits::is_a_share("share the queues", &self.config.interface));
        }
        let fixed_rule = || PortError::Filter { interface: interface(), source: FilterError::FixedRule };
        let table = self.steering.as_ref().ok_or_else(fixed_rule)?;
        if self.other_senders.is_empty() {
            let lanes = if self.config.lanes { self.config.rx_queues.len() } else { 1 };
            return Err(PortError::NoLaneLeft { interface: interface(), lanes });
        }
        let all_taken = || PortError::NoShareLeft { interface: interface(), most: self.config.shares_most };
        let number = self.number.another().ok_or_else(all_taken)?;
        // Filters of one that had the number and was dropped.
        table.forget(number.get())?;
        let table = table.of_share(number.get());
        self.share_fill_rings();
        let opened = self.open_receivers(number.get());
        let shared = opened.and_then(|(receivers, entries)| self.share_of(number, table, receivers, entries));
        if shared.is_err() {
            self.own_fill_rings();
        }
        shared
    }

    /// The receivers of a share, in the map. Refused, those that are open leave it.
    fn open_receivers(&mut self, number: u32) -> Result<(Vec<Receiver>, Entries), PortError> {
        let multi_buffer = self.multi_buffer;
        let XdpPort { receivers, sockets, config, ifindex, parked, .. } = self;
        let refused = |source| PortError::refused("fill the map of AF_XDP sockets", &config.interface, source);
        let mut parked = parked.pop().unwrap_or_default().into_iter();
        let mut opened = Vec::with_capacity(receivers.len());
        let mut entries = Entries { sockets: Arc::clone(sockets), places: Vec::with_capacity(receivers.len()) };
        for (&queue, first) in config.rx_queues.iter().zip(receivers) {
            let mut receiver = first.another(&OpenAnother { config, ifindex: *ifindex, queue }, parked.next())?;
            receiver.set_credit(overflow::another_credit(config, first, config.place_of(queue, number), multi_buffer));
            entries.enter(config.place_of(queue, number), &receiver).map_err(refused)?;
            opened.push(receiver);
        }
        Ok((opened, entries))
    }

    fn share_of(
        &mut self,
        number: Number,
        table: SteeringTable,
        receivers: Vec<Receiver>,
        entries: Entries,
    ) -> Result<XdpPort, PortError> {
        let no_lane = || PortError::NoLaneLeft { interface: self.config.interface.clone(), lanes: 1 };
        let sender = self.other_senders.pop().ok_or_else(no_lane)?;
        let mut config = self.config.clone();
        config.tx_queue = sender.queue_number();
        let mut share = XdpPort {
            attachment: self.attachment.another(),
            sockets: Arc::clone(&self.sockets),
            steering: Some(table),
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
            limits: self.limits.clone(),
            multi_buffer: self.multi_buffer,
            times: Times::new(None),
            config,
            facts: self.facts.clone(),
            ifindex: self.ifindex,
            entries: Some(entries),
            number,
            parked: Vec::new(),
            reclaims_until: None,
        };
        if self.busy_polls && self.config.busy_poll_us > 0 {
            share.no_busy_poll = share.set_busy_poll(self.config.busy_poll_us).err();
        }
        Ok(share)
    }

    /// Takes a share back: its filters are gone, what it has not read is discarded, its buffers go back to the queues and its lane is the
    /// last of this port's. Move filters first ([`SteeringTable::move_to`]), and read what is in the rings, where nothing may be lost.
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
        let forgotten = self.steering.as_ref().map_or(Ok(()), |table| table.forget(number));
        if let Some((turn, _, taken)) = share.lent.take() {
            share.receivers[turn].give_back(taken);
        }
        if share.busy_polls {
            // Their next user asks again.
            let _ = share.set_busy_poll(0);
        }
        let XdpPort { receivers, mut sender, .. } = share;
        let both = self.receivers.iter_mut().zip(receivers);
        self.parked.push(both.map(|(receiver, of_share)| receiver.take_over(of_share)).collect());
        self.reclaims_until = Some(Instant::now() + IN_FLIGHT);
        sender.abort();
        // What is queued leaves by its own lane now, or with the next flush of it.
        let _ = sender.flush();
        self.other_senders.push(sender);
        self.own_fill_rings();
        forgotten
    }

    /// Takes buffers out of the rings of shares that are over, for some time.
    pub(super) fn reclaim(&mut self) {
        let Some(until) = self.reclaims_until else { return };
        for parked in &mut self.parked {
            self.receivers.iter_mut().zip(parked).for_each(|(receiver, parked)| receiver.reclaim(parked));
        }
        if Instant::now() > until {
            self.reclaims_until = None;
            self.decide_acts_when_empty();
        }
    }

    /// Sockets that nobody uses.
    pub(super) fn parked_sockets(parked: &[Vec<Parked>]) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        parked.iter().flatten().map(Parked::socket)
    }

    fn share_fill_rings(&mut self) {
        let receivers = std::mem::take(&mut self.receivers).into_vec();
        let (frames, shares_most) = (self.config.fill_frames as usize, self.config.shares_most);
        self.receivers = receivers.into_iter().map(|receiver| receiver.sharing(frames, shares_most)).collect();
        self.decide_acts_when_empty();
    }

    /// Where nobody shares the rings any more, they are this port's alone again, with what that saves.
    fn own_fill_rings(&mut self) {
        if self.config.mode == XdpMode::ZeroCopy {
            // The driver has buffers that nobody counts, so where the next frame comes could not be guessed any more.
            return;
        }
        let receivers = std::mem::take(&mut self.receivers).into_vec();
        self.receivers = receivers.into_iter().map(Receiver::owning).collect();
        self.decide_acts_when_empty();
    }
}
