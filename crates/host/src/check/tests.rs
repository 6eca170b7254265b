mod advice;

use std::fs;
use std::path::Path;

use super::judge::{Judgement, judge};
use super::*;
use crate::profile::{CpuGroup, CpuRelation, Wanted};
use crate::{Setting, catalogue};

fn setting(id: &str) -> &'static Setting {
    catalogue::setting(id).unwrap()
}

fn text(value: &str) -> String {
    value.to_owned()
}

fn is_right(id: &str, wanted: &Wanted, value: &str) -> bool {
    match judge(setting(id), wanted, None, &Reading::value(value)) {
        Judgement::Right => true,
        Judgement::Wrong => false,
        Judgement::Unjudged(outcome) => panic!("{id} {wanted} {value}: {outcome:?}"),
    }
}

#[test]
fn value_better_than_a_limit_is_right() {
    let least = Wanted::AtLeast(text("250000"));
    assert!(!is_right("net.core.netdev_max_backlog", &least, "1000"));
    assert!(is_right("net.core.netdev_max_backlog", &least, "250000"));
    assert!(is_right("net.core.netdev_max_backlog", &least, "300000"));
    let most = Wanted::AtMost(text("10"));
    assert!(is_right("vm.swappiness", &most, "1"));
    assert!(!is_right("vm.swappiness", &most, "60"));
}

#[test]
fn limit_of_three_numbers_is_compared_number_by_number() {
    let least = Wanted::AtLeast(text("4096 87380 4194304"));
    assert!(is_right("net.ipv4.tcp_rmem", &least, "4096 131072 6291456"));
    assert!(!is_right("net.ipv4.tcp_rmem", &least, "4096 131072 4000000"));
}

#[test]
fn versions_are_compared_by_their_first_different_number() {
    let least = Wanted::AtLeast(text("6.13"));
    for (release, is_enough) in [
        ("6.12.117-amd64", false),
        ("6.13.0", true),
        ("6.13", true),
        ("6.18.44-generic", true),
        ("7.0", true),
        ("5.99", false),
    ] {
        assert_eq!(is_right("kernel.release", &least, release), is_enough, "{release}");
    }
}

#[test]
fn words_for_on_and_off_are_the_same_however_they_are_written() {
    let off = Wanted::Equal(text("off"));
    assert!(is_right("kernel.numa_balancing", &off, "0"));
    assert!(is_right("boot.nosmt", &off, "not set"));
    assert!(is_right("nic.offload.gro", &off, "off"));
    assert!(!is_right("nic.offload.gro", &off, "on"));
    assert!(is_right("nic.energy-efficient", &Wanted::Equal(text("on")), "on, active"));
}

#[test]
fn cpu_lists_are_compared_as_sets() {
    let isolated = Wanted::Equal(text("2-3"));
    assert!(is_right("boot.isolcpus", &isolated, "2,3"));
    assert!(is_right("boot.isolcpus", &isolated, "managed_irq,domain,2-3"));
    assert!(!is_right("boot.isolcpus", &isolated, "domain"));
    let group = |relation| Wanted::Cpus(relation, CpuGroup::List("2-3".parse_list()));
    assert!(is_right("irq.default-affinity", &group(CpuRelation::ApartFrom), "0-1"));
    assert!(!is_right("irq.default-affinity", &group(CpuRelation::ApartFrom), "0-3"));
    assert!(is_right("irq.default-affinity", &group(CpuRelation::Within), "2"));
    assert!(!is_right("irq.default-affinity", &group(CpuRelation::Cover), "2"));
    assert!(is_right("irq.default-affinity", &group(CpuRelation::Cover), "0-3"));
}

trait ParseList {
    fn parse_list(&self) -> CpuSet;
}

impl ParseList for str {
    fn parse_list(&self) -> CpuSet {
        CpuSet::from_list(self).unwrap()
    }
}

#[test]
fn value_of_each_cpu_is_judged_on_the_cpus_that_count() {
    let performance = Wanted::Equal(text("performance"));
    let found = Reading::value("powersave (0-1), performance (2-3)");
    let of = |cpus: Option<&str>| {
        let cpus = cpus.map(ParseList::parse_list);
        judge(setting("cpu.governor"), &performance, cpus.as_ref(), &found)
    };
    assert_eq!(of(None), Judgement::Wrong);
    assert_eq!(of(Some("2-3")), Judgement::Right);
    assert_eq!(of(Some("1-3")), Judgement::Wrong);
}

#[test]
fn service_that_runs_or_will_is_not_stopped() {
    let gone = Wanted::Lacks(vec![text("running"), text("enabled")]);
    assert!(!is_right("service.irqbalance", &gone, "stopped, enabled"));
    assert!(is_right("service.irqbalance", &gone, "stopped, disabled"));
    assert!(is_right("service.irqbalance", &gone, "not installed"));
}

#[test]
fn offload_that_the_driver_fixed_is_unsupported_and_not_wrong() {
    let of = |wanted: &str, found: &str| {
        judge(setting("nic.offload.rxhash"), &Wanted::Equal(text(wanted)), None, &Reading::value(found))
    };
    assert_eq!(of("on", "off [fixed]"), Judgement::Unjudged(Outcome::Unsupported));
    assert_eq!(of("off", "off [fixed]"), Judgement::Right);
    assert_eq!(of("on", "off"), Judgement::Wrong);
}

#[test]
fn value_that_is_no_number_is_unknown_and_not_wrong() {
    let least = Wanted::AtLeast(text("8"));
    let found = judge(setting("nic.pcie.width"), &least, None, &Reading::value("Unknown"));
    assert!(matches!(found, Judgement::Unjudged(Outcome::Unknown { .. })));
}

const PROFILE: &str = r#"
purpose = "A test"

[[wish]]
setting = "cpu.governor"
equal = "performance"
on = "${plan.isolated}"
reason = "It keeps the clock up."
source = "test"
weight = "high"

[[wish]]
setting = "vm.swappiness"
at-most = 10
reason = "Swapping takes milliseconds."
source = "test"

[[wish]]
setting = "kernel.watchdog_cpumask"
cpus-within = "${plan.housekeeping}"
reason = "It wakes up the CPUs it watches."
source = "test"
when = { isolated = true }

[[wish]]
setting = "memory.thp"
equal = "never"
verdict = "harmful"
today = "It takes huge pages from programs that want them."
reason = "Compaction stalls."
source = "test"

[[wish]]
setting = "nic.irq-affinity"
cpus-within = "${plan.irq}"
reason = "Interrupts take the CPU from the program."
source = "test"

[[wish]]
setting = "clock.hardware-clocks"
absent = true
reason = "None."
source = "test"
"#;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path.trim_start_matches('/'));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn tree(isolated: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    write(root, "/sys/devices/system/cpu/online", "0-3\n");
    write(root, "/sys/devices/system/cpu/isolated", isolated);
    for cpu in 0..4 {
        let governor = if cpu < 2 { "powersave" } else { "performance" };
        write(root, &format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"), governor);
    }
    write(root, "/proc/sys/vm/swappiness", "60\n");
    write(root, "/proc/sys/kernel/watchdog_cpumask", "0-3\n");
    write(root, "/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
    directory
}

fn outcomes(findings: &[Finding]) -> Vec<(String, &'static str)> {
    let mut outcomes: Vec<_> = findings.iter().map(|finding| (finding.id(), finding.outcome.name())).collect();
    outcomes.sort();
    outcomes
}

fn of(findings: &[Finding], id: &str) -> Finding {
    findings.iter().find(|finding| finding.id() == id).unwrap().clone()
}

#[test]
fn host_without_isolation_checked_has_no_findings_about_isolated_cpus() {
    let directory = tree("\n");
    let root = Root::directory(directory.path()).unwrap();
    let profile = Profile::parse("test", PROFILE).unwrap();
    let findings = check(&root, &profile, &[], None, &[]);
    let wanted = [
        ("clock.hardware-clocks", "unknown"),
        ("cpu.governor", "not-applicable"),
        ("kernel.watchdog_cpumask", "not-applicable"),
        ("memory.thp", "not-advised"),
        ("nic.irq-affinity", "not-applicable"),
        ("vm.swappiness", "differs"),
    ];
    assert_eq!(outcomes(&findings), wanted.map(|(id, outcome)| (id.to_owned(), outcome)));
    assert_eq!(findings[0].id(), "vm.swappiness");
    assert_eq!(findings[0].value.as_deref(), Some("10"));
}

#[test]
fn isolated_cpus_checked_are_judged_alone() {
    let directory = tree("2-3\n");
    let root = Root::directory(directory.path()).unwrap();
    let profile = Profile::parse("test", PROFILE).unwrap();
    let findings = check(&root, &profile, &[], None, &[]);
    assert_eq!(of(&findings, "cpu.governor").outcome, Outcome::Right);
    let watchdog = of(&findings, "kernel.watchdog_cpumask");
    assert_eq!(watchdog.outcome, Outcome::Differs);
    assert_eq!(watchdog.wanted, "only CPUs 0-1");
    assert_eq!(watchdog.value.as_deref(), Some("0-1"));
}

#[test]
fn plan_given_decides_which_cpus_are_judged() {
    let directory = tree("\n");
    let root = Root::directory(directory.path()).unwrap();
    let profile = Profile::parse("test", PROFILE).unwrap();
    let plan = CpuPlan {
        isolated: "1-3".parse_list(),
        app: "1-3".parse_list(),
        housekeeping: "0".parse_list(),
        irq: "0".parse_list(),
    };
    let findings = check(&root, &profile, &[], Some(&plan), &[]);
    let governor = of(&findings, "cpu.governor");
    assert_eq!(governor.outcome, Outcome::Differs);
    assert_eq!(governor.cpus, Some("1-3".parse_list()));
}

#[test]
fn setting_of_a_running_tool_that_differs_is_owned_by_it() {
    let directory = tree("2-3\n");
    let path = directory.path();
    write(path, "/usr/lib/systemd/system/tuned.service", "");
    write(path, "/sys/fs/cgroup/system.slice/tuned.service/cgroup.events", "populated 1\nfrozen 0\n");
    write(path, "/etc/tuned/active_profile", "mine\n");
    write(path, "/etc/tuned/mine/tuned.conf", "[main]\ninclude=base\n");
    write(path, "/usr/lib/tuned/base/tuned.conf", "[main]\ninclude=mine\n[sysctl]\n# a comment\nvm.swappiness = 60\n");
    let root = Root::directory(path).unwrap();
    let findings = check(&root, &Profile::parse("test", PROFILE).unwrap(), &[], None, &[]);
    match of(&findings, "vm.swappiness").outcome {
        Outcome::Owned(owner) => assert_eq!(owner.tool, "tuned (profile mine)"),
        other => panic!("{other:?}"),
    }
    assert_eq!(of(&findings, "kernel.watchdog_cpumask").outcome, Outcome::Differs);
}

#[test]
fn findings_begin_with_the_area_of_the_weightiest_difference() {
    let directory = tree("0-3\n");
    let root = Root::directory(directory.path()).unwrap();
    let findings = check(&root, &Profile::parse("test", PROFILE).unwrap(), &[], None, &[]);
    assert_eq!(findings[0].id(), "cpu.governor");
    assert_eq!(worst(&findings), Some(Weight::High));
    let differs = counts(&findings).into_iter().find(|(name, _)| *name == "differs");
    assert_eq!(differs, Some(("differs", 3)));
}

/// The findings of one wish on [`tree`], where `with` are files that it has besides.
/// Nothing is isolated yet, so that only the plan knows whose the CPU is.
#[test]
fn queue_with_its_interrupt_on_a_cpu_that_the_plan_gives_to_the_program_differs() {
    let answers = r#"{"napi": {"instances": [{"queues": ["rx-0"], "irq": 30}, {"queues": ["rx-1"], "irq": 31}]},
        "flow-rules": {"rules": []}, "features": {"rx-ntuple-filter": "on"}, "rss-table": {"queues": [QUEUES]}}"#;
    let plan = CpuPlan { isolated: CpuSet::from_list("3").unwrap(), ..CpuPlan::default() };
    let finding = |queues: &str, plan: Option<&CpuPlan>| {
        let answers = answers.replace("QUEUES", queues);
        let files = [
            ("sys/class/net/eth0/mtu", "1500"),
            ("proc/irq/30/effective_affinity_list", "0"),
            ("proc/irq/31/effective_affinity_list", "3"),
            ("nearwire/interfaces/eth0.json", &answers),
        ];
        finding_of("setting = 'nic.chain'\nequal = 'whole'", "", &files, plan)
    };
    let found = finding("0, 1", Some(&plan));
    assert_eq!(found.outcome, Outcome::Differs);
    let whose = "rx-1: interrupt 31 goes to CPU 3, which the plan keeps for the program";
    assert_eq!(found.found, Reading::value(whose));
    for right in [finding("0, 0", Some(&plan)), finding("0, 1", None)] {
        assert_eq!(right.outcome, Outcome::Right, "{:?}", right.found);
    }
}

fn finding_of(wish: &str, isolated: &str, with: &[(&str, &str)], plan: Option<&CpuPlan>) -> Finding {
    let directory = tree(isolated);
    for (path, text) in with {
        write(directory.path(), path, text);
    }
    let text = format!("purpose = \"A test\"\n[[wish]]\n{wish}\nreason = \"A test.\"\nsource = \"test\"\n");
    write(directory.path(), "/one.toml", &text);
    let profile = Profile::load(directory.path().join("one.toml").to_str().unwrap()).unwrap();
    let root = Root::directory(directory.path()).unwrap();
    check(&root, &profile, &["eth0".to_owned()], plan, &[]).remove(0)
}

fn boot_lines(finding: &Finding) -> Vec<String> {
    finding.fixes().into_iter().filter(|fix| fix.when == When::Boot).map(|fix| fix.text).collect()
}

#[test]
fn line_that_keeps_a_value_has_the_wanted_value_and_not_the_one_of_the_catalogue() {
    let command_line = [("/proc/cmdline", "quiet\n")];
    let wish = "setting = \"boot.intel_idle.max_cstate\"\nequal = 0";
    let lines = boot_lines(&finding_of(wish, "\n", &command_line, None));
    assert_eq!(lines, ["intel_idle.max_cstate=0 on the kernel's command line"]);

    let lines = boot_lines(&finding_of("setting = \"memory.thp\"\none-of = [\"madvise\"]", "\n", &[], None));
    assert!(lines.contains(&text("transparent_hugepage=madvise on the kernel's command line")), "{lines:?}");
    let file = "w /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise in a file of /etc/tmpfiles.d";
    assert!(lines.contains(&text(file)), "{lines:?}");
}

#[test]
fn qdisc_of_an_interface_is_not_told_as_a_sysctl() {
    let recorded = [
        ("/sys/class/net/eth0/ifindex", "2\n"),
        ("/nearwire/interfaces/eth0.json", r#"{"link": {"qdisc": "fq"}, "coalesce": {"rx-usecs": 16}}"#),
    ];
    let qdisc = finding_of("setting = \"nic.qdisc\"\nequal = \"mq\"", "\n", &recorded, None);
    assert_eq!(qdisc.outcome.name(), "differs");
    assert!(boot_lines(&qdisc).iter().all(|line| !line.contains("sysctl")), "{:?}", boot_lines(&qdisc));
    let delay = finding_of("setting = \"nic.coalesce.rx-usecs\"\nat-most = 0", "\n", &recorded, None);
    assert_eq!(boot_lines(&delay)[0], "RxCoalesceSec=0us in a .link file of systemd");
}

#[test]
fn what_is_on_isolated_cpus_does_not_count_while_there_are_none() {
    let wish = "setting = \"irq.on-isolated\"\nequal = \"none\"";
    let irq = [("/proc/interrupts", " CPU0 CPU1 CPU2 CPU3\n 30: 0 0 0 7 x\n")];
    assert_eq!(finding_of(wish, "\n", &irq, None).outcome.name(), "not-applicable");
    assert_eq!(finding_of(wish, "3\n", &irq, None).outcome.name(), "unknown");
    assert_eq!(finding_of(wish, "2\n", &irq, None).outcome.name(), "ok");
}

#[test]
fn wish_to_keep_clear_of_cpus_is_met_by_all_others() {
    let wish = "setting = \"kernel.watchdog_cpumask\"\ncpus-apart-from = \"${plan.isolated}\"";
    let differs = finding_of(wish, "2-3\n", &[], None);
    assert_eq!((differs.outcome.name(), differs.value.as_deref()), ("differs", Some("0-1")));
    // A value that keeps clear already is not put to all others.
    let right = finding_of(wish, "2-3\n", &[("/proc/sys/kernel/watchdog_cpumask", "1\n")], None);
    assert_eq!((right.outcome.name(), right.lasting_goal().map(|goal| goal.value)), ("ok", Some(text("1"))));
}

#[test]
fn wish_that_cpus_are_kept_apart_says_which_others_to_write() {
    let directory = tree("1\n");
    let root = Root::directory(directory.path()).unwrap();
    let profile = "purpose = 'a test'\n[[wish]]\nsetting = 'kernel.watchdog_cpumask'\n\
                   cpus-apart-from = '${plan.isolated}'\nreason = 'a'\nsource = 'a'\n";
    let value = || {
        let findings = check(&root, &Profile::parse("test", profile).unwrap(), &[], None, &[]);
        of(&findings, "kernel.watchdog_cpumask").goal().map(|goal| goal.value)
    };
    assert_eq!(value().as_deref(), Some("0,2-3"));
    // CPUs that somebody took out before stay out.
    write(directory.path(), "proc/sys/kernel/watchdog_cpumask", "0-2\n");
    assert_eq!(value().as_deref(), Some("0,2"));
    write(directory.path(), "proc/sys/kernel/watchdog_cpumask", "1\n");
    assert_eq!(value().as_deref(), Some("0,2-3"));
}

/// A host of files on disk and what a profile of two wishes finds there.
fn checked(files: &[(&str, &str)]) -> Vec<Finding> {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let wish = |setting: &str, wanted: &str, weight: &str| {
        format!("[[wish]]\nsetting = \"{setting}\"\n{wanted}\nreason = \"r\"\nsource = \"s\"\nweight = \"{weight}\"\n")
    };
    let wishes = [
        wish("vm.swappiness", "at-most = 10", "low"),
        wish("boot.isolcpus", "equal = \"2-3\"", "high"),
        wish("net.core.rmem_max", "at-least = 1000", "medium"),
        wish("net.core.wmem_max", "at-least = 1000", "medium"),
    ];
    let profile = Profile::parse("test.toml", &format!("purpose = \"p\"\n{}", wishes.concat())).unwrap();
    check(&Root::directory(directory.path()).unwrap(), &profile, &[], None, &[])
}

const SWAPPY: [(&str, &str); 2] = [("proc/sys/vm/swappiness", "60\n"), ("proc/cmdline", "quiet\n")];

#[test]
fn differences_are_sorted_by_weight_across_areas() {
    let findings = checked(&SWAPPY);
    let ids: Vec<_> = findings.iter().filter(|one| one.outcome.is_difference()).map(Finding::id).collect();
    assert_eq!(ids, ["boot.isolcpus", "vm.swappiness"]);
}

#[test]
fn summary_counts_by_weight_and_groups_what_was_not_judged_by_cause() {
    let findings = checked(&SWAPPY);
    let summary = Summary::of(&findings);
    assert_eq!(summary.to_string(), "1 high, 1 low; 2 of 4 not judged (2: the copy has no /proc/sys)");
    assert_eq!(summary.unjudged[0].settings(), ["net.core.rmem_max", "net.core.wmem_max"]);
    assert!(summary.unjudged[0].answer.as_ref().unwrap().contains("nearwire snapshot"));
}

/// The findings of the profile `latency` or `mpi` on a host of these files.
fn of_built_in(name: &str, files: &[(&str, &str)], id: &str) -> Finding {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let root = Root::directory(directory.path()).unwrap();
    let findings = check(&root, &Profile::load(name).unwrap(), &["eth0".to_owned()], None, &[]);
    findings.into_iter().find(|finding| finding.id() == id).unwrap()
}

#[test]
fn isolated_cpus_of_the_slower_kind_are_a_finding_and_others_are_none() {
    let of = |isolated: &str| {
        let isolated = ("sys/devices/system/cpu/isolated", isolated);
        let units = [("sys/devices/cpu_core/cpus", "0-3\n"), ("sys/devices/cpu_atom/cpus", "4-7\n")];
        let online = ("sys/devices/system/cpu/online", "0-7\n");
        of_built_in("latency", &[[isolated, online], units].concat(), "cpu.kind")
    };
    let finding = of("5-6\n");
    assert_eq!((finding.outcome, finding.wish.weight), (Outcome::Differs, Weight::High));
    assert_eq!(of("2-3\n").outcome, Outcome::Right);
}

#[test]
fn roce_whose_frames_lose_their_way_is_a_finding_with_what_to_do() {
    let answers = r#"{"dcb": {"paused-priorities": 8}, "pause": {"unsupported": true}}"#;
    let port = [
        ("sys/class/net/eth0/device/infiniband/mlx5_0/node_type", "1\n"),
        ("sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n"),
        ("nearwire/interfaces/eth0.json", answers),
    ];
    let finding = of_built_in("mpi", &port, "rdma.roce.chain[eth0]");
    assert_eq!(finding.outcome, Outcome::Differs);
    assert!(finding.fixes()[0].text.contains("dcb app add dev IF dscp-prio 26:3"), "{:?}", finding.fixes());
    // Who could tell what the kernel does not is said where it is counted.
    let marks = of_built_in("mpi", &port, "rdma.roce.congestion-control[eth0]");
    let summary = Summary::of(std::slice::from_ref(&marks));
    let answer = summary.unjudged[0].answer.as_deref().unwrap();
    assert!(answer.starts_with("mlxconfig"), "{answer}");
}

#[test]
fn clock_that_is_far_off_is_a_finding() {
    let of = |clocks: &str, id: &str| of_built_in("latency", &[("nearwire/clocks.json", clocks)], id).outcome;
    let clocks = r#"{"chrony": {"offset-ns": -90000}, "ptp4l": {"offset-ns": -25000}}"#;
    assert_eq!(of(clocks, "clock.ptp.offset-ns"), Outcome::Differs);
    assert_eq!(of(clocks, "clock.offset-ns"), Outcome::Right);
    assert_eq!(of(r#"{"ptp4l": {"unsupported": true}}"#, "clock.ptp.offset-ns"), Outcome::Unsupported);
}

fn waivers(until: &str, value: &str) -> Waivers {
    let text = format!(
        "[[waiver]]\nsetting = \"vm.swappiness\"\nvalue = \"{value}\"\nreason = \"r\"\nowner = \"dba\"\nuntil = {until}\n\
         [[waiver]]\nsetting = \"vm.stat_interval\"\nvalue = \"1\"\nreason = \"r\"\nowner = \"dba\"\nuntil = {until}\n"
    );
    Waivers::parse("w.toml", &text).unwrap()
}

fn day(text: &str) -> Day {
    Day::of(humantime::parse_rfc3339(&format!("{text}T12:00:00Z")).unwrap())
}

#[test]
fn waived_difference_does_not_count_until_its_last_day_is_over() {
    let mut findings = checked(&SWAPPY);
    let unused = waivers("2027-03-31", "60").apply(&mut findings, &day("2027-03-31"));
    assert_eq!(
        Summary::of(&findings).to_string(),
        "1 high and 1 waived; 2 of 4 not judged (2: the copy has no /proc/sys)"
    );
    assert_eq!(unused, ["w.toml:7: vm.stat_interval"]);
    assert!(findings.iter().all(|one| one.wish.setting.id != "vm.swappiness" || one.goal().is_none()));
    let mut findings = checked(&SWAPPY);
    let _ = waivers("2027-03-31", "60").apply(&mut findings, &day("2027-04-01"));
    let swappiness = findings.iter().find(|one| one.wish.setting.id == "vm.swappiness").unwrap();
    assert_eq!(swappiness.outcome, Outcome::Differs);
    assert_eq!(swappiness.note.as_deref(), Some("dba waived it until 2027-03-31"));
}

#[test]
fn waiver_of_another_value_than_the_one_found_does_not_count() {
    let mut findings = checked(&SWAPPY);
    let _ = waivers("\"2027-03-31\"", "30").apply(&mut findings, &day("2027-01-01"));
    let swappiness = findings.iter().find(|one| one.wish.setting.id == "vm.swappiness").unwrap();
    assert_eq!(swappiness.note.as_deref(), Some("dba waived 30 until 2027-03-31, not 60"));
}

#[test]
fn mistake_in_a_waiver_is_told_with_its_line() {
    for (line, text, told) in [
        (2, "[[waiver]]\nsetting = \"vm.swapiness\"\n", "vm.swappiness"),
        (
            6,
            "[[waiver]]\nsetting = \"vm.swappiness\"\nvalue = \"1\"\nreason = \"r\"\nowner = \"o\"\nuntil = \"soon\"\n",
            "2027-03-31",
        ),
        (1, "[[waiver]]\nsetting = \"vm.swappiness\"\nvalue = \"1\"\nreason = \"r\"\nowner = \"o\"\n", "until"),
        (3, "[[waiver]]\nsetting = \"vm.swappiness\"\ninterface = \"eth0\"\n", "not of an interface"),
    ] {
        let error = Waivers::parse("w.toml", text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("w.toml:{line}: ")) && error.contains(told), "{error}");
    }
}

#[test]
fn fleet_tells_who_differs_and_what_is_not_alike() {
    let host = |name: &str, swappiness: &str, isolcpus: &str, rmem: &str| fleet::Member {
        name: name.to_owned(),
        findings: checked(&[
            ("proc/sys/vm/swappiness", swappiness),
            ("proc/cmdline", isolcpus),
            ("proc/sys/net/core/rmem_max", rmem),
        ]),
    };
    let members = [
        host("a", "1\n", "isolcpus=2-3\n", "2000\n"),
        host("b", "60\n", "isolcpus=2-3\n", "3000\n"),
        host("c", "60\n", "quiet\n", "2000\n"),
    ];
    let rows = fleet::rows(&members);
    let told: Vec<_> = rows.iter().map(|row| (row.id.as_str(), row.differing(), row.is_unalike())).collect();
    assert_eq!(told, [("boot.isolcpus", 1, true), ("vm.swappiness", 2, true), ("net.core.rmem_max", 0, true)]);
    assert_eq!(rows[1].groups[0].members, [1, 2]);
    assert_eq!(rows[1].unlike(0), [1, 2]);
    assert_eq!(rows[2].unlike(1), [0, 2]);
}
