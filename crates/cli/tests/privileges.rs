//! As a normal user: what can run in a user namespace runs, and the rest is named with its reason.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use common::{SHORT, assert_says, code, copy_program, errors, may_run, text};

/// `nobody` on Debian.
const NOBODY: u32 = 65534;

fn as_nobody(args: &[&str]) -> Output {
    // Build directories below /root are out of a normal user's reach.
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("nearwire");
    copy_program(&program);
    let mut command = Command::new(&program);
    command.args(args).current_dir(directory.path()).uid(NOBODY).gid(NOBODY);
    command.output().unwrap()
}

#[test]
fn normal_user_gets_the_paths_that_run_and_the_reasons_of_the_others() {
    if !may_run() {
        return;
    }
    let output = as_nobody(&[&["bench"][..], &SHORT].concat());
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    let table = text(&output);
    for path in ["udp/block", "udp/spin", "tcp/spin", "frame/packet"] {
        assert!(table.contains(path), "{path} did not run: {table}");
    }
    // What a kernel lets a user namespace do differs; what does not run is named.
    for path in ["frame/xdp", "udp/bypass", "udp/busy-poll", "tcp/epoll-busy-poll"] {
        assert!(table.contains(path), "{path} is neither there nor named: {table}");
    }
}

#[test]
fn normal_user_asking_for_a_path_that_needs_more_is_told_what() {
    if !may_run() {
        return;
    }
    let output = as_nobody(&[&["bench", "frame/xdp"][..], &SHORT].concat());
    if code(&output) != Some(0) {
        assert_says(&output, 3, &["frame/xdp"]);
    }
}

#[test]
fn normal_user_asking_for_interfaces_is_told_that_root_is_needed() {
    if !may_run() {
        return;
    }
    let output = as_nobody(&[&["bench", "--cable", "lo:lo"][..], &SHORT].concat());
    assert!(matches!(code(&output), Some(2 | 3)), "{}", errors(&output));
}

#[test]
fn normal_user_holding_a_wake_up_is_told_once_that_root_is_needed() {
    if !may_run() || !std::path::Path::new("/dev/cpu_dma_latency").exists() {
        return;
    }
    let output = as_nobody(&["tune", "hold", "--", "echo", "ran"]);
    assert_says(&output, 3, &["/dev/cpu_dma_latency", "only root may"]);
    assert_eq!((text(&output).as_str(), errors(&output).lines().count()), ("", 1));
}
