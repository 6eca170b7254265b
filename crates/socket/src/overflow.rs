//! Bursts that the rings have no room for, while the program does not read: the kernel queues them at the shadows, and they are
//! taken over in their order.
//!
//! While it overflows, a port's program gives the kernel all frames of this engine, so what is in the rings is older than
//! what the kernel has, and that is older than what will be in the rings. So: rings first, then shadows, into the same queues, and then
//! the port is told that it is settled ([`nearwire_frames::EnginePort::settle_overflow`]).
//!
//! A bundle of datagrams (`frames/src/steering/credits.rs`) is counted as the fewest that it can be.
//!
//! Between the program's decision and the shadow's queue a frame is in nobody's hand, for as long as a driver's round takes.
//! Nothing may come by the rings before it. Where as many datagrams were taken over as frames were passed, there is none. Else some
//! were dropped by the kernel, or are under way: frames come by the rings again and are left there for [`IN_TRANSIT_TICKS`], after
//! which the shadows are looked at, until what was taken over and what they say they dropped are all, but no longer than
//! [`HOLD_MOST_TICKS`].
//!
//! A socket whose receive buffer is full leaves the rest with its shadow, whose buffer the kernel accounts for. What arrives for
//! it by the rings meanwhile is dropped, as by the kernel, whose buffer would hold the older ones.
//!
//! A program may compute while frames are held, and rings fill anew. What the kernel gets then is newer than what is in them, so
//! before them only as much is taken over as was under way when they began to be held. Limit: where that was for several sockets,
//! a socket may get so many newer ones first that take the place of another's older ones.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;

use libc::{
    IP_PKTINFO, IP_TOS, IP_TTL, IPV6_HOPLIMIT, IPV6_PKTINFO, IPV6_TCLASS, SO_MEMINFO, SO_RXQ_OVFL, SO_TIMESTAMP,
    SO_TIMESTAMPING, SO_TIMESTAMPNS, SOL_IP, SOL_IPV6, SOL_SOCKET,
};
use nearwire_stack::{Datagram, EndpointId};
use nearwire_sys::receive::{control_messages, receive_with_control};
use nearwire_sys::socket::option_bytes;

use crate::engine::{Engine, Looked};
use crate::host::Host;
use crate::id::SocketId;
use crate::now::Now;
use crate::sockets::Sockets;
use crate::status::{Counter, SocketCounter};
use crate::udp_socket::UdpSocket;

/// Longer than a driver's round of 64 frames takes with the stack above it: 40 us at 5 GHz, 100 at 2.
const IN_TRANSIT_TICKS: u64 = 200_000;
/// A virtual CPU may stand still with a frame in its hand. In a longer time than that a ring could fill anew.
const HOLD_MOST_TICKS: u64 = 4_000_000;
/// Attempts to settle while more comes, before the frames are held.
const ATTEMPTS: u32 = 3;
/// Datagrams taken over from one socket at once: as many as small ones fit into a receive buffer of 64 MiB.
const TAKEN_MOST: u32 = 1 << 16;
const PAYLOAD_BYTES: usize = 1 << 16;
/// Room for all that options can ask for.
const CONTROL_BYTES: usize = 512;
const IP_ORIGDSTADDR: i32 = 20;

/// How far it is with what the kernel got.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    /// Datagrams taken over since it was settled last.
    taken: u64,
    /// Of these, those that the port tells of although it did before.
    told_again: u64,
    /// Frames are held.
    hold: Option<Hold>,
    /// What the shadows had dropped when frames were held last.
    dropped_before: u64,
    /// Made for the first overflow.
    buffers: Option<Box<Buffers>>,
}

/// How it was when frames began to be held.
#[derive(Debug, Clone, Copy)]
struct Hold {
    begun_ticks: u64,
    /// Frames that the kernel had got since it was settled.
    passed: u64,
    /// What the shadows had dropped.
    dropped: u64,
    /// What [`Overflow::taken`] is when all that the kernel had got is taken over.
    taken_then: u64,
}

#[derive(Debug)]
struct Buffers {
    payload: Box<[u8]>,
    control: [u8; CONTROL_BYTES],
}

impl Buffers {
    fn new() -> Box<Buffers> {
        Box::new(Buffers { payload: vec![0; PAYLOAD_BYTES].into(), control: [0; CONTROL_BYTES] })
    }
}

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
            self.overflow.hold = Some(Hold { begun_ticks: self.now.ticks, passed, dropped, taken_then });
        }
        looked
    }

    /// Frames are held until nothing is under way to a shadow.
    fn follow_hold(&mut self, hold: Hold) -> Looked {
        let held_ticks = self.now.ticks.wrapping_sub(hold.begun_ticks);
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

    /// What the kernel dropped at shadows since they were opened (`SK_MEMINFO_DROPS`).
    fn dropped_by_shadows(&self) -> u64 {
        let sockets = (0..self.socket_count()).filter_map(|index| self.get(SocketId::new(index as u32)));
        sockets.filter(|socket| socket.is_accelerated()).map(|socket| dropped_by(socket.shadow)).sum()
    }

    /// Takes over what shadows have.
    fn take_over_all(&mut self) {
        self.take_over_most(u64::MAX);
    }

    /// The same, and no more than so many.
    fn take_over_most(&mut self, most: u64) {
        let end = self.overflow.taken.saturating_add(most);
        for index in 0..self.socket_count() {
            let id = SocketId::new(index as u32);
            if self.get(id).is_some_and(|socket| socket.shadow_has_data && socket.is_accelerated()) {
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

    fn take_over_some(&mut self, id: SocketId, most: u64) {
        let now = self.now;
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

fn dropped_by(shadow: impl AsFd) -> u64 {
    const WORD_BYTES: usize = size_of::<u32>();
    const SK_MEMINFO_DROPS: usize = 8;
    let mut memory = [0; (SK_MEMINFO_DROPS + 1) * WORD_BYTES];
    option_bytes(shadow, SOL_SOCKET, SO_MEMINFO, &mut memory).ok();
    number(&memory[SK_MEMINFO_DROPS * WORD_BYTES..]).map_or(0, u64::from)
}

fn take_over<H: Host>(
    now: Now,
    socket: &mut UdpSocket,
    engine: &mut Engine<H>,
    endpoint: EndpointId,
    most: u32,
    buffers: &mut Buffers,
) -> u32 {
    let mut taken = 0;
    let mut is_behind = false;
    while taken < most {
        if !engine.stack_ref().udp_has_room(endpoint) {
            is_behind = true;
            break;
        }
        let Buffers { payload, control } = buffers;
        match receive_with_control(socket.shadow, payload, control) {
            Ok(received) => {
                taken += 1;
                let beside = Beside::read(&control[..received.control_bytes.min(CONTROL_BYTES)]);
                if let Some(dropped) = beside.dropped {
                    let before = std::mem::replace(&mut socket.shadow_dropped, dropped);
                    engine.stack().udp_add_dropped(endpoint, dropped.wrapping_sub(before));
                }
                let datagram =
                    beside.datagram(now, socket, &payload[..received.len_bytes.min(PAYLOAD_BYTES)], received.source);
                engine.stack().udp_queue(endpoint, &datagram);
                socket.slot.count(SocketCounter::ReceivedByShadow);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                socket.shadow_has_data = false;
                break;
            }
            Err(error) => {
                // Told by the next call, as the kernel would: whatever it is, receiving took it from the shadow.
                (socket.pending_error, socket.shadow_has_error) = (error.raw_os_error().unwrap_or(libc::EIO), true);
                taken += 1;
            }
        }
    }
    socket.shadow_is_older = false;
    socket.is_behind_shadow = is_behind;
    engine.stack().udp_set_behind_kernel(endpoint, is_behind);
    taken
}

/// What the kernel says beside a datagram. It says what the socket's options ask for, so what is missing nobody is told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Beside {
    destination: Option<IpAddr>,
    ifindex: u32,
    ttl: u8,
    tos: u8,
    received_ns: u64,
    device_ns: u64,
    /// Of the socket, so far.
    dropped: Option<u32>,
}

impl Beside {
    fn read(control: &[u8]) -> Beside {
        let mut beside = Beside::default();
        for (level, kind, data) in control_messages(control) {
            // Whoever cuts them is the kernel, and it does not.
            let _ = beside.take(level, kind, data);
        }
        beside
    }

    fn take(&mut self, level: i32, kind: i32, data: &[u8]) -> Option<()> {
        match (level, kind) {
            (SOL_IP, IP_PKTINFO) => {
                self.ifindex = number(data)?;
                self.destination = Some(IpAddr::from(*data.get(8..)?.first_chunk::<4>()?));
            }
            (SOL_IPV6, IPV6_PKTINFO) => {
                self.destination = Some(IpAddr::from(*data.first_chunk::<16>()?).to_canonical());
                self.ifindex = number(&data[16..])?;
            }
            (SOL_IP, IP_ORIGDSTADDR) => {
                let address = IpAddr::from(*data.get(4..)?.first_chunk::<4>()?);
                self.destination.get_or_insert(address);
            }
            (SOL_IP, IP_TTL) | (SOL_IPV6, IPV6_HOPLIMIT) => self.ttl = number(data)? as u8,
            (SOL_IP, IP_TOS) => self.tos = *data.first()?,
            (SOL_IPV6, IPV6_TCLASS) => self.tos = number(data)? as u8,
            (SOL_SOCKET, SO_RXQ_OVFL) => self.dropped = Some(number(data)?),
            (SOL_SOCKET, SO_TIMESTAMP) => self.received_ns = time_ns(data, 1000)?,
            (SOL_SOCKET, SO_TIMESTAMPNS) => self.received_ns = time_ns(data, 1)?,
            (SOL_SOCKET, SO_TIMESTAMPING) => {
                (self.received_ns, self.device_ns) = (time_ns(data, 1)?, time_ns(data.get(32..)?, 1)?);
            }
            _ => {}
        }
        Some(())
    }

    fn datagram<'p>(
        &self,
        now: Now,
        socket: &UdpSocket,
        payload: &'p [u8],
        source: Option<SocketAddr>,
    ) -> Datagram<'p> {
        let nobody = || SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        let mut source = source.unwrap_or_else(nobody);
        if source.ip().to_canonical() != source.ip() {
            source.set_ip(source.ip().to_canonical());
        }
        let local =
            || socket.local.map(|local| local.ip().to_canonical()).filter(|local| local.is_ipv4() == source.is_ipv4());
        let any = || if source.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { source.ip() };
        let received_ns =
            if self.received_ns == 0 && socket.wants_stamps() { now.clocks.time_of_day_ns } else { self.received_ns };
        Datagram {
            payload,
            source,
            destination: self.destination.or_else(local).unwrap_or_else(any),
            ifindex: self.ifindex,
            ttl: self.ttl,
            tos: self.tos,
            received_ns,
            device_ns: self.device_ns,
            dropped_before: 0,
        }
    }
}

fn number(data: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*data.first_chunk()?))
}

/// A time of seconds and a part of one, as a 64-bit kernel has it.
fn time_ns(data: &[u8], part_ns: u64) -> Option<u64> {
    let word = |at: usize| Some(u64::from_ne_bytes(*data.get(at..)?.first_chunk()?));
    Some(word(0)? * 1_000_000_000 + word(8)? * part_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (16 + data.len()).to_ne_bytes().to_vec();
        bytes.extend([level.to_ne_bytes(), kind.to_ne_bytes()].as_flattened());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn control_messages_of_the_kernel_read_say_the_same_as_those_of_the_stack_would() {
        let pktinfo = [7_u32.to_ne_bytes(), [10, 0, 0, 9], [10, 0, 0, 1]].concat();
        let stamp = [3_u64.to_ne_bytes(), 5_u64.to_ne_bytes()].concat();
        let stamping = [3_u64, 6, 0, 0, 4, 8].map(u64::to_ne_bytes).concat();
        let common = [
            message(SOL_IP, IP_PKTINFO, &pktinfo),
            message(SOL_IP, IP_TTL, &64_u32.to_ne_bytes()),
            message(SOL_IP, IP_TOS, &[4]),
            message(SOL_SOCKET, SO_RXQ_OVFL, &11_u32.to_ne_bytes()),
        ]
        .concat();
        let destination = Some(IpAddr::from([10, 0, 0, 1]));
        let wanted = Beside { destination, ifindex: 7, ttl: 64, tos: 4, dropped: Some(11), ..Beside::default() };
        assert_eq!(Beside::read(&common), wanted);
        let times = [
            (message(SOL_SOCKET, SO_TIMESTAMP, &stamp), 3_000_005_000, 0),
            (message(SOL_SOCKET, SO_TIMESTAMPNS, &stamp), 3_000_000_005, 0),
            (message(SOL_SOCKET, SO_TIMESTAMPING, &stamping), 3_000_000_006, 4_000_000_008),
        ];
        for (message, received_ns, device_ns) in times {
            assert_eq!(Beside::read(&message), Beside { received_ns, device_ns, ..Beside::default() });
        }
        let v6 =
            ["fe80::1".parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec(), 9_u32.to_ne_bytes().to_vec()].concat();
        let bytes =
            [message(SOL_IPV6, IPV6_PKTINFO, &v6), message(SOL_IPV6, IPV6_HOPLIMIT, &1_u32.to_ne_bytes())].concat();
        let destination = Some("fe80::1".parse().unwrap());
        assert_eq!(Beside::read(&bytes), Beside { destination, ifindex: 9, ttl: 1, ..Beside::default() });
    }
}
