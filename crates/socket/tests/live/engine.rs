//! What becomes of accelerated sockets when interfaces, addresses, routes and programs change below them. Needs root and
//! veth (or says SKIP).

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::process::Command;
use std::time::Duration;

use nearwire_frames::port::Port;
use nearwire_socket::config::Mode;
use nearwire_socket::{Reason, Receive, ShadowSaid, Sockets, Thread, WaitsFor};

use crate::near::{By, Near, ip};

/// A cable, a server on all addresses and a peer, with traffic past the kernel in both directions.
fn running(mode: Mode) -> Option<(Near, UdpSocket, UdpSocket)> {
    running_on(mode, "0.0.0.0:5000")
}

fn running_on(mode: Mode, local: &str) -> Option<(Near, UdpSocket, UdpSocket)> {
    let mut near = Near::or_skip(mode)?;
    let socket = near.open(local);
    let peer = near.peer();
    assert_eq!(near.reason(&socket), None);
    near.is_past_the_kernel_soon(&peer, &socket);
    Some((near, socket, peer))
}

#[test]
fn interface_down_and_up_traffic_passes_the_kernel_again() {
    for mode in [Mode::Generic, Mode::Native] {
        let Some((mut near, socket, peer)) = running(mode) else { return };
        near.ip("link set nw0 down");
        near.has_reason_soon(&socket, Some(Reason::InterfaceDown));
        assert_eq!(near.program_id(), None);
        let refused = near.send(&socket, peer.local_addr().unwrap(), b"x").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENETUNREACH), "{refused}");
        assert!(near.try_receive(&socket).is_none());
        near.up();
        near.has_reason_soon(&socket, None);
        near.is_past_the_kernel_soon(&peer, &socket);
        assert!(near.program_id().is_some());
    }
}

#[test]
fn interface_down_and_up_between_two_looks_traffic_passes_the_kernel_again() {
    let Some((mut near, socket, peer)) = running(Mode::Generic) else { return };
    for _ in 0..5 {
        near.ip("link set nw0 down");
        near.up();
        near.is_past_the_kernel_soon(&peer, &socket);
    }
}

/// Descriptors in an epoll set.
fn members(set: RawFd) -> usize {
    let told = std::fs::read_to_string(format!("/proc/self/fdinfo/{set}")).unwrap();
    told.lines().filter(|line| line.starts_with("tfd:")).count()
}

#[test]
fn thread_that_slept_and_spins_takes_its_ports_out_of_the_set_it_slept_at() {
    let Some((mut near, ..)) = running(Mode::Generic) else { return };
    let me = Thread { process: std::process::id(), identity: 1 };
    let sleep = |sockets: &mut Sockets| {
        assert!(sockets.begin_sleep(me, WaitsFor::Anything, true).is_new);
        let set = sockets.begin_sleep(me, WaitsFor::Anything, true).set.expect("it is the only one that sleeps");
        let members = members(set);
        sockets.woken(me, 0, false, false);
        (set, members)
    };
    let (set, asleep) = sleep(near.sockets());
    near.sockets().look();
    assert_eq!(members(set), asleep, "it may sleep again soon");
    std::thread::sleep(Duration::from_millis(20));
    near.sockets().look();
    assert!(members(set) < asleep, "{} of {asleep}", members(set));
    assert_eq!(sleep(near.sockets()), (set, asleep));
}

#[test]
fn interface_goes_down_what_came_before_is_still_read() {
    for mode in [Mode::Generic, Mode::Native] {
        let Some((mut near, socket, peer)) = running(mode) else { return };
        for number in 0..100_u8 {
            peer.send_to(&[number], SocketAddr::new(near.near().ipv4.into(), 5000)).unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
        near.ip("link set nw0 down");
        near.look();
        for number in 0..100_u8 {
            assert_eq!(near.receive(&socket), (By::Port, vec![number]), "{mode:?}");
        }
    }
}

#[test]
fn socket_bound_while_the_interface_is_down_is_the_kernels_and_the_next_is_not() {
    let Some(mut near) = Near::or_skip(Mode::Generic) else { return };
    near.ip("link set nw0 down");
    let before = near.open("0.0.0.0:5000");
    assert_eq!(near.reason(&before), Some(Reason::InterfaceDown));
    near.up();
    let after = near.open("0.0.0.0:5001");
    let peer = near.peer();
    near.is_past_the_kernel_soon(&peer, &after);
    assert_eq!(near.delivered(&peer, &before), By::Kernel);
}

#[test]
fn interface_deleted_and_made_again_traffic_passes_the_kernel_again() {
    for local in ["0.0.0.0:5000", "10.9.0.1:5000"] {
        let Some(mut near) = Near::or_skip(Mode::Generic) else { return };
        let local = local.replace("10.9.0.1", &near.near().ipv4.to_string());
        let socket = near.open(&local);
        let (near_ip, far_ip) = (near.near().ipv4, near.far().ipv4);
        near.ip("link delete nw0");
        near.has_reason_soon(
            &socket,
            Some(if local.starts_with('0') { Reason::NoInterface } else { Reason::ForeignAddress }),
        );
        let refused = near.send(&socket, SocketAddr::new(far_ip.into(), 7), b"x").unwrap_err();
        assert!([Some(libc::ENETUNREACH), Some(libc::EINVAL)].contains(&refused.raw_os_error()), "{refused}");
        near.ip("link add nw0 index 110 type veth peer name nw9");
        // By way of a process, whose namespace `ip` can name.
        let mut holder = near.far().namespace.enter(|| Command::new("sleep").arg("60").spawn()).unwrap().unwrap();
        near.ip(&format!("link set nw9 netns {}", holder.id()));
        holder.kill().unwrap();
        holder.wait().unwrap();
        ip(&near.far().namespace, &format!("address add {far_ip}/24 dev nw9"));
        ip(&near.far().namespace, "link set nw9 up");
        near.ip(&format!("address add {near_ip}/24 dev nw0"));
        near.ip("link set nw0 up");
        std::thread::sleep(Duration::from_millis(20));
        let peer = near.peer();
        near.is_past_the_kernel_soon(&peer, &socket);
        assert_eq!(near.reason(&socket), None);
    }
}

#[test]
fn address_removed_and_added_flows_follow_and_errors_are_the_kernels() {
    let Some(mut near) = Near::or_skip(Mode::Generic) else { return };
    let address = near.near().ipv4;
    let bound = near.open(&format!("{address}:5000"));
    let any = near.open("0.0.0.0:5001");
    let peer = near.peer();
    near.is_past_the_kernel_soon(&peer, &bound);
    near.is_past_the_kernel_soon(&peer, &any);
    let flows = near.flows();
    near.ip(&format!("address add {address}/24 dev lo"));
    near.ip(&format!("address delete {address}/24 dev lo"));
    near.look();
    near.is_past_the_kernel_soon(&peer, &bound);
    near.ip(&format!("address delete {address}/24 dev nw0"));
    near.has_reason_soon(&bound, Some(Reason::ForeignAddress));
    assert_eq!(near.flows(), flows - 2, "the address is nobody's");
    let refused = near.send(&bound, peer.local_addr().unwrap(), b"x").unwrap_err();
    let plain = near.near().namespace.enter(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(b"x", peer.local_addr().unwrap()).unwrap_err()
    });
    assert_eq!(refused.raw_os_error(), plain.unwrap().raw_os_error());
    near.ip(&format!("address add {address}/24 dev nw0"));
    near.is_past_the_kernel_soon(&peer, &bound);
    near.is_past_the_kernel_soon(&peer, &any);
    assert_eq!(near.flows(), flows);
    let second = "10.66.0.1";
    near.ip(&format!("address add {second}/24 dev nw0"));
    near.look();
    assert_eq!(near.flows(), flows + 1, "one socket takes all addresses");
}

#[test]
fn mtu_grown_beyond_the_buffers_long_datagrams_come_in_several() {
    let Some((mut near, socket, peer)) = running(Mode::Generic) else { return };
    for interface in [("near", "nw0"), ("far", "nw1")] {
        let end = if interface.0 == "near" { near.near() } else { near.far() };
        ip(&end.namespace, &format!("link set {} mtu 9000", interface.1));
    }
    near.look();
    let to = SocketAddr::new(near.near().ipv4.into(), 5000);
    let mut by = Vec::new();
    for len_bytes in [1000, 1700, 1900] {
        peer.send_to(&vec![7; len_bytes], to).unwrap();
        let (who, payload) = near.receive(&socket);
        assert_eq!(payload.len(), len_bytes);
        by.push(who);
        assert!(near.send(&socket, peer.local_addr().unwrap(), &vec![7; len_bytes]).is_ok());
        assert_eq!(peer.recv(&mut [0; 2048]).unwrap(), len_bytes);
    }
    assert_eq!(by, [By::Port; 3]);
    near.ip("link set nw0 mtu 1400");
    near.look();
    assert_eq!(near.send(&socket, peer.local_addr().unwrap(), &[7; 1390]).unwrap(), By::Kernel, "in fragments");
    assert_eq!(peer.recv(&mut [0; 2048]).unwrap(), 1390);
    near.is_past_the_kernel_soon(&peer, &socket);
}

#[test]
fn neighbour_gone_or_with_another_mac_datagrams_arrive() {
    let Some((mut near, socket, peer)) = running(Mode::Generic) else { return };
    let far = near.far().ipv4;
    near.ip(&format!("neighbour delete {far} dev nw0"));
    near.look();
    assert_eq!(near.sent(&socket, &peer), By::Kernel, "which asks for the neighbour");
    near.is_past_the_kernel_soon(&peer, &socket);
    ip(&near.far().namespace, "link set nw1 address 02:00:00:00:00:99");
    near.ip(&format!("neighbour replace {far} lladdr 02:00:00:00:00:99 dev nw0 nud permanent"));
    near.look();
    assert_eq!(near.sent(&socket, &peer), By::Port);
}

#[test]
fn gateway_changed_datagrams_go_by_the_new_one() {
    let Some((mut near, socket, _)) = running(Mode::Generic) else { return };
    let far = near.far().namespace.clone();
    let first = near.far().ipv4.octets();
    let second = format!("{}.{}.{}.77", first[0], first[1], first[2]);
    for address in [format!("{second}/24"), "10.88.0.1/24".to_owned()] {
        ip(&far, &format!("address add {address} dev nw1"));
    }
    let peer = far.enter(|| UdpSocket::bind("10.88.0.1:0")).unwrap().unwrap();
    peer.set_read_timeout(Some(crate::near::SOON)).unwrap();
    near.look();
    let refused = near.send(&socket, peer.local_addr().unwrap(), b"x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENETUNREACH));
    near.ip(&format!("route add 10.88.0.0/24 via {}", near.far().ipv4));
    near.look();
    assert_eq!(near.sent(&socket, &peer), By::Port);
    near.ip(&format!("route replace 10.88.0.0/24 via {second}"));
    near.look();
    assert_eq!(near.sent(&socket, &peer), By::Kernel, "the new gateway is no neighbour yet");
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(2));
        near.look();
        if near.sent(&socket, &peer) == By::Port {
            break;
        }
    }
    assert_eq!(near.sent(&socket, &peer), By::Port);
    near.ip("rule add from all to 10.88.0.0/24 blackhole");
    near.look();
    let refused = near.send(&socket, peer.local_addr().unwrap(), b"x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EINVAL), "as for any socket: {refused}");
    near.ip("rule delete from all to 10.88.0.0/24 blackhole");
    near.look();
    assert_eq!(near.sent(&socket, &peer), By::Port);
}

#[test]
fn program_detached_by_somebody_the_kernel_serves_until_the_interface_goes_down_and_up() {
    for mode in [Mode::Generic, Mode::Native] {
        let Some((mut near, socket, peer)) = running(mode) else { return };
        let program = near.program_id().unwrap();
        assert_eq!(nearwire_sys::bpf::detach_links_of(program).unwrap(), 1);
        assert_eq!(near.program_id(), None);
        assert_eq!(near.delivered(&peer, &socket), By::Kernel);
        std::thread::sleep(Duration::from_millis(120));
        assert_eq!(near.delivered(&peer, &socket), By::Kernel);
        near.has_reason_soon(&socket, Some(Reason::ProgramDetached));
        assert_eq!(near.sent(&socket, &peer), By::Kernel);
        let late = near.open("0.0.0.0:5001");
        assert_eq!(near.reason(&late), Some(Reason::ProgramDetached), "who detached it wants the interface");
        near.ip("link set nw0 down");
        near.up();
        near.is_past_the_kernel_soon(&peer, &socket);
        assert_eq!(near.reason(&socket), None);
    }
}

#[test]
fn interface_in_a_bridge_the_kernel_serves_until_it_is_out() {
    let Some((mut near, socket, peer)) = running(Mode::Generic) else { return };
    near.ip("link add br0 type bridge");
    near.ip("link set nw0 master br0");
    near.has_reason_soon(&socket, Some(Reason::NotEthernet));
    assert_eq!(near.program_id(), None);
    near.ip("link set nw0 nomaster");
    near.is_past_the_kernel_soon(&peer, &socket);
}

#[test]
fn ring_overrun_the_kernel_keeps_what_it_has_room_for_and_later_datagrams_come_by_the_port() {
    const SENT: u32 = 5000;
    for mode in [Mode::Generic, Mode::Native] {
        let Some((mut near, socket, peer)) = running(mode) else { return };
        let to = SocketAddr::new(near.near().ipv4.into(), 5000);
        for number in 0..SENT {
            peer.send_to(&number.to_ne_bytes(), to).unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
        let mut got = 0;
        while let Some((_, payload)) = near.try_receive(&socket) {
            assert_eq!(payload, u32::to_ne_bytes(got), "the first ones are kept");
            got += 1;
        }
        let ports = near.sockets().engine().unwrap().attached();
        let counted = ports.map(|attached| {
            (
                attached.port.statistics().receive_dropped_frames,
                attached.port.as_xdp().overflowed_frames(),
                attached.port.as_xdp().config(),
            )
        });
        let [(dropped, overflowed, config)] = counted.collect::<Vec<_>>()[..] else { panic!("one port") };
        assert_eq!(dropped, 0, "{mode:?}");
        let by_port = u64::from(SENT) - overflowed;
        assert!(by_port >= u64::from(config.rx_ring_slots) * 7 / 8, "{by_port} by the port");
        assert!(u64::from(got) > by_port + 20 && got < SENT, "{got} read, {by_port} by the port");
        near.is_past_the_kernel_soon(&peer, &socket);
    }
}

/// What came by the kernel before a socket is used is read first, then what the ring had room for, then what it had not.
#[test]
fn ring_overrun_before_what_came_by_the_kernel_is_read_all_is_in_order() {
    const BEFORE: u32 = 50;
    const SENT: u32 = 5000;
    for mode in [Mode::Generic, Mode::Native] {
        let Some((mut near, _, peer)) = running(mode) else { return };
        let socket = near.open_unused("0.0.0.0:6000");
        let to = SocketAddr::new(near.near().ipv4.into(), 6000);
        let send = |numbers: std::ops::Range<u32>| {
            numbers.for_each(|number| assert_eq!(peer.send_to(&number.to_ne_bytes(), to).unwrap(), 4));
            std::thread::sleep(Duration::from_millis(50));
        };
        send(0..BEFORE);
        near.sockets().used(&[socket.as_raw_fd()]);
        send(BEFORE..SENT);
        let overflowed: u64 = {
            let attached = near.sockets().engine().unwrap().attached();
            attached.map(|attached| attached.port.as_xdp().overflowed_frames()).sum()
        };
        assert_ne!(overflowed, 0, "{mode:?}");
        let mut got = 0;
        while let Some((_, payload)) = near.try_receive(&socket) {
            assert_eq!(payload, u32::to_ne_bytes(got), "{mode:?}");
            got += 1;
        }
        assert!(u64::from(got) > u64::from(SENT) - overflowed, "{got} read, {overflowed} overflowed");
    }
}

#[test]
fn news_lost_while_the_program_did_not_call_in_the_next_send_goes_the_new_way() {
    const ROUTES: u32 = 12_000;
    let Some((mut near, socket, peer)) = running(Mode::Generic) else { return };
    let route = |verb: &str, number: u32| {
        format!("route {verb} 172.{}.{}.{}/32 dev nw0\n", 16 + (number >> 16), number >> 8 & 255, number & 255)
    };
    let lines: String = (0..ROUTES).flat_map(|number| [route("add", number), route("delete", number)]).collect();
    near.ip_lines(&lines);
    let far = near.far().ipv4;
    near.ip(&format!("route add blackhole {far}"));
    near.ip("link set nw0 mtu 1400");
    let started = std::time::Instant::now();
    let refused = near.send(&socket, peer.local_addr().unwrap(), b"x").unwrap_err();
    println!("{} us until the tables were read anew", started.elapsed().as_micros());
    assert_eq!(refused.raw_os_error(), Some(libc::EINVAL), "{refused}");
    near.ip(&format!("route delete blackhole {far}"));
    near.is_past_the_kernel_soon(&peer, &socket);
}

#[test]
fn interface_busy_the_kernel_serves_and_a_later_socket_has_it_once_it_is_free() {
    let Some(mut near) = Near::or_skip(Mode::Generic) else { return };
    let namespace = near.near().namespace.clone();
    let others = namespace
        .enter(|| nearwire_frames::xdp::attach_pass("nw0", nearwire_frames::xdp::AttachMode::Generic).unwrap());
    let before = near.open("0.0.0.0:5000");
    assert_eq!(near.reason(&before), Some(Reason::InterfaceBusy));
    drop(others);
    std::thread::sleep(Duration::from_millis(1100));
    let after = near.open("0.0.0.0:5001");
    let peer = near.peer();
    near.is_past_the_kernel_soon(&peer, &after);
    assert_eq!(near.delivered(&peer, &before), By::Kernel);
}

#[test]
fn more_flows_than_the_filter_map_holds_the_rest_of_the_sockets_is_the_kernels() {
    const ADDRESSES: u32 = 1024;
    let Some(mut near) = Near::or_skip(Mode::Generic) else { return };
    let mut lines = String::new();
    for number in 0..ADDRESSES {
        lines +=
            &format!("address add 172.{}.{}.{}/12 dev nw0\n", 16 + (number >> 16), number >> 8 & 255, number & 255);
    }
    near.ip_lines(&lines);
    let sockets: Vec<UdpSocket> = (0..66).map(|number| near.open(&format!("0.0.0.0:{}", 5000 + number))).collect();
    let reasons: Vec<_> = sockets.iter().map(|socket| near.reason(socket)).collect();
    let accelerated = reasons.iter().filter(|reason| reason.is_none()).count();
    assert_eq!(accelerated, 63, "{reasons:?}");
    assert_eq!(reasons[63..], [Some(Reason::TooManySockets); 3]);
    let peer = near.peer();
    near.is_past_the_kernel_soon(&peer, &sockets[62]);
    assert_eq!(near.delivered(&peer, &sockets[65]), By::Kernel);
    for socket in sockets {
        near.close(socket);
    }
    assert_eq!(near.flows(), 0);
    let next = near.open("0.0.0.0:5000");
    assert_eq!(near.reason(&next), None);
}

#[test]
fn socket_given_back_with_a_full_ring_all_datagrams_are_read_in_order() {
    let Some((mut near, socket, peer)) = running(Mode::Generic) else { return };
    let to = SocketAddr::new(near.near().ipv4.into(), 5000);
    for number in 0..300_u32 {
        peer.send_to(&number.to_ne_bytes(), to).unwrap();
    }
    std::thread::sleep(Duration::from_millis(20));
    near.sockets().only_kernel(socket.as_raw_fd(), Reason::UnsupportedOption);
    peer.send_to(&300_u32.to_ne_bytes(), to).unwrap();
    for number in 0..=300_u32 {
        let by = if number < 300 { By::Port } else { By::Kernel };
        assert_eq!(near.receive(&socket), (by, number.to_ne_bytes().to_vec()));
    }
}

#[test]
fn socket_closed_with_a_full_ring_the_next_on_its_port_gets_nothing_of_it() {
    let Some((mut near, socket, peer)) = running(Mode::Generic) else { return };
    let to = SocketAddr::new(near.near().ipv4.into(), 5000);
    for _ in 0..300 {
        peer.send_to(b"for the one before", to).unwrap();
    }
    std::thread::sleep(Duration::from_millis(20));
    near.close(socket);
    let next = near.open("0.0.0.0:5000");
    assert_eq!(near.delivered(&peer, &next), By::Port);
}

#[test]
fn loopback_down_what_waits_at_a_fork_is_not_lost() {
    for lo in ["up", "down"] {
        let Some((mut near, socket, peer)) = running(Mode::Generic) else { return };
        near.ip(&format!("link set lo {lo}"));
        near.look();
        (0..3_u8).for_each(|number| assert_eq!(peer.send_to(&[number], (near.near().ipv4, 5000)).unwrap(), 1));
        std::thread::sleep(Duration::from_millis(20));
        near.sockets().take_in();
        let namespace = near.near().namespace.clone();
        namespace.enter(|| near.sockets().prepare_fork()).unwrap();
        let by = if lo == "up" { By::Kernel } else { By::Port };
        (0..3).for_each(|number| assert_eq!(near.receive(&socket), (by, vec![number]), "{lo}"));
    }
}

#[test]
fn news_that_another_thread_saw_while_the_shadow_was_asked_are_not_forgotten() {
    let Some((mut near, socket, _)) = running(Mode::Generic) else { return };
    let number = socket.as_raw_fd();
    while near.try_receive(&socket).is_some() {}
    let (namespace, to) = (near.near().namespace.clone(), SocketAddr::new(near.near().ipv4.into(), 5000));
    let by_kernel = |payload: &[u8]| {
        let send = || UdpSocket::bind("0.0.0.0:0").unwrap().send_to(payload, to).unwrap();
        assert_eq!(namespace.enter(send).unwrap(), payload.len());
    };
    by_kernel(b"first");
    near.sockets().look();
    let Receive::Shadow(news) = near.sockets().receive(number, false, |_| ()) else { panic!("the shadow has one") };
    // One thread reads it, and asks again; then comes another one, which a second thread sees the news of.
    assert_eq!(socket.recv(&mut [0; 16]).unwrap(), 5);
    assert!(socket.recv(&mut [0; 16]).is_err());
    by_kernel(b"second");
    near.sockets().look();
    near.sockets().shadow_answered(number, news, ShadowSaid::Nothing);
    assert_eq!(near.receive(&socket), (By::Kernel, b"second".to_vec()));
}
