//! The control connection between initiator and responder: one JSON object a line, question and answer.
//!
//! The initiator decides everything and sends it over; the responder holds no settings of its own. On a virtual cable
//! the connection is a socket pair to a child process in the far namespace, between two hosts it is TCP and the
//! initiator must present the token that the responder printed.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nearwire_report::record::Reading;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::endpoint::Remark;
use crate::paths::{EndAddress, LocalEnd, Setup};
use crate::workloads::Responded;

/// Both ends must speak the same; raised with every change of a message.
pub const PROTOCOL: u32 = 3;

/// A longer line is an error: a stranger must not fill our memory.
const LINE_LIMIT_BYTES: u64 = 2 << 20;

/// How long the other end may take to answer. Opening an AF_XDP port with a link reset takes seconds on some drivers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// From the initiator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Ask {
    /// The first message.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// Program version, for messages to people.
        version: String,
        /// What the responder printed; empty on a cable that the initiator laid itself.
        token: String,
        /// CPU to pin to.
        cpu: Option<u32>,
        /// The responder's end of a cable that the initiator laid; none when it must find out itself.
        local: Option<Box<LocalEnd>>,
    },
    /// Open one end of a path.
    Open {
        /// The cell.
        setup: Box<Setup>,
    },
    /// Connect what was opened and echo until `Stop`.
    Start {
        /// The initiator's end.
        peer: EndAddress,
    },
    /// End the round.
    Stop,
    /// The experiment is over.
    Bye,
}

/// From the responder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// To `Hello`.
    Welcome {
        /// Program version.
        version: String,
        /// Environment of the responder's host, keyed by setting id.
        environment: BTreeMap<String, Reading>,
        /// The responder's end of the cable.
        local: LocalEnd,
        /// CPU it is pinned to.
        cpu: Option<u32>,
        /// Same as the initiator's on one machine.
        boot_id: String,
    },
    /// To `Open`.
    Opened {
        /// Where the initiator is to connect or send.
        address: EndAddress,
    },
    /// To `Start`: connected and listening.
    Started,
    /// To `Stop`.
    Done {
        /// What the round came to.
        report: ResponderReport,
    },
    /// To anything: it could not be done, why, and what to do.
    Failed {
        /// For people.
        why: String,
    },
}

/// The responder's side of a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponderReport {
    /// What came of it.
    pub outcome: Responded,
    /// What is worth saying about this end.
    pub remarks: Vec<Remark>,
}

/// Either kind of connection.
#[derive(Debug)]
pub enum Stream {
    /// To a child.
    Unix(UnixStream),
    /// To another host.
    Tcp(TcpStream),
}

impl Stream {
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).read(buffer),
            Stream::Tcp(stream) => (&mut &*stream).read(buffer),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&mut &*self).read(buffer)
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).write(bytes),
            Stream::Tcp(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// One end of the control connection.
#[derive(Debug)]
pub struct Control {
    stream: BufReader<Stream>,
}

impl Control {
    /// Over a connected stream.
    #[must_use]
    pub fn new(stream: Stream) -> Control {
        Control { stream: BufReader::new(stream) }
    }

    /// Writes one message.
    ///
    /// # Errors
    /// The connection broke.
    pub fn tell<M: Serialize>(&mut self, message: &M) -> Result<(), ControlError> {
        let mut line = serde_json::to_vec(message).map_err(|source| ControlError::Malformed { source })?;
        line.push(b'\n');
        (&mut self.stream.get_ref()).write_all(&line).map_err(ControlError::from_io)
    }

    /// Reads one message, waiting up to `timeout` (for ever without one).
    ///
    /// # Errors
    /// The connection broke or closed, nothing came, or what came is not such a message.
    pub fn hear<M: DeserializeOwned>(&mut self, timeout: Option<Duration>) -> Result<M, ControlError> {
        self.stream.get_ref().set_read_timeout(timeout).map_err(ControlError::from_io)?;
        let mut line = Vec::new();
        let bytes =
            (&mut self.stream).take(LINE_LIMIT_BYTES).read_until(b'\n', &mut line).map_err(ControlError::from_io)?;
        match line.last() {
            None => Err(ControlError::Gone),
            Some(b'\n') => serde_json::from_slice(&line).map_err(|source| ControlError::Malformed { source }),
            Some(_) if bytes as u64 == LINE_LIMIT_BYTES => Err(ControlError::TooLong),
            Some(_) => Err(ControlError::Gone),
        }
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// As [`Control::hear`], and [`ControlError::Refused`] when the responder says it could not.
    pub fn ask(&mut self, ask: &Ask) -> Result<Answer, ControlError> {
        self.tell(ask)?;
        match self.hear(Some(ANSWER_TIMEOUT))? {
            Answer::Failed { why } => Err(ControlError::Refused { why }),
            answer => Ok(answer),
        }
    }

    /// Waits until there are news, looking now and then whether to give up. `Ok` also when `give_up` says so.
    ///
    /// # Errors
    /// [`ControlError::Silent`] when nothing came within `timeout` (never without one).
    pub fn await_news(&self, timeout: Option<Duration>, give_up: impl Fn() -> bool) -> Result<(), ControlError> {
        const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let began = Instant::now();
        while self.stream.buffer().is_empty() && !give_up() {
            let mut fds = [PollFd::new(self.stream.get_ref(), PollFlags::IN)];
            if matches!(poll(&mut fds, Some(&LOOK)), Ok(ready) if ready > 0) {
                break;
            }
            if timeout.is_some_and(|timeout| began.elapsed() >= timeout) {
                return Err(ControlError::Silent);
            }
        }
        Ok(())
    }

    /// True when a message, or the end of the connection, can be read without waiting.
    #[must_use]
    pub fn has_news(&self) -> bool {
        if !self.stream.buffer().is_empty() {
            return true;
        }
        let mut fds = [PollFd::new(self.stream.get_ref(), PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut fds, Some(&now)), Ok(ready) if ready > 0)
    }
}

/// Why the two ends could not talk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The other end is not there any more.
    #[error("the other end has gone: it closed the control connection (was it killed?)")]
    Gone,
    /// Nothing came in time.
    #[error("the other end stayed silent for too long; is it still running and reachable?")]
    Silent,
    /// The connection failed.
    #[error("control connection: {source}")]
    Broken {
        /// What the kernel said.
        source: io::Error,
    },
    /// What came is not one of our messages.
    #[error(
        "the other end does not speak this version's control protocol ({source}); use the same nearwire on both hosts"
    )]
    Malformed {
        /// What the parser said.
        source: serde_json::Error,
    },
    /// The line had no end.
    #[error("the other end sent a control line of over {LINE_LIMIT_BYTES} bytes; is that a nearwire responder?")]
    TooLong,
    /// The other end could not do it.
    #[error("the responder could not: {why}")]
    Refused {
        /// In its own words.
        why: String,
    },
    /// The answer belongs to another question.
    #[error("the responder answered {got} to {asked}; use the same nearwire on both hosts")]
    Unexpected {
        /// The question.
        asked: &'static str,
        /// What came.
        got: String,
    },
}

impl ControlError {
    fn from_io(source: io::Error) -> ControlError {
        match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ControlError::Silent,
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
                ControlError::Gone
            }
            _ => ControlError::Broken { source },
        }
    }

    /// For an answer that does not fit.
    #[must_use]
    pub fn unexpected(asked: &'static str, got: &Answer) -> ControlError {
        let text = serde_json::to_string(got).unwrap_or_default();
        ControlError::Unexpected { asked, got: text.chars().take(80).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Control, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Control::new(Stream::Unix(ours)), theirs)
    }

    #[test]
    fn message_told_is_heard() {
        let (mut near, theirs) = pair();
        let mut far = Control::new(Stream::Unix(theirs));
        near.tell(&Ask::Stop).unwrap();
        assert!(far.has_news());
        assert!(matches!(far.hear::<Ask>(None).unwrap(), Ask::Stop));
        assert!(!far.has_news());
    }

    #[test]
    fn two_messages_in_one_segment_are_both_news() {
        let (mut near, mut theirs) = pair();
        theirs.write_all(b"{\"answer\":\"started\"}\n{\"answer\":\"failed\",\"why\":\"x\"}\n").unwrap();
        assert!(matches!(near.hear::<Answer>(None).unwrap(), Answer::Started));
        assert!(near.has_news());
        assert!(matches!(near.hear::<Answer>(None).unwrap(), Answer::Failed { .. }));
    }

    #[test]
    fn peer_gone_is_said_so() {
        let (mut near, theirs) = pair();
        drop(theirs);
        assert!(near.has_news());
        assert!(matches!(near.hear::<Answer>(None), Err(ControlError::Gone)));
    }

    #[test]
    fn half_a_message_then_gone_is_gone() {
        let (mut near, mut theirs) = pair();
        theirs.write_all(b"{\"answer\":\"sta").unwrap();
        drop(theirs);
        assert!(matches!(near.hear::<Answer>(None), Err(ControlError::Gone)));
    }

    #[test]
    fn foreign_line_is_malformed() {
        let (mut near, mut theirs) = pair();
        theirs.write_all(b"HTTP/1.1 400 Bad Request\r\n").unwrap();
        assert!(matches!(near.hear::<Answer>(None), Err(ControlError::Malformed { .. })));
    }

    #[test]
    fn endless_line_is_cut_off() {
        let (mut near, mut theirs) = pair();
        let writer = std::thread::spawn(move || {
            let chunk = [b'x'; 65536];
            for _ in 0..(LINE_LIMIT_BYTES / 65536) {
                theirs.write_all(&chunk).unwrap();
            }
            theirs
        });
        assert!(matches!(near.hear::<Answer>(None), Err(ControlError::TooLong)));
        writer.join().unwrap();
    }
}
