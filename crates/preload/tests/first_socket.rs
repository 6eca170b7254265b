//! What the first UDP socket of a program takes does not depend on the program's size, nor on its threads. Needs namespaces and
//! a C compiler (or says SKIP).
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod common;

use std::path::Path;

use common::{compiled, library, missing};
use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions, program_under_test};

/// Of the tries of a situation the least counts: what disturbs a try makes it longer.
const TRIES: u32 = 3;
/// What many mappings may add, of CPU time. To look at each of them takes 100 ms and more.
const MORE_US_MOST: i64 = 30_000;
/// The library's descriptors have higher numbers.
const TABLE_END: i64 = 4096;

/// What the program says of its first socket.
struct First {
    table_end: i64,
    registered: bool,
    cpu_us: i64,
    changed_behind_set: i64,
}

/// On a cable of its own: what a program before it had is given back by the kernel some time later. It has to be accelerated.
fn first(program: &Path, situation: &str) -> First {
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let near = cable.near();
    let mut command = program_under_test(program);
    command.args([situation, &near.ipv4.to_string()]).env("LD_PRELOAD", library()).env("NEARWIRE_STRICT", "true");
    let ran = near.namespace.enter(|| command.output()).unwrap().unwrap();
    assert!(ran.status.success(), "{situation}: {} {}", ran.status, String::from_utf8_lossy(&ran.stderr));
    let said = String::from_utf8(ran.stdout).unwrap();
    let [table_end, registered, cpu_us, changed_behind_set] =
        said.split_ascii_whitespace().map(|number| number.parse().unwrap()).collect::<Vec<i64>>()[..]
    else {
        panic!("{said}");
    };
    First { table_end, registered: registered == 1, cpu_us, changed_behind_set }
}

#[test]
fn first_socket_of_a_program_with_many_mappings_takes_no_longer() {
    if missing() {
        return;
    }
    let program = compiled("first_socket");
    let least = |situation| (0..TRIES).map(|_| first(&program, situation).cpu_us).min().unwrap();
    let (plain_us, mappings_us) = (least("plain"), least("mappings"));
    println!("plain {plain_us} us, with many mappings {mappings_us} us");
    assert!(mappings_us < plain_us + MORE_US_MOST, "{plain_us} us, with many mappings {mappings_us} us");
}

#[test]
fn first_socket_of_a_program_with_threads_waits_for_no_grace_period() {
    if missing() {
        return;
    }
    let program = compiled("first_socket");
    let threads = first(&program, "threads");
    assert!(threads.table_end > TABLE_END && threads.registered, "{} {}", threads.table_end, threads.registered);
    // Without threads nothing is done ahead, as it takes no time then.
    let plain = first(&program, "plain");
    assert!(plain.table_end <= TABLE_END && !plain.registered, "{} {}", plain.table_end, plain.registered);
}

/// Programs give select(2) the limit of open files, which is more than a set has room for: the kernel stops where the program's table ends.
#[test]
fn select_with_the_limit_as_its_count_leaves_what_lies_behind_its_set() {
    if missing() {
        return;
    }
    let program = compiled("first_socket");
    for situation in ["threads", "plain"] {
        assert_eq!(first(&program, situation).changed_behind_set, 0, "{situation}");
    }
}
