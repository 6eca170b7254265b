//! What congestion, marks and idle times do to the window (RFC 5681, RFC 3168).

use crate::info;
use crate::script::run;

//= test RFC 5681 4.1
#[test]
fn idle_connection_sends_no_more_than_the_initial_window() {
    run("with mss 1000 win 60000
         +0     write 10000
         +0     > . 1:1001(1000)
         +0     > . 1001:2001(1000)
         +0     > . 2001:3001(1000)
         +0     > . 3001:4001(1000)
         +0     > . 4001:5001(1000)
         +0     > . 5001:6001(1000)
         +0     > . 6001:7001(1000)
         +0     > . 7001:8001(1000)
         +0     > . 8001:9001(1000)
         +0     > P. 9001:10001(1000)
         +0.010 < . 1:1(0) ack 10001 win 60000
         +10    write 11000
         +0     > . 10001:11001(1000)
         +0     > . 11001:12001(1000)
         +0     > . 12001:13001(1000)
         +0     > . 13001:14001(1000)
         +0     > . 14001:15001(1000)
         +0     > . 15001:16001(1000)
         +0     > . 16001:17001(1000)
         +0     > . 17001:18001(1000)
         +0     > . 18001:19001(1000)
         +0     > . 19001:20001(1000)
         +0.005 < . 1:1(0) ack 20001 win 60000
         +0     > P. 20001:21001(1000)");
}

//= test RFC 3168 6.1.2
//= test RFC 3168 6.1.2
#[test]
fn echo_of_a_mark_lowers_the_window_once_and_is_answered() {
    let world = run("with sack ecn nodelay mss 1000 win 60000
         +0     write 3000
         +0     > . 1:1001(1000) [ect]
         +0     > . 1001:2001(1000) [ect]
         +0     > P. 2001:3001(1000) [ect]
         +0.010 < E. 1:1(0) ack 1001 win 60000
         +0     < E. 1:1(0) ack 2001 win 60000
         +0     write 500
         +0     > PW. 3001:3501(500) [ect]
         +0     write 500
         +0     > P. 3501:4001(500) [ect]");
    assert_eq!(info(&world).slow_start_threshold_bytes, 7000);
}

//= test RFC 3168 6.1.3
//= test RFC 3168 6.1.5
#[test]
fn mark_is_echoed_until_the_far_end_has_heard_and_acknowledgements_are_not_capable() {
    run("with sack ecn nodelay mss 1000
         +0     < P. 1:11(10) ack 1 [ce]
         +0     > E. 1:1(0) ack 11 [no]
         +0     < P. 11:21(10) ack 1
         +0     > E. 1:1(0) ack 21 [no]
         +0     < PW. 21:31(10) ack 1
         +0     > . 1:1(0) ack 31 [no]
         +0     write 100
         +0     > P. 1:101(100) [ect]
         +1     > P. 1:101(100) [no]");
}
