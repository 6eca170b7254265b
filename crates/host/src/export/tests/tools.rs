//! Exports shown to the tools that will read them, and some of them applied where they harm nobody.

use std::fs;
use std::path::Path;
use std::process::Command;

use nearwire_lab::{Cable as _, Namespace, VirtualCable, VirtualCableOptions};
use proptest::test_runner::{Config, TestRunner};

use super::super::{Verdict, validate};
use super::*;

/// Whether nothing may be skipped.
fn is_required() -> bool {
    std::env::var_os("NEARWIRE_REQUIRE").is_some()
}

fn skip(why: &str) {
    assert!(!is_required(), "NEARWIRE_REQUIRE is set, but: {why}");
    println!("SKIP {why}");
}

/// Whether namespaces can be made and the programs are there; says what is missing.
fn usable(programs: &[&str]) -> bool {
    if let Err(error) = Namespace::new() {
        skip(&error.to_string());
        return false;
    }
    let missing = programs
        .iter()
        .find(|program| Command::new(program).env("LC_ALL", "C.UTF-8").arg("--version").output().is_err());
    if let Some(program) = missing {
        skip(&format!("{program} is not installed"));
    }
    missing.is_none()
}

/// Writes an export below a directory and asks the tools. None may refuse a file, and with
/// `NEARWIRE_REQUIRE` each must have been asked.
fn accepted(export: &Export) {
    let directory = tempfile::tempdir().unwrap();
    export.write_below(directory.path()).unwrap();
    for verdict in validate(directory.path()).unwrap() {
        match verdict {
            Verdict::Accepted { .. } => {}
            Verdict::Refused { path, tool, said } => {
                let text = fs::read_to_string(directory.path().join(path.trim_start_matches('/')));
                panic!("{tool} refuses {path}: {said}\n{}", text.unwrap_or_default())
            }
            // systemd reads its own options only when it starts.
            Verdict::NotChecked { path, .. } if path.contains("/system.conf.d/") => {}
            Verdict::NotChecked { path, why } => skip(&format!("{path}: {why}")),
            Verdict::NotRun { path, tool, said } => panic!("{tool} could not run on {path}: {said}"),
        }
    }
}

#[test]
fn whole_catalogue_exported_is_accepted_by_the_tools() {
    let goals = all_goals();
    for format in Format::ALL {
        accepted(&exported(format, &goals));
        accepted(&with_pci(format, &goals));
    }
}

#[test]
fn hostile_goals_exported_are_accepted_by_the_tools() {
    let mut runner = TestRunner::new(Config { cases: if is_required() { 6 } else { 2 }, ..Config::default() });
    let goals = prop::collection::vec(any_goal(), 20..80);
    runner
        .run(&goals, |goals| {
            for format in Format::ALL {
                accepted(&with_pci(format, &goals));
            }
            Ok(())
        })
        .unwrap();
    assert!(!Path::new("/tmp/nearwire-pwned").exists());
}

/// The asking is worth something only if a broken file is refused.
#[test]
fn file_with_a_broken_line_is_refused() {
    let goals = all_goals();
    for format in Format::ALL {
        let mut export = with_pci(format, &goals);
        for file in &mut export.files {
            file.text += "\n)broken\nBroken=1\n";
        }
        let directory = tempfile::tempdir().unwrap();
        export.write_below(directory.path()).unwrap();
        for verdict in validate(directory.path()).unwrap() {
            match verdict {
                Verdict::Accepted { path, tool } => panic!("{tool} takes {path} with a broken line"),
                Verdict::Refused { .. } => {}
                Verdict::NotChecked { path, .. } if path.contains("/system.conf.d/") => {}
                Verdict::NotChecked { path, why } => skip(&format!("{path}: {why}")),
                Verdict::NotRun { path, tool, said } => panic!("{tool} could not run on {path}: {said}"),
            }
        }
    }
}

/// What `update-grub` would put on the command line, by the shell that it is.
fn command_line(export: &Export, before: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    export.write_below(directory.path()).unwrap();
    let script = "GRUB_CMDLINE_LINUX=$2 GRUB_CMDLINE_LINUX_DEFAULT='quiet splash isolcpus=7'; . \"$1\"; . \"$1\"; \
                  printf '%s' \"$GRUB_CMDLINE_LINUX|$GRUB_CMDLINE_LINUX_DEFAULT\"";
    let file = directory.path().join("etc/default/grub.d/90-nearwire.cfg");
    let output = Command::new("/bin/sh").args(["-eu", "-c", script, "sh"]).arg(file).arg(before).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn words_of_the_command_line_are_replaced_and_not_doubled() {
    let goals = [
        goal("boot.isolcpus", None, "2-3"),
        goal("boot.nosmt", None, "off"),
        goal("boot.default_hugepagesz", None, "1G"),
        goal("boot.hugepages", None, "16"),
    ];
    let export = exported(Format::Grub, &goals);
    let found = command_line(
        &export,
        "root=/dev/sda1 isolcpus=1 nosmt=force hugepagesz=2M hugepages=3 dyndbg=\"file a.c +p\" x=*",
    );
    let expected =
        "root=/dev/sda1 dyndbg=\"file a.c +p\" x=* isolcpus=2-3 default_hugepagesz=1G hugepages=16|quiet splash";
    assert_eq!(found, expected);
    assert_eq!(command_line(&export, ""), "isolcpus=2-3 default_hugepagesz=1G hugepages=16|quiet splash");
}

#[test]
fn kernel_parameters_applied_in_a_namespace_have_the_values() {
    let wanted = [
        ("net.ipv4.tcp_rmem", "4096 65536 1048576"),
        ("net.ipv4.tcp_slow_start_after_idle", "off"),
        ("net.ipv4.tcp_notsent_lowat", "16384"),
        ("net.core.rps_default_mask", "0-1"),
        ("net.core.somaxconn", "1234"),
    ];
    let goals: Vec<_> = wanted.iter().map(|(id, value)| goal(id, None, value)).collect();
    let directory = tempfile::tempdir().unwrap();
    exported(Format::Sysctl, &goals).write_below(directory.path()).unwrap();
    if !usable(&["sysctl"]) {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let entered = namespace.enter(|| {
        // Programs start in the namespace of the thread, and `/proc/sys/net` is that of the reader.
        let sysctl = |arguments: &[&str]| Command::new("sysctl").args(arguments).output().unwrap();
        let file = directory.path().join("etc/sysctl.d/90-nearwire.conf");
        let output = sysctl(&["-p", file.to_str().unwrap()]);
        let read = || {
            wanted.map(|(id, _)| {
                let text = String::from_utf8(sysctl(&["-n", id]).stdout).unwrap();
                text.split_whitespace().collect::<Vec<_>>().join(" ")
            })
        };
        let found = read();
        validate(directory.path()).unwrap();
        assert_eq!(read(), found, "values after a validation");
        (output, found)
    });
    let (output, found) = match entered {
        Ok(done) => done,
        Err(error) => return skip(&error.to_string()),
    };
    assert!(output.status.success(), "{output:?}");
    assert_eq!(found, ["4096 65536 1048576", "0", "16384", "3", "1234"]);
}

#[test]
fn files_written_at_boot_have_the_texts() {
    let root = tempfile::tempdir().unwrap();
    let files = [
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        "sys/devices/system/cpu/cpu13/cpufreq/scaling_governor",
        "sys/devices/system/cpu/cpu13/power/pm_qos_resume_latency_us",
        "sys/devices/system/cpu/cpufreq/boost",
        "sys/devices/virtual/workqueue/cpumask",
        "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages",
        "proc/irq/default_smp_affinity",
    ];
    for file in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Files of the kernel have no end that a shorter text could leave.
        fs::write(path, "").unwrap();
    }
    let mut latency = goal("cpu.pm-qos-resume-latency-us", None, "n/a");
    latency.cpus = CpuSet::from_list("13").ok();
    let goals = [
        goal("cpu.governor", None, "performance"),
        latency,
        goal("cpu.turbo", None, "off"),
        goal("cpu.workqueue-affinity", None, "0,33"),
        goal("memory.huge-pages", None, "node0 2048kB: 16 of 16 free"),
        goal("irq.default-affinity", None, "0-1"),
    ];
    exported(Format::Systemd, &goals).write_below(root.path()).unwrap();
    let run = Command::new("systemd-tmpfiles")
        .arg("--create")
        .arg(format!("--root={}", root.path().display()))
        .arg(root.path().join("etc/tmpfiles.d/90-nearwire.conf"))
        .output();
    let output = match run {
        Ok(output) => output,
        Err(error) => return skip(&format!("systemd-tmpfiles: {error}")),
    };
    assert!(output.status.success(), "{output:?}");
    let found = files.map(|file| fs::read_to_string(root.path().join(file)).unwrap());
    assert_eq!(found, ["performance", "performance", "n/a", "0", "2,00000001", "16", "3"]);
}

/// All tasks but those of units and commands are decided by looking; nothing is changed.
#[test]
fn playbook_run_with_check_fails_nowhere() {
    if !usable(&["ansible-playbook"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    with_pci(Format::Ansible, &all_goals()).write_below(directory.path()).unwrap();
    let output = Command::new("ansible-playbook")
        .env("LC_ALL", "C.UTF-8")
        .args(["--check", "--inventory", "localhost,", "--connection", "local", "-e", "ansible_become=false"])
        .arg(directory.path().join("etc/ansible/nearwire.yml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("failed=0"), "{said}");
    assert!(!Path::new("/etc/sysctl.d/90-nearwire.conf").exists());
}

/// The service that follows a link, with a link that comes up and programs that stand for the
/// kernel's answers.
#[test]
fn script_for_interrupts_names_what_it_could_not_move_and_ends_with_the_link() {
    let goals = [goal("nic.irq-affinity", Some("nowhere0"), "1")];
    let export = exported(Format::Systemd, &goals);
    let unit = text_of(&export, "nearwire-irq@nowhere0.service");
    assert!(unit.contains("ExecStart=/usr/local/lib/nearwire/link-interrupts nowhere0 1\n"), "{unit}");
    let directory = tempfile::tempdir().unwrap();
    export.write_below(directory.path()).unwrap();
    let script = directory.path().join("usr/local/lib/nearwire/link-interrupts");
    // `ip` says that there is no such interface and ends, and the script with it.
    let output = Command::new("timeout").arg("20").arg(script).args(["nowhere0", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// The service that follows a link, with files that stand for the kernel's and a link that really
/// comes up.
#[test]
fn interrupts_made_anew_when_the_link_comes_up_are_moved_again() {
    const BED: &str = "
        ip link add v0 type veth peer name v1
        mount -t tmpfs none /sys/class/net && mkdir -p /sys/class/net/v0/device/msi_irqs
        mount -t tmpfs none /proc/irq
        for irq in 24 25; do
            touch /sys/class/net/v0/device/msi_irqs/$irq
            mkdir /proc/irq/$irq && echo 0-7 > /proc/irq/$irq/smp_affinity_list
        done
        \"$1\" v0 3 &
        moved() {
            for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
                [ \"$(cat /proc/irq/2?/smp_affinity_list | tr '\\n' ' ')\" = '3 3 ' ] && return
                sleep 0.5
            done
            echo \"$1: not moved\" >&2
            exit 1
        }
        moved 'at the start'
        for irq in 24 25; do echo 0-7 > /proc/irq/$irq/smp_affinity_list; done
        ip link set v1 up && ip link set v0 up
        moved 'when the link came up'
    ";
    let directory = tempfile::tempdir().unwrap();
    exported(Format::Systemd, &[goal("nic.irq-affinity", Some("v0"), "3")]).write_below(directory.path()).unwrap();
    if !usable(&["unshare", "ip"]) {
        return;
    }
    // All that is started here ends with the first process of its PID namespace.
    let output = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-euc", BED, "sh"])
        .arg(directory.path().join("usr/local/lib/nearwire/link-interrupts"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The commands of the service of an interface, run on one end of a virtual cable.
#[test]
fn commands_of_an_interface_run_on_a_cable_have_their_effect() {
    if !usable(&["ethtool", "tc"]) {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let end = &cable.pair().near;
    let name = end.interface.as_str();
    let wanted = [
        ("nic.offload.gro", "off"),
        ("nic.offload.tso", "off"),
        ("nic.offload.tx-checksum", "off"),
        ("nic.qdisc", "pfifo"),
    ];
    let goals: Vec<_> = wanted.iter().map(|(id, value)| goal(id, Some(name), value)).collect();
    let unit = text_of(&exported(Format::Systemd, &goals), ".service");
    let settings: Vec<_> = goals.iter().map(|goal| goal.setting).collect();
    let found = end.namespace.enter(|| {
        for command in unit.lines().filter_map(|line| line.strip_prefix("ExecStart=-")) {
            let words: Vec<_> = command.split(' ').collect();
            let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
            assert!(output.status.success(), "{command}: {output:?}");
        }
        crate::read_settings(&crate::Root::live().unwrap(), &settings, &[name.to_owned()])
    });
    let found: Vec<_> =
        found.unwrap().into_iter().map(|(_, reading)| reading.as_value().unwrap_or_default().to_owned()).collect();
    assert_eq!(found, wanted.map(|(_, value)| value));
}

/// A playbook run for real, on a directory and a network namespace that are thrown away.
#[test]
fn playbook_run_twice_changes_nothing_the_second_time() {
    const BED: &str = "mount -t tmpfs none /etc/sysctl.d
        for run in 1 2; do
            ansible-playbook --inventory localhost, --connection local -e ansible_become=false \"$1\"
        done
        sysctl -n net.ipv4.tcp_notsent_lowat";
    let directory = tempfile::tempdir().unwrap();
    let goals = [goal("net.ipv4.tcp_notsent_lowat", None, "16384")];
    exported(Format::Ansible, &goals).write_below(directory.path()).unwrap();
    if !usable(&["unshare", "ansible-playbook", "sysctl"]) {
        return;
    }
    let output = Command::new("unshare")
        .env("LC_ALL", "C.UTF-8")
        .args(["--net", "--mount", "sh", "-euc", BED, "sh"])
        .arg(directory.path().join("etc/ansible/nearwire.yml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let changed: Vec<_> = said.match_indices("changed=").map(|(at, word)| &said[at + word.len()..][..1]).collect();
    assert_eq!((changed.len(), changed.last()), (2, Some(&"0")), "{said}");
    assert_ne!(changed[0], "0", "{said}");
    assert!(said.trim_end().ends_with("16384"), "{said}");
}

#[test]
fn units_enabled_are_wanted_by_the_device_and_by_the_boot() {
    let root = tempfile::tempdir().unwrap();
    let goals = [goal("nic.threaded", Some("my-nic"), "on"), goal("cpu.governor", None, "performance")];
    let export = exported(Format::Systemd, &goals);
    export.write_below(root.path()).unwrap();
    for command in export.after.iter().filter_map(|command| command.strip_prefix("systemctl enable --now ")) {
        let run = Command::new("systemctl")
            .arg(format!("--root={}", root.path().display()))
            .args(["enable", command])
            .output();
        match run {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(error) => return skip(&format!("systemctl: {error}")),
        }
    }
    let units = root.path().join("etc/systemd/system");
    let wants = [
        r"sys-subsystem-net-devices-my\x2dnic.device.wants/nearwire-link@my-nic.service",
        "multi-user.target.wants/nearwire-tune.service",
    ];
    for want in wants {
        assert!(units.join(want).is_symlink(), "{want}: {:?}", fs::read_dir(&units).unwrap().collect::<Vec<_>>());
    }
}

/// The marks of an interface without a place on the bus, read by udev itself.
#[test]
fn interface_known_by_its_name_is_marked_by_udev() {
    const LOOK: &str = "mount --bind \"$1\" /etc/udev/rules.d && mount -t tmpfs none /run && mkdir /run/udev && mount -t sysfs none /sys && \
                        exec udevadm test --action=add /sys/class/net/lo";
    let directory = tempfile::tempdir().unwrap();
    let goals = [goal("nic.offload.gro", Some("lo"), "off")];
    exported(Format::Udev, &goals).write_below(directory.path()).unwrap();
    if !usable(&["unshare", "udevadm"]) {
        return;
    }
    let output = Command::new("unshare")
        .args(["--net", "--mount", "sh", "-c", LOOK, "sh"])
        .arg(directory.path().join("etc/udev/rules.d"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("run: '/usr/sbin/ethtool -K lo gro off'"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A machine without udevd, as containers are and machines just installed.
#[test]
fn files_are_shown_to_udevadm_where_run_udev_does_not_exist() {
    if !usable(&["unshare", "udevadm", "systemd-analyze"]) {
        return;
    }
    let own = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", "mount -t tmpfs none /run && exec \"$@\"", "sh"])
        .arg(own)
        .args(["--exact", "export::tests::tools::whole_catalogue_exported_is_accepted_by_the_tools"])
        .args(["export::tests::tools::interface_known_by_its_name_is_marked_by_udev"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("2 passed"), "{said}");
}
