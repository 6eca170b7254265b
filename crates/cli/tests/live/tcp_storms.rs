//! Connections that are given back to the kernel and adopted again while both ends send and receive much: what the kernel's buffers have no room for then, and
//! what was sent and not acknowledged, is there too.

use nearwire_lab::Cable;

use crate::common::accelerated::Bed;
use crate::tcp_programs::{Policy, await_listener, end, start, text};

const PROGRAM: &str = include_str!("tcp_storm.py");
const WAYS: [(Policy, Policy); 4] =
    [(Some("eager"), Some("eager")), (Some("eager"), None), (None, Some("eager")), (Some("auto"), Some("auto"))];

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Of each connection and direction.
fn bytes() -> &'static str {
    if processors() > 1 { "6000000" } else { "600000" }
}

/// Of what the library says of its counters.
fn count(said: &str, words: &str) -> u64 {
    let found = said.lines().find_map(|line| line.trim().strip_suffix(words)?.split_whitespace().last());
    found.map_or(0, |number| number.parse().unwrap())
}

/// `NEARWIRE_STORMS=N`: so many more in each way.
#[test]
fn connections_given_back_again_and_again_while_they_move_much_lose_nothing() {
    let Some(bed) = Bed::lay() else { return };
    let storms = std::env::var("NEARWIRE_STORMS").map_or(1, |count| count.parse().unwrap());
    let (near, far) = (bed.cable.near(), bed.cable.far());
    let address = near.ipv4.to_string();
    for (at, (server, client)) in (0..storms).flat_map(|_| WAYS).enumerate() {
        let (port, seed) = ((7600 + at).to_string(), (100 * at).to_string());
        let words = |role: &str| ["python3", "-c", PROGRAM, role, &address, &port, bytes(), &seed].map(str::to_owned);
        let mut server_child = start(&bed, near, &words("server"), server);
        await_listener(near, &port, &mut server_child);
        let both = [end(start(&bed, far, &words("client"), client)), end(server_child)];
        for (done, policy) in both.into_iter().zip([client, server]) {
            let said = text(&done);
            let what = format!("seed {seed}, server {server:?}, client {client:?}\n{said}");
            assert!(done.status.success() && said.contains("all is the same"), "{what}");
            // On one emulated processor threads are in the kernel most of the time, where a connection is not adopted.
            if policy == Some("eager") && processors() > 1 {
                assert!(count(&said, "connections released") > 6, "{what}");
            }
            assert_eq!(count(&said, "connections the kernel did not take back"), 0, "{what}");
        }
    }
}
