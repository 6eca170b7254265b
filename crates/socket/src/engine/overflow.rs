//! Frames that the kernel got because the rings had no room: when they begin to come here again.

use nearwire_frames::EnginePort;

use super::Engine;
use crate::host::Host;

impl<H: Host> Engine<H> {
    /// The kernel gets frames that are for this engine's sockets, or got some that were not all taken over yet.
    #[inline]
    #[must_use]
    pub fn is_overflowing(&self) -> bool {
        self.is_holding || self.interfaces.attached.iter().any(|attached| attached.port.is_overflowing())
    }

    /// Whether segments of connections were dropped since this was last asked as no ring can hold them.
    #[inline]
    pub(crate) fn take_too_long(&mut self) -> bool {
        let mut is_news = false;
        for attached in &mut self.interfaces.attached {
            let too_long = attached.port.too_long_segments();
            is_news |= std::mem::replace(&mut attached.seen_too_long, too_long) != too_long;
        }
        is_news
    }

    /// Whether there is a frame in any port.
    pub(crate) fn has_frames(&self) -> bool {
        self.interfaces.attached.iter().any(|attached| attached.port.has_frames())
    }

    /// What is in the ports stays there, since the kernel has older ones.
    #[must_use]
    pub(crate) fn is_holding(&self) -> bool {
        self.is_holding
    }

    /// See [`EnginePort::begin_settling`].
    pub(crate) fn begin_settling(&mut self) -> u64 {
        self.interfaces.attached.iter_mut().map(|attached| attached.port.begin_settling()).sum()
    }

    /// See [`EnginePort::overflowed_since`].
    pub(crate) fn overflowed_since(&self) -> u64 {
        self.interfaces.attached.iter().map(|attached| attached.port.overflowed_since()).sum()
    }

    /// See [`EnginePort::settle_overflow`].
    pub(crate) fn settle_overflow(&mut self) {
        self.interfaces.attached.iter_mut().for_each(|attached| attached.port.settle_overflow());
    }

    /// Has frames come by the ports whatever the kernel still has, and leaves them there until [`Engine::end_hold`].
    pub(crate) fn hold_frames(&mut self) {
        self.interfaces.attached.iter_mut().for_each(|attached| attached.port.force_room());
        self.is_holding = true;
    }

    /// Whether a ring is full since [`Engine::hold_frames`]: the kernel has newer frames by now than those in it.
    pub(crate) fn is_full_again(&self) -> bool {
        self.interfaces.attached.iter().any(|attached| attached.port.is_full_again())
    }

    /// What the kernel had was taken over: what is in the ports comes next. How many frames of those taken over
    /// [`Engine::begin_settling`] reports once more.
    pub(crate) fn end_hold(&mut self) -> u64 {
        self.is_holding = false;
        self.interfaces.attached.iter_mut().map(|attached| attached.port.end_force()).sum()
    }
}
