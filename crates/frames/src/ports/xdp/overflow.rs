//! Frames for which a port has no room, and that the kernel gets ([`super::Overflow::Kernel`]).
//!
//! The program counts what it gives to a socket, and gives it no more than there is room for ([`crate::steering`], `credits`). From the
//! first frame that finds none the kernel gets all that come by this queue for this share, in their order, until whoever reads has
//! settled:
//!
//! 1. [`XdpPort::begin_settling`]; 2. read what is in the rings, which is older; 3. take over what the kernel has queued; 4.
//!    [`XdpPort::settle_overflow`]. A frame that the kernel gets after 1 makes 4 have no effect on its queue.

use super::XdpPort;
use super::config::{BUNDLE_FRAME_BYTES, Overflow, XdpConfig, XdpMode};
use super::receive::Receiver;
use crate::PortError;
use crate::steering::{Capacity, Counting, Credit, SteeringTable};

/// The filters of a port, and the credits of its receivers where it has some. `multi_buffer`: frames may lie in
/// so many buffers.
pub(super) fn steering_table(
    config: &XdpConfig,
    mtu_bytes: u32,
    receivers: &mut [Receiver],
    multi_buffer: Option<u32>,
) -> Result<SteeringTable, PortError> {
    let buffer_bytes = config.buffer_bytes();
    let by_mtu_bytes = multi_buffer.unwrap_or(1) * buffer_bytes;
    let takes_bundles = config.takes_bundles() && multi_buffer.is_some();
    let capacity = Capacity {
        frame_most_bytes: if takes_bundles { by_mtu_bytes.max(BUNDLE_FRAME_BYTES as u32) } else { by_mtu_bytes },
        buffer_bytes: multi_buffer.map(|_| buffer_bytes),
        in_pieces: multi_buffer.is_some_and(|buffers| buffers > 1 || !takes_bundles),
    };
    if config.overflow == Overflow::Drop {
        return SteeringTable::new(&config.interface, capacity, config.shares);
    }
    let counting = match config.mode {
        XdpMode::Generic => Counting::SeveralCpus,
        XdpMode::ZeroCopy | XdpMode::NativeCopy => Counting::OneCpu,
    };
    let queues = config.rx_queues.iter().max().map_or(0, |last| last + 1);
    let table = SteeringTable::with_credits(&config.interface, capacity, config.shares, queues, counting)?;
    if let Some(words) = table.credit_words()? {
        for (&queue, receiver) in config.rx_queues.iter().zip(receivers) {
            let credit = Credit::open(&words, config.place_of(queue, 0), config.rooms(multi_buffer).0);
            credit.iter().for_each(|credit| credit.set_longest(mtu_bytes.into()));
            receiver.set_credit(credit);
        }
    }
    Ok(table)
}

/// The credit of a share's receiver, in the memory of the first one's.
pub(super) fn another_credit(
    config: &XdpConfig,
    first: &Receiver,
    place: u32,
    multi_buffer: Option<u32>,
) -> Option<Credit> {
    let first = first.credit()?;
    let credit = Credit::open(first.words(), place, config.rooms(multi_buffer).1)?;
    credit.set_longest(first.longest());
    Some(credit)
}

impl XdpPort {
    /// The MTU of the receiving interface, where that changed: longer packets are several, which the kernel is to cut.
    pub fn follow_mtu(&self, mtu_bytes: u32) {
        self.receivers.iter().filter_map(Receiver::credit).for_each(|credit| credit.set_longest(mtu_bytes.into()));
    }

    /// Whether the kernel gets frames of this share, of any queue.
    #[inline]
    #[must_use]
    pub fn is_overflowing(&self) -> bool {
        self.receivers.iter().any(Receiver::is_overflowing)
    }

    /// Whether a frame waits in any ring.
    #[must_use]
    pub fn has_frames(&self) -> bool {
        self.receivers.iter().any(Receiver::has_frames)
    }

    /// Begins to settle; how many frames the kernel got since it was last settled.
    pub fn begin_settling(&mut self) -> u64 {
        self.receivers.iter_mut().map(Receiver::begin_settling).sum()
    }

    /// How many more it got since then.
    #[must_use]
    pub fn overflowed_since(&self) -> u64 {
        self.receivers.iter().filter_map(Receiver::credit).map(Credit::passed_since).sum()
    }

    /// Has frames come here again. Call it when the rings were read empty since [`XdpPort::begin_settling`], and all that the kernel
    /// queued was taken over.
    pub fn settle_overflow(&mut self) {
        self.receivers.iter_mut().for_each(Receiver::settle_overflow);
    }

    /// Has frames come here again before it is settled, for where the kernel's queues do not get empty. They are not to be read before
    /// [`XdpPort::end_force`], since the kernel has older ones.
    pub fn force_room(&mut self) {
        self.receivers.iter_mut().for_each(Receiver::force_room);
    }

    /// Whether a ring is full since [`XdpPort::force_room`]: the kernel has newer frames by now than those in it.
    #[must_use]
    pub fn is_full_again(&self) -> bool {
        self.receivers.iter().any(Receiver::is_full_again)
    }

    /// What the kernel had before [`XdpPort::force_room`] was taken over, and [`XdpPort::begin_settling`] called. The kernel goes on to get
    /// the frames of queues whose rings are full again; how many. The next [`XdpPort::begin_settling`] reports one frame for each
    /// of them that was taken over before.
    pub fn end_force(&mut self) -> u64 {
        self.receivers.iter_mut().map(|receiver| u64::from(receiver.end_force())).sum()
    }

    /// Segments of TCP that were dropped for want of room, since the port or the share was opened.
    #[must_use]
    pub fn dropped_segments(&self) -> u64 {
        self.receivers.iter().filter_map(Receiver::credit).map(Credit::dropped).sum()
    }

    /// The same of segments that no ring of the port can hold.
    #[must_use]
    pub fn too_long_segments(&self) -> u64 {
        self.receivers.iter().filter_map(Receiver::credit).map(Credit::too_long).sum()
    }

    /// Looks for buffers that were lost on their way, if segments were dropped of late. To be called now and then.
    pub fn find_lost(&mut self) {
        self.receivers.iter_mut().for_each(Receiver::find_lost);
    }

    /// Error messages of ICMP that the kernel got by this port's program, wrapping. One is counted before the kernel has it.
    #[inline]
    #[must_use]
    pub fn errors_passed(&self) -> u64 {
        self.receivers.first().and_then(Receiver::credit).map_or(0, |credit| credit.words().errors())
    }

    /// Frames that the kernel got for want of room, since the port was opened or the number of its share was first given out.
    #[must_use]
    pub fn overflowed_frames(&self) -> u64 {
        self.receivers.iter().filter_map(Receiver::credit).map(Credit::passed).sum()
    }
}
