//! Which segments are accepted (RFC 9293 section 3.10.7.4, RFC 5961).

use crate::info;
use crate::script::run;

//= test RFC 9293 3.10.7.4
#[test]
fn segment_outside_of_the_window_is_answered_and_dropped() {
    run("with mss 1000 win 30000
         +0     < . 80001:80011(10) ack 1
         +0     > . 1:1(0) ack 1
         +0     nothing
         +0     < R. 80001:80001(0) ack 1
         +0     error None
         +0     < P. 1:11(10) ack 1
         +0     > . 1:1(0) ack 11
         +0     read 10");
}

//= test RFC 5961 7
#[test]
fn answers_to_impossible_segments_are_limited() {
    run("with mss 1000
         +0     < . 80001:80001(0) ack 1
         +0     > . 1:1(0) ack 1
         +0.1   < . 80001:80001(0) ack 1
         +0.3   < S. 1:1(0) ack 1
         +0.2   < . 80001:80001(0) ack 1
         +0     > . 1:1(0) ack 1");
}

//= test RFC 5961 3.2
#[test]
fn reset_in_the_window_is_answered_and_one_with_the_expected_number_resets() {
    run("with mss 1000
         +0     < R. 2:2(0) ack 1
         +0     > . 1:1(0) ack 1
         +0     error None
         +0     < R- 1:1(0)
         +0     error Reset");
}

//= test RFC 5961 4.2
#[test]
fn syn_is_answered() {
    run("with mss 1000
         +0     < S- 1:1(0)
         +0     > . 1:1(0) ack 1
         +1     < S. 90000:90000(0) ack 1
         +0     > . 1:1(0) ack 1
         +0     error None");
}

//= test RFC 5961 5.2
//= test RFC 9293 3.10.7.4
#[test]
fn acknowledgement_of_what_was_never_sent_or_long_ago_is_answered_and_its_data_dropped() {
    // 4294927297 is -39999: more than the largest window ago.
    run("with mss 1000 win 30000
         +0     < P. 1:11(10) ack 5
         +0     > . 1:1(0) ack 1
         +0     nothing
         +1     < P. 1:11(10) ack 4294927297
         +0     > . 1:1(0) ack 1
         +0     nothing
         +1     < P. 1:11(10) ack 4294957297
         +0     > . 1:1(0) ack 11
         +0     read 10");
}

//= test RFC 9293 3.10.7.4
#[test]
fn segment_without_acknowledgement_is_dropped() {
    run("with mss 1000
         +0     < P- 1:11(10)
         +1     nothing");
}

//= test RFC 9293 3.10.7.4
#[test]
fn old_segment_does_not_update_the_window() {
    let world = run("with mss 1000 win 30000
         +0     < . 1:11(10) ack 1 win 20000
         +0     > . 1:1(0) ack 11
         +0     < . 11:21(10) ack 1 win 21000
         +0     > . 1:1(0) ack 21
         +0     < . 1:21(20) ack 1 win 500
         +0     > . 1:1(0) ack 21");
    assert_eq!(info(&world).send_window_bytes, 21_000);
}

#[test]
fn urgent_data_is_left_to_the_kernel() {
    let world = run("with mss 1000
         +0     < U. 1:11(10) ack 1
         +1     nothing");
    assert!(world.host.stack.tcp_readiness(world.id).expect("is here").urgent);
}
