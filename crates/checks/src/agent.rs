//! Messages between programs and the agent: any bytes are read or refused, and what is read is written as the same bytes.

use nearwire_agent::message::{Answer, MESSAGE_MOST_BYTES, Request};

/// The input as a message of either side; then its start as often as fits, so that lists are long.
pub fn check(input: &[u8]) {
    messages(input);
    if let Some((repeated, rest)) = input.split_at_checked(24) {
        messages(&[&repeated.repeat(rest.len() % 64 + 1), rest].concat());
    }
}

/// The one check of bytes that anybody may have sent: there is one way only to write a message.
pub fn messages(bytes: &[u8]) {
    if let Ok((request, number)) = Request::from_bytes(bytes) {
        assert_eq!(request.to_bytes(number), bytes, "{request:?}");
        assert!(Answer::from_bytes(bytes).is_err(), "a message is a request or an answer: {request:?}");
    }
    if let Ok((answer, number)) = Answer::from_bytes(bytes) {
        assert_eq!(answer.to_bytes(number), bytes, "{answer:?}");
        assert!(bytes.len() <= MESSAGE_MOST_BYTES);
    }
}
