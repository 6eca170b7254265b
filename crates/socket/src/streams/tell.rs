//! What the status page says of connections: of each that was to be adopted once.

use nearwire_sys::descriptor::Descriptor;

use crate::host::Host;
use crate::kept::{local_address, peer_address};
use crate::reason::{Reason, Why};
use crate::sockets::Sockets;
use crate::status::SocketWriter;

/// Of so many connections the page has new figures each time that the timer thread looks at all, however many there are.
const TOLD_AT_ONCE: usize = 32;

impl<H: Host> Sockets<H> {
    /// The slot of the connection that an fd names.
    fn slot_of_stream(&self, fd: i32) -> Option<SocketWriter<'_>> {
        let id = self.find(fd).filter(|id| self.get(*id).is_none())?;
        self.page.socket(id.index())
    }

    /// The same of one that has a row.
    fn row_of_stream(&self, fd: i32) -> Option<SocketWriter<'_>> {
        self.slot_of_stream(fd).filter(|slot| !slot.is_free())
    }

    /// How many calls the stack has served of it; `None`: the page has no room for it.
    pub(super) fn calls_served(&self, fd: i32) -> Option<u64> {
        self.slot_of_stream(fd).map(|slot| slot.counted())
    }

    /// It is to be adopted.
    pub(super) fn tell_attempt(&self, fd: i32) {
        let Some(slot) = self.slot_of_stream(fd).filter(SocketWriter::is_free) else { return };
        slot.open_connection(fd, Reason::NotYetAdopted);
        if let Some(shadow) = Descriptor::new(fd) {
            slot.set_local(local_address(shadow).ok());
            slot.set_remote(peer_address(shadow));
        }
    }

    /// It was.
    pub(super) fn tell_adopted(&self, fd: i32, ifindex: u32) {
        self.slot_of_stream(fd).into_iter().for_each(|slot| slot.set_adopted(ifindex));
    }

    /// It was not.
    pub(super) fn tell_kept(&self, fd: i32, why: Option<Why>) {
        let why = why.unwrap_or(Reason::NotYetAdopted.into());
        self.slot_of_stream(fd).into_iter().for_each(|slot| slot.set_kernel(why.reason, why.detail));
    }

    /// The kernel has it back.
    pub(super) fn tell_released(&self, fd: i32, reason: Reason) {
        self.slot_of_stream(fd).into_iter().for_each(|slot| slot.set_released(reason));
    }

    /// It is the kernel's for good.
    pub(super) fn tell_left(&self, fd: i32, reason: Reason) {
        self.row_of_stream(fd).into_iter().for_each(|row| row.set_kernel(reason, 0));
    }

    /// Its fd is closed.
    pub(super) fn tell_closed(&self, fd: i32) {
        self.row_of_stream(fd).into_iter().for_each(|row| row.close());
    }

    /// What the stack has measured of some connections.
    pub fn tell_round_trips(&mut self) {
        for _ in 0..TOLD_AT_ONCE.min(self.streams.places.len()) {
            let place = self.streams.told_behind % self.streams.places.len();
            self.streams.told_behind = place + 1;
            // Places are fds.
            self.tell_round_trip(place as i32);
        }
    }

    /// The same of one.
    pub(super) fn tell_round_trip(&self, fd: i32) {
        let told = self.streams.get(fd).zip(self.engine_ref());
        let info = told.and_then(|(stream, engine)| engine.stack_ref().tcp_info(stream.carried.id()));
        if let Some((info, slot)) = info.zip(self.slot_of_stream(fd)) {
            slot.set_round_trip(info.smoothed_round_trip_ns, info.retransmitted_segments);
        }
    }
}
