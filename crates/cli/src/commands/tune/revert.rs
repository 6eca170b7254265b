//! `nearwire tune revert`: puts back the values that were found before.

use std::fmt::Write as _;

use nearwire_host::Root;
use nearwire_host::change::{Outcome as Became, Permanent, RevertError, RevertOptions, Reverted, RootHost, revert};
use nearwire_host::journal::{Damage, HostIdentity, Journal};
use nearwire_sys::usage::ignore_requests_to_end;

use super::{journal_directory, open_journal, unix_s};
use crate::args::tune::{PermanentArg, RevertArgs};
use crate::commands::ask::ask;
use crate::commands::host_root;
use crate::exit::{self, Failure, OrExit, Outcome};
use crate::output;

pub fn run(args: &RevertArgs) -> Outcome {
    let directory = &journal_directory(&args.journal, &args.root)?;
    let mut host = RootHost::new(host_root::open(&args.root)?);
    let identity = HostIdentity::of(host.root());
    let content = Journal::look(directory, &identity).map_err(super::journal_failure)?.unwrap_or_default();
    let entries = content.in_effect().flat_map(|block| &block.entries);
    let values = entries.filter(|entry| !entry.change.is_as_wanted()).count();
    if values == 0 && content.damaged.is_empty() {
        return output::print_of_host("No change of nearwire is in effect: there is nothing to put back.\n");
    }
    ask(&format!("Put {values} values back?"), args.yes)?;
    // A revert that stops halfway would leave a mixture of old and new values.
    ignore_requests_to_end().or_exit(exit::FAILED)?;
    let mut journal = open_journal(directory, &identity)?;
    let reverted = match revert(&mut host, &mut journal, unix_s(), options(args)) {
        Err(RevertError::Nothing) => {
            return output::print_of_host("No change of nearwire is in effect: there is nothing to put back.\n");
        }
        reverted => reverted.or_exit(exit::FAILED)?,
    };
    output::print_of_host(&text(&reverted))?;
    let history = directory.join("history");
    let failed = |error| Err(Failure { code: exit::FAILED, error: Some(error) });
    if reverted.is_complete && reverted.damaged.is_empty() {
        return Ok(());
    }
    if reverted.is_complete {
        return failed(anyhow::anyhow!(
            "the journal was damaged, so values of which only the damaged lines told are not back; it is kept in {}",
            history.display()
        ));
    }
    if reverted.back.permanent().next().is_some() {
        return failed(anyhow::anyhow!(
            "the host was booted since, and some values are as written all the same: somebody made them permanent; \
             --permanent keep leaves them, --permanent revert puts them back until the next boot"
        ));
    }
    let error = anyhow::anyhow!(
        "not everything is back; the journal keeps the rest for another nearwire tune revert{}",
        exported_services(host.root())
    );
    failed(error)
}

fn options(args: &RevertArgs) -> RevertOptions {
    let permanent = match args.permanent {
        None => Permanent::Ask,
        Some(PermanentArg::Keep) => Permanent::Keep,
        Some(PermanentArg::Revert) => Permanent::PutBack,
    };
    RevertOptions { forget_absent: args.forget_absent, permanent }
}

/// The lines of a journal that cannot be read.
pub(super) fn damage(lines: &[Damage]) -> String {
    lines.iter().map(|Damage { line, why }| format!("  line {line} of the journal is damaged: {why}\n")).collect()
}

/// The exported services that move interrupts whenever a link comes up, also when a revert resets it.
fn exported_services(root: &Root) -> String {
    let unit = |interface: String| format!("nearwire-irq@{interface}.service");
    let units = nearwire_host::interfaces(root).unwrap_or_default().into_iter().map(unit);
    let present: Vec<_> = units.filter(|unit| root.has(&format!("/etc/systemd/system/{unit}"))).collect();
    if present.is_empty() {
        return String::new();
    }
    format!("; before it, run systemctl disable --now {}, which writes interrupts too", present.join(" "))
}

pub(super) fn text(reverted: &Reverted) -> String {
    let mut text = damage(&reverted.damaged);
    let width = reverted.back.items.iter().map(|(id, _)| id.len()).max().unwrap_or(0);
    for (id, became) in &reverted.back.items {
        let words = match became {
            Became::AsFound => "already as found".to_owned(),
            Became::Restored { from, to } => format!("{from} -> {to}"),
            Became::Kept { now, found, ours } => {
                format!("kept: somebody changed it to {now} (found {found}, written {ours})")
            }
            Became::Permanent { now, found } => {
                format!("kept: {now} outlived a boot, so somebody made it permanent (found {found})")
            }
            Became::Absent => "its device or file is not there; --forget-absent forgets it".to_owned(),
            Became::Failed(error) => format!("NOT BACK: {error}"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {id:<width$}  {words}");
    }
    if reverted.is_complete && reverted.damaged.is_empty() {
        text.push_str("Everything is back.\n");
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use super::*;

    #[test]
    fn exported_service_that_writes_against_a_revert_is_named() {
        let host = tempfile::tempdir().unwrap();
        let root = Root::directory(host.path()).unwrap();
        for directory in ["sys/class/net/eth4", "etc/systemd/system"] {
            std::fs::create_dir_all(host.path().join(directory)).unwrap();
        }
        std::fs::write(host.path().join("sys/class/net/eth4/ifindex"), "2\n").unwrap();
        assert_eq!(exported_services(&root), "");
        std::fs::write(host.path().join("etc/systemd/system/nearwire-irq@eth4.service"), "").unwrap();
        assert!(exported_services(&root).contains("disable --now nearwire-irq@eth4.service"));
    }
}
