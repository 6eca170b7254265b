//! A set that goes from table to table is the same set as one that stays.
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::epoll::{Events, Interest, Target};

const SOCKETS: u32 = 5;
const READABLE: Events = Events::IN.union(Events::RDNORM);

fn interest(fd: i32, events: Events) -> Interest {
    Interest { fd, events, data: fd as u64 }
}

fn collect(sets: &mut EpollSets, set: SetId) -> Vec<i32> {
    let mut found = Vec::new();
    sets.collect(set, 8, |_| READABLE, |event| found.push(event.fd));
    found
}

/// A set with three readable sockets of which the second is ready first, and a table that follows.
fn parted() -> (EpollSets, EpollSets, SetId) {
    let mut sets = EpollSets::default();
    let _ = sets.open();
    let set = sets.open();
    let sockets = [0, 1, 2].map(SocketId::new);
    for (fd, socket) in (10..).zip(sockets) {
        sets.add(set, socket, interest(fd, Events::IN | Events::ET), Events::empty()).unwrap();
    }
    assert_eq!([1, 0, 2].map(|number| sets.raise(SocketId::new(number), Events::ARRIVED)), [true; 3]);
    let mut other = EpollSets::following();
    other.join(sets.part(&[set], &sockets));
    (sets, other, set)
}

#[test]
fn set_parted_is_ready_in_the_other_table_in_the_order_of_before() {
    let (mut sets, mut other, set) = parted();
    assert!(!sets.raise(SocketId::new(0), Events::ARRIVED), "nothing is registered here any more");
    assert_eq!([collect(&mut other, set), collect(&mut other, set)], [vec![11, 10, 12], vec![]]);
}

#[test]
fn number_of_a_parted_set_is_given_out_again_when_it_is_released() {
    let (mut sets, mut other, set) = parted();
    assert_ne!(sets.open(), set);
    assert_eq!(other.close(set), Some(set));
    assert_ne!(sets.open(), set, "nobody said so");
    sets.release(set);
    assert_eq!(sets.open(), set);
    assert!(sets.is_empty(set));
}

#[test]
fn set_that_came_back_is_closed_where_it_was_opened() {
    let (mut sets, mut other, set) = parted();
    sets.join(other.part(&[set], &[0, 1, 2].map(SocketId::new)));
    assert_eq!(collect(&mut sets, set), [11, 10, 12]);
    assert_eq!((sets.close(set), sets.open()), (None, set));
}

/// What a program does with its sets, and what happens at its sockets. Sets are counted in the order of opening.
#[derive(Clone, Debug)]
enum Step {
    Open,
    Close(usize),
    Add { set: usize, socket: u32, fd: i32, events: Events },
    AddSet { outer: usize, inner: usize },
    Modify { set: usize, socket: u32, fd: i32, events: Events },
    Remove { set: usize, socket: u32, fd: i32 },
    RemoveSocket(u32),
    Disarm { set: usize, socket: u32, fd: i32 },
    Raise { socket: u32, happened: Events },
    State { socket: u32, state: Events },
    Collect { set: usize, most: usize },
    IsReady(usize),
    Move { set: usize, table: usize },
    MoveSocket { socket: u32, table: usize },
}

fn any_step() -> impl Strategy<Value = Step> {
    let set = || 0..4_usize;
    let socket = || 0..SOCKETS;
    let fd = || 10..12;
    let asked = || {
        let exclusive = Events::EXCLUSIVE | Events::IN;
        let (one_shot, edge) = (Events::IN | Events::ONESHOT, Events::IN | Events::OUT | Events::ET);
        prop::sample::select(vec![
            Events::IN,
            Events::IN,
            Events::OUT,
            one_shot,
            edge,
            exclusive,
            exclusive | Events::ET,
        ])
    };
    let happened = || prop::sample::select(vec![Events::ARRIVED, Events::SENDABLE, Events::ERR, Events::empty()]);
    let state = || prop::sample::select(vec![Events::empty(), READABLE, READABLE | Events::OUT, Events::ERR]);
    prop_oneof![
        2 => Just(Step::Open),
        1 => set().prop_map(Step::Close),
        6 => (set(), socket(), fd(), asked())
            .prop_map(|(set, socket, fd, events)| Step::Add { set, socket, fd, events }),
        1 => (set(), set()).prop_map(|(outer, inner)| Step::AddSet { outer, inner }),
        2 => (set(), socket(), fd(), asked())
            .prop_map(|(set, socket, fd, events)| Step::Modify { set, socket, fd, events }),
        1 => (set(), socket(), fd()).prop_map(|(set, socket, fd)| Step::Remove { set, socket, fd }),
        1 => socket().prop_map(Step::RemoveSocket),
        1 => (set(), socket(), fd()).prop_map(|(set, socket, fd)| Step::Disarm { set, socket, fd }),
        6 => (socket(), happened()).prop_map(|(socket, happened)| Step::Raise { socket, happened }),
        4 => (socket(), state()).prop_map(|(socket, state)| Step::State { socket, state }),
        5 => (set(), 1..4_usize).prop_map(|(set, most)| Step::Collect { set, most }),
        1 => set().prop_map(Step::IsReady),
        5 => (set(), 0..3_usize).prop_map(|(set, table)| Step::Move { set, table }),
        2 => (socket(), 0..3_usize).prop_map(|(socket, table)| Step::MoveSocket { socket, table }),
    ]
}

/// Tables, the first of which gives out numbers, and where everything is.
struct World {
    tables: Vec<EpollSets>,
    open: Vec<SetId>,
    sets: BTreeMap<SetId, usize>,
    sockets: [usize; SOCKETS as usize],
    states: [Events; SOCKETS as usize],
    /// Inside another set, or around one: these stay in the first table.
    nested: BTreeSet<SetId>,
}

/// What has to go together.
struct Family {
    sets: BTreeSet<SetId>,
    sockets: BTreeSet<SocketId>,
}

impl World {
    fn new(tables: usize) -> World {
        let following = (1..tables).map(|_| EpollSets::following());
        World {
            tables: std::iter::once(EpollSets::default()).chain(following).collect(),
            open: Vec::new(),
            sets: BTreeMap::new(),
            sockets: [0; SOCKETS as usize],
            states: [Events::empty(); SOCKETS as usize],
            nested: BTreeSet::new(),
        }
    }

    /// Does a step, and says what can be seen of it; nothing for one that cannot be.
    fn step(&mut self, step: &Step) -> String {
        let done = self.done(step).unwrap_or_default();
        let registered = (0..SOCKETS).map(SocketId::new).map(|socket| {
            let registrations: Vec<_> = self.tables[self.sockets[socket.index()]].registrations_of(socket).collect();
            format!("{registrations:?}")
        });
        let empty: Vec<_> = self.sets.iter().map(|(set, table)| self.tables[*table].is_empty(*set)).collect();
        format!("{done} {:?} {empty:?}", registered.collect::<Vec<_>>())
    }

    fn done(&mut self, step: &Step) -> Option<String> {
        let states = self.states;
        let state = |socket: SocketId| states[socket.index()];
        Some(match *step {
            Step::Open => {
                let set = self.tables[0].open();
                self.open.push(set);
                format!("{set:?} {:?}", self.sets.insert(set, 0))
            }
            Step::Close(set) => {
                let set = self.open.get(set).copied()?;
                self.open.retain(|other| *other != set);
                self.nested.remove(&set);
                let released = self.tables[self.sets.remove(&set)?].close(set);
                released.into_iter().for_each(|set| self.tables[0].release(set));
                String::new()
            }
            Step::Add { set, socket, fd, events } => {
                let (set, socket) = (self.open.get(set).copied()?, SocketId::new(socket));
                let table = self.bring_together(set, socket);
                format!("{:?}", self.tables[table].add(set, socket, interest(fd, events), state(socket)))
            }
            Step::AddSet { outer, inner } => {
                let (outer, inner) =
                    (self.open.get(outer.max(inner)).copied()?, self.open.get(outer.min(inner)).copied()?);
                // A set in itself is the kernel's to refuse.
                (outer > inner).then_some(())?;
                [outer, inner].iter().for_each(|set| self.go(&self.family([*set].into(), [].into()), 0));
                self.nested.extend([outer, inner]);
                format!("{:?}", self.tables[0].add_set(outer, inner, interest(20, Events::IN), state))
            }
            Step::Modify { set, socket, fd, events } => {
                let (set, target) = (self.open.get(set).copied()?, Target::Socket(SocketId::new(socket)));
                format!("{:?}", self.table_of(set).modify(set, target, interest(fd, events), state))
            }
            Step::Remove { set, socket, fd } => {
                let set = self.open.get(set).copied()?;
                format!("{:?}", self.table_of(set).remove(set, fd, Target::Socket(SocketId::new(socket))))
            }
            Step::RemoveSocket(socket) => {
                let socket = SocketId::new(socket);
                format!("{:?}", self.tables[self.sockets[socket.index()]].remove_socket(socket))
            }
            Step::Disarm { set, socket, fd } => {
                let set = self.open.get(set).copied()?;
                format!("{:?}", self.table_of(set).disarm(set, fd, Target::Socket(SocketId::new(socket))))
            }
            Step::Raise { socket, happened } => {
                let socket = SocketId::new(socket);
                format!("{:?}", self.tables[self.sockets[socket.index()]].raise(socket, happened))
            }
            Step::State { socket, state } => format!("{:?}", self.states[socket as usize] = state),
            Step::Collect { set, most } => {
                let set = self.open.get(set).copied()?;
                let mut found = Vec::new();
                self.table_of(set).collect(set, most, state, |event| found.push(event));
                format!("{found:?}")
            }
            Step::IsReady(set) => {
                let set = self.open.get(set).copied()?;
                format!("{:?}", self.table_of(set).is_ready(set, state))
            }
            Step::Move { set, table } => {
                let set = self.open.get(set).copied()?;
                format!("{:?}", self.go(&self.family([set].into(), [].into()), table))
            }
            Step::MoveSocket { socket, table } => {
                format!("{:?}", self.go(&self.family([].into(), [SocketId::new(socket)].into()), table))
            }
        })
    }

    fn table_of(&mut self, set: SetId) -> &mut EpollSets {
        &mut self.tables[self.sets[&set]]
    }

    /// Into one table, that of the set unless one cannot leave the first.
    fn bring_together(&mut self, set: SetId, socket: SocketId) -> usize {
        let families = [self.family([set].into(), [].into()), self.family([].into(), [socket].into())];
        let is_nested = families.iter().any(|family| !family.sets.is_disjoint(&self.nested));
        let table = if is_nested { 0 } else { self.sets[&set] };
        families.iter().for_each(|family| self.go(family, table));
        table
    }

    /// All that hangs together with these by registrations.
    fn family(&self, sets: BTreeSet<SetId>, sockets: BTreeSet<SocketId>) -> Family {
        let mut family = Family { sets, sockets };
        let mut before = 0;
        while family.sets.len() + family.sockets.len() > before {
            before = family.sets.len() + family.sockets.len();
            for socket in (0..SOCKETS).map(SocketId::new) {
                for registration in self.tables[self.sockets[socket.index()]].registrations_of(socket) {
                    if family.sockets.contains(&socket) || family.sets.contains(&registration.set) {
                        family.sockets.insert(socket);
                        family.sets.insert(registration.set);
                    }
                }
            }
        }
        family
    }

    fn go(&mut self, family: &Family, to: usize) {
        let of_set = family.sets.first().map(|set| self.sets[set]);
        let from = of_set.or_else(|| family.sockets.first().map(|socket| self.sockets[socket.index()]));
        let may_go = |from: &usize| *from != to && to < self.tables.len() && family.sets.is_disjoint(&self.nested);
        let Some(from) = from.filter(may_go) else { return };
        let sets: Vec<_> = family.sets.iter().copied().collect();
        let sockets: Vec<_> = family.sockets.iter().copied().collect();
        let parted = self.tables[from].part(&sets, &sockets);
        self.tables[to].join(parted);
        sets.iter().for_each(|set| *self.sets.get_mut(set).unwrap() = to);
        sockets.iter().for_each(|socket| self.sockets[socket.index()] = to);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn sets_that_go_from_table_to_table_collect_what_sets_that_stay_collect(
        steps in proptest::collection::vec(any_step(), 1..100),
    ) {
        let (mut stays, mut moves) = (World::new(1), World::new(3));
        for (number, step) in steps.iter().enumerate() {
            prop_assert_eq!(moves.step(step), stays.step(step), "step {} of {:?}", number, &steps);
        }
    }
}
