//! Windows of both directions (RFC 9293 section 3.8.6, RFC 7323 section 2).

use crate::info;
use crate::script::run;

//= test RFC 9293 3.8.6.1
#[test]
fn closed_window_is_probed_with_growing_intervals() {
    run("with mss 1000 win 1000 rwin 30000
         +0     write 1500
         +0     > . 1:501(500) ack 1
         +0     > . 501:1001(500) ack 1
         +0.010 < . 1:1(0) ack 1001 win 0
         +0.210 > . 1000:1000(0) ack 1
         +0.010 < . 1:1(0) ack 1001 win 0
         +0.410 > . 1000:1000(0) ack 1
         +0.010 < . 1:1(0) ack 1001 win 0
         +0.830 > . 1000:1000(0) ack 1
         +0.010 < . 1:1(0) ack 1001 win 1000
         +0     > P. 1001:1501(500) ack 1");
}

//= test RFC 9293 3.8.6.2.1
#[test]
fn segment_is_not_cut_to_a_small_window_before_a_timeout() {
    run("with mss 1000 win 1500 rwin 30000
         +0     write 3000
         +0     > . 1:751(750)
         +0     > . 751:1501(750)
         +0.010 < . 1:1(0) ack 1501 win 700
         +0.210 > . 1501:2201(700)");
}

//= test RFC 9293 3.8.6.2.2
//= test RFC 9293 3.8.6.2.2
#[test]
fn window_closes_without_shrinking_and_opens_by_a_segment() {
    run("with mss 1000 win 30000 rwin 4000 rcvbuf 4000
         +0     < . 1:1001(1000) ack 1
         +0     > . 1:1(0) ack 1001 win 3000
         +0     < . 1001:2001(1000) ack 1
         +0     > . 1:1(0) ack 2001 win 2000
         +0     < . 2001:3001(1000) ack 1
         +0     > . 1:1(0) ack 3001 win 1000
         +0     < . 3001:4001(1000) ack 1
         +0.040 > . 1:1(0) ack 4001 win 0
         +0     read 900
         +0     read 100
         +0     > . 1:1(0) ack 4001 win 1000
         +0     read 3000
         +0     > . 1:1(0) ack 4001 win 4000");
}

//= test RFC 9293 3.10.7.4
#[test]
fn with_a_closed_window_acknowledgements_are_taken_and_data_is_refused() {
    let world = run("with mss 1000 win 30000 rwin 1000 rcvbuf 1000
         +0     < . 1:1001(1000) ack 1
         +0     > . 1:1(0) ack 1001 win 0
         +0     write 100
         +0     > P. 1:101(100) ack 1001 win 0
         +0.010 < . 1001:1002(1) ack 101
         +0     > . 101:101(0) ack 1001 win 0");
    assert_eq!(info(&world).unacknowledged_bytes, 0);
}

#[test]
fn window_grows_with_what_comes() {
    let world = run("with mss 1000 wscale 7 win 30000 rwin 64000
         +0     < . 1:1001(1000) ack 1 win 300
         +0     > . 1:1(0) ack 1001 win 519
         +0     read 1000
         +0     < . 1001:2001(1000) ack 1 win 300
         +0     > . 1:1(0) ack 2001 win 535");
    // 65536 and twice what came, without what waits to be read.
    assert_eq!(info(&world).receive_window_bytes, 535 << 7);
}

//= test RFC 7323 2.3
//= test RFC 7323 2.3
#[test]
fn windows_are_scaled_in_both_directions() {
    let world = run("with mss 1000 wscale 7 win 30000 rwin 51200 rcvbuf 51200
         +0     < . 1:1001(1000) ack 1 win 300
         +0     > . 1:1(0) ack 1001 win 393");
    // 51200 - 1000 = 50200, rounded up to 128, as the window must not shrink.
    assert_eq!((info(&world).send_window_bytes, info(&world).receive_window_bytes), (300 << 7, 393 << 7));
}
