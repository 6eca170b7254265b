//! The network namespace of an engine, for threads that are in another one (setns(2), unshare(2)).
//!
//! A socket that exists works from any thread. What is opened (a port, the connection to an agent, a raw socket, a question about the sockets
//! of a port) belongs to the namespace that the thread is in. So a thread goes home for it, and back. Where it may not, the kernel serves
//! what needs it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nearwire_sys::netns;
use nearwire_sys::socket::netns_cookie;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::reason::Reason;

/// See the module.
#[derive(Debug)]
pub struct Home {
    /// A socket of the namespace; it holds no port.
    socket: OwnedFd,
    cookie: u64,
}

impl Home {
    /// The one that the calling thread is in. `None`: the kernel does not number them (before Linux 5.14).
    pub(super) fn here() -> io::Result<Option<Home>> {
        let socket = nearwire_sys::descriptor::place(any_socket()?);
        Ok(netns_cookie(&socket).ok().map(|cookie| Home { socket, cookie }))
    }

    /// Whether a socket belongs to it.
    pub(crate) fn has(&self, socket: impl AsFd) -> bool {
        netns_cookie(socket).is_ok_and(|cookie| cookie == self.cookie)
    }

    fn run<R>(&self, work: impl FnOnce() -> R) -> io::Result<R> {
        let there = any_socket()?;
        if self.has(&there) {
            return Ok(work());
        }
        let (home, back) = (netns::of_socket(&self.socket)?, netns::of_socket(&there)?);
        netns::visit(home, back, work)
    }
}

/// One that asks the kernel something about the calling thread's network namespace.
pub(super) fn any_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// Runs `work` in the network namespace of an engine.
///
/// # Errors
/// [`Reason::OtherNamespace`]: this thread is in another one, and lacks the capabilities to come there and go back (CAP_SYS_ADMIN and
/// CAP_NET_ADMIN over both). [`Reason::DescriptorLimit`]: it cannot be asked where the thread is.
pub(crate) fn at_home<R>(home: Option<&Home>, work: impl FnOnce() -> R) -> Result<R, Reason> {
    let Some(home) = home else { return Ok(work()) };
    home.run(work).map_err(|error| match Reason::of_error(&error) {
        Reason::DescriptorLimit => Reason::DescriptorLimit,
        _ => Reason::OtherNamespace,
    })
}

/// Cookie of the network namespace of the calling thread.
pub(super) fn present_namespace() -> Option<u64> {
    netns_cookie(any_socket().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::*;

    /// Whether this process may make network namespaces.
    fn new_namespace() -> Option<OwnedFd> {
        nearwire_lab::made_or_skip(netns::new_network_namespace())
    }

    #[test]
    fn thread_in_another_namespace_opens_at_home_and_comes_back() {
        let Some(away) = new_namespace() else { return };
        let home = Home::here().unwrap().unwrap();
        let before = present_namespace();
        assert_eq!(at_home(Some(&home), present_namespace), Ok(before), "at home");
        let (opened, after) =
            netns::enter(away, || (at_home(Some(&home), present_namespace), present_namespace())).unwrap();
        assert_eq!(opened, Ok(before));
        assert_ne!(after, before, "it is back where it was");
    }

    #[test]
    fn thread_in_another_namespace_without_capabilities_opens_nothing_there() {
        let Some(away) = new_namespace() else { return };
        let home = Home::here().unwrap().unwrap();
        let thread = std::thread::spawn(move || {
            netns::enter(away, || {
                // Of this thread alone; the way back from the namespace needs them again.
                let all = capabilities(None).unwrap();
                let mut sets = all;
                sets.effective -= CapabilitySet::SYS_ADMIN;
                set_capabilities(None, sets).unwrap();
                let ran = at_home(Some(&home), || ());
                set_capabilities(None, all).unwrap();
                ran
            })
        });
        assert_eq!(thread.join().unwrap().unwrap(), Err(Reason::OtherNamespace));
    }
}
