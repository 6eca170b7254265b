//! A message laid out in advance leaves as the same frame, with the same consequences, as one that is written.

use nearwire_stack::{ConnectionId, PreparedMessage, Stack, TcpCallError, TcpOptions};
use proptest::prelude::*;

use crate::common::tcp::{Agreed, frames, segment};
use crate::common::{Host, at, host, v4, v6};

const NOW_NS: u64 = 1_000_000;

fn adopted(agreed: Agreed, six: bool, options: TcpOptions) -> (Host, ConnectionId) {
    let mut host = host(1, &[2]);
    let [own, far] = if six { [v6(1), v6(2)] } else { [v4(1), v4(2)] };
    let id = host.stack.tcp_adopt(&agreed.facts(0, at(own, 4000), at(far, 80)), options, NOW_NS).expect("adoptable");
    (host, id)
}

/// What a port does with a message that lies in one of its frames: the frame, where headers alone could be written.
fn send(stack: &mut Stack, id: ConnectionId, now_ns: u64, message: &PreparedMessage, frame: &mut [u8]) -> bool {
    stack.tcp_write_whole(id, now_ns, message.bytes()).expect("has room");
    let Some(segment) = stack.tcp_transmit(id, now_ns) else { return false };
    if segment.len_bytes() != frame.len() || !segment.is_all_new(message.bytes().len()) {
        return false;
    }
    assert_eq!(segment.write_headers(frame, message), frame.len());
    true
}

proptest! {
    #[test]
    fn message_prepared_leaves_as_the_frame_of_one_written(
        bytes in proptest::collection::vec(any::<u8>(), 1..1400),
        patches in proptest::collection::vec((any::<prop::sample::Index>(), any::<[u8; 3]>()), 0..4),
        six: bool,
        timestamps: bool,
    ) {
        let agreed = Agreed { timestamps: timestamps.then_some([7, 9]), ..Agreed::default() };
        let options = TcpOptions { no_delay: true, ..TcpOptions::default() };
        let ((mut host, id), (mut other, written)) = (adopted(agreed, six, options), adopted(agreed, six, options));
        let mut message = PreparedMessage::new(&bytes);
        let (headers_bytes, _) = host.stack.tcp_layout(id).expect("the way is known");
        let mut frame = vec![0xee; headers_bytes];
        frame.extend(&bytes);
        for turn in 0..3_u64 {
            for (at, patch) in &patches {
                let at = at.index(bytes.len());
                if message.patch(at, patch) {
                    frame[headers_bytes + at..headers_bytes + at + patch.len()].copy_from_slice(patch);
                }
            }
            let now_ns = NOW_NS + turn * 1_000_000;
            prop_assert!(send(&mut host.stack, id, now_ns, &message, &mut frame));
            other.stack.tcp_write(written, now_ns, message.bytes(), false).expect("has room");
            prop_assert_eq!(&vec![frame.clone()], &frames(&mut other.stack, now_ns));
            prop_assert_eq!(frames(&mut host.stack, now_ns), Vec::<Vec<u8>>::new());
            prop_assert_eq!(host.stack.tcp_info(id), other.stack.tcp_info(written));
        }
        // Nothing is acknowledged: both send the same again, at the same time.
        let again = loop {
            let deadline_ns = other.stack.next_deadline().expect("a timer runs");
            prop_assert_eq!(host.stack.next_deadline(), Some(deadline_ns));
            let [one, two] = [&mut host.stack, &mut other.stack].map(|stack| frames(stack, deadline_ns));
            prop_assert_eq!(&one, &two);
            if !one.is_empty() {
                break one;
            }
        };
        let payloads: Vec<_> = again.iter().map(|frame| segment(frame).expect("a segment").2).collect();
        prop_assert_eq!(payloads.last(), Some(&message.bytes()));
    }
}

#[test]
fn message_behind_unsent_bytes_is_no_segment_of_its_own() {
    let (mut host, id) = adopted(Agreed::default(), false, TcpOptions::default());
    for held in [false, true] {
        host.stack.tcp_write(id, NOW_NS, &[1; 10], false).expect("has room");
        assert_eq!(frames(&mut host.stack, NOW_NS).is_empty(), held, "by Nagle's rule one piece is out");
    }
    let message = PreparedMessage::new(&[2; 50]);
    let (headers_bytes, _) = host.stack.tcp_layout(id).expect("the way is known");
    assert!(!send(&mut host.stack, id, NOW_NS, &message, &mut vec![0; headers_bytes + 50]));
    assert_eq!(host.stack.tcp_info(id).expect("is here").unsent_bytes, 60);
}

#[test]
fn message_for_which_there_is_not_all_the_room_is_not_taken_in_part() {
    let options = TcpOptions { send_buffer_bytes: 100, ..TcpOptions::default() };
    let (mut host, id) = adopted(Agreed::default(), false, options);
    assert_eq!(host.stack.tcp_write_whole(id, NOW_NS, &[1; 101]), Err(TcpCallError::WouldBlock));
    assert_eq!(host.stack.tcp_write_whole(id, NOW_NS, &[1; 100]), Ok(()));
    let sent = frames(&mut host.stack, NOW_NS);
    assert_eq!(sent.iter().map(|frame| segment(frame).expect("a segment").2.len()).sum::<usize>(), 100);
}
