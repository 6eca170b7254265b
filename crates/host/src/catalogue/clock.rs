//! Clocks.

use crate::{Area, ReadFrom, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        id: "clock.clocksource",
        area: Area::Clock,
        what: "The counter the kernel reads the time from.",
        read: ReadFrom::File("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    },
    Setting {
        id: "clock.clocksource.available",
        area: Area::Clock,
        what: "The counters the kernel could read the time from.",
        read: ReadFrom::File("/sys/devices/system/clocksource/clocksource0/available_clocksource"),
    },
    Setting {
        id: "clock.constant_tsc",
        area: Area::Clock,
        what: "Whether the time stamp counter ignores frequency changes.",
        read: ReadFrom::CpuFlag("constant_tsc"),
    },
    Setting {
        id: "clock.nonstop_tsc",
        area: Area::Clock,
        what: "Whether the time stamp counter runs in deep idle states.",
        read: ReadFrom::CpuFlag("nonstop_tsc"),
    },
    Setting {
        id: "clock.tsc_known_freq",
        area: Area::Clock,
        what: "Whether the frequency of the time stamp counter is given and not measured.",
        read: ReadFrom::CpuFlag("tsc_known_freq"),
    },
    Setting {
        id: "clock.tsc_reliable",
        area: Area::Clock,
        what: "Whether the kernel trusts the time stamp counter without watching it.",
        read: ReadFrom::CpuFlag("tsc_reliable"),
    },
    Setting {
        id: "clock.rdtscp",
        area: Area::Clock,
        what: "Whether the ordered read of the time stamp counter exists.",
        read: ReadFrom::CpuFlag("rdtscp"),
    },
];
