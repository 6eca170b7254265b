//! Frames of 8000 bytes over a virtual cable with an MTU of 9000: measured, exchanged by accelerated programs, captured.

use std::net::UdpSocket;
use std::process::Stdio;

use crate::common::accelerated::Bed;
use crate::common::pcapng::read;
use crate::common::{code, command, errors, may_run, nearwire, record, text};
use nearwire_lab::Cable;

const HEADERS_BYTES: usize = 14 + 20 + 8;
const ROUNDS: usize = 100;
/// Both ways over all lengths, at and beside what fits into one and two buffers of packet memory.
const EXCHANGE: &str = "
LENGTHS = (8000, 10, 3798, 3799, 4054, 4055, 7638, 7639, 8972, 1472)
def datagram(number): return bytes((number + at) % 251 for at in range(LENGTHS[number % 10]))
one = bound(own, 7100)
one.settimeout(10)
step()
for number in range(100):
    if own == near: one.sendto(datagram(number), (far, 7100))
    said, where = one.recvfrom(9000)
    assert said == datagram(number), (number, len(said))
    if own == far: one.sendto(said, where)
step()
";

fn length(number: usize) -> usize {
    [8000, 10, 3798, 3799, 4054, 4055, 7638, 7639, 8972, 1472][number % 10]
}

pub(crate) fn is_kernel_since(version: u32, patch_level: u32) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(version), Some(patch_level))
}

/// Whether the kernel lets frames lie in several buffers (Linux 6.6).
pub(crate) fn has_multi_buffer() -> bool {
    is_kernel_since(6, 6)
}

#[test]
fn paths_are_measured_in_every_mode_without_loss() {
    if !may_run() || !has_multi_buffer() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.json");
    for mode in ["generic", "native"] {
        let mut args =
            vec!["bench", "frame/xdp", "udp/bypass", "udp/sockets", "--mtu", "9000", "--size", "8000", "--xdp", mode];
        args.extend([
            "--count",
            "200",
            "--rounds",
            "2",
            "--timeout",
            "1s",
            "--quiet",
            "--json",
            file.to_str().unwrap(),
        ]);
        let output = nearwire(&args);
        assert_eq!(code(&output), Some(0), "{mode}: {}", errors(&output));
        let record = record(&file);
        let runs = record["runs"].as_array().unwrap();
        // frame/xdp in two ways to send and two to receive.
        assert_eq!(runs.len(), 6, "{mode}: {}", text(&output));
        for run in runs {
            assert_eq!((run["samples"].as_u64(), run["lost"].as_u64()), (Some(200), Some(0)), "{mode}: {run}");
        }
    }
}

#[test]
fn kernel_without_frames_of_several_buffers_is_told_of() {
    if !may_run() || has_multi_buffer() {
        return;
    }
    let output =
        nearwire(&["bench", "frame/xdp", "--mtu", "9000", "--size", "8000", "--xdp", "generic", "--count", "20"]);
    let said = text(&output) + &errors(&output);
    assert!(code(&output) != Some(0) && said.contains("3840") && said.contains("Linux 6.6"), "{said}");
}

#[test]
fn datagrams_of_accelerated_programs_are_one_frame_each_and_captured_whole() {
    if !has_multi_buffer() {
        return;
    }
    for mode in ["generic", "native"] {
        let Some(bed) = Bed::lay_with_mtu(9000) else { return };
        let start = |end, own| bed.start(end, &format!("own = {own}\n{EXCHANGE}"), &[("NEARWIRE_MODE", mode)]);
        let (mut near, mut far) = (start(bed.cable.near(), "near"), start(bed.cable.far(), "far"));
        near.step();
        far.step();
        let file = bed.directory.path().join("near.pcapng");
        let mut capture = command(&["capture", "--pid", &near.pid(), "--count", "200", "-o"]);
        let mut capture = capture.arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(capture.stderr.as_mut().unwrap()), &mut first)
            .unwrap();
        far.say("");
        near.say("");
        near.step();
        far.step();
        let output = capture.wait_with_output().unwrap();
        assert_eq!(code(&output), Some(0), "{}", errors(&output));
        let packets = read(&file).packets;
        let lengths: Vec<usize> = packets.iter().map(|packet| packet.bytes.len()).collect();
        let wanted: Vec<usize> = (0..2 * ROUNDS).map(|frame| HEADERS_BYTES + length(frame / 2)).collect();
        assert_eq!(lengths, wanted, "{mode}");
        for (frame, packet) in packets.iter().enumerate() {
            let payload: Vec<u8> = (0..length(frame / 2)).map(|at| ((frame / 2 + at) % 251) as u8).collect();
            assert!(packet.bytes[HEADERS_BYTES..] == payload, "{mode}, frame {frame}");
        }
        for program in [near, far] {
            let output = program.end();
            assert_eq!((code(&output), errors(&output).as_str()), (Some(0), ""));
        }
    }
}

#[test]
fn frames_of_an_interface_are_captured_whole() {
    let Some(bed) = Bed::lay_with_mtu(9000) else { return };
    let file = bed.directory.path().join("far.pcapng");
    let mut capture = command(&["capture", "nw1", "--udp", "7000", "--count", "10", "-o"]);
    capture.arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut capture = bed.cable.far().namespace.enter(|| capture.spawn()).unwrap().unwrap();
    let mut first = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(capture.stderr.as_mut().unwrap()), &mut first).unwrap();
    let (near, far) = (bed.cable.near(), bed.cable.far());
    let sender = near.namespace.enter(|| UdpSocket::bind((near.ipv4, 0))).unwrap().unwrap();
    for number in 0..10 {
        sender.send_to(&vec![number as u8; length(number)], (far.ipv4, 7000)).unwrap();
    }
    let output = capture.wait_with_output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    let lengths: Vec<usize> = read(&file).packets.iter().map(|packet| packet.bytes.len()).collect();
    assert_eq!(lengths, (0..10).map(|number| HEADERS_BYTES + length(number)).collect::<Vec<_>>());
}
