//! Two connections of ours over a network that loses, reorders, doubles and corrupts, in virtual time: every byte arrives once and in order,
//! or both ends say why not.
//!
//! A run is a seed. `NEARWIRE_TCP_SEEDS` asks for another number of them, `NEARWIRE_TCP_SEED` runs one alone and prints what it does.

#[path = "../common/mod.rs"]
mod common;
mod ends;
mod network;

use ends::{Pair, Plan};
use network::Random;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs a plan for each seed, or for the one that was asked for.
fn run(kind: &str, seeds: u64, plan: impl Fn(&mut Random) -> Plan) {
    if let Some(seed) = number("NEARWIRE_TCP_SEED") {
        let mut pair = Pair::new(plan(&mut Random(seed)), seed);
        pair.is_traced = true;
        pair.run();
        return;
    }
    let seeds = number("NEARWIRE_TCP_SEEDS").unwrap_or(seeds);
    let mut bytes = 0;
    let mut moves = 0;
    for seed in 0..seeds {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut pair = Pair::new(plan(&mut Random(seed)), seed);
            pair.run();
            (pair.total_bytes(), pair.moves())
        }));
        match result {
            Ok((count, moved)) => (bytes, moves) = (bytes + count, moves + moved),
            Err(_) => panic!("{kind}: seed {seed} fails; NEARWIRE_TCP_SEED={seed} runs it again"),
        }
    }
    println!("{kind}: {seeds} seeds, {bytes} bytes, {moves} times released and adopted");
}

#[test]
fn network_without_faults_delivers_everything() {
    run("clean", 300, |random| Plan::any(random).without_faults());
}

#[test]
fn network_with_any_faults_delivers_everything() {
    run("faults", 1500, Plan::any);
}

#[test]
fn windows_that_close_delay_everything_and_lose_nothing() {
    run("starved", 500, |random| Plan::any(random).starved());
}

#[test]
fn connections_moved_at_any_moment_lose_nothing() {
    run("moved", 800, |random| Plan::any(random).moved());
}

#[test]
fn resets_of_third_parties_do_not_reset() {
    run("blind", 400, |random| Plan::any(random).with_blind_resets());
}

#[test]
fn reset_with_the_right_number_is_heard_at_both_ends() {
    run("reset", 300, |random| Plan::any(random).with_a_reset());
}
