//! socat: a process for each peer, addresses of every kind, contents byte by byte.

use std::fs;

use rustix::process::Signal;

use crate::bed::{Accelerated, Bed, Side, found_or_skip};

const PORT: u16 = 7000;
const GROUP: &str = "239.9.0.2";

/// Bytes that differ from place to place.
fn content(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| b'a' + ((at * 7 + at / 13 + seed) % 26) as u8).collect()
}

#[test]
fn socat_that_forks_for_each_peer_echoes_to_each() {
    let Some([socat]) = found_or_skip(["socat"]) else { return };
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated);
        let _server = bed.start(Side::Far, &socat, &format!("-T 3 UDP4-LISTEN:{PORT},fork,reuseaddr PIPE"));
        bed.wait_for_port(Side::Far, PORT);
        // One after the other: what comes before socat has connected its socket to a peer is read there, whosever it is.
        for number in 0..4 {
            let sent = content(900 + number, number);
            let to = format!("-t 0.3 STDIO UDP4:{}:{PORT}", bed.address(Side::Far));
            let answer = bed.start_with_input(Side::Near, &socat, &to, &sent).succeed();
            assert!(answer.as_bytes() == sent, "client {number} of {accelerated:?}: {} bytes", answer.len());
        }
    }
}

#[test]
fn file_sent_by_socat_arrives_whole() {
    let Some([socat]) = found_or_skip(["socat"]) else { return };
    for accelerated in Accelerated::EACH_AND_BY_SPIN {
        let bed = Bed::lay(accelerated);
        // Fewer blocks than a socket's buffer holds: socat does not wait for the reader.
        let sent = content(40 * 1400 + 17, 1);
        let server = bed.start(Side::Far, &socat, &format!("-u -b 1400 UDP4-RECV:{PORT} OPEN:arrived,creat"));
        bed.wait_for_port(Side::Far, PORT);
        let to = format!("-u -b 1400 STDIN UDP4-SENDTO:{}:{PORT}", bed.address(Side::Far));
        bed.start_with_input(Side::Near, &socat, &to, &sent).succeed();
        let arrived = || fs::read(bed.path("arrived")).unwrap_or_default();
        wait_until(|| arrived().len() >= sent.len());
        server.stop(Signal::TERM);
        assert!(arrived() == sent, "the bytes are those that were sent");
        bed.assert_paths_each_way(41, 0);
    }
}

#[test]
fn socat_that_answers_each_datagram_by_a_process_answers_all() {
    let Some([socat]) = found_or_skip(["socat"]) else { return };
    for accelerated in Accelerated::EACH {
        let bed = Bed::lay(accelerated);
        let _server =
            bed.start(Side::Far, &socat, &format!("UDP6-RECVFROM:{PORT},fork SYSTEM:tr${{IFS}}a-z${{IFS}}A-Z"));
        bed.wait_for_port(Side::Far, PORT);
        for number in 0..3 {
            let sent = content(300, number);
            let to = format!("-t 0.7 STDIO UDP6-SENDTO:[{}]:{PORT}", bed.address_v6(Side::Far));
            let answer = bed.start_with_input(Side::Near, &socat, &to, &sent).succeed();
            assert_eq!(answer.as_bytes(), sent.to_ascii_uppercase());
        }
    }
}

#[test]
fn socat_multicast_reaches_its_member() {
    let Some([socat]) = found_or_skip(["socat"]) else { return };
    for accelerated in Accelerated::EACH_AND_BY_SPIN {
        let bed = Bed::lay(accelerated);
        // A group has one accelerated member on a host.
        let from = format!("UDP4-RECV:{PORT},reuseaddr,ip-add-membership={GROUP}:{}", bed.interface(Side::Far));
        let member = bed.start(Side::Far, &socat, &format!("-u {from} OPEN:arrived,creat"));
        let is_group = |line: &str| line.trim_start().starts_with("020009EF ");
        bed.wait_for_lines(Side::Far, &["igmp"], is_group, 1);
        // socat joins before it binds, and the library decides when it is bound.
        bed.wait_for_library(Side::Far, PORT);
        let sent = content(1000, 3);
        let to = format!("-u STDIN UDP4-DATAGRAM:{GROUP}:{PORT},ip-multicast-if={}", bed.address(Side::Near));
        for _ in 0..20 {
            bed.start_with_input(Side::Near, &socat, &to, &sent).succeed();
        }
        wait_until(|| fs::read(bed.path("arrived")).is_ok_and(|arrived| arrived == sent.repeat(20)));
        member.stop(Signal::TERM);
        bed.assert_received(Side::Far, 20);
    }
}

#[track_caller]
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while !is_so() {
        assert!(std::time::Instant::now() < give_up, "it did not come to this");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
