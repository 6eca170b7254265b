//! Netlink messages in a datagram, and attributes in a message, in place.
//!
//! Source: `include/uapi/linux/netlink.h`, `struct nlmsghdr` and `struct nlattr`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;

/// Room for the longest datagram that is read; the kernel fills at most 32 KiB unless a single message is longer.
pub const DATAGRAM_BYTES_MAX: usize = 1 << 16;
const HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// `-MAX_ERRNO` of `include/linux/err.h`.
const ERROR_LEAST: i32 = -4095;
/// Without NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const ATTRIBUTE_KIND_MASK: u16 = 0x3fff;

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// `nlmsg_type`.
    pub kind: u16,
    /// `nlmsg_flags`.
    pub flags: u16,
    /// `nlmsg_seq`: that of the request which this answers.
    pub sequence: u32,
    /// What follows the header of netlink.
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The address family, the first byte of each rtnetlink message.
    #[must_use]
    pub fn family(&self) -> i32 {
        self.payload.first().copied().map_or(libc::AF_UNSPEC, i32::from)
    }

    /// The attributes behind a header of `header_bytes`.
    #[must_use]
    pub fn attributes(&self, header_bytes: usize) -> Attributes<'a> {
        Attributes(self.payload.get(header_bytes..).unwrap_or_default())
    }

    /// What an NLMSG_DONE or NLMSG_ERROR says: zero, or a negative error number.
    ///
    /// # Errors
    /// The kernel refused the request; `EPROTO` for a number that is no error of the kernel.
    pub fn verdict(&self) -> Result<(), Errno> {
        match u32_of(self.payload).map_or(0, u32::cast_signed) {
            code @ ERROR_LEAST..=-1 => Err(Errno::from_raw_os_error(-code)),
            ..=-1 => Err(Errno::PROTO),
            0.. => Ok(()),
        }
    }
}

/// The messages of a datagram. What is cut off at the end is not given; the kernel never cuts.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    /// Of what recv(2) gave.
    #[must_use]
    pub const fn new(datagram: &'a [u8]) -> Self {
        Self(datagram)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let len_bytes = u32_of(self.0)? as usize;
        let message = self.0.get(..len_bytes).filter(|message| message.len() >= HEADER_BYTES)?;
        self.0 = self.0.get(len_bytes.next_multiple_of(4)..).unwrap_or_default();
        Some(Message {
            kind: u16_of(&message[4..])?,
            flags: u16_of(&message[6..])?,
            sequence: u32_of(&message[8..])?,
            payload: &message[HEADER_BYTES..],
        })
    }
}

/// Attributes as (kind, value). Stops at the first that does not fit.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Attributes<'a> {
    /// The value of the first attribute of a kind.
    #[must_use]
    pub fn value(mut self, wanted: u16) -> Option<&'a [u8]> {
        self.find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let len_bytes = usize::from(u16_of(self.0)?);
        let kind = u16_of(self.0.get(2..)?)? & ATTRIBUTE_KIND_MASK;
        let value = self.0.get(ATTRIBUTE_HEADER_BYTES..len_bytes)?;
        self.0 = self.0.get(len_bytes.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// The number at the start, in the byte order of this machine.
#[must_use]
pub fn u16_of(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

/// The number at the start, in the byte order of this machine.
#[must_use]
pub fn u32_of(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// The address whose bytes these are; its length says which family.
#[must_use]
pub fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => bytes.first_chunk::<4>().map(|bytes| Ipv4Addr::from_octets(*bytes).into()),
        16 => bytes.first_chunk::<16>().map(|bytes| Ipv6Addr::from_octets(*bytes).into()),
        _ => None,
    }
}

/// Makes one message.
#[derive(Debug)]
pub struct Request(Vec<u8>);

impl Request {
    /// `header` is the part before the attributes. The port stays 0: the kernel knows whose socket this is.
    #[must_use]
    pub fn new(kind: u16, flags: u16, sequence: u32, header: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(header);
        Self(bytes)
    }

    /// Adds an attribute; `value` is at most 64 KiB less 5 bytes long.
    #[must_use]
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend(attribute(kind, value));
        self
    }

    /// The message, with its length.
    #[must_use]
    pub fn into_bytes(mut self) -> Vec<u8> {
        let len_bytes = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len_bytes.to_ne_bytes());
        self.0
    }
}

/// One attribute, padded; `value` is at most 64 KiB less 5 bytes long.
#[must_use]
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len_bytes = u16::try_from(ATTRIBUTE_HEADER_BYTES + value.len()).unwrap_or(u16::MAX);
    let mut bytes = [len_bytes.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An attribute that holds others.
#[must_use]
pub fn nest(kind: u16, attributes: &[u8]) -> Vec<u8> {
    attribute(kind | libc::NLA_F_NESTED as u16, attributes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn datagram_of_two_messages_gives_both_with_their_attributes() {
        let mut datagram = Request::new(20, 2, 7, &[2, 24, 0, 0, 9, 0, 0, 0]).attribute(1, &[10, 0, 0, 1]).into_bytes();
        datagram.extend(Request::new(21, 0, 8, &[10]).into_bytes());
        let messages: Vec<_> = Messages::new(&datagram).collect();
        assert_eq!(messages.len(), 2);
        assert_eq!((messages[0].kind, messages[0].flags, messages[0].sequence), (20, 2, 7));
        assert_eq!(messages[0].attributes(8).collect::<Vec<_>>(), [(1, &[10, 0, 0, 1][..])]);
        assert_eq!((messages[1].kind, messages[1].family()), (21, libc::AF_INET6));
    }

    #[test]
    fn nonsense_ends_the_messages_and_attributes() {
        assert_eq!(Messages::new(&[]).count(), 0);
        assert_eq!(Messages::new(&[0; 64]).count(), 0, "a length of 0");
        assert_eq!(Messages::new(&[255; 64]).count(), 0, "longer than the datagram");
        assert_eq!(Attributes(&[0; 8]).count(), 0);
        assert_eq!(Attributes(&[3, 0, 1, 0]).count(), 0);
        assert_eq!(Attributes(&[9, 0, 1, 0, 1, 2, 3, 4]).count(), 0);
        assert_eq!(Attributes(&[5, 0, 1, 0x80, 6]).collect::<Vec<_>>(), [(1, &[6][..])], "no padding at the end");
    }

    #[test]
    fn verdict_is_the_error_number_of_the_kernel() {
        let verdict = |code: i32| {
            let bytes = Request::new(2, 0, 1, &code.to_ne_bytes()).into_bytes();
            Messages::new(&bytes).next().unwrap().verdict()
        };
        assert_eq!((verdict(0), verdict(-1)), (Ok(()), Err(Errno::PERM)));
        assert_eq!((verdict(i32::MIN), verdict(-5000)), (Err(Errno::PROTO), Err(Errno::PROTO)));
    }

    proptest! {
        #[test]
        fn any_bytes_read_never_panic(bytes: Vec<u8>) {
            for message in Messages::new(&bytes) {
                prop_assert!(message.attributes(4).count() <= bytes.len());
            }
        }
    }
}
