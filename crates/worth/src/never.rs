//! What is never switched while something is measured, and why: one list for `nearwire tune measure` and `nearwire bench --vary`.

use nearwire_host::{Disruption, ReadFrom, Risk, Setting};

const OFFLINE: &str = "it takes CPUs offline that the paths may run on";
const CABLE: &str = "it can interrupt the cable that is measured";
const CLOCK: &str = "the clock would run on its own, and jump when it is corrected again: programs and other hosts, such as those \
                     that follow it by PTP, go by it";
const OWNER: &str = "it writes other settings when it starts and stops, which nobody would put back";

/// Settings, each with why.
const SETTINGS: &[(&str, &str)] = &[
    ("cpu.smt", OFFLINE),
    ("cpu.isolated", "it takes CPUs away that the paths may run on"),
    ("cpu.isolated.cgroup", "it takes CPUs away that the paths may run on"),
    ("nic.vfs", "it makes interfaces anew"),
    ("nic.bypass-only", "it takes the interface away from the kernel"),
    // On these hangs whether messages pass at all, though none of them resets the link.
    ("nic.mtu", CABLE),
    ("nic.offload.loopback", CABLE),
    ("nic.local-loopback", CABLE),
    ("nic.offload.rx-fcs", CABLE),
    ("nic.ipoib-mode", CABLE),
];

/// Units that a host cannot lose for a moment, by the names of all distributions, each kind with why.
const UNITS: &[(&[&str], &str)] = &[
    (
        &[
            "NetworkManager.service",
            "systemd-networkd.service",
            "systemd-resolved.service",
            "networking.service",
            "network.service",
            "wicked.service",
            "wickedd.service",
            "dhcpcd.service",
            "dhclient.service",
            "wpa_supplicant.service",
            "openvswitch.service",
            "openvswitch-switch.service",
            "ovs-vswitchd.service",
        ],
        "it manages the network, and with it the host could be lost",
    ),
    (
        &["ssh.service", "sshd.service", "ssh.socket", "sshd.socket"],
        "nobody could log in meanwhile, nor ever if it did not start again",
    ),
    (
        &["dbus.service", "dbus.socket", "dbus-broker.service", "systemd-logind.service", "systemd-udevd.service"],
        "other services and the sessions of users need it, and fail without it",
    ),
    (
        &["systemd-journald.service", "rsyslog.service", "syslog-ng.service", "auditd.service"],
        "what is logged meanwhile would be lost",
    ),
    (&["display-manager.service"], "it would end the sessions at the screen, this one perhaps among them"),
    (
        &[
            "chrony.service",
            "chronyd.service",
            "ntp.service",
            "ntpd.service",
            "ntpsec.service",
            "systemd-timesyncd.service",
            "ptp4l.service",
            "phc2sys.service",
            "timemaster.service",
        ],
        CLOCK,
    ),
    (&["tuned.service", "power-profiles-daemon.service", "cpupower.service"], OWNER),
];

/// Why a setting is never switched, whatever the host says.
#[must_use]
pub fn why_never(setting: &Setting) -> Option<&'static str> {
    if setting.risk.contains(&Risk::Security) {
        return Some("it lowers security");
    }
    let named = SETTINGS.iter().find(|(id, _)| *id == setting.id).map(|(_, why)| *why);
    named.or_else(|| match setting.read {
        ReadFrom::Service(unit) => UNITS.iter().find(|(units, _)| units.contains(&unit)).map(|(_, why)| *why),
        _ => None,
    })
}

/// Why a setting is not switched where a link that is reset stays away too long, or takes a connection with it.
#[must_use]
pub fn why_no_reset(setting: &Setting) -> Option<&'static str> {
    (setting.disrupts == Disruption::LinkReset)
        .then_some("it resets the link, which would interrupt the cable that is measured")
}

#[cfg(test)]
mod tests {
    use nearwire_host::{Write, catalogue};

    use super::*;

    #[test]
    fn service_is_switched_only_where_the_host_gets_by_without_it() {
        let services = catalogue::settings().filter_map(|setting| match (setting.write, setting.read) {
            (Write::Service, ReadFrom::Service(unit)) => Some((unit, why_never(setting))),
            _ => None,
        });
        let switched: Vec<_> = services.filter(|(_, why)| why.is_none()).map(|(unit, _)| unit).collect();
        let known =
            ["irqbalance.service", "numad.service", "thermald.service", "fwupd-refresh.timer", "stalld.service"];
        let more: Vec<_> = switched.iter().filter(|unit| !known.contains(unit)).collect();
        assert!(more.is_empty(), "whether a host gets by without {more:?} is to be decided in UNITS");
        assert_eq!(switched.len(), known.len());
    }

    #[test]
    fn every_name_in_the_list_of_settings_is_one_of_the_catalogue() {
        for (id, _) in SETTINGS {
            assert!(catalogue::setting(id).is_some(), "{id}");
        }
    }
}
