//! `nearwire tune watch`: keeps what was applied in effect.

use std::time::{Duration, Instant};

use nearwire_host::Root;
use nearwire_host::change::{Held, RootHost, hold};
use nearwire_host::journal::{HostIdentity, Journal};
use nearwire_sys::usage::{catch_interrupts, interrupted};

use super::journal_directory;
use crate::args::HostSource;
use crate::args::tune::WatchArgs;
use crate::exit::{self, OrExit, Outcome};
use crate::output;

/// How often Ctrl-C and links are checked.
const TICK: Duration = Duration::from_millis(200);

pub fn run(args: &WatchArgs) -> Outcome {
    let directory = &journal_directory(&args.journal, &HostSource::default())?;
    catch_interrupts().or_exit(exit::FAILED)?;
    let mut host = RootHost::new(Root::live().or_exit(exit::CANNOT)?);
    let identity = HostIdentity::of(host.root());
    output::print_of_host("Watching what nearwire tune apply wrote; Ctrl-C ends it.\n")?;
    let mut links = carriers(host.root());
    let mut looked: Option<Instant> = None;
    while !interrupted() {
        let now = carriers(host.root());
        let is_due = looked.is_none_or(|looked| looked.elapsed() >= args.interval);
        if is_due || now != links {
            links = now;
            looked = Some(Instant::now());
            look(&mut host, directory, &identity)?;
        }
        std::thread::sleep(TICK.min(args.interval));
    }
    Ok(())
}

/// Checks everything once, while no other command changes the host.
fn look(host: &mut RootHost, directory: &std::path::Path, identity: &HostIdentity) -> Outcome {
    let journal = match Journal::open(directory, identity.clone()) {
        Ok(journal) => journal,
        // An apply or revert is running; the next check sees its result.
        Err(nearwire_host::journal::JournalError::Busy { .. }) => return Ok(()),
        Err(error) => return Err(super::journal_failure(error)),
    };
    for (id, held) in hold(host, &journal) {
        let words = match held {
            Held::Again { drifted } => format!("was {drifted}; written again"),
            Held::Refused(error) => format!("cannot be held: {error}"),
        };
        output::print_of_host(&format!("{}  {id}  {words}\n", time()))?;
    }
    Ok(())
}

fn time() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}

/// The interfaces, and how often each link came up: the count shows a reset even if it is over before the next check.
fn carriers(root: &Root) -> Vec<(String, String)> {
    let names = nearwire_host::interfaces(root).unwrap_or_default();
    let count = |name: &String| root.read(&format!("/sys/class/net/{name}/carrier_changes")).unwrap_or_default();
    names
        .into_iter()
        .map(|name| {
            let count = count(&name);
            (name, count)
        })
        .collect()
}
