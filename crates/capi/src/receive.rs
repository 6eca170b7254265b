//! Receiving.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use libc::{EINVAL, c_int, c_void};
use nearwire_frames::{LentFrame, RawPort, Stamp, TimeSource};

use crate::abi::{self, FrameInfo};
use crate::fault::Fault;
use crate::handle::{self, OpenPort, Port, State, with_port};

/// Looks at an empty ring between two at the clock, which costs as much as five of them.
const LOOKS_PER_CLOCK: u32 = 64;

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says; `buffer` and `info` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_receive(
    port: *mut Port,
    buffer: *mut c_void,
    capacity: usize,
    timeout_ns: i64,
    info: *mut FrameInfo,
) -> c_int {
    let receive = |state: &mut State| {
        // SAFETY: as the caller promises.
        let room = unsafe { abi::room(buffer, capacity, "buffer") }?;
        // SAFETY: as the caller promises.
        let Some(frame) = (unsafe { next(state, timeout_ns, info) })? else { return Ok(0) };
        let (whole_bytes, copied_bytes) = (frame.bytes.len(), frame.bytes.len().min(room.len()));
        for (to, from) in room.iter_mut().zip(&frame.bytes[..copied_bytes]) {
            to.write(*from);
        }
        with_port!(&mut state.port, port => port.give_back())?;
        Ok(whole_bytes as c_int)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, receive) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says; `frame` and `info` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_receive_begin(
    port: *mut Port,
    frame: *mut *const c_void,
    timeout_ns: i64,
    info: *mut FrameInfo,
) -> c_int {
    let begin = |state: &mut State| {
        if frame.is_null() {
            return Err(Fault::new(EINVAL, "there is no place for the frame; pass the address of a pointer"));
        }
        // SAFETY: not NULL, and the caller's to be written.
        unsafe { frame.write(std::ptr::null()) };
        // SAFETY: as the caller promises.
        let Some(lent) = (unsafe { next(state, timeout_ns, info) })? else { return Ok(0) };
        // SAFETY: as above. That the bytes stay where they are and are not written until they are given back is
        // `RawPort`'s promise, so the pointer may outlive the borrow.
        unsafe { frame.write(lent.bytes.as_ptr().cast()) };
        Ok(lent.bytes.len() as c_int)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, begin) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_receive_end(port: *mut Port) -> c_int {
    let end = |state: &mut State| {
        with_port!(&mut state.port, port => port.give_back())?;
        Ok(0)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, end) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_timestamp_source(port: *mut Port) -> c_int {
    let source = |state: &mut State| Ok(number(with_port!(&state.port, port => port.time_source())) as c_int);
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, source) }
}

fn number(source: TimeSource) -> u32 {
    match source {
        TimeSource::Program => 1,
        TimeSource::Kernel => 2,
        TimeSource::Hardware => 3,
    }
}

/// The next frame, lent, and what there is to say about it. `None`: none came in time.
///
/// # Safety
/// `info` is NULL or a structure as long as it says, for writing.
unsafe fn next(state: &mut State, timeout_ns: i64, info: *mut FrameInfo) -> Result<Option<LentFrame<'_>>, Fault> {
    check_timeout(timeout_ns)?;
    if !info.is_null() {
        // A wrong size is found before a frame is taken.
        // SAFETY: as the caller promises.
        unsafe { abi::write(info, &abi::empty::<FrameInfo>()) }?;
    }
    if wait_for(state, timeout_ns, |state| Ok(lend(state)?.then_some(())))?.is_none() {
        return Ok(None);
    }
    let frame = with_port!(&state.port, port => port.lent());
    if let Some(frame) = &frame
        && !info.is_null()
    {
        let stamp = frame.stamp.unwrap_or_else(now);
        let found =
            FrameInfo { queue: frame.queue, time_ns: stamp.time_ns, time_source: number(stamp.source), ..abi::empty() };
        // SAFETY: as the caller promises.
        unsafe { abi::write(info, &found) }?;
    }
    Ok(frame)
}

/// Refuses what is no time to wait.
pub(crate) fn check_timeout(timeout_ns: i64) -> Result<(), Fault> {
    match timeout_ns {
        -1.. => Ok(()),
        _ => {
            Err(Fault::new(EINVAL, format!("receive: a timeout of {timeout_ns} ns; wanted: -1 (for ever), 0 or more")))
        }
    }
}

fn now() -> Stamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Stamp { time_ns: since_1970.as_nanos() as u64, source: TimeSource::Program }
}

/// Looks until there is something; `None`: nothing came in time.
#[inline]
pub(crate) fn wait_for<T>(
    state: &mut State,
    timeout_ns: i64,
    mut look: impl FnMut(&mut State) -> Result<Option<T>, Fault>,
) -> Result<Option<T>, Fault> {
    if let Some(found) = look(state)? {
        return Ok(Some(found));
    }
    if timeout_ns == 0 {
        return Ok(None);
    }
    // A time beyond the clock's end is for ever.
    let timeout = u64::try_from(timeout_ns).ok().map(Duration::from_nanos);
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
        if state.sleeps {
            let due = state.carrying.as_mut().and_then(|carrying| carrying.due_in());
            let most = [left, due].into_iter().flatten().min();
            with_port!(&state.port, port => port.wait(most)).map_err(|error| interrupted(&state.interface, &error))?;
        }
        let looks = if state.sleeps { 1 } else { LOOKS_PER_CLOCK };
        for _ in 0..looks {
            if let Some(found) = look(state)? {
                return Ok(Some(found));
            }
            std::hint::spin_loop();
        }
    }
}

/// Looks once. Frames of the port's connections are taken in.
#[inline]
fn lend(state: &mut State) -> Result<bool, Fault> {
    if let (Some(carrying), OpenPort::Xdp(port)) = (&mut state.carrying, &mut state.port) {
        return carrying.lend(port);
    }
    Ok(with_port!(&mut state.port, port => port.lend())?.is_some())
}

fn interrupted(interface: &str, error: &std::io::Error) -> Fault {
    Fault::new(error.raw_os_error().unwrap_or(libc::EIO), format!("wait for a frame on {interface}: {error}"))
}
