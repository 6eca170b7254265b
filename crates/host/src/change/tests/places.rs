//! Where settings are written: the whole catalogue, and the words of each place.

use super::tree::tree;
use super::*;
use crate::setting::Write;
use crate::{CpuSet, Root, catalogue};

fn located(id: &str, cpus: Option<CpuSet>) -> Result<Vec<Located>, NotAtRunTime> {
    let tree = tree();
    let root = Root::directory(tree.path()).unwrap();
    let interfaces = ["eth4".to_owned()];
    targets(&root, catalogue::setting(id).unwrap(), &Scope { interfaces: &interfaces, cpus })
}

fn ids(id: &str) -> Vec<String> {
    located(id, None).unwrap().into_iter().map(|located| located.id).collect()
}

#[test]
fn each_instance_has_a_place_and_a_name() {
    assert_eq!(ids("vm.swappiness"), ["vm.swappiness"]);
    assert_eq!(ids("nic.mtu"), ["nic.mtu[eth4]"]);
    assert_eq!(ids("nic.rps-cpus"), ["nic.rps-cpus[eth4/rx-0]", "nic.rps-cpus[eth4/rx-1]"]);
    assert_eq!(ids("nic.irq-affinity"), ["nic.irq-affinity[eth4/vector0]", "nic.irq-affinity[eth4/vector1]"]);
    assert_eq!(ids("memory.huge-pages"), ["memory.huge-pages[node0/2048kB]"]);
    assert_eq!(ids("cpu.governor").len(), 4);
    assert_eq!(ids("cpu.idle.disabled").len(), 8);
    assert_eq!(ids("irq.irqbalance"), ["irq.irqbalance"]);
    assert_eq!(ids("cpu.isolated"), ["cpu.isolated[controller]", "cpu.isolated"]);
    assert_eq!(ids("cpu.isolated.cgroup"), ["cpu.isolated.cgroup[controller]", "cpu.isolated.cgroup"]);
    let two = located("cpu.governor", Some(CpuSet::from_list("2-3").unwrap())).unwrap();
    assert_eq!(two[0].id, "cpu.governor[cpu2]");
    assert_eq!((two.len(), &two[1].part), (2, &Part::Cpu(3)));
    let state = &located("cpu.idle.disabled", None).unwrap()[1];
    assert_eq!(state.part, Part::IdleState { cpu: 0, state: "C6".into(), exit_latency_us: Some(133) });
}

#[test]
fn setting_that_no_write_changes_gives_its_reason() {
    let reason = |id| located(id, None).unwrap_err();
    assert!(matches!(reason("cpu.dma-latency-us"), NotAtRunTime::NeedsHolder { .. }));
    assert!(
        reason("cpu.dma-latency-us").to_string().contains("run nearwire tune hold, or nearwire tune hold -- PROGRAM")
    );
    assert!(matches!(reason("boot.isolcpus"), NotAtRunTime::Class { .. }));
    assert!(matches!(reason("kernel.timer_migration"), NotAtRunTime::Absent { .. }));
    assert!(matches!(reason("service.tuned.profile"), NotAtRunTime::NoWriter { .. }));
    assert!(matches!(reason("nic.carrier"), NotAtRunTime::NoWriter { .. }));
    // Absent, as if the device lacked it, is what it was told to be.
    assert!(reason("nic.ring.tx-push").to_string().contains("only the netlink form of ethtool"));
    let tree = tree();
    let path = tree.path().join("sys/module/kvm/parameters/halt_poll_ns");
    let mut mode = std::fs::metadata(&path).unwrap().permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(&path, mode).unwrap();
    let root = Root::directory(tree.path()).unwrap();
    let setting = catalogue::setting("kvm.halt-poll-ns").unwrap();
    let found = targets(&root, setting, &Scope { interfaces: &[], cpus: None });
    assert!(matches!(found, Err(NotAtRunTime::NeedsReload { .. })), "{found:?}");
}

/// Every setting of a class that is written at run time has a way to be written or a stated reason.
#[test]
fn every_run_time_setting_is_written_or_says_why_not() {
    let tree = tree();
    let root = Root::directory(tree.path()).unwrap();
    let interfaces = ["eth4".to_owned()];
    let mut without = Vec::new();
    for setting in catalogue::settings() {
        let is_run_time = matches!(
            setting.write,
            Write::File | Write::Sysctl | Write::Ethtool | Write::Irq | Write::Service | Write::Module | Write::Cgroup
        );
        let found = targets(&root, setting, &Scope { interfaces: &interfaces, cpus: None });
        match found {
            Err(NotAtRunTime::Class { .. }) => assert!(!is_run_time, "{}", setting.id),
            Err(NotAtRunTime::NoWriter { .. }) => without.push(setting.id),
            Ok(_) => assert!(is_run_time, "{}", setting.id),
            Err(_) => {}
        }
    }
    let numbers =
        ["nic.ring.", "nic.coalesce.", "nic.rss.", "nic.private-flags", "nic.module", "nic.frame", "nic.devlink"];
    for id in ["cpu.turbo", "cpu.governor", "nic.irq-affinity", "memory.thp", "net.core.busy_read", "nic.offload.gro"] {
        assert!(!without.contains(&id), "{id} has no writer");
    }
    let ethtool = without.iter().filter(|id| numbers.iter().any(|start| id.starts_with(start)));
    // Those that only the netlink form of ethtool knows.
    assert!(ethtool.count() <= 14, "{without:?}");
    assert!(without.len() < 60, "{} without a writer: {without:?}", without.len());
}

#[test]
fn change_prints_as_shell_and_as_its_inverse() {
    let turbo = Form::Switch { on: "0".into(), off: "1".into() };
    let rows = [
        (sysctl("net.core.busy_read"), "0", "50", "sysctl -w net.core.busy_read=50", "sysctl -w net.core.busy_read=0"),
        (
            Target::File { path: "/sys/devices/system/cpu/intel_pstate/no_turbo".into(), form: turbo },
            "on",
            "off",
            "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo",
            "echo 0 > /sys/devices/system/cpu/intel_pstate/no_turbo",
        ),
        (
            coalesce("eth4", CoalesceField::RxUsecs),
            "50",
            "0",
            "ethtool -C eth4 rx-usecs 0",
            "ethtool -C eth4 rx-usecs 50",
        ),
        (
            Target::InterfaceFile { device: device("eth4"), file: "queues/rx-0/rps_cpus".into(), form: Form::CpuMask },
            "none",
            "2-3",
            "echo 0000000c > /sys/class/net/eth4/queues/rx-0/rps_cpus",
            "echo 00000000 > /sys/class/net/eth4/queues/rx-0/rps_cpus",
        ),
        (
            Target::Link { device: device("eth4"), attribute: LinkAttribute::TxQueueLength },
            "1000",
            "10",
            "ip link set dev eth4 txqueuelen 10",
            "ip link set dev eth4 txqueuelen 1000",
        ),
        (
            Target::Service { unit: "irqbalance.service".into() },
            "running",
            "stopped",
            "systemctl stop irqbalance.service",
            "systemctl start irqbalance.service",
        ),
        (
            Target::Partition { path: "/g".into() },
            "none",
            "2-3",
            "mkdir -p /g && echo 2-3 > /g/cpuset.cpus && echo 2-3 > /g/cpuset.cpus.exclusive && \
             echo isolated > /g/cpuset.cpus.partition && cat /g/cpuset.cpus.partition",
            "echo member > /g/cpuset.cpus.partition; rmdir /g",
        ),
        (
            Target::Ethtool { device: device("eth4"), parameter: EthtoolParameter::Feature("rx-gro".into()) },
            "off, requested",
            "off",
            "ethtool -K eth4 rx-gro off",
            "ethtool -K eth4 rx-gro on",
        ),
        (
            Target::File { path: "/sys/kernel/a b".into(), form: Form::Text },
            "it's",
            "1 2",
            "echo '1 2' > '/sys/kernel/a b'",
            "echo 'it'\\''s' > '/sys/kernel/a b'",
        ),
    ];
    for (target, found, wanted, there, back) in rows {
        let change = change("x", target, found, wanted);
        assert_eq!(change.shell(), format!("{there}  # x, was {found}"));
        assert_eq!(change.inverse_shell(), format!("{back}  # x, as found"));
    }
}

#[test]
fn words_a_place_cannot_have_are_refused_with_what_it_wants() {
    let irq = vector("eth4", 0);
    assert_eq!(irq.normal("3,1,2").as_deref(), Ok("1-3"));
    assert!(irq.normal("none").is_err());
    assert!(coalesce("eth4", CoalesceField::RxUsecs).normal("fast").is_err());
    assert_eq!(coalesce("eth4", CoalesceField::AdaptiveRx).normal("0").as_deref(), Ok("off"));
    let unit = Target::Service { unit: "u".into() };
    assert_eq!(unit.normal("stopped, disabled").as_deref(), Ok("stopped"));
    assert_eq!(unit.normal("off").as_deref(), Ok("stopped"));
    assert!(unit.normal("masked").unwrap_err().to_string().contains("running or stopped"));
    let pause = Target::Ethtool { device: device("e"), parameter: EthtoolParameter::Pause };
    assert!(pause.normal("both").is_err());
    assert!(irq.same("0-3", "3,2,1,0"));
}

#[test]
fn live_host_has_places_for_what_it_has() {
    let root = Root::live().unwrap();
    let interfaces = ["lo".to_owned()];
    let scope = Scope { interfaces: &interfaces, cpus: None };
    let mut host = RootHost::new(Root::live().unwrap());
    let mut read = 0;
    for setting in catalogue::settings().filter(|setting| setting.write != Write::Service) {
        for located in targets(&root, setting, &scope).unwrap_or_default() {
            assert!(located.id.starts_with(setting.id), "{}", located.id);
            // What can be read can be wanted as it is.
            if let Ok(found) = host.read(&located.target) {
                let normal = located.target.normal(&found);
                assert!(located.target.same(&found, normal.as_deref().unwrap_or("")), "{} {found:?}", located.id);
                read += 1;
            }
        }
    }
    assert!(read > 10, "{read}");
}

#[test]
fn agreement_on_pause_frames_ends_before_they_are_switched_off() {
    let change = |id: &str, parameter| Change {
        id: format!("{id}[e]"),
        target: Target::Ethtool { device: device("e"), parameter },
        found: "on".to_owned(),
        wanted: "off".to_owned(),
    };
    let mut changes =
        [change("nic.pause", EthtoolParameter::Pause), change("nic.pause.autoneg", EthtoolParameter::PauseAutoneg)];
    put_in_order(&mut changes);
    assert_eq!(changes.map(|change| change.id), ["nic.pause.autoneg[e]", "nic.pause[e]"]);
}
