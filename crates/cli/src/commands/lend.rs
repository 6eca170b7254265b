//! `nearwire lend`: the process that a loopback cable's interfaces are in the care of.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nearwire_lab::guard;
use nearwire_sys::usage::ignore_interrupts;

use crate::args::LendArgs;
use crate::exit::{FAILED, OrExit, Outcome};

/// Ctrl-C goes to all of a terminal's processes: this one outlives it and ends when its connection does.
pub fn run(args: &LendArgs) -> Outcome {
    ignore_interrupts().or_exit(FAILED)?;
    let socket: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().or_exit(FAILED)?;
    guard(&args.near, &args.far, UnixStream::from(socket)).or_exit(FAILED)
}
