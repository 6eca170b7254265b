//! `nearwire status`: pages that this very process writes, and what else a process may have.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::ffi::CStr;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{assert_says, code, errors, nearwire, text};
use nearwire_socket::config::Config;
use nearwire_socket::reason::{Handed, Reason};
use nearwire_socket::status::{Counter, Engine, EngineState, Identity, InterfaceAbout, NAME, PAGE_BYTES, Writer};
use nearwire_stack::NeedsKernel;
use nearwire_sys::shared_words::SharedWords;
use serde_json::Value;

/// A process has one page; tests of this process take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a child may read the memory of this process.
fn may_look() -> bool {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let may = rustix::process::geteuid().is_root() || matches!(scope.trim(), "" | "0");
    if !may {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "this test needs root");
        println!("SKIP kernel.yama.ptrace_scope is {}, and not root", scope.trim());
    }
    may
}

fn own_pid() -> String {
    std::process::id().to_string()
}

fn page() -> Writer {
    let page = Writer::create(Identity::of_self().unwrap(), &Config::default(), 2).unwrap();
    page.set_engine(&Engine { state: EngineState::Running, reason: None, text: "\u{1b}[2J" });
    let used =
        InterfaceAbout { name: "eth4", ifindex: 4, reason: None, queues: 2, mode: "generic", text: "queues 0, 1" };
    page.set_interface(0, &used);
    page.set_interface(1, &InterfaceAbout { name: "eth5", reason: Some(Reason::InterfaceBusy), ..used });
    page.count(Counter::SpinningNs, 1);
    page.count_handed(Handed::ByStack(NeedsKernel::LargerThanMtu));
    let one = page.socket(0).unwrap();
    one.open(3);
    one.set_local(Some("10.0.0.1:7000".parse().unwrap()));
    one.set_remote(Some("10.0.0.2:7001".parse().unwrap()));
    one.set_accelerated();
    one.count_received(64);
    let other = page.socket(1).unwrap();
    other.open(9);
    other.set_kernel(Reason::RuleSaysKernel, 2);
    page
}

#[test]
fn sockets_shown_are_accelerated_or_have_their_reason() {
    if !may_look() {
        return;
    }
    let _turn = turn();
    let _page = page();
    let output = nearwire(&["status", &own_pid()]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    let said = text(&output);
    for part in [
        "eth4: 2 queues, generic (queues 0, 1)",
        "eth5: not used: another process has the interface",
        "spin auto: no call has waited yet",
        "spin = \"auto\"",
        "1 calls: the packet is larger than the MTU",
        "10.0.0.1:7000  10.0.0.2:7001",
        "rule 2 keeps it with the kernel",
    ] {
        assert!(said.contains(part), "{part} in:\n{said}");
    }
    assert!(!said.contains('\u{1b}'), "a terminal must not obey a page");
}

#[test]
fn json_shown_has_reasons_by_name_and_in_words() {
    if !may_look() {
        return;
    }
    let _turn = turn();
    let _page = page();
    let output = nearwire(&["status", &own_pid(), "--json"]);
    let json: Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!(json["format"], 1);
    assert_eq!(json["pid"].to_string(), own_pid());
    let sockets = json["sockets"].as_array().unwrap();
    assert_eq!((sockets.len(), &sockets[0]["accelerated"], &sockets[0]["why"]), (2, &Value::Bool(true), &Value::Null));
    assert_eq!(sockets[0]["counters"]["received_bytes"], 64);
    assert_eq!(sockets[1]["reason"], "RuleSaysKernel");
    assert_eq!(sockets[1]["why"], "rule 2 keeps it with the kernel");
    assert_eq!(json["handed_to_kernel"][0]["reason"], "LargerThanMtu");
    assert_eq!((&json["spin"], &json["engine"]["state"]), (&"auto".into(), &"Running".into()));
    assert_eq!(json["waiting"], "no call has waited yet");
    assert!(json["spin_share"].as_f64().unwrap() > 0.0);
    assert!(json["config"].as_str().unwrap().contains("spin = \"auto\""));
}

#[test]
fn engines_are_shown_where_there_are_several() {
    if !may_look() {
        return;
    }
    let _turn = turn();
    let page = page();
    page.for_engine(1).count_handed(Handed::ByStack(NeedsKernel::LargerThanMtu));
    let shown = || text(&nearwire(&["status", &own_pid()]));
    let json = || serde_json::from_str::<Value>(&text(&nearwire(&["status", &own_pid(), "--json"]))).unwrap();
    assert!(!shown().contains(" engines\n") && shown().contains(" fd  served by  local "), "{}", shown());
    assert_eq!((&json()["engine"]["count"], &json()["sockets"][0]["engine"]), (&1.into(), &0.into()));
    page.set_engine_count(2);
    page.socket(0).unwrap().set_engine_number(1);
    let said = shown();
    for part in [
        "engine         running, 2 engines",
        "2 calls: the packet is larger than the MTU",
        " fd  served by  engine  local ",
        " 3   nearwire        1  10.0.0.1:7000",
        " 9   kernel          -  - ",
    ] {
        assert!(said.contains(part), "{part} in:\n{said}");
    }
    let sockets = &json()["sockets"];
    assert_eq!((&json()["engine"]["count"], &sockets[0]["engine"]), (&2.into(), &1.into()));
    assert_eq!(sockets[1]["engine"], Value::Null, "nobody but the kernel");
    assert!(text(&nearwire(&["status"])).contains("running, 2 engines"));
}

#[test]
fn list_has_every_process_with_a_page() {
    if !may_look() {
        return;
    }
    let _turn = turn();
    let _page = page();
    let said = text(&nearwire(&["status"]));
    let line = said.lines().find(|line| line.trim_start().starts_with(&own_pid())).unwrap_or_default();
    assert!(line.contains("running"), "{said}");
    let json: Value = serde_json::from_str(&text(&nearwire(&["status", "--json"]))).unwrap();
    let pids: Vec<_> = json["processes"].as_array().unwrap().iter().map(|process| process["pid"].to_string()).collect();
    assert!(pids.contains(&own_pid()), "{pids:?}");
}

#[test]
fn page_of_garbage_or_of_another_version_is_told() {
    if !may_look() {
        return;
    }
    let _turn = turn();
    let name: &CStr = NAME;
    let words = SharedWords::create(name, PAGE_BYTES / 8).unwrap();
    assert_says(&nearwire(&["status", &own_pid()]), 3, &["does not begin as a status page does"]);
    words[0].store(u64::from_le_bytes(*b"nwstatu\x09"), Relaxed);
    assert_says(&nearwire(&["status", &own_pid()]), 3, &["layout 9", "this nearwire reads layout 6"]);
    for (at, word) in words.iter().enumerate() {
        word.store((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15), Relaxed);
    }
    words[0].store(u64::from_le_bytes(*b"nwstatu\x06"), Relaxed);
    assert_says(&nearwire(&["status", &own_pid()]), 2, &["forked"]);
    drop(words);
    let short = SharedWords::create(name, 512).unwrap();
    short[0].store(u64::from_le_bytes(*b"nwstatu\x06"), Relaxed);
    assert_says(&nearwire(&["status", &own_pid()]), 3, &["4096 bytes instead of"]);
}

#[test]
fn page_of_the_parent_is_not_the_childs() {
    if !may_look() {
        return;
    }
    let _turn = turn();
    let parent = Identity { pid: 77, started_ticks: 1 };
    let _page = Writer::create(parent, &Config::default(), 1).unwrap();
    assert_says(&nearwire(&["status", &own_pid()]), 2, &["that of process 77, from which it was forked"]);
}

#[test]
fn process_without_a_page_is_told_why() {
    let _turn = turn();
    assert_says(&nearwire(&["status", &own_pid()]), 2, &["was not started by nearwire run"]);
    let gone = i32::MAX.to_string();
    assert_says(&nearwire(&["status", &gone]), 2, &[&format!("no process {gone}")]);
    assert_says(&nearwire(&["status", "0"]), 2, &["0"]);
}

#[test]
fn process_with_the_library_and_no_socket_is_told_so() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut files = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    let library = files.find(|file| file.contains("libgcc_s.so")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("libnearwire_preload.so");
    fs::copy(library, &copy).unwrap();
    let mut command = Command::new("cat");
    let mut child = command.env("LD_PRELOAD", &copy).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Its first output says that it is loaded.
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"x").unwrap();
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    let output = nearwire(&["status", &child.id().to_string()]);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_says(&output, 2, &["(cat)", "the library is loaded", "no socket yet"]);
}

/// Root of a container, say, is told what it lacks and not to become root.
#[test]
fn root_without_the_capability_to_look_is_told_to_get_it() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "this test needs root");
        return println!("SKIP this test needs root");
    }
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let mut command = Command::new("setpriv");
    // On newer kernels CAP_PERFMON reads maps too, and CAP_SYS_ADMIN has all of that (`may_access_mm`, kernel/fork.c).
    let lost = "-sys_ptrace,-perfmon,-sys_admin";
    command.args([&format!("--bounding-set={lost}"), &format!("--inh-caps={lost}"), common::NEARWIRE, "status"]);
    let all = command.output().unwrap();
    assert!(!text(&all).contains("run as root"), "{}", text(&all));
    let output = command.arg(sleeper.id().to_string()).output().unwrap();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_says(&output, 3, &["look into process", "root does not have CAP_SYS_PTRACE here"]);
    assert!(!errors(&output).contains("run as root"), "{}", errors(&output));
}
