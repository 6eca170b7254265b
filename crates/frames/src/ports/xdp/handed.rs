//! Shares for other processes.
//!
//! The process that opened a port makes a share ([`XdpPort::hand_over`]) and passes its description and fds to another one, which makes a port of
//! them ([`XdpPort::from_handed`]). That one needs no capability: what it maps and calls needs the fd only (`xsk_mmap`, `xsk_sendmsg`
//! and `xsk_recvmsg` in `net/xdp/xsk.c`). It cannot open, bind or attach anything, and its filters are set by the process that has the
//! port ([`XdpPort::steering_of`]).
//!
//! All who have a share of a port map the packet memory of its queues, read each other's frames there, and can disturb each other. So the
//! shares of a port are for processes that trust each other, as those of one user do.
//!
//! When the other process has ended, in whatever state, the first one takes back what it had ([`XdpPort::recover`]).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nearwire_sys::shared_words::SharedWords;
use rustix::net::sockopt::xdp_mmap_offsets;

use super::busy_poll::poll_busily;
use super::config::{Steer, XdpConfig};
use super::description::Description;
use super::hold::Hold;
use super::number::Number;
use super::queue::Queue;
use super::receive::Receiver;
use super::seats::{Seat, SeatUse};
use super::share::Parts;
use super::socket::ShareSocket;
use super::umem::Umem;
use super::{NO_MULTI_BUFFER, XdpFacts, XdpPort};
use crate::PortError;
use crate::ports::limits::{self, FrameLimits};
use crate::steering::{Credit, CreditWords, SteeringTable};
use crate::xdp::redirect::place_of;

/// What another process is to be given.
#[derive(Debug)]
pub struct Handed {
    /// The share's number, for [`XdpPort::steering_of`] and [`XdpPort::recover`].
    pub number: u32,
    /// What [`XdpPort::from_handed`] is to be told.
    pub description: Vec<u8>,
    /// In this order. Copies: they can be closed when they are passed.
    pub fds: Vec<OwnedFd>,
}

impl XdpPort {
    /// Makes a share for another process. It is that process's until [`XdpPort::recover`], also if it never gets it.
    ///
    /// In the network namespace of the interface.
    ///
    /// # Errors
    /// The port was opened without [`hands_over`](XdpConfig::hands_over); else as [`XdpPort::share`].
    pub fn hand_over(&mut self) -> Result<Handed, PortError> {
        if !self.config.hands_over {
            return Err(PortError::Config {
                interface: self.config.interface.clone(),
                setting: "hands_over",
                found: 0,
                wanted: "true, for shares of other processes",
            });
        }
        let number = self.begin_share()?;
        let share = number.get();
        let handed = self.hand_over_seat(share);
        self.circulate();
        match handed.and_then(|handed| self.enter(share).map(|entries| (handed, entries))) {
            Ok((handed, entries)) => {
                if let Some(seat) = self.seat(share) {
                    seat.used = SeatUse::Elsewhere { _number: number, _entries: entries };
                }
                Ok(handed)
            }
            Err(error) => {
                self.rooms.take_back(share);
                self.own_fill_rings();
                Err(error)
            }
        }
    }

    fn hand_over_seat(&mut self, number: u32) -> Result<Handed, PortError> {
        let refused = |source| PortError::refused("copy the fds of a share", &self.config.interface, source);
        let busy_poll_us = self.config.busy_poll_us;
        let seat = self.seats.iter().find(|seat| seat.number == number);
        let seat = seat.ok_or_else(|| limits::is_no_share("hand a share over", &self.config.interface))?;
        // The other process has no right to.
        let polls = self.busy_polls && poll_busily(seat.fds(), busy_poll_us).is_ok();
        let mut fds = Vec::new();
        for (receiver, socket) in self.receivers.iter().zip(&seat.sockets) {
            let memory = receiver.queue().memory().memory();
            let no_memory = || io::Error::from(io::ErrorKind::NotFound);
            let memory = memory.ok_or_else(no_memory).and_then(|memory| memory.try_clone_to_owned());
            fds.push(memory.map_err(refused)?);
            fds.push(socket.socket.try_clone().map_err(refused)?);
        }
        let credit = self.receivers.first().and_then(Receiver::credit);
        let map = self.steering.as_ref().and_then(SteeringTable::credits);
        if let (Some(_), Some(map)) = (credit, map) {
            fds.push(map.try_clone_to_owned().map_err(refused)?);
        }
        let room = self.rooms.give(number);
        let described = self.described(seat, room, if polls { busy_poll_us } else { 0 });
        Ok(Handed { number, description: described.to_bytes(), fds })
    }

    /// Brings as many buffers into use as the shares that are open need.
    fn circulate(&mut self) {
        let frame_size_bytes = u64::from(self.config.frame_size_bytes);
        let more: Vec<u64> =
            self.circulation.grow(self.rooms.all()).map(|place| u64::from(place) * frame_size_bytes).collect();
        for receiver in &self.receivers {
            receiver.queue().fill(&more);
        }
    }

    fn described(&self, seat: &Seat, room: u32, busy_poll_us: u32) -> Description {
        let credit = self.receivers.first().and_then(Receiver::credit);
        Description {
            number: seat.number,
            ifindex: self.ifindex,
            mode: self.config.mode,
            zero_copy: self.facts.zero_copy,
            program_id: self.facts.program_id,
            overflow: self.config.overflow,
            share_ring_slots: self.config.share_ring_slots,
            room,
            shares: self.config.shares,
            multi_buffer: self.multi_buffer,
            assembly_bytes: self.receivers.first().and_then(Receiver::assembly_bytes).map(|bytes| bytes as u32),
            busy_poll_us,
            credit_words: credit.map_or(0, |credit| credit.words().len() as u32),
            longest_bytes: credit.map_or(u64::MAX, Credit::longest),
            limits_bytes: self.limits.parts(),
            queues: self.config.rx_queues.iter().copied().zip(self.divisions.iter().copied()).collect(),
            interface: self.config.interface.clone(),
        }
    }

    /// The filters of a share that another process has.
    #[must_use]
    pub fn steering_of(&self, number: u32) -> Option<SteeringTable> {
        let is_elsewhere = |seat: &Seat| seat.number == number && matches!(seat.used, SeatUse::Elsewhere { .. });
        self.seats.iter().find(|seat| is_elsewhere(seat))?;
        self.steering.as_ref().map(|table| table.of_share(number))
    }

    /// Makes a port of what [`XdpPort::hand_over`] gave in another process. It is like one of [`XdpPort::share`], and has no filters of its own
    /// to change. Once for each [`Handed`].
    ///
    /// # Errors
    /// The description is none, or of another version of this library; or the fds are not those it speaks of.
    pub fn from_handed(description: &[u8], fds: Vec<OwnedFd>) -> Result<XdpPort, PortError> {
        let refused =
            |source: io::Error| PortError::refused("take a share that was handed over", "an interface", source);
        let wrong = || refused(io::ErrorKind::InvalidData.into());
        let described = Description::of_bytes(description).ok_or_else(wrong)?;
        let has_credits = described.credit_words > 0;
        if fds.len() != 2 * described.queues.len() + usize::from(has_credits) {
            return Err(wrong());
        }
        let refused = |source| PortError::refused("take a share that was handed over", &described.interface, source);
        let mut fds = fds.into_iter();
        let (mut sockets, mut queues) = (Vec::new(), Vec::new());
        for (_, division) in &described.queues {
            let (memory, socket) = fds.next().zip(fds.next()).ok_or_else(wrong)?;
            let offsets = xdp_mmap_offsets(&socket).map_err(|errno| refused(errno.into()))?;
            let memory = Arc::new(Umem::open(memory, division.layout()).map_err(refused)?);
            queues.push(Arc::new(Queue::map(&socket, &offsets, division.slots(), memory).map_err(refused)?));
            sockets.push(Arc::new(socket));
        }
        let words = fds.next().map(|map| SharedWords::of_array_fd(map, described.credit_words as usize));
        let words = words.transpose().map_err(refused)?;
        if let Some(words) = &words {
            words.dont_fork().map_err(refused)?;
        }
        described.into_port(sockets, queues, words.map(CreditWords::of))
    }
}

impl Description {
    fn config(&self) -> XdpConfig {
        let (at, _) = self.tx_place();
        let (tx_queue, division) = self.queues[at];
        XdpConfig {
            rx_queues: self.queues.iter().map(|(queue, _)| *queue).collect(),
            tx_queue,
            shares: self.shares,
            overflow: self.overflow,
            frame_size_bytes: division.frame_size_bytes,
            fill_frames: division.fill_frames,
            tx_frames: division.share_tx_frames,
            prepared_frames: 0,
            share_ring_slots: self.share_ring_slots,
            busy_poll_us: self.busy_poll_us,
            ..XdpConfig::new(&self.interface, self.mode, Steer::Filters)
        }
    }

    fn into_port(
        self,
        sockets: Vec<Arc<OwnedFd>>,
        queues: Vec<Arc<Queue>>,
        words: Option<CreditWords>,
    ) -> Result<XdpPort, PortError> {
        let (tx_at, area) = self.tx_place();
        let config = self.config();
        let (room, rx_queues) = (self.room, config.rx_queues.clone());
        let why = if self.multi_buffer.is_some() { "" } else { NO_MULTI_BUFFER };
        let refused =
            |source: io::Error| PortError::refused("take a share that was handed over", &self.interface, source);
        let memory = self.queues[tx_at].1.share_memory(area);
        let map = |(at, socket)| {
            let tx_slots = (at == tx_at).then(|| memory.ring_slots());
            ShareSocket::map(socket, config.share_ring_slots, tx_slots)
        };
        // EBUSY before Linux 6.4, which maps no rings of a bound socket (`xsk_mmap`, net/xdp/xsk.c).
        let sockets = sockets.into_iter().enumerate().map(map).collect::<io::Result<_>>().map_err(refused)?;
        let parts = Parts {
            number: Number::handed(self.number),
            ifindex: self.ifindex,
            sockets,
            queues,
            tx_at,
            memory,
            config,
            facts: XdpFacts {
                zero_copy: self.zero_copy,
                program_id: self.program_id,
                multi_buffer: self.multi_buffer.is_some(),
            },
            limits: FrameLimits::of_parts(&self.interface, self.limits_bytes, why),
            multi_buffer: self.multi_buffer,
            assembly_bytes: self.assembly_bytes.map(|bytes| bytes as usize),
        };
        // Nothing is entered into it: the process that has the port did that.
        let mut port = parts.into_port(Hold::Elsewhere, None)?;
        for (receiver, queue) in port.receivers.iter_mut().zip(rx_queues) {
            let Some(words) = &words else { break };
            let credit = Credit::open(words, place_of(queue, self.number, self.shares), room);
            let credit = credit.ok_or_else(|| refused(io::ErrorKind::InvalidData.into()))?;
            credit.set_longest(self.longest_bytes);
            receiver.set_credit(Some(credit));
        }
        if self.busy_poll_us > 0 {
            port.busy_polls = true;
            port.sender.set_polls(true);
        }
        port.decide_acts_when_empty();
        Ok(port)
    }
}
