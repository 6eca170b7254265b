//! Options of TCP headers (RFC 9293 section 3.2, RFC 7323, RFC 2018).

/// The longest options of a header, bytes.
pub const OPTIONS_BYTES_MAX: usize = 40;
/// The most blocks that fit into one header.
pub const BLOCKS_MAX: usize = 4;
/// The largest shift of a window (RFC 7323 section 2.3).
pub const WINDOW_SCALE_MAX: u8 = 14;

// Kinds (IANA, TCP Option Kind Numbers).
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MAXIMUM_SEGMENT: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SELECTIVE_PERMITTED: u8 = 4;
const SELECTIVE: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Timestamps of a segment (RFC 7323 section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timestamps {
    /// The sender's clock, TSval.
    pub value: u32,
    /// What the sender last had from the receiver of this, TSecr.
    pub echo: u32,
}

/// Sequence numbers that the sender has received beyond its acknowledgement (RFC 2018 section 3): from `left` to before `right`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Block {
    /// The first.
    pub left: u32,
    /// One after the last.
    pub right: u32,
}

/// A few blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Blocks {
    all: [Block; BLOCKS_MAX],
    count: u8,
}

impl Blocks {
    /// The first [`BLOCKS_MAX`] of these.
    #[must_use]
    pub fn new(blocks: &[Block]) -> Blocks {
        let count = blocks.len().min(BLOCKS_MAX);
        let mut all = [Block::default(); BLOCKS_MAX];
        all[..count].copy_from_slice(&blocks[..count]);
        Blocks { all, count: count as u8 }
    }

    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[Block] {
        &self.all[..self.count.into()]
    }
}

/// What options say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// The largest segment that the sender takes, bytes; in a SYN.
    pub maximum_segment: Option<u16>,
    /// The shift of the sender's windows, at most [`WINDOW_SCALE_MAX`]; in a SYN.
    pub window_scale: Option<u8>,
    /// The sender takes selective acknowledgements; in a SYN.
    pub selective_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgements; three fit beside timestamps.
    pub blocks: Blocks,
}

/// Takes options apart. What comes behind one of an impossible length is left out, as Linux does (`tcp_parse_options`).
#[must_use]
pub fn parse(mut bytes: &[u8]) -> Options {
    let mut options = Options::default();
    loop {
        let (kind, value) = match *bytes {
            [] | [END, ..] => return options,
            [NO_OPERATION, ref rest @ ..] => {
                bytes = rest;
                continue;
            }
            [kind, length, ..] if length >= 2 && usize::from(length) <= bytes.len() => {
                let (option, rest) = bytes.split_at(length.into());
                bytes = rest;
                (kind, &option[2..])
            }
            //= RFC 9293 3.1 MUST: an option of an illegal length does no harm
            _ => return options,
        };
        options.take(kind, value);
    }
}

impl Options {
    fn take(&mut self, kind: u8, value: &[u8]) {
        match (kind, value) {
            (MAXIMUM_SEGMENT, &[high, low]) => self.maximum_segment = Some(u16::from_be_bytes([high, low])),
            //= RFC 7323 2.3 MUST: a larger shift counts as 14
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift.min(WINDOW_SCALE_MAX)),
            (SELECTIVE_PERMITTED, []) => self.selective_permitted = true,
            (SELECTIVE, blocks) if blocks.len().is_multiple_of(8) => {
                let (pairs, _) = blocks.as_chunks::<8>();
                let block = |&[a, b, c, d, e, f, g, h]: &[u8; 8]| Block {
                    left: u32::from_be_bytes([a, b, c, d]),
                    right: u32::from_be_bytes([e, f, g, h]),
                };
                let mut all = [Block::default(); BLOCKS_MAX];
                all.iter_mut().zip(pairs).for_each(|(one, pair)| *one = block(pair));
                self.blocks = Blocks::new(&all[..pairs.len().min(BLOCKS_MAX)]);
            }
            (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => {
                self.timestamps = Some(Timestamps {
                    value: u32::from_be_bytes([a, b, c, d]),
                    echo: u32::from_be_bytes([e, f, g, h]),
                });
            }
            //= RFC 9293 3.1 MUST: an option that is not known is ignored
            _ => {}
        }
    }

    /// Writes them, in words of four bytes filled with no-operations in front, as Linux lays them out (`tcp_options_write`). Returns how
    /// many bytes. Blocks that find no room are left out.
    pub fn write(&self, bytes: &mut [u8; OPTIONS_BYTES_MAX]) -> usize {
        let mut written = Written { bytes, count: 0 };
        if let Some(maximum_segment) = self.maximum_segment {
            written.put(&[MAXIMUM_SEGMENT, 4]);
            written.put(&maximum_segment.to_be_bytes());
        }
        if self.selective_permitted {
            written.put(&[NO_OPERATION, NO_OPERATION, SELECTIVE_PERMITTED, 2]);
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            written.put(&[NO_OPERATION, NO_OPERATION, TIMESTAMPS, 10]);
            written.put(&value.to_be_bytes());
            written.put(&echo.to_be_bytes());
        }
        if let Some(shift) = self.window_scale {
            written.put(&[NO_OPERATION, WINDOW_SCALE, 3, shift]);
        }
        let most = (OPTIONS_BYTES_MAX - written.count).saturating_sub(4) / 8;
        let blocks = self.blocks.as_slice();
        let blocks = &blocks[..blocks.len().min(most)];
        if !blocks.is_empty() {
            written.put(&[NO_OPERATION, NO_OPERATION, SELECTIVE, 2 + 8 * blocks.len() as u8]);
        }
        for Block { left, right } in blocks {
            written.put(&left.to_be_bytes());
            written.put(&right.to_be_bytes());
        }
        written.count
    }
}

/// Options that are being written: without blocks they have 24 bytes at most.
struct Written<'a> {
    bytes: &'a mut [u8; OPTIONS_BYTES_MAX],
    count: usize,
}

impl Written<'_> {
    fn put(&mut self, part: &[u8]) {
        self.bytes[self.count..self.count + part.len()].copy_from_slice(part);
        self.count += part.len();
    }
}
