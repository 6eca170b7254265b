//! The nature of a setting: what values it takes, how it is written, what keeps it after a boot,
//! and what a change can cost. The plan and the journal of a change build on these.

use std::fmt;

/// What a setting's value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Any text in one line.
    Text,
    /// On or off, in the words of where it is read: `on`, `1`, `yes`.
    Switch,
    /// A number of this unit; an empty unit counts things.
    Number(&'static str),
    /// A list of CPUs.
    CpuList,
    /// One of these words.
    Word(&'static [&'static str]),
}

impl Value {
    /// On or off by the words in which kernel and tools say it. An option that is not on the command
    /// line is off.
    pub(crate) fn switch(text: &str) -> Option<bool> {
        match text {
            "on" | "1" | "yes" | "y" | "Y" | "true" | "enabled" | "set" => Some(true),
            "off" | "0" | "no" | "n" | "N" | "false" | "disabled" | "not set" => Some(false),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("text"),
            Self::Switch => f.write_str("on or off"),
            Self::Number("") => f.write_str("number"),
            Self::Number(unit) => write!(f, "number, {unit}"),
            Self::CpuList => f.write_str("CPU list"),
            Self::Word(words) => write!(f, "one of {}", words.join(", ")),
        }
    }
}

/// How a setting is written while the host runs; one class is one piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Write {
    /// A file of sysfs, procfs or debugfs.
    File,
    /// A file below `/proc/sys`.
    Sysctl,
    /// A message of ethtool.
    Ethtool,
    /// A message of the netdev family, for one NAPI instance.
    Napi,
    /// The affinity of an interrupt.
    Irq,
    /// An option of a kernel module, which takes effect when the module is loaded again.
    Module,
    /// A service started or stopped.
    Service,
    /// A control group.
    Cgroup,
    /// A resource limit of a process.
    Limit,
    /// A request held open on `/dev/cpu_dma_latency`.
    PmQos,
    /// A guest's definition.
    Guest,
    /// The database of Open vSwitch.
    OpenVswitch,
    /// The kernel's command line; only the next boot sees it.
    BootCommandLine,
    /// The configuration the kernel was built with.
    KernelBuild,
    /// The firmware's setup; it is advised on, never written.
    Firmware,
    /// The hardware itself.
    Hardware,
    /// The program that is to be fast.
    Application,
    /// Another device, such as a switch.
    OtherDevice,
    /// Nothing writes it: it is a fact, or the sum of other settings.
    Fact,
}

impl Write {
    /// The class as commands and documents print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "runtime file",
            Self::Sysctl => "sysctl",
            Self::Ethtool => "ethtool",
            Self::Napi => "per NAPI",
            Self::Irq => "IRQ",
            Self::Module => "module option",
            Self::Service => "service",
            Self::Cgroup => "cgroup",
            Self::Limit => "limit",
            Self::PmQos => "PM QoS",
            Self::Guest => "guest definition",
            Self::OpenVswitch => "Open vSwitch",
            Self::BootCommandLine => "boot",
            Self::KernelBuild => "kernel build",
            Self::Firmware => "firmware",
            Self::Hardware => "hardware",
            Self::Application => "application",
            Self::OtherDevice => "other device",
            Self::Fact => "fact",
        }
    }
}

/// What makes a setting outlive a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    /// Words on the kernel's command line.
    CommandLine(&'static str),
    /// A line in a file of `/etc/sysctl.d`.
    SysctlD,
    /// A `w` line in a file of `/etc/tmpfiles.d`.
    TmpfilesD,
    /// A udev rule, for devices that come and go.
    UdevRule,
    /// An option in a systemd `.link` file.
    LinkFile(&'static str),
    /// A systemd unit that writes it, again when a link comes up.
    SystemdUnit,
    /// A service enabled, disabled or masked.
    ServiceEnablement,
    /// A line in a file of `/etc/modprobe.d`.
    ModprobeD(&'static str),
    /// A line in a file of `/etc/security/limits.d`, or `LimitX=` of a unit.
    Limits(&'static str),
    /// The firmware keeps it.
    FirmwareMenu,
    /// The definition of the guest.
    GuestDefinition,
    /// The database of Open vSwitch.
    OpenVswitchDatabase,
    /// The kernel's configuration.
    KernelBuild,
    /// The configuration or the start of the program.
    ApplicationStart,
    /// The configuration of the other device.
    DeviceConfiguration,
    /// A file of its own.
    ConfigFile(&'static str),
}

impl fmt::Display for Persist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine(words) => write!(f, "kernel command line: {words}"),
            Self::SysctlD => f.write_str("/etc/sysctl.d"),
            Self::TmpfilesD => f.write_str("/etc/tmpfiles.d"),
            Self::UdevRule => f.write_str("udev rule"),
            Self::LinkFile(option) => write!(f, "systemd .link file: {option}="),
            Self::SystemdUnit => f.write_str("systemd unit"),
            Self::ServiceEnablement => f.write_str("systemctl enable, disable or mask"),
            Self::ModprobeD(line) => write!(f, "/etc/modprobe.d: {line}"),
            Self::Limits(line) => write!(f, "/etc/security/limits.d or unit: {line}"),
            Self::FirmwareMenu => f.write_str("firmware menu"),
            Self::GuestDefinition => f.write_str("definition of the guest"),
            Self::OpenVswitchDatabase => f.write_str("Open vSwitch database"),
            Self::KernelBuild => f.write_str("kernel configuration"),
            Self::ApplicationStart => f.write_str("start or configuration of the program"),
            Self::DeviceConfiguration => f.write_str("configuration of the other device"),
            Self::ConfigFile(path) => f.write_str(path),
        }
    }
}

/// What a change can harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    /// Frames are lost or the link goes down for a while; a remote console may be cut off.
    Network,
    /// The host is easier to attack; never part of a profile without consent.
    Security,
    /// More power and heat, which can end in a lower clock.
    Power,
    /// Memory is taken from everything else.
    Memory,
    /// Faults are found later or not at all.
    Debugging,
    /// A thread can starve the host.
    Hang,
    /// Data can be lost.
    Data,
}

impl Risk {
    /// The risk as commands and documents print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "can cut the network",
            Self::Security => "lowers security",
            Self::Power => "power and heat",
            Self::Memory => "reserves memory",
            Self::Debugging => "hides faults",
            Self::Hang => "may hang the host",
            Self::Data => "data at risk",
        }
    }
}

/// What a change interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disruption {
    /// Nothing.
    None,
    /// The service or program starts again.
    Restart,
    /// The interface is reset: frames are lost, interrupts get other numbers.
    LinkReset,
    /// The host boots again.
    Reboot,
    /// Somebody works in the firmware's setup while the host is down.
    FirmwareSetup,
    /// Somebody works on the hardware or on another device.
    Hands,
}

impl Disruption {
    /// The disruption as commands and documents print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Restart => "restart of the service or program",
            Self::LinkReset => "link reset",
            Self::Reboot => "reboot",
            Self::FirmwareSetup => "reboot into the firmware's setup",
            Self::Hands => "work on hardware or another device",
        }
    }
}

/// What one vendor's firmware menu calls a setting, and what a paper chose there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Menu {
    /// Whose menu.
    pub vendor: Vendor,
    /// The entry, and behind `=` the choice.
    pub words: &'static str,
}

/// Whose menus are known: makers of servers whose menus the papers print, all with processors of Intel, and makers of
/// processors whose menus other makers take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vendor {
    /// Cisco UCS.
    Cisco,
    /// HP and HPE `ProLiant`.
    Hp,
    /// Supermicro.
    Supermicro,
    /// Intel's own menu.
    Intel,
    /// AMD's own menu.
    Amd,
}

impl Vendor {
    /// The vendor's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cisco => "Cisco",
            Self::Hp => "HP",
            Self::Supermicro => "Supermicro",
            Self::Intel => "Intel",
            Self::Amd => "AMD",
        }
    }

    /// The word in the name of the processors that the menu is for.
    #[must_use]
    pub const fn processor(self) -> &'static str {
        match self {
            Self::Cisco | Self::Hp | Self::Supermicro | Self::Intel => "Intel",
            Self::Amd => "AMD",
        }
    }

    /// Whether it makes machines and not only processors.
    #[must_use]
    pub const fn is_of_machines(self) -> bool {
        matches!(self, Self::Cisco | Self::Hp | Self::Supermicro)
    }

    /// The maker by the name in the machine's DMI table, if it is a known one.
    #[must_use]
    pub fn of_machine(maker: &str) -> Option<Self> {
        const MAKERS: [(&str, Vendor); 4] =
            [("Cisco", Vendor::Cisco), ("HP", Vendor::Hp), ("Hewlett", Vendor::Hp), ("Supermicro", Vendor::Supermicro)];
        MAKERS.iter().find(|(name, _)| maker.starts_with(name)).map(|(_, vendor)| *vendor)
    }
}
