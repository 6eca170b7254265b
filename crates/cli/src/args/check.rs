//! `nearwire check`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The built-in profile, or a file whose name ends in .toml [default: socket-bypass]
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// An interface whose settings count; all that have a device where none is named
    #[arg(long, value_name = "IFACE")]
    pub nic: Vec<String>,
    /// Check a copy of a host's files instead of this host
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Tell every wish in full, also those that are fulfilled or do not count here
    #[arg(long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
