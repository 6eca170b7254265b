//! sipp: thousands of short dialogues, each message once, with timers of 500 ms for what is lost.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use crate::bed::{Accelerated, Bed, Found, Side, counter_told, found_or_skip};

const PORT: u16 = 5060;
const CALLS: u64 = 400;
/// A second of them.
const MANY_CALLS: u64 = 5000;
/// INVITE, ACK and BYE; 180, 200 and 200.
const DATAGRAMS_A_CALL: u64 = 6;
/// What may be dropped, of all datagrams, where the kernel drops fewer.
const DROPPED_PERCENT: u64 = 1;
/// On a busy machine a receiver is kept from its CPU for longer than a buffer lasts, whoever serves it.
const ATTEMPTS: usize = 3;
/// A call whose last messages were lost stays open, and sipp waits for it.
const GIVEN_UP: Duration = Duration::from_secs(5);

/// The value of a column in the last line of sipp's statistics.
fn statistic(table: &str, column: &str) -> u64 {
    let mut lines = table.lines();
    let at = lines.next().unwrap().split(';').position(|name| name == column).unwrap();
    lines.next_back().unwrap().split(';').nth(at).unwrap().parse().unwrap()
}

#[test]
fn sipp_calls_are_all_answered() {
    let Some([sipp]) = found_or_skip(["sipp"]) else { return };
    for accelerated in Accelerated::EACH_AND_BY_SPIN {
        let bed = Bed::lay(accelerated);
        let (near, far) = (bed.address(Side::Near), bed.address(Side::Far));
        let server = bed.start(Side::Far, &sipp, &format!("-sn uas -i {far} -p {PORT} -nostdin"));
        bed.wait_for_port(Side::Far, PORT);
        // 18 milliseconds of a rate that every machine keeps are within the buffer that sipp asks for.
        let calls = format!("-sn uac {far}:{PORT} -i {near} -p {} -r 400 -m {CALLS} -nostdin", PORT + 1);
        bed.run(Side::Near, &sipp, &format!("{calls} -trace_stat -stf statistics"));
        let table = fs::read_to_string(bed.path("statistics")).unwrap();
        let told = ["SuccessfulCall(C)", "FailedCall(C)"].map(|column| statistic(&table, column));
        assert_eq!(told, [CALLS, 0], "{accelerated:?}");
        server.stop(Signal::TERM);
        // INVITE, ACK and BYE; 180, 200 and 200.
        bed.assert_paths(3 * CALLS);
    }
}

/// What became of so many calls in a second.
#[derive(Debug)]
struct Ended {
    succeeded: u64,
    failed: u64,
    /// Datagrams, at both ends, for want of room.
    dropped: u64,
}

fn many_calls(sipp: &Found, accelerated: Accelerated) -> Ended {
    let bed = Bed::lay(accelerated).with_configuration("stats = true\n");
    let (near, far) = (bed.address(Side::Near), bed.address(Side::Far));
    let server = bed.start(Side::Far, sipp, &format!("-sn uas -i {far} -p {PORT} -nostdin"));
    bed.wait_for_port(Side::Far, PORT);
    let calls = format!("-sn uac {far}:{PORT} -i {near} -p {} -r {MANY_CALLS} -m {MANY_CALLS} -nostdin", PORT + 1);
    let mut client = bed.start(Side::Near, sipp, &format!("{calls} -trace_stat -stf statistics -fd 1"));
    let has_ended = client.has_ended_within(GIVEN_UP);
    let told = client.told();
    let of_client = |told_as: &str, counter: &str| {
        if has_ended { counter_told(&told, told_as) } else { bed.counted_by_library(Side::Near, counter) }
    };
    let table = fs::read_to_string(bed.path("statistics")).unwrap();
    let [succeeded, failed] = ["SuccessfulCall(C)", "FailedCall(C)"].map(|column| statistic(&table, column));
    if accelerated.at(Side::Near) {
        assert!(of_client("frames received", "frames_received") > MANY_CALLS, "{accelerated:?}: {told}");
    }
    let by_library =
        of_client("frames dropped", "frames_dropped") + bed.counted_by_library(Side::Far, "frames_dropped");
    // Where calls failed it would end with an error.
    drop(server);
    let by_kernel: u64 = [Side::Near, Side::Far].map(|side| bed.dropped_by_kernel(side)).iter().sum();
    Ended { succeeded, failed, dropped: by_library + by_kernel }
}

/// With both ends accelerated: one that is sends faster than the kernel of the other receives, which drops more then.
#[test]
fn sipp_calls_of_thousands_a_second_succeed_and_no_more_is_dropped_than_by_the_kernel() {
    let Some([sipp]) = found_or_skip(["sipp"]) else { return };
    let most_dropped = MANY_CALLS * DATAGRAMS_A_CALL * DROPPED_PERCENT / 100;
    let attempt = || {
        let [kernel, library] = [Accelerated::NONE, Accelerated::BOTH].map(|ends| many_calls(&sipp, ends));
        println!("{library:?}, without the library {kernel:?}");
        let are_all = library.succeeded == MANY_CALLS || kernel.succeeded < MANY_CALLS;
        let is_as_well = are_all && library.failed == 0 && library.dropped <= kernel.dropped.max(most_dropped);
        (!is_as_well).then(|| format!("{library:?}, without the library {kernel:?}"))
    };
    let found: Vec<_> = (0..ATTEMPTS).map_while(|_| attempt()).collect();
    assert!(found.len() < ATTEMPTS, "{found:?}");
}
