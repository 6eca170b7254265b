//! Kernel parameters: `sysctl.d(5)`.

use super::form::Form;
use super::plan::Plan;
use super::unit::After;
use super::{File, text};

pub(super) const PATH: &str = "/etc/sysctl.d/90-nearwire.conf";

pub(super) fn files(plan: &Plan<'_>) -> (Vec<File>, Vec<After>) {
    if plan.entries.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let mut file = text::header(
        plan.profile,
        "kernel parameters",
        &format!("rm {PATH}, then reboot or write the values of before with sysctl -w"),
    );
    file += "# A file of a later name that sets the same parameter wins, and so do tuned and agents of clouds.\n\n";
    file += &text::block(&plan.entries, |entry| match &entry.form {
        Form::Sysctl(name, value) => format!("{name} = {value}\n"),
        _ => String::new(),
    });
    (vec![File::new(PATH, file)], vec![After::Run("sysctl -p /etc/sysctl.d/90-nearwire.conf")])
}
