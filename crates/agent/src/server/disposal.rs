//! Closing of descriptors that somebody sent.
//!
//! close(2) of a file does what its file system says, and one in user space may never answer. So the loop closes sockets itself, after
//! taking out of them what lets them linger, and leaves anything else to a thread each. Only who sends what nobody asked for gets here.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::shadow::may_close_at_once;

/// Threads at a time; with as many stuck, descriptors are kept.
const THREADS_MOST: usize = 32;
const STACK_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Disposal {
    threads: Arc<AtomicUsize>,
    kept: Vec<OwnedFd>,
}

impl Disposal {
    pub(super) fn take(&mut self, descriptors: impl IntoIterator<Item = OwnedFd>) {
        for descriptor in descriptors {
            if !may_close_at_once(&descriptor) {
                self.kept.push(descriptor);
            }
        }
        while !self.kept.is_empty() && self.threads.load(Ordering::Acquire) < THREADS_MOST {
            let closing = std::mem::take(&mut self.kept);
            self.threads.fetch_add(1, Ordering::AcqRel);
            let threads = Arc::clone(&self.threads);
            let close = move || {
                drop(closing);
                threads.fetch_sub(1, Ordering::AcqRel);
            };
            // Without a thread they are closed with what could not be started.
            if std::thread::Builder::new().stack_size(STACK_BYTES).spawn(close).is_err() {
                self.threads.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}
