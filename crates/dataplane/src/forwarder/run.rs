//! A forwarder that runs on the calling thread until it is told to end.

use nearwire_frames::{Port, PortError};
use nearwire_lab::LabError;
use nearwire_sys::tsc::monotonic_raw_ns;

use super::{Forwarder, PortCounts};
use crate::function::l3::{RouterError, kernel_view};
use crate::function::{AnyFunction, Bridge, BridgeConfig, Drops, Function, FunctionKind, Io, Loop, MacSwap};

/// Turns between two looks at the clock and at whether the forwarder is to end: the bridge's table ages by seconds.
const TURNS_PER_LOOK: u32 = 256;

/// Why there is no function.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FunctionError {
    /// The kernel's routes, or an interface.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A router of these routes.
    #[error(transparent)]
    Router(#[from] RouterError),
}

/// A function between interfaces of the calling thread's namespace. A router has the routes and neighbours that the kernel has now.
///
/// # Errors
/// No such interface, or the kernel's routes cannot be had.
pub fn function_between(kind: FunctionKind, interfaces: &[&str]) -> Result<AnyFunction, FunctionError> {
    Ok(match kind {
        FunctionKind::Io => AnyFunction::Io(Io),
        FunctionKind::MacSwap => AnyFunction::MacSwap(MacSwap),
        FunctionKind::L2 => AnyFunction::L2(Bridge::new(BridgeConfig::default())),
        FunctionKind::L3 => AnyFunction::L3(kernel_view(interfaces)?.into_router()?),
    })
}

/// What a forwarder did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// What went through each port.
    pub ports: Vec<PortCounts>,
    /// Frames that were dropped.
    pub drops: Drops,
    /// A sign that frames come back by another way.
    pub looped: Option<Loop>,
}

impl Forwarded {
    /// Frames that came in by all ports.
    #[must_use]
    pub fn received_frames(&self) -> u64 {
        self.ports.iter().map(|port| port.received_frames).sum()
    }

    /// Frames that left by all ports.
    #[must_use]
    pub fn sent_frames(&self) -> u64 {
        self.ports.iter().map(|port| port.sent_frames).sum()
    }
}

/// Forwards until `goes_on` says no; it is asked again and again, with the time and a way to see what was done so far. `yields`: another
/// thread needs the CPU when no frame waits. Returns what was done, also where a port failed.
pub fn forward<P: Port>(
    ports: Vec<P>,
    function: AnyFunction,
    yields: bool,
    goes_on: impl FnMut(u64, &dyn Fn() -> Forwarded) -> Result<bool, PortError>,
) -> (Forwarded, Result<(), PortError>) {
    // Each function has a loop of its own: a branch a frame less.
    match function {
        AnyFunction::Io(function) => turns(Forwarder::new(ports, function), yields, goes_on),
        AnyFunction::MacSwap(function) => turns(Forwarder::new(ports, function), yields, goes_on),
        AnyFunction::L2(function) => turns(Forwarder::new(ports, function), yields, goes_on),
        AnyFunction::L3(function) => turns(Forwarder::new(ports, function), yields, goes_on),
    }
}

fn turns<P: Port, F: Function>(
    mut forwarder: Forwarder<P, F>,
    yields: bool,
    mut goes_on: impl FnMut(u64, &dyn Fn() -> Forwarded) -> Result<bool, PortError>,
) -> (Forwarded, Result<(), PortError>) {
    let mut until_told = || {
        loop {
            let now_ns = monotonic_raw_ns();
            if !goes_on(now_ns, &|| forwarded(&forwarder))? {
                return Ok(());
            }
            for _ in 0..TURNS_PER_LOOK {
                if forwarder.turn(now_ns)? == 0 && yields {
                    std::thread::yield_now();
                }
            }
        }
    };
    let outcome = until_told();
    (forwarded(&forwarder), outcome)
}

fn forwarded<P: Port, F: Function>(forwarder: &Forwarder<P, F>) -> Forwarded {
    Forwarded {
        ports: (0..).map_while(|port| forwarder.counts(port)).collect(),
        drops: forwarder.drops().clone(),
        looped: forwarder.function().loop_seen(),
    }
}

#[cfg(test)]
mod tests {
    use nearwire_frames::ports::memory::memory_pair;

    use super::*;

    #[test]
    fn forwarder_told_to_end_says_what_it_did() {
        let (mut sending, near) = memory_pair(64);
        let (far, mut receiving) = memory_pair(64);
        sending.send(&[7; 60]).unwrap();
        sending.send(&[7; 10]).unwrap();
        let mut looks = 0;
        let (done, outcome) = forward(vec![near, far], AnyFunction::Io(Io), false, |_, so_far| {
            looks += 1;
            Ok(so_far().received_frames() < 2)
        });
        assert!(outcome.is_ok() && looks == 2, "{outcome:?} {looks}");
        assert_eq!((done.received_frames(), done.sent_frames(), done.drops.total()), (2, 1, 1));
        assert!(receiving.receive(<[u8]>::len).unwrap() == Some(60) && done.looped.is_none());
    }
}
