use nearwire_checks::capture::{blocks, options, packet, u32_at};

use super::*;
use crate::ports::memory::memory_pair;

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

#[test]
fn interfaces_added_have_their_frames_lengths_and_counters() {
    let mut writer = PcapngWriter::start_section(Vec::new()).unwrap();
    let about = |name| CaptureInterface { name: Some(name), description: "a port", snap_bytes: 4 };
    let packet = |interface| CapturePacket {
        interface,
        time_ns: 5,
        direction: Direction::Outbound,
        bytes: b"four",
        frame_bytes: 60,
    };
    assert_eq!(writer.interface(&about("eth4")), 0);
    writer.packet(&packet(0));
    assert_eq!(writer.interface(&about("eth5")), 1);
    writer.packet(&packet(1));
    writer.statistics(0, 6, 1, 0);
    writer.statistics(1, 6, 3, 2);
    let blocks = blocks(&writer.finish_section().unwrap());
    let kinds: Vec<u32> = blocks.iter().map(|block| block.kind).collect();
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 1, 6, 5, 5]);
    assert_eq!(u32_at(&blocks[3].body, 4), 4, "frames are cut to four bytes");
    assert!(options(&blocks[3].body[8..]).contains(&(2, b"eth5".to_vec())));
    let of_packet = |at: usize| [0, 12, 16].map(|word| u32_at(&blocks[at].body, word));
    assert_eq!((of_packet(2), of_packet(4)), ([0, 4, 60], [1, 4, 60]));
    assert_eq!(u32_at(&blocks[6].body, 0), 1);
    let counters = options(&blocks[6].body[12..]);
    assert_eq!(counters, [(4, 3_u64.to_ne_bytes().to_vec()), (5, 2_u64.to_ne_bytes().to_vec())]);
}
