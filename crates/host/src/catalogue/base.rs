//! What the rows of a class have in common: how they are written, what keeps them, what a change
//! interrupts. A table says here once what its rows would repeat.

use crate::setting::{Disruption, NicWrite, Persist, Risk, Value, Write};
use crate::{Area, ReadFrom, Setting};

const fn base(area: Area, write: Write, persist: &'static [Persist], disrupts: Disruption) -> Setting {
    Setting {
        id: "",
        area,
        what: "",
        why: "",
        read: ReadFrom::File(""),
        value: Value::Text,
        write,
        persist,
        risk: &[],
        disrupts,
        menu: &[],
        today: None,
        docs: &[],
        in_record: false,
        nic: NicWrite::NONE,
    }
}

/// Nothing writes it.
pub(super) const fn fact(area: Area) -> Setting {
    base(area, Write::Fact, &[], Disruption::None)
}

/// A file of sysfs, procfs or debugfs.
pub(super) const fn file(area: Area) -> Setting {
    base(area, Write::File, &[Persist::TmpfilesD, Persist::SystemdUnit], Disruption::None)
}

/// A file of a device that can come and go.
pub(super) const fn device_file(area: Area) -> Setting {
    base(area, Write::File, &[Persist::UdevRule, Persist::SystemdUnit], Disruption::None)
}

/// A kernel parameter.
pub(super) const fn sysctl(docs: &'static [&'static str]) -> Setting {
    base(Area::Sysctl, Write::Sysctl, &[Persist::SysctlD], Disruption::None).docs(docs)
}

/// A message of ethtool that leaves the link up.
pub(super) const fn ethtool() -> Setting {
    base(Area::Nic, Write::Ethtool, &[Persist::UdevRule, Persist::SystemdUnit], Disruption::None)
        .docs(&["Documentation/networking/ethtool-netlink.rst"])
}

/// A message of ethtool that many drivers answer with a reset.
pub(super) const fn ethtool_with_reset() -> Setting {
    ethtool().disrupts(Disruption::LinkReset).risk(&[Risk::Network])
}

/// The affinity of interrupts.
pub(super) const fn irq(area: Area) -> Setting {
    base(area, Write::Irq, &[Persist::SystemdUnit], Disruption::None)
        .docs(&["Documentation/core-api/irq/irq-affinity.rst"])
}

/// An option of a kernel module that drives a NIC.
pub(super) const fn nic_module(area: Area) -> Setting {
    base(area, Write::Module, &[], Disruption::LinkReset).risk(&[Risk::Network]).docs(&["modprobe.d(5)"])
}

/// A service.
pub(super) const fn service() -> Setting {
    base(Area::Service, Write::Service, &[Persist::ServiceEnablement], Disruption::None).docs(&["systemd.unit(5)"])
}

/// An option on the kernel's command line.
pub(super) const fn boot() -> Setting {
    base(Area::Boot, Write::BootCommandLine, &[], Disruption::Reboot)
        .docs(&["Documentation/admin-guide/kernel-parameters.txt"])
}

/// An option the kernel was built with.
pub(super) const fn kernel_build() -> Setting {
    base(Area::Kernel, Write::KernelBuild, &[Persist::KernelBuild], Disruption::Reboot)
        .words(&["y", "m", "not set"])
        .docs(&["Documentation/kbuild/kconfig.rst"])
}

/// An entry of the firmware's menu.
pub(super) const fn firmware() -> Setting {
    base(Area::Firmware, Write::Firmware, &[Persist::FirmwareMenu], Disruption::FirmwareSetup)
}

/// Something to plug, buy or cable otherwise.
pub(super) const fn hardware(area: Area) -> Setting {
    base(area, Write::Hardware, &[], Disruption::Hands)
}

/// A control group.
pub(super) const fn cgroup(area: Area) -> Setting {
    base(area, Write::Cgroup, &[Persist::SystemdUnit], Disruption::None)
        .docs(&["Documentation/admin-guide/cgroup-v2.rst"])
}

/// An option or the placement of the program.
pub(super) const fn application(area: Area) -> Setting {
    base(area, Write::Application, &[Persist::ApplicationStart], Disruption::Restart)
}

/// A limit of a process.
pub(super) const fn limit(area: Area, persist: &'static [Persist]) -> Setting {
    base(area, Write::Limit, persist, Disruption::Restart).docs(&["getrlimit(2)"])
}

/// A message of the netdev family for one NAPI instance.
pub(super) const fn napi() -> Setting {
    base(Area::Nic, Write::Napi, &[Persist::SystemdUnit], Disruption::None).docs(&["Documentation/networking/napi.rst"])
}

/// A request held open by a process.
pub(super) const fn pm_qos(area: Area) -> Setting {
    base(area, Write::PmQos, &[Persist::SystemdUnit], Disruption::None)
        .risk(&[Risk::Power])
        .docs(&["Documentation/power/pm_qos_interface.rst"])
}

/// The definition of a guest.
pub(super) const fn guest() -> Setting {
    base(Area::Virtualisation, Write::Guest, &[Persist::GuestDefinition], Disruption::Restart)
}

/// The database of Open vSwitch.
pub(super) const fn open_vswitch() -> Setting {
    base(Area::Virtualisation, Write::OpenVswitch, &[Persist::OpenVswitchDatabase], Disruption::Restart)
        .docs(&["ovs-vswitchd.conf.db(5)"])
}

/// The switch between the hosts.
pub(super) const fn switch() -> Setting {
    base(Area::Switch, Write::OtherDevice, &[Persist::DeviceConfiguration], Disruption::Hands).risk(&[Risk::Network])
}

/// What only the firmware's menu shows.
pub(super) const FIRMWARE_MENU: ReadFrom = ReadFrom::Elsewhere {
    why: "the firmware does not tell the kernel",
    look: "the firmware's menu, or Redfish /redfish/v1/Systems/ID/Bios on the management controller",
};

/// What only the program knows.
pub(super) const PROGRAM: ReadFrom = ReadFrom::Elsewhere {
    why: "the kernel does not show it from outside the program",
    look: "the program's source or configuration",
};
