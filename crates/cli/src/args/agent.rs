//! `nearwire agent`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

const ABOUT: &str = "Serves programs without capabilities in this network namespace: it opens the interfaces and gives each program a share of \
them. It ends with the last program. docs/agent.md says who may use it and what programs share.";

const EXAMPLES: &str = "Examples:
  nearwire agent --stay
  nearwire agent --background

Exit codes: 0 the agent ended with its last program, or another agent serves this namespace; 2 wrong usage, 3 the kernel refuses what \
an agent needs, 4 the agent failed while it served.";

#[derive(Debug, Args)]
#[command(about = "Serve programs without capabilities in this network namespace", long_about = ABOUT, after_help = EXAMPLES)]
pub struct AgentArgs {
    /// Keep running after the last program has ended
    #[arg(long, conflicts_with = "linger")]
    pub stay: bool,
    /// End after this long without a connected program
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = humantime::parse_duration)]
    pub linger: Duration,
    /// Start the agent in a session of its own, and return when it is ready
    #[arg(long)]
    pub background: bool,
    /// The file that says who may use the agent, and how much of it
    #[arg(long, value_name = "FILE", default_value = nearwire_agent::rights::FILE)]
    pub rights: PathBuf,
    /// Report on standard output that the agent is ready, then close it: --background starts its process with this
    #[arg(long, hide = true)]
    pub announce: bool,
}
