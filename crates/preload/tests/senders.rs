//! Threads that send at the same time: every datagram arrives once, those of a thread in order, on one queue and on
//! several. Needs namespaces and a C compiler (or says SKIP).
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod common;

use std::net::UdpSocket;
use std::time::Duration;

use common::{compiled, library, missing};
use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions, program_under_test};

const COUNT: u32 = 2_000;
/// For every datagram of a run.
const BUFFER_BYTES: usize = 64 << 20;

fn threads_send(mode: &str, threads: u32, queues: u32, coalescing: &str) {
    if missing() {
        return;
    }
    let program = compiled("senders");
    let cable = VirtualCable::lay(VirtualCableOptions { queues, ..VirtualCableOptions::default() }).unwrap();
    let far = cable.far().namespace.enter(|| UdpSocket::bind((cable.far().ipv4, 0))).unwrap().unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&far, BUFFER_BYTES).unwrap();
    far.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let to = far.local_addr().unwrap();
    let mut command = program_under_test(program);
    command.args([mode, &to.ip().to_string(), &to.port().to_string(), &threads.to_string(), &COUNT.to_string()]);
    command.env("LD_PRELOAD", library()).env("NEARWIRE_STRICT", "1").env("NEARWIRE_SEND_COALESCING", coalescing);
    let mut next = vec![0; threads as usize];
    let status = std::thread::scope(|scope| {
        let near = cable.near();
        let ran = scope.spawn(move || near.namespace.enter(|| command.status()).unwrap().unwrap());
        let mut datagram = [0; 64];
        for _ in 0..threads * COUNT {
            let Ok(8) = far.recv(&mut datagram) else { break };
            let word = |at: usize| u32::from_ne_bytes(datagram[at..at + 4].try_into().unwrap());
            let (thread, number) = (word(0), word(4));
            assert_eq!(number, next[thread as usize], "thread {thread}");
            next[thread as usize] += 1;
        }
        ran.join().unwrap()
    });
    assert!(status.success(), "{status}");
    assert_eq!(next, vec![COUNT; threads as usize]);
}

#[test]
fn two_threads_send_each_on_a_queue() {
    threads_send("own", 2, 2, "0");
}

#[test]
fn more_threads_than_queues_send() {
    threads_send("own", 5, 2, "0");
}

#[test]
fn threads_send_on_one_queue() {
    threads_send("own", 4, 1, "0");
}

#[test]
fn threads_send_by_one_socket() {
    threads_send("shared", 4, 2, "0");
}

#[test]
fn threads_send_coalesced() {
    threads_send("own", 4, 2, "100us");
}
