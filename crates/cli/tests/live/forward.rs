//! `nearwire forward`: frames from a generator to a sink through it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Output};

use nearwire_lab::{CableEnd, VirtualCableOptions, VirtualChain, made_or_skip};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{assert_says, code, errors, mac_of, nearwire, start_at, text};

fn chain() -> Option<VirtualChain> {
    made_or_skip(VirtualChain::lay(2, VirtualCableOptions::default()))
}

/// A program with its first line on standard error, behind which it works.
fn started(end: &CableEnd, words: &[&str]) -> (Child, String) {
    let mut child = start_at(end, words);
    let mut said = BufReader::with_capacity(1, child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    // What is said later is read at the end.
    child.stderr = Some(said.into_inner());
    (child, line)
}

/// Both interfaces of the middle.
fn forwarding(chain: &VirtualChain, words: &[&str]) -> Child {
    let middle = &chain.links()[0].far;
    let (child, line) = started(middle, &[&["forward", "nw1", "nw2"], words].concat());
    assert!(line.starts_with("forwarding between AF_"), "{line}");
    child
}

fn ended(child: Child, signal: Signal) -> Output {
    kill_process(Pid::from_child(&child), signal).unwrap();
    child.wait_with_output().unwrap()
}

/// Half a second of frames to the sink: what it says.
fn through(chain: &VirtualChain, to: &str) -> Output {
    let (near, far) = (&chain.links()[0].near, &chain.links()[1].far);
    let (sink, _) = started(far, &["sink", "nw3", "--same-host"]);
    let words = ["generate", "nw0", "--to", to, "--rate", "2k", "--size", "62+590", "--time", "500ms", "--quiet"];
    let sent = start_at(near, &words).wait_with_output().unwrap();
    assert_eq!(code(&sent), Some(0), "{}", errors(&sent));
    sink.wait_with_output().unwrap()
}

/// All that was sent arrived: most of what was to be sent where nothing else has the CPU.
fn assert_lossless(heard: &Output) {
    assert_eq!(code(heard), Some(0), "{}", errors(heard));
    let received = text(heard).lines().find_map(|line| line.split_once(" frames received")?.0.parse::<u32>().ok());
    assert!(received > Some(100) && text(heard).contains("; 0 lost"), "{}", text(heard));
}

#[test]
fn frames_of_a_generator_reach_the_sink_through_each_port_and_function() {
    for port in ["xdp", "packet"] {
        for function in ["io", "l2"] {
            let Some(chain) = chain() else { return };
            let forward = forwarding(&chain, &["--function", function, "--port", port]);
            let heard = through(&chain, &mac_of(&chain.links()[1].far));
            assert_lossless(&heard);
            let done = ended(forward, Signal::INT);
            assert_eq!(code(&done), Some(130), "{}", errors(&done));
            for words in ["nw1: ", "nw2: ", " frames received, "] {
                assert!(text(&done).contains(words), "{words}: {}", text(&done));
            }
        }
    }
}

#[test]
fn router_forwards_by_the_kernels_routes_and_tells_what_it_drops() {
    let Some(chain) = chain() else { return };
    let [inner, outer] = chain.links() else { panic!("{:?}", chain.links()) };
    let routes =
        [("198.19.0.0", outer.near.ifindex, outer.far.ipv4), ("198.18.0.0", inner.far.ifindex, inner.near.ipv4)];
    let routes = routes.map(|(prefix, ifindex, gateway)| nearwire_lab::KernelRoute {
        prefix: prefix.parse().unwrap(),
        prefix_bits: 16,
        gateway: gateway.into(),
        ifindex,
    });
    nearwire_lab::add_routes(&inner.far.namespace, &routes).unwrap();
    let forward = forwarding(&chain, &["--function", "l3"]);
    let heard = through(&chain, &mac_of(&inner.far));
    assert_lossless(&heard);
    // To a station that the router is not.
    let words = ["generate", "nw0", "--to", "02:00:00:00:00:99", "--rate", "1k", "--time", "100ms", "--quiet"];
    assert_eq!(code(&start_at(&inner.near, &words).wait_with_output().unwrap()), Some(0));
    let done = ended(forward, Signal::INT);
    assert!(text(&done).contains("dropped other-host: "), "{}", text(&done));
}

#[test]
fn forwarder_ends_by_itself_after_its_time() {
    let Some(chain) = chain() else { return };
    let words = ["forward", "nw1", "nw2", "--time", "1200ms"];
    let output = start_at(&chain.links()[0].far, &words).wait_with_output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    assert!(errors(&output).contains("1 s: 0.0 kpps received"), "{}", errors(&output));
    let quiet = start_at(&chain.links()[0].far, &[&words[..], &["--quiet"]].concat()).wait_with_output().unwrap();
    assert_eq!((code(&quiet), errors(&quiet).as_str()), (Some(0), ""));
}

#[test]
fn interface_that_goes_down_in_use_is_told_with_the_figures() {
    for port in ["xdp", "packet"] {
        let Some(chain) = chain() else { return };
        let forward = forwarding(&chain, &["--port", port]);
        let down = |name: &str| std::process::Command::new("ip").args(["link", "set", name, "down"]).status();
        assert!(chain.links()[1].near.namespace.enter(|| down("nw2")).unwrap().unwrap().success());
        let output = forward.wait_with_output().unwrap();
        assert_says(&output, 4, &["nw2", "the interface went down"]);
        assert!(text(&output).contains("nw1: "), "{}", text(&output));
    }
}

#[test]
fn interfaces_that_cannot_be_forwarded_between_are_refused() {
    let Some(chain) = chain() else { return };
    let middle = &chain.links()[0].far;
    let refused = |words: &[&str]| start_at(middle, &[&["forward"], words].concat()).wait_with_output().unwrap();
    assert_says(&refused(&["nw1", "nw1"]), 2, &["name two interfaces"]);
    assert_says(&refused(&["nw1", "nw9"]), 2, &["nw9", "no such interface"]);
    assert_says(&refused(&["nw1"]), 2, &["2 values required"]);
    assert_says(&refused(&["nw1", "nw2", "--function", "l4"]), 2, &["no function is called"]);
    let defaults = nearwire_lab::interfaces_of_default_routes().unwrap();
    if let Some(interface) = defaults.first() {
        assert_says(&nearwire(&["forward", interface, "lo"]), 2, &["default route"]);
        assert_says(&nearwire(&["forward", "lo", interface]), 2, &["default route"]);
    }
}
