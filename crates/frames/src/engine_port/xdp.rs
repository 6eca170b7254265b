//! The AF_XDP port of an engine.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use nearwire_sys::btf::kernel_structure_has;

use super::{EnginePort, PortAbout, PortFilters, PortKick};
use crate::PortError;
use crate::ports::xdp::{FrameTimes, Kick, Kicked, TimesWanted, XdpMode, XdpPort};
use crate::raw::{RawPort, TimeSource};
use crate::steering::{Filter, Owner, SteeringTable};

/// Whether the kernel's generic path locks the fill ring that sockets share ("xsk: Fix race condition in AF_XDP generic RX path",
/// `xsk_generic_rcv` in net/xdp/xsk.c, Linux 6.15 and what has it since). Without, two CPUs could give one buffer to two frames.
/// The fix moved the lock from the socket to the pool, which the kernel's types tell; one that tells none is taken for without.
fn locks_generic_rings() -> bool {
    static LOCKS: OnceLock<bool> = OnceLock::new();
    *LOCKS.get_or_init(|| matches!(kernel_structure_has("xsk_buff_pool", "rx_lock"), Ok(Some(true))))
}

impl EnginePort for XdpPort {
    type Kick = Kick;
    type Filters = SteeringTable;

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
        self.lanes()
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

    fn add_filter(&mut self, filter: Filter) -> Result<(), PortError> {
        RawPort::add_filter(self, filter)
    }

    fn remove_filter(&mut self, filter: Filter) -> Result<(), PortError> {
        RawPort::remove_filter(self, filter)
    }

    fn filters(&mut self) -> Option<&mut SteeringTable> {
        self.steering_table()
    }

    fn into_filters_of_parent(self) -> Option<SteeringTable> {
        XdpPort::into_filters_of_parent(self)
    }

    fn follow_mtu(&self, mtu_bytes: u32) {
        XdpPort::follow_mtu(self, mtu_bytes);
    }

    fn is_attached(&self) -> bool {
        XdpPort::is_attached(self)
    }

    fn detach(&mut self) {
        XdpPort::detach(self);
    }

    fn about(&self) -> PortAbout<'_> {
        let config = self.config();
        PortAbout { interface: &config.interface, mode: config.mode.name(), rx_queues: config.rx_queues.len() as u32 }
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

    fn share_number(&self) -> u32 {
        XdpPort::share_number(self)
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

    fn withdraw(&self, filter: Filter) {
        SteeringTable::withdraw(self, filter);
    }

    fn restore(&self, filter: Filter) {
        SteeringTable::restore(self, filter);
    }

    fn move_to(&self, filter: Filter, share: u32) -> Result<(), PortError> {
        SteeringTable::move_to(self, filter, Owner::Share(share))
    }
}
