//! Which segments are made of what is written (RFC 9293 sections 3.7 and 3.9.1).

use crate::script::run;

//= test RFC 9293 3.9.1.2
#[test]
fn last_segment_of_a_write_is_pushed() {
    run("with mss 1000
         +0     write 2500
         +0     > . 1:1001(1000) ack 1
         +0     > . 1001:2001(1000) ack 1
         +0     > P. 2001:2501(500) ack 1");
}

//= test RFC 9293 3.7.4
#[test]
fn piece_waits_for_the_piece_that_is_out_unless_the_program_does_not_want_that() {
    run("with mss 1000
         +0     write 10
         +0     > P. 1:11(10)
         +0     write 10
         +0.010 < . 1:1(0) ack 11
         +0     > P. 11:21(10)
         +0     write 2000
         +0     > . 21:1021(1000)
         +0     > P. 1021:2021(1000)");
    run("with mss 1000 nodelay
         +0     write 10
         +0     > P. 1:11(10)
         +0     write 10
         +0     > P. 11:21(10)");
    run("with mss 1000
         +0     write 10
         +0     > P. 1:11(10)
         +0     write 10
         +0.001 nodelay
         +0     > P. 11:21(10)");
}

#[test]
fn corked_piece_goes_when_the_cork_is_out_or_a_timeout_later() {
    run("with mss 1000 cork nodelay
         +0     write 1010
         +0     > . 1:1001(1000)
         +0.010 < . 1:1(0) ack 1001
         +0.050 uncork
         +0     > P. 1001:1011(10)");
    run("with mss 1000 cork nodelay
         +0     write 1010
         +0     > . 1:1001(1000)
         +0.010 < . 1:1(0) ack 1001
         +0.210 > P. 1001:1011(10)");
}

#[test]
fn more_holds_a_piece_back_until_the_next_write() {
    run("with mss 1000 nodelay
         +0     more 10
         +0.001 write 10
         +0     > P. 1:21(20)");
}

//= test RFC 9293 3.7.1
//= test RFC 9293 3.7.1
#[test]
fn segments_are_as_long_as_far_end_and_path_take() {
    run("with mss 0
         +0     write 600
         +0     > . 1:537(536)
         +0     > P. 537:601(64)");
    run("with mss 9000
         +0     write 1500
         +0     > . 1:1461(1460)
         +0     > P. 1461:1501(40)");
    run("with mss 1460 ts
         +0     write 1500
         +0     > . 1:1449(1448)
         +0     > P. 1449:1501(52)");
}

//= test RFC 9293 3.8.4
//= test RFC 9293 3.8.4
#[test]
fn idle_far_end_is_probed_and_reset_after_the_last_probe() {
    assert_eq!(nearwire_stack::Keepalive::default().idle_ns, 7200 * 1_000_000_000);
    run("with mss 1000 keepalive 10 interval 5
         +10    > . 0:0(0) ack 1
         +0.010 < . 1:1(0) ack 1
         +10    > . 0:0(0) ack 1
         +5     > . 0:0(0) ack 1
         +0.010 < . 1:1(0) ack 1
         +10    > . 0:0(0) ack 1
         +5     > . 0:0(0) ack 1
         +5     > . 0:0(0) ack 1
         +4.9   error None
         +0.1   > R. 1:1(0) ack 1
         +0     error TimedOut");
}

/// `tcp_stream_memory_free` of include/net/tcp.h.
#[test]
fn program_writes_no_more_than_may_be_unsent_and_hears_when_half_of_that_was_sent() {
    run("with mss 1000 win 2000 unsent 3000
         +0     takes 4000
         +0     > . 1:1001(1000)
         +0     > . 1001:2001(1000)
         +0     takes 2000
         +0     refused
         +0.010 < . 1:1(0) ack 1001 win 2000
         +0     > . 2001:3001(1000)
         +0     refused
         +0.010 < . 1:1(0) ack 2001 win 3000
         +0     > . 3001:4001(1000)
         +0     > . 4001:5001(1000)
         +0     room
         +0     takes 3000
         +0     refused
         +0.010 < . 1:1(0) ack 5001 win 9000
         +0     > . 5001:6001(1000)
         +0     > . 6001:7001(1000)
         +0     > . 7001:8001(1000)
         +0     > P. 8001:9001(1000)
         +0     room");
}
