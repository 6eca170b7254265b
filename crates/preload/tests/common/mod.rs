//! What tests of the library with C programs share.

use std::path::{Path, PathBuf};
use std::process::Command;

use nearwire_lab::Namespace;

/// The library, built beside the test.
pub fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libnearwire_preload.so")
}

/// Whether namespaces or a C compiler are missing; the tests say SKIP then, or fail where nothing may be skipped.
pub fn missing() -> bool {
    let namespaces = Namespace::new().and_then(|namespace| namespace.enter(|| ())).map_err(|error| error.to_string());
    let compiler = Command::new("cc").arg("--version").output().map_err(|error| format!("cc: {error}"));
    let Err(reason) = namespaces.and(compiler.map(|_| ())) else { return false };
    assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but: {reason}");
    println!("SKIP {reason}");
    true
}

/// The program of `tests/c/NAME.c`, in a directory.
pub fn compiled(directory: &Path, name: &str) -> PathBuf {
    let program = directory.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
    let ran = Command::new("cc").args(["-O1", "-pthread", "-Wall", "-Wextra", "-o"]).arg(&program).arg(source).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    program
}
