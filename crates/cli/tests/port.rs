//! `nearwire port` over a virtual cable of the test's own.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use common::{assert_says, code, errors, may_run, nearwire, text};
use nearwire_frames::xdp::{AttachMode, attach_pass};
use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions};
use serde_json::Value;

fn cable() -> Option<VirtualCable> {
    may_run().then(|| VirtualCable::lay(VirtualCableOptions::default()).unwrap())
}

#[test]
fn interface_shown_has_what_the_kernel_says() {
    let Some(cable) = cable() else { return };
    let far = cable.far();
    let shown = far.namespace.enter(|| nearwire(&["port", "nw1"])).unwrap();
    assert_eq!(code(&shown), Some(0), "{}", errors(&shown));
    let said = text(&shown);
    for line in [
        "nw1\n",
        "  state          up, link\n",
        "  MAC            02:4e:57:00:00:01\n",
        "  MTU, bytes     1500\n",
        "  queues         2 to receive, 2 to send\n",
        "  driver         veth\n",
        "  XDP program    none\n",
        "  receive times  by the kernel; ",
        "  dropped        0 frames\n",
    ] {
        assert!(said.contains(line), "{line} in:\n{said}");
    }
}

#[test]
fn json_has_abilities_and_the_program_in_place() {
    let Some(cable) = cable() else { return };
    let far = cable.far();
    let json = |arguments: &[&str]| -> Value {
        let shown = far.namespace.enter(|| nearwire(arguments)).unwrap();
        assert_eq!(code(&shown), Some(0), "{}", errors(&shown));
        serde_json::from_slice(&shown.stdout).unwrap()
    };
    let attached = far.namespace.enter(|| attach_pass("nw1", AttachMode::Native).unwrap()).unwrap();
    let port = &json(&["port", "nw1", "--json"])[0];
    assert_eq!(port["interface"], "nw1");
    assert_eq!(port["xdp"]["generic"], true);
    // The kernel tells since Linux 6.3.
    assert!(port["xdp"]["native"].is_null() || port["xdp"]["native"] == true);
    assert_ne!(port["xdp"]["zero_copy"], true);
    // Since Linux 6.6; veth tells the times of frames that have one.
    assert!(port["xdp"]["device_times"].is_null() || port["xdp"]["device_times"] == true);
    assert_eq!(port["xdp_program"]["id"], attached.program_id());
    assert_eq!(port["xdp_program"]["mode"], "native");
    let driver = port["settings"].as_array().unwrap().iter().find(|reading| reading["id"] == "nic.driver").unwrap();
    assert_eq!((driver["state"].as_str(), driver["value"].as_str()), (Some("value"), Some("veth")));
    drop(attached);
    let all = json(&["port", "--json"]);
    let names: Vec<_> = all.as_array().unwrap().iter().map(|port| port["interface"].as_str().unwrap()).collect();
    assert_eq!(names, ["nw1"], "all interfaces of this namespace but the loopback interface");
    assert!(all[0]["xdp_program"].is_null());
}

#[test]
fn missing_interface_is_a_usage_error() {
    assert_says(&nearwire(&["port", "nw-none"]), 2, &["look at nw-none", "no such interface"]);
}
