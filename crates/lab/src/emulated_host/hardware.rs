//! What an emulated host is made of.

use super::EmulatedHostError;

/// The hardware of an emulated host. The default has one package of two cores, one node of 512 MiB and no NIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostHardware {
    /// Processor packages (sockets).
    pub packages: u32,
    /// Cores of each package.
    pub cores_per_package: u32,
    /// Hardware threads of each core. CPUs are numbered thread by thread: with two, CPUs 0 and 1 are one core.
    pub threads_per_core: u32,
    /// Memory of each NUMA node in MiB. The CPUs are shared out evenly in order of numbers.
    pub node_memory_mib: Vec<u32>,
    /// Network interfaces. Inside they are called `nic0`, `nic1` .. in this order, unless they have addresses of their own.
    pub nics: Vec<HostNic>,
    /// What the firmware says of itself and the machine, beside QEMU's own tables.
    pub smbios: Vec<SmbiosTable>,
    /// An Intel IOMMU with interrupt remapping. With it a change of an interrupt's affinity is in effect at once; without it,
    /// `effective_affinity` follows when the next interrupt comes.
    pub has_iommu: bool,
    /// A processor model of `qemu-system-x86_64 -cpu help`. With KVM it is that of this machine.
    pub processor: String,
    /// What runs its instructions.
    pub accelerator: Accelerator,
}

/// What runs the instructions of an emulated host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Accelerator {
    /// QEMU translates them: everywhere the same, and slow.
    #[default]
    Software,
    /// This machine's processor where `/dev/kvm` can be opened, else QEMU.
    KvmIfPossible,
}

impl Default for HostHardware {
    fn default() -> Self {
        Self {
            packages: 1,
            cores_per_package: 2,
            threads_per_core: 1,
            node_memory_mib: vec![512],
            nics: Vec::new(),
            smbios: Vec::new(),
            has_iommu: false,
            processor: PROCESSOR.to_owned(),
            accelerator: Accelerator::Software,
        }
    }
}

/// Boots in the shortest time of those tried, and software emulation has all its features.
const PROCESSOR: &str = "Nehalem";
/// One thread emulates them all.
const CPUS_MAX: u32 = 64;
/// The bus numbers that a PCIe root gets are enough for twice as many.
const NICS_MAX: usize = 16;

impl HostHardware {
    /// Hardware threads of all packages.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.packages * self.cores_per_package * self.threads_per_core
    }

    /// True when an interface needs a tap device.
    pub(super) fn has_tap(&self) -> bool {
        self.nics.iter().any(HostNic::has_tap)
    }

    /// True when this machine's processor is to run the instructions, and can.
    pub(super) fn has_kvm(&self) -> bool {
        let is_there = || std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
        self.accelerator == Accelerator::KvmIfPossible && is_there()
    }

    pub(super) fn check(&self) -> Result<(), EmulatedHostError> {
        let refuse = |what, value: String, allowed| Err(EmulatedHostError::Hardware { what, value, allowed });
        let (cpus, nodes) = (self.cpus(), self.node_memory_mib.len() as u32);
        if cpus == 0 || cpus > CPUS_MAX {
            return refuse("CPUs", cpus.to_string(), "1 to 64");
        }
        if nodes == 0 || cpus % nodes != 0 {
            return refuse("nodes", nodes.to_string(), "1 or more, each with as many CPUs as the others");
        }
        if self.nics.len() > NICS_MAX {
            return refuse("interfaces", self.nics.len().to_string(), "up to 16");
        }
        match self.nics.iter().filter_map(|nic| nic.node).find(|node| *node >= nodes) {
            Some(node) => refuse("an interface on node", node.to_string(), "a node with memory"),
            None => Ok(()),
        }
    }
}

/// A network interface of an emulated host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostNic {
    /// The device that is emulated, which decides the driver.
    pub kind: NicKind,
    /// The NUMA node whose PCIe root the device hangs off. Without one it sits on the chipset's own bus, and the kernel
    /// gives its node as -1.
    pub node: Option<u32>,
    /// Speed and width of the PCIe port above it: GT/s (`2_5`, `5`, `8`, `16`) and lanes (1 to 32). The devices themselves
    /// say 2.5 GT/s and one lane whatever the port can do. Only with a node.
    pub port: Option<PciePort>,
    /// Receive and transmit queues of a virtio-net device, 1 or more. More than one needs root, because its other end is
    /// then a tap device in an anonymous network namespace. The driver of vmxnet3 makes its own, one a CPU.
    pub queues: u32,
    /// A virtio-net device whose memory the driver maps by the kernel's DMA API (`VIRTIO_F_ACCESS_PLATFORM`): without, it has no
    /// zero-copy (`virtnet_xsk_pool_enable`, `drivers/net/virtio_net.c`, Linux 6.13).
    pub maps_dma: bool,
    /// NICs of one segment hear each other; virtio-net devices with several queues hear only those with several queues.
    pub segment: u32,
    /// The tap device that is its other end, for a virtio-net device: QEMU makes it in the namespace that it is started in
    /// ([`HostPlace`](super::HostPlace)), and the caller joins it with others. Without one the segment is its other end.
    pub tap: Option<String>,
    /// Its hardware address. Inside the interface is called `nicN`, where N is the last byte.
    pub mac: Option<[u8; 6]>,
}

impl HostNic {
    /// One queue, segment 0, no node, no DMA API, no tap device of the caller's.
    #[must_use]
    pub fn new(kind: NicKind) -> Self {
        Self { kind, node: None, port: None, queues: 1, maps_dma: false, segment: 0, tap: None, mac: None }
    }

    pub(super) fn has_tap(&self) -> bool {
        self.kind == NicKind::VirtioNet && (self.queues > 1 || self.tap.is_some())
    }

    /// True when the harness joins its tap device with those of its segment.
    pub(super) fn is_joined_here(&self) -> bool {
        self.has_tap() && self.tap.is_none()
    }

    /// The same on a PCIe root of this NUMA node.
    #[must_use]
    pub fn on_node(self, node: u32) -> Self {
        Self { node: Some(node), ..self }
    }
}

/// A network device that QEMU emulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NicKind {
    /// Intel 82574L: interrupt coalescing, rings and pause can be set.
    E1000e,
    /// virtio-net: several queues, coalescing is accepted, rings up to 256.
    VirtioNet,
    /// VMware's: several queues; a change of its rings resets the device and makes its vectors anew.
    Vmxnet3,
}

impl NicKind {
    /// The driver's name in Linux.
    #[must_use]
    pub fn driver(self) -> &'static str {
        match self {
            Self::E1000e => "e1000e",
            Self::VirtioNet => "virtio_net",
            Self::Vmxnet3 => "vmxnet3",
        }
    }

    /// The device's name in QEMU.
    pub(super) fn device(self) -> &'static str {
        match self {
            Self::E1000e => "e1000e",
            Self::VirtioNet => "virtio-net-pci",
            Self::Vmxnet3 => "vmxnet3",
        }
    }
}

/// What a PCIe root port can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PciePort {
    /// `2_5`, `5`, `8` or `16`, in GT/s.
    pub speed_gt_s: String,
    /// 1, 2, 4, 8, 12, 16 or 32.
    pub lanes: u32,
}

/// Fields of one SMBIOS table, in QEMU's words (`-smbios type=17,speed=3200`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmbiosTable {
    /// 0 BIOS, 1 system, 2 board, 3 chassis, 4 processor, 17 memory device.
    pub kind: u8,
    /// Names and values.
    pub fields: Vec<(String, String)>,
}

impl SmbiosTable {
    /// A table of this type with these fields.
    #[must_use]
    pub fn new(kind: u8, fields: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self { kind, fields: fields.iter().map(owned).collect() }
    }
}
