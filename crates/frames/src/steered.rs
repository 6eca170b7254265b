//! A port around a port that takes what its filters match, as the program in the kernel decides it: what an engine has in a
//! simulation. What no filter matches is counted as the kernel's.
//!
//! One TX queue, no shares, no times of its own. It never overflows: what the port below has no room for is lost there.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::PortError;
use nearwire_sys::descriptor::Descriptor;

use crate::engine_port::{EnginePort, FlowSocket, PortAbout, PortFilters};
use crate::port::{Port, PortStatistics, PreparedFrame};
use crate::steering::{Filter, FilterSet, FlowFilter};

/// See the module.
#[derive(Debug)]
pub struct SteeredPort<P> {
    port: P,
    interface: String,
    filters: SteeredFilters,
    passed_frames: u64,
    is_attached: bool,
}

/// Which frames are the port's.
#[derive(Debug, Default)]
pub struct SteeredFilters(Mutex<Decision>);

#[derive(Debug, Default)]
struct Decision {
    set: FilterSet,
    is_paused: bool,
}

impl SteeredFilters {
    fn lock(&self) -> MutexGuard<'_, Decision> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn takes(&mut self, frame: &[u8]) -> bool {
        let decision = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        !decision.is_paused && decision.set.takes(frame)
    }
}

impl<P: Port> SteeredPort<P> {
    /// Takes nothing at first. `interface` is what it is called.
    #[must_use]
    pub fn new(port: P, interface: &str) -> SteeredPort<P> {
        let filters = SteeredFilters::default();
        SteeredPort { port, interface: interface.to_owned(), filters, passed_frames: 0, is_attached: true }
    }

    /// Frames that no filter matched.
    #[must_use]
    pub fn passed_frames(&self) -> u64 {
        self.passed_frames
    }

    fn wrong(&self, source: crate::steering::FilterError) -> PortError {
        PortError::Filter { interface: self.interface.clone(), source }
    }
}

impl<P: Port> Port for SteeredPort<P> {
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError> {
        let mut read = Some(read);
        loop {
            let SteeredPort { port, filters, .. } = self;
            let received = port.receive(|frame| {
                let takes = filters.takes(frame);
                read.take_if(|_| takes).map(|read| read(frame))
            })?;
            match received {
                Some(None) => self.passed_frames += 1,
                Some(result) => return Ok(result),
                None => return Ok(None),
            }
        }
    }

    fn queue(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        self.port.queue(frame)
    }

    fn queue_with(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        self.port.queue_with(len_bytes, write)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.port.flush()
    }

    fn prepare(&mut self, frame: &[u8]) -> Result<PreparedFrame, PortError> {
        self.port.prepare(frame)
    }

    fn send_prepared(&mut self, frame: PreparedFrame, patch: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        self.port.send_prepared(frame, patch)
    }

    fn statistics(&self) -> PortStatistics {
        let below = self.port.statistics();
        PortStatistics { received_frames: below.received_frames - self.passed_frames, ..below }
    }

    fn describe(&self) -> String {
        format!("{} with filters, {}", self.interface, self.port.describe())
    }
}

impl<P: Port + 'static> EnginePort for SteeredPort<P> {
    type Kick = Infallible;

    fn submit_on(&mut self, _: usize) -> Option<Infallible> {
        // Refused, the port says so when it is next used.
        let _ = self.flush();
        None
    }

    fn kicked(&mut self, kicked: Infallible) -> Result<(), PortError> {
        match kicked {}
    }

    fn add_flow(&mut self, flow: FlowFilter, _: FlowSocket, is_first: bool) -> Result<(), PortError> {
        let added = if is_first { self.filters.lock().set.add(Filter::Flow(flow)) } else { Ok(()) };
        added.map_err(|source| self.wrong(source))
    }

    fn remove_flow(&mut self, flow: FlowFilter, _: FlowSocket, is_last: bool) -> Result<(), PortError> {
        let removed = if is_last { self.filters.lock().set.remove(Filter::Flow(flow)) } else { Ok(()) };
        removed.map_err(|source| self.wrong(source))
    }

    fn hand_flow(
        &mut self,
        _: &mut SteeredPort<P>,
        flow: FlowFilter,
        socket: FlowSocket,
        (is_last, _): (bool, bool),
    ) -> Result<(), PortError> {
        // There is no port that shares its queues.
        self.remove_flow(flow, socket, is_last)
    }

    fn filters(&mut self) -> Option<&mut dyn PortFilters> {
        Some(&mut self.filters)
    }

    fn into_filters_of_parent(self) -> Option<Box<dyn PortFilters>> {
        Some(Box::new(self.filters))
    }

    fn check(&mut self) -> Result<(), PortError> {
        let gone = || PortError::ProgramDetached { interface: self.interface.clone(), program_id: 0 };
        self.is_attached.then_some(()).ok_or_else(gone)
    }

    fn detach(&mut self) {
        self.is_attached = false;
    }

    fn about(&self) -> PortAbout<'_> {
        PortAbout { interface: &self.interface, mode: "in memory", rx_queues: 1, program_id: None }
    }

    fn share(&mut self) -> Result<SteeredPort<P>, PortError> {
        Err(PortError::NoShareLeft { interface: self.interface.clone(), most: 1 })
    }

    fn unshare(&mut self, _: SteeredPort<P>) -> Result<(), PortError> {
        // There are none.
        Ok(())
    }
}

impl PortFilters for SteeredFilters {
    fn pause(&self) -> Result<(), PortError> {
        self.lock().is_paused = true;
        Ok(())
    }

    fn resume(&self) -> Result<(), PortError> {
        self.lock().is_paused = false;
        Ok(())
    }

    fn withdraw(&self, flow: FlowFilter, _: Descriptor) {
        // Gone already, it is withdrawn as well.
        let _ = self.lock().set.remove(Filter::Flow(flow));
    }

    fn restore(&self, flow: FlowFilter) {
        // There already, it need not be restored.
        let _ = self.lock().set.add(Filter::Flow(flow));
    }
}
