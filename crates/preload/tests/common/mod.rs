//! What tests of the library with C programs share.
#![allow(dead_code, reason = "each test file uses its part")]

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use nearwire_lab::emulated_host::{is_everything_wanted, is_inside, kernel_inside};
use nearwire_lab::{Cable, Namespace, VirtualCable, VirtualCableOptions};

/// The library, built beside the test.
pub fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libnearwire_preload.so")
}

/// Whether namespaces or a C compiler are missing; the tests say SKIP then, or fail where nothing may be skipped.
pub fn missing() -> bool {
    let namespaces = Namespace::new().and_then(|namespace| namespace.enter(|| ()));
    is_missing(namespaces) || missing_compiler()
}

/// The same of a C compiler alone, which nobody needs in an emulated host: what was compiled outside is there.
pub fn missing_compiler() -> bool {
    !is_inside() && is_missing(Command::new("cc").arg("--version").output().map_err(|error| format!("cc: {error}")))
}

/// A cable, and a peer at its far end that waits so long for answers. `None`: something is [`missing`].
pub fn cable_with_peer_or_skip(patience: Duration) -> Option<(VirtualCable, UdpSocket)> {
    if missing() {
        return None;
    }
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let peer = cable.far().namespace.enter(|| UdpSocket::bind((cable.far().ipv4, 0))).unwrap().unwrap();
    peer.set_read_timeout(Some(patience)).unwrap();
    Some((cable, peer))
}

/// How calls wait, each with a mode of ports: what every case is tried with.
pub const WAITS: [(&str, &str); 3] = [("50us", "generic"), ("0", "native"), ("forever", "generic")];

/// Of these, what is tried: all of them and, in an emulated host, where each takes seconds, the share of its kernel. All there too if
/// everything is wanted.
pub fn tried<T>(all: &[T]) -> Vec<&T> {
    match kernel_inside().filter(|_| !is_everything_wanted()) {
        Some(kernel) => kernel.share_of(all).collect(),
        None => all.iter().collect(),
    }
}

/// How often something is done: so often, and less in an emulated host, unless everything is wanted there.
pub fn times(all: u32, inside: u32) -> u32 {
    if is_inside() && !is_everything_wanted() { inside } else { all }
}

fn is_missing<T, E: std::fmt::Display>(found: Result<T, E>) -> bool {
    let Err(reason) = found else { return false };
    assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but: {reason}");
    println!("SKIP {reason}");
    true
}

/// The program of `tests/c/NAME.c`. Tests that want it at the same time have it compiled each, and the last one stays.
pub fn compiled(name: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let (directory, number) = (Path::new(env!("CARGO_TARGET_TMPDIR")), NUMBER.fetch_add(1, Relaxed));
    let program = directory.join(format!("{name}-program"));
    if is_inside() {
        return program;
    }
    let unfinished = directory.join(format!("{name}-{}-{number}", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-pthread", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&unfinished).arg(source);
    let ran = cc.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    std::fs::rename(unfinished, &program).unwrap();
    program
}
