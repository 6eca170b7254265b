//! The command on a host whose hardware and boot options the test decides.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use nearwire_lab::EmulatedHost;
use nearwire_lab::emulated_host::FileStates;

use common::emulated::{assert_same, booted_or_skip, hardware, rebooted_as_exported, setting, tuned_and_rebooted};

#[test]
fn settings_say_what_the_hardware_is_and_which_exported_options_took_effect() {
    let Some(mut host) = booted_or_skip(&hardware(), "") else {
        return;
    };
    hardware_is_told(&mut host);
    let [untuned, exported, rebooted] = tuned_and_rebooted(&mut host, export_by_hand);
    exported_files_are_the_only_change(&untuned, &exported);
    options_are_told(&mut host);
    affinity_is_in_effect_at_once(&mut host);
    assert_eq!(rebooted.get("/proc/sys/net/core/busy_poll"), Some("50"));
    assert_eq!(rebooted.get("/proc/irq/default_smp_affinity"), Some("0f"));

    host.output_of("rm /etc/default/grub.d/nearwire.cfg /etc/sysctl.d/nearwire.conf").unwrap();
    let reverted = rebooted_as_exported(&mut host);
    assert_same(&untuned, &reverted, "after the exported files were removed and a reboot");
}

fn hardware_is_told(host: &mut EmulatedHost) {
    assert_settings(
        host,
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

fn affinity_is_in_effect_at_once(host: &mut EmulatedHost) {
    let interrupt = host.output_of("grep nic0-rx-0 /proc/interrupts | cut -d: -f1").unwrap();
    let files = format!("/proc/irq/{interrupt}/");
    assert_eq!(host.output_of(&format!("cat {files}smp_affinity_list")).unwrap(), "0-3");
    host.write_file(&format!("{files}smp_affinity_list"), b"2\n").unwrap();
    assert_eq!(host.output_of(&format!("cat {files}effective_affinity_list")).unwrap(), "2");
}

#[track_caller]
fn assert_settings(host: &mut EmulatedHost, expected: &[(&str, &str)]) {
    let told: Vec<_> = expected.iter().map(|(id, _)| (*id, setting(host, id))).collect();
    let told: Vec<_> = told.iter().map(|(id, value)| (*id, value.as_str())).collect();
    assert_eq!(told, expected);
}

fn export_by_hand(host: &mut EmulatedHost) {
    let options = "isolcpus=managed_irq,domain,6-7 nohz_full=6-7 irqaffinity=0-3 idle=mwait nosuchoption";
    let grub = format!("GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT {options}\"\n");
    host.write_file("/etc/default/grub.d/nearwire.cfg", grub.as_bytes()).unwrap();
    host.write_file("/etc/sysctl.d/nearwire.conf", b"net.core.busy_poll = 50\n").unwrap();
}

fn exported_files_are_the_only_change(untuned: &FileStates, exported: &FileStates) {
    assert!(untuned.len() > 200, "{} files", untuned.len());
    let changed: Vec<_> = untuned.changes(exported).into_iter().map(|change| change.path).collect();
    assert_eq!(changed, ["/etc/default/grub.d/nearwire.cfg", "/etc/sysctl.d/nearwire.conf"]);
}

fn options_are_told(host: &mut EmulatedHost) {
    assert_settings(
        host,
        &[
            ("cpu.isolated", "6-7"),
            ("cpu.nohz_full", "6-7"),
            ("boot.irqaffinity", "0-3"),
            // The kernel takes `mwait` on the command line and does nothing of it: only its log says so.
            ("boot.idle", "mwait"),
            ("net.core.busy_poll", "50"),
        ],
    );
    let rejected = setting(host, "boot.rejected");
    assert!(rejected.contains("'idle'") && rejected.contains("nosuchoption"), "{rejected}");
}
