//! Whether and in what this host is a guest, and the guests it has. Only maker and product are
//! read, never serial numbers.

use super::base;
use crate::read::virtualisation;
use crate::setting::{Persist, Risk};
use crate::{Area, ReadFrom, Setting};

const FACT: Setting = base::fact(Area::Virtualisation).docs(&["Documentation/virt/index.rst"]);
const GUEST: Setting = base::guest();
const OVS: Setting = base::open_vswitch();
const KVM: Setting = base::file(Area::Virtualisation)
    .persist(&[Persist::ModprobeD("options kvm OPTION=VALUE"), Persist::TmpfilesD])
    .docs(&["Documentation/virt/kvm/halt-polling.rst"]);

/// What the definition of a guest says.
const DEFINITION: ReadFrom = ReadFrom::Elsewhere {
    why: "it belongs to one guest, which has to be named",
    look: "virsh dumpxml GUEST, and Cpus_allowed_list of the threads of QEMU for the effect",
};
/// What the guest itself must be asked.
const IN_GUEST: ReadFrom =
    ReadFrom::Elsewhere { why: "it is a matter of the guest", look: "nearwire settings inside the guest" };
/// What the database of Open vSwitch says.
const DATABASE: ReadFrom = ReadFrom::Elsewhere {
    why: "it is kept in the database of Open vSwitch",
    look: "ovs-vsctl get Open_vSwitch . other_config",
};

pub(super) const SETTINGS: &[Setting] = &[
    FACT.row(
        "virtualisation.hypervisor-flag",
        "Whether the host is a guest, by the processor, the firmware or the device tree.",
        "A guest's CPU can be taken away at any moment, and its interrupts take longer.",
        ReadFrom::Computed(
            virtualisation::is_guest,
            "flag `hypervisor` of /proc/cpuinfo, /sys/class/dmi/id, /proc/device-tree, /proc/sysinfo",
        ),
    )
    .switch()
    .in_record(),
    FACT.row(
        "virtualisation.maker",
        "The maker of the machine, real or virtual.",
        "It says which cloud or server the figures are of.",
        ReadFrom::File("/sys/class/dmi/id/sys_vendor"),
    )
    .in_record(),
    FACT.row(
        "virtualisation.product",
        "The product name of the machine, real or virtual.",
        "It says which kind of instance or server the figures are of.",
        ReadFrom::File("/sys/class/dmi/id/product_name"),
    )
    .in_record(),
    FACT.row(
        "virtualisation.hypervisor",
        "The kind of hypervisor, where the kernel names it.",
        "Hypervisors differ in the cost of an interrupt.",
        ReadFrom::File("/sys/hypervisor/type"),
    )
    .in_record(),
    GUEST
        .row(
            "virtualisation.vcpu-pinning",
            "Whether each virtual CPU is bound to one CPU of its own.",
            "A virtual CPU that moves or waits stops the whole guest.",
            DEFINITION,
        )
        .cpus()
        .docs(&["virsh(1)"]),
    GUEST
        .row(
            "virtualisation.emulator-pinning",
            "CPUs that the emulator's own threads run on.",
            "They take time from a virtual CPU on the same CPU.",
            DEFINITION,
        )
        .cpus()
        .docs(&["virsh(1)"]),
    GUEST
        .row(
            "virtualisation.huge-pages",
            "Whether the guest's memory is in huge pages.",
            "Each address of a guest is translated twice, so that misses cost double.",
            DEFINITION,
        )
        .switch()
        .risk(&[Risk::Memory])
        .docs(&["virsh(1)"]),
    GUEST
        .row(
            "virtualisation.guest-size",
            "Virtual CPUs, memory and interfaces of the guest.",
            "Figures of different guests cannot be compared.",
            DEFINITION,
        )
        .docs(&["virsh(1)"]),
    base::service()
        .row(
            "virtualisation.guest-irqbalance",
            "Whether irqbalance runs in the guest.",
            "It moves interrupts onto the virtual CPUs that process packets.",
            IN_GUEST,
        )
        .in_area(Area::Virtualisation),
    base::application(Area::Virtualisation)
        .row(
            "virtualisation.guest-pinning",
            "Virtual CPUs that the program in the guest runs on.",
            "The first virtual CPU has the guest's own interrupts.",
            IN_GUEST,
        )
        .cpus(),
    base::application(Area::Virtualisation)
        .row(
            "virtualisation.memory-channels",
            "The number of memory channels that DPDK is told.",
            "It spreads its buffers over the channels by that number.",
            ReadFrom::Elsewhere {
                why: "it is an argument of the program",
                look: "-n in /proc/PID/cmdline, against the filled channels in hardware.memory-speed",
            },
        )
        .number(""),
    base::application(Area::Virtualisation)
        .row(
            "virtualisation.relay-cpus",
            "CPUs of the relay that hands frames between device and guests.",
            "A relay thread that shares its CPU delays every guest behind it.",
            ReadFrom::Elsewhere {
                why: "it is an argument of the program",
                look: "--cpus and --virtio-cpu in /proc/PID/cmdline of the relay",
            },
        )
        .cpus(),
    OVS.row(
        "ovs.hardware-offload",
        "Whether flows of Open vSwitch are handled by the device.",
        "A flow in the device does not pass the host's CPUs.",
        DATABASE,
    )
    .switch(),
    OVS.row(
        "ovs.pmd-cpus",
        "CPUs that the polling threads of Open vSwitch run on.",
        "A polling thread takes a whole CPU, which no guest may share.",
        DATABASE,
    )
    .cpus(),
    base::application(Area::Virtualisation)
        .row(
            "ovs.wire-mode",
            "Whether the device connects two ports directly.",
            "It shows the device's own delay without any host.",
            ReadFrom::Elsewhere {
                why: "only the vendor's own tool knows it",
                look: "/opt/netronome/bin/ovs-ctl status wire",
            },
        )
        .switch()
        .risk(&[Risk::Network]),
    KVM.row(
        "kvm.halt-poll-ns",
        "Nanoseconds the host spins before it lets an idle virtual CPU sleep.",
        "A guest that waits for a packet wakes up sooner, and the CPU is taken from others.",
        ReadFrom::ModuleParameter("kvm", "halt_poll_ns"),
    )
    .number("ns")
    .risk(&[Risk::Power]),
    KVM.row(
        "kvm.nx-huge-pages",
        "Whether the host splits huge pages of guests that hold code.",
        "Split pages need more translations.",
        ReadFrom::ModuleParameter("kvm", "nx_huge_pages"),
    )
    .risk(&[Risk::Security])
    .docs(&["Documentation/admin-guide/hw-vuln/multihit.rst"]),
    KVM.row(
        "kvm.periodic-clock-sync",
        "Whether the host corrects the guests' clocks every few minutes.",
        "The correction interrupts all virtual CPUs.",
        ReadFrom::ModuleParameter("kvm", "kvmclock_periodic_sync"),
    )
    .switch()
    .docs(&["Documentation/admin-guide/kernel-parameters.txt"]),
    KVM.row(
        "kvm.guest-halt-poll-ns",
        "Nanoseconds a guest spins before it halts, at most.",
        "A guest that halts pays for a switch to the host and back.",
        ReadFrom::ModuleParameter("haltpoll", "guest_halt_poll_ns"),
    )
    .number("ns")
    .risk(&[Risk::Power])
    .docs(&["Documentation/virt/guest-halt-polling.rst"]),
    KVM.row(
        "kvm.pause-loop-gap",
        "How close spins of a virtual CPU must be to count as waiting for a lock.",
        "A virtual CPU found waiting is made to give way, which a program that spins is not meant to do.",
        ReadFrom::ModuleParameter("kvm_intel", "ple_gap"),
    )
    .number("cycles")
    .persist(&[Persist::ModprobeD("options kvm_intel ple_gap=0")])
    .docs(&["Intel SDM volume 3"]),
    KVM.row(
        "kvm.vhost-zero-copy",
        "Whether frames of guests are sent without a copy.",
        "A frame sent so keeps the guest's buffer until the device has it.",
        ReadFrom::ModuleParameter("vhost_net", "experimental_zcopytx"),
    )
    .switch()
    .persist(&[Persist::ModprobeD("options vhost_net experimental_zcopytx=0")]),
];
