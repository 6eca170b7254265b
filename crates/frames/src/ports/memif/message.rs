//! Control messages: 128 bytes each, in the byte order of the host, with at most one descriptor beside them.
//!
//! Source: DPDK `drivers/net/memif/memif.h`, VPP `src/plugins/memif/memif.h` (version 2.0 of both). Those structures are packed; here each
//! field has its place, which a test compares with such a structure.

use super::error::MemifError;

/// Length of every control message, bytes.
pub(super) const MESSAGE_BYTES: usize = 128;
/// Version 2.0: major in the upper byte.
pub(super) const VERSION: u16 = 0x0200;
/// Length of a name, bytes, padded with zeroes.
pub(super) const NAME_BYTES: usize = 32;
/// Length of a secret, bytes, padded with zeroes.
pub(super) const SECRET_BYTES: usize = 24;
/// Length of a reason, bytes, padded with zeroes.
const REASON_BYTES: usize = 96;
/// Ethernet frames are carried.
pub(super) const MODE_ETHERNET: u8 = 0;
/// The client sends through the ring.
const RING_FLAG_CLIENT_TO_SERVER: u16 = 1;

/// Where the fields of each message are.
pub(super) mod at {
    pub const TYPE: usize = 0;
    pub const HELLO_NAME: usize = 2;
    pub const HELLO_LEAST_VERSION: usize = 34;
    pub const HELLO_MOST_VERSION: usize = 36;
    pub const HELLO_LAST_REGION: usize = 38;
    pub const HELLO_LAST_S2C_RING: usize = 40;
    pub const HELLO_LAST_C2S_RING: usize = 42;
    pub const HELLO_RING_SIZE_LOG2: usize = 44;
    pub const INIT_VERSION: usize = 2;
    pub const INIT_ID: usize = 4;
    pub const INIT_MODE: usize = 8;
    pub const INIT_SECRET: usize = 9;
    pub const INIT_NAME: usize = 33;
    pub const REGION_NUMBER: usize = 2;
    pub const REGION_LENGTH: usize = 4;
    pub const RING_FLAGS: usize = 2;
    pub const RING_NUMBER: usize = 4;
    pub const RING_REGION: usize = 6;
    pub const RING_OFFSET: usize = 8;
    pub const RING_SIZE_LOG2: usize = 12;
    pub const RING_PRIVATE_HEADER: usize = 13;
    pub const CONNECT_NAME: usize = 2;
    pub const DISCONNECT_CODE: usize = 2;
    pub const DISCONNECT_REASON: usize = 6;
}

mod kind {
    pub const ACK: u16 = 1;
    pub const HELLO: u16 = 2;
    pub const INIT: u16 = 3;
    pub const ADD_REGION: u16 = 4;
    pub const ADD_RING: u16 = 5;
    pub const CONNECT: u16 = 6;
    pub const CONNECTED: u16 = 7;
    pub const DISCONNECT: u16 = 8;
}

/// Which end sends through a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ClientToServer,
    ServerToClient,
}

impl Direction {
    /// For people.
    pub(super) const fn in_words(self) -> &'static str {
        match self {
            Direction::ClientToServer => "client to server",
            Direction::ServerToClient => "server to client",
        }
    }
}

/// What a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hello {
    pub name: [u8; NAME_BYTES],
    pub least_version: u16,
    pub most_version: u16,
    pub last_region: u16,
    pub last_s2c_ring: u16,
    pub last_c2s_ring: u16,
    pub ring_size_log2: u8,
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Init {
    pub version: u16,
    pub id: u32,
    pub mode: u8,
    pub secret: [u8; SECRET_BYTES],
    pub name: [u8; NAME_BYTES],
}

/// Where a ring is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AddRing {
    pub direction: Direction,
    pub number: u16,
    pub region: u16,
    pub offset_bytes: u32,
    pub size_log2: u8,
    pub private_header_bytes: u16,
}

/// A control message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    Ack,
    Hello(Hello),
    Init(Init),
    AddRegion { number: u16, length_bytes: u64 },
    AddRing(AddRing),
    Connect { name: [u8; NAME_BYTES] },
    Connected { name: [u8; NAME_BYTES] },
    Disconnect { code: u32, reason: String },
}

/// `text` in a field of `N` bytes, which a zero ends.
pub(super) fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut field = [0; N];
    let kept = text.len().min(N - 1);
    field[..kept].copy_from_slice(&text[..kept]);
    field
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    // A peer's words go to people's terminals.
    String::from_utf8_lossy(&field[..end]).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

struct Fields([u8; MESSAGE_BYTES]);

impl Fields {
    fn new(kind: u16) -> Fields {
        Fields([0; MESSAGE_BYTES]).with(at::TYPE, &kind.to_ne_bytes())
    }

    fn with(mut self, at: usize, bytes: &[u8]) -> Fields {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|n| self.0[at + n])
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.bytes(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes(at))
    }
}

impl Message {
    /// The message's bytes.
    pub(super) fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let fields = match self {
            Message::Ack => Fields::new(kind::ACK),
            Message::Hello(hello) => hello.encode(),
            Message::Init(init) => init.encode(),
            Message::AddRegion { number, length_bytes } => Fields::new(kind::ADD_REGION)
                .with(at::REGION_NUMBER, &number.to_ne_bytes())
                .with(at::REGION_LENGTH, &length_bytes.to_ne_bytes()),
            Message::AddRing(ring) => ring.encode(),
            Message::Connect { name } => Fields::new(kind::CONNECT).with(at::CONNECT_NAME, name),
            Message::Connected { name } => Fields::new(kind::CONNECTED).with(at::CONNECT_NAME, name),
            Message::Disconnect { code, reason } => Fields::new(kind::DISCONNECT)
                .with(at::DISCONNECT_CODE, &code.to_ne_bytes())
                .with(at::DISCONNECT_REASON, &padded::<REASON_BYTES>(reason.as_bytes())),
        };
        fields.0
    }

    /// What the bytes say. Any value is possible in any field; whether it makes sense is for the reader to judge.
    ///
    /// # Errors
    /// No message has such a type: it is told with `wanted`, what was to come.
    pub(super) fn decode(bytes: &[u8; MESSAGE_BYTES], wanted: &'static str) -> Result<Message, MemifError> {
        let fields = Fields(*bytes);
        Ok(match fields.u16(at::TYPE) {
            kind::ACK => Message::Ack,
            kind::HELLO => Message::Hello(Hello::decode(&fields)),
            kind::INIT => Message::Init(Init::decode(&fields)),
            kind::ADD_REGION => Message::AddRegion {
                number: fields.u16(at::REGION_NUMBER),
                length_bytes: u64::from_ne_bytes(fields.bytes(at::REGION_LENGTH)),
            },
            kind::ADD_RING => Message::AddRing(AddRing::decode(&fields)),
            kind::CONNECT => Message::Connect { name: fields.bytes(at::CONNECT_NAME) },
            kind::CONNECTED => Message::Connected { name: fields.bytes(at::CONNECT_NAME) },
            kind::DISCONNECT => {
                let reason = text(&fields.bytes::<REASON_BYTES>(at::DISCONNECT_REASON));
                Message::Disconnect { code: fields.u32(at::DISCONNECT_CODE), reason }
            }
            found => return Err(MemifError::UnexpectedMessage { found, wanted }),
        })
    }

    /// The number of its type.
    pub(super) const fn kind(&self) -> u16 {
        match self {
            Message::Ack => kind::ACK,
            Message::Hello(_) => kind::HELLO,
            Message::Init(_) => kind::INIT,
            Message::AddRegion { .. } => kind::ADD_REGION,
            Message::AddRing(_) => kind::ADD_RING,
            Message::Connect { .. } => kind::CONNECT,
            Message::Connected { .. } => kind::CONNECTED,
            Message::Disconnect { .. } => kind::DISCONNECT,
        }
    }
}

impl Hello {
    fn encode(&self) -> Fields {
        Fields::new(kind::HELLO)
            .with(at::HELLO_NAME, &self.name)
            .with(at::HELLO_LEAST_VERSION, &self.least_version.to_ne_bytes())
            .with(at::HELLO_MOST_VERSION, &self.most_version.to_ne_bytes())
            .with(at::HELLO_LAST_REGION, &self.last_region.to_ne_bytes())
            .with(at::HELLO_LAST_S2C_RING, &self.last_s2c_ring.to_ne_bytes())
            .with(at::HELLO_LAST_C2S_RING, &self.last_c2s_ring.to_ne_bytes())
            .with(at::HELLO_RING_SIZE_LOG2, &[self.ring_size_log2])
    }

    fn decode(fields: &Fields) -> Hello {
        Hello {
            name: fields.bytes(at::HELLO_NAME),
            least_version: fields.u16(at::HELLO_LEAST_VERSION),
            most_version: fields.u16(at::HELLO_MOST_VERSION),
            last_region: fields.u16(at::HELLO_LAST_REGION),
            last_s2c_ring: fields.u16(at::HELLO_LAST_S2C_RING),
            last_c2s_ring: fields.u16(at::HELLO_LAST_C2S_RING),
            ring_size_log2: fields.0[at::HELLO_RING_SIZE_LOG2],
        }
    }
}

impl Init {
    fn encode(&self) -> Fields {
        Fields::new(kind::INIT)
            .with(at::INIT_VERSION, &self.version.to_ne_bytes())
            .with(at::INIT_ID, &self.id.to_ne_bytes())
            .with(at::INIT_MODE, &[self.mode])
            .with(at::INIT_SECRET, &self.secret)
            .with(at::INIT_NAME, &self.name)
    }

    fn decode(fields: &Fields) -> Init {
        Init {
            version: fields.u16(at::INIT_VERSION),
            id: fields.u32(at::INIT_ID),
            mode: fields.0[at::INIT_MODE],
            secret: fields.bytes(at::INIT_SECRET),
            name: fields.bytes(at::INIT_NAME),
        }
    }
}

impl AddRing {
    fn encode(&self) -> Fields {
        let flags = if self.direction == Direction::ClientToServer { RING_FLAG_CLIENT_TO_SERVER } else { 0 };
        Fields::new(kind::ADD_RING)
            .with(at::RING_FLAGS, &flags.to_ne_bytes())
            .with(at::RING_NUMBER, &self.number.to_ne_bytes())
            .with(at::RING_REGION, &self.region.to_ne_bytes())
            .with(at::RING_OFFSET, &self.offset_bytes.to_ne_bytes())
            .with(at::RING_SIZE_LOG2, &[self.size_log2])
            .with(at::RING_PRIVATE_HEADER, &self.private_header_bytes.to_ne_bytes())
    }

    fn decode(fields: &Fields) -> AddRing {
        let from_client = fields.u16(at::RING_FLAGS) & RING_FLAG_CLIENT_TO_SERVER != 0;
        AddRing {
            direction: if from_client { Direction::ClientToServer } else { Direction::ServerToClient },
            number: fields.u16(at::RING_NUMBER),
            region: fields.u16(at::RING_REGION),
            offset_bytes: fields.u32(at::RING_OFFSET),
            size_log2: fields.0[at::RING_SIZE_LOG2],
            private_header_bytes: fields.u16(at::RING_PRIVATE_HEADER),
        }
    }
}

#[cfg(test)]
mod tests;
