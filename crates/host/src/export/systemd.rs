//! Files of systemd: what is written at boot, units, presets, options of modules.
//!
//! What belongs to interfaces is in [`super::link`].

use std::fmt::Write;

use super::form::Form;
use super::link;
use super::plan::{Entry, Plan};
use super::tmpfiles::tmpfiles_lines;
use super::unit::{After, UNITS};
use super::{File, UnitState, text};

const TMPFILES: &str = "/etc/tmpfiles.d/90-nearwire.conf";
const TUNE: &str = "nearwire-tune.service";
const LATENCY: &str = "nearwire-latency.service";
const SLICE: &str = "nearwire.slice";
const PRESET: &str = "/etc/systemd/system-preset/10-nearwire.preset";
const MODULES: &str = "/etc/modprobe.d/90-nearwire.conf";
const MANAGER: &str = "/etc/systemd/system.conf.d/90-nearwire.conf";

pub(super) fn files(plan: &Plan<'_>) -> (Vec<File>, Vec<After>) {
    let parts =
        [at_boot(plan), partition(plan), latency(plan), link::files(plan), units(plan), manager(plan), modules(plan)];
    let mut files = Vec::new();
    let mut after = Vec::new();
    for (part, commands) in parts {
        files.extend(part);
        after.extend(commands);
    }
    let has_units = files.iter().any(|file: &File| file.path.starts_with("/etc/systemd/system"));
    let reload = has_units.then_some(After::Run("systemctl daemon-reload"));
    let mut commands: Vec<After> = Vec::new();
    for command in reload.into_iter().chain(after) {
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    // What reads files anew comes before the units that rely on it, and the boot comes last.
    commands.sort_by_key(|command| match command {
        After::Run(_) => 0,
        After::Unit(..) => 1,
        After::Reboot => 2,
    });
    (files, commands)
}

type Part = (Vec<File>, Vec<After>);

/// Files of the host, by `tmpfiles.d`: early, and again once modules and file systems are there.
fn at_boot(plan: &Plan<'_>) -> Part {
    let entries = plan.of(|form| matches!(form, Form::Files(_) | Form::Cpu(..)));
    let has_partition = !plan.of(|form| matches!(form, Form::Partition(_))).is_empty();
    if entries.is_empty() && !has_partition {
        return (Vec::new(), Vec::new());
    }
    let mut files = Vec::new();
    let mut commands = String::new();
    if !entries.is_empty() {
        let take_back = format!("rm {TMPFILES}, then reboot");
        let mut file = text::header(plan.profile, "files of the kernel that are written at boot", &take_back);
        file += "# A file that this host does not have is passed over.\n\n";
        file += &text::block(entries, |entry| tmpfiles_lines(&entry.form, ""));
        files.push(File::new(TMPFILES, file));
        let _ = writeln!(commands, "ExecStart=systemd-tmpfiles --create {TMPFILES}");
    }
    if has_partition {
        let group = format!("/sys/fs/cgroup/{SLICE}/cpuset.cpus.partition");
        let _ = writeln!(commands, "ExecStart=/bin/sh -c 'echo isolated > {group}'");
        // The kernel takes the word and may say later that it could not be done.
        let _ = writeln!(commands, "ExecStart=/bin/sh -c 'read -r state < {group} && test \"$$state\" = isolated'");
    }
    let mut unit = text::header(
        plan.profile,
        "writes settings at boot",
        &format!("systemctl disable {TUNE}, rm {UNITS}/{TUNE}, then reboot"),
    );
    unit += "\n[Unit]\nDescription=Settings of nearwire\n";
    unit += "After=systemd-modules-load.service sys-kernel-debug.mount sys-kernel-tracing.mount tuned.service\n";
    if has_partition {
        let _ = write!(unit, "Requires={SLICE}\nAfter={SLICE}\n");
    }
    unit += "\n[Service]\nType=oneshot\nRemainAfterExit=yes\n";
    unit += &commands;
    unit += "\n[Install]\nWantedBy=multi-user.target\n";
    files.push(File::new(format!("{UNITS}/{TUNE}"), unit));
    (files, vec![After::Unit(TUNE.to_owned(), UnitState::Enabled)])
}

/// CPUs taken from the scheduler by a slice that is a partition.
fn partition(plan: &Plan<'_>) -> Part {
    let entries = plan.of(|form| matches!(form, Form::Partition(_)));
    if entries.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let take_back = format!("rm {UNITS}/{SLICE} and the lines of {TUNE} that name it, then reboot");
    let mut unit = text::header(plan.profile, "CPUs taken from the scheduler", &take_back);
    unit += "# Programs come onto these CPUs with Slice=nearwire.slice in their unit.\n";
    unit += "\n[Unit]\nDescription=CPUs of nearwire\n\n[Slice]\n";
    unit += &text::block(entries, |entry| match &entry.form {
        Form::Partition(cpus) => format!("AllowedCPUs={}\n", cpus.to_string().replace(',', " ")),
        _ => String::new(),
    });
    (vec![File::new(format!("{UNITS}/{SLICE}"), unit)], Vec::new())
}

/// A process that holds a request on `/dev/cpu_dma_latency`: Nearwire, which looks at the effect
/// too, or a shell. The device takes ten hexadecimal characters for a number
/// (`cpu_latency_qos_write` in `kernel/power/qos.c`).
fn latency(plan: &Plan<'_>) -> Part {
    let entries = plan.of(|form| matches!(form, Form::Latency(_)));
    if entries.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let take_back = format!("systemctl disable --now {LATENCY}, rm {UNITS}/{LATENCY}");
    let mut unit = text::header(plan.profile, "holds a request for a short wake-up", &take_back);
    unit += "\n[Unit]\nDescription=Request of nearwire for a short wake-up\n\n[Service]\n";
    unit += &text::block(entries, |entry| match &entry.form {
        Form::Latency(us) => match plan.program() {
            Some(program) => format!("ExecStart={program} tune hold --latency {us}us\n"),
            None => format!(
                "ExecStart=/bin/sh -c 'exec 3> /dev/cpu_dma_latency; printf 0x%%08x {us} >&3; exec sleep infinity'\n"
            ),
        },
        _ => String::new(),
    });
    unit += "Restart=on-failure\n\n[Install]\nWantedBy=multi-user.target\n";
    (vec![File::new(format!("{UNITS}/{LATENCY}"), unit)], vec![After::Unit(LATENCY.to_owned(), UnitState::Enabled)])
}

/// Units that are to run or not, by a preset, and variables of services.
fn units(plan: &Plan<'_>) -> Part {
    let mut files = Vec::new();
    let mut after = Vec::new();
    let entries = plan.of(|form| matches!(form, Form::Unit(..)));
    if !entries.is_empty() {
        let take_back = format!("rm {PRESET}, then systemctl enable --now, disable --now or unmask each unit");
        let mut file = text::header(plan.profile, "units that are to run or not", &take_back);
        file += "# A preset says what systemctl preset does. It changes nothing by itself.\n\n";
        file += &text::block(entries.iter().copied(), |entry| match &entry.form {
            Form::Unit(unit, UnitState::Enabled) => format!("enable {unit}\n"),
            Form::Unit(unit, _) => format!("disable {unit}\n"),
            _ => String::new(),
        });
        files.push(File::new(PRESET, file));
        after.extend(entries.into_iter().filter_map(|entry| match &entry.form {
            Form::Unit(unit, state) => Some(After::Unit((*unit).to_owned(), *state)),
            _ => None,
        }));
    }
    for (entry, (unit, name, value)) in plan.having(environment) {
        let path = format!("{UNITS}/{unit}.d/90-nearwire.conf");
        let mut file = text::header(
            plan.profile,
            "a variable of a service",
            &format!("rm {path}, then systemctl daemon-reload and restart {unit}"),
        );
        file += "# A file that EnvironmentFile= of the unit names wins.\n\n[Service]\n";
        file += &text::comment(entry);
        let _ = writeln!(file, "Environment={name}={value}");
        files.push(File::new(path, file));
    }
    (files, after)
}

fn environment(form: &Form) -> Option<(&'static str, &'static str, &str)> {
    match form {
        Form::Environment(unit, name, value) => Some((unit, name, value)),
        _ => None,
    }
}

/// Options of systemd itself, for all units that do not say otherwise.
fn manager(plan: &Plan<'_>) -> Part {
    let entries = plan.of(|form| matches!(form, Form::Manager(..)));
    if entries.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let mut file = text::header(plan.profile, "defaults for all services", &format!("rm {MANAGER}, then reboot"));
    file += "# A unit's own LimitMEMLOCK= or CPUAffinity= wins.\n\n[Manager]\n";
    file += &text::block(entries, |entry| match &entry.form {
        Form::Manager(option, value) => format!("{option}={}\n", value.replace(',', " ")),
        _ => String::new(),
    });
    (vec![File::new(MANAGER, file)], vec![After::Run("systemctl daemon-reexec")])
}

fn modules(plan: &Plan<'_>) -> Part {
    let entries: Vec<&Entry<'_>> = plan.of(|form| matches!(form, Form::Module(..)));
    if entries.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let take_back = format!("rm {MODULES}, then update-initramfs -u or dracut -f, and reboot");
    let mut file =
        text::header(plan.profile, "options of kernel modules, which count when a module is loaded", &take_back);
    file += "\n";
    file += &text::block(entries, |entry| match &entry.form {
        Form::Module(module, option, value) => format!("options {module} {option}={value}\n"),
        _ => String::new(),
    });
    (vec![File::new(MODULES, file)], vec![After::Run("update-initramfs -u"), After::Reboot])
}
