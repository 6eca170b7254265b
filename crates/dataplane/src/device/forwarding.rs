//! Our forwarder on a CPU of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nearwire_frames::PortError;
use nearwire_frames::port::Port;
use nearwire_frames::ports::packet::PacketPort;
use nearwire_frames::ports::xdp::{Side, XdpPort};
use nearwire_sys::affinity::pin_current_thread;

use super::{DeviceError, Place};
use crate::forwarder::{forward, function_between};
use crate::function::{Drops, FunctionKind};
use crate::ports::{Taken, open_packet, open_xdp};

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
        self.stop().map(|(drops, _)| drops).unwrap_or_default()
    }

    /// Has the thread end, and waits for it.
    fn stop(&mut self) -> Option<Ended> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()
    }
}

impl Drop for RunningForwarder {
    fn drop(&mut self) {
        // Its namespace goes next; what it counted nobody asked for.
        self.stop();
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
    let names = place.ports.map(|port| port.interface.as_str());
    let function = place.ports[0].namespace.enter(|| function_between(kind, &names))??;
    let Place { cpu, shares_cpu, .. } = place;
    let failed = |source| DeviceError::Thread { cpu, source };
    let is_over = Arc::new(AtomicBool::new(false));
    let is_told = is_over.clone();
    let (pinned, is_pinned) = std::sync::mpsc::channel();
    let run = move || {
        // The other end waits for it.
        let _ = pinned.send(pin_current_thread(cpu));
        let (done, outcome) = forward(ports, function, shares_cpu, |_, _| Ok(!is_told.load(Ordering::Relaxed)));
        (done.drops, outcome)
    };
    let thread = std::thread::Builder::new().name("forwarder".to_owned()).spawn(run).map_err(failed)?;
    let forwarder = RunningForwarder { is_over, thread: Some(thread), describe };
    match is_pinned.recv() {
        Ok(Err(errno)) => Err(failed(errno.into())),
        Ok(Ok(())) | Err(_) => Ok(forwarder),
    }
}
