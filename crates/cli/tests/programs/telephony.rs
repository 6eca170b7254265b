//! sipp: thousands of short dialogues, each message once, with timers of 500 ms for what is lost.

use std::fs;

use rustix::process::Signal;

use crate::bed::{Accelerated, Bed, Found, Side, counter_told, found_or_skip};

const PORT: u16 = 5060;
const CALLS: u64 = 400;
/// At this rate, where there is a CPU for each end.
const MANY_CALLS: u64 = 3000;
const MANY_CALLS_PER_SECOND: u64 = 5000;
/// The rate until the library's interface is open. A debug build takes 30 ms for that, and then sipp sends at once what fell due: at the full rate
/// that is 150 messages, and the buffer of an end by the kernel has room for about 100.
const FIRST_CALLS_PER_SECOND: u64 = 200;
/// Where this machine does not carry that rate by the kernel: as many at once as a socket's buffer of the size that sipp asks for has room for
/// the messages of. However long an end is kept from its CPU, what is lost is lost by the path.
const CALLS_AT_ONCE: u64 = 40;
/// A message that has not come by then is lost, and so are those that repeat it.
const GIVEN_UP_MS: u64 = 4000;
const ATTEMPTS: u32 = 3;
/// By how much calls may take longer than by the kernel, beside a quarter: what a machine is late by that others use.
const SLOWER_MS_MOST: u64 = 100;

/// The value of a column in the last line of sipp's statistics.
fn statistic(table: &str, column: &str) -> u64 {
    in_words(table, column).parse().unwrap()
}

fn in_words<'table>(table: &'table str, column: &str) -> &'table str {
    let mut lines = table.lines();
    let at = lines.next().unwrap().split(';').position(|name| name == column).unwrap();
    lines.next_back().unwrap().split(';').nth(at).unwrap()
}

/// A point in time ends with the seconds since 1970.
fn elapsed_ms(table: &str) -> u64 {
    let [start_s, end_s] = ["StartTime", "CurrentTime"].map(|column| {
        let words = in_words(table, column);
        words
            .split_ascii_whitespace()
            .next_back()
            .unwrap()
            .parse::<f64>()
            .unwrap_or_else(|_| panic!("{column}: {words}"))
    });
    ((end_s - start_s) * 1000.0) as u64
}

#[test]
fn sipp_calls_are_all_answered() {
    let Some([sipp]) = found_or_skip(["sipp"]) else { return };
    for accelerated in Accelerated::EACH_AND_BY_SPIN {
        let bed = Bed::lay(accelerated);
        let (near, far) = (bed.address(Side::Near), bed.address(Side::Far));
        let server = bed.start(Side::Far, &sipp, &format!("-sn uas -i {far} -p {PORT} -nostdin"));
        bed.wait_for_port(Side::Far, PORT);
        let _opened = bed.hold_open(Side::Near);
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

/// What came of calls as fast as they come.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    succeeded: u64,
    retransmissions: u64,
    /// Datagrams, at both ends.
    dropped: u64,
    took_ms: u64,
}

impl Outcome {
    fn is_clean(&self) -> bool {
        (self.succeeded, self.retransmissions, self.dropped) == (MANY_CALLS, 0, 0)
    }

    /// Whether all calls succeeded, and no worse than these. Two ends that spin forever leave no CPU to others: how long they take where others
    /// want one is by time slices.
    fn is_as_good_as(&self, by_kernel: &Outcome, accelerated: Accelerated) -> bool {
        self.succeeded == MANY_CALLS
            && self.retransmissions <= by_kernel.retransmissions
            && self.dropped <= by_kernel.dropped
            && (accelerated.spins_forever() || self.took_ms <= by_kernel.took_ms * 5 / 4 + SLOWER_MS_MOST)
    }
}

/// Runs them; `limit`: so many at once at most.
fn many_calls(sipp: &Found, accelerated: Accelerated, limit: Option<u64>) -> Outcome {
    let bed = Bed::lay(accelerated).with_configuration("stats = true\n");
    let (near, far) = (bed.address(Side::Near), bed.address(Side::Far));
    let server = bed.start(Side::Far, sipp, &format!("-sn uas -i {far} -p {PORT} -nostdin"));
    bed.wait_for_port(Side::Far, PORT);
    let _opened = bed.hold_open(Side::Near);
    let limit = limit.map_or_else(String::new, |limit| format!("-l {limit}"));
    let more = MANY_CALLS_PER_SECOND - FIRST_CALLS_PER_SECOND;
    let rises = format!("-rate_increase {more} -rate_interval 200ms -rate_max {MANY_CALLS_PER_SECOND} -no_rate_quit");
    let rate = format!("-r {FIRST_CALLS_PER_SECOND} {rises} {limit} -m {MANY_CALLS} -recv_timeout {GIVEN_UP_MS}");
    let calls = format!("-sn uac {far}:{PORT} -i {near} -p {} {rate} -nostdin", PORT + 1);
    let told = bed.start(Side::Near, sipp, &format!("{calls} -trace_stat -stf statistics")).end_and_tell();
    let table = fs::read_to_string(bed.path("statistics")).unwrap();
    let by_library = counter_told(&told, "frames dropped") + bed.counted_by_library(Side::Far, "frames_dropped");
    let outcome = Outcome {
        succeeded: statistic(&table, "SuccessfulCall(C)"),
        retransmissions: statistic(&table, "Retransmissions(C)"),
        dropped: by_library + [Side::Near, Side::Far].map(|side| bed.dropped_by_kernel(side)).iter().sum::<u64>(),
        took_ms: elapsed_ms(&table),
    };
    println!("{accelerated:?}, {limit}: {outcome:?}");
    // A server whose calls failed says so at its end, and what is repeated is counted twice.
    if outcome.is_clean() {
        server.stop(Signal::TERM);
        bed.assert_paths(3 * MANY_CALLS);
    }
    outcome
}

/// One lost or late datagram leaves a call open for 20 s: the server takes a BYE before its ACK for an error. Where others keep an end from its
/// CPU for long that comes of the kernel's way too, now with one way and then with the other: what is worse is so each time.
#[test]
fn sipp_calls_of_thousands_a_second_succeed_as_soon_and_no_more_is_lost_than_by_the_kernel() {
    let Some([sipp]) = found_or_skip(["sipp"]) else { return };
    let mut limit = None;
    for accelerated in Accelerated::EACH_AND_BY_SPIN {
        let mut outcomes = Vec::new();
        let is_as_good = (0..ATTEMPTS).any(|_| {
            let mut by_kernel = many_calls(&sipp, Accelerated::NONE, limit);
            if limit.is_none() && !by_kernel.is_clean() {
                limit = Some(CALLS_AT_ONCE);
                by_kernel = many_calls(&sipp, Accelerated::NONE, limit);
            }
            let by_library = many_calls(&sipp, accelerated, limit);
            outcomes.push([by_kernel, by_library]);
            by_library.is_as_good_as(&by_kernel, accelerated)
        });
        assert!(is_as_good, "{accelerated:?}, at once {limit:?}; by the kernel, by the library: {outcomes:#?}");
    }
}
