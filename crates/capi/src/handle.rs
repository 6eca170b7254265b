//! What a `nearwire_port *` points to.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use libc::{EBUSY, EINVAL, EIO, c_int};
use nearwire_frames::PreparedFrame;
use nearwire_frames::ports::packet::PacketPort;
use nearwire_frames::ports::xdp::XdpPort;

use crate::carrying::Carrying;
use crate::fault::{self, Fault};

/// An open port of either kind.
#[derive(Debug)]
pub(crate) enum OpenPort {
    Xdp(Box<XdpPort>),
    Packet(Box<PacketPort>),
}

/// Runs the same expression on a port of either kind, statically dispatched.
macro_rules! with_port {
    ($port:expr, $name:ident => $body:expr) => {
        match $port {
            $crate::handle::OpenPort::Xdp($name) => $body,
            $crate::handle::OpenPort::Packet($name) => $body,
        }
    };
}
pub(crate) use with_port;

/// A port and what the API keeps beside it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) port: OpenPort,
    pub(crate) interface: String,
    /// Receives sleep while they wait.
    pub(crate) sleeps: bool,
    /// The frame in each slot of the API.
    pub(crate) slots: Vec<Option<PreparedFrame>>,
    /// How many filters the caller has added.
    pub(crate) filters: usize,
    /// The connections of the port, once it has had one.
    pub(crate) carrying: Option<Box<Carrying>>,
    /// A call panicked: the port may be in any state.
    pub(crate) broken: bool,
}

impl State {
    pub(crate) fn set_filters(&mut self, filters: usize) {
        self.filters = filters;
        if let Some(carrying) = &mut self.carrying {
            carrying.has_filters = filters > 0;
        }
    }
}

impl Drop for State {
    /// The kernel goes on with the connections.
    fn drop(&mut self) {
        if let (Some(carrying), OpenPort::Xdp(port)) = (&mut self.carrying, &mut self.port)
            && !self.broken
        {
            carrying.release_all(port);
        }
    }
}

/// `nearwire_port`.
///
/// Invariant: whoever turned `in_call` from false to true has the only reference to `state` until turning it back.
#[derive(Debug)]
pub struct Port {
    in_call: AtomicBool,
    state: UnsafeCell<State>,
    last_error: Mutex<String>,
}

// SAFETY: `state` is reached by one thread at a time, as the invariant says, and is itself `Send` (asserted below).
unsafe impl Sync for Port {}
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<State>();
};

impl Port {
    pub(crate) fn new(state: State) -> Port {
        Port { in_call: AtomicBool::new(false), state: UnsafeCell::new(state), last_error: Mutex::default() }
    }

    fn keep(&self, fault: Fault) -> c_int {
        if !fault.text.is_empty() {
            *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = fault.text;
        }
        -fault.errno
    }

    pub(crate) fn last_error(&self) -> String {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the port for one call. `false`: another call is in it.
    fn enter(&self) -> bool {
        !self.in_call.swap(true, Ordering::Acquire)
    }

    fn leave(&self) {
        self.in_call.store(false, Ordering::Release);
    }
}

/// Runs a call on a port: checks the pointer, lets one call in, catches panics, keeps the text of a failure.
///
/// # Safety
/// `port` is NULL or came from `nearwire_open` and was not closed.
#[inline]
pub(crate) unsafe fn call(port: *const Port, body: impl FnOnce(&mut State) -> Result<c_int, Fault>) -> c_int {
    // SAFETY: NULL or a live port, as the caller promises.
    let Some(port) = (unsafe { port.as_ref() }) else {
        return fault::keep(Fault::new(EINVAL, "the port is NULL; open one with nearwire_open"));
    };
    if !port.enter() {
        return port
            .keep(Fault::new(EBUSY, "another thread is in a call on this port; let one thread use it at a time"));
    }
    // SAFETY: `enter` said that nobody else has a reference to the state, and `leave` comes after this one's last use.
    let state = unsafe { &mut *port.state.get() };
    let result = if state.broken { Err(broken()) } else { guarded(|| body(state)) };
    let value = match result {
        Ok(value) => value,
        Err(fault) => {
            // Only a panic says EIO without a text of the kernel's; a port that says it stays broken.
            state.broken |= fault.errno == EIO && fault.text == PANICKED;
            port.keep(fault)
        }
    };
    port.leave();
    value
}

const PANICKED: &str =
    "a defect of libnearwire: the call panicked, as standard error says; close the port and report it";

fn broken() -> Fault {
    Fault::new(EIO, PANICKED)
}

/// Runs a body without a port: catches panics, keeps the text of a failure for the thread.
pub(crate) fn call_without_port(body: impl FnOnce() -> Result<c_int, Fault>) -> c_int {
    guarded(body).unwrap_or_else(fault::keep)
}

/// Turns a panic into a fault. What the body had borrowed may be in any state afterwards, and is used no more.
#[inline]
fn guarded(body: impl FnOnce() -> Result<c_int, Fault>) -> Result<c_int, Fault> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        // Dropping what was panicked with could panic again.
        std::mem::forget(panic);
        Err(broken())
    })
}

/// Closes a port.
///
/// # Safety
/// As [`call`]; nobody uses the port afterwards.
pub(crate) unsafe fn close(port: *mut Port) -> c_int {
    // SAFETY: NULL or a live port, as the caller promises.
    let Some(open) = (unsafe { port.as_ref() }) else { return 0 };
    if !open.enter() {
        return open.keep(Fault::new(EBUSY, "another thread is in a call on this port; close it when that is over"));
    }
    call_without_port(|| {
        // SAFETY: the pointer came from `Box::into_raw` in `nearwire_open`, `enter` keeps other calls out, and the caller
        // promises that none comes.
        drop(unsafe { Box::from_raw(port) });
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_in_a_call_is_an_error_value() {
        assert_eq!(call_without_port(|| panic!("a defect")), -EIO);
        assert!(fault::last_of_thread().contains("panicked"));
    }

    #[test]
    fn null_port_is_an_invalid_argument() {
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { call(std::ptr::null(), |_| Ok(0)) }, -EINVAL);
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { close(std::ptr::null_mut()) }, 0);
    }
}
