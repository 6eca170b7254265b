//! What the accelerated traffic of a process does not meet though the kernel's would: packet filters, and VLAN tags that the interface takes
//! out. This command asks for them in the process's network namespace, so that the process itself does no work for it.

use std::fs::File;
use std::io;

use nearwire_socket::kernel_tables::packet_filters::PacketFilters;
use nearwire_socket::kernel_tables::vlan_tags::HiddenTags;
use nearwire_socket::status::Process;
use nearwire_sys::netns;
use rustix::fs::fstat;

/// Adds these to a process's status, if the process has accelerated sockets.
pub fn ask(process: &mut Process) {
    if !process.status.sockets.iter().any(|socket| socket.is_accelerated) {
        return;
    }
    let unknown = |error: io::Error| {
        let why = format!("the network namespace of the process cannot be entered: {error}; that needs CAP_SYS_ADMIN");
        (PacketFilters { found: Vec::new(), unknown: vec![why] }, Vec::new())
    };
    (process.filters, process.hidden_tags) = read(process.pid).unwrap_or_else(unknown);
    let used = process.status.interfaces.iter().filter(|interface| interface.reason.is_none());
    let used: Vec<_> = used.map(|interface| (&interface.name, interface.mode.starts_with("generic"))).collect();
    process.hidden_tags.retain(|hidden| {
        used.iter().any(|(name, is_generic)| **name == hidden.interface && (*is_generic || !hidden.is_told_in_driver))
    });
}

fn read(pid: i32) -> io::Result<(PacketFilters, Vec<HiddenTags>)> {
    // What cannot be asked of interfaces is no reason to warn.
    let read = || (PacketFilters::read(pid.unsigned_abs()), HiddenTags::read().unwrap_or_default());
    let theirs = File::open(format!("/proc/{pid}/ns/net"))?;
    let ours = netns::current()?;
    let file = |status: rustix::fs::Stat| (status.st_dev, status.st_ino);
    // Entering the own namespace needs a capability too, so that is avoided.
    if file(fstat(&theirs)?) == file(fstat(&ours)?) {
        return Ok(read());
    }
    netns::enter(theirs, read)
}
