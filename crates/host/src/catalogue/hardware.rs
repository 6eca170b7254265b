//! The machine: memory modules and what is plugged where.

use super::base;
use crate::read::dmi;
use crate::setting::Risk;
use crate::{Area, ReadFrom, Setting};

const HARDWARE: Setting = base::hardware(Area::Hardware);

pub(super) const SETTINGS: &[Setting] = &[
    HARDWARE
        .row(
            "hardware.memory-speed",
            "The filled memory slots with configured and rated speed.",
            "A module below its rating, or a channel without one, makes every cache miss longer.",
            ReadFrom::Computed(dmi::memory_speed, "/sys/firmware/dmi/entries/17-*/raw"),
        )
        .docs(&["DMTF DSP0134"]),
    HARDWARE
        .row(
            "hardware.memory-bandwidth",
            "Bytes a second that a CPU copies in the memory of its own node.",
            "A low figure shows missing modules or a wrong interleaving that nothing else reports.",
            ReadFrom::Elsewhere {
                why: "it must be measured, which loads the host",
                look: "nearwire check --probe memory, or numademo 128m memcpy; local copies should exceed 8 GB/s",
            },
        )
        .number("bytes/s"),
    HARDWARE.row(
        "hardware.cable",
        "What is between the ports of the two ends.",
        "Each device in between adds its own delay and queue.",
        ReadFrom::Elsewhere {
            why: "the kernel does not see what a cable leads to",
            look: "the cable, or the LLDP neighbour of the port",
        },
    ),
    base::fact(Area::Hardware)
        .row(
            "hardware.management-controller",
            "Whether the kernel talks to a management controller.",
            "Such controllers raise management interrupts and share a network port.",
            ReadFrom::Modules(&["ipmi_si", "ipmi_ssif"]),
        )
        .docs(&["Documentation/driver-api/ipmi.rst"]),
    base::file(Area::Hardware)
        .row(
            "hardware.pcie-aspm-policy",
            "How PCIe links save power, for all devices.",
            "A link asleep takes microseconds to wake up for the first frame.",
            ReadFrom::Chosen("/sys/module/pcie_aspm/parameters/policy"),
        )
        .words(&["default", "performance", "powersave", "powersupersave"])
        .risk(&[Risk::Power])
        .docs(&["Documentation/PCI/pciebus-howto.rst"]),
];
