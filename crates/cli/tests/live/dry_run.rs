//! What `nearwire run --dry-run` finds out by opening ports as a program would.

use std::process::Command;

use crate::common::{NEARWIRE, code, errors, may_run, text};
use nearwire_frames::interface::InterfaceFacts;
use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions};

/// More queues than descriptors, once each has a socket.
const QUEUES: u32 = 12;
const DESCRIPTORS: &str = "--nofile=16:16";

#[test]
fn dry_run_opens_what_a_run_would_and_takes_it_back() {
    if !may_run() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions { queues: QUEUES, ..VirtualCableOptions::default() }).unwrap();
    let near = cable.near();
    let library = std::env::current_exe().unwrap().with_file_name("libnearwire_preload.so");
    let dry_run = |before: &[&str]| {
        let words = [before, &[NEARWIRE, "run", "--dry-run", "--library", library.to_str().unwrap(), "--", "sh"]];
        let words = words.concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("NEARWIRE_INTERFACES", &near.interface).env("NEARWIRE_MODE", "generic");
        near.namespace.enter(|| command.output()).unwrap().unwrap()
    };
    let output = dry_run(&[]);
    let said = text(&output);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    assert!(said.contains("tried: AF_XDP generic") && said.contains("all met"), "{said}");
    let facts = near.namespace.enter(|| InterfaceFacts::read(&near.interface)).unwrap().unwrap();
    assert_eq!(facts.program, None, "the program is gone");

    let said = text(&dry_run(&["prlimit", DESCRIPTORS]));
    assert!(said.contains("NOT MET: ") && said.contains("Too many open files"), "{said}");
}
