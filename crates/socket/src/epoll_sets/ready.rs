//! The kernel's list of ready registrations: what is added to a set is put there if it is true, whether it was reported before or not.
//!
//! There is no call that takes one registration out. All that are ready are delivered here, and those that the kernel does not put back itself
//! (edge-triggered and one-shot ones) are armed again. Limit: a thread that waits for the set in the kernel at that moment may get one first.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use nearwire_sys::descriptor::Descriptor;
use rustix::event::{PollFd, PollFlags, Timespec, epoll as kernel, poll};

use crate::epoll::Events;

/// A registration in a set of the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// Under which it was registered, by whichever process.
    pub(super) fd: i32,
    pub(super) events: Events,
    data: u64,
}

/// All registrations in a set, which only `/proc` tells (`ep_show_fdinfo`).
pub(super) fn known_to_kernel(set: Descriptor) -> Vec<Known> {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{}", set.as_fd().as_raw_fd())).unwrap_or_default();
    told.lines().filter_map(known_of).collect()
}

/// Of a line as `tfd:        4 events:       1f data:       4  pos:0 ino:7 sdev:8`.
fn known_of(line: &str) -> Option<Known> {
    let mut words = line.split_whitespace();
    let mut after = |name| words.find(|word| *word == name).and_then(|_| words.next());
    let fd = after("tfd:")?.parse().ok()?;
    let events = u32::from_str_radix(after("events:")?, 16).ok()?;
    let data = u64::from_str_radix(after("data:")?, 16).ok()?;
    Some(Known { fd, events: Events::from_bits_retain(events), data })
}

/// What is true of a descriptor, of what a registration asks for.
pub(super) fn true_of(fd: Descriptor, asked: Events) -> Events {
    let mut polled = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::all())];
    let is_known = poll(&mut polled, Some(&Timespec::default())).is_ok();
    let found = if is_known { polled[0].revents() } else { PollFlags::empty() };
    Events::from_bits_truncate(found.bits().into()) & (asked | Events::ALWAYS)
}

/// Takes a registration that is ready out of the list. Returns what it would have reported.
pub(super) fn take_out(set: Descriptor, own: Descriptor, data: u64) -> Events {
    let known = known_to_kernel(set);
    let mut events =
        vec![kernel::Event { flags: kernel::EventFlags::empty(), data: kernel::EventData::new_u64(0) }; known.len()];
    if events.is_empty() {
        return Events::empty();
    }
    let Ok(count) = kernel::wait(set, &mut events[..], Some(&Timespec::default())) else { return Events::empty() };
    events.truncate(count);
    let own_at = events.iter().position(|event| event.data.u64() == data);
    let told = own_at.map_or(kernel::EventFlags::empty(), |at| events.swap_remove(at).flags);
    for event in &events {
        let is_it = |other: &&Known| (other.fd, other.data) != (own.number(), data) && other.data == event.data.u64();
        known.iter().filter(is_it).for_each(|other| put_back(set, *other));
    }
    Events::from_bits_retain(told.bits())
}

/// A registration was delivered that is to be delivered to the program.
fn put_back(set: Descriptor, known: Known) {
    let Some(fd) = Descriptor::new(known.fd).filter(|_| known.events.intersects(Events::ET | Events::ONESHOT)) else {
        return;
    };
    let (data, flags) =
        (kernel::EventData::new_u64(known.data), kernel::EventFlags::from_bits_retain(known.events.bits()));
    // Refused where this process has another file under that number, or none: it cannot be named then.
    let _ = if known.events.contains(Events::EXCLUSIVE) {
        kernel::delete(set, fd).and_then(|()| kernel::add(set, fd, data, flags))
    } else {
        kernel::modify(set, fd, data, flags)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registration_that_the_kernel_has_is_read_of_its_line() {
        let line = "tfd:        4 events: 40000000 data:               1f  pos:0 ino:7 sdev:8";
        assert_eq!(known_of(line), Some(Known { fd: 4, events: Events::ONESHOT, data: 31 }));
        assert_eq!(known_of("pos:\t0"), None);
    }
}
