//! `nearwire snapshot`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub struct SnapshotArgs {
    /// Where to write it; a file that is there is replaced when all is written
    #[arg(short, long, value_name = "FILE.tar.zst")]
    pub output: PathBuf,
    /// Take it of the copy of a host's files in this directory instead of this host
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Take these interfaces only [default: all]
    #[arg(long, value_name = "IFACE")]
    pub nic: Vec<String>,
}

const NOTES: &str = "A snapshot has no host names, hardware and network addresses, serial numbers and UUIDs. What only \
root may read is in it when root takes it, else that it needs root. Look at it with \
nearwire settings --now --snapshot FILE.tar.zst; zstd and tar unpack it.";
