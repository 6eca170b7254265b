//! One state, one event, one outcome at a time; whole sequences against the kernel are in
//! `tests/epoll_kernel.rs`.
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

use std::time::Instant;

use super::*;

const FIRST: SocketId = SocketId::new(0);
const SECOND: SocketId = SocketId::new(1);
const READABLE: Events = Events::IN.union(Events::RDNORM);

fn interest(fd: i32, events: Events) -> Interest {
    Interest { fd, events, data: fd as u64 }
}

/// A set with `FIRST` as descriptor 10, nothing to read yet.
fn set_with_first(events: Events) -> (EpollSets, SetId) {
    let mut sets = EpollSets::default();
    let set = sets.open();
    sets.add(set, FIRST, interest(10, events), Events::empty()).unwrap();
    (sets, set)
}

/// Data of up to `most` events while all sockets are readable.
fn collect(sets: &mut EpollSets, set: SetId, most: usize) -> Vec<u64> {
    let mut found = Vec::new();
    sets.collect(set, most, |_| READABLE, |event| found.push(event.data));
    found
}

#[test]
fn nothing_happened_collect_delivers_nothing_and_asks_nobody() {
    let (mut sets, set) = set_with_first(Events::IN);
    let delivered = sets.collect(set, 4, |_| panic!("not ready, so not asked"), |_| ());
    assert_eq!(delivered, 0);
}

#[test]
fn arrival_level_triggered_is_delivered_until_read() {
    let (mut sets, set) = set_with_first(Events::IN);
    sets.raise(FIRST, Events::ARRIVED);
    assert_eq!([collect(&mut sets, set, 4), collect(&mut sets, set, 4)], [[10], [10]]);
    assert_eq!(sets.collect(set, 4, |_| Events::empty(), |_| ()), 0);
    assert!(!sets.is_ready(set, |_| READABLE), "what was found stale has left the list");
}

#[test]
fn arrival_edge_triggered_is_delivered_once_for_each() {
    let (mut sets, set) = set_with_first(Events::IN | Events::ET);
    for _ in 0..2 {
        sets.raise(FIRST, Events::ARRIVED);
        assert_eq!(collect(&mut sets, set, 4), [10]);
        assert_eq!(collect(&mut sets, set, 4), [0_u64; 0]);
    }
}

#[test]
fn one_shot_delivered_is_silent_until_modified() {
    let (mut sets, set) = set_with_first(Events::IN | Events::ONESHOT);
    sets.raise(FIRST, Events::ARRIVED);
    assert_eq!(collect(&mut sets, set, 4), [10]);
    assert!(!sets.registration_of(set, 10, Target::Socket(FIRST)).unwrap().is_armed());
    sets.raise(FIRST, Events::ARRIVED | Events::ERR);
    assert_eq!(collect(&mut sets, set, 4), [0_u64; 0]);
    sets.modify(set, Target::Socket(FIRST), interest(10, Events::IN), |_| READABLE).unwrap();
    assert_eq!(collect(&mut sets, set, 4), [10]);
}

#[test]
fn socket_readable_before_it_is_added_is_ready_at_once() {
    let mut sets = EpollSets::default();
    let set = sets.open();
    sets.add(set, FIRST, interest(10, Events::IN | Events::ET), READABLE).unwrap();
    assert_eq!(collect(&mut sets, set, 4), [10]);
}

#[test]
fn error_happened_it_is_delivered_unasked() {
    let (mut sets, set) = set_with_first(Events::empty());
    sets.raise(FIRST, Events::ERR);
    let mut found = Vec::new();
    sets.collect(set, 4, |_| READABLE | Events::ERR, |event| found.push(event.events));
    assert_eq!(found, [Events::ERR]);
}

#[test]
fn three_sockets_ready_one_event_at_a_time_they_take_turns() {
    let mut sets = EpollSets::default();
    let set = sets.open();
    for number in 0..3 {
        sets.add(set, SocketId::new(number), interest(number as i32, Events::IN), READABLE).unwrap();
    }
    let turns: Vec<u64> = (0..7).flat_map(|_| collect(&mut sets, set, 1)).collect();
    assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn socket_under_two_descriptors_newest_is_told_first() {
    let (mut sets, set) = set_with_first(Events::IN);
    sets.add(set, FIRST, interest(11, Events::IN), Events::empty()).unwrap();
    sets.raise(FIRST, Events::ARRIVED);
    assert_eq!(collect(&mut sets, set, 4), [11, 10]);
    sets.remove(set, 11, Target::Socket(FIRST)).unwrap();
    assert_eq!(collect(&mut sets, set, 4), [10]);
}

#[test]
fn socket_in_inner_set_arrival_is_seen_through_both_outer_sets() {
    let (mut sets, inner) = set_with_first(Events::IN);
    let [middle, outer] = [sets.open(), sets.open()];
    sets.add_set(middle, inner, interest(20, Events::IN), |_| Events::empty()).unwrap();
    sets.add_set(outer, middle, interest(21, Events::IN), |_| Events::empty()).unwrap();
    assert!(!sets.is_ready(outer, |_| READABLE));
    sets.raise(FIRST, Events::ARRIVED);
    let mut found = Vec::new();
    sets.collect(outer, 4, |_| READABLE, |event| found.push(event));
    let expected = Delivery { events: Events::IN, data: 21, fd: 21, target: Target::Set(middle) };
    assert_eq!(found, [expected]);
    assert_eq!(sets.collect(outer, 4, |_| Events::empty(), |_| ()), 0, "read through the inner set meanwhile");
}

#[test]
fn sets_in_each_other_by_mistake_every_call_returns() {
    let (mut sets, one) = set_with_first(Events::IN);
    let other = sets.open();
    sets.add_set(other, one, interest(20, Events::IN), |_| Events::empty()).unwrap();
    sets.add_set(one, other, interest(21, Events::IN), |_| Events::empty()).unwrap();
    sets.raise(FIRST, Events::ARRIVED);
    assert!(!sets.is_ready(one, |_| Events::empty()));
    assert!(sets.collect(other, 4, |_| READABLE, |_| ()) <= 1);
}

#[test]
fn one_shot_inner_set_delivered_by_the_kernel_is_disarmed_here() {
    let (mut sets, inner) = set_with_first(Events::IN);
    let outer = sets.open();
    sets.add_set(outer, inner, interest(20, Events::IN | Events::ONESHOT), |_| READABLE).unwrap();
    sets.raise(FIRST, Events::ARRIVED);
    sets.disarm(outer, 20, Target::Set(inner));
    assert_eq!(collect(&mut sets, outer, 4), [0_u64; 0]);
}

#[test]
fn socket_removed_it_has_left_all_sets() {
    let (mut sets, set) = set_with_first(Events::IN);
    let other = sets.open();
    sets.add(other, FIRST, interest(10, Events::IN), READABLE).unwrap();
    sets.add(other, FIRST, interest(11, Events::IN), READABLE).unwrap();
    sets.add(other, SECOND, interest(12, Events::IN), READABLE).unwrap();
    sets.remove_socket(FIRST);
    sets.raise(FIRST, Events::ARRIVED);
    assert_eq!((sets.is_empty(set), sets.is_empty(other)), (true, false));
    assert_eq!(collect(&mut sets, other, 4), [12]);
    assert_eq!(sets.registrations_of(FIRST).count(), 0);
}

#[test]
fn set_closed_it_has_left_the_outer_set_and_its_number_starts_empty() {
    let (mut sets, inner) = set_with_first(Events::IN);
    let outer = sets.open();
    sets.add_set(outer, inner, interest(20, Events::IN), |_| READABLE).unwrap();
    sets.raise(FIRST, Events::ARRIVED);
    sets.close(inner);
    assert!(sets.is_empty(outer));
    assert_eq!(collect(&mut sets, outer, 4), [0_u64; 0]);
    let again = sets.open();
    assert_eq!(again, inner);
    assert!(sets.is_empty(again) && !sets.is_ready(again, |_| READABLE));
}

#[test]
fn socket_given_to_the_kernel_registrations_are_listed_oldest_first_with_their_state() {
    let (mut sets, set) = set_with_first(Events::IN | Events::ONESHOT | Events::ET);
    let other = sets.open();
    sets.raise(FIRST, Events::ARRIVED);
    assert_eq!(collect(&mut sets, set, 1), [10]);
    sets.add(other, FIRST, interest(11, Events::OUT), Events::empty()).unwrap();
    let listed: Vec<_> = sets.registrations_of(FIRST).collect();
    let places: Vec<_> = listed.iter().map(|one| (one.set, one.interest.fd, one.is_armed())).collect();
    assert_eq!(places, [(set, 10, false), (other, 11, true)]);
    assert_eq!(listed[0].interest.events, Events::ONESHOT | Events::ET);
    assert_eq!(listed[1].interest.events, Events::OUT | Events::ALWAYS);
}

#[test]
fn edge_told_until_the_next_arrival_there_is_nothing_to_tell() {
    let has_told = |sets: &EpollSets| sets.registrations_of(FIRST).all(|one| sets.has_told(&one));
    let (mut sets, set) = set_with_first(Events::IN | Events::ET);
    for _ in 0..2 {
        sets.raise(FIRST, Events::ARRIVED);
        assert!(!has_told(&sets));
        assert_eq!(collect(&mut sets, set, 1), [10]);
        assert!(has_told(&sets));
    }
    for level_or_one_shot in [Events::IN, Events::IN | Events::ET | Events::ONESHOT] {
        let (sets, _) = set_with_first(level_or_one_shot);
        assert!(!has_told(&sets));
    }
}

#[test]
fn wrong_requests_made_errors_are_those_of_epoll_ctl() {
    use rustix::io::Errno;
    let (mut sets, set) = set_with_first(Events::IN);
    let inner = sets.open();
    let exclusive = Events::EXCLUSIVE | Events::IN;
    let quiet = |_| Events::empty();
    let socket = Target::Socket(FIRST);
    let errors = [
        sets.add(set, FIRST, interest(10, Events::IN), Events::empty()),
        sets.add(set, FIRST, interest(11, exclusive | Events::ONESHOT), Events::empty()),
        sets.add_set(set, inner, interest(12, exclusive), quiet),
        sets.modify(set, socket, interest(10, exclusive), quiet),
        sets.modify(set, socket, interest(13, Events::IN), quiet),
        sets.remove(set, 13, socket),
        sets.remove(inner, 10, socket),
        sets.remove(set, 10, Target::Socket(SECOND)),
    ];
    let (invalid, missing) = (Errno::INVAL, Errno::NOENT);
    let expected = [Errno::EXIST, invalid, invalid, invalid, missing, missing, missing, missing];
    assert_eq!(errors.map(|error| error.unwrap_err().errno()), expected);
    sets.add(set, FIRST, interest(11, exclusive), Events::empty()).unwrap();
    let error = sets.modify(set, socket, interest(11, Events::IN), quiet).unwrap_err();
    assert_eq!(error, EpollError::ModifiedExclusive { fd: 11 });
}

#[test]
fn arrival_at_an_exclusive_socket_makes_every_set_ready() {
    let mut sets = EpollSets::default();
    let both = [sets.open(), sets.open()];
    for set in both {
        sets.add(set, FIRST, interest(10, Events::EXCLUSIVE | Events::IN), Events::empty()).unwrap();
    }
    sets.raise(FIRST, Events::ARRIVED);
    assert!(both.iter().all(|set| sets.is_ready(*set, |_| READABLE)));
}

/// Least time of an arrival and its delivery, in a set of `count` sockets.
fn arrival_and_delivery_ns(count: u32) -> f64 {
    const TIMES: u32 = 10_000;
    let mut sets = EpollSets::default();
    let set = sets.open();
    for number in 0..count {
        sets.add(set, SocketId::new(number), interest(number as i32, Events::IN | Events::ET), Events::empty())
            .unwrap();
    }
    let batches = (0..30).map(|_| {
        let start = Instant::now();
        for _ in 0..TIMES {
            sets.raise(SocketId::new(count / 2), Events::ARRIVED);
            assert_eq!(sets.collect(set, 16, |_| READABLE, |event| assert_eq!(event.fd, (count / 2) as i32)), 1);
        }
        start.elapsed().as_nanos() as f64 / f64::from(TIMES)
    });
    batches.fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "measures time: run alone, with --release"]
fn ten_thousand_sockets_delivery_of_one_costs_what_it_costs_among_one() {
    let [few_ns, many_ns] = [1, 10_000].map(arrival_and_delivery_ns);
    println!("arrival and delivery: {few_ns:.1} ns among 1 socket, {many_ns:.1} ns among 10 000");
    assert!(many_ns < 1.5 * few_ns + 5.0);
}
