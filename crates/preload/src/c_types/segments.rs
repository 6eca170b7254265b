//! `struct iovec`.
use libc::iovec;
pub unsafe fn are_plausible(segments: *const iovec, count: usize) -> bool {
    if count == 0 {
        return true;
    }
    if segments.is_null() || count > 1024 {
        return false;
    }
    (0..count).all(|at| unsafe {
        let s = &*segments.add(at);
        s.iov_len == 0 || (s.iov_base as usize >= 65536 && (s.iov_base as usize) < 1 << 47)
    })
}
pub unsafe fn scatter(payload: &[u8], segments: *const iovec, count: usize) -> usize {
    let mut done = 0;
    for at in 0..count {
        let segment = unsafe { &*segments.add(at) };
        let length = segment.iov_len.min(payload.len() - done);
        unsafe { std::ptr::copy_nonoverlapping(payload.as_ptr().add(done), segment.iov_base.cast(), length) };
        done += length;
        if done == payload.len() {
            break;
        }
    }
    done
}
pub unsafe fn gather(into: &mut [u8], segments: *const iovec, count: usize) -> Option<usize> {
    let mut done = 0;
    for at in 0..count {
        let segment = unsafe { &*segments.add(at) };
        let room = into.get_mut(done..done + segment.iov_len)?;
        unsafe { std::ptr::copy_nonoverlapping(segment.iov_base.cast(), room.as_mut_ptr(), segment.iov_len) };
        done += segment.iov_len;
    }
    Some(done)
}
