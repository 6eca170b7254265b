//! What runs for every packet and every wait allocates nothing. It stands here because an allocator that
//! counts needs `unsafe`.
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use nearwire_socket::SocketId;
use nearwire_socket::epoll::{EpollSets, Events, Interest};
use nearwire_socket::poll::PollSplit;
use nearwire_socket::poll::select::FdSets;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn sockets_registered_raise_and_collect_allocate_nothing() {
    let mut sets = EpollSets::default();
    let [set, other, outer] = [(); 3].map(|()| sets.open());
    let socket = SocketId::new;
    let interest = |fd: u32| Interest { fd: fd as i32, events: Events::IN, data: 0 };
    for number in 0..1000 {
        sets.add(set, socket(number), interest(number), Events::empty()).unwrap();
        sets.add(other, socket(number), interest(number), Events::empty()).unwrap();
    }
    sets.add_set(outer, set, interest(2000), |_| Events::empty()).unwrap();
    let count = allocations_of(|| {
        for number in 0..1000 {
            sets.raise(socket(number), Events::ARRIVED);
        }
        for at in [outer, set, other] {
            assert!(sets.is_ready(at, |_| Events::IN));
            assert!(sets.collect(at, 2000, |_| Events::IN, |_| ()) > 0);
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn list_as_long_as_one_before_poll_and_select_allocate_nothing() {
    let mut words = [[u64::MAX; 4]; 2].map(|set| set.map(|word| word as libc::c_ulong));
    let [read, write] = &mut words;
    let mut sets = FdSets { read: Some(read), write: Some(write), except: None };
    let (mut split, mut list) = (PollSplit::default(), Vec::new());
    let mut round = || {
        sets.poll_list(128, &mut list);
        split.fill(&list, |fd| (fd % 2 == 0).then(|| SocketId::new(fd as u32)));
        assert!(split.is_any_ready(&list, |_| Events::SENDABLE));
        assert_eq!(split.merge(&mut list, |_| Events::SENDABLE | Events::IN), 64);
        sets.answer(128, &list).unwrap();
    };
    assert!(allocations_of(&mut round) > 0, "the counter counts");
    assert_eq!(allocations_of(&mut round), 0);
}
