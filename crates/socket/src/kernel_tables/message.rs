//! Netlink messages in a datagram, and attributes in a message, in place.
//!
//! Source: `include/uapi/linux/netlink.h`, `struct nlmsghdr` and `struct nlattr`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest datagram that is read; the kernel fills at most 32 KiB unless a single message is longer.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 1 << 16;
const HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// Without NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const ATTRIBUTE_KIND_MASK: u16 = 0x3fff;

/// A message that is not of the form its type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The address family, the first byte of each rtnetlink message.
    pub(crate) fn family(&self) -> i32 {
        self.payload.first().copied().map_or(libc::AF_UNSPEC, i32::from)
    }

    /// The attributes behind a header of `header_bytes`.
    pub(crate) fn attributes(&self, header_bytes: usize) -> Attributes<'a> {
        Attributes(self.payload.get(header_bytes..).unwrap_or_default())
    }
}

/// The messages of a datagram. What is cut off at the end is not given; the kernel never cuts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    pub(crate) const fn new(datagram: &'a [u8]) -> Self {
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

/// Attributes as (kind, value).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

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
pub(crate) fn u16_of(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

/// The number at the start, in the byte order of this machine.
pub(crate) fn u32_of(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// The address whose bytes these are; its length tells the family.
pub(crate) fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => bytes.first_chunk::<4>().map(|bytes| Ipv4Addr::from_octets(*bytes).into()),
        16 => bytes.first_chunk::<16>().map(|bytes| Ipv6Addr::from_octets(*bytes).into()),
        _ => None,
    }
}

/// Makes one message.
#[derive(Debug)]
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// `header` is the part before the attributes.
    pub(crate) fn new(kind: u16, flags: u16, sequence: u32, header: &[u8]) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        // The port: the kernel knows whose socket this is.
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(header);
        Self(bytes)
    }

    /// `value` is at most 16 bytes in all uses.
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let len_bytes = (ATTRIBUTE_HEADER_BYTES + value.len()) as u16;
        self.0.extend_from_slice(&len_bytes.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        let len_bytes = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len_bytes.to_ne_bytes());
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
