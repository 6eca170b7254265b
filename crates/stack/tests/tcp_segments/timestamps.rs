//! Timestamps (RFC 7323 sections 3 to 5).

use crate::info;
use crate::script::run;

//= test RFC 7323 3.2
//= test RFC 7323 4.3
//= test RFC 7323 5.3
#[test]
fn timestamps_are_echoed_and_old_ones_refused() {
    run("with sack ts mss 1012 nodelay
         +0.005 < P. 1:11(10) ack 1 ts 5 0
         +0     > . 1:1(0) ack 11 ts 5 5
         +0.002 < P. 21:31(10) ack 1 ts 7 5
         +0     > . 1:1(0) ack 11 ts 7 5 sack 21:31
         +0.001 < P. 11:21(10) ack 1 ts 3 5
         +0     > . 1:1(0) ack 11 ts 8 5
         +0     read 10");
    run("with sack ts mss 1012
         +0.005 < P. 1:11(10) ack 1 ts 5 0
         +0     > . 1:1(0) ack 11 ts 5 5
         +0     < R. 11:11(0) ack 1 ts 1 5
         +0     error Reset");
}

//= test RFC 7323 4.3
#[test]
fn round_trip_of_a_retransmission_is_told_by_its_timestamp() {
    let world = run("with ts mss 1012
         +0     write 1000
         +0     > P. 1:1001(1000) ts 0 0
         +1     > P. 1:1001(1000) ts 1000 0
         +0.020 < . 1:1(0) ack 1001 ts 1 1000
         +0.500 < P. 1:11(10) ack 1001 ts 2 1000
         +0     > . 1001:1001(0) ack 11");
    assert_eq!(info(&world).smoothed_round_trip_ns, 20_000_000, "the second acknowledges nothing new");
}
