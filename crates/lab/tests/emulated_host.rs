//! Emulated hosts: what they keep, what they lose, and what is said when one does not boot.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nearwire_lab::emulated_host::{EmulatedHostError, HostHardware, HostNic, HostSystem, NicKind};
use nearwire_lab::{EmulatedHost, emulated_or_skip};

use common::eventually;

fn system() -> HostSystem {
    HostSystem::of_target(env!("CARGO_TARGET_TMPDIR"), &[])
}

/// A host that is off, if this machine can emulate one. Otherwise the test is skipped, or fails where `NEARWIRE_REQUIRE`
/// says that nothing may be skipped.
fn host_or_skip(hardware: &HostHardware) -> Option<EmulatedHost> {
    emulated_or_skip(EmulatedHost::build(hardware, &system()))
}

#[test]
fn disk_keeps_what_was_synced_over_reboot_and_power_cut_and_nothing_else() {
    let Some(mut host) = host_or_skip(&HostHardware::default()) else {
        return;
    };
    host.power_on("").unwrap();
    let boot_id = host.output_of("cat /proc/sys/kernel/random/boot_id").unwrap();
    commands_give_their_status_and_both_outputs(&mut host);
    let megabyte: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    host.write_file("/var/lib/nearwire/journal with 'quotes'", &megabyte).unwrap();
    export_settings(&mut host);

    let options = host.exported_command_line().unwrap();
    assert_eq!(options, "isolcpus=1 first=1 second=2");
    host.reboot_with(&options).unwrap();
    assert_ne!(host.output_of("cat /proc/sys/kernel/random/boot_id").unwrap(), boot_id);
    assert!(host.output_of("cat /proc/cmdline").unwrap().ends_with(&options));
    assert_eq!(host.read_file("/sys/devices/system/cpu/isolated").unwrap(), b"1\n");
    assert_eq!(host.read_file("/var/lib/nearwire/journal with 'quotes'").unwrap(), megabyte);
    exported_settings_are_in_effect(&mut host);

    host.output_of("echo 1 >/var/lib/synced; sync; echo 2 >/var/lib/not-synced; cat /var/lib/not-synced").unwrap();
    host.power_off_hard();
    assert!(matches!(host.run("true"), Err(EmulatedHostError::PoweredOff { .. })));
    host.power_on("").unwrap();
    assert_eq!(host.output_of("cat /var/lib/synced; ls /var/lib").unwrap(), "1\nnearwire\nsynced");
}

fn commands_give_their_status_and_both_outputs(host: &mut EmulatedHost) {
    let output = host.run("printf 'a\\0b'; echo c >&2; exit 7").unwrap();
    assert_eq!((output.status, output.stdout.as_slice(), output.stderr.as_slice()), (7, &b"a\0b"[..], &b"c\n"[..]));
    let output = host.run_within("wc -c; kill -9 $$", &[b'x'; 70_000], Duration::from_secs(60)).unwrap();
    assert_eq!((output.status, output.text()), (128 + 9, "70000".to_owned()));
    let failure = host.output_of("cat /nowhere").unwrap_err().to_string();
    assert!(failure.contains("run 'cat /nowhere': status 1: cat: can't open '/nowhere'"), "{failure}");
    let refusal = host.write_file("/proc/sys/vm/overcommit_memory", b"5").unwrap_err().to_string();
    assert!(
        refusal.contains("write /proc/sys/vm/overcommit_memory") && refusal.contains("Invalid argument"),
        "{refusal}"
    );
}

/// What a host's administrator, or a tool, would leave for the next boot.
fn export_settings(host: &mut EmulatedHost) {
    for (path, text) in [
        ("/etc/sysctl.d/10-first.conf", "net.core.busy_read = 20\nnet.core.busy_poll = 20\n"),
        ("/etc/sysctl.d/20-second.conf", "# later wins\nnet.core.busy_read=50\nno.such.key=1\n"),
        ("/etc/tmpfiles.d/thp.conf", "w /sys/kernel/mm/transparent_hugepage/enabled - - - - never\n"),
        ("/etc/default/grub", "GRUB_CMDLINE_LINUX=isolcpus=1\nGRUB_CMDLINE_LINUX_DEFAULT=first=1\n"),
        ("/etc/default/grub.d/x.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT second=2\"\n"),
        (
            "/etc/systemd/system/x.service",
            "[Service]\nType=oneshot\nExecStart=-/bin/touch /run/served\n[Install]\nWantedBy=multi-user.target\n",
        ),
    ] {
        host.write_file(path, text.as_bytes()).unwrap();
    }
    host.output_of("systemctl enable x.service").unwrap();
}

fn exported_settings_are_in_effect(host: &mut EmulatedHost) {
    assert_eq!(host.output_of("cat /proc/sys/net/core/busy_read /proc/sys/net/core/busy_poll").unwrap(), "50\n20");
    let pages = host.output_of("cat /sys/kernel/mm/transparent_hugepage/enabled").unwrap();
    assert!(pages.contains("[never]"), "{pages}");
    host.output_of("ls /run/served").unwrap();
    assert!(host.console().contains("'no/such/key' is an unknown key"), "{}", host.console());
}

#[test]
fn kernel_that_panics_is_an_error_with_the_console() {
    let Some(mut host) = host_or_skip(&HostHardware::default()) else {
        return;
    };
    let error = host.power_on("rdinit=/nowhere").unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, EmulatedHostError::Ended { .. }), "{said}");
    for words in ["boot with 'rdinit=/nowhere'", "last lines of the console", "Kernel panic - not syncing"] {
        assert!(said.contains(words), "no '{words}' in: {said}");
    }
    assert!(matches!(host.run("true"), Err(EmulatedHostError::PoweredOff { .. })));
}

#[test]
fn kernel_that_hangs_is_powered_off_when_its_time_is_up() {
    let Some(mut host) = host_or_skip(&HostHardware::default()) else {
        return;
    };
    // The last panic= counts: this one waits for ever.
    let error = host.power_on_within("panic=0 rdinit=/nowhere", Duration::from_secs(3)).unwrap_err();
    assert!(error.to_string().contains("no answer in 3 s; it is powered off"), "{error}");
    assert!(matches!(host.run("true"), Err(EmulatedHostError::PoweredOff { .. })));
}

#[test]
fn arguments_that_qemu_refuses_are_an_error_with_its_words() {
    let hardware = HostHardware { processor: "abacus".to_owned(), ..HostHardware::default() };
    let Some(mut host) = host_or_skip(&hardware) else {
        return;
    };
    let said = host.power_on("").unwrap_err().to_string();
    assert!(said.contains("unable to find CPU model 'abacus'"), "{said}");
}

#[test]
fn hardware_that_cannot_be_is_refused_before_anything_is_started() {
    for (hardware, words) in [
        (HostHardware { packages: 0, ..HostHardware::default() }, "with CPUs 0"),
        (HostHardware { node_memory_mib: vec![256; 3], ..HostHardware::default() }, "with nodes 3"),
        (
            HostHardware { nics: vec![HostNic::new(NicKind::E1000e).on_node(1)], ..HostHardware::default() },
            "with an interface on node 1",
        ),
    ] {
        let said = EmulatedHost::build(&hardware, &system()).unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn kernel_that_is_not_there_is_named_with_the_way_to_get_it() {
    let system = HostSystem { kernel_directory: PathBuf::from("/nowhere"), programs: Vec::new(), files: Vec::new() };
    match EmulatedHost::build(&HostHardware::default(), &system).unwrap_err() {
        // Without QEMU there is nothing to say of a kernel.
        EmulatedHostError::MissingProgram { .. } => {}
        error => {
            assert!(error.is_missing_requirement());
            assert!(
                error.to_string().contains("no kernel in /nowhere; crates/lab/emulated-host/fetch-kernel"),
                "{error}"
            );
        }
    }
}

#[test]
fn killed_process_takes_its_host_with_it() {
    if host_or_skip(&HostHardware::default()).is_none() {
        return;
    }
    let test = std::env::current_exe().unwrap();
    let example = test.ancestors().nth(2).unwrap().join("examples/emulated_host");
    let mut command = Command::new(example);
    let mut child = command.arg(system().kernel_directory).stdout(Stdio::null()).spawn().unwrap();
    let mut emulation = None;
    for _ in 0..500 {
        emulation = emulation_of(child.id());
        if emulation.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let emulation = emulation.unwrap();
    eventually("the emulation is gone", || !Path::new(&format!("/proc/{emulation}")).exists());
}

/// The QEMU that a process started, whichever of its threads did.
fn emulation_of(process: u32) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let children =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect::<String>();
    let mut children = children.split_ascii_whitespace().filter_map(|child| child.parse().ok());
    children.find(|child| {
        fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name.starts_with("qemu-system"))
    })
}
