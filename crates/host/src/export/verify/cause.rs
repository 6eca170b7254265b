//! Why a value is not in force although its file is there, as far as the host's files tell.

use super::super::text::Said;
use super::super::{command_line, consistent};
use crate::check::owner::link_files::{Fit, link_files};
use crate::check::owner::tuned;
use crate::profile::Wanted;
use crate::setting::ReadFrom;
use crate::{Goal, Root};

type Cause = fn(&Root, &str, &Said) -> String;

/// The start of a file's path, and what may keep a value of it from being in force.
const CAUSES: [(&str, Cause); 10] = [
    ("/etc/default/grub.d/", boot),
    ("/etc/sysctl.d/", sysctl),
    ("/etc/tmpfiles.d/", |root, _, _| unit(root, "nearwire-tune.service")),
    ("/etc/nearwire/link-", |root, path, _| {
        let interface = path.trim_start_matches("/etc/nearwire/link-").trim_end_matches(".conf");
        unit(root, &format!("nearwire-link@{interface}.service"))
    }),
    ("/etc/systemd/network/", link),
    ("/etc/systemd/system-preset/", |_, _, said| {
        let what = match said.setting.read {
            ReadFrom::Service(unit) => unit,
            _ => "the unit",
        };
        format!("a preset changes nothing by itself: run systemctl preset {what}, then start or stop it")
    }),
    ("/etc/systemd/system.conf.d/", |_, _, _| {
        "systemd has it from the next boot or systemctl daemon-reexec on, and what a unit says itself wins".to_owned()
    }),
    ("/etc/systemd/system/", |root, path, _| {
        let name = path.trim_start_matches("/etc/systemd/system/");
        match name.split_once(".d/") {
            Some((service, _)) => {
                format!("{service} has it once it is started again, unless its EnvironmentFile= says otherwise")
            }
            None => unit(root, name),
        }
    }),
    ("/etc/modprobe.d/", |_, _, _| {
        "the module was loaded without it, as from an old initramfs: run update-initramfs -u or dracut -f, then reboot"
            .to_owned()
    }),
    ("/etc/tuned/", active_profile),
];

pub(super) fn of(root: &Root, path: &str, said: &Said) -> String {
    match CAUSES.iter().find(|(start, _)| path.starts_with(start)) {
        Some((_, cause)) => cause(root, path, said),
        None => format!(
            "{path} is there; either the host was not booted since, or the device refused the value, or something wrote another \
             one later"
        ),
    }
}

/// Configurations of boot loaders: files and directories of entries.
const LOADERS: [&str; 5] = [
    "/boot/grub/grub.cfg",
    "/boot/grub2/grub.cfg",
    "/boot/loader/entries",
    "/boot/grub2/grubenv",
    "/etc/kernel/cmdline",
];
/// How lines of such files begin that have the kernel's command line.
const BOOTS: [&str; 3] = ["linux", "options", "kernelopts="];

/// The word is on its way from the file over the boot loader's configuration to the kernel.
fn boot(root: &Root, _: &str, said: &Said) -> String {
    let goal = Goal {
        setting: said.setting,
        interface: said.interface.clone(),
        cpus: said.cpus.clone(),
        value: said.value.clone(),
        wanted: Wanted::Equal(said.value.clone()),
        reason: String::new(),
    };
    let Ok(Some(word)) = command_line::word(&goal) else {
        return "no word of the command line says this value".to_owned();
    };
    let running = root.text("/proc/cmdline").unwrap_or_default();
    let values = consistent::values(&running, word.option);
    let now = values.iter().map(|value| match *value {
        "" => word.option.to_owned(),
        value => format!("{}={value}", word.option),
    });
    let now = now.collect::<Vec<_>>().join(" ");
    let Some(text) = word.text else {
        return format!(
            "the running kernel still has {now}: {}",
            not_booted(root, |line| !has(line, &now), "without it")
        );
    };
    if has(&running, &text) {
        return match values.last() {
            Some(last) if values.len() > 1 && !text.ends_with(last) => {
                format!("the running kernel has {now}, of which the last counts")
            }
            _ => format!("the running kernel has {text} and did not take it; its log says why"),
        };
    }
    let beside = if now.is_empty() { String::new() } else { format!("the running kernel has {now}; ") };
    format!("{beside}{}", not_booted(root, |line| has(line, &text), &format!("with {text}")))
}

/// Whether all words are on a line.
fn has(line: &str, words: &str) -> bool {
    words.split(' ').all(|word| line.split([' ', '\t', '"']).any(|found| found == word))
}

/// Whether it was the boot loader or the boot that is missing. `is_new` tells a line that boots as exported.
fn not_booted(root: &Root, is_new: impl Fn(&str) -> bool, how: &str) -> String {
    let mut read = Vec::new();
    for place in LOADERS {
        let entries = root.list(place).unwrap_or_default().into_iter().map(|name| format!("{place}/{name}"));
        for path in entries.chain([place.to_owned()]) {
            let Ok(text) = root.text(&path) else { continue };
            let is_boot = |line: &&str| {
                let line = line.trim_start();
                path.ends_with("/cmdline") || BOOTS.iter().any(|word| line.starts_with(word))
            };
            let lines: Vec<_> = text.lines().filter(is_boot).collect();
            if lines.iter().any(|line| is_new(line)) {
                return format!("{path} boots {how}: the host was not booted since, or by another entry");
            }
            // Entries in files of their own leave nothing in this one.
            if !lines.is_empty() {
                read.push(path);
            }
        }
    }
    match read.first() {
        Some(path) => format!(
            "no entry of {path} boots {how}: the boot loader was not updated; run update-grub, grub2-mkconfig or grubby as the \
             exported file says, then reboot"
        ),
        None => format!("no boot loader's configuration could be read, so whether it boots {how} is not known"),
    }
}

/// Where `systemd-sysctl` reads.
const SYSCTL: [&str; 4] = ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"];

/// A later file may say something else (`sysctl.d(5)`).
fn sysctl(root: &Root, path: &str, said: &Said) -> String {
    let ReadFrom::Sysctl(name) = said.setting.read else { return "it is no kernel parameter".to_owned() };
    let mut files = Vec::from_iter(root.files_of(SYSCTL, ".conf"));
    // sysctl --system reads it behind all others.
    files.push(("~".to_owned(), "/etc/sysctl.conf".to_owned()));
    let ours = path.rsplit('/').next().unwrap_or(path);
    let later = files.iter().filter(|(file, _)| file.as_str() > ours);
    let sets = |(_, path): &(String, String)| {
        let text = root.text(path).ok()?;
        let line = text.lines().rev().find_map(|line| {
            let (key, value) = line.trim().trim_start_matches('-').split_once('=')?;
            (key.trim().replace('/', ".") == name).then(|| value.trim().to_owned())
        })?;
        Some(format!("{path} is read later and overrides it: {name} = {line}"))
    };
    later.rev().find_map(sets).unwrap_or_else(|| {
        format!("{path} is the last to set it: it was not read since (run sysctl --system), or a program wrote another value later")
    })
}

/// A unit of our own does the writing.
fn unit(root: &Root, name: &str) -> String {
    const UNITS: &str = "/etc/systemd/system";
    let directories = root.list(UNITS).unwrap_or_default();
    let mut wants = directories.iter().filter(|entry| entry.ends_with(".wants") || entry.ends_with(".requires"));
    if !root.has(&format!("{UNITS}/{name}")) {
        return format!("{UNITS}/{name}, which writes it, is not installed");
    }
    if wants
        .any(|directory| root.list(&format!("{UNITS}/{directory}")).unwrap_or_default().iter().any(|unit| unit == name))
    {
        return format!("{name} is enabled: it did not run since, or failed; systemctl status {name} tells");
    }
    format!("{name}, which writes it, is not enabled: run systemctl enable --now {name}")
}

/// Only the first `.link` file that matches an interface is read (`systemd.link(5)`).
fn link(root: &Root, path: &str, said: &Said) -> String {
    let interface = said.interface.as_deref().unwrap_or_default();
    let ours = path.rsplit('/').next().unwrap_or(path);
    let mut perhaps = String::new();
    for file in link_files(root) {
        let fit = file.fits(root, interface);
        match fit {
            Fit::Yes if file.name() < ours => {
                let earlier = file.path;
                return format!(
                    "{earlier} comes before {path}, and only the first file that matches the device is read"
                );
            }
            Fit::Perhaps(key) if file.name() < ours => {
                let earlier = file.path;
                perhaps = format!("; {earlier} comes before it and counts alone if its {key} matches {interface}");
            }
            Fit::No if file.path == path => {
                return format!(
                    "the conditions of {path} do not match {interface}: its device or slot is another one now"
                );
            }
            _ => {}
        }
    }
    format!(
        "{path} is read when the device appears: the host was not booted since, or the driver refused the value{perhaps}"
    )
}

fn active_profile(root: &Root, _: &str, _: &Said) -> String {
    match root.text(tuned::ACTIVE) {
        Ok(active) if active.split_whitespace().any(|name| name == "nearwire") => {
            "the profile is active: tuned does not run, or could not set it; tuned-adm verify and /var/log/tuned/tuned.log tell"
                .to_owned()
        }
        Ok(active) => format!("the active profile of tuned is {}: run tuned-adm profile nearwire", active.trim()),
        Err(_) => "no profile of tuned is active: run tuned-adm profile nearwire".to_owned(),
    }
}
