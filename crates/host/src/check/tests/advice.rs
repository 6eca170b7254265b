//! Advice of the built-in profiles on small trees: what must not be told, and what is told instead.

use super::*;

const BARE_METAL: (&str, &str) = ("/proc/cpuinfo", "model name: Intel(R) Xeon(R)\nflags: fpu\n");

/// The findings of a built-in profile on [`tree`] with more files, of these interfaces.
fn findings(profile: &str, isolated: &str, files: &[(&str, &str)], interfaces: &[&str]) -> Vec<Finding> {
    let directory = tree(isolated);
    for (path, text) in files {
        write(directory.path(), path, text);
    }
    let interfaces: Vec<String> = interfaces.iter().map(|name| (*name).to_owned()).collect();
    let root = Root::directory(directory.path()).unwrap();
    check(&root, &Profile::load(profile).unwrap(), &interfaces, None, &[])
}

#[track_caller]
fn one(findings: &[Finding], id: &str) -> (&'static str, Option<String>) {
    let mut of: Vec<_> = findings.iter().filter(|finding| finding.id() == id).collect();
    // Of several wishes for one setting the one that counts here.
    of.retain(|finding| of_count(findings, id) == 1 || finding.outcome.name() != "not-applicable");
    let finding = of.first().unwrap_or_else(|| panic!("no finding of {id} counts"));
    (finding.outcome.name(), finding.goal().map(|goal| goal.value))
}

fn of_count(findings: &[Finding], id: &str) -> usize {
    findings.iter().filter(|finding| finding.id() == id).count()
}

const STATES: &str = "/sys/devices/system/cpu/cpu0/cpuidle";

#[test]
fn wake_up_of_isolated_cpus_is_limited_to_c1_and_not_to_polling() {
    let of = |latency_us: &str, c1_us: &str| {
        let states =
            [("state0/name", "POLL"), ("state0/latency", "0"), ("state1/name", "C1"), ("state1/latency", c1_us)];
        let states: Vec<_> = states.iter().map(|(file, text)| (format!("{STATES}/{file}"), *text)).collect();
        let mut files: Vec<_> = states.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let limits = [2, 3].map(|cpu| format!("/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us"));
        files.extend(limits.iter().map(|path| (path.as_str(), latency_us)));
        files.push(BARE_METAL);
        one(&findings("latency", "2-3\n", &files, &[]), "cpu.pm-qos-resume-latency-us")
    };
    // 0 is no limit, and `n/a`, which makes a CPU poll with its tick on, is not what is written.
    assert_eq!(of("0", "2"), ("differs", Some(text("2"))));
    assert_eq!(of("0", "0"), ("differs", Some(text("1"))));
    assert_eq!(of("2", "2"), ("ok", None));
    assert_eq!(of("133", "1"), ("differs", Some(text("1"))));
}

#[test]
fn unwanted_word_of_the_command_line_is_not_told_as_its_own_remedy() {
    let found = findings("latency", "\n", &[("/proc/cmdline", "quiet idle=poll\n")], &[]);
    let idle = of(&found, "boot.idle");
    assert_eq!(idle.outcome.name(), "differs");
    assert_eq!(boot_lines(&idle), ["without idle=poll on the kernel's command line"]);
}

#[test]
fn huge_pages_that_are_off_are_no_finding_of_the_default_profile() {
    let thp = ("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    assert_eq!(one(&findings(crate::profile::DEFAULT, "\n", &[thp], &[]), "memory.thp").0, "ok");
    assert_eq!(
        one(&findings(crate::profile::DEFAULT, "\n", &[], &[]), "memory.thp"),
        ("differs", Some(text("madvise")))
    );
}

const RECORDED: &str = "/nearwire/interfaces/eth0.json";

#[test]
fn adaptive_delay_switched_off_comes_with_a_value_for_the_delay() {
    let answers = r#"{"driver": {"driver": "ice"}, "coalesce": {"adaptive-rx": true, "rx-usecs": 50}}"#;
    let found = findings("latency", "\n", &[(RECORDED, answers), ("/sys/class/net/eth0/mtu", "1500\n")], &["eth0"]);
    assert_eq!(one(&found, "nic.coalesce.adaptive-rx[eth0]"), ("differs", Some(text("off"))));
    assert_eq!(one(&found, "nic.coalesce.rx-usecs[eth0]"), ("differs", Some(text("0"))));
}

#[test]
fn frames_of_infiniband_in_datagram_mode_are_not_wanted_longer() {
    let answers = r#"{"driver": {"driver": "ib_ipoib"}, "link": {"mtu": 2044}}"#;
    let mut files = vec![(RECORDED, answers), ("/sys/class/net/eth0/mtu", "2044\n")];
    assert_eq!(one(&findings("mpi", "\n", &files, &["eth0"]), "nic.mtu[eth0]").0, "differs");
    files.push(("/sys/class/net/eth0/mode", "datagram\n"));
    assert_eq!(one(&findings("mpi", "\n", &files, &["eth0"]), "nic.mtu[eth0]").0, "not-applicable");
}

#[test]
fn deferral_of_the_whole_device_is_not_wanted_where_each_queue_has_its_own() {
    let device = [
        ("/sys/class/net/eth0/napi_defer_hard_irqs", "0\n"),
        ("/sys/class/net/eth0/gro_flush_timeout", "0\n"),
        (RECORDED, r#"{"napi": {"instances": [{"queues": ["rx-0"], "irq": 30}]}}"#),
    ];
    let before = findings("busy-poll", "\n", &device, &["eth0"]);
    assert_eq!(one(&before, "nic.napi-defer-hard-irqs[eth0]").0, "differs");
    let answers =
        r#"{"napi": {"instances": [{"queues": ["rx-0"], "irq": 30, "defer-hard-irqs": 0, "gro-flush-timeout": 0}]}}"#;
    let with_napi = findings("busy-poll", "\n", &[&device[..2], &[(RECORDED, answers)]].concat(), &["eth0"]);
    for id in ["nic.napi-defer-hard-irqs[eth0]", "nic.gro-flush-timeout-ns[eth0]"] {
        assert_eq!(one(&with_napi, id).0, "not-applicable", "{id}");
    }
}

/// The entries of menus that a finding names.
fn menus(files: &[(&str, &str)]) -> Vec<String> {
    let files = [files, &[("/sys/devices/system/cpu/smt/control", "on\n")]].concat();
    let fixes = of(&findings("latency", "\n", &files, &[]), "cpu.smt").fixes();
    fixes.into_iter().filter(|fix| fix.when == When::Firmware).map(|fix| fix.text).collect()
}

#[test]
fn menu_of_another_makers_machine_or_processor_is_not_shown() {
    let cpu = |model: &'static str| ("/proc/cpuinfo", model);
    let intel = cpu("model name: Intel(R) Xeon(R)\nflags: fpu\n");
    let maker = |name: &'static str| ("/sys/class/dmi/id/sys_vendor", name);
    assert_eq!(menus(&[intel, maker("Dell Inc.\n")]).len(), 2);
    assert_eq!(
        menus(&[intel, maker("Cisco Systems Inc\n")]),
        ["Cisco menu: Intel Hyper-Threading technology = Disabled"]
    );
    assert_eq!(menus(&[cpu("model name: AMD EPYC 9654\nflags: fpu\n"), maker("HPE\n")]), [""; 0]);
    assert_eq!(menus(&[cpu("processor: 0\nCPU implementer: 0x41\nFeatures: fp\n"), maker("HPE\n")]), [""; 0]);
}

#[test]
fn interface_without_link_is_not_judged_beside_one_with_a_link() {
    let port = |name: &str, carrier: &'static str, state: &'static str| {
        [(format!("/sys/class/net/{name}/carrier"), carrier), (format!("/sys/class/net/{name}/operstate"), state)]
    };
    let files = [port("eth0", "1\n", "up\n"), port("eth1", "0\n", "down\n")].concat();
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let both = findings("latency", "\n", &files, &["eth0", "eth1"]);
    assert_eq!(one(&both, "nic.carrier[eth0]").0, "ok");
    assert_eq!(one(&both, "nic.carrier[eth1]").0, "not-applicable");
    assert!(
        both.iter().all(|finding| finding.interface.as_deref() != Some("eth1") || !finding.outcome.is_difference())
    );
    assert_eq!(one(&findings("latency", "\n", &files, &["eth1"]), "nic.carrier[eth1]").0, "differs");
}

#[test]
fn graphical_target_without_a_display_manager_is_no_finding() {
    let directory = tree("\n");
    let root = directory.path();
    write(root, "/usr/lib/systemd/system/graphical.target", "");
    fs::create_dir_all(root.join("etc/systemd/system")).unwrap();
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, root.join("etc/systemd/system").join(name)).unwrap();
    };
    link("/usr/lib/systemd/system/graphical.target", "default.target");
    let target = || {
        let root = Root::directory(root).unwrap();
        one(&check(&root, &Profile::load("latency").unwrap(), &[], None, &[]), "service.default-target").0
    };
    assert_eq!(target(), "ok");
    link("/usr/lib/systemd/system/gdm.service", "display-manager.service");
    assert_eq!(target(), "differs");
}

#[test]
fn irqbalance_that_leaves_isolated_cpus_alone_by_itself_is_no_finding() {
    let files = [
        ("/usr/lib/systemd/system/irqbalance.service", ""),
        ("/sys/fs/cgroup/system.slice/irqbalance.service/cgroup.events", "populated 1\n"),
        ("/etc/default/irqbalance", "# OPTIONS=\n"),
    ];
    assert_eq!(one(&findings("latency", "2-3\n", &files, &[]), "service.irqbalance").0, "ok");
    let told = [&files[..2], &[("/etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=3\n")]].concat();
    assert_eq!(one(&findings("latency", "2-3\n", &told, &[]), "service.irqbalance").0, "differs");
}

#[test]
fn frequency_of_the_uncore_is_held_against_what_the_package_had_at_boot() {
    let package = "/sys/devices/system/cpu/intel_uncore_frequency/package_00_die_00";
    let file = |name: &str| format!("{package}/{name}");
    let (least, most, at_boot) = (file("min_freq_khz"), file("max_freq_khz"), file("initial_max_freq_khz"));
    let files = [(least.as_str(), "1200000\n"), (most.as_str(), "1200000\n"), (at_boot.as_str(), "2400000\n")];
    let found = findings("latency", "\n", &files, &[]);
    assert_eq!(one(&found, "cpu.uncore.min-khz"), ("differs", Some(text("2400000"))));
    assert_eq!(one(&found, "cpu.uncore.max-khz"), ("differs", Some(text("2400000"))));
}

const AMD: &str = "model name: AMD EPYC 9755\nflags: fpu bus_lock_detect\n";
const INTEL: &str = "model name: Intel(R) Xeon(R)\nflags: fpu split_lock_detect\n";

/// A processor of AMD raises a trap at a bus lock and puts nobody to sleep, so that the switch is without effect there.
#[test]
fn threads_put_to_sleep_for_split_locks_are_told_on_processors_that_do_so() {
    let of = |cpu: &str, value: Option<&str>| {
        let files = value.map(|value| ("/proc/sys/kernel/split_lock_mitigate", value));
        let files: Vec<_> = files.into_iter().chain([("/proc/cpuinfo", cpu)]).collect();
        one(&findings("latency", "\n", &files, &[]), "kernel.split_lock_mitigate")
    };
    assert_eq!(of(INTEL, Some("1\n")), ("differs", Some(text("off"))));
    assert_eq!(of(INTEL, Some("0\n")), ("ok", None));
    assert_eq!(of(INTEL, None).0, "unsupported");
    assert_eq!(of(AMD, Some("1\n")).0, "not-applicable");
}

#[test]
fn completions_that_a_connectx_device_compresses_are_told_and_its_striding_queue_is_left_to_a_measurement() {
    let of = |driver: &str, is_on: bool| {
        let answers = format!(
            r#"{{"driver": {{"driver": "{driver}"}}, "private-flags": {{"rx_cqe_compress": {is_on}, "rx_striding_rq": true}}}}"#
        );
        let files = [(RECORDED, answers.as_str()), ("/sys/class/net/eth0/mtu", "1500\n")];
        findings("latency", "\n", &files, &["eth0"])
    };
    let compressed = "nic.private-flags.rx-cqe-compress[eth0]";
    let found = of("mlx5_core", true);
    assert_eq!(one(&found, compressed), ("differs", Some(text("off"))));
    let how = "Run ethtool --set-priv-flags IF rx_cqe_compress off.";
    assert_eq!(super::of(&found, compressed).wish.fix.as_deref(), Some(how));
    assert_eq!(one(&of("mlx5_core", false), compressed).0, "ok");
    assert_eq!(one(&of("ice", true), compressed).0, "not-applicable");
    assert_is_left_to_a_measurement("nic.private-flags.rx-striding-rq", "off", &found);
}

/// No finding has it; the advice that is no wish does, and says how to find out.
#[track_caller]
fn assert_is_left_to_a_measurement(id: &str, printed: &str, findings: &[Finding]) {
    assert!(findings.iter().all(|finding| finding.wish.setting.id != id), "{id}");
    let profile = Profile::load("latency").unwrap();
    let advice = profile.left_out.iter().find(|advice| advice.setting.id == id).unwrap();
    assert_eq!(advice.printed, printed, "{id}");
    assert!(advice.reason.starts_with("measure: nearwire bench"), "{id}: {}", advice.reason);
}

#[test]
fn advice_on_connectx_writes_ena_headers_and_nodes_of_a_processor_is_left_to_a_measurement() {
    let found = findings("latency", "\n", &[("/proc/cpuinfo", AMD)], &[]);
    for (id, printed) in [
        ("nic.pci-write-ordering", "relaxed"),
        ("nic.ena.large-llq-header", "on"),
        ("firmware.nodes-per-socket", "1, or as many as there are"),
    ] {
        assert_is_left_to_a_measurement(id, printed, &found);
    }
}

/// What only the menu of the firmware shows: the finding names the place to look at, on processors of that maker.
#[test]
fn firmware_of_amd_is_advised_on_processors_of_amd_and_links_between_processors_only_where_there_are_two() {
    let of = |cpu: &str, packages: &[&str]| {
        let mut files = vec![("/proc/cpuinfo".to_owned(), cpu.to_owned())];
        // As many memory nodes as NPS4 makes of each processor.
        files.push(("/sys/devices/system/node/online".to_owned(), format!("0-{}\n", packages.len() * 4 - 1)));
        for package in packages {
            for cpu in package.parse_list().iter() {
                let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/package_cpus_list");
                files.push((path, format!("{package}\n")));
            }
        }
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        findings("latency", "\n", &files, &[])
    };
    let two = of(AMD, &["0-1", "2-3"]);
    for (id, entry) in [
        ("firmware.amd.determinism", "Determinism Slider"),
        ("firmware.amd.xgmi-width", "xGMI Link Width Control"),
        ("firmware.amd.fabric-sleep", "DF Cstates"),
    ] {
        let Outcome::Unknown { why } = super::of(&two, id).outcome else { panic!("{id} is judged") };
        assert!(why.contains(&format!("> {entry}")) && why.contains("Redfish"), "{id}: {why}");
        assert_eq!(super::of(&of(INTEL, &["0-1", "2-3"]), id).outcome.name(), "not-applicable", "{id}");
    }
    let single = of(AMD, &["0-3"]);
    assert_eq!(super::of(&single, "firmware.amd.xgmi-width").outcome.name(), "not-applicable");
    assert_eq!(super::of(&single, "firmware.amd.determinism").outcome.name(), "unknown");
}
