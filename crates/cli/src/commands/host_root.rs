//! The host that a command reads: this one, or a copy of a host's files.

use nearwire_host::Root;

use crate::args::HostSource;
use crate::exit::{self, Failure, OrExit};

/// Opens the host that the options name.
pub fn open(source: &HostSource) -> Result<Root, Failure> {
    source.open().or_exit(if source.is_live() { exit::CANNOT } else { exit::USAGE })
}
