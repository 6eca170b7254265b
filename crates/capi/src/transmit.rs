//! Transmitting.

use libc::{EINVAL, EMSGSIZE, ENOENT, ERANGE, c_int, c_uint, c_void};
use nearwire_frames::{Port as _, PreparedFrame, RawPort};

use crate::abi;
use crate::fault::Fault;
use crate::handle::{self, Port, State, with_port};

const TRANSMIT_WARM: c_uint = 1;
pub(crate) const TRANSMIT_MORE: c_uint = 2;

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_transmit(
    port: *mut Port,
    frame: *const c_void,
    length: usize,
    flags: c_uint,
) -> c_int {
    let transmit = |state: &mut State| {
        // SAFETY: as the caller promises.
        let frame = unsafe { abi::bytes(frame, length, "frame") }?;
        let sent = match flags {
            0 => with_port!(&mut state.port, port => port.send(frame))?,
            TRANSMIT_WARM => with_port!(&mut state.port, port => port.warm_send(frame)).map(|()| true)?,
            TRANSMIT_MORE => with_port!(&mut state.port, port => port.queue(frame))?,
            _ => return Err(Fault::new(EINVAL, format!("transmit: flags {flags:#x} are not 0, WARM or MORE"))),
        };
        done(sent)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, transmit) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_flush(port: *mut Port) -> c_int {
    let flush = |state: &mut State| {
        with_port!(&mut state.port, port => port.flush())?;
        Ok(0)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, flush) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says; `frame` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_transmit_begin(port: *mut Port, length: usize, frame: *mut *mut c_void) -> c_int {
    let begin = |state: &mut State| {
        if frame.is_null() {
            return Err(Fault::new(EINVAL, "there is no place for the buffer; pass the address of a pointer"));
        }
        let buffer = with_port!(&mut state.port, port => port.begin_send(length))?.ok_or_else(Fault::again)?;
        // SAFETY: not NULL, and the caller's to be written. That the bytes stay where they are and are nobody else's until
        // the end of the send is `RawPort`'s promise, so the pointer may outlive the borrow.
        unsafe { frame.write(buffer.as_mut_ptr().cast()) };
        Ok(0)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, begin) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_transmit_end(port: *mut Port, length: usize) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, |state| done(with_port!(&mut state.port, port => port.end_send(length))?)) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_transmit_abort(port: *mut Port) -> c_int {
    let abort = |state: &mut State| {
        with_port!(&mut state.port, port => port.abort_send())?;
        Ok(0)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, abort) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_load(port: *mut Port, slot: u32, frame: *const c_void, length: usize) -> c_int {
    let load = |state: &mut State| {
        // SAFETY: as the caller promises.
        let frame = unsafe { abi::bytes(frame, length, "frame") }?;
        let loaded = match *place(state, slot)? {
            Some(old) => {
                with_port!(&mut state.port, port => port.replace_prepared(old, frame))?.ok_or_else(Fault::again)?
            }
            None => with_port!(&mut state.port, port => port.prepare(frame))?,
        };
        *place(state, slot)? = Some(loaded);
        Ok(0)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, load) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_trigger(port: *mut Port, slot: u32) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, |state| trigger(state, slot, 0, &[])) }
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_trigger_patched(
    port: *mut Port,
    slot: u32,
    offset: usize,
    bytes: *const c_void,
    length: usize,
) -> c_int {
    let patched = |state: &mut State| {
        // SAFETY: as the caller promises.
        let patch = unsafe { abi::bytes(bytes, length, "bytes") }?;
        trigger(state, slot, offset, patch)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, patched) }
}

fn trigger(state: &mut State, slot: u32, offset_bytes: usize, patch: &[u8]) -> Result<c_int, Fault> {
    let loaded = place(state, slot)?
        .ok_or_else(|| Fault::new(ENOENT, format!("trigger slot {slot}: nothing is loaded; load a frame first")))?;
    let frame_bytes = loaded.len_bytes();
    let Some(end) = offset_bytes.checked_add(patch.len()).filter(|&end| end <= frame_bytes) else {
        let why = format!(
            "trigger slot {slot}: {} bytes from {offset_bytes} on are not within its frame of {frame_bytes} bytes",
            patch.len()
        );
        return Err(Fault::new(EMSGSIZE, why));
    };
    let change = |frame: &mut [u8]| frame[offset_bytes..end].copy_from_slice(patch);
    done(with_port!(&mut state.port, port => port.send_prepared(loaded, change))?)
}

/// What is in a slot.
fn place(state: &mut State, slot: u32) -> Result<&mut Option<PreparedFrame>, Fault> {
    let slots = state.slots.len();
    state.slots.get_mut(slot as usize).ok_or_else(|| {
        Fault::new(ERANGE, format!("slot {slot}: the port has {slots}, numbered from 0; open it with more"))
    })
}

/// 0 for what was sent, -EAGAIN for what had no room.
fn done(sent: bool) -> Result<c_int, Fault> {
    if sent { Ok(0) } else { Err(Fault::again()) }
}
