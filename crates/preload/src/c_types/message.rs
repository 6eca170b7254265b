//! `struct msghdr`: what `sendmsg` sends and `recvmsg` fills.

use std::net::SocketAddr;
use std::slice;

use libc::{c_int, msghdr, sockaddr_storage, socklen_t};
use rustix::io::Errno;

use super::address::{self, Name};
use super::control::ControlWriter;
use super::is_plausible;
use super::segments::{Of, Segments};

/// A message to send.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// The destination.
    pub name: Name,
    /// The bytes.
    pub segments: Segments<'a>,
    /// Control messages, as [`control::parse`](super::control::parse) takes them.
    pub control: &'a [u8],
}

/// Reads a header that a program sends.
///
/// # Errors
/// EFAULT: a pointer points nowhere. EINVAL: a negative length. EMSGSIZE: too many segments. ENOBUFS: more than 2 GiB
/// of control messages. As `copy_msghdr_from_user` and `____sys_sendmsg`, net/socket.c.
///
/// # Safety
/// A [plausible](is_plausible) pointer points to a header, whose plausible pointers point to as much as their lengths
/// say; nobody changes any of it for `'a`.
pub unsafe fn read_outgoing<'a>(message: *const msghdr) -> Result<Outgoing<'a>, Errno> {
    if !is_plausible(message, size_of::<msghdr>()) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the caller's, for this and what it points to.
    unsafe {
        let header = message.read_unaligned();
        let name = address::read(header.msg_name.cast(), name_length(&header)?);
        let segments = Segments::new(header.msg_iov, header.msg_iovlen, Of::Message)?;
        if header.msg_controllen > i32::MAX as usize {
            return Err(Errno::NOBUFS);
        }
        let none = header.msg_control.is_null() || header.msg_controllen == 0;
        if !none && !is_plausible(header.msg_control, header.msg_controllen) {
            return Err(Errno::FAULT);
        }
        let control =
            if none { &[][..] } else { slice::from_raw_parts(header.msg_control.cast::<u8>(), header.msg_controllen) };
        Ok(Outgoing { name, segments, control })
    }
}

/// The kernel takes a longer name for the longest.
fn name_length(header: &msghdr) -> Result<socklen_t, Errno> {
    if header.msg_name.is_null() {
        return Ok(0);
    }
    if header.msg_namelen.cast_signed() < 0 {
        return Err(Errno::INVAL);
    }
    Ok(header.msg_namelen.min(size_of::<sockaddr_storage>() as socklen_t))
}

/// A header to receive into.
#[derive(Debug, Clone)]
pub struct Incoming<'a> {
    message: *mut msghdr,
    /// Room for the bytes.
    pub segments: Segments<'a>,
    /// Room for control messages.
    pub control: ControlWriter<'a>,
}

/// Reads a header that a program receives into.
///
/// # Errors
/// As [`read_outgoing`], but EFAULT only of the header and the array of segments: the kernel finds buffers that point
/// nowhere later, and leaves control messages out that it cannot write.
///
/// # Safety
/// As [`read_outgoing`]; all of it is writable, and nobody else uses it for `'a`.
pub unsafe fn read_incoming<'a>(message: *mut msghdr) -> Result<Incoming<'a>, Errno> {
    if !is_plausible(message, size_of::<msghdr>()) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the caller's, for this and what it points to.
    unsafe {
        let header = message.read_unaligned();
        name_length(&header)?;
        let segments = Segments::to_receive(header.msg_iov, header.msg_iovlen, Of::Message)?;
        let is_writable = header.msg_control.is_null() || is_plausible(header.msg_control, header.msg_controllen);
        let control = if is_writable {
            ControlWriter::new(header.msg_control, header.msg_controllen)
        } else {
            ControlWriter::nowhere()
        };
        Ok(Incoming { message, segments, control })
    }
}

impl Incoming<'_> {
    /// Fills in what a receive leaves in the header: the source (where the program wants it), the length of the control
    /// messages written, and the flags, to which MSG_CTRUNC is added where these did not fit.
    ///
    /// # Errors
    /// EFAULT: the name's pointer points nowhere.
    ///
    /// # Safety
    /// As [`read_incoming`].
    pub unsafe fn finish(self, source: Option<&SocketAddr>, flags: c_int) -> Result<(), Errno> {
        let message = self.message;
        let truncated = if self.control.is_truncated() { libc::MSG_CTRUNC } else { 0 };
        // SAFETY: the caller's; fields are reached one by one, whatever their alignment.
        unsafe {
            let mut header = message.read_unaligned();
            if !header.msg_name.is_null() {
                match source {
                    Some(source) => address::write(source, header.msg_name.cast(), &raw mut header.msg_namelen)?,
                    None => header.msg_namelen = 0,
                }
            }
            header.msg_controllen = self.control.used_bytes();
            header.msg_flags = flags | truncated;
            message.write_unaligned(header);
        }
        Ok(())
    }
}
