//! sipp: thousands of short dialogues, each message once, with timers of 500 ms for what is lost.

use std::fs;

use rustix::process::Signal;

use crate::bed::{Accelerated, Bed, Found, Side, counter_told, found_or_skip};

const PORT: u16 = 5060;
const CALLS: u64 = 400;
/// At this rate, where there is a CPU for each end.
const MANY_CALLS: u64 = 3000;
const MANY_CALLS_PER_SECOND: u64 = 5000;
/// As many at once as a socket's buffer of the size that sipp asks for has room for the messages of: however long an end is kept from its
/// CPU, what is lost is lost by the path.
const CALLS_AT_ONCE: u64 = 40;

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

/// Calls as fast as they come, which all succeed. How many datagrams were dropped at both ends.
fn many_calls(sipp: &Found, accelerated: Accelerated) -> u64 {
    let bed = Bed::lay(accelerated).with_configuration("stats = true\n");
    let (near, far) = (bed.address(Side::Near), bed.address(Side::Far));
    let server = bed.start(Side::Far, sipp, &format!("-sn uas -i {far} -p {PORT} -nostdin"));
    bed.wait_for_port(Side::Far, PORT);
    let _opened = bed.hold_open(Side::Near);
    let rate = format!("-r {MANY_CALLS_PER_SECOND} -l {CALLS_AT_ONCE} -m {MANY_CALLS}");
    let calls = format!("-sn uac {far}:{PORT} -i {near} -p {} {rate} -nostdin", PORT + 1);
    let told = bed.start(Side::Near, sipp, &format!("{calls} -trace_stat -stf statistics")).succeed_and_tell();
    let table = fs::read_to_string(bed.path("statistics")).unwrap();
    let ended = ["SuccessfulCall(C)", "FailedCall(C)"].map(|column| statistic(&table, column));
    assert_eq!(ended, [MANY_CALLS, 0], "{accelerated:?}: {told}");
    let by_library = counter_told(&told, "frames dropped") + bed.counted_by_library(Side::Far, "frames_dropped");
    server.stop(Signal::TERM);
    bed.assert_paths(3 * MANY_CALLS);
    by_library + [Side::Near, Side::Far].map(|side| bed.dropped_by_kernel(side)).iter().sum::<u64>()
}

/// One lost or late datagram leaves a call open for 20 s: the server takes a BYE before its ACK for an error.
#[test]
fn sipp_calls_of_thousands_a_second_succeed_and_no_more_is_dropped_than_by_the_kernel() {
    let Some([sipp]) = found_or_skip(["sipp"]) else { return };
    let by_kernel = many_calls(&sipp, Accelerated::NONE);
    for accelerated in Accelerated::EACH {
        let dropped = many_calls(&sipp, accelerated);
        assert!(dropped <= by_kernel, "{accelerated:?}: {dropped} dropped, {by_kernel} without the library");
    }
}
