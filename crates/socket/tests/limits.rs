//! Sockets of a process that may not do all, and what 200 lives of sockets leave behind. One test after the other: limits
//! and descriptors are the process's. Needs root and veth (or says SKIP).
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod near;

use std::fs::{self, File};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nearwire_socket::config::Mode;
use nearwire_socket::{Family, Reason};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use near::{By, Near};

/// Runs `work` on a thread that lacks capabilities.
fn without(lacking: CapabilitySet, work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| {
            let mut sets = capabilities(None).unwrap();
            sets.effective.remove(lacking);
            set_capabilities(None, sets).unwrap();
            work();
        });
        ran.join().unwrap();
    });
}

fn with_limit(resource: Resource, limit: u64, work: impl FnOnce()) {
    let before = getrlimit(resource);
    setrlimit(resource, Rlimit { current: Some(limit), maximum: before.maximum }).unwrap();
    work();
    setrlimit(resource, before).unwrap();
}

/// A server in a namespace of its own is the kernel's for this reason, and is served.
fn is_the_kernels(wanted: Reason) {
    let Some(mut near) = Near::or_skip(Mode::Generic) else { return };
    refused(&mut near, wanted);
}

fn refused(near: &mut Near, wanted: Reason) -> UdpSocket {
    let socket = near.open("0.0.0.0:5000");
    assert_eq!(near.reason(&socket), Some(wanted));
    let peer = near.peer();
    assert_eq!(near.delivered(&peer, &socket), By::Kernel);
    assert_eq!(near.sent(&socket, &peer), By::Kernel);
    assert_eq!(near.program_id(), None, "nothing is left of the attempt");
    socket
}

/// Lacking the right to enter the namespace, a thread begins in it.
fn user_without_capabilities_is_served_by_the_kernel() {
    let Some(mut near) = Near::or_skip(Mode::Auto) else { return };
    let namespace = near.near().namespace.clone();
    let peer = near.peer();
    let address = near.near().ipv4;
    let sockets = near.sockets();
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| {
            let work = || {
                let before = capabilities(None).unwrap();
                let mut sets = before;
                sets.effective = CapabilitySet::empty();
                set_capabilities(None, sets).unwrap();
                let socket = UdpSocket::bind("0.0.0.0:5000").unwrap();
                sockets.opened(socket.as_raw_fd(), Family::V4, false);
                sockets.bound(socket.as_raw_fd(), socket.local_addr().unwrap());
                assert_eq!(sockets.reason(socket.as_raw_fd()), Some(Reason::NoCapability));
                peer.send_to(b"in", (address, 5000)).unwrap();
                assert_eq!(socket.recv(&mut [0; 8]).unwrap(), 2);
                set_capabilities(None, before).unwrap();
            };
            namespace.enter(work).unwrap();
        });
        ran.join().unwrap();
    });
}

fn locked_memory_used_up_the_kernel_serves() {
    let limits = getrlimit(Resource::Memlock);
    with_limit(Resource::Memlock, 64 << 10, || {
        without(CapabilitySet::IPC_LOCK, || is_the_kernels(Reason::MemoryLimit));
    });
    assert_eq!(getrlimit(Resource::Memlock), limits);
}

/// At every number of descriptors that are left: the socket works, and says why it is the kernel's.
fn descriptors_used_up_the_kernel_serves_and_a_later_socket_is_accelerated() {
    let Some(mut near) = Near::or_skip(Mode::Generic) else { return };
    let (peer, namespace) = (near.peer(), near.near().namespace.clone());
    let address = near.near().ipv4;
    let mut reasons = Vec::new();
    for left in 0..24 {
        near.sockets = nearwire_socket::Sockets::new(
            nearwire_socket::ThisHost::default(),
            nearwire_socket::config::Config::default(),
            "test",
        );
        let socket = namespace.enter(|| UdpSocket::bind(("0.0.0.0", 5000))).unwrap().unwrap();
        socket.set_nonblocking(true).unwrap();
        let entering = File::open("/dev/null").unwrap();
        let mut taken = Vec::new();
        with_limit(Resource::Nofile, 400, || {
            while let Ok(file) = File::open("/dev/null") {
                taken.push(file);
            }
            taken.truncate(taken.len() - left);
            let sockets = near.sockets();
            let work = || {
                drop(entering);
                sockets.opened(socket.as_raw_fd(), Family::V4, true);
                sockets.bound(socket.as_raw_fd(), socket.local_addr().unwrap());
                sockets.used(&[socket.as_raw_fd()]);
            };
            // What entering a namespace takes is given back before.
            taken.truncate(taken.len() - 1);
            namespace.enter(work).unwrap();
            peer.send_to(b"in", (address, 5000)).unwrap();
            assert_eq!(near.receive_here(&socket), b"in");
        });
        drop(taken);
        reasons.push(near.reason(&socket));
        near.close(socket);
    }
    let first = reasons.iter().position(Option::is_none);
    let first = first.unwrap_or_else(|| panic!("enough descriptors were never left: {reasons:?}"));
    assert!(reasons[..first].iter().all(|reason| *reason == Some(Reason::DescriptorLimit)), "{reasons:?}");
    assert!(first > 5 && reasons[first..].iter().all(Option::is_none), "{reasons:?}");
}

/// An engine that could not be opened is tried again.
fn descriptors_freed_a_later_socket_is_accelerated() {
    let Some(mut near) = Near::or_skip(Mode::Generic) else { return };
    let before = near.near().namespace.enter(|| UdpSocket::bind("0.0.0.0:5000")).unwrap().unwrap();
    let highest = File::open("/dev/null").unwrap().as_raw_fd() as u64;
    with_limit(Resource::Nofile, highest + 2, || near.adopt(&before, 5000));
    assert_eq!(near.reason(&before), Some(Reason::DescriptorLimit));
    std::thread::sleep(Duration::from_millis(1100));
    let after = near.open("0.0.0.0:5001");
    assert_eq!(near.reason(&after), None);
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    flows: usize,
    places: usize,
    free_slots: usize,
    watched: usize,
}

fn held(near: &mut Near) -> Held {
    let engine = near.sockets().engine().unwrap();
    let number = engine.watch().descriptor().as_raw_fd();
    let watched = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap();
    Held {
        descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
        flows: engine.flow_count(),
        places: near.sockets().socket_count(),
        free_slots: near.sockets().engine().unwrap().stack().udp_free_slots(),
        watched: watched.lines().filter(|line| line.starts_with("tfd:")).count(),
    }
}

fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
}

/// Open, bind, connect, traffic, duplicate, join, wait for, lose the interface now and then, close.
fn life(near: &mut Near, peer: &UdpSocket, round: u16) {
    let port = 5000 + round;
    let socket = near.open(&format!("0.0.0.0:{port}"));
    assert_eq!(near.reason(&socket), None);
    let kept = near.open(&format!("{}:{}", near.near().ipv4, port + 1000));
    if round.is_multiple_of(20) {
        near.ip("link set nw0 down");
        near.look();
        near.up();
        near.is_past_the_kernel_soon(peer, &socket);
    }
    near.delivered(peer, &socket);
    near.sent(&socket, peer);
    let group = "239.1.2.3".parse().unwrap();
    socket.join_multicast_v4(&group, &near.near().ipv4).unwrap();
    let ifindex = near.near().ifindex;
    near.sockets().joined(socket.as_raw_fd(), ifindex, group.into(), nearwire_socket::SourceFilter::default());
    let copy = socket.try_clone().unwrap();
    near.sockets().duplicated(socket.as_raw_fd(), copy.as_raw_fd());
    socket.connect(peer.local_addr().unwrap()).unwrap();
    near.sockets().connected(socket.as_raw_fd());
    // What is queued and never read goes with its socket.
    for _ in 0..3 {
        peer.send_to(b"late", (near.near().ipv4, port + 1000)).unwrap();
    }
    near.close(kept);
    near.close(socket);
    near.close(copy);
}

fn sockets_opened_and_closed_200_times_nothing_is_left() {
    let Some(mut near) = Near::or_skip(Mode::Generic) else { return };
    let peer = near.peer();
    let anchor = near.open("0.0.0.0:4000");
    for round in 0..40 {
        life(&mut near, &peer, round);
    }
    let (before, before_bytes) = (held(&mut near), resident_bytes());
    let started = Instant::now();
    for round in 0..200 {
        life(&mut near, &peer, round);
    }
    println!("{} us a life", started.elapsed().as_micros() / 200);
    assert_eq!(held(&mut near), before);
    let grown = resident_bytes().saturating_sub(before_bytes);
    assert!(grown < 256 << 10, "{grown} bytes more");
    near.delivered(&peer, &anchor);
    let namespace = near.near().namespace.clone();
    drop(near.sockets);
    assert_eq!(near::program_id(&namespace, "nw0"), None);
}

fn engines_opened_until_the_tx_queues_are_given_away_and_again_leave_nothing() {
    const QUEUES: u32 = 4;
    let Some(mut near) = Near::on_queues(Mode::Generic, QUEUES) else { return };
    let (peer, socket) = (near.peer(), near.open("0.0.0.0:5000"));
    near.is_past_the_kernel_soon(&peer, &socket);
    let mut before = None;
    let namespace = near.near().namespace.clone();
    for round in 0..20 {
        let sockets = near.sockets();
        let open = |number| namespace.enter(|| sockets.open_branch(number)).unwrap();
        let branches: Vec<_> = (1..=QUEUES).map_while(open).collect();
        assert_eq!(branches.len() as u32, QUEUES - 1, "round {round}");
        branches.into_iter().for_each(|mut one| near.sockets().take_back(&mut one));
        assert_eq!((near.sent(&socket, &peer), near.delivered(&peer, &socket)), (By::Port, By::Port));
        // Sockets of the first ones are kept for the next.
        let held = held(&mut near);
        assert_eq!(*before.get_or_insert_with(|| held.clone()), held, "round {round}");
    }
}

#[test]
fn limits_and_lives() {
    engines_opened_until_the_tx_queues_are_given_away_and_again_leave_nothing();
    user_without_capabilities_is_served_by_the_kernel();
    locked_memory_used_up_the_kernel_serves();
    descriptors_used_up_the_kernel_serves_and_a_later_socket_is_accelerated();
    descriptors_freed_a_later_socket_is_accelerated();
    sockets_opened_and_closed_200_times_nothing_is_left();
}
