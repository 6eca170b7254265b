//! The row of the catalogue: a setting, where it is read and what a change of it means.

mod class;
mod how;
mod nic;
mod of_x86;
mod stage;

use nearwire_sys::ethtool::{
    Channels, Coalesce, DriverInfo, EnergyEfficient, Fec, LinkSettings, Pause, PrivateFlags, Rings, Timestamping,
};

pub use class::{Disruption, Menu, Persist, Risk, Value, Vendor, Write};
pub use nic::{EthtoolCall, NicWrite, WordValues};
pub use stage::Stage;

use crate::Reading;
use crate::read::HostFiles;

/// What part of the host a setting belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Area {
    /// The firmware's setup.
    Firmware,
    /// Slots, memory modules, the machine.
    Hardware,
    /// The kernel's version and build.
    Kernel,
    /// The kernel's command line.
    Boot,
    /// Processors: model, frequency, idle states, isolation.
    Cpu,
    /// What interrupts a CPU that should be left alone.
    Noise,
    /// Clocks and ticks.
    Clock,
    /// Memory, its nodes and pages.
    Memory,
    /// Kernel parameters under `/proc/sys`.
    Sysctl,
    /// Network interfaces.
    Nic,
    /// The network stack between interfaces and sockets.
    Stack,
    /// Services and the mode of the operating system.
    Service,
    /// Which thread, interrupt and memory is where.
    Placement,
    /// Whether and in what this host is a guest, and the guests it has.
    Virtualisation,
    /// RDMA and bypass drivers.
    Rdma,
    /// The switch between two hosts.
    Switch,
    /// The program and the measurement.
    Application,
}

impl Area {
    /// The area as commands and documents print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Firmware => "firmware",
            Self::Hardware => "hardware",
            Self::Kernel => "kernel",
            Self::Boot => "boot",
            Self::Cpu => "cpu",
            Self::Noise => "noise",
            Self::Clock => "clock",
            Self::Memory => "memory",
            Self::Sysctl => "sysctl",
            Self::Nic => "nic",
            Self::Stack => "stack",
            Self::Service => "service",
            Self::Placement => "placement",
            Self::Virtualisation => "virtualisation",
            Self::Rdma => "rdma",
            Self::Switch => "switch",
            Self::Application => "application",
        }
    }
}

/// One thing of a host that matters to latency: what it is, how it is read, and what is known
/// about changing it. A profile says which value is wanted; that is not here.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Dotted and stable: records and scripts rely on it.
    pub id: &'static str,
    /// Where it belongs.
    pub area: Area,
    /// What it is, in one sentence.
    pub what: &'static str,
    /// Why it matters to latency, in one sentence.
    pub why: &'static str,
    /// Where it is read.
    pub read: ReadFrom,
    /// What its value looks like.
    pub value: Value,
    /// How it is written.
    pub write: Write,
    /// What makes it outlive a boot, besides options of a `.link` file, which [`Setting::kept_by`] has too.
    pub persist: &'static [Persist],
    /// What a change can harm.
    pub risk: &'static [Risk],
    /// What a change interrupts.
    pub disrupts: Disruption,
    /// What vendors' firmware menus call it.
    pub menu: &'static [Menu],
    /// What a current kernel makes of the printed advice, where that has changed.
    pub today: Option<&'static str>,
    /// Documentation of the kernel and of tools; what papers say is in [`crate::catalogue::said`].
    pub docs: &'static [&'static str],
    /// Whether the environment of a record has it. Those are read for each measurement, so they
    /// must be cheap.
    pub in_record: bool,
    /// How a setting of an interface is written and kept.
    pub nic: NicWrite,
}

/// Ids are unique, so they tell rows apart.
impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Setting {}

impl Setting {
    /// Whether each interface has one.
    #[must_use]
    pub const fn is_of_interfaces(&self) -> bool {
        matches!(self.read, ReadFrom::Nic(_))
    }

    /// What makes it outlive a boot, the usual way first.
    pub fn kept_by(&self) -> impl Iterator<Item = Persist> {
        self.nic.link_names().map(Persist::LinkFile).chain(self.persist.iter().copied())
    }

    /// The id as readings have it, with an interface in brackets: `nic.mtu[eth0]`.
    #[must_use]
    pub fn instance(&self, interface: Option<&str>) -> String {
        match interface {
            Some(name) => format!("{}[{name}]", self.id),
            None => self.id.to_owned(),
        }
    }

    /// A row of a table: this one is the base that says what the rows have in common.
    pub(crate) const fn row(self, id: &'static str, what: &'static str, why: &'static str, read: ReadFrom) -> Self {
        Self { id, what, why, read, ..self }
    }

    pub(crate) const fn value(self, value: Value) -> Self {
        Self { value, ..self }
    }

    pub(crate) const fn switch(self) -> Self {
        self.value(Value::Switch)
    }

    pub(crate) const fn number(self, unit: &'static str) -> Self {
        self.value(Value::Number(unit))
    }

    pub(crate) const fn cpus(self) -> Self {
        self.value(Value::CpuList)
    }

    pub(crate) const fn words(self, words: &'static [&'static str]) -> Self {
        self.value(Value::Word(words))
    }

    pub(crate) const fn persist(self, persist: &'static [Persist]) -> Self {
        Self { persist, ..self }
    }

    pub(crate) const fn risk(self, risk: &'static [Risk]) -> Self {
        Self { risk, ..self }
    }

    pub(crate) const fn disrupts(self, disrupts: Disruption) -> Self {
        Self { disrupts, ..self }
    }

    pub(crate) const fn menu(self, menu: &'static [Menu]) -> Self {
        Self { menu, ..self }
    }

    pub(crate) const fn today(self, today: &'static str) -> Self {
        Self { today: Some(today), ..self }
    }

    pub(crate) const fn docs(self, docs: &'static [&'static str]) -> Self {
        Self { docs, ..self }
    }

    pub(crate) const fn write_by(self, write: Write) -> Self {
        Self { write, ..self }
    }

    /// In this area, when the base is of another one.
    pub(crate) const fn in_area(self, area: Area) -> Self {
        Self { area, ..self }
    }

    pub(crate) const fn in_record(self) -> Self {
        Self { in_record: true, ..self }
    }
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
    /// An option of the kernel's configuration: `y`, `m`, a value, or `not set`.
    KernelConfig(&'static str),
    /// A parameter of a kernel module that is loaded or built in: module, parameter.
    ModuleParameter(&'static str, &'static str),
    /// Those of these kernel modules that are loaded or built in, or `none`.
    Modules(&'static [&'static str]),
    /// The names in a directory, or `none`.
    Names(&'static str),
    /// `key=value` in a file of a service: path, key; `not set` when the file does not say.
    Assignment(&'static str, &'static str),
    /// Whether a systemd unit is running, enabled, masked or not installed, by files.
    Service(&'static str),
    /// Bits of a model-specific register of CPU 0 of an Intel processor.
    Msr(MsrField),
    /// Anything that is not one file, and what it looks at.
    Computed(fn(&HostFiles<'_>) -> Reading, &'static str),
    /// Software on this host cannot read it.
    Elsewhere {
        /// The reason, as the end of "cannot be read here because".
        why: &'static str,
        /// Where a person looks.
        look: &'static str,
    },
    /// Of each interface.
    Nic(NicFact),
}

/// A field of a model-specific register (Intel SDM volume 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsrField {
    /// The register's number.
    pub register: u32,
    /// Its lowest bit.
    pub low_bit: u32,
    /// Its length, bits.
    pub bits: u32,
    /// The words for its values from 0; beyond them the number is given.
    pub words: &'static [&'static str],
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
    /// By generic netlink, in the calling thread's network namespace.
    Netlink(NetlinkFact),
    /// An offload by the kernel's names: `on` when any of those that exist is.
    Offload(&'static [&'static str]),
    /// A file of `/sys/class/net/IF/`.
    File(&'static str),
    /// A file of the device: the PCI function, also when a virtio device lies between.
    Device(&'static str),
    /// A CPU mask of each queue; `rx` or `tx`, then the file's name.
    QueueMask(&'static str, &'static str),
    /// A file of each queue, as it is; `rx` or `tx`, then the file's name.
    QueueFile(&'static str, &'static str),
    /// The CPUs its interrupts go to, effectively.
    IrqAffinity,
    /// Counters of `/sys/class/net/IF/statistics/`, each with its name.
    Statistics(&'static [&'static str]),
    /// The interfaces above and below it in a stack.
    Neighbours,
    /// Of its PCI Express function and, where that matters, of every port above.
    Pcie(PcieFact),
    /// What ENA Express carries over several paths.
    EnaExpress,
    /// Of RDMA over Ethernet, where its function has an RDMA device.
    Roce(RoceFact),
}

/// A part of the configuration of RDMA over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoceFact {
    /// The priorities that are paused one by one.
    FlowControl,
    /// Whether frames have their priority by DSCP or by VLAN tag.
    Trust,
    /// Whether marked frames make senders slower.
    CongestionControl,
    /// Whether RDMA gets into a priority that is paused and marked.
    Chain,
}

/// A part of the PCI Express configuration (PCI Express Base Specification, chapter 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PcieFact {
    /// The functions from the root port down to the device.
    Path,
    /// The speed that both the device and the port above it can have.
    SpeedPossible,
    /// The lanes that both the device and the port above it can have.
    WidthPossible,
    /// Largest payload of a packet, bytes, along the path.
    MaxPayload,
    /// Largest read the device may request, bytes.
    MaxReadRequest,
    /// Whether packets may overtake each other.
    RelaxedOrdering,
    /// Whether the device may have more than 32 requests out.
    ExtendedTags,
    /// Power saving of the links along the path.
    Aspm,
    /// Whether the device caches address translations.
    AddressTranslation,
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
    /// `ETHTOOL_GPAUSEPARAM`.
    Pause(fn(&Pause) -> Reading),
    /// `ETHTOOL_GEEE`.
    EnergyEfficient(fn(&EnergyEfficient) -> Reading),
    /// `ETHTOOL_GFECPARAM`.
    Fec(fn(&Fec) -> Reading),
    /// `ETHTOOL_GRSSH`: the hash function's bits.
    HashFunction(fn(u8) -> Reading),
    /// The table by which the hash chooses queues.
    Indirection,
    /// `ETHTOOL_GWOL`: the events that wake the host, as bits.
    WakeOnLan(fn(u32) -> Reading),
    /// `ETHTOOL_GPFLAGS`: switches that the driver has names of its own for.
    PrivateFlags(fn(&PrivateFlags) -> Reading),
    /// `ETHTOOL_GRXCLSRLALL`: the rules that steer flows to queues.
    FlowRules,
    /// `ETHTOOL_GMODULEINFO`: the kind of the plugged module.
    Module(fn(u32) -> Reading),
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

/// What only generic netlink tells of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetlinkFact {
    /// Of each NAPI instance: empty polls before its interrupt is enabled again.
    DeferHardIrqs,
    /// Of each NAPI instance: how long segments and interrupts may wait, nanoseconds.
    GroFlushTimeout,
    /// Of each NAPI instance: how long interrupts stay off after a busy poll, nanoseconds.
    IrqSuspendTimeout,
    /// Of each NAPI instance: whether a kernel thread polls it.
    Threaded,
    /// The queues and the interrupt of each NAPI instance.
    NapiMap,
    /// Whether each receive queue has an interrupt on a CPU of its own near the device that is not isolated, and rules bring
    /// flows to such queues.
    Chain,
    /// What the driver can do for XDP.
    XdpFeatures,
    /// Whether descriptors to send are written into the device.
    TxPush,
    /// How much of a frame is.
    TxPushBytes,
    /// Whether descriptors to receive are written into the device.
    RxPush,
    /// Whether headers and payload go to different buffers.
    DataSplit,
    /// Length of a completion, bytes.
    CompletionBytes,
    /// Length of a receive buffer, bytes.
    BufferBytes,
    /// What starts the delay of a receive interrupt.
    CompletionTimer,
    /// Whether the plugged module may save power.
    ModulePower,
}
