//! `nearwire bench --topology`: what devices under test carry.

use crate::common::{assert_says, code, errors, may_run, nearwire, record, text};

/// Short trials: what is found is not looked at.
const SHORT: [&str; 5] = ["--trial", "5ms", "--trials", "1", "--quiet"];

#[test]
fn devices_are_measured_at_each_size_and_told_in_every_form() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (json, page) = (directory.path().join("r.json"), directory.path().join("r.html"));
    let mut words = vec!["bench", "--topology", "port-host-port", "--device", "l2/xdp,l3/kernel", "--size", "64,imix"];
    words.extend(SHORT);
    words.extend(["--json", json.to_str().unwrap(), "--report", page.to_str().unwrap()]);
    let output = nearwire(&words);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    for words in ["NDR Mpps", "PDR Mpps", "l2/xdp", "l3/kernel", "imix", "parts"] {
        assert!(text(&output).contains(words), "{words}: {}", text(&output));
    }
    let record = record(&json);
    assert_eq!((&record["schema"], &record["topology"]), (&"nearwire-dataplane".into(), &"port-host-port".into()));
    let cells = record["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for cell in cells {
        assert!(cell["failure"].is_null() && cell["parts"].as_array().unwrap().len() == 3, "{cell:#}");
        let sent: u64 =
            cell["trials"].as_array().unwrap().iter().map(|trial| trial["sent_frames"].as_u64().unwrap()).sum();
        assert!(sent > 0 && cell["trials"][0]["corrupted_frames"] == 0, "{cell:#}");
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("l3/kernel") && page.contains("<svg"), "{page:.300}");
    let again = directory.path().join("again.html");
    let output = nearwire(&["report", json.to_str().unwrap(), "-o", again.to_str().unwrap()]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
}

#[test]
fn every_topology_without_a_guest_is_measured() {
    if !may_run() {
        return;
    }
    for topology in ["port-port", "port-host", "host-port", "host-host", "host-host --dual"] {
        let mut words = vec!["dataplane", "--size", "64", "--format", "csv", "--topology"];
        words.extend(topology.split(' '));
        if topology.starts_with("host-host") {
            words.extend(["--device", "l2/kernel"]);
        }
        words.extend(SHORT);
        let output = nearwire(&words);
        assert_eq!(code(&output), Some(0), "{topology}: {}", errors(&output));
        assert!(text(&output).lines().count() > 2, "{topology}: {}", text(&output));
    }
}

#[test]
fn rfc_2544_with_short_trials_tells_frame_loss() {
    if !may_run() {
        return;
    }
    let words = ["bench", "--topology", "port-host-port", "--device", "l2/kernel", "--size", "64", "--quiet"];
    let output = nearwire(&[&words[..], &["--method", "rfc2544", "--trial", "5ms", "--format", "json"]].concat());
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["method"], "rfc2544");
    assert!(!record["cells"][0]["frame_loss"].as_array().unwrap().is_empty(), "{record:#}");
}

#[test]
fn what_contradicts_itself_is_refused_before_anything_is_laid() {
    let refused = |words: &[&str], says: &str| {
        let output = nearwire(&[&["bench", "--quiet", "--topology"][..], words].concat());
        assert_says(&output, 2, &[says]);
    };
    refused(&["ring"], "port-host-port");
    refused(&["port-host-port", "--device", "l9/xdp"], "l2/kernel");
    refused(&["port-host-port", "--size", "9000"], "--mtu");
    refused(&["port-host-port", "--size", "64", "--ip", "6"], "78 bytes");
    refused(&["host-host", "--flows", "5"], "--flows");
    refused(&["port-port", "--dual"], "--dual");
    refused(&["port-host-port", "--latency-goal", "p99"], "p99=50us");
    refused(&["port-host-port", "udp/spin"], "udp/spin");
}
