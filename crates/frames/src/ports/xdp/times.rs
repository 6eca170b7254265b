//! Times of received frames: how they are asked for, and what the program's record says in the time of day.
//!
//! A port begins without. The program of a port with filters is ready to write a record in front of each frame
//! ([`crate::xdp::stamps`]), and a word in a map says whether it does: a change of the word is a store, where a change of
//! the program takes the kernel 7 to 17 ms and loses what is between the two. A program that wants no times pays for one look at a word, 1 ns. Other
//! programs, and all for the device's times, are changed.
//!
//! Only a NIC whose driver reports them ([`nearwire_sys::netdev::xdp_receive_metadata`]) has the device's times, in native and zero-copy
//! mode, and only once somebody has switched its stamps on (SIOCSHWTSTAMP, `hwstamp_ctl -i IF -r 1`): that changes the host, so
//! it is not done here.

use std::io;
use std::num::NonZeroU64;
use std::sync::OnceLock;

use nearwire_sys::bpf::{LoadError, Map, Program};
use nearwire_sys::netdev::{XdpReceiveMetadata, xdp_receive_metadata};
use nearwire_sys::tsc::rough_ticks;

use super::receive::Receiver;
use super::{Steer, XdpMode, XdpPort};
use crate::PortError;
use crate::interface::InterfaceFacts;
use crate::raw::{Stamp, TimeSource};
use crate::xdp::programs;
use crate::xdp::stamps::{DEVICE_TIME, DeviceClock, Record, Stamps};

/// How long the distance between CLOCK_TAI and the time of day is believed: about a tenth of a second. It moves by whole
/// seconds, when a time daemon starts and at leap seconds.
const DISTANCE_OLD_TICKS: u64 = 1 << 28;
const SECOND_NS: i64 = 1_000_000_000;

/// Which times a program wants of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimesWanted {
    /// When the driver had the frame, by the host's clock.
    Kernel,
    /// When the device had it, too.
    Device,
}

/// When a frame came. What is `None` nobody took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameTimes {
    /// When the device received it, by the device's own clock: nanoseconds since 1970 where somebody keeps that clock so.
    pub device_ns: Option<u64>,
    /// When the kernel's driver had it, nanoseconds since 1970.
    pub kernel_ns: Option<u64>,
}

impl FrameTimes {
    /// The more exact of the two.
    #[must_use]
    pub fn best(self) -> Option<Stamp> {
        let device = self.device_ns.map(|time_ns| Stamp { time_ns, source: TimeSource::Hardware });
        device.or_else(|| self.kernel_ns.map(|time_ns| Stamp { time_ns, source: TimeSource::Kernel }))
    }
}

/// Why a port has no times of its device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoDeviceTimes {
    /// The program runs behind the driver.
    #[error("generic mode has none, native and zero-copy may")]
    Generic,
    /// The driver reports none.
    #[error("driver {driver} tells none")]
    Driver {
        /// The driver.
        driver: String,
    },
    /// The kernel does not say what drivers tell, or has no function to ask them.
    #[error("this kernel has no way to ask a driver for them: {source}")]
    Kernel {
        /// What it said.
        source: io::Error,
    },
    /// The interface that the port was opened on is not in this thread's network namespace under its name.
    #[error("interface {interface} of this thread's network namespace is not the port's")]
    Elsewhere {
        /// The name.
        interface: String,
    },
    /// The kernel refused the program.
    #[error("the program that asks the driver was refused: {source}")]
    Refused {
        /// How.
        source: Box<PortError>,
    },
}

/// A port's times.
#[derive(Debug)]
pub(super) struct Times {
    /// With what the program in force marks records when it is told to.
    ready: Option<NonZeroU64>,
    /// What the program in force takes.
    in_force: Option<TimesWanted>,
    no_kernel: Option<PortError>,
    no_device: Option<NoDeviceTimes>,
    distance: TaiDistance,
}

impl Times {
    pub(super) fn new(ready: Option<NonZeroU64>) -> Times {
        Times { ready, in_force: None, no_kernel: None, no_device: None, distance: TaiDistance::default() }
    }

    /// What a record says.
    #[inline]
    pub(super) fn of(&mut self, record: Record) -> FrameTimes {
        if record.tai_ns == 0 {
            return FrameTimes::default();
        }
        let device_ns = Some(record.device_ns).filter(|time_ns| *time_ns != 0);
        FrameTimes { device_ns, kernel_ns: Some(self.distance.time_of_day_ns(record.tai_ns)) }
    }

    /// The best source that a frame can have.
    pub(super) fn source(&self) -> TimeSource {
        match self.in_force {
            None => TimeSource::Program,
            Some(TimesWanted::Kernel) => TimeSource::Kernel,
            Some(TimesWanted::Device) => TimeSource::Hardware,
        }
    }

    /// For people, behind what a port is.
    pub(super) fn in_words(&self) -> String {
        match (self.in_force, &self.no_device) {
            (None, _) => self.no_kernel.as_ref().map_or_else(String::new, |why| format!(", without times: {why}")),
            (Some(TimesWanted::Device), _) => ", times by the device".to_owned(),
            (Some(TimesWanted::Kernel), None) => ", times by the kernel".to_owned(),
            (Some(TimesWanted::Kernel), Some(why)) => format!(", times by the kernel (by the device: {why})"),
        }
    }
}

/// How far CLOCK_TAI is ahead of the time of day.
#[derive(Debug, Default)]
struct TaiDistance {
    ahead_ns: i64,
    read_ticks: u64,
}

impl TaiDistance {
    #[inline]
    fn time_of_day_ns(&mut self, tai_ns: u64) -> u64 {
        if rough_ticks().wrapping_sub(self.read_ticks) > DISTANCE_OLD_TICKS {
            self.read();
        }
        tai_ns.wrapping_sub(self.ahead_ns.cast_unsigned())
    }

    #[cold]
    fn read(&mut self) {
        use rustix::time::{ClockId, DynamicClockId, clock_gettime, clock_gettime_dynamic};
        let ns = |now: rustix::time::Timespec| now.tv_sec * SECOND_NS + now.tv_nsec;
        let time_of_day_ns = ns(clock_gettime(ClockId::Realtime));
        // Every kernel that has programs of ours has the clock; without it they could not read it either.
        let tai_ns = clock_gettime_dynamic(DynamicClockId::Tai).map_or(time_of_day_ns, ns);
        // Whole seconds: what passes between the two looks is not part of it.
        let ahead_ns = tai_ns - time_of_day_ns;
        self.ahead_ns = (ahead_ns + SECOND_NS / 2).div_euclid(SECOND_NS) * SECOND_NS;
        self.read_ticks = rough_ticks();
    }
}

impl XdpPort {
    /// Has frames that come from now on carry times, as well as they can be had, and says whose. Where it is less than was wanted,
    /// [`XdpPort::no_device_times`] and [`XdpPort::no_kernel_times`] say why, and [`crate::Port::describe`] too. Asking for less
    /// than there is changes nothing.
    ///
    /// Costs each frame 20 to 50 ns on its way (`examples/pingpong.rs`, veth). The device's times are looked for in the network
    /// namespace of the calling thread. Frames of a share ([`XdpPort::share`]) have the host's times from then on if its port was asked for times
    /// before; else none.
    pub fn want_times(&mut self, wanted: TimesWanted) -> TimeSource {
        if self.share_number() != 0 {
            if self.receivers.iter_mut().all(Receiver::read_records) {
                self.times.in_force = Some(TimesWanted::Kernel);
            }
            return self.times.source();
        }
        if wanted == TimesWanted::Device && self.times.in_force < Some(TimesWanted::Device) {
            match self.driver_clock().and_then(|clock| self.stamp(clock).map_err(refused)) {
                Ok(()) => self.times.in_force = Some(TimesWanted::Device),
                Err(why) => self.times.no_device = Some(why),
            }
        }
        if self.times.in_force.is_none() {
            match self.begin_stamps() {
                Ok(()) => self.times.in_force = Some(TimesWanted::Kernel),
                Err(why) => self.times.no_kernel = Some(why),
            }
        }
        self.times.source()
    }

    /// Why frames have no times of the kernel's though they were wanted: it has no such function (before Linux 6.1), the
    /// capabilities are gone, or somebody detached the program. They come without.
    #[must_use]
    pub fn no_kernel_times(&self) -> Option<&PortError> {
        self.times.no_kernel.as_ref().filter(|_| self.times.in_force.is_none())
    }

    /// Why frames have no times of the device; `None` where they may have, or nobody asked.
    #[must_use]
    pub fn no_device_times(&self) -> Option<&NoDeviceTimes> {
        self.times.no_device.as_ref()
    }

    /// The device's clock, where the driver reports it.
    fn driver_clock(&self) -> Result<DeviceClock, NoDeviceTimes> {
        if self.config.mode == XdpMode::Generic {
            return Err(NoDeviceTimes::Generic);
        }
        let interface = &self.config.interface;
        let facts = InterfaceFacts::read(interface).map_err(refused)?;
        // The program is bound to what has this index in this namespace. Bound to another device than it runs in, it would ask
        // the wrong driver about memory that is not its own; so it must be the device that has our program.
        if facts.program.map(|program| program.program_id) != Some(self.facts.program_id) {
            return Err(NoDeviceTimes::Elsewhere { interface: interface.clone() });
        }
        let tells = xdp_receive_metadata(facts.ifindex).map_err(|source| NoDeviceTimes::Kernel { source })?;
        if !tells.contains(XdpReceiveMetadata::TIMESTAMP) {
            return Err(NoDeviceTimes::Driver { driver: facts.driver });
        }
        let function = device_time_function().map_err(|source| NoDeviceTimes::Kernel { source })?;
        Ok(DeviceClock::Driver { function, ifindex: facts.ifindex })
    }

    /// Has the program stamp by the host's clock, or one that does take its place.
    fn begin_stamps(&mut self) -> Result<(), PortError> {
        let (Some(mark), Some(steering)) = (self.times.ready, &self.steering) else {
            return self.stamp(DeviceClock::None);
        };
        if !self.is_attached() {
            return Err(self.stamps_failed(io::Error::from_raw_os_error(libc::ENOLINK)));
        }
        // First those who read records: one that nobody took away would be found again.
        self.receivers.iter_mut().for_each(|receiver| receiver.set_mark(mark));
        steering.set_stamped(true)
    }

    fn stamps_failed(&self, source: io::Error) -> PortError {
        PortError::refused("have frames stamped", &self.config.interface, source)
    }

    /// Changes the program for one that stamps.
    pub(super) fn stamp(&mut self, device: DeviceClock) -> Result<(), PortError> {
        let interface = self.config.interface.clone();
        let mark = self.receivers.first().and_then(Receiver::mark).or(self.times.ready);
        let mark = mark.map_or_else(new_mark, Ok).map_err(|source| self.stamps_failed(source))?;
        let gone = || self.stamps_failed(io::Error::from_raw_os_error(libc::ENOLINK));
        let sockets = self.sockets.as_ref().ok_or_else(gone)?;
        let program = self.stamping_program(sockets, Stamps { mark, device });
        let program = program.map_err(|error| crate::xdp::rejected(&interface, error))?;
        let attachment = self.attachment.own().ok_or_else(gone)?;
        attachment.change_program(&program).map_err(|source| self.stamps_failed(source))?;
        self.facts.program_id = attachment.program_id();
        self.program = Some(program);
        self.receivers.iter_mut().for_each(|receiver| receiver.set_mark(mark));
        Ok(())
    }

    fn stamping_program(&self, sockets: &Map, stamps: Stamps) -> Result<Program, LoadError> {
        match (self.config.steer, &self.steering) {
            (Steer::EtherType(ether_type), _) => {
                programs::steer(sockets, ether_type, Some(stamps), self.multi_buffer.is_some())
            }
            (_, Some(steering)) => steering.stamped_program(sockets, Some(stamps)),
            (_, None) => programs::steer_all(sockets, Some(stamps), self.multi_buffer.is_some()),
        }
    }
}

fn refused(source: PortError) -> NoDeviceTimes {
    NoDeviceTimes::Refused { source: Box::new(source) }
}

/// A number that nobody guesses.
pub(super) fn new_mark() -> io::Result<NonZeroU64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    // Zero is what memory is at first.
    Ok(NonZeroU64::new(u64::from_ne_bytes(bytes)).unwrap_or(NonZeroU64::MAX))
}

/// The number of the function that asks a driver, looked for once: 5 MiB are read for it.
fn device_time_function() -> io::Result<u32> {
    static FUNCTION: OnceLock<u32> = OnceLock::new();
    if let Some(function) = FUNCTION.get() {
        return Ok(*function);
    }
    let found = nearwire_sys::btf::kernel_function(DEVICE_TIME)?;
    let function = found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOSYS))?;
    Ok(*FUNCTION.get_or_init(|| function))
}
