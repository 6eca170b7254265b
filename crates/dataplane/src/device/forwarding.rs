//! Our forwarder on a CPU of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nearwire_frames::PortError;
use nearwire_frames::port::Port;
use nearwire_frames::ports::packet::PacketPort;
use nearwire_frames::ports::xdp::{Side, XdpPort};
use nearwire_sys::affinity::pin_current_thread;
use nearwire_sys::tsc::monotonic_raw_ns;

use super::{DeviceError, Place};
use crate::forwarder::Forwarder;

use crate::function::l3::kernel_view;
use crate::function::{AnyFunction, Bridge, BridgeConfig, Drops, Function, FunctionKind, Io, MacSwap};
use crate::ports::{Taken, open_packet, open_xdp};

/// Turns between two looks at the clock and at whether the forwarder is to end: the bridge's table ages by seconds.
const TURNS_PER_LOOK: u32 = 256;

/// A forwarder that runs on a thread. Dropping it ends it.
#[derive(Debug)]
pub struct RunningForwarder {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Ended>>,
    describe: String,
}

/// What is left of a forwarder.
type Ended = (Drops, Result<(), PortError>);

impl RunningForwarder {
    /// Whether it runs still.
    pub(super) fn check(&mut self) -> Result<(), DeviceError> {
        if !self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return Ok(());
        }
        let why = match self.thread.take().map(JoinHandle::join) {
            Some(Ok((_, Err(error)))) => error.to_string(),
            _ => "its thread failed".to_owned(),
        };
        Err(DeviceError::Ended { why })
    }

    /// Its ports.
    pub(super) fn describe(&self) -> &str {
        &self.describe
    }

    /// Ends it: what it dropped.
    pub(super) fn end(mut self) -> Drops {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().and_then(|thread| thread.join().ok());
        ended.map(|(drops, _)| drops).unwrap_or_default()
    }
}

impl Drop for RunningForwarder {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its namespace goes next; what it counted nobody asked for.
            let _ = thread.join();
        }
    }
}

/// Over AF_XDP.
pub(super) fn start_xdp(function: FunctionKind, place: Place) -> Result<RunningForwarder, DeviceError> {
    // The first interface is the far end of its link, the second the near one.
    let sides = [Side::Far, Side::Near];
    let ports = std::iter::zip(place.ports, sides)
        .map(|(port, side)| port.namespace.enter(|| open_xdp(&port.interface, side, Taken::All)));
    start(function, place, collected::<XdpPort>(ports)?)
}

/// Over AF_PACKET.
pub(super) fn start_packet(function: FunctionKind, place: Place) -> Result<RunningForwarder, DeviceError> {
    let ports = place.ports.into_iter().map(|port| port.namespace.enter(|| open_packet(&port.interface, Taken::All)));
    start(function, place, collected::<PacketPort>(ports)?)
}

fn collected<P>(
    ports: impl Iterator<Item = Result<Result<P, PortError>, nearwire_lab::LabError>>,
) -> Result<Vec<P>, DeviceError> {
    ports.map(|port| Ok(port??)).collect()
}

fn start<P: Port + Send + 'static>(
    kind: FunctionKind,
    place: Place,
    ports: Vec<P>,
) -> Result<RunningForwarder, DeviceError> {
    let describe = ports.iter().map(Port::describe).collect::<Vec<_>>().join("; ");
    // Each function has a loop of its own: a branch a frame less.
    match function(kind, place)? {
        AnyFunction::Io(function) => spawn(Forwarder::new(ports, function), place, describe),
        AnyFunction::MacSwap(function) => spawn(Forwarder::new(ports, function), place, describe),
        AnyFunction::L2(function) => spawn(Forwarder::new(ports, function), place, describe),
        AnyFunction::L3(function) => spawn(Forwarder::new(ports, function), place, describe),
    }
}

fn function(kind: FunctionKind, place: Place) -> Result<AnyFunction, DeviceError> {
    Ok(match kind {
        FunctionKind::Io => AnyFunction::Io(Io),
        FunctionKind::MacSwap => AnyFunction::MacSwap(MacSwap),
        FunctionKind::L2 => AnyFunction::L2(Bridge::new(BridgeConfig::default())),
        FunctionKind::L3 => {
            let names = place.ports.map(|port| port.interface.as_str());
            AnyFunction::L3(place.ports[0].namespace.enter(|| kernel_view(&names))??.into_router()?)
        }
    })
}

fn spawn<P: Port + Send + 'static, F: Function + Send + 'static>(
    mut forwarder: Forwarder<P, F>,
    place: Place,
    describe: String,
) -> Result<RunningForwarder, DeviceError> {
    let Place { cpu, shares_cpu, .. } = place;
    let failed = |source| DeviceError::Thread { cpu, source };
    let is_over = Arc::new(AtomicBool::new(false));
    let is_told = is_over.clone();
    let (pinned, is_pinned) = std::sync::mpsc::channel();
    let run = move || {
        // The other end waits for it.
        let _ = pinned.send(pin_current_thread(cpu));
        let outcome = forward(&mut forwarder, &is_told, shares_cpu);
        (forwarder.drops().clone(), outcome)
    };
    let thread = std::thread::Builder::new().name("forwarder".to_owned()).spawn(run).map_err(failed)?;
    let forwarder = RunningForwarder { is_over, thread: Some(thread), describe };
    match is_pinned.recv() {
        Ok(Err(errno)) => Err(failed(errno.into())),
        Ok(Ok(())) | Err(_) => Ok(forwarder),
    }
}

/// Forwards until it is told to end.
fn forward<P: Port, F: Function>(
    forwarder: &mut Forwarder<P, F>,
    is_over: &AtomicBool,
    shares_cpu: bool,
) -> Result<(), PortError> {
    while !is_over.load(Ordering::Relaxed) {
        let now_ns = monotonic_raw_ns();
        for _ in 0..TURNS_PER_LOOK {
            if forwarder.turn(now_ns)? == 0 && shares_cpu {
                std::thread::yield_now();
            }
        }
    }
    Ok(())
}
