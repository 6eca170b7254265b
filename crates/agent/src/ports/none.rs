//! Ports where none can be opened.

use std::os::fd::BorrowedFd;

use super::{Opened, Ports, Wanted};
use crate::message::{Addresses, Cause, FlowOwner, Text};

/// Refuses every share.
#[derive(Debug)]
pub struct NoPorts;

impl NoPorts {
    fn refusal() -> Cause {
        Cause::Port { words: Text::cut("this version of the agent opens no ports: programs open their own") }
    }
}

impl Ports for NoPorts {
    fn open_share(&mut self, _: &Wanted) -> Result<Opened, Cause> {
        Err(NoPorts::refusal())
    }

    fn close_share(&mut self, _: u32) {}

    fn open_flow(&mut self, _: u32, _: &Addresses, _: FlowOwner) -> Result<(), Cause> {
        Err(NoPorts::refusal())
    }

    fn close_flow(&mut self, _: u32, _: &Addresses, _: FlowOwner) {}

    fn news(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn take_lost(&mut self) -> Vec<(u32, Cause)> {
        Vec::new()
    }
}
