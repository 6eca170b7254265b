//! What five papers print about settings of a host: each check they name, who says what where,
//! and the setting that stands for it here. Several checks may be one setting.

mod firmware;
mod nic;
mod rest;
mod system;

/// A paper whose advice the catalogue covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Paper {
    /// Cisco (Exablaze): Nexus `SmartNIC` (`ExaNIC`) benchmarking guide, 2020.
    ExaNic,
    /// Netronome, Open-NFP: `SmartNIC` benchmarking and tuning, 2017.
    Netronome,
    /// Benchmark of a Mellanox `ConnectX-3` Pro with VMA, 2016.
    Vma,
    /// Cisco usNIC Performance white paper, 2014.
    UsNic,
    /// Intel: Open Source Kernel Enhancements for Low Latency Sockets using Busy Poll, 2013.
    BusyPoll,
}

impl Paper {
    /// Author, title and year.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::ExaNic => "Cisco (Exablaze), Nexus SmartNIC benchmarking guide, 2020",
            Self::Netronome => "Netronome (Open-NFP), SmartNIC benchmarking, 2017",
            Self::Vma => "ConnectX-3 Pro VMA benchmark, 2016",
            Self::UsNic => "Cisco, usNIC performance, 2014",
            Self::BusyPoll => "Intel, Low Latency Sockets using Busy Poll, 2013",
        }
    }
}

/// What one paper says about a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// The paper.
    pub paper: Paper,
    /// Section or slide.
    pub place: &'static str,
    /// The value it advises or shows.
    pub value: &'static str,
}

/// A check as the papers print it.
#[derive(Clone, Copy, Debug)]
pub struct Printed {
    /// Its key, unique in all groups.
    pub key: &'static str,
    /// The printed name.
    pub words: &'static str,
    /// The setting that stands for it.
    pub id: &'static str,
    /// Who says what.
    pub says: &'static [Said],
}

/// The checks of one part of a host.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The part.
    pub name: &'static str,
    /// Its checks.
    pub checks: &'static [Printed],
}

/// Every check that the papers name.
pub const PRINTED: [Group; 11] = [
    Group { name: "firmware, processor and hardware", checks: firmware::CHECKS },
    Group { name: "kernel build", checks: system::KERNEL_BUILD },
    Group { name: "kernel command line", checks: system::COMMAND_LINE },
    Group { name: "sysctl and memory", checks: system::SYSCTL },
    Group { name: "network interface", checks: nic::CHECKS },
    Group { name: "services", checks: rest::SERVICES },
    Group { name: "placement", checks: rest::PLACEMENT },
    Group { name: "virtualisation", checks: rest::VIRTUALISATION },
    Group { name: "RDMA modules", checks: rest::RDMA },
    Group { name: "switch", checks: rest::SWITCH },
    Group { name: "application and measurement", checks: rest::APPLICATION },
];

/// The checks that a setting stands for.
pub fn printed(id: &str) -> impl Iterator<Item = &'static Printed> + '_ {
    PRINTED.into_iter().flat_map(|group| group.checks).filter(move |check| check.id == id)
}

/// What papers say about a setting.
pub fn said(id: &str) -> impl Iterator<Item = &'static Said> + '_ {
    printed(id).flat_map(|check| check.says)
}

const fn check(key: &'static str, words: &'static str, id: &'static str, says: &'static [Said]) -> Printed {
    Printed { key, words, id, says }
}

const fn exanic(place: &'static str, value: &'static str) -> Said {
    Said { paper: Paper::ExaNic, place, value }
}

const fn netronome(place: &'static str, value: &'static str) -> Said {
    Said { paper: Paper::Netronome, place, value }
}

const fn vma(place: &'static str, value: &'static str) -> Said {
    Said { paper: Paper::Vma, place, value }
}

const fn usnic(place: &'static str, value: &'static str) -> Said {
    Said { paper: Paper::UsNic, place, value }
}

const fn busy_poll(place: &'static str, value: &'static str) -> Said {
    Said { paper: Paper::BusyPoll, place, value }
}
