//! A ring as both sides see it, and as nobody should leave it.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;

use nearwire_frames::capture::Direction;
use nearwire_sys::shared_words::SharedWords;
use proptest::prelude::*;

use super::layout::About;
use super::*;

const PID: u32 = 77;
/// 512 words of records.
const SMALL: u32 = 12;

fn recorder(ring_log2_bytes: u32, snap_bytes: u16) -> Recorder {
    let mut recorder = Recorder::create(ring_log2_bytes, snap_bytes).unwrap();
    recorder.describe(4, "eth4", "a port");
    recorder
}

/// The ring as another process opens it: another open file.
fn memory(recorder: &Recorder) -> OwnedFd {
    let link = format!("/proc/self/fd/{}", recorder.descriptor());
    std::fs::OpenOptions::new().read(true).write(true).open(link).unwrap().into()
}

fn reader(recorder: &Recorder) -> RingReader {
    RingReader::open(memory(recorder), PID).unwrap()
}

fn take(reader: &mut RingReader) -> Option<(CapturedFrame, Vec<u8>)> {
    let mut bytes = Vec::new();
    reader.next(&mut bytes).unwrap().map(|frame| (frame, bytes))
}

fn word(about: About) -> u64 {
    about.word()
}

fn dropped(reader: &RingReader) -> u64 {
    reader.interfaces().map(|interface| interface.dropped_frames).sum()
}

#[test]
fn frames_recorded_are_read_with_time_direction_and_interface() {
    let mut recorder = recorder(SMALL, 0);
    recorder.describe(9, "a-name-longer-than-16-bytes", "another");
    recorder.record(4, Direction::Inbound, 1_000, b"thirteen byte");
    let mut reader = reader(&recorder);
    recorder.record(9, Direction::Outbound, 1_001, &[7; 64]);
    recorder.record(5, Direction::Outbound, 1_002, b"of an interface that was not described");
    let first = CapturedFrame { time_ns: 1_000, direction: Direction::Inbound, interface: 0, frame_bytes: 13 };
    assert_eq!(take(&mut reader), Some((first, b"thirteen byte".to_vec())));
    let second = CapturedFrame { time_ns: 1_001, direction: Direction::Outbound, interface: 1, frame_bytes: 64 };
    assert_eq!(take(&mut reader), Some((second, vec![7; 64])));
    assert_eq!(take(&mut reader), None);
    let about: Vec<_> = reader.interfaces().map(|known| (known.ifindex, known.name, known.port)).collect();
    assert_eq!(about, [(4, "eth4".into(), "a port".into()), (9, "a-name-longer-th".into(), "another".into())]);
    drop(recorder);
    assert!(reader.is_ended());
}

#[test]
fn frames_longer_than_wanted_are_cut_and_say_so() {
    let mut recorder = recorder(SMALL, 10);
    let mut reader = reader(&recorder);
    recorder.record(4, Direction::Inbound, 1, b"0123456789abcdef");
    recorder.record(4, Direction::Inbound, 1, b"short");
    let cut = take(&mut reader).unwrap();
    assert_eq!((cut.0.frame_bytes, cut.1.as_slice()), (16, &b"0123456789"[..]));
    assert_eq!(take(&mut reader).unwrap().1, b"short");
}

#[test]
fn ring_full_drops_and_counts_and_goes_on_when_it_was_read() {
    let mut recorder = recorder(SMALL, 0);
    let mut reader = reader(&recorder);
    // 10 words each: 51 fit.
    (0..60_u8).for_each(|number| recorder.record(4, Direction::Inbound, u64::from(number), &[number; 64]));
    assert_eq!(dropped(&reader), 9);
    assert_eq!(take(&mut reader).unwrap().1, [0; 64]);
    recorder.record(4, Direction::Inbound, 60, &[60; 64]);
    let rest: Vec<u8> = std::iter::from_fn(|| take(&mut reader)).map(|(_, bytes)| bytes[0]).collect();
    assert_eq!(rest, (1..51).chain([60]).collect::<Vec<u8>>());
    assert_eq!(dropped(&reader), 9);
}

#[test]
fn ring_nobody_opened_takes_what_has_memory_and_then_all_of_it() {
    let mut recorder = recorder(20, 0);
    // 128 words each, of 2^15 words at first and 2^17 later.
    let record = |recorder: &mut Recorder, count: u32| {
        (0..count).for_each(|number| recorder.record(4, Direction::Inbound, u64::from(number), &[1; 126 * 8]));
    };
    record(&mut recorder, 300);
    let mut reader = reader(&recorder);
    assert_eq!(dropped(&reader), 300 - 256);
    record(&mut recorder, 1000);
    assert_eq!(dropped(&reader), 300 - 256 + 1000 - 768);
    assert_eq!(std::iter::from_fn(|| take(&mut reader)).count(), 1024);
}

#[test]
fn positions_that_cannot_be_stop_nobody_and_write_nowhere() {
    for wrong in [1, 513, 1 << 40, 0_u64.wrapping_sub(513), 1 << 63] {
        let mut recorder = recorder(SMALL, 0);
        let reader = reader(&recorder);
        let words = SharedWords::open(memory(&recorder)).unwrap();
        (0..51).for_each(|_| recorder.record(4, Direction::Inbound, 7, &[1; 64]));
        words[layout::READ_AT].store(510_u64.wrapping_add(wrong), Relaxed);
        (0..500).for_each(|_| recorder.record(4, Direction::Inbound, 8, &[2; 64]));
        assert_eq!((dropped(&reader), words[layout::WRITTEN_AT].load(Relaxed)), (500, 510), "{wrong}");
    }
}

#[test]
fn memory_said_to_be_taken_that_is_not_is_not_touched() {
    let mut recorder = recorder(20, 0);
    let words = SharedWords::open(memory(&recorder)).unwrap();
    words[layout::TAKEN_AT].store(1, Relaxed);
    (0..300).for_each(|_| recorder.record(4, Direction::Inbound, 7, &[1; 126 * 8]));
    assert_eq!(words[layout::WRITTEN_AT].load(Relaxed), 256 * 128);
}

#[test]
fn ring_damaged_is_an_error_that_says_where() {
    let sound = About { frame_bytes: 64, kept_bytes: 64, place: 0, direction: 1 };
    let cases = [
        (layout::WRITTEN_AT, 513, "the end of the records"),
        (layout::WRITTEN_AT, 1, "the end of the records"),
        (layout::DATA_AT + 1, word(About { direction: 3, ..sound }), "a direction"),
        (layout::DATA_AT + 1, word(About { kept_bytes: 65, ..sound }), "a length"),
        (layout::DATA_AT + 1, word(About { kept_bytes: 1 << 23, frame_bytes: 1 << 23, ..sound }), "a length"),
        (layout::DATA_AT + 1, word(About { place: 1, ..sound }), "an interface"),
    ];
    for (at, value, says) in cases {
        let mut recorder = recorder(SMALL, 0);
        let mut reader = reader(&recorder);
        recorder.record(4, Direction::Inbound, 7, &[1; 64]);
        SharedWords::open(memory(&recorder)).unwrap()[at].store(value, Relaxed);
        let error = reader.next(&mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("damaged at word 0") && error.contains(says), "{error}");
    }
}

#[test]
fn second_reader_is_refused_and_one_after_the_first_is_not() {
    let recorder = recorder(SMALL, 0);
    assert!(!recorder.has_reader());
    assert_eq!(RingReader::reader_of(&memory(&recorder)).unwrap(), None);
    let first = reader(&recorder);
    assert!(recorder.has_reader() && !recorder.is_closed());
    assert_eq!(RingReader::reader_of(&memory(&recorder)).unwrap(), Some(PID));
    let refused = RingReader::open(memory(&recorder), 78).unwrap_err();
    assert!(matches!(refused, RingError::Busy { pid: PID }), "{refused}");
    first.close();
    assert!(recorder.is_closed());
    drop(first);
    assert!(!recorder.has_reader());
    RingReader::open(memory(&recorder), 78).unwrap();
}

#[test]
fn ring_left_to_the_parent_is_not_ended() {
    let recorder = recorder(SMALL, 0);
    let reader = reader(&recorder);
    recorder.leave_to_parent();
    assert!(!reader.is_ended());
}

#[test]
fn memory_that_is_no_ring_is_refused() {
    let (_words, other) = SharedWords::create_to_share(c"other", layout::DATA_AT + 512).unwrap();
    assert!(matches!(RingReader::open(other, PID).unwrap_err(), RingError::NotARing));
    let file: OwnedFd = std::fs::File::open("/proc/self/exe").unwrap().into();
    assert!(matches!(RingReader::open(file, PID).unwrap_err(), RingError::NotARing));
    let recorder = recorder(SMALL, 0);
    let words = SharedWords::open(memory(&recorder)).unwrap();
    words[layout::DATA_WORDS_AT].store(1 << 20, Relaxed);
    assert!(matches!(RingReader::open(memory(&recorder), PID).unwrap_err(), RingError::NotARing));
}

#[test]
fn requests_and_answers_written_are_read_and_halves_are_nothing() {
    let request = Request { pid: (1 << 22) - 1, number: 0xf_1234, ring_log2_bytes: 23, snap_bytes: 96 };
    assert_eq!(Request::of_words(request.words()), Some(request));
    let [word, complement] = request.words();
    assert_eq!([[0, 0], [word, 0], [word ^ 1, complement], [0, u64::MAX]].map(Request::of_words), [None; 4]);
    let answers = [
        Answer::Ready { number: 0xf_1234, fd: 8191 },
        Answer::Refused { number: 1, errno: 12 },
        Answer::Busy { number: 2 },
        Answer::Ended { number: 0 },
    ];
    assert_eq!(answers.map(|answer| Answer::of_word(answer.word())), answers.map(Some));
    assert_eq!([0, 99 << 56].map(Answer::of_word), [None; 2]);
}

proptest! {
    /// Whatever is written and read in turns, what is read is what was written, in order, less what is counted as dropped.
    #[test]
    fn frames_written_and_read_in_turns_come_whole_and_in_order(
        steps in prop::collection::vec((any::<bool>(), 0_usize..1600), 0..400),
    ) {
        let mut recorder = recorder(SMALL, 0);
        let mut reader = reader(&recorder);
        let (mut time_ns, mut taken) = (0, Vec::new());
        for (reads, len_bytes) in steps {
            if reads {
                taken.extend(take(&mut reader));
            } else {
                recorder.record(4, Direction::Outbound, time_ns, &vec![time_ns as u8; len_bytes]);
                time_ns += 1;
            }
        }
        taken.extend(std::iter::from_fn(|| take(&mut reader)));
        prop_assert!(taken.windows(2).all(|pair| pair[0].0.time_ns < pair[1].0.time_ns));
        for (frame, bytes) in &taken {
            prop_assert_eq!(bytes, &vec![frame.time_ns as u8; frame.frame_bytes as usize]);
        }
        prop_assert_eq!(taken.len() as u64 + dropped(&reader), time_ns);
    }

    /// Whatever another process leaves in a ring, reading ends, and with words.
    #[test]
    fn any_ring_read_never_panics(
        header in prop::collection::vec((8_usize..layout::DATA_AT, any::<u64>()), 0..20),
        data in prop::collection::vec(prop_oneof![any::<u64>(), (0_u64..600, 0_u8..3).prop_map(|(length, direction)| {
            word(About { frame_bytes: 600, kept_bytes: length as u32, place: 0, direction })
        })], 512),
        written in 0_u64..600,
    ) {
        let recorder = recorder(SMALL, 0);
        let mut reader = reader(&recorder);
        let words = SharedWords::open(memory(&recorder)).unwrap();
        words[layout::DATA_AT..].iter().zip(&data).for_each(|(word, value)| word.store(*value, Relaxed));
        words[layout::WRITTEN_AT].store(written, Relaxed);
        header.iter().for_each(|(at, value)| words[*at].store(*value, Relaxed));
        let mut bytes = Vec::new();
        let mut read = 0;
        while let Ok(Some(frame)) = reader.next(&mut bytes) {
            prop_assert!(bytes.len() <= frame.frame_bytes as usize && reader.interfaces().count() > frame.interface);
            read += 1;
            prop_assert!(read <= 512 / layout::RECORD_WORDS);
        }
        prop_assert!(reader.interfaces().all(|known| known.name.len() <= 3 * 16));
    }
}
