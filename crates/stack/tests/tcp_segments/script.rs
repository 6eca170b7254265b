//! A notation for what a connection does, segment by segment, close to packetdrill's.
//!
//! ```text
//! with sack ts nodelay mss 1000 win 20000          first line: what was agreed upon, and options
//! +0      write 2000                               a call, after so many seconds
//! +0      > . 1:1001(1000) ack 1                   a segment is sent, within half a millisecond of that time
//! +0.010  < . 1:1(0) ack 1001 win 20000            a segment comes
//! ```
//! Numbers count from 1 on in both directions, flags are letters (`.` alone is ACK, which the others imply: `F R S P U E W`; `-` is none).
//! `ts VALUE ECHO` counts milliseconds of each clock since the start, where both show 1000; `sack A:B C:D` are blocks, `nosack` none.
//! `[ect]`, `[ce]` and `[no]` are marks of the packet. Of a segment that is sent, only what is written is compared. A segment that was
//! not written is a failure.

use std::collections::VecDeque;

use nearwire_stack::{
    Arrival, CongestionControl, ConnectionId, Keepalive, ReceiveChecksum, Take, TcpCallError, TcpOptions, Verdict,
};
use nearwire_wire::tcp::options::{Block, Blocks, OPTIONS_BYTES_MAX, Options, Timestamps};
use nearwire_wire::tcp::{Flags, TcpHeader};

use crate::common::tcp::{Agreed, describe, frame, frames, segment};
use crate::common::{Host, at, host, v4};

const MS: u64 = 1_000_000;
/// Rounding of the wheel, and of what scripts write.
const TOLERANCE_NS: u64 = MS / 2;
const FIRST: [u32; 2] = [u32::MAX - 2000, 77_000];
const CLOCK: u32 = 1000;

/// A connection, and what it has sent.
pub struct World {
    pub host: Host,
    pub id: ConnectionId,
    start_ns: u64,
    now_ns: u64,
    sent: VecDeque<(u64, Vec<u8>)>,
    /// How many bytes the far end has sent in order: what is read is compared with that.
    read: u32,
    written: u32,
    /// The port has no room until the next step.
    is_full: bool,
}

/// Byte `at` of a stream.
fn byte(at: u32) -> u8 {
    (at ^ at >> 8) as u8
}

/// Runs a script from the beginning, and hands the world over for more.
pub fn run(script: &str) -> World {
    let mut lines = script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut world = World::new(lines.next().expect("a first line"));
    let mut at_ns = world.start_ns;
    for line in lines {
        let (time, what) = line.split_once(' ').unwrap_or_else(|| panic!("{line}: time and event"));
        let seconds: f64 = time.strip_prefix('+').and_then(|time| time.parse().ok()).expect("+SECONDS");
        at_ns += (seconds * 1e9).round() as u64;
        world.step(at_ns, what.trim(), line);
    }
    world.pass_until(at_ns, "the end");
    world
}

impl World {
    fn new(first: &str) -> World {
        let words: Vec<&str> = first.strip_prefix("with").expect("with ...").split_whitespace().collect();
        let has = |word: &str| words.contains(&word);
        let number = |word: &str| {
            let place = words.iter().position(|other| *other == word)?;
            Some(words.get(place + 1)?.parse::<u32>().unwrap_or_else(|_| panic!("{word} NUMBER: {first}")))
        };
        let window = number("win").unwrap_or(30_000);
        let agreed = Agreed {
            first: FIRST,
            maximum_segment_bytes: number("mss").unwrap_or(1000) as u16,
            window_scale: number("wscale").map(|shift| (shift as u8, shift as u8)),
            has_selective_acknowledgement: has("sack"),
            timestamps: has("ts").then_some([CLOCK; 2]),
            has_congestion_notification: has("ecn"),
            window_bytes: [number("rwin").unwrap_or(window), window],
        };
        let second = |word| number(word).map(|seconds| u64::from(seconds) * 1000 * MS);
        let defaults = TcpOptions::default();
        let options = TcpOptions {
            no_delay: has("nodelay"),
            cork: has("cork"),
            congestion_control: if has("reno") { CongestionControl::NewReno } else { CongestionControl::Cubic },
            unsent_most_bytes: number("unsent").unwrap_or(defaults.unsent_most_bytes),
            receive_buffer_bytes: number("rcvbuf").unwrap_or(defaults.receive_buffer_bytes),
            keepalive: second("keepalive").map(|idle_ns| Keepalive {
                idle_ns,
                interval_ns: second("interval").unwrap_or(idle_ns),
                probes: 3,
            }),
            user_timeout_ns: second("usertimeout"),
            ..defaults
        };
        let mut host = host(1, &[2]);
        let facts = agreed.facts(0, at(v4(1), 4000), at(v4(2), 80));
        let start_ns = 5000 * MS;
        let id = host.stack.tcp_adopt(&facts, options, start_ns).expect("can be adopted");
        World { host, id, start_ns, now_ns: start_ns, sent: VecDeque::new(), read: 0, written: 0, is_full: false }
    }

    fn collect(&mut self) {
        let frames = frames(&mut self.host.stack, self.now_ns);
        self.sent.extend(frames.into_iter().map(|frame| (self.now_ns, frame)));
    }

    /// Lets time pass, deadline by deadline, as long as nothing is sent.
    fn pass(&mut self, until_ns: u64) {
        while self.sent.is_empty()
            && !self.is_full
            && let Some(deadline_ns) = self.host.stack.next_deadline().filter(|deadline_ns| *deadline_ns <= until_ns)
        {
            self.now_ns = self.now_ns.max(deadline_ns);
            self.collect();
        }
        if self.sent.is_empty() {
            self.now_ns = self.now_ns.max(until_ns);
        }
    }

    fn pass_until(&mut self, until_ns: u64, line: &str) {
        self.pass(until_ns.saturating_sub(TOLERANCE_NS));
        if let Some((sent_ns, frame)) = self.sent.front() {
            panic!("before {line}: at {} us was sent {}", (sent_ns - self.start_ns) / 1000, self.text(frame));
        }
        self.pass(until_ns);
        self.now_ns = self.now_ns.max(until_ns);
    }

    fn text(&self, frame: &[u8]) -> String {
        let Some((header, _, payload, _)) = segment(frame) else { return describe(frame) };
        let start = header.sequence.wrapping_sub(FIRST[0]).wrapping_add(1);
        let end = start.wrapping_add(payload.len() as u32);
        let acknowledged = header.acknowledgement.wrapping_sub(FIRST[1]).wrapping_add(1);
        format!("{:?} {start}:{end}({}) ack {acknowledged} = {}", header.flags, payload.len(), describe(frame))
    }

    fn step(&mut self, at_ns: u64, what: &str, line: &str) {
        let (verb, rest) = what.split_once(' ').unwrap_or((what, ""));
        if verb == ">" {
            self.expect(at_ns, rest, line);
            return;
        }
        self.pass_until(at_ns, line);
        self.is_full = false;
        let number = || rest.trim().parse::<u32>().unwrap_or_else(|_| panic!("{line}: a number"));
        match verb {
            "<" => self.come(rest, line),
            "write" | "more" => {
                let data: Vec<u8> = (self.written..self.written + number()).map(byte).collect();
                let taken = self.host.stack.tcp_write(self.id, self.now_ns, &data, verb == "more");
                assert_eq!(taken, Ok(data.len()), "{line}");
                self.written += data.len() as u32;
            }
            // So many bytes are taken where more are written.
            "takes" => {
                let data: Vec<u8> = (self.written..self.written + 2 * number()).map(byte).collect();
                let taken = self.host.stack.tcp_write(self.id, self.now_ns, &data, false);
                assert_eq!(taken, Ok(number() as usize), "{line}");
                self.written += number();
            }
            "refused" => {
                let refused = self.host.stack.tcp_write(self.id, self.now_ns, &[0], false);
                assert_eq!(refused, Err(TcpCallError::WouldBlock), "{line}");
                assert!(!self.host.stack.tcp_readiness(self.id).is_some_and(|readiness| readiness.writable), "{line}");
                while self.host.stack.take_ready().is_some() {}
            }
            // A program that was refused hears that there is room.
            "room" => {
                assert_eq!(self.host.stack.take_ready(), Some(self.id), "{line}");
                assert!(self.host.stack.tcp_readiness(self.id).is_some_and(|readiness| readiness.writable), "{line}");
            }
            // The port has no room for what is due next.
            "full" => {
                while self.host.stack.poll_transmit(self.now_ns).is_none() {
                    self.now_ns = self.host.stack.next_deadline().unwrap_or_else(|| panic!("{line}: nothing is due"));
                }
                self.is_full = true;
                return;
            }
            "read" => self.read(number(), line),
            "eof" => assert_eq!(self.host.stack.tcp_read(self.id, &mut [0; 9]), Ok(0), "{line}"),
            "nothing" => {
                assert_eq!(self.host.stack.tcp_read(self.id, &mut [0; 9]), Err(TcpCallError::WouldBlock), "{line}");
            }
            "shutdown" => assert_eq!(self.host.stack.tcp_shutdown(self.id, self.now_ns), Ok(()), "{line}"),
            "abort" => self.host.stack.tcp_abort(self.id, self.now_ns),
            "uncork" => self.host.stack.tcp_configure(self.id, self.now_ns, |options| options.cork = false),
            "nodelay" => self.host.stack.tcp_configure(self.id, self.now_ns, |options| options.no_delay = true),
            "error" => {
                let error = self.host.stack.tcp_readiness(self.id).and_then(|readiness| readiness.error);
                let text = error.map_or_else(|| "None".to_owned(), |error| format!("{error:?}"));
                assert_eq!(text, rest.trim(), "{line}");
            }
            _ => panic!("{line}: what is {verb}?"),
        }
        self.collect();
    }

    fn read(&mut self, count: u32, line: &str) {
        let mut into = vec![0; count as usize];
        let found = self.host.stack.tcp_read(self.id, &mut into).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(found, count as usize, "{line}");
        let wanted: Vec<u8> = (self.read..self.read + count).map(byte).collect();
        assert_eq!(into, wanted, "{line}");
        self.read += count;
    }

    fn come(&mut self, text: &str, line: &str) {
        let wanted = Written::parse(text, line);
        let header = TcpHeader {
            source_port: 80,
            destination_port: 4000,
            sequence: FIRST[1].wrapping_add(wanted.start).wrapping_sub(1),
            acknowledgement: FIRST[0].wrapping_add(wanted.acknowledgement.unwrap_or(1)).wrapping_sub(1),
            flags: wanted.flags,
            window: wanted.window.unwrap_or(30_000),
            checksum: [0; 2],
            urgent: 1,
        };
        let block = |(left, right): &(u32, u32)| Block {
            left: FIRST[0].wrapping_add(left - 1),
            right: FIRST[0].wrapping_add(right - 1),
        };
        let blocks: Vec<Block> = wanted.blocks.iter().flatten().map(block).collect();
        let options = Options {
            timestamps: wanted.timestamps.map(|(value, echo)| Timestamps { value: CLOCK + value, echo: CLOCK + echo }),
            blocks: Blocks::new(&blocks),
            ..Options::default()
        };
        let mut bytes = [0; OPTIONS_BYTES_MAX];
        let count = options.write(&mut bytes);
        let payload: Vec<u8> = (wanted.start - 1..wanted.end - 1).map(byte).collect();
        let mut frame = frame(2, 1, v4(2), v4(1), header, &bytes[..count], &payload);
        if wanted.mark == Some(3) {
            crate::mark(&mut frame);
        }
        self.host.stack.tcp_time(self.now_ns);
        let arrival = Arrival {
            port: self.host.port,
            frame: &frame,
            received_ns: 0,
            device_ns: 0,
            checksum: ReceiveChecksum::Verify,
        };
        let verdict = self.host.stack.receive(&arrival, |_, _| Take::Queue);
        assert_eq!(verdict, Verdict::Segment { connection: self.id }, "{line}");
    }

    fn expect(&mut self, at_ns: u64, text: &str, line: &str) {
        self.pass(at_ns + TOLERANCE_NS);
        let Some((sent_ns, frame)) = self.sent.pop_front() else {
            let info = self.host.stack.tcp_info(self.id);
            panic!("{line}: nothing was sent until {} us; {info:#?}", (at_ns - self.start_ns) / 1000);
        };
        let sent = format!("at {} us was sent {}", (sent_ns - self.start_ns) / 1000, self.text(&frame));
        let wanted = Written::parse(text, line);
        let (header, options, payload, tos) = segment(&frame).unwrap_or_else(|| panic!("{line}: {sent}"));
        assert!(sent_ns.abs_diff(at_ns) <= TOLERANCE_NS, "{line}: {sent}");
        assert_eq!(header.flags, wanted.flags, "flags of {line}: {sent}");
        let start = header.sequence.wrapping_sub(FIRST[0]).wrapping_add(1);
        assert_eq!((start, payload.len() as u32), (wanted.start, wanted.end - wanted.start), "{line}: {sent}");
        if let Some(acknowledgement) = wanted.acknowledgement {
            let found = header.acknowledgement.wrapping_sub(FIRST[1]).wrapping_add(1);
            assert_eq!(found, acknowledgement, "{line}: {sent}");
        }
        let from = start.wrapping_sub(1);
        let data: Vec<u8> = (0..payload.len() as u32).map(|at| byte(from.wrapping_add(at))).collect();
        assert!(payload == data, "bytes of {line}: {sent}");
        if let Some(window) = wanted.window {
            assert_eq!(header.window, window, "window of {line}: {sent}");
        }
        if let Some((value, echo)) = wanted.timestamps {
            let found = options.timestamps.unwrap_or_else(|| panic!("timestamps of {line}: {sent}"));
            assert_eq!(
                (found.value.wrapping_sub(CLOCK), found.echo.wrapping_sub(CLOCK)),
                (value, echo),
                "{line}: {sent}"
            );
        }
        if let Some(blocks) = wanted.blocks {
            let relative = |number: u32| number.wrapping_sub(FIRST[1]).wrapping_add(1);
            let found = options.blocks.as_slice().iter().map(|block| (relative(block.left), relative(block.right)));
            assert_eq!(found.collect::<Vec<_>>(), blocks, "blocks of {line}: {sent}");
        }
        if let Some(mark) = wanted.mark {
            assert_eq!(tos & 3, mark, "marks of {line}: {sent}");
        }
        self.now_ns = self.now_ns.max(at_ns);
    }
}

/// A segment as a script writes it.
struct Written {
    flags: Flags,
    start: u32,
    end: u32,
    acknowledgement: Option<u32>,
    window: Option<u16>,
    timestamps: Option<(u32, u32)>,
    blocks: Option<Vec<(u32, u32)>>,
    mark: Option<u8>,
}

impl Written {
    fn parse(text: &str, line: &str) -> Written {
        let mut words = text.split_whitespace().peekable();
        let number = |word: Option<&str>| -> u32 {
            word.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{line}: a number is missing"))
        };
        let letters = words.next().unwrap_or_else(|| panic!("{line}: flags are missing"));
        let range = words.next().and_then(|range| range.split_once('(')).unwrap_or_else(|| panic!("{line}: A:B(C)"));
        let (start, end) = range.0.split_once(':').unwrap_or_else(|| panic!("{line}: A:B(C)"));
        let (start, end) = (number(Some(start)), number(Some(end)));
        assert_eq!(number(Some(range.1.trim_end_matches(')'))), end - start, "{line}: the length");
        let mut written = Written {
            flags: flags(letters, line),
            start,
            end,
            acknowledgement: None,
            window: None,
            timestamps: None,
            blocks: None,
            mark: None,
        };
        while let Some(word) = words.next() {
            match word {
                "ack" => written.acknowledgement = Some(number(words.next())),
                "win" => written.window = Some(number(words.next()) as u16),
                "ts" => written.timestamps = Some((number(words.next()), number(words.next()))),
                "nosack" => written.blocks = Some(Vec::new()),
                "sack" => {
                    let mut blocks = Vec::new();
                    while let Some((left, right)) = words.peek().and_then(|word| word.split_once(':')) {
                        blocks.push((number(Some(left)), number(Some(right))));
                        words.next();
                    }
                    written.blocks = Some(blocks);
                }
                "[ect]" => written.mark = Some(2),
                "[ce]" => written.mark = Some(3),
                "[no]" => written.mark = Some(0),
                _ => panic!("{line}: what is {word}?"),
            }
        }
        written
    }
}

fn flags(letters: &str, line: &str) -> Flags {
    let mut flags = if letters.contains('-') { Flags::empty() } else { Flags::ACK };
    for letter in letters.chars() {
        flags |= match letter {
            '.' | '-' => Flags::empty(),
            'F' => Flags::FIN,
            'S' => Flags::SYN,
            'R' => Flags::RST,
            'P' => Flags::PSH,
            'U' => Flags::URG,
            'E' => Flags::ECE,
            'W' => Flags::CWR,
            _ => panic!("{line}: what is {letter}?"),
        };
    }
    flags
}
