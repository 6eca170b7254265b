//! Questions to a family of generic netlink, and the attributes of the answers.
//!
//! Source: `include/uapi/linux/netlink.h`, `include/uapi/linux/genetlink.h`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::GENERIC;

use crate::netlink;
use crate::netlink::message::Attributes;

pub use crate::netlink::Answers;
pub use crate::netlink::message::{attribute, nest};

/// `struct genlmsghdr`.
const HEADER_BYTES: usize = 4;
/// The family that knows the others, and its question for one by name.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// A family of the calling thread's network namespace.
#[derive(Debug)]
pub struct Family {
    socket: OwnedFd,
    id: u16,
}

impl Family {
    /// Finds the family of this name.
    ///
    /// # Errors
    /// `ENOENT` when the kernel does not have it.
    pub fn open(name: &str) -> io::Result<Self> {
        let controller = Self { socket: netlink::open(Some(GENERIC))?, id: CONTROLLER };
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
        let payload = [&[command, 1, 0, 0], attributes].concat();
        netlink::ask(&self.socket, self.id, answers, &payload, HEADER_BYTES)
    }
}

/// The number in the attribute of this kind, of 1, 2, 4 or 8 bytes.
#[must_use]
pub fn number(attributes: &[u8], kind: u16) -> Option<u64> {
    let value = Attributes(attributes).value(kind)?;
    match value.len() {
        1 => value.first_chunk().map(|bytes| u64::from(u8::from_ne_bytes(*bytes))),
        2 => value.first_chunk().map(|bytes| u64::from(u16::from_ne_bytes(*bytes))),
        4 => value.first_chunk().map(|bytes| u64::from(u32::from_ne_bytes(*bytes))),
        8 => value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::Request;
    use crate::netlink::take_answers;
    use proptest::prelude::*;

    fn question(family: u16, flags: u16, command: u8, attributes: &[u8]) -> Vec<u8> {
        Request::new(family, flags, 0, &[&[command, 1, 0, 0], attributes].concat()).into_bytes()
    }

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
        take_answers(datagram, HEADER_BYTES, &mut found)?;
        found.first().and_then(|answer| number(answer, kind)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    #[test]
    fn question_has_header_command_and_padded_attribute() {
        let bytes = question(16, 1, 3, &attribute(2, b"netdev\0"));
        assert_eq!(bytes.len(), 32);
        assert_eq!(bytes[..4], 32_u32.to_ne_bytes());
        assert_eq!((bytes[16], bytes[17], &bytes[24..]), (3, 1, &b"netdev\0\0"[..]));
    }

    #[test]
    fn answers_cut_or_odd_are_errors() {
        let answer = question(20, 1, 1, &attribute(3, &7_u64.to_ne_bytes()));
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
            let _ = take_answers(&datagram, HEADER_BYTES, &mut Vec::new());
        }
    }
}
