//! `nearwire lend`: the process that holds the interfaces of a loopback cable and gives them back.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nearwire_lab::guard;
use nearwire_sys::usage::ignore_interrupts;

use crate::args::LendArgs;
use crate::exit::{FAILED, OrExit, Outcome};

/// A terminal sends Ctrl-C to all of its processes. This one ignores it, and ends when its connection closes.
pub fn run(args: &LendArgs) -> Outcome {
    ignore_interrupts().or_exit(FAILED)?;
    let socket: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().or_exit(FAILED)?;
    guard(&args.near, &args.far, UnixStream::from(socket)).or_exit(FAILED)
}
