//! A network namespace that lives as long as someone holds it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use nearwire_sys::netns;

use crate::LabError;

/// A network namespace, held by a descriptor. Clones share the descriptor; with the last of them
/// (and the last socket and thread inside) the namespace goes.
#[derive(Debug, Clone)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
}

impl Namespace {
    /// Makes an empty, anonymous namespace. Its loopback interface is down.
    ///
    /// # Errors
    ///
    /// [`LabError::CreateNamespace`], most often for want of privilege.
    pub fn new() -> Result<Self, LabError> {
        netns::new_network_namespace().map(Self::hold).map_err(|source| LabError::CreateNamespace { source })
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// [`LabError::EnterNamespace`] when `/proc` is not mounted.
    pub fn current() -> Result<Self, LabError> {
        netns::current().map(Self::hold).map_err(|source| LabError::EnterNamespace { source })
    }

    pub(crate) fn hold(fd: OwnedFd) -> Self {
        Self { fd: Arc::new(fd) }
    }

    /// Runs `work` in this namespace on the calling thread, which then returns to where it was,
    /// also when `work` panics. Sockets and threads made by `work` stay in the namespace.
    ///
    /// # Errors
    ///
    /// [`LabError::EnterNamespace`]; `work` has not run then.
    pub fn enter<R>(&self, work: impl FnOnce() -> R) -> Result<R, LabError> {
        netns::enter(&*self.fd, work).map_err(|source| LabError::EnterNamespace { source })
    }

    /// The descriptor, for setns(2) and for netlink.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Inode number of the namespace: its identity, as in `net:[4026531840]` of `/proc/PID/ns/net`.
    ///
    /// # Errors
    ///
    /// What fstat(2) or dup(2) said.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(File::from(self.fd.try_clone()?).metadata()?.ino())
    }
}
