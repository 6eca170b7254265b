//! TCP connections under `nearwire run` whose way through the host is not the plain one, or changes: routing rules, several interfaces, neighbours that
//! the kernel forgets.

use std::net::{SocketAddrV6, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

use nearwire_lab::{Cable, Namespace};

use crate::by_agent::{status_of, wait_until};
use crate::common::accelerated::Bed;
use crate::connections::{EAGER, ECHO, Echo, at_near_end, by_agent, echo, echo_over, exchange_much};

/// The far end's second address, which is on no cable.
const BEYOND: &str = "10.79.0.2";

fn run(namespace: &Namespace, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let output = namespace.enter(|| Command::new(words[0]).args(&words[1..]).output()).unwrap().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
}

fn ip(bed: &Bed, line: &str) {
    at_near_end(bed, "ip", &line.split(' ').collect::<Vec<_>>());
}

/// A second cable between both ends, `nws0` with 10.78.0.1 and `nws1` with 10.78.0.2. No end minds by which one a packet comes.
fn lay_second_cable(bed: &Bed) {
    let (near, far) = (&bed.cable.near().namespace, &bed.cable.far().namespace);
    let inside = format!("/proc/{}/fd/{}", std::process::id(), far.fd().as_raw_fd());
    run(near, &format!("ip link add nws0 type veth peer name nws1 netns {inside}"));
    for (end, interface, address) in [(near, "nws0", "10.78.0.1/24"), (far, "nws1", "10.78.0.2/24")] {
        run(end, &format!("ip addr add {address} dev {interface}"));
        run(end, &format!("ip link set {interface} up"));
        let write = || std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "0");
        end.enter(write).unwrap().unwrap();
    }
}

/// Has the routing rules send what comes from the near end's address by another table, with the same route.
fn add_rule(bed: &Bed) {
    let near = bed.cable.near();
    ip(bed, &format!("route add {}/32 dev {} table 100", bed.cable.far().ipv4, near.interface));
    ip(bed, &format!("rule add from {} table 100", near.ipv4));
}

fn exchange_some(echo: &mut Echo) {
    (0..200).for_each(|number| echo.exchanges(number as u8));
}

#[test]
fn neighbour_forgotten_while_a_connection_is_adopted_is_asked_for() {
    let Some(bed) = Bed::lay() else { return };
    let mut echo = echo(&bed, by_agent(&bed));
    assert_eq!(echo.connections(), [1, 0]);
    for _ in 0..5 {
        let (near, far) = (bed.cable.near(), bed.cable.far());
        ip(&bed, &format!("neigh del {} dev {}", far.ipv4, near.interface));
        exchange_some(&mut echo);
    }
    let [adopted, released] = echo.connections();
    assert!(released >= 1 && adopted == released + 1, "it was adopted again: {adopted}, {released}");
}

#[test]
fn connection_under_routing_rules_is_the_kernels() {
    let Some(bed) = Bed::lay() else { return };
    add_rule(&bed);
    let mut echo = echo(&bed, by_agent(&bed));
    exchange_much(&mut echo);
    assert_eq!(echo.connections(), [0, 0]);
}

#[test]
fn routing_rule_added_while_a_connection_is_adopted_gives_it_to_the_kernel() {
    let Some(bed) = Bed::lay() else { return };
    let mut echo = echo(&bed, by_agent(&bed));
    assert_eq!(echo.connections(), [1, 0]);
    add_rule(&bed);
    exchange_some(&mut echo);
    assert_eq!(echo.connections(), [1, 1]);
}

#[test]
fn address_that_is_away_for_a_moment_leaves_a_connection_as_it_was() {
    let Some(bed) = Bed::lay() else { return };
    lay_second_cable(&bed);
    let mut echo = echo(&bed, by_agent(&bed));
    assert_eq!(echo.connections(), [1, 0]);
    let near = bed.cable.near();
    let of_interface = format!("{}/24 dev {}", near.ipv4, near.interface);
    // The kernel could send, by another address.
    ip(&bed, "route add default via 10.78.0.2");
    ip(&bed, &format!("addr del {of_interface}"));
    std::thread::sleep(Duration::from_millis(300));
    ip(&bed, &format!("addr add {of_interface}"));
    exchange_some(&mut echo);
}

#[test]
fn connection_with_a_link_local_far_end_is_adopted() {
    let Some(bed) = Bed::lay() else { return };
    let (near, far) = (bed.cable.near(), bed.cable.far());
    if !near.ipv6_usable {
        return println!("SKIP: there is no IPv6 here");
    }
    ip(&bed, &format!("-6 addr add fe80::71/64 dev {} nodad", near.interface));
    run(&far.namespace, &format!("ip -6 addr add fe80::72/64 dev {} nodad", far.interface));
    let address = SocketAddrV6::new("fe80::71".parse().unwrap(), 7000, 0, far.ifindex);
    let server = ECHO.replace("socket.socket()", "socket.socket(socket.AF_INET6)").replace("near, 7000", "'::', 7000");
    let mut program = bed.run_as_with(near, 0, &server, &[EAGER]);
    program.step();
    let far = far.namespace.enter(|| TcpStream::connect(address)).unwrap().unwrap();
    let mut echo = echo_over(program, far);
    exchange_some(&mut echo);
    assert_eq!(echo.connections(), [1, 0]);
}

#[test]
fn route_that_moves_to_another_interface_takes_an_adopted_connection_along() {
    let Some(bed) = Bed::lay() else { return };
    lay_second_cable(&bed);
    let mut echo = echo(&bed, by_agent(&bed));
    assert_eq!(echo.connections(), [1, 0]);
    ip(&bed, &format!("route add {}/32 via 10.78.0.2 dev nws0", bed.cable.far().ipv4));
    exchange_some(&mut echo);
    // What comes and what leaves pass by different interfaces from now on.
    exchange_much(&mut echo);
}

#[test]
fn connection_with_several_next_hops_is_the_kernels() {
    let Some(bed) = Bed::lay() else { return };
    lay_second_cable(&bed);
    let (near, far) = (bed.cable.near(), bed.cable.far());
    run(&far.namespace, &format!("ip addr add {BEYOND}/32 dev {}", far.interface));
    let first = format!("nexthop via {} dev {}", far.ipv4, near.interface);
    ip(&bed, &format!("route add {BEYOND}/32 {first} nexthop via 10.78.0.2 dev nws0"));
    run(&far.namespace, &format!("ip route replace {}/32 dev {} src {BEYOND}", near.ipv4, far.interface));
    let mut echo = echo(&bed, by_agent(&bed));
    exchange_much(&mut echo);
    assert_eq!(echo.connections(), [0, 0]);
}

/// What the far end sends comes by the second cable.
fn send_by_second_cable(bed: &Bed) {
    lay_second_cable(bed);
    let (near, far) = (bed.cable.near(), bed.cable.far());
    run(&far.namespace, &format!("ip route replace {}/32 via 10.78.0.1 dev nws1 src {}", near.ipv4, far.ipv4));
}

fn echo_by_auto(bed: &Bed) -> Echo {
    echo(bed, bed.run_as_with(bed.cable.near(), 0, ECHO, &[("NEARWIRE_ADOPT", "auto")]))
}

#[test]
fn connection_whose_far_end_answers_by_another_interface_is_not_adopted_by_auto() {
    let Some(bed) = Bed::lay() else { return };
    send_by_second_cable(&bed);
    let mut echo = echo_by_auto(&bed);
    wait_until("its port is open, and it was not heard", || {
        exchange_some(&mut echo);
        status_of(&echo.program.pid())["sockets"].to_string().contains("but by another interface")
    });
    exchange_much(&mut echo);
    assert_eq!(echo.connections(), [0, 0]);
}

#[test]
fn connection_that_is_heard_is_adopted_by_auto() {
    let Some(bed) = Bed::lay() else { return };
    let mut echo = echo_by_auto(&bed);
    wait_until("its port is open, and it was heard", || {
        echo.exchanges(7);
        echo.connections() == [1, 0]
    });
    exchange_some(&mut echo);
    assert_eq!(echo.connections(), [1, 0]);
}
