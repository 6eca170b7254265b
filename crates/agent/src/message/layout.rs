//! Fields of messages: how each kind of value lies in the bytes, and how it is read without trust.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Why bytes are no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A field lies behind the end.
    #[error("it ends at byte {at}, within a field")]
    Cut {
        /// Where it ends.
        at: usize,
    },
    /// Bytes are left over.
    #[error("{len_bytes} bytes are left over")]
    LeftOver {
        /// How many.
        len_bytes: usize,
    },
    /// It is longer than any message.
    #[error("it has {len_bytes} bytes, more than any message")]
    TooLong {
        /// How long it is.
        len_bytes: usize,
    },
    /// A field holds a value that it cannot have.
    #[error("{what} cannot be {value}")]
    Value {
        /// The field's type.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// A text is not UTF-8, or has control characters.
    #[error("a text is not printable UTF-8")]
    Text,
}

/// Text of at most `MOST` bytes without control characters: it may be shown on a terminal.
#[derive(Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Text<const MOST: usize>(String);

impl<const MOST: usize> Text<MOST> {
    /// As much of a text as fits, with control characters replaced.
    #[must_use]
    pub fn cut(text: &str) -> Self {
        let mut kept = String::new();
        for c in text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }) {
            if kept.len() + c.len_utf8() > MOST {
                break;
            }
            kept.push(c);
        }
        Text(kept)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MOST: usize> fmt::Display for Text<MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const MOST: usize> fmt::Debug for Text<MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What is left of a message.
pub(super) struct Reader<'a> {
    /// The kind comes before the number, and everything else behind it.
    kind: &'a [u8],
    rest: &'a [u8],
    taken: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(kind: &'a [u8; 2], rest: &'a [u8]) -> Reader<'a> {
        Reader { kind, rest, taken: 0 }
    }

    fn bytes(&mut self, len_bytes: usize) -> Result<&'a [u8], Malformed> {
        let from = if self.kind.is_empty() { &mut self.rest } else { &mut self.kind };
        let (taken, left) = from.split_at_checked(len_bytes).ok_or(Malformed::Cut { at: self.taken })?;
        *from = left;
        self.taken += len_bytes;
        Ok(taken)
    }

    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed::LeftOver { len_bytes: self.rest.len() }) }
    }
}

/// A value that lies in a message.
pub(super) trait Field: Sized {
    fn put(&self, bytes: &mut Vec<u8>);
    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed>;
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn put(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                let mut value = [0; size_of::<$type>()];
                value.copy_from_slice(reader.bytes(size_of::<$type>())?);
                Ok(<$type>::from_le_bytes(value))
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64);

impl Field for bool {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(*self));
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match u8::take(reader)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(Malformed::Value { what: "a truth value", value: value.into() }),
        }
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.is_some().put(bytes);
        if let Some(value) = self {
            value.put(bytes);
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        if bool::take(reader)? { T::take(reader).map(Some) } else { Ok(None) }
    }
}

/// Lists are as long as they say; memory is taken as elements are found, so that a wrong length costs nothing.
impl<T: Field> Field for Vec<T> {
    fn put(&self, bytes: &mut Vec<u8>) {
        let count = u16::try_from(self.len()).unwrap_or(u16::MAX);
        count.put(bytes);
        self.iter().take(usize::from(count)).for_each(|value| value.put(bytes));
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = u16::take(reader)?;
        (0..count).map(|_| T::take(reader)).collect()
    }
}

impl<const MOST: usize> Field for Text<MOST> {
    fn put(&self, bytes: &mut Vec<u8>) {
        (self.0.len() as u16).put(bytes);
        bytes.extend_from_slice(self.0.as_bytes());
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let len_bytes = usize::from(u16::take(reader)?);
        if len_bytes > MOST {
            return Err(Malformed::Value { what: "the length of a text", value: len_bytes as u64 });
        }
        let text = std::str::from_utf8(reader.bytes(len_bytes)?).map_err(|_| Malformed::Text)?;
        if text.chars().any(char::is_control) { Err(Malformed::Text) } else { Ok(Text(text.to_owned())) }
    }
}

impl Field for IpAddr {
    fn put(&self, bytes: &mut Vec<u8>) {
        match self {
            IpAddr::V4(address) => {
                bytes.push(4);
                bytes.extend_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                bytes.push(6);
                bytes.extend_from_slice(&address.octets());
            }
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match u8::take(reader)? {
            4 => {
                let mut octets = [0; 4];
                octets.copy_from_slice(reader.bytes(4)?);
                Ok(IpAddr::V4(Ipv4Addr::from(octets)))
            }
            6 => {
                let mut octets = [0; 16];
                octets.copy_from_slice(reader.bytes(16)?);
                Ok(IpAddr::V6(Ipv6Addr::from(octets)))
            }
            value => Err(Malformed::Value { what: "a family of addresses", value: value.into() }),
        }
    }
}

impl Field for SocketAddr {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.ip().put(bytes);
        self.port().put(bytes);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(SocketAddr::new(IpAddr::take(reader)?, u16::take(reader)?))
    }
}

/// Defines a structure or enumeration with both directions of its layout. An enumeration begins with its kind (`u16`).
macro_rules! layout {
    ($(#[$outer:meta])* pub struct $name:ident { $($(#[$inner:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name { $($(#[$inner])* pub $field: $type),* }

        impl Field for $name {
            fn put(&self, bytes: &mut Vec<u8>) {
                $(Field::put(&self.$field, bytes);)*
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok($name { $($field: Field::take(reader)?),* })
            }
        }
    };
    ($(#[$outer:meta])* pub enum $name:ident {
        $($(#[$inner:meta])* $code:literal => $variant:ident { $($(#[$of_field:meta])* $field:ident: $type:ty),* $(,)? }),* $(,)?
    }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq)]
        pub enum $name { $($(#[$inner])* $variant { $($(#[$of_field])* $field: $type),* }),* }

        impl Field for $name {
            fn put(&self, bytes: &mut Vec<u8>) {
                match self {
                    $($name::$variant { $($field),* } => {
                        Field::put(&($code as u16), bytes);
                        $(Field::put($field, bytes);)*
                    })*
                }
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                match <u16 as Field>::take(reader)? {
                    $($code => Ok($name::$variant { $($field: Field::take(reader)?),* }),)*
                    value => Err(Malformed::Value { what: stringify!($name), value: value.into() }),
                }
            }
        }
    };
}
pub(super) use layout;
