//! The host to read: `--sysroot` and `--snapshot` of every command that reads settings.

use std::path::PathBuf;

use clap::Args;
use nearwire_host::{Root, RootError};

/// This host, or a copy of a host's files.
#[derive(Clone, Debug, Default, Args)]
pub struct HostSource {
    /// Read the copy of a host's files in this directory instead of this host
    #[arg(long, value_name = "DIR", conflicts_with = "snapshot")]
    pub sysroot: Option<PathBuf>,
    /// Read this snapshot of a host, or an archive made by hwloc-gather-topology or sos
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
}

impl HostSource {
    /// Whether it is the host that this program runs on.
    pub fn is_live(&self) -> bool {
        self.sysroot.is_none() && self.snapshot.is_none()
    }

    /// Opens it.
    pub fn open(&self) -> Result<Root, RootError> {
        match (&self.sysroot, &self.snapshot) {
            (Some(directory), _) => Root::directory(directory),
            (None, Some(archive)) => Root::archive(archive),
            (None, None) => Root::live(),
        }
    }
}
