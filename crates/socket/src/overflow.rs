//! Bursts that the rings have no room for, while the program does not read: the kernel queues them at the shadows, and they are
//! taken over in their order.
//!
//! While it overflows, a port's program gives the kernel all frames of this engine, so what is in the rings is older than
//! what the kernel has, and that is older than what will be in the rings. So: rings first, then shadows, into the same queues, and then
//! the port is told that it is settled ([`nearwire_frames::EnginePort::settle_overflow`]).
//!
//! A bundle of datagrams (`frames/src/steering/credits.rs`) is counted as the fewest that it can be.
//!
//! Between the program's decision and the shadow's queue a frame is counted nowhere, for as long as a driver's round takes.
//! Nothing may come by the rings before it. Where as many datagrams were taken over as frames were passed, there is none. Else some
//! were dropped by the kernel, or are under way: frames come by the rings again and are left there for [`IN_TRANSIT_TICKS`], after
//! which the shadows are looked at, until the datagrams that were taken over and those that the shadows dropped add up to all, but no longer than
//! [`HOLD_MOST_TICKS`].
//!
//! A socket whose receive buffer is full leaves the rest with its shadow, whose buffer the kernel accounts for. What arrives for
//! it by the rings meanwhile is dropped, as by the kernel, whose buffer would hold the older ones.
//!
//! A program may compute while frames are held, and rings fill anew. What the kernel gets then is newer than what is in them, so
//! before them only as much is taken over as was under way when they began to be held. Limit: where that was for several sockets,
//! a socket may get so many newer ones first that take the place of another's older ones.

mod all_beside;
mod follow;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use libc::{
    IP_PKTINFO, IP_TOS, IP_TTL, IPV6_HOPLIMIT, IPV6_PKTINFO, IPV6_TCLASS, SO_RXQ_OVFL, SO_TIMESTAMP, SO_TIMESTAMPING,
    SO_TIMESTAMPNS, SOL_IP, SOL_IPV6, SOL_SOCKET,
};
use nearwire_stack::Datagram;
use nearwire_sys::receive::control_messages;

use crate::now::Now;
use crate::socket::Socket;

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
    /// Of these, those that the port reports although it did before.
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

/// What the kernel says beside a datagram: what the socket's options ask for ([`all_beside`]).
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
            // Only the kernel could cut these messages short, and it does not.
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

    fn datagram<'p>(&self, now: Now, socket: &Socket, payload: &'p [u8], source: Option<SocketAddr>) -> Datagram<'p> {
        let nobody = || SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        let mut source = source.unwrap_or_else(nobody);
        if source.ip().to_canonical() != source.ip() {
            source.set_ip(source.ip().to_canonical());
        }
        let local = || {
            socket.ends.local.map(|local| local.ip().to_canonical()).filter(|local| local.is_ipv4() == source.is_ipv4())
        };
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
            is_by_kernel: true,
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
