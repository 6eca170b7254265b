//! Clocks.

use super::base;
use crate::setting::{Persist, Risk};
use crate::{Area, ReadFrom, Setting};

const FLAG: Setting = base::fact(Area::Clock).switch().docs(&["Documentation/virt/kvm/x86/timekeeping.rst"]);

pub(super) const SETTINGS: &[Setting] = &[
    base::file(Area::Clock)
        .row(
            "clock.clocksource",
            "The counter the kernel reads the time from.",
            "Reading the time from anything but the processor's counter takes a microsecond or more.",
            ReadFrom::File("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        )
        .persist(&[Persist::CommandLine("clocksource=tsc"), Persist::TmpfilesD])
        .risk(&[Risk::Debugging])
        .docs(&["kernel/time/clocksource.c"])
        .in_record(),
    base::fact(Area::Clock)
        .row(
            "clock.clocksource.available",
            "The counters the kernel could read the time from.",
            "A time stamp counter that is missing here was found unstable.",
            ReadFrom::File("/sys/devices/system/clocksource/clocksource0/available_clocksource"),
        )
        .docs(&["kernel/time/clocksource.c"])
        .in_record(),
    FLAG.row(
        "clock.constant_tsc",
        "Whether the time stamp counter ignores frequency changes.",
        "Otherwise its ticks are not a time.",
        ReadFrom::CpuFlag("constant_tsc"),
    )
    .in_record(),
    FLAG.row(
        "clock.nonstop_tsc",
        "Whether the time stamp counter runs in deep idle states.",
        "Otherwise the kernel does not use it as a clock.",
        ReadFrom::CpuFlag("nonstop_tsc"),
    )
    .in_record(),
    FLAG.row(
        "clock.tsc_known_freq",
        "Whether the frequency of the time stamp counter is given and not measured.",
        "A measured frequency is off by some parts in a million.",
        ReadFrom::CpuFlag("tsc_known_freq"),
    )
    .in_record(),
    FLAG.row(
        "clock.tsc_reliable",
        "Whether the kernel trusts the time stamp counter without watching it.",
        "A watched counter costs an interrupt twice a second.",
        ReadFrom::CpuFlag("tsc_reliable"),
    )
    .in_record(),
    FLAG.row(
        "clock.rdtscp",
        "Whether the ordered read of the time stamp counter exists.",
        "Without it a read needs a fence before it.",
        ReadFrom::CpuFlag("rdtscp"),
    )
    .in_record(),
    FLAG.row(
        "clock.tsc_adjust",
        "Whether the kernel can see that firmware changed a time stamp counter.",
        "With it the kernel need not watch the counter of small hosts.",
        ReadFrom::CpuFlag("tsc_adjust"),
    ),
    base::service()
        .in_area(Area::Clock)
        .row(
            "clock.chrony",
            "Whether chrony disciplines the clock.",
            "A step of the clock in the middle of a run spoils time stamps that two hosts compare.",
            ReadFrom::Service("chrony.service"),
        )
        .docs(&["chronyd(8)"]),
    base::service()
        .in_area(Area::Clock)
        .row(
            "clock.timesyncd",
            "Whether systemd-timesyncd disciplines the clock.",
            "A step of the clock in the middle of a run spoils time stamps that two hosts compare.",
            ReadFrom::Service("systemd-timesyncd.service"),
        )
        .docs(&["systemd-timesyncd.service(8)"]),
    base::fact(Area::Clock)
        .row(
            "clock.hardware-clocks",
            "The hardware clocks that network and other devices offer.",
            "They stamp frames at the wire, so that the host's part can be told from the network's.",
            ReadFrom::Names("/sys/class/ptp"),
        )
        .docs(&["Documentation/driver-api/ptp.rst"]),
];
