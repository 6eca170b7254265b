//! `nearwire generate` and `nearwire sink`: frames from one to the other.

use std::process::Output;
use std::time::Duration;

use nearwire_lab::{Cable, CableEnd, VirtualCable, VirtualCableOptions, made_or_skip};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{code, errors, mac_of, nearwire, start_at, text};

fn cable() -> Option<VirtualCable> {
    made_or_skip(VirtualCable::lay(VirtualCableOptions { pairs: 2, ..VirtualCableOptions::default() }))
}

fn run(end: &CableEnd, words: &[&str]) -> Output {
    start_at(end, words).wait_with_output().unwrap()
}

#[test]
fn sink_without_settings_counts_what_the_generator_sends() {
    let Some(cable) = cable() else { return };
    let to = mac_of(cable.far());
    for port in ["xdp", "packet"] {
        let sink = start_at(cable.far(), &["sink", "nw1", "--same-host", "--quiet", "--port", port]);
        std::thread::sleep(Duration::from_millis(300));
        let words =
            ["generate", "nw0", "--to", &to, "--rate", "2k", "--size", "62+590", "--flows", "1000", "--vlan", "7"];
        let sent = run(cable.near(), &[&words[..], &["--time", "500ms", "--quiet", "--port", port]].concat());
        assert_eq!((code(&sent), errors(&sent).as_str()), (Some(0), ""));
        assert!(text(&sent).contains("frames sent, "), "{}", text(&sent));
        let heard = sink.wait_with_output().unwrap();
        assert_eq!(code(&heard), Some(0), "{}", errors(&heard));
        for words in ["frames of 62+590 bytes, IPv4, 1000 flows", " 0 lost", "latency, one way, us: p50"] {
            assert!(text(&heard).contains(words), "{port} {words}: {}", text(&heard));
        }
        assert!(!text(&heard).contains("other traffic"), "{}", text(&heard));
    }
}

#[test]
fn generator_with_a_sink_of_its_own_tells_loss_and_latency() {
    let Some(cable) = cable() else { return };
    // Both pairs of the cable lead to the far namespace, which does nothing: all is lost.
    let output = run(cable.near(), &["generate", "nw0", "--sink", "nw2", "--rate", "1k", "--time", "200ms"]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    assert!(text(&output).contains("0 frames received") && text(&output).contains("(100.0000 %)"), "{}", text(&output));
}

#[test]
fn sink_interrupted_tells_what_came_until_then() {
    let Some(cable) = cable() else { return };
    let sink = start_at(cable.far(), &["sink", "nw1", "--quiet"]);
    std::thread::sleep(Duration::from_millis(300));
    let to = mac_of(cable.far());
    let generator =
        start_at(cable.near(), &["generate", "nw0", "--to", &to, "--rate", "1k", "--time", "1h", "--quiet"]);
    std::thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&sink), Signal::INT).unwrap();
    let heard = sink.wait_with_output().unwrap();
    assert_eq!(code(&heard), Some(130), "{}", errors(&heard));
    for words in ["frames received", "end was not heard"] {
        assert!(text(&heard).contains(words), "{words}: {}", text(&heard));
    }
    assert!(!text(&heard).contains("latency"), "one clock was not promised: {}", text(&heard));
    kill_process(Pid::from_child(&generator), Signal::INT).unwrap();
    let sent = generator.wait_with_output().unwrap();
    assert_eq!(code(&sent), Some(130));
    assert!(text(&sent).contains("frames sent"), "{}", text(&sent));
}

#[test]
fn frames_that_have_no_room_for_their_number_are_refused_with_what_is_needed() {
    let Some(cable) = cable() else { return };
    let to = mac_of(cable.far());
    let output = run(cable.near(), &["generate", "nw0", "--to", &to, "--ip", "6", "--size", "60"]);
    assert_eq!(code(&output), Some(2));
    assert!(errors(&output).contains("needs 78 bytes"), "{}", errors(&output));
}

#[test]
fn interface_with_the_default_route_is_refused() {
    let defaults = nearwire_lab::interfaces_of_default_routes().unwrap();
    let Some(interface) = defaults.first() else { return };
    for words in [["generate", interface, "--to", "02:00:00:00:00:01"], ["sink", interface, "--time", "1s"]] {
        let output = nearwire(&words);
        assert_eq!(code(&output), Some(2));
        assert!(errors(&output).contains("default route"), "{}", errors(&output));
    }
}

#[test]
fn generator_that_nobody_hears_is_told_at_the_sink() {
    let Some(cable) = cable() else { return };
    let output = run(cable.far(), &["sink", "nw1", "--time", "200ms", "--quiet"]);
    assert_eq!(code(&output), Some(4));
    assert!(errors(&output).contains("no generator was heard on nw1"), "{}", errors(&output));
}
