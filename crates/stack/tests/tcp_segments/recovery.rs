//! Losses: the retransmission timer (RFC 6298), duplicates (RFC 5681, RFC 6582), RACK and tail probes (RFC 8985).

use crate::info;
use crate::script::run;

//= test RFC 6298 5.1
//= test RFC 6298 5.2
//= test RFC 6298 5.6
//= test RFC 6298 3
#[test]
fn segment_without_acknowledgement_is_sent_again_with_growing_intervals() {
    let world = run("with mss 1000
         +0     write 1000
         +0     > P. 1:1001(1000)
         +1     > P. 1:1001(1000)
         +2     > P. 1:1001(1000)
         +4     > P. 1:1001(1000)
         +0.010 < . 1:1(0) ack 1001
         +100   error None");
    assert_eq!(info(&world).smoothed_round_trip_ns, 0, "which of the four came is not known");
}

//= test RFC 6298 5.3
#[test]
fn acknowledged_data_restarts_the_timer() {
    // A round trip of 0.5 s, a variation of 0.25 s.
    run("with mss 1000
         +0     write 2000
         +0     > . 1:1001(1000)
         +0     > P. 1001:2001(1000)
         +0.5   < . 1:1(0) ack 1001
         +1.5   > P. 1001:2001(1000)");
}

//= test RFC 5681 3.1
//= test RFC 5681 3.1
#[test]
fn after_a_timeout_one_segment_is_sent_and_the_threshold_goes_down_once() {
    let world = run("with mss 1000 reno
         +0     write 4000
         +0     > . 1:1001(1000)
         +0     > . 1001:2001(1000)
         +0     > . 2001:3001(1000)
         +0     > P. 3001:4001(1000)
         +1     > P. 1:1001(1000)
         +2     > P. 1:1001(1000)");
    assert_eq!((info(&world).congestion_window_bytes, info(&world).slow_start_threshold_bytes), (1000, 2000));
}

//= test RFC 5681 3.2
//= test RFC 6582 3.2
#[test]
fn third_duplicate_has_the_segment_sent_again_and_a_partial_acknowledgement_the_next() {
    run("with mss 1000 reno
         +0     write 13000
         +0     > . 1:1001(1000)
         +0     > . 1001:2001(1000)
         +0     > . 2001:3001(1000)
         +0     > . 3001:4001(1000)
         +0     > . 4001:5001(1000)
         +0     > . 5001:6001(1000)
         +0     > . 6001:7001(1000)
         +0     > . 7001:8001(1000)
         +0     > . 8001:9001(1000)
         +0     > . 9001:10001(1000)
         +0.010 < . 1:1(0) ack 1001
         +0     > . 10001:11001(1000)
         +0     > . 11001:12001(1000)
         +0     < . 1:1(0) ack 1001
         # Limited transmit (RFC 3042).
         +0     > P. 12001:13001(1000)
         +0     < . 1:1(0) ack 1001
         +0     < . 1:1(0) ack 1001
         +0     > P. 1001:2001(1000)
         +0     < . 1:1(0) ack 1001
         +0.010 < . 1:1(0) ack 3001
         +0     > P. 3001:4001(1000)");
}

//= test RFC 8985 6.2
#[test]
fn three_segments_beyond_a_hole_are_a_loss_at_once_and_two_after_a_quarter_of_the_round_trip() {
    run("with sack mss 1000
         +0     write 5000
         +0     > . 1:1001(1000)
         +0     > . 1001:2001(1000)
         +0     > . 2001:3001(1000)
         +0     > . 3001:4001(1000)
         +0     > P. 4001:5001(1000)
         +0.040 < . 1:1(0) ack 1 sack 1001:4001
         +0     > P. 1:1001(1000)");
    run("with sack mss 1000
         +0     write 5000
         +0     > . 1:1001(1000)
         +0     > . 1001:2001(1000)
         +0     > . 2001:3001(1000)
         +0     > . 3001:4001(1000)
         +0     > P. 4001:5001(1000)
         +0.040 < . 1:1(0) ack 1 sack 1001:3001
         +0.010 > P. 1:1001(1000)");
}

//= test RFC 8985 7.2
#[test]
fn without_a_round_trip_the_timer_of_the_tail_does_not_delay_the_timeout() {
    run("with sack mss 1000
         +0     write 1000
         +0     > P. 1:1001(1000)
         +1     > P. 1:1001(1000)
         +2     > P. 1:1001(1000)");
}

//= test RFC 8985 7.3
//= test RFC 8985 7.3
//= test RFC 8985 7.4
#[test]
fn lost_last_segment_is_sent_once_more_before_the_timeout_and_counts_as_congestion() {
    // Round trip 10 ms, variation 5 ms: the probe after 10 + 4 * 5 + 1 ms, the timeout 210 ms later.
    run("with sack mss 1000
         +0     write 1000
         +0     > P. 1:1001(1000)
         +0.010 < . 1:1(0) ack 1001
         +0     write 1000
         +0     > P. 1001:2001(1000)
         +0.031 > P. 1001:2001(1000)
         +0.210 > P. 1001:2001(1000)");
    let world = run("with sack mss 1000
         +0     write 1000
         +0     > P. 1:1001(1000)
         +0.010 < . 1:1(0) ack 1001
         +0     write 1000
         +0     > P. 1001:2001(1000)
         +0.031 > P. 1001:2001(1000)
         +0.010 < . 1:1(0) ack 2001
         +0     write 1000
         +0     > P. 2001:3001(1000)
         +0.010 < . 1:1(0) ack 3001");
    assert_eq!(info(&world).slow_start_threshold_bytes, 7000);
}

#[test]
fn lost_last_segment_on_a_path_of_100_us_is_repaired_within_two_milliseconds() {
    run("with sack mss 1000 nodelay
         +0     write 100
         +0     > P. 1:101(100)
         +0.0001 < . 1:1(0) ack 101
         +0     write 100
         +0     > P. 101:201(100)
         +0.0013 > P. 101:201(100)");
}

//= test RFC 2883 4
#[test]
fn probe_that_arrives_twice_is_no_congestion() {
    let world = run("with sack mss 1000
         +0     write 1000
         +0     > P. 1:1001(1000)
         +0.010 < . 1:1(0) ack 1001
         +0     write 1000
         +0     > P. 1001:2001(1000)
         +0.031 > P. 1001:2001(1000)
         +0.010 < . 1:1(0) ack 2001
         +0     < . 1:1(0) ack 2001 sack 1001:2001
         +0     write 1000
         +0     > P. 2001:3001(1000)
         +0.010 < . 1:1(0) ack 3001");
    assert_eq!((info(&world).duplicate_reports, info(&world).slow_start_threshold_bytes), (1, u32::MAX));
}

/// The far end delays acknowledgements while its program computes, and says of each probe that it has the segment.
#[test]
fn probe_that_was_for_nothing_has_the_next_wait_longer_until_one_repairs_a_loss() {
    run("with sack mss 1000 nodelay
         +0     write 100
         +0     > P. 1:101(100)
         +0.0001 < . 1:1(0) ack 101
         +0     write 100
         +0     > P. 101:201(100)
         +0.0013 > P. 101:201(100)
         +0.0001 < . 1:1(0) ack 201 sack 101:201
         +0     write 100
         +0     > P. 201:301(100)
         +0.0026 > P. 201:301(100)
         +0.0001 < . 1:1(0) ack 301 sack 201:301
         +0     write 100
         +0     > P. 301:401(100)
         +0.0052 > P. 301:401(100)
         +0.0001 < . 1:1(0) ack 401
         +0     write 100
         +0     > P. 401:501(100)
         +0.0001 < . 1:1(0) ack 501
         +0     write 100
         +0     > P. 501:601(100)
         +0.00128 > P. 501:601(100)");
}

//= test RFC 8985 7.3
#[test]
fn tail_is_probed_with_new_data_though_the_congestion_window_is_full() {
    run("with sack mss 1000
         +0     write 1000
         +0     > P. 1:1001(1000)
         +0.010 < . 1:1(0) ack 1001
         +0     write 12000
         +0     > . 1001:2001(1000)
         +0     > . 2001:3001(1000)
         +0     > . 3001:4001(1000)
         +0     > . 4001:5001(1000)
         +0     > . 5001:6001(1000)
         +0     > . 6001:7001(1000)
         +0     > . 7001:8001(1000)
         +0     > . 8001:9001(1000)
         +0     > . 9001:10001(1000)
         +0     > . 10001:11001(1000)
         +0.020 > . 11001:12001(1000)");
}

/// It had no segment to repeat then, and a subtraction overflowed.
#[test]
fn tail_that_is_acknowledged_before_its_probe_found_room_is_not_probed() {
    run("with sack mss 1000
         +0     write 1000
         +0     > P. 1:1001(1000)
         +0.010 < . 1:1(0) ack 1001
         +0     write 1000
         +0     > P. 1001:2001(1000)
         +0     full
         +0     < . 1:1(0) ack 2001
         +10    error None");
}

//= test RFC 2018 8
#[test]
fn block_that_the_far_end_took_back_is_sent_again() {
    run("with sack mss 1000
         +0     write 3000
         +0     > . 1:1001(1000)
         +0     > . 1001:2001(1000)
         +0     > P. 2001:3001(1000)
         +0.010 < . 1:1(0) ack 1 sack 1001:2001
         +0     < . 1:1(0) ack 1001
         +0.210 > P. 1001:2001(1000)");
}

//= test RFC 9293 3.8.3
//= test RFC 9293 3.8.3
#[test]
fn far_end_that_does_not_answer_is_given_up_after_minutes_or_when_the_program_says() {
    run("with mss 1000
         +0     write 1000
         +0     > P. 1:1001(1000)
         +1     > P. 1:1001(1000)
         +2     > P. 1:1001(1000)
         +4     > P. 1:1001(1000)
         +8     > P. 1:1001(1000)
         +16    > P. 1:1001(1000)
         +32    > P. 1:1001(1000)
         +64    > P. 1:1001(1000)
         +1     error None
         +119   > P. 1:1001(1000)
         +120   > P. 1:1001(1000)
         +120   > P. 1:1001(1000)
         +120   > P. 1:1001(1000)
         +120   > P. 1:1001(1000)
         +120   > P. 1:1001(1000)
         +121   error TimedOut");
    run("with mss 1000 usertimeout 3
         +0     write 1000
         +0     > P. 1:1001(1000)
         +1     > P. 1:1001(1000)
         +1.9   error None
         +0.101 error TimedOut");
}
