use nearwire_frames::ports::memory::{FRAME_MOST_BYTES, MemoryPort, memory_pair};

use super::*;
use crate::function::{AnyFunction, Bridge, BridgeConfig, DropCause, Io, MacSwap};

/// A forwarder with far ends of its ports.
struct Device<F> {
    forwarder: Forwarder<MemoryPort, F>,
    far: Vec<MemoryPort>,
}

impl<F: Function> Device<F> {
    fn new(ports: usize, capacity_frames: usize, function: F) -> Device<F> {
        let (near, far) = (0..ports).map(|_| memory_pair(capacity_frames)).unzip();
        Device { forwarder: Forwarder::new(near, function), far }
    }

    /// Sends frames into a port.
    fn send(&mut self, port: usize, frames: &[Vec<u8>]) {
        for frame in frames {
            assert!(self.far[port].send(frame).unwrap());
        }
    }

    fn turn(&mut self) -> u32 {
        self.forwarder.turn(0).unwrap()
    }

    /// Takes what came out of a port.
    fn received(&mut self, port: usize) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.far[port].receive(<[u8]>::to_vec).unwrap()).collect()
    }

    fn drops(&self) -> Vec<(DropCause, u64)> {
        self.forwarder.drops().iter().collect()
    }
}

const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

fn frame(destination: [u8; 6], source: [u8; 6], payload: &[u8]) -> Vec<u8> {
    [&destination[..], &source[..], &[0x88, 0xb5], payload].concat()
}

/// Frames that can be told apart.
fn numbered(count: u16) -> Vec<Vec<u8>> {
    (0..count).map(|number| frame(B, A, &number.to_be_bytes())).collect()
}

#[test]
fn io_forwards_both_ways_unchanged_and_in_order() {
    let mut device = Device::new(2, 16, Io);
    let (there, back) = (numbered(5), vec![frame(A, B, b"back")]);
    device.send(0, &there);
    device.send(1, &back);
    assert_eq!(device.turn(), 6);
    assert_eq!((device.received(1), device.received(0)), (there, back));
    assert_eq!((device.turn(), device.drops()), (0, vec![]));
    let counts = device.forwarder.counts(0).unwrap();
    assert_eq!((counts.received_frames, counts.received_bytes), (5, 5 * 16));
    assert_eq!((counts.sent_frames, counts.sent_bytes, counts.refused_frames), (1, 18, 0));
    assert_eq!(device.forwarder.counts(2), None);
}

#[test]
fn io_with_four_ports_forwards_in_pairs_and_the_last_of_three_has_no_partner() {
    let mut device = Device::new(4, 16, Io);
    device.send(3, &numbered(1));
    device.turn();
    assert_eq!(device.received(2), numbered(1));
    let mut device = Device::new(3, 16, Io);
    device.send(2, &numbered(1));
    device.turn();
    assert_eq!(device.drops(), [(DropCause::NoSuchPort, 1)]);
}

#[test]
fn mac_swap_swaps_addresses_and_nothing_else() {
    let mut device = Device::new(2, 16, AnyFunction::MacSwap(MacSwap));
    device.send(0, &[frame(B, A, b"payload")]);
    device.turn();
    assert_eq!(device.received(1), [frame(A, B, b"payload")]);
}

#[test]
fn more_frames_than_a_burst_take_several_turns() {
    let mut device = Device::new(2, 256, Io);
    device.send(0, &numbered(150));
    assert_eq!([device.turn(), device.turn(), device.turn(), device.turn()], [BURST, BURST, 22, 0]);
    assert_eq!(device.received(1), numbered(150));
}

#[test]
fn full_egress_drops_with_a_cause_and_recovers() {
    let mut device = Device::new(2, 4, Io);
    device.send(0, &numbered(4));
    device.turn();
    device.send(0, &numbered(3));
    assert_eq!(device.turn(), 3);
    assert_eq!(device.drops(), [(DropCause::EgressFull, 3)]);
    assert_eq!(device.forwarder.counts(1).unwrap().refused_frames, 3);
    // The first frame was tried again after a flush, the others in this turn were not.
    assert_eq!(device.forwarder.ports().nth(1).unwrap().statistics().send_refused_frames, 4);
    assert_eq!(device.received(1), numbered(4));
    device.send(0, &numbered(2));
    device.turn();
    assert_eq!(device.received(1), numbered(2));
    assert_eq!(device.forwarder.drops().total(), 3);
}

#[test]
fn bridge_with_three_ports_floods_then_forwards() {
    let mut device = Device::new(3, 16, AnyFunction::L2(Bridge::new(BridgeConfig::default())));
    device.send(1, &[frame(B, A, b"who")]);
    device.turn();
    assert_eq!([device.received(0).len(), device.received(1).len(), device.received(2).len()], [1, 0, 1]);
    device.send(2, &[frame(A, B, b"me")]);
    device.turn();
    assert_eq!([device.received(0).len(), device.received(1).len(), device.received(2).len()], [0, 1, 0]);
    device.send(0, &[frame(A, [2; 6], b"far"), frame(B, [2; 6], b"farther")]);
    device.turn();
    assert_eq!([device.received(0).len(), device.received(1).len(), device.received(2).len()], [0, 1, 1]);
    assert_eq!(device.drops(), []);
}

#[test]
fn flood_at_a_full_port_reaches_the_others() {
    let mut device = Device::new(3, 2, Bridge::new(BridgeConfig::default()));
    device.send(0, &numbered(2));
    device.turn();
    assert_eq!(device.received(1), numbered(2));
    device.send(0, &numbered(1));
    device.turn();
    assert_eq!(device.received(1), numbered(1));
    assert_eq!(device.drops(), [(DropCause::EgressFull, 1)]);
}

#[test]
fn flood_without_another_port_is_dropped() {
    let mut device = Device::new(1, 2, Bridge::new(BridgeConfig::default()));
    device.send(0, &numbered(1));
    device.turn();
    assert_eq!(device.drops(), [(DropCause::NoSuchPort, 1)]);
}

#[test]
fn jumbo_and_tagged_frames_are_forwarded_whole() {
    let mut device = Device::new(2, 16, Bridge::new(BridgeConfig::default()));
    let mut tagged = frame(B, A, &[0; 1500]);
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let frames = vec![frame(B, A, &vec![7; FRAME_MOST_BYTES - 14]), tagged];
    device.send(0, &frames);
    device.turn();
    assert_eq!(device.received(1), frames);
}

#[test]
fn runts_are_dropped_by_every_function() {
    let functions =
        [AnyFunction::Io(Io), AnyFunction::MacSwap(MacSwap), AnyFunction::L2(Bridge::new(BridgeConfig::default()))];
    for function in functions {
        let mut device = Device::new(2, 16, function);
        device.send(0, &[vec![2; 1], vec![2; 13], frame(B, A, b"")]);
        device.turn();
        assert_eq!((device.drops(), device.received(1).len()), (vec![(DropCause::Runt, 2)], 1));
    }
}

/// Sends everything back where it came from.
struct Mirror;

impl Function for Mirror {
    fn judge(&mut self, _now_ns: u64, ingress: usize, _frame: &[u8]) -> Verdict {
        Verdict::Forward { egress: ingress, rewrite: Rewrite::SwapAddresses }
    }
}

#[test]
fn frame_that_leaves_where_it_came_in_is_sent_rewritten() {
    let mut device = Device::new(2, 4, Mirror);
    device.send(1, &[frame(B, A, b"back")]);
    device.turn();
    assert_eq!(device.received(1), [frame(A, B, b"back")]);
    assert_eq!(device.received(0), Vec::<Vec<u8>>::new());
}

#[test]
fn far_end_gone_turn_fails() {
    let mut device = Device::new(2, 4, Io);
    device.far.pop();
    assert!(matches!(device.forwarder.turn(0), Err(PortError::PeerGone)));
}
