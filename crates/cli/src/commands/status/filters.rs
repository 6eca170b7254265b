//! The packet filters that the accelerated traffic of a process bypasses. This command asks for them in the process's network
//! namespace, so that the process itself does no work for it.

use std::fs::File;
use std::io;

use nearwire_socket::kernel_tables::packet_filters::PacketFilters;
use nearwire_socket::status::Process;
use nearwire_sys::netns;
use rustix::fs::fstat;

/// Adds the filters to a process's status, if the process has accelerated sockets.
pub fn ask(process: &mut Process) {
    if !process.status.sockets.iter().any(|socket| socket.is_accelerated) {
        return;
    }
    let unknown = |error: io::Error| {
        let why = format!("the network namespace of the process cannot be entered: {error}; that needs CAP_SYS_ADMIN");
        PacketFilters { found: Vec::new(), unknown: vec![why] }
    };
    process.filters = read(process.pid).unwrap_or_else(unknown);
}

fn read(pid: i32) -> io::Result<PacketFilters> {
    let read = || PacketFilters::read(pid.unsigned_abs());
    let theirs = File::open(format!("/proc/{pid}/ns/net"))?;
    let ours = netns::current()?;
    let file = |status: rustix::fs::Stat| (status.st_dev, status.st_ino);
    // Entering the own namespace needs a capability too, so that is avoided.
    if file(fstat(&theirs)?) == file(fstat(&ours)?) {
        return Ok(read());
    }
    netns::enter(theirs, read)
}
