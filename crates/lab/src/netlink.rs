//! One conversation with the kernel's routing netlink: a request, its answers, its verdict.
//!
//! Messages are those of netlink-packet-route; this adds sequence, acknowledgement, dumps and the
//! kernel's own words on a refusal. Source: netlink(7),
//! <https://docs.kernel.org/userspace-api/netlink/intro.html>.

use std::io;

use netlink_packet_core::{
    DefaultNla, ErrorMessage, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, Nla, NlasIterator, Parseable,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::{LabError, Namespace};

/// The kernel as the peer of a netlink socket: port 0, no groups.
const KERNEL: (u32, u32) = (0, 0);
/// `NLMSGERR_ATTR_MSG`: the kernel's words in an extended acknowledgement.
const NLMSGERR_ATTR_MSG: u16 = 1;
/// Length of `struct nlmsghdr`, which an acknowledgement repeats before its attributes.
const NLMSGHDR_BYTES: usize = 16;
/// A dump is repeated this often when the tables changed while it ran.
const DUMP_ATTEMPTS: u32 = 5;

/// A netlink socket of one network namespace: that of the thread that opened it.
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket in the namespace of the calling thread.
    pub(crate) fn open() -> Result<Self, LabError> {
        let failed = |source| LabError::NetlinkSocket { action: "open a socket".to_owned(), source };
        let mut socket = Socket::new(NETLINK_ROUTE).map_err(failed)?;
        socket.bind_auto().map_err(failed)?;
        socket.connect(&SocketAddr::new(KERNEL.0, KERNEL.1)).map_err(failed)?;
        // Words for a refusal, and no copy of the request with it. Both are only for better
        // messages; strict checking makes the kernel honour the filters of a dump.
        socket.set_ext_ack(true).ok();
        socket.set_cap_ack(true).ok();
        socket.set_netlink_get_strict_chk(true).ok();
        Ok(Self { socket, sequence: 0 })
    }

    /// Opens a socket in `namespace`.
    pub(crate) fn open_in(namespace: &Namespace) -> Result<Self, LabError> {
        namespace.enter(Self::open)?
    }

    /// Sends a request that changes something, with extra `flags` such as `NLM_F_CREATE`.
    /// `action` is the sentence for an error message: what is tried, on what.
    pub(crate) fn request(
        &mut self,
        action: &dyn Fn() -> String,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), LabError> {
        self.exchange(message, flags | NLM_F_ACK).map(|_answers| ()).map_err(|failure| failure.explain(action()))
    }

    /// Asks for one thing. `None` when the kernel acknowledges without an answer.
    pub(crate) fn get(
        &mut self,
        action: &dyn Fn() -> String,
        message: RouteNetlinkMessage,
    ) -> Result<Option<RouteNetlinkMessage>, LabError> {
        self.exchange(message, NLM_F_ACK)
            .map(|answers| answers.messages.into_iter().next())
            .map_err(|failure| failure.explain(action()))
    }

    /// Asks for a whole table.
    pub(crate) fn dump(
        &mut self,
        action: &dyn Fn() -> String,
        message: &RouteNetlinkMessage,
    ) -> Result<Vec<RouteNetlinkMessage>, LabError> {
        let mut attempt = 1;
        loop {
            let answers = self.exchange(message.clone(), NLM_F_DUMP).map_err(|failure| failure.explain(action()))?;
            if !answers.interrupted || attempt == DUMP_ATTEMPTS {
                return Ok(answers.messages);
            }
            attempt += 1;
        }
    }

    fn exchange(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<Answers, Failure> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        uninterrupted(|| self.socket.send(&bytes, 0))?;

        let mut answers = Answers::default();
        loop {
            let (datagram, _kernel) = uninterrupted(|| self.socket.recv_from_full())?;
            if answers.take(&datagram, self.sequence)? {
                return Ok(answers);
            }
        }
    }
}

/// Repeats a socket call that a signal interrupted: half an exchange would leave it unknown
/// whether the kernel has done what was asked.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> Result<T, Failure> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome.map_err(Failure::Socket),
        }
    }
}

/// What came back for one request.
#[derive(Default)]
struct Answers {
    messages: Vec<RouteNetlinkMessage>,
    /// The table changed while it was dumped.
    interrupted: bool,
}

impl Answers {
    /// Takes in one datagram, which may hold several messages. True when the answer is complete.
    fn take(&mut self, datagram: &[u8], sequence: u32) -> Result<bool, Failure> {
        let mut rest = datagram;
        while !rest.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .map_err(|error| Failure::Decode(error.to_string()))?;
            let length_bytes = (message.header.length as usize).next_multiple_of(4);
            rest = rest.get(length_bytes..).unwrap_or_default();
            if message.header.sequence_number != sequence {
                continue;
            }
            self.interrupted |= message.header.flags & NLM_F_DUMP_INTR != 0;
            match message.payload {
                NetlinkPayload::Error(verdict) => return Failure::from_verdict(&verdict),
                NetlinkPayload::Done(done) if done.code < 0 => {
                    return Err(Failure::Refused(errno(done.code), String::new()));
                }
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::InnerMessage(message) => self.messages.push(message),
                _ => {}
            }
        }
        Ok(false)
    }
}

/// Why an exchange failed, before it is known what it was for.
enum Failure {
    Socket(io::Error),
    Decode(String),
    Refused(io::Error, String),
}

impl Failure {
    /// An acknowledgement ends the exchange well, anything else is a refusal.
    fn from_verdict(verdict: &ErrorMessage) -> Result<bool, Self> {
        match verdict.raw_code() {
            0 => Ok(true),
            code => Err(Self::Refused(errno(code), kernel_words(&verdict.header))),
        }
    }

    fn explain(self, action: String) -> LabError {
        match self {
            Self::Socket(source) => LabError::NetlinkSocket { action, source },
            Self::Decode(reason) => LabError::Unintelligible { action, reason },
            Self::Refused(source, detail) => LabError::Refused { action, source, detail },
        }
    }
}

fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code.abs())
}

/// The message of an extended acknowledgement, or nothing.
fn kernel_words(echo: &[u8]) -> String {
    let attributes = echo.get(NLMSGHDR_BYTES..).unwrap_or_default();
    NlasIterator::new(attributes)
        .flatten()
        .filter_map(|attribute| DefaultNla::parse(&attribute).ok())
        .find(|attribute| attribute.kind() == NLMSGERR_ATTR_MSG)
        .map(|attribute| {
            let mut text = vec![0; attribute.value_len()];
            attribute.emit_value(&mut text);
            String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned()
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_with_words_received_words_are_found() {
        let mut echo = vec![0; NLMSGHDR_BYTES];
        // One attribute: length 4 + 6, type NLMSGERR_ATTR_MSG, "hello\0", padded to 12.
        echo.extend([10, 0, 1, 0]);
        echo.extend(b"hello\0\0\0");
        assert_eq!(kernel_words(&echo), "hello");
    }

    #[test]
    fn refusal_without_words_received_nothing_is_made_up() {
        assert_eq!(kernel_words(&[0; NLMSGHDR_BYTES]), "");
        assert_eq!(kernel_words(&[]), "");
    }

    #[test]
    fn foreign_sequence_received_is_skipped() {
        let mut answers = Answers::default();
        let mut acknowledgement = vec![36, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        acknowledgement.extend([0; 20]);
        assert!(!matches!(answers.take(&acknowledgement, 8), Ok(true)));
        assert!(matches!(answers.take(&acknowledgement, 7), Ok(true)));
    }
}
