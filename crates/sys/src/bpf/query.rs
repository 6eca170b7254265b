//! How many BPF programs are attached where the kernel's own stack would run them.
//!
//! Source: `bpf_prog_query` of `kernel/bpf/syscall.c`, `include/uapi/linux/bpf.h`.

use std::io;
use std::os::fd::BorrowedFd;

use super::attr::{self, Command};
use super::call::{bpf, fd_u32};

/// Also what the groups above have attached: all that is run.
const BPF_F_QUERY_EFFECTIVE: u32 = 1;

/// A place in a control group's sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum GroupHook {
    /// Packets that come (`BPF_CGROUP_INET_INGRESS`).
    Ingress = 0,
    /// Packets that leave.
    Egress = 1,
    /// sendto(2) over IPv4 without connect(2) (`BPF_CGROUP_UDP4_SENDMSG`).
    SendV4 = 14,
    /// The same over IPv6.
    SendV6 = 15,
    /// recvfrom(2) over IPv4 (`BPF_CGROUP_UDP4_RECVMSG`).
    ReceiveV4 = 19,
    /// The same over IPv6.
    ReceiveV6 = 20,
}

/// A place at an interface (`BPF_TCX_INGRESS`, Linux 6.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum InterfaceHook {
    /// Frames that come.
    Ingress = 46,
    /// Frames that leave.
    Egress = 47,
}

/// Programs that are run for the sockets of a control group, whose directory is open.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN, `EBADF` for another directory than a control group's.
pub fn programs_of_group(group: BorrowedFd<'_>, hook: GroupHook) -> io::Result<u32> {
    count(fd_u32(group), hook as u32, BPF_F_QUERY_EFFECTIVE)
}

/// Programs attached by tcx to an interface of the calling thread's network namespace.
///
/// # Errors
/// `EINVAL` before Linux 6.6, `EPERM` without CAP_NET_ADMIN, `ENODEV` for an index that no interface has.
pub fn programs_of_interface(ifindex: u32, hook: InterfaceHook) -> io::Result<u32> {
    count(ifindex, hook as u32, 0)
}

fn count(target: u32, attach_type: u32, query_flags: u32) -> io::Result<u32> {
    let mut query = attr::ProgQuery { target, attach_type, query_flags, ..attr::zeroed() };
    bpf(Command::ProgQuery, &mut query)?;
    Ok(query.programs)
}
