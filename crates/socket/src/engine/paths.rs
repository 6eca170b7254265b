//! The MTU of paths: the kernel learns it of routers, and is asked for it when a send needs to know.
//!
//! Once for each destination that a long datagram goes to, and again when a router told of it, or when the kernel forgets.

use std::net::IpAddr;
use std::time::Duration;

use nearwire_stack::{Path, Update};

use super::Engine;
use crate::host::{Host, Tables};
use crate::kernel_tables::{PathError, PathErrors};
use crate::now::Now;

/// A router's message comes here a moment before the kernel takes it in. For so long the kernel is asked again.
const KERNEL_FOLLOWS_WITHIN: Duration = Duration::from_millis(10);
/// Messages that are followed at a time. With more, all paths are asked for anew.
const MESSAGES_MOST: usize = 64;
/// Where routers' messages cannot be heard, an answer is good for this long.
const UNHEARD_GOOD_FOR: Duration = Duration::from_millis(100);
/// Where the kernel gave no answer, it sends what is long for this long.
const REFUSED_GOOD_FOR: Duration = Duration::from_secs(1);
/// No packet of more than this is for us to send then.
const NOTHING_BYTES: u32 = 1;

/// See the module.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) errors: PathErrors,
    /// What the kernel may not have taken in yet, since when; times are those of the monotonic clock.
    followed: Vec<(PathError, u64)>,
    /// When answers end.
    ends: Vec<(u64, u32, IpAddr)>,
    next_end_ns: Option<u64>,
}

impl Paths {
    pub(super) const fn new(errors: PathErrors) -> Paths {
        Paths { errors, followed: Vec::new(), ends: Vec::new(), next_end_ns: None }
    }

    /// Whether there is something to do even if no router said anything.
    #[inline]
    pub(super) fn has_something(&self) -> bool {
        self.next_end_ns.is_some() || !self.followed.is_empty()
    }

    fn end_at(&mut self, end_ns: u64, ifindex: u32, destination: IpAddr) {
        self.ends.retain(|(_, of, to)| (*of, *to) != (ifindex, destination));
        self.ends.push((end_ns, ifindex, destination));
        self.next_end_ns = self.ends.iter().map(|(end_ns, ..)| *end_ns).min();
    }

    fn take_ended(&mut self, now_ns: u64) -> Vec<(u64, u32, IpAddr)> {
        if self.next_end_ns.is_none_or(|end_ns| end_ns > now_ns) {
            return Vec::new();
        }
        let ended = self.ends.extract_if(.., |(end_ns, ..)| *end_ns <= now_ns).collect();
        self.next_end_ns = self.ends.iter().map(|(end_ns, ..)| *end_ns).min();
        ended
    }
}

impl<H: Host> Engine<H> {
    /// A send needs to know of a path: `true`, it can go on.
    #[cold]
    pub(super) fn answer_path_question(&mut self, now: Now) -> bool {
        let Some((ifindex, destination)) = self.stack.take_path_question() else { return false };
        self.ask_for_path(now, ifindex, destination);
        true
    }

    /// Asks the kernel, tells the stack, and says what it is.
    fn ask_for_path(&mut self, now: Now, ifindex: u32, destination: IpAddr) -> Path {
        let refused = (Path { mtu_bytes: Some(NOTHING_BYTES), is_mtu_locked: false }, Some(REFUSED_GOOD_FOR));
        let (path, good_for) = self.tables.path(ifindex, destination).unwrap_or(refused);
        let unheard = (!self.paths.errors.hears_of(destination)).then_some(UNHEARD_GOOD_FOR);
        if let Some(good_for) = [good_for, unheard].into_iter().flatten().min() {
            let end_ns = now.monotonic_ns().saturating_add(good_for.as_nanos() as u64);
            self.paths.end_at(end_ns, ifindex, destination);
        }
        self.stack.update(Update::Path { ifindex, destination, path: Some(path) });
        path
    }

    /// Follows what routers said, and forgets what is no longer true.
    pub(super) fn follow_paths(&mut self, now: Now) {
        while let Some(error) = self.paths.errors.next() {
            if self.paths.followed.len() == MESSAGES_MOST {
                self.paths.followed.clear();
                self.stack.forget_paths();
            }
            self.paths.followed.retain(|(other, _)| other.destination != error.destination);
            self.paths.followed.push((error, now.monotonic_ns()));
        }
        for (error, since_ns) in std::mem::take(&mut self.paths.followed) {
            if !self.follow_path_error(now, error) && now.since(since_ns) < KERNEL_FOLLOWS_WITHIN {
                self.paths.followed.push((error, since_ns));
            }
        }
        for (_, ifindex, destination) in self.paths.take_ended(now.monotonic_ns()) {
            self.stack.update(Update::Path { ifindex, destination, path: None });
        }
    }

    /// Whether the kernel has taken it in, or nobody here sends there.
    fn follow_path_error(&mut self, now: Now, error: PathError) -> bool {
        let mut interfaces: Vec<u32> = self.stack.interfaces_of_path(error.destination).collect();
        if interfaces.is_empty() && error.mtu_bytes < Path::sure_bytes(error.destination) {
            // Less than what is sent without a question.
            interfaces.extend(self.stack.interface_for(error.destination, None).ok());
        }
        interfaces.into_iter().fold(true, |is_known, ifindex| {
            let path = self.ask_for_path(now, ifindex, error.destination);
            is_known & path.mtu_bytes.is_some_and(|mtu_bytes| path.is_mtu_locked || mtu_bytes <= error.mtu_bytes)
        })
    }
}
