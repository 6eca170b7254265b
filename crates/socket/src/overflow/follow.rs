//! What the kernel got is taken over, and frames come by the ports again.

use nearwire_stack::EndpointId;
use nearwire_sys::receive::receive_with_control;

use super::all_beside::AllBeside;
use super::{
    ATTEMPTS, Beside, Buffers, CONTROL_BYTES, HOLD_MOST_TICKS, Hold, IN_TRANSIT_TICKS, PAYLOAD_BYTES, TAKEN_MOST,
};
use crate::engine::{Engine, Looked};
use crate::engines::SETTLED_TICKS;
use crate::host::Host;
use crate::id::SocketId;
use crate::now::Now;
use crate::socket::{Memory, Order, Socket};
use crate::sockets::Sockets;
use crate::status::Counter;

/// Between two looks at whether the rings overflow: a few microseconds.
const OLDER_AT_ONCE: u64 = 16;

impl<H: Host> Sockets<H> {
    /// Whether the kernel has frames that the ports had no room for, and all older ones were taken out of the rings: by the
    /// calls that want them, as they want them, so that a receive buffer is not filled by what could wait in a ring.
    #[inline]
    pub(crate) fn is_overflow_next(&self) -> bool {
        let is_next = |engine: &Engine<H>| engine.is_overflowing() && (engine.is_holding() || !engine.has_frames());
        self.engine_ref().is_some_and(is_next)
    }

    /// Takes over what the kernel got, and has frames come by the ports again. What else was found meanwhile.
    #[cold]
    pub(crate) fn follow_overflow(&mut self) -> Looked {
        let mut looked = Looked::default();
        if self.engine_ref().is_some_and(Engine::is_holding)
            && let Some(hold) = self.overflow.hold
        {
            return self.follow_hold(hold);
        }
        if self.overflow.hold.take().is_some() {
            // The engine ended it, as all frames were wanted at once.
            (self.overflow.taken, self.overflow.told_again) = (0, 0);
        }
        for _ in 0..ATTEMPTS {
            let Some(engine) = self.engine().filter(|engine| engine.is_overflowing()) else { return looked };
            let passed = engine.begin_settling();
            self.take_in_all_frames();
            looked = looked | self.look_at_shadows();
            self.take_over_all();
            if self.overflow.taken >= passed {
                self.settled(passed);
            }
        }
        if let Some(engine) = self.engine().filter(|engine| engine.is_overflowing()) {
            engine.hold_frames();
            let passed = engine.begin_settling();
            let dropped = self.dropped_by_shadows();
            let taken_then = passed.saturating_sub(dropped.saturating_sub(self.overflow.dropped_before));
            self.overflow.hold = Some(Hold { begun_ticks: self.time().ticks, passed, dropped, taken_then });
        }
        looked
    }

    /// Frames are held until nothing is under way to a shadow.
    fn follow_hold(&mut self, hold: Hold) -> Looked {
        let held_ticks = self.time().ticks.wrapping_sub(hold.begun_ticks);
        if held_ticks < IN_TRANSIT_TICKS {
            return Looked::default();
        }
        let looked = self.look_at_shadows();
        if self.engine_ref().is_some_and(Engine::is_full_again) {
            self.take_over_most(hold.taken_then.saturating_sub(self.overflow.taken));
            self.end_hold(hold.passed, hold.dropped);
            return looked;
        }
        self.take_over_all();
        let dropped = self.dropped_by_shadows();
        let newly_dropped = dropped.saturating_sub(self.overflow.dropped_before);
        let taken = self.overflow.taken;
        let Some(engine) = self.engine() else { return looked };
        let passed = engine.begin_settling();
        if taken + newly_dropped >= passed || held_ticks >= HOLD_MOST_TICKS {
            self.end_hold(passed, dropped);
        }
        looked
    }

    fn end_hold(&mut self, passed: u64, dropped: u64) {
        let told_again = self.engine().map_or(0, Engine::end_hold);
        self.tell_passed(passed);
        self.overflow.hold = None;
        self.overflow.dropped_before = dropped;
        (self.overflow.taken, self.overflow.told_again) = (told_again, told_again);
    }

    /// As many were taken over. What the kernel got since they were counted is counted from here on; what was taken over besides came
    /// there of itself, or was a bundle of more than the program counted.
    fn settled(&mut self, passed: u64) {
        let since = self.engine_ref().map_or(0, Engine::overflowed_since);
        if let Some(engine) = self.engine() {
            engine.settle_overflow();
        }
        self.overflow.taken = self.overflow.taken.saturating_sub(passed).min(since);
        self.tell_passed(passed);
    }

    fn tell_passed(&mut self, passed: u64) {
        let told_again = std::mem::take(&mut self.overflow.told_again);
        self.page.count(Counter::FramesOverflowed, passed.saturating_sub(told_again));
    }

    /// What the shadow of a socket has dropped for want of room is reported with the next datagram that comes by a port, where the program
    /// asked for that (SO_RXQ_OVFL).
    pub(crate) fn learn_drops(&mut self, id: SocketId) {
        if let Some((socket, engine)) = self.with_engine(id) {
            learn_drops(socket, engine);
        }
    }

    /// What the kernel dropped at shadows since they were opened.
    fn dropped_by_shadows(&self) -> u64 {
        let sockets = self.ids().filter_map(|id| self.get(id));
        sockets
            .filter(|socket| socket.is_accelerated())
            .map(|socket| u64::from(Memory::DroppedDatagrams.of(socket.shadow.fd)))
            .sum()
    }

    /// Takes over what shadows have.
    fn take_over_all(&mut self) {
        self.take_over_most(u64::MAX);
    }

    /// The same, and no more than so many.
    fn take_over_most(&mut self, most: u64) {
        let end = self.overflow.taken.saturating_add(most);
        for id in self.ids() {
            if self.get(id).is_some_and(|socket| socket.shadow.has_data && socket.is_accelerated()) {
                self.take_over_some(id, end.saturating_sub(self.overflow.taken));
            }
        }
        self.raise_readable();
    }

    /// Takes over what a shadow has, as far as the receive buffer goes.
    #[cold]
    pub(crate) fn take_over(&mut self, id: SocketId) {
        self.take_over_some(id, u64::MAX);
    }

    /// Takes over what the kernel got of a socket whose frames come by the ports from now on, with what was on its way there. Left with
    /// the shadow, it would be read behind the rings, or with what the kernel gets later, if they overflow before it is read. Once they
    /// overflow the kernel gets newer ones, behind those in the rings: what it has then stays for the settling of the overflow.
    pub(crate) fn take_over_older(&mut self, id: SocketId) {
        let counted = self.overflow.taken;
        let begun_ticks = self.host.ticks();
        let is_in_transit = |host: &H| host.ticks().wrapping_sub(begun_ticks) < SETTLED_TICKS;
        self.get_mut(id).into_iter().for_each(|socket| socket.shadow.may_have_data());
        while self.engine_ref().is_some_and(|engine| !engine.is_overflowing()) {
            let Some(socket) = self.get(id).filter(|socket| socket.shadow.order != Order::PortsLast) else { break };
            if socket.shadow.is_readable() && socket.shadow.has_data {
                self.take_over_some(id, OLDER_AT_ONCE);
            } else if is_in_transit(&self.host) {
                self.get_mut(id).into_iter().for_each(|socket| socket.shadow.may_have_data());
            } else {
                break;
            }
        }
        self.get_mut(id).into_iter().for_each(|socket| socket.shadow.may_have_data());
        self.overflow.taken = counted;
        self.raise_readable();
    }

    fn take_over_some(&mut self, id: SocketId, most: u64) {
        let now = self.time();
        let most = most.min(TAKEN_MOST.into()) as u32;
        let mut buffers = self.overflow.buffers.take().unwrap_or_else(Buffers::new);
        if let Some((socket, engine)) = self.with_engine(id)
            && let Some(endpoint) = socket.endpoint()
        {
            let taken = take_over(now, socket, engine, endpoint, most, &mut buffers);
            self.overflow.taken += u64::from(taken);
        }
        self.overflow.buffers = Some(buffers);
    }
}

fn learn_drops<H: Host>(socket: &mut Socket, engine: &mut Engine<H>) {
    if let Some(endpoint) = socket.endpoint().filter(|_| socket.ancillary().drops) {
        // As the kernel counts them for the program, modulo 2^32.
        count_drops(socket, engine, endpoint, Memory::DroppedDatagrams.of(socket.shadow.fd));
    }
}

/// The shadow has dropped so many since it was opened.
fn count_drops<H: Host>(socket: &mut Socket, engine: &mut Engine<H>, endpoint: EndpointId, dropped: u32) {
    let before = std::mem::replace(&mut socket.shadow.dropped, dropped);
    engine.stack().udp_add_dropped(endpoint, dropped.wrapping_sub(before));
}

fn take_over<H: Host>(
    now: Now,
    socket: &mut Socket,
    engine: &mut Engine<H>,
    endpoint: EndpointId,
    most: u32,
    buffers: &mut Buffers,
) -> u32 {
    let mut taken = 0;
    let mut is_behind = false;
    // Of a socket that is behind, each receive takes one over: nine system calls for each would let it fall further behind.
    let _all_beside = (socket.shadow.order != Order::PortsLast).then(|| AllBeside::of(socket.shadow.fd, socket.family));
    while taken < most {
        if !engine.stack_ref().udp_has_room(endpoint) {
            is_behind = true;
            break;
        }
        let Buffers { payload, control } = buffers;
        match receive_with_control(socket.shadow.fd, payload, control) {
            Ok(received) => {
                taken += 1;
                let beside = Beside::read(&control[..received.control_bytes.min(CONTROL_BYTES)]);
                if let Some(dropped) = beside.dropped {
                    count_drops(socket, engine, endpoint, dropped);
                }
                let datagram =
                    beside.datagram(now, socket, &payload[..received.len_bytes.min(PAYLOAD_BYTES)], received.source);
                engine.stack().udp_queue(endpoint, &datagram);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                socket.shadow.has_data = false;
                learn_drops(socket, engine);
                break;
            }
            Err(error) => {
                // Told by the next call, as the kernel would: whatever it is, receiving took it from the shadow.
                (socket.shadow.pending_error, socket.shadow.has_error) =
                    (error.raw_os_error().unwrap_or(libc::EIO), true);
                taken += 1;
            }
        }
    }
    socket.shadow.order = if is_behind { Order::PortsLast } else { Order::QueueFirst };
    engine.stack().udp_set_behind_kernel(endpoint, is_behind);
    taken
}
