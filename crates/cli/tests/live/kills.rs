//! Programs that are killed (SIGKILL) at any moment, again and again, beside others on the same interface: accelerated by the agent, which is
//! killed now and then too. The others lose no datagram, and nothing of the killed is left.
//!
//! `NEARWIRE_KILLS=1000 cargo test -p nearwire-cli --test live kills` kills so many; `NEARWIRE_KILLS_SEED=N` chooses the order.

mod count;
mod slot;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::by_agent::{kill, running_agent, status_of, wait_until};
use crate::common::accelerated::Bed;
use count::{Keeper, counted};
use slot::{KINDS, Slot};

const SLOTS: usize = 6;
/// Programs that are killed and started at the same time.
const KILLERS: usize = 2;
const KILLS: u32 = 30;
/// One kill in so many is of the agent.
const AGENT_ONE_IN: u64 = 20;
/// One program in so many is killed before it says that it is ready.
const EARLY_ONE_IN: u64 = 6;
/// A program whose agent ended has a share of the next agent's within this time.
const BACK_WITHIN: Duration = Duration::from_secs(90);

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

pub(crate) fn chosen(name: &str, without: u64) -> u64 {
    std::env::var(name).map_or(without, |value| value.parse().unwrap())
}

/// Kills and starts programs, those of every `KILLERS`th slot from `first` on.
fn kill_and_start(bed: &Bed, slots: &[Slot], first: usize, left: &AtomicU32, random: &mut Random) {
    let own: Vec<&Slot> = slots.iter().skip(first).step_by(KILLERS).collect();
    while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
        std::thread::sleep(Duration::from_micros(random.below(40_000)));
        if random.below(AGENT_ONE_IN) == 0 {
            // None runs, where another one was killed and nobody was started since.
            if let Some(agent) = running_agent(bed) {
                kill(agent);
            }
        }
        let slot = own[random.below(own.len() as u64) as usize];
        slot.kill();
        while random.below(EARLY_ONE_IN) == 0 {
            let early = slot.begin(bed);
            std::thread::sleep(Duration::from_micros(random.below(300_000)));
            drop(early);
        }
        slot.start(bed);
    }
}

/// All slots are served by the agent.
fn all_by_agent(slots: &[Slot]) -> bool {
    slots.iter().all(|slot| {
        let shown = status_of(&slot.pid().to_string());
        let sockets = shown["sockets"].as_array().unwrap();
        let is_by_agent = |words: Option<&str>| words.is_some_and(|words| words.ends_with(", by the agent"));
        is_by_agent(shown["interfaces"][0]["words"].as_str())
            && sockets.iter().all(|socket| socket["accelerated"] == true)
    })
}

/// Until all are the agent's, with traffic, as an engine looks when its program calls.
fn await_agent(slots: &[Slot]) {
    let until = Instant::now() + BACK_WITHIN;
    while !all_by_agent(slots) {
        let shown: Vec<_> = slots.iter().map(|slot| status_of(&slot.pid().to_string())).collect();
        assert!(Instant::now() < until, "all have shares of the agent: {shown:#?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn programs_and_agents_killed_at_random_under_load_lose_no_datagram_of_others_and_leave_nothing() {
    let Some(bed) = Bed::lay() else { return };
    let kills = chosen("NEARWIRE_KILLS", KILLS.into()) as u32;
    let seed = chosen("NEARWIRE_KILLS_SEED", 1);
    println!("NEARWIRE_KILLS={kills} NEARWIRE_KILLS_SEED={seed}");
    let before = {
        let keeper = Keeper::start(&bed);
        counted(&bed, &keeper)
    };
    let slots: Vec<Slot> = (0..SLOTS).map(|at| Slot::new(&bed, at, KINDS[at % KINDS.len()])).collect();
    slots.iter().for_each(|slot| slot.start(&bed));
    let is_over = AtomicBool::new(false);
    let left = AtomicU32::new(kills);
    let began = Instant::now();
    let keeper = std::thread::scope(|scope| {
        let traffic = scope.spawn(|| slot::exchange(&slots, &is_over));
        let over = OnDrop(&is_over);
        await_agent(&slots);
        std::thread::scope(|scope| {
            for first in 0..KILLERS {
                let (bed, slots, left) = (&bed, &slots, &left);
                let mut random = Random(seed.wrapping_mul(31).wrapping_add(first as u64));
                scope.spawn(move || kill_and_start(bed, slots, first, left, &mut random));
            }
        });
        await_agent(&slots);
        let keeper = Keeper::new(&bed);
        drop(over);
        traffic.join().unwrap();
        keeper
    });
    let (asked, answered) = slots.iter().map(Slot::counts).fold((0, 0), |sum, slot| (sum.0 + slot.0, sum.1 + slot.1));
    println!("{kills} kills in {:?}: {asked} datagrams, {answered} answers", began.elapsed());
    assert!(answered > u64::from(kills) * 20, "there was traffic: {answered}");
    slots.iter().for_each(Slot::assert_whole);
    let (agent, program) = (keeper.agent(), count::program_of(&bed).unwrap());
    slots.iter().for_each(Slot::kill);
    slots.iter().for_each(|slot| slot.is_the_kernels(&bed));
    wait_until("the agent knows that they are gone", || keeper.programs() == 1);
    assert_eq!(counted(&bed, &keeper), before, "as much is there as before");
    drop(keeper);
    wait_until("nobody has the interface", || count::program_of(&bed).is_none());
    wait_until("the program is unloaded", || !nearwire_sys::bpf::program_ids().unwrap().contains(&program));
    wait_until("the agent ends", || !std::path::Path::new(&format!("/proc/{agent}")).exists());
}

/// Ends the traffic, also where the test fails.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
