//! C programs against the shared and the static library, over veth. Needs a C compiler and root (or says SKIP).

#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod common;

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Built, Linking, namespace_or_skip, said, succeeds};
use nearwire_frames::interface::InterfaceFacts;
use nearwire_lab::{Cable as _, Namespace, VirtualCable, VirtualCableOptions, made_or_skip};

/// AUTO, PACKET, XDP_NATIVE, XDP_GENERIC.
const MODES: [&str; 4] = ["0", "2", "4", "5"];

#[test]
fn structures_have_the_layout_that_a_c_compiler_gives_the_header() {
    let Some(built) = Built::or_skip() else { return };
    let printed = succeeds(&mut Command::new(built.program("tests/c/layout.c", Linking::Shared)));
    let ours = nearwire::abi::layout().join("\n").replace("r#", "");
    assert_eq!(printed.trim_end(), ours);
}

#[test]
fn ports_exchange_frames_in_every_mode_shared_and_static() {
    let Some(built) = Built::or_skip() else { return };
    let Some(namespace) = namespace_or_skip(1) else { return };
    for linking in [Linking::Shared, Linking::Static] {
        let program = built.program("tests/c/exchange.c", linking);
        for mode in MODES {
            for times in [None, Some("times")] {
                let arguments = ["nw0", "nw1", mode].into_iter().chain(times);
                let ran = namespace.enter(|| Command::new(&program).args(arguments).output().unwrap()).unwrap();
                let text = said(&ran);
                assert!(text.ends_with("OK\n"), "mode {mode}, {times:?}, {linking:?}: {text}");
                let kind = if mode == "2" { "AF_PACKET on nw1" } else { "AF_XDP " };
                assert!(text.starts_with(kind), "{text}");
                assert_eq!(text.contains(", times by the "), times.is_some() && mode != "2", "{text}");
            }
        }
    }
}

#[test]
fn wrong_use_is_refused_with_the_documented_values() {
    let Some(built) = Built::or_skip() else { return };
    let Some(namespace) = namespace_or_skip(1) else { return };
    let program = built.program("tests/c/misuse.c", Linking::Shared);
    let ran = namespace.enter(|| Command::new(&program).arg("nw0").output().unwrap()).unwrap();
    assert_eq!(said(&ran), "OK\n");
}

/// Echoes what comes on a connection. "quit" is its last; a datagram goes to port 7000 before "udp!".
fn echo(mut stream: TcpStream) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        if bytes.starts_with(b"udp!") {
            let (own, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
            let socket = UdpSocket::bind((own.ip(), 0)).unwrap();
            socket.send_to(b"datagram", (peer.ip(), 7000)).unwrap();
        }
        if stream.write_all(&bytes[..count]).is_err() || bytes.starts_with(b"quit") {
            return;
        }
        bytes[..4].fill(0);
    }
}

#[test]
fn connection_adopted_carries_prepared_messages_and_is_the_kernels_again() {
    let Some(built) = Built::or_skip() else { return };
    let Some(cable) = made_or_skip(VirtualCable::lay(VirtualCableOptions::default())) else { return };
    let program = built.program("tests/c/tcp.c", Linking::Shared);
    let (near, far) = (cable.near(), cable.far());
    // The program sets the link down over IPv4, and then the addresses of IPv6 are gone.
    for address in [IpAddr::from(far.ipv6), IpAddr::from(far.ipv4)] {
        let listener = far.namespace.enter(|| TcpListener::bind((address, 0)).unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let namespace = far.namespace.clone();
        let serve = move || listener.incoming().flatten().for_each(|stream| drop(thread::spawn(|| echo(stream))));
        thread::spawn(move || namespace.enter(serve));
        // XDP_NATIVE and XDP_GENERIC; spinning and sleeping.
        let ways = [("5", "0"), ("4", "1"), ("5", "1")];
        for (mode, waiting) in &ways[..if address.is_ipv4() { 3 } else { 1 }] {
            let mut command = Command::new(&program);
            command.args([near.interface.as_str(), &address.to_string(), &port.to_string(), mode, waiting]);
            let ran = near.namespace.enter(|| command.output().unwrap()).unwrap();
            assert_eq!(said(&ran), "OK\n", "{address}, mode {mode}, waiting {waiting}");
        }
    }
}

#[test]
fn example_of_orders_measures_the_three_ways_on_one_connection() {
    let Some(built) = Built::or_skip() else { return };
    let Some(cable) = made_or_skip(VirtualCable::lay(VirtualCableOptions::default())) else { return };
    let program = built.program("examples/order.c", Linking::Shared);
    let (near, far) = (cable.near(), cable.far());
    let address = far.ipv4.to_string();
    let (mut server, _) = start(&far.namespace, &program, &["serve", &address, "9000"]);
    let orders = || Command::new(&program).args([&near.interface, &address, "9000", "1"]).output().unwrap();
    let told = said(&near.namespace.enter(orders).unwrap());
    let ways: Vec<_> = told.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(ways, ["kernel", "nearwire_tcp_send", "nearwire_tcp_trigger_patched"], "{told}");
    assert!(server.wait().unwrap().success());
}

/// Starts a program in the namespace and gives its first line.
fn start(namespace: &Namespace, program: &Path, arguments: &[&str]) -> (Child, impl Iterator<Item = String> + use<>) {
    let spawn = || Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut child = namespace.enter(spawn).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().is_some(), "{program:?} says that it is ready");
    (child, lines)
}

#[test]
fn examples_built_ping_forward_and_sniff() {
    let Some(built) = Built::or_skip() else { return };
    let Some(namespace) = namespace_or_skip(2) else { return };
    let [pingpong, forward, sniff] =
        ["pingpong", "forward", "sniff"].map(|name| built.program(&format!("examples/{name}.c"), Linking::Shared));
    // ping on nw0 -> nw1 forward nw2 -> nw3 pong; the way back needs a forwarder of its own, so here it ends.
    let (mut pong, _) = start(&namespace, &pingpong, &["pong", "nw1"]);
    let ping = namespace.enter(|| Command::new(&pingpong).args(["ping", "nw0", "500"]).output().unwrap()).unwrap();
    assert!(said(&ping).contains("500 of 500 answered\nhalf round trip "), "{ping:?}");
    pong.wait().unwrap();

    let (mut forwarder, _) = start(&namespace, &forward, &["nw1", "nw2", "1"]);
    let (mut listener, mut lines) = start(&namespace, &sniff, &["nw3", "0", "1"]);
    let address = || succeeds(Command::new("ip").args(["addr", "add", "10.1.0.1/24", "dev", "nw0"]));
    namespace.enter(address).unwrap();
    let neighbour = "neigh add 10.1.0.2 lladdr 02:00:00:00:00:99 dev nw0".split(' ');
    namespace.enter(|| succeeds(Command::new("ip").args(neighbour))).unwrap();
    let socket = namespace.enter(|| UdpSocket::bind("10.1.0.1:0").unwrap()).unwrap();
    socket.send_to(b"through", "10.1.0.2:7000").unwrap();
    let line = lines.next().unwrap();
    assert!(line.contains("ns (kernel), queue 0, 49 bytes: 0200 0000 0099"), "{line}");
    assert!(listener.wait().unwrap().success() && forwarder.wait().unwrap().success());
}

#[test]
fn program_killed_leaves_no_xdp_program_and_the_interface_works() {
    let Some(built) = Built::or_skip() else { return };
    let Some(namespace) = namespace_or_skip(1) else { return };
    let sniff = built.program("examples/sniff.c", Linking::Static);
    let attached = || namespace.enter(|| InterfaceFacts::read("nw1").unwrap().program).unwrap();
    let (mut child, _) = start(&namespace, &sniff, &["nw1", "7000"]);
    assert!(attached().is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    let give_up = Instant::now() + Duration::from_secs(5);
    while let Some(left) = attached() {
        assert!(Instant::now() < give_up, "{left:?} is still there");
    }
    let exchange = built.program("tests/c/exchange.c", Linking::Static);
    let ran = namespace.enter(|| Command::new(&exchange).args(["nw0", "nw1", "0"]).output().unwrap()).unwrap();
    assert!(said(&ran).ends_with("OK\n"));
}
