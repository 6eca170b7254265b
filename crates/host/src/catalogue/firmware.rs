//! The firmware's menu. What can be read by its effect is read so; the rest says where to look.

use super::base;
use crate::read::{cpu, dmi};
use crate::setting::{Disruption, Menu, MsrField, Persist, Risk, Vendor};
use crate::{Area, ReadFrom, Setting};

const MENU: Setting = base::firmware();
const MSR: Setting = base::firmware().switch().docs(&["Intel SDM volume 4"]);
const ENABLED: &[&str] = &["on", "off"];

const fn cisco(words: &'static str) -> Menu {
    Menu { vendor: Vendor::Cisco, words }
}

const fn hp(words: &'static str) -> Menu {
    Menu { vendor: Vendor::Hp, words }
}

const fn amd(words: &'static str) -> Menu {
    Menu { vendor: Vendor::Amd, words }
}

const fn intel(words: &'static str) -> Menu {
    Menu { vendor: Vendor::Intel, words }
}

/// What no software of the host shows: where it is in AMD's menu, and how a management controller tells it.
const fn in_menu(look: &'static str) -> ReadFrom {
    ReadFrom::Elsewhere { why: "the firmware does not tell the kernel", look }
}

const fn msr(register: u32, low_bit: u32, bits: u32, words: &'static [&'static str]) -> ReadFrom {
    ReadFrom::Msr(MsrField { register, low_bit, bits, words })
}

pub(super) const SETTINGS: &[Setting] = &[
    base::fact(Area::Firmware)
        .row(
            "firmware.vendor",
            "The maker of the firmware.",
            "Menus and defaults differ from maker to maker.",
            ReadFrom::File("/sys/class/dmi/id/bios_vendor"),
        )
        .docs(&["drivers/firmware/dmi-id.c"]),
    base::fact(Area::Firmware)
        .row(
            "firmware.version",
            "The version of the firmware.",
            "Two hosts with different versions have different defaults and management interrupts.",
            ReadFrom::File("/sys/class/dmi/id/bios_version"),
        )
        .docs(&["drivers/firmware/dmi-id.c"]),
    MENU.row(
        "firmware.cores",
        "How many cores of each processor the firmware enables.",
        "Fewer cores leave more turbo headroom but less room to keep work apart.",
        ReadFrom::CpuInfo("cpu cores"),
    )
    .number("")
    .menu(&[cisco("Number of enabled cores = All")]),
    MENU.row(
        "firmware.nodes-per-socket",
        "Into how many memory nodes the firmware divides each processor.",
        "Memory of the own part answers sooner, and a device is near the CPUs of its part alone.",
        ReadFrom::Computed(cpu::nodes_per_package, "nodeN/cpulist and cpuN/topology/physical_package_id"),
    )
    .number("")
    .menu(&[amd("NUMA nodes per socket = NPS1"), intel("Sub NUMA Clustering = Disabled")])
    .docs(&["Documentation/admin-guide/mm/numaperf.rst"])
    .today("AMD has a node for each last-level cache too, which counts here."),
    MENU.row(
        "firmware.amd.determinism",
        "Whether all processors of one model keep the same clock under the same load.",
        "With the other choice each one is as fast as its own silicon allows, and equal hosts differ.",
        in_menu(
            "AMD CBS > NBIO Common Options > SMU Common Options > Determinism Slider in the menu; racadm get BIOS.SysProfileSettings.DeterminismSlider (Dell); the attribute with Determinism in its name at Redfish /redfish/v1/Systems/ID/Bios",
        ),
    )
    .words(&["performance", "power"])
    .risk(&[Risk::Power])
    .menu(&[amd("Determinism Slider = Performance")])
    .docs(&["AMD EPYC tuning guides"]),
    MENU.row(
        "firmware.amd.xgmi-width",
        "Whether the links between two processors may drop to fewer lanes when they are little used.",
        "A link that widens again stalls whoever crosses it.",
        in_menu(
            "AMD CBS > NBIO Common Options > SMU Common Options > xGMI Link Width Control and xGMI Force Link Width in the menu; racadm get BIOS.SysProfileSettings.DynamicLinkWidthManagement (Dell); the attribute with xGMI or LinkWidth in its name at Redfish /redfish/v1/Systems/ID/Bios",
        ),
    )
    .words(&["fixed", "dynamic"])
    .risk(&[Risk::Power])
    .menu(&[amd("xGMI Link Width Control = Manual, forced to its maximum")])
    .docs(&["AMD EPYC tuning guides"]),
    MENU.row(
        "firmware.amd.fabric-sleep",
        "Whether the fabric between cores, memory and devices may sleep when all cores do.",
        "The first write of a device then waits until it is awake.",
        in_menu(
            "AMD CBS > NBIO Common Options > SMU Common Options > DF Cstates in the menu; racadm get BIOS.SysProfileSettings.DfCState (Dell); the attribute with DfC or DataFabric in its name at Redfish /redfish/v1/Systems/ID/Bios",
        ),
    )
    .switch()
    .risk(&[Risk::Power])
    .menu(&[amd("DF Cstates = Disabled")])
    .docs(&["AMD EPYC tuning guides"]),
    MENU.row(
        "firmware.execute-disable",
        "Whether memory can be marked as not executable.",
        "It costs no measurable latency and stops a class of attacks.",
        ReadFrom::CpuFlag("nx"),
    )
    .switch()
    .risk(&[Risk::Security])
    .menu(&[cisco("Execute disable = Disabled")])
    .today("Switching it off gains nothing and the kernel relies on it, so the printed advice is not followed."),
    MENU.row(
        "firmware.virtualisation",
        "Whether the processor can run guests.",
        "Guests need it and nothing else notices.",
        ReadFrom::Computed(cpu::virtualisation, "flags vmx and svm of /proc/cpuinfo"),
    )
    .switch()
    .menu(&[cisco("Intel VT = Enabled")]),
    MENU.row(
        "firmware.iommu",
        "The units that translate addresses of devices, as the kernel found them.",
        "Each packet's addresses are translated, which costs when the translation is not cached.",
        ReadFrom::Names("/sys/class/iommu"),
    )
    .risk(&[Risk::Security])
    .menu(&[cisco("Intel VT-d = Enabled")])
    .docs(&["Documentation/arch/x86/iommu.rst"]),
    MENU.row(
        "firmware.iommu.coherency",
        "Whether the address translation units see the processor's caches.",
        "Without it the kernel must flush caches when it maps a buffer.",
        ReadFrom::Computed(cpu::translation_coherency, "bit 0 of /sys/class/iommu/dmar*/intel-iommu/ecap"),
    )
    .switch()
    .menu(&[cisco("Intel VT-d coherency support = Enabled")]),
    MENU.row(
        "firmware.power-profile",
        "The profile that sets all power options at once.",
        "Power saving by the firmware ends in wake-ups and clock changes in the path of a packet.",
        base::FIRMWARE_MENU,
    )
    .risk(&[Risk::Power])
    .menu(&[
        hp("Power Profile = Max Performance"),
        hp("Power Regulator = Static High Performance"),
        cisco("CPU performance = HPC"),
        cisco("Power technology = Custom"),
    ]),
    MSR.row(
        "firmware.prefetcher.l2",
        "Whether the processor fetches further lines into its second-level cache.",
        "Descriptors and frames are read in order, so that the next line is mostly the one needed.",
        msr(0x1a4, 0, 1, ENABLED),
    )
    .menu(&[cisco("Hardware prefetcher = Enabled")]),
    MSR.row(
        "firmware.prefetcher.adjacent-line",
        "Whether the processor fetches cache lines in pairs.",
        "The pair of a line that another CPU writes is a false sharing partner.",
        msr(0x1a4, 1, 1, ENABLED),
    )
    .menu(&[cisco("Adjacent cache line prefetcher = Enabled")]),
    MSR.row(
        "firmware.prefetcher.dcu-streamer",
        "Whether the first-level cache fetches the next line of a stream.",
        "Payload is read in order, so that the next line is mostly the one needed.",
        msr(0x1a4, 2, 1, ENABLED),
    )
    .menu(&[cisco("DCU streamer prefetch = Enabled")]),
    MSR.row(
        "firmware.prefetcher.dcu-ip",
        "Whether the first-level cache fetches by the stride of an instruction.",
        "Rings of descriptors are read with a fixed stride.",
        msr(0x1a4, 3, 1, ENABLED),
    )
    .menu(&[cisco("DCU IP prefetcher = Enabled")]),
    MSR.row(
        "firmware.p-states",
        "Whether the processor may change its frequency and voltage on request.",
        "A change stops the clock for microseconds, and a CPU found at a low clock is slow.",
        msr(0x1a0, 16, 1, &["off", "on"]),
    )
    .risk(&[Risk::Power])
    .menu(&[cisco("Enhanced Intel SpeedStep technology = Enabled")])
    .today("With hardware-controlled P-states the governor performance holds the clock up, so it need not be switched off here."),
    MSR.row(
        "firmware.c1e",
        "Whether a halted CPU also lowers its voltage.",
        "Leaving that state takes several times as long as leaving a plain halt.",
        msr(0x1fc, 1, 1, &["off", "on"]),
    )
    .risk(&[Risk::Power])
    .menu(&[
        cisco("Processor power state C1 enhanced = Disabled"),
        Menu { vendor: Vendor::Supermicro, words: "C1E Support = Off" },
    ]),
    base::firmware()
        .row(
            "firmware.package-c-state",
            "The deepest idle state of a whole package, as the number the model gives it.",
            "A package asleep has its memory controller and caches asleep too, so that a device's write waits.",
            msr(0xe2, 0, 3, &[]),
        )
        .number("")
        .risk(&[Risk::Power])
        .menu(&[hp("Minimum Package Idle C-state = No package state")])
        .docs(&["Intel SDM volume 4"]),
    MSR.row(
        "firmware.c1-demotion",
        "Whether the processor turns requests for deep sleep into shallow ones by itself.",
        "It hides the idle state that the kernel asked for.",
        msr(0xe2, 26, 1, &["off", "on"]),
    ),
    MENU.row(
        "firmware.frequency-floor",
        "Whether the firmware sets a least frequency.",
        "A floor shortens the way up to full clock.",
        ReadFrom::Elsewhere {
            why: "the kernel sees only the resulting range of frequencies",
            look: "the firmware's menu, and cpufreq/cpuinfo_min_freq for the effect",
        },
    )
    .menu(&[cisco("Frequency floor override = Disabled")]),
    MENU.row(
        "firmware.p-state-coordination",
        "Which CPUs change their frequency together.",
        "A CPU in a group is slowed down by the idleness of the others.",
        ReadFrom::EachCpu("cpufreq/freqdomain_cpus"),
    )
    .menu(&[cisco("P-STATE coordination = HW_ALL")])
    .docs(&["Documentation/admin-guide/pm/cpufreq.rst"]),
    MENU.row(
        "firmware.memory-ras",
        "Whether memory is mirrored or kept spare.",
        "Mirrored writes go to two channels and halve the bandwidth.",
        ReadFrom::Elsewhere {
            why: "only some memory controllers report it",
            look: "the firmware's menu, and /sys/devices/system/edac/mc where a driver is loaded",
        },
    )
    .risk(&[Risk::Data])
    .menu(&[cisco("Select memory RAS = Maximum performance")]),
    MENU.row(
        "firmware.dram-throttling",
        "Whether the memory clock is lowered when modules get warm.",
        "A throttled memory bus stretches every cache miss.",
        base::FIRMWARE_MENU,
    )
    .menu(&[cisco("DRAM clock throttling = Performance")]),
    MENU.row(
        "firmware.memory-voltage",
        "The voltage the memory modules run at, millivolts.",
        "Low-voltage modes may come with a lower memory clock.",
        ReadFrom::Computed(dmi::memory_voltage, "/sys/firmware/dmi/entries/17-*/raw"),
    )
    .number("mV")
    .menu(&[cisco("Low-voltage DDR mode = Performance mode")])
    .docs(&["DMTF DSP0134"]),
    MENU.row(
        "firmware.dram-refresh",
        "How often memory is refreshed.",
        "A module that refreshes does not answer, so twice the rate costs bandwidth and adds waits.",
        base::FIRMWARE_MENU,
    )
    .risk(&[Risk::Data])
    .menu(&[cisco("DRAM refresh rate = 2x")])
    .today("The printed 2x works against latency and is for heat or row hammer only."),
    MENU.row(
        "firmware.channel-interleaving",
        "Whether addresses are spread over memory channels.",
        "Spread addresses use all channels at once.",
        base::FIRMWARE_MENU,
    )
    .menu(&[cisco("Channel interleaving = Auto")]),
    MENU.row(
        "firmware.rank-interleaving",
        "Whether addresses are spread over the ranks of a channel.",
        "One rank can be read while another one recovers.",
        base::FIRMWARE_MENU,
    )
    .menu(&[cisco("Rank interleaving = Auto")]),
    base::device_file(Area::Firmware)
        .row(
            "firmware.patrol-scrub",
            "Bytes a second that memory controllers check in the background, 0 for none.",
            "The checks compete with the program for the memory bus.",
            ReadFrom::Each { directory: "/sys/devices/system/edac/mc", prefix: "mc", file: "sdram_scrub_rate" },
        )
        .number("bytes/s")
        .persist(&[Persist::FirmwareMenu, Persist::SystemdUnit])
        .risk(&[Risk::Data])
        .menu(&[cisco("Patrol scrub = Disabled")])
        .docs(&["Documentation/driver-api/edac.rst"]),
    MENU.row(
        "firmware.demand-scrub",
        "Whether an error found by a read is written back corrected.",
        "It costs only where there is an error.",
        base::FIRMWARE_MENU,
    )
    .risk(&[Risk::Data])
    .menu(&[cisco("Demand scrub = Enabled")]),
    MENU.row(
        "firmware.altitude",
        "The height above the sea that the fans are set for.",
        "It decides how much air the processor gets before it lowers its clock.",
        base::FIRMWARE_MENU,
    )
    .menu(&[cisco("Altitude = 300M")]),
    MENU.row(
        "firmware.smi.power-monitoring",
        "Whether the firmware interrupts the processor to watch power and utilisation.",
        "Each such interrupt stops all CPUs for a time the kernel cannot see, eight times a second on some servers.",
        ReadFrom::Elsewhere {
            why: "the processor counts management interrupts but not their reasons",
            look: "the firmware's menu, and noise.smi-count over 10 s for the effect",
        },
    )
    .risk(&[Risk::Debugging])
    .menu(&[hp("Processor Power and Utilization Monitoring = Disabled")]),
    MENU.row(
        "firmware.smi.memory-prefailure",
        "Whether the firmware interrupts the processor to look for failing memory.",
        "Each such interrupt stops all CPUs, once a minute to once an hour by the generation of the server.",
        ReadFrom::Elsewhere {
            why: "the processor counts management interrupts but not their reasons",
            look: "the firmware's menu, and noise.smi-count over longer than the period for the effect",
        },
    )
    .risk(&[Risk::Debugging, Risk::Data])
    .menu(&[hp("Memory Pre-Failure Notification = Disabled")]),
    MENU.row(
        "firmware.smi.other",
        "Whether other management interrupts are enabled, such as those for USB keyboards and heat.",
        "Each one stops all CPUs for microseconds to milliseconds.",
        ReadFrom::Elsewhere {
            why: "the processor counts management interrupts but not their reasons",
            look: "the firmware's menu, and noise.smi-count for the effect",
        },
    )
    .risk(&[Risk::Debugging]),
    base::firmware()
        .row(
            "firmware.platform-profile",
            "The platform's own choice between speed, heat and noise.",
            "It caps the power that the processor may draw.",
            ReadFrom::File("/sys/firmware/acpi/platform_profile"),
        )
        .persist(&[Persist::TmpfilesD])
        .risk(&[Risk::Power])
        .disrupts(Disruption::None)
        .docs(&["Documentation/userspace-api/sysfs-platform_profile.rst"]),
];
