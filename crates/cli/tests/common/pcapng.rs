//! Reading capture files back.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::{errors, text};

/// What a file holds: the names of its interfaces, the packets, and what all interfaces together received and dropped.
#[derive(Debug, Default)]
pub struct Capture {
    pub interfaces: Vec<String>,
    pub packets: Vec<Packet>,
    pub received: u64,
    pub dropped: u64,
}

#[derive(Debug)]
pub struct Packet {
    pub interface: usize,
    pub time_ns: u64,
    /// 1: it came, 2: it went.
    pub direction: u32,
    pub bytes: Vec<u8>,
    /// Bytes that it had on the wire.
    pub frame_bytes: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Options as (code, value), from the draft draft-ietf-opsawg-pcapng.
fn options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut options = Vec::new();
    while bytes.len() > 4 {
        let [code, length] = [0, 2].map(|at| u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
        let end = 4 + usize::from(length);
        options.push((code, bytes[4..end].to_vec()));
        bytes = &bytes[end.next_multiple_of(4)..];
    }
    options
}

pub fn read(file: &Path) -> Capture {
    let bytes = fs::read(file).unwrap();
    let mut capture = Capture::default();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (kind, length) = (u32_at(rest, 0), u32_at(rest, 4) as usize);
        let body = &rest[8..length - 4];
        assert_eq!(u32_at(rest, length - 4) as usize, length, "both lengths agree");
        match kind {
            1 => {
                let name = options(&body[8..]).into_iter().find(|(code, _)| *code == 2).unwrap().1;
                capture.interfaces.push(String::from_utf8(name).unwrap());
            }
            6 => {
                let time_ns = u64::from(u32_at(body, 4)) << 32 | u64::from(u32_at(body, 8));
                let frame = &body[20..20 + u32_at(body, 12) as usize];
                let flags = options(&body[20 + frame.len().next_multiple_of(4)..])[0].1.clone();
                capture.packets.push(Packet {
                    interface: u32_at(body, 0) as usize,
                    time_ns,
                    direction: u32_at(&flags, 0),
                    bytes: frame.to_vec(),
                    frame_bytes: u32_at(body, 16),
                });
            }
            5 => {
                let counter = |wanted| {
                    let found = options(&body[12..]).into_iter().find(|(code, _)| *code == wanted).unwrap().1;
                    u64::from_ne_bytes(found.try_into().unwrap())
                };
                capture.received += counter(4);
                capture.dropped += counter(5);
            }
            _ => assert_eq!(kind, 0x0a0d_0d0a),
        }
        rest = &rest[length..];
    }
    capture
}

/// tcpdump's view of a file, a line a packet.
pub fn by_tcpdump(file: &Path) -> Option<Vec<String>> {
    let Ok(shown): Result<Output, _> = Command::new("tcpdump").args(["-nn", "-r"]).arg(file).output() else {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, and there is no tcpdump");
        println!("SKIP the part with tcpdump: not installed");
        return None;
    };
    assert!(shown.status.success(), "{}", errors(&shown));
    Some(text(&shown).lines().map(str::to_owned).collect())
}
