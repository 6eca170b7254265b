//! What the tests of cables share.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nearwire_lab::{CableEnd, Namespace, made_or_skip};

/// A fresh namespace if this user may make one. Otherwise the test is skipped, or fails where
/// `NEARWIRE_REQUIRE` says that nothing may be skipped.
pub fn namespace_or_skip() -> Option<Namespace> {
    let usable = Namespace::new().and_then(|namespace| {
        namespace.enter(|| ())?;
        Ok(namespace)
    });
    made_or_skip(usable)
}

/// Sends one datagram from `from` to `to` and waits for it.
pub fn send_datagram(from: &CableEnd, from_ip: IpAddr, to: &CableEnd, to_ip: IpAddr) {
    let receiver = bound(to, to_ip);
    let sender = bound(from, from_ip);
    let target: SocketAddr = receiver.local_addr().unwrap();
    sender.send_to(b"near", target).unwrap();
    let mut buffer = [0; 16];
    let (length, source) =
        receiver.recv_from(&mut buffer).unwrap_or_else(|error| panic!("{from_ip} -> {to_ip}: {error}"));
    assert_eq!((&buffer[..length], source.ip()), (&b"near"[..], from_ip));
}

/// Sends one datagram each way over IPv4 and IPv6.
pub fn exchange_datagrams(near: &CableEnd, far: &CableEnd) {
    for (from, to) in [(near, far), (far, near)] {
        send_datagram(from, from.ipv4.into(), to, to.ipv4.into());
        send_datagram(from, from.ipv6.into(), to, to.ipv6.into());
    }
}

fn bound(end: &CableEnd, ip: IpAddr) -> UdpSocket {
    let socket = end.namespace.enter(|| UdpSocket::bind((ip, 0))).unwrap();
    let socket = socket.unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket
}

/// Inodes of all network namespaces that a process is in or holds a descriptor of.
pub fn held_namespaces() -> BTreeSet<u64> {
    let mut inodes = BTreeSet::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let path = process.path();
        let links = fs::read_dir(path.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
        let links = links.chain([path.join("ns/net")]);
        for link in links {
            let target = fs::read_link(link).unwrap_or_default();
            let target = target.to_string_lossy().into_owned();
            let inode = target.strip_prefix("net:[").and_then(|rest| rest.strip_suffix(']'));
            inodes.extend(inode.and_then(|inode| inode.parse::<u64>().ok()));
        }
    }
    inodes
}

/// Waits until `condition` holds; panics with `what` after five seconds.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 5 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
