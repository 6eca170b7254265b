//! sipp: thousands of short dialogues, each message once, with timers of 500 ms for what is lost.

use std::fs;

use rustix::process::Signal;

use crate::bed::{Accelerated, Bed, Side, found_or_skip};

const PORT: u16 = 5060;
const CALLS: u64 = 400;

/// The value of a column in the last line of sipp's statistics.
fn statistic(table: &str, column: &str) -> u64 {
    let mut lines = table.lines();
    let at = lines.next().unwrap().split(';').position(|name| name == column).unwrap();
    lines.next_back().unwrap().split(';').nth(at).unwrap().parse().unwrap()
}

#[test]
fn sipp_calls_are_all_answered() {
    let Some([sipp]) = found_or_skip(["sipp"]) else { return };
    for accelerated in Accelerated::EACH {
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
