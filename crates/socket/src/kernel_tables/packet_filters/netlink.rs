//! A whole table by netlink, of any protocol.

use std::io;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
};

use super::super::message::{DATAGRAM_BYTES_MAX, Message, Messages, Request, u32_of};

/// The only message of its socket, so any number is its own.
const SEQUENCE: u32 = 1;

/// Asks for a table and hands over each message. A table that the kernel does not have is empty.
pub(super) fn dump(
    protocol: Option<Protocol>,
    kind: u16,
    header: &[u8],
    mut take: impl FnMut(&Message<'_>),
) -> io::Result<()> {
    let socket = match socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol) {
        Err(Errno::PROTONOSUPPORT) => return Ok(()),
        socket => nearwire_sys::descriptor::place(socket?),
    };
    connect(&socket, &SocketAddrNetlink::new(0, 0))?;
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let request = Request::new(kind, flags, SEQUENCE, header).into_bytes();
    send(&socket, &request, SendFlags::empty())?;
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let len_bytes = match recv(&socket, &mut buffer[..], RecvFlags::empty()) {
            Err(Errno::INTR) => continue,
            received => received?.0,
        };
        for message in Messages::new(&buffer[..len_bytes]).filter(|message| message.sequence == SEQUENCE) {
            match i32::from(message.kind) {
                libc::NLMSG_DONE => return Ok(()),
                libc::NLMSG_ERROR => return refusal(&message),
                _ => take(&message),
            }
        }
    }
}

/// Of a part of the kernel that is not there.
fn refusal(message: &Message<'_>) -> io::Result<()> {
    match u32_of(message.payload).map_or(0, |code| code.cast_signed().saturating_neg()) {
        0 | libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::ENOENT | libc::EINVAL => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Whether a part of the kernel that can be a module is certainly not there: asking for it would have it loaded.
pub(super) fn is_absent(module: &str) -> bool {
    // A kernel without modules has no such file.
    let Ok(loaded) = std::fs::read_to_string("/proc/modules") else { return false };
    if loaded.lines().any(|line| line.split(' ').next() == Some(module)) {
        return false;
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let built_in = std::fs::read_to_string(format!("/lib/modules/{release}/modules.builtin"));
    built_in.is_ok_and(|files| !files.lines().any(|file| file.ends_with(&format!("/{module}.ko"))))
}
