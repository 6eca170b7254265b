//! How the processes of a simulation speak: packets of words and bytes, with descriptors beside them.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};

const PACKET_MOST_BYTES: usize = 16 * 1024;
/// Who does not answer for so long hangs, on however busy a host.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// A packet.
#[derive(Debug, Default)]
pub struct Packet {
    pub words: Vec<u64>,
    pub bytes: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

impl Packet {
    pub fn of(words: &[u64]) -> Packet {
        Packet { words: words.to_vec(), ..Packet::default() }
    }

    pub fn with(words: &[u64], bytes: Vec<u8>) -> Packet {
        Packet { bytes, ..Packet::of(words) }
    }

    pub fn beside(mut self, fd: OwnedFd) -> Packet {
        self.fds.push(fd);
        self
    }
}

/// One end.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    pub fn pair() -> (Channel, Channel) {
        let ends = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        sockopt::set_socket_timeout(&ends.0, sockopt::Timeout::Recv, Some(ANSWERS_WITHIN)).unwrap();
        (Channel(ends.0), Channel(ends.1))
    }

    pub fn of(fd: OwnedFd) -> Channel {
        Channel(fd)
    }

    pub fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// Whether the other end is there.
    pub fn send(&self, packet: &Packet) -> bool {
        let mut bytes = (packet.words.len() as u64).to_ne_bytes().to_vec();
        packet.words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes.extend(&packet.bytes);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let fds: Vec<BorrowedFd<'_>> = packet.fds.iter().map(AsFd::as_fd).collect();
        assert!(fds.is_empty() || beside.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut beside, SendFlags::NOSIGNAL).is_ok()
    }

    /// The next packet. `None`: the other end is gone. Fails where nothing comes at all.
    pub fn receive(&self) -> Result<Option<Packet>, rustix::io::Errno> {
        let mut bytes = [0; PACKET_MOST_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut beside, flags) {
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            received => received?,
        };
        if received.bytes == 0 {
            return Ok(None);
        }
        let rights = beside.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let fds = rights.flatten().collect();
        let word = |at: usize| u64::from_ne_bytes(*bytes[8 * at..].first_chunk().unwrap());
        let count = word(0) as usize;
        let words = (1..=count).map(word).collect();
        Ok(Some(Packet { words, bytes: bytes[8 + 8 * count..received.bytes].to_vec(), fds }))
    }
}
