//! What generated sequences are made of. A sequence is a text, a call a line: a word and its numbers, which `interpret*.c` run.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const CALLS_MAX: usize = 60;
/// Each call on a connection waits for what it causes.
const CALLS_ON_CONNECTIONS_MAX: usize = 40;
/// The size that `far` sends in fragments: the last number's value.
const FRAGMENTED: u32 = 3;
/// What sequences are about: without open, bound sockets and a set little happens.
const PREFACE: &str = "open 0 0\nbind 0 0 0\nopen 1 0\nbind 1 1 0\nset 0\n";

/// A word, how often it is chosen, and how many values each of its numbers has (`interpret*.c` say what they mean).
const WORDS: &[(u32, &str, &[u32])] = &[
    (4, "open", &[3, 3]),
    (4, "bind", &[3, 4, 2]),
    (3, "connect", &[3, 6]),
    (2, "send_far", &[3, 3]),
    (4, "send", &[3]),
    (2, "send_local", &[3, 4]),
    (3, "echo", &[3]),
    (16, "far", &[3, 2, 6, 4]),
    (10, "recv", &[3, 8, 4]),
    (3, "recv_all", &[]),
    (2, "recvmsg", &[3, 2]),
    (4, "poll", &[]),
    (2, "select", &[3]),
    (3, "set", &[2]),
    (10, "ctl", &[2, 4, 3, 7]),
    (1, "nest", &[2]),
    (12, "wait", &[2, 2]),
    (2, "dup", &[3, 4]),
    (1, "close", &[3]),
    (1, "close_set", &[2]),
    (1, "shutdown", &[3, 3]),
    (2, "option", &[3, 6, 3]),
    (2, "state", &[3]),
    (3, "signal", &[3, 14, 12, 3, 2, 2, 12, 3, 4, 3]),
    (2, "cancel", &[3, 14, 12, 3, 2]),
    (1, "reopen", &[3]),
    (1, "place", &[2]),
    (1, "beyond", &[3, 3, 6, 3]),
    (1, "send_long", &[3, 3]),
    (1, "flap", &[2, 3]),
    (3, "recv_many", &[3, 5, 5, 2]),
    (2, "send_many", &[3, 5, 2, 2]),
    (2, "recv_pieces", &[3, 4]),
    (2, "send_pieces", &[3, 6]),
    (1, "segments", &[3, 2]),
    (4, "ask", &[3, 12, 3]),
    (3, "far_marked", &[3, 3, 3, 2]),
    (2, "mapped", &[3, 3, 4]),
    (3, "join", &[3, 2]),
    (1, "leave", &[3, 2]),
    (3, "far_group", &[3, 4, 2]),
    (1, "send_group", &[3, 2, 3]),
    (2, "event", &[2]),
    (2, "ctl_event", &[2, 3, 3]),
    (2, "wake", &[3, 7]),
    (1, "two_take", &[3, 12, 14, 12]),
    (1, "dup_meanwhile", &[3, 12, 12]),
    (1, "share_port", &[3, 4, 2]),
    (1, "fork", &[4, 3]),
    (1, "fork_takes", &[3, 12]),
];
/// Words all of whose numbers are equally likely.
const EVEN: [&str; 12] = [
    "signal",
    "cancel",
    "ask",
    "recv_many",
    "recv_pieces",
    "send_pieces",
    "wake",
    "two_take",
    "dup_meanwhile",
    "share_port",
    "fork",
    "fork_takes",
];
/// What sequences of connections are about: one that this end made, and one that the far end made.
/// By the first exchange the port is opened, which takes longer than calls are interrupted after.
const PREFACE_OF_CONNECTIONS: &str = "open 0 0\nexchange 0\nopen 1 2\nset 0\n";
/// Their words (`interpret_streams.c`), all of whose numbers are equally likely.
const WORDS_OF_CONNECTIONS: &[(u32, &str, &[u32])] = &[
    (3, "open", &[3, 4]),
    (10, "send", &[3, 7, 7]),
    (1, "more", &[3]),
    (1, "cork", &[3]),
    (1, "file", &[3]),
    (14, "recv", &[3, 6, 8, 6]),
    (6, "exchange", &[3]),
    (9, "far", &[3, 11]),
    (2, "waits", &[3, 5]),
    (4, "poll", &[]),
    (2, "select", &[3]),
    (1, "set", &[2]),
    (7, "ctl", &[2, 4, 3, 8]),
    (1, "nest", &[2]),
    (8, "wait", &[2]),
    (1, "close_set", &[2]),
    (3, "option", &[3, 9, 2]),
    (3, "state", &[3, 9]),
    (2, "shutdown", &[3, 3]),
    (2, "close", &[3]),
    (2, "fork", &[3, 5]),
    (2, "thread", &[3, 2]),
    (1, "dup", &[3, 4]),
    (2, "interrupt", &[3, 2, 3, 2]),
    (3, "meanwhile", &[3, 4, 7]),
    (1, "send_many", &[3]),
    (1, "recv_many", &[3]),
    (1, "splice", &[3, 2]),
    (1, "pass", &[3]),
];
/// Words for a cable with VLAN interfaces, one call in five there.
const VLAN_WORDS: &[(u32, &str, &[u32])] =
    &[(9, "vlan_bind", &[3, 4]), (18, "vlan_far", &[4, 2, 3]), (9, "vlan_send", &[3, 2])];

type Words = [(u32, &'static str, &'static [u32])];

fn call(words: &Words, are_even: bool) -> impl Strategy<Value = String> + use<> {
    let words = words.iter().map(|&(weight, word, values)| {
        // Low numbers are likelier: calls that meet at one socket say more than calls that are spread. But each moment, call
        // and action is as likely as another.
        let is_even = are_even || EVEN.contains(&word);
        let number = |&count: &u32| {
            (0..count, 0..count).prop_map(move |(one, other)| if is_even { other } else { one.min(other) })
        };
        let line = values.iter().map(number).collect::<Vec<_>>().prop_map(move |numbers| {
            let line = numbers.iter().fold(word.to_owned(), |line, number| format!("{line} {number}"));
            // Between datagrams that the kernel delivers, from this host or in fragments, and others there is no order.
            let is_of_kernel = word == "send_local" || (word == "far" && numbers.get(3) == Some(&FRAGMENTED));
            if is_of_kernel { format!("drain\n{line}\ndrain") } else { line }
        });
        (weight, line.boxed())
    });
    proptest::strategy::Union::new_weighted(words.collect())
}

/// The sequence of a seed, of datagrams.
pub fn sequence(seed: u32, has_vlan: bool) -> String {
    let words = [WORDS, if has_vlan { VLAN_WORDS } else { &[] }].concat();
    sequence_of(seed, call(&words, false), CALLS_MAX, PREFACE)
}

/// The same of connections.
pub fn sequence_of_connections(seed: u32) -> String {
    sequence_of(seed, call(WORDS_OF_CONNECTIONS, true), CALLS_ON_CONNECTIONS_MAX, PREFACE_OF_CONNECTIONS)
}

fn sequence_of(seed: u32, call: impl Strategy<Value = String>, calls_max: usize, preface: &str) -> String {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let calls = proptest::collection::vec(call, 4..calls_max).new_tree(&mut runner).unwrap().current();
    format!("{preface}{}\n", calls.join("\n"))
}
