//! What no built-in profile may want, since it does harm or no host can meet it.

use crate::profile::*;

/// The profiles that give advice of today.
fn advising() -> impl Iterator<Item = Profile> {
    names().filter(|name| !name.starts_with("as-printed/")).map(|name| Profile::load(name).unwrap())
}

fn wishes<'a>(profile: &'a Profile, id: &'a str) -> impl Iterator<Item = &'a Wish> {
    profile.wishes.iter().filter(move |wish| wish.setting.id == id)
}

fn may_have(condition: &Condition, driver: &str) -> bool {
    match condition {
        Condition::Driver(names) => names.iter().any(|name| name == driver),
        Condition::Not(condition) => !may_have(condition, driver),
        _ => true,
    }
}

#[test]
fn profile_that_switches_the_adaptive_delay_off_wants_a_delay_of_every_driver() {
    const ADAPTIVE: [&str; 10] =
        ["i40e", "ice", "iavf", "idpf", "mlx4_en", "mlx5_core", "sfc", "bnxt_en", "ena", "vmxnet3"];
    let is_off = |wish: &Wish| wish.wanted == Wanted::Equal("off".to_owned());
    for profile in advising().filter(|profile| wishes(profile, "nic.coalesce.adaptive-rx").any(is_off)) {
        for driver in ADAPTIVE {
            let delays = wishes(&profile, "nic.coalesce.rx-usecs");
            let counts = delays.filter(|wish| wish.when.iter().all(|condition| may_have(condition, driver)));
            assert_eq!(counts.count(), 1, "{} {driver}", profile.name);
        }
    }
}

#[test]
fn no_profile_makes_every_socket_of_the_host_spin() {
    for profile in advising() {
        for id in ["net.core.busy_read", "net.core.busy_poll"] {
            let spins = |wish: &Wish| matches!(wish.wanted, Wanted::AtLeast(_));
            assert!(!wishes(&profile, id).any(spins), "{} {id}", profile.name);
        }
    }
    let busy_poll = Profile::load("busy-poll").unwrap();
    let said: Vec<_> =
        busy_poll.left_out.iter().filter(|advice| advice.setting.id.starts_with("net.core.busy_")).collect();
    assert_eq!(said.len(), 2);
    assert!(said.iter().all(|advice| advice.reason.contains("SO_BUSY_POLL") || advice.reason.contains("EPIOCSPARAMS")));
}

#[test]
fn no_profile_writes_huge_pages_for_everybody() {
    for profile in advising() {
        for wish in wishes(&profile, "memory.thp") {
            assert_ne!(crate::goal::value(wish.setting, &wish.wanted).as_deref(), Some("always"), "{}", profile.name);
        }
    }
}

#[test]
fn no_profile_wants_a_guest_to_be_none_or_a_switch_to_have_a_mode_of_one_make() {
    for profile in advising() {
        for id in ["virtualisation.hypervisor-flag", "switch.warp-mode"] {
            assert_eq!(wishes(&profile, id).count(), 0, "{} {id}", profile.name);
        }
    }
}

#[test]
fn computation_on_all_cores_is_not_told_to_isolate_them() {
    let mpi = Profile::load("mpi").unwrap();
    for id in ["cpu.isolated", "cpu.nohz_full", "kernel.config.no-hz-full"] {
        assert_eq!(wishes(&mpi, id).count(), 0, "{id}");
    }
}

#[test]
fn no_profile_judges_the_lock_limit_of_nearwire_itself_in_place_of_the_programs() {
    for profile in advising() {
        assert_eq!(wishes(&profile, "memory.lock-limit-bytes").count(), 0, "{}", profile.name);
    }
    for name in ["mpi", "socket-bypass"] {
        let profile = Profile::load(name).unwrap();
        assert_eq!(wishes(&profile, "app.memory-lock-limit-bytes").count(), 1, "{name}");
    }
}

#[test]
fn link_is_wanted_as_good_as_device_and_slot_together() {
    for profile in advising() {
        for (id, limit) in
            [("nic.pcie.speed", "nic.pcie.speed-possible"), ("nic.pcie.width", "nic.pcie.width-possible")]
        {
            for wish in wishes(&profile, id) {
                assert_eq!(wish.wanted.limit_setting().map(|setting| setting.id), Some(limit), "{}", profile.name);
            }
        }
    }
}

#[test]
fn receiver_of_multicast_may_ask_for_a_buffer_of_its_burst() {
    let latency = Profile::load("latency").unwrap();
    assert!(wishes(&latency, "net.core.rmem_max").any(|wish| wish.wanted == Wanted::AtLeast("16777216".to_owned())));
    assert!(latency.left_out.iter().any(|advice| advice.setting.id == "net.core.rmem_default"));
}
