//! Keepers: threads of the library, one per engine, that send held datagrams when the program does not call.
//!
//! Only `send_coalescing` holds datagrams back, so there is a keeper only where that is configured, from the first time
//! that something is held. It looks every half of that time, without entering the gate, and enters when it finds the same
//! datagrams twice; so none waits for longer than that time and what it takes to wake a thread. When nothing was held for
//! `IDLE_LOOKS` looks it sleeps until something is.
//!
//! It keeps off the CPU that the program sends from where there is another, has all signals blocked, and is not there in
//! a child of fork, which starts its own.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nearwire_socket::{Held, Sockets};
use nearwire_sys::affinity;

use crate::signals::mask::HeldSignals;
use crate::state::{self, ENGINES_MOST, Subject};

/// Looks that find nothing new before it sleeps.
const IDLE_LOOKS: u32 = 20;
/// What the keeper needs: it calls the library and allocates little.
const STACK_BYTES: usize = 128 * 1024;
const NAME: &str = "nearwire-keeper";

/// By engine: each has a keeper.
static EXISTS: [AtomicBool; ENGINES_MOST] = [const { AtomicBool::new(false) }; ENGINES_MOST];
/// What the keeper of an engine looks at: also of one that is opened anew under its number.
static HELD: [OnceLock<Arc<Held>>; ENGINES_MOST] = [const { OnceLock::new() }; ENGINES_MOST];

/// Has the engine's keeper watch what is held from now on. If no thread can be started, nothing is held any more.
#[cold]
pub fn keep(engine: usize, held: Arc<Held>) {
    if EXISTS[engine].swap(true, Relaxed) {
        return held.wake_keeper();
    }
    let _ = HELD[engine].set(Arc::clone(&held));
    let at = Subject::Engine(engine);
    let Some(time) = state::with_subject(at, |sockets| sockets.send_coalescing()) else { return };
    let cpu = affinity::current_cpu();
    let signals = HeldSignals::hold();
    let thread = std::thread::Builder::new().name(NAME.to_owned()).stack_size(STACK_BYTES);
    let began = thread.spawn(move || serve(engine, &held, time / 2, cpu));
    drop(signals);
    if began.is_err() {
        EXISTS[engine].store(false, Relaxed);
        state::with_subject(at, Sockets::stop_coalescing);
    }
}

/// What an engine that is opened under this number is to hold by, where there was one before.
pub fn held_of(engine: usize) -> Option<Arc<Held>> {
    HELD[engine].get().cloned()
}

/// In a child of fork.
pub fn after_fork_in_child() {
    EXISTS.iter().for_each(|exists| exists.store(false, Relaxed));
}

/// Before the program ends.
pub fn send_the_rest() {
    (0..ENGINES_MOST).for_each(send_what_is_held);
}

fn send_what_is_held(engine: usize) {
    if EXISTS[engine].load(Relaxed) {
        // With the kick outside the gate: a keeper that is put off its CPU within would keep the program waiting.
        state::send_with(Subject::Engine(engine), Sockets::kick);
    }
}

fn serve(engine: usize, held: &Held, every: Duration, program_cpu: u32) {
    // Refused, it works with what it has: a CPU that it shares, and sleeps that the kernel rounds up.
    let _ = affinity::avoid_cpu(program_cpu);
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let (mut last, mut idle_looks) = (held.look(), 0);
    loop {
        std::thread::sleep(every);
        let now = held.look();
        idle_looks = if now == last { idle_looks + 1 } else { 0 };
        if now == last && now.is_held() {
            send_what_is_held(engine);
        }
        if idle_looks >= IDLE_LOOKS {
            held.sleep_until_held();
            idle_looks = 0;
        }
        last = now;
    }
}
