//! How a setting is read, in words.

use std::fmt;

use super::{EthtoolFact, LinkFact, NetlinkFact, NicFact, PcieFact, ReadFrom, RoceFact};

impl fmt::Display for ReadFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) | Self::CpuList(path) | Self::CpuMask(path) | Self::Chosen(path) => f.write_str(path),
            Self::Sysctl(name) => write!(f, "/proc/sys/{}", name.replace('.', "/")),
            Self::CommandLine(option) => write!(f, "{option} in /proc/cmdline"),
            Self::CpuInfo(field) => write!(f, "{field} in /proc/cpuinfo"),
            Self::CpuFlag(flag) => write!(f, "flag {flag} in /proc/cpuinfo"),
            Self::MemInfo(field) => write!(f, "{field} in /proc/meminfo"),
            Self::EachCpu(file) => write!(f, "/sys/devices/system/cpu/cpuN/{file}"),
            Self::Each { directory, prefix, file: "" } => write!(f, "{directory}/{prefix}*"),
            Self::Each { directory, prefix, file } => write!(f, "{directory}/{prefix}*/{file}"),
            Self::KernelConfig(option) => write!(f, "{option} in /proc/config.gz or /boot/config-RELEASE"),
            Self::ModuleParameter(module, parameter) => write!(f, "/sys/module/{module}/parameters/{parameter}"),
            Self::Modules(names) => write!(f, "/sys/module, of {}", names.join(", ")),
            Self::Names(directory) => write!(f, "the entries of {directory}"),
            Self::Assignment(path, key) => write!(f, "{key}= in {path}"),
            Self::Service(unit) => write!(f, "the unit files and links of {unit}, and its control group"),
            Self::Msr(field) => {
                write!(f, "register {:#x} of CPU 0, {} from bit {}", field.register, bits(field.bits), field.low_bit)
            }
            Self::Computed(_, what) => f.write_str(what),
            Self::Elsewhere { why, look } => write!(f, "not by software on this host, because {why}; see {look}"),
            Self::Nic(fact) => fact.fmt(f),
        }
    }
}

fn bits(count: u32) -> String {
    if count == 1 { "1 bit".to_owned() } else { format!("{count} bits") }
}

impl fmt::Display for NicFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver | Self::BusInfo => f.write_str("ethtool GDRVINFO"),
            Self::Ethtool(fact) => write!(f, "ethtool {}", fact.command()),
            Self::Link(fact) => write!(f, "rtnetlink {}", fact.attribute()),
            Self::Netlink(fact) => write!(f, "generic netlink, {}", fact.attribute()),
            Self::Offload(names) => write!(f, "ethtool GFEATURES, active state of {}", names.join(", ")),
            Self::File(file) => write!(f, "/sys/class/net/IF/{file}"),
            Self::Device(file) => write!(f, "/sys/class/net/IF/device/{file}"),
            Self::QueueMask(direction, file) | Self::QueueFile(direction, file) => {
                write!(f, "/sys/class/net/IF/queues/{direction}-*/{file}")
            }
            Self::IrqAffinity => f.write_str("/proc/irq/N/effective_affinity_list of the device's interrupts"),
            Self::Statistics(names) => write!(f, "/sys/class/net/IF/statistics/{{{}}}", names.join(",")),
            Self::Neighbours => f.write_str("/sys/class/net/IF/{upper,lower}_*"),
            Self::EnaExpress => f.write_str("ethtool GSTATS, ena_srd_mode"),
            Self::Roce(fact) => f.write_str(match fact {
                RoceFact::FlowControl => "dcbnl, IEEE PFC",
                RoceFact::Trust => "dcbnl, IEEE application table, entries of DSCP",
                RoceFact::CongestionControl => "/sys/class/net/IF/ecn/{roce_np,roce_rp}/enable/PRIORITY",
                RoceFact::Chain => {
                    "dcbnl, IEEE PFC and application table; ecn of the interface; traffic_class or default_roce_tos of the RDMA device"
                }
            }),
            Self::Pcie(fact) => f.write_str(match fact {
                PcieFact::Path => "the device's path in /sys/devices",
                PcieFact::SpeedPossible => "max_link_speed of the device and of the port above it",
                PcieFact::WidthPossible => "max_link_width of the device and of the port above it",
                PcieFact::MaxPayload | PcieFact::Aspm => "PCI configuration space of the device and each port above it",
                PcieFact::MaxReadRequest
                | PcieFact::RelaxedOrdering
                | PcieFact::ExtendedTags
                | PcieFact::AddressTranslation => "PCI configuration space of the device",
            }),
        }
    }
}

impl EthtoolFact {
    const fn command(&self) -> &'static str {
        match self {
            Self::Driver(_) => "GDRVINFO",
            Self::Rings(_) => "GRINGPARAM",
            Self::Coalesce(_) => "GCOALESCE",
            Self::Channels(_) => "GCHANNELS",
            Self::Link(_) => "GLINKSETTINGS",
            Self::Timestamping(_) => "GET_TS_INFO",
            Self::Pause(_) => "GPAUSEPARAM",
            Self::EnergyEfficient(_) => "GEEE",
            Self::Fec(_) => "GFECPARAM",
            Self::HashFunction(_) => "GRSSH",
            Self::Indirection => "GRXFHINDIR",
            Self::WakeOnLan(_) => "GWOL",
            Self::PrivateFlags(_) => "GPFLAGS",
            Self::FlowRules => "GRXCLSRLALL",
            Self::Module(_) => "GMODULEINFO",
        }
    }
}

impl LinkFact {
    const fn attribute(self) -> &'static str {
        match self {
            Self::Mtu => "IFLA_MTU",
            Self::TxQueueLength => "IFLA_TXQLEN",
            Self::RxQueues => "IFLA_NUM_RX_QUEUES",
            Self::TxQueues => "IFLA_NUM_TX_QUEUES",
            Self::Qdisc => "IFLA_QDISC",
            Self::Kind => "IFLA_INFO_KIND",
        }
    }
}

impl NetlinkFact {
    const fn attribute(self) -> &'static str {
        match self {
            Self::DeferHardIrqs => "netdev napi-get, defer-hard-irqs",
            Self::GroFlushTimeout => "netdev napi-get, gro-flush-timeout",
            Self::IrqSuspendTimeout => "netdev napi-get, irq-suspend-timeout",
            Self::Threaded => "netdev napi-get, threaded",
            Self::NapiMap => "netdev napi-get and queue-get",
            Self::Chain => {
                "ethtool GRXCLSRLALL, netdev queue-get or the names in /proc/interrupts, /proc/irq/N/effective_affinity_list, device/local_cpulist, isolated CPUs"
            }
            Self::XdpFeatures => "netdev dev-get, xdp-features",
            Self::TxPush => "ethtool RINGS_GET, tx-push",
            Self::TxPushBytes => "ethtool RINGS_GET, tx-push-buf-len",
            Self::RxPush => "ethtool RINGS_GET, rx-push",
            Self::DataSplit => "ethtool RINGS_GET, tcp-data-split",
            Self::CompletionBytes => "ethtool RINGS_GET, cqe-size",
            Self::BufferBytes => "ethtool RINGS_GET, rx-buf-len",
            Self::CompletionTimer => "ethtool COALESCE_GET, use-cqe-mode-rx",
            Self::ModulePower => "ethtool MODULE_GET, power-mode-policy",
        }
    }
}
