//! What shares are made of: sockets on every queue, which the port keeps from one share to the next.
//!
//! A *seat* is the sockets of one share: one for each receive queue, with an RX ring of its own, and on one of them a TX ring. The kernel takes
//! 10 ms and more to close one, so a seat stays for the next share of its number. The port maps the rings of its seats too: so it can
//! take back what a share had, whether the share was given back, was dropped, or its process was killed.
//!
//! What a share had is found where it was left, in memory that outlives it:
//!
//! * unread frames, in the RX rings, which go on from their consumer index;
//! * buffers that it had taken, by their words in the control area;
//! * buffers that it was just giving back: those that it had pushed are passed to the kernel first ([`super::shared_ring`]);
//! * frames to be sent: those that the TX ring shows are sent, as the share wanted; those behind its producer index are forgotten.
//!
//! A CPU that found the socket in the map just before it was taken out may put a frame into a ring later, which is looked for some time.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::XdpPort;
use super::division::place_of_share;
use super::entries::Entries;
use super::kick::{KICKS_MOST, Took, kick, wake};
use super::number::Number;
use super::queue::Queue;
use super::receive::Receiver;
use super::send::SendMemory;
use super::socket::{OpenAnother, ShareSocket};
use crate::PortError;
use crate::ports::limits;

/// How long rings that are out of the map are looked at for frames: longer than a round of a driver's on a CPU that others want too.
const IN_FLIGHT: Duration = Duration::from_millis(20);

/// Who has a seat.
#[derive(Debug)]
pub(super) enum SeatUse {
    Nobody,
    /// A share in this process, which has the number and the entries.
    Here,
    /// A share in another process.
    Elsewhere {
        _number: Number,
        _entries: Entries,
    },
}

/// The sockets of one share.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) number: u32,
    pub(super) sockets: Vec<ShareSocket>,
    /// The receive queue on which it sends.
    pub(super) tx_at: usize,
    pub(super) memory: SendMemory,
    pub(super) used: SeatUse,
}

impl Seat {
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|of_queue| of_queue.socket.as_fd())
    }

    /// Marks what lies in an RX ring as taken by the share, and takes all that is marked so back.
    fn take_back_received(&mut self, at: usize, queue: &Queue) {
        let (control, rx) = (queue.control(), &mut self.sockets[at].rx);
        rx.resume();
        while let Some(descriptor) = rx.pop() {
            control.hold(descriptor.addr, self.number);
        }
        rx.release();
        // What the share had pushed is not its own any more.
        queue.fill(&[]);
        let buffers: Vec<u64> = control.held_by(self.number).collect();
        queue.fill(&buffers);
    }

    /// Has the kernel send what the TX ring shows, and forgets what it does not.
    fn finish_sending(&mut self, queue: &Queue) {
        let pushed = queue.control().pushed(self.memory.sender);
        let ShareSocket { tx: Some(tx), socket, .. } = &mut self.sockets[self.tx_at] else { return };
        let shown = tx.resume();
        let unseen = pushed.load(Ordering::Relaxed).wrapping_sub(shown);
        for count in 0..unseen.min(self.memory.ring_slots()) {
            queue.control().free(tx.pushed(shown.wrapping_add(count)).addr);
        }
        pushed.store(shown, Ordering::Relaxed);
        queue.drain_completions();
        for _ in 0..KICKS_MOST {
            // Refused where the interface is down: the next share's kick sends it.
            if tx.unconsumed() == 0 || matches!(kick(socket, Some(queue)), Ok(Took::All) | Err(_)) {
                break;
            }
        }
        if tx.unconsumed() > 0 {
            wake(socket, Some(queue));
        }
    }
}

/// A queue that shares receive from.
struct SharedQueue<'p> {
    number: u32,
    receiver: &'p Receiver,
}

impl XdpPort {
    fn shared_queues(&self) -> impl Iterator<Item = SharedQueue<'_>> {
        let queues = self.config.rx_queues.iter().zip(&self.receivers);
        queues.map(|(number, receiver)| SharedQueue { number: *number, receiver })
    }

    pub(super) fn seat(&mut self, number: u32) -> Option<&mut Seat> {
        self.seats.iter_mut().find(|seat| seat.number == number)
    }

    /// Makes the seat of a number ready, with nothing in its rings.
    pub(super) fn prepare_seat(&mut self, number: u32) -> Result<(), PortError> {
        if self.seat(number).is_none() {
            let seat = self.open_seat(number)?;
            self.seats.push(seat);
            return Ok(());
        }
        self.take_back(number);
        Ok(())
    }

    fn open_seat(&self, number: u32) -> Result<Seat, PortError> {
        let (config, ifindex) = (&self.config, self.ifindex);
        let (tx_at, area) = place_of_share(number, config.rx_queues.len() as u32);
        let memory = self.divisions[tx_at].share_memory(area);
        let open = |(at, queue): (usize, SharedQueue<'_>)| {
            let tx_slots = (at == tx_at).then(|| memory.ring_slots());
            OpenAnother { config, ifindex, queue: queue.number, tx_slots }.open(queue.receiver.socket())
        };
        let sockets = self.shared_queues().enumerate().map(open).collect::<Result<_, _>>()?;
        Ok(Seat { number, sockets, tx_at, memory, used: SeatUse::Nobody })
    }

    /// Takes back what a share has that uses its seat no more.
    fn take_back(&mut self, number: u32) {
        let XdpPort { seats, receivers, .. } = self;
        let Some(seat) = seats.iter_mut().find(|seat| seat.number == number) else { return };
        for (at, receiver) in receivers.iter().enumerate() {
            seat.take_back_received(at, receiver.queue());
        }
        seat.finish_sending(receivers[seat.tx_at].queue());
    }

    /// Takes a share back that is over: that of a process which was killed, at whatever moment, or ended without giving it back. Its filters
    /// are gone, what it had not read is discarded, its buffers are with the queues again, and what it had shown the kernel is sent.
    ///
    /// The share must not be used any more: all threads and processes that could use it have ended.
    ///
    /// # Errors
    /// No share with this number was [handed over](XdpPort::hand_over). Or the kernel refused to take its filters out of the maps; all else is
    /// done.
    pub fn recover(&mut self, number: u32) -> Result<(), PortError> {
        let is_elsewhere = |seat: &Seat| seat.number == number && matches!(seat.used, SeatUse::Elsewhere { .. });
        if !self.seats.iter().any(is_elsewhere) {
            return Err(limits::is_no_share("take a share back", &self.config.interface));
        }
        self.free_seat(number)
    }

    /// The same of any share: nobody uses it.
    pub(super) fn free_seat(&mut self, number: u32) -> Result<(), PortError> {
        let forgotten = self.steering.as_ref().map_or(Ok(()), |table| table.forget(number));
        if let Some(Seat { used: SeatUse::Elsewhere { _entries: entries, .. }, .. }) = self.seat(number) {
            entries.leave();
        }
        self.take_back(number);
        self.rooms.take_back(number);
        if let Some(seat) = self.seat(number) {
            seat.used = SeatUse::Nobody;
        }
        self.reclaims_until = Some(Instant::now() + IN_FLIGHT);
        self.decide_acts_when_empty();
        forgotten
    }

    /// Takes back late frames of shares that are over, and shares that were dropped. A port that receives does so itself.
    pub fn reclaim(&mut self) {
        for at in 0..self.seats.len() {
            let (number, is_here) = (self.seats[at].number, matches!(self.seats[at].used, SeatUse::Here));
            if is_here && self.number.is_free(number) {
                // Refused, it is tried again at the next look.
                let _ = self.free_seat(number);
            }
        }
        let Some(until) = self.reclaims_until else { return };
        for at in 0..self.seats.len() {
            if matches!(self.seats[at].used, SeatUse::Nobody) && self.seats[at].has_frames() {
                self.take_back(self.seats[at].number);
            }
        }
        if Instant::now() > until {
            self.reclaims_until = None;
            self.own_fill_rings();
        }
    }
}

impl Seat {
    fn has_frames(&mut self) -> bool {
        self.sockets.iter_mut().any(|of_queue| {
            of_queue.rx.resume();
            of_queue.rx.has_next()
        })
    }
}
