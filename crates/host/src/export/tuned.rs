//! A profile of tuned: `tuned.conf(5)`, and the options of the plug-ins of tuned 2.20.

use std::fmt::Write;

use super::form::{Form, UnitState};
use super::plan::{Entry, Plan};
use super::tmpfiles::cpu_names;
use super::tuned_options::{CPU_OPTIONS, VM_OPTIONS, named};
use super::unit::After;
use super::{File, consistent, text};

const PATH: &str = "/etc/tuned/nearwire/tuned.conf";

pub(super) fn files(plan: &Plan<'_>) -> (Vec<File>, Vec<After>) {
    if plan.entries.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let mut file = text::header(
        plan.profile,
        "a profile of tuned",
        "tuned-adm profile with the name of another one, then rm -r /etc/tuned/nearwire",
    );
    file += "# tuned 2.24 and later looks in /etc/tuned/profiles/nearwire. To build on a profile of tuned, say include= below.\n";
    file += "\n[main]\nsummary=Settings of nearwire\n";
    // What a section has one line for each entry of.
    const SECTIONS: [&str; 7] = ["cpu", "vm", "sysctl", "sysfs", "irqbalance", "systemd", "service"];
    for section in SECTIONS {
        let entries: Vec<_> = plan.entries.iter().filter(|entry| section_of(&entry.form) == section).collect();
        if !entries.is_empty() {
            let _ = writeln!(file, "\n[{section}]");
            file += &text::block(entries, lines);
        }
    }
    for name in plan.interfaces(is_net) {
        file += &net(plan, name);
    }
    file += &modules(plan);
    file += &bootloader(plan);
    (vec![File::new(PATH, file)], vec![After::Run("tuned-adm profile nearwire")])
}

fn is_net(form: &Form) -> bool {
    matches!(form, Form::TunedNet(..))
}

fn section_of(form: &Form) -> &'static str {
    match form {
        Form::Word(_) => "bootloader",
        Form::Cpu(file, None, _) if named(CPU_OPTIONS, file).is_some() => "cpu",
        Form::Latency(_) => "cpu",
        Form::Files(files) if files.iter().all(|(path, _)| named(VM_OPTIONS, path).is_some()) => "vm",
        Form::Sysctl(..) => "sysctl",
        form if is_net(form) => "net",
        Form::Module(..) => "modules",
        Form::Environment(..) => "irqbalance",
        Form::Manager(..) => "systemd",
        Form::Unit(..) => "service",
        _ => "sysfs",
    }
}

fn lines(entry: &Entry<'_>) -> String {
    let line = |name: &str, value: &str| format!("{name}={value}\n");
    match &entry.form {
        Form::Cpu(file, None, value) if named(CPU_OPTIONS, file).is_some() => {
            line(named(CPU_OPTIONS, file).unwrap_or_default(), value)
        }
        Form::Cpu(file, cpus, value) => cpu_names(cpus.as_ref())
            .iter()
            .map(|cpu| line(&format!("/sys/devices/system/cpu/{cpu}/{file}"), value))
            .collect(),
        Form::Latency(us) => line("force_latency", &us.to_string()),
        Form::Files(files) => {
            files.iter().map(|(path, value)| line(named(VM_OPTIONS, path).unwrap_or(path), value)).collect()
        }
        Form::NicFile(file, value) => line(&format!("/sys/class/net/{}/{file}", entry.interface()), value),
        Form::NicQueues(direction, file, value) => {
            line(&format!("/sys/class/net/{}/queues/{direction}-*/{file}", entry.interface()), value)
        }
        Form::Sysctl(name, value) => line(name, value),
        Form::Environment(_, _, value) => line("banned_cpus", value),
        Form::Manager(_, value) => line("cpu_affinity", value),
        Form::Unit(unit, state) => {
            let (run, enable) = if *state == UnitState::Enabled { ("start", "enable") } else { ("stop", "disable") };
            line(&format!("service.{}", unit.strip_suffix(".service").unwrap_or(unit)), &format!("{run},{enable}"))
        }
        _ => String::new(),
    }
}

/// The section of an interface: one option for all coalescing, one for all offloads, and so on.
fn net(plan: &Plan<'_>, name: &str) -> String {
    let mut section = format!("\n[net_{name}]\ntype=net\ndevices={name}\n");
    let mut lists: Vec<(&str, Vec<&Entry<'_>>)> = Vec::new();
    for entry in plan.in_order(name, is_net) {
        let Form::TunedNet(option, _) = &entry.form else { continue };
        match lists.iter_mut().find(|(known, _)| known == option) {
            Some((_, list)) => list.push(entry),
            None => lists.push((option, vec![entry])),
        }
    }
    for (option, list) in lists {
        section += &text::block(list.iter().copied(), |_| String::new());
        let said = list.iter().filter(|entry| entry.same_as.is_none()).filter_map(|entry| match &entry.form {
            Form::TunedNet(_, words) => Some(words.join(" ")),
            _ => None,
        });
        let _ = writeln!(section, "{option}={}", said.collect::<Vec<_>>().join(" "));
    }
    section
}

fn bootloader(plan: &Plan<'_>) -> String {
    let words = plan.only(|form| matches!(form, Form::Word(_)));
    if words.entries.is_empty() {
        return String::new();
    }
    let mut comments = text::block(&words.entries, |_| String::new());
    for entry in &words.entries {
        let Form::Word(word) = &entry.form else { continue };
        for value in plan.command_line().map(|line| consistent::values(line, word.option)).unwrap_or_default() {
            let running = if value.is_empty() { word.option.to_owned() } else { format!("{}={value}", word.option) };
            if word.text.as_deref() != Some(running.as_str()) {
                let running = super::words::one_line(&running);
                let _ = writeln!(
                    comments,
                    "# The running kernel has {running}, which tuned leaves there: take it out by hand."
                );
            }
        }
    }
    format!("\n[bootloader]\n{comments}cmdline_nearwire=+{}\n", super::grub::said(&words).join(" "))
}

/// One option a module, with all its parameters: of two options with one name the last would win.
fn modules(plan: &Plan<'_>) -> String {
    let modules = plan.only(|form| matches!(form, Form::Module(..)));
    if modules.entries.is_empty() {
        return String::new();
    }
    let mut said: Vec<(&str, String)> = Vec::new();
    for entry in modules.entries.iter().filter(|entry| entry.same_as.is_none()) {
        if let Form::Module(module, option, value) = &entry.form {
            match said.iter_mut().find(|(known, _)| known == module) {
                Some((_, options)) => *options += &format!(" {option}={value}"),
                None => said.push((module, format!("{option}={value}"))),
            }
        }
    }
    let lines: String = said.into_iter().map(|(module, options)| format!("{module}={options}\n")).collect();
    format!("\n[modules]\n{}{lines}", text::block(&modules.entries, |_| String::new()))
}
