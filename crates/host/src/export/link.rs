//! Files of systemd for interfaces.
//!
//! A `.link` file is read before the device has its name, so it must find it by its place on the
//! bus. All else is done by a service that the device's unit starts, once it has its name.
//! Interrupts are made anew each time the link comes up, so a service follows the link for them.

use std::fmt::Write;

use super::form::Form;
use super::plan::Plan;
use super::tmpfiles::tmpfiles_lines;
use super::unit::{After, UNITS, device_unit};
use super::{File, UnitState, text};

const SCRIPT: &str = "/usr/local/lib/nearwire/link-interrupts";

/// `ip monitor` is started before the first look, so that no change falls in between; the second
/// line gives it a moment.
const SCRIPT_BODY: &str = "\
#
# link-interrupts INTERFACE CPUS: sends the interrupts of a device to CPUs, now and each time its link comes up.
set -u
interface=$1
cpus=$2

move() {
    device=/sys/class/net/$interface/device
    # The device of a virtio interface is below the PCI function that has the interrupts.
    if [ ! -d \"$device/msi_irqs\" ]; then
        case $(readlink -f \"$device\") in */virtio[0-9]*) device=$device/.. ;; esac
    fi
    irqs=$(ls \"$device/msi_irqs\" 2> /dev/null || cat \"$device/irq\")
    for irq in $irqs; do
        [ -e \"/proc/irq/$irq/smp_affinity_list\" ] || continue
        echo \"$cpus\" > \"/proc/irq/$irq/smp_affinity_list\" ||
            echo \"interrupt $irq of $interface stays where it is: the driver keeps it\" >&2
    done
}

{
    ip -o monitor link dev \"$interface\" &
    monitor=$!
    trap 'kill $monitor' EXIT TERM INT
    sleep 1
    echo LOWER_UP
    wait $monitor
} | while read -r line; do
    case $line in *LOWER_UP*) move ;; esac
done
";

pub(super) fn files(plan: &Plan<'_>) -> (Vec<File>, Vec<After>) {
    let mut files: Vec<File> = plan.interfaces(is_link).into_iter().filter_map(|name| link_file(plan, name)).collect();
    let mut after = Vec::new();
    if !files.is_empty() {
        after.push(After::Run("udevadm control --reload"));
        // A .link file counts when the device appears.
        after.push(After::Reboot);
    }
    for name in plan.interfaces(is_service) {
        let (unit, parts) = service(plan, name);
        files.extend(parts);
        after.push(After::Unit(unit, UnitState::Enabled));
    }
    let followed = plan.interfaces(is_interrupts);
    if !followed.is_empty() {
        let head = text::header(
            plan.profile,
            "sends interrupts to CPUs",
            &format!("rm {SCRIPT} and the units nearwire-irq@*.service"),
        );
        files.push(File { mode: 0o755, ..File::new(SCRIPT, format!("#!/bin/sh\n{head}{SCRIPT_BODY}")) });
    }
    for name in followed {
        let (unit, file) = interrupts(plan, name);
        files.push(file);
        after.push(After::Unit(unit, UnitState::Enabled));
    }
    (files, after)
}

fn is_link(form: &Form) -> bool {
    matches!(form, Form::Link(_))
}

fn is_file(form: &Form) -> bool {
    matches!(form, Form::NicFile(..) | Form::NicQueues(..))
}

fn is_call(form: &Form) -> bool {
    matches!(form, Form::Ethtool(..) | Form::Qdisc(_))
}

fn is_service(form: &Form) -> bool {
    is_file(form) || is_call(form)
}

fn is_interrupts(form: &Form) -> bool {
    matches!(form, Form::Interrupts(_))
}

/// Only the first `.link` file that matches a device is read, so that what the default one says
/// of names must be said here too.
fn link_file(plan: &Plan<'_>, name: &str) -> Option<File> {
    let pci = plan.own_pci(name)?;
    let path = format!("/etc/systemd/network/90-nearwire-{name}.link");
    let mut file = text::header(
        plan.profile,
        &format!("options of {name} before its link comes up"),
        &format!("rm {path}, then reboot"),
    );
    file +=
        "# Only the first .link file that matches is read: one of an earlier name keeps this one from being read,\n";
    file += "# and this one stands for 99-default.link, whose lines about names and addresses are repeated below.\n";
    let _ = write!(file, "\n[Match]\nPath=pci-{pci}\n\n[Link]\n");
    file += "NamePolicy=keep kernel database onboard slot path\nAlternativeNamesPolicy=database onboard slot path\n";
    file += "MACAddressPolicy=persistent\n";
    file += &text::block(plan.in_order(name, is_link), |entry| match &entry.form {
        Form::Link(options) => options.iter().map(|(option, value)| format!("{option}={value}\n")).collect(),
        _ => String::new(),
    });
    Some(File::new(path, file))
}

/// The service that writes the settings of an interface once its device is there.
fn service(plan: &Plan<'_>, name: &str) -> (String, Vec<File>) {
    let unit = format!("nearwire-link@{name}.service");
    let lines = format!("/etc/nearwire/link-{name}.conf");
    let take_back = format!("systemctl disable {unit}, rm {UNITS}/{unit}, then reboot");
    let mut file =
        text::header(plan.profile, &format!("settings of {name}, written when its device appears"), &take_back);
    file += "# A line with - before the command may fail: not each driver takes each value. The journal has what it said.\n";
    file += &unit_section(name, "Settings");
    file += "\n[Service]\nType=oneshot\nRemainAfterExit=yes\n";
    file += &text::block(plan.in_order(name, is_call), |entry| match &entry.form {
        Form::Ethtool(flag, words) => format!("ExecStart=-ethtool {flag} {name} {}\n", words.join(" ")),
        Form::Qdisc(qdisc) => format!("ExecStart=-tc qdisc replace dev {name} root {qdisc}\n"),
        _ => String::new(),
    });
    let entries = plan.in_order(name, is_file);
    let mut files = Vec::new();
    if !entries.is_empty() {
        let _ = writeln!(file, "ExecStart=systemd-tmpfiles --create {lines}");
        let mut text = text::header(
            plan.profile,
            &format!("files of {name}, written by {unit}"),
            &format!("rm {lines}, then reboot"),
        );
        text += "\n";
        text += &text::block(entries, |entry| tmpfiles_lines(&entry.form, &format!("/sys/class/net/{name}")));
        files.push(File::new(lines, text));
    }
    file += &install_section(name);
    files.insert(0, File::new(format!("{UNITS}/{unit}"), file));
    (unit, files)
}

fn interrupts(plan: &Plan<'_>, name: &str) -> (String, File) {
    let unit = format!("nearwire-irq@{name}.service");
    let take_back = format!("systemctl disable --now {unit}, rm {UNITS}/{unit}, then reboot");
    let mut file = text::header(plan.profile, &format!("keeps the interrupts of {name} on their CPUs"), &take_back);
    file += &unit_section(name, "Interrupts");
    let _ = writeln!(file, "\n[Service]");
    file += &text::block(plan.in_order(name, is_interrupts), |entry| match &entry.form {
        Form::Interrupts(cpus) => format!("ExecStart={SCRIPT} {name} {cpus}\n"),
        _ => String::new(),
    });
    file += "Restart=always\nRestartSec=5\n";
    file += &install_section(name);
    (unit.clone(), File::new(format!("{UNITS}/{unit}"), file))
}

fn unit_section(name: &str, what: &str) -> String {
    let device = device_unit(name);
    format!(
        "\n[Unit]\nDescription={what} of {name} by nearwire\nBindsTo={device}\nAfter={device} nearwire-tune.service\n"
    )
}

fn install_section(name: &str) -> String {
    format!("\n[Install]\nWantedBy={}\n", device_unit(name))
}
