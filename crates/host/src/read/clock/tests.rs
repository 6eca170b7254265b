use proptest::prelude::*;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// What chronyd 4.3 answered half a second after `chronyc tracking` had said "System time : 0.000001969 seconds fast of NTP
/// time", which it makes smaller all the time, and "Root delay : 0.000008830 seconds", which stays.
const TRACKING: &str = "060200000021000500000000000000001234567800000000000000000a0909020a0909020000000000000000000000000001000000040000000000006b0b71b3068ac62bdd52164edb4b8a11e0935e70f741f759fd07d9c500d90ef8e2942490de99dbd404814bb4";

#[test]
fn answer_of_chronyd_is_the_offset_that_chronyc_prints() {
    let answer = bytes(TRACKING);
    assert_eq!(of_tracking(&answer), Some(Followed { offset_ns: 1296, is_lost: false }));
    let float = |at: usize| seconds(u32::from_be_bytes(answer[at..at + 4].try_into().unwrap()));
    assert_eq!(format!("{:.9} {:.1}", float(92), float(100)), "0.000008830 1.0");
    let printed = "Reference ID    : 0A090902 (10.9.9.2)\nSystem time     : 0.000001969 seconds fast of NTP time\nLeap status     : Normal\n";
    assert_eq!(of_chronyc(printed), Some(Followed { offset_ns: 1969, is_lost: false }));
    let slow = printed.replace("fast", "slow").replace("Normal", "Not synchronised");
    assert_eq!(of_chronyc(&slow), Some(Followed { offset_ns: -1969, is_lost: true }));
    let mut lost = bytes(TRACKING);
    lost[LEAP_AT + 1] = 3;
    assert!(of_tracking(&lost).unwrap().is_lost);
    // Another version of the protocol, and a refusal.
    for (at, byte) in [(0, 7), (9, 2), (7, 4)] {
        let mut other = bytes(TRACKING);
        other[at] = byte;
        assert_eq!(of_tracking(&other), None, "{at}");
    }
}

/// What ptp4l 3.1.1 answered while it followed a clock over a virtual cable.
const TIME_STATUS_ANSWER: &str = "0d020068000000000000000000000000000000003e87abfffe844dc800000000047f00000000000000005ddb0000020000010034c000000000000000022218ec5c8da219b0980000000000000000000000000000000000000000000000000001de5f56fffed3e711";

#[test]
fn answer_of_ptp4l_is_the_offset_from_the_clock_of_the_network() {
    assert_eq!(of_time_status(&bytes(TIME_STATUS_ANSWER)), Some(Followed { offset_ns: 546, is_lost: false }));
    let mut lost = bytes(TIME_STATUS_ANSWER);
    lost[PRESENT_AT + 3] = 0;
    assert!(of_time_status(&lost).unwrap().is_lost);
    // The answer to a question that the daemon does not know is an error in another TLV.
    let mut refused = bytes(TIME_STATUS_ANSWER);
    refused[TLV_AT + 1] = 2;
    assert_eq!(of_time_status(&refused), None);
}

/// The daemon's socket, answered as ptp4l answers.
#[test]
fn ptp4l_is_asked_at_its_socket_and_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ptp4l");
    let daemon = UnixDatagram::bind(&path).unwrap();
    let answers = std::thread::spawn(move || {
        let mut request = [0; 1500];
        let (length, from) = daemon.recv_from(&mut request).unwrap();
        // As pmc(8) sends it, for domain 24.
        assert_eq!(request[..length], *time_status_request(24));
        daemon.send_to_addr(&bytes(TIME_STATUS_ANSWER), &from).unwrap();
    });
    let answer = exchange(path.to_str().unwrap(), &time_status_request(24)).unwrap();
    answers.join().unwrap();
    assert_eq!(of_time_status(&answer).unwrap().offset_ns, 546);
    assert_eq!(directory.path().read_dir().unwrap().count(), 1);
    let gone = exchange(path.to_str().unwrap(), &time_status_request(0)).unwrap_err();
    assert_eq!(gone.kind(), io::ErrorKind::ConnectionRefused);
}

proptest! {
    #[test]
    fn any_answer_read_never_panics(bytes: Vec<u8>, text: String) {
        let _ = (of_tracking(&bytes), of_time_status(&bytes), of_chronyc(&text));
    }
}
