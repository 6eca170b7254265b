//! A table of the kernel by netlink, which is empty where the kernel does not have that part.

use std::io;

use nearwire_sys::netlink;
use nearwire_sys::netlink::message::Message;
use rustix::net::Protocol;

/// Asks for a table and hands over each message. A table that the kernel does not have is empty.
pub(super) fn dump(
    protocol: Option<Protocol>,
    kind: u16,
    header: &[u8],
    take: impl FnMut(&Message<'_>),
) -> io::Result<()> {
    const ABSENT: [i32; 5] = [libc::EPROTONOSUPPORT, libc::EOPNOTSUPP, libc::EAFNOSUPPORT, libc::ENOENT, libc::EINVAL];
    match netlink::dump(protocol, kind, header, take) {
        Err(error) if error.raw_os_error().is_some_and(|code| ABSENT.contains(&code)) => Ok(()),
        outcome => outcome,
    }
}
