use super::*;
use crate::ports::memory::memory_pair;

/// One block as a reader sees it.
#[derive(Debug)]
struct Block {
    kind: u32,
    body: Vec<u8>,
}

/// Reads blocks and checks what every block must have.
fn blocks(mut file: &[u8]) -> Vec<Block> {
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

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
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
fn packet(block: &Block) -> (u64, u32, Vec<u8>) {
    assert_eq!((block.kind, u32_at(&block.body, 0)), (6, 0));
    let time_ns = u64::from(u32_at(&block.body, 4)) << 32 | u64::from(u32_at(&block.body, 8));
    let length = u32_at(&block.body, 12) as usize;
    assert_eq!(u32_at(&block.body, 16) as usize, length);
    let flags = options(&block.body[20 + length.next_multiple_of(4)..]);
    assert_eq!(flags[0].0, 2);
    (time_ns, u32_at(&flags[0].1, 0), block.body[20..20 + length].to_vec())
}

/// Every call gives the next nanosecond of a time that needs both halves of a stamp.
fn clock() -> impl FnMut() -> u64 {
    let mut now_ns = 0x0123_4567_89ab_cdef;
    move || {
        now_ns += 1;
        now_ns
    }
}

#[test]
fn frames_passed_file_has_them_with_time_and_direction() {
    let (near, mut far) = memory_pair(8);
    let mut port = CapturePort::new(near, Vec::new(), clock()).unwrap();
    far.send(b"from the far end").unwrap();
    assert_eq!(port.receive(<[u8]>::to_vec).unwrap().unwrap(), b"from the far end");
    assert!(port.send(b"sent").unwrap());
    assert!(port.queue(b"queued").unwrap());
    port.flush().unwrap();
    let prepared = port.prepare(b"prepared 0").unwrap();
    assert!(port.send_prepared(prepared, |frame| frame[9] = b'1').unwrap());
    let (_, file) = port.finish().unwrap();

    let blocks = blocks(&file);
    let kinds: Vec<u32> = blocks.iter().map(|block| block.kind).collect();
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 6, 6, 6, 5]);
    let packets: Vec<_> = blocks[2..6].iter().map(packet).collect();
    let base_ns = 0x0123_4567_89ab_cdef;
    let wanted: [(u64, u32, &[u8]); 4] = [
        (base_ns + 1, 1, b"from the far end"),
        (base_ns + 2, 2, b"sent"),
        (base_ns + 3, 2, b"queued"),
        (base_ns + 4, 2, b"prepared 1"),
    ];
    assert_eq!(packets, wanted.map(|(time_ns, flags, frame)| (time_ns, flags, frame.to_vec())));
}

#[test]
fn file_started_says_ethernet_and_nanoseconds() {
    let (near, _far) = memory_pair(8);
    let (_, file) = CapturePort::new(near, Vec::new(), clock()).unwrap().finish().unwrap();
    let blocks = blocks(&file);
    assert_eq!(u32_at(&blocks[0].body, 0), 0x1a2b_3c4d);
    assert_eq!(blocks[0].body[8..16], [0xff; 8]);
    assert_eq!(u16::from_ne_bytes([blocks[1].body[0], blocks[1].body[1]]), 1);
    let options_of_interface = options(&blocks[1].body[8..]);
    assert!(options_of_interface.contains(&(9, vec![9])), "{options_of_interface:?}");
    let counters = options(&blocks[2].body[12..]);
    assert_eq!(counters, [(4, 0u64.to_ne_bytes().to_vec()), (5, 0u64.to_ne_bytes().to_vec())]);
}

#[test]
fn description_longer_than_is_kept_is_cut_between_characters() {
    let words = "é".repeat(600);
    for start in ["", "x"] {
        let words = [start, &words].concat();
        let file = PcapngWriter::start(Vec::new(), None, &words).unwrap().finish(0, 0, 0).unwrap();
        let options_of_interface = options(&blocks(&file)[1].body[8..]);
        let kept = std::str::from_utf8(&options_of_interface[0].1).unwrap();
        assert!(words.starts_with(kept) && (999..=1000).contains(&kept.len()), "{kept}");
    }
}

#[test]
fn disk_full_traffic_goes_on_and_finish_says_so() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (near, mut far) = memory_pair(8);
    let mut port = CapturePort::new(near, Full(200), clock()).unwrap();
    for _ in 0..5 {
        assert!(port.send(&[7; 60]).unwrap());
    }
    let mut arrived = 0;
    while far.receive(|_| ()).unwrap().is_some() {
        arrived += 1;
    }
    assert_eq!(arrived, 5);
    assert_eq!(port.finish().err().unwrap().kind(), io::ErrorKind::StorageFull);
}
