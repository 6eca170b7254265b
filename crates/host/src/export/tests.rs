//! Exports of made-up goals: nothing is lost, nothing is said twice, nothing runs.

mod golden;
mod tools;
mod verify;

use proptest::prelude::*;

use super::{Export, Format, Interface, Request, export};
use crate::profile::Wanted;
use crate::setting::{ReadFrom, Value};
use crate::{CpuSet, Goal, NicFact, Setting, catalogue};

fn goal(id: &str, interface: Option<&str>, value: &str) -> Goal {
    Goal {
        setting: catalogue::setting(id).unwrap(),
        interface: interface.map(str::to_owned),
        cpus: None,
        value: value.to_owned(),
        wanted: Wanted::Equal(value.to_owned()),
        reason: "A reason.".to_owned(),
    }
}

fn exported(format: Format, goals: &[Goal]) -> Export {
    export(
        format,
        &Request {
            profile: "test",
            goals,
            program: None,
            interfaces: &[],
            command_line: None,
            smt_siblings: &CpuSet::default(),
        },
    )
}

fn with_pci(format: Format, goals: &[Goal]) -> Export {
    let interfaces = [Interface { name: "eth0".to_owned(), pci: Some("0000:3b:00.0".to_owned()) }];
    export(
        format,
        &Request {
            profile: "test",
            goals,
            program: None,
            interfaces: &interfaces,
            command_line: None,
            smt_siblings: &CpuSet::default(),
        },
    )
}

#[test]
fn request_is_held_by_the_program_itself_where_its_path_is_known() {
    let goals = [goal("cpu.dma-latency-us", None, "2")];
    let line = |program| {
        let request = Request {
            profile: "test",
            goals: &goals,
            program,
            interfaces: &[],
            command_line: None,
            smt_siblings: &CpuSet::default(),
        };
        let text = text_of(&export(Format::Systemd, &request), "nearwire-latency.service");
        text.lines().find(|line| line.starts_with("ExecStart=")).unwrap().to_owned()
    };
    assert_eq!(line(Some("/usr/bin/nearwire")), "ExecStart=/usr/bin/nearwire tune hold --latency 2us");
    // What systemd would read more into is not written.
    for odd in [None, Some("nearwire"), Some("/opt/a b/nearwire"), Some("/opt/%n/nearwire"), Some("/opt/a\n/x")] {
        assert!(line(odd).starts_with("ExecStart=/bin/sh -c 'exec 3> /dev/cpu_dma_latency;"), "{odd:?}");
    }
}

/// A request with a running command line, two interfaces and SMT on CPUs 4-7.
fn exported_over(format: Format, running: &str, goals: &[Goal]) -> Export {
    let smt_siblings = &CpuSet::from_iter(4..8);
    let request =
        Request { profile: "test", goals, program: None, interfaces: &[], command_line: Some(running), smt_siblings };
    export(format, &request)
}

#[test]
fn option_that_runs_with_another_value_exported_is_replaced_in_rpm_ostree() {
    let goals =
        [goal("boot.isolcpus", None, "2-3"), goal("boot.nohz_full", None, "2-3"), goal("boot.audit", None, "off")];
    let text = text_of(&exported_over(Format::Grub, "ro nohz_full=1 isolcpus=1 audit=0 -- audit=1", &goals), ".cfg");
    let ostree = text.lines().find(|line| line.contains("rpm-ostree")).unwrap();
    for word in ["--delete=isolcpus=1 ", "--delete=nohz_full=1 ", "--append=isolcpus=2-3", "--append=nohz_full=2-3"] {
        assert!(ostree.contains(word), "{word}: {ostree}");
    }
    assert!(!ostree.contains("audit") && !ostree.contains("if-missing"), "{ostree}");
}

#[test]
fn isolcpus_that_runs_with_flags_exported_keeps_them() {
    let goals = [goal("boot.isolcpus", None, "2-3"), goal("cpu.isolated", None, "2-3")];
    for format in [Format::Grub, Format::Ansible, Format::TunedProfile] {
        let export = exported_over(format, "isolcpus=managed_irq,domain,1", &goals);
        let all: String = export.files.iter().map(|file| file.text.clone()).collect();
        assert!(all.contains("isolcpus=managed_irq,domain,2-3"), "{all}");
        assert!(!all.contains("isolcpus=2-3"), "{all}");
    }
}

#[test]
fn word_of_two_interfaces_exported_is_said_once() {
    let goals = [goal("nic.pcie.aspm", Some("eth0"), "off"), goal("nic.pcie.aspm", Some("eth1"), "off")];
    for format in [Format::Grub, Format::TunedProfile] {
        let export = exported_over(format, "quiet", &goals);
        let all: String = export.files.iter().map(|file| file.text.clone()).collect();
        assert!(all.contains("pcie_aspm=off") && !all.contains("pcie_aspm=off pcie_aspm=off"), "{all}");
    }
}

#[test]
fn cpus_that_nosmt_takes_away_exported_get_no_work() {
    for off in [goal("cpu.smt", None, "off"), goal("boot.nosmt", None, "on")] {
        let goals = [off, goal("boot.isolcpus", None, "2-3,6-7"), goal("irq.default-affinity", None, "4-5")];
        let export = exported_over(Format::Grub, "quiet", &goals);
        let text = text_of(&export, ".cfg");
        assert!(text.contains(" isolcpus=2-3\"") && !text.contains("6-7"), "{text}");
        let named: Vec<_> = export.left_out.iter().filter(|left| left.why.contains("takes them offline")).collect();
        assert_eq!(named.len(), 2, "{:?}", export.left_out);
        let governor = Goal { cpus: Some(CpuSet::from_iter([3, 7])), ..goal("cpu.governor", None, "performance") };
        let text = text_of(&exported_over(Format::Udev, "quiet", &[goals[0].clone(), governor]), ".rules");
        assert!(text.contains("cpu3") && !text.contains("cpu7"), "{text}");
    }
}

#[test]
fn inner_state_of_smt_exported_is_left_out() {
    for state in ["notsupported", "notimplemented", "forceoff"] {
        for format in Format::ALL {
            let export = exported_over(format, "quiet", &[goal("cpu.smt", None, state)]);
            assert!(export.files.is_empty() && export.left_out.len() == 1, "{state} {format:?}: {export:?}");
        }
    }
}

#[test]
fn profile_of_tuned_exported_does_not_stop_tuned() {
    let goals = [goal("service.tuned", None, "stopped, disabled"), goal("vm.swappiness", None, "1")];
    let export = exported_over(Format::TunedProfile, "quiet", &goals);
    assert!(!text_of(&export, "tuned.conf").contains("service.tuned"));
    assert!(export.left_out[0].why.contains("cannot stop tuned"), "{:?}", export.left_out);
}

/// What tuned cannot take out of the boot loader's files would contradict what it puts there.
#[test]
fn word_that_tuned_leaves_there_is_named() {
    let text =
        text_of(&exported_over(Format::TunedProfile, "isolcpus=1", &[goal("boot.isolcpus", None, "2")]), ".conf");
    assert!(text.contains("# The running kernel has isolcpus=1, which tuned leaves there"), "{text}");
}

fn text_of(export: &Export, end: &str) -> String {
    let file = export.files.iter().find(|file| file.path.ends_with(end));
    file.unwrap_or_else(|| panic!("no file {end} among {:?}, left out {:?}", paths(export), export.left_out))
        .text
        .clone()
}

fn paths(export: &Export) -> Vec<&str> {
    export.files.iter().map(|file| file.path.as_str()).collect()
}

/// A value that the setting could have.
fn plausible(setting: &Setting) -> String {
    let by_id = match setting.id {
        "memory.huge-pages" => Some("node0 2048kB: 16 of 16 free"),
        "memory.huge-page-size" => Some("1048576 kB"),
        "boot.default_hugepagesz" => Some("1G"),
        "irq.irqbalance" => Some("not running"),
        "nic.wake-on-lan" => Some("off"),
        "nic.coalesce.rx-irq" => Some("0 us, 1 frames"),
        "nic.coalesce.packet-rates" => Some("0 to 1000 packets/s, every 1 s, statistics every 0 us"),
        "nic.irq-affinity" | "nic.xps-rxqs" => Some("1"),
        "boot.rejected" => Some("none"),
        _ => None,
    };
    let of_kind = match (setting.value, setting.read) {
        (_, ReadFrom::Service(_)) => "stopped, disabled",
        (Value::Switch, _) => "off",
        (Value::Number(_), _) => "64",
        (Value::CpuList, _) => "2-3",
        (Value::Word(words), _) => words[0],
        (Value::Text, ReadFrom::Nic(NicFact::QueueMask(..))) => "0",
        (Value::Text, _) => "4096",
    };
    by_id.unwrap_or(of_kind).to_owned()
}

fn goal_of(setting: &'static Setting, value: String, reason: String, interface: &str) -> Goal {
    let is_of_interfaces = setting.is_of_interfaces() || setting.id.starts_with("nic.");
    let interface = is_of_interfaces.then(|| interface.to_owned());
    let wanted = Wanted::Equal(value.clone());
    Goal { setting, interface, cpus: None, value, wanted, reason }
}

fn all_goals() -> Vec<Goal> {
    catalogue::settings().map(|setting| goal_of(setting, plausible(setting), setting.why.to_owned(), "eth0")).collect()
}

/// Each goal is in exactly one comment or left out.
fn count_each(goals: &[Goal], export: &Export) {
    let mut expected: Vec<_> = goals.iter().map(|goal| super::words::one_line(&goal.id())).collect();
    let lines = export.files.iter().flat_map(|file| file.text.lines());
    let comments = lines.filter_map(|line| line.trim_start().strip_prefix("# ")?.split_once(" = "));
    let ids = comments.map(|(place, _)| place.split(" on CPUs ").next().unwrap_or(place).to_owned());
    let mut found: Vec<_> = ids.filter(|id| expected.contains(id)).collect();
    found.extend(export.left_out.iter().map(|left| left.id.clone()));
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn whole_catalogue_exported_has_each_goal_once_or_left_out() {
    let goals = all_goals();
    for format in Format::ALL {
        for export in [exported(format, &goals), with_pci(format, &goals)] {
            count_each(&goals, &export);
            assert!(!export.files.is_empty(), "{}", format.name());
            assert!(export.left_out.iter().all(|left| !left.why.is_empty()));
            for file in &export.files {
                assert!(file.text.contains("Made by nearwire from the profile test"), "{}", file.path);
                assert!(file.text.contains("To take it back"), "{}", file.path);
            }
        }
    }
}

#[test]
fn goal_that_a_playbook_leaves_out_is_in_no_other_format() {
    let goals = all_goals();
    let others = [Format::Grub, Format::Sysctl, Format::Systemd, Format::Udev, Format::TunedProfile];
    let others = others.map(|format| (format, with_pci(format, &goals)));
    for left in with_pci(Format::Ansible, &goals).left_out {
        // Two settings with one word on the command line contradict each other.
        if left.why.contains("wants something else") {
            continue;
        }
        for (format, other) in &others {
            assert!(other.left_out.iter().any(|found| found.id == left.id), "{} has {}", format.name(), left.id);
        }
    }
}

#[test]
fn runtime_twin_of_a_boot_setting_becomes_its_word() {
    let goals =
        [goal("cpu.isolated", None, "2-3"), goal("boot.isolcpus", None, "2-3"), goal("boot.nohz_full", None, "2-3")];
    let export = exported(Format::Grub, &goals);
    let text = text_of(&export, "90-nearwire.cfg");
    assert_eq!(text.matches("nearwire_words=\"$nearwire_words isolcpus=2-3\"").count(), 1, "{text}");
    assert!(text.contains("cpu.isolated says it"), "{text}");
    assert_eq!(export.after, ["update-grub", "reboot"]);
}

#[test]
fn two_values_for_one_place_leave_the_second_out() {
    let goals = [goal("cpu.isolated", None, "2-3"), goal("boot.isolcpus", None, "2-7")];
    let export = exported(Format::Grub, &goals);
    assert_eq!(export.left_out.len(), 1);
    assert_eq!(export.left_out[0].id, "boot.isolcpus");
    assert!(export.left_out[0].why.contains("cpu.isolated"), "{:?}", export.left_out);
}

#[test]
fn cpus_with_values_of_their_own_each_get_a_line() {
    let mut performance = goal("cpu.governor", None, "performance");
    performance.cpus = CpuSet::from_list("2-3").ok();
    let mut powersave = goal("cpu.governor", None, "powersave");
    powersave.cpus = CpuSet::from_list("0-1").ok();
    let everywhere = goal("cpu.governor", None, "schedutil");
    let goals = [performance, powersave, everywhere];
    let export = exported(Format::Systemd, &goals);
    let text = text_of(&export, "tmpfiles.d/90-nearwire.conf");
    assert!(text.contains("w /sys/devices/system/cpu/cpu2/cpufreq/scaling_governor - - - - performance\n"), "{text}");
    assert!(text.contains("w /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor - - - - powersave\n"), "{text}");
    assert_eq!(export.left_out.len(), 1, "{:?}", export.left_out);
}

#[test]
fn cpus_named_where_there_is_one_value_for_all_leave_the_goal_out() {
    let mut single = goal("memory.thp", None, "never");
    single.cpus = CpuSet::from_list("2").ok();
    assert!(exported(Format::Systemd, &[single]).left_out[0].why.contains("one for all"));
    let mut some = goal("noise.fair-server", None, "0");
    some.cpus = CpuSet::from_list("2").ok();
    let goals = [some, goal("noise.fair-server", None, "50000000")];
    let export = exported(Format::Systemd, &goals);
    let text = text_of(&export, "tmpfiles.d/90-nearwire.conf");
    assert!(text.contains("w /sys/kernel/debug/sched/fair_server/cpu2/runtime - - - - 0\n"), "{text}");
    assert_eq!(export.left_out.len(), 1, "{:?}", export.left_out);
}

#[test]
fn link_options_without_a_place_on_the_bus_become_a_service() {
    let goals = [goal("nic.coalesce.rx-usecs", Some("eth0"), "0"), goal("nic.mtu", Some("eth0"), "9000")];
    let service = exported(Format::Systemd, &goals);
    assert!(text_of(&service, "nearwire-link@eth0.service").contains("ExecStart=-ethtool -C eth0 rx-usecs 0\n"));
    assert!(text_of(&service, "nearwire/link-eth0.conf").contains("w /sys/class/net/eth0/mtu - - - - 9000\n"));
    let link = text_of(&with_pci(Format::Systemd, &goals), "90-nearwire-eth0.link");
    for line in ["Path=pci-0000:3b:00.0", "NamePolicy=keep", "RxCoalesceSec=0us", "MTUBytes=9000"] {
        assert!(link.contains(line), "{line} in {link}");
    }
}

#[test]
fn interface_with_a_hyphen_waits_for_the_escaped_device() {
    let export = exported(Format::Systemd, &[goal("nic.threaded", Some("my-nic"), "on")]);
    let unit = text_of(&export, "nearwire-link@my-nic.service");
    assert!(unit.contains(r"BindsTo=sys-subsystem-net-devices-my\x2dnic.device"), "{unit}");
}

#[test]
fn delays_are_written_behind_what_resets_the_device() {
    let goals = [
        goal("nic.coalesce.rx-usecs", Some("eth0"), "0"),
        goal("nic.coalesce.adaptive-rx", Some("eth0"), "off"),
        goal("nic.ring.rx", Some("eth0"), "512"),
        goal("nic.channels.combined", Some("eth0"), "4"),
    ];
    let unit = text_of(&exported(Format::Systemd, &goals), "nearwire-link@eth0.service");
    let at = |text: &str| unit.find(text).unwrap_or_else(|| panic!("{text} in {unit}"));
    assert!(at("-L eth0 combined 4") < at("-G eth0 rx 512"));
    assert!(at("-G eth0 rx 512") < at("-C eth0 adaptive-rx off"));
    assert!(at("adaptive-rx off") < at("rx-usecs 0"));
}

#[test]
fn template_in_a_reason_is_no_template_in_a_playbook() {
    let mut harmful = goal("net.core.busy_poll", None, "50");
    harmful.reason = "{{ lookup('pipe', 'reboot') }}".to_owned();
    let playbook = text_of(&exported(Format::Ansible, &[harmful]), "nearwire.yml");
    let line = playbook.lines().position(|line| line.contains("lookup")).unwrap();
    let content = playbook.lines().take(line).filter(|line| line.contains("content:")).last();
    assert_eq!(content.map(str::trim), Some("content: !unsafe |"));
    // Text under the tag ends where the indentation does, and no reason has a line of its own.
    assert!(playbook.lines().nth(line).unwrap().starts_with("          # "));
}

#[test]
fn options_of_one_module_are_one_option_of_tuned() {
    let goals = [goal("rdma.mlx4.vfs", None, "4"), goal("rdma.mlx4.probe-vf", None, "0")];
    let text = text_of(&exported(Format::TunedProfile, &goals), "tuned.conf");
    assert_eq!(text.matches("\nmlx4_core=num_vfs=4 probe_vf=0\n").count(), 1, "{text}");
}

fn hostile() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "$(touch /tmp/nearwire-pwned)",
        "`reboot`",
        "\"",
        "'",
        "\n",
        "\r",
        "\\",
        "\\\n",
        ";",
        "|",
        "&",
        "#",
        "%n",
        "%%",
        "{{ 1 }}",
        "${x}",
        "[Service]\nExecStart=/bin/false",
        "- - -",
        "*",
        "?",
        "\u{2028}",
        "\0",
        "é",
        "../",
        " ",
        "a",
        "0",
        "off",
    ]);
    prop::collection::vec(pieces, 0..6).prop_map(|pieces| pieces.concat())
}

fn value_of(setting: &'static Setting) -> impl Strategy<Value = String> {
    prop_oneof![3 => Just(plausible(setting)), 1 => Just("not set".to_owned()), 2 => hostile()]
}

fn any_goal() -> impl Strategy<Value = Goal> {
    let settings: Vec<&'static Setting> = catalogue::settings().collect();
    let names = prop_oneof![
        6 => prop::sample::select(vec!["eth0", "enp59s0f0np0", "eth0.100", "my-nic"]).prop_map(str::to_owned),
        1 => hostile(),
    ];
    prop::sample::select(settings).prop_flat_map(move |setting| {
        (value_of(setting), hostile(), names.clone())
            .prop_map(move |(value, reason, name)| goal_of(setting, value, reason, &name))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_goals_exported_are_each_once_in_a_comment_or_left_out(
        goals in prop::collection::vec(any_goal(), 0..40), profile in hostile(),
    ) {
        let interfaces = [Interface { name: "eth0".to_owned(), pci: Some("0000:3b:00.0".to_owned()) }];
        let request = Request { profile: &profile, goals: &goals, program: None, interfaces: &interfaces, command_line: None, smt_siblings: &CpuSet::default() };
        for format in Format::ALL {
            let made = export(format, &request);
            count_each(&goals, &made);
            prop_assert_eq!(&made, &export(format, &request));
        }
    }

    /// Outside of comments there is not one letter of a value that was not taken.
    #[test]
    fn hostile_text_reaches_nothing_but_comments(goals in prop::collection::vec(any_goal(), 1..40)) {
        for format in Format::ALL {
            for file in exported(format, &goals).files {
                for line in file.text.lines().filter(|line| !line.trim_start().starts_with('#')) {
                    prop_assert!(!line.contains("pwned") && !line.contains("/bin/false") && !line.contains("{{ 1"), "{line}");
                    prop_assert!(!line.contains('`') && !line.contains("reboot`"), "{line}");
                }
            }
        }
    }
}
