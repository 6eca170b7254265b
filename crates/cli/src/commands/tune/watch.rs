//! `nearwire tune watch`: keeps what was applied in effect.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use nearwire_host::Root;
use nearwire_host::change::{Held, LinkEvents, RootHost, drifted, hold};
use nearwire_host::journal::{Block, Content, HostIdentity, Journal, JournalError};
use nearwire_sys::usage::{catch_interrupts, interrupted};

use super::journal_directory;
use crate::args::HostSource;
use crate::args::tune::WatchArgs;
use crate::exit::{self, Failure, OrExit, Outcome};
use crate::output;

/// A signal that comes just before a wait is seen after it.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// A link that comes up is told of several times, and its driver is not ready at the first.
const SETTLING: Duration = Duration::from_millis(200);

pub fn run(args: &WatchArgs) -> Outcome {
    let directory = &journal_directory(&args.journal, &HostSource::default())?;
    catch_interrupts().or_exit(exit::FAILED)?;
    let mut host = RootHost::new(Root::live().or_exit(exit::CANNOT)?);
    let identity = HostIdentity::of(host.root());
    let events = LinkEvents::listen().context("listen for links").or_exit(exit::CANNOT)?;
    output::print_of_host("Watching what nearwire tune apply wrote; Ctrl-C ends it.\n")?;
    output::print(not_held(&content(directory, &identity)?, &identity))?;
    while !interrupted() {
        look(&mut host, directory, &identity)?;
        let looked = Instant::now();
        while !interrupted() && looked.elapsed() < args.interval {
            let left = args.interval.saturating_sub(looked.elapsed());
            if events.wait(left.min(WAIT_MAX)).context("listen for links").or_exit(exit::FAILED)? {
                std::thread::sleep(SETTLING);
                // Those that came meanwhile are of the same cause.
                let _ = events.wait(Duration::ZERO);
                break;
            }
        }
    }
    Ok(())
}

fn content(directory: &Path, identity: &HostIdentity) -> Result<Content, Failure> {
    Ok(Journal::look(directory, identity).map_err(super::journal_failure)?.unwrap_or_default())
}

/// What of the journal nobody asked to hold, in words.
fn not_held(content: &Content, identity: &HostIdentity) -> &'static str {
    let is_of_this_boot = |block: &Block| !block.host.is_other_boot(identity);
    let is_broken_off = content.is_interrupted() || content.reverting.is_some();
    match () {
        () if is_broken_off => {
            "An apply or revert was broken off or is running: nothing is held until it is reverted.\n"
        }
        () if content.in_effect().any(|block| is_of_this_boot(block) && block.confirm_by_unix_s.is_some()) => {
            "Nobody confirmed the newest values yet: nothing is held until somebody does.\n"
        }
        () if !content.in_effect().all(is_of_this_boot) => {
            "What was applied before this boot is not held: nearwire tune apply writes it again.\n"
        }
        () => "",
    }
}

/// Checks everything once, while no other command changes the host. The journal is taken, which writes to the disk,
/// only where something is to be written.
fn look(host: &mut RootHost, directory: &Path, identity: &HostIdentity) -> Outcome {
    if drifted(host, &content(directory, identity)?, identity).is_empty() {
        return Ok(());
    }
    let journal = match Journal::open(directory, identity.clone()) {
        Ok(journal) => journal,
        // An apply or revert is running; the next check sees its result.
        Err(JournalError::Busy { .. }) => return Ok(()),
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
