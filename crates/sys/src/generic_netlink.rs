//! Questions to a family of generic netlink, and the attributes of the answers.
//!
//! Source: `include/uapi/linux/netlink.h`, `include/uapi/linux/genetlink.h`.

use std::io;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};

const HEADER_BYTES: usize = 16;
/// The header of netlink and that of its generic form.
const HEADERS_BYTES: usize = HEADER_BYTES + 4;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const FLAG_REQUEST: u16 = 0x1;
const FLAG_ACK: u16 = 0x4;
const FLAG_DUMP: u16 = 0x300;
const NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;
/// The family that knows the others, and its question for one by name.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// More answers than any interface has queues.
const ANSWERS_MAX: usize = 1 << 16;

/// How many answers a question has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// One.
    One,
    /// A dump.
    Many,
}

/// A family of the calling thread's network namespace.
#[derive(Debug)]
pub struct Family {
    socket: Socket,
    id: u16,
}

impl Family {
    /// Finds the family of this name.
    ///
    /// # Errors
    /// `ENOENT` when the kernel does not have it.
    pub fn open(name: &str) -> io::Result<Self> {
        let socket = Socket::new(NETLINK_GENERIC)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // The kernel has answered before a question is sent.
        socket.set_non_blocking(true)?;
        let controller = Self { socket, id: CONTROLLER };
        let question = attribute(FAMILY_NAME, format!("{name}\0").as_bytes());
        let answers = controller.ask(GET_FAMILY, Answers::One, &question)?;
        let id = answers.first().and_then(|answer| number(answer, FAMILY_ID));
        let id = id.and_then(|id| u16::try_from(id).ok()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { id, ..controller })
    }

    /// Asks, and gives the attributes of each answer.
    ///
    /// # Errors
    /// What the kernel answered, or that the answer is not one of netlink.
    pub fn ask(&self, command: u8, answers: Answers, attributes: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let flags = FLAG_REQUEST | if answers == Answers::Many { FLAG_DUMP } else { FLAG_ACK };
        self.socket.send(&question(self.id, flags, command, attributes)?, 0)?;
        let mut found = Vec::new();
        while found.len() < ANSWERS_MAX {
            let (datagram, _) = self.socket.recv_from_full()?;
            if take_answers(&datagram, &mut found)? {
                return Ok(found);
            }
        }
        Err(io::Error::other("too many answers"))
    }
}

/// A message with these attributes.
fn question(family: u16, flags: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(HEADERS_BYTES + attributes.len()).map_err(io::Error::other)?;
    let mut question = Vec::with_capacity(HEADERS_BYTES + attributes.len());
    question.extend_from_slice(&length.to_ne_bytes());
    question.extend_from_slice(&family.to_ne_bytes());
    question.extend_from_slice(&flags.to_ne_bytes());
    // Sequence and port: the socket has one question at a time. Then command and version.
    question.extend_from_slice(&[0; 8]);
    question.extend_from_slice(&[command, 1, 0, 0]);
    question.extend_from_slice(attributes);
    Ok(question)
}

/// Takes the answers out of a datagram; `true` after the last.
fn take_answers(mut datagram: &[u8], found: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (number_at::<4>(datagram, 0), number_at::<2>(datagram, 4)) {
        let length = usize::try_from(u32::from_ne_bytes(length)).unwrap_or(usize::MAX);
        let Some(message) = datagram.get(..length).filter(|message| message.len() >= HEADER_BYTES) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match u16::from_ne_bytes(kind) {
            ERROR | DONE => {
                let code = number_at::<4>(message, HEADER_BYTES).map_or(0, i32::from_ne_bytes);
                return if code < 0 { Err(io::Error::from_raw_os_error(code.saturating_neg())) } else { Ok(true) };
            }
            _ => found.push(message.get(HEADERS_BYTES..).unwrap_or_default().to_vec()),
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// One attribute, padded.
#[must_use]
pub fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + payload.len()).unwrap_or(u16::MAX);
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An attribute that holds others.
#[must_use]
pub fn nest(kind: u16, attributes: &[u8]) -> Vec<u8> {
    attribute(kind | NESTED, attributes)
}

/// The number in the attribute of this kind, of 1, 2, 4 or 8 bytes.
#[must_use]
pub fn number(attributes: &[u8], kind: u16) -> Option<u64> {
    let mut rest = attributes;
    loop {
        let length = usize::from(u16::from_ne_bytes(number_at(rest, 0)?));
        let found = u16::from_ne_bytes(number_at(rest, 2)?) & TYPE_MASK;
        let payload = rest.get(4..length)?;
        if found == kind {
            return match payload.len() {
                1 => number_at(payload, 0).map(|bytes| u64::from(u8::from_ne_bytes(bytes))),
                2 => number_at(payload, 0).map(|bytes| u64::from(u16::from_ne_bytes(bytes))),
                4 => number_at(payload, 0).map(|bytes| u64::from(u32::from_ne_bytes(bytes))),
                8 => number_at(payload, 0).map(u64::from_ne_bytes),
                _ => None,
            };
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

fn number_at<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<[u8; BYTES]> {
    bytes.get(at..at + BYTES)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_of_every_length_are_found_behind_others() {
        let attributes = [
            attribute(1, &[7]),
            attribute(2, &300_u16.to_ne_bytes()),
            nest(3, &attribute(1, &[9])),
            attribute(4, &70_000_u32.to_ne_bytes()),
            attribute(5, &(1_u64 << 40).to_ne_bytes()),
            attribute(6, b"text"),
        ]
        .concat();
        let found = [1, 2, 4, 5, 7].map(|kind| number(&attributes, kind));
        assert_eq!(found, [Some(7), Some(300), Some(70_000), Some(1 << 40), None]);
    }

    /// The number in the first answer of a datagram.
    fn answered(datagram: &[u8], kind: u16) -> io::Result<u64> {
        let mut found = Vec::new();
        take_answers(datagram, &mut found)?;
        found.first().and_then(|answer| number(answer, kind)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    #[test]
    fn question_has_header_command_and_padded_attribute() {
        let bytes = question(16, FLAG_REQUEST, 3, &attribute(2, b"netdev\0")).unwrap();
        assert_eq!(bytes.len(), 32);
        assert_eq!(bytes[..4], 32_u32.to_ne_bytes());
        assert_eq!((bytes[16], bytes[17], &bytes[24..]), (3, 1, &b"netdev\0\0"[..]));
    }

    #[test]
    fn answers_cut_or_odd_are_errors() {
        let answer = question(20, FLAG_REQUEST, 1, &attribute(3, &7_u64.to_ne_bytes())).unwrap();
        assert_eq!(answered(&answer, 3).unwrap(), 7);
        answered(&answer, 1).unwrap_err();
        for len_bytes in 0..answer.len() {
            answered(&answer[..len_bytes], 3).unwrap_err();
        }
    }

    #[test]
    fn family_that_no_kernel_has_is_not_found() {
        match Family::open("nearwire-none") {
            Err(error) => assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOENT.raw_os_error())),
            Ok(_) => panic!("there is such a family"),
        }
        assert!(Family::open("nlctrl").is_ok());
    }

    proptest! {
        #[test]
        fn any_bytes_in_an_answer_never_panic(bytes: Vec<u8>, length in 0..40u32, kind in 0..5u16) {
            let _ = number(&bytes, kind);
            let datagram = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &bytes].concat();
            let _ = take_answers(&datagram, &mut Vec::new());
        }
    }
}
