//! Which forms a goal has, and which of them a format can hold.

use super::form::Form;
use super::{Format, command_line, host_form, interface_form, tuned_options};
use crate::setting::Write;
use crate::{Goal, Setting};

/// All forms of a goal, the ones that need no boot first.
pub(super) fn forms(goal: &Goal) -> Result<Vec<Form>, String> {
    if goal.setting.id == "cpu.smt" && !matches!(goal.value.as_str(), "on" | "off") {
        // `notsupported`, `notimplemented` and `forceoff` (`kernel/cpu.c`).
        return Err(format!("{:?} is what the kernel says of itself, and no value to write", goal.value));
    }
    let mut forms = match &goal.interface {
        Some(_) => interface_form::forms(goal)?,
        None => host_form::forms(goal)?,
    };
    match command_line::word(goal) {
        // The command line speaks of all CPUs.
        Ok(_) if goal.cpus.is_some() => {}
        Ok(word) => forms.extend(word.map(Form::Word)),
        Err(why) if forms.is_empty() => return Err(why),
        Err(_) => {}
    }
    if forms.is_empty() { Err(nowhere(goal.setting).to_owned()) } else { Ok(forms) }
}

/// Why no file keeps a setting.
pub(crate) fn nowhere(setting: &Setting) -> &'static str {
    match setting.write {
        Write::Firmware => "only the firmware's setup keeps it",
        Write::KernelBuild => "it is decided when the kernel is built",
        Write::Hardware => "it is a matter of hardware",
        Write::Application => "the program or its start must say it",
        Write::OtherDevice => "another device must be told",
        Write::Guest => "the definition of the guest keeps it",
        Write::OpenVswitch => "the database of Open vSwitch keeps it",
        Write::Fact => "nothing writes it: it is a fact or the sum of other settings",
        _ => "no file can say the value that is wanted of it",
    }
}

/// The first form that a format can hold.
pub(super) fn pick(format: Format, has_pci: bool, forms: &[Form]) -> Option<&Form> {
    let first = |has: &dyn Fn(&Form) -> bool| forms.iter().find(|form| has(form));
    match format {
        Format::Grub => first(&|form| matches!(form, Form::Word(_))),
        Format::Sysctl => first(&|form| matches!(form, Form::Sysctl(..))),
        Format::Systemd => first(&|form| in_systemd(form, has_pci)),
        Format::Udev => first(&in_udev),
        Format::TunedProfile => first(&tuned_options::has),
        Format::Ansible => first(&|form| in_systemd(form, has_pci) || matches!(form, Form::Sysctl(..)))
            .or_else(|| first(&|form| matches!(form, Form::Word(_)))),
    }
}

/// A `.link` file finds its device before that has its name, so it needs the place on the bus.
pub(super) fn in_systemd(form: &Form, has_pci: bool) -> bool {
    match form {
        Form::Word(_) | Form::Sysctl(..) | Form::TunedNet(..) => false,
        Form::Link(_) => has_pci,
        _ => true,
    }
}

fn in_udev(form: &Form) -> bool {
    match form {
        Form::Files(files) => files.iter().all(|(path, _)| path.starts_with("/sys/block/")),
        Form::Cpu(..) | Form::NicFile(..) | Form::NicQueues(..) | Form::Ethtool(..) | Form::Qdisc(_) => true,
        _ => false,
    }
}

/// Why a format does not hold a goal that others do.
pub(super) fn elsewhere(format: Format, forms: &[Form]) -> String {
    if format == Format::TunedProfile && forms.iter().any(tuned_options::is_of_tuned) {
        return "a profile of tuned cannot stop tuned, which takes back all that a profile says: run systemctl disable \
                --now tuned, and use another format"
            .to_owned();
    }
    let mut kept: Vec<_> = forms.iter().map(ToString::to_string).collect();
    kept.dedup();
    format!("{} has no place for it; it is kept by {}", format.name(), kept.join(", or by "))
}
