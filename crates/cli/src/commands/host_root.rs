//! The host that a command reads: this one, or a copy of another's files.

use nearwire_host::Root;

use crate::args::RootArgs;
use crate::exit::{self, Failure, OrExit};

/// Opens what was named.
pub fn open(args: &RootArgs) -> Result<Root, Failure> {
    match &args.sysroot {
        Some(directory) => Root::directory(directory).or_exit(exit::USAGE),
        None => Root::live().or_exit(exit::CANNOT),
    }
}
