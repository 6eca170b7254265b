//! BPF programs of the control group that a process is in. Source: cgroups(7), `include/linux/bpf-cgroup.h`.

use std::io;
use std::os::fd::AsFd;

use nearwire_sys::bpf::query::{GroupHook, programs_of_group};
use rustix::fs::{Mode, OFlags};

use super::PacketFilter;

/// Where the second version of control groups is mounted: alone, or beside the first one.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const HOOKS: [(GroupHook, &str); 6] = [
    (GroupHook::Ingress, "ingress"),
    (GroupHook::Egress, "egress"),
    (GroupHook::SendV4, "sends over IPv4"),
    (GroupHook::SendV6, "sends over IPv6"),
    (GroupHook::ReceiveV4, "receives over IPv4"),
    (GroupHook::ReceiveV6, "receives over IPv6"),
];

pub(super) fn read(pid: u32) -> io::Result<Vec<PacketFilter>> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    // A line of the second version has the number 0 and no controllers.
    let Some(group) = groups.lines().find_map(|line| line.strip_prefix("0::")) else { return Ok(Vec::new()) };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut found = Vec::new();
    for mount in MOUNTS {
        // Not there: nothing is mounted here, or only a part of the tree can be seen.
        let Ok(directory) = rustix::fs::open(format!("{mount}{group}"), flags, Mode::empty()) else { continue };
        for (hook, words) in HOOKS {
            match programs_of_group(directory.as_fd(), hook) {
                Ok(programs @ 1..) => {
                    found.push(PacketFilter::ControlGroup { group: group.to_owned(), hook: words, programs });
                }
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Err(error),
                // The first version, or a kernel without these.
                Ok(0) | Err(_) => {}
            }
        }
    }
    Ok(found)
}
