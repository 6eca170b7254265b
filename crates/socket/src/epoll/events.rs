//! The bits of `struct epoll_event`'s `events`.

use bitflags::bitflags;

bitflags! {
    /// What is true of a socket, what happened at it, or what a registration asks for.
    ///
    /// Values are those of `<sys/epoll.h>`. The low 16 bits are at the same time those of `<poll.h>`, on
    /// all processors Nearwire runs on (x86, ARM, RISC-V). Bits without a name are kept.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct Events: u32 {
        /// Something to read.
        const IN = 0x001;
        /// Urgent data, or an error report where the program asked for those this way.
        const PRI = 0x002;
        /// Room to write.
        const OUT = 0x004;
        /// An error waits.
        const ERR = 0x008;
        /// Shut down in both directions.
        const HUP = 0x010;
        /// No open descriptor; poll(2) only.
        const NVAL = 0x020;
        /// Ordinary data to read.
        const RDNORM = 0x040;
        /// Priority data to read.
        const RDBAND = 0x080;
        /// Room for ordinary data.
        const WRNORM = 0x100;
        /// Room for priority data.
        const WRBAND = 0x200;
        /// Not used by the kernel.
        const MSG = 0x400;
        /// Shut down for reading.
        const RDHUP = 0x2000;
        /// Of several sets that wait, wake one.
        const EXCLUSIVE = 1 << 28;
        /// Keeps the system from suspending; without effect here.
        const WAKEUP = 1 << 29;
        /// Deliver once, then disarm.
        const ONESHOT = 1 << 30;
        /// Edge-triggered.
        const ET = 1 << 31;

        /// What a datagram's arrival wakes for (`sock_def_readable`).
        const ARRIVED = Self::IN.bits() | Self::PRI.bits() | Self::RDNORM.bits() | Self::RDBAND.bits();
        /// What room to send wakes for (`sock_def_write_space`).
        const SENDABLE = Self::OUT.bits() | Self::WRNORM.bits() | Self::WRBAND.bits();
        /// Delivered whether asked for or not.
        const ALWAYS = Self::ERR.bits() | Self::HUP.bits();
        /// Flags, which are left when a one-shot registration is disarmed (`EP_PRIVATE_BITS`).
        const FLAGS = Self::EXCLUSIVE.bits() | Self::WAKEUP.bits() | Self::ONESHOT.bits() | Self::ET.bits();
        /// What may stand beside `EXCLUSIVE` (`EPOLLEXCLUSIVE_OK_BITS`).
        const WITH_EXCLUSIVE = Self::IN.bits() | Self::OUT.bits() | Self::ALWAYS.bits() | Self::WAKEUP.bits()
            | Self::ET.bits() | Self::EXCLUSIVE.bits();

        const _ = !0;
    }
}

impl Events {
    pub(super) fn is_armed(self) -> bool {
        !(self - Self::FLAGS).is_empty()
    }

    /// Whether it was one-shot.
    pub(super) fn disarm_one_shot(&mut self) -> bool {
        let one_shot = self.contains(Self::ONESHOT);
        if one_shot {
            *self &= Self::FLAGS;
        }
        one_shot
    }
}
