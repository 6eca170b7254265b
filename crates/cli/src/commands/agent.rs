//! `nearwire agent`: the process that serves programs without capabilities.

use anyhow::Context;
use nearwire_agent::life::{self, AgentError, Ended, Word};
use nearwire_agent::ports::xdp::{XdpPorts, prepare};
use nearwire_agent::server::Stay;

use crate::args::agent::AgentArgs;
use crate::exit::{CANNOT, FAILED, Failure, OrExit, Outcome};
use crate::output;

pub fn run(args: &AgentArgs) -> Outcome {
    if args.background { start(args) } else { serve(args) }
}

fn serve(args: &AgentArgs) -> Outcome {
    let stay = if args.stay { Stay::Forever } else { Stay::Linger(args.linger) };
    let say = |word: &Word<'_>| match args.announce {
        true => life::say(word).context("close standard output").or_exit(CANNOT),
        false => Ok(()),
    };
    let ended = XdpPorts::new().map_err(AgentError::Links).and_then(|ports| {
        life::serve(ports, &args.rights, stay, || {
            // Where /dev/null cannot be opened the agent keeps the pipe of the process that started it.
            let _ = say(&Word::Ready);
            prepare();
        })
    });
    match ended {
        Ok(Ended::Done) => Ok(()),
        Ok(Ended::Taken) => {
            if !args.announce {
                output::note(
                    "nearwire: another agent serves this network namespace, or another program listens on its name",
                );
            }
            say(&Word::Taken)
        }
        Err(error) => {
            say(&Word::Failed(&error))?;
            let code = if matches!(error, AgentError::Serve(_)) { FAILED } else { CANNOT };
            Err(Failure { code, error: Some(error.into()) })
        }
    }
}

/// Starts a second process, which serves and reports on the same standard output whether it could start.
fn start(args: &AgentArgs) -> Outcome {
    let (linger, rights) = (format!("{}us", args.linger.as_micros()), std::path::absolute(&args.rights));
    let rights = rights.context("find the rights file").or_exit(CANNOT)?;
    let rights = rights.to_str().context("the name of the rights file is not UTF-8").or_exit(CANNOT)?;
    let how: &[&str] = if args.stay { &["--stay"] } else { &["--linger", &linger] };
    let all = [&["agent", "--announce", "--rights", rights][..], how].concat();
    life::start_detached(&all).context("start the agent").or_exit(CANNOT)
}
