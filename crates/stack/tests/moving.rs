//! An endpoint that goes from one stack to another: its owner notices nothing but the new name.

mod common;

use std::net::{IpAddr, SocketAddr};

use common::{Host, IFINDEX, address, at, host, host_with, link, mac, neighbour, v4, v6};
use nearwire_stack::{
    Arrival, Dropped, EndpointId, Family, Message, NeighbourState, PathMtuDiscovery, ReceiveChecksum, Route,
    SourceFilter, Stack, StackConfig, Take, UdpOptions, Update, Verdict,
};
use proptest::prelude::*;

const PORT: u16 = 4000;

fn any4() -> SocketAddr {
    at("0.0.0.0".parse().expect("an address"), PORT)
}

/// Two stacks of host 2.
fn stacks() -> [Host; 2] {
    [host(2, &[1, 3]), host(2, &[1, 3])]
}

/// Takes an endpoint from the first and puts it into the second.
fn move_over([first, second]: &mut [Host; 2], id: EndpointId) -> EndpointId {
    second.stack.udp_put(first.stack.udp_take(id).expect("open, and in no group"))
}

/// A frame of host 1 to host 2.
fn frame(from_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut sender = host(1, &[2]);
    let id = sender.endpoint(at(v4(1), from_port));
    sender.send(id, &Message::to(payload, at(v4(2), PORT))).expect("has a way")
}

/// Takes a frame in for the queue, at a time.
fn arrive(host: &mut Host, frame: &[u8], received_ns: u64) -> Verdict {
    let arrival =
        Arrival { port: host.port, frame, received_ns, device_ns: received_ns + 1, checksum: ReceiveChecksum::Verify };
    host.stack.receive(&arrival, |_, _| Take::Queue)
}

/// All that is told of the next datagram.
fn told(stack: &mut Stack, id: EndpointId) -> Option<String> {
    stack.udp_read(id, |datagram| format!("{datagram:?}"))
}

#[test]
fn datagrams_waiting_moved_are_read_in_order_with_all_that_is_known_of_them() {
    let ([mut stayed, _], mut hosts) = (stacks(), stacks());
    let [stayed_id, id] = [&mut stayed, &mut hosts[0]].map(|host| host.endpoint(any4()));
    for number in 0..5_u8 {
        let frame = frame(7 + u16::from(number), &vec![number; usize::from(number) * 100]);
        arrive(&mut stayed, &frame, number.into());
        arrive(&mut hosts[0], &frame, number.into());
    }
    let free = hosts[0].stack.udp_free_slots();
    let moved = hosts[0].stack.udp_take(id).expect("open");
    assert_eq!((moved.waiting(), hosts[0].stack.udp_free_slots()), (5, free + 5));
    let id = hosts[1].stack.udp_put(moved);
    let stack = &mut hosts[1].stack;
    assert_eq!((stack.take_readable(), stack.take_readable()), (Some(id), None));
    assert_eq!((stack.udp_waiting(id), stack.udp_charged_bytes(id)), (5, stayed.stack.udp_charged_bytes(stayed_id)));
    for _ in 0..6 {
        assert_eq!(told(stack, id), told(&mut stayed.stack, stayed_id));
    }
}

#[test]
fn endpoint_moved_is_closed_in_the_first_stack() {
    let mut hosts = stacks();
    let id = hosts[0].endpoint(any4());
    arrive(&mut hosts[0], &frame(7, b"waits"), 1);
    let new_id = move_over(&mut hosts, id);
    let [first, second] = &mut hosts;
    assert_eq!((first.stack.udp_local(id), first.stack.udp_options(id)), (None, None));
    assert_eq!(first.stack.take_readable(), None, "nobody is told of it there any more");
    assert_eq!(first.receive(&frame(7, b"later")), Verdict::Dropped(Dropped::NoPorts));
    assert!(first.stack.udp_take(id).is_none());
    assert_eq!(second.receive(&frame(7, b"later")), Verdict::Delivered { endpoint: new_id, copies: 1 });
    let again = first.endpoint(any4());
    assert_eq!((again.index(), first.read(again)), (id.index(), None), "the address and the place are free");
    assert_eq!([second.read(new_id), second.read(new_id)], [b"waits", b"later"].map(|read| Some(read.to_vec())));
}

#[test]
fn endpoint_that_joined_a_group_is_refused_and_stays_until_it_leaves() {
    let mut hosts = stacks();
    let id = hosts[0].endpoint(any4());
    hosts[0].join(id, "239.1.1.1", &SourceFilter::default());
    assert!(hosts[0].stack.udp_take(id).is_none());
    assert_eq!(hosts[0].receive(&frame(7, b"here")), Verdict::Delivered { endpoint: id, copies: 1 });
    hosts[0].stack.udp_leave(id, IFINDEX, "239.1.1.1".parse().expect("an address")).expect("joined");
    let id = move_over(&mut hosts, id);
    assert_eq!(hosts[1].read(id), Some(b"here".to_vec()));
}

#[test]
fn second_stack_full_the_rest_is_dropped_and_counted() {
    let few = StackConfig { queue_slots: 3, ..StackConfig::new(1) };
    let mut hosts = [host(2, &[1]), host_with(2, &[1], few)];
    let id = hosts[0].endpoint(any4());
    for number in 0..5 {
        arrive(&mut hosts[0], &frame(7, &[number]), 1);
    }
    let id = move_over(&mut hosts, id);
    let stack = &mut hosts[1].stack;
    assert_eq!((stack.udp_waiting(id), stack.udp_dropped(id)), (3, 2));
    let counters = stack.statistics().udp(Family::V4);
    assert_eq!((counters.mem_errors, counters.in_errors), (2, 2));
    assert_eq!([0, 1, 2].map(|_| hosts[1].read(id)), [[0], [1], [2]].map(|read| Some(read.to_vec())));
    arrive(&mut hosts[1], &frame(7, b"next"), 1);
    assert_eq!(hosts[1].stack.udp_read(id, |datagram| datagram.dropped_before), Some(2));
}

#[test]
fn longer_than_a_slot_of_the_second_stack_keeps_its_place() {
    let small = StackConfig { queue_slot_bytes: 64, ..StackConfig::new(1) };
    let mut hosts = [host(2, &[1]), host_with(2, &[1], small)];
    let id = hosts[0].endpoint(any4());
    for len_bytes in [10, 100, 20] {
        arrive(&mut hosts[0], &frame(7, &vec![0; len_bytes]), 1);
    }
    let id = move_over(&mut hosts, id);
    let stack = &mut hosts[1].stack;
    let mut read = || stack.udp_read(id, |datagram| (datagram.payload.len(), datagram.dropped_before));
    assert_eq!([read(), read(), read(), read()], [Some((10, 0)), Some((100, 0)), Some((20, 0)), None]);
}

#[test]
fn member_of_a_reuseport_group_moved_the_others_get_its_flows() {
    let mut hosts = stacks();
    let shared = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let ids = [0; 3].map(|_| hosts[0].endpoint_with(any4(), shared));
    let moved = move_over(&mut hosts, ids[0]);
    let frames: Vec<_> = (1..200).map(|port| frame(port, b"flow")).collect();
    let mut counts = [0; 2];
    for frame in &frames {
        let Verdict::Delivered { endpoint, copies: 1 } = hosts[0].receive(frame) else { panic!("nobody has it") };
        counts[ids[1..].iter().position(|id| *id == endpoint).expect("not the one that moved")] += 1;
    }
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
    // The group is complete again in the second stack.
    let mut ids = vec![moved, move_over(&mut hosts, ids[1]), move_over(&mut hosts, ids[2])];
    for frame in &frames {
        let Verdict::Delivered { endpoint, copies: 1 } = hosts[1].receive(frame) else { panic!("nobody has it") };
        ids.retain(|id| *id != endpoint);
    }
    assert_eq!(ids, [], "each has flows");
}

#[test]
fn connection_to_a_link_local_address_moved_keeps_its_interface() {
    let mut hosts = stacks();
    let ends: [IpAddr; 2] = ["fe80::2", "fe80::1"].map(|text| text.parse().expect("an address"));
    for host in &mut hosts {
        host.stack.update(Update::NewAddress(address(IFINDEX, ends[0], 64)));
        let route = Route::on_link("fe80::".parse().expect("an address"), 64, IFINDEX);
        host.stack.update(Update::NewRoute { route, replaces: false });
        host.stack.update(neighbour(ends[1], 1, NeighbourState::Reachable));
    }
    let id = hosts[0].endpoint(at("::".parse().expect("an address"), PORT));
    let remote = "[fe80::1%2]:9".parse().expect("an address");
    hosts[0].stack.udp_connect(id, remote, None).expect("has a way");
    let before = hosts[0].send(id, &Message::new(b"to the link")).expect("has a way");
    let id = move_over(&mut hosts, id);
    assert_eq!(hosts[1].send(id, &Message::new(b"to the link")), Ok(before));
}

#[test]
fn way_remembered_moved_is_found_anew_in_the_second_stack() {
    let mut hosts = stacks();
    // As many changes as the first has seen, one with another outcome.
    hosts[0].stack.update(neighbour(v4(1), 1, NeighbourState::Reachable));
    hosts[1].stack.update(neighbour(v4(1), 9, NeighbourState::Reachable));
    let id = hosts[0].connected(any4(), at(v4(1), 9));
    let before = hosts[0].send(id, &Message::new(b"payload")).expect("has a way");
    let id = move_over(&mut hosts, id);
    let after = hosts[1].send(id, &Message::new(b"payload")).expect("has a way");
    assert_eq!([&before[..6], &after[..6]], [mac(1).0, mac(9).0]);
}

/// What the owner of an endpoint does, and what happens to it.
#[derive(Clone, Debug)]
enum Step {
    Bind { any: bool },
    Connect { to: u8, port: u16 },
    Disconnect,
    Configure(Change),
    Arrive { from: u8, port: u16, len_bytes: usize, is_taken: bool },
    Read,
    Peek,
    Send { to: Option<u8>, len_bytes: usize },
    Neighbour { number: u8, is_known: bool },
    Mtu { bytes: u32 },
    Move { to: usize },
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Buffer(u32),
    Ttl(Option<u8>),
    Tos(u8),
    Device(bool),
    Discovery(PathMtuDiscovery),
    ReusePort(bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    let number = || prop_oneof![Just(1_u8), Just(3_u8)];
    let port = || prop_oneof![Just(7_u16), Just(8_u16)];
    let change = prop_oneof![
        prop_oneof![Just(1), Just(2000), Just(100_000)].prop_map(Change::Buffer),
        any::<Option<u8>>().prop_map(Change::Ttl),
        any::<u8>().prop_map(Change::Tos),
        any::<bool>().prop_map(Change::Device),
        prop_oneof![Just(PathMtuDiscovery::Do), Just(PathMtuDiscovery::Dont)].prop_map(Change::Discovery),
        any::<bool>().prop_map(Change::ReusePort),
    ];
    prop_oneof![
        2 => any::<bool>().prop_map(|any| Step::Bind { any }),
        2 => (number(), port()).prop_map(|(to, port)| Step::Connect { to, port }),
        1 => Just(Step::Disconnect),
        2 => change.prop_map(Step::Configure),
        6 => (number(), port(), 0..1400_usize, any::<bool>())
            .prop_map(|(from, port, len_bytes, is_taken)| Step::Arrive { from, port, len_bytes, is_taken }),
        3 => Just(Step::Read),
        1 => Just(Step::Peek),
        4 => (proptest::option::of(number()), 0..1600_usize).prop_map(|(to, len_bytes)| Step::Send { to, len_bytes }),
        1 => (number(), any::<bool>()).prop_map(|(number, is_known)| Step::Neighbour { number, is_known }),
        1 => prop_oneof![Just(1500), Just(1000)].prop_map(|bytes| Step::Mtu { bytes }),
        4 => (0..3_usize).prop_map(|to| Step::Move { to }),
    ]
}

/// A host with one endpoint, and as many stacks as it likes to have.
struct World {
    stacks: Vec<Host>,
    at: usize,
    id: EndpointId,
    is_six: bool,
}

impl World {
    fn new(stacks: usize, is_six: bool) -> World {
        let config = StackConfig { queue_slots: 16, ..StackConfig::new(77) };
        let mut stacks: Vec<_> = (0..stacks).map(|_| host_with(2, &[1, 3], config)).collect();
        let family = if is_six { Family::V6 } else { Family::V4 };
        let id = stacks[0].stack.udp_open(family, UdpOptions::default());
        World { stacks, at: 0, id, is_six }
    }

    fn address(&self, number: u8) -> IpAddr {
        if self.is_six { v6(number) } else { v4(number) }
    }

    /// Does a step, and says all that can be seen of it.
    fn step(&mut self, step: &Step) -> String {
        let ours = if self.is_six { "::" } else { "0.0.0.0" }.parse().expect("an address");
        let (own, id) = (self.address(2), self.id);
        let done = match *step {
            Step::Bind { any } => {
                format!("{:?}", self.stack().udp_bind(id, at(if any { ours } else { own }, PORT)))
            }
            Step::Connect { to, port } => {
                let remote = at(self.address(to), port);
                format!("{:?}", self.stack().udp_connect(id, remote, None))
            }
            Step::Disconnect => format!("{:?}", self.stack().udp_disconnect(id)),
            Step::Configure(change) => {
                format!("{:?}", self.stack().udp_configure(id, |options| apply(change, options)))
            }
            Step::Arrive { from, port, len_bytes, is_taken } => self.arrive(from, port, len_bytes, is_taken),
            Step::Read => format!("{:?}", told(self.stack(), id)),
            Step::Peek => format!("{:?}", self.stack().udp_peek(id, |datagram| format!("{datagram:?}"))),
            Step::Send { to, len_bytes } => {
                let payload = vec![7; len_bytes];
                let to = to.map(|to| at(self.address(to), 9));
                format!("{:?}", self.stacks[self.at].send(id, &Message { to, ..Message::new(&payload) }))
            }
            Step::Neighbour { number, is_known } => {
                let address = self.address(number);
                self.tell(|| match is_known {
                    true => neighbour(address, number, NeighbourState::Reachable),
                    false => Update::DelNeighbour { ifindex: IFINDEX, address },
                })
            }
            Step::Mtu { bytes } => {
                self.tell(|| Update::NewLink(nearwire_stack::Link { mtu_bytes: bytes, ..link(IFINDEX, 2) }))
            }
            Step::Move { to } => self.go(to),
        };
        let stack = &self.stacks[self.at].stack;
        let about = (stack.udp_local(self.id), stack.udp_remote(self.id), stack.udp_options(self.id));
        let waits = (stack.udp_waiting(self.id), stack.udp_charged_bytes(self.id), stack.udp_dropped(self.id));
        format!("{done} {about:?} {waits:?}")
    }

    fn stack(&mut self) -> &mut Stack {
        &mut self.stacks[self.at].stack
    }

    fn arrive(&mut self, from: u8, port: u16, len_bytes: usize, is_taken: bool) -> String {
        let (source, destination) = (at(self.address(from), port), at(self.address(2), PORT));
        let mut sender = host(from, &[2]);
        let sender_id = sender.endpoint(source);
        let frame = sender.send(sender_id, &Message::to(&vec![from; len_bytes], destination)).expect("has a way");
        let Host { stack, port, .. } = &mut self.stacks[self.at];
        let checksum = ReceiveChecksum::Verify;
        let arrival = Arrival { port: *port, frame: &frame, received_ns: len_bytes as u64, device_ns: 1, checksum };
        let mut lent = None;
        let verdict = stack.receive(&arrival, |_, datagram| {
            lent = Some(format!("{datagram:?}"));
            if is_taken { Take::Consumed } else { Take::Queue }
        });
        match verdict {
            Verdict::Delivered { endpoint, copies } => format!("{} {copies} {lent:?}", endpoint == self.id),
            other => format!("{other:?}"),
        }
    }

    /// Every stack hears what the kernel says.
    fn tell(&mut self, update: impl Fn() -> Update) -> String {
        self.stacks.iter_mut().for_each(|host| host.stack.update(update()));
        String::new()
    }

    fn go(&mut self, to: usize) -> String {
        if to < self.stacks.len() {
            let moved = self.stacks[self.at].stack.udp_take(self.id).expect("in no group");
            assert_eq!(self.stacks[self.at].stack.udp_free_slots(), 16, "nothing is left behind");
            self.at = to;
            self.id = self.stacks[to].stack.udp_put(moved);
        }
        String::new()
    }

    /// Whether the endpoint is named as one that became readable.
    fn is_announced(&mut self) -> bool {
        let id = self.id;
        std::iter::from_fn(|| self.stack().take_readable()).any(|named| named == id)
    }
}

fn apply(change: Change, options: &mut UdpOptions) {
    match change {
        Change::Buffer(bytes) => options.receive_buffer_bytes = bytes,
        Change::Ttl(ttl) => options.of_each_family().into_iter().for_each(|one| one.ttl = ttl.filter(|ttl| *ttl > 0)),
        Change::Tos(tos) => options.of_each_family().into_iter().for_each(|one| one.tos = tos),
        Change::Device(is_bound) => options.device = is_bound.then_some(IFINDEX),
        Change::Discovery(mode) => options.of_each_family().into_iter().for_each(|one| one.path_mtu_discovery = mode),
        Change::ReusePort(is_set) => options.reuse_port = is_set,
    }
}

proptest! {
    #[test]
    fn endpoint_moved_between_any_calls_answers_as_one_that_stays(
        is_six: bool, steps in proptest::collection::vec((any_step(), any::<bool>()), 1..60),
    ) {
        let (mut stays, mut moves) = (World::new(1, is_six), World::new(3, is_six));
        for (step, asks) in &steps {
            // The one that stays has nowhere else to go.
            let stay = if matches!(step, Step::Move { .. }) { &Step::Move { to: 1 } } else { step };
            prop_assert_eq!(moves.step(step), stays.step(stay), "{:?} of {:?}", step, &steps);
            if *asks {
                let is_waiting = stays.stacks[0].stack.udp_waiting(stays.id) > 0;
                let (is_told, was_told) = (moves.is_announced(), stays.is_announced());
                // What was told before is told again after a move.
                prop_assert!(is_told || !(was_told && is_waiting), "news of {:?} lost in {:?}", step, &steps);
            }
        }
        moves.stacks[moves.at].stack.udp_close(moves.id);
        for host in &moves.stacks {
            prop_assert_eq!(host.stack.udp_free_slots(), 16);
        }
    }
}
