//! Rules for devices: `udev(7)`.

use std::fmt::Write;

use super::form::Form;
use super::plan::{Entry, Plan};
use super::tmpfiles::cpu_names;
use super::unit::After;
use super::{File, text};

const PATH: &str = "/etc/udev/rules.d/90-nearwire.rules";

pub(super) fn files(plan: &Plan<'_>) -> (Vec<File>, Vec<After>) {
    if plan.entries.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let take_back = format!("rm {PATH}, udevadm control --reload, then reboot");
    let mut file = text::header(plan.profile, "settings of devices, written when they appear", &take_back);
    file += "# Commands need /usr/sbin/ethtool and /usr/sbin/tc. Interrupts are not here: no event says that they were made anew.\n";
    let of_host = plan.of(|form| matches!(form, Form::Files(_) | Form::Cpu(..)));
    if !of_host.is_empty() {
        file += "\n";
        file += &text::block(of_host, host_rule);
    }
    for name in plan.interfaces(is_of_interface) {
        let _ = write!(file, "\n{}", marks(plan, name));
        // Commands run in the order of the rules, and what they reset is written behind them.
        file += &text::block(plan.in_order(name, is_of_interface), |entry| interface_rule(plan, entry));
    }
    let after = vec![After::Run("udevadm control --reload"), After::Reboot];
    (vec![File::new(PATH, file)], after)
}

fn is_of_interface(form: &Form) -> bool {
    matches!(form, Form::NicFile(..) | Form::NicQueues(..) | Form::Ethtool(..) | Form::Qdisc(_))
}

fn host_rule(entry: &Entry<'_>) -> String {
    match &entry.form {
        Form::Cpu(file, cpus, value) => {
            let names = cpu_names(cpus.as_ref()).join("|");
            format!("ACTION==\"add|online\", SUBSYSTEM==\"cpu\", KERNEL==\"{names}\", ATTR{{{file}}}=\"{value}\"\n")
        }
        Form::Files(files) => files.iter().filter_map(|(path, value)| block_rule(path, value)).collect(),
        _ => String::new(),
    }
}

/// A file below `/sys/block/NAME*/`.
fn block_rule(path: &str, value: &str) -> Option<String> {
    let (name, file) = path.strip_prefix("/sys/block/")?.split_once('/')?;
    Some(format!("ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"{name}\", ATTR{{{file}}}=\"{value}\"\n"))
}

/// Rules that mark the events of an interface. By its place on the bus where that is known, else by
/// the name it will have: that which an earlier rule gave it, or that of the kernel.
fn marks(plan: &Plan<'_>, name: &str) -> String {
    let mark = format!("ENV{{NEARWIRE}}=\"{name}\"\n");
    let add = "ACTION==\"add\", SUBSYSTEM==\"net\"";
    match plan.own_pci(name) {
        Some(pci) => format!("{add}, KERNELS==\"{pci}\", {mark}"),
        None => format!("{add}, NAME==\"{name}\", {mark}{add}, NAME==\"\", KERNEL==\"{name}\", {mark}"),
    }
}

fn interface_rule(plan: &Plan<'_>, entry: &Entry<'_>) -> String {
    let name = entry.interface();
    let add = format!("ACTION==\"add\", SUBSYSTEM==\"net\", ENV{{NEARWIRE}}==\"{name}\"");
    match &entry.form {
        Form::NicFile(file, value) => format!("{add}, ATTR{{{file}}}=\"{value}\"\n"),
        Form::NicQueues(direction, file, value) => {
            let place = match plan.own_pci(name) {
                Some(pci) => format!("KERNELS==\"{pci}\""),
                None => format!("DEVPATH==\"*/net/{name}/queues/*\""),
            };
            format!(
                "ACTION==\"add\", SUBSYSTEM==\"queues\", {place}, KERNEL==\"{direction}-*\", ATTR{{{file}}}=\"{value}\"\n"
            )
        }
        Form::Ethtool(flag, words) => format!("{add}, RUN+=\"/usr/sbin/ethtool {flag} $name {}\"\n", words.join(" ")),
        Form::Qdisc(qdisc) => format!("{add}, RUN+=\"/usr/sbin/tc qdisc replace dev $name root {qdisc}\"\n"),
        _ => String::new(),
    }
}
