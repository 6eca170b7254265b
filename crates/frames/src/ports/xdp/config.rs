//! How an AF_XDP port is to be opened.

use std::fmt;

use nearwire_sys::netdev::xdp_zero_copy_segments;

use super::RECEIVE_HEADROOM_BYTES;
use crate::PortError;
use crate::interface::InterfaceFacts;
use crate::steering::SHARES_MOST;
use crate::xdp::AttachMode;
use crate::xdp::redirect::place_of;

/// Slots that are left free for frames that are counted late: a round of a driver's is of 64.
const MARGIN_FRAMES: u32 = 128;
/// A packet as long as IP has them, behind an Ethernet header and two tags.
pub(super) const BUNDLE_FRAME_BYTES: usize = 65_535 + 14 + 2 * 4;

/// More buffers a queue than this are no use to a driver's ring, and megabytes of memory.
const FILL_FRAMES_MOST: u32 = 8192;

/// Longest frame that a buffer of 2048 bytes holds: the kernel keeps 256 for itself.
const SMALL_BUFFER_FRAME_BYTES: usize = 2048 - 256;

/// How frames get between the driver and the packet memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum XdpMode {
    /// The NIC reads and writes the packet memory. The driver must support it.
    ZeroCopy,
    /// The driver's XDP hook, and a copy.
    NativeCopy,
    /// The socket-buffer hook, and a copy: any driver, and the fastest on veth.
    Generic,
}

impl XdpMode {
    /// Where this mode's program is attached.
    #[must_use]
    pub fn attach_mode(self) -> AttachMode {
        match self {
            XdpMode::ZeroCopy | XdpMode::NativeCopy => AttachMode::Native,
            XdpMode::Generic => AttachMode::Generic,
        }
    }

    /// The mode in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            XdpMode::ZeroCopy => "zero-copy",
            XdpMode::NativeCopy => "native copy",
            XdpMode::Generic => "generic",
        }
    }
}

impl fmt::Display for XdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which frames a port takes from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Steer {
    /// Frames of this EtherType, also under VLAN tags; the kernel keeps the others.
    EtherType(u16),
    /// Every frame of the port's queues.
    All,
    /// Those that match filters, none at first: [`crate::RawPort::add_filter`].
    Filters,
}

/// Who gets frames for which a port has no room, since nobody reads: where all buffers wait to be read, or a ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// Nobody: they are dropped, and counted ([`crate::Port::statistics`]).
    Drop,
    /// The kernel, with all that come after them until [`XdpPort::settle_overflow`]. Of a port with [`Steer::Filters`]; the
    /// program takes no measurable time for it. Such a port does not find out itself that its program was taken off, as what comes then is
    /// the kernel's too: [`XdpPort::is_attached`].
    ///
    /// [`XdpPort::settle_overflow`]: super::XdpPort::settle_overflow
    Kernel,
}

/// How an AF_XDP port is to be opened. [`XdpConfig::new`] gives measured defaults; change what differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpConfig {
    /// The interface, in the network namespace of the thread that opens the port.
    pub interface: String,
    /// How frames get to the packet memory.
    pub mode: XdpMode,
    /// The queues to receive on, at least one.
    pub rx_queues: Vec<u32>,
    /// The queue to send on.
    pub tx_queue: u32,
    /// Send through a socket of its own, on a queue that is not in `rx_queues`. The CPU of the peer then does not write
    /// what ours writes: 0.75 instead of 1.16 us half RTT native, 0.63 instead of 0.85 us generic, on veth.
    pub separate_tx_socket: bool,
    /// The socket of every receive queue sends too, for threads that send at the same time ([`XdpPort::queue_on`]). Not where sending has
    /// a socket of its own.
    ///
    /// [`XdpPort::queue_on`]: super::XdpPort::queue_on
    pub tx_queues: bool,
    /// Ports that may share the queues at the same time, this one included ([`XdpPort::share`]): each has `tx_frames` send buffers in the
    /// packet memory, whose size the kernel fixes when the port is opened.
    ///
    /// [`XdpPort::share`]: super::XdpPort::share
    pub shares: u32,
    /// Shares may be given to other processes ([`XdpPort::hand_over`]): the port keeps an fd of each queue's memory.
    ///
    /// [`XdpPort::hand_over`]: super::XdpPort::hand_over
    pub hands_over: bool,
    /// Send on another interface (the middle of a forward workload); its socket is always separate.
    pub tx_interface: Option<String>,
    /// Which frames to take.
    pub steer: Steer,
    /// Who gets frames for which there is no room.
    pub overflow: Overflow,
    /// The port has connections of TCP, whose segments may come joined in generic mode: by a sender on this host that leaves it to its device to
    /// cut them, or by the kernel, which joins what a device received. They lie in several buffers then (Linux 6.6). Without this, and
    /// where `overflow` is [`Overflow::Drop`], the kernel gets what is longer than the MTU allows.
    pub joined_segments: bool,
    /// Size of a buffer: 2048 or 4096. 2048 carries 1792 bytes: the kernel keeps 256 for itself. A longer frame lies in several, where the
    /// kernel has that (Linux 6.6); where it has not, the kernel keeps it.
    pub frame_size_bytes: u32,
    /// Buffers for receiving, for each receive queue: a long frame takes several. A small set stays in the cache: 256 buffers of 2 KiB
    /// gave 30 to 40 percent more frames a second than 2048 of 4 KiB, and 128 instead of 256 gave 0.04 us less half RTT on veth.
    pub fill_frames: u32,
    /// Frames that can be on their way.
    pub tx_frames: u32,
    /// Resident frames that [`crate::Port::prepare`] may make.
    pub prepared_frames: u32,
    /// Slots of each receive ring, a power of two.
    pub rx_ring_slots: u32,
    /// Slots of the receive rings of each share ([`XdpPort::share`]), a power of two. What all rings of a queue hold together
    /// should be fewer than `fill_frames`: a share that does not read its ring keeps buffers from the others.
    ///
    /// [`XdpPort::share`]: super::XdpPort::share
    pub share_ring_slots: u32,
    /// Opening waits until the link is back, for up to 10 s, where the driver set itself up anew; else the user of the port does
    /// ([`await_carrier`](super::await_carrier)), if the port says that it may be away
    /// ([`link_is_due_within`](super::XdpPort::link_is_due_within)).
    pub awaits_carrier: bool,
    /// Try huge pages for the packet memory. Without them the port works the same.
    pub huge_pages: bool,
    /// Microseconds that a look without a frame may poll the device's queue for, in the process's own time instead of an
    /// interrupt's; 0: it polls nothing. For drivers with NAPI. Its full worth needs `nic.napi-defer-hard-irqs` and
    /// `nic.gro-flush-timeout-ns`, which are the host's to set; without them interrupts come too. Where the kernel refuses it the port
    /// works without, and [`crate::Port::describe`] says so.
    pub busy_poll_us: u32,
}

impl XdpConfig {
    /// Receives and sends on queue 0 through one socket, with a small hot set of buffers.
    #[must_use]
    pub fn new(interface: &str, mode: XdpMode, steer: Steer) -> XdpConfig {
        XdpConfig {
            interface: interface.to_owned(),
            mode,
            rx_queues: vec![0],
            tx_queue: 0,
            separate_tx_socket: false,
            tx_queues: false,
            shares: 1,
            hands_over: false,
            tx_interface: None,
            steer,
            overflow: Overflow::Drop,
            joined_segments: false,
            frame_size_bytes: 2048,
            fill_frames: 128,
            tx_frames: 64,
            prepared_frames: 16,
            rx_ring_slots: 256,
            share_ring_slots: 256,
            awaits_carrier: true,
            huge_pages: true,
            busy_poll_us: 0,
        }
    }

    /// The same, receiving on `rx_queue` and sending on `tx_queue` through a socket of its own.
    #[must_use]
    pub fn with_separate_tx(mut self, rx_queue: u32, tx_queue: u32) -> XdpConfig {
        self.rx_queues = vec![rx_queue];
        self.tx_queue = tx_queue;
        self.separate_tx_socket = true;
        self
    }

    /// Buffers that may wait in each ring of the first share and of the others until the kernel gets what comes, in frames of one or of
    /// so many. Some slots are left free: several CPUs may find the last room at the same time, and frames of one round of a
    /// driver are counted when it ends.
    pub(super) fn rooms(&self, multi_buffer: Option<u32>) -> (u32, u32) {
        let buffers = match self.mode {
            // The driver has some, to receive into.
            XdpMode::ZeroCopy => self.fill_frames / 2,
            XdpMode::NativeCopy | XdpMode::Generic => self.fill_frames,
        };
        let room = |slots: u32| {
            let frames = slots.min(buffers);
            let margin = (frames / 8).min(MARGIN_FRAMES) * multi_buffer.unwrap_or(1);
            (frames - margin.min(frames / 2)).max(1)
        };
        (room(self.rx_ring_slots), room(self.share_ring_slots))
    }

    /// The same, receiving on all of `rx_queues`, as the device chooses, and sending on the first.
    #[must_use]
    pub fn with_queues(mut self, rx_queues: u32) -> XdpConfig {
        self.rx_queues = (0..rx_queues.max(1)).collect();
        self
    }

    /// The same with buffers of the size that frames of `facts` want: 4096 where they do not fit into 2048.
    #[must_use]
    pub fn with_buffers_for(mut self, facts: &InterfaceFacts) -> XdpConfig {
        self.frame_size_bytes = if facts.frame_most_bytes() > SMALL_BUFFER_FRAME_BYTES { 4096 } else { 2048 };
        self
    }

    /// The same with as many buffers as the driver's ring takes ([`fill_frames`]). On veth the small set stays: it is the faster there.
    #[must_use]
    pub fn with_ring_of(mut self, facts: &InterfaceFacts) -> XdpConfig {
        if facts.is_veth() {
            return self;
        }
        self.fill_frames = fill_frames(facts, self.mode, self.fill_frames);
        // A program that does not read its ring occupies half of the buffers, and no more.
        self.rx_ring_slots = (self.fill_frames / 2).next_power_of_two().max(256);
        self
    }

    /// Bytes that a received frame can have in a buffer.
    pub(super) fn buffer_bytes(&self) -> u32 {
        self.frame_size_bytes - RECEIVE_HEADROOM_BYTES as u32
    }

    /// Buffers that a received frame of an interface may take.
    pub(super) fn frame_buffers(&self, facts: &InterfaceFacts) -> u32 {
        (facts.frame_most_bytes() as u32).div_ceil(self.buffer_bytes())
    }

    /// Segments of TCP may come that a sender on the same host left to its device to cut (TSO over veth), and are for sockets or
    /// connections: drivers' own programs see them cut.
    pub(super) fn takes_bundles(&self) -> bool {
        self.mode == XdpMode::Generic && (self.overflow == Overflow::Kernel || self.joined_segments)
    }

    /// Bytes of the longest frame of an interface that can be received, in several buffers.
    pub(super) fn longest_frame_bytes(&self, facts: &InterfaceFacts) -> usize {
        if self.takes_bundles() { BUNDLE_FRAME_BYTES.max(facts.frame_most_bytes()) } else { facts.frame_most_bytes() }
    }

    /// Frames of the interfaces are to lie in several buffers, if the kernel lets them.
    pub(super) fn wants_multi_buffer(&self, interfaces: [&InterfaceFacts; 2]) -> bool {
        if self.takes_bundles() {
            return true;
        }
        let is_long = |facts: &&InterfaceFacts| facts.is_jumbo() || self.frame_buffers(facts) > 1;
        // Where the kernel does not say, binding does.
        let takes = |facts: &InterfaceFacts| match xdp_zero_copy_segments(facts.ifindex) {
            Ok(segments) => segments >= self.frame_buffers(facts),
            Err(_) => true,
        };
        interfaces.iter().any(is_long) && (self.mode != XdpMode::ZeroCopy || takes(interfaces[0]))
    }

    /// The place of a share's socket for a queue in the maps of sockets and credits.
    pub(super) fn place_of(&self, queue: u32, share: u32) -> u32 {
        place_of(queue, share, self.shares)
    }

    /// The interface frames are sent on.
    #[must_use]
    pub fn sending_interface(&self) -> &str {
        self.tx_interface.as_deref().unwrap_or(&self.interface)
    }

    /// Sending has a socket of its own.
    #[must_use]
    pub fn sends_separately(&self) -> bool {
        self.separate_tx_socket || self.tx_interface.is_some()
    }

    /// Checks what can be checked before a socket is made.
    pub(super) fn check(&self, receiving: &InterfaceFacts, sending: &InterfaceFacts) -> Result<(), PortError> {
        self.check_sizes()?;
        for facts in [receiving, sending] {
            if !facts.up {
                return Err(PortError::InterfaceDown { interface: facts.name.clone() });
            }
        }
        for &queue in &self.rx_queues {
            check_queue(receiving, queue, receiving.rx_queues)?;
        }
        check_queue(sending, self.tx_queue, sending.tx_queues)?;
        self.check_socket_layout()
    }

    fn check_sizes(&self) -> Result<(), PortError> {
        let ring = |slots: u32| slots.is_power_of_two() && slots <= 1 << 16;
        let checks = [
            ("frame_size_bytes", self.frame_size_bytes, [2048, 4096].contains(&self.frame_size_bytes), "2048 or 4096"),
            ("rx_ring_slots", self.rx_ring_slots, ring(self.rx_ring_slots), "a power of two up to 65536"),
            ("share_ring_slots", self.share_ring_slots, ring(self.share_ring_slots), "a power of two up to 65536"),
            ("fill_frames", self.fill_frames, (1..=65536).contains(&self.fill_frames), "1 to 65536"),
            ("tx_frames", self.tx_frames, (1..=32768).contains(&self.tx_frames), "1 to 32768"),
            ("prepared_frames", self.prepared_frames, self.prepared_frames <= 32768, "0 to 32768"),
            ("shares", self.shares, (1..=SHARES_MOST).contains(&self.shares), "1 to 254"),
        ];
        match checks.into_iter().find(|check| !check.2) {
            Some((setting, found, _, wanted)) => Err(self.wrong(setting, found, wanted)),
            None => Ok(()),
        }
    }

    fn check_socket_layout(&self) -> Result<(), PortError> {
        if self.rx_queues.is_empty() {
            return Err(self.wrong("rx_queues", 0, "at least one queue"));
        }
        let mut sorted = self.rx_queues.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(self.wrong("rx_queues", twice[0], "each queue once"));
        }
        let shared_queue = self.rx_queues.contains(&self.tx_queue);
        if self.sends_separately() && shared_queue && self.sending_interface() == self.interface {
            let wanted = "a queue not in rx_queues, because a queue takes one socket";
            return Err(self.wrong("tx_queue", self.tx_queue, wanted));
        }
        if self.separate_tx_socket && self.mode == XdpMode::ZeroCopy {
            // Bound, it takes over the receive side of its queue too, from which the kernel would get nothing any more.
            return Err(self.wrong("separate_tx_socket", 1, "false in zero-copy mode"));
        }
        if self.sends_separately() && self.tx_queues {
            return Err(self.wrong("tx_queues", 1, "false, because only one socket sends"));
        }
        if !self.sends_separately() && !shared_queue {
            return Err(self.wrong("tx_queue", self.tx_queue, "one of rx_queues, or separate_tx_socket"));
        }
        Ok(())
    }

    fn wrong(&self, setting: &'static str, found: u32, wanted: &'static str) -> PortError {
        PortError::Config { interface: self.interface.clone(), setting, found: u64::from(found), wanted }
    }
}

/// Buffers that a driver's ring can take: all of it and, where it takes them itself (zero-copy), as many again for what is in our
/// ring meanwhile.
#[must_use]
pub fn fill_frames(facts: &InterfaceFacts, mode: XdpMode, least: u32) -> u32 {
    let wanted = match mode {
        XdpMode::ZeroCopy => facts.rx_ring_frames.saturating_mul(2),
        XdpMode::NativeCopy | XdpMode::Generic => facts.rx_ring_frames,
    };
    wanted.min(FILL_FRAMES_MOST).max(least).next_power_of_two()
}

fn check_queue(facts: &InterfaceFacts, queue: u32, available_queues: u32) -> Result<(), PortError> {
    if queue < available_queues {
        return Ok(());
    }
    Err(PortError::QueueOutOfRange { interface: facts.name.clone(), queue, available_queues })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(queues: u32) -> InterfaceFacts {
        InterfaceFacts {
            name: "nw0".into(),
            ifindex: 1,
            mac: [0; 6],
            mtu_bytes: 1500,
            up: true,
            carrier: true,
            receive_dropped_frames: 0,
            driver: "veth".into(),
            rx_queues: queues,
            tx_queues: queues,
            rx_ring_frames: 0,
            program: None,
        }
    }

    fn checked(config: &XdpConfig, facts: &InterfaceFacts) -> Result<(), PortError> {
        config.check(facts, facts)
    }

    fn config() -> XdpConfig {
        XdpConfig::new("nw0", XdpMode::Generic, Steer::All)
    }

    #[test]
    fn default_config_checked_is_accepted() {
        checked(&config(), &facts(1)).unwrap();
        checked(&config().with_separate_tx(0, 1), &facts(2)).unwrap();
    }

    #[test]
    fn queue_beyond_the_interface_checked_is_named() {
        let error = checked(&config().with_separate_tx(0, 1), &facts(1)).unwrap_err();
        assert!(matches!(error, PortError::QueueOutOfRange { queue: 1, available_queues: 1, .. }), "{error}");
    }

    #[test]
    fn interface_down_checked_is_refused() {
        let down = InterfaceFacts { up: false, ..facts(1) };
        assert!(matches!(checked(&config(), &down), Err(PortError::InterfaceDown { .. })));
    }

    #[test]
    fn config_for_a_ring_asked_has_as_many_buffers_as_the_ring_takes() {
        let buffers = |driver: &str, mode, rx_ring_frames| {
            let facts = InterfaceFacts { driver: driver.into(), rx_ring_frames, ..facts(1) };
            let config = XdpConfig::new("nw0", mode, Steer::All).with_ring_of(&facts);
            (config.fill_frames, config.rx_ring_slots)
        };
        assert_eq!(buffers("ice", XdpMode::NativeCopy, 0), (128, 256));
        assert_eq!(buffers("ice", XdpMode::NativeCopy, 2048), (2048, 1024));
        assert_eq!(buffers("ice", XdpMode::ZeroCopy, 2048), (4096, 2048));
        assert_eq!(buffers("ice", XdpMode::ZeroCopy, u32::MAX).0, FILL_FRAMES_MOST);
        assert_eq!(buffers("veth", XdpMode::Generic, 256), (128, 256), "the small set is the faster there");
    }

    #[test]
    fn contradictory_sockets_checked_name_the_setting() {
        let cases = [
            (XdpConfig { rx_queues: vec![], ..config() }, "rx_queues"),
            (XdpConfig { rx_queues: vec![0, 0], ..config() }, "rx_queues"),
            (XdpConfig { tx_queue: 1, ..config() }, "tx_queue"),
            (config().with_separate_tx(1, 1), "tx_queue"),
            (XdpConfig { tx_queues: true, ..config().with_separate_tx(0, 1) }, "tx_queues"),
            (XdpConfig { mode: XdpMode::ZeroCopy, ..config().with_separate_tx(0, 1) }, "separate_tx_socket"),
            (XdpConfig { frame_size_bytes: 1024, ..config() }, "frame_size_bytes"),
            (XdpConfig { rx_ring_slots: 100, ..config() }, "rx_ring_slots"),
            (XdpConfig { share_ring_slots: 100, ..config() }, "share_ring_slots"),
            (XdpConfig { shares: 0, ..config() }, "shares"),
            (XdpConfig { shares: SHARES_MOST + 1, ..config() }, "shares"),
            (XdpConfig { fill_frames: 0, ..config() }, "fill_frames"),
            (XdpConfig { tx_frames: 0, ..config() }, "tx_frames"),
        ];
        for (config, wrong) in cases {
            match checked(&config, &facts(2)) {
                Err(PortError::Config { setting, .. }) => assert_eq!(setting, wrong),
                other => panic!("{wrong}: {other:?}"),
            }
        }
    }
}
