//! A loopback cable in the care of another process, which puts the interfaces back whatever becomes of this one.
//!
//! The kernel sends a hardware interface home when its namespace goes, yet down and without addresses. So a process of its
//! own, the guardian, lends the interfaces ([`guard`]) and passes the two namespaces over ([`GuardedCable::lay`]); when the
//! connection between the two closes, by `kill -9` too, it puts everything back and leaves.
//!
//! ```text
//! ours                      guardian
//!   ---- starts ------------->  lays the cable
//!   <--- Laid, 2 namespaces --
//!   ---- one byte, or gone -->  puts back
//!   <--- PutBack -------------
//! ```

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::{Cable, CableEnd, CablePair, LabError, LabErrorKind, LoopbackCable, Namespace};

/// What the guardian says, one JSON object a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
enum Word {
    /// The interfaces are lent; the namespaces come along.
    Laid { near: End, far: End, warnings: Vec<String> },
    /// They are back as they were.
    PutBack,
    /// It could not be done.
    Failed { kind: LabErrorKind, why: String },
}

/// A [`CableEnd`] without its namespace.
#[derive(Debug, Serialize, Deserialize)]
struct End {
    interface: String,
    ifindex: u32,
    mac: [u8; 6],
    ipv4: Ipv4Addr,
    ipv6: Ipv6Addr,
    ipv6_usable: bool,
    mtu_bytes: u32,
    driver: String,
    queues: u32,
}

impl End {
    fn of(end: &CableEnd) -> End {
        End {
            interface: end.interface.clone(),
            ifindex: end.ifindex,
            mac: end.mac,
            ipv4: end.ipv4,
            ipv6: end.ipv6,
            ipv6_usable: end.ipv6_usable,
            mtu_bytes: end.mtu_bytes,
            driver: end.driver.clone(),
            queues: end.queues,
        }
    }

    fn within(self, namespace: Namespace) -> CableEnd {
        CableEnd {
            namespace,
            interface: self.interface,
            ifindex: self.ifindex,
            mac: self.mac,
            ipv4: self.ipv4,
            ipv6: self.ipv6,
            ipv6_usable: self.ipv6_usable,
            mtu_bytes: self.mtu_bytes,
            driver: self.driver,
            queues: self.queues,
        }
    }
}

/// The guardian's whole life: lends the two interfaces, waits until `ours` closes or sends a byte, puts them back.
///
/// # Errors
/// What could not be put back when nobody is left to be told; all else is told over `ours`.
pub fn guard(near: &str, far: &str, mut ours: UnixStream) -> Result<(), LabError> {
    let cable = match LoopbackCable::lay(near, far) {
        Ok(cable) => cable,
        Err(error) => {
            // Whoever asked may have gone; nothing is lent.
            let _ = say(&mut ours, &failed(&error));
            return Ok(());
        }
    };
    let word =
        Word::Laid { near: End::of(cable.near()), far: End::of(cable.far()), warnings: cable.warnings().to_vec() };
    if pass(&ours, &word, [&cable.near().namespace, &cable.far().namespace]).is_ok() {
        // A byte, the end, or an error: in any case it is over.
        let _ = ours.read(&mut [0]);
    }
    let put_back = cable.put_back();
    let word = put_back.as_ref().map_or_else(failed, |()| Word::PutBack);
    match say(&mut ours, &word) {
        Ok(()) => Ok(()),
        Err(_) => put_back,
    }
}

fn failed(error: &LabError) -> Word {
    Word::Failed { kind: error.kind(), why: error.to_string() }
}

fn line(word: &Word) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    Ok(line)
}

fn say(ours: &mut UnixStream, word: &Word) -> io::Result<()> {
    ours.write_all(&line(word)?)
}

/// Says a word with two namespaces (`SCM_RIGHTS`, unix(7)).
fn pass(mut ours: &UnixStream, word: &Word, namespaces: [&Namespace; 2]) -> io::Result<()> {
    let line = line(word)?;
    let descriptors = namespaces.map(Namespace::fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let sent_bytes = sendmsg(ours, &[IoSlice::new(&line)], &mut ancillary, SendFlags::NOSIGNAL)?;
    ours.write_all(&line[sent_bytes..])
}

/// A loopback cable that another process puts back.
#[derive(Debug)]
pub struct GuardedCable {
    pair: CablePair,
    warnings: Vec<String>,
    guardian: Guardian,
}

impl GuardedCable {
    /// Starts `guardian`, a command that calls [`guard`] with the interfaces and its standard input, and waits until the
    /// interfaces are lent. Its standard error is ours.
    ///
    /// # Errors
    /// What [`LoopbackCable::lay`] said there, or [`LabError::Guardian`].
    pub fn lay(guardian: Command) -> Result<GuardedCable, LabError> {
        let mut guardian = Guardian::start(guardian)?;
        match guardian.hear()? {
            (Word::Laid { near, far, warnings }, Some([near_namespace, far_namespace])) => {
                let pair = CablePair { near: near.within(near_namespace), far: far.within(far_namespace) };
                Ok(GuardedCable { pair, warnings, guardian })
            }
            (word, _) => Err(unexpected(word)),
        }
    }
}

fn unexpected(word: Word) -> LabError {
    match word {
        Word::Failed { kind, why } => LabError::Guardian { kind, why },
        Word::Laid { .. } | Word::PutBack => LabError::Guardian {
            kind: LabErrorKind::Failed,
            why: "loopback cable: the process that lends the interfaces makes no sense".to_owned(),
        },
    }
}

impl Cable for GuardedCable {
    fn pair(&self) -> &CablePair {
        &self.pair
    }

    fn second_pair(&self) -> Option<&CablePair> {
        None
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn kind(&self) -> &'static str {
        "loopback"
    }

    fn take_up(mut self: Box<Self>) -> Result<(), LabError> {
        self.guardian.dismiss()
    }
}

#[derive(Debug)]
struct Guardian {
    stream: UnixStream,
    child: Child,
    is_dismissed: bool,
}

impl Guardian {
    fn start(mut command: Command) -> Result<Guardian, LabError> {
        let (stream, theirs) = UnixStream::pair().map_err(lost)?;
        let theirs = Stdio::from(OwnedFd::from(theirs));
        let child = command.stdin(theirs).stdout(Stdio::null()).spawn().map_err(lost)?;
        // What the command still holds of the other end must go, or the end of the guardian would not be seen.
        drop(command);
        Ok(Guardian { stream, child, is_dismissed: false })
    }

    /// The next word, with the namespaces that came along.
    fn hear(&mut self) -> Result<(Word, Option<[Namespace; 2]>), LabError> {
        let mut line = Vec::new();
        let mut namespaces = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut bytes = [0; 4096];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut slices = [IoSliceMut::new(&mut bytes)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let received = match recvmsg(self.stream.as_fd(), &mut slices, &mut ancillary, flags) {
                // A signal that the caller deals with in its own time.
                Err(rustix::io::Errno::INTR) => continue,
                received => received.map_err(lost)?,
            };
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    namespaces.extend(descriptors.map(Namespace::hold));
                }
            }
            if received.bytes == 0 {
                return Err(lost(io::Error::from(io::ErrorKind::UnexpectedEof)));
            }
            line.extend_from_slice(&bytes[..received.bytes]);
        }
        let word = serde_json::from_slice(&line).map_err(lost)?;
        Ok((word, namespaces.try_into().ok()))
    }

    /// Has everything put back and waits for it.
    fn dismiss(&mut self) -> Result<(), LabError> {
        if std::mem::replace(&mut self.is_dismissed, true) {
            return Ok(());
        }
        let told = self.stream.write_all(&[0]).map_err(lost);
        let word = told.and_then(|()| self.hear());
        let _ = self.child.wait();
        match word? {
            (Word::PutBack, _) => Ok(()),
            (word, _) => Err(unexpected(word)),
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // Nobody is left to tell; whoever wants to know calls take_up.
        self.dismiss().ok();
    }
}

fn lost<E: Into<io::Error>>(error: E) -> LabError {
    let why = format!("loopback cable: the process that lends the interfaces was lost: {}", error.into());
    LabError::Guardian { kind: LabErrorKind::Failed, why }
}
