//! poll(2) and select(2) over a mix of accelerated and other sockets, against the running kernel alone:
//! whichever sockets of a list count as accelerated, the answer must be the one the kernel gives to the
//! whole list. It stands here because calls with any descriptor number need `unsafe`. Needs no root.
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{null, null_mut};
use std::sync::LazyLock;

use libc::{c_ulong, pollfd};
use nearwire_socket::SocketId;
use nearwire_socket::epoll::Events;
use nearwire_socket::poll::PollSplit;
use nearwire_socket::poll::select::FdSets;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Bits of the sets; descriptors of the test are made to be below.
const SET_WORDS: usize = 4;
const NFDS_MOST: usize = SET_WORDS * c_ulong::BITS as usize;

/// One socket in each state that UDP sockets of the kernel can be in. Two ends of pipes stand for states
/// that those do not have: a hang-up with nothing to read, an error alone with room to write.
struct Zoo {
    sockets: Vec<(OwnedFd, Events)>,
    /// A peer that must not go away.
    _sender: UdpSocket,
    /// A number that was open and is not.
    closed: i32,
}

/// One for all tests: what is closed here must not be open for a moment while another test runs.
static ZOO: LazyLock<Zoo> = LazyLock::new(Zoo::new);

fn bound() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

fn wait_for(socket: &UdpSocket, events: i16) {
    let mut entry = [pollfd { fd: socket.as_raw_fd(), events, revents: 0 }];
    // SAFETY: one entry, which lives during the call.
    assert_eq!(unsafe { libc::poll(entry.as_mut_ptr(), 1, 5000) }, 1);
}

impl Zoo {
    fn new() -> Self {
        let idle = bound();
        let [readable, sender] = [bound(), bound()];
        sender.send_to(b"near", readable.local_addr().unwrap()).unwrap();
        wait_for(&readable, libc::POLLIN);
        let failed = bound();
        failed.connect(bound().local_addr().unwrap()).unwrap();
        failed.send(b"to nobody").unwrap();
        wait_for(&failed, 0);
        let [half_shut, shut] = [bound(), bound()];
        for (socket, how) in [(&half_shut, libc::SHUT_RD), (&shut, libc::SHUT_RDWR)] {
            socket.connect(sender.local_addr().unwrap()).unwrap();
            // SAFETY: no memory is involved.
            assert_eq!(unsafe { libc::shutdown(socket.as_raw_fd(), how) }, 0);
        }
        let readable_now = Events::IN | Events::RDNORM;
        let end = readable_now | Events::RDHUP;
        let [(hung_up, _), (_, broken)] = [(); 2].map(|()| std::io::pipe().unwrap());
        let sockets = vec![
            (idle.into(), Events::SENDABLE),
            (readable.into(), Events::SENDABLE | readable_now),
            (failed.into(), Events::SENDABLE | Events::ERR),
            (half_shut.into(), Events::SENDABLE | end),
            (shut.into(), Events::SENDABLE | end | Events::HUP),
            (hung_up.into(), Events::HUP),
            (broken.into(), Events::OUT | Events::WRNORM | Events::ERR),
        ];
        let high = 200;
        // SAFETY: no memory is involved; the number was not open, as the assertion shows.
        let closed = unsafe { libc::fcntl(sender.as_raw_fd(), libc::F_DUPFD, high) };
        assert!(closed >= high && (closed as usize) < NFDS_MOST);
        // SAFETY: the descriptor was made by the line before and nobody else knows it.
        assert_eq!(unsafe { libc::close(closed) }, 0);
        Self { sockets, _sender: sender, closed }
    }

    fn fd(&self, which: usize) -> i32 {
        self.sockets.get(which).map_or(self.closed, |(socket, _)| socket.as_raw_fd())
    }

    /// Bit `n` of `ours`: the socket at place `n` is accelerated.
    fn lookup(&self, ours: u8, fd: i32) -> Option<SocketId> {
        let at = self.sockets.iter().position(|(socket, _)| socket.as_raw_fd() == fd)?;
        (ours >> at & 1 == 1).then(|| SocketId::new(at as u32))
    }

    fn state(&self, id: SocketId) -> Events {
        self.sockets[id.index()].1
    }

    /// Our answer to a list, with the kernel's for its part.
    fn poll(&self, ours: u8, fds: &mut [pollfd]) -> usize {
        let mut split = PollSplit::default();
        split.fill(fds, |fd| self.lookup(ours, fd));
        kernel_poll(split.kernel());
        split.merge(fds, |id| self.state(id))
    }
}

/// The system call itself: the name `poll` may be the library's own.
fn kernel_poll(fds: &mut [pollfd]) -> usize {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: pointer and length are those of one slice, which lives during the call, as does `now`.
    let number =
        unsafe { libc::syscall(libc::SYS_ppoll, fds.as_mut_ptr(), fds.len(), &raw const now, null::<u8>(), 0) };
    usize::try_from(number).unwrap()
}

/// The system call itself; `Err` has the error number.
fn kernel_select(nfds: usize, sets: [Option<&mut [c_ulong; SET_WORDS]>; 3]) -> Result<usize, i32> {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let [read, write, except] = sets.map(|set| set.map_or(null_mut(), |words| words.as_mut_ptr()));
    // SAFETY: each set is null or has room for `NFDS_MOST` bits, and `nfds` is at most that.
    let number = unsafe { libc::syscall(libc::SYS_pselect6, nfds, read, write, except, &raw const now, null::<u8>()) };
    usize::try_from(number).map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap())
}

fn run<S: Strategy>(strategy: S, test: impl Fn(S::Value)) {
    let mut runner = TestRunner::new(Config { cases: 3000, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&strategy, |value| {
        test(value);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn any_list_polled_answer_is_that_of_the_kernel() {
    let zoo = &*ZOO;
    let entries = proptest::collection::vec((0..9_usize, any::<i16>(), any::<bool>()), 0..12);
    run((entries, any::<u8>()), |(entries, ours)| {
        let entry = |(which, events, negative)| {
            let fd = if negative && which == 8 { -7 } else { zoo.fd(which) };
            pollfd { fd, events, revents: 0x55 }
        };
        let mut expected: Vec<pollfd> = entries.into_iter().map(entry).collect();
        let mut found = expected.clone();
        let numbers = (kernel_poll(&mut expected), zoo.poll(ours, &mut found));
        assert_eq!(numbers.0, numbers.1);
        let revents = |fds: Vec<pollfd>| fds.iter().map(|entry| entry.revents).collect::<Vec<_>>();
        assert_eq!(revents(found), revents(expected));
    });
}

type Sets = [Option<[c_ulong; SET_WORDS]>; 3];

/// A set of which some bits are sockets', now and then a closed descriptor's, and bits beyond `nfds`.
fn set_of(zoo: &Zoo, choice: Option<(u8, bool)>, nfds: usize, beyond: c_ulong) -> Option<[c_ulong; SET_WORDS]> {
    let (members, closed) = choice?;
    let mut words = [0; SET_WORDS];
    let mut put = |fd: usize| words[fd / c_ulong::BITS as usize] |= 1 << (fd % c_ulong::BITS as usize);
    for which in (0..7).filter(|which| members >> which & 1 == 1) {
        put(zoo.fd(which) as usize);
    }
    if closed {
        put(zoo.closed as usize);
    }
    (0..c_ulong::BITS as usize)
        .filter(|bit| beyond >> bit & 1 == 1 && nfds + bit < NFDS_MOST)
        .for_each(|bit| put(nfds + bit));
    Some(words)
}

#[test]
fn any_sets_selected_answer_is_that_of_the_kernel() {
    let zoo = &*ZOO;
    let highest = zoo.sockets.iter().map(|(socket, _)| socket.as_raw_fd() as usize).max().unwrap();
    let choice = || proptest::option::weighted(0.8, (any::<u8>(), proptest::bool::weighted(0.05)));
    let nfds = prop_oneof![0..=NFDS_MOST, Just(highest), Just(highest + 1), Just(NFDS_MOST)];
    run(([choice(), choice(), choice()], nfds, any::<u8>(), any::<c_ulong>()), |(choices, nfds, ours, beyond)| {
        let mut expected: Sets = choices.map(|choice| set_of(zoo, choice, nfds, beyond));
        let mut found = expected;
        let kernel = kernel_select(nfds, expected.each_mut().map(Option::as_mut));
        let [read, write, except] = found.each_mut().map(|set| set.as_mut().map(|words| &mut words[..]));
        let mut sets = FdSets { read, write, except };
        let mut list = Vec::new();
        sets.poll_list(nfds, &mut list);
        zoo.poll(ours, &mut list);
        let answer = sets.answer(nfds, &list).map_err(|error| error.raw_os_error());
        assert_eq!(answer, kernel);
        assert_eq!(found, expected);
    });
}
