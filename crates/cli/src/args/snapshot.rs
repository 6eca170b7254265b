//! `nearwire snapshot`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub struct SnapshotArgs {
    /// The file to write; an existing file is replaced once all is written
    #[arg(short, long, value_name = "FILE.tar.zst")]
    pub output: PathBuf,
    /// Take the snapshot of the copy of a host's files in this directory instead of this host
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Take these interfaces only [default: all]
    #[arg(long, value_name = "IFACE")]
    pub nic: Vec<String>,
}

const NOTES: &str = "A snapshot contains no host names, hardware or network addresses, serial numbers or UUIDs. It \
contains what only root may read if root takes it; otherwise a note that root is needed. Read it with \
nearwire settings --now --snapshot FILE.tar.zst; zstd and tar unpack it.";
