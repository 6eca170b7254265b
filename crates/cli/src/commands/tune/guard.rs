//! The guardian of `nearwire tune apply --confirm`: a process that writes a plan and puts it back unless somebody
//! confirms. It is a transient unit of systemd where there is a systemd, else a process of a session of its own: no
//! terminal that closes and no connection that dies reaches it.

mod unit;

use std::io::{Read, Write};
use std::path::{Path, absolute};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use nearwire_host::change::confirm::{FileWatch, Verdict, keep_or_revert};
use nearwire_host::change::{ApplyOptions, Change, RootHost, apply};
use nearwire_host::journal::HostIdentity;
use nearwire_sys::usage::{interrupted, outlive_terminal};
use serde_json::{Value, json};

use super::applied::{done, failure};
use super::{at, journal_directory, open_journal, unix_s};
use crate::args::tune::{ApplyArgs, GuardArgs};
use crate::commands::host_root;
use crate::exit::{self, Failure, OrExit, Outcome};
use crate::output;
use unit::Unit;

/// Starts a guardian for a plan and waits for it. It goes on when this process ends.
pub(super) fn start(args: &ApplyArgs, profile: &str, within: Duration, changes: &[Change]) -> Outcome {
    // The guardian inherits that SIGHUP is ignored, so there is no moment in which it is not.
    outlive_terminal().or_exit(exit::FAILED)?;
    let mut command = guardian(args)?;
    let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    let order = |by: &str| {
        json!({
            "profile": profile,
            "within_ms": within_ms,
            "by": by,
            "namespaces": unit::namespaces(),
            "changes": changes,
        })
        .to_string()
    };
    let by_systemd = format!("the systemd unit {}, which no log-out ends", unit::name());
    let why = match Unit::start(&command, &order(&by_systemd)) {
        Ok(unit) => {
            return match unit.wait().or_exit(exit::FAILED)? {
                Some(0) => Ok(()),
                Some(code) => Err(Failure::silent(code)),
                None => Err(Failure::silent(KILLED)),
            };
        }
        Err(why) => why,
    };
    let by_itself = format!("a process of a session of its own, not by a systemd unit ({why})");
    let mut guardian = command.stdin(Stdio::piped()).spawn().context("start the guardian").or_exit(exit::FAILED)?;
    if let Some(mut input) = guardian.stdin.take() {
        // One that has ended says itself why.
        let _ = input.write_all(order(&by_itself).as_bytes());
    }
    let ended = super::hold::wait(&mut guardian).context("wait for the guardian").or_exit(exit::FAILED)?;
    match super::hold::code(ended) {
        0 => Ok(()),
        code => Err(Failure::silent(code)),
    }
}

/// As a shell reports a program that SIGKILL ended.
const KILLED: u8 = 137;

/// The command of the guardian. Its paths do not depend on the directory that it runs in.
fn guardian(args: &ApplyArgs) -> Result<Command, Failure> {
    let source = &args.changes.selection.root;
    let path = |path: &Path| absolute(path).with_context(|| format!("find {}", path.display())).or_exit(exit::FAILED);
    let program = std::env::current_exe().context("find the program of this process").or_exit(exit::FAILED)?;
    let mut command = Command::new(program);
    command.args(["tune", "guard", "--journal"]).arg(path(&journal_directory(&args.journal, source)?)?);
    if let Some(copy) = &source.sysroot {
        command.arg("--sysroot").arg(path(copy)?);
    }
    Ok(command)
}

/// What a guardian is to do.
struct Order {
    profile: Option<String>,
    within: Duration,
    /// What the guardian runs as, in words.
    by: Option<String>,
    /// The namespaces that the plan was made in.
    namespaces: Vec<String>,
    changes: Vec<Change>,
}

impl Order {
    fn read(mut input: impl Read) -> anyhow::Result<Self> {
        let mut text = String::new();
        input.read_to_string(&mut text)?;
        let mut order: Value = serde_json::from_str(&text)?;
        Ok(Self {
            profile: order["profile"].as_str().map(str::to_owned),
            namespaces: serde_json::from_value(order["namespaces"].take()).context("no namespaces")?,
            by: order["by"].as_str().map(str::to_owned),
            within: Duration::from_millis(order["within_ms"].as_u64().context("no time to confirm")?),
            changes: serde_json::from_value(order["changes"].take())?,
        })
    }
}

pub fn run(args: &GuardArgs) -> Outcome {
    let outcome = guard(args);
    unit::tell_ended(outcome.as_ref().err().map_or(0, |failure| failure.code));
    outcome
}

fn guard(args: &GuardArgs) -> Outcome {
    outlive_terminal().or_exit(exit::FAILED)?;
    // Only the leader of a process group cannot, and it has a session or a shell that it does not belong to.
    let _ = rustix::process::setsid();
    let order = Order::read(std::io::stdin().lock()).context("read the plan").or_exit(exit::USAGE)?;
    if let Some((other, _)) = order.namespaces.iter().zip(unit::namespaces()).find(|(theirs, ours)| *theirs != ours) {
        let error = anyhow::anyhow!("the plan was made in another namespace than this process has, {other}");
        return Err(Failure { code: exit::CANNOT, error: Some(error) });
    }
    unit::tell_running();
    let directory = &journal_directory(&args.journal, &args.root)?;
    let mut host = RootHost::new(host_root::open(&args.root)?);
    let identity = HostIdentity::of(host.root());
    let mut journal = open_journal(directory, &identity)?;
    // Before the values are there: somebody may confirm as soon as they are.
    let mut watch = FileWatch::new(&journal, interrupted);
    let confirm_by_unix_s = Some(unix_s().saturating_add(order.within.as_secs()));
    let strict = ApplyOptions::strict(unix_s(), order.profile);
    let options = ApplyOptions { must_stop: &interrupted, confirm_by_unix_s, ..strict };
    let applied = apply(&mut host, &mut journal, order.changes, &options).map_err(failure)?;
    let place = at(directory, &args.root);
    tell(&done(&applied, &place));
    if applied.written.is_empty() {
        return Ok(());
    }
    let time = humantime::format_duration(order.within);
    let by = order.by.map_or_else(String::new, |by| format!("They are guarded by {by}.\n"));
    tell(&format!("These values are put back in {time} unless somebody runs: nearwire tune confirm{place}\n{by}"));
    match keep_or_revert(&mut host, &mut journal, &mut watch, order.within, unix_s()).or_exit(exit::FAILED)? {
        Verdict::Kept => {
            tell("Confirmed: the values stay.\n");
            Ok(())
        }
        Verdict::TimedOut(reverted) => {
            tell(&super::revert::text(&reverted));
            let error = anyhow::anyhow!("nobody confirmed within {time}, so these values were put back");
            Err(Failure { code: exit::FAILED, error: Some(error) })
        }
        Verdict::Ended(reverted) => {
            tell(&super::revert::text(&reverted));
            Err(Failure::silent(exit::INTERRUPTED))
        }
    }
}

/// Prints where somebody still listens. Values that are in effect must not lose their guardian over it.
fn tell(text: &str) {
    let _ = output::print_of_host(text);
}
