//! Services and the mode of the operating system.

use super::base;
use crate::read::{irqbalance, process, service};
use crate::setting::{Disruption, Persist, Risk, Write};
use crate::{ReadFrom, Setting};

const SERVICE: Setting = base::service();
const OWNER_WHY: &str = "Two owners of one setting undo each other's work.";

pub(super) const SETTINGS: &[Setting] = &[
    SERVICE
        .row(
            "irq.irqbalance",
            "Whether irqbalance moves interrupts.",
            "It moves them while one measures, also onto the CPUs of the program.",
            ReadFrom::Computed(process::irqbalance, "/proc/PID/comm"),
        )
        .docs(&["irqbalance(1)"])
        .today("It leaves isolated and tickless CPUs alone by itself unless its ban list is set.")
        .in_record(),
    SERVICE
        .row(
            "service.irqbalance",
            "Whether irqbalance runs and starts at boot.",
            "It moves interrupts onto the CPUs of the program.",
            ReadFrom::Service("irqbalance.service"),
        )
        .docs(&["irqbalance(1)"])
        .today("Stopping it is one way, banning the program's CPUs is the other."),
    SERVICE
        .row(
            "service.irqbalance.banned-cpus",
            "CPUs that irqbalance leaves alone: those it is told of, or else those isolated at boot or without a tick.",
            "With them left alone, irqbalance may go on for the others.",
            ReadFrom::Computed(
                irqbalance::banned_cpus,
                "IRQBALANCE_BANNED_CPULIST and IRQBALANCE_BANNED_CPUS of /etc/default/irqbalance, \
                 /etc/sysconfig/irqbalance and irqbalance.service with its drop-ins; cpu/isolated and cpu/nohz_full",
            ),
        )
        .cpus()
        .persist(&[Persist::ConfigFile("/etc/default/irqbalance or /etc/sysconfig/irqbalance")])
        .disrupts(Disruption::Restart)
        .docs(&["irqbalance(1)"])
        .today("It does not know CPUs that cpuset partitions isolate: those must be named."),
    SERVICE
        .row(
            "service.numad",
            "Whether numad runs and starts at boot.",
            "It moves programs and their memory between nodes while they run.",
            ReadFrom::Service("numad.service"),
        )
        .docs(&["numad(8)"]),
    SERVICE
        .row("service.tuned", "Whether tuned runs and starts at boot.", OWNER_WHY, ReadFrom::Service("tuned.service"))
        .docs(&["tuned(8)"])
        .today("A profile of tuned for low latency is as good as one of ours, if it is the only owner."),
    SERVICE
        .row(
            "service.tuned.profile",
            "The active profile of tuned.",
            OWNER_WHY,
            ReadFrom::File("/etc/tuned/active_profile"),
        )
        .persist(&[Persist::ConfigFile("/etc/tuned/active_profile")])
        .docs(&["tuned-adm(8)"]),
    SERVICE
        .row(
            "service.power-profiles",
            "Whether power-profiles-daemon runs and starts at boot.",
            OWNER_WHY,
            ReadFrom::Service("power-profiles-daemon.service"),
        )
        .risk(&[Risk::Power]),
    SERVICE
        .row(
            "service.thermald",
            "Whether thermald runs and starts at boot.",
            "It lowers the clock before the processor would do so itself.",
            ReadFrom::Service("thermald.service"),
        )
        .risk(&[Risk::Power])
        .docs(&["thermald(8)"]),
    SERVICE
        .row(
            "service.cpuspeed",
            "The governor that the old service cpuspeed sets.",
            "It undoes a governor that was set by hand.",
            ReadFrom::Assignment("/etc/sysconfig/cpuspeed", "GOVERNOR"),
        )
        .persist(&[Persist::ConfigFile("/etc/sysconfig/cpuspeed")])
        .risk(&[Risk::Power])
        .today("The service is gone; cpupower.service and power-profiles-daemon have its place."),
    SERVICE
        .row(
            "service.cpupower",
            "Whether cpupower sets the governor at boot.",
            OWNER_WHY,
            ReadFrom::Service("cpupower.service"),
        )
        .risk(&[Risk::Power])
        .docs(&["cpupower(1)"]),
    SERVICE
        .row(
            "service.selinux",
            "What SELinux does from the next boot.",
            "Its hooks check each use of a socket.",
            ReadFrom::Assignment("/etc/selinux/config", "SELINUX"),
        )
        .words(&["enforcing", "permissive", "disabled"])
        .write_by(Write::BootCommandLine)
        .persist(&[Persist::ConfigFile("/etc/selinux/config"), Persist::CommandLine("selinux=0")])
        .disrupts(Disruption::Reboot)
        .risk(&[Risk::Security])
        .docs(&["selinux(8)"])
        .today(
            "Current kernels no longer let the file switch it off, so that disabled leaves it loaded without a policy.",
        ),
    SERVICE
        .row(
            "service.selinux.enforcing",
            "Whether SELinux enforces its policy now.",
            "The checks are made either way, so that permissive saves nothing.",
            ReadFrom::File("/sys/fs/selinux/enforce"),
        )
        .switch()
        .risk(&[Risk::Security])
        .docs(&["selinux(8)"]),
    SERVICE
        .row(
            "service.display-manager",
            "Whether a display manager is installed and runs.",
            "It starts the desktop, which the target graphical.target alone does not.",
            ReadFrom::Service("display-manager.service"),
        )
        .docs(&["systemd.special(7)"]),
    SERVICE
        .row(
            "service.default-target",
            "The target the host boots to.",
            "A desktop brings dozens of programs that wake up by themselves.",
            ReadFrom::Computed(service::default_target, "default.target"),
        )
        .disrupts(Disruption::Reboot)
        .today("Runlevel 3 of /etc/inittab is multi-user.target of systemd."),
    SERVICE
        .row(
            "service.fwupd-refresh",
            "Whether the search for firmware updates is scheduled.",
            "Its scan raises management interrupts.",
            ReadFrom::Service("fwupd-refresh.timer"),
        )
        .docs(&["fwupdmgr(1)"]),
    SERVICE
        .row(
            "service.audit",
            "Whether the audit daemon runs and starts at boot.",
            "It loads rules that send each system call the slow way.",
            ReadFrom::Service("auditd.service"),
        )
        .risk(&[Risk::Security])
        .docs(&["auditd(8)"]),
    SERVICE
        .row(
            "service.cpu-affinity",
            "CPUs that systemd gives to everything it starts.",
            "It keeps services off the CPUs of the program.",
            ReadFrom::Assignment("/etc/systemd/system.conf", "CPUAffinity"),
        )
        .cpus()
        .persist(&[Persist::ConfigFile("/etc/systemd/system.conf")])
        .disrupts(Disruption::Reboot)
        .docs(&["systemd-system.conf(5)"]),
    SERVICE
        .row(
            "service.selinux.cache-size",
            "Decisions of SELinux that are kept.",
            "With many labels a decision that was dropped is computed again.",
            ReadFrom::File("/sys/fs/selinux/avc/cache_threshold"),
        )
        .number("")
        .write_by(Write::File)
        .persist(&[Persist::TmpfilesD])
        .docs(&["selinux(8)"]),
];
