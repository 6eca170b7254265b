//! The reader's side of the status page. Its bytes may come from anybody.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use thiserror::Error;

use super::layout::{self, Bracket, Counter, EngineState, Field, HEADER, SocketCounter, SocketState, Waiting};
use crate::config::Spin;
use crate::reason::{Handed, Reason};

/// Why bytes are no status page.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum PageError {
    /// Nothing written yet, or not ours.
    #[error("the page does not begin as a status page does")]
    NoMagic,
    /// Another version of Nearwire.
    #[error("the page has layout {found}, this nearwire reads layout {}; use the nearwire of that library", layout::MAGIC >> layout::VERSION_SHIFT)]
    OtherVersion {
        /// The version found.
        found: u8,
    },
    /// Cut.
    #[error("the page has {found_bytes} bytes instead of {}", layout::PAGE_BYTES)]
    TooShort {
        /// The length found.
        found_bytes: usize,
    },
}

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The process, by its pid in its own namespace.
    pub pid: u64,
    /// When it started, in clock ticks after boot.
    pub started_ticks: u64,
    /// CLOCK_MONOTONIC when the page was made.
    pub since_ns: u64,
    /// The version of the library.
    pub library_version: String,
    /// How calls wait.
    pub spin: Spin,
    /// What that comes to where it is [`Spin::Auto`].
    pub waiting: Option<Waiting>,
    /// Whether what cannot be accelerated is an error.
    pub is_strict: bool,
    /// The effective configuration, as a file would have it.
    pub config: String,
    /// What the engine is doing; `None` for a word that has no meaning.
    pub engine: Option<EngineState>,
    /// Why it serves nothing.
    pub engine_reason: Option<Reason>,
    /// More words about it.
    pub engine_text: String,
    /// How many engines serve, 1 or more.
    pub engines: u64,
    /// The interfaces.
    pub interfaces: Vec<InterfaceStatus>,
    /// The counters of all engines together, in the order of [`Counter::ALL`].
    pub counters: Vec<(Counter, u64)>,
    /// Calls handed to the kernel, by reason; those that happened.
    pub handed: Vec<(Handed, u64)>,
    /// The sockets, in the order of their slots.
    pub sockets: Vec<SocketStatus>,
    /// The copy was made while something of it changed: another copy will be better.
    pub is_torn: bool,
}

/// What it says of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// Its index.
    pub ifindex: u32,
    /// Why it is not used.
    pub reason: Option<Reason>,
    /// Queues served.
    pub queues: u64,
    /// How sockets are attached.
    pub mode: String,
    /// The port in words, or the error.
    pub text: String,
}

/// What it says of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketStatus {
    /// The number of its slot.
    pub slot: usize,
    /// The program's fd.
    pub fd: i32,
    /// Whether the engine serves it.
    pub is_accelerated: bool,
    /// Why it does not.
    pub reason: Option<Reason>,
    /// What belongs to the reason; see [`Reason::sentence`].
    pub detail: u64,
    /// The address it is bound to.
    pub local: Option<SocketAddr>,
    /// The address it is connected to.
    pub remote: Option<SocketAddr>,
    /// The interface whose port serves it; 0 for several.
    pub ifindex: u32,
    /// The number of the engine that serves it, from 0.
    pub engine: u32,
    /// Of a TCP connection.
    pub connection: Option<ConnectionStatus>,
    /// Its counters, in the order of [`SocketCounter::ALL`]. Of a connection what the stack does: a "datagram" is what one call received or sent.
    pub counters: Vec<(SocketCounter, u64)>,
}

/// What it says of a TCP connection beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// CLOCK_MONOTONIC when it came to who has it.
    pub since_ns: u64,
    /// How often it was adopted.
    pub adopted: u64,
    /// How often it was released.
    pub released: u64,
    /// SRTT since it was adopted last; 0: nothing was measured.
    pub round_trip_ns: u64,
    /// Segments sent again since then.
    pub retransmitted_segments: u64,
}

impl SocketStatus {
    /// One of its counters.
    #[must_use]
    pub fn counter(&self, counter: SocketCounter) -> u64 {
        self.counters.iter().find(|(found, _)| *found == counter).map_or(0, |(_, value)| *value)
    }

    /// Why the kernel serves it, in words; empty for one that is accelerated.
    #[must_use]
    pub fn why(&self) -> String {
        match self.reason {
            _ if self.is_accelerated => String::new(),
            Some(reason) => reason.sentence(self.detail),
            None => "the page gives no reason".to_owned(),
        }
    }
}

impl Status {
    /// One of the counters of the process.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters.iter().find(|(found, _)| *found == counter).map_or(0, |(_, value)| *value)
    }
}

/// A copy of a page.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Looks at a copy of the bytes of a page, made forward.
    ///
    /// # Errors
    /// They are no page, or one of another version.
    pub fn new(bytes: &'a [u8]) -> Result<Reader<'a>, PageError> {
        let reader = Reader { bytes };
        let version_bits = 0xff << layout::VERSION_SHIFT;
        let magic = reader.word(layout::PAGE_MAGIC.at);
        if (magic ^ layout::MAGIC) & !version_bits != 0 {
            return Err(PageError::NoMagic);
        }
        if magic != layout::MAGIC {
            return Err(PageError::OtherVersion { found: (magic >> layout::VERSION_SHIFT) as u8 });
        }
        if bytes.len() < layout::PAGE_BYTES {
            return Err(PageError::TooShort { found_bytes: bytes.len() });
        }
        Ok(reader)
    }

    /// All that it says. Values without a meaning are left out.
    #[must_use]
    pub fn status(&self) -> Status {
        let slots = (0..layout::SLOTS).map(|slot| self.socket(slot));
        let mut is_torn = !self.is_whole(HEADER);
        let mut sockets = Vec::new();
        for slot in slots {
            match slot {
                Slot::Free => {}
                Slot::Torn => is_torn = true,
                Slot::Socket(socket) => sockets.push(socket),
            }
        }
        let interfaces = usize::try_from(self.get(layout::INTERFACE_COUNT)).unwrap_or(0).min(layout::INTERFACES);
        let handed = (0..Handed::END).filter_map(|number| {
            let count = self.sum(layout::HANDED, number);
            Handed::of_number(number).filter(|_| count > 0).map(|handed| (handed, count))
        });
        Status {
            pid: self.get(layout::PID),
            started_ticks: self.get(layout::STARTED_TICKS),
            since_ns: self.get(layout::SINCE_NS),
            library_version: self.line(layout::LIBRARY_VERSION),
            spin: match self.get(layout::SPIN_NS) {
                u64::MAX => Spin::Forever,
                layout::SPIN_AUTO => Spin::Auto,
                ns => Spin::For(Duration::from_nanos(ns)),
            },
            waiting: of_number(Waiting::ALL, self.get(layout::WAITING))
                .filter(|_| self.get(layout::SPIN_NS) == layout::SPIN_AUTO),
            is_strict: self.get(layout::STRICT) != 0,
            config: self.text(layout::CONFIG),
            engine: of_number(EngineState::ALL, self.get(layout::ENGINE_STATE)),
            engine_reason: self.reason(layout::ENGINE_REASON),
            engine_text: self.line(layout::ENGINE_TEXT),
            engines: self.get(layout::ENGINE_COUNT).max(1),
            interfaces: (0..interfaces).map(|number| self.interface(number)).collect(),
            counters: Counter::ALL
                .iter()
                .map(|counter| (*counter, self.sum(layout::COUNTERS, *counter as usize)))
                .collect(),
            handed: handed.collect(),
            sockets,
            is_torn,
        }
    }

    fn interface(&self, number: usize) -> InterfaceStatus {
        let start = layout::interface_start(number);
        InterfaceStatus {
            name: self.line(layout::INTERFACE_NAME.of(start)),
            ifindex: self.get(layout::INTERFACE_INDEX.of(start)) as u32,
            reason: self.reason(layout::INTERFACE_REASON.of(start)),
            queues: self.get(layout::INTERFACE_QUEUES.of(start)),
            mode: self.line(layout::INTERFACE_MODE.of(start)),
            text: self.line(layout::INTERFACE_TEXT.of(start)),
        }
    }

    fn socket(&self, slot: usize) -> Slot {
        let start = layout::slot_start(slot);
        let at = |field: Field| field.of(start);
        let bracket = Bracket { first: at(layout::SOCKET_FIRST).at, last: at(layout::SOCKET_LAST).at };
        if !self.is_whole(bracket) {
            return Slot::Torn;
        }
        let is_accelerated = match of_number(SocketState::ALL, self.get(at(layout::SOCKET_STATE))) {
            Some(SocketState::Accelerated) => true,
            Some(SocketState::Kernel) => false,
            Some(SocketState::Free) | None => return Slot::Free,
        };
        Slot::Socket(SocketStatus {
            slot,
            fd: self.get(at(layout::SOCKET_FD)) as u32 as i32,
            is_accelerated,
            reason: self.reason(at(layout::SOCKET_REASON)),
            detail: self.get(at(layout::SOCKET_DETAIL)),
            local: self.address(at(layout::SOCKET_LOCAL)),
            remote: self.address(at(layout::SOCKET_REMOTE)),
            ifindex: self.get(at(layout::SOCKET_INTERFACE)) as u32,
            engine: self.get(at(layout::SOCKET_ENGINE)) as u32,
            connection: (self.get(at(layout::SOCKET_IS_CONNECTION)) == 1).then(|| ConnectionStatus {
                since_ns: self.get(at(layout::SOCKET_SINCE_NS)),
                adopted: self.get(at(layout::SOCKET_ADOPTED)),
                released: self.get(at(layout::SOCKET_RELEASED)),
                round_trip_ns: self.get(at(layout::SOCKET_ROUND_TRIP_NS)),
                retransmitted_segments: self.get(at(layout::SOCKET_RETRANSMITTED)),
            }),
            counters: self.socket_counters(at(layout::SOCKET_COUNTERS)),
        })
    }

    fn is_whole(&self, bracket: Bracket) -> bool {
        self.word(bracket.first) == self.word(bracket.last)
    }

    fn socket_counters(&self, field: Field) -> Vec<(SocketCounter, u64)> {
        SocketCounter::ALL.iter().map(|counter| (*counter, self.word(field.at + *counter as usize))).collect()
    }

    /// One of the counters of all blocks.
    fn sum(&self, field: Field, number: usize) -> u64 {
        let starts = (0..layout::BLOCKS).map(layout::block_start);
        starts.map(|start| self.word(field.of(start).at + number)).fold(0, u64::wrapping_add)
    }

    fn reason(&self, field: Field) -> Option<Reason> {
        of_number(Reason::ALL, self.get(field).checked_sub(1)?)
    }

    fn address(&self, field: Field) -> Option<SocketAddr> {
        let [high, low, about] = [0, 1, 2].map(|number| self.word(field.at + number));
        let port = about as u16;
        match about >> 16 & 0xffff {
            4 => Some((IpAddr::V4(Ipv4Addr::from_bits(low as u32)), port).into()),
            6 => {
                let address = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
                Some(SocketAddrV6::new(address, port, 0, (about >> 32) as u32).into())
            }
            _ => None,
        }
    }

    /// A text on one line.
    fn line(&self, field: Field) -> String {
        self.text(field).replace(char::is_control, "\u{fffd}")
    }

    fn text(&self, field: Field) -> String {
        let room = self.bytes.get((field.at + 1) * 8..(field.at + field.words) * 8).unwrap_or_default();
        let length = usize::try_from(self.get(field)).unwrap_or(usize::MAX).min(room.len());
        String::from_utf8_lossy(&room[..length]).into_owned()
    }

    fn get(&self, field: Field) -> u64 {
        self.word(field.at)
    }

    fn word(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at * 8..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }
}

enum Slot {
    Free,
    /// Changed while it was copied.
    Torn,
    Socket(SocketStatus),
}

fn of_number<T: Copy>(all: &[T], number: u64) -> Option<T> {
    all.get(usize::try_from(number).ok()?).copied()
}
