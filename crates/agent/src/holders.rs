//! Which processes have a socket, as far as `/proc` tells.

use std::fs;
use std::io::ErrorKind;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// A child that is about to execute a program has all of its parent's for a moment.
const EXECUTES_WITHIN: Duration = Duration::from_millis(2);

/// Whether a process has its descriptors still. One that ends closes them before it is gone, and the agent hears of that at once; one that its
/// parent has not waited for has none.
pub(crate) fn has_descriptors(pid: u32) -> bool {
    let is_there = Pid::from_raw(pid.cast_signed()).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    is_there && has_any_descriptor(pid, |_| true).unwrap_or(true)
}

/// All that have a socket, as far as their descriptors can be read, but for the agent, which was just shown it. Takes a microsecond for each
/// descriptor on the host.
pub(crate) fn holders_of(inode: u64) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let others = pids.filter(|pid| *pid != std::process::id());
    let mut holders: Vec<u32> = others.filter(|pid| has_socket(*pid, inode)).collect();
    if !holders.is_empty() {
        std::thread::sleep(EXECUTES_WITHIN);
        holders.retain(|pid| has_socket(*pid, inode));
    }
    holders
}

fn has_socket(pid: u32, inode: u64) -> bool {
    let socket = format!("socket:[{inode}]");
    let is_it = |descriptor: &fs::DirEntry| fs::read_link(descriptor.path()).is_ok_and(|to| to.as_os_str() == &*socket);
    has_any_descriptor(pid, is_it).unwrap_or(false)
}

/// Of the first thread that has any: all have the same but for one that has ended. `None`: they are not told.
fn has_any_descriptor(pid: u32, mut is_it: impl FnMut(&fs::DirEntry) -> bool) -> Option<bool> {
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        match fs::read_dir(thread.path().join("fd")) {
            Ok(descriptors) => {
                let mut descriptors = descriptors.flatten().peekable();
                if descriptors.peek().is_some() {
                    return Some(descriptors.any(|descriptor| is_it(&descriptor)));
                }
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return None,
            Err(_) => {}
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::{AsFd, OwnedFd};
    use std::process::{Child, Command};
    use std::time::Instant;

    use super::*;

    /// A process that has a socket, which this one opened for it and closed.
    fn holder() -> (Child, u64) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let inode = rustix::fs::fstat(socket.as_fd()).unwrap().st_ino;
        (Command::new("sleep").arg("60").stdin(OwnedFd::from(socket)).spawn().unwrap(), inode)
    }

    #[test]
    fn process_that_ended_unwaited_for_has_no_descriptors() {
        let (mut child, inode) = holder();
        assert!(has_descriptors(child.id()) && has_socket(child.id(), inode));
        assert!(!has_socket(std::process::id(), inode));
        child.kill().unwrap();
        let begun = Instant::now();
        while has_descriptors(child.id()) {
            assert!(begun.elapsed().as_secs() < 10, "a process that was killed has descriptors");
        }
        let is_there = Pid::from_raw(child.id().cast_signed()).is_some_and(|pid| test_kill_process(pid).is_ok());
        assert!(is_there, "nobody waited for it");
        child.wait().unwrap();
    }

    #[test]
    fn process_that_has_a_socket_is_found_until_it_ends() {
        let (mut child, inode) = holder();
        assert!(holders_of(inode).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!holders_of(inode).contains(&child.id()));
    }
}
