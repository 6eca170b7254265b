//! How many receive buffers of a queue are in use, where a port has them for shares of other processes.
//!
//! The kernel takes buffers in the order of the fill ring, so a frame comes into the one that was used longest ago. Packet memory is for as many
//! shares as there may be; were all of it in the ring, each frame of a single program would come into a buffer that no cache has any more. So the
//! ring gets as many as the shares that are open may leave unread ([`super::rooms`]), with some that are on their way, and more when more
//! shares are opened. They stay when shares end: which share has had a buffer, the ring does not tell.

use std::ops::Range;

use super::config::{Overflow, XdpConfig, XdpMode};

/// What a receiver has read and not given back yet.
const KEPT_FRAMES: u32 = 16;

#[derive(Debug)]
pub(super) struct Circulation {
    /// In use, of each queue: those with the lowest addresses.
    used: u32,
    of: u32,
    /// What a share may have beyond its room.
    beyond_room: u32,
}

impl Circulation {
    /// Of a port.
    pub(super) fn of(config: &XdpConfig, multi_buffer: Option<u32>) -> Circulation {
        let (_, room) = config.rooms(multi_buffer);
        // Frames for which several CPUs find the last room at the same time.
        let race_frames = config.share_ring_slots.saturating_sub(room);
        Circulation { used: first_used(config), of: config.fill_frames, beyond_room: race_frames + KEPT_FRAMES }
    }

    /// Of a share, which has no queue of its own.
    pub(super) const fn none() -> Circulation {
        Circulation { used: 0, of: 0, beyond_room: 0 }
    }

    /// The places of those that come into use when shares with these rooms are open.
    pub(super) fn grow(&mut self, rooms: impl Iterator<Item = u32>) -> Range<u32> {
        let wanted = rooms.map(|room| room.saturating_add(self.beyond_room)).fold(0, u32::saturating_add);
        let from = self.used;
        self.used = from.max(wanted.min(self.of));
        from..self.used
    }
}

/// How many are in use when a port is opened: for its own ring, or all. A driver wants its ring filled, to receive what is the kernel's; and
/// where frames without room are not the kernel's, there are no rooms.
pub(super) fn first_used(config: &XdpConfig) -> u32 {
    let grows = config.hands_over && config.mode != XdpMode::ZeroCopy && config.overflow == Overflow::Kernel;
    if grows { (config.rx_ring_slots + KEPT_FRAMES).min(config.fill_frames) } else { config.fill_frames }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::xdp::Steer;

    fn of_port(mode: XdpMode) -> XdpConfig {
        let config = XdpConfig::new("none", mode, Steer::All);
        XdpConfig { fill_frames: 4096, hands_over: true, overflow: Overflow::Kernel, rx_ring_slots: 16, ..config }
    }

    #[test]
    fn circulation_of_shares_opened_grows_to_all_buffers_and_never_shrinks() {
        let config = of_port(XdpMode::Generic);
        assert_eq!(first_used(&config), 32);
        let mut circulation = Circulation::of(&config, None);
        assert_eq!(circulation.grow([14, 224].into_iter()), 32..334);
        assert_eq!(circulation.grow([14].into_iter()), 334..334);
        assert_eq!(circulation.grow([u32::MAX, 224].into_iter()), 334..4096);
    }

    #[test]
    fn circulation_where_a_driver_receives_into_the_buffers_is_all_of_them() {
        let config = of_port(XdpMode::ZeroCopy);
        assert_eq!(first_used(&config), 4096);
        let mut circulation = Circulation::of(&config, None);
        assert!(circulation.grow([224].into_iter()).is_empty());
    }
}
