use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
const SECOND_NS: u64 = 1_000_000_000;

fn frame(destination: [u8; 6], source: [u8; 6], vlan_id: Option<u16>) -> Vec<u8> {
    let mut frame = [destination, source].concat();
    if let Some(vlan_id) = vlan_id {
        frame.extend([0x81, 0]);
        frame.extend((0x6000 | vlan_id).to_be_bytes());
    }
    frame.extend([0x88, 0xb5, 1, 2, 3]);
    frame
}

fn to(egress: usize) -> Verdict {
    Verdict::Forward { egress, rewrite: Rewrite::None }
}

#[test]
fn unknown_destination_is_flooded_until_it_was_heard() {
    let mut bridge = Bridge::new(BridgeConfig::default());
    assert_eq!(bridge.judge(0, 0, &frame(B, A, None)), Verdict::Flood);
    assert_eq!(bridge.judge(1, 2, &frame(A, B, None)), to(0));
    assert_eq!(bridge.judge(2, 0, &frame(B, A, None)), to(2));
    assert_eq!(bridge.judge(3, 2, &frame(B, A, None)), Verdict::Drop(DropCause::SamePort));
}

#[test]
fn station_not_heard_for_the_ageing_time_is_forgotten() {
    let mut bridge = Bridge::new(BridgeConfig::default());
    bridge.judge(0, 1, &frame(B, A, None));
    assert_eq!(bridge.judge(300 * SECOND_NS, 0, &frame(A, B, None)), to(1));
    assert_eq!(bridge.judge(300 * SECOND_NS + 1, 0, &frame(A, B, None)), Verdict::Flood);
}

#[test]
fn stations_of_other_vlans_are_not_known() {
    let mut bridge = Bridge::new(BridgeConfig::default());
    bridge.judge(0, 1, &frame(B, A, Some(7)));
    assert_eq!(bridge.judge(0, 0, &frame(A, B, Some(7))), to(1));
    assert_eq!(bridge.judge(0, 0, &frame(A, B, Some(8))), Verdict::Flood);
    assert_eq!(bridge.judge(0, 0, &frame(A, B, None)), Verdict::Flood);
    // A priority tag (802.1Q clause 6.9.1) names no VLAN.
    assert_eq!(bridge.judge(0, 2, &frame(A, B, Some(0))), Verdict::Flood);
    assert_eq!(bridge.judge(0, 0, &frame(B, A, None)), to(2));
    assert_eq!(bridge.judge(0, 0, &frame(A, B, Some(4095))), Verdict::Drop(DropCause::ReservedVlan));
}

#[test]
fn groups_are_flooded_and_reserved_ones_not() {
    let mut bridge = Bridge::new(BridgeConfig::default());
    for group in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [1, 0x80, 0xc2, 0, 0, 0x10]] {
        assert_eq!(bridge.judge(0, 0, &frame(group, A, None)), Verdict::Flood);
    }
    for last in 0..16 {
        let verdict = bridge.judge(0, 0, &frame([1, 0x80, 0xc2, 0, 0, last], A, None));
        assert_eq!(verdict, Verdict::Drop(DropCause::ReservedGroup));
    }
}

#[test]
fn group_as_source_is_not_learned() {
    let group = [3, 0, 0, 0, 0, 1];
    let mut bridge = Bridge::new(BridgeConfig::default());
    assert_eq!(bridge.judge(0, 0, &frame(A, group, None)), Verdict::Flood);
    assert_eq!(bridge.port_of(0, group, 0), None);
}

#[test]
fn frame_that_ends_in_its_header_is_a_runt() {
    let mut bridge = Bridge::new(BridgeConfig::default());
    for len_bytes in 0..18 {
        let verdict = bridge.judge(0, 0, &frame(B, A, Some(7))[..len_bytes]);
        assert_eq!(verdict, Verdict::Drop(DropCause::Runt), "{len_bytes}");
    }
    assert_eq!(bridge.judge(0, 0, &frame(B, A, Some(7))[..18]), Verdict::Flood);
}

#[test]
fn station_that_moves_often_in_a_second_is_a_loop_and_a_slow_one_is_not() {
    let mut bridge = Bridge::new(BridgeConfig { moves_per_second_most: 3, ..BridgeConfig::default() });
    for (turn, now_ns) in (0..20).map(|turn| (turn, turn as u64 * SECOND_NS / 2)) {
        bridge.judge(now_ns, turn % 2, &frame(B, A, Some(9)));
    }
    assert_eq!(bridge.loop_seen(), None);
    for now_ns in 100 * SECOND_NS..100 * SECOND_NS + 4 {
        bridge.judge(now_ns, now_ns as usize % 2, &frame(B, A, Some(9)));
    }
    // The first of the four was at the port where the station was not before.
    let seen = Loop { address: A, vlan_id: 9, ports: [0, 1] };
    assert_eq!(bridge.loop_seen(), Some(seen));
}

#[test]
fn station_that_comes_back_elsewhere_after_the_ageing_time_has_not_moved() {
    let mut bridge = Bridge::new(BridgeConfig { moves_per_second_most: 0, ..BridgeConfig::default() });
    bridge.judge(0, 0, &frame(B, A, None));
    bridge.judge(301 * SECOND_NS, 1, &frame(B, A, None));
    assert_eq!((bridge.port_of(301 * SECOND_NS, A, 0), bridge.loop_seen()), (Some(1), None));
    bridge.judge(302 * SECOND_NS, 0, &frame(B, A, None));
    assert_eq!(bridge.loop_seen().map(|seen| seen.ports), Some([1, 0]));
}

/// A frame of the model: (source, destination, VLAN, port, time passed).
type Step = (u8, u8, Option<u16>, usize, u64);

proptest! {
    #[test]
    fn any_frames_go_where_a_simple_model_says(
        steps in proptest::collection::vec(
            (0..12_u8, 0..12_u8, prop_oneof![Just(None), Just(Some(1)), Just(Some(2))], 0..4_usize, 0..40_u64), 1..200,
        ),
    ) {
        let steps: Vec<Step> = steps;
        let mut bridge = Bridge::new(BridgeConfig { ageing_ns: 100, ..BridgeConfig::default() });
        let mut model: HashMap<(u8, Option<u16>), (usize, u64)> = HashMap::new();
        let mut now_ns = 0;
        for (source, destination, vlan_id, ingress, passed_ns) in steps {
            now_ns += passed_ns;
            let address = |number| [2, 0, 0, 0, 0, number];
            let verdict = bridge.judge(now_ns, ingress, &frame(address(destination), address(source), vlan_id));
            model.insert((source, vlan_id), (ingress, now_ns));
            let known = model.get(&(destination, vlan_id)).filter(|(_, heard_ns)| now_ns - heard_ns <= 100);
            let wanted = match known {
                None => Verdict::Flood,
                Some((port, _)) if *port == ingress => Verdict::Drop(DropCause::SamePort),
                Some((port, _)) => to(*port),
            };
            prop_assert_eq!(verdict, wanted);
        }
    }

    #[test]
    fn any_bytes_give_a_verdict(frames: Vec<(Vec<u8>, u64)>) {
        let mut bridge = Bridge::new(BridgeConfig::default());
        for (frame, now_ns) in frames {
            bridge.judge(now_ns, 0, &frame);
        }
    }
}
