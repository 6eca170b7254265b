//! When what came is acknowledged, and with which blocks (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2, RFC 2018, RFC 2883).

use crate::script::run;

//= test RFC 9293 3.8.6.3
//= test RFC 9293 3.8.6.3
#[test]
fn acknowledgement_waits_40_ms_or_for_the_second_full_segment() {
    run("with mss 1000 nodelay
         +0     < P. 1:11(10) ack 1
         +0     > . 1:1(0) ack 11
         +0     write 10
         +0     > P. 1:11(10) ack 11
         +0.010 < P. 11:21(10) ack 11
         +0.040 > . 11:11(0) ack 21
         +0     < P. 21:31(10) ack 11
         +0     > . 11:11(0) ack 31
         +0     write 10
         +0     > P. 11:21(10) ack 31
         +0.010 < . 31:1031(1000) ack 21
         +0     < . 1031:2031(1000) ack 21
         +0     > . 21:21(0) ack 2031");
}

#[test]
fn answer_carries_the_acknowledgement() {
    run("with mss 1000 nodelay
         +0     < P. 1:11(10) ack 1
         +0     > . 1:1(0) ack 11
         +0     write 10
         +0     > P. 1:11(10) ack 11
         +0.010 < P. 11:21(10) ack 11
         +0.001 write 5
         +0     > P. 11:16(5) ack 21
         +0.010 < . 21:21(0) ack 16
         +1     read 20");
}

//= test RFC 5681 4.2
//= test RFC 2883 4
#[test]
fn segments_out_of_order_are_acknowledged_at_once_with_blocks() {
    run("with sack mss 1000
         +0     < . 1001:2001(1000) ack 1
         +0     > . 1:1(0) ack 1 sack 1001:2001
         +0     < . 3001:4001(1000) ack 1
         +0     > . 1:1(0) ack 1 sack 3001:4001 1001:2001
         +0     < . 1:1001(1000) ack 1
         +0     > . 1:1(0) ack 2001 sack 3001:4001
         +0     < . 1:1001(1000) ack 1
         +0     > . 1:1(0) ack 2001 sack 1:1001 3001:4001
         +0     < . 2001:3001(1000) ack 1
         +0     > . 1:1(0) ack 4001 nosack
         +0     read 4000");
}

#[test]
fn data_carries_blocks_and_is_so_much_shorter() {
    run("with sack mss 1000
         +0     < . 1001:2001(1000) ack 1
         +0     > . 1:1(0) ack 1 sack 1001:2001
         +0     write 1000
         +0     > . 1:989(988) ack 1 sack 1001:2001
         +0     > P. 989:1001(12) ack 1 sack 1001:2001
         +0     < . 1:1001(1000) ack 1001
         +0     > . 1001:1001(0) ack 2001 nosack");
}

/// What a device joined is as many segments as it was.
#[test]
fn segments_that_came_joined_are_acknowledged_at_once_as_two_are() {
    run("with mss 1000 nodelay
         +0     < P. 1:11(10) ack 1
         +0     > . 1:1(0) ack 11
         +0     write 10
         +0     > P. 1:11(10) ack 11
         +0.010 < . 11:5011(5000) ack 11
         +0     > . 11:11(0) ack 5011");
}
