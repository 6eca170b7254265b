//! The command on a host whose hardware and boot options the test decides.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;

use nearwire_lab::EmulatedHost;

use common::emulated::{
    assert_same, assert_settings, booted_or_skip, changed, hardware, rebooted_as_exported, setting, settings_now,
};
use common::tuning::{JOURNAL, WANTED, differences, exits, files, findings, plan, take_back};

#[test]
fn profile_applied_and_exported_outlives_a_boot_and_goes_back_without_a_trace() {
    let Some(mut host) = booted_or_skip(&hardware(), "") else {
        return;
    };
    wait_for_link(&mut host);
    let (untuned, untuned_settings) = (files(&mut host), settings_now(&mut host));
    hardware_is_told(&untuned_settings);
    plan(&mut host);
    let inside = exits(&mut host, &format!("nearwire check {WANTED} --json"), 1);
    snapshot_tells_the_same(&mut host, &inside);

    let applied = exits(&mut host, &format!("nearwire tune apply --yes {WANTED}"), 0);
    assert!(applied.contains("written and read back"), "{applied}");
    let tuned = files(&mut host);
    assert_eq!(tuned.get("/proc/sys/net/core/busy_poll"), Some("50"));
    assert_eq!(tuned.get("/sys/kernel/mm/transparent_hugepage/enabled"), Some("always madvise [never]"));
    watch_holds(&mut host);
    assert_same(&tuned, &files(&mut host), "after watch held what was applied");

    export(&mut host);
    let options = host.exported_command_line().unwrap();
    host.reboot_with(&options).unwrap();
    exported_services_keep_interrupts(&mut host);
    let check = host.run(&format!("nearwire check {WANTED} --json")).unwrap();
    assert_eq!(
        differences(&findings(&check.text())),
        [""; 0],
        "after a boot with what was exported\n{}",
        host.console()
    );
    assert_eq!(check.status, 0);
    // The same by the files alone, until one value is lost.
    let verified = exits(&mut host, "nearwire tune verify", 0);
    assert!(verified.lines().count() == 1 && verified.contains("exported values are in force."), "{verified}");
    let lost = exits(&mut host, "echo 0 > /proc/sys/net/core/busy_poll; nearwire tune verify", 1);
    assert!(lost.contains("net.core.busy_poll: 50 in /etc/sysctl.d/90-nearwire.conf, and 0 on this host"), "{lost}");
    exits(&mut host, "echo 50 > /proc/sys/net/core/busy_poll", 0);

    // The other way round an exported service may send interrupts back while a revert resets their device.
    take_back(&mut host);
    // What outlived the boot may have been made permanent by somebody else: it is put back when that is said.
    exits(&mut host, "nearwire tune revert --yes", 4);
    exits(&mut host, "nearwire tune revert --yes --permanent revert", 0);
    is_closed(&mut host);
    let reverted = rebooted_as_exported(&mut host);
    assert_same(&untuned, &reverted, "after revert, the removal of the exported files and a boot");
    wait_for_link(&mut host);
    assert_eq!(changed(&untuned_settings, &settings_now(&mut host)), [""; 0]);
}

#[test]
fn apply_that_is_broken_off_goes_back_whatever_broke_it_off() {
    let options = "idle=mwait nosuchoption";
    let Some(mut host) = booted_or_skip(&hardware(), options) else {
        return;
    };
    bad_options_are_told(&mut host);
    plan(&mut host);
    let untuned = files(&mut host);
    confirmation_decides(&mut host);
    assert_same(&untuned, &files(&mut host), "after what was confirmed was reverted");

    for point in [1, 1 + random_below(20)] {
        let when = format!("kill -9 of apply at write {point}");
        stopped_at(&mut host, point);
        exits(&mut host, "kill -9 $(cat /tmp/pid)", 0);
        let told = exits(&mut host, "nearwire tune status", 1);
        assert!(told.contains("was interrupted") && told.contains("nearwire tune revert"), "{when}: {told}");
        exits(&mut host, "nearwire tune revert --yes", 0);
        assert_same(&untuned, &files(&mut host), &when);
        is_closed(&mut host);
    }

    let point = 1 + random_below(20);
    stopped_at(&mut host, point);
    host.power_off_hard();
    host.power_on(options).unwrap();
    let when = format!("power cut at write {point}");
    let told = exits(&mut host, "nearwire tune status", 1);
    assert!(told.contains("was interrupted") && told.contains("was booted since"), "{when}: {told}");
    exits(&mut host, "nearwire tune revert --yes", 0);
    assert_same(&untuned, &files(&mut host), &when);
    is_closed(&mut host);
}

/// What is wanted of the first threads of the cores, which are those with even numbers, and of the second ones too.
const WITHOUT_SECOND_THREADS: &str = "\
purpose = 'One thread a core'
[[wish]]
setting = 'cpu.smt'
equal = 'off'
[[wish]]
setting = 'nic.irq-affinity'
cpus-equal = '4'
when = { driver = ['e1000e'] }
[[wish]]
setting = 'nic.rps-cpus'
cpus-equal = '2-3'
when = { driver = ['virtio_net'] }
[[wish]]
setting = 'cpu.pm-qos-resume-latency-us'
equal = 1
[[wish]]
setting = 'cpu.isolated'
cpus-equal = '6-7'
";

/// A profile of these wishes, and the command that applies it.
fn apply_of(host: &mut EmulatedHost, wishes: &str) -> String {
    let text = wishes.replace("[[wish]]\n", "[[wish]]\nreason = 'It is tested.'\nsource = 'a test'\n");
    host.write_file("/root/threads.toml", text.as_bytes()).unwrap();
    "nearwire tune apply --yes --profile /root/threads.toml --nic nic0 --nic nic2".to_owned()
}

#[test]
fn second_threads_switched_off_take_their_values_along_and_all_come_back() {
    let Some(mut host) = booted_or_skip(&hardware(), "") else {
        return;
    };
    wait_for_link(&mut host);
    let untuned = files(&mut host);
    assert_settings(
        &settings_now(&mut host),
        &[("cpu.smt", "on"), ("cpu.online", "0-7"), ("cpu.isolated.cgroup", "none")],
    );
    // A value that the kernel does not take, written after the threads went offline: they come back.
    let refused = format!("{WITHOUT_SECOND_THREADS}[[wish]]\nsetting = 'vm.swappiness'\nequal = 100000\n");
    let apply = apply_of(&mut host, &refused);
    let told = exits(&mut host, &apply, 4);
    assert!(told.contains("vm.swappiness") && told.contains("everything is as it was"), "{told}");
    assert_same(&untuned, &files(&mut host), "after an apply that failed when threads were offline");
    is_closed(&mut host);

    let apply = apply_of(&mut host, WITHOUT_SECOND_THREADS);
    let told = exits(&mut host, &apply, 0);
    assert!(told.contains("CPU 1 goes offline with cpu.smt = off of the same plan"), "{told}");
    let tuned = settings_now(&mut host);
    assert_settings(&tuned, &[("cpu.smt", "off"), ("cpu.isolated.cgroup", "6"), ("nic.rps-cpus[nic2]", "2")]);
    let online = "cat /sys/devices/system/cpu/online /sys/devices/system/cpu/cpu[0-7]/power/pm_qos_resume_latency_us";
    let online = exits(&mut host, online, 0);
    assert_eq!(
        online.split_whitespace().collect::<Vec<_>>(),
        ["0,2,4,6", "1", "0", "1", "0", "1", "0", "1", "0"],
        "{online}"
    );
    exits(&mut host, "nearwire tune status", 0);
    exits(&mut host, "nearwire tune revert --yes", 0);
    assert_same(&untuned, &files(&mut host), "after the threads came back");
    assert_settings(&settings_now(&mut host), &[("cpu.online", "0-7"), ("cpu.isolated.cgroup", "none")]);
    is_closed(&mut host);
}

/// Starts an apply and stops the process once so many writes were announced.
fn stopped_at(host: &mut EmulatedHost, point: usize) {
    let script = format!(
        "nearwire tune apply --yes {WANTED} >/tmp/log 2>&1 & echo $! >/tmp/pid; \
         until [ \"$(grep -c '\"intent\"' {JOURNAL} 2>/dev/null)\" -ge {point} ] 2>/dev/null; do \
         kill -0 $! 2>/dev/null || {{ cat /tmp/log; exit 1; }}; done; kill -STOP $!; grep -c complete {JOURNAL} || true"
    );
    assert_eq!(exits(host, &script, 0).trim(), "0", "apply was stopped before its end");
}

fn is_closed(host: &mut EmulatedHost) {
    assert!(exits(host, "nearwire tune status", 0).contains("No change of nearwire is in effect"));
    exits(host, &format!("[ ! -e {JOURNAL} ]"), 0);
}

fn random_below(limit: u32) -> usize {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    (since.subsec_micros() % limit) as usize
}

/// With `--confirm`, values go back by themselves, or stay when somebody says so.
fn confirmation_decides(host: &mut EmulatedHost) {
    let small = "purpose = 'Two values'\n[[wish]]\nsetting = 'vm.swappiness'\nat-most = 10\nreason = 'a'\nsource = 'a'\n\
                 [[wish]]\nsetting = 'memory.thp'\nequal = 'never'\nreason = 'a'\nsource = 'a'\n";
    host.write_file("/root/small.toml", small.as_bytes()).unwrap();
    let untuned = files(host);
    let apply = "nearwire tune apply --yes --profile /root/small.toml --confirm";
    let told = exits(host, &format!("{apply} 3s"), 4);
    assert!(told.contains("nobody confirmed within 3s, so these values were put back"), "{told}");
    assert_same(&untuned, &files(host), "after nobody confirmed");

    // The log is made first: a look at it can come before the shell in the background has made it.
    let script = format!(
        ": >/tmp/log; {apply} 1m >/tmp/log 2>&1 & pid=$!; until grep -q 'These values are put back in' /tmp/log; do sleep 0.2; done; \
         nearwire tune confirm && wait $pid && cat /tmp/log /proc/sys/vm/swappiness"
    );
    let told = exits(host, &script, 0);
    assert!(told.contains("Confirmed: the values stay.") && told.trim().ends_with("10"), "{told}");
    exits(host, "nearwire tune status", 0);
    exits(host, "nearwire tune revert --yes", 0);
}

/// What a link that goes down and a driver that starts anew lose is written again; Ctrl-C ends it.
fn watch_holds(host: &mut EmulatedHost) {
    host.output_of(": >/tmp/watch; nearwire tune watch --interval 2s >/tmp/watch 2>&1 & echo $! >/tmp/pid").unwrap();
    wait_for(host, "Watching what nearwire tune apply wrote");
    host.output_of("ip link set nic0 down; ip link set nic0 up").unwrap();
    wait_for(host, "nic.irq-affinity[nic0/vector0] .*written again");
    let driver = "cd /sys/bus/pci/drivers/e1000e; device=$(basename $(readlink -f /sys/class/net/nic0/device)); \
                  echo $device > unbind; echo $device > bind; \
                  ip link set $(ls /sys/bus/pci/devices/$device/net) name nic0 up";
    host.output_of(driver).unwrap();
    wait_for(host, "nic.coalesce.rx-usecs[nic0] .*written again");
    wait_for(host, "nic.ring.rx[nic0] .*written again");
    // Until the link is there and nothing more is found to have drifted.
    wait_for_link(host);
    exits(host, "nearwire tune status || { sleep 6; nearwire tune status; }", 0);
    exits(host, "pid=$(cat /tmp/pid); kill -INT $pid; while kill -0 $pid 2>/dev/null; do sleep 0.2; done", 0);
}

/// The link of this driver comes up a second or two after its interface.
fn wait_for_link(host: &mut EmulatedHost) {
    exits(host, "for i in $(seq 60); do grep -q 1 /sys/class/net/nic0/carrier && exit; sleep 0.3; done; exit 1", 0);
}

/// Waits until the watch says it.
fn wait_for(host: &mut EmulatedHost, pattern: &str) {
    let pattern = pattern.replace('[', "\\[").replace(']', "\\]");
    let script = format!(
        "for i in $(seq 100); do grep -q '{pattern}' /tmp/watch && exit; sleep 0.3; done; cat /tmp/watch; exit 1"
    );
    exits(host, &script, 0);
}

/// Writes the files and runs what export says to run then.
fn export(host: &mut EmulatedHost) {
    let told = exits(host, &format!("nearwire tune export {WANTED} --grub --sysctl --systemd -o /"), 0);
    for command in told.lines().filter_map(|line| line.strip_prefix("# then: ")).filter(|line| *line != "reboot") {
        host.output_of(command).unwrap();
    }
    let not_kept: Vec<_> = told.lines().filter_map(|line| line.strip_prefix("# not here: ")).collect();
    assert_eq!(not_kept, [""; 0], "goals that no file keeps");
}

/// Now, and when the link comes up anew: the driver then makes its interrupts anew.
fn exported_services_keep_interrupts(host: &mut EmulatedHost) {
    let stay = |files: &str| {
        format!(
            "for i in $(seq 60); do cpus=$(for irq in $(ls {files}); do cat /proc/irq/$irq/smp_affinity_list; done \
             | sort -u | tr '\\n' ' '); [ \"$cpus\" = '2,4 ' ] && exit; sleep 0.3; done; echo \"$cpus\"; ps; exit 1"
        )
    };
    for files in ["nic0/device/msi_irqs", "nic1/device/msi_irqs", "nic2/device/../msi_irqs"] {
        exits(host, &stay(&format!("/sys/class/net/{files}")), 0);
    }
    host.output_of("ip link set nic0 down; ip link set nic0 up").unwrap();
    exits(host, &stay("/sys/class/net/nic0/device/msi_irqs"), 0);
}

/// What a snapshot of the host says outside is what the host says inside.
fn snapshot_tells_the_same(host: &mut EmulatedHost, inside: &str) {
    host.output_of("nearwire snapshot -o /tmp/host.tar.zst").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut arguments = vec!["check".to_owned(), "--json".to_owned()];
    for (option, path) in
        [("--snapshot", "/tmp/host.tar.zst"), ("--profile", "/root/emulated.toml"), ("--plan", "/root/plan.json")]
    {
        let copy = directory.path().join(path.rsplit('/').next().unwrap());
        std::fs::write(&copy, host.read_file(path).unwrap()).unwrap();
        arguments.extend([option.to_owned(), copy.to_str().unwrap().to_owned()]);
    }
    let output = std::process::Command::new(common::NEARWIRE).args(&arguments).output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let (inside, outside) = (findings(inside), findings(&page));
    assert_eq!(differences(&outside), differences(&inside));
    let outcomes = |findings: &[serde_json::Value]| -> Vec<_> {
        findings.iter().map(|finding| (finding["id"].clone(), finding["outcome"].clone())).collect()
    };
    assert_eq!(outcomes(&outside), outcomes(&inside));
}

fn hardware_is_told(settings: &BTreeMap<String, String>) {
    assert_settings(
        settings,
        &[
            ("cpu.packages", "2"),
            ("cpu.cores", "4"),
            ("cpu.smt", "on"),
            ("cpu.isolated", "none"),
            ("boot.rejected", "none"),
            ("nic.driver[nic0]", "e1000e"),
            ("nic.numa-node[nic0]", "1"),
            ("nic.local-cpus[nic0]", "4-7"),
            ("nic.numa-node[nic1]", "0"),
            ("nic.local-cpus[nic1]", "0-3"),
            ("nic.ring.rx[nic0]", "256"),
            ("nic.driver[nic2]", "virtio_net"),
            ("nic.numa-node[nic2]", "-1"),
            ("nic.channels.combined[nic2]", "2"),
        ],
    );
}

fn bad_options_are_told(host: &mut EmulatedHost) {
    // The kernel takes `mwait` on the command line and does nothing of it: only its log says so.
    assert_eq!(setting(host, "boot.idle"), "mwait");
    let rejected = setting(host, "boot.rejected");
    assert!(rejected.contains("'idle'") && rejected.contains("nosuchoption"), "{rejected}");
}
