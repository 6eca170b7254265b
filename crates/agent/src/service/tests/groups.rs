//! Ports that sockets of several programs share, and sockets beside them that no program of the agent has a flow of.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_cookie;

use super::*;
use crate::message::Addresses;

/// More than the agent waits for a program to show a socket that it has bound.
const LONG: Duration = Duration::from_secs(6);

impl Bed {
    /// Time passes, and what is due is done when it is.
    fn pass(&mut self, time: Duration) -> Vec<(u32, Answer)> {
        let until = self.now + time;
        let mut told = Vec::new();
        while let Some(due) = self.service.next_due().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            told.extend(self.service.pass_time(self.now));
        }
        self.now = until;
        told.extend(self.service.pass_time(until));
        told
    }
}

fn connected(port: u16, peer: &UdpSocket) -> UdpSocket {
    let made = reusing(port, false);
    made.connect(peer.local_addr().unwrap()).unwrap();
    made
}

fn port_of(socket: &UdpSocket) -> u16 {
    socket.local_addr().unwrap().port()
}

#[test]
fn workers_at_one_port_all_have_the_flow_and_one_that_is_killed_leaves_it_to_the_others() {
    let mut bed = Bed::new();
    let shares: Vec<u32> = (1..=4).map(|id| bed.program(id, 0)).collect();
    let first = reusing(0, false);
    let mut workers = vec![first.try_clone().unwrap()];
    workers.extend((0..3).map(|_| reusing(port_of(&first), false)));
    drop(first);
    for (at, worker) in workers.iter().enumerate() {
        bed.flow(at as u32 + 1, shares[at], worker).0.unwrap();
    }
    assert_eq!(bed.pass(LONG), []);
    assert_eq!(bed.owners(), shares);
    bed.service.gone(2);
    drop(workers.remove(1));
    assert_eq!(bed.pass(LONG), []);
    assert_eq!(bed.owners(), [shares[0], shares[2], shares[3]]);
}

#[test]
fn first_flow_beside_a_socket_that_is_not_shown_yet_is_the_kernels_until_it_is() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    let one = reusing(0, false);
    let other = reusing(port_of(&one), false);
    bed.flow(1, first, &one).0.unwrap();
    assert_eq!((bed.pass(Duration::from_secs(1)), bed.owners()), (vec![], vec![]));
    bed.flow(2, second, &other).0.unwrap();
    assert_eq!(bed.owners(), [first, second], "at once");
    assert_eq!(bed.pass(LONG), []);
}

#[test]
fn socket_that_no_program_shows_has_all_at_its_address_given_to_the_kernel() {
    for comes_first in [true, false] {
        let mut bed = Bed::new();
        let (first, second) = (bed.program(1, 0), bed.program(2, 0));
        let one = reusing(0, false);
        let other = reusing(port_of(&one), false);
        let beside = bed.flow(2, second, any()).0.unwrap();
        let plain = comes_first.then(|| reusing(port_of(&one), false));
        let flows = [bed.flow(1, first, &one).0.unwrap(), bed.flow(2, second, &other).0.unwrap()];
        let plain = plain.unwrap_or_else(|| reusing(port_of(&one), false));
        assert_eq!(bed.pass(Duration::from_secs(1)), [], "it may be shown still");
        let both = vec![first, second, second];
        assert_eq!(bed.owners(), if comes_first { vec![second] } else { both });
        let mut told = bed.pass(LONG);
        told.sort_by_key(|(id, _)| *id);
        let revoked = |id, flow| (id, Answer::FlowRevoked { flow, cause: Cause::Stranger {} });
        assert_eq!(told, [revoked(1, flows[0]), revoked(2, flows[1])]);
        assert_eq!(bed.owners(), [second], "what has another port stays");
        assert_eq!(bed.ask(2, Request::CloseFlow { flow: beside }), Answer::Done {});
        drop(plain);
    }
}

impl Bed {
    fn announce(&mut self, id: u32, socket: &UdpSocket, is_to_be_used: bool) {
        let copy = socket.try_clone().unwrap().into();
        let done = self.service.handle(id, 1, Request::Announce { is_to_be_used }, Some(copy)).unwrap();
        assert_eq!(done.answer, Answer::Done {});
    }
}

#[test]
fn sockets_that_a_master_announced_leave_the_flow_to_workers_that_use_theirs() {
    let mut bed = Bed::new();
    let shares: Vec<u32> = (1..=3).map(|id| bed.program(id, 0)).collect();
    let one = reusing(0, false);
    let other = reusing(port_of(&one), false);
    [&one, &other].into_iter().for_each(|socket| bed.announce(1, socket, true));
    assert_eq!(bed.pass(LONG), []);
    bed.flow(2, shares[1], &one).0.unwrap();
    assert_eq!(bed.owners(), [shares[1]], "at once, and it stays");
    assert_eq!(bed.pass(LONG), []);
    bed.flow(3, shares[2], &other).0.unwrap();
    assert_eq!(bed.owners(), [shares[1], shares[2]]);
    // One is killed, and another worker has its socket a minute later.
    bed.service.gone(3);
    assert_eq!(bed.pass(10 * LONG), []);
    assert_eq!(bed.owners(), [shares[1]]);
    let next = bed.program(4, 0);
    bed.flow(4, next, &other).0.unwrap();
    assert_eq!((bed.pass(LONG), bed.owners()), (vec![], vec![shares[1], next]));
}

#[test]
fn announced_socket_that_is_read_by_the_kernel_has_all_at_its_address_given_to_it() {
    for is_shared in [false, true] {
        let mut bed = Bed::new();
        let shares: Vec<u32> = (1..=4).map(|id| bed.program(id, 0)).collect();
        let one = reusing(0, false);
        let other = reusing(port_of(&one), false);
        [&one, &other].into_iter().for_each(|socket| bed.announce(1, socket, true));
        bed.flow(2, shares[1], &one).0.unwrap();
        if is_shared {
            bed.flow(3, shares[2], &other).0.unwrap();
            bed.flow(4, shares[3], &other).0.unwrap_err();
        } else {
            bed.announce(3, &other, false);
        }
        // Whoever announces it next does not know.
        bed.announce(4, &other, true);
        assert_eq!(bed.pass(LONG).len(), 1, "the flow of the first worker");
        assert!(bed.owners().is_empty());
    }
}

#[test]
fn patience_begins_again_with_each_share_as_its_programs_sockets_are_shown_next() {
    let mut bed = Bed::new();
    let share = bed.program(1, 0);
    let one = reusing(0, false);
    let other = reusing(port_of(&one), false);
    bed.flow(1, share, &one).0.unwrap();
    for id in 2..=6 {
        assert_eq!(bed.pass(Duration::from_secs(2)), []);
        bed.hello(id, id).unwrap();
        bed.share(id, "eth0", 1).unwrap_err();
        bed.service.gone(id);
        bed.hello(id, 0).unwrap();
        bed.share(id, "eth0", 1).unwrap();
        bed.service.gone(id);
    }
    assert_eq!(bed.pass(LONG).len(), 1);
    drop(other);
}

#[test]
fn programs_of_an_agent_that_died_come_back_to_the_next_one_within_a_minute_and_have_their_port_together() {
    let mut bed = Bed::new();
    bed.service = Service::new(bed.ports.clone(), Little, bed.namespace, 0, Instant::now());
    bed.now = Instant::now();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    let one = reusing(0, false);
    let other = reusing(port_of(&one), false);
    bed.flow(1, first, &one).0.unwrap();
    assert_eq!((bed.pass(Duration::from_secs(60)), bed.owners()), (vec![], vec![]));
    bed.flow(2, second, &other).0.unwrap();
    assert_eq!((bed.pass(LONG), bed.owners()), (vec![], vec![first, second]));
    // Those that are open do not wait as long.
    let plain = reusing(port_of(&one), false);
    assert_eq!(bed.pass(Duration::from_millis(4500)).len(), 2);
    drop(plain);
}

#[test]
fn group_beside_a_socket_that_comes_and_goes_stays_as_it_is() {
    let mut bed = Bed::new();
    let share = bed.program(1, 0);
    let one = reusing(0, false);
    bed.flow(1, share, &one).0.unwrap();
    for _ in 0..5 {
        let passing = reusing(port_of(&one), false);
        assert_eq!((bed.pass(Duration::from_secs(2)), bed.owners()), (vec![], vec![share]));
        drop(passing);
        assert_eq!(bed.pass(Duration::from_secs(2)), []);
    }
}

#[test]
fn agent_without_sockets_that_may_share_a_port_asks_the_kernel_nothing() {
    let mut bed = Bed::new();
    let share = bed.program(1, 0);
    bed.flow(1, share, any()).0.unwrap();
    assert_eq!(bed.service.next_due(), None);
    let shared = reusing(0, false);
    let flow = bed.flow(1, share, &shared).0.unwrap();
    assert!(bed.service.next_due().is_some());
    bed.ask(1, Request::CloseFlow { flow });
    bed.pass(LONG);
    assert_eq!(bed.service.next_due(), None);
}

#[test]
fn connected_socket_of_a_group_has_what_its_peer_sends_and_no_part_of_the_others() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    let (one, peer) = (reusing(0, false), any());
    let other = connected(port_of(&one), &peer);
    bed.flow(1, first, &one).0.unwrap();
    bed.flow(2, second, &other).0.unwrap();
    assert_eq!(bed.pass(LONG), []);
    let remotes: Vec<_> = bed.ports.flows().iter().map(|(share, ends)| (*share, ends.remote)).collect();
    assert_eq!(remotes, [(first, None), (second, peer.local_addr().ok())]);
    // By the address that it is bound to, as engines ask.
    let address = Some(other.local_addr().unwrap().ip());
    let shadow = Shadow::read(other.as_fd(), bed.namespace).unwrap();
    assert_eq!(shadow.addresses_of(address, 1).unwrap().remote, peer.local_addr().ok());
}

#[test]
fn sockets_at_one_port_that_the_kernel_does_not_divide_datagrams_among_go_to_the_kernel() {
    let at = |address: [u8; 4], port| {
        let made = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
        set_socket_reuseport(&made, true).unwrap();
        bind(&made, &SocketAddrV4::new(address.into(), port)).unwrap();
        UdpSocket::from(made)
    };
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    // One of every address, and one of an address, which the kernel prefers there.
    let every = at([0; 4], 0);
    let one = at([127, 0, 0, 1], port_of(&every));
    let flow = bed.flow(1, first, &one).0.unwrap();
    let (refused, events) = bed.flow(2, second, &every);
    assert_eq!(refused, Err(Cause::AddressShared { pid: 101 }));
    assert_eq!(events, [(1, Answer::FlowRevoked { flow, cause: Cause::AddressShared { pid: 102 } })]);
    drop(one);
    // What is sent to a group comes to each.
    let another = at([0; 4], port_of(&every));
    let flow = bed.flow(1, first, &every).0.unwrap();
    let group = Request::OpenFlow { share: second, address: "239.1.2.3".parse().ok() };
    let joined = bed.service.handle(2, 1, group, another.as_fd().try_clone_to_owned().ok()).unwrap();
    assert_eq!(joined.answer, Answer::Refused { cause: Cause::AddressShared { pid: 101 } });
    assert!(matches!(&joined.events[..], [(1, Answer::FlowRevoked { flow: told, .. })] if *told == flow));
    assert!(bed.owners().is_empty());
}

/// A socket at the port, as the model knows it.
struct Modelled {
    socket: UdpSocket,
    /// `None`: of a program that is not accelerated.
    program: Option<u32>,
    peer: Option<SocketAddr>,
    /// The flow, and whether it is held.
    flow: Option<(u32, bool)>,
    /// Its program was told that the kernel has it.
    is_given_up: bool,
    /// The agent knows that it is connected.
    is_noted: bool,
    /// Since when, and how often, it was found without a flow.
    found: Option<(Instant, u32)>,
}

/// Who has which flows of one port, by what was done: the truth that the agent is compared with.
struct Model {
    sockets: BTreeMap<u64, Modelled>,
    /// The share of each program, and whether it is paused.
    shares: BTreeMap<u32, (u32, bool)>,
    peers: Vec<UdpSocket>,
    /// Instead of these, each socket is connected to another one, elsewhere.
    next_peer: Option<u16>,
    port: u16,
    /// Keeps the port.
    keeper: UdpSocket,
}

impl Model {
    fn new() -> Model {
        // Connected to this host, it is beside nothing, and keeps the port from other programs.
        let keeper = connected(0, &any());
        let (sockets, shares, port) = (BTreeMap::new(), BTreeMap::new(), port_of(&keeper));
        Model { sockets, shares, peers: (0..3).map(|_| any()).collect(), next_peer: None, port, keeper }
    }

    /// Without a flow, and not connected: peers are of this host, and what they send passes no interface.
    fn is_stranger(modelled: &Modelled) -> bool {
        modelled.flow.is_none() && modelled.peer.is_none()
    }

    fn has_stranger_but(&self, cookie: u64) -> bool {
        self.sockets.iter().any(|(other, modelled)| *other != cookie && Model::is_stranger(modelled))
    }

    fn has_open_bound(&self) -> bool {
        self.sockets.values().any(|modelled| modelled.peer.is_none() && matches!(modelled.flow, Some((_, false))))
    }

    fn end_holds(&mut self) {
        for modelled in self.sockets.values_mut() {
            modelled.flow = modelled.flow.map(|(number, _)| (number, false));
        }
    }

    /// The kernel was asked. Who is told?
    fn look(&mut self, now: Instant) -> Vec<u32> {
        self.note_all();
        for modelled in self.sockets.values_mut() {
            let found = modelled.found.take();
            if Model::is_stranger(modelled) {
                let (since, looks) = found.unwrap_or((now, 0));
                modelled.found = Some((since, looks + 1));
            }
        }
        // Alone, nobody is found beside it.
        let is_beside = self.sockets.values().any(|modelled| modelled.flow.is_some() && modelled.peer.is_none());
        if !is_beside {
            self.sockets.values_mut().for_each(|modelled| modelled.found = None);
        }
        let stays = |(since, looks): (Instant, u32)| looks >= 10 && now - since >= Duration::from_secs(3);
        let is_over = self.sockets.values().filter_map(|modelled| modelled.found).any(stays);
        let has_stranger = self.has_stranger_but(0);
        let mut told = Vec::new();
        for modelled in self.sockets.values_mut() {
            let Some((number, is_held)) = &mut modelled.flow else { continue };
            if modelled.peer.is_none() && is_over {
                told.push(*number);
                (modelled.flow, modelled.is_given_up) = (None, true);
            } else if !has_stranger || modelled.peer.is_some() {
                *is_held = false;
            }
        }
        told
    }

    fn has_bound(&self) -> bool {
        self.sockets.values().any(|modelled| modelled.peer.is_none() && modelled.flow.is_some())
    }

    /// The agent was told of all sockets at the port.
    fn note_all(&mut self) {
        self.sockets.values_mut().for_each(|modelled| modelled.is_noted = modelled.peer.is_some());
    }

    /// The peers whose datagrams must be the kernel's, and all whose may, where peers are elsewhere.
    fn left_to_kernel(&self) -> [BTreeSet<SocketAddr>; 2] {
        if !self.has_bound() || self.next_peer.is_none() {
            return Default::default();
        }
        let is_served = |modelled: &&Modelled| {
            let is_paused = || modelled.program.is_some_and(|program| self.shares[&program].1);
            modelled.flow.is_none() || is_paused()
        };
        let left: Vec<&Modelled> = self.sockets.values().filter(is_served).collect();
        let peers =
            |must: bool| left.iter().filter(|left| left.is_noted || !must).filter_map(|left| left.peer).collect();
        [peers(true), peers(false)]
    }

    /// What the ports are to have: each share once.
    fn steered(&self) -> Vec<(u32, Option<SocketAddr>)> {
        let open = self.sockets.values().filter(|modelled| matches!(modelled.flow, Some((_, false))));
        let shares = open.filter_map(|modelled| {
            let (share, is_paused) = self.shares[&modelled.program?];
            (!is_paused).then_some((share, modelled.peer))
        });
        let mut steered: Vec<_> = shares.collect();
        steered.sort_unstable();
        steered.dedup();
        steered
    }
}

/// One sequence of what programs and others do at a port.
struct Sequence {
    bed: Bed,
    model: Model,
    random: u64,
    next_program: u32,
}

impl Sequence {
    fn random(&mut self, below: usize) -> usize {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % below.max(1) as u64) as usize
    }

    fn some_program(&mut self) -> Option<u32> {
        let at = self.random(self.model.shares.len());
        self.model.shares.keys().nth(at).copied()
    }

    fn some_socket(&mut self, fits: impl Fn(&Modelled) -> bool) -> Option<u64> {
        let fitting: Vec<u64> =
            self.model.sockets.iter().filter(|(_, modelled)| fits(modelled)).map(|(cookie, _)| *cookie).collect();
        let at = self.random(fitting.len());
        fitting.get(at).copied()
    }

    fn some_peer(&mut self) -> SocketAddr {
        match &mut self.model.next_peer {
            Some(next) => {
                *next += 1;
                SocketAddr::from(([127, 0, 0, 2], *next))
            }
            None => {
                let at = self.random(self.model.peers.len());
                self.model.peers[at].local_addr().unwrap()
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        let until = self.bed.now + time;
        loop {
            let due = self.bed.service.next_due().filter(|due| *due <= until);
            self.bed.now = due.map_or(until, |due| due.max(self.bed.now));
            let is_look = self.bed.service.next_due().is_some_and(|due| due <= self.bed.now);
            let told = self.bed.service.pass_time(self.bed.now);
            let expected = if is_look { self.model.look(self.bed.now) } else { Vec::new() };
            let mut flows: Vec<u32> = told
                .iter()
                .map(|(_, told)| match told {
                    Answer::FlowRevoked { flow, cause: Cause::Stranger {} } => *flow,
                    other => panic!("{other:?}"),
                })
                .collect();
            flows.sort_unstable();
            let mut expected = expected;
            expected.sort_unstable();
            assert_eq!(flows, expected);
            if due.is_none() {
                return;
            }
        }
    }

    fn show(&mut self, cookie: u64) {
        // What was read before is not read again at once.
        self.pass(Duration::from_millis(21));
        let Some(modelled) = self.model.sockets.get(&cookie) else { return };
        let Some(program) = modelled.program.filter(|_| modelled.flow.is_none() && !modelled.is_given_up) else {
            return;
        };
        let (share, _) = self.model.shares[&program];
        let (peer, is_connected) = (modelled.peer, modelled.peer.is_some());
        let is_held = !is_connected && !self.model.has_open_bound() && self.model.has_stranger_but(cookie);
        let (opened, events) = self.bed.flow(program, share, &modelled.socket);
        if !is_connected && !self.model.has_bound() {
            self.model.note_all();
        }
        match opened {
            Ok(number) => {
                assert_eq!(events, []);
                self.model.sockets.get_mut(&cookie).unwrap().flow = Some((number, is_held));
                if !is_held && !is_connected {
                    self.model.end_holds();
                }
            }
            // Two sockets of one peer: the kernel's, both.
            Err(cause) => {
                let is_one_of_two = |(other, modelled): (&u64, &Modelled)| *other != cookie && modelled.peer == peer;
                assert!(self.model.sockets.iter().any(is_one_of_two), "{peer:?}: {cause}");
                assert!(is_connected && matches!(cause, Cause::AddressShared { .. } | Cause::Stranger {}), "{cause}");
                for modelled in self.model.sockets.values_mut().filter(|modelled| modelled.peer == peer) {
                    let is_told = |(_, told): &(u32, Answer)| matches!(told, Answer::FlowRevoked { flow, .. } if Some(*flow) == modelled.flow.map(|(flow, _)| flow));
                    if events.iter().any(is_told) {
                        (modelled.flow, modelled.is_given_up) = (None, true);
                    }
                }
                self.model.sockets.get_mut(&cookie).unwrap().is_given_up = true;
            }
        }
    }

    fn hide(&mut self, cookie: u64) {
        let Some(modelled) = self.model.sockets.get_mut(&cookie) else { return };
        let (Some(program), Some((flow, _))) = (modelled.program, modelled.flow.take()) else { return };
        modelled.is_noted = modelled.peer.is_some();
        assert_eq!(self.bed.ask(program, Request::CloseFlow { flow }), Answer::Done {});
    }

    fn step(&mut self) {
        match self.random(15) {
            0 if self.model.shares.len() < 4 => {
                let id = self.next_program;
                self.next_program += 1;
                let share = self.bed.program(id, 0);
                self.model.shares.insert(id, (share, false));
                // A share was opened: patience begins again, at the next look.
                self.model.sockets.values_mut().for_each(|modelled| modelled.found = None);
            }
            1 | 2 => {
                let is_plain = self.random(6) == 0;
                let program = if is_plain { None } else { self.some_program() };
                if (is_plain || program.is_some()) && self.model.sockets.len() < 10 {
                    let socket = reusing(self.model.port, false);
                    let cookie = socket_cookie(&socket).unwrap();
                    let (flow, peer, found) = (None, None, None);
                    let modelled = Modelled { socket, program, peer, flow, is_given_up: false, is_noted: false, found };
                    self.model.sockets.insert(cookie, modelled);
                }
            }
            3..=5 => {
                let hidden = |modelled: &Modelled| modelled.program.is_some() && modelled.flow.is_none();
                if let Some(cookie) = self.some_socket(hidden) {
                    self.show(cookie);
                }
            }
            6 => {
                // A program closes a socket: its flow first, or without a word.
                if let Some(cookie) = self.some_socket(|_| true) {
                    if self.random(2) == 0 {
                        self.hide(cookie);
                    }
                    drop(self.model.sockets.remove(&cookie).unwrap().socket);
                    self.bed.service.closed(&[cookie]);
                }
            }
            7 => {
                // Killed. The agent hears of its sockets and of its end in any order.
                if let Some(program) = self.some_program() {
                    let of_program = |modelled: &Modelled| modelled.program == Some(program);
                    let own = self.model.sockets.extract_if(.., |_, modelled| of_program(modelled));
                    let cookies: Vec<u64> = own.map(|(cookie, _)| cookie).collect();
                    let is_end_first = self.random(2) == 0;
                    if is_end_first {
                        self.bed.service.gone(program);
                    }
                    self.bed.service.closed(&cookies);
                    if !is_end_first {
                        self.bed.service.gone(program);
                    }
                    self.model.shares.remove(&program);
                }
            }
            8 => {
                if let Some(program) = self.some_program() {
                    let (share, is_paused) = self.model.shares.get_mut(&program).unwrap();
                    *is_paused = !*is_paused;
                    let share = *share;
                    let request = if *is_paused { Request::Pause { share } } else { Request::Resume { share } };
                    assert_eq!(self.bed.ask(program, request), Answer::Done {});
                }
            }
            9 => {
                let is_open = |modelled: &Modelled| modelled.flow.is_some() && modelled.peer.is_none();
                if let Some(cookie) = self.some_socket(is_open) {
                    let peer = self.some_peer();
                    let modelled = self.model.sockets.get_mut(&cookie).unwrap();
                    modelled.socket.connect(peer).unwrap();
                    modelled.peer = Some(peer);
                    self.hide(cookie);
                    self.show(cookie);
                }
            }
            10 => {
                // One without a flow is connected; its program says so, if it has the library.
                let is_plain = |modelled: &Modelled| modelled.flow.is_none() && modelled.peer.is_none();
                if let Some(cookie) = self.some_socket(is_plain) {
                    let peer = self.some_peer();
                    let modelled = self.model.sockets.get_mut(&cookie).unwrap();
                    modelled.socket.connect(peer).unwrap();
                    (modelled.peer, modelled.is_given_up) = (Some(peer), true);
                    if let Some(program) = modelled.program {
                        modelled.is_noted = true;
                        let socket = modelled.socket.try_clone().unwrap();
                        self.bed.show_connection(program, &socket);
                    }
                }
            }
            11 => {
                // A connected one goes back to the kernel.
                let is_connected = |modelled: &Modelled| modelled.flow.is_some() && modelled.peer.is_some();
                if let Some(cookie) = self.some_socket(is_connected) {
                    self.hide(cookie);
                    self.model.sockets.get_mut(&cookie).unwrap().is_given_up = true;
                }
            }
            _ => {
                let times_ms = [1, 30, 150, 700, 2500, 5000];
                let at = self.random(times_ms.len());
                self.pass(Duration::from_millis(times_ms[at]));
            }
        }
        let found = self.bed.ports.flows().iter().map(|(share, ends)| (*share, ends.remote)).collect::<Vec<_>>();
        let mut steered = found.clone();
        steered.sort_unstable();
        assert_eq!(steered, self.model.steered());
        let [must, may] = self.model.left_to_kernel();
        let left = self.bed.ports.kernel_flows();
        let keepers = self.model.keeper.peer_addr().ok();
        let left: BTreeSet<SocketAddr> =
            left.iter().filter_map(|ends| ends.remote).filter(|peer| Some(*peer) != keepers).collect();
        let is_right = self.model.next_peer.is_none() || must.is_subset(&left) && left.is_subset(&may);
        assert!(is_right, "the kernel has {left:?}, must have {must:?} and may have {may:?}");
    }
}

#[test]
fn generated_sequences_at_one_port_leave_each_flow_with_whom_the_model_says() {
    let count = std::env::var("NEARWIRE_SEQUENCES").map_or(300, |count| count.parse().unwrap());
    let first = std::env::var("NEARWIRE_SEED").map_or(1, |seed| seed.parse().unwrap());
    for seed in first..first + count {
        let mut sequence = Sequence { bed: Bed::new(), model: Model::new(), random: seed, next_program: 1 };
        if seed % 2 == 0 {
            sequence.bed.ports.have_peers_elsewhere();
            sequence.model.next_peer = Some(1000);
        }
        for step in 0..120 {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sequence.step()));
            assert!(done.is_ok(), "seed {seed}, step {step}");
        }
    }
}

/// What an exact flow of a connected socket is.
fn exact(socket: &UdpSocket) -> Addresses {
    Addresses { local: socket.local_addr().unwrap(), remote: socket.peer_addr().ok(), both_families: false }
}

#[test]
fn connected_socket_without_a_flow_has_what_its_peer_sends_from_before_a_group_has_its_own() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    let peer = any();
    bed.ports.have_peers_elsewhere();
    let member = reusing(0, false);
    let alone = reusing(port_of(&member), false);
    bed.announce(2, &alone, true);
    alone.connect(peer.local_addr().unwrap()).unwrap();
    bed.flow(1, first, &member).0.unwrap();
    assert_eq!((bed.owners(), bed.ports.kernel_flows()), (vec![first], vec![exact(&alone)]));
    assert_eq!((bed.pass(10 * LONG), bed.owners()), (vec![], vec![first]), "however long its program takes");
    bed.flow(2, second, &alone).0.unwrap();
    assert_eq!((bed.pass(LONG), bed.owners()), (vec![], vec![first, second]));
    assert!(bed.ports.kernel_flows().is_empty());
}

#[test]
fn socket_connected_a_moment_ago_keeps_what_its_peer_sends_when_all_programs_come_back() {
    let mut bed = Bed::new();
    let shares = [bed.program(1, 0), bed.program(2, 0)];
    let peer = any();
    bed.ports.have_peers_elsewhere();
    let member = reusing(0, false);
    let alone = reusing(port_of(&member), false);
    bed.announce(2, &alone, true);
    bed.flow(1, shares[0], &member).0.unwrap();
    alone.connect(peer.local_addr().unwrap()).unwrap();
    bed.flow(2, shares[1], &alone).0.unwrap();
    for (id, share) in [(1, shares[0]), (2, shares[1])] {
        assert_eq!(bed.ask(id, Request::Forget { share }), Answer::Done {});
    }
    bed.flow(1, shares[0], &member).0.unwrap();
    assert_eq!((bed.owners(), bed.ports.kernel_flows()), (vec![shares[0]], vec![exact(&alone)]));
    bed.flow(2, shares[1], &alone).0.unwrap();
    assert_eq!((bed.pass(LONG), bed.owners()), (vec![], vec![shares[0], shares[1]]));
}

impl Bed {
    fn show_connection(&mut self, id: u32, socket: &UdpSocket) {
        let copy = socket.try_clone().unwrap().into();
        assert_eq!(self.service.handle(id, 1, Request::ShowConnection {}, Some(copy)).unwrap().answer, Answer::Done {});
    }

    fn closed(&mut self, socket: UdpSocket) {
        let cookie = socket_cookie(&socket).unwrap();
        drop(socket);
        self.service.closed(&[cookie]);
    }
}

#[test]
fn plain_connected_socket_leaves_the_flow_to_the_group_and_gets_what_its_peer_sends() {
    let mut bed = Bed::new();
    let share = bed.program(1, 0);
    bed.ports.have_peers_elsewhere();
    let member = reusing(0, false);
    bed.flow(1, share, &member).0.unwrap();
    let plain = connected(port_of(&member), &any());
    assert_eq!(bed.pass(Duration::from_millis(500)), []);
    assert_eq!(bed.ports.kernel_flows(), [exact(&plain)], "when the kernel was asked");
    assert_eq!((bed.pass(LONG), bed.owners()), (vec![], vec![share]), "for good");
    // Connected to another one.
    plain.connect(any().local_addr().unwrap()).unwrap();
    assert_eq!(bed.pass(Duration::from_secs(2)), []);
    assert_eq!(bed.ports.kernel_flows(), [exact(&plain)]);
    bed.closed(plain);
    assert_eq!((bed.pass(LONG), bed.owners(), bed.ports.kernel_flows()), (vec![], vec![share], vec![]));
}

#[test]
fn connected_socket_that_goes_to_the_kernel_has_its_exact_flow_there_until_it_is_closed_or_disconnected() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    bed.ports.have_peers_elsewhere();
    let member = reusing(0, false);
    let of_member = bed.flow(1, first, &member).0.unwrap();
    let sockets = [(); 5].map(|()| connected(port_of(&member), &any()));
    let flows = [0, 1, 2].map(|at| bed.flow(2, second, &sockets[at]).0.unwrap());
    let [given_up, shared, killed, told, disconnected] = &sockets;
    let mut expected: Vec<Addresses> = Vec::new();
    let check = |bed: &Bed, expected: &[Addresses]| {
        let found = bed.ports.kernel_flows();
        assert!(found.len() == expected.len() && expected.iter().all(|ends| found.contains(ends)), "{found:?}");
    };
    // Given back.
    assert_eq!(bed.ask(2, Request::CloseFlow { flow: flows[0] }), Answer::Done {});
    expected.push(exact(given_up));
    check(&bed, &expected);
    // Used by two programs.
    let third = bed.program(3, 0);
    assert_eq!(bed.flow(3, third, shared).0, Err(Cause::SocketShared { pid: 102 }));
    expected.push(exact(shared));
    check(&bed, &expected);
    // Never accelerated.
    for socket in [told, disconnected] {
        bed.show_connection(2, socket);
        expected.push(exact(socket));
    }
    check(&bed, &expected);
    rustix::net::connect_unspec(disconnected).unwrap();
    bed.show_connection(2, disconnected);
    expected.pop();
    check(&bed, &expected);
    // While its program forks.
    assert_eq!(bed.ask(2, Request::Pause { share: second }), Answer::Done {});
    check(&bed, &[&expected[..], &[exact(killed)]].concat());
    assert_eq!(bed.ask(2, Request::Resume { share: second }), Answer::Done {});
    check(&bed, &expected);
    // Killed: its sockets may be others' too.
    bed.service.gone(2);
    expected.push(exact(killed));
    check(&bed, &expected);
    // Without a bound flow nothing is to be kept from it.
    assert_eq!(bed.ask(1, Request::CloseFlow { flow: of_member }), Answer::Done {});
    check(&bed, &[]);
    bed.flow(1, first, &member).0.unwrap();
    check(&bed, &expected);
    for socket in sockets {
        bed.closed(socket);
    }
    check(&bed, &[]);
}

#[test]
fn connected_sockets_of_a_user_beyond_his_limit_send_their_port_to_the_kernel_and_fill_no_table() {
    let mut bed = Bed::new();
    let uid = rustix::process::geteuid().as_raw();
    let most = if uid == 0 { 100 } else { 3 };
    let (share, other) = (bed.program(1, uid), bed.program(2, uid));
    bed.ports.have_peers_elsewhere();
    let (member, beside) = (reusing(0, false), reusing(0, false));
    bed.flow(1, share, &member).0.unwrap();
    bed.flow(2, other, &beside).0.unwrap();
    let connected = |number: usize| {
        let socket = reusing(port_of(&member), false);
        socket.connect(SocketAddr::from(([127, 0, 0, 2], 1000 + number as u16))).unwrap();
        socket
    };
    let mut many: Vec<UdpSocket> = (0..most).map(connected).collect();
    assert_eq!((bed.pass(LONG), bed.ports.kernel_flows().len()), (vec![], most));
    many.push(connected(most));
    bed.show_connection(1, &many[most]);
    let told = bed.pass(Duration::ZERO);
    assert!(matches!(&told[..], [(1, Answer::FlowRevoked { cause: Cause::Stranger {}, .. })]), "at once: {told:?}");
    assert_eq!((bed.owners(), bed.ports.kernel_flows()), (vec![other], vec![]));
}

#[test]
fn socket_that_one_process_leaves_to_the_kernel_is_no_other_process_s_while_that_one_lives() {
    let mut bed = Bed::new();
    let socket = reusing(0, false);
    let inherited = std::os::fd::OwnedFd::from(socket.try_clone().unwrap());
    let mut reader = std::process::Command::new("sleep").arg("60").stdin(inherited).spawn().unwrap();
    let (owner, _) = (bed.program(1, 0), bed.hello_of(2, 0, reader.id()).unwrap());
    let flow = bed.flow(1, owner, &socket).0.unwrap();
    let copy = socket.try_clone().unwrap().into();
    let done = bed.service.handle(2, 1, Request::Announce { is_to_be_used: false }, Some(copy)).unwrap();
    let cause = Cause::SocketShared { pid: reader.id() };
    assert_eq!(
        done.events,
        [(1, Answer::FlowRevoked { flow, cause: cause.clone() })],
        "its datagrams are the reader's too"
    );
    bed.service.gone(2);
    assert_eq!(bed.flow(1, owner, &socket).0, Err(cause), "it executed another program, which reads the socket still");
    reader.kill().unwrap();
    reader.wait().unwrap();
    bed.flow(1, owner, &socket).0.unwrap();
}
