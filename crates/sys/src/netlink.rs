//! Netlink: sockets that are connected to the kernel, dumps, and the option that rustix lacks.
//!
//! Source: netlink(7), `include/uapi/linux/netlink.h`.

pub mod message;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
};

use crate::descriptor::place;
use message::{DATAGRAM_BYTES_MAX, Message, Messages, Request};

/// The only message of its socket, so any number will do.
const SEQUENCE: u32 = 1;
/// More answers than any interface has queues.
const ANSWERS_MAX: usize = 1 << 16;

/// Opens a socket of a protocol (`None`: NETLINK_ROUTE) in the network namespace of the calling thread, connected to the kernel.
///
/// # Errors
/// `EPROTONOSUPPORT` where the kernel does not have the protocol; no memory or no fd left.
pub fn open(protocol: Option<Protocol>) -> io::Result<OwnedFd> {
    let socket = place(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?);
    connect(&socket, &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

/// Asks for a whole table and hands over each message of the answer. `header` is what stands before the attributes.
///
/// # Errors
/// As [`open`], and what the kernel refused.
pub fn dump(
    protocol: Option<Protocol>,
    kind: u16,
    header: &[u8],
    mut take: impl FnMut(&Message<'_>),
) -> io::Result<()> {
    let socket = open(protocol)?;
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    send(&socket, &Request::new(kind, flags, SEQUENCE, header).into_bytes(), SendFlags::empty())?;
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let len_bytes = match recv(&socket, &mut buffer[..], RecvFlags::empty()) {
            Err(Errno::INTR) => continue,
            received => received?.0,
        };
        for message in Messages::new(&buffer[..len_bytes]).filter(|message| message.sequence == SEQUENCE) {
            match i32::from(message.kind) {
                libc::NLMSG_DONE | libc::NLMSG_ERROR => return Ok(message.verdict()?),
                _ => take(&message),
            }
        }
    }
}

/// How many answers a question has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// One, or none where something is to be done.
    One,
    /// A dump.
    Many,
}

/// Asks on a socket of [`open`] that has no other question, and gives what stands behind a header of `header_bytes` in each answer. `payload` is
/// a header and attributes.
///
/// # Errors
/// What the kernel answered, or that the answer is not one of netlink.
pub fn ask(
    socket: impl AsFd,
    kind: u16,
    answers: Answers,
    payload: &[u8],
    header_bytes: usize,
) -> io::Result<Vec<Vec<u8>>> {
    let answers = if answers == Answers::Many { libc::NLM_F_DUMP } else { libc::NLM_F_ACK };
    // Sequence 0: the socket has one question at a time.
    let question = Request::new(kind, (libc::NLM_F_REQUEST | answers) as u16, 0, payload).into_bytes();
    send(&socket, &question, SendFlags::empty())?;
    let mut found = Vec::new();
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    while found.len() < ANSWERS_MAX {
        // The kernel has answered before send(2) returns.
        let (len_bytes, _) = recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
        if take_answers(&buffer[..len_bytes], header_bytes, &mut found)? {
            return Ok(found);
        }
    }
    Err(io::Error::other("too many answers"))
}

/// Takes the answers out of a datagram; `true` after the last.
pub(crate) fn take_answers(datagram: &[u8], header_bytes: usize, found: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    for message in Messages::new(datagram) {
        match i32::from(message.kind) {
            libc::NLMSG_ERROR | libc::NLMSG_DONE => return message.verdict().map(|()| true).map_err(io::Error::from),
            _ => found.push(message.attributes(header_bytes).0.to_vec()),
        }
    }
    Ok(false)
}

/// Whether a part of the kernel that can be a module is certainly not there: asking for it would have it loaded.
#[must_use]
pub fn is_module_absent(module: &str) -> bool {
    // A kernel without modules has no such file.
    let Ok(loaded) = std::fs::read_to_string("/proc/modules") else { return false };
    if loaded.lines().any(|line| line.split(' ').next() == Some(module)) {
        return false;
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let built_in = std::fs::read_to_string(format!("/lib/modules/{release}/modules.builtin"));
    built_in.is_ok_and(|files| !files.lines().any(|file| file.ends_with(&format!("/{module}.ko"))))
}

/// `NETLINK_ADD_MEMBERSHIP`: hears what the kernel says to this group, also where its number is above the 32 that
/// bind(2) takes.
///
/// # Errors
/// EINVAL where the kernel does not have the group, EPERM where it is not for everyone.
pub fn add_membership(socket: impl AsFd, group: u32) -> io::Result<()> {
    // SAFETY: the option value is a live u32 and the length passed is its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_NETLINK,
            libc::NETLINK_ADD_MEMBERSHIP,
            (&raw const group).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn dump_of_links_has_the_loopback_interface_and_no_table_is_refused_silently() {
        let mut names = Vec::new();
        let name = |message: &Message<'_>| message.attributes(16).value(libc::IFLA_IFNAME).map(<[u8]>::to_vec);
        dump(None, libc::RTM_GETLINK, &[0; 16], |message| names.extend(name(message))).unwrap();
        assert!(names.contains(&b"lo\0".to_vec()), "{names:?}");
        dump(None, 0x7ff0, &[0; 16], |_| panic!("an answer")).unwrap_err();
    }

    #[test]
    fn socket_that_is_not_netlink_is_refused() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(add_membership(&socket, 1).is_err());
    }

    #[test]
    fn group_that_no_kernel_has_is_refused() {
        let socket = open(None).unwrap();
        add_membership(&socket, libc::RTNLGRP_LINK).unwrap();
        assert_eq!(add_membership(&socket, 100_000).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
