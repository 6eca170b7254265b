//! `struct iovec` arrays: where the bytes of one call lie.

use std::mem::MaybeUninit;
use std::{ptr, slice};

use libc::{c_void, iovec};
use rustix::io::Errno;

use super::{is_of_user, is_plausible};

/// Segments of one call (`UIO_MAXIOV`).
pub const SEGMENTS_MAX: usize = 1024;
/// Bytes of one call (`MAX_RW_COUNT`): the kernel quietly moves no more.
pub const BYTES_MAX: usize = 0x7fff_f000;

/// Which call an array belongs to: they differ in the error for too many segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// `sendmsg`, `recvmsg`: EMSGSIZE.
    Message,
    /// `readv`, `writev`: EINVAL.
    Vector,
}

/// A checked array.
///
/// Invariant: each segment is plausible and no longer than `isize::MAX`, but for `leads_nowhere`.
#[derive(Debug, Clone, Copy)]
pub struct Segments<'a> {
    segments: &'a [iovec],
    total_bytes: usize,
    /// A segment to receive into is not plausible.
    leads_nowhere: bool,
}

/// The array of a call that has one buffer (`send`, `recv`, `read`).
#[must_use]
pub fn single(buffer: *const c_void, length_bytes: usize) -> [iovec; 1] {
    [iovec { iov_base: buffer.cast_mut(), iov_len: length_bytes.min(BYTES_MAX) }]
}

impl<'a> Segments<'a> {
    /// Checks an array as the kernel does (`import_iovec`, lib/iov_iter.c).
    ///
    /// # Errors
    /// EMSGSIZE, EINVAL: more than 1024 segments. EINVAL: a length that is negative as a `ssize_t`. EFAULT: a pointer
    /// points nowhere (the kernel finds that of a buffer when it moves the first byte, we do before).
    ///
    /// # Safety
    /// A [plausible](is_plausible) pointer points to `count` structures, which for `'a` nobody changes. Each that is
    /// plausible points to as many bytes; they are readable, and writable where bytes are
    /// [scattered](Self::scatter).
    pub unsafe fn new(array: *const iovec, count: usize, of: Of) -> Result<Segments<'a>, Errno> {
        // SAFETY: the caller's.
        let segments = unsafe { Segments::to_receive(array, count, of) }?;
        if segments.leads_nowhere { Err(Errno::FAULT) } else { Ok(segments) }
    }

    /// The same for a call that receives: the array is checked before it waits, and where a buffer points nowhere,
    /// [`scatter`](Self::scatter) says so when it gets there.
    ///
    /// # Errors
    /// As [`new`](Self::new), but EFAULT only where the kernel finds it before it receives.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    #[inline]
    pub unsafe fn to_receive(array: *const iovec, count: usize, of: Of) -> Result<Segments<'a>, Errno> {
        if count > SEGMENTS_MAX {
            return Err(if of == Of::Message { Errno::MSGSIZE } else { Errno::INVAL });
        }
        if count == 0 {
            return Ok(Segments { segments: &[], total_bytes: 0, leads_nowhere: false });
        }
        if !is_plausible(array, count * size_of::<iovec>()) || !array.is_aligned() {
            return Err(Errno::FAULT);
        }
        // SAFETY: the caller's; the pointer is aligned.
        let segments = unsafe { slice::from_raw_parts(array, count) };
        let (mut total_bytes, mut leads_nowhere) = (0_usize, false);
        for segment in segments {
            isize::try_from(segment.iov_len).map_err(|_| Errno::INVAL)?;
            let length = segment.iov_len.min(BYTES_MAX - total_bytes);
            if !is_of_user(segment.iov_base, length) {
                return Err(Errno::FAULT);
            }
            leads_nowhere |= !is_plausible(segment.iov_base, length);
            total_bytes += length;
        }
        Ok(Segments { segments, total_bytes, leads_nowhere })
    }

    /// Bytes of all segments, at most [`BYTES_MAX`].
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.total_bytes
    }

    /// Start and length of each segment that is not empty, [`BYTES_MAX`] in all.
    fn parts(&self) -> impl Iterator<Item = (*mut u8, usize)> + use<'a> {
        let mut left = self.total_bytes;
        self.segments.iter().filter_map(move |segment| {
            let length = segment.iov_len.min(left);
            left -= length;
            (length > 0).then_some((segment.iov_base.cast::<u8>(), length))
        })
    }

    /// The bytes to send, segment by segment; empty ones are left out.
    pub fn slices(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        // SAFETY: readable for 'a, by the contract of `new`; not empty, so plausible, so not null.
        self.parts().map(|(start, length)| unsafe { slice::from_raw_parts(start, length) })
    }

    /// The same without the first `skip` bytes.
    pub fn slices_from(&self, mut skip: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.slices().filter_map(move |slice| {
            let skipped = skip.min(slice.len());
            skip -= skipped;
            Some(&slice[skipped..]).filter(|rest| !rest.is_empty())
        })
    }

    /// Copies the bytes to send into one buffer, as many as fit; gives their number.
    pub fn gather(&self, into: &mut [MaybeUninit<u8>]) -> usize {
        let mut copied = 0;
        for bytes in self.slices() {
            let length = bytes.len().min(into.len() - copied);
            // SAFETY: both sides have that many bytes. The program's buffer cannot overlap one of ours.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), into[copied..].as_mut_ptr().cast(), length) };
            copied += length;
        }
        copied
    }

    /// Copies received bytes into the segments, leaving out the first `skip_bytes` of their room; gives the number
    /// copied. Segments may overlap: later ones then win, as with the kernel.
    ///
    /// # Errors
    /// EFAULT: a segment that bytes are for points nowhere.
    ///
    /// # Safety
    /// The segments are writable, and no reference to their bytes exists ([`slices`](Self::slices)).
    pub unsafe fn scatter(&self, bytes: &[u8], skip_bytes: usize) -> Result<usize, Errno> {
        let (mut skip, mut copied) = (skip_bytes, 0);
        for (start, length) in self.parts() {
            let skipped = skip.min(length);
            skip -= skipped;
            let count = (length - skipped).min(bytes.len() - copied);
            if self.leads_nowhere && !is_plausible(start, count) {
                return Err(Errno::FAULT);
            }
            // SAFETY: the caller's; `copied + count` is within `bytes`. A program may even receive into a buffer that
            // we read from no more.
            unsafe { ptr::copy(bytes[copied..].as_ptr(), start.add(skipped), count) };
            copied += count;
        }
        Ok(copied)
    }
}
