//! `nearwire settings` as people and scripts use it. Needs no privileges.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn settings(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearwire")).arg("settings").args(args).output().expect("the program starts")
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("the output is text")
}

#[test]
fn no_id_lists_settings_by_area() {
    let text = stdout(&settings(&[]));
    let lines: Vec<_> = text.lines().collect();
    let area = lines.iter().position(|line| *line == "nic").unwrap();
    let mtu = lines.iter().position(|line| line.starts_with("  nic.mtu ")).unwrap();
    assert!(area < mtu);
    assert!(lines[mtu].contains("runtime file") && lines[mtu].ends_with("The largest payload of a frame, bytes."));
}

#[test]
fn json_lists_every_setting_with_its_whole_description() {
    let list: Value = serde_json::from_str(&stdout(&settings(&["--json"]))).unwrap();
    let list = list.as_array().unwrap();
    assert!(list.len() > 300);
    for setting in list {
        for key in ["id", "area", "what", "why", "how_read", "value", "class", "disruption"] {
            assert!(!setting[key].as_str().unwrap().is_empty(), "{setting}");
        }
        for key in ["sources", "persistence", "risk", "menu", "disputed"] {
            assert!(setting[key].is_array(), "{setting}");
        }
        assert!(!setting["sources"].as_array().unwrap().is_empty(), "{setting}");
        assert!(setting.get("now").is_none());
    }
}

#[test]
fn known_id_explains_it_with_the_value_of_this_host() {
    let text = stdout(&settings(&["kernel.release"]));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(text.starts_with("kernel.release (kernel)\n"), "{text}");
    let now = text.lines().find(|line| line.starts_with("Now ")).unwrap();
    assert!(now.ends_with(release.trim()), "{now}");

    let text = stdout(&settings(&["boot.idle"]));
    for part in
        ["Why ", "Kept by ", "idle=poll", "idle=mwait", "power and heat, may hang the host", "Kernel Parameters"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn known_id_as_json_is_a_list_of_one_with_the_value_of_this_host() {
    let list: Value = serde_json::from_str(&stdout(&settings(&["cpu.online", "--json"]))).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(list[0]["now"][0]["id"], "cpu.online");
    assert_eq!(list[0]["now"][0]["state"], "value");
}

#[test]
fn interface_in_brackets_is_read_alone() {
    let list: Value = serde_json::from_str(&stdout(&settings(&["nic.mtu[lo]", "--json"]))).unwrap();
    assert_eq!(list[0]["now"].as_array().unwrap().len(), 1);
    assert_eq!(list[0]["now"][0]["id"], "nic.mtu[lo]");

    let output = settings(&["cpu.online[lo]"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not a setting of an interface"));
}

#[test]
fn setting_software_cannot_read_says_where_to_look() {
    let text = stdout(&settings(&["switch.warp-mode"]));
    assert!(text.contains("unknown: cannot be read here") && text.contains("show hardware profile"), "{text}");
}

#[test]
fn unknown_id_is_a_usage_error_that_lists_near_ones() {
    for (typed, near) in [
        ("cpu.govenor", "cpu.governor"),
        ("nic.coalesce", "nic.coalesce.rx-usecs"),
        ("hyper-threading", "cpu.smt"),
        ("busy_poll", "net.core.busy_poll"),
    ] {
        let output = settings(&[typed]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{typed}");
        assert!(said.contains(&format!("no setting '{typed}'")) && said.contains(near), "{typed}: {said}");
        assert!(output.stdout.is_empty());
    }
    let output = settings(&["xyzzy.plugh", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}

#[test]
fn reader_that_leaves_early_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nearwire"))
        .args(["settings", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// It was answered that the kernel knows no such device, with exit code 0.
#[test]
fn setting_of_an_interface_that_is_not_there_is_refused_with_those_that_are() {
    let output = Command::new(env!("CARGO_BIN_EXE_nearwire")).args(["settings", "nic.mtu[zzz9]"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no interface 'zzz9'") && said.contains("it has"), "{said}");
}
