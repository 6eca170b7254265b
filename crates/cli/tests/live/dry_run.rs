//! What `nearwire run --dry-run` finds out by opening ports as a program would.

use std::process::{Command, Output};

use crate::common::{NEARWIRE, code, errors, may_run, text};
use nearwire_frames::interface::InterfaceFacts;
use nearwire_lab::emulated_host::is_inside;
use nearwire_lab::{Cable, CableEnd, VirtualCable, VirtualCableOptions, program_under_test};

/// More queues than descriptors, once each has a socket.
const QUEUES: u32 = 12;
const DESCRIPTORS: &str = "--nofile=16:16";

/// `nearwire run --dry-run` on an interface of a cable, started by the program and words in `before`.
pub fn dry_run(near: &CableEnd, before: &[&str]) -> Output {
    run(near, before, &["--dry-run"], "sh")
}

fn run(near: &CableEnd, before: &[&str], options: &[&str], program: &str) -> Output {
    let library = std::env::current_exe().unwrap().with_file_name("libnearwire_preload.so");
    let words = [before, &[NEARWIRE, "run", "--library", library.to_str().unwrap()], options, &["--", program]];
    let words = words.concat();
    let mut command = program_under_test(words[0]);
    command.args(&words[1..]).env("NEARWIRE_INTERFACES", &near.interface).env("NEARWIRE_MODE", "generic");
    near.namespace.enter(|| command.output()).unwrap().unwrap()
}

/// docs/run.md names them; the verifier wants CAP_PERFMON for what the steering program does.
#[test]
fn capabilities_that_the_docs_name_are_enough_and_a_missing_one_is_named() {
    const NAMED: [&str; 4] = ["net_admin", "net_raw", "bpf", "perfmon"];
    if !may_run() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let without = |missing: &str| {
        let named = NAMED.into_iter().filter(|name| *name != missing).map(|name| format!(",+{name}"));
        let set = format!("--bounding-set=-all{}", named.collect::<String>());
        text(&dry_run(cable.near(), &["setpriv", &set, "--inh-caps=-all"]))
    };
    let said = without("");
    assert!(said.contains("all met"), "{said}");
    for missing in NAMED {
        let said = without(missing);
        let name = format!("is without CAP_{}", missing.to_uppercase());
        assert!(said.contains("NOT MET: ") && said.contains(&name), "{said}");
    }
}

#[test]
fn dry_run_opens_what_a_run_would_and_takes_it_back() {
    if !may_run() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions { queues: QUEUES, ..VirtualCableOptions::default() }).unwrap();
    let near = cable.near();
    let output = dry_run(near, &[]);
    let said = text(&output);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    assert!(said.contains("tried: ") && said.contains("AF_XDP generic") && said.contains("all met"), "{said}");
    let facts = near.namespace.enter(|| InterfaceFacts::read(&near.interface)).unwrap().unwrap();
    assert_eq!(facts.program, None, "the program is gone");

    let said = text(&dry_run(near, &["prlimit", DESCRIPTORS]));
    assert!(said.contains("NOT MET: ") && said.contains("Too many open files"), "{said}");
}

#[test]
fn dry_run_without_an_agent_tries_a_port_of_the_programs_own() {
    if !may_run() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let said = text(&run(cable.near(), &[], &["--no-agent", "--dry-run"], "sh"));
    assert!(said.contains("tried: AF_XDP generic") && !said.contains("by the agent"), "{said}");
}

/// More queues than an agent's port has descriptors for, of which each has two, but enough for a port of the program's own.
#[test]
fn dry_run_says_what_a_run_does_when_only_the_agents_kind_of_port_is_refused() {
    const ENOUGH_FOR_ONE: &str = "--nofile=60:60";
    if !may_run() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions { queues: QUEUES, ..VirtualCableOptions::default() }).unwrap();
    let said = text(&dry_run(cable.near(), &["prlimit", ENOUGH_FOR_ONE]));
    assert!(said.contains("tried: AF_XDP generic") && said.contains("all met"), "{said}");
}

#[test]
fn program_that_the_kernel_refuses_is_told_with_quiet_too() {
    if !may_run() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    // prlimit ends at once, and is no part of a static program as `true` may be. The verifier takes simple programs without CAP_PERFMON, and not that of ports.
    let set = "--bounding-set=-all,+net_admin,+net_raw,+bpf";
    let output = run(cable.near(), &["setpriv", set, "--inh-caps=-all"], &["--quiet"], "prlimit");
    let said = errors(&output);
    assert_eq!(code(&output), Some(0), "{said}");
    assert!(said.contains("sockets stay with the kernel, because") && said.contains("verifier"), "{said}");
    assert!(!said.contains("cannot be loaded"), "a simple program is taken: {said}");
    let said = errors(&run(cable.near(), &[], &["--quiet"], "prlimit"));
    assert_eq!(said, "", "nothing is refused");
}

/// Where this machine's kernel has no VLAN interfaces, as a container's may be without the module, the kernels of emulated hosts have them.
#[test]
fn interface_that_carries_vlans_and_takes_tags_out_is_not_usable() {
    if !may_run() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let near = cable.near();
    let interface = &near.interface;
    let add = || {
        Command::new("ip").args(["link", "add", "link", interface, "name", "v5", "type", "vlan", "id", "5"]).output()
    };
    let added = near.namespace.enter(add).unwrap().unwrap();
    if !added.status.success() {
        assert!(!is_inside(), "{}", errors(&added));
        println!("SKIP on this kernel, which has no VLAN interfaces; tested on stock kernels: {}", errors(&added));
        return;
    }
    let found = format!("{interface} carries VLANs (v5) and takes their tags out of frames");
    let dry = text(&dry_run(near, &[]));
    let unusable = format!("{interface}: no: {found}; a veth with VLAN interfaces is always the kernel's");
    assert!(dry.contains(&unusable) && dry.contains("NOT MET"), "{dry}");
    let refused = run(near, &[], &["--strict"], "sh");
    assert!(code(&refused) == Some(3) && errors(&refused).contains(&found), "{}", errors(&refused));
}
