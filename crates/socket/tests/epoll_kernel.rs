//! Epoll sets in user space and in the running kernel, side by side: the same operations must give the
//! same events in the same order. UDP sockets over loopback; needs no root.
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod kernel_socket;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use kernel_socket::{Fence, KernelSocket, poll_now, stay_on_one_cpu};
use nearwire_socket::SocketId;
use nearwire_socket::epoll::{EpollError, EpollSets, Events, Interest, SetId, Target};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFlags, Timespec};
use rustix::io::Errno;

const SETS: usize = 4;
const SOCKETS: usize = 3;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Numbers are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Add { set: usize, socket: usize, fd: usize, events: Events },
    Modify { set: usize, socket: usize, fd: usize, events: Events },
    Remove { set: usize, socket: usize, fd: usize },
    AddSet { outer: usize, inner: usize, events: Events },
    ModifySet { outer: usize, inner: usize, events: Events },
    RemoveSet { outer: usize, inner: usize },
    Arrive { socket: usize },
    Read { socket: usize },
    Send { socket: usize },
    Fail { socket: usize },
    ShutDown { socket: usize },
    Duplicate { socket: usize },
    CloseDescriptor { socket: usize, fd: usize },
    CloseSet { set: usize },
    Wait { set: usize, most: usize },
    Poll { set: usize },
}

/// One world twice: real sets with real sockets, and ours with the sockets' known state.
struct Worlds {
    kernel: Vec<OwnedFd>,
    ours: EpollSets,
    sets: Vec<SetId>,
    sockets: Vec<KernelSocket>,
    next_socket: u32,
    fence: Fence,
    every_arrival: bool,
}

fn state_of(sockets: &[KernelSocket]) -> impl FnMut(SocketId) -> Events {
    |id| sockets.iter().find(|socket| socket.id == id).map_or(Events::empty(), KernelSocket::state)
}

impl Worlds {
    fn new(every_arrival: bool) -> Self {
        let mut ours = EpollSets::default();
        let kernel = (0..SETS).map(|_| kernel_set()).collect();
        let sets = (0..SETS).map(|_| ours.open()).collect();
        let sockets = (0..SOCKETS as u32).map(|at| KernelSocket::new(SocketId::new(at))).collect();
        Self { kernel, ours, sets, sockets, next_socket: SOCKETS as u32, fence: Fence::new(), every_arrival }
    }

    fn perform(&mut self, operation: Operation, data: u64) {
        use Operation as Op;
        match operation {
            Op::Add { set, socket, fd, events } => self.add(set, socket, fd, events, data),
            Op::Modify { set, socket, fd, events } => {
                let fds = &self.sockets[socket].fds;
                let fd = &fds[fd % fds.len()];
                let target = Target::Socket(self.sockets[socket].id);
                self.modify(set, fd.as_raw_fd(), target, events, data);
            }
            Op::Remove { set, socket, fd } => {
                let fds = &self.sockets[socket].fds;
                let fd = fds[fd % fds.len()].as_fd();
                let expected = epoll::delete(&self.kernel[set], fd);
                let target = Target::Socket(self.sockets[socket].id);
                assert_same(expected, self.ours.remove(self.sets[set], fd.as_raw_fd(), target));
            }
            Op::AddSet { outer, inner, events } => self.add_set(outer, inner, events, data),
            Op::ModifySet { outer, inner, events } if outer != inner => {
                self.modify(outer, self.kernel[inner].as_raw_fd(), Target::Set(self.sets[inner]), events, data);
            }
            Op::RemoveSet { outer, inner } if outer != inner => {
                let expected = epoll::delete(&self.kernel[outer], &self.kernel[inner]);
                let fd = self.kernel[inner].as_raw_fd();
                assert_same(expected, self.ours.remove(self.sets[outer], fd, Target::Set(self.sets[inner])));
            }
            Op::ModifySet { .. } | Op::RemoveSet { .. } => {}
            Op::CloseSet { set } => {
                self.ours.close(self.sets[set]);
                self.kernel[set] = kernel_set();
                self.sets[set] = self.ours.open();
            }
            Op::Wait { set, most } => self.wait(set, most),
            Op::Poll { set } => {
                let expected = poll_now(&self.kernel[set]).contains(PollFlags::IN);
                assert_eq!(self.ours.is_ready(self.sets[set], state_of(&self.sockets)), expected, "poll of set {set}");
            }
            _ => self.happen(operation),
        }
    }

    /// Operations on a socket.
    fn happen(&mut self, operation: Operation) {
        use Operation as Op;
        let (sockets, fence) = (&mut self.sockets, &self.fence);
        let (socket, raised) = match operation {
            Op::Arrive { socket } => (socket, Vec::from_iter(sockets[socket].arrive(fence, self.every_arrival))),
            Op::Send { socket } => (socket, Vec::from_iter(sockets[socket].send(fence))),
            Op::Fail { socket } => (socket, sockets[socket].fail(fence)),
            Op::ShutDown { socket } => (socket, Vec::from_iter(sockets[socket].shut_down())),
            Op::Read { socket } => return sockets[socket].read(),
            Op::Duplicate { socket } => {
                let copy = sockets[socket].fds[0].try_clone().unwrap();
                return sockets[socket].fds.push(copy);
            }
            Op::CloseDescriptor { socket, fd } => {
                let fds = &mut sockets[socket].fds;
                fds.swap_remove(fd % fds.len());
                if fds.is_empty() {
                    self.ours.remove_socket(sockets[socket].id);
                    sockets[socket] = KernelSocket::new(SocketId::new(self.next_socket));
                    self.next_socket += 1;
                }
                return;
            }
            _ => return,
        };
        for happened in raised {
            self.ours.raise(self.sockets[socket].id, happened);
        }
    }

    fn add(&mut self, set: usize, socket: usize, fd: usize, events: Events, data: u64) {
        let socket = &self.sockets[socket];
        let fd = &socket.fds[fd % socket.fds.len()];
        let expected = epoll::add(&self.kernel[set], fd, EventData::new_u64(data), flags(events));
        let interest = Interest { fd: fd.as_raw_fd(), events, data };
        assert_same(expected, self.ours.add(self.sets[set], socket.id, interest, socket.state()));
    }

    fn add_set(&mut self, outer: usize, inner: usize, events: Events, data: u64) {
        let fd = &self.kernel[inner];
        let expected = epoll::add(&self.kernel[outer], fd, EventData::new_u64(data), flags(events));
        let refused = expected == Err(Errno::INVAL) && !events.contains(Events::EXCLUSIVE);
        // Loops and depth are the kernel's to refuse.
        if outer == inner || refused || expected == Err(Errno::LOOP) {
            return;
        }
        let interest = Interest { fd: fd.as_raw_fd(), events, data };
        let state = state_of(&self.sockets);
        assert_same(expected, self.ours.add_set(self.sets[outer], self.sets[inner], interest, state));
    }

    fn modify(&mut self, set: usize, fd: i32, target: Target, events: Events, data: u64) {
        let all = self.sockets.iter().flat_map(|socket| &socket.fds).chain(&self.kernel);
        let source = all.into_iter().find(|candidate| candidate.as_raw_fd() == fd).unwrap();
        let expected = epoll::modify(&self.kernel[set], source, EventData::new_u64(data), flags(events));
        let interest = Interest { fd, events, data };
        assert_same(expected, self.ours.modify(self.sets[set], target, interest, state_of(&self.sockets)));
    }

    fn wait(&mut self, set: usize, most: usize) {
        let expected = kernel_wait(&self.kernel[set], most);
        let mut found = Vec::new();
        let state = state_of(&self.sockets);
        let number = self.ours.collect(self.sets[set], most, state, |event| found.push((event.events, event.data)));
        assert_eq!(found, expected, "epoll_wait of set {set}, at most {most}");
        assert_eq!(number, found.len());
    }
}

fn kernel_set() -> OwnedFd {
    epoll::create(CreateFlags::CLOEXEC).unwrap()
}

fn kernel_wait(set: &OwnedFd, most: usize) -> Vec<(Events, u64)> {
    let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 8];
    let number = epoll::wait(set, &mut events[..most], Some(&NOW)).unwrap();
    events[..number]
        .iter()
        .map(|event| (Events::from_bits_retain({ event.flags }.bits()), { event.data }.u64()))
        .collect()
}

fn flags(events: Events) -> EventFlags {
    EventFlags::from_bits_retain(events.bits())
}

fn assert_same(expected: Result<(), Errno>, found: Result<(), EpollError>) {
    assert_eq!(found.map_err(|error| error.errno()), expected);
}

/// Some kernels (6.10 and a few after it) wake nobody for a datagram that arrives at a queue that is not
/// empty.
fn kernel_wakes_for_every_arrival() -> bool {
    let (set, fence) = (kernel_set(), Fence::new());
    let mut socket = KernelSocket::new(SocketId::new(0));
    epoll::add(&set, &socket.fds[0], EventData::new_u64(0), EventFlags::IN | EventFlags::ET).unwrap();
    socket.arrive(&fence, true);
    assert_eq!(kernel_wait(&set, 1).len(), 1);
    socket.arrive(&fence, true);
    !kernel_wait(&set, 1).is_empty()
}

fn interests() -> impl Strategy<Value = Events> {
    let asked = [Events::IN, Events::OUT, Events::RDNORM, Events::WRNORM, Events::PRI, Events::RDHUP, Events::ERR];
    let asked = proptest::sample::subsequence(asked.to_vec(), 0..=3);
    let asked = asked.prop_map(|events| events.into_iter().fold(Events::empty(), Events::union));
    let flags = prop_oneof![
        3 => Just(Events::empty()),
        4 => Just(Events::ET),
        2 => Just(Events::ONESHOT),
        1 => Just(Events::ET | Events::ONESHOT),
    ];
    let exclusive = proptest::sample::select(vec![
        Events::EXCLUSIVE | Events::IN,
        Events::EXCLUSIVE | Events::IN | Events::ET,
        Events::EXCLUSIVE | Events::IN | Events::OUT | Events::ET | Events::WAKEUP,
        Events::EXCLUSIVE | Events::OUT | Events::ET,
        Events::EXCLUSIVE | Events::IN | Events::ONESHOT,
        Events::EXCLUSIVE,
    ]);
    let plain = prop_oneof![4 => asked, 3 => Just(Events::IN), 1 => Just(Events::IN | Events::OUT)];
    prop_oneof![6 => (plain, flags).prop_map(|(asked, flags)| asked | flags), 1 => exclusive]
}

fn operations() -> impl Strategy<Value = Operation> {
    use Operation as Op;
    let (set, socket, fd) = (0..SETS, 0..SOCKETS, 0..4_usize);
    let one = (set.clone(), socket.clone(), fd.clone());
    let two = (set.clone(), set.clone());
    prop_oneof![
        8 => (one.clone(), interests()).prop_map(|((set, socket, fd), events)| Op::Add { set, socket, fd, events }),
        4 => (one.clone(), interests()).prop_map(|((set, socket, fd), events)| Op::Modify { set, socket, fd, events }),
        2 => one.prop_map(|(set, socket, fd)| Op::Remove { set, socket, fd }),
        4 => (two.clone(), interests()).prop_map(|((outer, inner), events)| Op::AddSet { outer, inner, events }),
        1 => (two.clone(), interests()).prop_map(|((outer, inner), events)| Op::ModifySet { outer, inner, events }),
        1 => two.prop_map(|(outer, inner)| Op::RemoveSet { outer, inner }),
        10 => socket.clone().prop_map(|socket| Op::Arrive { socket }),
        7 => socket.clone().prop_map(|socket| Op::Read { socket }),
        3 => socket.clone().prop_map(|socket| Op::Send { socket }),
        1 => socket.clone().prop_map(|socket| Op::Fail { socket }),
        1 => socket.clone().prop_map(|socket| Op::ShutDown { socket }),
        2 => socket.clone().prop_map(|socket| Op::Duplicate { socket }),
        1 => (socket, fd).prop_map(|(socket, fd)| Op::CloseDescriptor { socket, fd }),
        1 => set.clone().prop_map(|set| Op::CloseSet { set }),
        14 => (set.clone(), 1..=4_usize).prop_map(|(set, most)| Op::Wait { set, most }),
        2 => set.prop_map(|set| Op::Poll { set }),
    ]
}

#[test]
fn any_operations_performed_events_are_those_of_the_kernel() {
    stay_on_one_cpu();
    let every_arrival = kernel_wakes_for_every_arrival();
    println!("the kernel wakes for every arrival: {every_arrival}");
    let mut runner = TestRunner::new(Config { cases: 2000, failure_persistence: None, ..Config::default() });
    let sequences = proptest::collection::vec(operations(), 1..100);
    let outcome = runner.run(&sequences, |sequence| {
        let mut worlds = Worlds::new(every_arrival);
        for (data, operation) in (0..).zip(sequence) {
            worlds.perform(operation, data);
        }
        for set in 0..SETS {
            worlds.wait(set, 8);
        }
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn exclusive_nobody_asleep_both_sets_are_ready_as_in_the_kernel() {
    let mut worlds = Worlds::new(true);
    for set in 0..2 {
        worlds.add(set, 0, 0, Events::IN | Events::ET | Events::EXCLUSIVE, set as u64);
    }
    worlds.sockets[0].arrive(&worlds.fence, true);
    let kernel = [0, 1].map(|set| !kernel_wait(&worlds.kernel[set], 1).is_empty());
    let (ours, sets) = (&mut worlds.ours, &worlds.sets);
    ours.raise(worlds.sockets[0].id, Events::ARRIVED);
    let ours = [0, 1].map(|set| ours.is_ready(sets[set], state_of(&worlds.sockets)));
    assert_eq!([kernel, ours], [[true, true]; 2]);
}
