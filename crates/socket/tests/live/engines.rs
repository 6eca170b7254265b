//! Sockets of several engines of a process: those that go to another one, and back where the other ends, lose, double and reorder
//! nothing, and all that they could do they still can. Needs root and veth (or says SKIP).

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nearwire_socket::config::Mode;
use nearwire_socket::epoll::{Events, Interest};
use nearwire_socket::{Asked, Control, FirstUse, Operation, Reason, Sockets, SourceFilter, Wish};

use crate::near::{By, Near, SOON};

const QUEUES: u32 = 4;
const MODES: [Mode; 2] = [Mode::Generic, Mode::Native];

/// The first engine, and another one when it is opened.
struct Two {
    near: Near,
    /// The engine that [`Near`] does not drive just now.
    other: Option<Sockets>,
    drives_first: bool,
}

impl Two {
    fn or_skip(mode: Mode) -> Option<Two> {
        Near::on_queues(mode, QUEUES).map(|near| Two { near, other: None, drives_first: true })
    }

    fn open_other(&mut self) {
        let namespace = self.near.near().namespace.clone();
        let sockets = &mut self.near.sockets;
        self.other = Some(namespace.enter(|| sockets.open_branch(1)).unwrap().expect("a TX queue is left"));
    }

    fn first_and_other(&mut self) -> (&mut Sockets, &mut Sockets) {
        let (one, other) = (self.near.sockets(), crate::near::enter(self.other.as_mut().unwrap()));
        if self.drives_first { (one, other) } else { (other, one) }
    }

    /// Has [`Near`] drive the first engine, or the other.
    fn drive(&mut self, first: bool) {
        if first != self.drives_first {
            std::mem::swap(&mut self.near.sockets, self.other.as_mut().unwrap());
            self.drives_first = first;
        }
    }

    /// Moves what belongs to a number to the other engine, and drives that. `false`: it may not move.
    fn move_out(&mut self, number: i32) -> bool {
        if self.other.is_none() {
            self.open_other();
        }
        let (first, other) = self.first_and_other();
        let Some(component) = first.component_of(&[number]) else { return false };
        assert!(first.give_ports(other));
        first.move_to(other, &component, |_| ());
        other.use_component(&component);
        assert!(first.component_of(&[number]).is_none() && other.component_of(&[number]).is_none(), "it moves once");
        self.drive(false);
        true
    }

    /// Moves a socket to the first engine for good, with what belongs to it, and drives that.
    fn bring(&mut self, socket: &UdpSocket) {
        let namespace = self.near.near().namespace.clone();
        let (first, other) = self.first_and_other();
        let component = other.all_of(&[socket.as_raw_fd()], &[]);
        namespace.enter(|| other.move_back_to(first, &component, |_| ())).unwrap();
        self.drive(true);
    }

    /// Moves all to the first engine, as if nobody had used it, and drives that.
    fn move_back(&mut self) {
        let namespace = self.near.near().namespace.clone();
        let (first, other) = self.first_and_other();
        namespace.enter(|| other.move_all_to(first, |_| ())).unwrap();
        assert!(other.is_empty());
        self.drive(true);
    }
}

/// A socket that is served past the kernel, and a peer.
fn running(mode: Mode) -> Option<(Two, UdpSocket, UdpSocket)> {
    let mut two = Two::or_skip(mode)?;
    let socket = two.near.open("0.0.0.0:5000");
    let peer = two.near.peer();
    two.near.is_past_the_kernel_soon(&peer, &socket);
    Some((two, socket, peer))
}

#[test]
fn socket_moved_out_and_back_both_directions_pass_the_kernel() {
    for mode in MODES {
        let Some((mut two, socket, peer)) = running(mode) else { return };
        for _ in 0..20 {
            assert!(two.move_out(socket.as_raw_fd()));
            assert_eq!((two.near.sent(&socket, &peer), two.near.delivered(&peer, &socket)), (By::Port, By::Port));
            two.move_back();
            assert_eq!((two.near.sent(&socket, &peer), two.near.delivered(&peer, &socket)), (By::Port, By::Port));
        }
    }
}

#[test]
fn socket_moved_under_traffic_loses_doubles_and_reorders_nothing() {
    const COUNT: u32 = 20_000;
    /// So many may be on the way: fewer than any buffer holds.
    const AHEAD: u32 = 100;
    for mode in MODES {
        let Some((mut two, socket, peer)) = running(mode) else { return };
        let to = SocketAddr::new(two.near.near().ipv4.into(), 5000);
        let received = AtomicU32::new(0);
        let gives_up = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..COUNT {
                    while number > received.load(Relaxed) + AHEAD && !gives_up.load(Relaxed) {
                        std::thread::yield_now();
                    }
                    peer.send_to(&number.to_ne_bytes(), to).unwrap();
                }
            });
            for number in 0..COUNT {
                if number % 97 == 0 {
                    if two.drives_first { assert!(two.move_out(socket.as_raw_fd())) } else { two.move_back() }
                }
                let found = (0..SOON.as_millis() * 10).find_map(|_| {
                    let found = two.near.try_receive(&socket);
                    if found.is_none() {
                        std::thread::sleep(Duration::from_micros(if gives_up.load(Relaxed) { 0 } else { 5 }));
                    }
                    found
                });
                let wanted = Some((By::Port, number.to_ne_bytes().to_vec()));
                gives_up.store(found != wanted, Relaxed);
                assert_eq!(found, wanted, "{mode:?}");
                received.store(number, Relaxed);
            }
        });
    }
}

/// Bound and connected it has all from the kernel; its first use is by another engine than the first, in the midst of what comes.
#[test]
fn socket_first_used_under_traffic_has_all_in_order_in_the_engine_of_its_user() {
    /// As many as the kernel's buffer holds.
    const COUNT: u32 = 200;
    for mode in MODES {
        let Some((mut two, _, peer)) = running(mode) else { return };
        for round in 0..50_u16 {
            two.drive(true);
            let to = SocketAddr::new(two.near.near().ipv4.into(), 6000 + round);
            let socket = two.near.open_unused(&format!("0.0.0.0:{}", to.port()));
            assert_eq!(two.near.reason(&socket), Some(Reason::NotUsed));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    (0..COUNT).for_each(|number| assert_eq!(peer.send_to(&number.to_ne_bytes(), to).unwrap(), 4));
                });
                std::thread::sleep(Duration::from_micros(20 * u64::from(round)));
                assert!(two.move_out(socket.as_raw_fd()));
                for number in 0..COUNT {
                    assert_eq!(two.near.receive(&socket).1, number.to_ne_bytes(), "{mode:?}, round {round}");
                }
            });
            assert_eq!(two.near.reason(&socket), None);
            two.near.close(socket);
        }
    }
}

#[test]
fn datagrams_that_wait_when_their_socket_moves_are_read_where_it_is() {
    let Some((mut two, socket, peer)) = running(Mode::Generic) else { return };
    let to = SocketAddr::new(two.near.near().ipv4.into(), 5000);
    (0..100_u8).for_each(|number| assert_eq!(peer.send_to(&[number], to).unwrap(), 1));
    std::thread::sleep(Duration::from_millis(20));
    two.near.sockets().take_in();
    assert!(two.move_out(socket.as_raw_fd()));
    (0..50).for_each(|number| assert_eq!(two.near.receive(&socket), (By::Port, vec![number])));
    two.move_back();
    (50..100).for_each(|number| assert_eq!(two.near.receive(&socket), (By::Port, vec![number])));
    assert_eq!(two.near.try_receive(&socket), None);
}

#[test]
fn epoll_set_moved_with_its_sockets_tells_of_them() {
    let Some((mut two, socket, peer)) = running(Mode::Generic) else { return };
    let second = two.near.open("0.0.0.0:5001");
    let set: OwnedFd = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap();
    let sockets = two.near.sockets();
    sockets.epoll_opened(set.as_raw_fd());
    for (fd, data) in [(socket.as_raw_fd(), 1), (second.as_raw_fd(), 2)] {
        let interest = Interest { fd, events: Events::IN | Events::ET, data };
        assert_eq!(sockets.epoll_control(set.as_raw_fd(), Operation::Add, interest), Control::Done);
    }
    let told = |sockets: &mut Sockets| {
        let mut told = Vec::new();
        sockets.epoll_collect(set.as_raw_fd(), 10, Asked::JustNow, |delivery| told.push(delivery.data)).unwrap();
        told
    };
    two.near.sockets().take_in();
    told(two.near.sockets());
    let to = |port| SocketAddr::new(two.near.near().ipv4.into(), port);
    let (first_to, second_to) = (to(5000), to(5001));
    // What became ready before is told after, what was told is not told again.
    peer.send_to(b"before", second_to).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    two.near.sockets().take_in();
    assert!(two.move_out(set.as_raw_fd()), "by its set");
    assert_eq!(told(two.near.sockets()), [2]);
    assert_eq!(told(two.near.sockets()), [0_u64; 0]);
    peer.send_to(b"after", first_to).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    two.near.sockets().take_in();
    assert_eq!(told(two.near.sockets()), [1]);
    assert_eq!(two.near.receive(&second).1, b"before");
    assert_eq!(two.near.receive(&socket).1, b"after");
    two.move_back();
    peer.send_to(b"back", second_to).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    two.near.sockets().take_in();
    assert_eq!(told(two.near.sockets()), [2]);
    assert_eq!(two.near.receive(&second), (By::Port, b"back".to_vec()));
    // One that is closed away, with its set.
    assert!(two.move_out(socket.as_raw_fd()));
    two.near.sockets().closing(set.as_raw_fd());
    two.near.close(second);
    two.move_back();
    assert_eq!(two.near.delivered(&peer, &socket), By::Port);
}

/// How long it takes to find what belongs to one of so many sockets in a set.
fn time_to_find(two: &mut Two, count: usize) -> Duration {
    let sockets: Vec<UdpSocket> =
        (0..count).map(|number| two.near.open_unused(&format!("0.0.0.0:{}", 20_000 + number))).collect();
    let set: OwnedFd = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap();
    let near = two.near.sockets();
    near.epoll_opened(set.as_raw_fd());
    for socket in &sockets {
        let interest = Interest { fd: socket.as_raw_fd(), events: Events::IN, data: 0 };
        assert_eq!(near.epoll_control(set.as_raw_fd(), Operation::Add, interest), Control::Done);
    }
    let find = || {
        let begun = Instant::now();
        assert_eq!(near.all_of(&[sockets[0].as_raw_fd()], &[]).sockets().len(), count);
        begun.elapsed()
    };
    let took = std::iter::repeat_with(find).take(20).min().unwrap();
    near.closing(set.as_raw_fd());
    sockets.into_iter().for_each(|socket| two.near.close(socket));
    took
}

/// Each socket of a set has a first use: 1000 of them answered in 1.3 ms each when this grew with the square.
#[test]
fn what_belongs_to_a_socket_in_a_large_epoll_set_is_found_in_a_time_that_grows_with_the_set() {
    let Some(mut two) = Two::or_skip(Mode::Generic) else { return };
    let (few, many) = (time_to_find(&mut two, 80), time_to_find(&mut two, 800));
    assert!(many < few * 18, "{few:?} for 80 sockets, {many:?} for 800");
}

fn with_reuseport(two: &mut Two) -> UdpSocket {
    use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
    let open = || {
        let shared: UdpSocket = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap().into();
        sockopt::set_socket_reuseport(&shared, true).unwrap();
        shared.set_nonblocking(true).unwrap();
        bind(&shared, &"0.0.0.0:5000".parse::<SocketAddr>().unwrap()).unwrap();
        shared
    };
    let socket = two.near.near().namespace.enter(open).unwrap();
    two.near.adopt(&socket, 5000);
    socket
}

/// A call waited for it before it had an address. Frames come to the port when it has one, as of any other.
#[test]
fn socket_that_may_share_its_port_and_was_used_before_it_was_bound_is_past_the_kernel() {
    use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
    let Some(mut two) = Two::or_skip(Mode::Generic) else { return };
    let namespace = two.near.near().namespace.clone();
    let open = || -> UdpSocket { socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap().into() };
    let shared = namespace.enter(open).unwrap();
    sockopt::set_socket_reuseport(&shared, true).unwrap();
    shared.set_nonblocking(true).unwrap();
    let number = shared.as_raw_fd();
    let sockets = two.near.sockets();
    sockets.opened(number, nearwire_socket::Family::V4, true);
    sockets.used(&[number]);
    bind(&shared, &"0.0.0.0:5000".parse::<SocketAddr>().unwrap()).unwrap();
    namespace.enter(|| two.near.sockets().bound(number, "0.0.0.0:5000".parse().unwrap())).unwrap();
    assert_eq!((two.near.reason(&shared), two.near.flows() > 0), (None, true));
    let peer = two.near.peer();
    two.near.is_past_the_kernel_soon(&peer, &shared);
}

#[test]
fn sockets_that_share_a_port_stay_where_their_clients_find_them() {
    let Some(mut two) = Two::or_skip(Mode::Generic) else { return };
    let pair = [0, 1].map(|_| with_reuseport(&mut two));
    let to = SocketAddr::new(two.near.near().ipv4.into(), 5000);
    let peers: Vec<UdpSocket> = (0..32).map(|_| two.near.peer()).collect();
    let mut who_has = || -> Vec<usize> {
        let ask = |(number, peer): (usize, &UdpSocket)| {
            peer.send_to(&[number as u8], to).unwrap();
            let found = (0..300).find_map(|_| {
                std::thread::sleep(Duration::from_micros(100));
                [0, 1].into_iter().find(|at| two.near.try_receive(&pair[*at]) == Some((By::Port, vec![number as u8])))
            });
            found.expect("one of the two has it")
        };
        peers.iter().enumerate().map(ask).collect()
    };
    let before = who_has();
    assert!(before.contains(&0) && before.contains(&1), "{before:?}");
    assert_eq!(who_has(), before);
    assert!(!two.move_out(pair[1].as_raw_fd()), "the other one is at its port");
}

#[test]
fn socket_alone_at_a_port_that_may_be_shared_leaves_the_first_engine_until_another_comes() {
    let Some(mut two) = Two::or_skip(Mode::Generic) else { return };
    let one = with_reuseport(&mut two);
    assert!(two.move_out(one.as_raw_fd()));
    two.drive(true);
    let other = with_reuseport(&mut two);
    assert_eq!(two.near.sockets().take_wish(), Wish::FirstEngine);
    assert_eq!(two.near.sockets().take_wanted_in_first().len(), 1, "the one that is away");
    two.bring(&one);
    assert!(!two.move_out(one.as_raw_fd()) && !two.move_out(other.as_raw_fd()), "both are at one port");
}

#[test]
fn socket_that_a_thread_waited_for_stays_with_the_sets_it_is_in() {
    let Some((mut two, socket, _)) = running(Mode::Generic) else { return };
    let second = two.near.open("0.0.0.0:5001");
    let set: OwnedFd = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap();
    let sockets = two.near.sockets();
    sockets.epoll_opened(set.as_raw_fd());
    for fd in [&socket, &second].map(AsRawFd::as_raw_fd) {
        let interest = Interest { fd, events: Events::IN, data: 1 };
        assert_eq!(sockets.epoll_control(set.as_raw_fd(), Operation::Add, interest), Control::Done);
    }
    let number = set.as_raw_fd();
    assert!(matches!(sockets.first_use(&[number]), FirstUse::Moves(component) if component.sockets().len() == 2));
    sockets.settle_here(&[second.as_raw_fd()]);
    assert!(matches!(sockets.first_use(&[number]), FirstUse::Stays), "one of its sockets was waited for");
    assert!(matches!(sockets.first_use(&[socket.as_raw_fd()]), FirstUse::Stays), "a socket of its set was");
    let interest = Interest { fd: second.as_raw_fd(), events: Events::IN, data: 1 };
    assert_eq!(sockets.epoll_control(number, Operation::Delete, interest), Control::Done);
    assert!(matches!(sockets.first_use(&[socket.as_raw_fd()]), FirstUse::Moves(component) if component.has_sets()));
}

/// A socket is in three sets, one of which is in another.
#[test]
fn sets_that_are_waited_for_together_are_all_in_use_also_where_one_is_nested() {
    let Some(mut two) = Two::or_skip(Mode::Generic) else { return };
    let socket = two.near.open_unused("0.0.0.0:5000");
    let create = || rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap();
    let sets: [OwnedFd; 4] = std::array::from_fn(|_| create());
    let [outer, inner @ ..] = &sets;
    let interest = |fd: i32| Interest { fd, events: Events::IN, data: 1 };
    let sockets = two.near.sockets();
    sets.iter().for_each(|set| sockets.epoll_opened(set.as_raw_fd()));
    sockets.epoll_noted(outer.as_raw_fd(), Operation::Add, interest(inner[0].as_raw_fd()));
    for set in inner {
        let added = sockets.epoll_control(set.as_raw_fd(), Operation::Add, interest(socket.as_raw_fd()));
        assert_eq!(added, Control::Done);
    }
    sockets.used(&[inner[0].as_raw_fd()]);
    assert_eq!(two.near.reason(&socket), None);
    for (at, set) in inner.iter().enumerate() {
        let later = two.near.open_unused(&format!("0.0.0.0:{}", 5001 + at));
        let added = two.near.sockets().epoll_control(set.as_raw_fd(), Operation::Add, interest(later.as_raw_fd()));
        assert_eq!((added, two.near.reason(&later)), (Control::Done, None), "set {at}");
        two.near.close(later);
    }
}

#[test]
fn socket_in_a_group_goes_along_and_joins_where_it_is() {
    let Some((mut two, socket, _)) = running(Mode::Generic) else { return };
    let (near, far, ifindex) = (two.near.near().ipv4, two.near.far().ipv4, two.near.near().ifindex);
    let [first, second] = ["239.1.2.3", "239.1.2.4"].map(|group| group.parse::<std::net::Ipv4Addr>().unwrap());
    let peer = two.near.far().namespace.enter(|| UdpSocket::bind((far, 0))).unwrap().unwrap();
    socket.join_multicast_v4(&first, &near).unwrap();
    two.near.sockets().joined(socket.as_raw_fd(), ifindex, first.into(), SourceFilter::default());
    assert!(two.move_out(socket.as_raw_fd()));
    peer.send_to(b"first", (first, 5000)).unwrap();
    assert_eq!(two.near.receive(&socket), (By::Port, b"first".to_vec()));
    socket.join_multicast_v4(&second, &near).unwrap();
    two.near.sockets().joined(socket.as_raw_fd(), ifindex, second.into(), SourceFilter::default());
    assert_eq!(two.near.sockets().take_wish(), Wish::Nothing);
    peer.send_to(b"second", (second, 5000)).unwrap();
    assert_eq!(two.near.receive(&socket), (By::Port, b"second".to_vec()));
    socket.leave_multicast_v4(&first, &near).unwrap();
    two.near.sockets().left(socket.as_raw_fd(), ifindex, first.into());
    two.move_back();
    peer.send_to(b"left", (first, 5000)).unwrap();
    peer.send_to(b"back", (second, 5000)).unwrap();
    assert_eq!(two.near.receive(&socket), (By::Port, b"back".to_vec()));
}

#[test]
fn socket_that_asks_for_times_is_the_first_engines() {
    let Some((mut two, timed, _)) = running(Mode::Generic) else { return };
    assert!(two.move_out(timed.as_raw_fd()));
    two.near.sockets().last_stamp_ns(timed.as_raw_fd(), 1);
    assert_eq!(two.near.sockets().take_wish(), Wish::FirstEngine);
    two.move_back();
    assert!(!two.move_out(timed.as_raw_fd()), "times of frames");
}

#[test]
fn client_opened_in_another_engine_is_accelerated_there() {
    let Some((mut two, socket, peer)) = running(Mode::Generic) else { return };
    let client = two.near.near().namespace.enter(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    client.set_nonblocking(true).unwrap();
    let set: OwnedFd = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap();
    let sockets = two.near.sockets();
    sockets.epoll_opened(set.as_raw_fd());
    sockets.opened(client.as_raw_fd(), nearwire_socket::Family::V4, true);
    for fd in [socket.as_raw_fd(), client.as_raw_fd()] {
        let interest = Interest { fd, events: Events::IN, data: 1 };
        if sockets.epoll_control(set.as_raw_fd(), Operation::Add, interest) == Control::Kernel {
            let (fd, data) =
                (nearwire_sys::descriptor::Descriptor::new(fd).unwrap(), rustix::event::epoll::EventData::new_u64(1));
            rustix::event::epoll::add(&set, fd, data, rustix::event::epoll::EventFlags::IN).unwrap();
            sockets.epoll_noted(set.as_raw_fd(), Operation::Add, interest);
        }
    }
    assert!(two.move_out(set.as_raw_fd()));
    client.connect(peer.local_addr().unwrap()).unwrap();
    two.near.sockets().connected(client.as_raw_fd());
    assert_eq!(two.near.sockets().take_wish(), Wish::Nothing);
    assert_eq!(two.near.sent(&client, &peer), By::Port);
    assert_eq!(two.near.reason(&client), None);
    peer.send_to(b"back", (two.near.near().ipv4, client.local_addr().unwrap().port())).unwrap();
    assert_eq!(two.near.receive(&client), (By::Port, b"back".to_vec()));
}

#[test]
fn interface_down_and_up_while_away_traffic_passes_the_kernel_again() {
    for mode in MODES {
        let Some((mut two, socket, peer)) = running(mode) else { return };
        assert!(two.move_out(socket.as_raw_fd()));
        two.near.ip("link set nw0 down");
        let wishes = || {
            (0..300).any(|_| {
                two.near.look();
                std::thread::sleep(Duration::from_millis(1));
                two.near.sockets().take_wish() == Wish::OnlyFirstEngine
            })
        };
        assert!({ wishes }());
        two.move_back();
        two.near.has_reason_soon(&socket, Some(Reason::InterfaceDown));
        let mut spent = two.other.take().unwrap();
        assert!(spent.is_spent());
        two.near.sockets().take_back(&mut spent);
        two.near.up();
        two.near.is_past_the_kernel_soon(&peer, &socket);
        assert!(two.move_out(socket.as_raw_fd()), "another is opened");
        assert_eq!(two.near.delivered(&peer, &socket), By::Port);
    }
}

#[test]
fn sockets_closed_away_leave_their_places() {
    let Some(mut two) = Two::or_skip(Mode::Generic) else { return };
    for round in 0..50 {
        // Ports of their own: a child that another test forks has the closed sockets until it executes its program.
        let ports = (6000 + 4 * round)..(6000 + 4 * (round + 1));
        let sockets: Vec<_> = ports.map(|port| two.near.open(&format!("0.0.0.0:{port}"))).collect();
        sockets.iter().for_each(|socket| {
            two.drive(true);
            assert!(two.move_out(socket.as_raw_fd()));
        });
        sockets.into_iter().for_each(|socket| two.near.close(socket));
        two.move_back();
    }
    assert!(two.near.sockets().socket_count() <= 8, "{}", two.near.sockets().socket_count());
    assert_eq!(two.near.flows(), 0);
}

#[test]
fn interface_that_comes_back_is_not_kept_by_an_engine_that_did_not_look() {
    for mode in MODES {
        let Some((mut two, socket, peer)) = running(mode) else { return };
        let second = two.near.open("0.0.0.0:5001");
        assert!(two.move_out(socket.as_raw_fd()));
        two.drive(true);
        two.near.ip("link set nw0 down");
        let wishes = (0..300).any(|_| {
            two.near.look();
            std::thread::sleep(Duration::from_millis(1));
            two.near.sockets().take_wish() == Wish::OnlyFirstEngine
        });
        assert!(wishes);
        // It comes back before the other engine is at an end, and is busy until then.
        two.near.up();
        two.near.look();
        two.move_back();
        two.near.sockets().take_back(&mut two.other.take().unwrap());
        let namespace = two.near.near().namespace.clone();
        namespace.enter(|| two.near.sockets().others_ended()).unwrap();
        two.near.is_past_the_kernel_soon(&peer, &second);
        two.near.is_past_the_kernel_soon(&peer, &socket);
    }
}
