//! `nearwire agent`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

const ABOUT: &str = "Serves programs without capabilities in this network namespace: opens interfaces and hands out shares of them. \
Ends with the last program. docs/agent.md says who may use it and what is shared.";

const EXAMPLES: &str = "Examples:
  nearwire agent --stay
  nearwire agent --background

Exit codes: 0 it has ended with its last program, or another agent serves this namespace; 2 wrong usage, 3 the kernel refuses what an \
agent needs, 4 it failed while it served.";

#[derive(Debug, Args)]
#[command(about = "Serve programs without capabilities in this network namespace", long_about = ABOUT, after_help = EXAMPLES)]
pub struct AgentArgs {
    /// Do not end with the last program
    #[arg(long, conflicts_with = "linger")]
    pub stay: bool,
    /// End when no program has been connected for this long
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = humantime::parse_duration)]
    pub linger: Duration,
    /// Start it in a session of its own, and return when it serves
    #[arg(long)]
    pub background: bool,
    /// Who may use it, and how much
    #[arg(long, value_name = "FILE", default_value = nearwire_agent::rights::FILE)]
    pub rights: PathBuf,
    /// Say on standard output that it serves, and close it: how the process of --background is started
    #[arg(long, hide = true)]
    pub announce: bool,
}
