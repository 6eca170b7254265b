//! Whether a driver has zero-copy, without asking it twice: an attempt to bind resets the queue, on many drivers the link.
//!
//! Since Linux 6.3 the kernel says so (`NETDEV_A_DEV_XDP_FEATURES`) and no driver is touched. On older ones a socket is bound once, and
//! the outcome stays in a file below [`MEMORY`] for the interface, its driver and this boot. A file that cannot be written is
//! done without.
//!
//! Source: `Documentation/netlink/specs/netdev.yaml`, `net/xdp/xsk_buff_pool.c` (`xp_assign_dev`).

use std::fs;
use std::path::PathBuf;

use nearwire_sys::netdev::{XdpFeatures, xdp_features};

use crate::interface::InterfaceFacts;

/// Where outcomes are kept until the next boot.
const MEMORY: &str = "/run/nearwire/zero-copy";
/// Kinds of interface without device memory.
const WITHOUT: [&str; 5] = ["veth", "dummy", "bridge", "tun", "loopback"];

/// Whether it is worth trying. `binds` binds a socket and closes it again.
pub(super) fn may_have(facts: &InterfaceFacts, binds: impl FnOnce(&InterfaceFacts) -> bool) -> bool {
    if WITHOUT.contains(&facts.driver.as_str()) {
        return false;
    }
    if let Some(known) = remembered(facts) {
        return known;
    }
    match xdp_features(facts.ifindex) {
        Ok(features) => features.contains(XdpFeatures::XSK_ZEROCOPY),
        // With a program there the probe would fail for that.
        Err(_) if facts.program.is_some() => false,
        Err(_) => {
            let binds = binds(facts);
            remember(facts, binds);
            binds
        }
    }
}

/// Keeps what an attempt came to, so that it is not made again in this boot.
pub(super) fn remember(facts: &InterfaceFacts, has_it: bool) {
    let Some(path) = file_of(facts) else { return };
    // Nobody reads what was not written: then the next one finds out by itself.
    let _ = path.parent().map(fs::create_dir_all);
    let _ = fs::write(path, if has_it { "yes\n" } else { "no\n" });
}

fn remembered(facts: &InterfaceFacts) -> Option<bool> {
    match fs::read_to_string(file_of(facts)?).ok()?.trim() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// One name for a driver on an interface in a boot. An index means another interface in another namespace, and with the hardware
/// address it is the same device.
fn file_of(facts: &InterfaceFacts) -> Option<PathBuf> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let mac: String = facts.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let driver: String = facts.driver.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    Some(PathBuf::from(MEMORY).join(format!("{}-{}-{mac}-{driver}", boot.trim(), facts.ifindex)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(driver: &str) -> InterfaceFacts {
        InterfaceFacts { driver: driver.to_owned(), ifindex: 0x7fff_fff0, ..InterfaceFacts::read("lo").unwrap() }
    }

    #[test]
    fn outcome_of_an_attempt_is_remembered_for_driver_and_interface() {
        let facts = facts("nw/test");
        let Some(path) = file_of(&facts) else { return };
        remember(&facts, false);
        if !path.exists() {
            println!("SKIP {MEMORY} cannot be written");
            return;
        }
        assert_eq!(remembered(&facts), Some(false));
        assert_eq!(remembered(&InterfaceFacts { driver: "other".to_owned(), ..facts.clone() }), None);
        let asked_again = |_: &InterfaceFacts| panic!("the driver is asked again");
        assert!(!may_have(&facts, asked_again));
        remember(&facts, true);
        assert!(may_have(&facts, asked_again));
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn interfaces_without_device_memory_are_never_probed() {
        assert!(!may_have(&facts("veth"), |_| panic!("it is probed")));
    }
}
