//! Half-closed connections, resets of this end, and what is given to another owner.

use nearwire_stack::{ExportError, TcpCallError, TcpOptions};

use crate::script::run;

//= test RFC 9293 3.10.7.4
#[test]
fn fin_is_acknowledged_and_heard_of_after_the_data() {
    run("with mss 1000
         +0     < F. 11:11(0) ack 1
         +0     > . 1:1(0) ack 1
         +0     < P. 1:11(10) ack 1
         +0     > . 1:1(0) ack 12
         +0     read 10
         +0     eof
         +0     < F. 11:11(0) ack 1
         +0     > . 1:1(0) ack 12
         +0     write 10
         +0     > P. 1:11(10) ack 12");
}

#[test]
fn shut_connection_sends_its_fin_with_the_last_data_and_still_receives() {
    let world = run("with mss 1000
         +0     write 10
         +0     > P. 1:11(10)
         +0     write 10
         +0     shutdown
         +0     > FP. 11:21(10)
         +0.010 < . 1:1(0) ack 22
         +0     < P. 1:11(10) ack 22
         +0     > . 22:22(0) ack 11
         +0     read 10
         +0     < F. 11:11(0) ack 22
         +0     > . 22:22(0) ack 12
         +0     eof");
    assert!(world.host.stack.tcp_is_finished(world.id));
}

#[test]
fn lost_fin_is_sent_again() {
    run("with mss 1000
         +0     shutdown
         +0     > F. 1:1(0)
         +1     > F. 1:1(0)
         +2     > F. 1:1(0)
         +0.010 < . 1:1(0) ack 2
         +10    nothing");
}

//= test RFC 9293 3.10.5
//= test RFC 9293 3.10.7.1
#[test]
fn aborted_connection_sends_a_reset_and_answers_by_resets() {
    let mut world = run("with mss 1000 win 1000 rwin 30000
         +0     write 1500
         +0     > . 1:501(500)
         +0     > . 501:1001(500)
         +0     abort
         +0     > R. 1001:1001(0) ack 1
         +0     error Aborted
         +0.010 < . 1:1(0) ack 501
         +0     > R. 501:501(0)
         +0.010 < R. 1:1(0) ack 501
         +10    error Aborted");
    let written = world.host.stack.tcp_write(world.id, 0, b"x", false);
    assert!(matches!(written, Err(TcpCallError::Ended(_))));
}

#[test]
fn data_that_came_before_a_reset_is_read_before_the_error() {
    run("with mss 1000
         +0     < P. 1:11(10) ack 1
         +0     > . 1:1(0) ack 11
         +0     < R. 11:11(0) ack 1
         +0     error Reset
         +0     read 10");
}

#[test]
fn connection_is_given_away_until_a_fin() {
    let mut world = run("with mss 1000 win 1500 rwin 30000
         +0     write 2000
         +0     > . 1:751(750)
         +0     > . 751:1501(750)
         +0     < P. 1:11(10) ack 751 win 1500
         +0     > P. 1501:2001(500) ack 11");
    let facts = world.host.stack.tcp_export(world.id, 0).expect("is established");
    assert_eq!((facts.sent.len(), facts.unsent.len(), facts.unread.len()), (1250, 0, 10));
    assert_eq!(facts.window.receive_sequence, facts.next_sequence);
    assert_eq!(world.host.stack.tcp_export(world.id, 0), Err(ExportError::NoConnection));
    let again = world.host.stack.tcp_adopt(&facts, TcpOptions::default(), 0).expect("is not here");
    assert_eq!(world.host.stack.tcp_export(again, 0).map(|facts| facts.sent.len()), Ok(1250));
    for (script, error) in [
        ("with mss 1000\n +0 shutdown\n +0 > F. 1:1(0)", ExportError::FinSent),
        ("with mss 1000\n +0 < F. 1:1(0) ack 1\n +0 > . 1:1(0) ack 2", ExportError::PeerFin),
        ("with mss 1000\n +0 < R. 1:1(0) ack 1", ExportError::Ended),
    ] {
        let mut world = run(script);
        assert_eq!(world.host.stack.tcp_export(world.id, 0), Err(error));
    }
}
