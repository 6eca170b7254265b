//! The AF_XDP port of an engine.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use nearwire_sys::btf::kernel_structure_has;

use nearwire_sys::descriptor::Descriptor;

use super::{EnginePort, FlowSocket, PortAbout, PortFilters, PortKick};
use crate::PortError;
use crate::ports::xdp::{FrameTimes, Kick, Kicked, TimesWanted, XdpMode, XdpPort};
use crate::raw::{RawPort, TimeSource};
use crate::steering::{Filter, FlowFilter, Owner, SteeringTable};

/// Whether the kernel's generic path locks the fill ring that sockets share ("xsk: Fix race condition in AF_XDP generic RX path",
/// `xsk_generic_rcv` in net/xdp/xsk.c, Linux 6.15 and what has it since). Without, two CPUs could give one buffer to two frames.
/// The fix moved the lock from the socket to the pool, which the kernel's types tell; one that tells none is taken for without.
#[must_use]
pub fn locks_generic_rings() -> bool {
    static LOCKS: OnceLock<bool> = OnceLock::new();
    *LOCKS.get_or_init(|| matches!(kernel_structure_has("xsk_buff_pool", "rx_lock"), Ok(Some(true))))
}

impl EnginePort for XdpPort {
    type Kick = Kick;

    #[inline(always)]
    fn receive_timed<R>(&mut self, read: impl FnOnce(&[u8], FrameTimes) -> R) -> Result<Option<R>, PortError> {
        XdpPort::receive_timed(self, read)
    }

    fn want_times(&mut self, wanted: TimesWanted) {
        XdpPort::want_times(self, wanted);
    }

    fn time_source(&self) -> TimeSource {
        RawPort::time_source(self)
    }

    #[inline]
    fn tx_queues(&self) -> usize {
        self.tx_queues()
    }

    #[inline(always)]
    fn queue_on(
        &mut self,
        tx_queue: usize,
        len_bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, PortError> {
        XdpPort::queue_on(self, tx_queue, len_bytes, write)
    }

    #[inline]
    fn flush_on(&mut self, tx_queue: usize) -> Result<(), PortError> {
        XdpPort::flush_on(self, tx_queue)
    }

    #[inline]
    fn submit_on(&mut self, tx_queue: usize) -> Option<Kick> {
        XdpPort::submit_on(self, tx_queue)
    }

    fn kicked(&mut self, kicked: Kicked) -> Result<(), PortError> {
        XdpPort::kicked(self, kicked)
    }

    fn receive_sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        XdpPort::receive_sockets(self)
    }

    fn add_flow(&mut self, flow: FlowFilter, _: FlowSocket, is_first: bool) -> Result<(), PortError> {
        if is_first { RawPort::add_filter(self, Filter::Flow(flow)) } else { Ok(()) }
    }

    fn remove_flow(&mut self, flow: FlowFilter, _: FlowSocket, is_last: bool) -> Result<(), PortError> {
        if is_last { RawPort::remove_filter(self, Filter::Flow(flow)) } else { Ok(()) }
    }

    fn hand_flow(
        &mut self,
        other: &mut XdpPort,
        flow: FlowFilter,
        _: FlowSocket,
        is_last_and_first: (bool, bool),
    ) -> Result<(), PortError> {
        let filter = Filter::Flow(flow);
        match is_last_and_first {
            (true, true) => {
                let share = Owner::Share(XdpPort::share_number(other));
                self.steering_table().map_or(Ok(()), |table| table.move_to(filter, share))
            }
            (false, true) => RawPort::add_filter(other, filter),
            (true, false) => RawPort::remove_filter(self, filter),
            (false, false) => Ok(()),
        }
    }

    fn filters(&mut self) -> Option<&mut dyn PortFilters> {
        self.steering_table().map(|table| table as &mut dyn PortFilters)
    }

    fn into_filters_of_parent(self) -> Option<Box<dyn PortFilters>> {
        XdpPort::into_filters_of_parent(self).map(|table| Box::new(table) as Box<dyn PortFilters>)
    }

    fn follow_mtu(&self, mtu_bytes: u32) {
        XdpPort::follow_mtu(self, mtu_bytes);
    }

    fn check(&mut self) -> Result<(), PortError> {
        if XdpPort::is_attached(self) {
            return Ok(());
        }
        let (interface, program_id) = (self.config().interface.clone(), self.facts().program_id);
        Err(PortError::ProgramDetached { interface, program_id })
    }

    fn detach(&mut self) {
        XdpPort::detach(self);
    }

    fn about(&self) -> PortAbout<'_> {
        let config = self.config();
        PortAbout {
            interface: &config.interface,
            mode: config.mode.name(),
            rx_queues: config.rx_queues.len() as u32,
            program_id: Some(self.facts().program_id),
        }
    }

    #[inline]
    fn is_overflowing(&self) -> bool {
        XdpPort::is_overflowing(self)
    }

    fn has_frames(&self) -> bool {
        XdpPort::has_frames(self)
    }

    fn begin_settling(&mut self) -> u64 {
        XdpPort::begin_settling(self)
    }

    fn overflowed_since(&self) -> u64 {
        XdpPort::overflowed_since(self)
    }

    fn settle_overflow(&mut self) {
        XdpPort::settle_overflow(self);
    }

    fn dropped_segments(&self) -> u64 {
        XdpPort::dropped_segments(self)
    }

    fn too_long_segments(&self) -> u64 {
        XdpPort::too_long_segments(self)
    }

    fn find_lost(&mut self) {
        XdpPort::find_lost(self);
    }

    fn force_room(&mut self) {
        XdpPort::force_room(self);
    }

    fn is_full_again(&self) -> bool {
        XdpPort::is_full_again(self)
    }

    fn end_force(&mut self) -> u64 {
        XdpPort::end_force(self)
    }

    #[inline]
    fn errors_passed(&self) -> u64 {
        XdpPort::errors_passed(self)
    }

    fn share(&mut self) -> Result<XdpPort, PortError> {
        if self.config().mode == XdpMode::Generic && !locks_generic_rings() {
            let why = "in generic mode this kernel does not lock the fill ring that sockets share (before Linux 6.15)";
            let source = io::Error::new(io::ErrorKind::Unsupported, why);
            return Err(PortError::refused("share the queues", &self.config().interface, source));
        }
        XdpPort::share(self)
    }

    fn unshare(&mut self, share: XdpPort) -> Result<(), PortError> {
        XdpPort::unshare(self, share)
    }
}

impl PortKick for Kick {
    type Kicked = Kicked;

    #[inline(always)]
    fn make(self) -> Option<Kicked> {
        Kick::make(self)
    }
}

impl PortFilters for SteeringTable {
    fn pause(&self) -> Result<(), PortError> {
        SteeringTable::pause(self)
    }

    fn resume(&self) -> Result<(), PortError> {
        SteeringTable::resume(self)
    }

    fn withdraw(&self, flow: FlowFilter, _: Descriptor) {
        SteeringTable::withdraw(self, Filter::Flow(flow));
    }

    fn restore(&self, flow: FlowFilter) {
        SteeringTable::restore(self, Filter::Flow(flow));
    }
}
