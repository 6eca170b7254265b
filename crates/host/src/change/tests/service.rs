//! Services, by a program that answers as systemctl(1) does, and starts one as often as systemd does: five times.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::Root;

const SYSTEMCTL: &str = r#"#!/bin/sh
state="$(dirname "$0")/$2"
case "$1" in
    is-active) if [ -e "$state" ]; then echo active; else echo inactive; exit 3; fi ;;
    start)
        echo >> "$state.starts"
        if [ "$(wc -l < "$state.starts")" -gt 5 ]; then echo "Job for $2 failed." >&2; exit 1; fi
        touch "$state" ;;
    reset-failed)
        if [ ! -e "$state.starts" ]; then echo "Unit $2 not loaded." >&2; exit 1; fi
        rm "$state.starts" ;;
    stop) if [ "$2" = stubborn.service ]; then echo "Job failed." >&2; exit 1; fi; rm -f "$state" ;;
esac
"#;

fn host(directory: &TempDir) -> RootHost {
    let program = directory.path().join("systemctl");
    fs::write(&program, SYSTEMCTL).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
    for unit in ["irqbalance.service", "stubborn.service"] {
        fs::write(directory.path().join(unit), "").unwrap();
    }
    RootHost::new(Root::live().unwrap()).with_systemctl(program)
}

fn unit(name: &str) -> Target {
    Target::Service { unit: name.to_owned() }
}

#[test]
fn service_stopped_and_reverted_runs_again() {
    // Not /dev/shm, which may forbid programs.
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory);
    let located = Located { id: "service.irqbalance".into(), part: Part::Whole, target: unit("irqbalance.service") };
    let plan = Change::plan(&located, "stopped, disabled", &mut host).unwrap();
    assert_eq!((plan.found.as_str(), plan.wanted.as_str()), ("running", "stopped"));
    if !rustix::process::geteuid().is_root() {
        let refused = host.probe(&plan.target, "stopped").unwrap_err().to_string();
        assert!(refused.contains("run as root"), "{refused}");
        return;
    }
    let mut journal = journal(&directory.path().join("journal"));
    apply(&mut host, &mut journal, vec![plan], &strict()).unwrap();
    assert!(!directory.path().join("irqbalance.service").exists());
    assert!(revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap().is_complete);
    assert!(directory.path().join("irqbalance.service").exists());
}

#[test]
fn service_that_cannot_be_stopped_gives_the_words_of_systemctl() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory);
    assert_eq!(host.read(&unit("absent.service")).as_deref(), Ok("stopped"));
    let error = host.write(&unit("stubborn.service"), "stopped").unwrap_err().to_string();
    assert_eq!(error, "write stubborn.service: systemctl stop: Job failed.");
    let mut host = host.with_systemctl("/nonexistent/systemctl");
    let error = host.read(&unit("irqbalance.service")).unwrap_err().to_string();
    assert!(error.contains("start /nonexistent/systemctl is-active"), "{error}");
}

#[test]
fn service_is_started_more_often_than_systemd_would_without_being_asked_to_forget() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory);
    let irqbalance = unit("irqbalance.service");
    for _ in 0..12 {
        host.write(&irqbalance, "stopped").unwrap();
        host.write(&irqbalance, "running").unwrap();
    }
    assert_eq!(host.read(&irqbalance).as_deref(), Ok("running"));
}
