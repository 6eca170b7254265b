//! iperf3: its control connection is TCP by the kernel, its datagrams are not.

use serde_json::Value;

use crate::bed::{Accelerated, Bed, Side, found_or_skip};

const PORT: u16 = 5201;
const STREAMS: usize = 3;

/// Two seconds of datagrams over several streams, slow enough that a reader which has to wait for a CPU loses none.
fn streams(accelerated: Accelerated, size_bytes: u32, bits_per_second: u32, direction: &str) {
    let Some([iperf3]) = found_or_skip(["iperf3"]) else { return };
    let bed = Bed::lay(accelerated);
    let server = bed.start(Side::Far, &iperf3, "-s -1 -J");
    bed.wait_for_listener(Side::Far, PORT);
    let address = bed.address(Side::Far);
    let client = format!("-c {address} -u -l {size_bytes} -b {bits_per_second} -P {STREAMS} -t 2 -J {direction}");
    let client = bed.start(Side::Near, &iperf3, &client);
    bed.count_from_here(STREAMS);
    let client = client.succeed();
    let server = server.succeed();
    let mut packets = 0;
    for text in [&client, &server] {
        let record: Value = serde_json::from_str(text).unwrap();
        let streams = record["end"]["streams"].as_array().unwrap_or_else(|| panic!("{text}"));
        assert_eq!(streams.len(), STREAMS, "{text}");
        let count = |name: &str| streams.iter().map(|stream| stream["udp"][name].as_u64().unwrap()).collect::<Vec<_>>();
        assert_eq!((count("lost_packets"), count("out_of_order")), (vec![0; STREAMS], vec![0; STREAMS]), "{text}");
        assert!(count("packets").iter().all(|packets| *packets > 100), "{text}");
        packets = count("packets").iter().sum();
    }
    // The last ones may be under way when the receiver is told of the end.
    let moved = packets - packets / 20;
    let (to_far, to_near) = if direction.is_empty() { (moved, 0) } else { (0, moved) };
    bed.assert_paths_each_way(to_far, to_near);
}

#[test]
fn iperf_of_large_datagrams_loses_none() {
    for accelerated in Accelerated::EACH {
        streams(accelerated, 1400, 4_000_000, "");
    }
}

#[test]
fn iperf_of_large_datagrams_back_loses_none() {
    for accelerated in Accelerated::EACH {
        streams(accelerated, 1400, 4_000_000, "-R");
    }
}

#[test]
fn iperf_of_small_datagrams_loses_none() {
    for accelerated in Accelerated::EACH {
        streams(accelerated, 64, 200_000, "");
    }
    streams(Accelerated::BOTH, 64, 200_000, "-R");
}
