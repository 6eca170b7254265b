//! `nearwire status`: which sockets of running programs are accelerated, and why the others are not.

mod agent;
mod filters;
mod json;
pub(super) mod process;
mod text;

use anyhow::anyhow;

use nearwire_socket::status::Process;

use self::process::{LookError, Looked};
use crate::args::run::StatusArgs;
use crate::exit::{CANNOT, FAILED, Failure, OrExit, Outcome, USAGE};
use crate::output;

pub fn run(args: &StatusArgs) -> Outcome {
    let Some(pid) = args.pid else { return list(args.json) };
    let mut process = find(pid, "show")?;
    filters::ask(&mut process);
    output::print_of_host(&if args.json { json::page(&process) } else { process.page() })
}

/// The status page of a process; `to` says for an error message what its sockets are wanted for.
pub fn find(pid: i32, to: &str) -> Result<Box<Process>, Failure> {
    match process::look(pid).map_err(refused)? {
        Looked::Page(process) => Ok(process),
        Looked::NoPage { name, why } => {
            let error = anyhow!("process {pid} ({name}) has no accelerated sockets to {to}: {why}");
            Err(Failure { code: USAGE, error: Some(error) })
        }
    }
}

/// The failure for a process that cannot be inspected.
pub fn refused(error: LookError) -> Failure {
    let code = if matches!(error, LookError::Gone { .. }) { USAGE } else { CANNOT };
    Failure { code, error: Some(error.into()) }
}

/// The running programs that use an interface of this name, of those that can be inspected.
pub fn programs_on(interface: &str) -> Vec<(i32, String)> {
    let looked = process::all().unwrap_or_default().into_iter().filter_map(|pid| process::look(pid).ok());
    let is_used = |process: &Process| {
        process.status.interfaces.iter().any(|known| known.name == interface && known.reason.is_none())
    };
    let programs = looked.filter_map(|looked| match looked {
        Looked::Page(process) if is_used(&process) => Some((process.pid, process.name)),
        Looked::Page(_) | Looked::NoPage { .. } => None,
    });
    programs.collect()
}

/// Prints all processes that have a status page.
fn list(is_json: bool) -> Outcome {
    let pids = process::all().or_exit(FAILED)?;
    let (mut found, mut unreadable, mut odd): (Vec<Process>, usize, Vec<String>) = (Vec::new(), 0, Vec::new());
    for pid in pids {
        match process::look(pid) {
            Ok(Looked::Page(mut process)) => {
                if is_json {
                    filters::ask(&mut process);
                }
                found.push(*process);
            }
            // A process that ended meanwhile is not listed.
            Ok(Looked::NoPage { .. }) | Err(LookError::Gone { .. }) => {}
            Err(LookError::NotAllowed { .. }) => unreadable += 1,
            Err(error) => odd.push(error.to_string()),
        }
    }
    let agent = agent::ask();
    output::print_of_host(&if is_json {
        json::list(&found, unreadable, agent.json())
    } else {
        text::list(&found, unreadable) + &agent.text()
    })?;
    for error in odd {
        output::note(&format!("nearwire: {error}"));
    }
    Ok(())
}
