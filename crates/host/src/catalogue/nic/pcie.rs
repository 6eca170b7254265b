//! Where the device is plugged in, and how it talks to memory.

use crate::catalogue::base;
use crate::setting::{Disruption, Menu, Persist, Risk, Vendor, Write};
use crate::{Area, NicFact, PcieFact, ReadFrom, Setting};

const WHY: &str = "it is in PCI configuration space, which the firmware writes";
const SLOT: Setting = base::hardware(Area::Nic).docs(&["Documentation/ABI/testing/sysfs-bus-pci"]);
const CONFIG: Setting = base::device_file(Area::Nic)
    .persist(&[Persist::FirmwareMenu, Persist::SystemdUnit])
    .no_file(WHY)
    .docs(&["setpci(8)"]);

pub(super) const SETTINGS: &[Setting] = &[
    SLOT.row(
        "nic.numa-node",
        "The memory node of the device, where -1 is not known.",
        "Buffers, interrupts and program on another node cross the interconnect for each packet.",
        ReadFrom::Nic(NicFact::Device("numa_node")),
    )
    .number("")
    .today("The file can be written, which moves nothing and taints the kernel.")
    .in_record(),
    SLOT.row(
        "nic.local-cpus",
        "CPUs near the device.",
        "Interrupts and program belong there.",
        ReadFrom::Nic(NicFact::Device("local_cpulist")),
    )
    .cpus()
    .in_record(),
    SLOT.row(
        "nic.pcie.speed",
        "The speed of the PCIe link.",
        "A slower link takes longer for each descriptor and byte.",
        ReadFrom::Nic(NicFact::Device("current_link_speed")),
    )
    .today("Devices built into the chipset report 2.5 GT/s whatever they do.")
    .in_record(),
    SLOT.row(
        "nic.pcie.speed-max",
        "The speed the device could have in the best slot.",
        "A slot that gives less keeps the device from it.",
        ReadFrom::Nic(NicFact::Device("max_link_speed")),
    )
    .in_record(),
    SLOT.row(
        "nic.pcie.speed-possible",
        "The speed that both the device and its slot can have.",
        "A lower present speed shows a bad contact or a port set lower.",
        ReadFrom::Nic(NicFact::Pcie(PcieFact::SpeedPossible)),
    ),
    SLOT.row(
        "nic.pcie.width",
        "The lanes of the PCIe link.",
        "Fewer lanes take longer for each byte.",
        ReadFrom::Nic(NicFact::Device("current_link_width")),
    )
    .number("lanes")
    .today("Devices built into the chipset report one lane whatever they do.")
    .in_record(),
    SLOT.row(
        "nic.pcie.width-max",
        "The lanes the device could have in the best slot.",
        "A slot that gives fewer keeps the device from them.",
        ReadFrom::Nic(NicFact::Device("max_link_width")),
    )
    .number("lanes")
    .in_record(),
    SLOT.row(
        "nic.pcie.width-possible",
        "The lanes that both the device and its slot can have.",
        "Fewer present lanes show a bad contact or a port set lower.",
        ReadFrom::Nic(NicFact::Pcie(PcieFact::WidthPossible)),
    )
    .number("lanes"),
    SLOT.row(
        "nic.pcie.path",
        "The PCI functions from the root port down to the device.",
        "Each bridge in between adds its own delay to both directions.",
        ReadFrom::Nic(NicFact::Pcie(PcieFact::Path)),
    ),
    CONFIG
        .row(
            "nic.pcie.max-payload",
            "The largest payload of a packet on the bus, bytes, along the path.",
            "Small payloads waste the bus, and the smallest on the path counts.",
            ReadFrom::Nic(NicFact::Pcie(PcieFact::MaxPayload)),
        )
        .number("bytes")
        .risk(&[Risk::Network]),
    CONFIG
        .row(
            "nic.pcie.max-read-request",
            "The largest read that the device may request, bytes.",
            "Large reads use the bus better, and a small one behind them waits.",
            ReadFrom::Nic(NicFact::Pcie(PcieFact::MaxReadRequest)),
        )
        .number("bytes")
        .risk(&[Risk::Network]),
    CONFIG
        .row(
            "nic.pcie.relaxed-ordering",
            "Whether writes of the device may overtake each other.",
            "On some hosts ordered writes wait for each other on the way to memory.",
            ReadFrom::Nic(NicFact::Pcie(PcieFact::RelaxedOrdering)),
        )
        .switch(),
    CONFIG
        .row(
            "nic.pcie.extended-tags",
            "Whether the device may have more than 32 reads out.",
            "Few reads at once limit the rate of small frames.",
            ReadFrom::Nic(NicFact::Pcie(PcieFact::ExtendedTags)),
        )
        .switch(),
    base::device_file(Area::Nic)
        .row(
            "nic.pcie.aspm",
            "How the links along the path save power.",
            "A link asleep takes microseconds to wake up for the first frame.",
            ReadFrom::Nic(NicFact::Pcie(PcieFact::Aspm)),
        )
        .words(&["off", "L0s", "L1", "L0s L1"])
        .no_file(WHY)
        .persist(&[Persist::CommandLine("pcie_aspm=off"), Persist::FirmwareMenu, Persist::UdevRule])
        .risk(&[Risk::Power])
        .docs(&["Documentation/PCI/pciebus-howto.rst"]),
    base::firmware()
        .row(
            "nic.pcie.address-translation",
            "Whether the device keeps translated addresses itself.",
            "A translation in the device saves the trip to the IOMMU.",
            ReadFrom::Nic(NicFact::Pcie(PcieFact::AddressTranslation)),
        )
        .switch()
        .in_area(Area::Nic)
        .menu(&[Menu { vendor: Vendor::Cisco, words: "Intel VT-d ATS support = Enabled" }]),
    CONFIG
        .row(
            "nic.pcie.errors",
            "Corrected errors of the device's PCIe link since boot.",
            "Each corrected error is a packet sent again on the bus.",
            ReadFrom::Nic(NicFact::Device("aer_dev_correctable")),
        )
        .write_by(Write::Fact)
        .persist(&[])
        .disrupts(Disruption::None)
        .docs(&["Documentation/PCI/pcieaer-howto.rst"]),
];
