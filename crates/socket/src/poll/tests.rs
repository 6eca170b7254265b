//! One list, one answer at a time; many lists against the kernel are in `preload/tests/poll_kernel.rs`.

use libc::{POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI, POLLRDBAND, POLLRDNORM, c_ulong, pollfd};
use rustix::io::Errno;

use super::select::{FdSets, WORD_BITS};
use super::*;

const IDLE: Events = Events::SENDABLE;
const READABLE: Events = Events::SENDABLE.union(Events::IN).union(Events::RDNORM);

fn entry(fd: i32, events: i16) -> pollfd {
    pollfd { fd, events, revents: 0x7fff }
}

/// Even descriptors are accelerated.
fn lookup(fd: i32) -> Option<SocketId> {
    (fd % 2 == 0).then(|| SocketId::new(fd as u32))
}

fn split(fds: &[pollfd]) -> PollSplit {
    let mut split = PollSplit::default();
    split.fill(fds, lookup);
    split
}

#[test]
fn asked_for_reading_state_decides_what_is_reported() {
    let cases = [
        (POLLIN, READABLE, POLLIN),
        (POLLIN | POLLRDNORM, READABLE, POLLIN | POLLRDNORM),
        (POLLPRI | POLLRDBAND, READABLE, 0),
        (POLLIN, IDLE, 0),
        (0, READABLE | Events::ERR | Events::HUP, POLLERR | POLLHUP),
        (POLLOUT, IDLE, POLLOUT),
    ];
    for (asked, state, reported) in cases {
        assert_eq!(revents(asked, state), reported, "{asked:#x} of {state:?}");
    }
}

#[test]
fn mixed_list_merged_each_entry_has_its_answer_and_negative_ones_none() {
    let mut fds = [entry(3, POLLIN), entry(-1, POLLIN), entry(4, POLLIN), entry(5, POLLOUT), entry(4, POLLOUT)];
    let mut split = split(&fds);
    assert!(split.has_ours());
    let asked: Vec<_> = split.kernel().iter().map(|entry| (entry.fd, entry.events, entry.revents)).collect();
    assert_eq!(asked, [(3, POLLIN, 0), (5, POLLOUT, 0)]);
    split.kernel()[1].revents = POLLNVAL;
    split.kernel().push(entry(900, POLLIN));
    assert_eq!(split.merge(&mut fds, |_| READABLE), 3);
    assert_eq!(fds.map(|entry| entry.revents), [0, 0, POLLIN, POLLNVAL, POLLOUT]);
}

#[test]
fn accelerated_socket_becomes_readable_list_is_ready() {
    let fds = [entry(3, POLLIN), entry(4, POLLIN)];
    let split = split(&fds);
    assert!(!split.is_any_ready(&fds, |_| IDLE));
    assert!(split.is_any_ready(&fds, |_| READABLE));
}

#[test]
fn list_filled_again_nothing_is_left_of_the_one_before() {
    let mut fds = [entry(3, POLLIN), entry(4, POLLIN)];
    let mut split = split(&fds);
    split.fill(&fds[..1], lookup);
    assert!(!split.has_ours());
    assert_eq!(split.merge(&mut fds[..1], |_| READABLE), 0);
}

#[test]
fn sets_listed_each_descriptor_appears_once_with_what_was_asked() {
    let mut read = [1 << 3 | 1 << 40, 1 << 1 | 1 << 9];
    let mut write: [c_ulong; 2] = [1 << 3, 0];
    let sets = FdSets { read: Some(&mut read), write: Some(&mut write), except: None };
    let mut list = Vec::new();
    sets.poll_list(WORD_BITS + 9, &mut list);
    let listed: Vec<_> = list.iter().map(|entry| entry.fd).collect();
    assert_eq!(listed, [3, 40, WORD_BITS as i32 + 1], "bit 9 of the second word is not below nfds");
    assert_eq!(list[0].events & (POLLIN | POLLOUT | POLLPRI), POLLIN | POLLOUT);
    assert_eq!(list[1].events & (POLLIN | POLLOUT | POLLPRI), POLLIN);
}

#[test]
fn hang_up_and_error_answered_hang_up_is_for_readers_only() {
    for (state, expected) in [(POLLHUP, ([1 << 5], [0], 1)), (POLLERR, ([1 << 5], [1 << 5], 2))] {
        let (mut read, mut write): ([c_ulong; 1], [c_ulong; 1]) = ([1 << 5], [1 << 5]);
        let mut sets = FdSets { read: Some(&mut read), write: Some(&mut write), except: None };
        let mut list = Vec::new();
        sets.poll_list(6, &mut list);
        list[0].revents = state;
        let bits = sets.answer(6, &list);
        assert_eq!((read, write, bits), (expected.0, expected.1, Ok(expected.2)));
    }
}

#[test]
fn descriptor_closed_answer_is_ebadf_and_sets_are_untouched() {
    let mut read: [c_ulong; 1] = [1 << 5 | 1 << 7];
    let mut sets = FdSets { read: Some(&mut read), ..FdSets::default() };
    let mut list = Vec::new();
    sets.poll_list(8, &mut list);
    list[0].revents = POLLNVAL;
    assert_eq!(sets.answer(8, &list), Err(Errno::BADF));
    assert_eq!(read, [1 << 5 | 1 << 7]);
}
