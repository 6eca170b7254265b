//! Capture files: what is written is read back.

use nearwire_frames::capture::{Direction, PcapngWriter};

use crate::bytes::Bytes;

/// A block as a reader sees it, without its type and lengths.
#[derive(Debug)]
pub struct Block {
    /// Its type.
    pub kind: u32,
    /// What is between the lengths.
    pub body: Vec<u8>,
}

/// The words at the start, then frames of an input.
pub fn check(input: &[u8]) {
    let mut bytes = Bytes(input);
    let words_bytes = usize::from(bytes.u8()) * 8;
    let words = String::from_utf8_lossy(bytes.take(words_bytes)).into_owned();
    let name = words.get(..15).filter(|_| bytes.bool());
    let mut writer = PcapngWriter::start(Vec::new(), name, &words).expect("memory takes it");
    let mut written = Vec::new();
    while !bytes.is_empty() {
        let (time_ns, how, len_bytes) = (bytes.u64(), bytes.bool(), usize::from(bytes.u8()));
        let frame = bytes.take(len_bytes);
        let direction = if how { Direction::Inbound } else { Direction::Outbound };
        writer.frame(time_ns, direction, frame);
        written.push((time_ns, direction as u32, frame.to_vec()));
    }
    let file = writer.finish(7, written.len() as u64, 0).expect("memory takes it");
    let blocks = blocks(&file);
    let kinds: Vec<u32> = blocks.iter().map(|block| block.kind).collect();
    assert_eq!(kinds[..2], [0x0a0d_0d0a, 1]);
    assert_eq!(kinds.last(), Some(&5));
    assert!(!options(&blocks[0].body[16..]).is_empty());
    let of_interface = options(&blocks[1].body[8..]);
    let description = of_interface.iter().find(|(code, _)| *code == 3).map(|(_, value)| value.as_slice());
    let description = std::str::from_utf8(description.expect("is there")).expect("options are UTF-8");
    assert!(words.starts_with(description));
    let packets: Vec<_> = blocks[2..blocks.len() - 1].iter().map(packet).collect();
    assert_eq!(packets, written);
}

/// Reads blocks and checks what every block must have.
#[must_use]
pub fn blocks(mut file: &[u8]) -> Vec<Block> {
    let mut blocks = Vec::new();
    while !file.is_empty() {
        let kind = u32_at(file, 0);
        let length = u32_at(file, 4) as usize;
        assert_eq!(length % 4, 0);
        assert_eq!(u32_at(file, length - 4) as usize, length, "both lengths agree");
        blocks.push(Block { kind, body: file[8..length - 4].to_vec() });
        file = &file[length..];
    }
    blocks
}

/// A number of 32 bits in the order of this CPU.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|n| bytes[at + n]))
}

/// The options at the end of a block: code and value.
#[must_use]
pub fn options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut options = Vec::new();
    loop {
        let code = u16::from_ne_bytes([bytes[0], bytes[1]]);
        let length = usize::from(u16::from_ne_bytes([bytes[2], bytes[3]]));
        if code == 0 {
            assert_eq!(bytes.len(), 4, "the end of options ends the block");
            return options;
        }
        options.push((code, bytes[4..4 + length].to_vec()));
        bytes = &bytes[(4 + length).next_multiple_of(4)..];
    }
}

/// A packet block's time, direction and frame.
#[must_use]
pub fn packet(block: &Block) -> (u64, u32, Vec<u8>) {
    assert_eq!((block.kind, u32_at(&block.body, 0)), (6, 0));
    let time_ns = u64::from(u32_at(&block.body, 4)) << 32 | u64::from(u32_at(&block.body, 8));
    let length = u32_at(&block.body, 12) as usize;
    assert_eq!(u32_at(&block.body, 16) as usize, length);
    let flags = options(&block.body[20 + length.next_multiple_of(4)..]);
    assert_eq!(flags[0].0, 2);
    (time_ns, u32_at(&flags[0].1, 0), block.body[20..20 + length].to_vec())
}
