use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use super::*;

const ROUNDS: u64 = 200_000;

fn ran<R>(entered: Entered<R>) -> R {
    match entered {
        Entered::Ran(result) => result,
        Entered::Reentered => panic!("nobody was inside"),
    }
}

/// Adds in two steps, so that two threads inside would lose one.
fn count(pair: &mut (u64, u64)) {
    let seen = pair.0;
    std::hint::black_box(&mut *pair);
    pair.0 = seen + 1;
    pair.1 += 1;
    assert_eq!(pair.0, pair.1);
}

fn counted_by(threads: usize) {
    let gate = Gate::new((0, 0));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..ROUNDS).for_each(|_| ran(gate.enter(count))));
        }
    });
    assert_eq!(ran(gate.enter(|pair| *pair)), (ROUNDS * threads as u64, ROUNDS * threads as u64));
}

#[test]
fn two_threads_enter_nothing_is_lost() {
    counted_by(2);
}

#[test]
fn four_threads_on_few_cpus_enter_nothing_is_lost() {
    counted_by(4);
}

#[test]
fn owner_spins_in_and_out_each_revocation_excludes_it() {
    for _ in 0..300 {
        let gate = Gate::new((0, 0));
        let stop = AtomicBool::new(false);
        let owned = AtomicBool::new(false);
        let total = thread::scope(|scope| {
            let owner = scope.spawn(|| {
                let mut entries = 0;
                while !stop.load(Relaxed) {
                    ran(gate.enter(count));
                    entries += 1;
                    owned.store(true, Relaxed);
                }
                entries
            });
            while !owned.load(Relaxed) {
                spin_loop();
            }
            (0..50).for_each(|_| ran(gate.enter(count)));
            stop.store(true, Relaxed);
            owner.join().unwrap() + 50
        });
        assert_eq!(ran(gate.enter(|pair| pair.0)), total);
    }
}

/// Enters so often that the bias is the thread's.
fn settle_in(gate: &Gate<(u64, u64)>) -> usize {
    (0..=STREAK + 1).for_each(|_| ran(gate.enter(count)));
    gate.bias.load(Relaxed)
}

#[test]
fn bias_taken_away_often_comes_back_to_the_same_thread() {
    let gate = Gate::new((0, 0));
    let turns = 3 * SLOTS;
    for turn in 0..turns {
        thread::scope(|scope| scope.spawn(|| ran(gate.enter(count))).join().unwrap());
        let bias = settle_in(&gate);
        assert_eq!(bias & !SLOT_MASK, thread_identity(), "turn {turn}: {bias:x}");
    }
    assert_eq!(ran(gate.enter(|pair| pair.0)), turns as u64 * (u64::from(STREAK) + 3));
}

#[test]
fn more_threads_than_slots_settle_in_each_has_its_own_or_the_lock() {
    let gate = Gate::new((0, 0));
    let threads = SLOTS + 3;
    // All alive to the end, so that no two have the same identity.
    let (turn, end) = (AtomicUsize::new(0), std::sync::Barrier::new(threads));
    let settled = |number: usize| {
        while turn.load(SeqCst) != number {
            thread::yield_now();
        }
        let bias = settle_in(&gate);
        turn.store(number + 1, SeqCst);
        end.wait();
        (bias, thread_identity())
    };
    let biases: Vec<_> = thread::scope(|scope| {
        let settled = &settled;
        let all: Vec<_> = (0..threads).map(|number| scope.spawn(move || settled(number))).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (number, (bias, identity)) in biases.iter().enumerate() {
        let expected = if number < SLOTS { identity | number } else { EVERYBODY };
        assert_eq!(*bias, expected, "thread {number}");
    }
    assert_eq!(ran(gate.enter(|pair| pair.0)), threads as u64 * (u64::from(STREAK) + 2));
}

#[test]
fn handed_over_bias_under_contention_nothing_is_lost() {
    let gate = Gate::new((0, 0));
    thread::scope(|scope| {
        scope.spawn(|| (0..ROUNDS).for_each(|_| ran(gate.enter(count))));
        scope.spawn(|| {
            for _ in 0..40 {
                thread::sleep(Duration::from_micros(200));
                ran(gate.enter(count));
            }
        });
    });
    assert_eq!(ran(gate.enter(|pair| pair.0)), ROUNDS + 40);
}

#[test]
fn same_thread_inside_is_told_and_does_not_wait() {
    let gate = Gate::new(1);
    let again = || matches!(gate.enter(|_| ()), Entered::Reentered);
    assert!(ran(gate.enter(|_| again())), "owner of the bias");
    thread::scope(|scope| {
        let other = scope.spawn(|| ran(gate.enter(|_| again())));
        assert!(other.join().unwrap(), "holder of the lock");
    });
    assert!(ran(gate.enter(|_| again())), "former owner");
}

#[test]
fn owner_inside_while_its_bias_is_taken_is_told_and_does_not_wait() {
    let gate = Gate::new(());
    ran(gate.enter(|()| ()));
    thread::scope(|scope| {
        ran(gate.enter(|()| {
            let other = scope.spawn(|| ran(gate.enter(|()| ())));
            while gate.bias.load(Relaxed) != EVERYBODY {
                thread::yield_now();
            }
            assert_eq!(gate.enter(|()| ()), Entered::Reentered);
            assert!(!other.is_finished());
        }));
    });
}

#[test]
fn closure_panics_gate_stays_open() {
    let gate = Gate::new(7);
    let panics = |gate: &Gate<i32>| catch_unwind(AssertUnwindSafe(|| gate.enter(|_| panic!("on purpose")))).is_err();
    assert!(panics(&gate));
    thread::scope(|scope| {
        let other = scope.spawn(|| panics(&gate) && ran(gate.enter(|value| *value)) == 7);
        assert!(other.join().unwrap());
    });
    assert_eq!(ran(gate.enter(|value| *value)), 7);
}

/// Runs `child` in a forked child; its answer is what the parent gets.
fn forked(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child uses nothing that another thread of the parent may hold locked, and leaves by _exit.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(i32::from(!child()));
        }
        let mut status = 0;
        libc::waitpid(pid, &raw mut status, 0) == pid && status == 0
    }
}

#[test]
fn forked_while_another_thread_is_inside_child_learns_it_and_can_enter() {
    let gate = Gate::new(());
    let (inside, leave) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            ran(gate.enter(|()| {
                inside.store(true, SeqCst);
                while !leave.load(SeqCst) {
                    thread::yield_now();
                }
            }));
        });
        while !inside.load(SeqCst) {
            thread::yield_now();
        }
        let well = forked(|| gate.reset_after_fork() == AfterFork::Torn && gate.enter(|()| ()) == Entered::Ran(()));
        leave.store(true, SeqCst);
        assert!(well);
    });
}

#[test]
fn forked_inside_child_has_the_value_whole_and_leaves() {
    let gate = Gate::new(5);
    let whole = || {
        let mut in_child = false;
        let well = ran(gate.enter(|value| {
            *value += 1;
            forked(|| {
                in_child = true;
                gate.reset_after_fork() == AfterFork::Whole && matches!(gate.enter(|_| ()), Entered::Reentered)
            })
        }));
        well && !in_child
    };
    assert!(whole(), "owner of the bias");
    thread::scope(|scope| assert!(scope.spawn(whole).join().unwrap(), "holder of the lock"));
}

#[test]
fn forked_outside_child_enters_with_threads_of_its_own() {
    let gate = Gate::new((0, 0));
    counted_by(2);
    ran(gate.enter(count));
    thread::scope(|scope| scope.spawn(|| ran(gate.enter(count))).join().unwrap());
    assert!(forked(|| {
        let whole = gate.reset_after_fork() == AfterFork::Whole;
        ran(gate.enter(count));
        whole && gate.bias.load(Relaxed) != EVERYBODY && ran(gate.enter(|pair| pair.0)) == 3
    }));
}

/// The least and the greatest mean of five batches.
fn batches_ns(repetitions: u32, mut work: impl FnMut()) -> (f64, f64) {
    let means = [(); 5].map(|()| {
        let started = Instant::now();
        (0..repetitions).for_each(|_| work());
        started.elapsed().as_nanos() as f64 / f64::from(repetitions)
    });
    (means.into_iter().fold(f64::MAX, f64::min), means.into_iter().fold(0.0, f64::max))
}

fn nanoseconds_each(repetitions: u32, work: impl FnMut()) -> f64 {
    batches_ns(repetitions, work).0
}

#[test]
#[ignore = "a measurement: run it in a release build, with --nocapture"]
fn gate_entered_and_left_costs() {
    let add = |value: &mut u64| *value = std::hint::black_box(*value + 1);
    let empty = nanoseconds_each(10_000_000, || add(std::hint::black_box(&mut 0)));
    let gate = Gate::new(0_u64);
    let biased = nanoseconds_each(10_000_000, || ran(gate.enter(add)));
    // All slots are somebody else's.
    gate.slot_of.iter().for_each(|owner| owner.store(1, Relaxed));
    thread::scope(|scope| scope.spawn(|| ran(gate.enter(add))).join().unwrap());
    let locked = nanoseconds_each(10_000_000, || ran(gate.enter(add)));
    let mutex = Mutex::new(0_u64);
    let plain = nanoseconds_each(10_000_000, || add(&mut mutex.lock().unwrap()));
    let (runs, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let revoke = thread::scope(|scope| {
        scope.spawn(|| {
            runs.store(true, Relaxed);
            while !stop.load(Relaxed) {
                spin_loop();
            }
        });
        while !runs.load(Relaxed) {
            thread::yield_now();
        }
        let revoke = batches_ns(2000, || {
            let gate = Gate::new(0_u64);
            gate.bias.store(0x1000, Relaxed);
            ran(gate.enter(add));
        });
        stop.store(true, Relaxed);
        revoke
    });
    println!("ns: nothing {empty:.2}, biased {biased:.2}, lock {locked:.2}, Mutex {plain:.2}, revoking {revoke:.0?}");
}
