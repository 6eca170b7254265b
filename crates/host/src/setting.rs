//! The row of the catalogue: a setting and where it is read.

use nearwire_sys::ethtool::{Channels, Coalesce, DriverInfo, LinkSettings, Rings, Timestamping};

use crate::Reading;
use crate::read::HostFiles;

/// What part of the host a setting belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Area {
    /// The kernel's version and build.
    Kernel,
    /// The kernel's command line.
    Boot,
    /// Processors: model, frequency, idle states, isolation.
    Cpu,
    /// Clocks and ticks.
    Clock,
    /// Memory, its nodes and pages.
    Memory,
    /// Kernel parameters under `/proc/sys`.
    Sysctl,
    /// Network interfaces.
    Nic,
    /// Whether and in what this host is a guest.
    Virtualisation,
}

/// One thing of a host that can be read.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Dotted and stable: records and scripts rely on it.
    pub id: &'static str,
    /// Where it belongs.
    pub area: Area,
    /// What it is, in one sentence.
    pub what: &'static str,
    /// Where it is read.
    pub read: ReadFrom,
}

/// The ways to read a setting.
#[derive(Clone, Copy, Debug)]
pub enum ReadFrom {
    /// A file's text, white space made single.
    File(&'static str),
    /// A file with a CPU list.
    CpuList(&'static str),
    /// A file with a CPU mask, given as a list.
    CpuMask(&'static str),
    /// The word in brackets: `always [madvise] never`.
    Chosen(&'static str),
    /// A file below `/proc/sys`, by its dotted name.
    Sysctl(&'static str),
    /// What a symbolic link points at, last part.
    LinkName(&'static str),
    /// The value of an option on the kernel's command line; `set` for one without value, `not set`.
    CommandLine(&'static str),
    /// A field of the first CPU in `/proc/cpuinfo`.
    CpuInfo(&'static str),
    /// Whether the first CPU has a flag: `yes` or `no`.
    CpuFlag(&'static str),
    /// A field of `/proc/meminfo`.
    MemInfo(&'static str),
    /// A file of each online CPU, relative to `/sys/devices/system/cpu/cpuN/`.
    EachCpu(&'static str),
    /// The same file below each entry of a directory; an empty file name means the entry itself.
    Each {
        /// The directory.
        directory: &'static str,
        /// How the entries that count begin.
        prefix: &'static str,
        /// The file in each.
        file: &'static str,
    },
    /// Anything that is not one file.
    Computed(fn(&HostFiles<'_>) -> Reading),
    /// Of each interface.
    Nic(NicFact),
}

/// The ways to read a setting of an interface.
#[derive(Clone, Copy, Debug)]
pub enum NicFact {
    /// The driver's name; in a copy from the device's link.
    Driver,
    /// The device's place on its bus; in a copy from its link.
    BusInfo,
    /// By `SIOCETHTOOL`, in the calling thread's network namespace.
    Ethtool(EthtoolFact),
    /// By rtnetlink, in the calling thread's network namespace; in a copy from sysfs.
    Link(LinkFact),
    /// An offload by the kernel's names: `on` when any of those that exist is.
    Offload(&'static [&'static str]),
    /// A file of `/sys/class/net/IF/`.
    File(&'static str),
    /// A file of the device: the PCI function, also when a virtio device lies between.
    Device(&'static str),
    /// A CPU mask of each queue; `rx` or `tx`, then the file's name.
    QueueMask(&'static str, &'static str),
    /// The CPUs its interrupts go to, effectively.
    IrqAffinity,
}

/// What one ethtool command answers, and which part of it.
#[derive(Clone, Copy, Debug)]
pub enum EthtoolFact {
    /// `ETHTOOL_GDRVINFO`.
    Driver(fn(&DriverInfo) -> Reading),
    /// `ETHTOOL_GRINGPARAM`.
    Rings(fn(&Rings) -> Reading),
    /// `ETHTOOL_GCOALESCE`.
    Coalesce(fn(&Coalesce) -> Reading),
    /// `ETHTOOL_GCHANNELS`.
    Channels(fn(&Channels) -> Reading),
    /// `ETHTOOL_GLINKSETTINGS`.
    Link(fn(&LinkSettings) -> Reading),
    /// `ETHTOOL_GET_TS_INFO`.
    Timestamping(fn(&Timestamping) -> Reading),
}

/// A part of the kernel's description of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFact {
    /// Largest payload of a frame, bytes.
    Mtu,
    /// Length of the queue of the root qdisc, frames.
    TxQueueLength,
    /// Queues to receive.
    RxQueues,
    /// Queues to send.
    TxQueues,
    /// The root queueing discipline.
    Qdisc,
    /// The kind of a virtual link: `veth`, `bond`.
    Kind,
}
